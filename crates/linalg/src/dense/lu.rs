//! LU factorisations with partial pivoting, some columns at a time, as LAPACK's: a column without a
//! pivot stays as it is.

use super::{LANES, Matrix, Number, Real, Routine, dispatch, tile};
use crate::microkernels::CpuFeatures;

/// Factorisations of matrices, one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct Lu {
    /// Rows of a matrix.
    pub rows: usize,
    /// Its columns.
    pub columns: usize,
    /// How many there are.
    pub count: usize,
}

impl Lu {
    /// Both factors of each matrix in its place, the row that each step is exchanged with, and the
    /// permutation that all exchanges make.
    ///
    /// # Safety
    /// There are `count` matrices, as many pivots as the smaller side of each, and places of the
    /// permutation as it has rows; nothing overlaps; the CPU has what may be used.
    #[inline(always)]
    pub unsafe fn run<T: Number>(
        &self,
        isa: CpuFeatures,
        matrices: *mut T,
        pivots: *mut i32,
        permutations: *mut i32,
    ) {
        let steps = self.rows.min(self.columns);
        for number in 0..self.count {
            // SAFETY: the caller promises the arrays and the CPU.
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
                };
                dispatch(isa, elimination);
            }
        }
    }
}

struct Elimination<'a, T> {
    rows: usize,
    columns: usize,
    a: Matrix<T>,
    pivots: &'a mut [i32],
    permutation: &'a mut [i32],
}

impl<T: Number> Routine for Elimination<'_, T> {
    #[inline(always)]
    unsafe fn run<const FUSED: bool, const ROWS: usize>(mut self) {
        let steps = self.pivots.len();
        for first in (0..steps).step_by(LANES) {
            let width = LANES.min(steps - first);
            // SAFETY: the caller promises the arrays and the CPU.
            unsafe {
                self.panel::<FUSED>(first, width);
                for column in (first + width..self.columns).step_by(LANES) {
                    self.update::<FUSED, ROWS>((first, width), column);
                }
            }
        }
    }
}

impl<T: Number> Elimination<'_, T> {
    /// Factors some columns, and exchanges whole rows.
    ///
    /// # Safety
    /// As [`Lu::run`].
    #[inline(always)]
    unsafe fn panel<const FUSED: bool>(&mut self, first: usize, width: usize) {
        let a = self.a;
        // SAFETY: the caller promises the arrays and the CPU.
        unsafe {
            for step in first..first + width {
                let size = |row: usize| a.get(row, step).size();
                let (mut pivot, mut largest) = (step, size(step));
                for row in step + 1..self.rows {
                    let size = size(row);
                    if size > largest {
                        (pivot, largest) = (row, size);
                    }
                }
                self.pivots[step] = pivot as i32;
                if pivot != step {
                    self.permutation.swap(step, pivot);
                    core::ptr::swap_nonoverlapping(a.at(step, 0), a.at(pivot, 0), self.columns);
                }
                if !(largest > T::Real::ZERO) {
                    continue;
                }
                let reciprocal = a.get(step, step).reciprocal();
                let (next, rest) = (step + 1, first + width - step - 1);
                let own = a.lanes(step, next, rest);
                for row in step + 1..self.rows {
                    let mut factor = T::ZEROS;
                    T::set_lane(&mut factor, 0, a.get(row, step));
                    T::scale(&mut factor, reciprocal);
                    let factor = T::lane(&factor, 0);
                    a.set(row, step, factor);
                    let mut lanes = a.lanes(row, next, rest);
                    T::subtract::<FUSED>(&mut lanes, factor, &own);
                    a.set_lanes(row, next, rest, &lanes);
                }
            }
        }
    }

    /// Takes a panel's products from some columns after it.
    ///
    /// # Safety
    /// As [`Lu::run`].
    #[inline(always)]
    unsafe fn update<const FUSED: bool, const ROWS: usize>(
        &self,
        (first, width): (usize, usize),
        column: usize,
    ) {
        let a = &self.a;
        let count = LANES.min(self.columns - column);
        let mut solved = [T::ZEROS; LANES];
        // SAFETY: the caller promises the arrays and the CPU.
        unsafe {
            for row in 0..width {
                let mut lanes = a.lanes(first + row, column, count);
                for (before, known) in solved.iter().enumerate().take(row) {
                    T::subtract::<FUSED>(&mut lanes, a.get(first + row, first + before), known);
                }
                solved[row] = lanes;
                a.set_lanes(first + row, column, count, &lanes);
            }
            for row in (first + width..self.rows).step_by(ROWS) {
                let rows = ROWS.min(self.rows - row);
                let mut sums = [T::ZEROS; ROWS];
                for (r, sums) in sums.iter_mut().enumerate().take(rows) {
                    *sums = a.lanes(row + r, column, count);
                }
                tile::<T, FUSED, ROWS, false>(a, (row, rows), first, &solved[..width], &mut sums);
                for (r, sums) in sums.iter().enumerate().take(rows) {
                    a.set_lanes(row + r, column, count, sums);
                }
            }
        }
    }
}
