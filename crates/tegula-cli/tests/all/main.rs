//! The tests of the command line, a module each, in one program: linking one for each would take
//! most of the time and of the disk.

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
