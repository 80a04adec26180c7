//! `cbrt`: a third of the exponent as a first guess, then Halley's iteration, which triples the
//! correct digits.

use super::abs;
use crate::simd::builder::Builder;
use crate::simd::ir::{BinaryOp, Condition, Conversion, Type, V};
use crate::simd::mathlib::{power::halley, with_sign};

/// What is added to a third of the upper half of a number's bits: within 5 % of the root.
const BIAS: f64 = 715_094_163.0;

pub(super) fn cbrt(b: &mut Builder, x: V) -> V {
    let magnitude = abs(b, x);
    // Away from where cubes overflow or underflow.
    let (tiny, huge) = (b.f64(2f64.powi(-900)), b.f64(2f64.powi(900)));
    let is_tiny = b.compare(Condition::Less, magnitude, tiny);
    let is_huge = b.compare(Condition::Less, huge, magnitude);
    let (up, down, one) = (b.f64(2f64.powi(300)), b.f64(2f64.powi(-300)), b.f64(1.0));
    let scale = b.select(is_huge, down, one);
    let scale = b.select(is_tiny, up, scale);
    let scaled = b.mul(magnitude, scale);
    let bits = b.bits(scaled);
    let upper = b.shift(BinaryOp::ShiftRight, bits, 32);
    let upper = b.convert(Conversion::Low, upper, Type::I32);
    let upper = b.convert(Conversion::FromSigned, upper, Type::F64);
    let (third, bias) = (b.f64(1.0 / 3.0), b.f64(BIAS));
    let upper = b.fma(upper, third, bias);
    let upper = b.convert(Conversion::Truncate, upper, Type::I32);
    let upper = b.convert(Conversion::ExtendUnsigned, upper, Type::I64);
    let bits = b.shift(BinaryOp::ShiftLeft, upper, 32);
    let mut root = b.bits(bits);
    for _ in 0..3 {
        root = halley(b, root, scaled);
    }
    let (up, down) = (b.f64(2f64.powi(100)), b.f64(2f64.powi(-100)));
    let unscale = b.select(is_huge, up, one);
    let unscale = b.select(is_tiny, down, unscale);
    let root = b.mul(root, unscale);
    let root = with_sign(b, root, x);
    // Zeros, infinities and NaN are their own roots.
    let (zero, infinity) = (b.f64(0.0), b.f64(f64::INFINITY));
    let finite = b.compare(Condition::Less, magnitude, infinity);
    let nonzero = b.compare(Condition::NotEqual, x, zero);
    let usual = b.and(finite, nonzero);
    b.select(usual, root, x)
}
