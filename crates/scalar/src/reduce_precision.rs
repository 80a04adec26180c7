//! `reduce-precision`: rounds a float to fewer exponent and mantissa bits.

use tegula_ir::FloatFormat;

/// The float of format `format` with bits `x`, rounded to `exponent_bits` and `mantissa_bits` (no
/// more than the format has), to nearest even.
///
/// A number above the smaller exponent range becomes an infinity, one below it a zero: subnormal
/// numbers of the smaller format are flushed, as XLA does. NaN stays as it is.
pub fn reduce_precision(
    format: FloatFormat,
    exponent_bits: u32,
    mantissa_bits: u32,
    x: u64,
) -> u64 {
    let sign_mask = format.sign_mask();
    let mantissa_mask = (1u64 << format.mantissa_bits) - 1;
    let exponent_mask = ((1u64 << format.exponent_bits) - 1) << format.mantissa_bits;
    if x & exponent_mask == exponent_mask && x & mantissa_mask != 0 {
        return x;
    }
    let sign = x & sign_mask;
    let mut size = x & !sign_mask & (exponent_mask | mantissa_mask);
    if mantissa_bits < format.mantissa_bits {
        size = round_low_bits(size, format.mantissa_bits - mantissa_bits);
    }
    if exponent_bits < format.exponent_bits {
        let bias = (1u64 << (format.exponent_bits - 1)) - 1;
        let reduced_bias = (1u64 << (exponent_bits.max(1) - 1)) - 1;
        let exponent = size >> format.mantissa_bits;
        if exponent > bias + reduced_bias {
            size = exponent_mask;
        } else if exponent <= bias - reduced_bias {
            size = 0;
        }
    }
    sign | size
}

/// Clears the low `dropped` bits, rounding to nearest even. A carry out of the mantissa correctly
/// increments the exponent.
fn round_low_bits(x: u64, dropped: u32) -> u64 {
    let unit = 1u64 << dropped;
    let last = (x >> dropped) & 1;
    (x + (unit / 2 - 1) + last) & !(unit - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tegula_ir::ElementType;

    fn f32_to(exponent_bits: u32, mantissa_bits: u32, x: f32) -> f32 {
        let format = ElementType::F32.float_format().unwrap();
        let bits = reduce_precision(format, exponent_bits, mantissa_bits, x.to_bits().into());
        f32::from_bits(bits as u32)
    }

    #[test]
    fn rounds_to_bf16_and_f16() {
        assert_eq!(f32_to(8, 7, 1.0 + 1.0 / 256.0), 1.0);
        assert_eq!(f32_to(8, 7, 1.0 + 3.0 / 256.0), 1.0 + 4.0 / 256.0);
        assert_eq!(f32_to(5, 10, 65504.0), 65504.0);
        assert_eq!(f32_to(5, 10, 65520.0), f32::INFINITY);
        assert_eq!(f32_to(5, 10, -1e30), f32::NEG_INFINITY);
        assert_eq!(f32_to(5, 10, 2f32.powi(-14)), 2f32.powi(-14));
        assert_eq!(
            f32_to(5, 10, -(2f32.powi(-15))).to_bits(),
            (-0f32).to_bits()
        );
        assert!(f32_to(5, 2, f32::NAN).is_nan());
        assert_eq!(f32_to(5, 2, f32::INFINITY), f32::INFINITY);
        // Without mantissa bits, a tie goes to the even exponent.
        assert_eq!(f32_to(8, 0, 3.0), 2.0);
        assert_eq!(f32_to(8, 0, 6.0), 8.0);
        assert_eq!(f32_to(8, 7, f32::MAX), f32::INFINITY);
    }
}
