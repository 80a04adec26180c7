//! Tiles: which part of every array belongs to a part of the result.
//!
//! A kernel does not compute a whole array at once but a tile of it, and must know which
//! tile of each operand that takes. Here a tile is, along each dimension, an *offset*, a
//! *size*, a *stride* and *bounds* that cut off what hangs over the edge ([`TileDim`]), all
//! of them terms over a [`TilingSpace`]: the dimensions of the result, whose tiles may be
//! computed in any order (parallel), and what operations sum over (sequential). Sizes of
//! tiles are numbers or open.
//!
//! Tiles follow from indexing maps, so that they go through everything that maps go
//! through, in both directions: chains of reshapes that cancel, windows, concatenations,
//! data-dependent offsets, whole fusions ([`Tiling`]). An operand that is read in several
//! ways has several tiles. What is read is not always one tile: then it is covered by one,
//! and the tile says why ([`Reason`]) and for which sizes it would be exact
//! ([`Condition`]). Conditions stay factored; whatever bounds, remainders, or trying all
//! tiles decides is decided and gone.
//!
//! ```
//! use tegula_indexing::Simplifier;
//! use tegula_indexing::tiles::Tiling;
//!
//! // A softmax's sum over rows of 96, whose result is split into 4 heads of 8.
//! let module = tegula_ir::parse_module(
//!     "HloModule m
//!      add { x = f32[] parameter(0)
//!            y = f32[] parameter(1)
//!            ROOT s = f32[] add(x, y) }
//!      f { p = f32[32,96] parameter(0)
//!          z = f32[] constant(0)
//!          r = f32[32] reduce(p, z), dimensions={1}, to_apply=add
//!          ROOT h = f32[4,8] reshape(r) }
//!      ENTRY e { a = f32[32,96] parameter(0)
//!                ROOT x = f32[4,8] fusion(a), kind=kLoop, calls=f }",
//! )?;
//! let fusion = module.entry_computation().root;
//! let tiling = Tiling::of(&module, fusion, 0, &mut Simplifier::new()).expect("arrays");
//!
//! // Tiles of 2 heads with all their 8 rows, 32 columns at a time: 16 rows.
//! let space = tiling.space.with_sizes(&[Some(2), Some(8), Some(32)]);
//! let operands = tiling.operands(&space);
//! let tile = &operands[0].tiles.as_ref().expect("known")[0];
//! assert_eq!(tile.display(&space).to_string(), "[i0 * 16 + 0..16, i2 * 32 + 0..32]");
//! assert!(tile.is_exact());
//!
//! // With the sizes open: whenever it takes one head, or all of a head's rows.
//! let open = &tiling.operands(&tiling.space)[0];
//! let tile = &open.tiles.as_ref().expect("known")[0];
//! let names = |var| tiling.space.name(var);
//! assert_eq!(tile.exact.display(&names).to_string(), "t0 <= 1 or 8 <= t1");
//! # Ok::<(), tegula_ir::Error>(())
//! ```
//!
//! Questions about all tiles ("do they divide the dimension", "is this offset a multiple of
//! 128") are answered with a proof, with a tile for which it fails, or with the condition that
//! is missing ([`TilingSpace::divides`], [`Tile::offset_is_multiple`]). Authors of kernels get the
//! valid sizes of a fusion, the best first, by a cost of theirs or by [`Traffic`]
//! ([`Tiling::best_sizes`]).
//!
//! # Invariants
//! - A tile has all elements that are read, for every tile number, size and run-time
//!   value; where [`Tile::exact`] holds it has no others, and nothing is read where
//!   [`Tile::present`] fails.
//! - Nothing panics, and arithmetic that does not fit is not folded.

mod choose;
mod condition;
mod constraints;
mod image;
mod independence;
mod progression;
mod propagate;
mod prover;
mod questions;
mod reason;
mod space;
mod tile;

pub use choose::{Choice, Cost, Traffic};
pub use condition::Condition;
pub use propagate::{OperandTiles, Tiling, ValueTiles};
pub use questions::Reply;
pub use reason::Reason;
pub use space::{DimensionKind, SpaceDim, TilingSpace};
pub use tile::{Extent, Tile, TileDim};
