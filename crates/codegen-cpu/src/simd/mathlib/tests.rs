//! Compares every function with the `f64` function rounded once: on a dense sample, or on all 2^32
//! inputs if `TEGULA_EXHAUSTIVE` is set.

use super::{binary, unary};
use crate::simd::ir::{Body, Type};
use crate::simd::test_harness::{Compiled, elementwise, random};
use tegula_ir::{Binary, Unary};
use tegula_scalar as scalar;

/// The body of a function of one number.
fn body_of(op: Unary) -> Body {
    elementwise(Type::F32, 1, &|b, x| {
        unary(b, op, x[0]).expect("in the library")
    })
}

/// The error of a result, in units in the last place.
fn distance(got: f32, want: f32) -> u64 {
    if got.is_nan() && want.is_nan() {
        return 0;
    }
    if got.is_nan() || want.is_nan() || (want == 0.0) != (got == 0.0) && want.is_infinite() {
        return u64::MAX;
    }
    let key = |x: f32| {
        let bits = i64::from(x.to_bits().cast_signed());
        if bits < 0 {
            i64::from(i32::MIN) - bits
        } else {
            bits
        }
    };
    if got == 0.0 && want == 0.0 && got.is_sign_negative() != want.is_sign_negative() {
        return u64::MAX;
    }
    key(got).abs_diff(key(want))
}

fn inputs(step: u32) -> impl Iterator<Item = Vec<f32>> {
    let count = (1u64 << 32).div_ceil(u64::from(step));
    let chunk = 1u64 << 16;
    (0..count.div_ceil(chunk)).map(move |c| {
        (c * chunk..((c + 1) * chunk).min(count))
            .map(|i| f32::from_bits((i * u64::from(step)) as u32))
            .collect()
    })
}

fn check(op: Unary, allowed: u64) {
    let exhaustive = std::env::var_os("TEGULA_EXHAUSTIVE").is_some();
    let step = if exhaustive { 1 } else { 4099 };
    let body = body_of(op);
    let mut lowerings = Compiled::all(&body);
    if exhaustive {
        // The interpreter would take days.
        lowerings.retain(|c| !c.is_evaluator());
    }
    let mut worst = vec![(0, 0.0); lowerings.len()];
    for chunk in inputs(step) {
        let want: Vec<f32> = chunk.iter().map(|&x| scalar::unary_f32(op, x)).collect();
        for (compiled, worst) in lowerings.iter().zip(&mut worst) {
            let out = compiled.apply(&[&chunk]);
            for ((&x, &y), &want) in chunk.iter().zip(&out).zip(&want) {
                let error = distance(y, want);
                if error > worst.0 {
                    *worst = (error, x);
                }
            }
        }
    }
    for (compiled, (error, x)) in lowerings.iter().zip(worst) {
        println!("{op:?} by {}: {error} ulp at {x:e}", compiled.name);
        assert!(
            error <= allowed,
            "{op:?} by {}: {error} units at {x:e}",
            compiled.name
        );
    }
}

#[test]
fn exp_and_log_are_within_two_units() {
    check(Unary::Exp, 2);
    check(Unary::Log, 2);
}

/// A separate test for each function, so that all inputs of one can be tested alone.
macro_rules! within_four_units {
    ($($name:ident: $op:ident,)*) => {
        $(
            #[test]
            fn $name() {
                check(Unary::$op, 4);
            }
        )*
    };
}

within_four_units! {
    expm1_is_within_four_units: Expm1,
    log1p_is_within_four_units: Log1p,
    logistic_is_within_four_units: Logistic,
    tanh_is_within_four_units: Tanh,
    erf_is_within_four_units: Erf,
    cbrt_is_within_four_units: Cbrt,
    rsqrt_is_within_four_units: Rsqrt,
    sin_is_within_four_units: Sin,
    cos_is_within_four_units: Cos,
    tan_is_within_four_units: Tan,
    sinh_is_within_four_units: Sinh,
    cosh_is_within_four_units: Cosh,
    asinh_is_within_four_units: Asinh,
    acosh_is_within_four_units: Acosh,
    atanh_is_within_four_units: Atanh,
    asin_is_within_four_units: Asin,
    acos_is_within_four_units: Acos,
}

/// Tests a function of two numbers by every lowering, within four units.
fn check_pairs(op: Binary, x: &[(f32, f32)]) {
    check_within(op, x, 4);
}

/// Tests a function of two numbers by every lowering.
fn check_within(op: Binary, x: &[(f32, f32)], allowed: u64) {
    let body = elementwise(Type::F32, 2, &|b, v| {
        binary(b, op, v[0], v[1]).expect("in the library")
    });
    let (a, b): (Vec<f32>, Vec<f32>) = x.iter().copied().unzip();
    for compiled in Compiled::all(&body) {
        let out = compiled.apply(&[&a, &b]);
        for (&(a, b), &y) in x.iter().zip(&out) {
            let want = scalar::binary_f32(op, a, b);
            let error = distance(y, want);
            assert!(
                error <= allowed,
                "{}: {op:?} of {a:e} and {b:e}: {y:e}, not {want:e}",
                compiled.name
            );
        }
    }
}

