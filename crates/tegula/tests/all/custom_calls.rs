//! Custom calls with handlers give the same results on every target.

use crate::read;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Mutex, Once};
use tegula::{
    Arg, Error, ErrorKind, Literal, Options, RegisterError, Target, Tensor, compile,
    register_custom_call,
};

const TARGETS: [Target; 3] = [Target::Interp, Target::Plan, Target::Cpu];

/// The values that `note` was called with, in order.
static NOTES: Mutex<Vec<i32>> = Mutex::new(Vec::new());
/// The number of calls of `counted`.
static COUNTED: AtomicU32 = AtomicU32::new(0);
/// The run in which `flaky` fails.
static FLAKY: AtomicI64 = AtomicI64::new(0);

fn like(shape: &tegula::ArrayShape, values: impl Iterator<Item = f32>) -> Result<Literal, String> {
    let bytes: Vec<u8> = values.flat_map(f32::to_ne_bytes).collect();
    Literal::from_bytes(shape, &bytes).map_err(|e| e.to_string())
}

fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let known = [
            register_custom_call("sum_and_difference", |_, operands, results| {
                let (Some(a), Some(b)) = (operands[0].as_f32s(), operands[1].as_f32s()) else {
                    return Err("f32 is wanted".to_owned());
                };
                let pairs = || a.iter().zip(b);
                Ok(vec![
                    like(&results[0], pairs().map(|(a, b)| a + b))?,
                    like(&results[1], pairs().map(|(a, b)| a - b))?,
                ])
            }),
            register_custom_call("refuses", |_, _, _| Err("it is Sunday".to_owned())),
            register_custom_call("flaky", |_, operands, _| {
                match FLAKY.fetch_sub(1, Ordering::SeqCst) {
                    0 => Err("not this time".to_owned()),
                    _ => Ok(operands.to_vec()),
                }
            }),
            register_custom_call("too_many", |_, operands, _| {
                Ok(vec![operands[0].clone(), operands[0].clone()])
            }),
            register_custom_call("as_it_is", |_, operands, _| Ok(operands.to_vec())),
            register_custom_call("counted", |_, operands, _| {
                COUNTED.fetch_add(1, Ordering::SeqCst);
                Ok(operands.to_vec())
            }),
            register_custom_call("note", |_, operands, results| {
                let noted = operands[0].as_i32s().ok_or("s32 is wanted")?;
                NOTES.lock().unwrap().extend(noted);
                Ok(operands[..results.len()].to_vec())
            }),
            register_custom_call("scaled", |call, operands, results| {
                let config = call
                    .extra
                    .last()
                    .filter(|(name, _)| &**name == "backend_config");
                let (_, config) = config.ok_or("there is no backend_config")?;
                let factor: f32 = config.trim_matches('"').parse().map_err(|_| "no number")?;
                let x = operands[0].as_f32s().ok_or("f32 is wanted")?;
                Ok(vec![like(&results[0], x.iter().map(|x| factor * x))?])
            }),
            register_custom_call("seven", |_, operands, results| {
                assert!(operands.is_empty());
                Ok(vec![like(&results[0], [7.0].into_iter())?])
            }),
        ];
        assert!(known.iter().all(Result::is_ok), "{known:?}");
    });
}

fn run_on(target: Target, text: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
    register();
    let options = Options {
        target,
        ..Options::default()
    };
    let executable = compile(&read(text)?, &options)?;
    executable.run(inputs.iter())
}

fn f32s(values: &[f32]) -> Tensor {
    Tensor::from_slice::<f32>(&[values.len() as i64], values).unwrap()
}

fn failure(target: Target, text: &str, inputs: &[Tensor]) -> Error {
    run_on(target, text, inputs).expect_err("the custom call fails")
}

#[test]
fn handlers_are_called_on_every_target() {
    let text = "HloModule m
        ENTRY e {
          x = f32[3] parameter(0)
          y = f32[3] parameter(1)
          z = f32[3] multiply(x, y)
          both = (f32[3], f32[3]) custom-call(x, z), custom_call_target=\"sum_and_difference\"
          sum = f32[3] get-tuple-element(both), index=0
          difference = f32[3] get-tuple-element(both), index=1
          seven = f32[] custom-call(), custom_call_target=\"seven\"
          sevens = f32[3] broadcast(seven), dimensions={}
          scaled = f32[3] multiply(difference, sevens)
          ROOT r = f32[3] add(sum, scaled)
        }";
    for target in TARGETS {
        let inputs = [f32s(&[1., 2., 3.]), f32s(&[2., 0., -1.])];
        let results = run_on(target, text, &inputs).unwrap();
        assert_eq!(
            results[0].as_slice::<f32>(),
            Some(&[-4., 16., 42.][..]),
            "{target:?}"
        );
    }
}

