//! Where an array's elements lie in memory under a tiled layout.
//!
//! The dimensions are put in physical order (the most major first). Each tile
//! level then replaces the last dimensions `d` that it covers by the pair
//! (`ceil(d / t)`, `t`): all numbers of tiles first, then the places within a tile.
//! A tile with more dimensions than there are finds leading dimensions of 1; a
//! `*` merges its dimension into the next more minor one before the level is
//! applied. A level sees the dimensions that the level before it made. The
//! position of an element is its row-major index over the final dimensions.

use smallvec::SmallVec;
use tegula_ir::{ArrayShape, Layout, Tile, TileDim};

type Sizes = SmallVec<[i64; 8]>;

/// Why a layout has no positions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PhysicalError {
    /// A dimension is not a known, non-negative number.
    #[error("dimension {0} has no fixed size")]
    NotStatic(usize),
    /// `minor_to_major` does not name every dimension once.
    #[error("minor_to_major is not a permutation of the {0} dimensions")]
    NotAPermutation(usize),
    /// A tile has a dimension that is not positive.
    #[error("tile {level} has the size {size} in dimension {dim}: sizes must be positive")]
    BadTile {
        /// The tile's number.
        level: usize,
        /// The dimension within the tile.
        dim: usize,
        /// Its size.
        size: i64,
    },
    /// The most minor dimension of a tile is `*`.
    #[error("tile {0} ends in `*`, which has no more minor dimension to be combined with")]
    CombinesNothing(usize),
    /// A number does not fit 64 bits.
    #[error("the padded size does not fit 64 bits")]
    Overflow,
    /// An index is not one of the array's.
    #[error("index {index:?} is not inside an array of {dims:?}")]
    OutOfBounds {
        /// The index.
        index: Vec<i64>,
        /// The array's dimensions.
        dims: Vec<i64>,
    },
}

/// One change of the dimensions on the way from logical to physical.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    /// Leading dimensions of 1 are put in front.
    Lead(usize),
    /// Dimension `at` and the next, of size `minor`, become one.
    Combine { at: usize, minor: i64 },
    /// The last dimensions, of these sizes, are tiled.
    Tile { sizes: Sizes, tile: Sizes },
}

/// An array's layout, ready to answer.
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
        let mut logical = Sizes::new();
        for (i, dim) in shape.dims.iter().enumerate() {
            let size = dim.as_static().filter(|&d| d >= 0);
            logical.push(size.ok_or(PhysicalError::NotStatic(i))?);
        }
        let default = Layout::row_major(logical.len());
        let layout = shape.layout.as_deref().unwrap_or(&default);
        let order = major_to_minor(layout, logical.len())?;
        let mut dims: Sizes = order.iter().map(|&d| logical[d]).collect();
        let mut changes = Vec::new();
        for (level, tile) in layout.tiles.iter().enumerate() {
            apply(&mut dims, tile, level, &mut changes)?;
        }
        let elements = product(&logical)?;
        let padded = align(product(&dims)?, layout.tail_padding.max(1))?;
        let element_bits = match layout.element_bits {
            0 => 8 * shape.element_type.storage_bytes() as i64,
            bits => bits,
        };
        padded
            .checked_mul(element_bits)
            .ok_or(PhysicalError::Overflow)?;
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

    /// The number of elements.
    pub fn elements(&self) -> i64 {
        self.elements
    }

    /// The bytes of the elements alone.
    pub fn bytes(&self) -> i64 {
        bytes(self.elements, self.element_bits)
    }

    /// The number of elements with padding.
    pub fn padded_elements(&self) -> i64 {
        self.padded
    }

    /// The bytes of the buffer, padding included.
    pub fn padded_bytes(&self) -> i64 {
        bytes(self.padded, self.element_bits)
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
        // Every partial sum is below the padded size, which fits.
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
        // What is left over lies in the tail padding.
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
                dims[at] = major.checked_mul(minor).ok_or(PhysicalError::Overflow)?;
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
            .ok_or(PhysicalError::Overflow)?;
    }
    dims.extend(sizes.iter().copied());
    changes.push(Change::Tile {
        sizes: covered,
        tile: sizes,
    });
    Ok(())
}

