//! Functions of `f64` lanes whose results are rounded to `f32`: accurate to 1e-11.
//!
//! Powers use them, and functions of complex numbers, because the evaluator computes those in `f64`
//! and rounds each part once. Arguments are `f32` numbers, or computed from a few of them; results
//! that overflow an `f64` are infinite where the exact functions are.

use super::trigonometric::{bit_as_sign, fraction_of_turns, is_odd, next_quarter, turned};
use super::{abs, clamp, polynomial_f64};
use crate::simd::builder::Builder;
use crate::simd::ir::{BinaryOp, Condition, Conversion, Fused, Type, UnaryOp, V};
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, LN_2, LOG2_E, PI};

/// `2^r` for |r| <= 1/2: within 1.5e-14.
const EXP2: [f64; 10] = [
    1.000_000_000_000_012_9,
    0.693_147_180_559_862_6,
    0.240_226_506_956_464_16,
    0.055_504_108_669_096_96,
    0.009_618_129_192_556_31,
    0.001_333_355_756_386_711_3,
    0.000_154_034_346_653_762_74,
    1.525_301_129_487_600_2e-5,
    1.325_946_274_416_046_3e-6,
    1.014_596_258_893_736_7e-7,
];

/// `(e^r - 1 - r) / r^2` for |r| <= 0.35: within 8.6e-14 of `e^r - 1`.
const EXPM1: [f64; 8] = [
    0.499_999_999_997_842_5,
    0.166_666_666_665_942_07,
    0.041_666_666_903_324_01,
    0.008_333_333_379_874_151,
    0.001_388_881_914_279_078_7,
    0.000_198_411_720_734_914_95,
    2.487_758_315_405_893e-5,
    2.764_076_958_200_568_5e-6,
];

/// `log2((1 + s) / (1 - s)) / s` in `s^2`, mantissas in [sqrt 1/2, sqrt 2).
const LOG2: [f64; 7] = [
    2.885_390_081_777_927,
    0.961_796_693_924_277_9,
    0.577_078_017_274_961_3,
    0.412_198_397_749_616_64,
    0.320_616_673_224_036_9,
    0.261_435_506_426_187_96,
    0.243_017_127_680_454_25,
];

/// `(sin(r) / r - 1) / r^2` in `r^2`, |r| <= pi/4 and a little: within 5e-12 of `sin(r) / r`.
const SIN: [f64; 4] = [
    -0.166_666_666_412_246_03,
    0.008_333_329_338_494_944,
    -0.000_198_393_193_953_951_08,
    2.718_162_807_797_619e-6,
];

/// `(cos(r) - 1 + r^2 / 2) / r^4` in `r^2`: within 1e-13 of `cos(r)`.
const COS: [f64; 4] = [
    0.041_666_666_622_123_41,
    -0.001_388_888_369_166_908_6,
    2.479_950_349_047_813_5e-5,
    -2.720_885_673_517_972_3e-7,
];

/// `(atan(t) - t) / t^3` in `t^2`, 0 <= t <= 1: within 1.6e-12 of the angle.
const ATAN: [f64; 13] = [
    -0.333_333_332_923_887_7,
    0.199_999_966_360_821,
    -0.142_856_170_982_228_55,
    0.111_096_853_481_552_85,
    -0.090_784_320_645_616_59,
    0.076_210_189_870_519_46,
    -0.063_850_864_057_477_56,
    0.050_823_013_604_728_28,
    -0.035_758_216_915_244_08,
    0.020_381_192_637_125_865,
    -0.008_501_656_490_133_687,
    0.002_251_555_052_544_823_2,
    -0.000_280_045_596_501_794_34,
];

/// Parts of pi/2: 33 bits each, and all remaining bits in the last.
const HALF_PI: [u64; 3] = [
    0x3ff9_21fb_5440_0000,
    0x3dd0_b461_1a60_0000,
    0x3ba3_198a_2e03_7073,
];

/// The maximum argument for which the number of quarter turns times these parts is exact.
pub(super) const FEW_TURNS: f64 = 1_048_576.0;

/// Below this `e^x` is 0 in `f64`.
const FIRST_EXPONENT: f64 = -745.133_219_101_941_2;
/// Above this `e^x` overflows an `f64`.
const LAST_EXPONENT: f64 = 709.782_712_893_384;
/// Above this hyperbolic sine and cosine overflow.
const LAST_HYPERBOLIC: f64 = 710.475_860_073_943_9;

