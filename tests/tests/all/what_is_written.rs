//! Which values a plan writes to memory, and where: what takes the place of an expensive
//! value, indices of a gather, and what lies in a result's memory before the result does.

use tegula_ir::Module;
use tegula_ir::{ArrayShape, Literal, Scalar};
use tegula_plan::Plan;
use tegula_plan::{Place, Step};
use tegula_tests::judge::assert_agrees;
use tegula_tests::random::Regime;

fn module(entry: &str) -> Module {
    let text = format!(
        "HloModule written
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
ENTRY main {{
{entry}
}}
"
    );
    tegula_tests::read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Small numbers: indices, or halves between -2 and 2.
fn numbers(shape: &ArrayShape) -> Literal {
    let mut literal = Literal::zeros(shape).expect("small");
    for i in 0..literal.len() {
        let number = ((i as i64 * 2_654_435_761) >> 9) & 7;
        let scalar = match shape.element_type.is_float() {
            true => Scalar::Float(number as f64 / 2.0 - 2.0),
            false => Scalar::Int(number - 3),
        };
        literal.set_scalar(i, scalar).expect("it is inside");
    }
    literal
}

/// Compares the Plan and the CPU with the definition, and gives the plan.
fn planned(module: &Module) -> Plan {
    let entry = module.entry_computation();
    let shapes = entry.parameters.iter();
    let shapes = shapes.filter_map(|&p| module[p].shape.as_array());
    let inputs: Vec<Literal> = shapes.map(numbers).collect();
    assert_agrees(module, &inputs, Regime::General);
    tegula::plan(module).expect("it plans").plan
}

/// How many kernels read the first parameter.
fn readers(plan: &Plan) -> usize {
    let reads = |step: &&Step| match step {
        Step::Kernel { args, .. } => args.contains(&plan.parameters[0]),
        _ => false,
    };
    plan.steps.iter().filter(reads).count()
}

#[test]
fn a_cheap_operation_takes_the_place_of_an_expensive_one() {
    // Both readers would otherwise read `x` and the quotient.
    let module = module(
        "x = f32[8,64] parameter(0) one = f32[] constant(1) zero = f32[] constant(0)
         ones = f32[8,64] broadcast(one), dimensions={} n = f32[8,64] negate(x)
         e = f32[8,64] exponential(n) s = f32[8,64] add(e, ones)
         q = f32[8,64] divide(ones, s) y = f32[8,64] multiply(x, q)
         r = f32[8,64] reverse(y), dimensions={0,1}
         t = f32[64] reduce(y, zero), dimensions={0}, to_apply=add
         ROOT out = (f32[8,64], f32[64]) tuple(r, t)",
    );
    assert_eq!(readers(&planned(&module)), 1);
}

#[test]
fn indices_are_computed_where_a_gather_reads_them() {
    let module = module(
        "i = s32[3,5] parameter(0) table = f32[9,64] parameter(1)
         zero = s32[] constant(0) zeros = s32[3,5] broadcast(zero), dimensions={}
         nine = s32[] constant(9) nines = s32[3,5] broadcast(nine), dimensions={}
         negative = pred[3,5] compare(i, zeros), direction=LT
         from_end = s32[3,5] add(i, nines)
         j = s32[3,5] select(negative, from_end, i)
         ROOT g = f32[3,5,64] gather(table, j), offset_dims={2}, collapsed_slice_dims={0},
           start_index_map={0}, index_vector_dim=2, slice_sizes={1,64}",
    );
    let plan = planned(&module);
    assert_eq!(
        (plan.kernels.len(), plan.arena_bytes.as_constant()),
        (1, Some(0))
    );
}

#[test]
fn what_is_needed_no_longer_lies_in_a_result() {
    // Of products in a row the first is done with when the result is written.
    let module = module(
        "a = f32[16,16] parameter(0) b = f32[16,64] parameter(1)
         c = f32[64,16] parameter(2) d = f32[16,128] parameter(3)
         p = f32[16,64] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
         q = f32[16,16] dot(p, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
         r = f32[16,128] dot(q, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
         ROOT s = f32[16,128] negate(r)",
    );
    let plan = planned(&module);
    // The last operand cannot lie there.
    assert_eq!(plan.arena_bytes.as_constant(), Some(16 * 16 * 4));
    let lent = |place: &Place| matches!(place, Place::Output { .. });
    let places = plan.buffers.values().map(|buffer| &buffer.place);
    assert_eq!(places.filter(|place| lent(place)).count(), 2);
}

/// The bytes of a plan's arena.
fn arena(plan: &Plan) -> Option<i64> {
    plan.arena_bytes.as_constant()
}

/// A distance of every pair, by which three coordinates are divided, is computed where they are.
#[test]
fn what_short_dimensions_share_is_not_written() {
    let module = module(
        "p = f32[64,3] parameter(0)
         a = f32[64,64,3] broadcast(p), dimensions={0,2}
         b = f32[64,64,3] broadcast(p), dimensions={1,2}
         d = f32[64,64,3] subtract(a, b) s = f32[64,64,3] multiply(d, d)
         zero = f32[] constant(0) r = f32[64,64] reduce(s, zero), dimensions={2}, to_apply=add
         e = f32[64,64] exponential(r) f = f32[64,64,3] broadcast(e), dimensions={0,1}
         g = f32[64,64,3] multiply(d, f)
         ROOT t = f32[64,3] reduce(g, zero), dimensions={1}, to_apply=add",
    );
    assert_eq!(arena(&planned(&module)), Some(0));
}

/// What is sorted lies where the sorted is; so do places beside it, of which nobody wants the
/// numbers.
#[test]
fn sorts_in_place() {
    for (dims, dimension) in [("500,12", 0), ("3,700", 1), ("5,40,6", 1), ("4,1", 1)] {
        let text = format!(
            "HloModule sorted
less {{
  a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER
}}
partly {{
  a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3)
  x = f32[] abs(a) y = f32[] abs(b) ROOT r = pred[] compare(x, y), direction=LT
}}
ENTRY main {{
  p = f32[{dims}] parameter(0)
  i = s32[{dims}] iota(), iota_dimension={dimension} n = f32[{dims}] negate(p)
  s = (f32[{dims}], s32[{dims}]) sort(n, i), dimensions={{{dimension}}}, is_stable=true, to_apply=less
  k = f32[{dims}] get-tuple-element(s), index=0 v = s32[{dims}] get-tuple-element(s), index=1
  u = (f32[{dims}], s32[{dims}]) sort(k, v), dimensions={{{dimension}}}, is_stable=true, to_apply=partly
  x = f32[{dims}] get-tuple-element(u), index=0 y = s32[{dims}] get-tuple-element(u), index=1
  ROOT r = (f32[{dims}], s32[{dims}]) tuple(x, y)
}}
"
        );
        let module = tegula_tests::read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(arena(&planned(&module)), Some(0), "{dims}");
    }
}

/// Of a gradient the last layer's part is computed before the first one's needs room, which is
/// what the program has before it.
#[test]
fn steps_go_where_less_is_alive() {
    let module = module(
        "x = f32[64,100] parameter(0) w = f32[100,200] parameter(1) v = f32[200,150] parameter(2)
         a = f32[64,200] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
         h = f32[64,200] tanh(a)
         b = f32[64,150] dot(h, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
         o = f32[64,150] tanh(b)
         g = f32[64,200] dot(o, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
         k = f32[64,200] multiply(g, h)
         dw = f32[100,200] dot(x, k), lhs_contracting_dims={0}, rhs_contracting_dims={0}
         dv = f32[200,150] dot(h, o), lhs_contracting_dims={0}, rhs_contracting_dims={0}
         ROOT r = (f32[100,200], f32[200,150]) tuple(dw, dv)",
    );
    let plan = planned(&module);
    let made = plan.steps.iter().filter_map(|step| match step {
        Step::Library { results, .. } => plan.values[results[0]].shape.static_dims(),
        _ => None,
    });
    let made: Vec<Vec<i64>> = made.map(|dims| dims.to_vec()).collect();
    assert_eq!(made[3..], [vec![200, 150], vec![100, 200]]);
}
