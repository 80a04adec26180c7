//! The layout that TPU compilers give an array by default.
//!
//! Measured on entry parameters of programs compiled ahead of time for v4, v5e,
//! v5p, v6e and tpu7x (libtpu 0.0.50, 2026-11). With `pk = 32 / bits`:
//! - no dimensions: `T(128*pk)`;
//! - one dimension of `n`: a tile of `n` rounded up to a power of two, at least
//!   `128*pk` and at most 1024 elements; if `pk > 1`, then `(128)(pk,1)`;
//! - more: `T(t,128)`; if `pk > 1`, then `(pk,1)`. The height `t` depends on the
//!   second-minor size: `8*pk` if `pk >= 4` and that divides it, else the size
//!   rounded up to a power of two, at least `pk` and at most 8;
//! - the order of dimensions is that of the smallest padded size (the minor
//!   rounded up to 128, the second-minor to `t`); among equals the greatest
//!   minor_to_major, number by number;
//! - types of less than a byte state their bits, `E(bits)`;
//! - `c64` is laid out like 32 bits, its parts side by side (measured in whole
//!   programs on v5e).

use smallvec::{SmallVec, smallvec};
use tegula_ir::{Layout, Tile, TileDim};

/// Why there is no default layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TileError {
    /// The rule was not measured for such elements.
    #[error(
        "the default layout of elements of {0} bits was not measured; 4, 8, 16, 32 and 64 were"
    )]
    Bits(u32),
    /// An order names each dimension once.
    #[error("minor_to_major is not a permutation of the {0} dimensions")]
    Order(usize),
    /// The rule was not measured for such a chip.
    #[error("the default layout of the chip {0} is not known")]
    Chip(String),
    /// A dimension is negative.
    #[error("a dimension of size {0}")]
    Dimension(i64),
    /// The padded size does not fit.
    #[error("the padded size does not fit into 63 bits")]
    TooLarge,
}

/// Elements along the minor dimension of a tile.
const LANES: i64 = 128;

/// The layout that the compiler gives an array of these dimensions and elements
/// of so many bits (`pred` has 8). See the module's text.
///
/// # Errors
/// Other element sizes than 4, 8, 16, 32 and 64 bits, negative dimensions, and
/// sizes that do not fit.
pub fn default_layout(element_bits: u32, dims: &[i64]) -> Result<Layout, TileError> {
    let packing = check(element_bits, dims)?;
    tiled(element_bits, dims, order(dims, packing)?)
}

/// The layout of an array in this order of dimensions: the compiler tiles results
/// inside a program by the rule for defaults, given their order (2583 of the 2624
/// arrays of two and more dimensions that were measured on v5e).
///
/// # Errors
/// As [`default_layout`]; or the order is not one of the dimensions.
pub fn layout_in_order(
    element_bits: u32,
    dims: &[i64],
    minor_to_major: &[u32],
) -> Result<Layout, TileError> {
    check(element_bits, dims)?;
    let mut sorted: SmallVec<[u32; 6]> = minor_to_major.into();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..dims.len() as u32) {
        return Err(TileError::Order(dims.len()));
    }
    tiled(element_bits, dims, minor_to_major.into())
}

/// The bytes of an array in this order of dimensions, with the padding of
/// [`layout_in_order`]; `None` if there is no such layout or the bytes do not fit.
pub fn padded_bytes(element_bits: u32, dims: &[i64], minor_to_major: &[u32]) -> Option<i64> {
    let packing = check(element_bits, dims).ok()?;
    let elements = match minor_to_major {
        [] => LANES * packing,
        [_] => {
            let size = dims.first().copied()?;
            let tile = power_of_two(size, LANES * packing, 1024);
            size.checked_add(tile - 1)? / tile * tile
        }
        [minor, second, ..] => padded(dims, *minor, *second, packing)?,
    };
    Some(elements.checked_mul(i64::from(element_bits))? / 8)
}

