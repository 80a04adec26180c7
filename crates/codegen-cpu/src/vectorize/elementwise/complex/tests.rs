//! Tests of functions and quotients of complex numbers: every lowering is compared with the
//! evaluator, also for zeros, infinities and NaN.

use super::super::{Lanes, compute};
use crate::simd::builder::Builder;
use crate::simd::ir::{Body, Type, V};
use crate::simd::mathlib::sine_table;
use crate::simd::test_harness::{Compiled, random};
use crate::simd::tests::pointer;
use std::fmt::Debug;
use tegula_fusion::kernel::ScalarOp;
use tegula_ir::{Binary, ElementType, Unary};
use tegula_scalar as scalar;

/// The parts of a complex type.
trait Part: Copy + PartialEq + Into<f64> + Debug {
    const REAL: ElementType;
    const COMPLEX: ElementType;
    const LANE: Type;
    /// The permitted error of functions.
    const UNITS: Units;
    /// A result of which is less than this may be 0 instead, or off by as much.
    const TINY: f64;
    /// The nearest number.
    fn of(x: f64) -> Self;
    /// The bits, in the low part of a word.
    fn bits(self) -> u128;
    fn of_bits(bits: u128) -> Self;
    /// The distance to the next larger magnitude.
    fn unit(self) -> f64;
    fn constant(self, b: &mut Builder) -> V;
    /// Numbers at the limits of the type.
    fn limits() -> Vec<Self>;
}

impl Part for f32 {
    const REAL: ElementType = ElementType::F32;
    const COMPLEX: ElementType = ElementType::C64;
    const LANE: Type = Type::F32;
    const UNITS: Units = Units {
        own: 1.0,
        beside: 1e-6,
        signs: true,
    };
    const TINY: f64 = 0.0;
    fn of(x: f64) -> Self {
        x as f32
    }
    fn bits(self) -> u128 {
        self.to_bits().into()
    }
    fn of_bits(bits: u128) -> Self {
        Self::from_bits(bits as u32)
    }
    fn unit(self) -> f64 {
        f64::from(self.abs().next_up()) - f64::from(self.abs())
    }
    fn constant(self, b: &mut Builder) -> V {
        b.f32(self)
    }
    fn limits() -> Vec<Self> {
        vec![f32::MAX, f32::MIN_POSITIVE, 1e-45, -1e-45, 700.0]
    }
}

impl Part for f64 {
    const REAL: ElementType = ElementType::F64;
    const COMPLEX: ElementType = ElementType::C128;
    const LANE: Type = Type::F64;
    // Both sides are wrong by some units, and sums of parts cancel.
    const UNITS: Units = Units {
        own: 8.0,
        beside: 4.0,
        signs: true,
    };
    const TINY: f64 = 1e-290;
    fn of(x: f64) -> Self {
        x
    }
    fn bits(self) -> u128 {
        self.to_bits().into()
    }
    fn of_bits(bits: u128) -> Self {
        Self::from_bits(bits as u64)
    }
    fn unit(self) -> f64 {
        self.abs().next_up() - self.abs()
    }
    fn constant(self, b: &mut Builder) -> V {
        b.f64(self)
    }
    fn limits() -> Vec<Self> {
        vec![1e300, -1e200, f64::MIN_POSITIVE, 5e-324, -1e-200, 700.0]
    }
}

type Number<T> = [T; 2];

/// A body for an operation on this many operands, each loaded from two arrays.
fn body_of<T: Part>(operands: usize, f: &dyn Fn(&mut Builder, &[Lanes]) -> Lanes) -> Body {
    let mut b = Builder::new();
    let bytes = size_of::<T>() as u32;
    let part = |b: &mut Builder| -> V {
        let access = pointer(b, bytes);
        b.load(access, T::LANE, None)
    };
    let loaded: Vec<Lanes> = (0..operands)
        .map(|_| [part(&mut b), part(&mut b)].into())
        .collect();
    let out = [pointer(&mut b, bytes), pointer(&mut b, bytes)];
    for (value, access) in f(&mut b, &loaded).into_iter().zip(out) {
        b.store(access, value, None, None);
    }
    b.finish()
}

