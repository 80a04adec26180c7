//! Programs that state the dimension orders of their arrays.

use tegula::{Arg, Executable, Options, Target, Tensor, compile};

const TARGETS: [Target; 4] = [Target::Interp, Target::Plan, Target::Cpu, Target::Tpu];

fn compiled(text: &str, target: Target) -> Executable {
    let module = text.parse::<tegula::Module>().unwrap();
    let options = Options {
        target,
        ..Options::default()
    };
    compile(&module, &options).unwrap()
}

fn numbers(dims: &[i64]) -> Tensor {
    let count: i64 = dims.iter().product();
    let values: Vec<f32> = (0..count).map(|i| i as f32).collect();
    Tensor::from_slice::<f32>(dims, &values).unwrap()
}

const TRANSPOSED: &str = "HloModule t, entry_computation_layout={(f32[2,3]{1,0})->f32[3,2]{0,1}}
ENTRY main { x = f32[2,3] parameter(0) ROOT t = f32[3,2] transpose(x), dimensions={1,0} }";

#[test]
fn a_transposition_that_the_layouts_make_free_is_a_copy() {
    let module = TRANSPOSED.parse::<tegula::Module>().unwrap();
    let plan = tegula::plan(&module).unwrap().plan;
    assert!(plan.kernels.is_empty(), "{plan}");
    for target in TARGETS {
        let x = numbers(&[2, 3]);
        let results = compiled(TRANSPOSED, target)
            .run(vec![Arg::Borrowed(&x)])
            .unwrap();
        assert_eq!(results[0].shape().to_string(), "f32[3,2]");
        assert_eq!(
            results[0].as_slice::<f32>().unwrap(),
            [0., 3., 1., 4., 2., 5.]
        );
    }
    let x = numbers(&[2, 3]);
    let results = compiled(TRANSPOSED, Target::Cpu)
        .run(vec![Arg::Borrowed(&x)])
        .unwrap();
    assert_eq!(results[0].order()[..], [1, 0]);
    assert_eq!(
        results[0].stored().as_f32s().unwrap(),
        [0., 1., 2., 3., 4., 5.]
    );
    assert_eq!(results[0].clone().into_literal(), *results[0].literal());
}

const BOTH: &str = "HloModule t, entry_computation_layout={(f32[2,3]{0,1}, f32[2,3]{1,0})->(f32[2,3]{0,1}, f32[2])}, input_output_alias={ {0}: (0, {}) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY main { x = f32[2,3] parameter(0) y = f32[2,3] parameter(1) s = f32[2,3] add(x, y)
  zero = f32[] constant(0) r = f32[2] reduce(s, zero), dimensions={1}, to_apply=add
  ROOT t = (f32[2,3], f32[2]) tuple(s, r) }";

#[test]
fn arguments_lie_as_stated_however_they_are_given() {
    for target in TARGETS {
        let (x, y) = (numbers(&[2, 3]), numbers(&[2, 3]));
        let mut executable = compiled(BOTH, target);
        let expected = [0., 2., 4., 6., 8., 10.];
        let run = |args: Vec<Arg<'_>>| executable.run(args).unwrap();
        let kept = run(vec![Arg::Borrowed(&x), Arg::Borrowed(&y)]);
        assert_eq!(kept[0].as_slice::<f32>().unwrap(), expected);
        assert_eq!(kept[1].as_slice::<f32>().unwrap(), [6., 24.]);
        assert_eq!(x, numbers(&[2, 3]));
        // An array that is in this order already, and one that is donated.
        let laid_out = executable.laid_out(0, x.clone()).unwrap();
        assert_eq!(laid_out, x);
        assert_eq!(run(vec![Arg::Borrowed(&laid_out), Arg::Borrowed(&y)]), kept);
        assert_eq!(
            run(vec![Arg::Donated(laid_out), Arg::Donated(y.clone())]),
            kept
        );
        assert_eq!(run(vec![Arg::Donated(x.clone()), Arg::Borrowed(&y)]), kept);
        // A result is used as an argument.
        let again = run(vec![Arg::Borrowed(&kept[0]), Arg::Borrowed(&y)]);
        assert_eq!(
            again[0].as_slice::<f32>().unwrap(),
            [0., 3., 6., 9., 12., 15.]
        );
        executable.freeze(0, x).unwrap();
        assert_eq!(executable.run(vec![Arg::Borrowed(&y)]).unwrap(), kept);
    }
}

const OPEN: &str = "HloModule t, entry_computation_layout={(f32[?,3]{0,1}, f32[<=8,3]{0,1})->f32[?,3]{0,1}}
ENTRY main { x = f32[?,3] parameter(0) y = f32[<=8,3] parameter(1) n = f32[<=8,3] negate(y) ROOT s = f32[?,3] add(x, n) }";

#[test]
fn open_sizes_are_those_of_the_logical_dimensions() {
    for target in [Target::Interp, Target::Plan, Target::Cpu] {
        let executable = compiled(OPEN, target);
        for rows in [1, 5] {
            let x = numbers(&[rows, 3]);
            let results = executable
                .run(vec![Arg::Borrowed(&x), Arg::Borrowed(&x)])
                .unwrap();
            assert!(
                results[0]
                    .as_slice::<f32>()
                    .unwrap()
                    .iter()
                    .all(|&element| element == 0.0)
            );
            assert_eq!(results[0].shape().static_dims().unwrap()[..], [rows, 3]);
        }
    }
    let executable = compiled(OPEN, Target::Cpu);
    let (x, wrong, other) = (numbers(&[9, 3]), numbers(&[3, 9]), numbers(&[4, 3]));
    let message = |args: Vec<Arg<'_>>| executable.run(args).unwrap_err().to_string();
    let text = message(vec![Arg::Borrowed(&x), Arg::Borrowed(&x)]);
    assert!(text.contains("dimension 0 of input"), "{text}");
    let text = message(vec![Arg::Borrowed(&wrong), Arg::Borrowed(&x)]);
    assert!(
        text.contains("input 0: expected f32[") && text.contains("got f32[3,9]"),
        "{text}"
    );
    let text = message(vec![
        Arg::Borrowed(&numbers(&[5, 3])),
        Arg::Borrowed(&other),
    ]);
    assert!(text.contains("dimension 0 of input"), "{text}");
    let text = message(vec![Arg::Borrowed(&x)]);
    assert!(!text.is_empty());
}
