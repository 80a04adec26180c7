//! Products with few rows, whose right operand is read once and not packed.

use super::blocks::MAX_RESIDENT;
use super::geometry::{chunks, element_count, fill_offsets, tiles};
use super::{Axes, Side, Sizes, Types, Worker};
use crate::microkernels::dot_rows::{COLUMNS, Dots, DotsFn, MAX_ROWS, dots_function};
use crate::microkernels::gemv::long_rows_function;
use crate::microkernels::long_rows::{LongRows, LongRowsFn, NEAR, Order};
use crate::microkernels::pack::MAX_LANES;
use crate::microkernels::packed_tile::Arithmetic;
use crate::microkernels::store::Stored;
use crate::microkernels::strided_tile::MATRIX_ROWS;
use crate::microkernels::{CpuFeatures, VectorWidth};
use core::mem::MaybeUninit;
use core::ops::Range;

/// The maximum number of rows of a product that is computed along the rows of its right operand.
const ALONG_ROWS: usize = 64;
/// [`ALONG_ROWS`] for portable code, which the compiler vectorises.
const ALONG_ROWS_NARROW: usize = 2;
/// The minimum depth (size of the contracted dimension) of a product that is computed along the
/// rows of its right operand: the lanes of one vector.
const ALONG_DEPTH: usize = 16;

/// A right operand of at least this many bytes does not stay in a cache between runs.
const FAR_BYTES: usize = 16 << 20;
/// A right operand of at least this many bytes does not fit the second-level cache.
const MIDDLE_BYTES: usize = 1 << 20;
/// Columns of a panel. A matrix with fewer columns is read sequentially by panels, too.
const PANEL: usize = 256;
/// The associativity of a first-level cache of 32 KiB. With 48 KiB and 12 ways (Zen 5), panels read
/// operands in nearby caches at full speed.
const FEW_WAYS: usize = 8;

/// Bytes of a product's right operand.
fn matrix_bytes(element: usize, sizes: Sizes) -> usize {
    let numbers = sizes.depth.saturating_mul(sizes.columns);
    numbers.saturating_mul(element)
}

/// The function for a product with one row and a large right operand, whose columns are contiguous
/// in the right operand and in the result.
#[inline(always)]
pub(super) fn long_rows(
    isa: CpuFeatures,
    types: Types,
    axes: &Axes,
    sizes: Sizes,
) -> Option<LongRowsFn> {
    let (&[_], &[column]) = (&axes.depth[..], &axes.columns[..]) else {
        return None;
    };
    let bytes = matrix_bytes(types[1].storage_bytes(), sizes);
    let middle = bytes > MIDDLE_BYTES && isa.first_level_ways() <= FEW_WAYS;
    let suits = sizes.rows == 1
        && (column.rhs, column.out) == (1, 1)
        && (bytes > FAR_BYTES || middle && sizes.columns > PANEL);
    suits.then(|| long_rows_function(isa, types)).flatten()
}

/// Whether a product with one row should multiply each column alone, reading the right operand
/// sequentially, rather than several columns side by side.
#[inline(always)]
pub(super) fn sequential(isa: CpuFeatures, types: Types, sizes: Sizes) -> bool {
    let element = types[1].storage_bytes();
    // Widening 16-bit floats takes longer than reading them from the third-level cache.
    let from = match element {
        2 => FAR_BYTES,
        _ => MIDDLE_BYTES,
    };
    sizes.rows == 1
        // The left row must stay in the first-level cache while this many bytes stream through.
        && (16 * ALONG_DEPTH..=4 * NEAR / element.max(4)).contains(&sizes.depth)
        && matrix_bytes(element, sizes) > from
        && isa.first_level_ways() <= FEW_WAYS
}

/// The order in which to read a matrix of `f32`, given its size in bytes, its columns and the
/// stride of its rows.
fn order(bytes: usize, columns: usize, stride: isize) -> Order {
    let whole = columns as isize == stride && columns <= NEAR;
    match stride.unsigned_abs() {
        _ if bytes > FAR_BYTES => Order::Eight,
        // If every other row's sums cross a cache line, this costs little compared with reading; if
        // all rows' do, it costs too much.
        stride if whole && stride.is_multiple_of(8) => Order::Sequential,
        // More rows would map to the same sets of the first-level cache.
        stride if stride.is_multiple_of(512) => Order::Pages,
        _ => Order::Sixteen,
    }
}

