//! Perturbed runs and the differences that they show.

use crate::common::{f32s, module};
use tegula_interp::{Options, Value, envelope, evaluate, evaluate_with};

const SOFTMAX: &str = "HloModule m
    f { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(p, q) }
    ENTRY e { a = f32[64] parameter(0)  z = f32[] constant(0)
      x = f32[64] exponential(a)
      s = f32[] reduce(x, z), dimensions={0}, to_apply=f
      b = f32[64] broadcast(s), dimensions={}
      ROOT r = f32[64] divide(x, b) }";

fn argument() -> Vec<Value> {
    let values: Vec<f32> = (0..64).map(|i| (i as f32 * 0.37).sin()).collect();
    vec![Value::Array(f32s(&values))]
}

fn perturbed(text: &str, arguments: &[Value], seed: u64) -> Value {
    let options = Options {
        perturb: Some(seed),
        ..Options::default()
    };
    evaluate_with(&module(text), arguments, &options).unwrap()
}

#[test]
fn a_seed_gives_the_same_result_and_another_seed_another() {
    let arguments = argument();
    let first = perturbed(SOFTMAX, &arguments, 1);
    assert_eq!(first, perturbed(SOFTMAX, &arguments, 1));
    assert_ne!(first, perturbed(SOFTMAX, &arguments, 2));
}

#[test]
fn envelopes_hold_the_result_and_are_narrow() {
    let found = envelope(&module(SOFTMAX), &argument(), 8).unwrap();
    assert_eq!(
        found.result,
        evaluate(&module(SOFTMAX), &argument()).unwrap()
    );
    assert!(found.unstable.is_empty());
    let [result] = found.result.leaves()[..] else {
        panic!("one result")
    };
    for (x, bounds) in result.as_f32s().unwrap().iter().zip(&found.bounds[0]) {
        let x = f64::from(*x);
        assert!(bounds.low <= x && x <= bounds.high && !bounds.flipped);
        assert!(bounds.high > bounds.low && bounds.high - bounds.low < 2e-5 * x);
    }
}

#[test]
fn what_only_moves_elements_is_not_moved() {
    let text = "HloModule m
        ENTRY e { a = f32[64] parameter(0)
          n = f32[64] negate(a)  m = f32[64] maximum(a, n)
          r = f32[8,8] reshape(m)  w = f64[8,8] convert(r)
          ROOT t = f64[8,8] transpose(w), dimensions={1,0} }";
    let exact = evaluate(&module(text), &argument()).unwrap();
    assert_eq!(perturbed(text, &argument(), 3), exact);
}

#[test]
fn flips_are_reported() {
    let text = "HloModule m
        ENTRY e { a = f32[64] parameter(0)  three = f32[] constant(3)
          k = f32[64] broadcast(three), dimensions={}
          d = f32[64] divide(a, k)  m = f32[64] multiply(d, k)
          f = f32[64] floor(m)
          ROOT i = s32[64] convert(f) }";
    let whole: Vec<f32> = (1..65).map(|i| i as f32).collect();
    let found = envelope(&module(text), &[Value::Array(f32s(&whole))], 8).unwrap();
    let module = module(text);
    let names: Vec<&str> = found.unstable.iter().map(|&id| &*module[id].name).collect();
    assert_eq!(names, ["f", "i"]);
    assert!(found.bounds[0].iter().any(|bounds| bounds.flipped));
    let halves: Vec<f32> = whole.iter().map(|x| x + 0.5).collect();
    let found = envelope(&module, &[Value::Array(f32s(&halves))], 8).unwrap();
    assert!(found.unstable.is_empty());
    assert!(found.bounds[0].iter().all(|bounds| !bounds.flipped));
}

#[test]
fn choices_between_what_ties_are_reported() {
    let text = "HloModule m
        least { a = f32[] parameter(0)  b = f32[] parameter(1)
          ROOT c = pred[] compare(a, b), direction=LE }
        sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
        ENTRY e { a = f32[2] parameter(0)  x = f32[2] erf(a)
          source = f32[1] constant({1})  zero = f32[] constant(0)
          ROOT chosen = f32[2] select-and-scatter(x, source, zero), window={size=2},
            select=least, scatter=sum }";
    let names = |values: [f32; 2]| {
        let module = module(text);
        let found = envelope(&module, &[Value::Array(f32s(&values))], 8).unwrap();
        let names = found.unstable.iter().map(|&id| module[id].name.to_string());
        names.collect::<Vec<_>>()
    };
    // Both are rounded to the number before 1.
    assert_eq!(names([3.82, 3.9]), ["chosen"]);
    assert!(names([0.5, 0.4]).is_empty());
}
