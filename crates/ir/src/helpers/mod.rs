//! Shape helpers: what an operation's shape and its lowering both compute, written
//! once.
//!
//! A helper is a value with the numbers that an operation's attributes mean: a window
//! with its dilated and padded extents, the roles that an operand's dimensions have in
//! a gather. Shape functions take result sizes from it, the verifier what it checks,
//! and indexing maps (from which every backend gets its loops) where elements lie.
//! Numbers come from a [`Provider`](tegula_expr::Provider), so they are terms in an
//! analysis, values in an evaluator, registers in generated code. Roles of dimensions
//! are known from attributes and ranks alone.
//!
//! The reference evaluator computes all of it once more, by the definitions, on purpose:
//! it is what the others are held against.
//!
//! Helpers check nothing that depends on more than their own attributes: an impossible
//! one gives `None`, and the shape function says what is wrong.

mod groups;
mod mesh;
mod product_type;
mod ragged;
mod roles;
mod sizes;
mod spaced;
mod tiles;
mod window;

pub use groups::{ConvolutionGroups, GroupSizes};
pub(crate) use mesh::{MAX_MESH_DEVICES, transposed_iota};
pub use mesh::{Mesh, MeshPart};
pub use product_type::{product_type, scaled_type};
pub use ragged::RaggedRole;
pub use roles::{DotDim, DotRoles, GatherRoles, GatheredDim, kept_dimensions};
pub use sizes::{ConcatenateSizes, PadSizes, ReshapeSizes, SliceSizes, up_to};
pub use spaced::Spaced;
pub use tiles::tiles_keep_order;
pub use window::WindowSizes;

use smallvec::SmallVec;

/// Dimension numbers, checked to be in range.
pub type Dimensions = SmallVec<[usize; 6]>;

/// Where a dimension is in a list of an attribute.
pub(crate) fn place(list: &[i64], dim: usize) -> Option<usize> {
    list.iter().position(|&d| usize::try_from(d) == Ok(dim))
}
