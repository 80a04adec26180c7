//! Eigenvectors of matrices in Schur form, multiplied by the Schur vectors: LAPACK's `trevc`.

use crate::lapack::isa::Isa;
use crate::lapack::matrix::Matrix;
use crate::lapack::matrix_vector::add_columns;
use crate::lapack::scalar::{Real, Scalar};
use crate::thread_pool::is_stopped;
use std::ops::Range;

/// A complex number as two parts.
type Pair<R> = (R, R);

#[inline(always)]
fn divided<R: Real>(a: Pair<R>, b: Pair<R>) -> Pair<R> {
    if b.1 == R::ZERO {
        return (a.0 / b.0, a.1 / b.0);
    }
    if b.0.abs() >= b.1.abs() {
        let ratio = b.1 / b.0;
        let below = b.0 + b.1 * ratio;
        return ((a.0 + a.1 * ratio) / below, (a.1 - a.0 * ratio) / below);
    }
    let ratio = b.0 / b.1;
    let below = b.1 + b.0 * ratio;
    ((a.0 * ratio + a.1) / below, (a.1 * ratio - a.0) / below)
}

#[inline(always)]
fn times<R: Real>(a: Pair<R>, b: Pair<R>) -> Pair<R> {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

#[inline(always)]
fn minus<R: Real>(a: Pair<R>, b: Pair<R>) -> Pair<R> {
    (a.0 - b.0, a.1 - b.1)
}

/// The pivot, replaced by `smallest` if it is smaller: rounding errors are of that size.
#[inline(always)]
fn pivot<R: Real>(x: Pair<R>, smallest: R) -> Pair<R> {
    match x.0.abs() + x.1.abs() < smallest {
        true => (smallest, R::ZERO),
        false => x,
    }
}

/// The solution of `[a b; c d] x = y` by elimination with pivoting.
#[inline(always)]
fn solve_two<R: Real>([a, b, c, d]: [Pair<R>; 4], y: [Pair<R>; 2], smallest: R) -> [Pair<R>; 2] {
    let size = |x: Pair<R>| x.0.abs() + x.1.abs();
    let ([a, b, c, d], [y1, y2]) = match size(c) > size(a) {
        true => ([c, d, a, b], [y[1], y[0]]),
        false => ([a, b, c, d], y),
    };
    let a = pivot(a, smallest);
    let factor = divided(c, a);
    let rest = pivot(minus(d, times(factor, b)), smallest);
    let x2 = divided(minus(y2, times(factor, y1)), rest);
    [divided(minus(y1, times(b, x2)), a), x2]
}

/// Vectors during the computation, as real and imaginary parts.
struct Parts<'a, R> {
    re: &'a mut [R],
    im: &'a mut [R],
    is_complex: bool,
    largest: R,
}

impl<R: Real> Parts<'_, R> {
    #[inline(always)]
    fn get(&self, i: usize) -> Pair<R> {
        (self.re[i], self.im[i])
    }

    #[inline(always)]
    fn set(&mut self, i: usize, x: Pair<R>) {
        (self.re[i], self.im[i]) = x;
    }

    /// Scales everything down if an element is so large that the next ones could overflow.
    #[inline(always)]
    fn keep_small(&mut self, i: usize) {
        let size = self.re[i].abs() + self.im[i].abs();
        if size > self.largest {
            let by = R::ONE / size;
            self.re.iter_mut().for_each(|x| *x *= by);
            self.im.iter_mut().for_each(|x| *x *= by);
        }
    }
}

/// The kind of eigenvectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// `u` with `u^H t = lambda u^H`.
    Left,
    /// `x` with `t x = lambda x`.
    Right,
}

