//! All tests of the PTX simulator, one module each, in a single executable: linking one for each
//! module would take most of the time and of the disk space.

mod faults;
mod hostile;
mod instructions;
mod opcodes;
mod programs;
