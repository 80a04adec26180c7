//! The tests of the simulated TPU, a module each, in one program: linking one for each would take
//! most of the time and of the disk.

mod alignment;
mod common;
mod gathers;
mod grids;
mod kernels;
mod loops;
mod mutations;
mod numbers;
mod pallas;
mod races;
mod taint;
mod text;
mod tpu_estimates;
