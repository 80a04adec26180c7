//! Matrices in memory that someone else owns.

use crate::lapack::scalar::Scalar;
use faer::{Accum, MatMut, MatRef};

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

    /// The first rows and columns as the library has them.
    pub(crate) fn view(&self, rows: usize, columns: usize) -> MatRef<'_, T> {
        let used = match rows * columns {
            0 => 0,
            _ => (columns - 1) * self.stride + rows,
        };
        let stride = self.stride.max(rows);
        MatRef::from_column_major_slice_with_stride(&self.data[..used], rows, columns, stride)
    }

    /// The matrix as the library has it.
    pub(crate) fn view_mut(&mut self) -> MatMut<'_, T> {
        let (rows, columns) = (self.rows, self.columns);
        let used = match rows * columns {
            0 => 0,
            _ => (columns - 1) * self.stride + rows,
        };
        let stride = self.stride.max(rows);
        let used = &mut self.data[..used];
        MatMut::from_column_major_slice_with_stride_mut(used, rows, columns, stride)
    }

    /// Writes `a b` here, for as many rows of `a` as there are here.
    pub(crate) fn set_product(&mut self, a: &Matrix<'_, T>, b: &Matrix<'_, T>) {
        self.add_product(Accum::Replace, a, b, T::ONE);
    }

    /// Subtracts `a b` from what is here.
    pub(crate) fn subtract_product(&mut self, a: &Matrix<'_, T>, b: &Matrix<'_, T>) {
        self.add_product(Accum::Add, a, b, -T::ONE);
    }

    fn add_product(&mut self, how: Accum, a: &Matrix<'_, T>, b: &Matrix<'_, T>, factor: T) {
        if self.rows > 0 && self.columns > 0 {
            let (a, b) = (a.view(self.rows, b.rows), b.view(b.rows, self.columns));
            T::multiply(how, a, b, self.view_mut(), factor);
        }
    }

    /// Writes `a^H b` here.
    pub(crate) fn set_adjoint_product(&mut self, a: &Matrix<'_, T>, b: &Matrix<'_, T>) {
        if self.rows > 0 && self.columns > 0 {
            let (a, b) = (a.view(b.rows, self.rows), b.view(b.rows, self.columns));
            T::multiply_adjoint(a, b, self.view_mut());
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
