//! QR factorisations by Householder reflections, with and without column pivoting, and their `Q`.

use crate::lapack::block_reflector::{is_worth_blocks, reflect_in_blocks};
use crate::lapack::householder::{apply_left, apply_right, norm, reflector};
use crate::lapack::isa::{Isa, Routine, dispatch};
use crate::lapack::matrix::Matrix;
use crate::lapack::scalar::{Real, Scalar};
use crate::thread_pool::is_stopped;

/// LAPACK's `geqrf`: overwrites the upper triangle of `a` by `R`, the elements below it by the
/// tails of the reflectors' vectors, and `tau` by the `min(rows, columns)` factors of the
/// reflectors.
pub fn geqrf<T: Scalar>(mut a: Matrix<'_, T>, tau: &mut [T]) {
    let (rows, columns) = (a.rows(), a.columns());
    let steps = rows.min(columns);
    if !is_worth_blocks(rows, steps.saturating_sub(PANEL), columns) {
        dispatch(Factor { a, tau });
        return;
    }
    for first in (0..steps).step_by(PANEL) {
        let size = PANEL.min(steps - first);
        let tau = &mut tau[first..first + size];
        let below = rows - first;
        dispatch(Factor {
            a: a.part(first, first, below, size),
            tau,
        });
        let mut rest = a.part(first, first, below, columns - first);
        let (panel, mut rest) = rest.split_columns(size);
        reflect_in_blocks(&panel, tau, true, false, &mut rest);
    }
}

/// The number of columns that are factored before the columns after them are updated.
const PANEL: usize = 32;

struct Factor<'a, T> {
    a: Matrix<'a, T>,
    tau: &'a mut [T],
}

impl<T: Scalar> Routine for Factor<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(mut self) {
        let steps = self.a.rows().min(self.a.columns());
        for step in 0..steps {
            if is_stopped() {
                break;
            }
            self.tau[step] = factor_step::<I, T>(&mut self.a, step);
        }
    }
}

/// Eliminates a column below the diagonal and updates the columns after it; returns the reflector's
/// factor.
#[inline(always)]
fn factor_step<I: Isa, T: Scalar>(a: &mut Matrix<'_, T>, step: usize) -> T {
    let (rows, columns) = (a.rows(), a.columns());
    let mut rest = a.part(step, step, rows - step, columns - step);
    let [head, tail @ ..] = rest.column_mut(0) else {
        return T::ZERO;
    };
    let (beta, tau) = reflector::<I, T>(*head, tail);
    *head = beta;
    reflect_after::<I, T>(&mut rest, tau.conj());
    tau
}

/// Applies the reflector in the first column of a matrix to the other columns.
#[inline(always)]
fn reflect_after<I: Isa, T: Scalar>(a: &mut Matrix<'_, T>, tau: T) {
    let (mut vector, rest) = a.split_columns(1);
    if let [_, tail @ ..] = vector.column_mut(0) {
        apply_left::<I, T>(tail, tau, rest);
    }
}

/// LAPACK's `orgqr` and `ungqr`: replaces the reflectors of [`geqrf`] by the first columns of the
/// product `H_1 H_2 ...`; `tau` has the reflectors' factors. `a` has at least as many rows as
/// columns, and at least as many columns as there are factors.
pub fn orgqr<T: Scalar>(mut a: Matrix<'_, T>, tau: &[T]) {
    let (rows, columns) = (a.rows(), a.columns());
    if !is_worth_blocks(rows, tau.len().saturating_sub(PANEL), columns) {
        dispatch(Generate { a, tau });
        return;
    }
    let mut vectors = Vec::with_capacity(rows * tau.len());
    (0..tau.len()).for_each(|j| vectors.extend_from_slice(a.column(j)));
    let vectors = Matrix::new(&mut vectors, rows, tau.len());
    a.set_identity();
    reflect_in_blocks(&vectors, tau, false, true, &mut a);
}

struct Generate<'a, T> {
    a: Matrix<'a, T>,
    tau: &'a [T],
}

impl<T: Scalar> Routine for Generate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self) {
        let Self { mut a, tau } = self;
        let (rows, columns) = (a.rows(), a.columns());
        for column in tau.len()..columns {
            a.column_mut(column).fill(T::ZERO);
            a.set(column, column, T::ONE);
        }
        for (step, &tau) in tau.iter().enumerate().rev() {
            if is_stopped() {
                break;
            }
            let mut rest = a.part(step, step, rows - step, columns - step);
            reflect_after::<I, T>(&mut rest, tau);
            let [head, tail @ ..] = rest.column_mut(0) else {
                continue;
            };
            *head = T::ONE - tau;
            tail.iter_mut().for_each(|x| *x *= -tau);
            a.column_mut(step)[..step].fill(T::ZERO);
        }
    }
}

/// The side from which `Q` is multiplied, and whether its adjoint is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiplication {
    /// `Q c` rather than `c Q`.
    pub left: bool,
    /// Uses the adjoint of `Q` (the transpose, if numbers are real).
    pub adjoint: bool,
}

