//! Layouts, buffers and the Plan.
//!
//! It takes the fused program, decides where each value lies, and ends in the
//! [`Plan`], which every backend compiles and the Plan evaluator
//! defines the meaning of. Arrays that are to lie in an order of dimensions of their own
//! become row-major ones of permuted dimensions before that ([`apply_layouts`]). For a TPU it
//! takes the flattened program to orders and tiles ([`assign`]), memory spaces and a
//! schedule ([`memory`]), and blocks of kernels ([`windows`]). It knows no backend.

pub mod apply_layouts;
pub mod assign;
pub mod dot;
pub mod memory;
pub mod physical;
pub mod plan;
pub mod sort;
mod trips;
pub mod windows;

pub use plan::Plan;
pub use trips::assumed_trips;
