//! How a buffer is stored in its memory: sizes, tiles, and the position of each element's bits.

use crate::program::{Buffer, Space};
use smallvec::SmallVec;
use tegula_ir::{ElementType, Layout, TileDim};
use tegula_layout::physical::{Digit, PhysicalLayout};
use tegula_target::Chip;

/// A buffer's layout on a chip.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub(crate) dims: SmallVec<[i64; 4]>,
    pub(crate) element_type: ElementType,
    /// The tile's size along each dimension; 1 where the layout has no tile.
    pub(crate) tile: SmallVec<[i64; 4]>,
    /// The dimension along the lanes, and the one along the sublanes.
    pub(crate) lanes: Option<usize>,
    pub(crate) sublanes: Option<usize>,
    pub(crate) layout: PhysicalLayout,
    pub(crate) digits: Option<Vec<Digit>>,
    /// Bits of an element in memory: 1, 2, 4 or a multiple of 8.
    pub(crate) bits: i64,
    /// Bytes in memory, padding included.
    pub(crate) bytes: i64,
    /// Bytes of the elements alone.
    pub(crate) useful: i64,
}

impl Geometry {
    /// The layout that the buffer states, or the chip's default. SMEM holds consecutive words.
    pub(crate) fn new(buffer: &Buffer, chip: &Chip) -> Result<Self, String> {
        let mut shape = buffer.shape.clone();
        let dims = shape.static_dims().ok_or("its size is not known")?;
        if shape.layout.is_none() {
            let layout = if buffer.space == Space::Smem {
                Layout::row_major(dims.len())
            } else {
                chip.default_layout(shape.element_type.bits(), &dims)
                    .map_err(|error| format!("{error}; state the layout, or `--set tile_rule=compact` for that of later chips"))?
            };
            shape.layout = Some(Box::new(layout));
        }
        let layout = PhysicalLayout::new(&shape).map_err(|error| error.to_string())?;
        let bits = layout.bit_offset(1).unwrap_or(0);
        if !matches!(bits, 1 | 2 | 4) && (bits % 8 != 0 || bits == 0) {
            return Err(format!("elements of {bits} bits are not simulated"));
        }
        if bits < i64::from(shape.element_type.bits()) {
            return Err(format!("{bits} bits do not hold a {}", shape.element_type));
        }
        let stated = shape.layout.as_deref();
        let (tile, order) = tile(stated, dims.len());
        let tiled = stated.is_some_and(|layout| !layout.tiles.is_empty());
        Ok(Self {
            dims: dims.as_slice().into(),
            element_type: shape.element_type,
            tile,
            lanes: order.first().copied().filter(|_| tiled),
            sublanes: order.get(1).copied().filter(|_| tiled),
            digits: layout.digits(),
            bits,
            bytes: layout.padded_bytes(),
            useful: layout.bytes(),
            layout,
        })
    }

    /// The size of a dimension, padded to whole tiles.
    pub(crate) fn padded(&self, dimension: usize) -> i64 {
        let (size, tile) = (self.dims[dimension], self.tile[dimension]);
        size.checked_add(tile - 1)
            .map_or(size, |up| up / tile * tile)
    }

    /// The bytes of the tiles that a box covers.
    pub(crate) fn tile_bytes(&self, low: &[i64], high: &[i64]) -> i64 {
        let ends = low.iter().zip(high).zip(&self.tile);
        let elements = ends.fold(1i64, |product, ((low, high), tile)| {
            let (first, end) = (low / tile, (high + tile - 1) / tile);
            product.saturating_mul((end - first).max(0).saturating_mul(*tile))
        });
        elements.saturating_mul(self.bits).saturating_add(7) / 8
    }

    /// The bytes of the rows of a box with these sizes. Rows are padded to whole tiles along the
    /// lanes, and narrow types to the rows that share words of 32 bits. So rows that are copied one
    /// by one have as many bytes as all of them together.
    pub(crate) fn row_bytes(&self, sizes: &[i64]) -> i64 {
        let sizes = sizes.iter().zip(&self.tile).enumerate();
        let elements = sizes.fold(1i64, |product, (d, (size, &tile))| {
            let unit = match self.sublanes == Some(d) {
                true => (32 / self.bits).clamp(1, tile),
                false => tile,
            };
            let padded = size.max(&0).saturating_add(unit - 1) / unit * unit;
            product.saturating_mul(padded)
        });
        elements.saturating_mul(self.bits).saturating_add(7) / 8
    }

    /// The bytes of an element on the host.
    pub(crate) fn host_bytes(&self) -> usize {
        self.element_type.storage_bytes()
    }
}

/// The first tile's size along each dimension, and the dimensions, most minor first.
fn tile(layout: Option<&Layout>, rank: usize) -> (SmallVec<[i64; 4]>, SmallVec<[usize; 4]>) {
    let mut sizes = SmallVec::from_elem(1, rank);
    let Some(layout) = layout else {
        return (sizes, (0..rank).rev().collect());
    };
    let order: SmallVec<[usize; 4]> = layout.minor_to_major.iter().map(|&d| d as usize).collect();
    if let Some(tile) = layout.tiles.first() {
        // A tile that combines dimensions is a tile along none of them.
        let plain = tile.dims.iter().all(|d| matches!(d, TileDim::Size(_)));
        for (dim, &d) in tile.dims.iter().rev().zip(&order) {
            if let (TileDim::Size(size), Some(slot), true) = (dim, sizes.get_mut(d), plain) {
                *slot = (*size).max(1);
            }
        }
    }
    (sizes, order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Role;
    use tegula_ir::{ArrayShape, ElementType};

    fn geometry(element_type: ElementType, dims: &[i64]) -> Geometry {
        let buffer = Buffer {
            name: "x".to_owned(),
            space: Space::Hbm,
            shape: ArrayShape::new(element_type, dims),
            role: Role::Scratch,
            offset: None,
            program_lifetime: false,
        };
        let chip = Chip::by_name("v6e").expect("the chip is part of the crate");
        Geometry::new(&buffer, &chip).expect("the shape is static")
    }

    #[test]
    fn rows_have_as_many_bytes_as_the_words_that_hold_them() {
        use ElementType::{BF16, F32, S8};
        // Lanes are padded to 128; rows to 1, 2 or 4, which share a word.
        for (element_type, rows, bytes) in [
            (F32, 1, 512),
            (F32, 5, 5 * 512),
            (F32, 40, 40 * 512),
            (BF16, 1, 512),
            (BF16, 2, 512),
            (BF16, 5, 3 * 512),
            (S8, 4, 512),
            (S8, 40, 10 * 512),
            (F32, 0, 0),
            (F32, -1, 0),
        ] {
            let geometry = geometry(element_type, &[3, 40, 100]);
            assert_eq!(
                geometry.row_bytes(&[1, rows, 100]),
                bytes,
                "{element_type}[{rows}, 100]"
            );
            assert_eq!(geometry.row_bytes(&[2, rows, 100]), 2 * bytes);
        }
        assert_eq!(geometry(F32, &[3]).row_bytes(&[i64::MAX]), i64::MAX / 8);
    }
}
