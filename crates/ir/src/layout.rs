//! Layouts and tiles as data: how an array's elements are ordered and padded in
//! memory, and in which memory space they lie. The arithmetic on them is in the
//! crate `tegula-layout`.

use smallvec::SmallVec;

/// One dimension of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum TileDim {
    /// So many elements.
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

/// How one physical dimension is split between memories: `SC(dim:i,j)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SplitConfig {
    /// The dimension, numbered physically.
    pub dimension: i64,
    /// Where the splits are: strictly increasing, below the dimension's size.
    pub indices: Vec<i64>,
}

/// How an array lies in memory. The text is `{minor_to_major:properties}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Layout {
    /// Dimension numbers, the fastest-varying first; a permutation of `0..rank`.
    pub minor_to_major: SmallVec<[u32; 6]>,
    /// `T(...)(...)`: tile levels, the outermost first.
    pub tiles: Vec<Tile>,
    /// `L(n)`: the element count is padded to a multiple of this. 0 or 1: none.
    pub tail_padding: i64,
    /// `E(bits)`: bits per element where it is not the type's own; 0: its own.
    pub element_bits: i64,
    /// `S(n)`: memory space; 0 is the device's main memory.
    pub memory_space: i64,
    /// `SC(...)`: split configurations.
    pub splits: Vec<SplitConfig>,
    /// `M(n)`: bytes of dynamic-shape metadata in front.
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

    /// Whether this is the default layout and nothing more.
    pub fn is_row_major(&self) -> bool {
        *self == Self::row_major(self.minor_to_major.len())
    }
}
