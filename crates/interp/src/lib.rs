//! The reference evaluator.

pub mod scalar;
