//! The tests of the compiler and its command line, a module each, in one program: linking one for each would take
//! most of the time and of the disk.

mod c_examples;
mod compile_cache;
mod custom_calls;
mod exit_codes;
mod one_device;
mod onnx_values;
mod readme;
mod reduce;
mod scalar_loops;
mod stated_layouts;
mod wide_tuples;
