//! Shape helpers: size computations that shape functions and lowerings share.
//!
//! A helper holds the numbers that an operation's attributes stand for: for a window its dilated
//! and padded extents, for a gather the role of each of the operand's dimensions. Shape functions
//! take the sizes of results from helpers, the verifier its checks, and indexing maps (from which
//! every backend derives its loops) the positions of elements. Numbers come from a
//! [`Provider`](tegula_expr::Provider), so they are terms in an analysis, values in an evaluator,
//! and registers in generated code. The roles of dimensions follow from attributes and ranks alone.
//!
//! The reference evaluator deliberately does not use helpers. It computes everything from the
//! definitions, because it is what the other implementations are compared with.
//!
//! Helpers check only their own attributes: impossible ones give `None`, and the shape function
//! reports the error.

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

/// The position of a dimension in a list of dimension numbers.
pub(crate) fn place(list: &[i64], dim: usize) -> Option<usize> {
    list.iter().position(|&d| usize::try_from(d) == Ok(dim))
}
