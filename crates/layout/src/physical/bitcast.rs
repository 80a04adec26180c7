//! Decides whether two tiled arrays have the same bytes, so that a reshape (or a transposition that
//! only changes the order of dimensions) moves nothing.
//!
//! An element's row-major number is written in mixed-radix digits, so that its position is the sum
//! of the digits times their strides. Adjacent digits whose strides continue each other are merged
//! into one. What remains is equal for two layouts that put every number at the same position.

use super::{Change, PhysicalLayout};
use smallvec::SmallVec;
use tegula_ir::ArrayShape;

/// A digit: its number of values, and its stride in the buffer.
type Digit = (i64, i64);

/// The digits of a run of dimensions, the most major first. Dimensions are in one run if there is
/// no padding between them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    extent: i64,
    digits: SmallVec<[Digit; 6]>,
}

/// The position of each row-major number, in a form that is equal for equal positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    blocks: SmallVec<[Block; 4]>,
    padded: i64,
    element_bits: i64,
}

impl Placement {
    /// The positions of an array's elements; `None` for layouts that combine dimensions, and for
    /// invalid ones.
    pub fn new(shape: &ArrayShape) -> Option<Self> {
        let layout = PhysicalLayout::new(shape).ok()?;
        let digits = digits(&layout)?;
        let mut blocks: SmallVec<[Block; 4]> = SmallVec::new();
        for (&extent, digits) in layout.logical.iter().zip(digits) {
            let exact = digits.iter().map(|digit| digit.0).product::<i64>() == extent;
            match blocks.last_mut() {
                Some(last) if exact => {
                    last.extent *= extent;
                    last.digits.extend(digits);
                }
                _ => blocks.push(Block { extent, digits }),
            }
        }
        for block in &mut blocks {
            merge(block);
        }
        blocks.retain(|block| block.extent != 1);
        Some(Self {
            blocks,
            padded: layout.padded,
            element_bits: layout.element_bits,
        })
    }
}

/// Whether two arrays with equally many elements, each with its layout, have the same bytes:
/// element by element in row-major order, and in size. `false` also if that is not known.
pub fn is_bitcast(from: &ArrayShape, to: &ArrayShape) -> bool {
    match (Placement::new(from), Placement::new(to)) {
        (Some(from), Some(to)) => from == to,
        _ => false,
    }
}

/// The digits of each dimension, by number, the most major first. Digits with a single value are
/// omitted, but each dimension has at least one digit.
fn digits(layout: &PhysicalLayout) -> Option<Vec<SmallVec<[Digit; 6]>>> {
    // (dimension, weight within it, values)
    let mut axes: Vec<(Option<usize>, i64, i64)> = layout
        .order
        .iter()
        .map(|&dim| (Some(dim), 1, layout.logical[dim]))
        .collect();
    for change in &layout.changes {
        match change {
            Change::Lead(count) => {
                axes.splice(0..0, std::iter::repeat_n((None, 1, 1), *count));
            }
            Change::Combine { .. } => return None,
            Change::Tile { tile, .. } => {
                let first = axes.len() - tile.len();
                for (number, &size) in tile.iter().enumerate() {
                    let (dim, weight, values) = axes[first + number];
                    axes[first + number] = (
                        dim,
                        weight * size,
                        (values / size) + i64::from(values % size != 0),
                    );
                    axes.push((dim, weight, size));
                }
            }
        }
    }
    let mut of_dims = vec![Vec::new(); layout.logical.len()];
    let mut stride = 1;
    for &(dim, weight, values) in axes.iter().rev() {
        if let Some(digits) = dim.and_then(|dim| of_dims.get_mut(dim)) {
            digits.push((weight, values, stride));
        }
        stride *= values;
    }
    let sorted = of_dims
        .into_iter()
        .zip(&layout.logical)
        .map(|(mut digits, &extent)| {
            digits.sort_unstable_by_key(|digit| std::cmp::Reverse(digit.0));
            // Values beyond the extent do not occur.
            digits.retain(|&(weight, values, _)| values != 1 && weight < extent.max(1));
            let digits: SmallVec<[Digit; 6]> = digits
                .into_iter()
                .map(|(_, values, stride)| (values, stride))
                .collect();
            if digits.is_empty() {
                SmallVec::from_elem((extent.min(1), 0), 1)
            } else {
                cut(digits, extent)
            }
        });
    Some(sorted.collect())
}

/// Reduces the first digit to the number of values that the extent needs.
fn cut(mut digits: SmallVec<[Digit; 6]>, extent: i64) -> SmallVec<[Digit; 6]> {
    let inner: i64 = digits.iter().skip(1).map(|digit| digit.0).product();
    if let Some(first) = digits.first_mut().filter(|_| inner > 0) {
        first.0 = (extent + inner - 1) / inner;
    }
    digits
}

/// Merges adjacent digits whose strides continue each other.
fn merge(block: &mut Block) {
    let mut merged: SmallVec<[Digit; 6]> = SmallVec::new();
    for &(values, stride) in &block.digits {
        if values == 1 {
            continue;
        }
        match merged.last_mut() {
            Some(last) if last.1 == values * stride => *last = (last.0 * values, stride),
            _ => merged.push((values, stride)),
        }
    }
    block.digits = merged;
}
