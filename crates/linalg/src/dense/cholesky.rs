//! Blocked left-looking Cholesky factorisation: a block of columns is updated by all columns before
//! it, then factorised.

use super::{LANES, Matrix, Number, Real, Routine, Vectors, dispatch, tile};
use crate::microkernels::CpuFeatures;
use crate::thread_pool::is_stopped;

/// Cholesky factorisations of a batch of contiguous matrices.
#[derive(Clone, Copy, Debug)]
pub struct Cholesky {
    /// The number of rows of a matrix.
    pub n: usize,
    /// The number of matrices.
    pub count: usize,
    /// Whether the lower triangle is read and written, rather than the upper one.
    pub lower: bool,
}

impl Cholesky {
    /// Bytes of scratch memory that a run needs.
    pub fn scratch_bytes<T: Number>(&self) -> usize {
        // Without matrices, their size may exceed the memory.
        match self.count {
            0 => 0,
            _ => self.n * size_of::<T::Lanes>(),
        }
    }

    /// Writes the triangular factor of each matrix; the other triangle is zero. A matrix that is
    /// not positive definite gives NaN throughout.
    ///
    /// # Safety
    /// Both arrays have `count` matrices of `n` by `n` elements and do not overlap; `scratch` has
    /// [`Self::scratch_bytes`], aligned to 64; the CPU has the features in `isa`.
    #[inline(always)]
    pub unsafe fn run<T: Number>(
        &self,
        isa: CpuFeatures,
        input: *const T,
        output: *mut T,
        scratch: *mut u8,
    ) {
        let size = self.n * self.n;
        for number in 0..self.count {
            let factor = Factor {
                n: self.n,
                lower: self.lower,
                input: input.wrapping_add(number * size),
                output: output.wrapping_add(number * size),
                packed: scratch.cast(),
            };
            // SAFETY: the caller promises arrays and scratch memory of these sizes, and a CPU with
            // these vector instructions.
            unsafe { dispatch(isa, factor) };
        }
    }
}

/// Up to this many rows, elements take less time one by one than in lanes.
const SMALL: usize = 4;

struct Factor<T: Number> {
    n: usize,
    lower: bool,
    input: *const T,
    output: *mut T,
    /// Room for one row of lanes for each row.
    packed: *mut T::Lanes,
}

impl<T: Number> Routine for Factor<T> {
    #[inline(always)]
    unsafe fn run<V: Vectors, const ROWS: usize>(self) {
        let n = self.n;
        // A view of the output as the lower factor. If the upper factor is wanted, the view is its
        // transpose.
        let output = Matrix {
            start: self.output,
            row: if self.lower { n as isize } else { 1 },
            column: if self.lower { 1 } else { n as isize },
        };
        // SAFETY: the caller promises both matrices, room for the packed rows, and the CPU.
        unsafe {
            core::ptr::copy_nonoverlapping(self.input, self.output, n * n);
            if !self.lower {
                for i in 0..n {
                    for j in 0..=i {
                        output.set(i, j, output.get(i, j).conjugate());
                    }
                }
            }
            let mut is_definite = n > SMALL || self.elements::<V>(&output);
            if n > SMALL {
                // Not in a closure, which may be compiled without these vectors.
                for first in (0..n).step_by(LANES) {
                    if is_stopped() {
                        return;
                    }
                    is_definite = is_definite && self.columns::<V, ROWS>(&output, first);
                }
            }
            if !is_definite {
                core::slice::from_raw_parts_mut(self.output, n * n).fill(T::of(T::Real::NAN));
                return;
            }
            for i in 0..n {
                for j in i + 1..n {
                    output.set(i, j, T::ZERO);
                }
                if !self.lower {
                    for j in 0..i {
                        output.set(i, j, output.get(i, j).conjugate());
                    }
                }
            }
        }
    }
}

impl<T: Number> Factor<T> {
    /// Computes the lower factor of a small matrix element by element; returns whether the matrix is
    /// positive definite.
    ///
    /// # Safety
    /// As [`Cholesky::run`].
    #[inline(always)]
    unsafe fn elements<V: Vectors>(&self, output: &Matrix<T>) -> bool {
        // SAFETY: the caller promises the matrix and the CPU.
        unsafe {
            for j in 0..self.n {
                let pivot = Self::less_before::<V>(output, j, j).real();
                // NaN is not greater than zero, either.
                let is_positive = pivot > T::Real::ZERO;
                if !is_positive {
                    return false;
                }
                let root = pivot.root();
                output.set(j, j, T::of(root));
                let reciprocal = T::of(root.reciprocal());
                for i in j + 1..self.n {
                    let element = Self::less_before::<V>(output, i, j).times(reciprocal);
                    output.set(i, j, element);
                }
            }
        }
        true
    }

