//! Conversion between floating-point formats and `f64`.

use crate::mlir::FloatKind;

/// The special values of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Specials {
    /// IEEE: the largest exponent is for infinities and NaNs.
    Ieee,
    /// No infinities; NaN is all ones.
    NanAllOnes,
    /// No infinities and no negative zero; the code of negative zero is NaN.
    NanNegativeZero,
    /// Every code is a finite number.
    FiniteOnly,
}

/// The format's exponent bits, mantissa bits, exponent bias and special values.
fn format(kind: FloatKind) -> Option<(u32, u32, i32, Specials)> {
    use Specials::{FiniteOnly, Ieee, NanAllOnes, NanNegativeZero};
    Some(match kind {
        FloatKind::BF16 => (8, 7, 127, Ieee),
        FloatKind::F16 => (5, 10, 15, Ieee),
        FloatKind::F32 => (8, 23, 127, Ieee),
        FloatKind::TF32 => (8, 10, 127, Ieee),
        FloatKind::F64 => (11, 52, 1023, Ieee),
        FloatKind::F4E2M1FN => (2, 1, 1, FiniteOnly),
        FloatKind::F6E2M3FN => (2, 3, 1, FiniteOnly),
        FloatKind::F6E3M2FN => (3, 2, 3, FiniteOnly),
        FloatKind::F8E3M4 => (3, 4, 3, Ieee),
        FloatKind::F8E4M3 => (4, 3, 7, Ieee),
        FloatKind::F8E4M3FN => (4, 3, 7, NanAllOnes),
        FloatKind::F8E5M2 => (5, 2, 15, Ieee),
        FloatKind::F8E4M3FNUZ => (4, 3, 8, NanNegativeZero),
        FloatKind::F8E4M3B11FNUZ => (4, 3, 11, NanNegativeZero),
        FloatKind::F8E5M2FNUZ => (5, 2, 16, NanNegativeZero),
        FloatKind::F8E8M0FNU | FloatKind::F80 | FloatKind::F128 => return None,
    })
}

/// The bits of the number nearest to `value` in a format, ties to even; [`None`] if the format is
/// wider than 64 bits.
pub(crate) fn float_from_f64(value: f64, kind: FloatKind) -> Option<u64> {
    match kind {
        FloatKind::F64 => return Some(value.to_bits()),
        FloatKind::F32 => return Some(u64::from((value as f32).to_bits())),
        FloatKind::F8E8M0FNU => return Some(power_of_two(value)),
        _ => {}
    }
    let (exponent_bits, mantissa_bits, bias, specials) = format(kind)?;
    let sign = u64::from(value.is_sign_negative()) << (exponent_bits + mantissa_bits);
    let mantissa_mask = (1_u64 << mantissa_bits) - 1;
    let exponent_mask = (1_u64 << exponent_bits) - 1;
    let all_ones = exponent_mask << mantissa_bits | mantissa_mask;
    let largest = match specials {
        Specials::Ieee => ((exponent_mask - 1) << mantissa_bits) | mantissa_mask,
        Specials::NanAllOnes => all_ones - 1,
        Specials::NanNegativeZero | Specials::FiniteOnly => all_ones,
    };
    let nan = match specials {
        Specials::Ieee => exponent_mask << mantissa_bits | 1 << (mantissa_bits - 1),
        Specials::NanAllOnes => all_ones,
        Specials::NanNegativeZero => 1 << (exponent_bits + mantissa_bits),
        Specials::FiniteOnly => sign,
    };
    if value.is_nan() {
        return Some(match specials {
            Specials::Ieee | Specials::NanAllOnes => nan | sign,
            _ => nan,
        });
    }
    let too_large = match specials {
        Specials::Ieee => exponent_mask << mantissa_bits,
        Specials::NanAllOnes | Specials::NanNegativeZero => nan,
        Specials::FiniteOnly => largest,
    };
    let magnitude = value.abs();
    let rounded = if magnitude.is_infinite() {
        too_large
    } else {
        match round(magnitude, mantissa_bits, bias) {
            bits if bits > largest => too_large,
            bits => bits,
        }
    };
    let is_zero = rounded == 0;
    let keeps_sign = match specials {
        Specials::NanNegativeZero => !is_zero && rounded != nan,
        _ => true,
    };
    Some(rounded | if keeps_sign { sign } else { 0 })
}

/// The exponent and mantissa bits of a finite magnitude, rounded; the exponent may be above the
/// format's largest one.
fn round(magnitude: f64, mantissa_bits: u32, bias: i32) -> u64 {
    if magnitude == 0.0 {
        return 0;
    }
    let bits = magnitude.to_bits();
    let exponent = ((bits >> 52) as i32 - 1023).max(-1022);
    // The exponent of the unit in the last place, which is bounded below by that of subnormal
    // numbers.
    let smallest = 1 - bias;
    let unit = exponent.max(smallest) - mantissa_bits as i32;
    let mut scaled = magnitude;
    let mut shift = -unit;
    // Multiplies by a power of two, in steps that f64 can represent.
    while shift != 0 {
        let step = shift.clamp(-1000, 1000);
        scaled *= 2_f64.powi(step);
        shift -= step;
    }
    let units = scaled.round_ties_even() as u64;
    let normal = exponent >= smallest;
    match normal {
        // The implicit leading bit adds one to the exponent.
        true => (((exponent + bias - 1) as u64) << mantissa_bits) + units,
        false => units,
    }
}

fn power_of_two(value: f64) -> u64 {
    const NAN: u64 = 0xff;
    if value.is_nan() || value <= 0.0 || value.is_infinite() {
        return NAN;
    }
    let exponent = value.log2().round() as i64 + 127;
    exponent.clamp(0, 254) as u64
}

/// The value of a format's bits; [`None`] if the format is wider than 64 bits.
pub(crate) fn float_to_f64(bits: u64, kind: FloatKind) -> Option<f64> {
    match kind {
        FloatKind::F64 => return Some(f64::from_bits(bits)),
        FloatKind::F32 => return Some(f64::from(f32::from_bits(bits as u32))),
        FloatKind::F8E8M0FNU => {
            return Some(match bits {
                0xff => f64::NAN,
                bits => 2_f64.powi(bits as i32 - 127),
            });
        }
        _ => {}
    }
    let (exponent_bits, mantissa_bits, bias, specials) = format(kind)?;
    let sign = bits >> (exponent_bits + mantissa_bits) & 1;
    let exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    let mantissa = bits & ((1 << mantissa_bits) - 1);
    let magnitude = bits & ((1 << (exponent_bits + mantissa_bits)) - 1);
    let top = (1_u64 << exponent_bits) - 1;
    let value = match specials {
        Specials::Ieee if exponent == top && mantissa == 0 => f64::INFINITY,
        Specials::Ieee if exponent == top => f64::NAN,
        Specials::NanAllOnes if exponent == top && mantissa == (1 << mantissa_bits) - 1 => f64::NAN,
        Specials::NanNegativeZero if sign == 1 && magnitude == 0 => return Some(f64::NAN),
        _ if exponent == 0 => mantissa as f64 * 2_f64.powi(1 - bias - mantissa_bits as i32),
        _ => {
            let units = (mantissa | 1 << mantissa_bits) as f64;
            units * 2_f64.powi(exponent as i32 - bias - mantissa_bits as i32)
        }
    };
    Some(if sign == 1 { -value } else { value })
}