/// LAPACK's `ormqr` and `unmqr`: replaces `c` by its product with `Q`, the product of the
/// reflectors that [`geqrf`] stored in the first columns of `a`. `work` has as many elements as `c`
/// has rows.
pub fn ormqr<T: Scalar>(
    how: Multiplication,
    a: Matrix<'_, T>,
    tau: &[T],
    mut c: Matrix<'_, T>,
    work: &mut [T],
) {
    if how.left && is_worth_blocks(c.rows(), tau.len(), c.columns()) {
        reflect_in_blocks(&a, tau, how.adjoint, false, &mut c);
        return;
    }
    dispatch(Multiply {
        how,
        a,
        tau,
        c,
        work,
    });
}

struct Multiply<'a, T> {
    how: Multiplication,
    a: Matrix<'a, T>,
    tau: &'a [T],
    c: Matrix<'a, T>,
    work: &'a mut [T],
}

impl<T: Scalar> Routine for Multiply<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(mut self) {
        let count = self.tau.len();
        for place in 0..count {
            if is_stopped() {
                break;
            }
            // `Q c` applies the last reflector first, `Q^H c` the first.
            let step = match self.how.left == self.how.adjoint {
                true => place,
                false => count - 1 - place,
            };
            let tau = match self.how.adjoint {
                true => self.tau[step].conj(),
                false => self.tau[step],
            };
            let (rows, columns) = (self.c.rows(), self.c.columns());
            let v = &self.a.column(step)[step + 1..];
            match self.how.left {
                true => {
                    apply_left::<I, T>(v, tau, self.c.part(step, 0, rows - step, columns));
                }
                false => {
                    let c = self.c.part(0, step, rows, columns - step);
                    apply_right::<I, T>(v, tau, c, self.work);
                }
            }
        }
    }
}

/// LAPACK's `geqp3`: like [`geqrf`], with column pivoting. Columns whose entry of `pivots` is not 0
/// are factored first, in order; after that, each step chooses the column whose remaining part has
/// the largest norm. On return, `pivots` has the 1-based number of each column in `a`. `norms` has
/// two elements for each column.
pub fn geqp3<T: Scalar>(
    a: Matrix<'_, T>,
    pivots: &mut [i32],
    tau: &mut [T],
    norms: &mut [T::Real],
) {
    dispatch(Pivoted {
        a,
        pivots,
        tau,
        norms,
    });
}

struct Pivoted<'a, T: Scalar> {
    a: Matrix<'a, T>,
    pivots: &'a mut [i32],
    tau: &'a mut [T],
    norms: &'a mut [T::Real],
}

impl<T: Scalar> Routine for Pivoted<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(mut self) {
        let (rows, columns) = (self.a.rows(), self.a.columns());
        let steps = rows.min(columns);
        let fixed = self.move_fixed_columns().min(steps);
        for step in 0..fixed {
            if is_stopped() {
                break;
            }
            self.tau[step] = factor_step::<I, T>(&mut self.a, step);
        }
        let (rest, at_last_sum) = self.norms.split_at_mut(columns);
        for column in fixed..columns {
            rest[column] = norm::<I, T>(&self.a.column(column)[fixed..]);
            at_last_sum[column] = rest[column];
        }
        for step in fixed..steps {
            if is_stopped() {
                break;
            }
            let mut pivot = step;
            for column in step + 1..columns {
                if rest[column] > rest[pivot] {
                    pivot = column;
                }
            }
            if pivot != step {
                self.a.swap_columns(step, pivot);
                self.pivots.swap(step, pivot);
                rest[pivot] = rest[step];
                at_last_sum[pivot] = at_last_sum[step];
            }
            self.tau[step] = factor_step::<I, T>(&mut self.a, step);
            for column in step + 1..columns {
                let below = &self.a.column(column)[step..];
                downdate::<I, T>(below, &mut rest[column], &mut at_last_sum[column]);
            }
        }
    }
}

impl<T: Scalar> Pivoted<'_, T> {
    /// Moves the columns that must go first to the front, and numbers all columns; returns how many
    /// go first.
    fn move_fixed_columns(&mut self) -> usize {
        let mut fixed = 0;
        for column in 0..self.a.columns() {
            let is_fixed = self.pivots[column] != 0;
            self.pivots[column] = column as i32 + 1;
            if is_fixed {
                self.a.swap_columns(fixed, column);
                self.pivots.swap(fixed, column);
                fixed += 1;
            }
        }
        fixed
    }
}

/// Downdates the norm of a column when its first element is removed; recomputes it after too much
/// cancellation (Drmač and Bujanović, 2008).
#[inline(always)]
fn downdate<I: Isa, T: Scalar>(below: &[T], rest: &mut T::Real, at_last_sum: &mut T::Real) {
    let one = T::Real::ONE;
    if *rest == T::Real::ZERO {
        return;
    }
    let [head, tail @ ..] = below else {
        return;
    };
    let ratio = head.abs() / *rest;
    let left = ((one - ratio) * (one + ratio)).max(T::Real::ZERO);
    let cancelled = *rest / *at_last_sum;
    if left * cancelled * cancelled <= T::Real::ROUNDING.sqrt() {
        *rest = norm::<I, T>(tail);
        *at_last_sum = *rest;
    } else {
        *rest *= left.sqrt();
    }
}
