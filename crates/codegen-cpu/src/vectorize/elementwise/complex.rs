//! Quotients and functions of complex numbers on lanes.
//!
//! The computations are in `f64`, by the evaluator's formulas; each part of a `c64` is rounded once.
//! Infinities, NaN and signs of zeros come from the same operations as there. Results of `c64` that
//! need only sums, products, quotients and roots are equal to the bit, except for magnitudes: these
//! are square roots of sums of squares, which for parts of `f32` neither overflow nor underflow and
//! whose squares are exact. [`Functions`] are the real functions that these are composed of.

mod functions;
#[cfg(test)]
mod tests;

use super::{Lanes, parts};
use crate::simd::builder::Builder;
use crate::simd::ir::{Condition, Conversion, Type, UnaryOp, V};
use crate::simd::mathlib::{abs, negated, with_sign};
use functions::Functions;
use smallvec::smallvec;
use tegula_ir::{Binary, Direction, Unary};

/// The real and the imaginary part.
type Pair = [V; 2];

/// An operation of one complex number; `None` if it has no vector form.
pub(crate) fn unary(b: &mut Builder, op: Unary, x: Pair) -> Option<Lanes> {
    let ty = b.type_of(x[0]);
    let functions = Functions::of(ty);
    let z = widened(b, x);
    let [re, im] = z;
    let result = match op {
        Unary::Abs => {
            let size = functions.magnitude(b, z);
            return Some(smallvec![rounded(b, size, ty)]);
        }
        Unary::Sign => sign(b, functions, z),
        Unary::Sqrt => sqrt(b, functions, z),
        Unary::Rsqrt => {
            let root = sqrt(b, functions, z);
            let one = [b.f64(1.0), b.f64(0.0)];
            quotient(b, one, root)
        }
        Unary::Exp => exp(b, functions, x, z),
        Unary::Expm1 => {
            let circle = functions.circle(b, x[1]);
            let along_less = functions.one_less_cosine(b, x[1], &circle);
            let (less, size) = (functions.expm1(b, re), functions.exp(b, re));
            let along = b.mul(less, circle.cosine);
            let along = b.sub(along, along_less);
            let imaginary = b.mul(size, circle.sine);
            let zero = b.f64(0.0);
            let is_real = b.compare(Condition::Equal, im, zero);
            [
                b.select(is_real, less, along),
                b.select(is_real, im, imaginary),
            ]
        }
        Unary::Logistic => {
            let [x, z] = [x, z].map(|pair| pair.map(|v| negated(b, v)));
            let [c, d] = exp(b, functions, x, z);
            let one = [b.f64(1.0), b.f64(0.0)];
            let c = b.add(one[0], c);
            quotient(b, one, [c, d])
        }
        Unary::Log => {
            let size = functions.log_of_magnitude(b, z);
            [size, functions.atan2(b, im, re)]
        }
        Unary::Log1p => log1p(b, functions, z),
        Unary::Tanh => tanh(b, functions, x[1], z),
        Unary::Tan => {
            let turned = negated(b, im);
            let [re, im] = tanh(b, functions, x[0], [turned, re]);
            [im, negated(b, re)]
        }
        Unary::Sin | Unary::Cos => {
            let circle = functions.circle(b, x[0]);
            let hyperbolic = functions.hyperbolic(b, im);
            let cosine = b.mul(circle.cosine, hyperbolic.cosine);
            let sine = b.mul(circle.sine, hyperbolic.cosine);
            match op {
                Unary::Sin => [sine, b.mul(circle.cosine, hyperbolic.sine)],
                _ => {
                    let minus = negated(b, circle.sine);
                    [cosine, b.mul(minus, hyperbolic.sine)]
                }
            }
        }
        Unary::Sinh | Unary::Cosh => {
            let circle = functions.circle(b, x[1]);
            let hyperbolic = functions.hyperbolic(b, re);
            let along = [hyperbolic.sine, hyperbolic.cosine];
            let [along, across] = match op {
                Unary::Sinh => along,
                _ => [along[1], along[0]],
            };
            [b.mul(along, circle.cosine), b.mul(across, circle.sine)]
        }
        Unary::Cbrt => {
            let third = [b.f64(1.0 / 3.0), b.f64(0.0)];
            power(b, functions, z, third)
        }
        _ => return None,
    };
    Some(narrowed(b, result, ty))
}

