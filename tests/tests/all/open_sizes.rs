//! Programs with an open batch, compiled once; what runs say when sizes do not go
//! together; results that take over a parameter's memory.

use tegula::{Arg, Options, Target, Tensor, compile};
use tegula_ir::{ArrayShape, ElementType, Literal, Scalar};
use tegula_tests::models::folder;
use tegula_tests::{read, read_specialised};

const TARGETS: [Target; 3] = [Target::Interp, Target::Plan, Target::Cpu];

fn options(target: Target) -> Options {
    Options {
        target,
        ..Options::default()
    }
}

/// Small numbers, the same for the same shape.
fn array(dims: &[i64]) -> Tensor {
    let mut literal = Literal::zeros(&ArrayShape::new(ElementType::F32, dims)).unwrap();
    for i in 0..literal.len() {
        let number = ((i * 2_654_435_761) >> 7) % 64;
        let scalar = Scalar::Float(number as f64 / 16.0 - 2.0);
        literal.set_scalar(i, scalar).unwrap();
    }
    Tensor::from(literal)
}

fn close(a: &Tensor, b: &Tensor) -> bool {
    let (a, b) = (a.as_slice::<f32>().unwrap(), b.as_slice::<f32>().unwrap());
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 2e-5)
}

/// Runs a program with an open batch at several sizes, each against the program
/// specialised to the size and evaluated by definition.
fn at_every_batch(text: &str, open: &[&str], shapes: &dyn Fn(i64) -> Vec<Vec<i64>>) {
    let module = read(text).unwrap();
    let executables = TARGETS.map(|t| compile(&module, &options(t)).unwrap());
    for batch in [1, 7, 64, 0, 7] {
        let inputs: Vec<Tensor> = shapes(batch).iter().map(|dims| array(dims)).collect();
        let borrowed = || inputs.iter().map(Arg::Borrowed).collect::<Vec<_>>();
        let fixed: Vec<(&str, i64)> = open.iter().map(|&name| (name, batch)).collect();
        let fixed = read_specialised(text, &fixed).unwrap();
        let fixed = compile(&fixed, &options(Target::Interp)).unwrap();
        let expected = fixed.run(borrowed()).unwrap();
        for (executable, target) in executables.iter().zip(TARGETS) {
            let results = executable.run(borrowed()).unwrap();
            assert_eq!(results[0].shape(), expected[0].shape());
            assert!(close(&results[0], &expected[0]), "{target:?} at {batch}");
        }
    }
}

fn text_of(name: &str) -> String {
    std::fs::read_to_string(folder().join(format!("{name}.hlo"))).unwrap()
}

#[test]
fn an_mlp_at_any_batch() {
    at_every_batch(&text_of("symbolic_mlp"), &["p0_d0"], &|batch| {
        vec![vec![batch, 12], vec![12, 20], vec![20], vec![20, 4]]
    });
}

#[test]
fn an_attention_block_at_any_batch() {
    let open = ["p0_d0", "p1_d0", "p2_d0"];
    at_every_batch(&text_of("symbolic_attention"), &open, &|batch| {
        vec![vec![batch, 6, 8]; 3]
    });
}

