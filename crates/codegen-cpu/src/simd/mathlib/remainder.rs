//! What a division of floats leaves: C's `fmod`, exactly.

use super::abs;
use crate::simd::builder::Builder;
use crate::simd::ir::{Condition, Conversion, Type, UnaryOp, V};

/// Quotients from here on are taken in steps.
const LARGE: f64 = (1u64 << 27) as f64;
/// The upper bits of a quotient that a step subtracts: times the 24 bits of a divisor they have
/// an exact product.
const UPPER: u64 = !((1 << 25) - 1);
/// What makes a rounded quotient less than the quotient.
const BELOW: f64 = 1.0 - 1.0 / (1u64 << 50) as f64;
/// The largest quotient of two `f32` is below 2^277, and a step takes 27 bits of it.
const STEPS: usize = 10;

/// [`remainder`] of a division by a power of two that is no fraction, of either width: quotient,
/// product and difference are exact.
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
/// In `f64` that has no rounding while the quotient is small: it is no integer when rounded that
/// it is not exactly, and its product with `y` and what is left fit into 53 bits.
pub(super) fn remainder(b: &mut Builder, x: V, y: V) -> V {
    let [of, by] = [x, y].map(|v| {
        let magnitude = abs(b, v);
        b.convert(Conversion::Float, magnitude, Type::F64)
    });
    let quotient = b.div(of, by);
    let large = b.f64(LARGE);
    let is_large = b.compare(Condition::LessEqual, large, quotient);
    let [of] = b.rare(is_large, [of], |b| {
        let mut rest = of;
        for _ in 0..STEPS {
            rest = step(b, rest, by);
        }
        [rest]
    });
    let quotient = b.div(of, by);
    let rest = less(b, of, quotient, by);
    let rest = b.convert(Conversion::Float, rest, Type::F32);
    let sign = b.i32(i32::MIN);
    let bits = b.bits(x);
    let sign = b.and(bits, sign);
    let rest = b.bits(rest);
    let rest = b.or(rest, sign);
    b.bits(rest)
}

/// `of` less a multiple of `by` that has the upper bits of their quotient.
fn step(b: &mut Builder, of: V, by: V) -> V {
    let quotient = b.div(of, by);
    let below = b.f64(BELOW);
    let quotient = b.mul(quotient, below);
    let bits = b.bits(quotient);
    let upper = b.constant(Type::I64, UPPER);
    let upper = b.and(bits, upper);
    let quotient = b.bits(upper);
    less(b, of, quotient, by)
}

/// `of` less `by` as often as a quotient says, rounded towards zero. What is less than `by`, which
/// may be infinite, stays.
fn less(b: &mut Builder, of: V, quotient: V, by: V) -> V {
    let whole = b.unary(UnaryOp::Trunc, quotient);
    let product = b.mul(whole, by);
    let rest = b.sub(of, product);
    let stays = b.compare(Condition::Less, of, by);
    b.select(stays, of, rest)
}
