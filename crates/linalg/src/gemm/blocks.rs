//! Cache blocking of a part of a product: the sizes of blocks, and the scratch memory they need.

use super::geometry::{MAX_DEPTH, TOGETHER, depth_count, share};
use super::unpacked::InPlace;
use super::{Product, Side, Table};
use crate::microkernels::long_rows::sums_bytes;
use crate::microkernels::pack::Lanes;
use crate::microkernels::packed_tile::TileKernel;
use core::ops::Range;

/// The maximum size, in bytes, of a left operand that is packed whole.
pub(super) const MAX_RESIDENT: usize = 3 << 18;
/// The maximum number of rows of a block.
const MAX_ROWS: usize = 2048;
/// Bytes of a block of a left operand that is not packed whole: the block stays in the second-level
/// cache while right panels stream through.
const MAX_LEFT: usize = 1 << 19;
/// The maximum number of depth blocks for which such a block of rows is packed at once.
const MAX_TOGETHER: usize = 2;
/// Bytes of packed right panels.
const MAX_RIGHT: usize = 4 << 20;

/// Bytes of the lane offsets of this many columns, at most [`TOGETHER`].
fn lanes_bytes(tile: TileKernel, columns: usize) -> usize {
    columns.min(TOGETHER).div_ceil(tile.width()) * size_of::<Lanes>()
}

/// The blocking of a part of a product.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    /// Units of the whole depth.
    pub(super) units: usize,
    /// The number of depth blocks.
    pub(super) depths: usize,
    /// The number of depth blocks for which the left operand is packed at once, if not for all.
    pub(super) together: usize,
    /// Whether the left operand's rows of a block are packed over the whole depth.
    pub(super) resident: bool,
    /// Rows of a block.
    pub(super) rows: usize,
    /// Columns whose right panels are packed together.
    pub(super) columns: usize,
    pub(super) left_bytes: usize,
    pub(super) right_bytes: usize,
    /// Bytes of the sums of a block that cannot be stored in the result.
    pub(super) sums_bytes: usize,
    pub(super) unit_bytes: usize,
    /// Bytes of the lane offsets of the right panels that are packed together.
    lanes_bytes: usize,
    /// Bytes of the offsets of a block's rows, in the left operand and in the result.
    places_bytes: usize,
}

impl Blocks {
    pub(super) fn new(product: &Product, table: &Table, rows: usize, columns: usize) -> Self {
        let (tile, unit_bytes) = (table.tile, table.arithmetic.bytes());
        let run_units = product.sizes.run.div_ceil(table.arithmetic.step());
        let units = run_units * product.sizes.runs;
        let (in_place, kept) = (product.in_place(table), product.kept_for(table));
        let depths = match in_place {
            Some(in_place) => in_place.depth_count(units),
            None => depth_count(units, MAX_DEPTH),
        };
        let depth = units.div_ceil(depths);
        let together = depths.min(MAX_TOGETHER);
        let width = tile.width();
        let resident = rows
            .min(MAX_ROWS)
            .saturating_mul(units)
            .saturating_mul(unit_bytes)
            <= MAX_RESIDENT;
        let (block_rows, block_columns, left_units, right_units) = if product.dots.is_some() {
            (rows, 0, rows * units, 0)
        } else if let Some(in_place) = in_place {
            in_place.blocks([rows, columns, depth], width, unit_bytes)
        } else if resident {
            // Prepacked tiles cannot be divided.
            let most = match kept {
                Some(Side::Left) => MAX_ROWS / tile.rows * tile.rows,
                _ => MAX_ROWS,
            };
            let block = rows.min(most);
            let chunk = TOGETHER.min(columns.next_multiple_of(width));
            (block, chunk, block * units, chunk * depth)
        } else {
            let most = (MAX_RIGHT / unit_bytes / units.max(1)).max(width) / width * width;
            let chunk = most.min(columns.next_multiple_of(width));
            let fit = MAX_LEFT / unit_bytes / (depth * together).max(1) / tile.rows;
            let block = rows.min(fit.max(1) * tile.rows);
            (block, chunk, block * depth * together, chunk * units)
        };
        let left_units = if kept == Some(Side::Left) {
            0
        } else {
            left_units
        };
        let right_units = if kept == Some(Side::Right) {
            0
        } else {
            right_units
        };
        let staged = !table.same && depths > 1;
        let sums = if staged {
            block_rows * block_columns
        } else {
            0
        };
        let sums_bytes = match product.long_rows {
            Some(_) => sums_bytes(product.element_bytes[1], columns),
            None => sums * unit_bytes,
        };
        // Vectors are stored whole; the excess needs room after the end.
        let aligned = |bytes: usize| (bytes + 64).next_multiple_of(64);
        Self {
            units,
            depths,
            together,
            resident,
            rows: block_rows,
            columns: block_columns,
            left_bytes: aligned(left_units * unit_bytes),
            right_bytes: aligned(right_units * unit_bytes),
            sums_bytes: aligned(sums_bytes),
            unit_bytes,
            lanes_bytes: match in_place.is_some_and(InPlace::reads_right) || block_columns == 0 {
                true => 0,
                false => aligned(lanes_bytes(tile, block_columns)),
            },
            places_bytes: match in_place {
                Some(_) => aligned(2 * block_rows * size_of::<isize>()),
                None => 0,
            },
        }
    }

    /// The same blocking, with room for packing a whole operand at once and without room for
    /// panels.
    pub(super) fn packing_all(self, table: &Table) -> Self {
        Self {
            left_bytes: 0,
            right_bytes: 0,
            sums_bytes: 0,
            lanes_bytes: lanes_bytes(table.tile, TOGETHER),
            places_bytes: 0,
            ..self
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.places() + self.places_bytes
    }

    /// The offset of the lanes in the scratch memory, after panels and sums.
    pub(super) fn lanes(&self) -> usize {
        self.left_bytes + self.right_bytes + self.sums_bytes
    }

    /// The offset of the row offsets in the scratch memory.
    pub(super) fn places(&self) -> usize {
        self.lanes() + self.lanes_bytes
    }

    /// The units of a depth block.
    pub(super) fn depth(&self, block: usize) -> Range<usize> {
        share(self.units, self.depths, block)
    }
}
