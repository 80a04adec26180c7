//! `erf`: an odd polynomial below 1, and from there one minus a polynomial, which is small, so that
//! its rounding error hardly matters.

use super::{abs, polynomial};
use crate::simd::builder::Builder;
use crate::simd::ir::{BinaryOp, Condition, V};

/// `erf(x) / x` in `x^2`, |x| <= 1: relative error 1.3e-9.
const LOW: [f32; 7] = [
    std::f32::consts::FRAC_2_SQRT_PI,
    -0.376_126_26,
    0.112_835_854,
    -0.026_853_813,
    0.005_188_327_7,
    -0.000_801_019_4,
    7.853_861e-5,
];

/// `1 - erf(x)` in `x - 2.4`, 1 <= x <= 3.93: within 3e-8.
const HIGH: [f32; 13] = [
    0.000_688_484_9,
    -0.003_555_693_7,
    0.008_534_913,
    -0.012_467_862,
    0.012_107_264,
    -0.007_894_228,
    0.003_112_583_2,
    -0.000_234_097_65,
    -0.000_561_435_7,
    0.000_327_206_54,
    -3.272_396e-5,
    -3.198_993e-5,
    9.125_229e-6,
];

pub(super) fn erf(b: &mut Builder, x: V) -> V {
    let magnitude = abs(b, x);
    let sign = b.i32(i32::MIN);
    let bits = b.bits(x);
    let sign = b.and(bits, sign);
    // Subnormal numbers are treated as zero, and only numbers whose squares are normal are squared:
    // vector units are slow with subnormal numbers.
    let least = b.f32(f32::MIN_POSITIVE);
    let is_subnormal = b.compare(Condition::Less, magnitude, least);
    let zero = b.bits(sign);
    let normal = b.select(is_subnormal, zero, x);
    let tiny = b.f32(2f32.powi(-60));
    let raised = b.binary(BinaryOp::GreaterOrSecond, tiny, magnitude);
    let square = b.mul(raised, raised);
    let low = polynomial(b, square, &LOW);
    let low = b.mul(low, normal);
    // From here on the result is 1 when rounded.
    let last = b.f32(3.93);
    let clamped = b.binary(BinaryOp::LesserOrSecond, last, magnitude);
    let middle = b.f32(-2.4);
    let t = b.add(clamped, middle);
    let high = polynomial(b, t, &HIGH);
    let one = b.f32(1.0);
    let high = b.sub(one, high);
    let high = b.bits(high);
    let high = b.or(high, sign);
    let high = b.bits(high);
    let is_low = b.compare(Condition::Less, magnitude, one);
    b.select(is_low, low, high)
}