    /// An element minus the products of the elements before column `j` in rows `i` and `j`.
    ///
    /// # Safety
    /// As [`Cholesky::run`].
    #[inline(always)]
    unsafe fn less_before<V: Vectors>(output: &Matrix<T>, i: usize, j: usize) -> T {
        // SAFETY: the caller promises the matrix and the CPU.
        unsafe {
            let mut sum = output.get(i, j);
            for k in 0..j {
                sum = sum.less_product::<V>(output.get(i, k), output.get(j, k).conjugate());
            }
            sum
        }
    }

    /// Computes some columns of the lower factor, given all columns before them; returns whether
    /// the matrix is positive definite up to there.
    ///
    /// # Safety
    /// As [`Cholesky::run`].
    #[inline(always)]
    unsafe fn columns<V: Vectors, const ROWS: usize>(
        &self,
        output: &Matrix<T>,
        first: usize,
    ) -> bool {
        let n = self.n;
        let width = LANES.min(n - first);
        // SAFETY: the caller promises the matrix, room for the packed rows, and the CPU.
        unsafe {
            // The adjoint of the diagonal block's rows.
            let packed = core::slice::from_raw_parts_mut(self.packed, first);
            for (j, lanes) in packed.iter_mut().enumerate() {
                *lanes = T::ZEROS;
                for lane in 0..width {
                    T::set_lane(lanes, lane, output.get(first + lane, j).conjugate());
                }
            }
            let packed = &*packed;
            // The diagonal block, as rows of its adjoint.
            let mut block = [T::ZEROS; LANES];
            for row in (0..width).step_by(ROWS) {
                let rows = ROWS.min(width - row);
                let block_rows = (first + row, rows);
                let sums = updated::<T, V, ROWS>(output, block_rows, (first, width), packed);
                for (r, sums) in sums.iter().enumerate().take(rows) {
                    for (column, lanes) in block.iter_mut().enumerate().take(row + r + 1) {
                        T::set_lane(lanes, row + r, T::lane(sums, column).conjugate());
                    }
                }
            }
            let mut reciprocals = [T::ZERO; LANES];
            for column in 0..width {
                let pivot = T::lane(&block[column], column).real();
                // NaN is not greater than zero, either.
                let is_positive = pivot > T::Real::ZERO;
                if !is_positive {
                    return false;
                }
                let root = pivot.root();
                let reciprocal = T::of(root.reciprocal());
                reciprocals[column] = reciprocal;
                T::scale(&mut block[column], reciprocal);
                T::set_lane(&mut block[column], column, T::of(root));
                let (done, rest) = block.split_at_mut(column + 1);
                let own = &done[column];
                for (r, lanes) in rest.iter_mut().enumerate().take(width - column - 1) {
                    let element = T::lane(own, column + 1 + r).conjugate();
                    T::subtract::<V>(lanes, element, own);
                }
            }
            for row in 0..width {
                for (column, lanes) in block.iter().enumerate().take(row + 1) {
                    let element = T::lane(lanes, row).conjugate();
                    output.set(first + row, first + column, element);
                }
            }
            // The rows below.
            let mut row = first + width;
            while row < n {
                let rows = ROWS.min(n - row);
                let mut sums = updated::<T, V, ROWS>(output, (row, rows), (first, width), packed);
                for column in 0..width {
                    for (r, sums) in sums.iter_mut().enumerate().take(rows) {
                        let element = T::lane(sums, column).times(reciprocals[column]);
                        output.set(row + r, first + column, element);
                        T::subtract::<V>(sums, element, &block[column]);
                    }
                }
                row += rows;
            }
        }
        true
    }
}

/// Some columns of rows, minus the products of the elements before them and the packed rows.
///
/// # Safety
/// As [`Cholesky::run`].
#[inline(always)]
unsafe fn updated<T: Number, V: Vectors, const ROWS: usize>(
    output: &Matrix<T>,
    (row, rows): (usize, usize),
    (first, width): (usize, usize),
    packed: &[T::Lanes],
) -> [T::Lanes; ROWS] {
    let mut sums = [T::ZEROS; ROWS];
    // SAFETY: the caller promises a matrix of this size, and a CPU with these vector instructions.
    unsafe {
        for (r, sums) in sums.iter_mut().enumerate().take(rows) {
            *sums = output.lanes(row + r, first, width);
        }
        tile::<T, V, ROWS, false>(output, (row, rows), 0, packed, &mut sums);
    }
    sums
}
