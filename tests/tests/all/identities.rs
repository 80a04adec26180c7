//! What fusion leaves out because something else is the same: for every pair of special and
//! ordinary numbers the plan gives what the program means, to the bit, and is shorter.

use tegula::{Options, Target, Tensor, compile, plan};
use tegula_interp::Value;
use tegula_ir::{ArrayShape, ElementType, Literal, Module, Scalar};
use tegula_tests::read;

/// Numbers at which identities fail, if they do.
fn numbers(ty: ElementType) -> Vec<f64> {
    let format = ty.float_format().expect("a float");
    let smallest = format.decode(1);
    let normal = format.decode(1 << format.mantissa_bits);
    let largest = format.largest();
    let mut numbers = vec![
        0.0,
        1.0,
        0.5,
        3.0,
        1.7,
        100.3,
        1e-3,
        smallest,
        3.0 * smallest,
    ];
    numbers.extend([normal, 1.5 * normal, largest, largest / 2.0, f64::INFINITY]);
    let negative: Vec<f64> = numbers.iter().map(|x| -x).collect();
    numbers.extend(negative);
    numbers.push(f64::NAN);
    numbers
}

/// Every pair of the numbers.
fn pairs(ty: ElementType) -> [Literal; 2] {
    let numbers = numbers(ty);
    let count = numbers.len();
    let shape = ArrayShape::new(ty, &[(count * count) as i64]);
    [0, 1].map(|side| {
        let mut literal = Literal::zeros(&shape).expect("small");
        for i in 0..count * count {
            let number = numbers[if side == 0 { i / count } else { i % count }];
            let set = literal.set_scalar(i, Scalar::Float(number));
            set.expect("it is inside");
        }
        literal
    })
}

/// The operations of all kernels of the program's plan.
fn operations(module: &Module) -> usize {
    let text = plan(module).expect("it plans").plan.to_string();
    let is_operation = |line: &&str| line.contains(" = ") && !line.contains("constant");
    let in_kernel = |line: &&str| line.trim_start().starts_with('v') && !line.contains("load");
    text.lines().filter(is_operation).filter(in_kernel).count()
}

fn results(module: &Module, inputs: &[Literal], target: Target) -> Vec<Literal> {
    let options = Options {
        target,
        ..Options::default()
    };
    let executable = compile(module, &options).expect("it compiles");
    let buffers: Vec<Tensor> = inputs.iter().cloned().map(Tensor::from).collect();
    let results = executable.run(buffers.iter());
    let results = results.expect("it runs");
    results.iter().map(|b| b.literal().clone()).collect()
}

/// `body` computes `r` from `x` and `y`, `#` being their type and `c64#` complex numbers of
/// as many; a plan of it has so many operations.
fn holds(ty: &str, body: &str, expected: usize) {
    let inputs = pairs(ElementType::from_name(ty).expect("a type"));
    let n = inputs[0].len();
    let body = body.replace("c64#", &format!("c64[{n}]"));
    let body = body.replace('#', &format!("{ty}[{n}]"));
    let result = match body.contains("ROOT r = pred") {
        true => "pred",
        false => ty,
    };
    let text = format!(
        "HloModule identity\nENTRY main {{\n x = {ty}[{n}] parameter(0) y = {ty}[{n}] parameter(1)\n{body}\n}}\n"
    );
    let module = read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let arguments: Vec<Value> = inputs.iter().cloned().map(Value::Array).collect();
    let expected_values = tegula_interp::evaluate(&module, &arguments).expect("a meaning");
    let expected_values = expected_values.leaves()[0].clone();
    let got = &results(&module, &inputs, Target::Plan)[0];
    for i in 0..n {
        let [got, want] = [got, &expected_values].map(|l| l.scalar(i).expect("it is inside"));
        let bits = |s: Scalar| (s.to_f64().to_bits(), s.to_f64().is_nan());
        let ((a, a_nan), (b, b_nan)) = (bits(got), bits(want));
        let [x, y] = [&inputs[0], &inputs[1]].map(|l| l.scalar(i).expect("it is inside"));
        assert!(
            a == b || a_nan && b_nan,
            "{result} of {x}, {y}: {got}, not {want}\n{text}"
        );
    }
    assert_eq!(
        operations(&module),
        expected,
        "{text}\n{}",
        plan(&module).expect("a plan").plan
    );
}

