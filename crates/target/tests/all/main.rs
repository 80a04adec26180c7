//! The tests of chips and machines, a module each, in one program: linking one for each would take
//! most of the time and of the disk.

mod chips;
mod default_layouts;