fn product(dims: &[i64]) -> Result<i64, PhysicalError> {
    if dims.contains(&0) {
        return Ok(0);
    }
    dims.iter()
        .try_fold(1i64, |p, &d| p.checked_mul(d))
        .ok_or(PhysicalError::Overflow)
}

fn align(size: i64, to: i64) -> Result<i64, PhysicalError> {
    match size % to {
        0 => Ok(size),
        over => size.checked_add(to - over).ok_or(PhysicalError::Overflow),
    }
}

fn bytes(elements: i64, bits: i64) -> i64 {
    // The product was checked to fit.
    (elements * bits + 7) / 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use tegula_ir::{Shape, parse_shape};

    fn layout(text: &str) -> PhysicalLayout {
        let Ok(Shape::Array(array)) = parse_shape(text) else {
            panic!("{text}")
        };
        PhysicalLayout::new(&array).unwrap()
    }

    #[test]
    fn figure_1_of_the_tiled_layout_document() {
        let layout = layout("f32[3,5]{1,0:T(2,2)}");
        assert_eq!(layout.linear_index(&[2, 3]), Ok(17));
        assert_eq!(layout.padded_elements(), 24);
    }

    #[test]
    fn published_positions() {
        assert_eq!(layout("f32[8]{0:T(2,2)}").linear_index(&[5]), Ok(9));
        let bf16 = layout("bf16[2048]{0:T(1024)(128)(2,1)}");
        assert_eq!(bf16.linear_index(&[128]), Ok(1));
        assert_eq!(bf16.linear_index(&[1]), Ok(2));
        let tiled = layout("bf16[2,8,128]{2,1,0:T(8,128)(2,1)}");
        assert_eq!(tiled.linear_index(&[0, 2, 0]), Ok(256));
        assert_eq!(layout("f32[3]{0:T(8,128)}").linear_index(&[2]), Ok(2));
        assert_eq!(layout("f32[8,4]{1,0:T(2,2)}").linear_index(&[3, 1]), Ok(11));
    }

    #[test]
    fn published_padded_sizes() {
        for (shape, bytes) in [
            ("s32[8388608,8,4]{2,1,0:T(8,128)}", 32 << 30),
            ("bf16[2048,1,2048,128]{0,1,3,2:T(4,128)(2,1)}", 4 << 30),
            ("bf16[128,4096,352]{2,1,0:T(16,128)(2,1)}", 384 << 20),
            ("f32[128,3]{1,0:T(8,128)}", 64 << 10),
            ("f32[256,512,128,2]{3,2,1,0:T(8,128)}", 8 << 30),
            ("bf16[512,16,3072]{2,1,0:T(8,128)(2,1)}", 48 << 20),
            ("u8[327680,327680]{1,0:T(8,128)(4,1)}", 107_374_182_400),
        ] {
            assert_eq!(layout(shape).padded_bytes(), bytes, "{shape}");
        }
    }

    #[test]
    fn combined_dimensions_of_the_document() {
        let combined = layout("f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}");
        let flat = layout("f32[112,110]{1,0:T(2,3)}");
        assert_eq!(combined.padded_elements(), flat.padded_elements());
        for index in [[0, 0, 0, 0, 0], [1, 6, 7, 10, 9], [0, 3, 5, 2, 7]] {
            let row = (index[0] * 7 + index[1]) * 8 + index[2];
            let column = index[3] * 10 + index[4];
            assert_eq!(
                combined.linear_index(&index),
                flat.linear_index(&[row, column])
            );
        }
    }

    #[test]
    fn inverse_inverts_and_padding_has_no_element() {
        for text in [
            "f32[3,5]{1,0:T(2,2)}",
            "f32[4,8]{1,0:T(2,4)(2,1)}",
            "bf16[5,7,9]{0,2,1:T(4,3)(2,1)L(16)}",
            "f32[2,3,4,5]{3,2,1,0:T(*,2,*,3)}",
            "f32[7]{0:T(2,2)}",
            "u32[]{:T(128)}",
        ] {
            let layout = layout(text);
            let mut found = 0;
            for linear in 0..layout.padded_elements() {
                if let Some(index) = layout.index_of(linear).unwrap() {
                    assert_eq!(layout.linear_index(&index), Ok(linear), "{text}");
                    found += 1;
                }
            }
            assert_eq!(found, layout.elements(), "{text}");
        }
    }
}
