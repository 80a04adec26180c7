//! `dot` and `convolution` of every combination of element types: one answer on every target,
//! and XLA's where that is known.
//!
//! `tests/data/product_types.txt` has XLA's answers (`scripts/product_types.py` made it).

use tegula::{Arg, Buffer, Options, Target, compile, read};
use tegula_ir::helpers::product_type;
use tegula_ir::{ArrayShape, ElementType, Literal, Scalar};

const TERMS: i64 = 4;

/// The operand of a side: small fractions for floats, the largest numbers for integers. The
/// same as in the script.
fn operand(ty: ElementType, side: usize) -> Vec<Scalar> {
    let fractions = [[0.5, 0.5, 1.5, 2.0], [3.0, 2.0, -1.0, -0.25]][side];
    if ty == ElementType::Pred {
        let values = [[true, false, true, true], [true, true, true, false]][side];
        return values.map(Scalar::Bool).to_vec();
    }
    if ty.is_signed() {
        let most = i64::MAX >> (64 - ty.bits());
        let values = [[most, most, -most, 3], [most, 5, 7, 2]][side];
        return values.map(Scalar::Int).to_vec();
    }
    if ty.is_integer() {
        let most = u64::MAX >> (64 - ty.bits());
        let values = [[most, most, 1, 3], [most, 5, 7, 2]][side];
        return values.map(Scalar::Uint).to_vec();
    }
    if ty.is_complex() {
        let imaginary = [[1.0, 2.0, -0.5, 3.0], [0.5, 1.0, 1.0, -1.0]][side];
        let pairs = fractions.into_iter().zip(imaginary);
        return pairs.map(|(re, im)| Scalar::Complex(re, im)).collect();
    }
    fractions.map(Scalar::Float).to_vec()
}

fn input(ty: ElementType, side: usize) -> Buffer {
    let shape = ArrayShape::new(ty, &[TERMS]);
    let values = operand(ty, side).into_iter();
    Buffer::from(Literal::from_scalars(&shape, values).expect("four numbers"))
}

/// A dot, and a convolution that sums the same products, for each type of the result.
fn program(lhs: ElementType, rhs: ElementType, results: &[ElementType]) -> String {
    let mut text = format!(
        "HloModule m ENTRY e {{
           a = {lhs}[{TERMS}] parameter(0) b = {rhs}[{TERMS}] parameter(1)
           x = {lhs}[1,{TERMS},1] reshape(a) k = {rhs}[{TERMS},1,1] reshape(b)\n"
    );
    let (mut names, mut shapes) = (Vec::new(), Vec::new());
    for ty in results {
        text += &format!(
            "d_{ty} = {ty}[] dot(a, b), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
             c_{ty} = {ty}[1,1,1] convolution(x, k), window={{size={TERMS}}}, dim_labels=b0f_0io->b0f\n"
        );
        names.extend([format!("d_{ty}"), format!("c_{ty}")]);
        shapes.extend([format!("{ty}[]"), format!("{ty}[1,1,1]")]);
    }
    text + &format!(
        "ROOT t = ({}) tuple({}) }}",
        shapes.join(", "),
        names.join(", ")
    )
}

