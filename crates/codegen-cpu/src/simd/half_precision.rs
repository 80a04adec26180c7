//! Half-precision floats in lanes: bits to `f32`, rounding, and back to bits.
//!
//! For binary16 the first and last step are conversions, for which machines have instructions; for
//! bfloat16, the upper half of an `f32`, they are a few integer operations.

use super::builder::Builder;
use super::ir::{BinaryOp, Conversion, Op, Type, V};
use tegula_ir::ElementType;

/// Whether lanes of this type are carried in `f32`.
pub(crate) fn is_supported(element_type: ElementType) -> bool {
    matches!(element_type, ElementType::BF16 | ElementType::F16)
}

/// Converts stored bits (in an `I32`) to the number.
pub(crate) fn decode(b: &mut Builder, element_type: ElementType, bits: V) -> V {
    if element_type == ElementType::F16 {
        return b.convert(Conversion::FromHalf, bits, Type::F32);
    }
    let wide = b.shift(BinaryOp::ShiftLeft, bits, 16);
    b.bits(wide)
}

/// Rounds to the nearest number of the type, ties to even.
pub(crate) fn round(b: &mut Builder, element_type: ElementType, x: V) -> V {
    if element_type == ElementType::F16 {
        return b.convert(Conversion::RoundHalf, x, Type::F32);
    }
    let bits = b.bits(x);
    let last = b.shift(BinaryOp::ShiftRight, bits, 16);
    let one = b.i32(1);
    let odd = b.and(last, one);
    let half = b.i32(0x7fff);
    let sum = b.add(bits, half);
    let sum = b.add(sum, odd);
    let number = b.bits(sum);
    let number = b.binary(BinaryOp::UnlessNan, number, x);
    let bits = b.bits(number);
    let kept = b.i32(-1 << 16);
    let result = b.and(bits, kept);
    b.bits(result)
}

/// Converts a number of the type to its bits.
pub(crate) fn encode(b: &mut Builder, element_type: ElementType, x: V) -> V {
    if element_type == ElementType::F16 {
        return match b.body().op(x) {
            // A number that is only moved keeps its bits, also if it is a signalling NaN.
            Op::Convert(Conversion::FromHalf, bits) => bits,
            Op::Convert(Conversion::RoundHalf, exact) => {
                b.convert(Conversion::ToHalf, exact, Type::I32)
            }
            _ => b.convert(Conversion::ToHalf, x, Type::I32),
        };
    }
    let bits = b.bits(x);
    b.shift(BinaryOp::ShiftRight, bits, 16)
}
