//! Products of a few rows, whose right operand is read once and not packed.

use super::blocks::MAX_RESIDENT;
use super::geometry::{chunks, fill_offsets, tiles};
use super::{Axes, Side, Sizes, Types, Worker};
use crate::kernels::pack::MAX_LANES;
use crate::kernels::rows::{COLUMNS, Dots, DotsFn, MAX_ROWS, dots_function};
use crate::kernels::store::Stored;
use crate::kernels::tile::{Arithmetic, Target};
use crate::kernels::{Isa, Width};
use std::mem::MaybeUninit;
use std::ops::Range;

/// The most rows of a product that is computed along the rows of its right operand.
const ALONG_ROWS: usize = 64;
/// The most of them without vectors of 512 bits.
const ALONG_ROWS_NARROW: usize = 2;
/// The least depth for it: one vector.
const ALONG_DEPTH: usize = 16;

/// The function for a product of few rows whose right operand is contiguous along
/// the depth: packing it would cost more than multiplying.
pub(super) fn dots(
    isa: Isa,
    types: Types,
    axes: &Axes,
    sizes: Sizes,
    arithmetic: Arithmetic,
) -> Option<DotsFn> {
    let &[depth] = &axes.depth[..] else {
        return None;
    };
    let packed = sizes.rows.checked_mul(sizes.depth)?.checked_mul(8)?;
    let most = match isa.width {
        Width::Avx512 => ALONG_ROWS,
        Width::Portable | Width::Avx2 => ALONG_ROWS_NARROW,
    };
    let possible = sizes.rows <= most && packed <= MAX_RESIDENT;
    if !possible || depth.rhs != 1 || depth.size < ALONG_DEPTH {
        return None;
    }
    // Packing takes so many times 1.5 ps for an element. Along the rows, adding the
    // lanes of a sum takes 1.2 ns, and multiplying 1.5 ps more than in a tile.
    let packing = match arithmetic {
        Arithmetic::Bf16Pairs => 33,
        _ => 133,
    };
    if sizes.rows * (800 + depth.size) > packing * depth.size {
        return None;
    }
    match arithmetic {
        Arithmetic::F32 | Arithmetic::F64 | Arithmetic::Bf16Pairs => dots_function(isa, types[1]),
        _ => None,
    }
}

impl Worker<'_> {
    /// Computes a product of few rows along those of the right operand.
    ///
    /// # Safety
    /// As [`Self::matrix`]; the function is the product's.
    pub(super) unsafe fn along_rows(
        &mut self,
        function: DotsFn,
        rows: &Range<usize>,
        columns: &Range<usize>,
    ) {
        let (axes, depth) = (&self.product.axes, self.blocks.units);
        let unit_bytes = self.blocks.unit_bytes;
        let (first, start) = (self.left(), rows.start);
        let left = |row: usize| first.wrapping_add((row - start) * depth * unit_bytes);
        for row in rows.clone() {
            let (lanes, target) = (self.lanes(Side::Left, &(row..row + 1)), left(row));
            // SAFETY: the caller's promise; there is room for all rows.
            unsafe { self.pack(Side::Left, &lanes, &(0..depth), target, 1) };
        }
        let mut row_table = [0isize; ALONG_ROWS];
        let row_offsets = &mut row_table[..rows.len()];
        fill_offsets(&axes.rows, rows.start, |a| a.out, row_offsets);
        let mut sums = MaybeUninit::<[u64; ALONG_ROWS * MAX_LANES]>::uninit();
        let sums = sums.as_mut_ptr().cast::<u8>();
        for chunk in chunks(columns, MAX_LANES) {
            let (mut rhs, mut out) = ([0isize; MAX_LANES], [0isize; MAX_LANES]);
            let (rhs, out) = (&mut rhs[..chunk.len()], &mut out[..chunk.len()]);
            fill_offsets(&axes.columns, chunk.start, |a| a.rhs, rhs);
            fill_offsets(&axes.columns, chunk.start, |a| a.out, out);
            for (i, columns) in rhs.chunks(COLUMNS).enumerate() {
                for part in tiles(&(0..rows.len()), MAX_ROWS) {
                    let place = part.start * MAX_LANES + i * COLUMNS;
                    let dots = Dots {
                        lhs: left(start + part.start),
                        rows: part.len(),
                        depth,
                        rhs: self.arrays.rhs,
                        columns,
                        sums: sums.wrapping_add(place * unit_bytes),
                        stride: MAX_LANES,
                    };
                    // SAFETY: the rows were packed, the columns are the operand's,
                    // and there is room for the sums.
                    unsafe { function(&dots) };
                }
            }
            let stored = Stored {
                source: sums,
                stride: MAX_LANES,
                columns: chunk.len(),
                out: self.arrays.out,
                row_offsets,
                column_offsets: Some(out),
                add: false,
            };
            // SAFETY: the sums were computed; the offsets are the result's.
            unsafe { (self.table.store)(&stored) };
        }
    }

    /// Computes columns of a few rows from the right operand as it lies in memory,
    /// where it can be; gives the columns that are left.
    ///
    /// # Safety
    /// As [`Self::matrix`]; the left panels are packed.
    pub(super) unsafe fn in_place(
        &self,
        rows: &Range<usize>,
        columns: &Range<usize>,
    ) -> Range<usize> {
        let (axes, table) = (&self.product.axes, self.table);
        let vectors = table.tile.wide(rows.len());
        let (&[column], &[depth]) = (&axes.columns[..], &axes.depth[..]) else {
            return columns.clone();
        };
        let neighbours = (column.rhs, column.out) == (1, 1) && depth.rhs >= 0;
        let units = table.same
            && table.arithmetic.step() == 1
            && self.product.element_bytes[1] == self.blocks.unit_bytes;
        if vectors == 0 || !neighbours || !units {
            return columns.clone();
        }
        let width = vectors * table.tile.lanes;
        let mut row_table = [0isize; MAX_LANES];
        fill_offsets(
            &axes.rows,
            rows.start,
            |a| a.out,
            &mut row_table[..rows.len()],
        );
        let mut left = columns.clone();
        while left.len() >= width {
            for block in 0..self.blocks.depths {
                let units = self.blocks.depth(block);
                let first = left.start as isize;
                let right = first + units.start as isize * depth.rhs;
                let target = Target {
                    out: self.product.place(self.arrays.out, 2, first),
                    rows: row_table.as_ptr(),
                    add: block > 0,
                };
                let packed = self.left_panel(rows, units.start);
                let right = self.product.place(self.arrays.rhs, 1, right);
                let stride = depth.rhs.unsigned_abs();
                // SAFETY: the columns are whole vectors that the operand and the
                // result have.
                unsafe {
                    let function = table.tile.function;
                    function(
                        rows.len(),
                        vectors,
                        units.len(),
                        packed,
                        right,
                        stride,
                        &target,
                    );
                }
            }
            left.start += width;
        }
        left
    }
}
