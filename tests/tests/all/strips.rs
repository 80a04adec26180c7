//! Steps done strip by strip: that they are found, mean what the program means on any number of
//! threads, and keep no more than strips.

use tegula_codegen_cpu::{Executable, IsaLevel, Options, StreamLimits};
use tegula_ir::{ArrayShape, ElementType, Literal, Module, Scalar};
use tegula_plan::Plan;
use tegula_plan::{Step, StripLimits, cuts};
use tegula_tests::judge::Reference;
use tegula_tests::random::Regime;

const COMBINERS: &str = "
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
";

/// Scores of 21 queries and 22 keys in three heads, masked by their places; as weights; the
/// values by these.
const ATTENTION: &str = "
  q = f32[3,21,10] parameter(0) k = f32[3,22,10] parameter(1) v = f32[3,22,10] parameter(2)
  s0 = f32[3,21,22] dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2},
    rhs_contracting_dims={2}
  i = s32[3,21,22] iota(), iota_dimension=1 j = s32[3,21,22] iota(), iota_dimension=2
  far = f32[] constant(-30) farb = f32[3,21,22] broadcast(far), dimensions={}
  seen = pred[3,21,22] compare(j, i), direction=LE
  s = f32[3,21,22] select(seen, s0, farb)
  low = f32[] constant(-inf) zero = f32[] constant(0)
  m = f32[3,21] reduce(s, low), dimensions={2}, to_apply=max
  mb = f32[3,21,22] broadcast(m), dimensions={0,1}
  d = f32[3,21,22] subtract(s, mb) e = f32[3,21,22] exponential(d)
  n = f32[3,21] reduce(e, zero), dimensions={2}, to_apply=add
  nb = f32[3,21,22] broadcast(n), dimensions={0,1}
  p = f32[3,21,22] divide(e, nb)
  ROOT o = f32[3,21,10] dot(p, v), lhs_batch_dims={0}, rhs_batch_dims={0},
    lhs_contracting_dims={2}, rhs_contracting_dims={1}";

/// Two layers; the second one's weights are the first one's.
fn layers(ty: &str, rows: i64) -> String {
    format!(
        "x = {ty}[{rows},24] parameter(0) w = {ty}[24,40] parameter(1) b = {ty}[40] parameter(2)
        y = {ty}[{rows},40] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
        bb = {ty}[{rows},40] broadcast(b), dimensions={{1}}
        z = {ty}[{rows},40] add(y, bb)
        t = {ty}[{rows},40] tanh(z)
        ROOT r = {ty}[{rows},24] dot(t, w), lhs_contracting_dims={{1}},
          rhs_contracting_dims={{1}}"
    )
}