const SOFTMAX: &str = "HloModule softmax
m { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
s { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[?,33] parameter(0)
  i = f32[] constant(-inf)
  a = f32[?] reduce(x, i), dimensions={1}, to_apply=m
  b = f32[?,33] broadcast(a), dimensions={0}
  c = f32[?,33] subtract(x, b)
  d = f32[?,33] exponential(c)
  z = f32[] constant(0)
  e = f32[?] reduce(d, z), dimensions={1}, to_apply=s
  f = f32[?,33] broadcast(e), dimensions={0}
  ROOT g = f32[?,33] divide(d, f)
}";

#[test]
fn softmax_at_any_batch() {
    at_every_batch(SOFTMAX, &["p0_d0"], &|batch| vec![vec![batch, 33]]);
}

#[test]
fn a_bounded_batch_is_taken_up_to_its_bound() {
    let bounded = SOFTMAX.replace('?', "<=64");
    at_every_batch(&bounded, &["p0_d0"], &|batch| vec![vec![batch, 33]]);
    let module = read(&bounded).unwrap();
    for target in TARGETS {
        let executable = compile(&module, &options(target)).unwrap();
        let large = array(&[65, 33]);
        let error = executable.run(vec![Arg::Borrowed(&large)]).unwrap_err();
        assert_eq!(
            error.message, "p0_d0, dimension 0 of input 0, is 65, which is not between 0 and 64",
            "{target:?}"
        );
    }
}

#[test]
fn sizes_that_do_not_go_together_are_named() {
    let module = read(&text_of("symbolic_attention")).unwrap();
    for target in TARGETS {
        let executable = compile(&module, &options(target)).unwrap();
        let (q, k) = (array(&[3, 6, 8]), array(&[5, 6, 8]));
        let arguments = vec![Arg::Borrowed(&q), Arg::Borrowed(&k), Arg::Borrowed(&q)];
        let error = executable.run(arguments).unwrap_err();
        assert_eq!(
            error.message,
            "`dot_general.2`: sizes of batch dimensions 0 and 0 must be equal: p1_d0 = 5 and p0_d0 = 3 (p0_d0 is dimension 0 of input 0; p1_d0 is dimension 0 of input 1)",
            "{target:?}"
        );
        // The executable is as good as before.
        let alike = [&q, &q, &q];
        executable.run(alike).unwrap();
    }
}

#[test]
fn what_can_never_be_is_an_error_before_any_run() {
    let text = "HloModule m
ENTRY main {
  a = f32[?,4] parameter(0)
  b = f32[8] reshape(a)
  c = f32[?] slice(b), slice={[0:6]}
  ROOT d = f32[6] negate(c)
}";
    // A reshape to 8 elements fixes the batch.
    let module = read(text).unwrap();
    let executable = compile(&module, &Options::default()).unwrap();
    assert_eq!(
        executable
            .run(vec![Arg::Borrowed(&array(&[2, 4]))])
            .unwrap()
            .len(),
        1
    );
    assert!(
        executable
            .run(vec![Arg::Borrowed(&array(&[3, 4]))])
            .is_err()
    );
    let never = text
        .replace("f32[8]", "f32[9]")
        .replace("0:6", "0:7")
        .replace("f32[6]", "f32[7]");
    let error = read(&never).unwrap_err();
    assert!(error.message.contains("are never"), "{}", error.message);
    assert!(!error.message.is_empty() && error.span.end > 0);
}

const CACHE: &str = "HloModule decode, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY main {
  cache = f32[64,8] parameter(0)
  row = f32[1,8] parameter(1)
  at = s32[] parameter(2)
  zero = s32[] constant(0)
  new = f32[64,8] dynamic-update-slice(cache, row, at, zero)
  s = f32[1,8] negate(row)
  ROOT t = (f32[64,8], f32[1,8]) tuple(new, s)
}";

#[test]
fn an_aliased_parameter_is_updated_in_place() {
    let module = read(CACHE).unwrap();
    for target in TARGETS {
        let executable = compile(&module, &options(target)).unwrap();
        let (cache, row) = (array(&[64, 8]), array(&[1, 8]));
        let at = Tensor::from_slice::<i32>(&[], &[5]).unwrap();
        let borrowed = vec![
            Arg::Borrowed(&cache),
            Arg::Borrowed(&row),
            Arg::Borrowed(&at),
        ];
        let kept = executable.run(borrowed).unwrap();
        assert!(
            close(&cache, &array(&[64, 8])),
            "the caller's array has changed"
        );
        let given = array(&[64, 8]);
        let before = given.as_slice::<f32>().unwrap().as_ptr();
        let donated = vec![Arg::Donated(given), Arg::Borrowed(&row), Arg::Borrowed(&at)];
        let results = executable.run(donated).unwrap();
        assert!(close(&results[0], &kept[0]) && close(&results[1], &kept[1]));
        let numbers = results[0].as_slice::<f32>().unwrap();
        assert_eq!(&numbers[40..48], row.as_slice::<f32>().unwrap());
        assert_eq!(&numbers[48..], &cache.as_slice::<f32>().unwrap()[48..]);
        if target == Target::Cpu {
            assert_eq!(numbers.as_ptr(), before, "the memory is another");
        }
    }
    // Nothing but the row is moved.
    let plan = tegula::plan(&module).unwrap().plan;
    assert_eq!(plan.aliases.len(), 1);
    assert_eq!(plan.arena_bytes.as_constant(), Some(0));
    let copies = plan.steps.iter().filter(|step| match step {
        tegula_plan::Step::Copy { from, to } => !plan.same_place(*from, *to),
        _ => false,
    });
    assert_eq!(copies.count(), 0);
}

#[test]
fn a_parameter_that_is_still_read_is_not_overwritten() {
    // The second result needs the cache as it was, after the first is written.
    let text = CACHE.replace(
        "s = f32[1,8] negate(row)",
        "old = f32[64,8] transpose(cache), dimensions={0,1}\n  all = f32[64,8] multiply(old, new)\n  s = f32[1,8] slice(all), slice={[0:1], [0:8]}",
    );
    let module = read(&text).unwrap();
    let inputs = [
        array(&[64, 8]),
        array(&[1, 8]),
        Tensor::from_slice::<i32>(&[], &[0]).unwrap(),
    ];
    let donated = || inputs.iter().cloned().map(Arg::Donated).collect::<Vec<_>>();
    let interp = compile(&module, &options(Target::Interp)).unwrap();
    let expected = interp.run(donated()).unwrap();
    for target in TARGETS {
        let executable = compile(&module, &options(target)).unwrap();
        for _ in 0..2 {
            let results = executable.run(donated()).unwrap();
            assert_eq!(results, expected, "{target:?}");
        }
    }
}

