//! The positions of an array's elements in memory under a tiled layout.
//!
//! First, the dimensions are put in physical order (the most major first). Each tile level then
//! replaces the last dimensions `d` that it covers by the pair (`ceil(d / t)`, `t`): first all
//! numbers of tiles, then the positions within a tile. If a tile has more dimensions than there
//! are, leading dimensions of 1 are added. A `*` merges its dimension into the next more minor one
//! before the level is applied. Each level applies to the dimensions that result from the previous
//! level. The position of an element is its row-major index over the final dimensions.
//!
//! [`PhysicalLayout`] computes positions. [`MemoryImage`] gets the same result by moving the
//! elements of an array, as the oracle and for pictures. [`layout_map`] expresses it as an indexing
//! map.

mod bitcast;
mod digits;
mod error;
mod image;
mod map;

pub use bitcast::{Placement, is_bitcast};
pub use digits::Digit;
pub use error::PhysicalError;
pub use image::{MAX_IMAGE, MemoryImage};
pub use map::{layout_map, physical_access};
use smallvec::SmallVec;
use tegula_ir::{ArrayShape, Layout, Tile, TileDim};

type Sizes = SmallVec<[i64; 8]>;

/// The most tile levels of a layout, and the most dimensions of a tile. libtpu's compiler prints at
/// most three levels of two dimensions.
pub const MAX_TILES: usize = 16;

/// A transformation of the dimensions on the way from logical to physical ones.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    /// Adds leading dimensions of 1.
    Lead(usize),
    /// Merges dimension `at` and the next one, of size `minor`.
    Combine { at: usize, minor: i64 },
    /// Tiles the last dimensions, which have these sizes.
    Tile { sizes: Sizes, tile: Sizes },
}

/// An array's layout, prepared for queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhysicalLayout {
    /// The array's dimensions, by number.
    logical: Sizes,
    /// The dimension numbers, most major first.
    order: SmallVec<[usize; 8]>,
    changes: Vec<Change>,
    /// The dimensions after all changes.
    physical: Sizes,
    elements: i64,
    padded: i64,
    element_bits: i64,
}

impl PhysicalLayout {
    /// The layout of an array; the default one if the shape states none.
    ///
    /// # Errors
    /// The shape is dynamic, the layout does not fit it, or a size overflows.
    pub fn new(shape: &ArrayShape) -> Result<Self, PhysicalError> {
        let logical = static_sizes(shape)?;
        let default = Layout::row_major(logical.len());
        let layout = shape.layout.as_deref().unwrap_or(&default);
        let order = major_to_minor(layout, logical.len())?;
        let mut dims: Sizes = order.iter().map(|&d| logical[d]).collect();
        check_numbers(layout, &dims)?;
        let mut changes = Vec::new();
        for (level, tile) in layout.tiles.iter().enumerate() {
            apply(&mut dims, tile, level, &mut changes)?;
        }
        let elements = product(&logical).ok_or(PhysicalError::Overflow("dimensions"))?;
        let tiled = product(&dims).ok_or(PhysicalError::Overflow("tiles"))?;
        let tail = PhysicalError::Overflow("tail_padding_alignment_in_elements");
        let padded = align(tiled, layout.tail_padding.max(1)).ok_or(tail)?;
        let element_bits = match layout.element_bits {
            0 => 8 * shape.element_type.storage_bytes() as i64,
            bits => bits,
        };
        // Sizes in bytes are computed by rounding bits up.
        padded
            .checked_mul(element_bits)
            .and_then(|bits| bits.checked_add(7))
            .ok_or(PhysicalError::Overflow("element_size_in_bits"))?;
        Ok(Self {
            logical,
            order,
            changes,
            physical: dims,
            elements,
            padded,
            element_bits,
        })
    }

