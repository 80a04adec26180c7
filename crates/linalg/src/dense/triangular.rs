//! Triangular solves, some right-hand sides at a time.

use super::{LANES, Matrix, Number, Routine, dispatch, tile};
use crate::microkernels::CpuFeatures;

/// Solves `op(a) x = b`, or `x op(a) = b`, for pairs of matrices.
#[derive(Clone, Copy, Debug, Default)]
pub struct Solve {
    /// Rows of `b`.
    pub rows: usize,
    /// Columns of `b`.
    pub columns: usize,
    /// How many pairs there are.
    pub count: usize,
    /// Whether `a` is on the left.
    pub left_side: bool,
    /// Whether `a` is lower triangular.
    pub lower: bool,
    /// Whether ones take the place of its diagonal.
    pub unit_diagonal: bool,
    /// Whether `op` is the transpose.
    pub transposed: bool,
    /// Whether `op` conjugates.
    pub conjugated: bool,
}

impl Solve {
    fn n(&self) -> usize {
        match self.left_side {
            true => self.rows,
            false => self.columns,
        }
    }

    /// Bytes of scratch memory that a run needs.
    pub fn scratch_bytes<T: Number>(&self) -> usize {
        self.n() * size_of::<T::Lanes>()
    }

    /// Replaces each `b` by the solution.
    ///
    /// # Safety
    /// The arrays have `count` matrices and do not overlap; `scratch` has [`Self::scratch_bytes`],
    /// aligned to 64; the CPU has what may be used.
    #[inline(always)]
    pub unsafe fn run<T: Number>(
        &self,
        isa: CpuFeatures,
        a: *const T,
        b: *mut T,
        scratch: *mut u8,
    ) {
        let n = self.n();
        for number in 0..self.count {
            let a = a.wrapping_add(number * n * n).cast_mut();
            let b = b.wrapping_add(number * self.rows * self.columns);
            // With `a` on the right, the transposes are solved.
            let transposed = self.transposed == self.left_side;
            let lower = self.lower != transposed;
            let by_rows = [n as isize, 1];
            let own = [self.columns as isize, 1];
            let [row, column] = if transposed { [1, n as isize] } else { by_rows };
            let [b_row, b_column] = match self.left_side {
                true => own,
                false => [own[1], own[0]],
            };
            let mut a = Matrix {
                start: a,
                row,
                column,
            };
            let mut b = Matrix {
                start: b,
                row: b_row,
                column: b_column,
            };
            if !lower && n > 0 {
                // From the end on, an upper triangle is a lower one.
                let last = (n - 1) as isize;
                a.start = a.start.wrapping_offset(last * (row + column));
                (a.row, a.column) = (-row, -column);
                b.start = b.start.wrapping_offset(last * b_row);
                b.row = -b_row;
            }
            let columns = match self.left_side {
                true => self.columns,
                false => self.rows,
            };
            let substitution = Substitution {
                n,
                columns,
                a,
                b,
                unit_diagonal: self.unit_diagonal,
                conjugated: self.conjugated,
                packed: scratch.cast(),
            };
            // SAFETY: the caller promises the arrays, the scratch memory and the CPU.
            unsafe { dispatch(isa, substitution) };
        }
    }
}

/// Forward substitution.
struct Substitution<T: Number> {
    n: usize,
    columns: usize,
    a: Matrix<T>,
    b: Matrix<T>,
    unit_diagonal: bool,
    conjugated: bool,
    /// Room for a row of lanes of each row.
    packed: *mut T::Lanes,
}

impl<T: Number> Routine for Substitution<T> {
    #[inline(always)]
    unsafe fn run<const FUSED: bool, const ROWS: usize>(self) {
        for first in (0..self.columns).step_by(LANES) {
            let count = LANES.min(self.columns - first);
            // SAFETY: the caller promises the matrices, room for the packed rows, and the CPU.
            unsafe {
                match self.conjugated {
                    true => self.some::<FUSED, ROWS, true>(first, count),
                    false => self.some::<FUSED, ROWS, false>(first, count),
                }
            }
        }
    }
}

impl<T: Number> Substitution<T> {
    /// # Safety
    /// The matrix has the element.
    #[inline(always)]
    unsafe fn element<const CONJUGATE: bool>(&self, row: usize, column: usize) -> T {
        // SAFETY: the caller promises the element.
        let element = unsafe { self.a.get(row, column) };
        match CONJUGATE {
            true => element.conjugate(),
            false => element,
        }
    }

    /// # Safety
    /// As [`Solve::run`], for these columns.
    #[inline(always)]
    unsafe fn some<const FUSED: bool, const ROWS: usize, const CONJUGATE: bool>(
        &self,
        first: usize,
        count: usize,
    ) {
        // SAFETY: the caller promises the matrices, room for the packed rows, and the CPU.
        unsafe {
            let packed = core::slice::from_raw_parts_mut(self.packed, self.n);
            for row in (0..self.n).step_by(ROWS) {
                let rows = ROWS.min(self.n - row);
                let mut sums = [T::ZEROS; ROWS];
                for (r, sums) in sums.iter_mut().enumerate().take(rows) {
                    *sums = self.b.lanes(row + r, first, count);
                }
                let (known, own) = packed.split_at_mut(row);
                tile::<T, FUSED, ROWS, CONJUGATE>(&self.a, (row, rows), 0, known, &mut sums);
                for r in 0..rows {
                    if !self.unit_diagonal {
                        let diagonal = self.element::<CONJUGATE>(row + r, row + r);
                        T::scale(&mut sums[r], diagonal.reciprocal());
                    }
                    let solved = sums[r];
                    for (below, sums) in sums.iter_mut().enumerate().take(rows).skip(r + 1) {
                        let element = self.element::<CONJUGATE>(row + below, row + r);
                        T::subtract::<FUSED>(sums, element, &solved);
                    }
                    own[r] = solved;
                    self.b.set_lanes(row + r, first, count, &solved);
                }
            }
        }
    }
}
