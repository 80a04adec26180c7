//! The loops over blocks, panels and tiles of a product with packed operands.

use super::geometry::{chunks, fill_offsets};
use super::packing::Panel;
use super::{Side, Worker};
use crate::microkernels::pack::MAX_LANES;
use crate::microkernels::packed_tile::Target;
use crate::microkernels::store::Stored;
use crate::thread_pool::is_stopped;
use core::ops::Range;

/// The maximum size of a tile, in bytes.
const TILE_BYTES: usize = 14 * 32 * 8;

/// The rows and columns whose sums are stored together.
struct Block {
    rows: Range<usize>,
    columns: Range<usize>,
    sums_stride: usize,
}

struct Tile<'a> {
    block: &'a Block,
    rows: Range<usize>,
    columns: Range<usize>,
    row_offsets: &'a [isize],
    column_offsets: Option<&'a [isize]>,
    first_column: isize,
    units: usize,
    /// The number of the depth block.
    depth: usize,
}

impl Worker<'_> {
    /// Packs a block of the left operand over the whole depth, and right panels as they are used.
    ///
    /// # Safety
    /// As [`Self::matrix`].
    pub(super) unsafe fn left_first(&mut self, rows: &Range<usize>, columns: &Range<usize>) {
        let width = self.table.tile.width();
        for block in chunks(rows, self.blocks.rows) {
            for depth in 0..self.blocks.depths {
                let units = self.blocks.depth(depth);
                let target = self.left_panel(&block, &units, units.start);
                if !self.keeps(Side::Left) {
                    // SAFETY: the caller promises pointers to arrays that contain every element the
                    // axes reach, and that no other worker has these rows and columns; the block
                    // fits.
                    unsafe { self.pack_left(&block, &units, target) };
                }
            }
            for chunk in chunks(columns, self.blocks.columns) {
                let block = Block {
                    rows: block.clone(),
                    columns: chunk.clone(),
                    sums_stride: self.blocks.columns,
                };
                for depth in 0..self.blocks.depths {
                    if is_stopped() {
                        return;
                    }
                    let units = self.blocks.depth(depth);
                    let left = self.left_panel(&block.rows, &units, units.start);
                    // SAFETY: the caller promises pointers to arrays that contain every element the
                    // axes reach, and that no other worker has these rows and columns; the block
                    // fits.
                    unsafe {
                        if !self.keeps(Side::Right) {
                            self.pack_right(&chunk, &units, 0);
                        }
                        for panel in chunks(&chunk, width) {
                            let right = self.right_panel(&chunk, &panel, &units, 0);
                            self.row_tiles(&block, &panel, depth, left, right);
                        }
                    }
                }
            }
        }
    }

    /// Packs right panels over the whole depth, and multiplies blocks of the left operand by all of
    /// them.
    ///
    /// # Safety
    /// As [`Self::matrix`].
    pub(super) unsafe fn right_first(&mut self, rows: &Range<usize>, columns: &Range<usize>) {
        for chunk in chunks(columns, self.blocks.columns) {
            for depth in 0..self.blocks.depths {
                let units = self.blocks.depth(depth);
                if !self.keeps(Side::Right) {
                    // SAFETY: the caller promises pointers to arrays that contain every element the
                    // axes reach, and that no other worker has these rows and columns; the panels
                    // of a chunk fit.
                    unsafe { self.pack_right(&chunk, &units, units.start) };
                }
            }
            // Equal blocks: a small last block would read all panels for little work.
            for rows in self.row_pieces(rows, self.blocks.rows) {
                let block = Block {
                    rows: rows.clone(),
                    columns: chunk.clone(),
                    sums_stride: self.blocks.columns,
                };
                for depths in chunks(&(0..self.blocks.depths), self.blocks.together) {
                    if is_stopped() {
                        return;
                    }
                    // SAFETY: the caller promises pointers to arrays that contain every element the
                    // axes reach, and that no other worker has these rows and columns; the panels
                    // of a chunk fit.
                    unsafe { self.right_panels(&block, depths) };
                }
            }
        }
    }

    /// Packs a block of the left operand over some depth blocks, and multiplies it by all panels:
    /// the sums to add to are still in the cache.
    ///
    /// # Safety
    /// As [`Self::matrix`]; the right panels are packed.
    unsafe fn right_panels(&mut self, block: &Block, depths: Range<usize>) {
        let from = self.blocks.depth(depths.start).start;
        for depth in depths.clone() {
            let units = self.blocks.depth(depth);
            let left = self.left_panel(&block.rows, &units, units.start - from);
            if !self.keeps(Side::Left) {
                // SAFETY: the caller promises pointers to arrays that contain every element the
                // axes reach, and that no other worker has these rows and columns; the block fits.
                unsafe { self.pack_left(&block.rows, &units, left) };
            }
        }
        for panel in chunks(&block.columns, self.table.tile.width()) {
            for depth in depths.clone() {
                let units = self.blocks.depth(depth);
                let left = self.left_panel(&block.rows, &units, units.start - from);
                let right = self.right_panel(&block.columns, &panel, &units, units.start);
                // SAFETY: the panels are packed.
                unsafe { self.row_tiles(block, &panel, depth, left, right) };
            }
        }
    }

    /// Computes a block's tiles in the columns of one right panel.
    ///
    /// # Safety
    /// As [`Self::matrix`]; the panels are packed.
    unsafe fn row_tiles(
        &self,
        block: &Block,
        panel: &Range<usize>,
        depth: usize,
        left: *const u8,
        right: Panel,
    ) {
        let units = self.blocks.depth(depth).len();
        let mut column_table = [0isize; MAX_LANES];
        let column_offsets = &mut column_table[..panel.len()];
        fill_offsets(
            &self.product.axes.columns,
            panel.start,
            |a| a.out,
            column_offsets,
        );
        let first = column_offsets.first().copied().unwrap_or(0);
        let contiguous = column_offsets
            .iter()
            .enumerate()
            .all(|(i, &offset)| offset == first + i as isize);
        for rows in self.row_pieces(&block.rows, self.table.tile.rows) {
            let mut row_table = [0isize; MAX_LANES];
            let row_offsets = &mut row_table[..rows.len()];
            fill_offsets(&self.product.axes.rows, rows.start, |a| a.out, row_offsets);
            let before = (rows.start - block.rows.start) * units * self.blocks.unit_bytes;
            let tile = Tile {
                block,
                rows,
                columns: panel.clone(),
                row_offsets,
                column_offsets: (!contiguous).then_some(&*column_offsets),
                first_column: if contiguous { first } else { 0 },
                units,
                depth,
            };
            // SAFETY: the caller promises pointers to arrays that contain every element the axes
            // reach, and that no other worker has these rows and columns.
            unsafe { self.tile(&tile, left.wrapping_add(before), right) };
        }
    }

    /// Computes one tile over one depth block.
    ///
    /// # Safety
    /// As [`Self::row_tiles`].
    unsafe fn tile(&self, tile: &Tile<'_>, left: *const u8, right: Panel) {
        let table = self.table;
        let (first, last) = (tile.depth == 0, tile.depth + 1 == self.blocks.depths);
        let adds = self.product.adds || !first;
        let vectors = tile.columns.len().div_ceil(table.tile.lanes);
        let whole = tile.columns.len() == vectors * table.tile.lanes;
        let out = self.product.place(self.arrays.out, 2, tile.first_column);
        let compute = |target: &Target| {
            let (rows, units) = (tile.rows.len(), tile.units);
            // SAFETY: the panels have this many groups, and the target has room.
            unsafe {
                (table.tile.function)(
                    rows,
                    vectors,
                    units,
                    left,
                    right.start,
                    right.stride,
                    target,
                );
            }
        };
        if table.same && whole && tile.column_offsets.is_none() {
            let (rows, add) = (tile.row_offsets.as_ptr(), adds);
            return compute(&Target { out, rows, add });
        }
        let staged = !table.same && self.blocks.depths > 1;
        let mut local = core::mem::MaybeUninit::<[u64; TILE_BYTES / 8]>::uninit();
        let (sums, stride) = if staged {
            let block = tile.block;
            let before = (tile.rows.start - block.rows.start) * block.sums_stride
                + (tile.columns.start - block.columns.start);
            let place = self.sums().wrapping_add(before * self.blocks.unit_bytes);
            (place, block.sums_stride)
        } else {
            (local.as_mut_ptr().cast::<u8>(), table.tile.width())
        };
        let places: [isize; MAX_LANES] = core::array::from_fn(|i| (i * stride) as isize);
        compute(&Target {
            out: sums,
            rows: places.as_ptr(),
            add: staged && !first,
        });
        if staged && !last {
            return;
        }
        let stored = Stored {
            source: sums,
            stride,
            columns: tile.columns.len(),
            out,
            row_offsets: tile.row_offsets,
            column_offsets: tile.column_offsets,
            add: table.same && adds,
        };
        // SAFETY: the sums were computed; the offsets are the result's.
        unsafe { (table.store)(&stored) };
    }
}
