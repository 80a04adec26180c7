//! The natural logarithm.

use super::super::double::mantissa_and_exponent;
use super::super::logarithm::special;
use super::{LN2_HIGH, LN2_LOW, polynomial_f64};
use crate::simd::builder::Builder;
use crate::simd::ir::{Condition, Conversion, Type, V};

/// `(log((1 + s) / (1 - s)) - 2 s) / s^3` in `s^2`, mantissas in [sqrt 1/2, sqrt 2): within
/// 4.8e-18 of the logarithm.
const LOG: [f64; 7] = [
    0.666_666_666_666_667,
    0.399_999_999_998_982_7,
    0.285_714_286_265_333_35,
    0.222_222_110_438_224_87,
    0.181_828_957_468_014_28,
    0.153_315_017_212_074_2,
    0.146_191_647_771_864_25,
];

/// Splits a positive number into `2^exponent * mantissa`, with the mantissa in [sqrt 1/2, sqrt 2).
pub(super) fn split(b: &mut Builder, x: V) -> [V; 2] {
    let smallest = b.f64(f64::MIN_POSITIVE);
    let subnormal = b.compare(Condition::Less, x, smallest);
    let up = b.f64(2f64.powi(54));
    let lifted = b.mul(x, up);
    let normal = b.select(subnormal, lifted, x);
    let [mantissa, exponent] = mantissa_and_exponent(b, normal);
    let exponent = b.convert(Conversion::FromSigned, exponent, Type::F64);
    let (down, zero) = (b.f64(-54.0), b.f64(0.0));
    let correction = b.select(subnormal, down, zero);
    [b.add(exponent, correction), mantissa]
}

/// With `f` the mantissa minus 1 and `s = f / (2 + f)`: `f - f^2/2 + s (f^2/2 + s^2 LOG(s^2))`,
/// plus ln 2 for each power of 2. The largest terms are added last.
pub(crate) fn log(b: &mut Builder, x: V) -> V {
    let [exponent, mantissa] = split(b, x);
    let (one, half) = (b.f64(1.0), b.f64(0.5));
    let (f, below) = (b.sub(mantissa, one), b.add(mantissa, one));
    let s = b.div(f, below);
    let z = b.mul(s, s);
    let p = polynomial_f64(b, z, &LOG);
    let square = b.mul(f, f);
    let square = b.mul(square, half);
    let sum = b.fma(z, p, square);
    let low = b.f64(LN2_LOW);
    let low = b.mul(exponent, low);
    let tail = b.fma(s, sum, low);
    let tail = b.sub(tail, square);
    let y = b.add(tail, f);
    let high = b.f64(LN2_HIGH);
    let y = b.fma(exponent, high, y);
    special(b, x, y)
}