#[test]
fn signs_move_outwards_and_vanish() {
    for ty in ["f32", "f64", "bf16", "f16"] {
        holds(ty, "a = # negate(x) ROOT r = # negate(a)", 0);
        holds(ty, "a = # negate(x) ROOT r = # abs(a)", 1);
        holds(ty, "a = # abs(x) ROOT r = # abs(a)", 1);
        holds(
            ty,
            "a = # negate(x) b = # negate(y) ROOT r = # multiply(a, b)",
            1,
        );
        holds(
            ty,
            "a = # negate(x) b = # negate(y) ROOT r = # divide(a, b)",
            1,
        );
        holds(ty, "a = # negate(x) ROOT r = # multiply(a, y)", 2);
        holds(ty, "a = # negate(x) ROOT r = # multiply(a, a)", 1);
        holds(ty, "a = # abs(x) ROOT r = # multiply(a, a)", 1);
        holds(ty, "a = # negate(y) ROOT r = # add(x, a)", 1);
        holds(ty, "a = # negate(x) ROOT r = # add(a, y)", 1);
        holds(ty, "a = # negate(y) ROOT r = # subtract(x, a)", 1);
        // -x - y is no -(x + y): -0 - -0 is 0.
        holds(ty, "a = # negate(x) ROOT r = # subtract(a, y)", 2);
        for function in [
            "sine",
            "tanh",
            "cbrt",
            "sign",
            "erf",
            "tan",
            "round-nearest-even",
        ] {
            holds(
                ty,
                &format!("a = # negate(x) b = # {function}(a) ROOT r = # negate(b)"),
                1,
            );
        }
        holds(ty, "a = # negate(x) ROOT r = # cosine(a)", 1);
    }
}

/// What holds of a square holds of a real one.
#[test]
fn complex_numbers_have_no_sign() {
    let square = "c = c64# complex(x, y) s = c64# multiply(c, c)";
    holds("f32", &format!("{square} ROOT r = # abs(s)"), 3);
    holds(
        "f32",
        "c = c64# complex(x, y) n = c64# negate(c) ROOT r = # abs(n)",
        3,
    );
    holds(
        "f32",
        "c = c64# complex(x, y) n = c64# negate(c) ROOT r = # real(n)",
        3,
    );
    // A magnitude is no complex number, whatever is made of it.
    let magnitude = "c = c64# complex(x, y) a = # abs(c)";
    holds("f32", &format!("{magnitude} ROOT r = # multiply(a, a)"), 3);
    holds("f32", &format!("{magnitude} ROOT r = # cosine(a)"), 3);
}

#[test]
fn neutral_operands_go() {
    for ty in ["f32", "f64", "bf16", "f16"] {
        let with = |number: &str, operation: &str| {
            let short = ty;
            format!(
                "c = {short}[] constant({number}) a = # broadcast(c), dimensions={{}} ROOT r = # {operation}"
            )
        };
        holds(ty, &with("1", "multiply(x, a)"), 0);
        holds(ty, &with("1", "multiply(a, x)"), 0);
        holds(ty, &with("1", "divide(x, a)"), 0);
        holds(ty, &with("0", "subtract(x, a)"), 0);
        holds(ty, &with("-0", "add(x, a)"), 0);
        // -0 + 0 is 0.
        holds(ty, &with("0", "add(x, a)"), 1);
        holds(ty, &with("0", "subtract(a, x)"), 1);
        // A power of two has a reciprocal, another number has none.
        for number in ["2", "0.25", "-4", "3"] {
            holds(ty, &with(number, "divide(x, a)"), 1);
        }
        holds(ty, "ROOT r = # maximum(x, x)", 0);
    }
    // The reciprocal of the largest power of two is subnormal, so there it is divided.
    holds(
        "f32",
        "c = f32[] constant(1.7014118e38) a = # broadcast(c), dimensions={} ROOT r = # divide(x, a)",
        1,
    );
}

