//! Makes kernels, decides which of them are joined, and orders them.
//!
//! - [`emit_regions`]: makes the units of each region, and calls the other passes.
//! - [`hoist_kernels`]: moves loop-invariant kernels before the loop.
//! - [`row_fusion`]: joins kernels over the same rows.
//! - [`schedule_for_memory`]: orders steps to reduce peak memory.

pub(crate) mod emit_regions;
pub(crate) mod hoist_kernels;
pub(crate) mod row_fusion;
pub(crate) mod schedule_for_memory;
