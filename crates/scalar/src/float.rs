//! Functions of real floating-point numbers.
//!
//! The `f32` form of a transcendental function is its `f64` form rounded once, so it is within
//! little more than half an ulp of the true value on every machine; the `f64` forms are those of
//! `libm`, which is the same code everywhere. Functions that IEEE 754 defines exactly (abs, sqrt,
//! rounding, ...) are used directly in both widths.
//!
//! `exp`, `logistic` and `power`, and `erf` in `f32`, never return a subnormal number: a result
//! that would be less than the smallest normal number when rounded becomes a zero of its sign.
//! Masked scores (`exp` of -95, -1e9, ...) are such numbers, and vector units take ten times as
//! long for them, which is why XLA and the fast modes of GPUs flush them too. Other operations keep
//! subnormal numbers.

use tegula_ir::{Binary, Unary};

/// The function of `op` on `f32`, or `None` for an operation that floats lack or
/// whose result is not a float (`not`, `popcnt`, `is-finite`, ...).
pub fn unary_f32_function(op: Unary) -> Option<fn(f32) -> f32> {
    Some(match op {
        Unary::Abs => f32::abs,
        Unary::Negate => |x| -x,
        Unary::Ceil => f32::ceil,
        Unary::Floor => f32::floor,
        Unary::RoundNearestAfz => f32::round,
        Unary::RoundNearestEven => f32::round_ties_even,
        Unary::Sign => |x| sign(f64::from(x)) as f32,
        Unary::Sqrt => f32::sqrt,
        Unary::Real => |x| x,
        Unary::Imag => |_| 0.0,
        Unary::Acos => |x| libm::acos(f64::from(x)) as f32,
        Unary::Acosh => |x| acosh(f64::from(x)) as f32,
        Unary::Asin => |x| libm::asin(f64::from(x)) as f32,
        Unary::Asinh => |x| libm::asinh(f64::from(x)) as f32,
        Unary::Atanh => |x| libm::atanh(f64::from(x)) as f32,
        Unary::Cbrt => |x| libm::cbrt(f64::from(x)) as f32,
        Unary::Cos => |x| libm::cos(f64::from(x)) as f32,
        Unary::Cosh => |x| libm::cosh(f64::from(x)) as f32,
        Unary::Erf => |x| libm::erf(f64::from(without_subnormal(x))) as f32,
        Unary::Exp => |x| rounded_to_normal(libm::exp(f64::from(x))),
        Unary::Expm1 => |x| libm::expm1(f64::from(x)) as f32,
        Unary::Log => |x| libm::log(f64::from(x)) as f32,
        Unary::Log1p => |x| libm::log1p(f64::from(x)) as f32,
        Unary::Logistic => |x| rounded_to_normal(logistic(f64::from(x))),
        Unary::Rsqrt => |x| (1.0 / f64::from(x).sqrt()) as f32,
        Unary::Sin => |x| libm::sin(f64::from(x)) as f32,
        Unary::Sinh => |x| libm::sinh(f64::from(x)) as f32,
        Unary::Tan => |x| libm::tan(f64::from(x)) as f32,
        Unary::Tanh => |x| libm::tanh(f64::from(x)) as f32,
        Unary::CountLeadingZeros | Unary::IsFinite | Unary::Not | Unary::Popcnt => return None,
    })
}

/// The function of `op` on `f64`; `None` as for [`unary_f32_function`].
pub fn unary_f64_function(op: Unary) -> Option<fn(f64) -> f64> {
    Some(match op {
        Unary::Abs => f64::abs,
        Unary::Negate => |x| -x,
        Unary::Ceil => f64::ceil,
        Unary::Floor => f64::floor,
        Unary::RoundNearestAfz => f64::round,
        Unary::RoundNearestEven => f64::round_ties_even,
        Unary::Sign => sign,
        Unary::Sqrt => f64::sqrt,
        Unary::Real => |x| x,
        Unary::Imag => |_| 0.0,
        Unary::Acos => libm::acos,
        Unary::Acosh => acosh,
        Unary::Asin => libm::asin,
        Unary::Asinh => libm::asinh,
        Unary::Atanh => libm::atanh,
        Unary::Cbrt => libm::cbrt,
        Unary::Cos => libm::cos,
        Unary::Cosh => libm::cosh,
        Unary::Erf => libm::erf,
        Unary::Exp => |x| zero_if_subnormal(libm::exp(x)),
        Unary::Expm1 => libm::expm1,
        Unary::Log => libm::log,
        Unary::Log1p => libm::log1p,
        Unary::Logistic => |x| zero_if_subnormal(logistic(x)),
        Unary::Rsqrt => |x| 1.0 / x.sqrt(),
        Unary::Sin => libm::sin,
        Unary::Sinh => libm::sinh,
        Unary::Tan => libm::tan,
        Unary::Tanh => libm::tanh,
        Unary::CountLeadingZeros | Unary::IsFinite | Unary::Not | Unary::Popcnt => return None,
    })
}

