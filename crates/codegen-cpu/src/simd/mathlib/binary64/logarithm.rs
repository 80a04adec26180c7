//! `log` and `log(1 + x)`.

use super::{LN2_HIGH, LN2_LOW, abs, keep_zero, polynomial_f64};
use crate::simd::builder::Builder;
use crate::simd::ir::{BinaryOp, Condition, Conversion, Type, V};

/// `(log((1 + s) / (1 - s)) - 2 s) / s^3` in `s^2`, mantissas in [sqrt 1/2, sqrt 2): within
/// 4.8e-18 of the logarithm.
const LOG: [f64; 7] = [
    0.666_666_666_666_667,
    0.399_999_999_998_982_7,
    0.285_714_286_265_333_35,
    0.222_222_110_438_224_87,
    0.181_828_957_468_014_28,
    0.153_315_017_212_074_2,
    0.146_191_647_771_864_25,
];

/// The upper half of the bits of the square root of 1/2.
const ROOT_HALF: i32 = 0x3fe6_a09e;

/// A positive number as `2^exponent * mantissa`, the mantissa in [sqrt 1/2, sqrt 2).
pub(super) fn split(b: &mut Builder, x: V) -> [V; 2] {
    let smallest = b.f64(f64::MIN_POSITIVE);
    let subnormal = b.compare(Condition::Less, x, smallest);
    let up = b.f64(2f64.powi(54));
    let lifted = b.mul(x, up);
    let normal = b.select(subnormal, lifted, x);
    let bits = b.bits(normal);
    let upper = b.shift(BinaryOp::ShiftRight, bits, 32);
    let upper = b.convert(Conversion::Low, upper, Type::I32);
    let root = b.i32(ROOT_HALF);
    let above = b.sub(upper, root);
    let exponent = b.shift(BinaryOp::ShiftRightSigned, above, 20);
    let shifted = b.convert(Conversion::ExtendSigned, exponent, Type::I64);
    let shifted = b.shift(BinaryOp::ShiftLeft, shifted, 52);
    let mantissa = b.sub(bits, shifted);
    let mantissa = b.bits(mantissa);
    let exponent = b.convert(Conversion::FromSigned, exponent, Type::F64);
    let (down, zero) = (b.f64(-54.0), b.f64(0.0));
    let correction = b.select(subnormal, down, zero);
    [b.add(exponent, correction), mantissa]
}

/// With `f` the mantissa less 1 and `s = f / (2 + f)`: `f - f^2/2 + s (f^2/2 + s^2 LOG(s^2))`,
/// and ln 2 for each power of 2. What is large is added last.
pub(super) fn log(b: &mut Builder, x: V) -> V {
    let [exponent, mantissa] = split(b, x);
    let (one, half) = (b.f64(1.0), b.f64(0.5));
    let (f, below) = (b.sub(mantissa, one), b.add(mantissa, one));
    let s = b.div(f, below);
    let z = b.mul(s, s);
    let p = polynomial_f64(b, z, &LOG);
    let square = b.mul(f, f);
    let square = b.mul(square, half);
    let sum = b.fma(z, p, square);
    let low = b.f64(LN2_LOW);
    let low = b.mul(exponent, low);
    let tail = b.fma(s, sum, low);
    let tail = b.sub(tail, square);
    let y = b.add(tail, f);
    let high = b.f64(LN2_HIGH);
    let y = b.fma(exponent, high, y);
    special(b, x, y)
}

/// -inf at zeros, infinity at itself, NaN below zero and at NaN.
fn special(b: &mut Builder, x: V, y: V) -> V {
    let (zero, infinity) = (b.f64(0.0), b.f64(f64::INFINITY));
    let positive = b.compare(Condition::Less, zero, x);
    let finite = b.compare(Condition::Less, x, infinity);
    let usual = b.and(positive, finite);
    let nan = b.f64(f64::NAN);
    let at_infinity = b.select(positive, x, nan);
    let is_zero = b.compare(Condition::Equal, x, zero);
    let minus = b.f64(f64::NEG_INFINITY);
    let other = b.select(is_zero, minus, at_infinity);
    b.select(usual, y, other)
}

/// `log(u) + (x - (u - 1)) / u` with `u = 1 + x` as it was rounded: what the rounding lost, to
/// first order.
pub(super) fn log1p(b: &mut Builder, x: V) -> V {
    let one = b.f64(1.0);
    let u = b.add(one, x);
    let l = log(b, u);
    let kept = b.sub(u, one);
    let lost = b.sub(x, kept);
    let correction = b.div(lost, u);
    let sum = b.add(l, correction);
    let magnitude = abs(b, l);
    let infinity = b.f64(f64::INFINITY);
    let finite = b.compare(Condition::Less, magnitude, infinity);
    let result = b.select(finite, sum, l);
    keep_zero(b, x, result)
}
