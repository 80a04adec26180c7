//! `cbrt` of either width: a third of the exponent as the initial approximation, then Halley's
//! iteration, which triples the number of correct digits.

use super::{Extremes, abs, with_sign};
use crate::simd::builder::Builder;
use crate::simd::ir::{BinaryOp, Condition, Conversion, Type, V};

pub(super) fn cbrt(b: &mut Builder, x: V) -> V {
    let is_wide = b.type_of(x).is_wide();
    let power = |exponent: i32| 2f64.powi(exponent);
    // Scales numbers whose cubes would overflow or underflow.
    let (limit, moved) = if is_wide { (900, 100) } else { (100, 16) };
    let magnitude = abs(b, x);
    let extremes = Extremes::of(b, magnitude, [power(-limit), power(limit)]);
    let factor = extremes.factor(b, x, [power(3 * moved), power(-3 * moved)]);
    let scaled = b.mul(magnitude, factor);
    let (mut root, rounds) = match is_wide {
        true => (guess_f64(b, scaled), 3),
        false => (guess_f32(b, scaled), 2),
    };
    for _ in 0..rounds {
        root = halley(b, root, scaled);
    }
    let factor = extremes.factor(b, x, [power(-moved), power(moved)]);
    let root = b.mul(root, factor);
    let root = with_sign(b, root, x);
    // Zeros, infinities and NaN are their own cube roots.
    let (zero, infinity) = (b.float_like(x, 0.0), b.float_like(x, f64::INFINITY));
    let finite = b.compare(Condition::Less, magnitude, infinity);
    let nonzero = b.compare(Condition::NotEqual, x, zero);
    let usual = b.and(finite, nonzero);
    b.select(usual, root, x)
}

/// A third of the bits, plus two thirds of the exponent's bias: within 5 % of the root.
fn guess_f32(b: &mut Builder, x: V) -> V {
    let bits = b.bits(x);
    let bits = b.convert(Conversion::FromSigned, bits, Type::F32);
    let third = b.f32(1.0 / 3.0);
    let bits = b.mul(bits, third);
    let bits = b.convert(Conversion::Truncate, bits, Type::I32);
    let bias = b.i32(709_921_077);
    let guess = b.add(bits, bias);
    b.bits(guess)
}

/// The same with the upper half of the bits.
fn guess_f64(b: &mut Builder, x: V) -> V {
    let bits = b.bits(x);
    let upper = b.shift(BinaryOp::ShiftRight, bits, 32);
    let upper = b.convert(Conversion::Low, upper, Type::I32);
    let upper = b.convert(Conversion::FromSigned, upper, Type::F64);
    let (third, bias) = (b.f64(1.0 / 3.0), b.f64(715_094_163.0));
    let upper = b.fma(upper, third, bias);
    let upper = b.convert(Conversion::Truncate, upper, Type::I32);
    let upper = b.convert(Conversion::ExtendUnsigned, upper, Type::I64);
    let guess = b.shift(BinaryOp::ShiftLeft, upper, 32);
    b.bits(guess)
}

/// `t - t (t^3 - x) / (2 t^3 + x)`.
fn halley(b: &mut Builder, t: V, x: V) -> V {
    let square = b.mul(t, t);
    let cube = b.mul(square, t);
    let difference = b.sub(cube, x);
    let double = b.add(cube, cube);
    let sum = b.add(double, x);
    let quotient = b.div(difference, sum);
    let step = b.mul(t, quotient);
    b.sub(t, step)
}
