//! `atan2`, and `asin` and `acos` of lanes of either width, which are angles of points of the unit circle.
//!
//! The quotient of the smaller magnitude and the larger one is the tangent of an angle in
//! [0, pi/4], and a polynomial in the quotient approximates that angle. If the magnitudes were
//! exchanged or `x` is negative, the angle is subtracted from a multiple of pi/2, whose low part is
//! added separately.

use super::{abs, binary64, polynomial};
use crate::simd::builder::Builder;
use crate::simd::ir::{Condition, UnaryOp, V};

/// `(atan(t) - t) / t^3` in `t^2`, 0 <= t <= 1: within 4e-10 of the angle.
const ATAN: [f32; 10] = [
    -0.333_333_28,
    0.199_996_71,
    -0.142_798_33,
    0.110_582_23,
    -0.088_110_91,
    0.067_415_97,
    -0.044_689_935,
    0.022_539_861,
    -0.007_317_954_7,
    0.001_113_788_3,
];

/// pi as an `f32`, and the rounding error; halved, they give pi/2.
const PI: [f32; 2] = [std::f32::consts::PI, -8.742_278e-8];

/// The angle whose sine is `x`; NaN beyond 1.
pub(super) fn asin(b: &mut Builder, x: V) -> V {
    let across = leg(b, x);
    angle(b, x, across)
}

/// The angle whose cosine is `x`; NaN beyond 1.
pub(super) fn acos(b: &mut Builder, x: V) -> V {
    let across = leg(b, x);
    angle(b, across, x)
}

/// `sqrt(1 - x^2)`; of the factors the smaller is exact near 1.
fn leg(b: &mut Builder, x: V) -> V {
    let one = b.float_like(x, 1.0);
    let (less, more) = (b.sub(one, x), b.add(one, x));
    let square = b.mul(less, more);
    b.unary(UnaryOp::Sqrt, square)
}

/// `atan2` of either width.
fn angle(b: &mut Builder, y: V, x: V) -> V {
    match b.type_of(x).is_wide() {
        true => binary64::atan2(b, y, x),
        false => atan2(b, y, x),
    }
}

/// The angle of the point `(x, y)`.
pub(super) fn atan2(b: &mut Builder, y: V, x: V) -> V {
    let (right, up) = (abs(b, x), abs(b, y));
    let steep = b.compare(Condition::Less, right, up);
    let low = b.select(steep, right, up);
    let high = b.select(steep, up, right);
    let tangent = tangent(b, low, high);
    let square = b.mul(tangent, tangent);
    let tail = polynomial(b, square, &ATAN);
    let cube = b.mul(tangent, square);
    let angle = b.fma(cube, tail, tangent);
    // Adds to or subtracts from 0, pi/2 or pi.
    let bits = b.bits(x);
    let zero = b.i32(0);
    let left = b.compare(Condition::Less, bits, zero);
    let quarter = [0.5 * PI[0], 0.5 * PI[1]];
    let [base, rest] = [0, 1].map(|part| {
        let (nothing, quarter, half) = (b.f32(0.0), b.f32(quarter[part]), b.f32(PI[part]));
        let flat = b.select(left, half, nothing);
        b.select(steep, quarter, flat)
    });
    let back = b.xor(steep, left);
    let sign = b.i32(i32::MIN);
    let turned = b.bits(angle);
    let turned = b.xor(turned, sign);
    let turned = b.bits(turned);
    let angle = b.select(back, turned, angle);
    let sum = b.add(angle, rest);
    let sum = b.add(base, sum);
    // Gives the result the sign of `y`; NaN if either operand is NaN.
    let sign_of_y = b.bits(y);
    let sign_of_y = b.and(sign_of_y, sign);
    let magnitude = b.bits(sum);
    let signed = b.or(magnitude, sign_of_y);
    let signed = b.bits(signed);
    let unordered = b.compare(Condition::Unordered, x, y);
    let neither = b.add(x, y);
    b.select(unordered, neither, signed)
}

/// The quotient; 0 for two zeros and 1 for two infinities.
fn tangent(b: &mut Builder, low: V, high: V) -> V {
    let (zero, one, infinity) = (b.f32(0.0), b.f32(1.0), b.f32(f32::INFINITY));
    let quotient = b.div(low, high);
    let none = b.compare(Condition::Equal, high, zero);
    let quotient = b.select(none, zero, quotient);
    let both = b.compare(Condition::Equal, low, infinity);
    b.select(both, one, quotient)
}