/// The function for a product with few rows whose right operand is contiguous along the depth:
/// packing it would cost more than multiplying.
#[inline(always)]
pub(super) fn dots(
    isa: CpuFeatures,
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
        VectorWidth::Avx512 | VectorWidth::Avx2 | VectorWidth::Neon => ALONG_ROWS,
        VectorWidth::Portable => ALONG_ROWS_NARROW,
    };
    let possible = sizes.rows <= most && packed <= MAX_RESIDENT;
    if !possible || depth.rhs != 1 || depth.size < ALONG_DEPTH {
        return None;
    }
    // Packing takes this many times 1.5 ps for an element. Along rows, adding a sum's lanes takes
    // 1.2 ns, and multiplying 1.5 ps more than in a tile. Matrix registers multiply ten times as
    // fast as code along rows, so that packing pays with fewer rows: of 1024 columns and a depth of
    // 1024, 8 and 16 rows took 0.17 and 0.33 ms along rows, and 24 rows took 0.17 ms with matrices
    // (Xeon with AMX, 30 November 2026). Fewer rows than `MATRIX_ROWS` are multiplied by vectors
    // there, too: 4 rows with 4096 columns and a depth of 256 took 0.086 ms along rows, and 0.178
    // ms packed (1 December 2026).
    let packing = match arithmetic {
        Arithmetic::Bf16Pairs if isa.amx_bf16 && sizes.rows >= MATRIX_ROWS => 12,
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

/// Whether a product has so few columns that it is faster as one with few rows: along the rows of
/// the left operand, which are contiguous along the depth.
#[inline(always)]
pub(super) fn few_columns(axes: &Axes) -> bool {
    let (rows, columns) = (element_count(&axes.rows), element_count(&axes.columns));
    let &[depth] = &axes.depth[..] else {
        return false;
    };
    // A vector of columns takes one step for each depth element. Along rows, each column takes one
    // step for 16 elements, and adds the lanes of its sum.
    let faster = columns * (depth.size + 154) < 16 * depth.size;
    faster && depth.lhs == 1 && rows > columns && columns > 0
}

impl Worker<'_> {
    /// Computes a product with one row, along the rows of a large right operand.
    ///
    /// # Safety
    /// As [`Self::matrix`]; the function is the product's.
    pub(super) unsafe fn one_long_row(&self, function: LongRowsFn, columns: &Range<usize>) {
        let depth = self.product.axes.depth.last().copied().unwrap_or_default();
        let first = columns.start as isize;
        let bytes = matrix_bytes(self.product.element_bytes[1], self.product.sizes);
        let product = LongRows {
            row: self.arrays.lhs,
            step: depth.lhs,
            matrix: self.product.place(self.arrays.rhs, 1, first),
            stride: depth.rhs,
            depth: self.product.sizes.depth,
            columns: columns.len(),
            out: self.product.place(self.arrays.out, 2, first),
            sums: self.sums(),
            add: self.product.adds,
            order: order(bytes, columns.len(), depth.rhs),
        };
        // SAFETY: the caller promises pointers to arrays that contain every element the axes reach,
        // and that no other worker has these rows and columns; columns are adjacent in the matrix
        // and in the result.
        unsafe { function(&product) };
    }

    /// Computes a product with few rows, along the rows of the right operand.
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
        let mut left = [core::ptr::null::<u8>(); ALONG_ROWS];
        let left = &mut left[..rows.len()];
        let along = axes.depth.last().is_some_and(|depth| depth.lhs == 1);
        if along && self.product.element_bytes[0] == unit_bytes {
            let mut offsets = [0isize; ALONG_ROWS];
            let offsets = &mut offsets[..rows.len()];
            fill_offsets(&axes.rows, rows.start, |a| a.lhs, offsets);
            for (row, &offset) in left.iter_mut().zip(&*offsets) {
                *row = self.product.place(self.arrays.lhs, 0, offset);
            }
        } else {
            for (i, row) in rows.clone().enumerate() {
                let lanes = self.lanes(Side::Left, &(row..row + 1));
                let target = self.left().wrapping_add(i * depth * unit_bytes);
                // SAFETY: the caller promises pointers to arrays that contain every element the
                // axes reach, and that no other worker has these rows and columns; there is room
                // for all rows.
                self.inexact |= unsafe { self.pack(Side::Left, &lanes, &(0..depth), target, 1) };
                left[i] = target;
            }
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
            // All rows are multiplied by a few columns while these are in the cache.
            let together = if rows.len() > MAX_ROWS {
                COLUMNS
            } else {
                MAX_LANES
            };
            for (i, columns) in rhs.chunks(together).enumerate() {
                for part in tiles(&(0..rows.len()), MAX_ROWS) {
                    let place = part.start * MAX_LANES + i * together;
                    let dots = Dots {
                        rows: &left[part.clone()],
                        depth,
                        rhs: self.arrays.rhs,
                        columns,
                        sums: sums.wrapping_add(place * unit_bytes),
                        stride: MAX_LANES,
                        sequential: self.product.sequential,
                    };
                    // SAFETY: the rows have that depth, the columns are the
                    // operand's, and there is room for the sums.
                    unsafe { function(&dots) };
                }
            }
            let near = match &axes.columns[..] {
                [only] => only.out == 1,
                _ => out.windows(2).all(|pair| pair[1] == pair[0] + 1),
            };
            let first = out.first().filter(|_| near).copied().unwrap_or(0);
            let stored = Stored {
                source: sums,
                stride: MAX_LANES,
                columns: chunk.len(),
                out: self.product.place(self.arrays.out, 2, first),
                row_offsets,
                column_offsets: (!near).then_some(&*out),
                add: self.product.adds,
            };
            // SAFETY: the sums were computed; the offsets are the result's.
            unsafe { (self.table.store)(&stored) };
        }
    }
}
