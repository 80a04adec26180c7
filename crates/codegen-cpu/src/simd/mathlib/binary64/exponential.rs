//! `exp`, `exp - 1`, the logistic function and `tanh`.

use super::super::exponential::reduce;
use super::{LN2_HIGH, LN2_LOW, abs, clamp, keep_zero, polynomial_f64};
use crate::simd::builder::Builder;
use crate::simd::ir::{BinaryOp, Condition, UnaryOp, V};
use crate::simd::mathlib::{negated, with_sign};

/// `(e^r - 1 - r) / r^2` for |r| <= 0.347: relative to `e^r - 1` within 4.1e-17.
const EXPM1: [f64; 10] = [
    0.500_000_000_000_000_1,
    0.166_666_666_666_666_69,
    0.041_666_666_666_623_824,
    0.008_333_333_333_330_039,
    0.001_388_888_891_736_708_1,
    0.000_198_412_698_631_715_57,
    2.480_152_105_786_820_4e-5,
    2.755_726_827_690_569_6e-6,
    2.762_020_159_103_154_7e-7,
    2.510_047_250_569_499_6e-8,
];

/// The smallest number whose exponential is a normal number.
const LEAST: f64 = -708.396_418_532_264_1;
/// A number whose exponential overflows an `f64`; the nearest power of two is 2^1024.
const ABOVE: f64 = 710.0;

/// Splits `x = n ln 2 + r` with |r| slightly above ln 2 / 2 at most; returns `n` and `e^r - 1`.
fn reduced(b: &mut Builder, x: V) -> [V; 2] {
    let (n, r) = reduce(b, x, [LN2_HIGH, LN2_LOW]);
    let p = polynomial_f64(b, r, &EXPM1);
    let square = b.mul(r, r);
    [n, b.fma(p, square, r)]
}

/// `x * 2^n` for an integer `n` of at most 1024 in magnitude, in two steps.
pub(super) fn scaled(b: &mut Builder, x: V, n: V) -> V {
    let half = b.f64(0.5);
    let first = b.mul(n, half);
    let first = b.unary(UnaryOp::Nearest, first);
    let rest = b.sub(n, first);
    let x = b.binary(BinaryOp::Scale, x, first);
    b.binary(BinaryOp::Scale, x, rest)
}

/// `e^x`, but 0 below [`LEAST`]. No intermediate result is subnormal.
pub(crate) fn exp(b: &mut Builder, x: V) -> V {
    let (low, high) = (b.f64(LEAST), b.f64(ABOVE));
    let underflows = b.compare(Condition::Less, x, low);
    let within = clamp(b, low, x, high);
    let [n, less] = reduced(b, within);
    let one = b.f64(1.0);
    let power = b.add(less, one);
    let power = scaled(b, power, n);
    let zero = b.f64(0.0);
    b.select(underflows, zero, power)
}

/// `2^n (e^r - 1) + (2^n - 1)`, halved so that `n = 1024` does not overflow.
pub(crate) fn expm1(b: &mut Builder, x: V) -> V {
    let (low, high) = (b.f64(-45.0), b.f64(ABOVE));
    let within = clamp(b, low, x, high);
    let [n, near] = reduced(b, within);
    let half = b.f64(0.5);
    let power = scaled(b, half, n);
    let less = b.sub(power, half);
    let sum = b.fma(near, power, less);
    let far = b.add(sum, sum);
    let zero = b.f64(0.0);
    let is_near = b.compare(Condition::Equal, n, zero);
    let result = b.select(is_near, near, far);
    keep_zero(b, x, result)
}

/// A number whose exponential is above twice the largest number; the nearest power of two is 2^1025.
const ABOVE_HYPERBOLIC: f64 = 710.5;

/// `e^x / 2` of a number that is not negative.
pub(crate) fn half_exp(b: &mut Builder, x: V) -> V {
    let high = b.f64(ABOVE_HYPERBOLIC);
    let within = b.binary(BinaryOp::LesserOrSecond, high, x);
    let [n, less] = reduced(b, within);
    let one = b.f64(1.0);
    let (power, n) = (b.add(less, one), b.sub(n, one));
    scaled(b, power, n)
}

/// `(e^x - 1) / 4` of a number that is not negative: finite, because the exponent is bounded.
pub(crate) fn quarter_expm1(b: &mut Builder, x: V) -> V {
    let high = b.f64(ABOVE_HYPERBOLIC);
    let within = b.binary(BinaryOp::LesserOrSecond, high, x);
    let [n, near] = reduced(b, within);
    let (two, quarter) = (b.f64(2.0), b.f64(0.25));
    let n = b.sub(n, two);
    let one = b.f64(1.0);
    let power = scaled(b, one, n);
    let less = b.sub(power, quarter);
    b.fma(near, power, less)
}

/// With `t = e^-2|x| - 1`: `-t / (t + 2)`, and the sign of `x`.
pub(super) fn tanh(b: &mut Builder, x: V) -> V {
    let magnitude = abs(b, x);
    // Below this the result is the operand. The unused branch is computed with a normal number.
    let small = b.f64(2f64.powi(-28));
    let raised = b.binary(BinaryOp::GreaterOrSecond, small, magnitude);
    let minus_two = b.f64(-2.0);
    let twice = b.mul(raised, minus_two);
    // From here on the result is 1 when rounded.
    let last = b.f64(-40.0);
    let twice = b.binary(BinaryOp::GreaterOrSecond, last, twice);
    let [n, near] = reduced(b, twice);
    // Half of `t`, by a power of 2 that is no less than 2^-59.
    let (half, one) = (b.f64(0.5), b.f64(1.0));
    let power = b.binary(BinaryOp::Scale, half, n);
    let less = b.sub(power, half);
    let t = b.fma(near, power, less);
    let below = b.add(t, one);
    let y = b.div(t, below);
    let y = abs(b, y);
    let y = with_sign(b, y, x);
    let is_small = b.compare(Condition::Less, magnitude, small);
    let y = b.select(is_small, x, y);
    let nan = b.compare(Condition::Unordered, x, one);
    b.select(nan, x, y)
}

/// `e^-|x|` never overflows: `1 / (1 + e^-x)` or `e^x / (1 + e^x)` by sign.
pub(super) fn logistic(b: &mut Builder, x: V) -> V {
    let magnitude = abs(b, x);
    let negative = negated(b, magnitude);
    let e = exp(b, negative);
    let (one, zero) = (b.f64(1.0), b.f64(0.0));
    let below = b.add(one, e);
    let is_negative = b.compare(Condition::Less, x, zero);
    let above = b.select(is_negative, e, one);
    b.div(above, below)
}