/// `log2((1 + s) / (1 - s)) + exponent` for an integer exponent and `s = above / below`.
fn log2_of(b: &mut Builder, above: V, below: V, exponent: V) -> V {
    let s = b.div(above, below);
    let square = b.mul(s, s);
    let p = polynomial_f64(b, square, &LOG2);
    let exponent = b.convert(Conversion::FromSigned, exponent, Type::F64);
    b.fma(s, p, exponent)
}

/// Splits a positive normal number into `2^exponent mantissa`, with the mantissa in [sqrt 1/2, sqrt
/// 2): the mantissa, and the exponent as an `I32`.
pub(super) fn mantissa_and_exponent(b: &mut Builder, x: V) -> [V; 2] {
    let bits = b.bits(x);
    let upper = b.shift(BinaryOp::ShiftRight, bits, 32);
    let upper = b.convert(Conversion::Low, upper, Type::I32);
    let root = b.i32(0x3fe6_a09e);
    let above = b.sub(upper, root);
    let exponent = b.shift(BinaryOp::ShiftRightSigned, above, 20);
    let shifted = b.convert(Conversion::ExtendSigned, exponent, Type::I64);
    let shifted = b.shift(BinaryOp::ShiftLeft, shifted, 52);
    let mantissa = b.sub(bits, shifted);
    [b.bits(mantissa), exponent]
}

/// Splits `x` into `2^exponent (1 + s) / (1 - s)`: the numerator and the denominator of `s`, and
/// the exponent.
fn split(b: &mut Builder, x: V) -> [V; 3] {
    let [mantissa, exponent] = mantissa_and_exponent(b, x);
    let one = b.f64(1.0);
    let (difference, sum) = (b.sub(mantissa, one), b.add(mantissa, one));
    [difference, sum, exponent]
}

/// Corrects a logarithm of `x`: -inf at 0, and `x` itself if that is infinity or NaN.
fn with_ends(b: &mut Builder, x: V, logarithm: V) -> V {
    let (zero, minus) = (b.f64(0.0), b.f64(f64::NEG_INFINITY));
    let is_zero = b.compare(Condition::Equal, x, zero);
    let logarithm = b.select(is_zero, minus, logarithm);
    let infinity = b.f64(f64::INFINITY);
    let finite = b.compare(Condition::Less, x, infinity);
    b.select(finite, logarithm, x)
}

/// `log2(x)` for `x` that is neither negative nor a subnormal `f64`.
pub(crate) fn log2(b: &mut Builder, x: V) -> V {
    let [above, below, exponent] = split(b, x);
    let result = log2_of(b, above, below, exponent);
    with_ends(b, x, result)
}

/// `log(sqrt(x))`.
pub(crate) fn log_of_root(b: &mut Builder, x: V) -> V {
    let result = log2(b, x);
    let half = b.f64(LN_2 / 2.0);
    b.mul(result, half)
}

/// `log(sqrt(x))`; `less` is `x - 1`, more exactly than `x` if that is near 1.
pub(crate) fn log_of_root_near_one(b: &mut Builder, x: V, less: V) -> V {
    let [above, below, exponent] = split(b, x);
    let (quarter, two, zero) = (b.f64(0.25), b.f64(2.0), b.i32(0));
    let magnitude = abs(b, less);
    let near = b.compare(Condition::Less, magnitude, quarter);
    let sum = b.add(less, two);
    let above = b.select(near, less, above);
    let below = b.select(near, sum, below);
    let exponent = b.select(near, zero, exponent);
    let result = log2_of(b, above, below, exponent);
    let result = with_ends(b, x, result);
    let half = b.f64(LN_2 / 2.0);
    b.mul(result, half)
}

/// `2^t` for `t` between -400 and 400; `t` is clamped to that range.
pub(crate) fn exp2(b: &mut Builder, t: V) -> V {
    let (low, high) = (b.f64(-400.0), b.f64(400.0));
    let t = clamp(b, low, t, high);
    let n = b.unary(UnaryOp::Nearest, t);
    let r = b.sub(t, n);
    let p = polynomial_f64(b, r, &EXP2);
    b.binary(BinaryOp::Scale, p, n)
}

/// `y`, but infinity where `x` is above a limit, where a product of infinity and 0 would be NaN.
fn infinite_above(b: &mut Builder, limit: f64, x: V, y: V) -> V {
    let (limit, infinity) = (b.f64(limit), b.f64(f64::INFINITY));
    let above = b.compare(Condition::Less, limit, x);
    b.select(above, infinity, y)
}

