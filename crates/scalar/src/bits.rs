//! Operations on one element of any type given as raw bits: general, but slow.

use super::complex::{binary_c32, binary_c64, part_c64, unary_c64, widen};
use super::number::{Number, decode, encode, encode_double};
use super::{compare, float, integer, reduce_precision as precision};
use tegula_ir::{
    Binary, Category, Direction, ElementType, Order, Scalar, Unary, unary_result_type,
};

/// `op(x)` on an element of type `ty`; the result has the type [`unary_result_type`]. `None` if the
/// type lacks the operation.
pub fn apply_unary(op: Unary, ty: ElementType, x: u128) -> Option<u128> {
    let width = ty.bits();
    let number = decode(ty, x);
    if op == Unary::IsFinite {
        let finite = match number {
            Number::Single(x) => x.is_finite(),
            Number::Double(x) => x.is_finite(),
            _ => return None,
        };
        return Some(u128::from(finite));
    }
    let result = match number {
        Number::Pred(x) => Number::Pred(integer::unary_pred(op, x)?),
        Number::Signed(x) => Number::Signed(integer::unary_signed(op, x, width)?),
        Number::Unsigned(x) => Number::Unsigned(integer::unary_unsigned(op, x, width)?),
        Number::Single(x) => Number::Single(float::unary_f32_function(op)?(x)),
        Number::Double(x) => Number::Double(float::unary_f64_function(op)?(x)),
        Number::ComplexSingle(x) => unary_complex(op, widen(x))?,
        Number::ComplexDouble(x) => unary_complex(op, x)?,
    };
    Some(encode(unary_result_type(op, ty), result))
}

fn unary_complex(op: Unary, x: super::C64) -> Option<Number> {
    part_c64(op, x)
        .map(Number::Double)
        .or_else(|| unary_c64(op, x).map(Number::ComplexDouble))
}

/// `op(a, b)` on elements of type `ty`, with a result of the same type; only `complex` takes two
/// floats and returns the complex type of them. `None` if the type lacks the operation.
pub fn apply_binary(op: Binary, ty: ElementType, a: u128, b: u128) -> Option<u128> {
    if op == Binary::Complex {
        return match ty {
            ElementType::F32 => Some((a & 0xffff_ffff) | b << 32),
            ElementType::F64 => Some((a & u128::from(u64::MAX)) | b << 64),
            _ => None,
        };
    }
    let width = ty.bits();
    let result = match (decode(ty, a), decode(ty, b)) {
        (Number::Pred(a), Number::Pred(b)) => Number::Pred(integer::binary_pred(op, a, b)?),
        (Number::Signed(a), Number::Signed(b)) => {
            Number::Signed(integer::binary_signed(op, a, b, width)?)
        }
        (Number::Unsigned(a), Number::Unsigned(b)) => {
            Number::Unsigned(integer::binary_unsigned(op, a, b, width)?)
        }
        (Number::Single(a), Number::Single(b)) => {
            Number::Single(float::binary_f32_function(op)?(a, b))
        }
        (Number::Double(a), Number::Double(b)) => {
            Number::Double(float::binary_f64_function(op)?(a, b))
        }
        (Number::ComplexSingle(a), Number::ComplexSingle(b)) => {
            Number::ComplexSingle(binary_c32(op, a, b)?)
        }
        (Number::ComplexDouble(a), Number::ComplexDouble(b)) => {
            Number::ComplexDouble(binary_c64(op, a, b)?)
        }
        _ => return None,
    };
    Some(encode(ty, result))
}

/// Whether `a direction b`, as 0 or 1. `None` if the type lacks the comparison.
pub fn apply_compare(
    direction: Direction,
    order: Order,
    ty: ElementType,
    a: u128,
    b: u128,
) -> Option<u128> {
    compare::compare(direction, order, decode(ty, a), decode(ty, b)).map(u128::from)
}

/// An element converted to another type; see [`encode`].
pub fn apply_convert(from: ElementType, to: ElementType, x: u128) -> u128 {
    encode(to, decode(from, x))
}

/// `on_true` if the `pred` is true, else `on_false`.
pub fn apply_select(predicate: u128, on_true: u128, on_false: u128) -> u128 {
    if predicate & 0xff != 0 {
        on_true
    } else {
        on_false
    }
}

