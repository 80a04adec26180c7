//! Tests of functions and quotients of complex numbers: every lowering is compared with the
//! evaluator, also for zeros, infinities and NaN.

use super::{Lanes, compute};
use crate::simd::builder::Builder;
use crate::simd::ir::{Body, Type, V};
use crate::simd::mathlib::sine_table;
use crate::simd::test_harness::Compiled;
use crate::simd::tests::pointer;
use tegula_fusion::kernel::ScalarOp;
use tegula_ir::ElementType::{C64, F32};
use tegula_ir::{Binary, ElementType, Unary};
use tegula_scalar as scalar;

type Number = [f32; 2];

/// A body for an operation on this many operands, each loaded from two arrays.
fn body_of(operands: usize, f: &dyn Fn(&mut Builder, &[Lanes]) -> Lanes) -> Body {
    let mut b = Builder::new();
    let part = |b: &mut Builder| -> V {
        let access = pointer(b, 4);
        b.load(access, Type::F32, None)
    };
    let loaded: Vec<Lanes> = (0..operands)
        .map(|_| [part(&mut b), part(&mut b)].into())
        .collect();
    let out = [pointer(&mut b, 4), pointer(&mut b, 4)];
    for (value, access) in f(&mut b, &loaded).into_iter().zip(out) {
        b.store(access, value, None, None);
    }
    b.finish()
}

/// The results of a lowering.
fn run(compiled: &Compiled, body: &Body, operands: &[&[Number]]) -> Vec<Number> {
    let parts = operands.iter().flat_map(|x| [0, 1].map(|part| (x, part)));
    let arrays: Vec<Vec<f32>> = parts
        .map(|(x, part)| x.iter().map(|z| z[part]).collect())
        .collect();
    let n = operands[0].len();
    let mut out = [vec![0f32; n], vec![0f32; n]];
    let mut inputs: Vec<u64> = arrays.iter().map(|a| a.as_ptr() as u64).collect();
    inputs.extend(out.iter_mut().map(|a| a.as_mut_ptr() as u64));
    inputs.extend(body.tables.iter().map(|_| sine_table().as_ptr() as u64));
    // SAFETY: the arrays have as many elements as there are lanes.
    unsafe { compiled.run(&inputs, n as u64) };
    out[0].iter().zip(&out[1]).map(|(&x, &y)| [x, y]).collect()
}

fn bits([re, im]: Number) -> u128 {
    u128::from(im.to_bits()) << 32 | u128::from(re.to_bits())
}

fn number(bits: u128) -> Number {
    [bits, bits >> 32].map(|part| f32::from_bits(part as u32))
}

/// The permitted error of a part.
#[derive(Clone, Copy)]
struct Units {
    /// In units in the last place of the part itself.
    own: f64,
    /// Or in those of the larger part, because the smaller one may be the result of cancellation.
    beside: f64,
    /// Whether signs of zeros are compared, and parts beside an infinite part.
    signs: bool,
}

const NONE: Units = Units {
    own: 0.0,
    beside: 0.0,
    signs: true,
};
const ONE: Units = Units {
    own: 1.0,
    beside: 1e-6,
    signs: true,
};

fn is_near(got: f32, want: f32, larger: f32, units: Units) -> bool {
    let any_sign = !units.signs && larger.is_infinite();
    if any_sign && !got.is_nan() && !want.is_nan() {
        return true;
    }
    if got.is_nan() || want.is_nan() || want.is_infinite() {
        return got.is_nan() && want.is_nan() || got == want;
    }
    if got == want {
        return !units.signs || got.is_sign_negative() == want.is_sign_negative();
    }
    let unit = |x: f32| f64::from(x.abs().next_up()) - f64::from(x.abs());
    let error = (f64::from(got) - f64::from(want)).abs();
    error <= (units.own * unit(want)).max(units.beside * unit(larger))
}

const SPECIAL: [f32; 26] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    3.0,
    0.5,
    -0.5,
    1e-3,
    0.25,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::MAX,
    f32::MIN_POSITIVE,
    1e-45,
    -1e-45,
    16_777_217.0,
    std::f32::consts::PI,
    -std::f32::consts::FRAC_PI_2,
    88.5,
    -103.0,
    700.0,
    1e3,
    -2e6,
];

/// Deterministic random 32-bit numbers.
fn random() -> impl FnMut() -> u32 {
    let mut seed = 7u64;
    move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 32) as u32
    }
}