/// The eigenvectors of a real matrix in Schur form, multiplied by `q` and packed like LAPACK's: for
/// two conjugate eigenvalues, one column has the real part and the next the imaginary part of the
/// vector for the eigenvalue with positive imaginary part.
#[inline(always)]
pub(crate) fn of_real<I: Isa, R: Real>(
    side: Side,
    t: &Matrix<'_, R>,
    [values_re, values_im]: [&[R]; 2],
    q: &Matrix<'_, R>,
    v: &mut Matrix<'_, R>,
) {
    let n = t.rows();
    let mut packed = vec![R::ZERO; n * n];
    let mut packed = Matrix::new(&mut packed, n, n);
    let mut zeros = vec![R::ZERO; n];
    let mut at = 0;
    while at < n && !is_stopped() {
        let is_complex = at + 1 < n && t.at(at + 1, at) != R::ZERO;
        let value = (values_re[at], values_im[at].abs());
        let parts = |re, im| Parts {
            re,
            im,
            is_complex,
            largest: R::ONE / R::SAFE_MIN.sqrt(),
        };
        zeros.fill(R::ZERO);
        let mut x = if is_complex {
            let [re, im] = packed.two_columns(at, at + 1);
            parts(re, im)
        } else {
            parts(packed.column_mut(at), &mut zeros)
        };
        let size = R::PRECISION * (value.0.abs() + value.1.abs());
        let smallest = size.max(R::SAFE_MIN * (R::from_f64(n as f64) / R::PRECISION));
        match side {
            Side::Right => right_of_real::<I, R>(t, at, value, smallest, &mut x),
            Side::Left => left_of_real::<I, R>(t, at, value, smallest, &mut x),
        }
        at += 1 + usize::from(is_complex);
    }
    v.set_product(q, &packed);
}

/// Back substitution from the block that begins at a row.
#[inline(always)]
fn right_of_real<I: Isa, R: Real>(
    t: &Matrix<'_, R>,
    at: usize,
    value: Pair<R>,
    smallest: R,
    x: &mut Parts<'_, R>,
) {
    if x.is_complex {
        let (above, below) = (t.at(at, at + 1), t.at(at + 1, at));
        if above.abs() >= below.abs() {
            x.set(at, (R::ONE, R::ZERO));
            x.set(at + 1, (R::ZERO, value.1 / above));
        } else {
            x.set(at, (-value.1 / below, R::ZERO));
            x.set(at + 1, (R::ZERO, R::ONE));
        }
        let (first, second) = (x.re[at], x.im[at + 1]);
        R::axpy::<I>(-first, &t.column(at)[..at], &mut x.re[..at]);
        R::axpy::<I>(-second, &t.column(at + 1)[..at], &mut x.im[..at]);
    } else {
        x.re[at] = R::ONE;
        R::axpy::<I>(-R::ONE, &t.column(at)[..at], &mut x.re[..at]);
    }
    let mut end = at;
    while end > 0 {
        let last = end - 1;
        let is_pair = last > 0 && t.at(last, last - 1) != R::ZERO;
        let diagonal = |i: usize| (t.at(i, i) - value.0, -value.1);
        let first = if is_pair {
            let first = last - 1;
            let real = |i, j| (t.at(i, j), R::ZERO);
            let block = [
                diagonal(first),
                real(first, last),
                real(last, first),
                diagonal(last),
            ];
            let found = solve_two(block, [x.get(first), x.get(last)], smallest);
            x.set(first, found[0]);
            x.set(last, found[1]);
            x.keep_small(first);
            first
        } else {
            let found = divided(x.get(last), pivot(diagonal(last), smallest));
            x.set(last, found);
            last
        };
        x.keep_small(last);
        for j in first..end {
            let (re, im) = x.get(j);
            R::axpy::<I>(-re, &t.column(j)[..first], &mut x.re[..first]);
            if x.is_complex {
                R::axpy::<I>(-im, &t.column(j)[..first], &mut x.im[..first]);
            }
        }
        end = first;
    }
}

