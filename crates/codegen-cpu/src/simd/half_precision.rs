//! Half-precision floats in lanes: bits to `f32`, rounding, and back to bits.

use super::builder::Builder;
use super::ir::{BinaryOp, Condition, V};
use super::mathlib::abs;
use tegula_ir::ElementType;

/// Whether these lanes are carried in `f32`.
pub(crate) fn is_supported(element_type: ElementType) -> bool {
    matches!(element_type, ElementType::BF16 | ElementType::F16)
}

/// Stored bits (in an `I32`) as the number.
pub(crate) fn decode(b: &mut Builder, element_type: ElementType, bits: V) -> V {
    if element_type == ElementType::BF16 {
        let wide = b.shift(BinaryOp::ShiftLeft, bits, 16);
        return b.bits(wide);
    }
    let low = b.i32(0x7fff);
    let magnitude = b.and(bits, low);
    let shifted = b.shift(BinaryOp::ShiftLeft, magnitude, 13);
    // The exponent's bias, by a multiplication that subnormals need.
    let value = b.bits(shifted);
    let scale = b.f32(2f32.powi(112));
    let value = b.mul(value, scale);
    let value = b.bits(value);
    let largest = b.i32(0x7bff);
    let special = b.compare(Condition::Less, largest, magnitude);
    let top = b.i32(0x7f80_0000);
    let special_bits = b.or(shifted, top);
    let value = b.select(special, special_bits, value);
    let sign = b.sub(bits, magnitude);
    let sign = b.shift(BinaryOp::ShiftLeft, sign, 16);
    let value = b.or(value, sign);
    b.bits(value)
}

/// The nearest number of the type, ties to even.
pub(crate) fn round(b: &mut Builder, element_type: ElementType, x: V) -> V {
    let dropped = if element_type == ElementType::BF16 {
        16
    } else {
        13
    };
    let bits = b.bits(x);
    let last = b.shift(BinaryOp::ShiftRight, bits, dropped);
    let one = b.i32(1);
    let odd = b.and(last, one);
    let half = b.i32((1 << (dropped - 1)) - 1);
    let sum = b.add(bits, half);
    let sum = b.add(sum, odd);
    let kept = b.i32(-1 << dropped);
    if element_type == ElementType::BF16 {
        return kept_unless_nan(b, sum, x, kept);
    }
    let rounded = b.and(sum, kept);
    let sign = b.i32(i32::MIN);
    let sign = b.and(bits, sign);
    let magnitude = abs(b, x);
    // Subnormals are multiples of 2^-24, the last place of numbers in [1/2, 1).
    let base = b.f32(0.5);
    let raised = b.add(magnitude, base);
    let small = b.sub(raised, base);
    let small = b.bits(small);
    let small = b.or(small, sign);
    let normal = b.f32(2f32.powi(-14));
    let is_small = b.compare(Condition::Less, magnitude, normal);
    let result = b.select(is_small, small, rounded);
    // Half a last place above the largest number.
    let limit = b.f32(65_520.0);
    let too_large = b.compare(Condition::LessEqual, limit, magnitude);
    let infinity = b.i32(0x7f80_0000);
    let infinity = b.or(infinity, sign);
    let result = b.select(too_large, infinity, result);
    kept_unless_nan(b, result, x, kept)
}

/// These bits, or a NaN's, without what is dropped.
fn kept_unless_nan(b: &mut Builder, bits: V, x: V, kept: V) -> V {
    let number = b.bits(bits);
    let number = b.binary(BinaryOp::UnlessNan, number, x);
    let bits = b.bits(number);
    let result = b.and(bits, kept);
    b.bits(result)
}

/// The bits of a number of the type.
pub(crate) fn encode(b: &mut Builder, element_type: ElementType, x: V) -> V {
    let bits = b.bits(x);
    if element_type == ElementType::BF16 {
        return b.shift(BinaryOp::ShiftRight, bits, 16);
    }
    let low = b.i32(i32::MAX);
    let magnitude_bits = b.and(bits, low);
    let sign = b.sub(bits, magnitude_bits);
    let sign = b.shift(BinaryOp::ShiftRight, sign, 16);
    let shifted = b.shift(BinaryOp::ShiftRight, magnitude_bits, 13);
    let bias = b.i32(112 << 10);
    let normal = b.sub(shifted, bias);
    let magnitude = b.bits(magnitude_bits);
    let base = b.f32(0.5);
    let raised = b.add(magnitude, base);
    let raised = b.bits(raised);
    let mantissa = b.i32(0x03ff);
    let small = b.and(raised, mantissa);
    let smallest = b.f32(2f32.powi(-14));
    let is_small = b.compare(Condition::Less, magnitude, smallest);
    let value = b.select(is_small, small, normal);
    let infinity = b.i32(0x7f80_0000);
    let special = b.compare(Condition::LessEqual, infinity, magnitude_bits);
    let all = b.i32(0x7fff);
    let special_bits = b.and(shifted, all);
    let top = b.i32(0x7c00);
    let special_bits = b.or(special_bits, top);
    let special_bits = b.and(special_bits, all);
    let value = b.select(special, special_bits, value);
    b.or(value, sign)
}