/// All pairs of special numbers, and random numbers of similar and of any magnitudes.
fn numbers(random_ones: usize) -> Vec<Number> {
    let mut all = Vec::new();
    for re in SPECIAL {
        all.extend(SPECIAL.map(|im| [re, im]));
    }
    let mut next = random();
    let mut near = move |scale: f32| (next() as f32 / 2f32.powi(31) - 1.0) * scale;
    for _ in 0..random_ones {
        all.push([near(2.0), near(2.0)]);
        all.push([near(30.0), near(1000.0)]);
        all.push([near(90.0), near(3.0)]);
    }
    let mut next = random();
    for _ in 0..random_ones {
        all.push([f32::from_bits(next()), f32::from_bits(next())]);
    }
    all
}

fn check(
    what: &str,
    units: Units,
    operands: &[&[Number]],
    f: &dyn Fn(&mut Builder, &[Lanes]) -> Lanes,
    want: &dyn Fn(&[Number]) -> Option<u128>,
) {
    let body = body_of(operands.len(), f);
    let n = operands[0].len();
    let wanted: Vec<Number> = (0..n)
        .map(|i| {
            let x: Vec<Number> = operands.iter().map(|x| x[i]).collect();
            number(want(&x).expect("the evaluator has it"))
        })
        .collect();
    for compiled in Compiled::all(&body) {
        let got = run(&compiled, &body, operands);
        for (i, (got, want)) in got.iter().zip(&wanted).enumerate() {
            let larger = want[0].abs().max(want[1].abs());
            for part in 0..2 {
                assert!(
                    is_near(got[part], want[part], larger, units),
                    "{}: {what} of {:?}: {got:?}, not {want:?}",
                    compiled.name,
                    operands.iter().map(|x| x[i]).collect::<Vec<_>>(),
                );
            }
        }
    }
}

fn check_unary(op: Unary) {
    let to = if op == Unary::Abs { F32 } else { C64 };
    let mut x = numbers(2_000);
    if op == Unary::Logistic {
        // Where `e^-z` underflows in `f64`, the evaluator's zero has lost its sign.
        x.retain(|z| z[0] < 300.0);
    }
    let scalar = ScalarOp::Unary(op);
    check(
        &format!("{op:?}"),
        ONE,
        &[&x],
        &|b, x| compute(b, &scalar, C64, to, x).expect("has lanes"),
        &|x| scalar::apply_unary(op, C64, bits(x[0])),
    );
}

#[test]
fn what_is_made_of_roots_and_quotients_is_nearly_the_same() {
    for op in [Unary::Abs, Unary::Sign, Unary::Sqrt, Unary::Rsqrt] {
        check_unary(op);
    }
}

#[test]
fn exponentials_and_logarithms_are_within_a_unit() {
    for op in [
        Unary::Exp,
        Unary::Expm1,
        Unary::Logistic,
        Unary::Log,
        Unary::Log1p,
        Unary::Cbrt,
    ] {
        check_unary(op);
    }
}

#[test]
fn circular_and_hyperbolic_functions_are_within_a_unit() {
    for op in [
        Unary::Sin,
        Unary::Cos,
        Unary::Tan,
        Unary::Sinh,
        Unary::Cosh,
        Unary::Tanh,
    ] {
        check_unary(op);
    }
}

/// Pairs each number with many others.
fn pairs() -> [Vec<Number>; 2] {
    let few = numbers(200);
    let mut all = [Vec::new(), Vec::new()];
    for (i, &x) in few.iter().enumerate() {
        for j in 0..60 {
            all[0].push(x);
            all[1].push(few[(i * 31 + j * 67) % few.len()]);
        }
        // With itself, and with a multiple.
        all[0].extend([x, x]);
        all[1].extend([x, x.map(|part| part * 3.0)]);
    }
    all
}

fn divided(b: &mut Builder, from: ElementType, x: &[Lanes]) -> Lanes {
    compute(b, &ScalarOp::Binary(Binary::Divide), from, C64, x).expect("has lanes")
}

#[test]
fn quotients_are_the_same() {
    let [x, y] = pairs();
    let want = |x: &[Number]| scalar::apply_binary(Binary::Divide, C64, bits(x[0]), bits(x[1]));
    check(
        "the quotient",
        NONE,
        &[&x, &y],
        &|b, x| divided(b, C64, x),
        &want,
    );
}

