//! Functions of integers of 1 to 64 bits.
//!
//! A signed integer of `width` bits is passed sign-extended in an `i64`, an unsigned one
//! zero-extended in a `u64`; every result is wrapped to its width. Nothing traps: division by zero
//! and the overflow of `MIN / -1` have the values that XLA defines.

use tegula_ir::{Binary, Unary};

/// The low `width` bits of `x`, sign-extended.
#[inline(always)]
pub fn wrap_signed(x: i64, width: u32) -> i64 {
    let unused = 64 - width.clamp(1, 64);
    (x << unused) >> unused
}

/// The low `width` bits of `x`.
#[inline(always)]
pub fn wrap_unsigned(x: u64, width: u32) -> u64 {
    x & mask(width)
}

#[inline(always)]
fn mask(width: u32) -> u64 {
    u64::MAX >> (64 - width.clamp(1, 64))
}

/// `op(x)` on a signed integer; `None` for an operation that integers lack.
#[inline(always)]
pub fn unary_signed(op: Unary, x: i64, width: u32) -> Option<i64> {
    let bits = wrap_unsigned(x as u64, width);
    let result = match op {
        Unary::Abs => x.wrapping_abs(),
        Unary::Negate => x.wrapping_neg(),
        Unary::Not => !x,
        Unary::Sign => x.signum(),
        Unary::Popcnt => i64::from(bits.count_ones()),
        Unary::CountLeadingZeros => i64::from(bits.leading_zeros()) - (64 - i64::from(width)),
        Unary::Real => x,
        Unary::Imag => 0,
        _ => return None,
    };
    Some(wrap_signed(result, width))
}

/// `op(x)` on an unsigned integer; `None` for an operation that integers lack.
#[inline(always)]
pub fn unary_unsigned(op: Unary, x: u64, width: u32) -> Option<u64> {
    let result = match op {
        Unary::Abs | Unary::Real => x,
        Unary::Negate => x.wrapping_neg(),
        Unary::Not => !x,
        Unary::Sign => u64::from(x != 0),
        Unary::Popcnt => u64::from(x.count_ones()),
        Unary::CountLeadingZeros => u64::from(x.leading_zeros()) - (64 - u64::from(width)),
        Unary::Imag => 0,
        _ => return None,
    };
    Some(wrap_unsigned(result, width))
}

/// `op(a, b)` on signed integers; `None` for an operation that integers lack.
///
/// `x / 0 = -1`, `x % 0 = x`, `MIN / -1 = MIN`, `MIN % -1 = 0`; a shift by the width or more (the
/// amount is read as unsigned) gives 0, or the sign for an arithmetic right shift.
#[inline(always)]
pub fn binary_signed(op: Binary, a: i64, b: i64, width: u32) -> Option<i64> {
    let amount = wrap_unsigned(b as u64, width);
    let in_range = amount < u64::from(width);
    let result = match op {
        Binary::Add => a.wrapping_add(b),
        Binary::Subtract => a.wrapping_sub(b),
        Binary::Multiply => a.wrapping_mul(b),
        Binary::Mulhi => ((i128::from(a) * i128::from(b)) >> width) as i64,
        Binary::Divide if b == 0 => -1,
        Binary::Divide => a.wrapping_div(b),
        Binary::Remainder if b == 0 => a,
        Binary::Remainder => a.wrapping_rem(b),
        Binary::Maximum => a.max(b),
        Binary::Minimum => a.min(b),
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::ShiftLeft if in_range => ((a as u64) << amount) as i64,
        Binary::ShiftRightLogical if in_range => (wrap_unsigned(a as u64, width) >> amount) as i64,
        Binary::ShiftLeft | Binary::ShiftRightLogical => 0,
        Binary::ShiftRightArithmetic => a >> amount.min(u64::from(width) - 1),
        Binary::Power => power_signed(a, b),
        Binary::Atan2 | Binary::Complex => return None,
    };
    Some(wrap_signed(result, width))
}

/// `op(a, b)` on unsigned integers; `None` for an operation that integers lack.
///
/// `x / 0` is all ones and `x % 0 = x`; shifts are as in [`binary_signed`], and the arithmetic
/// right shift extends the top bit.
#[inline(always)]
pub fn binary_unsigned(op: Binary, a: u64, b: u64, width: u32) -> Option<u64> {
    let in_range = b < u64::from(width);
    let result = match op {
        Binary::Add => a.wrapping_add(b),
        Binary::Subtract => a.wrapping_sub(b),
        Binary::Multiply => a.wrapping_mul(b),
        Binary::Mulhi => ((u128::from(a) * u128::from(b)) >> width) as u64,
        Binary::Divide => a.checked_div(b).unwrap_or(u64::MAX),
        Binary::Remainder => a.checked_rem(b).unwrap_or(a),
        Binary::Maximum => a.max(b),
        Binary::Minimum => a.min(b),
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::ShiftLeft if in_range => a << b,
        Binary::ShiftRightLogical if in_range => a >> b,
        Binary::ShiftLeft | Binary::ShiftRightLogical => 0,
        Binary::ShiftRightArithmetic => {
            (wrap_signed(a as i64, width) >> b.min(u64::from(width) - 1)) as u64
        }
        Binary::Power => power_unsigned(a, b),
        Binary::Atan2 | Binary::Complex => return None,
    };
    Some(wrap_unsigned(result, width))
}

