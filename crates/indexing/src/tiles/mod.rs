//! Tiles: which part of each array corresponds to a part of the result.
//!
//! A kernel computes an array one tile at a time, and must know which tile of each operand a tile
//! of the result needs. Here, a tile has along each dimension an *offset*, a *size*, a *stride*,
//! and *bounds* that cut off what is beyond the edge ([`TileDim`]). All of them are terms over a
//! [`TilingSpace`]: the dimensions of the result, whose tiles may be computed in any order
//! (parallel), and the dimensions that operations sum over (sequential). Tile sizes are numbers or
//! symbolic.
//!
//! Tiles are derived from indexing maps, so they can be propagated wherever maps can, in both
//! directions: through chains of reshapes that cancel, windows, concatenations, data-dependent
//! offsets, and whole fusions ([`Tiling`]). An operand that is read in several ways has several
//! tiles. If the elements that are read do not form one tile, a tile covers them, and says why it
//! is not exact ([`Reason`]) and for which sizes it would be ([`Condition`]). Conditions stay in
//! factored form. What bounds, residues, or enumerating all tiles can decide is decided and
//! removed.
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
//! Questions about all tiles ("do they divide the dimension", "is this offset a multiple of 128")
//! are answered with a proof, with a tile for which the answer is no, or with the condition that is
//! missing ([`TilingSpace::divides`], [`Tile::offset_is_multiple`]). Authors of kernels get the
//! valid tile sizes of a fusion, best first, by their own cost or by [`Traffic`]
//! ([`Tiling::best_sizes`]).
//!
//! # Invariants
//! - A tile contains all elements that are read, for every tile number, size and run-time value.
//!   Where [`Tile::exact`] holds, it contains no others, and where [`Tile::present`] fails, nothing
//!   is read.
//! - Nothing panics, and arithmetic that overflows is not folded.

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