#[test]
fn what_is_known_is_not_computed() {
    for ty in ["f32", "f64", "bf16", "f16"] {
        let zero = format!("z = {ty}[] constant(0) c = # broadcast(z), dimensions={{}}");
        let truth = |t: &str| t.replace('?', &pairs_pred(ty));
        for never in [
            "a = # abs(x)",
            "a = # multiply(x, x)",
            "a = # exponential(x)",
        ] {
            let below = truth(&format!(
                "{zero} {never} ROOT r = ? compare(a, c), direction=LT"
            ));
            holds(ty, &below, 0);
            let above = truth(&format!(
                "{zero} {never} ROOT r = ? compare(c, a), direction=GE"
            ));
            holds(ty, &above, 2);
        }
        holds(
            ty,
            &truth("p = ? compare(x, y), direction=LT ROOT r = # select(p, x, x)"),
            0,
        );
        let inverted = "p = ? compare(x, y), direction=LT q = ? not(p) ROOT r = # select(q, x, y)";
        holds(ty, &truth(inverted), 2);
    }
    for ty in ["bf16", "f16"] {
        let n = pairs(ElementType::from_name(ty).expect("a type"))[0].len();
        holds(
            ty,
            &format!("a = f32[{n}] convert(x) ROOT r = # convert(a)"),
            0,
        );
    }
    let n = pairs(ElementType::F32)[0].len();
    holds(
        "f32",
        &format!("a = bf16[{n}] convert(x) ROOT r = # convert(a)"),
        2,
    );
}

/// Comparisons with a constant are the truth value, its opposite or a constant; selects of constants,
/// too.
#[test]
fn truth_values_and_constants() {
    let pred = pairs_pred("f32");
    let given = format!(
        "p = {pred} compare(x, y), direction=LT q = {pred} compare(x, y), direction=EQ
         t = pred[] constant(true) yes = {pred} broadcast(t), dimensions={{}}
         f = pred[] constant(false) no = {pred} broadcast(f), dimensions={{}}"
    );
    let costs = |body: String, expected: usize| holds("f32", &format!("{given} {body}"), expected);
    type Holds = fn(bool, bool) -> bool;
    let directions: [(&str, Holds); 6] = [
        ("EQ", |a, b| a == b),
        ("NE", |a, b| a != b),
        ("LT", |a, b| !a & b),
        ("LE", |a, b| a <= b),
        ("GT", |a, b| a & !b),
        ("GE", |a, b| a >= b),
    ];
    for (direction, is) in directions {
        for (name, value) in [("yes", true), ("no", false)] {
            let compare =
                |a, b| format!("ROOT r = {pred} compare({a}, {b}), direction={direction}");
            let operations = |at: [bool; 2]| match at {
                [false, true] => 1,
                [true, false] => 2,
                _ => 0,
            };
            let right = [false, true].map(|p| is(p, value));
            costs(compare("p", name), operations(right));
            let left = [false, true].map(|p| is(value, p));
            costs(compare(name, "p"), operations(left));
        }
    }
    for (body, expected) in [
        ("select(p, yes, no)", 1),
        ("select(p, no, yes)", 2),
        ("select(p, yes, q)", 3),
        ("select(p, q, no)", 3),
        ("and(p, no)", 0),
        ("or(yes, p)", 0),
        ("and(p, yes)", 1),
    ] {
        costs(format!("ROOT r = {pred} {body}"), expected);
    }
}

