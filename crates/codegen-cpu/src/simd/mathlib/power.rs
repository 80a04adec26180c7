//! Cube roots, and powers by way of `f64`.

use super::abs;
use super::double::{exp2, log2};
use crate::simd::builder::Builder;
use crate::simd::ir::{Condition, Conversion, Type, UnaryOp, V};
use tegula_scalar::LEAST_ROUNDED_TO_NORMAL;

/// C's `pow`, with zeros in place of subnormal numbers.
pub(super) fn power(b: &mut Builder, x: V, y: V) -> V {
    let magnitude = abs(b, x);
    let wide = b.convert(Conversion::Float, magnitude, Type::F64);
    let logarithm = log2(b, wide);
    let exponent = b.convert(Conversion::Float, y, Type::F64);
    let t = b.mul(exponent, logarithm);
    // 1 to whatever power is 1, and so is everything to the power of 0.
    let (one, zero, zero_wide) = (b.f32(1.0), b.f32(0.0), b.f64(0.0));
    let of_one = b.compare(Condition::Equal, magnitude, one);
    let to_zero = b.compare(Condition::Equal, y, zero);
    let is_one = b.or(of_one, to_zero);
    let t = b.select(is_one, zero_wide, t);
    let result = exp2(b, t);
    // Before it is rounded: to make a subnormal number takes long.
    let least = b.f64(LEAST_ROUNDED_TO_NORMAL);
    let underflows = b.compare(Condition::Less, result, least);
    let result = b.select(underflows, zero_wide, result);
    let result = b.convert(Conversion::Float, result, Type::F32);
    signed(b, x, y, to_zero, result)
}

/// A power of `x` from that of its magnitude, in either width: the sign of the base counts for
/// odd powers; negative finite bases have no fractional ones.
pub(super) fn signed(b: &mut Builder, x: V, y: V, to_zero: V, magnitude: V) -> V {
    let (half, zero) = (b.float_like(x, 0.5), b.float_like(x, 0.0));
    let halved = b.mul(y, half);
    let even = b.unary(UnaryOp::Trunc, halved);
    let odd = b.compare(Condition::NotEqual, even, halved);
    let whole = b.unary(UnaryOp::Trunc, y);
    let integral = b.compare(Condition::Equal, whole, y);
    let odd = b.and(odd, integral);
    let bits = b.bits(x);
    let sign_bit = b.sign_bit_like(x);
    let sign = b.and(bits, sign_bit);
    let none = b.integer(b.type_of(bits), 0);
    let sign = b.select(odd, sign, none);
    let value = b.bits(magnitude);
    let signed = b.xor(value, sign);
    let signed = b.bits(signed);
    let negative = b.compare(Condition::Less, x, zero);
    let minus = b.float_like(x, f64::NEG_INFINITY);
    let above = b.compare(Condition::Less, minus, x);
    let fraction = b.not(integral);
    let impossible = b.and(negative, above);
    let impossible = b.and(impossible, fraction);
    let nan = b.float_like(x, f64::NAN);
    let result = b.select(impossible, nan, signed);
    let one = b.float_like(x, 1.0);
    let base_one = b.compare(Condition::Equal, x, one);
    let is_one = b.or(to_zero, base_one);
    b.select(is_one, one, result)
}

/// A third of the exponent as a first guess, then Halley's iteration, which
/// triples the correct digits.
pub(super) fn cbrt(b: &mut Builder, x: V) -> V {
    let magnitude = abs(b, x);
    // Away from where cubes overflow or underflow.
    let (tiny, huge) = (b.f32(2f32.powi(-100)), b.f32(2f32.powi(100)));
    let is_tiny = b.compare(Condition::Less, magnitude, tiny);
    let is_huge = b.compare(Condition::Less, huge, magnitude);
    let (up, down, one) = (b.f32(2f32.powi(48)), b.f32(2f32.powi(-48)), b.f32(1.0));
    let scale = b.select(is_huge, down, one);
    let scale = b.select(is_tiny, up, scale);
    let scaled = b.mul(magnitude, scale);
    let bits = b.bits(scaled);
    let bits = b.convert(Conversion::FromSigned, bits, Type::F32);
    let third = b.f32(1.0 / 3.0);
    let bits = b.mul(bits, third);
    let bits = b.convert(Conversion::Truncate, bits, Type::I32);
    let bias = b.i32(709_921_077);
    let guess = b.add(bits, bias);
    let mut root = b.bits(guess);
    for _ in 0..2 {
        root = halley(b, root, scaled);
    }
    let (up, down) = (b.f32(2f32.powi(16)), b.f32(2f32.powi(-16)));
    let unscale = b.select(is_huge, up, one);
    let unscale = b.select(is_tiny, down, unscale);
    let root = b.mul(root, unscale);
    // The sign of x; zeros, infinities and NaN are their own roots.
    let (x_bits, sign) = (b.bits(x), b.i32(i32::MIN));
    let sign = b.and(x_bits, sign);
    let root = b.bits(root);
    let root = b.or(root, sign);
    let root = b.bits(root);
    let (zero, infinity) = (b.f32(0.0), b.f32(f32::INFINITY));
    let finite = b.compare(Condition::Less, magnitude, infinity);
    let nonzero = b.compare(Condition::NotEqual, x, zero);
    let usual = b.and(finite, nonzero);
    b.select(usual, root, x)
}

/// `t - t (t^3 - x) / (2 t^3 + x)`.
pub(super) fn halley(b: &mut Builder, t: V, x: V) -> V {
    let square = b.mul(t, t);
    let cube = b.mul(square, t);
    let difference = b.sub(cube, x);
    let double = b.add(cube, cube);
    let sum = b.add(double, x);
    let quotient = b.div(difference, sum);
    let step = b.mul(t, quotient);
    b.sub(t, step)
}
