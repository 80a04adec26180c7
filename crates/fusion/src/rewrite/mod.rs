//! Rewrites of a program before it is clustered. They preserve what is computed.
//!
//! - [`expand`]: expands operations that are compositions of others (on the module).
//! - [`hoist_loop_products`]: turns products with the rows of an array, one per iteration of a
//!   loop, into one product before the loop (on the module, with [`inline_calls`]).
//! - [`sink_loop_reductions`]: turns products that a loop sums up into one product after it (on the
//!   module).
//! - [`counted_loops`]: finds loops with known trip counts for the two passes above.
//! - [`fold_constants`]: constant folding.
//! - [`gvn`]: global value numbering; [`dce`]: dead-code elimination.
//! - [`loop_invariant_motion`]: moves operations that are the same in each iteration before the
//!   loop.
//! - [`fold_transposes`]: folds transpositions into the products that they feed or follow.
//! - [`fuse_accumulation`]: fuses the sum of a product and an array into the product's routine.

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
