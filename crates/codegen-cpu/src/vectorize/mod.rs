//! Vectorisation: which loops of a kernel become vector loops, and their bodies as SIMD code.
//!
//! [`select_loops`] decides and returns a [`VectorPlan`](select_loops::VectorPlan);
//! [`loop_versioning`] splits outer loops if that makes a branch uniform. [`translate`] makes the
//! SIMD body of a loop, using [`elementwise`] for scalar operations and [`index_terms`] for index
//! arithmetic; [`contract_fma`] contracts products and sums.

pub(crate) mod contract_fma;
pub(crate) mod elementwise;
pub(crate) mod index_terms;
pub(crate) mod loop_versioning;
pub(crate) mod select_loops;
pub(crate) mod translate;
