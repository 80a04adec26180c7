//! Rewrites of a program before it is clustered: what is computed stays the same, how changes.
//!
//! - [`expand`]: operations that are compositions of others are written out (on the module).
//! - [`sink_loop_reductions`]: products that a loop sums up become one product after it (on the
//!   module).
//! - [`gvn`]: global value numbering; [`dce`]: dead-code elimination.
//! - [`loop_invariant_motion`]: what each iteration computes alike, before the loop.
//! - [`fold_transposes`]: transpositions into the products that they feed or follow.
//! - [`fuse_accumulation`]: sums of a product and an array, in the product's routine.

pub(crate) mod dce;
pub(crate) mod expand;
pub(crate) mod fold_transposes;
pub(crate) mod fuse_accumulation;
pub(crate) mod gvn;
pub(crate) mod loop_invariant_motion;
pub(crate) mod sink_loop_reductions;