/// Integers that are constant, compared with themselves, or multiplied by zero.
#[test]
fn operations_on_constant_integers_are_folded() {
    let pred = pairs_pred("f32");
    let integers = pred.replace("pred", "s32");
    let given = format!(
        "i = {integers} convert(x) z = s32[] constant(0) zero = {integers} broadcast(z), dimensions={{}}
         s = s32[] constant(-7) seven = {integers} broadcast(s), dimensions={{}}"
    );
    for (body, expected) in [
        ("ROOT r = ? compare(i, i), direction=LE", 0),
        ("ROOT r = ? compare(i, i), direction=NE", 0),
        ("m = & multiply(i, zero) ROOT r = # convert(m)", 0),
        (
            "d = & divide(seven, seven) m = & subtract(d, seven) ROOT r = # convert(m)",
            0,
        ),
        (
            "c = ? compare(seven, zero), direction=LT ROOT r = # select(c, x, y)",
            0,
        ),
        ("ROOT r = ? compare(i, zero), direction=LT", 2),
    ] {
        let body = body.replace('?', &pred).replace('&', &integers);
        holds("f32", &format!("{given} {body}"), expected);
    }
    // A float that is compared with itself may be NaN.
    holds(
        "f32",
        &format!("ROOT r = {pred} compare(x, x), direction=NE"),
        1,
    );
}

fn pairs_pred(ty: &str) -> String {
    let n = pairs(ElementType::from_name(ty).expect("a type"))[0].len();
    format!("pred[{n}]")
}

#[test]
fn what_two_values_have_in_common_is_computed_once() {
    // The same function of x and of -x: three operations, not six.
    let body = "n = # negate(x)
      s = # multiply(x, x) e = # exponential(s) a = # multiply(e, x)
      t = # multiply(n, n) f = # exponential(t) b = # multiply(f, n)
      ROOT r = # subtract(a, b)";
    holds("f32", body, 4);
}

/// The distance between two floats in units in the last place of the second; 0 for the same
/// bits and for two NaN, and infinite between what are no finite numbers other than 0.
fn ulps(ty: ElementType, got: f64, want: f64) -> f64 {
    if got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan() {
        return 0.0;
    }
    let format = ty.float_format().expect("a float");
    let ordinary = |x: f64| x.is_finite() && x != 0.0;
    if !ordinary(got) || !ordinary(want) {
        return f64::INFINITY;
    }
    let exponent = want.abs().log2().floor() as i32;
    (got - want).abs() / 2f64.powi(exponent - format.mantissa_bits as i32)
}

#[test]
fn powers_by_small_constants_are_products_and_roots() {
    for (ty, name) in [
        (ElementType::F32, "f32"),
        (ElementType::F64, "f64"),
        (ElementType::BF16, "bf16"),
        (ElementType::F16, "f16"),
    ] {
        let inputs = pairs(ty);
        let n = inputs[0].len();
        for halves in -4..=8 {
            let exponent = f64::from(halves) / 2.0;
            // Of any number, and of one that is known not to be negative.
            for base in ["add(x, y)", "abs(x)"] {
                let text = format!(
                    "HloModule powers\nENTRY main {{\n x = {name}[{n}] parameter(0)\n \
                     y = {name}[{n}] parameter(1)\n b = {name}[{n}] {base}\n \
                     c = {name}[] constant({exponent})\n \
                     e = {name}[{n}] broadcast(c), dimensions={{}}\n \
                     ROOT r = {name}[{n}] power(b, e)\n}}\n"
                );
                let module = read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
                let arguments: Vec<Value> = inputs.iter().cloned().map(Value::Array).collect();
                let want = tegula_interp::evaluate(&module, &arguments).expect("a meaning");
                let want = want.leaves()[0].clone();
                for target in [Target::Plan, Target::Cpu] {
                    let got = &results(&module, &inputs, target)[0];
                    for i in 0..n {
                        let [got, want] = [got, &want].map(|l| l.scalar(i).expect("inside"));
                        let off = ulps(ty, got.to_f64(), want.to_f64());
                        let [x, y] = [&inputs[0], &inputs[1]].map(|l| l.scalar(i).expect("inside"));
                        assert!(
                            off <= 2.5,
                            "{target:?}: {name} {base}^{exponent} of {x}, {y}: {got}, not {want}"
                        );
                    }
                }
                let plan = plan(&module).expect("a plan").plan.to_string();
                assert!(!plan.contains("= power "), "{plan}");
            }
        }
    }
}
