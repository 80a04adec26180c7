//! Matrices for tests, with their operations as plain loops.

use num_complex::Complex;
use tegula_linalg::{Eigen, Matrix, Real, Scalar};

/// A matrix that owns its elements, column-major.
#[derive(Clone, Debug)]
pub(crate) struct Owned<T> {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) data: Vec<T>,
}

impl<T: Scalar> Owned<T> {
    pub(crate) fn zeros(rows: usize, columns: usize) -> Self {
        let data = vec![T::ZERO; rows * columns];
        Self {
            rows,
            columns,
            data,
        }
    }

    pub(crate) fn view(&mut self) -> Matrix<'_, T> {
        Matrix::new(&mut self.data, self.rows, self.columns)
    }

    pub(crate) fn at(&self, row: usize, column: usize) -> T {
        self.data[row + column * self.rows]
    }

    pub(crate) fn set(&mut self, row: usize, column: usize, value: T) {
        self.data[row + column * self.rows] = value;
    }

    pub(crate) fn from_fn(rows: usize, columns: usize, f: impl Fn(usize, usize) -> T) -> Self {
        let mut matrix = Self::zeros(rows, columns);
        for column in 0..columns {
            for row in 0..rows {
                matrix.set(row, column, f(row, column));
            }
        }
        matrix
    }

    pub(crate) fn adjoint(&self) -> Self {
        Self::from_fn(self.columns, self.rows, |i, j| self.at(j, i).conj())
    }

    pub(crate) fn times(&self, other: &Self) -> Self {
        Self::from_fn(self.rows, other.columns, |i, j| {
            let mut sum = T::ZERO;
            for k in 0..self.columns {
                sum += self.at(i, k) * other.at(k, j);
            }
            sum
        })
    }

    /// The first columns.
    pub(crate) fn first(&self, columns: usize) -> Self {
        Self::from_fn(self.rows, columns, |i, j| self.at(i, j))
    }

    pub(crate) fn scaled(&self, values: &[T]) -> Self {
        Self::from_fn(self.rows, self.columns, |i, j| self.at(i, j) * values[j])
    }

    pub(crate) fn largest(&self) -> f64 {
        let size = |x: &T| x.abs().to_f64();
        self.data.iter().map(size).fold(0.0, f64::max)
    }

    /// Checks that two matrices are equal up to rounding errors relative to the largest element.
    pub(crate) fn assert_close(&self, other: &Self, what: &str) {
        assert_eq!(
            [self.rows, self.columns],
            [other.rows, other.columns],
            "{what}"
        );
        let apart = |(a, b): (&T, &T)| (*a - *b).abs().to_f64();
        let pairs = self.data.iter().zip(&other.data);
        let error = pairs.map(apart).fold(0.0, f64::max);
        let size = 1.0 + self.largest().max(other.largest());
        let n = (self.rows + self.columns) as f64;
        // A small multiple of the bounds that backward stability gives.
        let bound = 10.0 * n * T::Real::PRECISION.to_f64() * size;
        assert!(error <= bound, "{what}: {error:e} is more than {bound:e}");
    }

    pub(crate) fn assert_orthonormal(&self, what: &str) {
        let product = self.adjoint().times(self);
        let one = |i, j| if i == j { T::ONE } else { T::ZERO };
        let identity = Self::from_fn(self.columns, self.columns, one);
        product.assert_close(&identity, what);
    }
}

/// Numbers between -1 and 1 from a linear congruential generator.
pub(crate) fn sample<T: Scalar>(rows: usize, columns: usize, seed: u64) -> Owned<T> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        T::Real::from_f64((state >> 11) as f64 / 2f64.powi(52) - 1.0)
    };
    let mut number = || {
        let (re, im) = (next(), next());
        T::from_parts(re, im)
    };
    let mut matrix = Owned::zeros(rows, columns);
    matrix.data.iter_mut().for_each(|x| *x = number());
    matrix
}

/// A symmetric or Hermitian matrix.
pub(crate) fn self_adjoint<T: Scalar>(n: usize, seed: u64) -> Owned<T> {
    let a = sample::<T>(n, n, seed);
    Owned::from_fn(n, n, |i, j| a.at(i, j) + a.at(j, i).conj())
}

/// A test for all types.
pub(crate) trait ForAll {
    fn run<T: Eigen>(&self);
}

pub(crate) fn for_all(test: &impl ForAll) {
    test.run::<f32>();
    test.run::<f64>();
    test.run::<Complex<f32>>();
    test.run::<Complex<f64>>();
}
