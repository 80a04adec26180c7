//! The real functions that functions of complex numbers are composed of, in `f64`.
//!
//! For parts of `f32`, [`double`]'s are accurate enough once rounded. For parts of `f64`, those of real
//! `f64` lanes are used, and magnitudes are scaled so that their squares neither overflow nor
//! underflow.

use super::{Pair, abs};
use crate::simd::builder::Builder;
use crate::simd::ir::{BinaryOp, Condition, Type, UnaryOp, V};
use crate::simd::mathlib::double::{self, Hyperbolic};
use crate::simd::mathlib::{Extremes, binary64, hyperbolic, negated};

/// Sine and cosine of an angle.
#[derive(Clone, Copy)]
pub(super) struct Circle {
    pub(super) sine: V,
    pub(super) cosine: V,
    /// One minus the cosine, if it was computed on the way.
    one_less_cosine: Option<V>,
}

/// How accurate the functions are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Functions {
    /// To 1e-11, for results that are rounded to `f32`.
    Short,
    /// To a few units in the last place of an `f64`.
    Full,
}

impl Functions {
    /// Those for parts of a type.
    pub(super) fn of(ty: Type) -> Self {
        match ty {
            Type::F32 => Self::Short,
            _ => Self::Full,
        }
    }

    /// Those for a power with this exponent: the short ones reduce only angles of a few turns.
    pub(super) fn of_power(b: &Builder, [re, im]: Pair) -> Self {
        let is_small = |bits: u64| f32::from_bits(bits as u32).abs() <= 16.0;
        let is_short = b.type_of(re) == Type::F32
            && b.constant_of(im) == Some(0)
            && b.constant_of(re).is_some_and(is_small);
        if is_short { Self::Short } else { Self::Full }
    }

    pub(super) fn exp(self, b: &mut Builder, x: V) -> V {
        match self {
            Self::Short => double::exp(b, x),
            Self::Full => binary64::exp(b, x),
        }
    }

    pub(super) fn expm1(self, b: &mut Builder, x: V) -> V {
        match self {
            Self::Short => double::expm1(b, x),
            Self::Full => binary64::expm1(b, x),
        }
    }

    /// The angle of the point `(x, y)`.
    pub(super) fn atan2(self, b: &mut Builder, y: V, x: V) -> V {
        match self {
            Self::Short => double::atan2(b, y, x),
            Self::Full => binary64::atan2(b, y, x),
        }
    }

    /// Sine and cosine of a part of a complex number, in that number's type.
    pub(super) fn circle(self, b: &mut Builder, angle: V) -> Circle {
        match b.type_of(angle) {
            Type::F32 => short(double::circle(b, angle)),
            _ => self.small_circle(b, angle),
        }
    }

    /// Sine and cosine of an `f64`; the short ones are for at most a few turns.
    pub(super) fn small_circle(self, b: &mut Builder, angle: V) -> Circle {
        match self {
            Self::Short => short(double::small_circle(b, angle)),
            Self::Full => {
                let [sine, cosine] = binary64::sine_and_cosine(b, angle);
                Circle {
                    sine,
                    cosine,
                    one_less_cosine: None,
                }
            }
        }
    }

    /// One minus the cosine, accurate near 0: twice the squared sine of half the angle.
    pub(super) fn one_less_cosine(self, b: &mut Builder, angle: V, circle: &Circle) -> V {
        if let Some(known) = circle.one_less_cosine {
            return known;
        }
        let (half, two) = (b.f64(0.5), b.f64(2.0));
        let angle = b.mul(angle, half);
        let [sine, _] = binary64::sine_and_cosine(b, angle);
        let square = b.mul(sine, sine);
        b.mul(square, two)
    }

    pub(super) fn hyperbolic(self, b: &mut Builder, x: V) -> Hyperbolic {
        match self {
            Self::Short => double::hyperbolic(b, x),
            Self::Full => {
                let (sine, cosine) = (hyperbolic::sinh(b, x), hyperbolic::cosh(b, x));
                let magnitude = abs(b, x);
                let below = negated(b, magnitude);
                let inverse = binary64::exp(b, below);
                Hyperbolic {
                    sine,
                    cosine,
                    inverse,
                }
            }
        }
    }

    /// The absolute value; infinite if either part is, whatever the other is.
    pub(super) fn magnitude(self, b: &mut Builder, z: Pair) -> V {
        if self == Self::Short {
            let square = square_of_magnitude(b, z);
            return b.unary(UnaryOp::Sqrt, square);
        }
        let [x, y] = z.map(|v| abs(b, v));
        let larger = b.binary(BinaryOp::GreaterOrSecond, x, y);
        let scale = Extremes::of(b, larger, [2f64.powi(-450), 2f64.powi(450)]);
        let power = 2f64.powi(600);
        let up = scale.factor(b, larger, [power, power.recip()]);
        let down = scale.factor(b, larger, [power.recip(), power]);
        let [right, above] = [x, y].map(|v| b.mul(v, up));
        let square = b.mul(above, above);
        let square = b.fma(right, right, square);
        let root = b.unary(UnaryOp::Sqrt, square);
        let size = b.mul(root, down);
        let infinity = b.f64(f64::INFINITY);
        let [x, y] = [x, y].map(|v| b.compare(Condition::Equal, v, infinity));
        let infinite = b.or(x, y);
        b.select(infinite, infinity, size)
    }

    /// The logarithm of the absolute value.
    pub(super) fn log_of_magnitude(self, b: &mut Builder, z: Pair) -> V {
        match self {
            Self::Short => {
                let square = square_of_magnitude(b, z);
                double::log_of_root(b, square)
            }
            Self::Full => {
                let size = self.magnitude(b, z);
                binary64::log(b, size)
            }
        }
    }

    /// The logarithm of the absolute value of `z = 1 + w`; `less` is its square minus 1, computed
    /// from `w`, whose real part is `re`.
    pub(super) fn log_of_magnitude_near_one(self, b: &mut Builder, z: Pair, less: V, re: V) -> V {
        if self == Self::Short {
            let square = square_of_magnitude(b, z);
            return double::log_of_root_near_one(b, square, less);
        }
        let half = b.f64(0.5);
        let near = binary64::log1p(b, less);
        let near = b.mul(near, half);
        let far = self.log_of_magnitude(b, z);
        let [right, up] = [re, z[1]].map(|v| {
            let size = abs(b, v);
            b.compare(Condition::Less, size, half)
        });
        let is_near = b.and(right, up);
        b.select(is_near, near, far)
    }
}

fn short(circle: double::Circle) -> Circle {
    Circle {
        sine: circle.sine,
        cosine: circle.cosine,
        one_less_cosine: Some(circle.one_less_cosine),
    }
}

/// The squared magnitude; infinite if either part is, whatever the other is.
fn square_of_magnitude(b: &mut Builder, [re, im]: Pair) -> V {
    let (x, y) = (b.mul(re, re), b.mul(im, im));
    let sum = b.add(x, y);
    let infinity = b.f64(f64::INFINITY);
    let [re, im] = [x, y].map(|v| b.compare(Condition::Equal, v, infinity));
    let infinite = b.or(re, im);
    b.select(infinite, infinity, sum)
}