    /// The layout without its tiles, tail padding and packing, as XLA's `IndexUtil` uses it to
    /// convert indices.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn untiled(shape: &ArrayShape) -> Result<Self, PhysicalError> {
        let layout = shape.layout.as_deref().map(|layout| {
            Box::new(Layout {
                minor_to_major: layout.minor_to_major.clone(),
                ..Layout::default()
            })
        });
        Self::new(&ArrayShape {
            layout,
            ..shape.clone()
        })
    }

    /// The number of elements.
    pub fn elements(&self) -> i64 {
        self.elements
    }

    /// The size of the elements alone, in bytes.
    pub fn bytes(&self) -> i64 {
        bytes(self.elements, self.element_bits)
    }

    /// The number of elements, including padding.
    pub fn padded_elements(&self) -> i64 {
        self.padded
    }

    /// The size of the buffer in bytes, including padding.
    pub fn padded_bytes(&self) -> i64 {
        bytes(self.padded, self.element_bits)
    }

    /// The bit offset of the element at a position of the buffer.
    pub fn bit_offset(&self, linear: i64) -> Option<i64> {
        linear.checked_mul(self.element_bits)
    }

    /// The dimensions after all tile levels, most major first. Their product is the number of
    /// elements before tail padding.
    pub fn physical_dims(&self) -> &[i64] {
        &self.physical
    }

    /// The position of an element in the buffer, counted in elements.
    ///
    /// # Errors
    /// The index is outside the array.
    pub fn linear_index(&self, index: &[i64]) -> Result<i64, PhysicalError> {
        let inside = index.len() == self.logical.len()
            && index
                .iter()
                .zip(&self.logical)
                .all(|(&i, &d)| (0..d).contains(&i));
        if !inside {
            return Err(PhysicalError::OutOfBounds {
                index: index.to_vec(),
                dims: self.logical.to_vec(),
            });
        }
        let mut at: Sizes = self.order.iter().map(|&d| index[d]).collect();
        for change in &self.changes {
            match change {
                Change::Lead(count) => at.insert_many(0, std::iter::repeat_n(0, *count)),
                Change::Combine { at: d, minor } => {
                    let major = at.remove(*d);
                    at[*d] += major * minor;
                }
                Change::Tile { tile, .. } => {
                    let first = at.len() - tile.len();
                    for (d, &t) in tile.iter().enumerate() {
                        at.push(at[first + d] % t);
                        at[first + d] /= t;
                    }
                }
            }
        }
        // Every partial sum is less than the padded size, which fits.
        Ok(at
            .iter()
            .zip(&self.physical)
            .fold(0, |linear, (&i, &d)| linear * d + i))
    }

    /// The element at a position of the buffer; `None` if it is padding.
    ///
    /// # Errors
    /// The position is outside the buffer.
    pub fn index_of(&self, linear: i64) -> Result<Option<Vec<i64>>, PhysicalError> {
        if !(0..self.padded).contains(&linear) {
            return Err(PhysicalError::OutOfBounds {
                index: vec![linear],
                dims: vec![self.padded],
            });
        }
        let mut at = Sizes::from_elem(0, self.physical.len());
        let mut rest = linear;
        for (slot, &size) in at.iter_mut().zip(&self.physical).rev() {
            *slot = rest % size;
            rest /= size;
        }
        // The position is in the tail padding.
        if rest != 0 {
            return Ok(None);
        }
        for change in self.changes.iter().rev() {
            match change {
                Change::Lead(count) => {
                    at.drain(..count);
                }
                Change::Combine { at: d, minor } => {
                    let combined = at[*d];
                    at[*d] = combined % minor;
                    at.insert(*d, combined / minor);
                }
                Change::Tile { sizes, tile } => {
                    let first = at.len() - 2 * tile.len();
                    for (d, (&t, &size)) in tile.iter().zip(sizes).enumerate() {
                        at[first + d] = at[first + d] * t + at[first + tile.len() + d];
                        if at[first + d] >= size {
                            return Ok(None);
                        }
                    }
                    at.truncate(first + tile.len());
                }
            }
        }
        let mut index = vec![0; self.logical.len()];
        for (&d, &i) in self.order.iter().zip(&at) {
            index[d] = i;
        }
        Ok(Some(index))
    }
}

/// The sizes of a shape's dimensions, if all are static.
fn static_sizes(shape: &ArrayShape) -> Result<Sizes, PhysicalError> {
    let known = |(i, dim): (usize, &tegula_ir::Dim)| {
        let size = dim.as_static().filter(|&size| size >= 0);
        size.ok_or(PhysicalError::NotStatic(i))
    };
    shape.dims.iter().enumerate().map(known).collect()
}

