//! Transcendental functions of `f32` lanes, as operations of SIMD bodies; those of `f64` lanes are
//! in [`binary64`], and [`hyperbolic`] ones are for both.
//!
//! Errors are stated against the `f64` function rounded once, for all inputs:
//! `exponential` and `log` within 2 units in the last place, the others within 4,
//! whether or not the machine has fused multiply-add. NaN, infinities,
//! subnormals and the signs of zeros are those of the reference.
//!
//! Coefficients are least-squares fits on 4,000 Chebyshev points of the interval,
//! reweighted towards the largest relative error until it is level (Lawson's
//! method), then rounded; `benches/coefficients.py` makes them.

mod arctangent;
pub(crate) mod binary64;
mod cube_root;
pub(crate) mod double;
mod error_function;
mod exponential;
pub(crate) mod hyperbolic;
mod logarithm;
mod power;
mod remainder;
#[cfg(test)]
mod tests;
mod trigonometric;
mod two_over_pi;

use super::builder::Builder;
use super::ir::{BinaryOp, Condition, Type, UnaryOp, V};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{ScalarOp, Statement};
use tegula_ir::{Binary, Unary};
pub(crate) use two_over_pi::table as sine_table;

/// Whether an operation is one of these functions: in scalar code it is a call.
pub(crate) fn is_call(op: &ScalarOp) -> bool {
    match op {
        ScalarOp::Unary(op) => matches!(
            op,
            Unary::Exp
                | Unary::Expm1
                | Unary::Logistic
                | Unary::Log
                | Unary::Log1p
                | Unary::Tanh
                | Unary::Erf
                | Unary::Cbrt
                | Unary::Sin
                | Unary::Cos
                | Unary::Tan
                | Unary::Sinh
                | Unary::Cosh
                | Unary::Asinh
                | Unary::Acosh
                | Unary::Atanh
                | Unary::Asin
                | Unary::Acos
        ),
        ScalarOp::Binary(op) => matches!(op, Binary::Power | Binary::Atan2),
        _ => false,
    }
}

/// Whether a statement would call a function in scalar code: one of these, or a remainder of
/// floats.
pub(crate) fn calls_function(kernel: &Kernel, statement: &Statement) -> bool {
    let Statement::Compute { result, op, .. } = statement else {
        return false;
    };
    let is_remainder = matches!(op, ScalarOp::Binary(Binary::Remainder));
    is_call(op) || is_remainder && kernel.scalars[*result].is_float()
}

/// A function of one float; `None` if it is not implemented here.
pub(crate) fn unary(b: &mut Builder, op: Unary, x: V) -> Option<V> {
    if op == Unary::Rsqrt {
        let root = b.unary(UnaryOp::Sqrt, x);
        let one = b.float_like(x, 1.0);
        return Some(b.div(one, root));
    }
    if let Some(y) = hyperbolic::unary(b, op, x) {
        return Some(y);
    }
    match op {
        Unary::Asin => return Some(arctangent::asin(b, x)),
        Unary::Acos => return Some(arctangent::acos(b, x)),
        _ => {}
    }
    if b.type_of(x) == Type::F64 {
        return binary64::unary(b, op, x);
    }
    Some(match op {
        Unary::Exp => exponential::exp(b, x),
        Unary::Expm1 => exponential::expm1(b, x),
        Unary::Logistic => exponential::logistic(b, x),
        Unary::Log => logarithm::log(b, x),
        Unary::Log1p => logarithm::log1p(b, x, logarithm::log),
        Unary::Tanh => exponential::tanh(b, x),
        Unary::Erf => error_function::erf(b, x),
        Unary::Cbrt => cube_root::cbrt(b, x),
        Unary::Sin => trigonometric::reduced(b, x).sin(b, x),
        Unary::Cos => trigonometric::reduced(b, x).cos(b),
        Unary::Tan => trigonometric::reduced(b, x).tan(b, x),
        _ => return None,
    })
}