/// `op(x)` in `f32`. The result is NaN for an operation that floats lack; see
/// [`unary_f32_function`].
pub fn unary_f32(op: Unary, x: f32) -> f32 {
    unary_f32_function(op).map_or(f32::NAN, |f| f(x))
}

/// `op(x)` in `f64`. The result is NaN for an operation that floats lack.
pub fn unary_f64(op: Unary, x: f64) -> f64 {
    unary_f64_function(op).map_or(f64::NAN, |f| f(x))
}

/// The function of `op` on `f32`, or `None` for an operation that floats lack.
pub fn binary_f32_function(op: Binary) -> Option<fn(f32, f32) -> f32> {
    Some(match op {
        Binary::Add => |a, b| a + b,
        Binary::Subtract => |a, b| a - b,
        Binary::Multiply => |a, b| a * b,
        Binary::Divide => |a, b| a / b,
        Binary::Remainder => |a, b| a % b,
        Binary::Maximum => maximum_f32,
        Binary::Minimum => minimum_f32,
        Binary::Power => |a, b| rounded_to_normal(libm::pow(f64::from(a), f64::from(b))),
        Binary::Atan2 => |a, b| libm::atan2(f64::from(a), f64::from(b)) as f32,
        _ => return None,
    })
}

/// The function of `op` on `f64`, or `None` for an operation that floats lack.
pub fn binary_f64_function(op: Binary) -> Option<fn(f64, f64) -> f64> {
    Some(match op {
        Binary::Add => |a, b| a + b,
        Binary::Subtract => |a, b| a - b,
        Binary::Multiply => |a, b| a * b,
        Binary::Divide => |a, b| a / b,
        Binary::Remainder => remainder,
        Binary::Maximum => maximum_f64,
        Binary::Minimum => minimum_f64,
        Binary::Power => |a, b| zero_if_subnormal(libm::pow(a, b)),
        Binary::Atan2 => libm::atan2,
        _ => return None,
    })
}

/// `op(a, b)` in `f32`. The result is NaN for an operation that floats lack.
pub fn binary_f32(op: Binary, a: f32, b: f32) -> f32 {
    binary_f32_function(op).map_or(f32::NAN, |f| f(a, b))
}

/// `op(a, b)` in `f64`. The result is NaN for an operation that floats lack.
pub fn binary_f64(op: Binary, a: f64, b: f64) -> f64 {
    binary_f64_function(op).map_or(f64::NAN, |f| f(a, b))
}

/// The magnitude below which a number rounds to less than the smallest normal `f32`: half a unit in
/// the last place below 2^-126.
pub const LEAST_ROUNDED_TO_NORMAL: f64 = f32::MIN_POSITIVE as f64 * (1.0 - 1.0 / (1 << 25) as f64);

/// The nearest `f32`; a zero of the same sign instead of a subnormal number.
fn rounded_to_normal(x: f64) -> f32 {
    match x.abs() < LEAST_ROUNDED_TO_NORMAL {
        true => 0f32.copysign(x as f32),
        false => x as f32,
    }
}

/// The `f64` itself; a zero of the same sign instead of a subnormal number.
fn zero_if_subnormal(x: f64) -> f64 {
    if x.is_subnormal() {
        0f64.copysign(x)
    } else {
        x
    }
}

/// The `f32` itself; a zero of the same sign instead of a subnormal number.
fn without_subnormal(x: f32) -> f32 {
    if x.is_subnormal() {
        0f32.copysign(x)
    } else {
        x
    }
}

