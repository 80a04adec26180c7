//! Floating-point formats: conversion between bit patterns and values, for every floating-point
//! element type.
//!
//! A format has a sign bit (all but `f8e8m0fnu`), `e` exponent bits, `m` mantissa bits and a bias.
//! The bit pattern of a positive number, read as an integer and called its code, counts the
//! representable values in order. So rounding is integer arithmetic: a carry out of the mantissa
//! increments the exponent, and overflow gives a code above that of the largest finite number. The
//! format's [`Specials`] say what those codes mean, and whether -0 exists.
//!
//! Every finite value of every format is exact in `f64`. Encoding rounds once, to nearest, ties to
//! even. Overflow, infinities and NaN are encoded as `ml_dtypes` does, whose types XLA uses;
//! `f8e8m0fnu`, which has no mantissa bits, rounds ties up, as it does there.

use crate::ElementType;

/// The special values of a format: infinities, NaN and -0, and the result of overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Specials {
    /// As in IEEE 754: the largest exponent is for infinities and NaNs.
    Ieee,
    /// `fn`: no infinities; the code with all bits but the sign set is NaN.
    /// Overflow gives NaN.
    NanOnly,
    /// No infinities and no NaN. Overflow saturates. A NaN is encoded as -0, and a negative NaN as
    /// +0.
    FiniteOnly,
    /// `fnuz`: no infinities and no -0; the code that would be -0 is the only NaN. Overflow gives
    /// NaN.
    UnsignedZero,
    /// `fnu`: exponents only, no sign, no zero; all bits set is NaN. Zero,
    /// negative numbers and overflow give NaN.
    ExponentOnly,
}

/// The encoding of a floating-point type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FloatFormat {
    /// Exponent bits.
    pub exponent_bits: u32,
    /// Mantissa bits, without the hidden one.
    pub mantissa_bits: u32,
    /// The bias: subtracted from the exponent field of a normal number.
    pub bias: i32,
    /// The special values.
    pub specials: Specials,
}

const F64_MANTISSA_BITS: u32 = 52;
const F64_BIAS: i32 = 1023;

impl ElementType {
    /// The format of a floating-point type; `None` for every other type.
    pub const fn float_format(self) -> Option<FloatFormat> {
        use Specials::{ExponentOnly, FiniteOnly, Ieee, NanOnly, UnsignedZero};
        let (exponent_bits, mantissa_bits, bias, specials) = match self {
            Self::F4E2M1FN => (2, 1, 1, FiniteOnly),
            Self::F6E2M3FN => (2, 3, 1, FiniteOnly),
            Self::F6E3M2FN => (3, 2, 3, FiniteOnly),
            Self::F8E3M4 => (3, 4, 3, Ieee),
            Self::F8E4M3 => (4, 3, 7, Ieee),
            Self::F8E4M3FN => (4, 3, 7, NanOnly),
            Self::F8E4M3FNUZ => (4, 3, 8, UnsignedZero),
            Self::F8E4M3B11FNUZ => (4, 3, 11, UnsignedZero),
            Self::F8E5M2 => (5, 2, 15, Ieee),
            Self::F8E5M2FNUZ => (5, 2, 16, UnsignedZero),
            Self::F8E8M0FNU => (8, 0, 127, ExponentOnly),
            Self::F16 => (5, 10, 15, Ieee),
            Self::BF16 => (8, 7, 127, Ieee),
            Self::F32 => (8, 23, 127, Ieee),
            Self::F64 => (11, 52, 1023, Ieee),
            _ => return None,
        };
        Some(FloatFormat {
            exponent_bits,
            mantissa_bits,
            bias,
            specials,
        })
    }
}

impl FloatFormat {
    /// The number of bits, sign included.
    pub const fn bits(self) -> u32 {
        let sign = !matches!(self.specials, Specials::ExponentOnly) as u32;
        sign + self.exponent_bits + self.mantissa_bits
    }

    /// The mask of the sign bit; 0 for a format without one.
    pub const fn sign_mask(self) -> u64 {
        match self.specials {
            Specials::ExponentOnly => 0,
            _ => 1 << (self.bits() - 1),
        }
    }

    /// The code of the largest finite number.
    pub const fn largest_code(self) -> u64 {
        let magnitudes = 1u64 << (self.exponent_bits + self.mantissa_bits);
        match self.specials {
            Specials::Ieee => magnitudes - (1 << self.mantissa_bits) - 1,
            Specials::NanOnly | Specials::ExponentOnly => magnitudes - 2,
            Specials::FiniteOnly | Specials::UnsignedZero => magnitudes - 1,
        }
    }

    /// The largest finite number.
    pub fn largest(self) -> f64 {
        self.decode(self.largest_code())
    }

    /// The least `n` for which `2^n` is larger than every finite number.
    pub const fn overflow_exponent(self) -> i32 {
        (self.largest_code() >> self.mantissa_bits) as i32 - self.bias + 1
    }

    /// The smallest positive normal number.
    pub fn smallest_normal(self) -> f64 {
        match self.specials {
            Specials::ExponentOnly => self.decode(0),
            _ => self.decode(1 << self.mantissa_bits),
        }
    }

    /// The code of positive infinity, if there is one.
    pub const fn infinity_code(self) -> Option<u64> {
        match self.specials {
            Specials::Ieee => Some(self.largest_code() + 1),
            _ => None,
        }
    }

