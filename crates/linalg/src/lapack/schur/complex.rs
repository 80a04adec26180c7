//! Schur form of complex Hessenberg matrices by the single-shift QR iteration.

use super::Hqr;
use crate::lapack::NotConverged;
use crate::lapack::householder::reflector;
use crate::lapack::isa::Isa;
use crate::lapack::matrix::Matrix;
use crate::lapack::scalar::{Real, Scalar};
use crate::thread_pool::is_stopped;

/// The maximum number of iterations for each row; a matrix counts as at least ten rows.
const ITERATIONS: usize = 30;
/// The number of iterations on one block after which an exceptional shift is used.
const EXCEPTIONAL: usize = 10;

/// LAPACK's complex `lahqr`: replaces `h` by its Schur form (only computes its eigenvalues, if
/// `whole` is false) and multiplies `z` by the unitary transformation. Writes the eigenvalues.
#[inline(always)]
pub(crate) fn lahqr<I: Isa, T: Scalar>(
    call: Hqr<'_, '_, T>,
    values: &mut [T],
) -> Result<(), NotConverged> {
    let Hqr {
        h,
        mut z,
        whole,
        active,
    } = call;
    let n = h.rows();
    for i in (0..active.start).chain(active.end..n) {
        values[i] = h.at(i, i);
    }
    let (low, mut end) = (active.start, active.end);
    let window = if whole { [0, n] } else { [low, end] };
    make_real(h, z.as_mut(), low, end, window);
    let rows = T::Real::from_f64(active.len() as f64);
    let smallest = T::Real::SAFE_MIN * (rows / T::Real::PRECISION);
    let limit = ITERATIONS * active.len().max(10);
    while end > low {
        let last = end - 1;
        let mut first = low;
        let mut converged = false;
        for iteration in 0..=limit {
            if is_stopped() {
                break;
            }
            first = deflation(h, low, first, last, active.end, smallest);
            if first > low {
                h.set(first, first - 1, T::ZERO);
            }
            if first >= last {
                converged = true;
                break;
            }
            let window = if whole { [0, n] } else { [first, end] };
            let shift = shift(h, first, last, iteration + 1);
            let (start, v) = bulge(h, first, last, shift);
            chase::<I, T>(h, z.as_mut(), [first, start, last], window, v);
        }
        if !converged {
            return Err(NotConverged(end));
        }
        values[last] = h.at(last, last);
        end = last;
    }
    Ok(())
}

/// Makes the subdiagonal real and non-negative.
#[inline(always)]
fn make_real<T: Scalar>(
    h: &mut Matrix<'_, T>,
    mut z: Option<&mut Matrix<'_, T>>,
    low: usize,
    end: usize,
    [top, right]: [usize; 2],
) {
    for i in low + 1..end {
        let x = h.at(i, i - 1);
        if x.im() == T::Real::ZERO {
            continue;
        }
        let size = x.abs();
        let turn = x.scale(T::Real::ONE / x.abs1());
        let turn = turn.conj().scale(T::Real::ONE / turn.abs());
        h.set(i, i - 1, T::from_real(size));
        scale_row(h, i, i..right, turn);
        scale_column(h, i, top..right.min(i + 2), turn.conj());
        if let Some(z) = z.as_deref_mut() {
            let rows = z.rows();
            scale_column(z, i, 0..rows, turn.conj());
        }
    }
}

#[inline(always)]
fn scale_row<T: Scalar>(h: &mut Matrix<'_, T>, row: usize, columns: std::ops::Range<usize>, by: T) {
    for column in columns {
        *h.at_mut(row, column) *= by;
    }
}

#[inline(always)]
fn scale_column<T: Scalar>(
    h: &mut Matrix<'_, T>,
    column: usize,
    rows: std::ops::Range<usize>,
    by: T,
) {
    h.column_mut(column)[rows].iter_mut().for_each(|x| *x *= by);
}

/// The first row of the active block that ends with row `last`.
#[inline(always)]
fn deflation<T: Scalar>(
    h: &Matrix<'_, T>,
    low: usize,
    first: usize,
    last: usize,
    end: usize,
    smallest: T::Real,
) -> usize {
    for k in (first + 1..=last).rev() {
        let beside = h.at(k, k - 1).abs1();
        if beside <= smallest {
            return k;
        }
        let mut size = h.at(k - 1, k - 1).abs1() + h.at(k, k).abs1();
        if size == T::Real::ZERO {
            if k >= low + 2 {
                size += h.at(k - 1, k - 2).re().abs();
            }
            if k + 1 < end {
                size += h.at(k + 1, k).re().abs();
            }
        }
        if h.at(k, k - 1).re().abs() <= T::Real::PRECISION * size {
            let above = h.at(k - 1, k).abs1();
            let (ab, ba) = (beside.max(above), beside.min(above));
            let own = h.at(k, k).abs1();
            let apart = (h.at(k - 1, k - 1) - h.at(k, k)).abs1();
            let (aa, bb) = (own.max(apart), own.min(apart));
            let s = aa + ab;
            if ba * (ab / s) <= smallest.max(T::Real::PRECISION * (bb * (aa / s))) {
                return k;
            }
        }
    }
    first
}

