//! Passes from kernel to kernel, with a file for each. [`pipeline`] lists them in their order.
//!
//! A pass preserves the values and their places in memory: the Plan evaluator gives the same result
//! for the kernel before and after it, except for the order of sums.

pub(crate) mod cse;
pub(crate) mod full_unroll;
pub(crate) mod index_set_split;
pub(crate) mod integer_moves;
pub(crate) mod loop_coalesce;
pub(crate) mod loop_interchange;
pub(crate) mod loop_unswitch;
pub(crate) mod pack_operand;
pub(crate) mod pipeline;
pub(crate) mod reduction_interchange;
pub(crate) mod unroll_and_jam;

#[cfg(test)]
mod filetests;
