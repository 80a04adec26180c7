//! Layouts and tiles as data: the order and padding of an array's elements in memory, and the
//! memory space. The crate `tegula-layout` computes with them.

use smallvec::SmallVec;

/// One dimension of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum TileDim {
    /// The tile's size along this dimension, in elements.
    Size(i64),
    /// `*`: combine this dimension with the next more minor one.
    Combine,
}

/// One level of tiling, most major dimension first, as in `T(8,128)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Tile {
    /// The tile's dimensions.
    pub dims: SmallVec<[TileDim; 4]>,
}

/// A split of one physical dimension between memories: `SC(dim:i,j)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SplitConfig {
    /// The dimension, numbered in physical order.
    pub dimension: i64,
    /// The indices at which the dimension is split: strictly increasing, below the dimension's
    /// size.
    pub indices: Vec<i64>,
}

/// The layout of an array in memory. Its text is `{minor_to_major:properties}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Layout {
    /// Dimension numbers, the fastest-varying first; a permutation of `0..rank`.
    pub minor_to_major: SmallVec<[u32; 6]>,
    /// `T(...)(...)`: tile levels, the outermost first.
    pub tiles: Vec<Tile>,
    /// `L(n)`: the number of elements is padded to a multiple of this. 0 or 1: no padding.
    pub tail_padding: i64,
    /// `E(bits)`: bits per element, if different from the element type's; 0 if not.
    pub element_bits: i64,
    /// `S(n)`: memory space; 0 is the device's main memory.
    pub memory_space: i64,
    /// `SC(...)`: split configurations.
    pub splits: Vec<SplitConfig>,
    /// `M(n)`: bytes of dynamic-shape metadata before the elements.
    pub metadata_prefix: i64,
}

impl Layout {
    /// The default layout: the last dimension varies fastest, no tiles.
    pub fn row_major(rank: usize) -> Self {
        Self {
            minor_to_major: (0..rank as u32).rev().collect(),
            ..Self::default()
        }
    }

    /// Whether this is the default layout, without any other property.
    pub fn is_row_major(&self) -> bool {
        *self == Self::row_major(self.minor_to_major.len())
    }
}