/// An operation of two complex numbers other than sum, difference and product; `None` if it has no vector
/// form.
pub(crate) fn binary(b: &mut Builder, op: Binary, x: Pair, y: Pair) -> Option<Lanes> {
    let ty = b.type_of(x[0]);
    match op {
        Binary::Divide if ty == Type::F32 && b.constant_of(y[1]) == Some(0) => {
            Some(by_real(b, x, y[0]).into())
        }
        Binary::Divide => {
            let (x, y) = (widened(b, x), widened(b, y));
            let result = match ty {
                Type::F32 => quotient_of_singles(b, x, y),
                _ => quotient(b, x, y),
            };
            Some(narrowed(b, result, ty))
        }
        Binary::Power => {
            let functions = Functions::of_power(b, y);
            let (x, y) = (widened(b, x), widened(b, y));
            let result = power(b, functions, x, y);
            Some(narrowed(b, result, ty))
        }
        _ => None,
    }
}

/// Whether two complex numbers are equal, or not equal.
pub(crate) fn compare(b: &mut Builder, direction: Direction, x: &Lanes, y: &Lanes) -> Option<V> {
    let ([re, im], [c, d]) = (parts(x)?, parts(y)?);
    match direction {
        Direction::Eq => {
            let real = b.compare(Condition::Equal, re, c);
            let imaginary = b.compare(Condition::Equal, im, d);
            Some(b.and(real, imaginary))
        }
        Direction::Ne => {
            let real = b.compare(Condition::NotEqual, re, c);
            let imaginary = b.compare(Condition::NotEqual, im, d);
            Some(b.or(real, imaginary))
        }
        _ => None,
    }
}

/// The parts in `f64`.
fn widened(b: &mut Builder, x: Pair) -> Pair {
    x.map(|v| rounded(b, v, Type::F64))
}

/// The parts in a type, rounded once.
fn narrowed(b: &mut Builder, x: Pair, to: Type) -> Lanes {
    x.map(|v| rounded(b, v, to)).into()
}

/// A float in a type.
fn rounded(b: &mut Builder, x: V, to: Type) -> V {
    match b.type_of(x) == to {
        true => x,
        false => b.convert(Conversion::Float, x, to),
    }
}

/// Division by a real number, in `f32`: rounding a quotient of `f32`s to `f64` first changes
/// nothing. As in [`quotient_of_singles`], 0 times the other part is added: this makes NaN of a
/// finite part if the other is infinite or NaN, and affects the sign of a part that is zero.
fn by_real(b: &mut Builder, [x, y]: Pair, c: V) -> Pair {
    let zero = b.f32(0.0);
    let by_zero = b.compare(Condition::Equal, c, zero);
    // What is added to the quotient of a part: 0 times the other one, or nothing.
    let mut beside = |part: V, other: V, nothing: f32| {
        let product = b.mul(other, zero);
        let nothing = b.f32(nothing);
        let is_finite = b.compare(Condition::Equal, product, zero);
        let is_some = b.compare(Condition::NotEqual, part, zero);
        let plain = b.and(is_finite, is_some);
        let plain = b.or(plain, by_zero);
        b.select(plain, nothing, product)
    };
    let (along, across) = (beside(x, y, -0.0), beside(y, x, 0.0));
    let (re, im) = (b.div(x, c), b.div(y, c));
    let result = [b.add(re, along), b.sub(im, across)];
    // An infinite number divided by a finite one, as in [`of_infinities`].
    let infinity = b.f32(f32::INFINITY);
    let size = abs(b, c);
    let is_finite = b.compare(Condition::Less, size, infinity);
    let is_nan = both_nan(b, result);
    let [(far_x, x), (far_y, y)] = [x, y].map(|v| direction(b, v, [zero, infinity]));
    let far = b.or(far_x, far_y);
    let far = b.and(far, is_nan);
    let far = b.and(far, is_finite);
    let [x, y] = [x, y].map(|v| {
        let along = b.mul(v, c);
        b.mul(infinity, along)
    });
    [b.select(far, x, result[0]), b.select(far, y, result[1])]
}

/// Whether both parts are NaN.
fn both_nan(b: &mut Builder, [re, im]: Pair) -> V {
    let [re, im] = [re, im].map(|v| b.compare(Condition::Unordered, v, v));
    b.and(re, im)
}

/// Whether a part is infinite; and 1 with its sign if it is, else 0.
fn direction(b: &mut Builder, x: V, [zero, infinity]: [V; 2]) -> (V, V) {
    let size = abs(b, x);
    let is_infinite = b.compare(Condition::Equal, size, infinity);
    // Infinite parts are replaced by this.
    let one = match b.type_of(x) {
        Type::F32 => b.f32(1.0),
        _ => b.f64(1.0),
    };
    let one = with_sign(b, one, x);
    (is_infinite, b.select(is_infinite, one, zero))
}

