//! What a loop does alike in each iteration, which is done before it: that it is, that what
//! iterations write over is not, and that results are those of the definition.

use tegula::{IsaLevel, Options, Target};
use tegula_ir::Module;
use tegula_ir::{ArrayShape, Literal, Scalar};
use tegula_plan::Plan;
use tegula_plan::Step;
use tegula_tests::judge::{Reference, Verdict};
use tegula_tests::random::Regime;

/// A loop over `i`, `x`: f32[9,7] (which stays) and `s`: f32[9,7]; `body` makes `n` of them.
fn program(trips: i64, body: &str) -> Module {
    let state = "(s32[], f32[9,7], f32[9,7])";
    let text = format!(
        "HloModule loops
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
less {{
  p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({trips}) ROOT r = pred[] compare(i, n), direction=LT
}}
again {{
  p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0
  x = f32[9,7] get-tuple-element(p), index=1
  s = f32[9,7] get-tuple-element(p), index=2
  one = s32[] constant(1) zero = f32[] constant(0) half = f32[] constant(0.5)
  halves = f32[9,7] broadcast(half), dimensions={{}}
  {body}
  j = s32[] add(i, one)
  ROOT r = {state} tuple(j, x, n)
}}
ENTRY main {{
  x = f32[9,7] parameter(0) s = f32[9,7] parameter(1) i = s32[] constant(0)
  t = {state} tuple(i, x, s)
  w = {state} while(t), condition=less, body=again
  ROOT r = f32[9,7] get-tuple-element(w), index=2
}}
"
    );
    tegula_tests::read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Quarters between -2 and 2, among them both zeros.
fn numbers(salt: i64) -> Literal {
    let shape = ArrayShape::new(tegula_ir::ElementType::F32, &[9, 7]);
    let number = |i: i64| match (i * 5 + salt) % 17 {
        0 => Scalar::Float(-0.0),
        n => Scalar::Float(n as f64 / 4.0 - 2.0),
    };
    Literal::from_scalars(&shape, (0..63).map(number)).expect("small")
}

/// Kernels before the loop and in it, but for those without a domain.
fn kernels(plan: &Plan) -> [usize; 2] {
    fn count(plan: &Plan, steps: &[Step], counts: &mut [usize; 2], inside: usize) {
        for step in steps {
            match step {
                Step::Kernel { kernel, .. } => {
                    let whole = !plan.kernels[*kernel].domain.is_empty();
                    counts[inside] += usize::from(whole);
                }
                Step::While { body, .. } => count(plan, body, counts, 1),
                _ => {}
            }
        }
    }
    let mut counts = [0; 2];
    count(plan, &plan.steps, &mut counts, 0);
    counts
}

/// Holds a loop against the definition for some numbers of iterations.
fn checked(body: &str) -> [usize; 2] {
    // Loops of few iterations and little work are written out.
    for trips in [0, 1, 4, 12] {
        let module = program(trips, body);
        let inputs = [numbers(3), numbers(8)];
        let reference = Reference::new(&module, &inputs, Regime::General).expect("a meaning");
        for (target, threads) in [(Target::Plan, 1), (Target::Cpu, 1), (Target::Cpu, 2)] {
            let options = Options {
                target,
                cpu: IsaLevel::Native,
                threads,
                ..Options::default()
            };
            let verdict = reference.judge_with(&module, &inputs, &options);
            assert_eq!(verdict, Ok(Verdict::Agrees), "{options:?}\n{body}");
        }
    }
    kernels(&tegula::plan(&program(12, body)).expect("it plans").plan)
}

#[test]
fn what_iterations_do_alike_is_done_once() {
    // The scaled array is written for the product.
    let body = "y = f32[9,7] multiply(x, halves)
  d = f32[9,9] dot(s, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  dx = f32[9,7] dot(d, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  sixteenth = f32[] constant(0.0625) q = f32[9,7] broadcast(sixteenth), dimensions={}
  n = f32[9,7] multiply(dx, q)";
    let [before, inside] = checked(body);
    assert_eq!((before, inside), (1, 1));
}

#[test]
fn what_iterations_change_stays() {
    let body = "y = f32[9,7] multiply(s, halves)
  d = f32[9,9] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  dx = f32[9,7] dot(d, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  sixteenth = f32[] constant(0.0625) q = f32[9,7] broadcast(sixteenth), dimensions={}
  n = f32[9,7] multiply(dx, q)";
    let [before, inside] = checked(body);
    assert_eq!((before, inside), (0, 2));
}

/// A state's next value, and an array that a scatter adds to, are written anew.
#[test]
fn what_iterations_write_over_stays() {
    let next = "c = f32[9,7] cosine(x) n = f32[9,7] multiply(c, halves)";
    let next = next.replace("cosine", "negate");
    assert_eq!(checked(&next)[0], 0);
    let added = "z = f32[9,7] broadcast(zero), dimensions={}
  places = s32[2,1] constant({{3}, {5}})
  rows = f32[2,7] slice(s), slice={[0:2], [0:7]}
  a = f32[9,7] scatter(z, places, rows), update_window_dims={1}, inserted_window_dims={0}, \
     scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  n = f32[9,7] subtract(a, s)";
    assert_eq!(checked(added)[0], 0);
}

/// A sum of what stays, in a loop and in the loop inside it.
#[test]
fn loops_in_loops() {
    let state = "(s32[], f32[9,7], f32[9,7])";
    let text = format!(
        "HloModule loops
less {{
  p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT
}}
inner {{
  p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0
  x = f32[9,7] get-tuple-element(p), index=1
  s = f32[9,7] get-tuple-element(p), index=2
  half = f32[] constant(0.5) one = s32[] constant(1)
  halves = f32[9,7] broadcast(half), dimensions={{}}
  y = f32[9,7] multiply(x, halves)
  d = f32[9,9] dot(s, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  e = f32[9,7] dot(d, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  sixteenth = f32[] constant(0.03125) q = f32[9,7] broadcast(sixteenth), dimensions={{}}
  n = f32[9,7] multiply(e, q)
  j = s32[] add(i, one) ROOT r = {state} tuple(j, x, n)
}}
outer {{
  p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0
  x = f32[9,7] get-tuple-element(p), index=1
  s = f32[9,7] get-tuple-element(p), index=2
  zero = s32[] constant(0) one = s32[] constant(1)
  t = {state} tuple(zero, x, s)
  w = {state} while(t), condition=less, body=inner
  n = f32[9,7] get-tuple-element(w), index=2
  j = s32[] add(i, one) ROOT r = {state} tuple(j, x, n)
}}
ENTRY main {{
  x = f32[9,7] parameter(0) s = f32[9,7] parameter(1) i = s32[] constant(0)
  t = {state} tuple(i, x, s)
  w = {state} while(t), condition=less, body=outer
  ROOT r = f32[9,7] get-tuple-element(w), index=2
}}
"
    );
    let module = tegula_tests::read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let inputs = [numbers(3), numbers(8)];
    let reference = Reference::new(&module, &inputs, Regime::General).expect("a meaning");
    let options = Options {
        target: Target::Cpu,
        cpu: IsaLevel::Native,
        ..Options::default()
    };
    let verdict = reference.judge_with(&module, &inputs, &options);
    assert_eq!(verdict, Ok(Verdict::Agrees));
    let plan = tegula::plan(&module).expect("it plans").plan;
    assert_eq!(kernels(&plan), [1, 1], "{plan}");
}
