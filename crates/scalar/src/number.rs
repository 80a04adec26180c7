//! Elements as numbers, and their conversion from and to stored bits.

use super::complex::{C32, C64, narrow, widen};
use super::integer::{wrap_signed, wrap_unsigned};
use half::{bf16, f16};
use tegula_ir::{Category, ElementType};

/// The value of an element, in the type that computations on it use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A truth value.
    Pred(bool),
    /// A signed integer of any width.
    Signed(i64),
    /// An unsigned integer of any width.
    Unsigned(u64),
    /// An `f32`, or a float of fewer bits.
    Single(f32),
    /// An `f64`.
    Double(f64),
    /// A `c64`.
    ComplexSingle(C32),
    /// A `c128`.
    ComplexDouble(C64),
}

/// The value of an element of type `ty` stored as `bits` (its bytes, little endian; bits above them
/// are ignored).
pub fn decode(ty: ElementType, bits: u128) -> Number {
    match ty {
        ElementType::F64 => Number::Double(f64::from_bits(bits as u64)),
        ElementType::C64 => Number::ComplexSingle(C32::new(
            f32::from_bits(bits as u32),
            f32::from_bits((bits >> 32) as u32),
        )),
        ElementType::C128 => Number::ComplexDouble(C64::new(
            f64::from_bits(bits as u64),
            f64::from_bits((bits >> 64) as u64),
        )),
        _ => match ty.category() {
            Category::Boolean => Number::Pred(bits & 0xff != 0),
            Category::Signed => Number::Signed(wrap_signed(bits as i64, ty.bits())),
            Category::Unsigned => Number::Unsigned(wrap_unsigned(bits as u64, ty.bits())),
            Category::Float | Category::Complex => Number::Single(decode_single(ty, bits as u32)),
        },
    }
}

/// The value of a float of at most 32 bits.
pub fn decode_single(ty: ElementType, bits: u32) -> f32 {
    match ty {
        ElementType::F32 => f32::from_bits(bits),
        ElementType::BF16 => bf16::from_bits(bits as u16).to_f32(),
        ElementType::F16 => f16::from_bits(bits as u16).to_f32(),
        _ => ty.float_format().map_or(f32::NAN, |format| {
            format.decode(u64::from(bits & 0xff)) as f32
        }),
    }
}

/// The bits of the float of at most 32 bits nearest to `x`, ties to even.
pub fn encode_single(ty: ElementType, x: f32) -> u32 {
    match ty {
        ElementType::F32 => x.to_bits(),
        ElementType::BF16 => u32::from(bf16::from_f32(x).to_bits()),
        ElementType::F16 => u32::from(f16::from_f32(x).to_bits()),
        _ => encode_double(ty, f64::from(x)) as u32,
    }
}

/// The bits of the real float nearest to `x`, ties to even, rounded once.
pub fn encode_double(ty: ElementType, x: f64) -> u64 {
    match ty {
        ElementType::F64 => x.to_bits(),
        ElementType::F32 => u64::from((x as f32).to_bits()),
        _ => ty.float_format().map_or(0, |format| format.encode(x)),
    }
}

/// The stored element of type `ty` for `number`, converted as HLO's `convert` does: integers wrap;
/// floats round to nearest even; a float becomes an integer by truncation with saturation, and NaN
/// becomes 0; any number becomes a `pred` by `!= 0`; a complex number becomes real by its real
/// part.
pub fn encode(ty: ElementType, number: Number) -> u128 {
    let bits = ty.bits();
    match ty.category() {
        Category::Boolean => u128::from(is_nonzero(number)),
        Category::Signed => {
            let value = wrap_signed(to_signed(number, bits), bits);
            // Sign-extended to the stored byte only.
            u128::from(wrap_unsigned(value as u64, bits.max(8)))
        }
        Category::Unsigned => u128::from(wrap_unsigned(to_unsigned(number, bits), bits)),
        Category::Float => u128::from(encode_float(ty, number)),
        Category::Complex => encode_complex(ty, number),
    }
}

