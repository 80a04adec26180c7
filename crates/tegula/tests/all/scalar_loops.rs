//! Loops in computations that are applied to single elements.

use crate::read;
use tegula::{Error, ErrorKind, Options, Target, Tensor, compile};

const TARGETS: [Target; 3] = [Target::Interp, Target::Plan, Target::Cpu];

fn run_on(target: Target, text: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
    let options = Options {
        target,
        ..Options::default()
    };
    let executable = compile(&read(text)?, &options)?;
    executable.run(inputs.iter())
}

/// A map whose computation is a loop over a counter and the last two elements of a sequence that
/// begins with 0 and `x`; each element is the sum of the two before it.
fn sequence(ty: &str, start: i64, step: &str, test: &str) -> String {
    format!(
        "HloModule m
         go_on {{ s = ({ty}[], f32[], f32[]) parameter(0)
           i = {ty}[] get-tuple-element(s), index=0
           {test} }}
         next {{ s = ({ty}[], f32[], f32[]) parameter(0)
           i = {ty}[] get-tuple-element(s), index=0
           a = f32[] get-tuple-element(s), index=1
           b = f32[] get-tuple-element(s), index=2
           c = f32[] add(a, b)
           {step}
           ROOT all = ({ty}[], f32[], f32[]) tuple(j, b, c) }}
         f {{ x = f32[] parameter(0)
           zero = f32[] constant(0)
           start = {ty}[] constant({start})
           t = ({ty}[], f32[], f32[]) tuple(start, zero, x)
           w = ({ty}[], f32[], f32[]) while(t), condition=go_on, body=next
           ROOT r = f32[] get-tuple-element(w), index=1 }}
         ENTRY e {{ x = f32[3] parameter(0)
           ROOT r = f32[3] map(x), dimensions={{0}}, to_apply=f }}"
    )
}

fn element(sequence: usize) -> f32 {
    let (mut a, mut b) = (0.0, 1.0);
    for _ in 0..sequence {
        (a, b) = (b, a + b);
    }
    a
}

#[test]
fn counted_loops_go_round_as_often_as_they_say() {
    let add = |ty: &str, n: i64| format!("n = {ty}[] constant({n}) j = {ty}[] add(n, i)");
    let take = |n: i64| format!("n = s32[] constant({n}) j = s32[] subtract(i, n)");
    let test = |ty: &str, n: i64, direction: &str| {
        format!("n = {ty}[] constant({n}) ROOT g = pred[] compare(i, n), direction={direction}")
    };
    let swapped = "n = s32[] constant(7) ROOT g = pred[] compare(n, i), direction=GE".to_owned();
    let cases = [
        ("s32", 0, add("s32", 1), test("s32", 9, "LT"), 9),
        ("s32", 0, add("s32", 2), test("s32", 9, "LE"), 5),
        ("s32", 4, add("s32", 1), test("s32", 4, "LT"), 0),
        ("s32", 6, take(1), test("s32", -1, "GT"), 7),
        ("s32", 6, take(3), test("s32", 0, "GE"), 3),
        ("u8", 250, add("u8", 1), test("u8", 255, "NE"), 5),
        ("s64", 3, add("s64", 1), test("s64", 3, "EQ"), 1),
        ("s32", 0, add("s32", 4), swapped, 2),
    ];
    for (ty, start, step, test, count) in cases {
        let text = sequence(ty, start, &step, &test);
        for target in TARGETS {
            let x = Tensor::from_slice::<f32>(&[3], &[1., 10., -2.]).unwrap();
            let results = run_on(target, &text, &[x]).unwrap_or_else(|e| panic!("{text}\n{e}"));
            let n = element(count);
            let expected = [n, 10. * n, -2. * n];
            assert_eq!(
                results[0].as_slice::<f32>(),
                Some(&expected[..]),
                "{target:?} {text}"
            );
        }
    }
}

