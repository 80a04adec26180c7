//! Products that are added to an array where it lies: that they are made, mean what the
//! program means on every target, and copy nothing in a loop.

use tegula_fusion::LibraryOp;
use tegula_ir::Module;
use tegula_ir::{ArrayShape, ElementType, Literal};
use tegula_plan::Plan;
use tegula_plan::Step;
use tegula_tests::judge::{Reference, Verdict, assert_agrees};
use tegula_tests::{gpu, random::Regime};

/// Numbers of few bits, so that results are exact.
fn numbers(ty: ElementType, dims: &[i64]) -> Literal {
    let mut literal = Literal::zeros(&ArrayShape::new(ty, dims)).expect("small");
    for i in 0..literal.len() {
        let number = ((i as i64 * 2_654_435_761) >> 9 & 15) as f64 / 8.0 - 1.0;
        let set = literal.set_scalar(i, tegula_ir::Scalar::Float(number));
        set.expect("it is inside");
    }
    literal
}

fn module(text: &str) -> Module {
    tegula_tests::read(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// How many products of a program are added to something, and how many arrays are copied.
fn added(module: &Module) -> (usize, usize) {
    fn count(plan: &Plan, steps: &[Step], found: &mut (usize, usize)) {
        for step in steps {
            match step {
                Step::Library {
                    op: LibraryOp::Dot(_),
                    operands,
                    ..
                } => found.0 += usize::from(operands.len() == 3),
                Step::Copy { from, to } => {
                    // The loop's counter may have to be copied.
                    let array = plan.values[*from].shape.rank() > 0;
                    found.1 += usize::from(array && !plan.same_place(*from, *to));
                }
                _ => {}
            }
        }
    }
    let plan = tegula::plan(module).expect("it plans").plan;
    let mut found = (0, 0);
    // Of the loop's copies only; elsewhere inputs may have to be copied.
    match plan.steps.iter().find(|s| matches!(s, Step::While { .. })) {
        Some(Step::While { body, .. }) => count(&plan, body, &mut found),
        _ => count(&plan, &plan.steps, &mut found),
    }
    found
}

fn agrees(module: &Module, inputs: &[Literal]) {
    assert_agrees(module, inputs, Regime::Dyadic);
    if let Some(target) = gpu::target() {
        let reference = Reference::new(module, inputs, Regime::Dyadic).expect("it has a meaning");
        let verdict = reference.judge(module, inputs, target, 1);
        assert_eq!(verdict, Ok(Verdict::Agrees));
    }
}

/// A loop that adds `a[t]^T b[t]` to a state of `[m, n]`; `more` is done with the state.
fn gradient([m, k, n]: [i64; 3], ty: &str, more: &str, next: &str) -> Module {
    module(&format!(
        "HloModule gradient
condition {{
  p = (s32[], {ty}[{m},{n}], {ty}[5,{k},{m}], {ty}[5,{k},{n}]) parameter(0)
  i = s32[] get-tuple-element(p), index=0 e = s32[] constant(5)
  ROOT r = pred[] compare(i, e), direction=LT
}}
body {{
  p = (s32[], {ty}[{m},{n}], {ty}[5,{k},{m}], {ty}[5,{k},{n}]) parameter(0)
  i = s32[] get-tuple-element(p), index=0 s = {ty}[{m},{n}] get-tuple-element(p), index=1
  a = {ty}[5,{k},{m}] get-tuple-element(p), index=2
  b = {ty}[5,{k},{n}] get-tuple-element(p), index=3
  z = s32[] constant(0) one = s32[] constant(1) j = s32[] add(i, one)
  at = {ty}[1,{k},{m}] dynamic-slice(a, i, z, z), dynamic_slice_sizes={{1,{k},{m}}}
  bt = {ty}[1,{k},{n}] dynamic-slice(b, i, z, z), dynamic_slice_sizes={{1,{k},{n}}}
  l = {ty}[{k},{m}] reshape(at) r = {ty}[{k},{n}] reshape(bt)
  d = {ty}[{m},{n}] dot(l, r), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  {more}
  sum = {ty}[{m},{n}] add(s, d)
  ROOT q = (s32[], {ty}[{m},{n}], {ty}[5,{k},{m}], {ty}[5,{k},{n}]) tuple(j, {next}, a, b)
}}
ENTRY main {{
  s = {ty}[{m},{n}] parameter(0) a = {ty}[5,{k},{m}] parameter(1)
  b = {ty}[5,{k},{n}] parameter(2) z = s32[] constant(0)
  t = (s32[], {ty}[{m},{n}], {ty}[5,{k},{m}], {ty}[5,{k},{n}]) tuple(z, s, a, b)
  w = (s32[], {ty}[{m},{n}], {ty}[5,{k},{m}], {ty}[5,{k},{n}]) while(t), condition=condition, body=body
  ROOT r = {ty}[{m},{n}] get-tuple-element(w), index=1
}}
"
    ))
}

fn inputs_of([m, k, n]: [i64; 3], ty: ElementType) -> [Literal; 3] {
    [&[m, n][..], &[5, k, m], &[5, k, n]].map(|dims| numbers(ty, dims))
}

#[test]
fn gradients_are_added_where_they_lie() {
    let sizes = [
        [5, 3, 7],
        [1, 8, 33],
        [64, 8, 48],
        [40, 300, 50],
        [3, 1, 200],
        [200, 20, 2],
        [16, 0, 16],
        [0, 4, 9],
    ];
    for shape in sizes {
        for (name, ty) in [("f32", ElementType::F32), ("f64", ElementType::F64)] {
            let module = gradient(shape, name, "", "sum");
            agrees(&module, &inputs_of(shape, ty));
            // Of few multiplications it is part of the kernel that adds.
            let is_small = shape.iter().product::<i64>() <= 256;
            if shape.iter().all(|&size| size > 1) && !is_small {
                assert_eq!(added(&module), (1, 0), "{shape:?}");
            }
        }
    }
}

#[test]
fn others_are_not() {
    // The state is read elsewhere, the sum is no state, the product is read twice, sums of
    // fewer bits would be rounded in between.
    let shape = [12, 6, 20];
    let ty = "f32[12,20]";
    let twice = format!("u = {ty} multiply(s, d)");
    let cases = [
        (twice.as_str(), "u", "f32", ElementType::F32),
        ("", "sum", "bf16", ElementType::BF16),
        ("", "sum", "f16", ElementType::F16),
    ];
    for (more, next, name, element_type) in cases {
        let more = more.replace("f32[12,20]", &format!("{name}[12,20]"));
        let module = gradient(shape, name, &more, next);
        assert_eq!(added(&module).0, 0);
        if element_type == ElementType::F32 {
            agrees(&module, &inputs_of(shape, element_type));
        }
    }
}

#[test]
fn products_are_added_to_products() {
    let gates = |ty: &str, [m, k, l, n]: [i64; 4]| {
        module(&format!(
            "HloModule gates
ENTRY main {{
  x = {ty}[{m},{k}] parameter(0) w = {ty}[{k},{n}] parameter(1)
  h = {ty}[{m},{l}] parameter(2) u = {ty}[{l},{n}] parameter(3)
  a = {ty}[{m},{n}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  b = {ty}[{m},{n}] dot(h, u), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  c = {ty}[{n},{m}] dot(w, x), lhs_contracting_dims={{0}}, rhs_contracting_dims={{1}}
  t = {ty}[{m},{n}] transpose(c), dimensions={{1,0}}
  s = {ty}[{m},{n}] add(a, b)
  q = {ty}[{m},{n}] add(t, s)
  ROOT r = {ty}[{m},{n}] abs(q)
}}
"
        ))
    };
    for shape in [
        [8, 64, 128, 512],
        [5, 5, 7, 11],
        [70, 9, 300, 33],
        [1, 40, 30, 100],
    ] {
        let [m, k, l, n] = shape;
        let module = gates("f32", shape);
        let dims = [[m, k], [k, n], [m, l], [l, n]];
        agrees(&module, &dims.map(|dims| numbers(ElementType::F32, &dims)));
        assert_eq!(added(&module), (2, 0), "{shape:?}");
    }
}

#[test]
fn a_plan_must_add_to_an_array_of_the_results_shape() {
    let shape = [12, 6, 20];
    let module = gradient(shape, "f32", "", "sum");
    let mut plan = tegula::plan(&module).expect("it plans").plan;
    assert!(tegula_plan::verify(&plan).is_ok());
    let body = plan.steps.iter_mut().find_map(|s| match s {
        Step::While { body, .. } => Some(body),
        _ => None,
    });
    let operands = body.into_iter().flatten().find_map(|s| match s {
        Step::Library {
            op: LibraryOp::Dot(_),
            operands,
            ..
        } => Some(operands),
        _ => None,
    });
    let operands = operands.expect("a product");
    operands[2] = operands[0];
    let errors = tegula_plan::verify(&plan).expect_err("it is wrong");
    assert!(
        errors.to_string().contains("the addend must have"),
        "{errors:?}"
    );
}
