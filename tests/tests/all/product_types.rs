//! `dot` and `convolution` of every combination of element types: one answer on every target,
//! and XLA's where that is known.
//!
//! `tests/data/product_types.txt` has XLA's answers (`scripts/product_types.py` made it).

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tegula::{Options, Target, Tensor, compile};
use tegula_ir::helpers::product_type;
use tegula_ir::{ArrayShape, ElementType, Literal, Scalar};
use tegula_tests::read;

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
    // It has no negative numbers, and what a NaN becomes is not the question.
    let fractions = match ty {
        ElementType::F8E8M0FNU => fractions.map(f64::abs),
        _ => fractions,
    };
    fractions.map(Scalar::Float).to_vec()
}

fn input(ty: ElementType, side: usize) -> Tensor {
    let shape = ArrayShape::new(ty, &[TERMS]);
    let values = operand(ty, side).into_iter();
    Tensor::from(Literal::from_scalars(&shape, values).expect("four numbers"))
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
fn run(text: &str, target: Target, inputs: &[Tensor]) -> Vec<[Scalar; 2]> {
    let module = read(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let options = Options {
        target,
        ..Options::default()
    };
    let executable =
        compile(&module, &options).unwrap_or_else(|e| panic!("{target:?}: {e}\n{text}"));
    let arguments = inputs.iter();
    let outputs = executable
        .run(arguments)
        .unwrap_or_else(|e| panic!("{target:?}: {e}\n{text}"));
    let scalar = |buffer: &Tensor| buffer.literal().scalar(0).expect("one element");
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

/// A number of XLA's. It keeps integers of fewer than 8 bits in wider ones, whose upper bits say
/// nothing.
fn parsed(ty: ElementType, text: &str) -> Scalar {
    let unused = 64 - ty.bits().min(64);
    let float = |text: &str| text.parse::<f64>().expect("a number");
    match text.split_once(',') {
        Some((re, im)) => Scalar::Complex(float(re), float(im)),
        None if ty == ElementType::Pred => Scalar::Bool(text != "0"),
        None if ty.is_signed() => {
            let wide: i64 = text.parse().expect("an integer");
            Scalar::Int(wide << unused >> unused)
        }
        None if ty.is_integer() => {
            let wide: u64 = text.parse().expect("an integer");
            Scalar::Uint(wide << unused >> unused)
        }
        None => Scalar::Float(float(text)),
    }
}

/// A row of the table: what XLA gives for a dot and a convolution of two types, by type of the
/// result; `None` where it takes no such program.
struct Row {
    operands: [ElementType; 2],
    results: Vec<[Option<Scalar>; 2]>,
}

/// XLA's answers: the types, and a row for each two of them.
fn table() -> (Vec<ElementType>, Vec<Row>) {
    let mut lines = include_str!("../../data/product_types.txt").lines();
    let named = |name: &str| ElementType::from_name(name).expect("a type");
    let header = lines.next().expect("a header").split_whitespace().skip(1);
    let types: Vec<ElementType> = header.map(named).collect();
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let value = |ty, word: &str| (!word.starts_with('!')).then(|| parsed(ty, word));
        let pairs = types.iter().zip(&words[2..]).map(|(&ty, word)| {
            let (dot, convolution) = word.split_once('|').unwrap_or((word, word));
            [value(ty, dot), value(ty, convolution)]
        });
        Row {
            operands: [named(words[0]), named(words[1])],
            results: pairs.collect(),
        }
    };
    let rows = lines
        .filter(|line| !line.starts_with('#'))
        .map(row)
        .collect();
    (types, rows)
}

/// The real part of the sum, exactly.
fn real_sum(operands: [ElementType; 2]) -> f64 {
    let [lhs, rhs] = [0, 1].map(|side| {
        let values = input(operands[side], side);
        let values = values.literal().scalars().map(|x| parts(x).1);
        values.collect::<Vec<[f64; 2]>>()
    });
    let products = lhs.iter().zip(&rhs);
    products.map(|(a, b)| a[0] * b[0] - a[1] * b[1]).sum()
}

/// Whether the result's type has no number for a sum, so that what becomes of it is up to who
/// converts it: a float beyond the integers of a type, which we saturate and XLA:CPU does too or not,
/// depending on the loop; and a complex number as `pred`, which it truncates to 8 bits on the way.
fn has_no_number(real: f64, sums: ElementType, result: ElementType) -> bool {
    if !sums.is_float() && !sums.is_complex() {
        return false;
    }
    if result == ElementType::Pred {
        return sums.is_complex() && (real.abs() < 1.0 || real.abs() >= 256.0);
    }
    let bits = result.bits() as i32;
    let (least, most) = match result.is_signed() {
        true => (-2f64.powi(bits - 1), 2f64.powi(bits - 1)),
        false => (0.0, 2f64.powi(bits)),
    };
    result.is_integer() && !(least..most).contains(&real.trunc())
}

/// How many answers of a row are XLA's, how many are not where the type has no number for the sum,
/// and how many are wrong.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    equal: usize,
    beyond: usize,
    wrong: usize,
}

/// Checks a row on a target: against XLA's answers, and elsewhere against the evaluator's.
fn check_row(
    target: Target,
    types: &[ElementType],
    row: &Row,
    evaluated: &[[Scalar; 2]],
) -> Counts {
    let [lhs, rhs] = row.operands;
    let inputs = [input(lhs, 0), input(rhs, 1)];
    let found = run(&program(lhs, rhs, types), target, &inputs);
    let real = real_sum(row.operands);
    let mut counts = Counts::default();
    for (((&ty, found), expected), evaluated) in
        types.iter().zip(found).zip(&row.results).zip(evaluated)
    {
        let sums = product_type(lhs, rhs, ty);
        for ((found, xla), evaluated) in found.into_iter().zip(expected).zip(evaluated) {
            let is = |answer| agree(target, found, answer, [sums, ty]);
            let as_evaluated = is(*evaluated);
            match xla {
                Some(answer) if is(*answer) => counts.equal += 1,
                Some(_) if as_evaluated && has_no_number(real, sums, ty) => counts.beyond += 1,
                None if as_evaluated => {}
                _ => {
                    let xla = xla.map(|x| x.to_string());
                    eprintln!(
                        "{target:?}: {lhs} x {rhs} -> {ty} is {found}, {evaluated} by the \
                         evaluator, {xla:?} by XLA, of {real}"
                    );
                    counts.wrong += 1;
                }
            }
        }
    }
    counts
}

/// Every one of the 32,768 combinations, as a dot and as a convolution.
#[test]
fn one_answer_on_every_target_and_xlas_where_it_has_one() {
    let (types, rows) = table();
    assert_eq!(types, ElementType::ALL);
    assert_eq!(rows.len(), types.len().pow(2));
    let targets = [Target::Interp, Target::Plan, Target::Cpu];
    let next = AtomicUsize::new(0);
    let all = targets.map(|_| Mutex::new(Counts::default()));
    let work = || {
        while let Some(row) = rows.get(next.fetch_add(1, Relaxed)) {
            let [lhs, rhs] = row.operands;
            let inputs = [input(lhs, 0), input(rhs, 1)];
            let evaluated = run(&program(lhs, rhs, &types), Target::Interp, &inputs);
            for (target, all) in targets.into_iter().zip(&all) {
                let counts = check_row(target, &types, row, &evaluated);
                let mut all = all.lock().expect("no panic");
                all.equal += counts.equal;
                all.beyond += counts.beyond;
                all.wrong += counts.wrong;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let expected = Counts {
        equal: EQUAL,
        beyond: TAKEN - EQUAL,
        wrong: 0,
    };
    for (target, counts) in targets.into_iter().zip(all) {
        assert_eq!(
            counts.into_inner().expect("no panic"),
            expected,
            "{target:?}"
        );
    }
}

/// Dots and convolutions that XLA:CPU takes, and those of which it gives what we do.
const TAKEN: usize = 24_136;
const EQUAL: usize = 24_109;

/// The types of which programs for a TPU are made.
#[test]
fn xlas_answers_on_a_tpu() {
    let (types, rows) = table();
    let is_common = |ty: ElementType| ty.bits() >= 8 && !(ty.is_float() && ty.bits() == 8);
    let places: Vec<usize> = (0..types.len()).filter(|&i| is_common(types[i])).collect();
    let types: Vec<ElementType> = places.iter().map(|&i| types[i]).collect();
    for row in rows {
        let [lhs, rhs] = row.operands;
        if !is_common(lhs) || !is_common(rhs) {
            continue;
        }
        let results = places.iter().map(|&i| row.results[i]).collect();
        let row = Row { results, ..row };
        let inputs = [input(lhs, 0), input(rhs, 1)];
        let evaluated = run(&program(lhs, rhs, &types), Target::Interp, &inputs);
        let counts = check_row(Target::Tpu, &types, &row, &evaluated);
        assert_eq!(counts.wrong, 0, "as printed");
    }
}
