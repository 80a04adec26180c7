//! What the CPU does with memory beside what the plan says: states of loops that change
//! places with what becomes of them, slabs that are read where they lie, kernels in pieces
//! and on several threads. Results are those of the definition, however often a loop
//! goes round.

use tegula_ir::Module;
use tegula_ir::{ArrayShape, ElementType, Literal};
use tegula_tests::judge::assert_agrees;
use tegula_tests::random::Regime;

/// Numbers of few bits, so that results are exact.
fn numbers(dims: &[i64]) -> Literal {
    let shape = ArrayShape::new(ElementType::F32, dims);
    let count: i64 = dims.iter().product();
    let number = |i: i64| (((i * 2_654_435_761) >> 9) & 63) as f32 / 16.0 - 2.0;
    let bytes: Vec<u8> = (0..count).flat_map(|i| number(i).to_ne_bytes()).collect();
    Literal::from_bytes(&shape, &bytes).expect("a literal")
}

/// A loop of `trips` iterations over `state` and other `states`; `body` is given the
/// state as `s` (and others by the names that `states` gives them).
fn program(trips: i64, parameters: &str, types: &str, init: &str, body: &str, end: &str) -> Module {
    let text = format!(
        "HloModule loop
condition {{
  p = (s32[], {types}) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({trips}) ROOT r = pred[] compare(i, n), direction=LT
}}
body {{
  p = (s32[], {types}) parameter(0) i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1) j = s32[] add(i, one)
  {body}
}}
ENTRY main {{
  {parameters}
  zero = s32[] constant(0)
  t = (s32[], {types}) tuple(zero, {init})
  w = (s32[], {types}) while(t), condition=condition, body=body
  {end}
}}
"
    );
    tegula_tests::read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

const TRIPS: [i64; 6] = [0, 1, 2, 3, 4, 7];

#[test]
fn a_state_that_is_read_around_each_element() {
    for trips in TRIPS {
        let module = program(
            trips,
            "a = f32[40,30] parameter(0)",
            "f32[40,30]",
            "a",
            "s = f32[40,30] get-tuple-element(p), index=1
             t = f32[40,30] reverse(s), dimensions={0,1}
             h = f32[] constant(0.5) hb = f32[40,30] broadcast(h), dimensions={}
             u = f32[40,30] multiply(t, hb) v = f32[40,30] subtract(s, u)
             ROOT r = (s32[], f32[40,30]) tuple(j, v)",
            "ROOT r = f32[40,30] get-tuple-element(w), index=1",
        );
        assert_agrees(&module, &[numbers(&[40, 30])], Regime::Dyadic);
    }
}

#[test]
fn the_inner_part_of_a_state() {
    for trips in TRIPS {
        let module = program(
            trips,
            "a = f32[40,30] parameter(0)",
            "f32[40,30]",
            "a",
            "s = f32[40,30] get-tuple-element(p), index=1
             x = f32[38,28] slice(s), slice={[0:38],[1:29]}
             y = f32[38,28] slice(s), slice={[2:40],[2:30]}
             z = f32[38,28] subtract(x, y)
             v = f32[40,30] dynamic-update-slice(s, z, one, one)
             ROOT r = (s32[], f32[40,30]) tuple(j, v)",
            "b = f32[40,30] get-tuple-element(w), index=1 ROOT r = f32[40,30] add(b, a)",
        );
        assert_agrees(&module, &[numbers(&[40, 30])], Regime::Dyadic);
    }
}

#[test]
fn two_states_that_read_each_other() {
    for trips in TRIPS {
        let module = program(
            trips,
            "a = f32[600] parameter(0) b = f32[600] parameter(1)",
            "f32[600], f32[600]",
            "a, b",
            "s = f32[600] get-tuple-element(p), index=1 t = f32[600] get-tuple-element(p), index=2
             sr = f32[600] reverse(s), dimensions={0} tr = f32[600] reverse(t), dimensions={0}
             u = f32[600] subtract(s, tr) v = f32[600] subtract(sr, t)
             ROOT r = (s32[], f32[600], f32[600]) tuple(j, v, u)",
            "c = f32[600] get-tuple-element(w), index=1 d = f32[600] get-tuple-element(w), index=2
             ROOT r = (f32[600], f32[600]) tuple(c, d)",
        );
        assert_agrees(&module, &[numbers(&[600]), numbers(&[600])], Regime::Dyadic);
    }
}