/// `min(high, max(low, x))`; NaN if any of them is.
///
/// Complex numbers are compared by their real parts alone. Where those are equal, the lower bound
/// wins over `x`, and the result of that over the upper bound, as in the code that XLA compiles.
pub fn apply_clamp(ty: ElementType, low: u128, x: u128, high: u128) -> Option<u128> {
    if ty.is_complex() {
        let raised = if real(ty, low) >= real(ty, x) { low } else { x };
        let is_below = real(ty, raised) <= real(ty, high);
        return Some(if is_below { raised } else { high });
    }
    let raised = apply_binary(Binary::Maximum, ty, low, x)?;
    apply_binary(Binary::Minimum, ty, raised, high)
}

/// The real part of a complex number; NaN for any other number.
fn real(ty: ElementType, x: u128) -> f64 {
    match decode(ty, x) {
        Number::ComplexSingle(x) => x.re.into(),
        Number::ComplexDouble(x) => x.re,
        _ => f64::NAN,
    }
}

/// A float rounded to fewer bits; see [`reduce_precision`](precision::reduce_precision).
/// `None` if the type is not a float with infinities.
pub fn apply_reduce_precision(
    ty: ElementType,
    exponent_bits: u32,
    mantissa_bits: u32,
    x: u128,
) -> Option<u128> {
    let format = ty.float_format()?;
    format.infinity_code()?;
    let reduced = precision::reduce_precision(format, exponent_bits, mantissa_bits, x as u64);
    Some(u128::from(reduced))
}

/// Reinterprets the bits as another type of the same width. A signed integer narrower than a byte
/// is stored sign-extended, an unsigned one zero-extended.
pub fn apply_bitcast(from: ElementType, to: ElementType, x: u128) -> u128 {
    if from.bits() >= 8 {
        return x;
    }
    let bits = x & ((1 << from.bits()) - 1);
    if to.is_signed() && to.is_integer() {
        encode(to, Number::Unsigned(bits as u64))
    } else {
        bits
    }
}

/// Stochastic conversion of a float to a signed integer: rounds up in magnitude with the
/// probability of the fraction, that is if `random`, an unsigned number as wide as the float, is
/// below the fraction times `2^width`. `None` for other types.
pub fn apply_stochastic_convert(
    from: ElementType,
    to: ElementType,
    x: u128,
    random: u128,
) -> Option<u128> {
    if !from.is_float() || to.category() != Category::Signed {
        return None;
    }
    let value = match decode(from, x) {
        Number::Single(x) => f64::from(x),
        Number::Double(x) => x,
        _ => return None,
    };
    let truncated = value.abs().trunc();
    let threshold = (value.abs() - truncated) * 2f64.powi(from.bits() as i32);
    let round_up = (random as f64) < threshold;
    let size = if round_up { truncated + 1.0 } else { truncated };
    Some(encode(to, Number::Double(size.copysign(value))))
}

/// Whether elements of type `ty` have this operation.
pub fn has_unary(op: Unary, ty: ElementType) -> bool {
    apply_unary(op, ty, 0).is_some()
}

/// Whether elements of type `ty` have this operation.
pub fn has_binary(op: Binary, ty: ElementType) -> bool {
    apply_binary(op, ty, 0, 0).is_some()
}

/// The stored bits of a [`Scalar`], converted to `ty`.
pub fn bits_from_scalar(ty: ElementType, scalar: Scalar) -> u128 {
    let part = ty.complex_part();
    match (scalar, part) {
        (Scalar::Bool(x), _) => encode(ty, Number::Pred(x)),
        (Scalar::Int(x), _) => encode(ty, Number::Signed(x)),
        (Scalar::Uint(x), _) => encode(ty, Number::Unsigned(x)),
        (Scalar::Float(x), _) => encode(ty, Number::Double(x)),
        (Scalar::Complex(re, im), Some(part)) => {
            let place = part.bits();
            u128::from(encode_double(part, re)) | u128::from(encode_double(part, im)) << place
        }
        (Scalar::Complex(re, _), None) => encode(ty, Number::Double(re)),
    }
}

