//! Bits and bounds of complex numbers: `bitcast-convert`, `bitcast` and `clamp`, on every target
//! what the evaluator says.

use tegula::random_input::random_array;
use tegula::{Options, Target, Tensor, compile};
use tegula_ir::{ArrayShape, ElementType, Literal, Scalar};
use tegula_tests::judge::assert_agrees;
use tegula_tests::random::Regime;
use tegula_tests::read;

fn array(ty: ElementType, dims: &[i64], seed: u64) -> Literal {
    random_array(&ArrayShape::new(ty, dims), seed).expect("a small array")
}

/// A program of one input on every target, the simulated TPU as well.
fn holds(text: &str, inputs: &[Literal]) {
    let module = read(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_agrees(&module, inputs, Regime::Dyadic);
    let run = |target| {
        let options = Options {
            target,
            ..Options::default()
        };
        let executable = compile(&module, &options).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let buffers: Vec<Tensor> = inputs.iter().cloned().map(Tensor::from).collect();
        let outputs = executable.run(buffers.iter());
        let outputs = outputs.unwrap_or_else(|e| panic!("{target:?}: {e}\n{text}"));
        outputs
            .into_iter()
            .map(Tensor::into_literal)
            .collect::<Vec<_>>()
    };
    assert_eq!(run(Target::Tpu), run(Target::Interp), "{text}");
}

/// `to` of as many bits as `dims` elements of `from`.
fn bitcast(operation: &str, from: ElementType, dims: &[i64], to: &str) {
    let shape = ArrayShape::new(from, dims);
    // An operation in front, so that the bitcast is in a kernel with others.
    let text = format!(
        "HloModule m ENTRY e {{ p = {shape} parameter(0) r = {shape} reverse(p), dimensions={{0}}
           ROOT b = {to} {operation}(r) }}"
    );
    holds(&text, &[array(from, dims, 5)]);
}

#[test]
fn bits_of_complex_numbers() {
    use ElementType::{C64, C128, S64, U4, U64};
    for (from, dims, to) in [
        (C64, &[2, 3][..], "c64[2,3]"),
        (C64, &[40], "c64[40]"),
        (C128, &[2, 3], "c128[2,3]"),
        (C64, &[2, 2], "c128[2]"),
        (C128, &[3], "c64[3,2]"),
        (C64, &[2, 3], "s64[2,3]"),
        (C64, &[2, 3], "f64[2,3]"),
        (S64, &[2, 3], "c64[2,3]"),
        (C64, &[5], "f32[5,2]"),
        (C128, &[5], "u8[5,16]"),
        (C128, &[5], "u4[5,32]"),
        (C128, &[3], "s2[3,64]"),
        (C64, &[3], "u1[3,64]"),
        (U64, &[3, 2], "c128[3]"),
        (U4, &[3, 32], "c128[3]"),
        (U4, &[3, 16], "c64[3]"),
    ] {
        bitcast("bitcast-convert", from, dims, to);
    }
    bitcast("bitcast", C64, &[2, 3], "c64[6]");
    bitcast("bitcast", C128, &[2, 3], "c64[2,6]");
}

#[test]
fn complex_numbers_between_bounds() {
    for (ty, bound) in [
        ("c64", "[]"),
        ("c64", "[3,7]"),
        ("c128", "[]"),
        ("c128", "[3,7]"),
    ] {
        let text = format!(
            "HloModule m ENTRY e {{
               low = {ty}{bound} parameter(0) x = {ty}[3,7] parameter(1) high = {ty}{bound} parameter(2)
               c = {ty}[3,7] clamp(low, x, high) ROOT n = {ty}[3,7] negate(c) }}"
        );
        let element = ElementType::from_name(ty).expect("a type");
        let bounds: &[i64] = if bound == "[]" { &[] } else { &[3, 7] };
        for seed in 0..4 {
            let inputs = [
                array(element, bounds, seed),
                array(element, &[3, 7], seed + 10),
                array(element, bounds, seed + 20),
            ];
            holds(&text, &inputs);
        }
    }
    // In a computation on single elements.
    let text = "HloModule m
        f { a = c64[] parameter(0) b = c64[] parameter(1) ROOT c = c64[] clamp(a, b, a) }
        ENTRY e { x = c64[5] parameter(0) y = c64[5] parameter(1)
          ROOT m = c64[5] map(x, y), dimensions={0}, to_apply=f }";
    holds(
        text,
        &[
            array(ElementType::C64, &[5], 1),
            array(ElementType::C64, &[5], 2),
        ],
    );
}

/// Quotients and functions at infinities and NaN, many at once (in lanes) and alone.
#[test]
fn infinities() {
    /// The parts of a complex number.
    type Number = (f64, f64);
    let special = [0.0, 1.0, -2.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let numbers: Vec<Number> = special
        .iter()
        .flat_map(|&re| special.iter().map(move |&im| (re, im)))
        .collect();
    let pairs: Vec<_> = numbers
        .iter()
        .flat_map(|&a| numbers.iter().map(move |&b| [a, b]))
        .collect();
    let is = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan() || (a - b).abs() < 1e-6;
    for ty in [ElementType::C64, ElementType::C128] {
        for ops in [
            "divide(a, b)",
            "rsqrt(a)",
            "logistic(a)",
            "tanh(a)",
            "exponential-minus-one(a)",
        ] {
            for count in [pairs.len(), 1] {
                let text = format!(
                    "HloModule m ENTRY e {{ a = {ty}[{count}] parameter(0) b = {ty}[{count}] parameter(1)
                       ROOT r = {ty}[{count}] {ops} }}"
                );
                let module = read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
                let executables =
                    [Target::Interp, Target::Plan, Target::Cpu, Target::Tpu].map(|target| {
                        let options = Options {
                            target,
                            ..Options::default()
                        };
                        compile(&module, &options).unwrap_or_else(|e| panic!("{e}\n{text}"))
                    });
                // One kernel for all that are done alone.
                let chunks = pairs.chunks(count).step_by(if count == 1 { 7 } else { 1 });
                for chunk in chunks {
                    let side = |of: fn(&[Number; 2]) -> Number| {
                        let values = chunk.iter().map(of).map(|(re, im)| Scalar::Complex(re, im));
                        let shape = ArrayShape::new(ty, &[count as i64]);
                        Tensor::from(Literal::from_scalars(&shape, values).expect("as many"))
                    };
                    let inputs = [side(|pair| pair[0]), side(|pair| pair[1])];
                    let results = executables.each_ref().map(|executable| {
                        let results = executable.run(inputs.iter());
                        let results = results.unwrap_or_else(|e| panic!("{e}\n{text}"));
                        results[0].literal().scalars().collect::<Vec<_>>()
                    });
                    for other in &results[1..] {
                        for ((&pair, a), b) in chunk.iter().zip(&results[0]).zip(other) {
                            let (Scalar::Complex(a, c), Scalar::Complex(b, d)) = (a, b) else {
                                panic!("{a} {b}");
                            };
                            assert!(
                                is(*a, *b) && is(*c, *d),
                                "{ops} {pair:?}: ({a}, {c}) ({b}, {d})"
                            );
                        }
                    }
                }
            }
        }
    }
}
