//! The order of a program's kernels, and which of them become one.
//!
//! - [`emit_regions`]: makes the units of each region, and calls the others.
//! - [`hoist_kernels`]: kernels that each iteration of a loop would run alike, before the loop.
//! - [`row_fusion`]: kernels over the same rows as one.
//! - [`schedule_for_memory`]: the order in which least memory is alive.

pub(crate) mod emit_regions;
pub(crate) mod hoist_kernels;
pub(crate) mod row_fusion;
pub(crate) mod schedule_for_memory;
