//! The layouts that TPU compilers give arrays by default.
//!
//! They were measured on entry parameters of programs compiled ahead of time, for every chip for
//! which libtpu 0.0.42 and 0.0.50 (2026-11) can make a topology, in every element type of JAX. A
//! word has 32 bits and a row has 128 words; `pk` elements narrower than a word are packed into one
//! word. The rule has two versions ([`TileRule`]). This is the newer one:
//! - no dimensions: `T(128*pk)`;
//! - one dimension of `n`: a tile of `n` rounded up to a power of two, at least a row of `128*pk`
//!   elements and at most 1024 (if a row is longer, a row); if `pk > 1`, then `(128)(pk,1)`;
//! - more: `T(t,128)`; if `pk > 1`, then `(pk,1)`. The height `t` depends on the second-minor size:
//!   `8*pk` if `pk >= 4` and that divides it, else the size rounded up to a power of two, at least
//!   `pk` and at most 8;
//! - the order of dimensions is the one with the smallest padded size (the minor rounded up to 128,
//!   the second-minor to `t`); among equals, the lexicographically greatest minor_to_major. Here,
//!   `t` counts as 8 at most unless it divides the size; an order without any padding takes
//!   precedence over all others;
//! - types narrower than a byte state their bits, `E(bits)`;
//! - elements wider than a word have the same layout as words (`c64`, `s64` and `c128` alike).
//!
//! The older version differs in three points: the smallest tile is two rows of words, no tile is
//! higher than eight rows of elements, and elements narrower than a byte take a byte each.

use smallvec::{SmallVec, smallvec};
use tegula_ir::{Layout, Tile, TileDim};

/// The reason why there is no default layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TileError {
    /// The rule was not measured for elements of this width.
    #[error(
        "the default layout of elements of {0} bits is unknown; it was measured for 2, 4, 8, 16, 32, 64 and 128 bits"
    )]
    Bits(u32),
    /// The order is not a permutation of the dimensions.
    #[error("minor_to_major is not a permutation of the {0} dimensions")]
    Order(usize),
    /// The rule was not measured for this chip.
    #[error("the default layout of the chip {0} is not known")]
    Chip(String),
    /// A dimension is negative.
    #[error("a dimension has the invalid size {0}")]
    Dimension(i64),
    /// The padded size overflows.
    #[error("the padded size does not fit into 63 bits")]
    TooLarge,
}

/// The number of elements along the minor dimension of a tile.
const LANES: i64 = 128;
/// The number of rows of a register, which also limits the rows of elements of a tile that is not
/// made higher to fill words.
const ROWS: i64 = 8;
/// The maximum number of elements of a one-dimensional tile, unless a row is longer.
const FLAT: i64 = 1024;

/// The version of the rule for tiles; see the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileRule {
    /// For v4 and later chips: the smallest tile is one row.
    Compact,
    /// For v2 and v3: the smallest tile is two rows.
    TwoRows,
}

/// The packing of elements into words.
#[derive(Clone, Copy)]
struct Packing {
    rule: TileRule,
    /// The number of bits of an element, according to its type.
    bits: u32,
    /// The number of elements whose bits fit a word.
    natural: i64,
    /// The number of elements that are actually stored in a word.
    stored: i64,
}

impl TileRule {
    /// The rule with this name in a chip's text.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "compact" => Some(Self::Compact),
            "two_rows" => Some(Self::TwoRows),
            _ => None,
        }
    }

    /// The name in a chip's text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compact => "compact",
            Self::TwoRows => "two_rows",
        }
    }

    /// The layout that the compiler gives an array with these dimensions and this number of bits
    /// per element (8 for `pred`).
    ///
    /// # Errors
    /// Element sizes other than 2, 4, 8, 16, 32, 64 and 128 bits, negative dimensions, and sizes
    /// that overflow.
    pub fn default_layout(self, element_bits: u32, dims: &[i64]) -> Result<Layout, TileError> {
        let packing = Packing::new(self, element_bits, dims)?;
        Ok(packing.tiled(dims, packing.order(dims)?))
    }

    /// The layout of an array with this order of dimensions. The compiler tiles results inside a
    /// program by the default rule, for their order (true for 2583 of the 2624 arrays of two and
    /// more dimensions that were measured on v5e).
    ///
    /// # Errors
    /// As [`TileRule::default_layout`]; an order that is not a permutation of the dimensions.
    pub fn layout_in_order(
        self,
        element_bits: u32,
        dims: &[i64],
        minor_to_major: &[u32],
    ) -> Result<Layout, TileError> {
        let packing = Packing::new(self, element_bits, dims)?;
        let mut sorted: SmallVec<[u32; 6]> = minor_to_major.into();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..dims.len() as u32) {
            return Err(TileError::Order(dims.len()));
        }
        Ok(packing.tiled(dims, minor_to_major.into()))
    }

    /// The number of bytes of an array with this order of dimensions, including the padding of
    /// [`TileRule::layout_in_order`]; `None` if there is no such layout or on overflow.
    pub fn padded_bytes(
        self,
        element_bits: u32,
        dims: &[i64],
        minor_to_major: &[u32],
    ) -> Option<i64> {
        let packing = Packing::new(self, element_bits, dims).ok()?;
        let elements = match minor_to_major {
            [] => packing.row(),
            [_] => {
                let size = dims.first().copied()?;
                let tile = packing.flat(size);
                size.checked_add(tile - 1)? / tile * tile
            }
            [minor, second, ..] => {
                let height = |size| packing.height(size);
                padded(dims, (*minor, *second), &height)?
            }
        };
        let bits = match self {
            Self::Compact => element_bits,
            Self::TwoRows => element_bits.max(8),
        };
        Some(elements.checked_mul(i64::from(bits))? / 8)
    }
}