/// Forward substitution from the block that begins at a row. Computes the conjugate of the vector,
/// and conjugates it at the end.
#[inline(always)]
fn left_of_real<I: Isa, R: Real>(
    t: &Matrix<'_, R>,
    at: usize,
    value: Pair<R>,
    smallest: R,
    x: &mut Parts<'_, R>,
) {
    let n = t.rows();
    let mut first = at + 1;
    if x.is_complex {
        let (above, below) = (t.at(at, at + 1), t.at(at + 1, at));
        if above.abs() >= below.abs() {
            x.set(at, (value.1 / above, R::ZERO));
            x.set(at + 1, (R::ZERO, -R::ONE));
        } else {
            x.set(at, (R::ONE, R::ZERO));
            x.set(at + 1, (R::ZERO, value.1 / below));
        }
        first += 1;
    } else {
        x.re[at] = R::ONE;
    }
    while first < n {
        let is_pair = first + 1 < n && t.at(first + 1, first) != R::ZERO;
        let diagonal = |i: usize| (t.at(i, i) - value.0, -value.1);
        let rows = at..first;
        let own = minus_dot::<I, R>(&t.column(first)[rows.clone()], x, rows.clone());
        if is_pair {
            let second = first + 1;
            let other = minus_dot::<I, R>(&t.column(second)[rows.clone()], x, rows);
            let real = |i, j| (t.at(i, j), R::ZERO);
            let block = [
                diagonal(first),
                real(second, first),
                real(first, second),
                diagonal(second),
            ];
            let found = solve_two(block, [own, other], smallest);
            x.set(first, found[0]);
            x.set(second, found[1]);
            x.keep_small(second);
        } else {
            let found = divided(own, pivot(diagonal(first), smallest));
            x.set(first, found);
        }
        x.keep_small(first);
        first += 1 + usize::from(is_pair);
    }
    x.im.iter_mut().for_each(|x| *x = -*x);
}

/// Minus the sum of the products of a column and rows of a vector.
#[inline(always)]
fn minus_dot<I: Isa, R: Real>(column: &[R], x: &Parts<'_, R>, rows: Range<usize>) -> Pair<R> {
    let re = R::dotc::<I>(column, &x.re[rows.clone()]);
    let im = match x.is_complex {
        true => R::dotc::<I>(column, &x.im[rows]),
        false => R::ZERO,
    };
    (-re, -im)
}

/// The eigenvectors of a complex triangular matrix, multiplied by `q`.
#[inline(always)]
pub(crate) fn of_complex<I: Isa, T: Scalar>(
    side: Side,
    t: &Matrix<'_, T>,
    q: &Matrix<'_, T>,
    v: &mut Matrix<'_, T>,
) {
    let n = t.rows();
    let mut x = vec![T::ZERO; n];
    let least = T::Real::SAFE_MIN * (T::Real::from_f64(n as f64) / T::Real::PRECISION);
    let largest = T::Real::ONE / T::Real::SAFE_MIN.sqrt();
    for at in 0..n {
        if is_stopped() {
            break;
        }
        let value = t.at(at, at);
        let smallest = (T::Real::PRECISION * value.abs1()).max(least);
        let pivot = |j: usize| {
            let pivot = t.at(j, j) - value;
            match pivot.abs1() < smallest {
                true => T::from_real(smallest),
                false => pivot,
            }
        };
        let keep_small = |x: &mut [T], i: usize| {
            let size = x[i].abs1();
            if size > largest {
                let by = T::Real::ONE / size;
                x.iter_mut().for_each(|x| *x = x.scale(by));
            }
        };
        x.fill(T::ZERO);
        x[at] = T::ONE;
        let range = match side {
            Side::Right => {
                T::axpy::<I>(-T::ONE, &t.column(at)[..at], &mut x[..at]);
                for j in (0..at).rev() {
                    x[j] = x[j].divide(pivot(j));
                    keep_small(&mut x, j);
                    let (before, own) = x[..=j].split_at_mut(j);
                    T::axpy::<I>(-own[0], &t.column(j)[..j], before);
                }
                0..at + 1
            }
            Side::Left => {
                // Substitution for the adjoint: `x` is the vector itself.
                for j in at + 1..n {
                    let sum = T::dotc::<I>(&t.column(j)[at..j], &x[at..j]);
                    x[j] = -sum.divide(pivot(j).conj());
                    keep_small(&mut x, j);
                }
                at..n
            }
        };
        let column = v.column_mut(at);
        column.fill(T::ZERO);
        add_columns::<I, T>(q, range.start, &x[range], column);
    }
}
