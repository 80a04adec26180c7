//! What is known of a kernel before it is changed or compiled. Nothing here changes anything.
//!
//! - [`affine_access`]: which memory accesses step evenly along which loop.
//! - [`cost`]: arithmetic operations and bytes of a step.
//! - [`known_branches`]: at which points conditions change, and blocks in which they are known.

pub(crate) mod affine_access;
pub(crate) mod cost;
pub(crate) mod known_branches;
