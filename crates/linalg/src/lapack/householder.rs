//! Elementary reflectors `H = I - tau v v^H` with `v[0] = 1` (Householder reflections).

use crate::lapack::isa::Isa;
use crate::lapack::matrix::Matrix;
use crate::lapack::matrix_vector::{add_columns, subtract_product};
use crate::lapack::scalar::{Real, Scalar};

/// The Euclidean norm, without intermediate overflow or underflow.
#[inline(always)]
pub(crate) fn norm<I: Isa, T: Scalar>(x: &[T]) -> T::Real {
    let parts = T::parts(x);
    let sum = T::Real::dotc::<I>(parts, parts);
    let smallest = T::Real::SAFE_MIN / (T::Real::ROUNDING * T::Real::ROUNDING);
    if sum > smallest && sum.is_finite_real() {
        return sum.sqrt();
    }
    scaled_norm::<T::Real>(parts)
}

/// The norm of numbers whose squares overflow or underflow.
#[cold]
fn scaled_norm<R: Real>(parts: &[R]) -> R {
    let mut largest = R::ZERO;
    for &x in parts {
        if x.is_nan() {
            return x;
        }
        largest = largest.max(x.abs());
    }
    if largest == R::ZERO || !largest.is_finite_real() {
        return largest;
    }
    let mut sum = R::ZERO;
    for &x in parts {
        let ratio = x / largest;
        sum += ratio * ratio;
    }
    largest * sum.sqrt()
}

/// The reflector whose adjoint maps `(alpha, x)` to `(beta, 0)`, with the convention of LAPACK's
/// `larfg`: `beta` is real, and its sign is opposite to that of the real part of `alpha`.
/// Overwrites `x` by the tail of `v`; returns `beta` and `tau`.
#[inline(always)]
pub(crate) fn reflector<I: Isa, T: Scalar>(mut alpha: T, x: &mut [T]) -> (T, T) {
    let mut length = norm::<I, T>(x);
    if length == T::Real::ZERO && alpha.im() == T::Real::ZERO {
        return (alpha, T::ZERO);
    }
    let whole = |alpha: T, length: T::Real| {
        let size = alpha.re().hypot(alpha.im()).hypot(length);
        -size.copysign(alpha.re())
    };
    let mut beta = whole(alpha, length);
    let smallest = T::Real::SAFE_MIN / T::Real::ROUNDING;
    let mut rescaled = 0;
    while beta.abs() < smallest && rescaled < 20 {
        // The reciprocal of `alpha - beta` would be inaccurate.
        rescaled += 1;
        let larger = T::Real::ONE / smallest;
        x.iter_mut().for_each(|x| *x = x.scale(larger));
        alpha = alpha.scale(larger);
        length = norm::<I, T>(x);
        beta = whole(alpha, length);
    }
    let tau = T::from_parts((beta - alpha.re()) / beta, -alpha.im() / beta);
    let inverse = T::ONE.divide(alpha - T::from_real(beta));
    for x in x {
        *x *= inverse;
    }
    for _ in 0..rescaled {
        beta *= smallest;
    }
    (T::from_real(beta), tau)
}

/// Vectors with fewer elements are not vectorised.
const SHORT: usize = 8;

/// Replaces each column `c` of a matrix by `H c`; `v` is the tail of the reflector's vector.
#[inline(always)]
pub(crate) fn apply_left<I: Isa, T: Scalar>(v: &[T], tau: T, mut c: Matrix<'_, T>) {
    if tau == T::ZERO {
        return;
    }
    let columns = c.columns();
    let four = match v.len() {
        ..SHORT => 0,
        _ => columns - columns % 4,
    };
    for column in (0..four).step_by(4) {
        let columns = c.four_columns(column);
        let [
            Some((h0, t0)),
            Some((h1, t1)),
            Some((h2, t2)),
            Some((h3, t3)),
        ] = columns.map(<[T]>::split_first_mut)
        else {
            return;
        };
        let sums = T::dotc_four::<I>(v, [t0, t1, t2, t3]);
        let heads = [h0, h1, h2, h3];
        let mut factors = [T::ZERO; 4];
        for ((head, sum), factor) in heads.into_iter().zip(sums).zip(&mut factors) {
            let sum = tau * (*head + sum);
            *head -= sum;
            *factor = sum;
        }
        T::subtract_from_four::<I>(factors, v, [t0, t1, t2, t3]);
    }
    for column in four..columns {
        if let [head, tail @ ..] = c.column_mut(column) {
            let sum = tau * (*head + T::dotc::<I>(v, tail));
            *head -= sum;
            T::axpy::<I>(-sum, v, tail);
        }
    }
}

/// Replaces a matrix `c` by `c H`; `v` is the tail of the reflector's vector, `work` has as many
/// elements as the matrix has rows.
#[inline(always)]
pub(crate) fn apply_right<I: Isa, T: Scalar>(
    v: &[T],
    tau: T,
    mut c: Matrix<'_, T>,
    work: &mut [T],
) {
    if tau == T::ZERO || c.columns() == 0 {
        return;
    }
    let work = &mut work[..c.rows()];
    work.copy_from_slice(c.column(0));
    add_columns::<I, T>(&c, 1, v, work);
    T::axpy::<I>(-tau, work, c.column_mut(0));
    let mut rest = c.part(0, 1, work.len(), v.len());
    subtract_product::<I, T>(&mut rest, work, tau, v);
}