fn is_nonzero(number: Number) -> bool {
    match number {
        Number::Pred(x) => x,
        Number::Signed(x) => x != 0,
        Number::Unsigned(x) => x != 0,
        Number::Single(x) => x != 0.0,
        Number::Double(x) => x != 0.0,
        // A complex number converts by its real part, as to other types that are not complex.
        Number::ComplexSingle(x) => x.re != 0.0,
        Number::ComplexDouble(x) => x.re != 0.0,
    }
}

fn to_signed(number: Number, bits: u32) -> i64 {
    let saturate = |x: f64| {
        let largest = i64::MAX >> (64 - bits.clamp(1, 64));
        (x as i64).clamp(-largest - 1, largest)
    };
    match number {
        Number::Pred(x) => i64::from(x),
        Number::Signed(x) => x,
        Number::Unsigned(x) => x as i64,
        Number::Single(x) => saturate(f64::from(x)),
        Number::Double(x) => saturate(x),
        Number::ComplexSingle(x) => saturate(f64::from(x.re)),
        Number::ComplexDouble(x) => saturate(x.re),
    }
}

fn to_unsigned(number: Number, bits: u32) -> u64 {
    let saturate = |x: f64| (x as u64).min(wrap_unsigned(u64::MAX, bits));
    match number {
        Number::Pred(x) => u64::from(x),
        Number::Signed(x) => x as u64,
        Number::Unsigned(x) => x,
        Number::Single(x) => saturate(f64::from(x)),
        Number::Double(x) => saturate(x),
        Number::ComplexSingle(x) => saturate(f64::from(x.re)),
        Number::ComplexDouble(x) => saturate(x.re),
    }
}

fn encode_float(ty: ElementType, number: Number) -> u64 {
    match number {
        Number::Pred(x) => encode_double(ty, f64::from(u8::from(x))),
        Number::Signed(x) => encode_integer(ty, i128::from(x)),
        Number::Unsigned(x) => encode_integer(ty, i128::from(x)),
        Number::Single(x) => match ty {
            ElementType::F64 => f64::from(x).to_bits(),
            _ => u64::from(encode_single(ty, x)),
        },
        Number::Double(x) => encode_double(ty, x),
        Number::ComplexSingle(x) => encode_float(ty, Number::Single(x.re)),
        Number::ComplexDouble(x) => encode_double(ty, x.re),
    }
}

/// An integer converted to a float, rounded once. Types narrower than 32 bits go through an `f64`
/// rounded to odd, which keeps what the second rounding needs to know (Boldo and Melquiond,
/// "Emulation of FMA and correctly rounded sums", 2008).
fn encode_integer(ty: ElementType, x: i128) -> u64 {
    match ty {
        ElementType::F64 => (x as f64).to_bits(),
        ElementType::F32 => u64::from((x as f32).to_bits()),
        _ => encode_double(ty, to_odd(x)),
    }
}

fn to_odd(x: i128) -> f64 {
    let size = x.unsigned_abs();
    let excess = (128 - size.leading_zeros()).saturating_sub(53);
    let kept = size >> excess;
    let sticky = u128::from(kept << excess != size);
    let rounded = ((kept | sticky) as f64) * 2f64.powi(excess as i32);
    if x < 0 { -rounded } else { rounded }
}

fn encode_complex(ty: ElementType, number: Number) -> u128 {
    match (ty, number) {
        (ElementType::C64, Number::ComplexDouble(x)) => pack_c32(narrow(x)),
        (ElementType::C64, Number::ComplexSingle(x)) => pack_c32(x),
        (_, Number::ComplexSingle(x)) => pack_c64(widen(x)),
        (_, Number::ComplexDouble(x)) => pack_c64(x),
        (_, real) => {
            // The imaginary part is +0, so the bits above are zero.
            u128::from(encode_float(ty.complex_part().unwrap_or(ty), real))
        }
    }
}