const SPECIAL: [f32; 20] = [
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
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::MAX,
    f32::MIN_POSITIVE,
    1e-45,
    -1e-45,
    16_777_216.0,
    16_777_217.0,
    1e-3,
];

#[test]
fn powers_are_within_four_units_and_follow_c() {
    let mut x = Vec::new();
    for a in SPECIAL {
        x.extend(SPECIAL.map(|b| (a, b)));
    }
    let mut next = random(1);
    for _ in 0..200_000 {
        let base = f32::from_bits(next());
        let near = base.abs().ln().abs().max(1e-3);
        let exponent = (next() as f32 / 2f32.powi(31) - 1.0) * 90.0 / near;
        x.push((base, exponent));
        x.push((base, (next() % 64) as f32 - 32.0));
    }
    check_pairs(Binary::Power, &x);
}

#[test]
fn angles_are_within_four_units() {
    let mut x = Vec::new();
    for a in SPECIAL {
        x.extend(SPECIAL.map(|b| (a, b)));
    }
    let mut next = random(1);
    for _ in 0..200_000 {
        let (a, b) = (f32::from_bits(next()), f32::from_bits(next()));
        x.push((a, b));
        // Numbers of similar magnitude.
        let factor = next() as f32 / 2f32.powi(31) - 1.0;
        x.push((a, a * factor));
        x.push((factor, next() as f32 / 2f32.powi(31) - 1.0));
    }
    check_pairs(Binary::Atan2, &x);
}

#[test]
fn remainders_are_exact() {
    let mut x = Vec::new();
    for a in SPECIAL {
        x.extend(SPECIAL.map(|b| (a, b)));
    }
    let mut next = random(1);
    for _ in 0..200_000 {
        let (a, b) = (f32::from_bits(next()), f32::from_bits(next()));
        x.push((a, b));
        // Numbers of similar magnitude, and integral multiples and their neighbours.
        let factor = next() as f32 / 2f32.powi(28);
        x.push((b * factor, b));
        let multiple = b * (next() % 1000) as f32;
        let near = f32::from_bits(multiple.to_bits().wrapping_add(next() % 3).wrapping_sub(1));
        x.push((near, b));
    }
    check_within(Binary::Remainder, &x, 0);
}

#[test]
fn functions_give_no_subnormal_numbers_but_zeros() {
    let tiny = [
        -88.0,
        -95.0,
        -103.0,
        -1e9,
        f32::MIN,
        f32::NEG_INFINITY,
        -87.336_55,
    ];
    for x in tiny {
        for op in [Unary::Exp, Unary::Logistic] {
            assert_eq!(scalar::unary_f32(op, x).to_bits(), 0, "{op:?} of {x}");
        }
    }
    let least = scalar::unary_f32(Unary::Exp, -87.336_54);
    assert!(least.is_normal());
    for x in [1e-40f32, 1e-45, 1.1e-38] {
        assert_eq!(
            scalar::unary_f32(Unary::Erf, -x).to_bits(),
            (-0f32).to_bits()
        );
    }
    assert_eq!(
        scalar::binary_f32(Binary::Power, 2.0, -126.0),
        f32::MIN_POSITIVE
    );
    assert_eq!(scalar::binary_f32(Binary::Power, 2.0, -127.0), 0.0);
    assert_eq!(
        scalar::binary_f32(Binary::Power, -2.0, -127.0).to_bits(),
        (-0f32).to_bits()
    );
}

/// Lanes flush the same results to zero as the scalar functions do, tested with every number near
/// the limits.
#[test]
fn lanes_flush_where_the_scalar_functions_do() {
    let near = |x: f32| {
        let bits = x.to_bits();
        (bits - 300..bits + 300).map(f32::from_bits)
    };
    let x: Vec<f32> = near(-87.336_54)
        .chain(near(-103.0))
        .chain(near(f32::MIN_POSITIVE))
        .chain(near(-f32::MIN_POSITIVE))
        .collect();
    for op in [Unary::Exp, Unary::Logistic, Unary::Erf, Unary::Tanh] {
        for compiled in Compiled::all(&body_of(op)) {
            let out = compiled.apply(&[&x]);
            for (&x, &y) in x.iter().zip(&out) {
                let want = scalar::unary_f32(op, x);
                let error = distance(y, want);
                assert!(
                    error <= 4,
                    "{}: {op:?} of {x:e}: {y:e}, not {want:e}",
                    compiled.name
                );
            }
        }
    }
}