#[test]
fn operands_and_results_may_be_tuples_and_have_layouts() {
    let text = "HloModule m
        ENTRY e {
          x = f32[2] parameter(0)
          y = f32[2] parameter(1)
          t = (f32[2], f32[2]) tuple(x, y)
          both = (f32[2], (f32[2])) custom-call(t), custom_call_target=\"sum_and_difference\",
            operand_layout_constraints={(f32[2]{0}, f32[2]{0})},
            output_to_operand_aliasing={{0}: (0, {0})}
          inner = (f32[2]) get-tuple-element(both), index=1
          ROOT r = f32[2] get-tuple-element(inner), index=0
        }";
    for target in TARGETS {
        let results = run_on(target, text, &[f32s(&[5., 6.]), f32s(&[1., 1.])]).unwrap();
        assert_eq!(
            results[0].as_slice::<f32>(),
            Some(&[4., 5.][..]),
            "{target:?}"
        );
    }
}

#[test]
fn open_sizes_are_those_of_the_run() {
    let text = "HloModule m
        ENTRY e {
          x = f32[?] parameter(0)
          both = (f32[?], f32[?]) custom-call(x, x), custom_call_target=\"sum_and_difference\"
          sum = f32[?] get-tuple-element(both), index=0
          difference = f32[?] get-tuple-element(both), index=1
          r = f32[?] add(sum, x)
          ROOT s = f32[?] add(r, difference)
        }";
    for target in TARGETS {
        for size in [0, 1, 5] {
            let results = run_on(target, text, &[f32s(&vec![2.0; size])]).unwrap();
            assert_eq!(
                results[0].as_slice::<f32>(),
                Some(&vec![6.0; size][..]),
                "{target:?}"
            );
        }
    }
}