/// Corrects a quotient if division gives NaN, as the evaluator does: an infinite number
/// divided by a finite one or the reverse.
fn of_infinities(b: &mut Builder, quotient: Pair, over: Pair, under: Pair) -> Pair {
    let (zero, infinity) = (b.f64(0.0), b.f64(f64::INFINITY));
    let mut facts = |pair: Pair| {
        let [(re, x), (im, y)] = pair.map(|v| direction(b, v, [zero, infinity]));
        let finite = pair.map(|v| {
            let size = abs(b, v);
            b.compare(Condition::Less, size, infinity)
        });
        (b.or(re, im), b.and(finite[0], finite[1]), [x, y])
    };
    let (over_far, over_near, over_at) = facts(over);
    let (under_far, under_near, under_at) = facts(under);
    let (large, small) = (b.and(over_far, under_near), b.and(over_near, under_far));
    let one_is = b.or(large, small);
    let is_nan = both_nan(b, quotient);
    let here = b.and(one_is, is_nan);
    let [x, y] = [0, 1].map(|part| b.select(large, over_at[part], over[part]));
    let [c, d] = [0, 1].map(|part| b.select(large, under[part], under_at[part]));
    let size = b.select(large, infinity, zero);
    let (along, beside) = (b.mul(x, c), b.mul(y, d));
    let re = b.add(along, beside);
    let (along, beside) = (b.mul(y, c), b.mul(x, d));
    let im = b.sub(along, beside);
    let (re, im) = (b.mul(size, re), b.mul(size, im));
    [
        b.select(here, re, quotient[0]),
        b.select(here, im, quotient[1]),
    ]
}

/// Smith's division, as in the evaluator: scaled by the larger part of the divisor.
fn quotient(b: &mut Builder, [x, y]: Pair, [c, d]: Pair) -> Pair {
    let (right, up) = (abs(b, c), abs(b, d));
    let flat = b.compare(Condition::LessEqual, up, right);
    let (larger, smaller) = (b.select(flat, c, d), b.select(flat, d, c));
    let (near, far) = (b.select(flat, x, y), b.select(flat, y, x));
    let ratio = b.div(smaller, larger);
    let scale = b.mul(smaller, ratio);
    let scale = b.add(larger, scale);
    let re = b.mul(far, ratio);
    let re = b.add(near, re);
    // `y - x ratio`, or `y ratio - x`.
    let scaled = b.mul(near, ratio);
    let (first, second) = (b.select(flat, far, scaled), b.select(flat, scaled, far));
    let im = b.sub(first, second);
    // For a division by zero, both parts are divided by zero.
    let zero = b.f64(0.0);
    let larger = abs(b, larger);
    let by_zero = b.compare(Condition::Equal, larger, zero);
    let scale = b.select(by_zero, c, scale);
    let (re, im) = (b.select(by_zero, x, re), b.select(by_zero, y, im));
    let result = [b.div(re, scale), b.div(im, scale)];
    of_infinities(b, result, [x, y], [c, d])
}

/// Division of numbers with parts of `f32`, as in the evaluator: their products are exact in `f64`.
fn quotient_of_singles(b: &mut Builder, [x, y]: Pair, [c, d]: Pair) -> Pair {
    let (right, up) = (b.mul(c, c), b.mul(d, d));
    let square = b.add(right, up);
    let (first, second) = (b.mul(x, c), b.mul(y, d));
    let re = b.add(first, second);
    let (first, second) = (b.mul(y, c), b.mul(x, d));
    let im = b.sub(first, second);
    // For a division by zero, both parts are divided by zero.
    let (zero, one) = (b.f64(0.0), b.f64(1.0));
    let by_zero = b.compare(Condition::Equal, square, zero);
    let divisor = b.select(by_zero, c, square);
    let (re, im) = (b.select(by_zero, x, re), b.select(by_zero, y, im));
    let inverse = b.div(one, divisor);
    let result = [b.mul(re, inverse), b.mul(im, inverse)];
    of_infinities(b, result, [x, y], [c, d])
}

/// `z / |z|`, and 0 itself.
fn sign(b: &mut Builder, functions: Functions, z: Pair) -> Pair {
    let size = functions.magnitude(b, z);
    let (zero, one) = (b.f64(0.0), b.f64(1.0));
    let none = b.compare(Condition::Equal, size, zero);
    let size = b.select(none, one, size);
    z.map(|v| b.div(v, size))
}

/// `e^z`; `x` is `z` in its own type.
fn exp(b: &mut Builder, functions: Functions, x: Pair, [re, im]: Pair) -> Pair {
    let size = functions.exp(b, re);
    let circle = functions.circle(b, x[1]);
    let (along, across) = (b.mul(size, circle.cosine), b.mul(size, circle.sine));
    let zero = b.f64(0.0);
    let real = b.compare(Condition::Equal, im, zero);
    [b.select(real, size, along), b.select(real, im, across)]
}

