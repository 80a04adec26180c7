//! `exp`, `exp - 1`, the logistic function and `tanh`.

use super::{abs, clamp, keep_zero, polynomial};
use crate::simd::builder::Builder;
use crate::simd::ir::{BinaryOp, Condition, UnaryOp, V};

/// The upper nine bits of ln 2, whose products with integers below 2^15 are exact, and the
/// remainder.
const LN2: [f64; 2] = [0.693_359_375, -2.121_944_4e-4];

/// `(e^r - 1 - r) / r^2` for |r| <= 0.35: relative to `e^r` within 3.3e-9.
const EXP: [f32; 5] = [
    0.499_999_94,
    0.166_665_15,
    0.041_668_456,
    0.008_369_419,
    0.001_381_314_5,
];

/// The same, relative to `e^r - 1` within 2.6e-10.
const EXPM1: [f32; 6] = [
    0.5,
    0.166_666_67,
    0.041_666_344,
    0.008_333_27,
    0.001_394_204_6,
    0.000_199_156_23,
];

/// Splits `x = n ln 2 + r` with |r| slightly above ln 2 / 2 at most, for either width. ln 2 is
/// given as a number of so few bits that its product with `n` is exact, plus the remainder.
pub(super) fn reduce(b: &mut Builder, x: V, [high, low]: [f64; 2]) -> (V, V) {
    let log2e = b.float_like(x, std::f64::consts::LOG2_E);
    let n = b.mul(x, log2e);
    let n = b.unary(UnaryOp::Nearest, n);
    let high = b.float_like(x, -high);
    let r = b.fma(n, high, x);
    let low = b.float_like(x, -low);
    let r = b.fma(n, low, r);
    (n, r)
}

/// The smallest number whose exponential is a normal number.
const LEAST: f32 = -87.336_54;

/// `e^x` within 2 units in the last place, but 0 below [`LEAST`]. No intermediate result is
/// subnormal.
pub(super) fn exp(b: &mut Builder, x: V) -> V {
    let (low, high) = (b.f32(LEAST), b.f32(89.0));
    let underflows = b.compare(Condition::Less, x, low);
    let x = clamp(b, low, x, high);
    let (n, p) = power_and_rest(b, x);
    let y = b.binary(BinaryOp::Scale, p, n);
    let zero = b.f32(0.0);
    b.select(underflows, zero, y)
}

/// `n` and `e^r`, where `x = n ln 2 + r`.
fn power_and_rest(b: &mut Builder, x: V) -> (V, V) {
    let (n, r) = reduce(b, x, LN2);
    let p = polynomial(b, r, &EXP);
    let one = b.f32(1.0);
    let p = b.fma(p, r, one);
    (n, b.fma(p, r, one))
}

/// A number whose exponential is above twice the largest number.
const ABOVE_HYPERBOLIC: f32 = 89.5;

/// `e^x / 2` of a number that is not negative.
pub(super) fn half_exp(b: &mut Builder, x: V) -> V {
    let high = b.f32(ABOVE_HYPERBOLIC);
    let x = b.binary(BinaryOp::LesserOrSecond, high, x);
    let (n, p) = power_and_rest(b, x);
    let one = b.f32(1.0);
    let n = b.sub(n, one);
    b.binary(BinaryOp::Scale, p, n)
}

/// `(e^x - 1) / 4` of a number that is not negative: finite, because the exponent is bounded.
pub(super) fn quarter_expm1(b: &mut Builder, x: V) -> V {
    let high = b.f32(ABOVE_HYPERBOLIC);
    let x = b.binary(BinaryOp::LesserOrSecond, high, x);
    expm1_parts(b, x, 0.25).2
}

/// `2^n (e^r - 1) + (2^n - 1)`, halved so that `n = 128` does not overflow.
pub(super) fn expm1(b: &mut Builder, x: V) -> V {
    let (low, high) = (b.f32(-30.0), b.f32(89.0));
    let clamped = clamp(b, low, x, high);
    let (n, near, sum) = expm1_parts(b, clamped, 0.5);
    let far = b.add(sum, sum);
    let zero = b.f32(0.0);
    let is_near = b.compare(Condition::Equal, n, zero);
    let result = b.select(is_near, near, far);
    keep_zero(b, x, result)
}

/// `n`, `e^r - 1`, and the result times a power of two.
fn expm1_parts(b: &mut Builder, x: V, by: f32) -> (V, V, V) {
    let (n, r) = reduce(b, x, LN2);
    let p = polynomial(b, r, &EXPM1);
    let square = b.mul(r, r);
    let near = b.fma(p, square, r);
    let by = b.f32(by);
    let power = b.binary(BinaryOp::Scale, by, n);
    let less = b.sub(power, by);
    let sum = b.fma(near, power, less);
    (n, near, sum)
}

/// With `t = e^-2|x| - 1`: `-t / (t + 2)`, and the sign of `x`.
pub(super) fn tanh(b: &mut Builder, x: V) -> V {
    // From here on the result is 1 when rounded.
    let last = b.f32(-18.1);
    let magnitude = abs(b, x);
    // Below this the result is the operand. The unused branch is computed with a normal number.
    let small = b.f32(2f32.powi(-13));
    let raised = b.binary(BinaryOp::GreaterOrSecond, small, magnitude);
    let minus_two = b.f32(-2.0);
    let twice = b.mul(raised, minus_two);
    let twice = b.binary(BinaryOp::GreaterOrSecond, last, twice);
    let (_, _, half) = expm1_parts(b, twice, 0.5);
    let one = b.f32(1.0);
    let below = b.add(half, one);
    let y = b.div(half, below);
    let is_small = b.compare(Condition::Less, magnitude, small);
    let sign = b.i32(i32::MIN);
    let bits = b.bits(x);
    let sign = b.and(bits, sign);
    let y = super::abs(b, y);
    let y = b.bits(y);
    let y = b.or(y, sign);
    let y = b.bits(y);
    b.select(is_small, x, y)
}

/// `e^-|x|` never overflows: `1 / (1 + e^-x)` or `e^x / (1 + e^x)` by sign.
pub(super) fn logistic(b: &mut Builder, x: V) -> V {
    let magnitude = abs(b, x);
    let bits = b.bits(magnitude);
    let sign = b.i32(i32::MIN);
    let negative = b.or(bits, sign);
    let negative = b.bits(negative);
    let e = exp(b, negative);
    let one = b.f32(1.0);
    let zero = b.f32(0.0);
    let below = b.add(one, e);
    let is_negative = b.compare(Condition::Less, x, zero);
    let above = b.select(is_negative, e, one);
    b.div(above, below)
}
