//! Kernels that write the results of several operations, where one group could wait for another
//! one that waits for it.

use tegula_ir::Literal;
use tegula_tests::judge::assert_agrees;
use tegula_tests::random::Regime;

/// `c` could share a kernel with `x88`, and `x76` one with `x80`. Both at once would be a circle: `x76`
/// needs `c`, and `x88` needs `x80`. As in a step of CMA-ES.
const TWO_GROUPS: &str = "
HloModule two_groups

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY e {
  m = f32[2,4] parameter(0)
  t = f32[4,4] parameter(1)
  p = f32[4] parameter(2)
  w = f32[2] parameter(3)
  zero = f32[] constant(0)
  s = f32[4] sqrt(p)
  c = f32[2] exponential(w)
  d = f32[4] dot(c, m), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  x76 = f32[4] divide(d, s)
  x80 = f32[4] divide(p, s)
  b = f32[2,4] broadcast(x80), dimensions={1}
  x84 = f32[2,4] multiply(m, b)
  g = f32[2,4] dot(x84, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r = f32[2] reduce(g, zero), dimensions={1}, to_apply=sum
  x88 = f32[2] multiply(c, r)
  x89 = f32[2,4] dot(x88, m), lhs_batch_dims={0}, lhs_contracting_dims={}, rhs_batch_dims={0}, rhs_contracting_dims={}
  x90 = f32[4,4] dot(x89, m), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT out = (f32[4], f32[4,4]) tuple(x76, x90)
}";

#[test]
fn groups_do_not_wait_for_each_other() {
    let module = tegula_tests::read(TWO_GROUPS).expect("reads");
    let parameters = module.entry_computation().parameters.clone();
    let inputs: Vec<Literal> = parameters
        .iter()
        .map(|id| {
            let shape = module[*id].shape.as_array().expect("an array");
            let count = shape.element_count().expect("a size");
            let values = (0..count).map(|i| 0.25 + (i % 7) as f32 * 0.125);
            let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
            Literal::from_bytes(shape, &bytes).expect("fits")
        })
        .collect();
    assert_agrees(&module, &inputs, Regime::General);
}