/// Splits `x = n ln 2 + r`, with `x` clamped to -300 to 300: `n`, and `e^r - 1`.
fn reduced_exponent(b: &mut Builder, x: V) -> [V; 2] {
    let (low, high) = (b.f64(-300.0), b.f64(300.0));
    let x = clamp(b, low, x, high);
    let scale = b.f64(LOG2_E);
    let n = b.mul(x, scale);
    let n = b.unary(UnaryOp::Nearest, n);
    let ln2 = b.f64(LN_2);
    let r = b.fused(Fused::From, [n, ln2], x);
    let p = polynomial_f64(b, r, &EXPM1);
    let square = b.mul(r, r);
    [n, b.fma(p, square, r)]
}

/// `e^x`. Above 300 in magnitude the result may be any number so large or small; it is infinity or
/// 0 where `f64` overflows or underflows.
pub(crate) fn exp(b: &mut Builder, x: V) -> V {
    let [n, near] = reduced_exponent(b, x);
    let one = b.f64(1.0);
    let power = b.add(near, one);
    let power = b.binary(BinaryOp::Scale, power, n);
    let (first, zero) = (b.f64(FIRST_EXPONENT), b.f64(0.0));
    let below = b.compare(Condition::Less, x, first);
    let power = b.select(below, zero, power);
    infinite_above(b, LAST_EXPONENT, x, power)
}

/// `e^x - 1`; from 300 on any large number.
fn finite_expm1(b: &mut Builder, x: V) -> V {
    let [n, near] = reduced_exponent(b, x);
    let one = b.f64(1.0);
    let power = b.binary(BinaryOp::Scale, one, n);
    let less = b.sub(power, one);
    let result = b.fma(near, power, less);
    let zero = b.f64(0.0);
    let is_zero = b.compare(Condition::Equal, x, zero);
    b.select(is_zero, x, result)
}

/// `e^x - 1`; for large numbers as in [`exp`].
pub(crate) fn expm1(b: &mut Builder, x: V) -> V {
    let result = finite_expm1(b, x);
    infinite_above(b, LAST_EXPONENT, x, result)
}

/// The hyperbolic functions, computed from `e^x` and `e^-x`.
#[derive(Clone, Copy)]
pub(crate) struct Hyperbolic {
    /// `sinh(x)`.
    pub(crate) sine: V,
    /// `cosh(x)`.
    pub(crate) cosine: V,
    /// `e^-|x|`.
    pub(crate) inverse: V,
}

/// The hyperbolic functions; for large numbers as in [`exp`].
pub(crate) fn hyperbolic(b: &mut Builder, x: V) -> Hyperbolic {
    let magnitude = abs(b, x);
    let less = finite_expm1(b, magnitude);
    let (half, one) = (b.f64(0.5), b.f64(1.0));
    let power = b.add(less, one);
    let inverse = b.div(one, power);
    let sine = b.fma(less, inverse, less);
    let sine = b.mul(sine, half);
    let sine = infinite_above(b, LAST_HYPERBOLIC, magnitude, sine);
    let sign = b.bits(x);
    let sine = turned(b, sine, sign);
    let cosine = b.add(power, inverse);
    let cosine = b.mul(cosine, half);
    let cosine = infinite_above(b, LAST_HYPERBOLIC, magnitude, cosine);
    Hyperbolic {
        sine,
        cosine,
        inverse,
    }
}

/// Quarter turns in `x >= 0`, and the remaining angle: exact up to [`FEW_TURNS`].
pub(super) fn few_quarters(b: &mut Builder, x: V) -> [V; 2] {
    let inverse = b.f64(FRAC_2_PI);
    let turns = b.mul(x, inverse);
    let turns = b.unary(UnaryOp::Nearest, turns);
    let r = HALF_PI.iter().fold(x, |r, &part| {
        let part = b.f64(f64::from_bits(part));
        b.fused(Fused::From, [turns, part], r)
    });
    [b.convert(Conversion::Truncate, turns, Type::I32), r]
}

/// The same for an `f32` above that.
fn many_quarters(b: &mut Builder, x: V) -> [V; 2] {
    let [high, low] = fraction_of_turns(b, x);
    let [n, high] = next_quarter(b, high);
    let high = b.convert(Conversion::FromSigned, high, Type::F64);
    let low = b.convert(Conversion::FromUnsigned, low, Type::F64);
    let word = b.f64(2f64.powi(-32));
    let sum = b.fma(low, word, high);
    let scale = b.f64(FRAC_PI_2 / f64::from(1 << 30));
    let r = b.mul(sum, scale);
    let infinite = b.f32(f32::INFINITY);
    let infinite = b.compare(Condition::Equal, x, infinite);
    let nan = b.f64(f64::NAN);
    [n, b.select(infinite, nan, r)]
}

