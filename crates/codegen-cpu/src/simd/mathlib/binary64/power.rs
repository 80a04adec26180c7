//! Powers: `2^(y log2 x)`, with the logarithm as a sum of two numbers.
//!
//! An exponent of 1000 turns an error of one unit in the last place of the logarithm into a
//! thousand. So the logarithm is computed to about 64 bits, as `high + low`, and so is its product
//! with `y`.

use super::exponential::scaled;
use super::logarithm::split;
use super::{abs, clamp, polynomial_f64};
use crate::simd::builder::Builder;
use crate::simd::ir::{Condition, Type, UnaryOp, V};

/// `(log((1 + s) / (1 - s)) - 2 s - 2/3 s^3) / s^5` in `s^2`: within 1e-20 of `2 s`.
const LOG_TAIL: [f64; 8] = [
    0.4,
    0.285_714_285_714_293_75,
    0.222_222_222_216_492_82,
    0.181_818_183_368_885_36,
    0.153_845_948_028_562_83,
    0.133_348_133_691_118_48,
    0.117_060_042_503_001_12,
    0.117_256_032_601_926_81,
];

/// `(2^t - 1) / t` for |t| <= 1/2: within 2.1e-17 of `2^t`.
const EXP2M1: [f64; 12] = [
    std::f64::consts::LN_2,
    0.240_226_506_959_100_72,
    0.055_504_108_664_821_625,
    0.009_618_129_107_628_48,
    0.001_333_355_814_640_636_5,
    0.000_154_035_303_933_706_8,
    1.525_273_384_169_203_6e-5,
    1.321_548_680_877_251_4e-6,
    1.017_805_701_821_043_6e-7,
    7.054_897_269_743_218e-9,
    4.455_830_260_852_973_7e-10,
    2.572_938_531_890_62e-11,
];

/// 2/3 and log2 e, each as a sum of two.
const TWO_THIRDS: [f64; 2] = [2.0 / 3.0, 3.700_743_415_417_188e-17];
const LOG2_E: [f64; 2] = [std::f64::consts::LOG2_E, 2.035_527_374_093_103_3e-17];

/// A number as a sum of two, the second of which is less than a unit in the last place of the
/// first.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub(super) high: V,
    pub(super) low: V,
}

/// `a + b` as a pair, if `a` is the larger one or 0.
pub(super) fn sum(b: &mut Builder, large: V, small: V) -> Pair {
    let high = b.add(large, small);
    let kept = b.sub(high, large);
    Pair {
        high,
        low: b.sub(small, kept),
    }
}

/// The upper 26 bits of a number, and the rest.
fn halves(b: &mut Builder, x: V) -> [V; 2] {
    let bits = b.bits(x);
    let mask = b.constant(Type::I64, !0x7ff_ffff);
    let upper = b.and(bits, mask);
    let upper = b.bits(upper);
    [upper, b.sub(x, upper)]
}

/// `x y` as a pair, by products of halves, which are exact with and without fused multiply-add
/// (Dekker).
fn product(b: &mut Builder, x: V, y: V) -> Pair {
    let high = b.mul(x, y);
    let ([x1, x2], [y1, y2]) = (halves(b, x), halves(b, y));
    let exact = b.mul(x1, y1);
    let low = b.sub(exact, high);
    let low = b.fma(x1, y2, low);
    let low = b.fma(x2, y1, low);
    Pair {
        high,
        low: b.fma(x2, y2, low),
    }
}

/// `x (y + z)` as a pair.
pub(super) fn times(b: &mut Builder, x: V, y: Pair) -> Pair {
    let exact = product(b, x, y.high);
    Pair {
        high: exact.high,
        low: b.fma(x, y.low, exact.low),
    }
}