const SHARED: &str = "HloModule shared
f { x = f32[?] parameter(0) y = f32[?] negate(x) ROOT z = f32[?] add(x, y) }
g { x = f32[?] parameter(0) c = f32[?] call(x), to_apply=f ROOT r = f32[?] multiply(c, x) }
ENTRY main {
  a = f32[?] parameter(0)
  b = f32[?] parameter(1)
  c = f32[4] parameter(2)
  p = f32[?] call(a), to_apply=g
  q = f32[?] call(b), to_apply=g
  r = f32[?] call(c), to_apply=f
  s = f32[?] call(b), to_apply=f
  ROOT t = (f32[?], f32[?], f32[?], f32[?]) tuple(p, q, r, s)
}";

#[test]
fn calls_that_share_a_computation_need_not_share_sizes() {
    let module = read(SHARED).unwrap();
    assert!(module.sizes.guards.is_empty(), "{:?}", module.sizes.guards);
    for target in TARGETS {
        let executable = compile(&module, &options(target)).unwrap();
        for (a, b) in [(3, 5), (5, 3), (0, 2), (4, 4)] {
            let inputs = [array(&[a]), array(&[b]), array(&[4])];
            let results = executable.run(inputs.iter());
            let results = results.unwrap();
            let sizes: Vec<usize> = results
                .iter()
                .map(|r| r.as_slice::<f32>().unwrap().len())
                .collect();
            assert_eq!(sizes, [a, b, 4, b].map(|size| size as usize), "{target:?}");
        }
    }
    // What the callee itself needs to be equal stays so.
    let both = "HloModule both
f { x = f32[?] parameter(0) y = f32[?] parameter(1) ROOT z = f32[?] add(x, y) }
ENTRY main {
  a = f32[?] parameter(0)
  b = f32[?] parameter(1)
  p = f32[?] call(a, a), to_apply=f
  ROOT q = f32[?] call(a, b), to_apply=f
}";
    let module = read(both).unwrap();
    let executable = compile(&module, &options(Target::Cpu)).unwrap();
    let (a, b) = (array(&[3]), array(&[4]));
    assert!(
        executable
            .run(vec![Arg::Borrowed(&a), Arg::Borrowed(&a)])
            .is_ok()
    );
    let error = executable
        .run(vec![Arg::Borrowed(&a), Arg::Borrowed(&b)])
        .unwrap_err();
    assert!(error.message.contains("p1_d0 = 4"), "{}", error.message);
}

#[test]
fn a_bitcast_may_permute_open_sizes() {
    let text = "HloModule m
ENTRY main {
  a = f32[?,3,4]{2,1,0} parameter(0)
  b = f32[4,?,3]{0,2,1} bitcast(a)
  ROOT c = f32[4,?,3]{0,2,1} negate(b)
}";
    at_every_batch(text, &["p0_d0"], &|batch| vec![vec![batch, 3, 4]]);
}

#[test]
fn batch_norms_at_any_batch() {
    let inference = "HloModule m
ENTRY main {
  x = f32[?,3,5] parameter(0)
  scale = f32[5] parameter(1)
  offset = f32[5] parameter(2)
  mean = f32[5] parameter(3)
  some = f32[5] parameter(4)
  variance = f32[5] multiply(some, some)
  ROOT y = f32[?,3,5] batch-norm-inference(x, scale, offset, mean, variance), epsilon=0.01, feature_index=2
}";
    let training = "HloModule m
ENTRY main {
  x = f32[?,3,5] parameter(0)
  scale = f32[5] parameter(1)
  offset = f32[5] parameter(2)
  t = (f32[?,3,5], f32[5], f32[5]) batch-norm-training(x, scale, offset), epsilon=0.01, feature_index=2
  ROOT y = f32[?,3,5] get-tuple-element(t), index=0
}";
    let gradient = "HloModule m
ENTRY main {
  x = f32[?,3,5] parameter(0)
  scale = f32[5] parameter(1)
  mean = f32[5] parameter(2)
  some = f32[5] parameter(3)
  g = f32[?,3,5] parameter(4)
  variance = f32[5] multiply(some, some)
  t = (f32[?,3,5], f32[5], f32[5]) batch-norm-grad(x, scale, mean, variance, g), epsilon=0.01, feature_index=2
  ROOT y = f32[?,3,5] get-tuple-element(t), index=0
}";
    let five = || vec![5];
    at_every_batch(inference, &["p0_d0"], &|batch| {
        vec![vec![batch, 3, 5], five(), five(), five(), five()]
    });
    at_every_batch(training, &["p0_d0"], &|batch| {
        vec![vec![batch, 3, 5], five(), five()]
    });
    at_every_batch(gradient, &["p0_d0", "p4_d0"], &|batch| {
        let whole = vec![batch, 3, 5];
        vec![whole.clone(), five(), five(), five(), whole]
    });
}
