//! The tests of expressions, a module each, in one program: linking one for each would take
//! most of the time and of the disk.

mod c_text;
mod canonical;
mod common;
mod index;
mod random;