#[test]
fn a_loop_in_a_loop_and_a_choice() {
    for trips in TRIPS {
        let text = format!(
            "HloModule loop
less {{ q = (s32[], f32[500]) parameter(0) i = s32[] get-tuple-element(q), index=0
  n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }}
inner {{ q = (s32[], f32[500]) parameter(0) i = s32[] get-tuple-element(q), index=0
  s = f32[500] get-tuple-element(q), index=1 one = s32[] constant(1) j = s32[] add(i, one)
  t = f32[500] reverse(s), dimensions={{0}} u = f32[500] maximum(s, t) v = f32[500] subtract(u, t)
  ROOT r = (s32[], f32[500]) tuple(j, v) }}
kept {{ ROOT x = f32[500] parameter(0) }}
turned {{ x = f32[500] parameter(0) ROOT r = f32[500] reverse(x), dimensions={{0}} }}
condition {{ p = (s32[], f32[500]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({trips}) ROOT r = pred[] compare(i, n), direction=LT }}
body {{ p = (s32[], f32[500]) parameter(0) i = s32[] get-tuple-element(p), index=0
  s = f32[500] get-tuple-element(p), index=1 one = s32[] constant(1) j = s32[] add(i, one)
  two = s32[] constant(2) odd = s32[] remainder(i, two)
  c = f32[500] conditional(odd, s, s), branch_computations={{kept, turned}}
  zero = s32[] constant(0) t = (s32[], f32[500]) tuple(zero, c)
  w = (s32[], f32[500]) while(t), condition=less, body=inner
  x = f32[500] get-tuple-element(w), index=1 y = f32[500] reverse(s), dimensions={{0}}
  z = f32[500] add(x, y) h = f32[] constant(0.5) hb = f32[500] broadcast(h), dimensions={{}}
  v = f32[500] multiply(z, hb) ROOT r = (s32[], f32[500]) tuple(j, v) }}
ENTRY main {{ a = f32[500] parameter(0) zero = s32[] constant(0)
  t = (s32[], f32[500]) tuple(zero, a)
  w = (s32[], f32[500]) while(t), condition=condition, body=body
  ROOT r = f32[500] get-tuple-element(w), index=1 }}
"
        );
        let module = tegula_tests::read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_agrees(&module, &[numbers(&[500])], Regime::Dyadic);
    }
}

/// Slabs of a stacked array, by a counter that runs out of its range on both sides.
#[test]
fn slabs_of_what_stays() {
    for trips in TRIPS {
        let module = program(
            trips,
            "a = f32[8,64] parameter(0) b = f32[5,64,64] parameter(1)",
            "f32[8,64], f32[5,64,64]",
            "a, b",
            "s = f32[8,64] get-tuple-element(p), index=1
             t = f32[5,64,64] get-tuple-element(p), index=2
             zero = s32[] constant(0) two = s32[] constant(2) k = s32[] subtract(i, two)
             x = f32[1,64,64] dynamic-slice(t, k, zero, zero), dynamic_slice_sizes={1,64,64}
             y = f32[64,64] reshape(x) q = f32[] constant(0.0625)
             z = f32[8,64] dot(s, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
             qb = f32[8,64] broadcast(q), dimensions={} m = f32[8,64] multiply(z, qb)
             c = f32[8,64] floor(m) n = f32[] constant(-2) h = f32[] constant(2)
             v = f32[8,64] clamp(n, c, h)
             ROOT r = (s32[], f32[8,64], f32[5,64,64]) tuple(j, v, t)",
            "ROOT r = f32[8,64] get-tuple-element(w), index=1",
        );
        assert_agrees(
            &module,
            &[numbers(&[8, 64]), numbers(&[5, 64, 64])],
            Regime::Dyadic,
        );
    }
}

/// A slab of a state that the iteration changes before the slab is read, and one that is
/// given on.
#[test]
fn slabs_of_what_changes() {
    for trips in TRIPS {
        let module = program(
            trips,
            "a = f32[5,64,64] parameter(0) b = f32[64,64] parameter(1)",
            "f32[5,64,64], f32[64,64]",
            "a, b",
            "t = f32[5,64,64] get-tuple-element(p), index=1
             s = f32[64,64] get-tuple-element(p), index=2
             zero = s32[] constant(0)
             x = f32[1,64,64] dynamic-slice(t, i, zero, zero), dynamic_slice_sizes={1,64,64}
             y = f32[64,64] reshape(x) sr = f32[1,64,64] reshape(s)
             u = f32[5,64,64] dynamic-update-slice(t, sr, i, zero, zero)
             d = f32[64,64] dot(y, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}
             q = f32[] constant(0.0625) qb = f32[64,64] broadcast(q), dimensions={}
             m = f32[64,64] multiply(d, qb) c = f32[64,64] floor(m)
             n = f32[] constant(-2) h = f32[] constant(2) e = f32[64,64] clamp(n, c, h)
             f = f32[64,64] add(e, y) v = f32[64,64] clamp(n, f, h)
             ROOT r = (s32[], f32[5,64,64], f32[64,64]) tuple(j, u, v)",
            "g = f32[5,64,64] get-tuple-element(w), index=1
             k = f32[64,64] get-tuple-element(w), index=2
             ROOT r = (f32[5,64,64], f32[64,64]) tuple(g, k)",
        );
        assert_agrees(
            &module,
            &[numbers(&[5, 64, 64]), numbers(&[64, 64])],
            Regime::Dyadic,
        );
    }
}

/// Slabs (contiguous parts of an array that `dynamic-slice` selects) outside of loops. Each is both
/// operands of a `dot`, of which the second is transposed; one slab is also a result.
#[test]
fn slabs_without_a_loop() {
    let text = "HloModule slabs
ENTRY main { a = f32[3,4,40,40] parameter(0) i = s32[] parameter(1) k = u32[] parameter(2)
  zero = s32[] constant(0)
  x = f32[1,1,40,40] dynamic-slice(a, i, i, zero, zero), dynamic_slice_sizes={1,1,40,40}
  y = f32[40,40] reshape(x)
  d = f32[40,40] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  b = f32[1,4,40,40] dynamic-slice(a, k, k, k, k), dynamic_slice_sizes={1,4,40,40}
  c = f32[160,40] reshape(b)
  e = f32[160,160] dot(c, c), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT r = (f32[40,40], f32[40,40], f32[160,160]) tuple(y, d, e) }
";
    let module = tegula_tests::read(text).unwrap_or_else(|e| panic!("{e}"));
    for (i, k) in [(0i32, 0u32), (2, 1), (-7, u32::MAX), (i32::MAX, 2)] {
        let scalar = |ty, bytes: [u8; 4]| {
            Literal::from_bytes(&ArrayShape::new(ty, &[]), &bytes).expect("a scalar")
        };
        let i = scalar(ElementType::S32, i.to_ne_bytes());
        let k = scalar(ElementType::U32, k.to_ne_bytes());
        assert_agrees(&module, &[numbers(&[3, 4, 40, 40]), i, k], Regime::Dyadic);
    }
}

/// What is put together along the innermost dimension, and padded widely, as one kernel:
/// alone, in rows, and in the only dimension there is, on several threads.
#[test]
fn pieces_of_a_dimension() {
    let texts = [
        "ENTRY main { a = f32[7,40] parameter(0) b = f32[7,24] parameter(1)
          n = f32[7,24] negate(b) m = f32[7,40] multiply(a, a)
          c = f32[7,104] concatenate(m, b, a), dimensions={1}
          z = f32[] constant(3) p = f32[9,150] pad(c, z), padding=1_1x20_26
          ROOT r = f32[9,150] negate(p) }",
        "ENTRY main { a = f32[30000] parameter(0) b = f32[50001] parameter(1)
          n = f32[50001] negate(b) c = f32[110001] concatenate(a, n, a), dimensions={0}
          ROOT r = f32[110001] add(c, c) }",
        "ENTRY main { a = f32[300,64] parameter(0) b = f32[300,80] parameter(1)
          x = f32[300,32] slice(a), slice={[0:300],[32:64]} y = f32[300,32] slice(a), slice={[0:300],[0:32]}
          n = f32[300,32] negate(x) c = f32[300,144] concatenate(n, y, b), dimensions={1}
          z = f32[] constant(0) s = f32[300] reduce(c, z), dimensions={1}, to_apply=sum
          sb = f32[300,144] broadcast(s), dimensions={0} ROOT r = f32[300,144] add(c, sb) }",
    ];
    for text in texts {
        let sum = "sum { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }";
        let text = format!("HloModule pieces\n{sum}\n{text}\n");
        let module = tegula_tests::read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let computation = &module[module.entry];
        let inputs: Vec<Literal> = (computation.parameters.iter())
            .map(|&p| {
                let shape = module[p].shape.as_array().expect("an array");
                numbers(&shape.static_dims().expect("sizes"))
            })
            .collect();
        assert_agrees(&module, &inputs, Regime::Dyadic);
    }
}