#[test]
fn bounds_may_be_states_that_do_not_change() {
    let text = "HloModule m
        below { s = (s32[], s32[], f32[1]) parameter(0)
          i = s32[] get-tuple-element(s), index=0
          n = s32[] get-tuple-element(s), index=1
          ROOT g = pred[] compare(i, n), direction=LT }
        next { s = (s32[], s32[], f32[1]) parameter(0)
          i = s32[] get-tuple-element(s), index=0
          n = s32[] get-tuple-element(s), index=1
          x = f32[1] get-tuple-element(s), index=2
          one = s32[] constant(1)
          j = s32[] add(i, one)
          y = f32[1] add(x, x)
          ROOT r = (s32[], s32[], f32[1]) tuple(j, n, y) }
        f { a = f32[] parameter(0)  b = f32[] parameter(1)
          c = f32[] add(a, b)
          x = f32[1] reshape(c)
          zero = s32[] constant(0)
          three = s32[] constant(3)
          t = (s32[], s32[], f32[1]) tuple(zero, three, x)
          w = (s32[], s32[], f32[1]) while(t), condition=below, body=next
          y = f32[1] get-tuple-element(w), index=2
          ROOT r = f32[] reshape(y) }
        ENTRY e { x = f32[2,2] parameter(0)
          zero = f32[] constant(0)
          ROOT r = f32[2] reduce(x, zero), dimensions={1}, to_apply=f }";
    for target in TARGETS {
        let x = Tensor::from_slice::<f32>(&[2, 2], &[1., 2., 3., 0.5]).unwrap();
        let results = run_on(target, text, &[x]).unwrap();
        let row = |a: f32, b: f32| (a * 8. + b) * 8.;
        assert_eq!(
            results[0].as_slice::<f32>(),
            Some(&[row(1., 2.), row(3., 0.5)][..]),
            "{target:?}"
        );
    }
}

#[test]
fn comparators_may_have_loops() {
    // The order of x + 3 is that of x, reversed.
    let text = "HloModule m
        go_on { s = (s32[], f32[]) parameter(0)
          i = s32[] get-tuple-element(s), index=0
          n = s32[] constant(3)
          ROOT g = pred[] compare(i, n), direction=LT }
        next { s = (s32[], f32[]) parameter(0)
          i = s32[] get-tuple-element(s), index=0
          x = f32[] get-tuple-element(s), index=1
          one = s32[] constant(1)  f = f32[] constant(1)
          j = s32[] add(i, one)
          y = f32[] add(x, f)
          ROOT r = (s32[], f32[]) tuple(j, y) }
        before { a = f32[] parameter(0)  b = f32[] parameter(1)
          zero = s32[] constant(0)
          t = (s32[], f32[]) tuple(zero, a)
          w = (s32[], f32[]) while(t), condition=go_on, body=next
          y = f32[] get-tuple-element(w), index=1
          three = f32[] constant(3)
          z = f32[] add(b, three)
          ROOT r = pred[] compare(y, z), direction=GT }
        ENTRY e { x = f32[5] parameter(0)
          ROOT r = f32[5] sort(x), dimensions={0}, to_apply=before }";
    for target in TARGETS {
        let x = Tensor::from_slice::<f32>(&[5], &[1., 4., -2., 8., 3.]).unwrap();
        let results = run_on(target, text, &[x]).unwrap();
        assert_eq!(
            results[0].as_slice::<f32>(),
            Some(&[8., 4., 3., 1., -2.][..]),
            "{target:?}"
        );
    }
}

#[test]
fn a_loop_of_which_nothing_is_known_is_an_error_that_says_so() {
    let cases = [
        // The step depends on the element.
        (
            "z = s32[] convert(a) j = s32[] add(i, z)",
            "n = s32[] constant(9) ROOT g = pred[] compare(i, n), direction=LT",
        ),
        // The counter wraps around.
        (
            "n = s32[] constant(-1) j = s32[] add(i, n)",
            "n = s32[] constant(9) ROOT g = pred[] compare(i, n), direction=LT",
        ),
        (
            "n = s32[] constant(2) j = s32[] add(i, n)",
            "n = s32[] constant(9) ROOT g = pred[] compare(i, n), direction=NE",
        ),
    ];
    for (step, test) in cases {
        let text = sequence("s32", 0, step, test);
        for target in [Target::Plan, Target::Cpu] {
            let options = Options {
                target,
                ..Options::default()
            };
            let error = compile(&read(&text).unwrap(), &options).expect_err("it is refused");
            assert_eq!(error.kind, ErrorKind::Unsupported);
            assert!(error.message.contains("`w`"), "{error}");
            assert!(
                error
                    .message
                    .contains("its start, end and step are constants"),
                "{error}"
            );
        }
    }
}
