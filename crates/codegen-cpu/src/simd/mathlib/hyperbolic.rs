//! Hyperbolic functions and their inverses, of lanes of either width: combinations of `exp`, `expm1`
//! and `log`.
//!
//! Each is computed for the magnitude of its operand and takes the operand's sign, except `cosh`, which
//! is even, and `acosh`, which is defined from 1 on. No intermediate result overflows where the
//! function does not, or is subnormal where the operand is not.

use super::{abs, binary64, exponential, keep_zero, logarithm, with_sign};
use crate::simd::builder::Builder;
use crate::simd::ir::{BinaryOp, Condition, UnaryOp, V};
use tegula_ir::Unary;

/// One of these functions; `None` if the operation is another.
pub(super) fn unary(b: &mut Builder, op: Unary, x: V) -> Option<V> {
    Some(match op {
        Unary::Sinh => sinh(b, x),
        Unary::Cosh => cosh(b, x),
        Unary::Asinh => asinh(b, x),
        Unary::Acosh => acosh(b, x),
        Unary::Atanh => atanh(b, x),
        _ => return None,
    })
}

/// `log(x)`.
fn log(b: &mut Builder, x: V) -> V {
    match b.type_of(x).is_wide() {
        true => binary64::log(b, x),
        false => logarithm::log(b, x),
    }
}

/// `e^x / 2` of a number that is not negative: overflows only where `cosh` does.
fn half_exp(b: &mut Builder, x: V) -> V {
    match b.type_of(x).is_wide() {
        true => binary64::half_exp(b, x),
        false => exponential::half_exp(b, x),
    }
}

/// `(e^x - 1) / 4` of a number that is not negative, finite for infinity.
fn quarter_expm1(b: &mut Builder, x: V) -> V {
    match b.type_of(x).is_wide() {
        true => binary64::quarter_expm1(b, x),
        false => exponential::quarter_expm1(b, x),
    }
}

/// One of two constants, by width.
fn by_width(b: &mut Builder, like: V, narrow: f64, wide: f64) -> V {
    let is_wide = b.type_of(like).is_wide();
    b.float_like(like, if is_wide { wide } else { narrow })
}

/// With `h = e^|x| / 2`: `h + 1 / (4 h)`.
pub(crate) fn cosh(b: &mut Builder, x: V) -> V {
    let magnitude = abs(b, x);
    let h = half_exp(b, magnitude);
    // The second term does not matter for larger numbers, for which it could be subnormal.
    let most = b.float_like(x, 2f64.powi(60));
    let below = b.binary(BinaryOp::LesserOrSecond, most, h);
    let quarter = b.float_like(x, 0.25);
    let rest = b.div(quarter, below);
    b.add(h, rest)
}

/// With `w = (e^|x| - 1) / 4`: `2 (w + w / (4 w + 1))`.
pub(crate) fn sinh(b: &mut Builder, x: V) -> V {
    let magnitude = abs(b, x);
    // Below this the result is the operand. The unused branch is computed with a normal number.
    let small = by_width(b, x, 2f64.powi(-13), 2f64.powi(-27));
    let raised = b.binary(BinaryOp::GreaterOrSecond, small, magnitude);
    let w = quarter_expm1(b, raised);
    let (four, one, two) = (
        b.float_like(x, 4.0),
        b.float_like(x, 1.0),
        b.float_like(x, 2.0),
    );
    let power = b.fma(w, four, one);
    let rest = b.div(w, power);
    let half = b.add(w, rest);
    let y = b.mul(half, two);
    let y = with_sign(b, y, x);
    let is_small = b.compare(Condition::Less, magnitude, small);
    b.select(is_small, x, y)
}

/// Above this the inverse functions are `log(2 x)`.
fn large(b: &mut Builder, like: V) -> V {
    by_width(b, like, 2f64.powi(14), 2f64.powi(28))
}

/// `log(1 + y)`, but `log(2 x)` if `x` is large.
fn log_of(b: &mut Builder, y: V, x: V) -> V {
    let one = b.float_like(x, 1.0);
    // What rounding `1 + y` loses is added to first order.
    let u = b.add(one, y);
    let kept = b.sub(u, one);
    let lost = b.sub(y, kept);
    let correction = b.div(lost, u);
    let large = large(b, x);
    let is_large = b.compare(Condition::Less, large, x);
    let argument = b.select(is_large, x, u);
    let ln2 = b.float_like(x, std::f64::consts::LN_2);
    let rest = b.select(is_large, ln2, correction);
    let y = log(b, argument);
    b.add(y, rest)
}

/// With `a = |x|`: `log(1 + a + a^2 / (1 + sqrt(a^2 + 1)))`.
fn asinh(b: &mut Builder, x: V) -> V {
    let magnitude = abs(b, x);
    let most = large(b, x);
    let a = b.binary(BinaryOp::LesserOrSecond, most, magnitude);
    // Below this the result is the operand. The unused branch is computed with a normal number.
    let small = by_width(b, x, 2f64.powi(-13), 2f64.powi(-27));
    let a = b.binary(BinaryOp::GreaterOrSecond, small, a);
    let one = b.float_like(x, 1.0);
    let square = b.mul(a, a);
    let root = b.add(square, one);
    let root = b.unary(UnaryOp::Sqrt, root);
    let below = b.add(root, one);
    let more = b.div(square, below);
    let y = b.add(a, more);
    let y = log_of(b, y, magnitude);
    let y = with_sign(b, y, x);
    let is_small = b.compare(Condition::Less, magnitude, small);
    b.select(is_small, x, y)
}

/// With `t = x - 1`: `log(1 + t + sqrt(t (t + 2)))`, NaN below 1.
fn acosh(b: &mut Builder, x: V) -> V {
    let most = large(b, x);
    let within = b.binary(BinaryOp::LesserOrSecond, most, x);
    let (one, two) = (b.float_like(x, 1.0), b.float_like(x, 2.0));
    let t = b.sub(within, one);
    let more = b.add(t, two);
    let square = b.mul(t, more);
    let root = b.unary(UnaryOp::Sqrt, square);
    let y = b.add(t, root);
    let y = log_of(b, y, x);
    let nan = b.float_like(x, f64::NAN);
    let is_outside = b.compare(Condition::Less, x, one);
    b.select(is_outside, nan, y)
}

/// With `a = |x|`: `log(1 + 2 a / (1 - a)) / 2`.
fn atanh(b: &mut Builder, x: V) -> V {
    let magnitude = abs(b, x);
    let (one, half) = (b.float_like(x, 1.0), b.float_like(x, 0.5));
    let less = b.sub(one, magnitude);
    let twice = b.add(magnitude, magnitude);
    let y = b.div(twice, less);
    let y = logarithm::log1p(b, y, log);
    let y = b.mul(y, half);
    let signed = with_sign(b, y, x);
    keep_zero(b, x, signed)
}
