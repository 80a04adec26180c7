//! Blocked LU factorisation with partial pivoting, with LAPACK's conventions: a column without a
//! nonzero pivot stays unchanged.

use super::{LANES, Matrix, Number, Real, Routine, Vectors, dispatch, tile};
use crate::microkernels::CpuFeatures;
use crate::thread_pool::is_stopped;

/// LU factorisations of a batch of contiguous matrices.
#[derive(Clone, Copy, Debug)]
pub struct Lu {
    /// The number of rows of a matrix.
    pub rows: usize,
    /// The number of its columns.
    pub columns: usize,
    /// The number of matrices.
    pub count: usize,
}

impl Lu {
    /// Bytes of scratch memory that a run needs.
    pub fn scratch_bytes<T: Number>(&self) -> usize {
        // Without matrices, their size may exceed the memory.
        match self.count {
            0 => 0,
            _ => self.rows * size_of::<T::Lanes>(),
        }
    }

    /// Overwrites each matrix by both factors; writes the row that each step swaps with, and the
    /// permutation that the swaps compose to.
    ///
    /// # Safety
    /// There are `count` matrices. For each, there are as many pivots as its smaller dimension, and
    /// as many entries of the permutation as it has rows. Nothing overlaps. `scratch` has
    /// [`Self::scratch_bytes`], aligned to 64. The CPU has the features that may be used.
    #[inline(always)]
    pub unsafe fn run<T: Number>(
        &self,
        isa: CpuFeatures,
        matrices: *mut T,
        pivots: *mut i32,
        permutations: *mut i32,
        scratch: *mut u8,
    ) {
        let steps = self.rows.min(self.columns);
        for number in 0..self.count {
            // SAFETY: the caller promises arrays of these sizes, and a CPU with these vector
            // instructions.
            unsafe {
                let permutation = permutations.wrapping_add(number * self.rows);
                let permutation = core::slice::from_raw_parts_mut(permutation, self.rows);
                for (row, place) in (0..).zip(&mut *permutation) {
                    *place = row;
                }
                let pivots = pivots.wrapping_add(number * steps);
                let elimination = Elimination {
                    rows: self.rows,
                    columns: self.columns,
                    a: Matrix {
                        start: matrices.wrapping_add(number * self.rows * self.columns),
                        row: self.columns as isize,
                        column: 1,
                    },
                    pivots: core::slice::from_raw_parts_mut(pivots, steps),
                    permutation,
                    packed: core::slice::from_raw_parts_mut(scratch.cast(), self.rows),
                };
                dispatch(isa, elimination);
            }
        }
    }
}

struct Elimination<'a, T: Number> {
    rows: usize,
    columns: usize,
    a: Matrix<T>,
    pivots: &'a mut [i32],
    permutation: &'a mut [i32],
    /// Room for one row of lanes for each row.
    packed: &'a mut [T::Lanes],
}

impl<T: Number> Routine for Elimination<'_, T> {
    #[inline(always)]
    unsafe fn run<V: Vectors, const ROWS: usize>(mut self) {
        let steps = self.pivots.len();
        let mut first = 0;
        while first < self.columns && !is_stopped() {
            // A panel has either columns that are factored or columns after those, not both.
            let end = if first < steps { steps } else { self.columns };
            let width = LANES.min(end - first);
            // SAFETY: the caller promises arrays of these sizes, and a CPU with these vector
            // instructions.
            unsafe {
                self.update::<V, ROWS>(first.min(steps), (first, width));
                if first < steps {
                    self.panel::<V>(first, width);
                }
            }
            first += width;
        }
    }
}