/// Sine and cosine of an angle, and one minus the cosine, which is accurate near 0.
#[derive(Clone, Copy)]
pub(crate) struct Circle {
    pub(crate) sine: V,
    pub(crate) cosine: V,
    pub(crate) one_less_cosine: V,
}

/// Sine and cosine of an `f32` of any magnitude.
pub(crate) fn circle(b: &mut Builder, x: V) -> Circle {
    let magnitude = abs(b, x);
    let reduced = b.reduced(magnitude, Type::F64, |b, x| {
        let wide = b.convert(Conversion::Float, x, Type::F64);
        let few = few_quarters(b, wide);
        let most = b.f32(FEW_TURNS as f32);
        let many = b.compare(Condition::Less, most, x);
        b.rare(many, few, |b| many_quarters(b, x))
    });
    let wide = b.convert(Conversion::Float, x, Type::F64);
    of_quarters(b, wide, reduced)
}

/// Sine and cosine of an `f64` of at most a few turns.
pub(crate) fn small_circle(b: &mut Builder, x: V) -> Circle {
    let magnitude = abs(b, x);
    let reduced = few_quarters(b, magnitude);
    of_quarters(b, x, reduced)
}

/// Sine and cosine of `x`, whose magnitude is `n` quarter turns plus the angle `r`.
fn of_quarters(b: &mut Builder, x: V, [n, r]: [V; 2]) -> Circle {
    let square = b.mul(r, r);
    let tail = polynomial_f64(b, square, &SIN);
    let cube = b.mul(r, square);
    let sine = b.fma(cube, tail, r);
    let tail = polynomial_f64(b, square, &COS);
    let fourth = b.mul(square, square);
    let half = b.f64(0.5);
    let less = b.mul(square, half);
    let less = b.fused(Fused::From, [fourth, tail], less);
    let one = b.f64(1.0);
    let cosine = b.sub(one, less);
    let odd = is_odd(b, n);
    let (of_sine, of_cosine) = (b.select(odd, cosine, sine), b.select(odd, sine, cosine));
    let after = b.i32(1);
    let after = b.add(n, after);
    let sign = b.bits(x);
    let half_turns = bit_as_sign(b, n, 1, x);
    let sign = b.xor(sign, half_turns);
    let sine = turned(b, of_sine, sign);
    let sign = bit_as_sign(b, after, 1, x);
    let cosine = turned(b, of_cosine, sign);
    // For whole turns the difference has no cancellation.
    let (three, zero) = (b.i32(3), b.i32(0));
    let of_turn = b.and(n, three);
    let whole = b.compare(Condition::Equal, of_turn, zero);
    let difference = b.sub(one, cosine);
    Circle {
        sine,
        cosine,
        one_less_cosine: b.select(whole, less, difference),
    }
}

/// The angle of the point `(x, y)`.
pub(crate) fn atan2(b: &mut Builder, y: V, x: V) -> V {
    let (right, up) = (abs(b, x), abs(b, y));
    let steep = b.compare(Condition::Less, right, up);
    let low = b.select(steep, right, up);
    let high = b.select(steep, up, right);
    let (zero, one, infinity) = (b.f64(0.0), b.f64(1.0), b.f64(f64::INFINITY));
    let tangent = b.div(low, high);
    let none = b.compare(Condition::Equal, high, zero);
    let tangent = b.select(none, zero, tangent);
    let both = b.compare(Condition::Equal, low, infinity);
    let tangent = b.select(both, one, tangent);
    let square = b.mul(tangent, tangent);
    let tail = polynomial_f64(b, square, &ATAN);
    let cube = b.mul(tangent, square);
    let angle = b.fma(cube, tail, tangent);
    let quarter = b.f64(FRAC_PI_2);
    let other = b.sub(quarter, angle);
    let angle = b.select(steep, other, angle);
    let bits = b.bits(x);
    let nothing = b.constant(Type::I64, 0);
    let left = b.compare(Condition::Less, bits, nothing);
    let half = b.f64(PI);
    let other = b.sub(half, angle);
    let angle = b.select(left, other, angle);
    let sign = b.bits(y);
    let signed = turned(b, angle, sign);
    let unordered = b.compare(Condition::Unordered, x, y);
    let neither = b.add(x, y);
    b.select(unordered, neither, signed)
}
