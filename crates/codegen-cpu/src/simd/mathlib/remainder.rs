//! The remainder of a division of floats: C's `fmod`, exactly.

use super::abs;
use crate::simd::builder::Builder;
use crate::simd::ir::{BinaryOp, Condition, Conversion, Type, UnaryOp, V};

/// Quotients of at least this are reduced in steps.
const LARGE: f64 = (1u64 << 27) as f64;
/// The mask of the upper bits of a quotient that a step subtracts: their product with the 24 bits
/// of a divisor is exact.
const UPPER: u64 = !((1 << 25) - 1);
/// A factor that makes a rounded quotient smaller than the exact one.
const BELOW: f64 = 1.0 - 1.0 / (1u64 << 50) as f64;

/// The [`remainder`] of a division by an integral power of two, of either width: quotient, product
/// and difference are exact.
pub(super) fn by_power_of_two(b: &mut Builder, x: V, y: V) -> Option<V> {
    let bits = b.constant_of(y)?;
    let divisor = match b.type_of(y).is_wide() {
        true => f64::from_bits(bits),
        false => f64::from(f32::from_bits(bits as u32)),
    };
    let mantissa = divisor.to_bits() & ((1 << 52) - 1);
    if mantissa != 0 || !divisor.is_finite() || divisor < 1.0 {
        return None;
    }
    let inverse = b.float_like(x, 1.0 / divisor);
    let quotient = b.mul(x, inverse);
    let whole = b.unary(UnaryOp::Trunc, quotient);
    let product = b.mul(whole, y);
    let rest = b.sub(x, product);
    let magnitude = abs(b, rest);
    Some(super::with_sign(b, magnitude, x))
}

/// `x - trunc(x / y) y` with the sign of `x`.
///
/// In `f64` this is exact while the quotient is small: the rounded quotient is an integer only if
/// the exact one is, and its product with `y` and the difference fit 53 bits.
pub(super) fn remainder(b: &mut Builder, x: V, y: V) -> V {
    let [of, by] = [x, y].map(|v| {
        let magnitude = abs(b, v);
        b.convert(Conversion::Float, magnitude, Type::F64)
    });
    let quotient = b.div(of, by);
    let [of, quotient] = b.rare_while(
        [of, quotient],
        |b, [_, quotient]| is_large(b, quotient),
        |b, [of, quotient]| {
            let rest = step(b, of, quotient, by);
            [rest, b.div(rest, by)]
        },
    );
    let rest = less(b, of, quotient, by);
    let rest = b.convert(Conversion::Float, rest, Type::F32);
    super::with_sign(b, rest, x)
}

/// Whether steps are needed: the quotient is large, but neither infinite nor NaN.
fn is_large(b: &mut Builder, quotient: V) -> V {
    let [large, infinity] = [LARGE, f64::INFINITY].map(|x| b.f64(x));
    let is_large = b.compare(Condition::LessEqual, large, quotient);
    let is_finite = b.compare(Condition::Less, quotient, infinity);
    b.and(is_large, is_finite)
}

/// Subtracts from `of` the multiple of `by` with the upper bits of their quotient.
fn step(b: &mut Builder, of: V, quotient: V, by: V) -> V {
    let below = b.f64(BELOW);
    let quotient = b.mul(quotient, below);
    let bits = b.bits(quotient);
    let upper = b.constant(Type::I64, UPPER);
    let upper = b.and(bits, upper);
    let quotient = b.bits(upper);
    less(b, of, quotient, by)
}

/// Subtracts from `of` the multiple of `by` with the quotient rounded towards zero. If `of` is less
/// than `by`, which may be infinite, it is unchanged.
fn less(b: &mut Builder, of: V, quotient: V, by: V) -> V {
    let whole = b.unary(UnaryOp::Trunc, quotient);
    let product = b.mul(whole, by);
    let rest = b.sub(of, product);
    let stays = b.compare(Condition::Less, of, by);
    b.select(stays, of, rest)
}

/// Quotients of `f64` below this are integers of 26 bits.
const LARGE_F64: f64 = (1u64 << 26) as f64;
/// The bits of an `f64` below the upper 26 of its mantissa.
const LOWER: u64 = (1 << 27) - 1;
/// The maximum of a divisor's multiples, so that their halves of 26 bits do not round to infinity.
const MOST: f64 = f64::from_bits((1023 + 1000) << 52);
/// A divisor is multiplied by this at most twice: quotients reach 2^2098, and those by the
/// multiples do not overflow.
const FACTOR: f64 = f64::from_bits((1023 + 700) << 52);

