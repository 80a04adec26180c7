//! What maps are for: how much of an operand is read, how well a warp's loads
//! coalesce, which tile of an operand a tile of the result needs, and whether an
//! offset is aligned.

mod alignment;
mod coalescing;
mod tiles;
mod utilization;

pub use alignment::{Answer, Proof, contiguous_elements, is_multiple_of, stride_along};
pub use coalescing::{Coalescing, Warp, coalescing, row_major_address};
pub use tiles::{Condition, Tile, TileDim, TiledMap, propagate_tile};
pub use utilization::{Utilization, utilization};
