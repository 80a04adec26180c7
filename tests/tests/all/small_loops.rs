//! Loops of many small steps: what is done before them, written out, or not done at all, and that
//! results are those of the definition.

use tegula::{Options, Target};
use tegula_ir::Module;
use tegula_ir::{ArrayShape, ElementType, Literal, Scalar};
use tegula_plan::Plan;
use tegula_plan::Step;
use tegula_tests::judge::{Reference, Verdict};
use tegula_tests::random::Regime;

fn read(text: &str) -> Module {
    tegula_tests::read(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn numbers(element_type: ElementType, dims: &[i64]) -> Literal {
    let shape = ArrayShape::new(element_type, dims);
    let count = shape.element_count().expect("known");
    let number = |i: i64| match element_type.is_float() {
        true => Scalar::Float(((i * 7 + 3) % 11) as f64 / 8.0 - 0.5),
        false => Scalar::Int((i * 7 + 3) % 11),
    };
    Literal::from_scalars(&shape, (0..count).map(number)).expect("small")
}

/// Holds a program against the definition, and gives its plan.
fn checked(text: &str, inputs: &[Literal]) -> Plan {
    let module = read(text);
    let reference = Reference::new(&module, inputs, Regime::General).expect("a meaning");
    for target in [Target::Plan, Target::Cpu] {
        let options = Options {
            target,
            ..Options::default()
        };
        let verdict = reference.judge_with(&module, inputs, &options);
        assert_eq!(verdict, Ok(Verdict::Agrees), "{target:?}\n{text}");
    }
    tegula::plan(&module).expect("it plans").plan
}

/// Visits the steps inside of loops.
fn in_loops(steps: &[Step], inside: bool, visit: &mut dyn FnMut(&Step)) {
    for step in steps {
        if inside {
            visit(step);
        }
        if let Step::While {
            condition, body, ..
        } = step
        {
            in_loops(condition, true, visit);
            in_loops(body, true, visit);
        }
    }
}

fn loops(steps: &[Step]) -> usize {
    steps
        .iter()
        .filter(|s| matches!(s, Step::While { .. }))
        .count()
}

/// A loop of so many iterations over `i` and `state`, whose body makes `n` of `x`.
fn counted(trips: i64, state: &str, input: &str, body: &str) -> String {
    let tuple = format!("(s32[], {state})");
    format!(
        "HloModule small
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
plus {{ a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }}
less {{
  p = {tuple} parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({trips}) ROOT r = pred[] compare(i, n), direction=LT
}}
again {{
  p = {tuple} parameter(0) i = s32[] get-tuple-element(p), index=0
  x = {state} get-tuple-element(p), index=1
  one = s32[] constant(1)
  {body}
  j = s32[] add(i, one)
  ROOT r = {tuple} tuple(j, n)
}}
ENTRY main {{
  x = {state} parameter(0) {input} i = s32[] constant(0)
  t = {tuple} tuple(i, x)
  w = {tuple} while(t), condition=less, body=again
  ROOT r = {state} get-tuple-element(w), index=1
}}
"
    )
}

/// A sum that is fused into what adds it to the state, with nothing of the loop in it.
#[test]
fn an_invariant_sum_is_computed_before_the_loop() {
    let body = "a = s32[5000] iota(), iota_dimension=0 b = s32[5000] multiply(a, a)
  none = s32[] constant(0) c = s32[] reduce(b, none), dimensions={0}, to_apply=plus
  n = s32[] add(x, c)";
    let plan = checked(
        &counted(9, "s32[]", "", body),
        &[numbers(ElementType::S32, &[])],
    );
    let mut sums = 0;
    in_loops(&plan.steps, false, &mut |step| {
        if let Step::Kernel { kernel, .. } = step {
            sums += usize::from(
                plan.kernels[*kernel]
                    .body
                    .any(tegula_fusion::kernel::Statement::is_loop),
            );
        }
    });
    assert_eq!(sums, 0);
}

/// A state that only its own next value reads.
#[test]
fn a_state_that_nothing_reads_is_not_computed() {
    let tuple = "(s32[], f32[40], f32[40])";
    let text = format!(
        "HloModule dead
less {{
  p = {tuple} parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(20) ROOT r = pred[] compare(i, n), direction=LT
}}
again {{
  p = {tuple} parameter(0) i = s32[] get-tuple-element(p), index=0
  x = f32[40] get-tuple-element(p), index=1
  y = f32[40] get-tuple-element(p), index=2
  one = s32[] constant(1) j = s32[] add(i, one)
  e = f32[40] sine(x) f = f32[40] cosine(y)
  ROOT r = {tuple} tuple(j, e, f)
}}
ENTRY main {{
  x = f32[40] parameter(0) i = s32[] constant(0)
  t = {tuple} tuple(i, x, x)
  w = {tuple} while(t), condition=less, body=again
  ROOT r = f32[40] get-tuple-element(w), index=1
}}
"
    );
    let plan = checked(&text, &[numbers(ElementType::F32, &[40])]);
    let mut kernels = 0;
    in_loops(&plan.steps, false, &mut |step| {
        if let Step::Kernel { kernel, .. } = step {
            kernels += usize::from(!plan.kernels[*kernel].domain.is_empty());
        }
    });
    assert_eq!(kernels, 1);
}

#[test]
fn a_loop_of_few_iterations_is_written_out() {
    let body = "b = u32[40] broadcast(k), dimensions={} s = u32[40] shift-left(x, b)
  n = u32[40] xor(x, s)";
    let body = format!("k = u32[] constant(3) {body}");
    for (trips, expected) in [(0, 0), (5, 0), (9, 1)] {
        let text = counted(trips, "u32[40]", "", &body);
        let plan = checked(&text, &[numbers(ElementType::U32, &[40])]);
        assert_eq!(loops(&plan.steps), expected, "{trips} iterations");
    }
}

/// Two elements of an array change places: none of it is copied.
#[test]
fn elements_change_places_in_place() {
    let body = "three = s32[] constant(3) k = s32[] multiply(i, three)
  a = f32[1] dynamic-slice(x, i), dynamic_slice_sizes={1}
  b = f32[1] dynamic-slice(x, k), dynamic_slice_sizes={1}
  y = f32[3000] dynamic-update-slice(x, b, i)
  n = f32[3000] dynamic-update-slice(y, a, k)";
    let text = counted(50, "f32[3000]", "", body);
    let plan = checked(&text, &[numbers(ElementType::F32, &[3000])]);
    let mut copies = 0;
    in_loops(&plan.steps, false, &mut |step| {
        if let Step::Copy { from, to } = step {
            let bytes = plan.values[*from].shape.byte_size().unwrap_or(0);
            copies += usize::from(bytes > 1000 && !plan.same_place(*from, *to));
        }
    });
    assert_eq!(copies, 0);
}

/// Sums over states, small products and choices: all of it in one function, with the state in
/// registers, also where its first value is none.
#[test]
fn small_steps_are_what_they_are() {
    let bodies = [
        "d = f32[] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  h = f32[] constant(0.0625) e = f32[] multiply(d, h) b = f32[10] broadcast(e), dimensions={}
  hs = f32[10] broadcast(h), dimensions={} y = f32[10] multiply(x, hs) n = f32[10] add(y, b)",
        "m = f32[9] slice(x), slice={[0:9]} q = f32[3,3] reshape(m)
  d = f32[3,3] dot(q, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  f = f32[9] reshape(d) l = f32[1] slice(x), slice={[9:10]} c = f32[10] concatenate(f, l), dimensions={0}
  low = f32[] constant(-1) high = f32[] constant(1) n = f32[10] clamp(low, c, high)",
        "v = f32[10] reverse(x), dimensions={0} n = f32[10] subtract(v, x)",
        "t = s32[] constant(2) o = s32[] remainder(i, t) z = s32[] constant(0)
  w = pred[] compare(o, z), direction=EQ v = pred[10] broadcast(w), dimensions={}
  g = f32[10] tanh(x) h = f32[10] negate(x) n = f32[10] select(v, g, h)",
    ];
    for body in bodies {
        for trips in [0, 1, 2, 37] {
            let text = counted(trips, "f32[10]", "", body);
            checked(&text, &[numbers(ElementType::F32, &[10])]);
        }
    }
}
