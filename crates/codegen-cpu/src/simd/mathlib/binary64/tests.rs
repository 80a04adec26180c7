//! Compares every function with `libm`'s, which is within a unit of the true value.

use crate::simd::ir::Type;
use crate::simd::mathlib::{binary, unary};
use crate::simd::test_harness::{Compiled, elementwise};
use tegula_ir::{Binary, Unary};
use tegula_scalar as scalar;

/// Special cases of the functions.
const SPECIAL: [f64; 40] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    3.0,
    -3.0,
    0.5,
    -0.5,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    -f64::MIN_POSITIVE,
    5e-324,
    -5e-324,
    1e-310,
    9_007_199_254_740_992.0,
    9_007_199_254_740_993.0,
    -9_007_199_254_740_991.0,
    709.782_712_893_384,
    709.782_712_893_384_1,
    710.0,
    -708.396_418_532_264,
    -708.4,
    -745.2,
    1e-17,
    -1e-17,
    1.000_000_000_000_000_2,
    0.999_999_999_999_999_9,
    1022.5,
    -1022.5,
    1024.0,
    0.707_106_781_186_547_5,
    std::f64::consts::SQRT_2,
    1e300,
    -1e9,
];

/// The error of a result, in units in the last place.
fn distance(got: f64, want: f64) -> u64 {
    if got.is_nan() && want.is_nan() {
        return 0;
    }
    let other_zero = got == 0.0 && want == 0.0 && got.is_sign_negative() != want.is_sign_negative();
    if got.is_nan() || want.is_nan() || other_zero {
        return u64::MAX;
    }
    let key = |x: f64| {
        let bits = i128::from(x.to_bits().cast_signed());
        if bits < 0 {
            i128::from(i64::MIN) - bits
        } else {
            bits
        }
    };
    u64::try_from((key(got) - key(want)).unsigned_abs()).unwrap_or(u64::MAX)
}

/// Deterministic pseudo-random numbers.
fn words() -> impl Iterator<Item = u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    std::iter::repeat_with(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state ^ (state >> 29)
    })
}

/// Random bits, and numbers in ranges where functions are not constant.
fn inputs() -> Vec<f64> {
    let unit = |word: u64| (word >> 11) as f64 / (1u64 << 53) as f64;
    let mut inputs = SPECIAL.to_vec();
    for (i, word) in words().take(120_000).enumerate() {
        let turns = |bits: u64| (word >> bits) as f64 * std::f64::consts::FRAC_PI_2;
        inputs.push(match i % 8 {
            0 => f64::from_bits(word),
            1 => (unit(word) - 0.5) * 1500.0,
            2 => (unit(word) - 0.5) * 8.0,
            3 => unit(word) * 2.0,
            4 => (unit(word) - 0.5) * 2f64.powi(-((word & 63) as i32)),
            5 => turns(44),
            6 => turns(word & 63),
            _ => 1.0 + (unit(word) - 0.5) * 2f64.powi(-((word & 63) as i32)),
        });
    }
    inputs
}

fn check(op: Unary, allowed: u64) {
    let body = elementwise(Type::F64, 1, &|b, x| {
        unary(b, op, x[0]).expect("in the library")
    });
    let inputs = inputs();
    for compiled in Compiled::all(&body) {
        let out = compiled.apply(&[&inputs]);
        for (&x, &y) in inputs.iter().zip(&out) {
            let want = scalar::unary_f64(op, x);
            let error = distance(y, want);
            assert!(
                error <= allowed,
                "{op:?} by {}: {error} units at {x:e}: {y:e}, not {want:e}",
                compiled.name
            );
        }
    }
}

#[test]
fn functions_of_one_number() {
    for (op, allowed) in [
        (Unary::Exp, 1),
        (Unary::Log, 1),
        (Unary::Expm1, 2),
        (Unary::Log1p, 2),
        (Unary::Tanh, 4),
        (Unary::Logistic, 4),
        (Unary::Erf, 1),
        (Unary::Cbrt, 2),
        (Unary::Sin, 2),
        (Unary::Cos, 2),
        (Unary::Tan, 4),
        (Unary::Rsqrt, 0),
        (Unary::Sinh, 4),
        (Unary::Cosh, 2),
        (Unary::Asinh, 4),
        (Unary::Acosh, 4),
        (Unary::Atanh, 4),
        (Unary::Asin, 4),
        (Unary::Acos, 4),
    ] {
        check(op, allowed);
    }
}