/// Wilkinson's shift, or an exceptional one.
#[inline(always)]
fn shift<T: Scalar>(h: &Matrix<'_, T>, first: usize, last: usize, at_place: usize) -> T {
    let exceptional = |beside: T, at: T| {
        let size = T::Real::from_f64(0.75) * beside.re().abs();
        at + T::from_real(size)
    };
    if at_place.is_multiple_of(2 * EXCEPTIONAL) {
        return exceptional(h.at(last, last - 1), h.at(last, last));
    }
    if at_place.is_multiple_of(EXCEPTIONAL) {
        return exceptional(h.at(first + 1, first), h.at(first, first));
    }
    let t = h.at(last, last);
    let u = square_root(h.at(last - 1, last)) * square_root(h.at(last, last - 1));
    let size = u.abs1();
    if size == T::Real::ZERO {
        return t;
    }
    let x = (h.at(last - 1, last - 1) - t).scale(T::Real::from_f64(0.5));
    let size_x = x.abs1();
    let size = size.max(size_x);
    let inverse = T::Real::ONE / size;
    let (a, b) = (x.scale(inverse), u.scale(inverse));
    let mut y = square_root(a * a + b * b).scale(size);
    if size_x > T::Real::ZERO {
        let along = x.scale(T::Real::ONE / size_x);
        if along.re() * y.re() + along.im() * y.im() < T::Real::ZERO {
            y = -y;
        }
    }
    t - u * u.divide(x + y)
}

/// The square root with non-negative real part.
#[inline(always)]
fn square_root<T: Scalar>(x: T) -> T {
    let (re, im) = (x.re(), x.im());
    if re == T::Real::ZERO && im == T::Real::ZERO {
        return T::ZERO;
    }
    let half = T::Real::from_f64(0.5);
    let larger = ((x.abs() + re.abs()) * half).sqrt();
    let smaller = im.abs() * half / larger;
    match re >= T::Real::ZERO {
        true => T::from_parts(larger, smaller.copysign(im)),
        false => T::from_parts(smaller, larger.copysign(im)),
    }
}

/// The row at which a pass can begin, and the first column of the shifted matrix there.
#[inline(always)]
fn bulge<T: Scalar>(h: &Matrix<'_, T>, first: usize, last: usize, shift: T) -> (usize, [T; 2]) {
    let mut m = last - 1;
    loop {
        let own = h.at(m, m);
        let (shifted, below) = (own - shift, h.at(m + 1, m).re());
        let inverse = T::Real::ONE / (shifted.abs1() + below.abs());
        let (shifted, below) = (shifted.scale(inverse), below * inverse);
        let v = [shifted, T::from_real(below)];
        if m == first {
            return (m, v);
        }
        let beside = h.at(m, m - 1).re().abs() * below.abs();
        let around = own.abs1() + h.at(m + 1, m + 1).abs1();
        if beside <= T::Real::PRECISION * (shifted.abs1() * around) {
            return (m, v);
        }
        m -= 1;
    }
}

/// One pass of the iteration: chases the bulge from row `start` to the end of the block.
#[inline(always)]
fn chase<I: Isa, T: Scalar>(
    h: &mut Matrix<'_, T>,
    mut z: Option<&mut Matrix<'_, T>>,
    [first, start, last]: [usize; 3],
    [top, right]: [usize; 2],
    mut v: [T; 2],
) {
    for k in start..last {
        if k > start {
            v = [h.at(k, k - 1), h.at(k + 1, k - 1)];
        }
        let (head, tail) = v.split_at_mut(1);
        let (beta, t1) = reflector::<I, T>(head[0], tail);
        if k > start {
            h.set(k, k - 1, beta);
            h.set(k + 1, k - 1, T::ZERO);
        }
        let v2 = v[1];
        let t2 = (t1 * v2).re();
        for j in k..right {
            let (x, y) = (h.at(k, j), h.at(k + 1, j));
            let sum = t1.conj() * x + y.scale(t2);
            h.set(k, j, x - sum);
            h.set(k + 1, j, y - sum * v2);
        }
        let by = [t1, v2.conj()];
        let [x, y] = h.two_columns(k, k + 1);
        let rows = top..(k + 2).min(last) + 1;
        T::reflect::<I>(by, t2, &mut x[rows.clone()], &mut y[rows]);
        if let Some(z) = z.as_deref_mut() {
            let [x, y] = z.two_columns(k, k + 1);
            T::reflect::<I>(by, t2, x, y);
        }
        if k == start && start > first {
            // The pass began inside of the block: this keeps the subdiagonal real.
            let turn = T::ONE - t1;
            let turn = turn.scale(T::Real::ONE / turn.abs());
            *h.at_mut(start + 1, start) *= turn.conj();
            if start + 2 <= last {
                *h.at_mut(start + 2, start + 1) *= turn;
            }
            for j in (start..=last).filter(|&j| j != start + 1) {
                scale_row(h, j, j + 1..right, turn);
                scale_column(h, j, top..j, turn.conj());
                if let Some(z) = z.as_deref_mut() {
                    let rows = z.rows();
                    scale_column(z, j, 0..rows, turn.conj());
                }
            }
        }
    }
    let x = h.at(last, last - 1);
    if x.im() != T::Real::ZERO {
        let size = x.abs();
        let turn = x.scale(T::Real::ONE / size);
        h.set(last, last - 1, T::from_real(size));
        scale_row(h, last, last + 1..right, turn.conj());
        scale_column(h, last, top..last, turn);
        if let Some(z) = z {
            let rows = z.rows();
            scale_column(z, last, 0..rows, turn);
        }
    }
}
