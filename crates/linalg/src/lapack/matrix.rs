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
    /// A matrix whose columns follow each other without gaps.
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

    /// How many rows there are.
    #[inline(always)]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns there are.
    #[inline(always)]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// An element.
    #[inline(always)]
    pub fn at(&self, row: usize, column: usize) -> T {
        self.data[row + column * self.stride]
    }

    /// A place for an element.
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

    /// A column that can be written.
    #[inline(always)]
    pub fn column_mut(&mut self, column: usize) -> &mut [T] {
        &mut self.data[column * self.stride..][..self.rows]
    }

    /// Two different columns, the first of which comes before the second.
    #[inline(always)]
    pub fn two_columns(&mut self, first: usize, second: usize) -> [&mut [T]; 2] {
        let (before, from) = self.data.split_at_mut(second * self.stride);
        [
            &mut before[first * self.stride..][..self.rows],
            &mut from[..self.rows],
        ]
    }

    /// Two different columns, in this order, whichever comes first.
    #[inline(always)]
    pub fn columns_at(&mut self, a: usize, b: usize) -> [&mut [T]; 2] {
        if a < b {
            return self.two_columns(a, b);
        }
        let [x, y] = self.two_columns(b, a);
        [y, x]
    }

    /// Three columns that follow each other.
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

    /// Four columns that follow each other.
    #[inline(always)]
    pub fn four_columns(&mut self, first: usize) -> [&mut [T]; 4] {
        let from = &mut self.data[first * self.stride..];
        let (a, rest) = from.split_at_mut(self.stride);
        let (b, rest) = rest.split_at_mut(self.stride);
        let (c, d) = rest.split_at_mut(self.stride);
        [a, b, c, d].map(|column| &mut column[..self.rows])
    }

    /// The rows and columns from a place on, so many of each.
    #[inline(always)]
    pub fn part(
        &mut self,
        row: usize,
        column: usize,
        rows: usize,
        columns: usize,
    ) -> Matrix<'_, T> {
        // An empty part has no place in memory.
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

    /// So many columns, and those after them.
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

    /// How far apart in memory columns begin, in elements.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// The first rows and columns in memory, the columns a [stride](Self::stride) apart.
    ///
    /// # Panics
    /// The matrix has fewer.
    pub(crate) fn corner(&self, rows: usize, columns: usize) -> &[T] {
        &self.data[..extent(rows, columns, self.stride)]
    }

    /// The whole matrix in memory, the columns a [stride](Self::stride) apart.
    pub(crate) fn elements_mut(&mut self) -> &mut [T] {
        let used = extent(self.rows, self.columns, self.stride);
        &mut self.data[..used]
    }

    /// Makes this the adjoint of another matrix, of as many columns as there are rows here.
    pub(crate) fn set_adjoint(&mut self, of: &Matrix<'_, T>) {
        // Columns whose lines of the cache are still there when the next row is written.
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

    /// Changes the sign of every element.
    pub(crate) fn negate(&mut self) {
        for column in 0..self.columns {
            for element in self.column_mut(column) {
                *element = -*element;
            }
        }
    }

    /// Fills the matrix with zeros, and with ones on its diagonal.
    pub fn set_identity(&mut self) {
        for column in 0..self.columns {
            self.column_mut(column).fill(T::ZERO);
            if column < self.rows {
                self.set(column, column, T::ONE);
            }
        }
    }

    /// Exchanges two columns.
    pub fn swap_columns(&mut self, a: usize, b: usize) {
        if a != b {
            let [a, b] = self.two_columns(a.min(b), a.max(b));
            a.swap_with_slice(b);
        }
    }
}

/// How many elements there are from the first to the last of a matrix.
fn extent(rows: usize, columns: usize, stride: usize) -> usize {
    match rows * columns {
        0 => 0,
        _ => (columns - 1) * stride + rows,
    }
}