/// Checks the numeric fields other than tiles; `dims` are in physical order.
fn check_numbers(layout: &Layout, dims: &[i64]) -> Result<(), PhysicalError> {
    let numbers = [
        ("tail_padding_alignment_in_elements", layout.tail_padding),
        ("element_size_in_bits", layout.element_bits),
        ("memory_space", layout.memory_space),
        (
            "dynamic_shape_metadata_prefix_bytes",
            layout.metadata_prefix,
        ),
    ];
    if let Some(&(field, value)) = numbers.iter().find(|(_, value)| *value < 0) {
        return Err(PhysicalError::Negative { field, value });
    }
    if layout.tiles.len() > MAX_TILES {
        return Err(PhysicalError::TooManyTiles(layout.tiles.len()));
    }
    for (config, split) in layout.splits.iter().enumerate() {
        let size = usize::try_from(split.dimension)
            .ok()
            .and_then(|dimension| dims.get(dimension).copied());
        let inside = |&index: &i64| size.is_some_and(|size| (1..size).contains(&index));
        if !split.indices.iter().all(inside) || !split.indices.is_sorted_by(|a, b| a < b) {
            return Err(PhysicalError::BadSplit(config));
        }
    }
    Ok(())
}

fn major_to_minor(layout: &Layout, rank: usize) -> Result<SmallVec<[usize; 8]>, PhysicalError> {
    let order: SmallVec<[usize; 8]> = layout
        .minor_to_major
        .iter()
        .rev()
        .map(|&d| d as usize)
        .collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if sorted.iter().copied().eq(0..rank) {
        Ok(order)
    } else {
        Err(PhysicalError::NotAPermutation(rank))
    }
}

fn apply(
    dims: &mut Sizes,
    tile: &Tile,
    level: usize,
    changes: &mut Vec<Change>,
) -> Result<(), PhysicalError> {
    if tile.dims.len() > MAX_TILES {
        return Err(PhysicalError::TileTooLong { level });
    }
    if let Some(missing) = tile.dims.len().checked_sub(dims.len()).filter(|&n| n > 0) {
        dims.insert_many(0, std::iter::repeat_n(1, missing));
        changes.push(Change::Lead(missing));
    }
    let mut at = dims.len() - tile.dims.len();
    let mut sizes = Sizes::new();
    for (dim, tile_dim) in tile.dims.iter().enumerate() {
        match *tile_dim {
            TileDim::Combine if dim + 1 == tile.dims.len() => {
                return Err(PhysicalError::CombinesNothing(level));
            }
            TileDim::Combine => {
                let major = dims.remove(at);
                let minor = dims[at];
                dims[at] = major
                    .checked_mul(minor)
                    .ok_or(PhysicalError::Overflow("tiles"))?;
                changes.push(Change::Combine { at, minor });
            }
            TileDim::Size(size) if size > 0 => {
                sizes.push(size);
                at += 1;
            }
            TileDim::Size(size) => return Err(PhysicalError::BadTile { level, dim, size }),
        }
    }
    let first = dims.len() - sizes.len();
    let covered: Sizes = dims[first..].iter().copied().collect();
    for (slot, &t) in dims[first..].iter_mut().zip(&sizes) {
        *slot = (*slot / t)
            .checked_add(i64::from(*slot % t != 0))
            .ok_or(PhysicalError::Overflow("tiles"))?;
    }
    dims.extend(sizes.iter().copied());
    changes.push(Change::Tile {
        sizes: covered,
        tile: sizes,
    });
    Ok(())
}

fn product(dims: &[i64]) -> Option<i64> {
    if dims.contains(&0) {
        return Some(0);
    }
    dims.iter().try_fold(1i64, |p, &d| p.checked_mul(d))
}

fn align(size: i64, to: i64) -> Option<i64> {
    match size % to {
        0 => Some(size),
        over => size.checked_add(to - over),
    }
}

fn bytes(elements: i64, bits: i64) -> i64 {
    // `new` has checked that the product fits.
    (elements * bits + 7) / 8
}

/// The size of the largest piece along each dimension, by number, after the layout's split
/// configurations have divided the array between memories.
///
/// # Errors
/// As [`PhysicalLayout::new`]. As [`PhysicalLayout::new`].
pub fn largest_split(shape: &ArrayShape) -> Result<Vec<i64>, PhysicalError> {
    let layout = PhysicalLayout::new(shape)?;
    let mut sizes = layout.logical.to_vec();
    for split in shape.layout.iter().flat_map(|layout| &layout.splits) {
        // The dimension and the indices were checked.
        let Some(&dimension) = layout.order.get(split.dimension as usize) else {
            continue;
        };
        let ends = split
            .indices
            .iter()
            .copied()
            .chain([layout.logical[dimension]]);
        let starts = [0].into_iter().chain(split.indices.iter().copied());
        let largest = ends.zip(starts).map(|(end, start)| end - start).max();
        sizes[dimension] = sizes[dimension].min(largest.unwrap_or(sizes[dimension]));
    }
    Ok(sizes)
}
