//! The tests of the Plan, a module each, in one program: linking one for each would take
//! most of the time and of the disk.

mod errors;
mod text;
mod verify;