/// `log2(x)` of a positive finite number.
fn log2(b: &mut Builder, x: V) -> Pair {
    let [exponent, mantissa] = split(b, x);
    let one = b.f64(1.0);
    // s = (m - 1) / (m + 1): the difference is exact, the sum a pair.
    let f = b.sub(mantissa, one);
    let below = sum(b, one, mantissa);
    let inverse = b.div(one, below.high);
    let high = b.mul(f, inverse);
    let whole = times(b, high, below);
    let rest = b.sub(f, whole.high);
    let rest = b.sub(rest, whole.low);
    let s = Pair {
        high,
        low: b.mul(rest, inverse),
    };
    // ln m = s (2 + v) with v = 2/3 s^2 + s^4 LOG_TAIL(s^2).
    let square = product(b, s.high, s.high);
    let double = b.add(s.high, s.high);
    let square = Pair {
        low: b.fma(double, s.low, square.low),
        ..square
    };
    let [third, third_low] = TWO_THIRDS.map(|x| b.f64(x));
    let w = times(b, third, square);
    let w_low = b.fma(square.high, third_low, w.low);
    let tail = polynomial_f64(b, square.high, &LOG_TAIL);
    let fourth = b.mul(square.high, square.high);
    let tail = b.mul(fourth, tail);
    let v = sum(b, w.high, tail);
    let v = Pair {
        low: b.add(v.low, w_low),
        ..v
    };
    let p = times(b, s.high, v);
    let p_low = b.fma(s.low, v.high, p.low);
    let ln = sum(b, double, p.high);
    let double_low = b.add(s.low, s.low);
    let low = b.add(p_low, double_low);
    let ln = Pair {
        low: b.add(ln.low, low),
        ..ln
    };
    // log2 x = exponent + log2(e) ln m.
    let [scale, scale_low] = LOG2_E.map(|x| b.f64(x));
    let t = times(b, scale, ln);
    let t_low = b.fma(ln.high, scale_low, t.low);
    let whole = sum(b, exponent, t.high);
    let low = b.add(whole.low, t_low);
    // The sum of two numbers whose bits do not overlap.
    sum(b, whole.high, low)
}

/// C's `pow`, with zeros in place of subnormal numbers.
pub(super) fn power(b: &mut Builder, x: V, y: V) -> V {
    let magnitude = abs(b, x);
    let (zero, one, infinity) = (b.f64(0.0), b.f64(1.0), b.f64(f64::INFINITY));
    let finite = b.compare(Condition::Less, magnitude, infinity);
    let nonzero = b.compare(Condition::Less, zero, magnitude);
    let usual = b.and(finite, nonzero);
    let base = b.select(usual, magnitude, one);
    let logarithm = log2(b, base);
    // Larger exponents give the same results as these limits, whose products still have a low part.
    let (low, high) = (b.f64(-2f64.powi(64)), b.f64(2f64.powi(64)));
    let exponent = clamp(b, low, y, high);
    let t = times(b, exponent, logarithm);
    let (least, most) = (b.f64(-1100.0), b.f64(1100.0));
    let within = clamp(b, least, t.high, most);
    let inside = b.compare(Condition::Equal, within, t.high);
    let rest = b.select(inside, t.low, zero);
    let n = b.unary(UnaryOp::Nearest, within);
    let r = b.sub(within, n);
    let r = b.add(r, rest);
    let p = polynomial_f64(b, r, &EXP2M1);
    let p = b.fma(p, r, one);
    let (first, last) = (b.f64(-1022.0), b.f64(1024.0));
    let n = clamp(b, first, n, last);
    let result = scaled(b, p, n);
    // 2^-1022 and above is normal; numbers slightly below that are not distinguished.
    let total = b.add(within, rest);
    let underflows = b.compare(Condition::Less, total, first);
    let result = b.select(underflows, zero, result);
    let overflows = b.compare(Condition::LessEqual, last, total);
    let result = b.select(overflows, infinity, result);
    // For a base of 0 or infinity, the sign of the exponent determines the result.
    let grows = b.compare(Condition::Less, zero, y);
    let large = b.compare(Condition::Less, one, magnitude);
    let opposite = b.xor(grows, large);
    let extreme = b.select(opposite, zero, infinity);
    let result = b.select(usual, result, extreme);
    let unordered = b.compare(Condition::Unordered, x, y);
    let nan = b.f64(f64::NAN);
    let result = b.select(unordered, nan, result);
    // 1 to any power is 1, and so is any number to the power of 0, and -1 to the power of infinity.
    let of_one = b.compare(Condition::Equal, magnitude, one);
    let number = b.compare(Condition::Equal, y, y);
    let of_one = b.and(of_one, number);
    let to_zero = b.compare(Condition::Equal, y, zero);
    let is_one = b.or(of_one, to_zero);
    let result = b.select(is_one, one, result);
    super::super::power::signed(b, x, y, to_zero, result)
}
