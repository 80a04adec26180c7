//! Sizes that cannot be: every error, before a run or in one, names the instruction.

use tegula::{Options, Target, Tensor, compile};
use tegula_ir::{ArrayShape, ElementType, Literal};
use tegula_tests::{read, read_specialised};

const TARGETS: [Target; 3] = [Target::Interp, Target::Plan, Target::Cpu];

fn program(lines: &str) -> String {
    format!("HloModule m\nENTRY main {{\n{lines}\n}}")
}

#[track_caller]
fn never(lines: &str, expected: &[&str]) {
    let error = read(&program(lines)).expect_err("sizes that cannot be");
    for part in expected {
        assert!(error.message.contains(part), "{}", error.message);
    }
}

/// The message of a run on zeros of these shapes, alike on every target.
#[track_caller]
fn run_error(lines: &str, inputs: &[&[i64]]) -> String {
    let module = read(&program(lines)).expect("reads");
    let messages = TARGETS.map(|target| {
        let options = Options {
            target,
            ..Options::default()
        };
        let executable = compile(&module, &options).expect("compiles");
        let inputs = inputs.iter().map(|dims| {
            let shape = ArrayShape::new(ElementType::F32, dims);
            Tensor::from(Literal::zeros(&shape).expect("small"))
        });
        let inputs: Vec<Tensor> = inputs.collect();
        let run = executable.run(inputs.iter());
        run.map_or_else(|error| error.message, |_| "it runs".to_owned())
    });
    assert!(messages.iter().all(|m| *m == messages[0]), "{messages:?}");
    messages[0].clone()
}

#[test]
fn contradictory_declarations() {
    never(
        "  a = f32[?,3] parameter(0)\n  ROOT bad = f32[8] reshape(a)",
        &["`bad`", "never", "8"],
    );
    never(
        "  a = f32[?] parameter(0)\n  b = f32[4] parameter(1)\n  c = f32[5] parameter(2)\n\
         \x20 d = f32[?] add(a, b)\n  ROOT bad = f32[?] add(d, c)",
        &["add", "4", "5"],
    );
    never(
        "  a = f32[<=3] parameter(0)\n  b = f32[4] parameter(1)\n  ROOT bad = f32[?] add(a, b)",
        &["`bad`", "p0_d0", "4"],
    );
    let text = program("  a = f32[?,4] parameter(0)\n  ROOT bad = f32[8] reshape(a)");
    let error = read_specialised(&text, &[("p0_d0", 3)]).expect_err("8 is not 12");
    assert!(error.message.contains("p0_d0") || error.message.contains("`bad`"));
}

const CROPPED: &str = "  a = f32[?] parameter(0)\n  z = f32[] constant(0)\n\
                       \x20 ROOT cropped = f32[?] pad(a, z), padding=-5_0";

#[test]
fn negative_and_zero_extents() {
    assert_eq!(run_error(CROPPED, &[&[7]]), "it runs");
    assert_eq!(run_error(CROPPED, &[&[5]]), "it runs");
    let message = run_error(CROPPED, &[&[3]]);
    assert!(
        message.contains("`cropped`") && message.contains("negative"),
        "{message}"
    );
    let error = read_specialised(&program(CROPPED), &[("p0_d0", 3)]).expect_err("-2 elements");
    assert!(error.message.contains("`cropped`"), "{}", error.message);
    let error = read_specialised(&program(CROPPED), &[("p0_d0", -3)]).expect_err("-3 elements");
    assert!(error.message.contains("p0_d0"), "{}", error.message);
    // A slice of more than there is.
    let slice = "  a = f32[?] parameter(0)\n  ROOT part = f32[4] slice(a), slice={[0:4]}";
    let message = run_error(slice, &[&[3]]);
    assert!(
        message.contains("`part`") && message.contains("limit"),
        "{message}"
    );
}

#[test]
fn overflow() {
    let padded = "  a = f32[?,0] parameter(0)\n  z = f32[] constant(0)\n\
                  \x20 b = f32[?,0] pad(a, z), padding=4611686018427387904_0x0_0\n";
    // Twice 2^62 and more is no size that another array can have.
    never(
        &format!(
            "{padded}  c = f32[?,0] parameter(1)\n\
             \x20 d = f32[?,0] concatenate(b, b), dimensions={{0}}\n\
             \x20 ROOT large = f32[?,0] add(c, d)"
        ),
        &["`large`", "p1_d0"],
    );
    let text = program(&format!("{padded}  ROOT large = f32[?,0] negate(b)"));
    let error = read_specialised(&text, &[("p0_d0", 2)]).expect_err("too many bytes");
    let parts = ["`b`", "64 bits"];
    assert!(
        parts.iter().all(|part| error.message.contains(part)),
        "{}",
        error.message
    );
}

#[test]
fn division_without_a_rest() {
    let heads = "  a = f32[?] parameter(0)\n  ROOT heads = f32[?,12] reshape(a)";
    assert_eq!(run_error(heads, &[&[24]]), "it runs");
    assert_eq!(run_error(heads, &[&[0]]), "it runs");
    let message = run_error(heads, &[&[25]]);
    assert!(
        message.contains("`heads`") && message.contains("25"),
        "{message}"
    );
    // Nothing says how many rows of no columns there are.
    let none = read(&program(
        "  a = f32[?] parameter(0)\n  ROOT none = f32[?,0] reshape(a)",
    ));
    if let Ok(module) = none {
        let options = Options {
            target: Target::Cpu,
            ..Options::default()
        };
        let error = compile(&module, &options).expect_err("no size for `none`");
        assert!(error.message.contains("none"), "{}", error.message);
    }
}

/// A size that an input's elements give, even if it can be but one: no target looks at them, and none
/// takes it as if they were right.
#[test]
fn sizes_computed_from_data() {
    for line in [
        "ROOT r = f32[<=6] dynamic-reshape(a, n)",
        "ROOT r = f32[6] set-dimension-size(a, n), dimensions={0}",
    ] {
        let text = program(&format!(
            "  a = f32[6] parameter(0)\n  n = s32[] parameter(1)\n  {line}"
        ));
        let module = read(&text).expect("reads");
        for target in [Target::Interp, Target::Plan, Target::Cpu, Target::Tpu] {
            let options = Options {
                target,
                ..Options::default()
            };
            let zeros = |ty, dims: &[i64]| {
                Tensor::from(Literal::zeros(&ArrayShape::new(ty, dims)).expect("small"))
            };
            let inputs = [zeros(ElementType::F32, &[6]), zeros(ElementType::S32, &[])];
            let run =
                compile(&module, &options).and_then(|executable| executable.run(inputs.iter()));
            let error = run.err().unwrap_or_else(|| panic!("{target:?}: {text}"));
            let message = &error.message;
            assert!(
                message.contains("computed from data"),
                "{target:?}: {message}"
            );
        }
    }
}

/// Each operation on sizes is followed once, however often its value is used.
#[test]
fn long_computations_of_sizes() {
    for op in ["minimum", "add", "multiply"] {
        let mut lines = String::from(
            "  a = f32[?] parameter(0)\n  x0 = s32[] get-dimension-size(a), dimensions={0}\n",
        );
        for i in 0..60 {
            lines += &format!("  x{} = s32[] {op}(x{i}, x{i})\n", i + 1);
        }
        lines += "  ROOT r = f32[?] dynamic-reshape(a, x60)";
        let begun = std::time::Instant::now();
        let _ = read(&program(&lines));
        assert!(begun.elapsed().as_secs() < 5, "{op}");
    }
}
