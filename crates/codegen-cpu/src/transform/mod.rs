//! Passes from kernel to kernel, one a file. [`pipeline`] lists them in their order.
//!
//! A pass computes the same values at the same places of memory: the Plan evaluator runs a
//! kernel before and after with the same result, but for the order of sums.

pub(crate) mod cse;
pub(crate) mod full_unroll;
pub(crate) mod index_set_split;
pub(crate) mod loop_coalesce;
pub(crate) mod loop_interchange;
pub(crate) mod loop_unswitch;
pub(crate) mod pack_operand;
pub(crate) mod pipeline;
pub(crate) mod reduction_interchange;
pub(crate) mod unroll_and_jam;

#[cfg(test)]
mod filetests;