    /// The code of the quiet NaN with this sign, or of the only NaN; `None` if the format has no
    /// NaN.
    pub const fn nan_code(self, negative: bool) -> Option<u64> {
        let sign = if negative { self.sign_mask() } else { 0 };
        match self.specials {
            Specials::Ieee => {
                Some(sign | (self.largest_code() + 1) | (1 << (self.mantissa_bits - 1)))
            }
            Specials::NanOnly => Some(sign | (self.largest_code() + 1)),
            Specials::UnsignedZero => Some(self.sign_mask()),
            Specials::ExponentOnly => Some(self.largest_code() + 1),
            Specials::FiniteOnly => None,
        }
    }

    /// The value of a code; bits above the format's width are ignored.
    ///
    /// `f32` and `f64` keep the payload of a NaN.
    pub fn decode(self, code: u64) -> f64 {
        match (self.exponent_bits, self.mantissa_bits) {
            (11, 52) => return f64::from_bits(code),
            (8, 23) => return f64::from(f32::from_bits((code & 0xffff_ffff) as u32)),
            _ => {}
        }
        let sign_mask = self.sign_mask();
        let negative = code & sign_mask != 0;
        let magnitude = code & ((1 << (self.exponent_bits + self.mantissa_bits)) - 1);
        if self.specials == Specials::UnsignedZero && negative && magnitude == 0 {
            return f64::NAN;
        }
        let absolute = match magnitude {
            m if m <= self.largest_code() => self.decode_finite(m),
            m if Some(m) == self.infinity_code() => f64::INFINITY,
            _ => f64::NAN,
        };
        if negative { -absolute } else { absolute }
    }

    fn decode_finite(self, magnitude: u64) -> f64 {
        let field = (magnitude >> self.mantissa_bits) as i32;
        let fraction = magnitude & ((1 << self.mantissa_bits) - 1);
        // A subnormal has the exponent of field 1 and no hidden bit.
        let subnormal = field == 0 && self.specials != Specials::ExponentOnly;
        let (significand, field) = if subnormal {
            (fraction, 1)
        } else {
            (fraction | (1 << self.mantissa_bits), field)
        };
        significand as f64 * power_of_two(field - self.bias - self.mantissa_bits as i32)
    }

    /// The code of the value nearest to `value`. The module's documentation says what happens
    /// beyond the largest finite value.
    pub fn encode(self, value: f64) -> u64 {
        match (self.exponent_bits, self.mantissa_bits) {
            (11, 52) => return value.to_bits(),
            (8, 23) => return u64::from((value as f32).to_bits()),
            _ => {}
        }
        let negative = value.is_sign_negative();
        if value.is_nan() {
            // A format without NaN encodes it as -0, and its negation as +0.
            return self
                .nan_code(negative)
                .unwrap_or(if negative { 0 } else { self.sign_mask() });
        }
        if self.specials == Specials::ExponentOnly {
            return self.encode_power(value);
        }
        let magnitude = self.round_magnitude(value.abs());
        let sign = if negative { self.sign_mask() } else { 0 };
        if magnitude <= self.largest_code() {
            // In a format without -0, the code of -0 is that of NaN.
            let unsigned_zero = magnitude == 0 && self.specials == Specials::UnsignedZero;
            return if unsigned_zero { 0 } else { sign | magnitude };
        }
        let overflow = self.infinity_code().map(|code| sign | code);
        overflow
            .or(self.nan_code(negative))
            .unwrap_or(sign | self.largest_code())
    }

    /// The code of the absolute value, as if the exponent had no upper limit: a result above
    /// [`Self::largest_code`] is an overflow.
    fn round_magnitude(self, value: f64) -> u64 {
        if value.is_infinite() {
            return u64::MAX;
        }
        let (significand, exponent) = split(value);
        let smallest = 1 - self.bias;
        // The last bit that is kept has the value 2^(effective - mantissa_bits).
        let effective = exponent.max(smallest);
        let dropped = (effective - exponent) + (F64_MANTISSA_BITS - self.mantissa_bits) as i32;
        let kept = round_shift(significand, dropped.unsigned_abs());
        (((effective - smallest) as u64) << self.mantissa_bits) + kept
    }

    fn encode_power(self, value: f64) -> u64 {
        let nan = self.largest_code() + 1;
        if value <= 0.0 || value.is_infinite() {
            return nan;
        }
        let (significand, exponent) = split(value);
        let half = 1u64 << (F64_MANTISSA_BITS - 1);
        let up = i32::from(significand & half != 0);
        // The format has no zero to round to, so the smallest power of two is the least result.
        u64::from((exponent + up + self.bias).max(0).unsigned_abs()).min(nan)
    }
}

/// Decomposes a non-negative finite value into `significand * 2^(exponent - 52)`, with
/// `significand` below `2^53`.
fn split(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let field = (bits >> F64_MANTISSA_BITS) as i32;
    let fraction = bits & ((1 << F64_MANTISSA_BITS) - 1);
    match field {
        0 => (fraction, 1 - F64_BIAS),
        _ => (fraction | (1 << F64_MANTISSA_BITS), field - F64_BIAS),
    }
}

/// `value / 2^shift`, rounded to nearest, ties to even; `value` is below `2^53`.
fn round_shift(value: u64, shift: u32) -> u64 {
    match shift {
        0 => value,
        // Every `value` is less than half of `2^shift`.
        55.. => 0,
        _ => {
            let kept = value >> shift;
            let rest = value & ((1 << shift) - 1);
            let half = 1u64 << (shift - 1);
            kept + u64::from(rest > half || (rest == half && kept & 1 == 1))
        }
    }
}

/// `2^exponent`, exactly, for exponents of normal `f64` numbers.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + F64_BIAS) as u64) << F64_MANTISSA_BITS)
}