#[test]
fn remainders_of_powers_of_two() {
    for divisor in [1.0, 2.0, 1024.0, 2f64.powi(900)] {
        let body = elementwise(Type::F64, 1, &|b, x| {
            let divisor = b.f64(divisor);
            binary(b, Binary::Remainder, x[0], divisor).expect("in the library")
        });
        let inputs = inputs();
        for compiled in Compiled::all(&body) {
            let out = compiled.apply(&[&inputs]);
            for (&x, &y) in inputs.iter().zip(&out) {
                assert_eq!(distance(y, x % divisor), 0, "{x:e} by {divisor:e}: {y:e}");
            }
        }
    }
}

/// For numbers of any exponents, with quotients that are integers or nearly so, and for infinities
/// and NaN.
#[test]
fn remainders() {
    let mut words = words();
    let mut random = || words.next().unwrap_or_default();
    let mut any = || {
        let exponent = random() % 2046;
        let bits = random() >> (random() % 52);
        f64::from_bits(exponent << 52 | bits & ((1 << 52) - 1))
    };
    let special = [
        0.0,
        f64::from_bits(1),
        f64::from_bits((1 << 27) - 1),
        f64::from_bits((1 << 52) - 1),
        f64::MIN_POSITIVE,
        1.0,
        1.0 + f64::EPSILON,
        2.0 - f64::EPSILON,
        f64::MAX / 2.0,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
    ];
    let mut pairs = Vec::new();
    for x in special {
        pairs.extend(special.iter().flat_map(|&y| [(x, y), (-x, y), (x, -y)]));
        pairs.extend((0..64).map(|_| (x, any())));
        pairs.extend((0..64).map(|_| (-any(), x)));
    }
    for i in 0..40_000u64 {
        let (x, y) = (any(), any());
        // Quotients of few bits, of about as many as a step takes, and of any number of bits.
        let near = y * f64::powi(2.0, (i % 120) as i32 - 10);
        let count = (x.to_bits() >> (i % 60)) as f64;
        pairs.extend([
            (x, y),
            (near * (1.0 + x.fract()), y),
            (count * y, y),
            ((count * y).next_down(), -y),
            ((count * y).next_up(), y),
        ]);
    }
    check_pairs(Binary::Remainder, pairs, 0, |x, y| x % y);
}

/// Compares a function of two numbers with `want`, by every lowering.
fn check_pairs(op: Binary, pairs: Vec<(f64, f64)>, allowed: u64, want: impl Fn(f64, f64) -> f64) {
    let body = elementwise(Type::F64, 2, &|b, v| {
        binary(b, op, v[0], v[1]).expect("in the library")
    });
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    for compiled in Compiled::all(&body) {
        let out = compiled.apply(&[&x, &y]);
        for ((&x, &y), &got) in x.iter().zip(&y).zip(&out) {
            let want = want(x, y);
            let error = distance(got, want);
            assert!(
                error <= allowed,
                "{op:?} by {}: {x:e} and {y:e}: {error} units: {got:e}, not {want:e}",
                compiled.name
            );
        }
    }
}

/// All pairs of the special numbers.
fn special_pairs() -> Vec<(f64, f64)> {
    let with_all = |x| SPECIAL.map(|y| (x, y));
    SPECIAL.into_iter().flat_map(with_all).collect()
}

#[test]
fn angles() {
    let mut pairs = special_pairs();
    let all = inputs();
    for (i, word) in words().take(120_000).enumerate() {
        let (x, y) = (all[i % all.len()], all[word as usize % all.len()]);
        let near = f64::from(word as u32) / 2e9 - 1.0;
        pairs.extend([(x, y), (x, x * near), (x * near, x)]);
    }
    check_pairs(Binary::Atan2, pairs, 2, |y, x| {
        scalar::binary_f64(Binary::Atan2, y, x)
    });
}

#[test]
fn powers() {
    let mut pairs = special_pairs();
    let all = inputs();
    for (i, word) in words().take(120_000).enumerate() {
        let (x, y) = (all[i % all.len()], all[word as usize % all.len()]);
        // Most powers of random numbers are 0 or infinite, except those near 1.
        let near = (700.0 / x.abs().ln()).abs().min(1e18) * (f64::from(word as u32) / 2e9 - 1.0);
        pairs.push((x, y));
        pairs.push((x.abs(), near));
        pairs.push((x, (y % 16.0).round()));
    }
    // Compared with the system's function, because that of `libm` is some hundred units off for
    // exponents of 10^9.
    check_pairs(Binary::Power, pairs, 1, |x, y| {
        let want = x.powf(y);
        if want.is_subnormal() {
            0f64.copysign(want)
        } else {
            want
        }
    });
}