#[test]
fn what_has_no_handler_says_how_to_register_one() {
    let text = "HloModule m
        ENTRY e { x = f32[2] parameter(0)
          ROOT mine = f32[2] custom-call(x), custom_call_target=\"Unheard\" }";
    for target in TARGETS {
        let error = failure(target, text, &[f32s(&[1., 2.])]);
        assert_eq!(error.kind, ErrorKind::Unsupported, "{target:?}: {error}");
        for part in ["mine", "Unheard", "register_custom_call"] {
            let instruction = part == "mine" && target == Target::Plan;
            assert!(instruction || error.message.contains(part), "{error}");
        }
    }
}

#[test]
fn a_handler_that_fails_is_an_error_that_names_the_call() {
    let program = |call: &str| {
        format!(
            "HloModule m
             ENTRY e {{ x = f32[2] parameter(0)
               ROOT r = f32[1] custom-call(x), custom_call_target=\"{call}\" }}"
        )
    };
    let cases = [
        ("refuses", "it is Sunday"),
        ("too_many", "2 arrays, expected 1"),
        ("as_it_is", "f32[2] as result 0, expected f32[1]"),
    ];
    for target in TARGETS {
        for (call, reason) in cases {
            let error = failure(target, &program(call), &[f32s(&[1., 2.])]);
            assert_eq!(error.kind, ErrorKind::Input);
            let message = &error.message;
            assert!(message.contains(call), "{target:?}: {message}");
            assert!(message.contains(reason), "{target:?}: {message}");
        }
    }
}

#[test]
fn an_executable_works_after_a_run_that_failed() {
    register();
    let text = "HloModule m
        ENTRY e { x = f32[4] parameter(0)
          y = f32[4] custom-call(x), custom_call_target=\"flaky\"
          z = f32[4] custom-call(y), custom_call_target=\"as_it_is\"
          ROOT r = f32[4] add(z, x) }";
    for target in TARGETS {
        let options = Options {
            target,
            ..Options::default()
        };
        let executable = compile(&read(text).unwrap(), &options).unwrap();
        let x = f32s(&[1., 2., 3., 4.]);
        FLAKY.store(1, Ordering::SeqCst);
        let run = || executable.run(vec![Arg::Borrowed(&x)]);
        assert!(run().is_ok());
        let error = run().expect_err("the second run fails");
        assert!(error.message.contains("not this time"), "{error}");
        let results = run().unwrap();
        assert_eq!(results[0].as_slice::<f32>(), Some(&[2., 4., 6., 8.][..]));
    }
}

#[test]
fn effects_happen_as_often_and_in_the_order_that_the_program_says() {
    // Nothing depends on the results of the calls; some have no results.
    let text = "HloModule m
        go_on {
          s = (s32[]) parameter(0)
          i = s32[] get-tuple-element(s), index=0
          three = s32[] constant(3)
          ROOT go = pred[] compare(i, three), direction=LT
        }
        next {
          s = (s32[]) parameter(0)
          i = s32[] get-tuple-element(s), index=0
          noted = s32[] custom-call(i), custom_call_target=\"note\", custom_call_has_side_effect=true
          one = s32[] constant(1)
          j = s32[] add(i, one)
          ROOT n = (s32[]) tuple(j)
        }
        yes { p = s32[] parameter(0)
          t = token[] custom-call(p), custom_call_target=\"note\", custom_call_has_side_effect=true
          ROOT e = () tuple() }
        no { p = s32[] parameter(0)  ROOT e = () tuple() }
        ENTRY e {
          x = s32[] parameter(0)
          zero = s32[] constant(0)
          start = (s32[]) tuple(zero)
          y = s32[] add(x, x)
          token = token[] after-all()
          first = (token[]) custom-call(y, token), custom_call_target=\"note\",
            custom_call_has_side_effect=true
          loop = (s32[]) while(start), condition=go_on, body=next
          positive = pred[] compare(x, zero), direction=GT
          c = () conditional(positive, x, x), true_computation=yes, false_computation=no
          again = s32[] custom-call(y), custom_call_target=\"note\",
            custom_call_has_side_effect=true
          ROOT r = s32[] negate(x)
        }";
    for target in TARGETS {
        NOTES.lock().unwrap().clear();
        let x = Tensor::from_slice::<i32>(&[], &[21]).unwrap();
        let results = run_on(target, text, &[x]).unwrap();
        assert_eq!(results[0].as_slice::<i32>(), Some(&[-21][..]));
        let notes = NOTES.lock().unwrap().clone();
        assert_eq!(notes, [42, 0, 1, 2, 21, 42], "{target:?}");
    }
}

#[test]
fn a_call_without_effects_is_run_once_however_often_it_is_read() {
    let text = "HloModule m
        ENTRY e { x = f32[2] parameter(0)
          unused = f32[2] custom-call(x), custom_call_target=\"Unheard\"
          y = f32[2] custom-call(x), custom_call_target=\"counted\"
          a = f32[2] add(y, x)
          b = f32[2] multiply(y, a)
          ROOT r = (f32[2], f32[2]) tuple(a, b) }";
    for target in [Target::Plan, Target::Cpu] {
        COUNTED.store(0, Ordering::SeqCst);
        let results = run_on(target, text, &[f32s(&[1., 2.])]).unwrap();
        assert_eq!(results[1].as_slice::<f32>(), Some(&[2., 8.][..]));
        assert_eq!(COUNTED.load(Ordering::SeqCst), 1, "{target:?}");
    }
}

#[test]
fn handlers_see_the_backend_config() {
    let text = "HloModule m
        ENTRY e { x = f32[2] parameter(0)
          ROOT y = f32[2] custom-call(x), custom_call_target=\"scaled\", api_version=API_VERSION_ORIGINAL,
            backend_config=\"2.5\", metadata={op_name=\"scale\"} }";
    for target in TARGETS {
        let results = run_on(target, text, &[f32s(&[1., 2.])]).unwrap();
        assert_eq!(
            results[0].as_slice::<f32>(),
            Some(&[2.5, 5.][..]),
            "{target:?}"
        );
    }
}

#[test]
fn plans_with_custom_calls_print_and_parse() {
    let text = "HloModule m
        ENTRY e { x = f32[2] parameter(0)
          none = () custom-call(x), custom_call_target=\"note\", custom_call_has_side_effect=true
          seven = f32[] custom-call(), custom_call_target=\"seven\"
          y = f32[2] custom-call(x, seven), custom_call_target=\"scaled\", window={size=2},
            backend_config={\"by\": 2}
          ROOT r = (f32[2], f32[]) tuple(y, seven) }";
    let module = read(text).unwrap();
    let plan = tegula::plan(&module).unwrap().plan;
    let text = plan.to_string();
    let parsed = tegula_plan::parse_plan(&text).unwrap_or_else(|e| panic!("{text}\n{e}"));
    assert_eq!(parsed.to_string(), text);
    assert_eq!(text.matches("custom-call").count(), 3, "{text}");
}

#[test]
fn names_are_taken_once() {
    register();
    let again = |target| register_custom_call(target, |_, _, _| Ok(Vec::new()));
    assert_eq!(
        again("seven"),
        Err(RegisterError::Taken("seven".to_owned()))
    );
    assert_eq!(
        again("TopK"),
        Err(RegisterError::BuiltIn("TopK".to_owned()))
    );
}
