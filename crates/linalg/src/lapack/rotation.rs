//! Plane rotations (Givens rotations).

use crate::lapack::isa::Isa;
use crate::lapack::matrix::Matrix;
use crate::lapack::scalar::{Real, multiply_add};

/// The rotation `[c s; -s c]` that maps `(f, g)` to `(r, 0)`. Returns `c`, `s` and `r` with the
/// convention of LAPACK 3.10's `lartg`: `c` is not negative, `r` has the sign of `f`.
#[inline(always)]
pub(crate) fn rotation<R: Real>(f: R, g: R) -> (R, R, R) {
    if g == R::ZERO {
        return (R::ONE, R::ZERO, f);
    }
    if f == R::ZERO {
        return (R::ZERO, R::ONE.copysign(g), g.abs());
    }
    let squares = f * f + g * g;
    let smallest = R::SAFE_MIN / R::ROUNDING;
    let length = if squares > smallest && squares.is_finite_real() {
        squares.sqrt()
    } else {
        f.hypot(g)
    };
    let r = length.copysign(f);
    (f.abs() / length, g / r, r)
}

/// Replaces columns `(x, y)` by `(c x + s y, c y - s x)`.
#[inline(always)]
pub(crate) fn rotate<I: Isa, R: Real>(x: &mut [R], y: &mut [R], c: R, s: R) {
    for (x, y) in x.iter_mut().zip(y) {
        let old = *x;
        *x = multiply_add::<I, R>(c, old, s * *y);
        *y = multiply_add::<I, R>(c, *y, -(s * old));
    }
}

/// Applies rotations to adjacent columns, first pair first: rotation `k` maps columns `(x, y)`, at
/// `first + k` and `first + k + 1`, to `(c x + s y, c y - s x)`.
#[inline(always)]
pub(crate) fn rotate_forward<I: Isa, R: Real>(z: &mut Matrix<'_, R>, first: usize, by: &[(R, R)]) {
    for (k, &(c, s)) in by.iter().enumerate() {
        let [x, y] = z.two_columns(first + k, first + k + 1);
        rotate::<I, R>(x, y, c, s);
    }
}

/// Like [`rotate_forward`], last pair first.
#[inline(always)]
pub(crate) fn rotate_backward<I: Isa, R: Real>(z: &mut Matrix<'_, R>, first: usize, by: &[(R, R)]) {
    for (k, &(c, s)) in by.iter().enumerate().rev() {
        let [x, y] = z.two_columns(first + k, first + k + 1);
        rotate::<I, R>(x, y, c, s);
    }
}
