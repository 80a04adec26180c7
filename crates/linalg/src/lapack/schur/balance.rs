//! Balancing: a similarity transformation by permutations and powers of two that gives rows and
//! columns similar norms, and isolates eigenvalues that appear on the diagonal.

use crate::lapack::householder::norm;
use crate::lapack::isa::Isa;
use crate::lapack::matrix::Matrix;
use crate::lapack::scalar::{Real, Scalar};
use std::ops::Range;

/// The result of [`gebal`]: the range of rows and columns outside of which the matrix is
/// triangular; for each row inside, its scale factor, and for each row outside, the row that it was
/// swapped with.
#[derive(Debug)]
pub(crate) struct Balance<R> {
    pub(crate) active: Range<usize>,
    factors: Vec<R>,
    exchanged: Vec<usize>,
}

/// LAPACK's `gebal`; factors stay 1 unless `scale` is true.
#[inline(always)]
pub(crate) fn gebal<I: Isa, T: Scalar>(a: &mut Matrix<'_, T>, scale: bool) -> Balance<T::Real> {
    let n = a.rows();
    let mut balance = Balance {
        active: 0..n,
        factors: vec![T::Real::ONE; n],
        exchanged: (0..n).collect(),
    };
    balance.push_rows_down(a);
    balance.push_columns_left(a);
    if scale {
        while balance.scale_once::<I, T>(a) {}
    }
    balance
}

/// Swaps two rows and the same columns, as far as they are not zero.
fn exchange<T: Scalar>(a: &mut Matrix<'_, T>, x: usize, y: usize) {
    if x != y {
        a.swap_columns(x, y);
        for column in 0..a.columns() {
            a.column_mut(column).swap(x, y);
        }
    }
}

impl<R: Real> Balance<R> {
    /// Moves rows that are zero except on the diagonal to the end.
    fn push_rows_down<T: Scalar<Real = R>>(&mut self, a: &mut Matrix<'_, T>) {
        let mut again = true;
        while again && self.active.end > 1 {
            again = false;
            for row in (0..self.active.end).rev() {
                let end = self.active.end;
                let is_zero = |column: usize| column == row || a.at(row, column) == T::ZERO;
                if row < end && (0..end).all(is_zero) {
                    self.exchanged[end - 1] = row;
                    exchange(a, row, end - 1);
                    again = true;
                    self.active.end -= 1;
                    if self.active.end <= 1 {
                        break;
                    }
                }
            }
        }
        // A single row is left: there is nothing to balance.
        if self.active.end <= 1 {
            self.active.end = self.active.end.max(1).min(a.rows());
        }
    }

    /// Moves columns that are zero except on the diagonal to the front.
    fn push_columns_left<T: Scalar<Real = R>>(&mut self, a: &mut Matrix<'_, T>) {
        let mut again = self.active.len() > 1;
        while again {
            again = false;
            for column in self.active.clone() {
                let Range { start, end } = self.active;
                let is_zero = |row: usize| row == column || a.at(row, column) == T::ZERO;
                if column >= start && end - start > 1 && (start..end).all(is_zero) {
                    self.exchanged[start] = column;
                    exchange(a, column, start);
                    again = true;
                    self.active.start += 1;
                }
            }
        }
    }

    /// Scales each row and column to closer norms; returns whether any changed.
    #[inline(always)]
    fn scale_once<I: Isa, T: Scalar<Real = R>>(&mut self, a: &mut Matrix<'_, T>) -> bool {
        let n = a.rows();
        let Range { start, end } = self.active;
        let two = R::from_f64(2.0);
        let smallest = R::SAFE_MIN / R::PRECISION;
        let largest = R::ONE / smallest;
        let (least, most) = (smallest * two, largest / two);
        let mut changed = false;
        let mut row_of = vec![T::ZERO; end - start];
        for i in start..end {
            for (x, column) in row_of.iter_mut().zip(start..end) {
                *x = a.at(i, column);
            }
            let mut c = norm::<I, T>(&a.column(i)[start..end]);
            let mut r = norm::<I, T>(&row_of);
            if c == R::ZERO || r == R::ZERO || !(c + r).is_finite_real() {
                continue;
            }
            let greatest = |x: R, y: T| x.max(y.abs());
            let mut ca = a.column(i)[..end].iter().copied().fold(R::ZERO, greatest);
            let mut ra = (start..n).map(|j| a.at(i, j)).fold(R::ZERO, greatest);
            let sum = c + r;
            let mut f = R::ONE;
            let mut g = r / two;
            while c < g && f.max(c).max(ca) < most && r.min(g).min(ra) > least {
                (f, c, ca) = (f * two, c * two, ca * two);
                (r, g, ra) = (r / two, g / two, ra / two);
            }
            g = c / two;
            while g >= r && r.max(ra) < most && f.min(c).min(g).min(ca) > least {
                (f, c, g, ca) = (f / two, c / two, g / two, ca / two);
                (r, ra) = (r * two, ra * two);
            }
            let own = self.factors[i];
            let is_small_change = c + r >= R::from_f64(0.95) * sum;
            let underflows = f < R::ONE && own < R::ONE && f * own <= smallest;
            let overflows = f > R::ONE && own > R::ONE && own >= largest / f;
            if is_small_change || underflows || overflows {
                continue;
            }
            self.factors[i] *= f;
            changed = true;
            let inverse = R::ONE / f;
            for column in start..n {
                let x = a.at(i, column).scale(inverse);
                a.set(i, column, x);
            }
            a.column_mut(i)[..end]
                .iter_mut()
                .for_each(|x| *x = x.scale(f));
        }
        changed
    }

    /// LAPACK's `gebak`: transforms right eigenvectors of the balanced matrix to those of the given
    /// one; left eigenvectors if `left` is true.
    pub(crate) fn undo<T: Scalar<Real = R>>(&self, left: bool, vectors: &mut Matrix<'_, T>) {
        for column in 0..vectors.columns() {
            let column = vectors.column_mut(column);
            for i in self.active.clone() {
                let factor = self.factors[i];
                if factor != R::ONE {
                    let factor = if left { R::ONE / factor } else { factor };
                    column[i] = column[i].scale(factor);
                }
            }
            for i in (0..self.active.start).rev() {
                column.swap(i, self.exchanged[i]);
            }
            for i in self.active.end..self.exchanged.len() {
                column.swap(i, self.exchanged[i]);
            }
        }
    }
}