/// `base` to the power `exponent`, wrapping. A negative exponent gives the reciprocal, truncated:
/// 1, -1 or 0.
///
/// This differs from XLA:CPU (jaxlib 0.10), which uses only the low six bits of the exponent, so
/// that `2^64` is 1 in `s64`, and takes a large unsigned exponent for a negative one.
fn power_signed(base: i64, exponent: i64) -> i64 {
    match (base, exponent) {
        (_, 0..) => power_unsigned(base as u64, exponent as u64) as i64,
        (1, _) => 1,
        (-1, _) if exponent % 2 == 0 => 1,
        (-1, _) => -1,
        _ => 0,
    }
}

fn power_unsigned(base: u64, exponent: u64) -> u64 {
    let (mut result, mut square, mut rest) = (1u64, base, exponent);
    while rest != 0 {
        if rest & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        rest >>= 1;
    }
    result
}

/// `op(x)` on a truth value; `None` for an operation that `pred` lacks.
#[inline(always)]
pub fn unary_pred(op: Unary, x: bool) -> Option<bool> {
    match op {
        Unary::Not => Some(!x),
        Unary::Abs | Unary::Real | Unary::Sign => Some(x),
        _ => None,
    }
}

/// `op(a, b)` on truth values; `None` for an operation that `pred` lacks. Addition is `or`,
/// multiplication is `and`.
#[inline(always)]
pub fn binary_pred(op: Binary, a: bool, b: bool) -> Option<bool> {
    match op {
        Binary::Add | Binary::Maximum | Binary::Or => Some(a | b),
        Binary::Multiply | Binary::Minimum | Binary::And => Some(a & b),
        Binary::Xor | Binary::Subtract => Some(a ^ b),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(op: Binary, a: i64, b: i64, width: u32) -> i64 {
        binary_signed(op, a, b, width).unwrap()
    }

    fn unsigned(op: Binary, a: u64, b: u64, width: u32) -> u64 {
        binary_unsigned(op, a, b, width).unwrap()
    }

    #[test]
    fn division_never_traps() {
        assert_eq!(signed(Binary::Divide, 7, 0, 32), -1);
        assert_eq!(signed(Binary::Remainder, 7, 0, 32), 7);
        assert_eq!(
            signed(Binary::Divide, i64::from(i32::MIN), -1, 32),
            i64::from(i32::MIN)
        );
        assert_eq!(signed(Binary::Remainder, i64::MIN, -1, 64), 0);
        assert_eq!(signed(Binary::Divide, i64::MIN, -1, 64), i64::MIN);
        assert_eq!(signed(Binary::Divide, -7, 2, 8), -3);
        assert_eq!(signed(Binary::Remainder, -7, 2, 8), -1);
        assert_eq!(unsigned(Binary::Divide, 7, 0, 8), 255);
        assert_eq!(unsigned(Binary::Divide, 7, 0, 64), u64::MAX);
        assert_eq!(unsigned(Binary::Remainder, 7, 0, 8), 7);
    }

    #[test]
    fn shifts_beyond_the_width() {
        assert_eq!(signed(Binary::ShiftLeft, 1, 32, 32), 0);
        assert_eq!(signed(Binary::ShiftLeft, 1, 31, 32), i64::from(i32::MIN));
        assert_eq!(signed(Binary::ShiftLeft, 1, -1, 32), 0);
        assert_eq!(signed(Binary::ShiftRightArithmetic, -8, 40, 32), -1);
        assert_eq!(signed(Binary::ShiftRightArithmetic, 8, -1, 32), 0);
        assert_eq!(signed(Binary::ShiftRightLogical, -1, 28, 32), 15);
        assert_eq!(signed(Binary::ShiftRightLogical, -1, 32, 32), 0);
        assert_eq!(signed(Binary::ShiftRightLogical, -1, 1, 4), 7);
        assert_eq!(signed(Binary::ShiftLeft, 3, 2, 4), -4);
        assert_eq!(unsigned(Binary::ShiftRightArithmetic, 0x80, 3, 8), 0xf0);
        assert_eq!(unsigned(Binary::ShiftRightLogical, 0x80, 8, 8), 0);
    }

    #[test]
    fn powers_wrap_and_negative_exponents_truncate() {
        assert_eq!(signed(Binary::Power, 3, 4, 32), 81);
        assert_eq!(signed(Binary::Power, 2, 31, 32), i64::from(i32::MIN));
        assert_eq!(signed(Binary::Power, 2, 33, 32), 0);
        assert_eq!(signed(Binary::Power, 5, -1, 32), 0);
        assert_eq!(signed(Binary::Power, -1, -3, 32), -1);
        assert_eq!(signed(Binary::Power, -1, -2, 32), 1);
        assert_eq!(signed(Binary::Power, 0, 0, 32), 1);
        assert_eq!(unsigned(Binary::Power, 3, 5, 4), 3);
    }

    #[test]
    fn bits_are_counted_within_the_width() {
        assert_eq!(unary_signed(Unary::Popcnt, -1, 8), Some(8));
        assert_eq!(unary_signed(Unary::Popcnt, -1, 64), Some(64));
        assert_eq!(unary_signed(Unary::CountLeadingZeros, 0, 8), Some(8));
        assert_eq!(unary_signed(Unary::CountLeadingZeros, 1, 32), Some(31));
        assert_eq!(unary_unsigned(Unary::CountLeadingZeros, 1, 4), Some(3));
        assert_eq!(unary_signed(Unary::Abs, -128, 8), Some(-128));
        assert_eq!(unary_unsigned(Unary::Negate, 1, 8), Some(255));
        assert_eq!(unary_unsigned(Unary::Not, 0, 4), Some(15));
        assert_eq!(signed(Binary::Mulhi, -1, 1, 32), -1);
        assert_eq!(unsigned(Binary::Mulhi, 0xff, 0xff, 8), 0xfe);
    }
}
