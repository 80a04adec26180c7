//! Number formats and rounding, bit by bit.
//!
//! Arithmetic for formats narrower than `f64` is done in `f64` with *rounding to odd*: if the exact
//! result is between two `f64` numbers, the one with an odd last bit is taken. Rounding this number
//! again to at most 51 bits gives the same as rounding the exact result once (S. Boldo, G.
//! Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
//! odd", 2008).

/// The direction of rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rounding {
    NearestEven,
    NearestAway,
    Zero,
    Down,
    Up,
}

/// A binary floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Format {
    /// The number of explicit bits of the significand.
    pub(crate) mantissa: u32,
    pub(crate) exponent: u32,
    /// Whether the highest exponent is reserved for infinities and NaN. In a format without
    /// infinities (e4m3), only the code of all ones is NaN.
    pub(crate) infinities: bool,
    /// The NaN that operations return.
    pub(crate) nan: u32,
}

/// IEEE binary16.
pub(crate) const F16: Format = Format {
    mantissa: 10,
    exponent: 5,
    infinities: true,
    nan: 0x7fff,
};
/// bfloat16.
pub(crate) const BF16: Format = Format {
    mantissa: 7,
    exponent: 8,
    infinities: true,
    nan: 0x7fff,
};
/// IEEE binary32.
pub(crate) const F32: Format = Format {
    mantissa: 23,
    exponent: 8,
    infinities: true,
    nan: 0x7fff_ffff,
};
/// TensorFloat-32, whose 19 bits are the upper bits of a word.
pub(crate) const TF32: Format = Format {
    mantissa: 10,
    exponent: 8,
    infinities: true,
    nan: 0x3ffff,
};
/// FP8 with 4 exponent bits, no infinities.
pub(crate) const E4M3: Format = Format {
    mantissa: 3,
    exponent: 4,
    infinities: false,
    nan: 0x7f,
};
/// FP8 with 5 exponent bits.
pub(crate) const E5M2: Format = Format {
    mantissa: 2,
    exponent: 5,
    infinities: true,
    nan: 0x7f,
};

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    fn sign_bit(self) -> u32 {
        1 << (self.mantissa + self.exponent)
    }

    /// The code of the largest finite value.
    fn largest(self) -> u32 {
        if self.infinities {
            (((1 << self.exponent) - 1) << self.mantissa) - 1
        } else {
            self.sign_bit() - 2
        }
    }

    /// The code of infinity, or of NaN in a format without infinities.
    fn overflow(self) -> u32 {
        if self.infinities {
            ((1 << self.exponent) - 1) << self.mantissa
        } else {
            self.nan
        }
    }

    /// The exact value of `bits`.
    #[inline]
    pub(crate) fn value(self, bits: u32) -> f64 {
        // The most common formats are converted through f32, whose exponent range includes their
        // subnormals.
        if self.exponent == 8 && self.mantissa == 7 {
            return f64::from(f32::from_bits(bits << 16));
        }
        if self.exponent == 5 && self.mantissa == 10 && bits & 0x7c00 != 0x7c00 {
            let magnitude = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits(0x7780_0000);
            return f64::from(f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16));
        }
        let sign = if bits & self.sign_bit() == 0 {
            1.0
        } else {
            -1.0
        };
        let magnitude = bits & (self.sign_bit() - 1);
        let exponent = (magnitude >> self.mantissa) as i32;
        let fraction = magnitude & ((1 << self.mantissa) - 1);
        if self.infinities && exponent == (1 << self.exponent) - 1 {
            return if fraction == 0 {
                sign * f64::INFINITY
            } else {
                f64::NAN
            };
        }
        if !self.infinities && magnitude == self.sign_bit() - 1 {
            return f64::NAN;
        }
        let (significand, power) = if exponent == 0 {
            (fraction, 1)
        } else {
            (fraction | 1 << self.mantissa, exponent)
        };
        sign * f64::from(significand) * power_of_two(power - self.bias() - self.mantissa as i32)
    }

    /// Rounds `value` (exact, or rounded to odd) to the format in a direction. Overflow gives
    /// infinity or, when rounding towards zero, the largest finite value.
    pub(crate) fn round(self, value: f64, rounding: Rounding) -> u32 {
        let bits = value.to_bits();
        let negative = bits >> 63 != 0;
        let sign = if negative { self.sign_bit() } else { 0 };
        if value.is_nan() {
            return self.nan;
        }
        if value == 0.0 {
            return sign;
        }
        if value.is_infinite() {
            return if self.infinities {
                sign | self.overflow()
            } else {
                self.nan
            };
        }
        let raw_exponent = ((bits >> 52) & 0x7ff) as i32;
        let fraction = bits & ((1 << 52) - 1);
        // The value is significand * 2^(exponent - 52). Subnormal f64 numbers are below every
        // format's range.
        let (significand, exponent) = if raw_exponent == 0 {
            (fraction, -1022)
        } else {
            (fraction | 1 << 52, raw_exponent - 1023)
        };
        let lowest = 1 - self.bias();
        let kept = exponent.max(lowest);
        // The number of low bits of the significand that are dropped.
        let shift = (52 - self.mantissa as i32 + (kept - exponent)).min(63) as u32;
        let (mut quotient, rest) = (significand >> shift, significand & ((1 << shift) - 1));
        let half = 1u64 << (shift - 1);
        let up = match rounding {
            Rounding::NearestEven => rest > half || (rest == half && quotient & 1 == 1),
            Rounding::NearestAway => rest >= half,
            Rounding::Zero => false,
            Rounding::Down => negative && rest != 0,
            Rounding::Up => !negative && rest != 0,
        };
        quotient += u64::from(up);
        // A carry out of the significand increments the exponent.
        let field = (kept - lowest) as u64;
        let magnitude = (field << self.mantissa) + quotient;
        if magnitude > u64::from(self.largest()) {
            let stays = match rounding {
                Rounding::NearestEven | Rounding::NearestAway => false,
                Rounding::Zero => true,
                Rounding::Down => !negative,
                Rounding::Up => negative,
            };
            return sign
                | if stays {
                    self.largest()
                } else {
                    self.overflow()
                };
        }
        sign | magnitude as u32
    }

    /// As [`Self::round`], but overflow gives the largest finite value.
    pub(crate) fn round_finite(self, value: f64, rounding: Rounding) -> u32 {
        let bits = self.round(value, rounding);
        let sign = self.sign_bit();
        if value.is_nan() {
            self.nan
        } else if bits & (sign - 1) > self.largest() {
            (if value < 0.0 { sign } else { 0 }) | self.largest()
        } else {
            bits
        }
    }
}