fn pack_c32(x: C32) -> u128 {
    u128::from(x.re.to_bits()) | u128::from(x.im.to_bits()) << 32
}

fn pack_c64(x: C64) -> u128 {
    u128::from(x.re.to_bits()) | u128::from(x.im.to_bits()) << 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use ElementType::*;

    fn convert(from: ElementType, number: Number, to: ElementType) -> Number {
        decode(to, encode(to, decode(from, encode(from, number))))
    }

    #[test]
    fn floats_to_integers_saturate() {
        let cases = [
            (1e20, S32, Number::Signed(i64::from(i32::MAX))),
            (-1e20, S32, Number::Signed(i64::from(i32::MIN))),
            (f64::NAN, S32, Number::Signed(0)),
            (-1.9, S8, Number::Signed(-1)),
            (200.0, S8, Number::Signed(127)),
            (-3.0, U8, Number::Unsigned(0)),
            (300.0, U8, Number::Unsigned(255)),
            (9.0, S4, Number::Signed(7)),
            (f64::INFINITY, S64, Number::Signed(i64::MAX)),
            (f64::INFINITY, U64, Number::Unsigned(u64::MAX)),
            (0.25, Pred, Number::Pred(true)),
            (-0.0, Pred, Number::Pred(false)),
            (f64::NAN, Pred, Number::Pred(true)),
        ];
        for (x, to, expected) in cases {
            assert_eq!(convert(F64, Number::Double(x), to), expected, "{x} {to}");
            assert_eq!(
                convert(F32, Number::Single(x as f32), to),
                expected,
                "{x} {to}"
            );
        }
    }

    #[test]
    fn integers_wrap_and_extend() {
        assert_eq!(convert(S32, Number::Signed(300), S8), Number::Signed(44));
        assert_eq!(
            convert(S32, Number::Signed(-1), U64),
            Number::Unsigned(u64::MAX)
        );
        assert_eq!(convert(U8, Number::Unsigned(255), S16), Number::Signed(255));
        assert_eq!(convert(S32, Number::Signed(9), S4), Number::Signed(-7));
        assert_eq!(encode(S4, Number::Signed(-1)), 0xff);
        assert_eq!(encode(U4, Number::Unsigned(31)), 0x0f);
    }

    #[test]
    fn integers_to_narrow_floats_round_once() {
        // One more than halfway between two bf16 values: rounding through f32 would lose the one.
        let x = (1i64 << 40) + (1 << 32) + 1;
        let expected = ((1i64 << 40) + (1 << 33)) as f32;
        assert_eq!(
            convert(S64, Number::Signed(x), BF16),
            Number::Single(expected)
        );
        assert_eq!(
            convert(S64, Number::Signed(-x), BF16),
            Number::Single(-expected)
        );
        assert_eq!(
            convert(S64, Number::Signed(i64::MIN), F32),
            Number::Single(-9.223_372e18)
        );
    }

    #[test]
    fn narrowing_rounds_to_even() {
        assert_eq!(
            convert(F32, Number::Single(1.0 + 1.0 / 256.0), BF16),
            Number::Single(1.0)
        );
        assert_eq!(
            convert(F32, Number::Single(1.0 + 3.0 / 256.0), BF16),
            Number::Single(1.0 + 4.0 / 256.0)
        );
        assert_eq!(
            convert(F32, Number::Single(65520.0), F16),
            Number::Single(f32::INFINITY)
        );
        assert_eq!(
            convert(F64, Number::Double(1e300), F32),
            Number::Single(f32::INFINITY)
        );
    }

    #[test]
    fn complex_parts() {
        let x = Number::ComplexSingle(C32::new(2.5, -1.0));
        assert_eq!(convert(C64, x, F32), Number::Single(2.5));
        assert_eq!(
            convert(C64, x, C128),
            Number::ComplexDouble(super::C64::new(2.5, -1.0))
        );
        assert_eq!(
            convert(F32, Number::Single(2.5), C64),
            Number::ComplexSingle(C32::new(2.5, 0.0))
        );
    }
}