fn module(entry: &str) -> Module {
    let text = format!("HloModule strips\n{COMBINERS}\nENTRY main {{\n{entry}\n}}\n");
    tegula_tests::read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn plan(module: &Module, strips: Option<StripLimits>) -> Plan {
    let options = tegula::PlanOptions {
        strips,
        ..tegula::PlanOptions::default()
    };
    tegula::plan_for(module, &options).expect("it plans").plan
}

/// Multiples of 1/8 between -1 and 1, which sums of products do not round.
fn numbers(ty: ElementType, dims: &[i64], seed: i64) -> Literal {
    let count: i64 = dims.iter().product();
    let eighths = (0..count).map(|i| ((((i + seed) * 2_654_435_761) >> 7) & 15) - 8);
    let bytes: Vec<u8> = match ty {
        ElementType::F32 => eighths
            .flat_map(|n| (n as f32 / 8.0).to_ne_bytes())
            .collect(),
        _ => eighths
            .flat_map(|n| (((n as f32 / 8.0).to_bits() >> 16) as u16).to_ne_bytes())
            .collect(),
    };
    Literal::from_bytes(&ArrayShape::new(ty, dims), &bytes).expect("a literal")
}

/// The strips of a plan, however deep: into how many, and of how many steps.
fn found(steps: &[Step], out: &mut Vec<(i64, usize)>) {
    for step in steps {
        if let Step::Strips { count, steps } = step {
            out.push((*count, steps.len()));
        }
        step.blocks().iter().for_each(|block| found(block, out));
    }
}

fn strips(plan: &Plan) -> Vec<(i64, usize)> {
    let mut all = Vec::new();
    found(&plan.steps, &mut all);
    all
}

/// Holds a program in the finest strips against its meaning.
fn check(module: &Module, inputs: &[Literal]) -> Plan {
    let reference = Reference::new(module, inputs, Regime::General).expect("it has a meaning");
    let fine = plan(module, Some(StripLimits::ALWAYS));
    if let Err(error) = reference.judge_plan(&fine, inputs) {
        panic!("{error}\n{fine}");
    }
    fine
}

fn attention_inputs() -> [Literal; 3] {
    let array = |rows, seed| numbers(ElementType::F32, &[3, rows, 10], seed);
    [array(21, 0), array(22, 1), array(22, 2)]
}

#[test]
fn attention_is_done_row_by_row() {
    let module = module(ATTENTION);
    let fine = check(&module, &attention_inputs());
    assert_eq!(strips(&fine), [(63, 3)], "{fine}");
    assert!(strips(&plan(&module, Some(StripLimits::CPU))).is_empty());
}

#[test]
fn coarser_strips_are_whole_heads() {
    let limits = StripLimits {
        near: 3000,
        rows: 30,
        ..StripLimits::ALWAYS
    };
    let coarse = plan(&module(ATTENTION), Some(limits));
    assert_eq!(strips(&coarse), [(3, 3)], "{coarse}");
}

#[test]
fn a_strip_of_what_only_strips_need_is_all_that_is_kept() {
    let module = module(ATTENTION);
    let inputs = attention_inputs();
    let bytes = |strips| {
        let options = tegula_codegen_cpu::Options {
            cpu: IsaLevel::Native,
            threads: 2,
            streaming: StreamLimits::MEASURED,
        };
        let executable = Executable::new(plan(&module, strips), &options).expect("it compiles");
        let shapes: Vec<&ArrayShape> = inputs.iter().map(Literal::shape).collect();
        executable.peak_bytes(&shapes).expect("it fits")
    };
    let (whole, fine) = (bytes(None), bytes(Some(StripLimits::ALWAYS)));
    let results = 3 * 21 * 10 * 4;
    assert_eq!(whole - results, 3 * 21 * 22 * 4);
    // Two threads' rows of 88 bytes, and what aligns them.
    assert!(fine - results <= 2 * (88 + 2 * 64), "{fine}");
}

/// What a kernel may hold in a register or copy lies there as a whole, though a strip of it is all
/// that a strip reads.
#[test]
fn small_arrays_that_are_read_as_wholes_are_there() {
    let table = (
        "x = f32[2,4] parameter(0) w = f32[4,8] parameter(1) i = s32[2,40] parameter(2)
        y = f32[2,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT z = f32[2,40] gather(y, i), offset_dims={}, collapsed_slice_dims={1},
          start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0},
          index_vector_dim=2, slice_sizes={1,1}",
        vec![
            numbers(ElementType::F32, &[2, 4], 0),
            numbers(ElementType::F32, &[4, 8], 1),
            Literal::from_scalars(
                &ArrayShape::new(ElementType::S32, &[2, 40]),
                (0..80).map(|i| Scalar::Int(i * 7 % 11 - 2)),
            )
            .expect("small"),
        ],
        [2 * 8 * 4, 2 * 40 * 4],
    );
    let copied = (
        "p = f32[2,20,4] parameter(0) w = f32[4,6] parameter(1) x = f32[2,200,6] parameter(2)
        y = f32[2,20,6] dot(p, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
        yb = f32[2,200,20,6] broadcast(y), dimensions={0,2,3}
        xb = f32[2,200,20,6] broadcast(x), dimensions={0,1,3}
        d = f32[2,200,20,6] subtract(xb, yb) e = f32[2,200,20,6] multiply(d, d)
        zero = f32[] constant(0)
        ROOT z = f32[2,200,20] reduce(e, zero), dimensions={3}, to_apply=add",
        vec![
            numbers(ElementType::F32, &[2, 20, 4], 0),
            numbers(ElementType::F32, &[4, 6], 1),
            numbers(ElementType::F32, &[2, 200, 6], 2),
        ],
        [2 * 20 * 6 * 4, 2 * 200 * 20 * 4],
    );
    for (text, inputs, [small, result]) in [table, copied] {
        let fine = check(&module(text), &inputs);
        assert_eq!(strips(&fine), [(2, 2)], "{fine}");
        let executable = Executable::new(fine, &Options::default()).expect("it compiles");
        let shapes: Vec<&ArrayShape> = inputs.iter().map(Literal::shape).collect();
        let bytes = executable.peak_bytes(&shapes).expect("it fits");
        assert_eq!(bytes, small + result);
    }
}

#[test]
fn rows_of_layers_share_their_weights() {
    for (ty, element) in [("f32", ElementType::F32), ("bf16", ElementType::BF16)] {
        let module = module(&layers(ty, 36));
        let array = |dims: &[i64], seed| numbers(element, dims, seed);
        let inputs = [array(&[36, 24], 0), array(&[24, 40], 1), array(&[40], 2)];
        let fine = check(&module, &inputs);
        assert_eq!(strips(&fine), [(36, 3)], "{fine}");
    }
}

#[test]
fn frozen_weights_are_packed_for_all_runs() {
    let module = module(&layers("bf16", 36));
    let array = |dims: &[i64], seed| numbers(ElementType::BF16, dims, seed);
    let inputs = [array(&[36, 24], 0), array(&[24, 40], 1), array(&[40], 2)];
    for threads in [1, 2] {
        let options = tegula_codegen_cpu::Options {
            cpu: IsaLevel::Native,
            threads,
            streaming: StreamLimits::MEASURED,
        };
        let fine = plan(&module, Some(StripLimits::ALWAYS));
        let mut executable = Executable::new(fine, &options).expect("it compiles");
        let run = |executable: &Executable, inputs: &[Literal]| {
            let lent = inputs.iter().map(std::borrow::Cow::Borrowed).collect();
            executable.run(lent).expect("it runs")
        };
        let unfrozen = run(&executable, &inputs);
        executable.freeze(1);
        assert_eq!(run(&executable, &inputs), unfrozen);
        // Other rows, the same weights.
        let others = [array(&[36, 24], 5), inputs[1].clone(), inputs[2].clone()];
        let given = run(&executable, &others);
        executable.freeze(1);
        assert_eq!(run(&executable, &others), given);
        assert!(given != unfrozen);
    }
}

#[test]
fn images_of_a_batch_are_done_one_by_one() {
    let module = module(
        "x = f32[6,9,9,5] parameter(0) w = f32[3,3,5,7] parameter(1) b = f32[7] parameter(2)
        w2 = f32[1,1,7,4] parameter(3)
        y = f32[6,9,9,7] convolution(x, w), window={size=3x3 pad=1_1x1_1},
          dim_labels=b01f_01io->b01f
        bb = f32[6,9,9,7] broadcast(b), dimensions={3} z = f32[6,9,9,7] add(y, bb)
        zero = f32[] constant(0) zb = f32[6,9,9,7] broadcast(zero), dimensions={}
        r = f32[6,9,9,7] maximum(z, zb)
        ROOT o = f32[6,9,9,4] convolution(r, w2), window={size=1x1}, dim_labels=b01f_01io->b01f",
    );
    let shapes: [&[i64]; 4] = [&[6, 9, 9, 5], &[3, 3, 5, 7], &[7], &[1, 1, 7, 4]];
    let inputs: Vec<Literal> = shapes
        .iter()
        .zip(0..)
        .map(|(dims, seed)| numbers(ElementType::F32, dims, seed))
        .collect();
    let fine = check(&module, &inputs);
    assert_eq!(strips(&fine), [(6, 3)], "{fine}");
}

#[test]
fn strips_in_a_loop_change_its_state() {
    let module = module(
        "x = f32[16,8] parameter(0) w = f32[8,8] parameter(1)
        n = s32[] constant(0) t = (s32[], f32[16,8], f32[8,8]) tuple(n, x, w)
        l = (s32[], f32[16,8], f32[8,8]) while(t), condition=again, body=body
        ROOT r = f32[16,8] get-tuple-element(l), index=1
        }
        again {
          t = (s32[], f32[16,8], f32[8,8]) parameter(0)
          i = s32[] get-tuple-element(t), index=0 four = s32[] constant(4)
          ROOT go = pred[] compare(i, four), direction=LT
        }
        body {
          t = (s32[], f32[16,8], f32[8,8]) parameter(0)
          i = s32[] get-tuple-element(t), index=0 x = f32[16,8] get-tuple-element(t), index=1
          w = f32[8,8] get-tuple-element(t), index=2
          y = f32[16,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          z = f32[16,8] tanh(y)
          v = f32[16,8] dot(z, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
          one = s32[] constant(1) j = s32[] add(i, one)
          ROOT next = (s32[], f32[16,8], f32[8,8]) tuple(j, v, w)",
    );
    let inputs = [
        numbers(ElementType::F32, &[16, 8], 0),
        numbers(ElementType::F32, &[8, 8], 1),
    ];
    let fine = check(&module, &inputs);
    assert_eq!(strips(&fine), [(16, 3)], "{fine}");
}

#[test]
fn what_strips_need_of_one_another_is_not_cut() {
    // The second product sums over what the first one's rows are.
    let module = module(
        "x = f32[16,8] parameter(0)
        y = f32[16,16] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
        z = f32[16,16] tanh(y)
        ROOT o = f32[8,16] dot(x, z), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    );
    let fine = check(&module, &[numbers(ElementType::F32, &[16, 8], 0)]);
    // The product and the function of it go together, the sum does not.
    let Some(Step::Strips { count, steps }) = fine.steps.first() else {
        return assert!(strips(&fine).is_empty(), "{fine}");
    };
    assert_eq!(
        cuts(&fine, *count, steps).map(|cuts| cuts.len()),
        Some(2),
        "{fine}"
    );
}

#[test]
fn an_array_that_is_not_shared_out_has_its_own_memory() {
    // Nothing reads what is written the other way round.
    let text = "plan \"strips\" arena 256 {
        b0 = parameter 0 bytes 128
        b1 = output 0 bytes 128
        b2 = arena 128 bytes 128
        b3 = arena 0 bytes 128
        x0 = f32[4,8] in b0
        x1 = f32[4,8] in b2
        x2 = f32[8,4] in b3
        x3 = f32[4,8] in b1
        k0 = kernel(read f32[4, 8], write f32[4, 8], write f32[8, 4]) {
          for i0 < 4
          for i1 < 8
          v0:f32 = load 0[i0, i1]
          v1:f32 = add v0, v0
          store 1[i0, i1] = v1
          store 2[i1, i0] = v1
        }
        k1 = kernel(read f32[4, 8], write f32[4, 8]) {
          for i0 < 4
          for i1 < 8
          v0:f32 = load 0[i0, i1]
          v1:f32 = multiply v0, v0
          store 1[i0, i1] = v1
        }
        parameters(x0)
        results(x3)
        strips 4 {
          run k0(x0, x1, x2)
          run k1(x1, x3)
        }
      }";
    let plan = tegula_plan::parse_plan(text).expect("a plan");
    let private = tegula_plan::private_values(&plan);
    let x1 = plan.values.keys().nth(1).expect("a value");
    assert_eq!(private.into_iter().collect::<Vec<_>>(), [x1]);
    let module =
        module("x = f32[4,8] parameter(0) y = f32[4,8] add(x, x) ROOT z = f32[4,8] multiply(y, y)");
    let inputs = [numbers(ElementType::F32, &[4, 8], 0)];
    let reference = Reference::new(&module, &inputs, Regime::General).expect("it has a meaning");
    let judged = reference.judge_plan(&plan, &inputs);
    judged.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_plan_whose_strips_differ_is_wrong() {
    let plan = plan(&module(ATTENTION), Some(StripLimits::ALWAYS));
    let mut wrong = plan.clone();
    let Some(Step::Strips { count, .. }) = wrong.steps.first_mut() else {
        panic!("{plan}");
    };
    *count = 5;
    let errors = tegula_plan::verify(&wrong).expect_err("rows are not cut in five");
    assert!(
        errors[0]
            .to_string()
            .contains("cannot be divided together into 5 strips"),
        "{errors:?}"
    );
    // The order of rows is what the softmax of all of them would be wrong in.
    let mut wrong = plan;
    let Some(Step::Strips { steps, .. }) = wrong.steps.first_mut() else {
        return;
    };
    steps.push(steps[0].clone());
    steps.swap(0, 1);
    assert!(tegula_plan::verify(&wrong).is_err());
}
