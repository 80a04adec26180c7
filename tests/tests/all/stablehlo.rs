//! Programs that arrive as StableHLO: one compilation for every size, assertions of the program
//! itself, and every program of the corpus written as StableHLO and read again.

use tegula::{Arg, Executable, Module, Options, Target, Tensor, compile};
use tegula_stablehlo::{Form, from_module, print};
use tegula_tests::corpus::{names, small_corpus, whole_corpus};

/// `jax.export` of a function of `x: f32[b,8]` and `y: f32[b+1]` with `b >= 2`; see
/// `crates/stablehlo/tests/make_data.py`.
fn symbolic() -> Vec<u8> {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../crates/stablehlo/tests/data"
    );
    std::fs::read(format!("{folder}/symbolic.jaxexport")).expect("the file is there")
}

fn executable(target: Target) -> Executable {
    let module = Module::from_bytes(symbolic()).expect("reads");
    let options = Options {
        target,
        ..Options::default()
    };
    compile(&module, &options).expect("compiles")
}

fn inputs(b: i64, behind: i64) -> [Tensor; 2] {
    let ramp = |count: i64| {
        (0..count)
            .map(|i| i as f32 * 0.25 - 1.0)
            .collect::<Vec<f32>>()
    };
    [
        Tensor::from_slice::<f32>(&[b, 8], &ramp(8 * b)).expect("fits"),
        Tensor::from_slice::<f32>(&[behind], &ramp(behind)).expect("fits"),
    ]
}

#[test]
fn one_compilation_runs_every_size() {
    for target in [Target::Interp, Target::Plan, Target::Cpu] {
        let executable = executable(target);
        for b in [2, 3, 5, 8, 17] {
            let [x, y] = inputs(b, b + 1);
            let arguments = vec![Arg::Borrowed(&x), Arg::Borrowed(&y)];
            let outputs = executable.run(arguments).expect("runs");
            let (xs, ys) = (
                x.as_slice::<f32>().expect("f32"),
                y.as_slice::<f32>().expect("f32"),
            );
            // concatenate([x.reshape(-1)[: b // 2 * 2], y])
            let taken = (b / 2 * 2) as usize;
            let expected: Vec<f32> = xs[..taken].iter().chain(ys).copied().collect();
            assert_eq!(
                outputs[0].as_slice::<f32>(),
                Some(&*expected),
                "{target:?} {b}"
            );
            // x.sum(axis=0) / b: sums of a ramp are exact.
            let mean = |column: usize| {
                let column = xs.iter().skip(column).step_by(8);
                column.sum::<f32>() / b as f32
            };
            let means: Vec<f32> = (0..8).map(mean).collect();
            assert_eq!(
                outputs[1].as_slice::<f32>(),
                Some(&*means),
                "{target:?} {b}"
            );
            // pad(x, ((0, b), (1, 1)))
            let padded = outputs[2].as_slice::<f32>().expect("f32");
            assert_eq!(padded.len() as i64, 2 * b * 10, "{target:?} {b}");
            assert_eq!(padded[11..19], xs[8..16], "{target:?} {b}");
            assert!(padded[(10 * b) as usize..].iter().all(|v| *v == 0.0));
        }
    }
}

#[test]
fn an_assertion_that_does_not_hold_ends_the_run_with_its_message() {
    for target in [Target::Interp, Target::Plan, Target::Cpu] {
        let executable = executable(target);
        for (b, behind, expected) in [
            (
                5,
                7,
                "args[1].shape[0] (= 7) and the specification 'b + 1' (= 6)",
            ),
            (
                1,
                2,
                "Expected 'b - 2' to be greater or equal to 0, but found -1",
            ),
        ] {
            let [x, y] = inputs(b, behind);
            let arguments = vec![Arg::Borrowed(&x), Arg::Borrowed(&y)];
            let error = executable.run(arguments).expect_err("an assertion fails");
            assert!(error.message.contains(expected), "{target:?}: {error}");
        }
    }
}

/// What is written of a program reads back as the program that was written.
#[test]
fn the_corpus_is_written_as_stablehlo_and_read_again() {
    let folder = whole_corpus().unwrap_or_else(small_corpus);
    for name in names(&folder).expect("a folder") {
        let path = folder.join(format!("{name}.hlo"));
        let module = Module::read(path).expect("reads");
        let written = |module: &tegula_ir::Module| {
            let raised = from_module(module);
            let raised = raised.unwrap_or_else(|error| panic!("{name}: {error}"));
            print(&raised, Form::Pretty)
        };
        let read_again = |text: &str| {
            let again = text.parse::<Module>();
            again.unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        // Constants of one value become a scalar and a broadcast when they are read: from then
        // on nothing changes any more.
        let first = read_again(&written(&module));
        let text = written(&first);
        assert_eq!(written(&read_again(&text)), text, "{name}");
    }
}