impl<T: Number> Elimination<'_, T> {
    /// Updates some columns that are not factored yet: subtracts the products with the `known`
    /// columns that are; the first `known` rows become rows of the upper factor.
    ///
    /// # Safety
    /// As [`Lu::run`].
    #[inline(always)]
    unsafe fn update<V: Vectors, const ROWS: usize>(
        &mut self,
        known: usize,
        (first, width): (usize, usize),
    ) {
        let a = self.a;
        // SAFETY: the caller promises arrays of these sizes, and a CPU with these vector
        // instructions.
        unsafe {
            let mut row = 0;
            while row < self.rows && known > 0 {
                let end = if row < known { known } else { self.rows };
                let rows = ROWS.min(end - row);
                let mut sums = [T::ZEROS; ROWS];
                for (r, sums) in sums.iter_mut().enumerate().take(rows) {
                    *sums = a.lanes(row + r, first, width);
                }
                let solved = &self.packed[..row.min(known)];
                tile::<T, V, ROWS, false>(&a, (row, rows), 0, solved, &mut sums);
                for r in 0..rows {
                    let solved = sums[r];
                    if row < known {
                        for (below, sums) in sums.iter_mut().enumerate().take(rows).skip(r + 1) {
                            let element = a.get(row + below, row + r);
                            T::subtract::<V>(sums, element, &solved);
                        }
                        self.packed[row + r] = solved;
                    }
                    a.set_lanes(row + r, first, width, &solved);
                }
                row += rows;
            }
        }
    }

    /// Factors some columns (a panel) in a contiguous copy, and swaps whole rows.
    ///
    /// # Safety
    /// As [`Lu::run`].
    #[inline(always)]
    unsafe fn panel<V: Vectors>(&mut self, first: usize, width: usize) {
        let (a, columns) = (self.a, self.columns);
        let packed = &mut self.packed[first..];
        // SAFETY: the caller promises arrays of these sizes, and a CPU with these vector
        // instructions.
        unsafe {
            for (row, lanes) in packed.iter_mut().enumerate() {
                *lanes = a.lanes(first + row, first, width);
            }
            for column in 0..width {
                let (mut pivot, mut largest) = (column, T::lane(&packed[column], column).size());
                for (row, lanes) in packed.iter().enumerate().skip(column + 1) {
                    let size = T::lane(lanes, column).size();
                    if size > largest {
                        (pivot, largest) = (row, size);
                    }
                }
                self.pivots[first + column] = (first + pivot) as i32;
                if pivot != column {
                    packed.swap(column, pivot);
                    let (row, other) = (first + column, first + pivot);
                    self.permutation.swap(row, other);
                    let swap = core::ptr::swap_nonoverlapping::<T>;
                    swap(a.at(row, 0), a.at(other, 0), first);
                    let behind = first + width;
                    swap(a.at(row, behind), a.at(other, behind), columns - behind);
                }
                if largest > T::Real::ZERO {
                    eliminate::<T, V>(&mut packed[column..], column);
                }
            }
            for (row, lanes) in packed.iter().enumerate() {
                a.set_lanes(first + row, first, width, lanes);
            }
        }
    }
}

/// Eliminates a column below the first row, which has the pivot.
///
/// # Safety
/// The CPU has the vectors.
#[inline(always)]
unsafe fn eliminate<T: Number, V: Vectors>(rows: &mut [T::Lanes], column: usize) {
    let Some((own, rows)) = rows.split_first_mut() else {
        return;
    };
    let reciprocal = T::lane(own, column).reciprocal();
    // Columns up to this one do not change.
    let mut own = *own;
    for lane in 0..=column {
        T::set_lane(&mut own, lane, T::ZERO);
    }
    for lanes in rows {
        let factor = T::lane(lanes, column).times(reciprocal);
        if factor.size().is_finite() {
            // SAFETY: the caller promises a CPU with these instructions.
            unsafe { T::subtract::<V>(lanes, factor, &own) };
        } else {
            // An infinite factor times the zeros of the columns before is NaN, so these columns are
            // restored.
            let before = *lanes;
            // SAFETY: the caller promises a CPU with these instructions.
            unsafe { T::subtract::<V>(lanes, factor, &own) };
            for lane in 0..column {
                T::set_lane(lanes, lane, T::lane(&before, lane));
            }
        }
        // This store comes last: a load of the whole vector right after a store to a part of it
        // would stall.
        T::set_lane(lanes, column, factor);
    }
}