/// What a target gives: for each type of the result, the dot and the convolution.
fn run(text: &str, target: Target, inputs: &[Buffer]) -> Vec<[Scalar; 2]> {
    let module = read(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let options = Options {
        target,
        ..Options::default()
    };
    let executable =
        compile(&module, &options).unwrap_or_else(|e| panic!("{target:?}: {e}\n{text}"));
    let arguments = inputs.iter().map(Arg::Borrowed).collect();
    let outputs = executable
        .run(arguments)
        .unwrap_or_else(|e| panic!("{target:?}: {e}\n{text}"));
    let scalar = |buffer: &Buffer| buffer.literal().scalar(0).expect("one element");
    outputs
        .chunks(2)
        .map(|pair| [scalar(&pair[0]), scalar(&pair[1])])
        .collect()
}

/// The parts of a number, exactly where it is an integer.
fn parts(scalar: Scalar) -> (Option<i128>, [f64; 2]) {
    match scalar {
        Scalar::Bool(x) => (Some(x.into()), [f64::from(u8::from(x)), 0.0]),
        Scalar::Int(x) => (Some(x.into()), [x as f64, 0.0]),
        Scalar::Uint(x) => (Some(x.into()), [x as f64, 0.0]),
        Scalar::Float(x) => (None, [x, 0.0]),
        Scalar::Complex(re, im) => (None, [re, im]),
    }
}

/// Whether two results are equal, up to the rounding of sums in another order.
fn agree(target: Target, a: Scalar, b: Scalar, [sums, result]: [ElementType; 2]) -> bool {
    let bits = |ty: ElementType| {
        let part = ty.complex_part().unwrap_or(ty);
        let bits = part.float_format()?.mantissa_bits as i32;
        // A TPU's matrix units round operands of f32 to bf16.
        Some(if target == Target::Tpu {
            bits.min(7)
        } else {
            bits
        })
    };
    let ((a_exact, a), (b_exact, b)) = (parts(a), parts(b));
    let Some(bits) = bits(sums).into_iter().chain(bits(result)).min() else {
        return a_exact == b_exact;
    };
    let close = |x: f64, y: f64| {
        x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= 4.0 * 0.5f64.powi(bits) * y.abs()
    };
    close(a[0], b[0]) && close(a[1], b[1])
}

fn parsed(ty: ElementType, text: &str) -> Scalar {
    let float = |text: &str| text.parse::<f64>().expect("a number");
    match text.split_once(',') {
        Some((re, im)) => Scalar::Complex(float(re), float(im)),
        None if ty == ElementType::Pred => Scalar::Bool(text != "0"),
        None if ty.is_signed() => Scalar::Int(text.parse().expect("an integer")),
        None if ty.is_integer() => Scalar::Uint(text.parse().expect("an integer")),
        None => Scalar::Float(float(text)),
    }
}

#[test]
fn what_xla_gives() {
    let table = include_str!("../../data/product_types.txt");
    let mut lines = table.lines();
    let named = |name: &str| ElementType::from_name(name).expect("a type");
    let header = lines.next().expect("a header").split_whitespace().skip(1);
    let results: Vec<ElementType> = header.map(named).collect();
    let mut seen = 0;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (lhs, rhs) = (named(words[0]), named(words[1]));
        let text = program(lhs, rhs, &results);
        let inputs = [input(lhs, 0), input(rhs, 1)];
        for target in [Target::Interp, Target::Plan, Target::Cpu, Target::Tpu] {
            let found = run(&text, target, &inputs);
            for ((&ty, found), expected) in results.iter().zip(found).zip(&words[2..]) {
                let expected = parsed(ty, expected);
                let sums = product_type(lhs, rhs, ty);
                for found in found {
                    assert!(
                        agree(target, found, expected, [sums, ty]),
                        "{target:?}: {lhs} x {rhs} -> {ty} is {found}, not {expected}"
                    );
                    seen += 1;
                }
            }
        }
    }
    assert_eq!(seen, results.len().pow(3) * 2 * 4);
}

/// The types that XLA's table lacks: narrow integers and small floats.
#[test]
fn one_answer_on_every_target() {
    let narrow: Vec<ElementType> = ElementType::ALL
        .iter()
        .copied()
        .filter(|ty| ty.bits() < 8 || ty.is_float() && ty.bits() == 8)
        .collect();
    let others = [
        ElementType::S8,
        ElementType::U32,
        ElementType::BF16,
        ElementType::F32,
        ElementType::C64,
    ];
    let all: Vec<ElementType> = narrow.iter().copied().chain(others).collect();
    for &lhs in &all {
        for &rhs in &all {
            let mut results = [&others[..], &[lhs, rhs]].concat();
            results.sort_unstable();
            results.dedup();
            let text = program(lhs, rhs, &results);
            let inputs = [input(lhs, 0), input(rhs, 1)];
            let expected = run(&text, Target::Interp, &inputs);
            for target in [Target::Plan, Target::Cpu] {
                let found = run(&text, target, &inputs);
                for ((&ty, found), expected) in results.iter().zip(found).zip(&expected) {
                    let sums = product_type(lhs, rhs, ty);
                    for (found, expected) in found.into_iter().zip(*expected) {
                        assert!(
                            agree(target, found, expected, [sums, ty]),
                            "{target:?}: {lhs} x {rhs} -> {ty} is {found}, not {expected}"
                        );
                    }
                }
            }
        }
    }
}
