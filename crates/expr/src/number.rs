//! Checked integer arithmetic with mathematical rounding.

/// `a / b` rounded towards negative infinity; `None` if `b` is zero or the
/// quotient does not fit.
pub fn floor_div(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    let remainder = a.checked_rem(b)?;
    Some(quotient - i64::from(remainder != 0 && (remainder < 0) != (b < 0)))
}

/// `a / b` rounded towards positive infinity; `None` if `b` is zero or the
/// quotient does not fit.
pub fn ceil_div(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    let remainder = a.checked_rem(b)?;
    Some(quotient + i64::from(remainder != 0 && (remainder < 0) == (b < 0)))
}

/// `a - floor_div(a, b) * b`; `None` if `b` is zero.
pub fn floor_mod(a: i64, b: i64) -> Option<i64> {
    if b == -1 {
        return Some(0);
    }
    let remainder = a.checked_rem(b)?;
    let wrong_sign = remainder != 0 && (remainder < 0) != (b < 0);
    Some(if wrong_sign { remainder + b } else { remainder })
}

/// `a / b` rounded towards negative infinity, for `b > 0`.
pub(crate) fn wide_floor(a: i128, b: i128) -> i128 {
    a.div_euclid(b)
}

/// `a / b` rounded towards positive infinity, for `b > 0`.
pub(crate) fn wide_ceil(a: i128, b: i128) -> i128 {
    let quotient = a.div_euclid(b);
    quotient + i128::from(a.rem_euclid(b) != 0)
}

/// The exact value of a float, as a fraction in lowest terms with a positive denominator; `None` if
/// it is not finite, or has bits above 2^62 or below 2^-62.
pub fn exact_ratio(value: f64) -> Option<(i64, i64)> {
    let (mut numerator, mut denominator) = (value, 1i64);
    while numerator.is_finite() && numerator.fract() != 0.0 {
        numerator *= 2.0;
        denominator = denominator.checked_mul(2)?;
    }
    // 2^63 is the smallest double greater than every i64.
    let fits = numerator.is_finite() && numerator.abs() < 9_223_372_036_854_775_808.0;
    fits.then_some((numerator as i64, denominator))
}

/// The greatest common divisor of the magnitudes; `gcd(0, 0)` is 0.
pub fn gcd(a: i64, b: i64) -> u64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