/// The results of a lowering.
fn run<T: Part>(compiled: &Compiled, body: &Body, operands: &[&[Number<T>]]) -> Vec<Number<T>> {
    let parts = operands.iter().flat_map(|x| [0, 1].map(|part| (x, part)));
    let arrays: Vec<Vec<T>> = parts
        .map(|(x, part)| x.iter().map(|z| z[part]).collect())
        .collect();
    let n = operands[0].len();
    let mut out = [vec![T::of(0.0); n], vec![T::of(0.0); n]];
    let mut inputs: Vec<u64> = arrays.iter().map(|a| a.as_ptr() as u64).collect();
    inputs.extend(out.iter_mut().map(|a| a.as_mut_ptr() as u64));
    inputs.extend(body.tables.iter().map(|_| sine_table().as_ptr() as u64));
    // SAFETY: the arrays have as many elements as there are lanes.
    unsafe { compiled.run(&inputs, n as u64) };
    out[0].iter().zip(&out[1]).map(|(&x, &y)| [x, y]).collect()
}

fn bits<T: Part>([re, im]: Number<T>) -> u128 {
    im.bits() << (8 * size_of::<T>()) | re.bits()
}

fn number<T: Part>(bits: u128) -> Number<T> {
    [bits, bits >> (8 * size_of::<T>())].map(T::of_bits)
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

fn is_near<T: Part>(got: T, want: T, larger: f64, units: Units) -> bool {
    let (near, wanted): (f64, f64) = (got.into(), want.into());
    let any_sign = !units.signs && larger.is_infinite();
    if any_sign && !near.is_nan() && !wanted.is_nan() {
        return true;
    }
    if near.is_nan() || wanted.is_nan() || wanted.is_infinite() {
        return near.is_nan() && wanted.is_nan() || near == wanted;
    }
    if near == wanted {
        return !units.signs || near.is_sign_negative() == wanted.is_sign_negative();
    }
    let error = (near - wanted).abs();
    let beside = units.beside * T::of(larger).unit();
    error <= (units.own * want.unit()).max(beside).max(T::TINY)
}

const SPECIAL: [f64; 21] = [
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
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    16_777_217.0,
    std::f64::consts::PI,
    -std::f64::consts::FRAC_PI_2,
    88.5,
    -103.0,
    1e3,
    -2e6,
];

/// All pairs of special numbers, and random numbers of similar and of any magnitudes.
fn numbers<T: Part>(random_ones: usize) -> Vec<Number<T>> {
    let mut special: Vec<T> = SPECIAL.map(T::of).to_vec();
    special.extend(T::limits());
    let mut all = Vec::new();
    for &re in &special {
        all.extend(special.iter().map(|&im| [re, im]));
    }
    let mut next = random(7);
    let mut near = move |scale: f64| T::of((f64::from(next()) / 2f64.powi(31) - 1.0) * scale);
    for _ in 0..random_ones {
        all.push([near(2.0), near(2.0)]);
        all.push([near(30.0), near(1000.0)]);
        all.push([near(90.0), near(3.0)]);
    }
    let mut next = random(7);
    let mut any = move || T::of_bits(u128::from(next()) | u128::from(next()) << 32);
    for _ in 0..random_ones {
        all.push([any(), any()]);
    }
    all
}

fn check<T: Part>(
    what: &str,
    units: Units,
    operands: &[&[Number<T>]],
    f: &dyn Fn(&mut Builder, &[Lanes]) -> Lanes,
    want: &dyn Fn(&[Number<T>]) -> Option<u128>,
) {
    let body = body_of::<T>(operands.len(), f);
    let n = operands[0].len();
    let wanted: Vec<Number<T>> = (0..n)
        .map(|i| {
            let x: Vec<Number<T>> = operands.iter().map(|x| x[i]).collect();
            number(want(&x).expect("the evaluator has it"))
        })
        .collect();
    for compiled in Compiled::all(&body) {
        let got = run(&compiled, &body, operands);
        for (i, (got, want)) in got.iter().zip(&wanted).enumerate() {
            let parts: [f64; 2] = want.map(Into::into);
            let larger = parts[0].abs().max(parts[1].abs());
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
    check_unary_of::<f32>(op);
    check_unary_of::<f64>(op);
}

fn check_unary_of<T: Part>(op: Unary) {
    let to = if op == Unary::Abs {
        T::REAL
    } else {
        T::COMPLEX
    };
    let mut x = numbers::<T>(2_000);
    if op == Unary::Logistic {
        // Where `e^-z` underflows in `f64`, the evaluator's zero has lost its sign.
        x.retain(|z| z[0].into() < 300.0);
    }
    let scalar = ScalarOp::Unary(op);
    check(
        &format!("{op:?}"),
        T::UNITS,
        &[&x],
        &|b, x| compute(b, &scalar, T::COMPLEX, to, x).expect("has lanes"),
        &|x| scalar::apply_unary(op, T::COMPLEX, bits(x[0])),
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
fn pairs<T: Part>() -> [Vec<Number<T>>; 2] {
    let few: Vec<Number<T>> = numbers(200);
    let mut all = [Vec::new(), Vec::new()];
    for (i, &x) in few.iter().enumerate() {
        for j in 0..60 {
            all[0].push(x);
            all[1].push(few[(i * 31 + j * 67) % few.len()]);
        }
        // With itself, and with a multiple.
        all[0].extend([x, x]);
        all[1].extend([x, x.map(|part| T::of(part.into() * 3.0))]);
    }
    all
}

fn divided(b: &mut Builder, ty: ElementType, x: &[Lanes]) -> Lanes {
    compute(b, &ScalarOp::Binary(Binary::Divide), ty, ty, x).expect("has lanes")
}

fn check_quotients<T: Part>() {
    let [x, y] = pairs::<T>();
    let want =
        |x: &[Number<T>]| scalar::apply_binary(Binary::Divide, T::COMPLEX, bits(x[0]), bits(x[1]));
    let f = |b: &mut Builder, x: &[Lanes]| divided(b, T::COMPLEX, x);
    check("the quotient", NONE, &[&x, &y], &f, &want);
}

#[test]
fn quotients_are_the_same() {
    check_quotients::<f32>();
    check_quotients::<f64>();
}

fn check_quotients_by_real_numbers<T: Part>() {
    let [x, y] = pairs::<T>();
    check(
        "the quotient by a real number",
        NONE,
        &[&x, &y],
        &|b, x| {
            let real = [x[1][0]].as_slice().into();
            let c = compute(b, &ScalarOp::Convert, T::REAL, T::COMPLEX, &[real]);
            divided(b, T::COMPLEX, &[x[0].clone(), c.expect("has lanes")])
        },
        &|x| {
            let real = bits([x[1][0], T::of(0.0)]);
            scalar::apply_binary(Binary::Divide, T::COMPLEX, bits(x[0]), real)
        },
    );
}

#[test]
fn quotients_by_real_numbers_are_the_same() {
    check_quotients_by_real_numbers::<f32>();
    check_quotients_by_real_numbers::<f64>();
}

/// The permitted error of powers: an angle near a quarter turn may be on either side of it.
fn units_of_powers<T: Part>(growth: f64) -> Units {
    Units {
        own: T::UNITS.own * growth,
        beside: (T::UNITS.beside * growth).max(1e-3),
        signs: false,
    }
}

fn check_powers_by_constants<T: Part>(growth: f64) {
    let x = numbers::<T>(2_000);
    let scalar = ScalarOp::Binary(Binary::Power);
    for exponent in [0.0, 1.0, 2.0, -1.0, 0.5, -0.5, 1.5, 3.0, -16.0, 15.75] {
        let exponent = [exponent, 0.0].map(T::of);
        check(
            &format!("the power of {exponent:?}"),
            units_of_powers::<T>(growth),
            &[&x],
            &|b, x| {
                let exponent = exponent.map(|part| part.constant(b));
                let operands = [x[0].clone(), exponent.into()];
                compute(b, &scalar, T::COMPLEX, T::COMPLEX, &operands).expect("has lanes")
            },
            &|x| scalar::apply_binary(Binary::Power, T::COMPLEX, bits(x[0]), bits(exponent)),
        );
    }
}

#[test]
fn powers_by_constants() {
    check_powers_by_constants::<f32>(1.0);
    // Errors of logarithm and angle are multiplied with the exponent, and with their size.
    check_powers_by_constants::<f64>(1e4);
}

#[test]
fn powers_by_complex_numbers() {
    let near = |z: &Number<f32>| z.iter().all(|part| part.abs() < 100.0);
    let [x, y] = pairs::<f32>();
    let both = x.iter().zip(&y).filter(|(x, y)| near(x) && near(y));
    let (x, y): (Vec<_>, Vec<_>) = both.unzip();
    let scalar = ScalarOp::Binary(Binary::Power);
    let c64 = ElementType::C64;
    check(
        "the power",
        units_of_powers::<f32>(1.0),
        &[&x, &y],
        &|b, x| compute(b, &scalar, c64, c64, x).expect("has lanes"),
        &|x| scalar::apply_binary(Binary::Power, c64, bits(x[0]), bits(x[1])),
    );
}
