//! The tests of the PTX simulator, a module each, in one program: linking one for each would take
//! most of the time and of the disk.

mod faults;
mod hostile;
mod instructions;
mod opcodes;
mod programs;