/// The logarithm of `1 + z`, by `2 re + re^2 + im^2` near 0.
fn log1p(b: &mut Builder, functions: Functions, [re, im]: Pair) -> Pair {
    let (one, two) = (b.f64(1.0), b.f64(2.0));
    let right = b.add(one, re);
    let sum = b.add(two, re);
    let (x, y) = (b.mul(re, sum), b.mul(im, im));
    let less = b.add(x, y);
    let size = functions.log_of_magnitude_near_one(b, [right, im], less, re);
    [size, functions.atan2(b, im, right)]
}

/// The root whose real part is not negative.
fn sqrt(b: &mut Builder, functions: Functions, [re, im]: Pair) -> Pair {
    let size = functions.magnitude(b, [re, im]);
    let (half, zero, infinity) = (b.f64(0.5), b.f64(0.0), b.f64(f64::INFINITY));
    let right = abs(b, re);
    let t = b.add(right, size);
    let t = b.mul(t, half);
    let t = b.unary(UnaryOp::Sqrt, t);
    let twice = b.add(t, t);
    let other = b.div(im, twice);
    let is_right = b.compare(Condition::LessEqual, zero, re);
    let beside = abs(b, other);
    let signed = with_sign(b, t, im);
    let root = [
        b.select(is_right, t, beside),
        b.select(is_right, other, signed),
    ];
    // Zero, and infinite imaginary parts.
    let none = b.compare(Condition::Equal, size, zero);
    let up = abs(b, im);
    let far = b.compare(Condition::Equal, up, infinity);
    let real = b.select(none, zero, root[0]);
    let real = b.select(far, infinity, real);
    let as_it_is = b.or(none, far);
    [real, b.select(as_it_is, im, root[1])]
}

/// `(sinh(a) cosh(a) + i sin(b) cos(b)) / (sinh(a)^2 + cos(b)^2)`, and its limit for large `a`; if
/// `a` is infinite, for any `b`.
fn tanh(b: &mut Builder, functions: Functions, angle: V, [re, im]: Pair) -> Pair {
    let hyperbolic = functions.hyperbolic(b, re);
    let circle = functions.circle(b, angle);
    let (sine, cosine) = (hyperbolic.sine, hyperbolic.cosine);
    let (across, along) = (b.mul(sine, sine), b.mul(circle.cosine, circle.cosine));
    let scale = b.add(across, along);
    let real = b.mul(sine, cosine);
    let real = b.div(real, scale);
    let imaginary = b.mul(circle.sine, circle.cosine);
    let near = b.div(imaginary, scale);
    let (one, four, zero) = (b.f64(1.0), b.f64(4.0), b.f64(0.0));
    let is_real = b.compare(Condition::Equal, im, zero);
    let near = b.select(is_real, im, near);
    let tail = b.mul(hyperbolic.inverse, hyperbolic.inverse);
    let tail = b.mul(tail, four);
    let tail = b.mul(tail, imaginary);
    let nan = b.compare(Condition::Unordered, tail, tail);
    let (limit, infinity) = (b.f64(20.0), b.f64(f64::INFINITY));
    let size = abs(b, re);
    let is_far = b.compare(Condition::Less, limit, size);
    let at_end = b.compare(Condition::Equal, size, infinity);
    let side = with_sign(b, one, re);
    let beside = b.select(nan, tail, side);
    let real_far = b.select(at_end, side, beside);
    let none = b.and(nan, at_end);
    let tail = b.select(none, zero, tail);
    [
        b.select(is_far, real_far, real),
        b.select(is_far, tail, near),
    ]
}

/// `exp(y log z)`.
fn power(b: &mut Builder, functions: Functions, z: Pair, [c, d]: Pair) -> Pair {
    let log_size = functions.log_of_magnitude(b, z);
    let angle = functions.atan2(b, z[1], z[0]);
    let (growth, turn) = (b.mul(c, log_size), b.mul(d, angle));
    let growth = b.sub(growth, turn);
    let size = functions.exp(b, growth);
    let (turn, angle) = (b.mul(d, log_size), b.mul(c, angle));
    let angle = b.add(turn, angle);
    let circle = functions.small_circle(b, angle);
    let result = [b.mul(size, circle.cosine), b.mul(size, circle.sine)];
    // A zero base gives 1 for the exponent 0, 0 for a positive one, and else what the formula does.
    let (zero, one) = (b.f64(0.0), b.f64(1.0));
    let [is_zero, is_real] = [z, [d, d]].map(|pair| {
        let [x, y] = pair.map(|v| b.compare(Condition::Equal, v, zero));
        b.and(x, y)
    });
    let is_special = b.and(is_zero, is_real);
    let is_not_negative = b.compare(Condition::LessEqual, zero, c);
    let is_special = b.and(is_special, is_not_negative);
    let is_none = b.compare(Condition::Equal, c, zero);
    let at_zero = b.select(is_none, one, zero);
    [
        b.select(is_special, at_zero, result[0]),
        b.select(is_special, zero, result[1]),
    ]
}
