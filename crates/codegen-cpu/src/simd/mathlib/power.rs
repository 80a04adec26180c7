//! Powers, computed in `f64`.

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
    // 1 to any power is 1, and so is any number to the power of 0.
    let (one, zero, zero_wide) = (b.f32(1.0), b.f32(0.0), b.f64(0.0));
    let of_one = b.compare(Condition::Equal, magnitude, one);
    let to_zero = b.compare(Condition::Equal, y, zero);
    let is_one = b.or(of_one, to_zero);
    let t = b.select(is_one, zero_wide, t);
    let result = exp2(b, t);
    // Tested before rounding, because producing subnormal numbers is slow.
    let least = b.f64(LEAST_ROUNDED_TO_NORMAL);
    let underflows = b.compare(Condition::Less, result, least);
    let result = b.select(underflows, zero_wide, result);
    let result = b.convert(Conversion::Float, result, Type::F32);
    signed(b, x, y, to_zero, result)
}

/// Converts a power of the magnitude of `x` to that of `x`, in either width: odd powers of negative
/// bases are negative, and fractional powers of negative finite bases are NaN.
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
