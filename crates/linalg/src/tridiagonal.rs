//! Reduction of a symmetric or Hermitian matrix to tridiagonal form by Householder reflections.

use crate::householder::{apply_left, reflector};
use crate::isa::{Isa, Routine, dispatch};
use crate::matrix::Matrix;
use crate::scalar::{Real, Scalar};

/// Where the parts of a tridiagonal form go.
#[derive(Debug)]
pub struct Tridiagonal<'a, T: Scalar> {
    /// The `n` elements of the diagonal.
    pub diagonal: &'a mut [T::Real],
    /// The `n - 1` elements beside it.
    pub beside: &'a mut [T::Real],
    /// The `n - 1` factors of the reflectors.
    pub tau: &'a mut [T],
}

/// LAPACK's `sytrd` and `hetrd` of a lower triangle: replaces the lower triangle of `a` by that of
/// `Q^H a Q`, which is tridiagonal and real; below its first subdiagonal are the tails of the
/// reflectors' vectors. The upper triangle is neither read nor written. `work` has `4 n` elements.
///
/// For an upper triangle, give the matrix with its rows and its columns in reverse order: LAPACK's
/// reduction of an upper triangle is this one, from the last row on.
pub fn hetrd<T: Scalar>(a: Matrix<'_, T>, form: Tridiagonal<'_, T>, work: &mut [T]) {
    dispatch(Reduce { a, form, work });
}

struct Reduce<'a, T: Scalar> {
    a: Matrix<'a, T>,
    form: Tridiagonal<'a, T>,
    work: &'a mut [T],
}

impl<T: Scalar> Routine for Reduce<'_, T> {
    type Output = ();

    /// Each step changes the rest of the matrix by `v w^H + w v^H`. That is left to the pass over
    /// the matrix in which the next step multiplies it by its own vector, so that a step reads and
    /// writes the matrix once.
    #[inline(always)]
    fn run<I: Isa>(self) {
        let Self { mut a, form, work } = self;
        let n = a.rows();
        let (pending, new) = work.split_at_mut(2 * n);
        let (mut v, mut w) = pending.split_at_mut(n);
        let (mut next_v, mut next_w) = new.split_at_mut(n);
        v.fill(T::ZERO);
        w.fill(T::ZERO);
        for step in 0..n {
            let column = &mut a.column_mut(step)[step..];
            update::<I, T>(column, &v[step..n], &w[step..n]);
            form.diagonal[step] = column[0].re();
            column[0] = T::from_real(form.diagonal[step]);
            let [_, head, tail @ ..] = column else {
                break;
            };
            let (beta, tau) = reflector::<I, T>(*head, tail);
            *head = beta;
            form.beside[step] = beta.re();
            form.tau[step] = tau;
            let first = step + 1;
            next_v[first] = T::ONE;
            next_v[first + 1..n].copy_from_slice(tail);
            next_w[first..n].fill(T::ZERO);
            for j in first..n {
                let column = &mut a.column_mut(j)[j..];
                update::<I, T>(column, &v[j..n], &w[j..n]);
                let diagonal = T::from_real(column[0].re());
                column[0] = diagonal;
                let sum = T::dotc::<I>(&column[1..], &next_v[j + 1..n]);
                next_w[j] += diagonal * next_v[j] + sum;
                T::axpy::<I>(next_v[j], &column[1..], &mut next_w[j + 1..n]);
            }
            let (own_v, own_w) = (&next_v[first..n], &mut next_w[first..n]);
            own_w.iter_mut().for_each(|w| *w *= tau);
            let half = T::Real::from_f64(-0.5);
            let along = (tau * T::dotc::<I>(own_w, own_v)).scale(half);
            T::axpy::<I>(along, own_v, own_w);
            std::mem::swap(&mut v, &mut next_v);
            std::mem::swap(&mut w, &mut next_w);
        }
    }
}

/// Subtracts a column of `v w^H + w v^H`, from its diagonal on.
#[inline(always)]
fn update<I: Isa, T: Scalar>(column: &mut [T], v: &[T], w: &[T]) {
    T::axpy::<I>(-w[0].conj(), v, column);
    T::axpy::<I>(-v[0].conj(), w, column);
}

/// LAPACK's `ormtr` and `unmtr` from the left: replaces `c` by `Q c` with the `Q` of [`hetrd`],
/// whose reflectors are in `a`.
pub fn ormtr<T: Scalar>(a: &Matrix<'_, T>, tau: &[T], c: Matrix<'_, T>) {
    dispatch(Multiply { a, tau, c });
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
            let v = &self.a.column(step)[step + 2..];
            let c = self.c.part(step + 1, 0, rows - step - 1, columns);
            apply_left::<I, T>(v, tau, c);
        }
    }
}