impl Packing {
    fn new(rule: TileRule, bits: u32, dims: &[i64]) -> Result<Self, TileError> {
        if ![2, 4, 8, 16, 32, 64, 128].contains(&bits) {
            return Err(TileError::Bits(bits));
        }
        if let Some(&negative) = dims.iter().find(|&&size| size < 0) {
            return Err(TileError::Dimension(negative));
        }
        let natural = i64::from(32 / bits).max(1);
        let stored = match rule {
            TileRule::Compact => natural,
            TileRule::TwoRows => natural.min(4),
        };
        Ok(Self {
            rule,
            bits,
            natural,
            stored,
        })
    }

    /// The number of elements of the smallest tile.
    fn row(self) -> i64 {
        let rows = match self.rule {
            TileRule::Compact => 1,
            TileRule::TwoRows => 2,
        };
        rows * LANES * self.stored
    }

    /// The tile of a one-dimensional array of this size.
    fn flat(self, size: i64) -> i64 {
        power_of_two(size, self.row(), FLAT.max(LANES * self.natural))
    }

    /// The height of a tile, for this second-minor size.
    fn height(self, size: i64) -> i64 {
        let full = ROWS * self.natural;
        let is_packed = self.natural >= 4 && self.rule == TileRule::Compact;
        if is_packed && size % full == 0 && size > 0 {
            return full;
        }
        power_of_two(size, (self.row() / LANES).max(self.natural), ROWS)
    }

    fn tiled(self, dims: &[i64], minor_to_major: SmallVec<[u32; 6]>) -> Layout {
        let size_of = |position: usize| {
            let dimension = minor_to_major.get(position).copied()?;
            dims.get(dimension as usize).copied()
        };
        let mut tiles = Vec::new();
        match (size_of(0), size_of(1)) {
            (None, _) => tiles.push(tile(&[self.row()])),
            (Some(size), None) => {
                tiles.push(tile(&[self.flat(size)]));
                if self.stored > 1 {
                    tiles.extend([tile(&[LANES]), tile(&[self.stored, 1])]);
                }
            }
            (Some(_), Some(second)) => {
                tiles.push(tile(&[self.height(second), LANES]));
                if self.stored > 1 {
                    tiles.push(tile(&[self.stored, 1]));
                }
            }
        }
        let states_bits = self.bits < 8 && self.rule == TileRule::Compact;
        Layout {
            minor_to_major,
            tiles,
            element_bits: if states_bits { self.bits.into() } else { 0 },
            ..Layout::default()
        }
    }

    /// The order of dimensions. The padded size depends only on the two most minor dimensions; in
    /// the greatest order among equals, the others are descending.
    fn order(self, dims: &[i64]) -> Result<SmallVec<[u32; 6]>, TileError> {
        let rank = u32::try_from(dims.len()).map_err(|_| TileError::TooLarge)?;
        if rank < 2 {
            return Ok((0..rank).collect());
        }
        let exact = dims.iter().try_fold(1i64, |n, &size| n.checked_mul(size));
        let height = |size| self.height(size);
        let counted = |size| match self.height(size) {
            height if height > ROWS && size % height != 0 => ROWS,
            height => height,
        };
        let mut best: Option<((bool, i64), u32, u32)> = None;
        // Candidates are in descending order, so the first of equals is the greatest.
        for minor in (0..rank).rev() {
            for second in (0..rank).rev().filter(|&second| second != minor) {
                let pair = (minor, second);
                let Some(size) = padded(dims, pair, &counted) else {
                    continue;
                };
                let pads = padded(dims, pair, &height) != exact;
                if best.is_none_or(|(least, ..)| (pads, size) < least) {
                    best = Some(((pads, size), minor, second));
                }
            }
        }
        let (_, minor, second) = best.ok_or(TileError::TooLarge)?;
        let mut order: SmallVec<[u32; 6]> = smallvec![minor, second];
        order.extend((0..rank).rev().filter(|&d| d != minor && d != second));
        Ok(order)
    }
}

fn tile(sizes: &[i64]) -> Tile {
    Tile {
        dims: sizes.iter().map(|&size| TileDim::Size(size)).collect(),
    }
}

/// The smallest power of two that is at least `size`, limited to the bounds.
fn power_of_two(size: i64, least: i64, most: i64) -> i64 {
    let mut power = least;
    while power < size && power < most {
        power *= 2;
    }
    power
}

/// The padded number of elements; `None` on overflow.
fn padded(dims: &[i64], (minor, second): (u32, u32), height: &dyn Fn(i64) -> i64) -> Option<i64> {
    (0u32..)
        .zip(dims)
        .try_fold(1i64, |product, (dimension, &size)| {
            let multiple = match dimension {
                d if d == minor => LANES,
                d if d == second => height(size),
                _ => 1,
            };
            let rounded = size.checked_add(multiple - 1)? / multiple * multiple;
            product.checked_mul(rounded)
        })
}
