//! Analyses of kernels, which change nothing.
//!
//! - [`affine_access`]: the strides of memory accesses along loops.
//! - [`cost`]: arithmetic operations and bytes of a step.
//! - [`known_branches`]: the points at which conditions change, and blocks in which they are known.

pub(crate) mod affine_access;
pub(crate) mod cost;
pub(crate) mod known_branches;
