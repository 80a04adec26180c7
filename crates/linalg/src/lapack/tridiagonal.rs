//! Reduction of a symmetric or Hermitian matrix to tridiagonal form by Householder reflections.

use crate::lapack::bidiagonal::ormbr;
use crate::lapack::householder::reflector;
use crate::lapack::isa::{Isa, Routine, dispatch};
use crate::lapack::matrix::Matrix;
use crate::lapack::scalar::{Real, Scalar};
use crate::thread_pool::is_stopped;

/// The parts of a tridiagonal form.
#[derive(Debug)]
pub struct Tridiagonal<'a, T: Scalar> {
    /// The `n` elements of the diagonal.
    pub diagonal: &'a mut [T::Real],
    /// The `n - 1` elements of the off-diagonal.
    pub beside: &'a mut [T::Real],
    /// The `n - 1` factors of the reflectors.
    pub tau: &'a mut [T],
}

/// LAPACK's `sytrd` and `hetrd` of a lower triangle: replaces the lower triangle of `a` by that of
/// `Q^H a Q`, which is tridiagonal and real; the tails of the reflectors' vectors are stored below
/// its first subdiagonal. The upper triangle is neither read nor written. `work` has `4 n`
/// elements.
///
/// For an upper triangle, pass the matrix with its rows and columns in reverse order: LAPACK's
/// reduction of an upper triangle is this one, starting from the last row.
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

    /// Each step changes the rest of the matrix by `v w^H + w v^H`. This update is postponed to the
    /// pass over the matrix in which the next step multiplies it by its own vector, so that each
    /// step reads and writes the matrix once.
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
            if is_stopped() {
                break;
            }
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
                let [head, tail @ ..] = &mut a.column_mut(j)[j..] else {
                    continue;
                };
                let (by_v, by_w) = (w[j].conj(), v[j].conj());
                let change = v[j] * by_v + w[j] * by_w;
                *head = T::from_real((*head - change).re());
                let (after, x_j) = (j + 1, next_v[j]);
                let update = [(by_v, &v[after..n]), (by_w, &w[after..n])];
                let (own, rest) = next_w[j..n].split_at_mut(1);
                let sum = T::update_column::<I>(tail, update, &next_v[after..n], x_j, rest);
                own[0] += *head * x_j + sum;
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

/// LAPACK's `ormtr` and `unmtr` from the left: replaces `c` by `Q c`, with the matrix `Q` of
/// [`hetrd`], whose reflectors are in `a`.
pub fn ormtr<T: Scalar>(a: &mut Matrix<'_, T>, tau: &[T], mut c: Matrix<'_, T>) {
    let (rows, columns) = (c.rows(), c.columns());
    if rows > 1 {
        let below = rows - 1;
        let mut vectors = a.part(1, 0, below, below);
        ormbr(&mut vectors, tau, 0, c.part(1, 0, below, columns));
    }
}
