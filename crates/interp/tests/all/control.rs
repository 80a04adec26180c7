//! Control flow, tuples, asynchronous forms, symbolic sizes, errors.

use crate::common::{f32s, module, run, run_one, try_run};
use tegula_interp::{Error, Options, Value, evaluate, evaluate_with};
use tegula_ir::Literal;

const COUNT: &str = "HloModule m
    c { s = (s32[], f32[8]) parameter(0)  i = s32[] get-tuple-element(s), index=0
        n = s32[] constant(8)  ROOT r = pred[] compare(i, n), direction=LT }
    b { s = (s32[], f32[8]) parameter(0)  i = s32[] get-tuple-element(s), index=0
        x = f32[8] get-tuple-element(s), index=1  one = s32[] constant(1)
        j = s32[] add(i, one)  v = f32[] convert(j)  u = f32[1] reshape(v)
        y = f32[8] dynamic-update-slice(x, u, i)
        ROOT t = (s32[], f32[8]) tuple(j, y) }
    ENTRY e { i = s32[] parameter(0)  x = f32[8] parameter(1)
      s = (s32[], f32[8]) tuple(i, x)
      ROOT w = (s32[], f32[8]) while(s), condition=c, body=b }";

#[test]
fn loops_update_in_place_but_never_an_argument() {
    let x = f32s(&[0.; 8]);
    let results = run(COUNT, &[Literal::from_value(5i32), x.clone()]);
    assert_eq!(
        results[1].as_f32s(),
        Some(&[0., 0., 0., 0., 0., 6., 7., 8.][..])
    );
    assert_eq!(x, f32s(&[0.; 8]));
    let results = run(COUNT, &[Literal::from_value(9i32), x]);
    assert_eq!(results[0].as_i32s(), Some(&[9][..]));
}

#[test]
fn iterations_can_be_limited() {
    let options = Options {
        max_iterations: Some(3),
        ..Options::default()
    };
    let arguments = [Literal::from_value(0i32), f32s(&[0.; 8])].map(Value::Array);
    let result = evaluate_with(&module(COUNT), &arguments, &options);
    assert!(matches!(result, Err(Error::Limit { instruction, .. }) if &*instruction == "w"));
}

#[test]
fn instructions_and_memory_can_be_limited() {
    let arguments = [Literal::from_value(0i32), f32s(&[0.; 8])].map(Value::Array);
    let run = |options: &Options| evaluate_with(&module(COUNT), &arguments, options);
    let limited = |most| Options {
        max_instructions: Some(most),
        ..Options::default()
    };
    assert!(run(&limited(1000)).is_ok());
    assert!(matches!(run(&limited(50)), Err(Error::Limit { .. })));
    let kept = |most| Options {
        max_bytes: Some(most),
        ..Options::default()
    };
    // The state is 36 bytes.
    assert!(run(&kept(1000)).is_ok());
    assert!(matches!(run(&kept(30)), Err(Error::Limit { .. })));
}

#[test]
fn conditionals_choose_their_branch() {
    let text = |selector: &str, branches: &str| {
        format!(
            "HloModule m
            f {{ p = f32[] parameter(0)  ROOT n = f32[] negate(p) }}
            g {{ p = f32[] parameter(0)  ROOT n = f32[] add(p, p) }}
            ENTRY e {{ s = {selector}[] parameter(0)  x = f32[] constant(3)
              ROOT c = f32[] conditional(s, x, x), {branches} }}"
        )
    };
    let indexed = text("s32", "branch_computations={f, g}");
    for (index, expected) in [(0, -3.0), (1, 6.0), (2, 6.0), (-1, 6.0)] {
        let result = run_one(&indexed, &[Literal::from_value(index)]);
        assert_eq!(result.as_f32s(), Some(&[expected][..]));
    }
    let predicated = text("pred", "true_computation=f, false_computation=g");
    for (predicate, expected) in [(true, -3.0), (false, 6.0)] {
        let predicate = Literal::from_bools(&[], &[predicate]).unwrap();
        assert_eq!(
            run_one(&predicated, &[predicate]).as_f32s(),
            Some(&[expected][..])
        );
    }
}

