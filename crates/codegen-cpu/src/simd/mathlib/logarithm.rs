//! `log` and `log(1 + x)`.

use super::{keep_zero, polynomial};
use crate::simd::builder::Builder;
use crate::simd::ir::{BinaryOp, Condition, Conversion, Type, V};

/// The bits of the square root of 1/2: mantissas are in [sqrt 1/2, sqrt 2).
const ROOT_HALF: i32 = 0x3f35_04f3;

/// `(log(1 + f) - f + f^2 / 2) / f^3` in that range: within 7.8e-10 of `log(1 + f)`.
const LOG: [f32; 9] = [
    0.333_333_1,
    -0.250_000_1,
    0.200_021_67,
    -0.166_680_9,
    0.142_185_54,
    -0.124_030_84,
    0.118_935_13,
    -0.116_943_344,
    0.067_575_68,
];

/// `log(x)` within 2 units in the last place.
pub(super) fn log(b: &mut Builder, x: V) -> V {
    let (exponent, f) = split(b, x);
    let p = polynomial(b, f, &LOG);
    let square = b.mul(f, f);
    let cube = b.mul(square, f);
    let low = b.f32(-2.121_944_4e-4);
    let low = b.mul(exponent, low);
    let y = b.fma(cube, p, low);
    let minus_half = b.f32(-0.5);
    let y = b.fma(square, minus_half, y);
    let y = b.add(f, y);
    let high = b.f32(0.693_359_4);
    let y = b.fma(exponent, high, y);
    special(b, x, y)
}

/// `x = 2^exponent (1 + f)`.
fn split(b: &mut Builder, x: V) -> (V, V) {
    let smallest = b.f32(f32::MIN_POSITIVE);
    let subnormal = b.compare(Condition::Less, x, smallest);
    let up = b.f32(8_388_608.0);
    let scaled = b.mul(x, up);
    let normal = b.select(subnormal, scaled, x);
    let bits = b.bits(normal);
    let root = b.i32(ROOT_HALF);
    let above = b.sub(bits, root);
    let exponent = b.shift(BinaryOp::ShiftRightSigned, above, 23);
    let shifted = b.shift(BinaryOp::ShiftLeft, exponent, 23);
    let mantissa = b.sub(bits, shifted);
    let mantissa = b.bits(mantissa);
    let one = b.f32(1.0);
    let f = b.sub(mantissa, one);
    let exponent = b.convert(Conversion::FromSigned, exponent, Type::F32);
    let (down, zero) = (b.f32(-23.0), b.f32(0.0));
    let correction = b.select(subnormal, down, zero);
    (b.add(exponent, correction), f)
}

/// Corrects a logarithm of `x` of either width: -inf at zeros, infinity at infinity, NaN for
/// negative numbers and NaN.
pub(super) fn special(b: &mut Builder, x: V, y: V) -> V {
    let (zero, infinity) = (b.float_like(x, 0.0), b.float_like(x, f64::INFINITY));
    let positive = b.compare(Condition::Less, zero, x);
    let finite = b.compare(Condition::Less, x, infinity);
    let usual = b.and(positive, finite);
    let nan = b.float_like(x, f64::NAN);
    let at_infinity = b.select(positive, x, nan);
    let is_zero = b.compare(Condition::Equal, x, zero);
    let minus = b.float_like(x, f64::NEG_INFINITY);
    let other = b.select(is_zero, minus, at_infinity);
    b.select(usual, y, other)
}

/// `log(u) + (x - (u - 1)) / u` with `u = 1 + x` rounded: the second term corrects the rounding
/// error to first order. For either width, whose logarithm is given.
pub(super) fn log1p(b: &mut Builder, x: V, log: impl FnOnce(&mut Builder, V) -> V) -> V {
    let one = b.float_like(x, 1.0);
    let u = b.add(one, x);
    let l = log(b, u);
    let kept = b.sub(u, one);
    let lost = b.sub(x, kept);
    let correction = b.div(lost, u);
    let sum = b.add(l, correction);
    let magnitude = super::abs(b, l);
    let infinity = b.float_like(x, f64::INFINITY);
    let finite = b.compare(Condition::Less, magnitude, infinity);
    let result = b.select(finite, sum, l);
    keep_zero(b, x, result)
}