/// The value of an element's stored bits.
pub fn scalar_from_bits(ty: ElementType, bits: u128) -> Scalar {
    match decode(ty, bits) {
        Number::Pred(x) => Scalar::Bool(x),
        Number::Signed(x) => Scalar::Int(x),
        Number::Unsigned(x) => Scalar::Uint(x),
        Number::Single(x) => Scalar::Float(x.into()),
        Number::Double(x) => Scalar::Float(x),
        Number::ComplexSingle(x) => Scalar::Complex(x.re.into(), x.im.into()),
        Number::ComplexDouble(x) => Scalar::Complex(x.re, x.im),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ElementType::*;

    fn f32_bits(x: f32) -> u128 {
        x.to_bits().into()
    }

    #[test]
    fn clamps_propagate_nan_and_prefer_the_upper_bound() {
        let clamp = |low: f32, x: f32, high: f32| {
            let bits = apply_clamp(F32, f32_bits(low), f32_bits(x), f32_bits(high)).unwrap();
            f32::from_bits(bits as u32)
        };
        assert_eq!(clamp(0.0, 5.0, 2.0), 2.0);
        assert_eq!(clamp(0.0, -5.0, 2.0), 0.0);
        assert_eq!(clamp(3.0, 0.0, 2.0), 2.0);
        assert!(clamp(0.0, f32::NAN, 2.0).is_nan());
        assert!(clamp(f32::NAN, 1.0, 2.0).is_nan());
    }

    #[test]
    fn complex_clamps_compare_real_parts() {
        let number = |re: f32, im: f32| f32_bits(re) | f32_bits(im) << 32;
        let clamp = |low, x, high| apply_clamp(C64, low, x, high).unwrap();
        let (low, high) = (number(-1.0, 5.0), number(1.0, 7.0));
        assert_eq!(clamp(low, number(0.5, 9.0), high), number(0.5, 9.0));
        assert_eq!(clamp(low, number(-2.0, 9.0), high), low);
        assert_eq!(clamp(low, number(2.0, 9.0), high), high);
        assert_eq!(clamp(low, number(-1.0, 9.0), high), low);
        assert_eq!(clamp(low, number(1.0, 9.0), high), number(1.0, 9.0));
        // No comparison with NaN holds, so the other one is taken.
        assert_eq!(clamp(low, number(f32::NAN, 0.0), high), high);
        assert_eq!(clamp(number(f32::NAN, 0.0), low, high), low);
    }

    #[test]
    fn complex_numbers_are_two_parts() {
        let x = apply_binary(Binary::Complex, F32, f32_bits(3.0), f32_bits(-4.0)).unwrap();
        assert_eq!(apply_unary(Unary::Abs, C64, x), Some(f32_bits(5.0)));
        assert_eq!(apply_unary(Unary::Imag, C64, x), Some(f32_bits(-4.0)));
        assert_eq!(scalar_from_bits(C64, x), Scalar::Complex(3.0, -4.0));
        assert_eq!(bits_from_scalar(C64, Scalar::Complex(3.0, -4.0)), x);
    }

    #[test]
    fn narrow_bitcasts_keep_the_form_in_which_integers_are_stored() {
        use ElementType::{S4, U4};
        assert_eq!(apply_bitcast(S4, U4, 0xff), 0x0f);
        assert_eq!(apply_bitcast(U4, S4, 0x0f), 0xff);
        assert_eq!(apply_bitcast(U4, S4, 0x07), 0x07);
    }

    #[test]
    fn stochastic_rounding_uses_the_fraction() {
        let convert = |x: f32, random: u32| {
            let bits = apply_stochastic_convert(F32, S8, f32_bits(x), random.into()).unwrap();
            scalar_from_bits(S8, bits)
        };
        assert_eq!(convert(1.25, (1 << 30) - 1), Scalar::Int(2));
        assert_eq!(convert(1.25, 1 << 30), Scalar::Int(1));
        assert_eq!(convert(-1.25, 0), Scalar::Int(-2));
        assert_eq!(convert(1000.0, 0), Scalar::Int(127));
        assert_eq!(convert(f32::NAN, 0), Scalar::Int(0));
    }

    #[test]
    fn every_type_has_what_it_should() {
        for &ty in ElementType::ALL {
            assert_eq!(has_unary(Unary::Exp, ty), ty.is_float() || ty.is_complex());
            assert_eq!(has_unary(Unary::Popcnt, ty), ty.is_integer());
            assert_eq!(has_binary(Binary::Maximum, ty), !ty.is_complex());
            assert!(has_binary(Binary::Add, ty));
        }
    }
}
