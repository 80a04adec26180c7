//! Transcendental functions of `f64` lanes, as operations of SIMD bodies.
//!
//! Errors are stated against the true value: within 2 units in the last place (`tan`, `tanh` and
//! the logistic function: 4), whether or not the machine has fused multiply-add. NaN, infinities
//! and the signs of zeros are those of the reference; `exp`, `logistic` and `power` give zeros
//! in place of subnormal numbers, as they do in `f32`.
//!
//! The methods are the textbook ones (Muller, *Elementary Functions*): range reduction by the
//! exponent or a few bits, so that a short polynomial suffices for the rest; where the last digit
//! needs more precision than an `f64` has, a number is a sum of two. Coefficients are those of
//! interpolation at Chebyshev points, computed to 50 digits by `benches/coefficients.py`.

mod arctangent;
mod error_function;
mod exponential;
mod logarithm;
mod power;
#[cfg(test)]
mod tests;
mod trigonometric;

use super::{abs, clamp, keep_zero, polynomial_f64};
use crate::simd::builder::Builder;
use crate::simd::ir::V;
pub(crate) use arctangent::atan2;
pub(crate) use exponential::{exp, expm1};
pub(super) use exponential::{half_exp, quarter_expm1};
pub(crate) use logarithm::log;
use tegula_ir::{Binary, Unary};

/// The upper 26 bits of ln 2: products with integers below 2^27 are exact.
const LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_f800_0000);
/// ln 2 minus [`LN2_HIGH`].
const LN2_LOW: f64 = 1.299_650_689_388_988_9e-8;

/// `log(1 + x)`.
pub(crate) fn log1p(b: &mut Builder, x: V) -> V {
    super::logarithm::log1p(b, x, log)
}

/// Sine and cosine.
pub(crate) fn sine_and_cosine(b: &mut Builder, x: V) -> [V; 2] {
    let reduced = trigonometric::reduced(b, x);
    [reduced.sin(b, x), reduced.cos(b)]
}

/// A function of one `f64`; `None` if it is not implemented here.
pub(crate) fn unary(b: &mut Builder, op: Unary, x: V) -> Option<V> {
    Some(match op {
        Unary::Exp => exp(b, x),
        Unary::Expm1 => expm1(b, x),
        Unary::Logistic => exponential::logistic(b, x),
        Unary::Tanh => exponential::tanh(b, x),
        Unary::Log => log(b, x),
        Unary::Log1p => log1p(b, x),
        Unary::Erf => error_function::erf(b, x),
        Unary::Cbrt => super::cube_root::cbrt(b, x),
        Unary::Sin => trigonometric::reduced(b, x).sin(b, x),
        Unary::Cos => trigonometric::reduced(b, x).cos(b),
        Unary::Tan => trigonometric::reduced(b, x).tan(b, x),
        _ => return None,
    })
}

/// A function of two `f64`s; `None` if it is not implemented here.
pub(crate) fn binary(b: &mut Builder, op: Binary, x: V, y: V) -> Option<V> {
    match op {
        Binary::Power => Some(power::power(b, x, y)),
        Binary::Atan2 => Some(atan2(b, x, y)),
        _ => None,
    }
}