/// C's `fmod` of two `f64`: `x - trunc(x / y) y` with the sign of `x`.
///
/// A multiple of `y` is subtracted in parts: quotient and divisor are split into numbers of at most
/// 27 bits, so that products are exact. Each difference is exact too, because both numbers are near
/// each other (Sterbenz' lemma) or the result fits into 53 bits. It needs no fused multiply-add.
pub(super) fn remainder_f64(b: &mut Builder, x: V, y: V) -> V {
    let [of, by] = [x, y].map(|v| abs(b, v));
    let quotient = b.div(of, by);
    let [of, quotient] = b.rare_while(
        [of, quotient],
        |b, [of, quotient]| takes_steps(b, [of, quotient], by),
        |b, [of, _]| {
            let rest = large_step(b, of, by);
            [rest, b.div(rest, by)]
        },
    );
    let whole = b.unary(UnaryOp::Trunc, quotient);
    // No multiple of an infinity is subtracted, whereas 0 times this is 0.
    let largest = b.f64(f64::MAX);
    let finite = b.binary(BinaryOp::LesserOrSecond, by, largest);
    let bits = b.bits(finite);
    let upper = b.constant(Type::I64, !LOWER);
    let high = b.and(bits, upper);
    let high = b.bits(high);
    let low = b.sub(finite, high);
    let rest = less_parts(b, of, whole, [high, low]);
    // Corrects negative remainders, which steps may leave, and those after a quotient that was
    // rounded up to an integer.
    let zero = b.f64(0.0);
    let is_negative = b.compare(Condition::Less, rest, zero);
    let more = b.add(rest, by);
    let rest = b.select(is_negative, more, rest);
    super::with_sign(b, rest, x)
}

/// Whether the quotient of a finite number has more than 26 bits, so that steps are needed. It may
/// overflow an `f64`.
fn takes_steps(b: &mut Builder, [of, quotient]: [V; 2], by: V) -> V {
    let [of, quotient] = [of, quotient].map(|v| abs(b, v));
    let [zero, large, infinity] = [0.0, LARGE_F64, f64::INFINITY].map(|x| b.f64(x));
    let is_large = b.compare(Condition::LessEqual, large, quotient);
    let is_finite = b.compare(Condition::Less, of, infinity);
    let is_divided = b.compare(Condition::Less, zero, by);
    let is_large = b.and(is_large, is_finite);
    b.and(is_large, is_divided)
}

/// Subtracts from `of` the multiple of `by` with the nearest quotient that has 53 bits. The
/// remainder, of either sign, is at most half of `by`, or 2^-52 of `of`.
///
/// If the quotient may overflow an `f64`, `by` is first multiplied by a power of two.
fn large_step(b: &mut Builder, of: V, by: V) -> V {
    let [most, factor, one, half] = [MOST, FACTOR, 1.0, 0.5].map(|x| b.f64(x));
    let magnitude = abs(b, of);
    let bound = b.binary(BinaryOp::LesserOrSecond, magnitude, most);
    let mut divisor = by;
    for _ in 0..2 {
        let multiple = b.mul(divisor, factor);
        let fits = b.compare(Condition::Less, multiple, bound);
        divisor = b.select(fits, multiple, divisor);
    }
    // Products of numbers that were rounded up may exceed `of` and overflow: half of it is divided,
    // and the remainder doubled.
    let is_half = b.compare(Condition::Less, most, magnitude);
    let scale = b.select(is_half, half, one);
    let scaled = b.mul(of, scale);
    let quotient = b.div(scaled, divisor);
    let quotient = b.unary(UnaryOp::Nearest, quotient);
    let parts = halves(b, divisor);
    let [upper, lower] = halves(b, quotient);
    let rest = less_parts(b, scaled, upper, parts);
    let rest = less_parts(b, rest, lower, parts);
    b.div(rest, scale)
}

/// Subtracts from `of` a factor times the sum of two parts.
fn less_parts(b: &mut Builder, of: V, factor: V, parts: [V; 2]) -> V {
    parts.into_iter().fold(of, |of, part| {
        let product = b.mul(factor, part);
        b.sub(of, product)
    })
}

/// A number as the sum of the nearest number of 26 bits and another of 26 bits.
fn halves(b: &mut Builder, x: V) -> [V; 2] {
    let half = b.constant(Type::I64, 1 << 26);
    let upper = b.constant(Type::I64, !LOWER);
    let bits = b.bits(x);
    let bits = b.add(bits, half);
    let bits = b.and(bits, upper);
    let high = b.bits(bits);
    let low = b.sub(x, high);
    [high, low]
}
