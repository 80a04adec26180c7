//! The tests of the simulated TPU, each in a module of one test program: a program for each would
//! spend most time and disk space on linking.

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