/// `a % b`, which is C's `fmod`: computed by a division where the quotient is not large, instead of
/// the bitwise long division of most libraries.
fn remainder(a: f64, b: f64) -> f64 {
    /// From here on quotients are not exact to one unit.
    const LARGE: f64 = (1u64 << 51) as f64;
    let (of, by) = (a.abs(), b.abs());
    let quotient = of / by;
    // The parts of the products must be normal numbers.
    let usual = quotient < LARGE && by > 1e-200 && of < 1e200;
    if !usual {
        return a % b;
    }
    if of < by {
        return a;
    }
    // Rounding up may make the quotient too large by one. The difference is exact: its magnitude is
    // less than `by`, and it is a multiple of the last digit of one of the operands.
    let [high, low] = exact_product(quotient.trunc(), by);
    let rest = (of - high) - low;
    let rest = if rest < 0.0 { rest + by } else { rest };
    rest.copysign(a)
}

/// `x y` as a sum of two numbers (Dekker, "A floating-point technique for extending the available
/// precision", 1971): products of halves are exact.
fn exact_product(x: f64, y: f64) -> [f64; 2] {
    let halves = |x: f64| {
        let upper = f64::from_bits(x.to_bits() & !0x7ff_ffff);
        [upper, x - upper]
    };
    let ([x1, x2], [y1, y2]) = (halves(x), halves(y));
    let high = x * y;
    [high, x1 * y1 - high + x1 * y2 + x2 * y1 + x2 * y2]
}

/// The inverse hyperbolic cosine; NaN below 1, where `libm` may return a rounding residue instead.
fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

/// The larger operand; NaN if either is NaN; +0 is larger than -0
/// (IEEE 754-2019 `maximum`).
pub fn maximum_f32(a: f32, b: f32) -> f32 {
    if a > b {
        a
    } else if b > a {
        b
    } else if a == b {
        // Equal numbers or zeros of any sign: the sign is cleared if either is positive.
        f32::from_bits(a.to_bits() & b.to_bits())
    } else {
        a + b
    }
}

/// The smaller operand; NaN if either is NaN; -0 is smaller than +0
/// (IEEE 754-2019 `minimum`).
pub fn minimum_f32(a: f32, b: f32) -> f32 {
    if a < b {
        a
    } else if b < a {
        b
    } else if a == b {
        f32::from_bits(a.to_bits() | b.to_bits())
    } else {
        a + b
    }
}

/// [`maximum_f32`] in `f64`.
pub fn maximum_f64(a: f64, b: f64) -> f64 {
    if a > b {
        a
    } else if b > a {
        b
    } else if a == b {
        f64::from_bits(a.to_bits() & b.to_bits())
    } else {
        a + b
    }
}

/// [`minimum_f32`] in `f64`.
pub fn minimum_f64(a: f64, b: f64) -> f64 {
    if a < b {
        a
    } else if b < a {
        b
    } else if a == b {
        f64::from_bits(a.to_bits() | b.to_bits())
    } else {
        a + b
    }
}

