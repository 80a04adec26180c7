//! Reduction of a square matrix to upper Hessenberg form by Householder reflections.

use crate::lapack::householder::{apply_left, apply_right, reflector};
use crate::lapack::isa::{Isa, Routine, dispatch};
use crate::lapack::matrix::Matrix;
use crate::lapack::qr::orgqr;
use crate::lapack::scalar::Scalar;
use crate::thread_pool::is_stopped;
use std::ops::Range;

/// LAPACK's `gehrd`: replaces `a` by `Q^H a Q`, whose elements below the first subdiagonal are
/// zero; the tails of the reflectors' vectors are stored there. Outside of the rows and columns
/// `active`, the matrix must be triangular already. `tau` has one element less than `a` has rows (0
/// outside of `active`), `work` two for each row.
pub fn gehrd<T: Scalar>(a: Matrix<'_, T>, active: Range<usize>, tau: &mut [T], work: &mut [T]) {
    dispatch(Reduce {
        a,
        active,
        tau,
        work,
    });
}

struct Reduce<'a, T> {
    a: Matrix<'a, T>,
    active: Range<usize>,
    tau: &'a mut [T],
    work: &'a mut [T],
}

impl<T: Scalar> Routine for Reduce<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(mut self) {
        let n = self.a.rows();
        let (first, end) = (self.active.start, self.active.end);
        self.tau.fill(T::ZERO);
        let (vector, work) = self.work.split_at_mut(n);
        for step in first..end.saturating_sub(1) {
            if is_stopped() {
                break;
            }
            let size = end - step - 1;
            let column = &mut self.a.column_mut(step)[step + 1..end];
            let [head, tail @ ..] = column else {
                continue;
            };
            let (beta, tau) = reflector::<I, T>(*head, tail);
            *head = beta;
            self.tau[step] = tau;
            let v = &mut vector[..size - 1];
            v.copy_from_slice(tail);
            apply_right::<I, T>(v, tau, self.a.part(0, step + 1, end, size), work);
            let right = self.a.part(step + 1, step + 1, size, n - step - 1);
            apply_left::<I, T>(v, tau.conj(), right);
        }
    }
}

/// LAPACK's `orghr` and `unghr`: writes the matrix `Q` of [`gehrd`] to `q`; its reflectors are in
/// `a`.
pub fn orghr<T: Scalar>(a: &Matrix<'_, T>, active: Range<usize>, tau: &[T], mut q: Matrix<'_, T>) {
    q.set_identity();
    let size = active.len().saturating_sub(1);
    let first = active.start;
    for step in 0..size {
        let below = first + step + 2..active.end;
        let from = &a.column(first + step)[below.clone()];
        q.column_mut(first + step + 1)[below].copy_from_slice(from);
    }
    let tau = &tau[first..][..size];
    orgqr(q.part(first + 1, first + 1, size, size), tau);
}
