//! Reduction of a matrix to bidiagonal form by Householder reflections.

use crate::lapack::block_reflector::{is_worth_blocks, reflect_in_blocks};
use crate::lapack::householder::{apply_left, reflector};
use crate::lapack::isa::{Isa, Routine, dispatch};
use crate::lapack::matrix::Matrix;
use crate::lapack::matrix_vector::{add_columns, subtract_product};
use crate::lapack::scalar::Scalar;
use crate::thread_pool::is_stopped;

/// The parts of a bidiagonal form; `k` is the smaller size of the matrix.
#[derive(Debug)]
pub struct Bidiagonal<'a, T: Scalar> {
    /// The `k` elements of the diagonal.
    pub diagonal: &'a mut [T::Real],
    /// The `k - 1` elements of the superdiagonal if there are at least as many rows as columns,
    /// otherwise of the subdiagonal.
    pub beside: &'a mut [T::Real],
    /// The `k` factors of the reflectors from the left.
    pub tau_q: &'a mut [T],
    /// The `k` factors of the reflectors from the right.
    pub tau_p: &'a mut [T],
    /// The vectors of the reflectors from the right: as many rows as the matrix has columns, and
    /// `k` columns. The tail of a vector is below the subdiagonal if there are at least as many
    /// rows as columns, otherwise below the diagonal.
    pub right: Matrix<'a, T>,
}

/// LAPACK's `gebrd`: `Q^H a P` is real and bidiagonal. The tails of the left reflectors' vectors
/// are written to `a`, below its diagonal, or below its first subdiagonal if it has fewer rows than
/// columns. `work` has an element for each row.
pub fn gebrd<T: Scalar>(a: Matrix<'_, T>, form: Bidiagonal<'_, T>, work: &mut [T]) {
    dispatch(Reduce { a, form, work });
}

struct Reduce<'a, T: Scalar> {
    a: Matrix<'a, T>,
    form: Bidiagonal<'a, T>,
    work: &'a mut [T],
}

impl<T: Scalar> Routine for Reduce<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(mut self) {
        let (rows, columns) = (self.a.rows(), self.a.columns());
        for step in 0..rows.min(columns) {
            if is_stopped() {
                break;
            }
            if rows >= columns {
                self.form.diagonal[step] = self.left::<I>(step, step);
                if step + 1 < columns {
                    self.form.beside[step] = self.right::<I>(step, step + 1);
                } else {
                    self.form.tau_p[step] = T::ZERO;
                }
            } else {
                self.form.diagonal[step] = self.right::<I>(step, step);
                if step + 1 < rows {
                    self.form.beside[step] = self.left::<I>(step, step + 1);
                } else {
                    self.form.tau_q[step] = T::ZERO;
                }
            }
        }
    }
}

impl<T: Scalar> Reduce<'_, T> {
    /// Eliminates a column below a row; returns the remaining element in the row.
    #[inline(always)]
    fn left<I: Isa>(&mut self, step: usize, row: usize) -> T::Real {
        let (rows, columns) = (self.a.rows(), self.a.columns());
        let v = &mut self.work[row..rows];
        v.copy_from_slice(&self.a.column(step)[row..]);
        let (beta, tau) = reflector::<I, T>(v[0], &mut v[1..]);
        self.form.tau_q[step] = tau;
        let column = &mut self.a.column_mut(step)[row..];
        column.copy_from_slice(v);
        column[0] = beta;
        let rest = self.a.part(row, step + 1, rows - row, columns - step - 1);
        apply_left::<I, T>(&v[1..], tau.conj(), rest);
        beta.re()
    }

    /// Eliminates a row after a column; returns the remaining element in the column.
    #[inline(always)]
    fn right<I: Isa>(&mut self, step: usize, column: usize) -> T::Real {
        let (rows, columns) = (self.a.rows(), self.a.columns());
        let u = &mut self.form.right.column_mut(step)[column..];
        for (j, u) in u.iter_mut().enumerate() {
            *u = self.a.at(step, column + j).conj();
        }
        let (beta, tau) = reflector::<I, T>(u[0], &mut u[1..]);
        u[0] = T::ONE;
        self.form.tau_p[step] = tau;
        let below = rows - step - 1;
        let mut rest = self.a.part(step + 1, column, below, columns - column);
        if tau != T::ZERO {
            let sum = &mut self.work[..below];
            sum.fill(T::ZERO);
            add_columns::<I, T>(&rest, 0, u, sum);
            subtract_product::<I, T>(&mut rest, sum, tau, u);
        }
        beta.re()
    }
}

/// Replaces `c` by `Q c`; the tails of the reflectors' vectors are in the columns of `a`, `offset`
/// rows below each column's diagonal: LAPACK's `ormbr` and `unmbr` from the left. `offset` is 0 if
/// the tails begin right below the diagonal.
pub fn ormbr<T: Scalar>(a: &mut Matrix<'_, T>, tau: &[T], offset: usize, mut c: Matrix<'_, T>) {
    let (rows, columns) = (c.rows(), c.columns());
    let count = tau.len().min(rows.saturating_sub(offset));
    let (below, tau) = (rows.saturating_sub(offset), &tau[..count]);
    let v = a.part(offset, 0, below, count);
    let mut c = c.part(offset, 0, below, columns);
    if is_worth_blocks(below, count, columns) {
        reflect_in_blocks(&v, tau, false, false, &mut c);
    } else {
        dispatch(Multiply { a: &v, tau, c });
    }
}

struct Multiply<'a, 'm, T> {
    a: &'a Matrix<'m, T>,
    tau: &'a [T],
    c: Matrix<'a, T>,
}

impl<T: Scalar> Routine for Multiply<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(mut self) {
        let (rows, columns) = (self.c.rows(), self.c.columns());
        for (step, &tau) in self.tau.iter().enumerate().rev() {
            if is_stopped() {
                break;
            }
            let v = &self.a.column(step)[step + 1..];
            apply_left::<I, T>(v, tau, self.c.part(step, 0, rows - step, columns));
        }
    }
}