/// A function of two floats; `None` if it is not implemented here.
pub(crate) fn binary(b: &mut Builder, op: Binary, x: V, y: V) -> Option<V> {
    if op == Binary::Remainder
        && let Some(rest) = remainder::by_power_of_two(b, x, y)
    {
        return Some(rest);
    }
    if b.type_of(x) == Type::F64 {
        return match op {
            Binary::Remainder => Some(remainder::remainder_f64(b, x, y)),
            _ => binary64::binary(b, op, x, y),
        };
    }
    match op {
        Binary::Power => Some(power::power(b, x, y)),
        Binary::Atan2 => Some(arctangent::atan2(b, x, y)),
        Binary::Remainder => Some(remainder::remainder(b, x, y)),
        _ => None,
    }
}

/// `c[0] + c[1] x + ...` by Horner's rule.
fn polynomial(b: &mut Builder, x: V, coefficients: &[f32]) -> V {
    let mut rest = coefficients.iter().rev();
    let mut sum = b.f32(rest.next().copied().unwrap_or(0.0));
    for &c in rest {
        let c = b.f32(c);
        sum = b.fma(sum, x, c);
    }
    sum
}

/// [`polynomial`] in `f64`.
fn polynomial_f64(b: &mut Builder, x: V, coefficients: &[f64]) -> V {
    let mut rest = coefficients.iter().rev();
    let mut sum = b.f64(rest.next().copied().unwrap_or(0.0));
    for &c in rest {
        let c = b.f64(c);
        sum = b.fma(sum, x, c);
    }
    sum
}

/// `x` clamped to the interval; NaN is unchanged.
fn clamp(b: &mut Builder, low: V, x: V, high: V) -> V {
    let x = b.binary(BinaryOp::LesserOrSecond, high, x);
    b.binary(BinaryOp::GreaterOrSecond, low, x)
}

/// The magnitude of a float.
pub(crate) fn abs(b: &mut Builder, x: V) -> V {
    let bits = b.bits(x);
    let mask = match b.type_of(x).is_wide() {
        true => b.constant(Type::I64, u64::MAX >> 1),
        false => b.i32(i32::MAX),
    };
    let magnitude = b.and(bits, mask);
    b.bits(magnitude)
}

/// Masks of magnitudes so small or large that their products underflow or overflow.
pub(crate) struct Extremes {
    tiny: V,
    huge: V,
}

impl Extremes {
    /// The masks of magnitudes below the first limit and above the second.
    pub(crate) fn of(b: &mut Builder, magnitude: V, [least, most]: [f64; 2]) -> Self {
        let [least, most] = [least, most].map(|limit| b.float_like(magnitude, limit));
        Self {
            tiny: b.compare(Condition::Less, magnitude, least),
            huge: b.compare(Condition::Less, most, magnitude),
        }
    }

    /// One factor for tiny numbers, another for huge ones, and 1 for others.
    pub(crate) fn factor(&self, b: &mut Builder, like: V, [of_tiny, of_huge]: [f64; 2]) -> V {
        let [of_tiny, of_huge, one] = [of_tiny, of_huge, 1.0].map(|x| b.float_like(like, x));
        let factor = b.select(self.huge, of_huge, one);
        b.select(self.tiny, of_tiny, factor)
    }
}

/// `-x`.
pub(crate) fn negated(b: &mut Builder, x: V) -> V {
    let sign = b.sign_bit_like(x);
    let bits = b.bits(x);
    let flipped = b.xor(bits, sign);
    b.bits(flipped)
}

/// `x` with the sign of `sign`; `x` must not be negative.
pub(crate) fn with_sign(b: &mut Builder, x: V, sign: V) -> V {
    let bit = b.sign_bit_like(x);
    let bits = b.bits(sign);
    let sign = b.and(bits, bit);
    let x = b.bits(x);
    let x = b.or(x, sign);
    b.bits(x)
}

/// `x` if it is a zero, else `y`.
fn keep_zero(b: &mut Builder, x: V, y: V) -> V {
    let zero = b.float_like(x, 0.0);
    let is_zero = b.compare(Condition::Equal, x, zero);
    b.select(is_zero, x, y)
}
