//! The tests of the program, a module each, in one program: linking one for each would take
//! most of the time and of the disk.

mod builder;
mod copies;
mod errors;
mod hostile;
mod numerics;
mod operations;
mod round_trip;
mod run_time_sizes;
mod shape_functions;
mod test_files;