#[test]
fn calls_fusions_and_asynchronous_forms_mean_their_computation() {
    let text = "HloModule m
        f { p = f32[2] parameter(0)  q = f32[2] parameter(1)  ROOT s = f32[2] subtract(p, q) }
        ENTRY e { a = f32[2] parameter(0)  b = f32[2] parameter(1)
          c = f32[2] call(a, b), to_apply=f
          d = f32[2] fusion(c, b), kind=kLoop, calls=f
          s = ((f32[2], f32[2]), f32[2], u32[]) async-start(d, b), calls=f
          t = f32[2] async-done(s)
          x = (f32[2], f32[2], u32[]) copy-start(t)
          y = f32[2] copy-done(x)
          k = token[] after-all()
          z = f32[2] add-dependency(y, k)
          ROOT o = f32[2] opt-barrier(z) }";
    let result = run_one(text, &[f32s(&[10., 20.]), f32s(&[1., 2.])]);
    assert_eq!(result.as_f32s(), Some(&[7., 14.][..]));
}

#[test]
fn one_replica_is_number_zero() {
    let text = "HloModule m
        ENTRY e { a = f32[3,5] parameter(0)  r = u32[] replica-id()  p = u32[] partition-id()
          n = s32[] get-dimension-size(a), dimensions={1}
          ROOT t = (u32[], u32[], s32[]) tuple(r, p, n) }";
    let results = run(text, &[crate::common::counting(&[3, 5])]);
    assert_eq!(results[0].as_u32s(), Some(&[0][..]));
    assert_eq!(results[2].as_i32s(), Some(&[5][..]));
}

#[test]
fn symbolic_sizes_come_from_the_arguments() {
    let text = "HloModule m
        f { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(p, q) }
        ENTRY e { a = f32[?] parameter(0)  i = f32[] constant(0)
          b = f32[?] add(a, a)
          ROOT s = f32[] reduce(b, i), dimensions={0}, to_apply=f }";
    for size in [0usize, 1, 7] {
        let result = run_one(text, &[f32s(&vec![1.5; size])]);
        assert_eq!(result.as_f32s(), Some(&[3.0 * size as f32][..]));
    }
}

#[test]
fn wrong_arguments_are_named() {
    let arguments = |arguments: &[Literal]| {
        let arguments: Vec<Value> = arguments.iter().cloned().map(Value::Array).collect();
        evaluate(&module(COUNT), &arguments)
            .unwrap_err()
            .to_string()
    };
    let i = Literal::from_value(0i32);
    assert!(arguments(&[]).contains("expected 2 arguments, found 0"));
    let error = arguments(&[i.clone(), f32s(&[0.; 7])]);
    assert!(
        error.contains("argument 1") && error.contains("f32[8]"),
        "{error}"
    );
    assert!(arguments(&[f32s(&[0.; 8]), i]).contains("argument 0"));
}

#[test]
fn what_is_left_out_says_so() {
    let text = "HloModule m
        ENTRY e { a = f32[2] parameter(0)
          ROOT mine = f32[2] custom-call(a), custom_call_target=\"Unheard\" }";
    let error = try_run(text, &[f32s(&[1., 2.])]).unwrap_err();
    assert!(matches!(&error, Error::Unsupported { instruction, .. } if &**instruction == "mine"));
    assert!(error.to_string().contains("Unheard"));
    let text = "HloModule m
        f { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(p, q) }
        ENTRY e { a = f32[2] parameter(0)
          ROOT sum = f32[2] all-reduce(a), replica_groups={{0,1}}, to_apply=f }";
    let error = try_run(text, &[f32s(&[1., 2.])]).unwrap_err();
    assert!(error.to_string().contains("sum: all-reduce"), "{error}");
}
