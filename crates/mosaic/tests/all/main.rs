//! Tests of reading kernels.

mod common;
#[path = "../../../stablehlo/tests/all/damage.rs"]
mod damage;
mod mutations;
mod reading;
