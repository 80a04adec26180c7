//! The element type in which a dot product or a convolution is computed.

use crate::ElementType;

/// The element type in which `dot` and `convolution` multiply and add: the type of highest
/// precision among both operands and the result. Operands are converted to it before, and the sum
/// is converted to the result's type after.
///
/// This combines XLA's passes `OperandUpcaster` and `ResultCaster`, with the order of
/// `primitive_util::HigherPrecisionType`. That order leaves some pairs of 8-bit formats unordered,
/// and XLA rejects those; here they are ordered as in [`ElementType::ALL`].
#[must_use]
pub fn product_type(lhs: ElementType, rhs: ElementType, result: ElementType) -> ElementType {
    let types = [rhs, result].into_iter();
    types.fold(lhs, |a, b| match precision(a) < precision(b) {
        true => b,
        false => a,
    })
}

/// The element type in which `scaled-dot` scales, multiplies and adds: [`product_type`], but `f32`
/// in place of a narrower float.
///
/// XLA's evaluator rounds operands to the result's type, and computes in `f32` where that is
/// narrower.
#[must_use]
pub fn scaled_type(lhs: ElementType, rhs: ElementType, result: ElementType) -> ElementType {
    let ty = product_type(lhs, rhs, result);
    match ty.is_float() && ty.bits() < ElementType::F32.bits() {
        true => ElementType::F32,
        false => ty,
    }
}

/// The sort key of precision: complex above real, floats above integers, then range, significant
/// bits, width and sign.
fn precision(ty: ElementType) -> (bool, i32, i32, u32, bool, ElementType) {
    let part = ty.complex_part().unwrap_or(ty);
    let (exponent, significant) = part.float_format().map_or((-1, -1), |format| {
        (format.overflow_exponent(), format.mantissa_bits as i32 + 1)
    });
    let width = match part {
        ElementType::Pred => 0,
        part => part.bits(),
    };
    let is_complex = ty.is_complex();
    (
        is_complex,
        exponent,
        significant,
        width,
        part.is_signed(),
        ty,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ElementType::*;

    #[test]
    fn the_highest_precision_of_the_three_wins() {
        let cases = [
            ([F32, F32, S32], F32),
            ([S8, S8, S32], S32),
            ([S8, U8, U8], S8),
            ([S32, S32, F16], F16),
            ([Pred, Pred, S8], S8),
            ([BF16, F16, BF16], BF16),
            ([F64, C64, F32], C64),
            ([C64, C64, C128], C128),
            ([F8E4M3FN, F8E5M2, F8E4M3FN], F8E5M2),
            ([F8E4M3FN, F8E4M3FN, F32], F32),
        ];
        for ([lhs, rhs, result], expected) in cases {
            assert_eq!(product_type(lhs, rhs, result), expected);
            assert_eq!(product_type(rhs, lhs, result), expected);
        }
    }

    #[test]
    fn no_two_types_are_alike() {
        for &a in ElementType::ALL {
            for &b in ElementType::ALL {
                assert_eq!(product_type(a, b, b), product_type(b, a, a));
            }
        }
    }
}