/// 2^n for `n` in the range of normal `f64`.
fn power_of_two(n: i32) -> f64 {
    f64::from_bits(((n + 1023) as u64) << 52)
}

/// Replaces `sum` by its odd neighbour if `error` says that it is inexact.
#[inline]
fn to_odd(sum: f64, error: f64) -> f64 {
    let bits = sum.to_bits();
    if error == 0.0 || error.is_nan() || bits & 1 == 1 || !sum.is_finite() {
        return sum;
    }
    // The neighbour is farther from zero if the error has the sum's sign.
    let away = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if away { bits + 1 } else { bits - 1 })
}

/// `a + b` rounded to odd.
#[inline]
pub(crate) fn add_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let part = sum - a;
    let error = (a - (sum - part)) + (b - part);
    to_odd(sum, error)
}

/// `a / b` rounded to odd.
#[inline]
pub(crate) fn div_odd(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    if !quotient.is_finite() || quotient == 0.0 {
        return quotient;
    }
    let rest = (-quotient).mul_add(b, a);
    to_odd(quotient, if b < 0.0 { -rest } else { rest })
}

/// The square root rounded to odd.
#[inline]
pub(crate) fn sqrt_odd(a: f64) -> f64 {
    let root = a.sqrt();
    if !root.is_finite() || root == 0.0 {
        return root;
    }
    to_odd(root, (-root).mul_add(root, a))
}

/// The result of an `f64` operation in a rounding direction, given the result rounded to nearest,
/// and an `error` with the sign of the exact result minus it.
pub(crate) fn direct(nearest: f64, error: f64, rounding: Rounding) -> f64 {
    if error == 0.0 || error.is_nan() || !nearest.is_finite() {
        return nearest;
    }
    let (up, down) = (error > 0.0, error < 0.0);
    match rounding {
        Rounding::NearestEven | Rounding::NearestAway => nearest,
        Rounding::Up if up => nearest.next_up(),
        Rounding::Down if down => nearest.next_down(),
        Rounding::Zero if nearest > 0.0 && down => nearest.next_down(),
        Rounding::Zero if nearest < 0.0 && up => nearest.next_up(),
        _ => nearest,
    }
}

/// The bits of an `f32`, with the canonical NaN.
#[inline(always)]
pub(crate) fn canonical(value: f32) -> u32 {
    if value.is_nan() {
        0x7fff_ffff
    } else {
        value.to_bits()
    }
}

/// Flushes a subnormal `f32` to zero, keeping its sign.
#[inline(always)]
pub(crate) fn flush(value: f32) -> f32 {
    if value.abs() < f32::MIN_POSITIVE {
        0.0f32.copysign(value)
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_and_e4m3_round_trips() {
        for format in [F16, BF16, E4M3, E5M2] {
            let all = 1u32 << (1 + format.mantissa + format.exponent);
            for bits in 0..all {
                let value = format.value(bits);
                if !value.is_nan() {
                    assert_eq!(
                        format.round(value, Rounding::NearestEven),
                        bits,
                        "{format:?}"
                    );
                    assert_eq!(format.round(value, Rounding::Zero), bits);
                }
            }
        }
        assert_eq!(F16.value(0x3c00), 1.0);
        assert_eq!(E4M3.value(0x7e), 448.0);
        assert_eq!(E4M3.round_finite(1e9, Rounding::NearestEven), 0x7e);
        assert_eq!(F16.round(65520.0, Rounding::NearestEven), 0x7c00);
        assert_eq!(F16.round(65519.0, Rounding::NearestEven), 0x7bff);
    }

    #[test]
    fn f32_rounds_as_the_machine_does() {
        let mut state = 1u64;
        for _ in 0..200_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let exponent = 1023 - 160 + (state >> 33) % 300;
            let value = f64::from_bits(state << 63 | exponent << 52 | (state >> 12));
            assert_eq!(
                F32.round(value, Rounding::NearestEven),
                (value as f32).to_bits()
            );
        }
    }
}
