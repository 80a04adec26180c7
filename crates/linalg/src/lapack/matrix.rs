//! Views of matrices in borrowed memory.

use crate::lapack::scalar::Scalar;

/// A matrix in column-major order: element `(i, j)` is at `i + j * stride`.
#[derive(Debug)]
pub struct Matrix<'a, T> {
    data: &'a mut [T],
    rows: usize,
    columns: usize,
    stride: usize,
}

impl<'a, T: Scalar> Matrix<'a, T> {
    /// A matrix with contiguous columns.
    ///
    /// # Panics
    /// The slice has fewer than `rows * columns` elements.
    #[inline(always)]
    pub fn new(data: &'a mut [T], rows: usize, columns: usize) -> Self {
        Self {
            data: &mut data[..rows * columns],
            rows,
            columns,
            stride: rows,
        }
    }

    /// The number of rows.
    #[inline(always)]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    #[inline(always)]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// An element.
    #[inline(always)]
    pub fn at(&self, row: usize, column: usize) -> T {
        self.data[row + column * self.stride]
    }

    /// A mutable reference to an element.
    #[inline(always)]
    pub fn at_mut(&mut self, row: usize, column: usize) -> &mut T {
        &mut self.data[row + column * self.stride]
    }

    /// Sets an element.
    #[inline(always)]
    pub fn set(&mut self, row: usize, column: usize, value: T) {
        self.data[row + column * self.stride] = value;
    }

    /// A column.
    #[inline(always)]
    pub fn column(&self, column: usize) -> &[T] {
        &self.data[column * self.stride..][..self.rows]
    }

    /// A mutable column.
    #[inline(always)]
    pub fn column_mut(&mut self, column: usize) -> &mut [T] {
        &mut self.data[column * self.stride..][..self.rows]
    }

    /// Two different columns; `first` must be less than `second`.
    #[inline(always)]
    pub fn two_columns(&mut self, first: usize, second: usize) -> [&mut [T]; 2] {
        let (before, from) = self.data.split_at_mut(second * self.stride);
        [
            &mut before[first * self.stride..][..self.rows],
            &mut from[..self.rows],
        ]
    }

    /// Two different columns, returned in the order of the arguments.
    #[inline(always)]
    pub fn columns_at(&mut self, a: usize, b: usize) -> [&mut [T]; 2] {
        if a < b {
            return self.two_columns(a, b);
        }
        let [x, y] = self.two_columns(b, a);
        [y, x]
    }

    /// Three consecutive columns.
    #[inline(always)]
    pub fn three_columns(&mut self, first: usize) -> [&mut [T]; 3] {
        let from = &mut self.data[first * self.stride..];
        let (x, rest) = from.split_at_mut(self.stride);
        let (y, z) = rest.split_at_mut(self.stride);
        [
            &mut x[..self.rows],
            &mut y[..self.rows],
            &mut z[..self.rows],
        ]
    }

    /// Four consecutive columns.
    #[inline(always)]
    pub fn four_columns(&mut self, first: usize) -> [&mut [T]; 4] {
        let from = &mut self.data[first * self.stride..];
        let (a, rest) = from.split_at_mut(self.stride);
        let (b, rest) = rest.split_at_mut(self.stride);
        let (c, d) = rest.split_at_mut(self.stride);
        [a, b, c, d].map(|column| &mut column[..self.rows])
    }

    /// A submatrix, given by its first row and column and its size.
    #[inline(always)]
    pub fn part(
        &mut self,
        row: usize,
        column: usize,
        rows: usize,
        columns: usize,
    ) -> Matrix<'_, T> {
        // An empty submatrix has no address.
        let (data, stride) = match rows * columns {
            0 => (&mut self.data[..0], 0),
            _ => (&mut self.data[row + column * self.stride..], self.stride),
        };
        Matrix {
            data,
            rows,
            columns,
            stride,
        }
    }

    /// The first `count` columns, and the remaining ones.
    pub(crate) fn split_columns(&mut self, count: usize) -> (Matrix<'_, T>, Matrix<'_, T>) {
        let place = (count * self.stride).min(self.data.len());
        let (first, rest) = self.data.split_at_mut(place);
        let part = |data, columns| Matrix {
            data,
            rows: self.rows,
            columns,
            stride: self.stride,
        };
        (part(first, count), part(rest, self.columns - count))
    }

    /// The distance between columns in memory, in elements.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// The memory of the first rows and columns; columns are a [stride](Self::stride) apart.
    ///
    /// # Panics
    /// The matrix has fewer.
    pub(crate) fn corner(&self, rows: usize, columns: usize) -> &[T] {
        &self.data[..extent(rows, columns, self.stride)]
    }

    /// The memory of the whole matrix; columns are a [stride](Self::stride) apart.
    pub(crate) fn elements_mut(&mut self) -> &mut [T] {
        let used = extent(self.rows, self.columns, self.stride);
        &mut self.data[..used]
    }

    /// Overwrites this matrix by the adjoint of another, which has as many columns as this has
    /// rows.
    pub(crate) fn set_adjoint(&mut self, of: &Matrix<'_, T>) {
        // Columns whose cache lines are still cached when the next row is written.
        const BLOCK: usize = 16;
        for first in (0..self.columns).step_by(BLOCK) {
            let end = self.columns.min(first + BLOCK);
            for row in 0..self.rows {
                let read = &of.column(row)[first..end];
                for (column, element) in (first..end).zip(read) {
                    self.set(row, column, element.conj());
                }
            }
        }
    }

    /// Negates every element.
    pub(crate) fn negate(&mut self) {
        for column in 0..self.columns {
            for element in self.column_mut(column) {
                *element = -*element;
            }
        }
    }

    /// Overwrites the matrix by the identity: zeros, and ones on the diagonal.
    pub fn set_identity(&mut self) {
        for column in 0..self.columns {
            self.column_mut(column).fill(T::ZERO);
            if column < self.rows {
                self.set(column, column, T::ONE);
            }
        }
    }

    /// Swaps two columns.
    pub fn swap_columns(&mut self, a: usize, b: usize) {
        if a != b {
            let [a, b] = self.two_columns(a.min(b), a.max(b));
            a.swap_with_slice(b);
        }
    }
}

/// The number of elements from a matrix's first to its last in memory.
fn extent(rows: usize, columns: usize, stride: usize) -> usize {
    match rows * columns {
        0 => 0,
        _ => (columns - 1) * stride + rows,
    }
}
