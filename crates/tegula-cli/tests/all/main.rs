//! The tests of the command line, one module each, in one executable: linking one executable per
//! module would take most of the time and disk space.

mod c_examples;
mod compile_cache;
mod documentation;
mod exit_codes;
mod explore;
mod limits;
mod pallas;
mod pass_tests;
mod reduce;
mod rust_example;
mod standard_input;
mod wide_tuples;
