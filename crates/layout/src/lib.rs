//! Layouts: the order and the tiles in which the elements of an array are stored.
//!
//! [`physical`] computes where an element is stored under a tiled layout. [`assign`] chooses a
//! layout for each array of a flat program by minimising a cost model, for a CPU, a GPU or a TPU
//! chip. [`apply_layouts`] rewrites a program so that an array in another order of dimensions is a
//! row-major array of permuted dimensions; later passes do not know of orders.
//!
//! # What a tile is
//! An array in memory is a list of elements, and its layout determines their order. `{1,0}` is
//! row-major: elements adjacent along dimension 1 are adjacent in memory.
//! `{1,0:T(2,2)}` divides the array into tiles of 2 by 2, stored one after the other in that order;
//! within each tile, the elements have that order too. A tile that the array does not fill is
//! stored completely, so 3 by 5 elements take the space of 4 by 6:
//!
//! ```text
//! row 0   0  1 |  4  5 |  8  .        each number is a place in memory,
//! row 1   2  3 |  6  7 | 10  .        a dot an element that there is not
//!        ------+-------+------
//! row 2  12 13 | 16 17 | 20  .
//!         .  . |  .  . |  .  .
//! ```
//!
//! ```
//! use tegula_ir::parse_shape;
//! use tegula_layout::physical::PhysicalLayout;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let shape = parse_shape("f32[3,5]{1,0:T(2,2)}")?;
//! let layout = PhysicalLayout::new(shape.as_array().ok_or("no array")?)?;
//! assert_eq!(layout.linear_index(&[1, 2])?, 6);
//! assert_eq!(layout.index_of(20)?, Some(vec![2, 4]));
//! // Beside element (0, 4) is padding.
//! assert_eq!(layout.index_of(9)?, None);
//! assert_eq!((layout.bytes(), layout.padded_bytes()), (15 * 4, 24 * 4));
//! # Ok(())
//! # }
//! ```
//!
//! `T(8,128)` is what a TPU's vector registers hold. `T(8,128)(2,1)` divides each tile into smaller
//! ones, here pairs of rows of 16-bit numbers packed into words. `tegula shape
//! 'f32[3,5]{1,0:T(2,2)}' --draw` draws any of them.

pub mod apply_layouts;
pub mod assign;
pub mod physical;
mod trips;

pub use trips::{assumed_trips, trips};