/// How many elements are packed into 32 bits.
fn check(element_bits: u32, dims: &[i64]) -> Result<i64, TileError> {
    if ![4, 8, 16, 32, 64].contains(&element_bits) {
        return Err(TileError::Bits(element_bits));
    }
    if let Some(&negative) = dims.iter().find(|&&size| size < 0) {
        return Err(TileError::Dimension(negative));
    }
    Ok(i64::from(32 / element_bits).max(1))
}

fn tiled(
    element_bits: u32,
    dims: &[i64],
    minor_to_major: SmallVec<[u32; 6]>,
) -> Result<Layout, TileError> {
    let packing = i64::from(32 / element_bits).max(1);
    let size_of = |position: usize| {
        let dimension = minor_to_major.get(position).copied()?;
        dims.get(dimension as usize).copied()
    };
    let mut tiles = Vec::new();
    match (size_of(0), size_of(1)) {
        (None, _) => tiles.push(tile(&[LANES * packing])),
        (Some(size), None) => {
            tiles.push(tile(&[power_of_two(size, LANES * packing, 1024)]));
            if packing > 1 {
                tiles.extend([tile(&[LANES]), tile(&[packing, 1])]);
            }
        }
        (Some(_), Some(second)) => {
            tiles.push(tile(&[height(second, packing), LANES]));
            if packing > 1 {
                tiles.push(tile(&[packing, 1]));
            }
        }
    }
    Ok(Layout {
        minor_to_major,
        tiles,
        element_bits: if element_bits < 8 {
            element_bits.into()
        } else {
            0
        },
        ..Layout::default()
    })
}

fn tile(sizes: &[i64]) -> Tile {
    Tile {
        dims: sizes.iter().map(|&size| TileDim::Size(size)).collect(),
    }
}

/// The least power of two that is not below `size`, within bounds.
fn power_of_two(size: i64, least: i64, most: i64) -> i64 {
    let mut power = least;
    while power < size && power < most {
        power *= 2;
    }
    power
}

/// The height of a tile whose second-minor dimension has this size.
fn height(size: i64, packing: i64) -> i64 {
    let full = 8 * packing;
    if packing >= 4 && size % full == 0 && size > 0 {
        return full;
    }
    power_of_two(size, packing, 8)
}

/// The order of dimensions. The padded size depends on the two most minor ones
/// alone, and the rest is in descending order in the greatest of equals.
fn order(dims: &[i64], packing: i64) -> Result<SmallVec<[u32; 6]>, TileError> {
    let rank = u32::try_from(dims.len()).map_err(|_| TileError::TooLarge)?;
    if rank < 2 {
        return Ok((0..rank).collect());
    }
    let mut best: Option<(i64, u32, u32)> = None;
    // Descending, so that the first of equals is the greatest.
    for minor in (0..rank).rev() {
        for second in (0..rank).rev().filter(|&second| second != minor) {
            let Some(size) = padded(dims, minor, second, packing) else {
                continue;
            };
            if best.is_none_or(|(least, ..)| size < least) {
                best = Some((size, minor, second));
            }
        }
    }
    let (_, minor, second) = best.ok_or(TileError::TooLarge)?;
    let mut order: SmallVec<[u32; 6]> = smallvec![minor, second];
    order.extend((0..rank).rev().filter(|&d| d != minor && d != second));
    Ok(order)
}

/// The padded number of elements, if it fits.
fn padded(dims: &[i64], minor: u32, second: u32, packing: i64) -> Option<i64> {
    (0u32..)
        .zip(dims)
        .try_fold(1i64, |product, (dimension, &size)| {
            let multiple = match dimension {
                d if d == minor => LANES,
                d if d == second => height(size, packing),
                _ => 1,
            };
            let rounded = size.checked_add(multiple - 1)? / multiple * multiple;
            product.checked_mul(rounded)
        })
}
