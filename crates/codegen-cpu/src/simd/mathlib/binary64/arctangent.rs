//! `atan2`.
//!
//! The smaller magnitude over the larger one is the tangent of an angle in [0, pi/4]. If that
//! tangent is above a half, `(t - 1) / (t + 1)` is the tangent of the angle's difference from pi/4.
//! So one quotient gives the tangent of an angle that is added to a multiple of pi/4 or subtracted
//! from it.

use super::{abs, polynomial_f64};
use crate::simd::builder::Builder;
use crate::simd::ir::{Condition, V};
use crate::simd::mathlib::{Extremes, negated, with_sign};
use std::f64::consts::{FRAC_PI_4, SQRT_2};

/// `(atan(t) - t) / t^3` in `t^2`, |t| <= sqrt 2 - 1: within 3.5e-18 of the angle.
const ATAN: [f64; 12] = [
    -0.333_333_333_333_333_3,
    0.199_999_999_999_998,
    -0.142_857_142_856_588_24,
    0.111_111_111_050_576_18,
    -0.090_909_087_486_376_79,
    0.076_922_962_345_621_04,
    -0.066_664_223_652_985_35,
    0.058_789_000_468_626_215,
    -0.052_302_412_575_139_91,
    0.045_506_225_250_304_51,
    -0.034_545_622_575_104_51,
    0.016_258_145_857_267_04,
];

/// pi/4 minus the nearest `f64`.
const EIGHTH_LOW: f64 = 3.061_616_997_868_383e-17;

/// The angle of the point `(x, y)`.
pub(crate) fn atan2(b: &mut Builder, y: V, x: V) -> V {
    let (right, up) = (abs(b, x), abs(b, y));
    let steep = b.compare(Condition::Less, right, up);
    let low = b.select(steep, right, up);
    let high = b.select(steep, up, right);
    let (low, high) = in_the_middle(b, low, high);
    let (zero, one, infinity) = (b.f64(0.0), b.f64(1.0), b.f64(f64::INFINITY));
    let half_eighth = b.f64(SQRT_2 - 1.0);
    let limit = b.mul(high, half_eighth);
    let far = b.compare(Condition::Less, limit, low);
    let both = b.compare(Condition::Equal, low, infinity);
    let far = b.or(far, both);
    let (less, sum) = (b.sub(low, high), b.add(low, high));
    let above = b.select(far, less, low);
    let below = b.select(far, sum, high);
    let tangent = b.div(above, below);
    // For sides that are both infinite, or both zero.
    let none = b.compare(Condition::Equal, high, zero);
    let flat = b.or(both, none);
    let tangent = b.select(flat, zero, tangent);
    let square = b.mul(tangent, tangent);
    let tail = polynomial_f64(b, square, &ATAN);
    let cube = b.mul(tangent, square);
    let angle = b.fma(cube, tail, tangent);
    // The number of eighths of a circle, and the angle added to or subtracted from them.
    let (two, four) = (b.f64(2.0), b.f64(4.0));
    let eighths = b.select(far, one, zero);
    let other = b.sub(two, eighths);
    let eighths = b.select(steep, other, eighths);
    let bits = b.bits(x);
    let nothing = b.bits(zero);
    let left = b.compare(Condition::Less, bits, nothing);
    let other = b.sub(four, eighths);
    let eighths = b.select(left, other, eighths);
    let turned = b.xor(steep, left);
    let minus = negated(b, angle);
    let angle = b.select(turned, minus, angle);
    let (eighth, eighth_low) = (b.f64(FRAC_PI_4), b.f64(EIGHTH_LOW));
    let angle = b.fma(eighths, eighth_low, angle);
    let angle = b.fma(eighths, eighth, angle);
    let angle = abs(b, angle);
    let signed = with_sign(b, angle, y);
    let unordered = b.compare(Condition::Unordered, x, y);
    let neither = b.add(x, y);
    b.select(unordered, neither, signed)
}

/// Scales both sides by the same power of 2, so that their sum does not overflow and the quotient's
/// operands are normal numbers.
fn in_the_middle(b: &mut Builder, low: V, high: V) -> (V, V) {
    let power = |exponent: i32| 2f64.powi(exponent);
    let extremes = Extremes::of(b, high, [power(-900), power(900)]);
    let scale = extremes.factor(b, high, [power(120), power(-120)]);
    (b.mul(low, scale), b.mul(high, scale))
}
