//! Tests of reading kernels.

mod common;
mod mutations;
mod reading;
