//! Errors in layouts, by the field of XLA's `LayoutProto`.

use super::{MAX_IMAGE, MAX_TILES};

/// Why a layout is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PhysicalError {
    /// A dimension's size is not known or negative.
    #[error("dimensions[{0}] has no fixed size; give it one with --dim")]
    NotStatic(usize),
    /// `minor_to_major` does not name every dimension once.
    #[error("minor_to_major is not a permutation of the {0} dimensions")]
    NotAPermutation(usize),
    /// A tile has a dimension that is not positive.
    #[error("tiles[{level}].dimensions[{dim}] is {size}: a tile's sizes must be positive")]
    BadTile {
        /// The tile's number.
        level: usize,
        /// The dimension within the tile.
        dim: usize,
        /// Its size.
        size: i64,
    },
    /// The most minor dimension of a tile is `*`, so there is nothing to combine it with.
    #[error("tiles[{0}] ends in `*`, which has no more minor dimension to be combined with")]
    CombinesNothing(usize),
    /// There are too many tile levels.
    #[error("tiles has {0} levels: at most {MAX_TILES} are supported")]
    TooManyTiles(usize),
    /// A tile has too many dimensions.
    #[error("tiles[{level}] has more than {MAX_TILES} dimensions")]
    TileTooLong {
        /// The tile's number.
        level: usize,
    },
    /// A number that must not be negative is negative.
    #[error("{field} is {value}: it must not be negative")]
    Negative {
        /// The field.
        field: &'static str,
        /// Its value.
        value: i64,
    },
    /// A split is not inside its dimension, or splits are not in order.
    #[error(
        "split_configs[{0}] does not name a physical dimension and strictly increasing \
         indices inside it"
    )]
    BadSplit(usize),
    /// A number does not fit in 64 bits.
    #[error("{0}: the padded size does not fit 64 bits")]
    Overflow(&'static str),
    /// An image would be too large.
    #[error("an image of {0} places is too large; at most {MAX_IMAGE} are drawn")]
    ImageTooLarge(i64),
    /// An index is outside the array.
    #[error("index {index:?} is not inside an array of {dims:?}")]
    OutOfBounds {
        /// The index.
        index: Vec<i64>,
        /// The array's dimensions.
        dims: Vec<i64>,
    },
}
