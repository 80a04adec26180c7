//! All tests of the crate, one module each, in a single executable: linking one for each module
//! would take most of the time and of the disk space.

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