#[test]
fn quotients_by_real_numbers_are_the_same() {
    let [x, y] = pairs();
    check(
        "the quotient by a real number",
        NONE,
        &[&x, &y],
        &|b, x| {
            let c = compute(
                b,
                &ScalarOp::Convert,
                F32,
                C64,
                &[[x[1][0]].as_slice().into()],
            );
            divided(b, C64, &[x[0].clone(), c.expect("has lanes")])
        },
        &|x| {
            let real = bits([x[1][0], 0.0]);
            scalar::apply_binary(Binary::Divide, C64, bits(x[0]), real)
        },
    );
}

#[test]
fn powers_of_few_turns_are_within_a_unit() {
    let x = numbers(2_000);
    let scalar = ScalarOp::Binary(Binary::Power);
    for exponent in [0.0, 1.0, 2.0, -1.0, 0.5, -0.5, 1.5, 3.0, -16.0, 15.75] {
        check(
            &format!("the power of {exponent}"),
            Units {
                own: 1.0,
                beside: 1e-3,
                // An angle near a quarter turn may be on either side of it.
                signs: false,
            },
            &[&x],
            &|b, x| {
                let exponent = [b.f32(exponent), b.f32(0.0)];
                let operands = [x[0].clone(), exponent.into()];
                compute(b, &scalar, C64, C64, &operands).expect("has lanes")
            },
            &|x| scalar::apply_binary(Binary::Power, C64, bits(x[0]), bits([exponent, 0.0])),
        );
    }
}

/// Every kind of format, with numbers at its limits.
#[test]
fn numbers_are_rounded_to_formats() {
    use tegula_ir::ElementType::F64;
    let formats = [
        (8, 7),
        (5, 10),
        (5, 2),
        (4, 3),
        (8, 23),
        (1, 0),
        (2, 22),
        (8, 0),
        (6, 9),
    ];
    let singles: Vec<u32> = (0..=255u32)
        .flat_map(|exponent| {
            let mantissas = [
                0, 1, 0x7f_ffff, 0x40_0000, 0x3f_ffff, 0x00_8000, 0x01_8000, 0x1000,
            ];
            mantissas.map(|mantissa| exponent << 23 | mantissa)
        })
        .flat_map(|bits| [bits, bits | 1 << 31])
        .collect();
    for (exponent_bits, mantissa_bits) in formats {
        let op = ScalarOp::ReducePrecision {
            exponent_bits,
            mantissa_bits,
        };
        for ty in [F32, F64] {
            let (lane, bytes) = match ty {
                F32 => (Type::F32, 4),
                _ => (Type::F64, 8),
            };
            let mut b = Builder::new();
            let access = pointer(&mut b, bytes);
            let x = b.load(access, lane, None);
            let lanes = compute(&mut b, &op, ty, ty, &[Lanes::from_slice(&[x])]);
            let out = pointer(&mut b, bytes);
            b.store(out, lanes.expect("lanes")[0], None, None);
            let body = b.finish();
            // The same numbers in f64, and some that f32 lacks.
            let numbers: Vec<u64> = match ty {
                F32 => singles.iter().map(|&bits| u64::from(bits)).collect(),
                _ => singles
                    .iter()
                    .map(|&bits| f64::from(f32::from_bits(bits)).to_bits() ^ u64::from(bits & 1))
                    .collect(),
            };
            for compiled in Compiled::all(&body) {
                let mut given: Vec<u8> = Vec::new();
                for bits in &numbers {
                    given.extend(&bits.to_le_bytes()[..bytes as usize]);
                }
                let mut found = vec![0u8; given.len()];
                let inputs = [given.as_ptr() as u64, found.as_mut_ptr() as u64];
                // SAFETY: the arrays have as many elements as there are lanes.
                unsafe { compiled.run(&inputs, numbers.len() as u64) };
                for (i, &bits) in numbers.iter().enumerate() {
                    let wanted = scalar::apply_reduce_precision(
                        ty,
                        exponent_bits,
                        mantissa_bits,
                        bits.into(),
                    );
                    let mut word = [0; 16];
                    let at = i * bytes as usize;
                    word[..bytes as usize].copy_from_slice(&found[at..at + bytes as usize]);
                    let found = u128::from_le_bytes(word);
                    assert_eq!(
                        Some(found),
                        wanted,
                        "{}: {bits:x} of {ty} to {exponent_bits}, {mantissa_bits}",
                        compiled.name
                    );
                }
            }
        }
    }
}