/// The sign: -1, +1, or the operand itself if it is zero or NaN.
fn sign(x: f64) -> f64 {
    if x.is_nan() || x == 0.0 {
        x
    } else {
        1f64.copysign(x)
    }
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_are_exact() {
        let mut state = 7u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state ^ (state >> 31)
        };
        for i in 0..400_000 {
            let (word, other) = (next(), next());
            let (a, b) = match i % 4 {
                0 => (f64::from_bits(word), f64::from_bits(other)),
                1 => (word as i64 as f64 / 1e12, other as i64 as f64 / 1e17),
                // Multiples and the numbers next to them.
                2 => {
                    let b = (other >> 11) as f64;
                    let a = b * (word >> 45) as f64;
                    (if word & 1 == 0 { a.next_down() } else { a }, b)
                }
                _ => (word as f64, (other >> 40) as f64 + 0.5),
            };
            let (got, want) = (remainder(a, b), a % b);
            let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
            assert!(same, "{a:e} % {b:e}: {got:e}, not {want:e}");
        }
        for a in [0.0, -0.0, 1.0, -5.5, f64::INFINITY, f64::NAN, 5e-324] {
            for b in [0.0, 1.0, -2.0, f64::INFINITY, f64::NAN, 5e-324] {
                let (got, want) = (remainder(a, b), a % b);
                let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                assert!(same, "{a:e} % {b:e}: {got:e}, not {want:e}");
            }
        }
    }

    #[test]
    fn maximum_and_minimum_propagate_nan_and_order_zeros() {
        for (a, b) in [(f32::NAN, 1.0), (1.0, f32::NAN), (f32::NAN, f32::NAN)] {
            assert!(maximum_f32(a, b).is_nan());
            assert!(minimum_f32(a, b).is_nan());
            assert!(maximum_f64(a.into(), b.into()).is_nan());
            assert!(minimum_f64(a.into(), b.into()).is_nan());
        }
        for (a, b) in [(0.0, -0.0), (-0.0, 0.0)] {
            assert!(maximum_f32(a, b).is_sign_positive());
            assert!(minimum_f32(a, b).is_sign_negative());
            assert!(maximum_f64(a.into(), b.into()).is_sign_positive());
            assert!(minimum_f64(a.into(), b.into()).is_sign_negative());
        }
        assert_eq!(maximum_f32(f32::NEG_INFINITY, -3.0), -3.0);
        assert_eq!(minimum_f32(f32::INFINITY, -3.0), -3.0);
    }

    #[test]
    fn signs_and_roundings() {
        let f = |op, x| unary_f32(op, x).to_bits();
        assert_eq!(f(Unary::Sign, -0.0), (-0f32).to_bits());
        assert_eq!(f(Unary::Sign, -7.5), (-1f32).to_bits());
        assert!(unary_f32(Unary::Sign, f32::NAN).is_nan());
        assert!(unary_f64(Unary::Acosh, -65504.0).is_nan());
        assert_eq!(f(Unary::RoundNearestAfz, 2.5), 3f32.to_bits());
        assert_eq!(f(Unary::RoundNearestAfz, -2.5), (-3f32).to_bits());
        assert_eq!(f(Unary::RoundNearestEven, 2.5), 2f32.to_bits());
        assert_eq!(f(Unary::RoundNearestEven, -0.5), (-0f32).to_bits());
        assert_eq!(f(Unary::Rsqrt, 0.0), f32::INFINITY.to_bits());
        assert_eq!(f(Unary::Rsqrt, f32::INFINITY), 0);
        assert_eq!(f(Unary::Logistic, -1000.0), 0);
        assert_eq!(f(Unary::Logistic, 1000.0), 1f32.to_bits());
    }

    #[test]
    fn power_follows_c() {
        let pow = |a, b| binary_f32(Binary::Power, a, b);
        assert_eq!(pow(f32::NAN, 0.0), 1.0);
        assert_eq!(pow(1.0, f32::NAN), 1.0);
        assert_eq!(pow(0.0, -1.0), f32::INFINITY);
        assert_eq!(pow(-0.0, -1.0), f32::NEG_INFINITY);
        assert_eq!(pow(-2.0, 3.0), -8.0);
        assert!(pow(-2.0, 0.5).is_nan());
        assert_eq!(pow(-1.0, f32::INFINITY), 1.0);
    }

    #[test]
    fn every_operation_is_accurate_at_a_known_point() {
        let cases = [
            (Unary::Erf, 0.5, 0.520_499_877_813_046_5),
            (Unary::Tanh, 0.5, 0.462_117_157_260_009_76),
            (Unary::Exp, 1.0, std::f64::consts::E),
            (Unary::Log1p, 1e-10, 9.999_999_999_5e-11),
            (Unary::Expm1, 1e-10, 1.000_000_000_05e-10),
            (Unary::Cbrt, 27.0, 3.0),
            (Unary::Logistic, 1.0, 0.731_058_578_630_004_9),
            (Unary::Tan, 1.0, 1.557_407_724_654_902_2),
            (Unary::Acosh, 2.0, 1.316_957_896_924_816_7),
        ];
        for (op, x, y) in cases {
            let got = unary_f64(op, x);
            assert!((got - y).abs() <= 2e-16 * y.abs(), "{op:?}: {got} {y}");
            assert_eq!(
                unary_f32(op, x as f32),
                unary_f64(op, f64::from(x as f32)) as f32
            );
        }
    }
}
