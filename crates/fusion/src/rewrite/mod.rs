//! Rewrites of a program before it is clustered: what is computed stays the same, how changes.
//!
//! - [`expand`]: operations that are compositions of others are written out (on the module).
//! - [`hoist_loop_products`]: products with the rows of an array, one in each iteration of a loop, become
//!   one product before it (on the module, with [`inline_calls`]).
//! - [`sink_loop_reductions`]: products that a loop sums up become one product after it (on the
//!   module).
//! - [`counted_loops`]: what the last two ask of loops.
//! - [`fold_constants`]: operations on small constants.
//! - [`gvn`]: global value numbering; [`dce`]: dead-code elimination.
//! - [`loop_invariant_motion`]: what each iteration computes alike, before the loop.
//! - [`fold_transposes`]: transpositions into the products that they feed or follow.
//! - [`fuse_accumulation`]: sums of a product and an array, in the product's routine.

pub(crate) mod counted_loops;
pub(crate) mod dce;
pub(crate) mod expand;
pub(crate) mod fold_constants;
pub(crate) mod fold_transposes;
pub(crate) mod fuse_accumulation;
pub(crate) mod gvn;
pub(crate) mod hoist_loop_products;
pub(crate) mod inline_calls;
pub(crate) mod loop_invariant_motion;
pub(crate) mod sink_loop_reductions;
