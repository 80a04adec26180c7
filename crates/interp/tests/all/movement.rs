//! Operations that move elements.

use crate::common::{counting, f32s, run, run_one};
use tegula_ir::Literal;

#[test]
fn reshapes_transposes_and_friends() {
    let text = "HloModule m
        ENTRY e { a = f32[2,3] parameter(0)
          t = f32[3,2] transpose(a), dimensions={1,0}
          r = f32[2,3] reverse(a), dimensions={0,1}
          s = f32[1,2] slice(a), slice={[1:2], [0:3:2]}
          b = f32[2,2,3] broadcast(a), dimensions={0,2}
          c = f32[4,3] concatenate(a, r), dimensions={0}
          ROOT x = (f32[3,2], f32[2,3], f32[1,2], f32[2,2,3], f32[4,3]) tuple(t, r, s, b, c) }";
    let results = run(text, &[counting(&[2, 3])]);
    let expected: [&[f32]; 5] = [
        &[0., 3., 1., 4., 2., 5.],
        &[5., 4., 3., 2., 1., 0.],
        &[3., 5.],
        &[0., 1., 2., 0., 1., 2., 3., 4., 5., 3., 4., 5.],
        &[0., 1., 2., 3., 4., 5., 5., 4., 3., 2., 1., 0.],
    ];
    for (result, expected) in results.iter().zip(expected) {
        assert_eq!(result.as_f32s(), Some(expected));
    }
}

#[test]
fn padding_goes_around_between_and_away() {
    let text = "HloModule m
        ENTRY e { a = f32[4] parameter(0)  v = f32[] constant(9)
          p = f32[9] pad(a, v), padding=1_1_1
          c = f32[2] pad(a, v), padding=-1_-1
          i = f32[3] pad(a, v), padding=-3_-1_1
          n = f32[1] pad(a, v), padding=-9_6
          ROOT t = (f32[9], f32[2], f32[3], f32[1]) tuple(p, c, i, n) }";
    let results = run(text, &[f32s(&[1., 2., 3., 4.])]);
    let expected: [&[f32]; 4] = [
        &[9., 1., 9., 2., 9., 3., 9., 4., 9.],
        &[2., 3.],
        &[9., 3., 9.],
        &[9.],
    ];
    for (result, expected) in results.iter().zip(expected) {
        assert_eq!(result.as_f32s(), Some(expected));
    }
}

#[test]
fn dynamic_starts_are_clamped() {
    let text = "HloModule m
        ENTRY e { a = f32[4,3] parameter(0)  u = f32[2,1] parameter(1)
          i = s32[] parameter(2)  j = s32[] parameter(3)
          s = f32[2,2] dynamic-slice(a, i, j), dynamic_slice_sizes={2,2}
          d = f32[4,3] dynamic-update-slice(a, u, i, j)
          ROOT t = (f32[2,2], f32[4,3]) tuple(s, d) }";
    let update = Literal::from_f32s(&[2, 1], &[-1.0, -2.0]).unwrap();
    let arguments = |i: i32, j: i32| {
        [
            counting(&[4, 3]),
            update.clone(),
            Literal::from_value(i),
            Literal::from_value(j),
        ]
    };
    let results = run(text, &arguments(-5, 99));
    assert_eq!(results[0].as_f32s(), Some(&[1., 2., 4., 5.][..]));
    assert_eq!(
        results[1].as_f32s(),
        Some(&[0., 1., -1., 3., 4., -2., 6., 7., 8., 9., 10., 11.][..])
    );
    let results = run(text, &arguments(99, -5));
    assert_eq!(results[0].as_f32s(), Some(&[6., 7., 9., 10.][..]));
}

#[test]
fn gather_clamps_each_window() {
    let text = "HloModule m
        ENTRY e { a = f32[4,3] parameter(0)  i = s32[3,1] parameter(1)
          ROOT g = f32[3,2,3] gather(a, i), offset_dims={1,2}, collapsed_slice_dims={},
            start_index_map={0}, index_vector_dim=1, slice_sizes={2,3} }";
    let indices = Literal::from_i32s(&[3, 1], &[1, -7, 3]).unwrap();
    let result = run_one(text, &[counting(&[4, 3]), indices]);
    let expected: Vec<f32> = [3..9, 0..6, 6..12]
        .into_iter()
        .flatten()
        .map(|i| i as f32)
        .collect();
    assert_eq!(result.as_f32s(), Some(&expected[..]));
}

#[test]
fn gather_pairs_batching_dimensions() {
    let text = "HloModule m
        ENTRY e { a = f32[2,4] parameter(0)  i = s32[2,3,1] parameter(1)
          ROOT g = f32[2,3] gather(a, i), offset_dims={}, collapsed_slice_dims={1},
            start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0},
            index_vector_dim=2, slice_sizes={1,1} }";
    let indices = Literal::from_i32s(&[2, 3, 1], &[3, 0, 1, 2, 2, 9]).unwrap();
    let result = run_one(text, &[counting(&[2, 4]), indices]);
    assert_eq!(result.as_f32s(), Some(&[3., 0., 1., 6., 6., 7.][..]));
}

#[test]
fn scatter_applies_in_order_and_skips_what_is_outside() {
    let text = |body: &str| {
        format!(
            "HloModule m
            f {{ p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT r = f32[] {body} }}
            ENTRY e {{ a = f32[4] parameter(0)  i = s32[6,1] parameter(1)  u = f32[6] parameter(2)
              ROOT s = f32[4] scatter(a, i, u), update_window_dims={{}}, inserted_window_dims={{0}},
                scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=f }}"
        )
    };
    let indices = Literal::from_i32s(&[6, 1], &[1, 1, -1, 4, 3, 1]).unwrap();
    let updates = f32s(&[10., 20., 30., 40., 50., 60.]);
    let arguments = [f32s(&[1., 2., 3., 4.]), indices, updates];
    let add = run_one(&text("add(p, q)"), &arguments);
    assert_eq!(add.as_f32s(), Some(&[1., 92., 3., 54.][..]));
    let subtract = run_one(&text("subtract(q, p)"), &arguments);
    // 60 - (20 - (10 - 2))
    assert_eq!(subtract.as_f32s(), Some(&[1., 48., 3., 46.][..]));
}

#[test]
fn scatter_windows_lie_inside_whole_or_are_skipped() {
    let text = "HloModule m
        f { p = f32[] parameter(0)  ROOT q = f32[] parameter(1) }
        ENTRY e { a = f32[3,3] parameter(0)  i = s32[2,2] parameter(1)  u = f32[2,2,2] parameter(2)
          ROOT s = f32[3,3] scatter(a, i, u), update_window_dims={1,2}, inserted_window_dims={},
            scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=f }";
    let indices = Literal::from_i32s(&[2, 2], &[1, 1, 2, 0]).unwrap();
    let updates = Literal::from_f32s(&[2, 2, 2], &[-1., -2., -3., -4., -5., -6., -7., -8.]);
    let result = run_one(text, &[counting(&[3, 3]), indices, updates.unwrap()]);
    assert_eq!(
        result.as_f32s(),
        Some(&[0., 1., 2., 3., -1., -2., 6., -3., -4.][..])
    );
}

#[test]
fn bitcasts_keep_the_bytes() {
    let text = "HloModule m
        ENTRY e { a = u32[2] parameter(0)
          b = u8[2,4] bitcast-convert(a)  c = u32[2] bitcast-convert(b)
          n = u4[2,8] bitcast-convert(a)  d = u32[2] bitcast-convert(n)
          ROOT t = (u8[2,4], u32[2], u4[2,8], u32[2]) tuple(b, c, n, d) }";
    let results = run(
        text,
        &[Literal::from_u32s(&[2], &[0x0403_0201, 0xdead_beef]).unwrap()],
    );
    assert_eq!(results[0].bytes(), [1, 2, 3, 4, 0xef, 0xbe, 0xad, 0xde]);
    assert_eq!(results[1].as_u32s(), Some(&[0x0403_0201, 0xdead_beef][..]));
    assert_eq!(
        results[2].bytes()[8..],
        [0xf, 0xe, 0xe, 0xb, 0xd, 0xa, 0xe, 0xd]
    );
    assert_eq!(results[3], results[1]);
}

#[test]
fn a_bitcast_follows_the_layouts() {
    let text = "HloModule m
        ENTRY e { a = f32[2,3]{0,1} parameter(0)  ROOT b = f32[3,2]{1,0} bitcast(a) }";
    let result = run_one(text, &[counting(&[2, 3])]);
    assert_eq!(result.as_f32s(), Some(&[0., 3., 1., 4., 2., 5.][..]));
}

#[test]
fn iota_counts_in_every_type() {
    let text = "HloModule m
        ENTRY e { i = s8[2,3] iota(), iota_dimension=1  f = f32[2,2] iota(), iota_dimension=0
          w = u8[300] iota(), iota_dimension=0  s = u8[1] slice(w), slice={[257:258]}
          ROOT t = (s8[2,3], f32[2,2], u8[1]) tuple(i, f, s) }";
    let results = run(text, &[]);
    assert_eq!(results[0].as_i8s(), Some(&[0, 1, 2, 0, 1, 2][..]));
    assert_eq!(results[1].as_f32s(), Some(&[0., 0., 1., 1.][..]));
    assert_eq!(results[2].as_u8s(), Some(&[1][..]));
}

#[test]
fn empty_arrays_go_everywhere() {
    let text = "HloModule m
        f { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT r = f32[] add(p, q) }
        less { p = f32[] parameter(0)  q = f32[] parameter(1)
          ROOT r = pred[] compare(p, q), direction=LT }
        ENTRY e { a = f32[3,0] parameter(0)  b = f32[0,4] parameter(1)  i = f32[] constant(2)
          n = s32[0,1] parameter(2)
          s = f32[3] reduce(a, i), dimensions={1}, to_apply=f
          d = f32[3,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          o = f32[0,3] transpose(a), dimensions={1,0}
          c = f32[0,4] concatenate(b, b), dimensions={0}
          k = f32[0,4] sort(b), dimensions={0}, to_apply=less
          p = f32[2,4] pad(b, i), padding=1_1x0_0
          v = f32[4] constant({1, 2, 3, 4})
          g = f32[0] gather(v, n), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
            index_vector_dim=1, slice_sizes={1}
          ROOT t = (f32[3], f32[3,4], f32[0,3], f32[0,4], f32[0,4], f32[2,4], f32[0])
            tuple(s, d, o, c, k, p, g) }";
    let none = |dims: &[i64]| Literal::from_f32s(dims, &[]).unwrap();
    let indices = Literal::from_i32s(&[0, 1], &[]).unwrap();
    let results = run(text, &[none(&[3, 0]), none(&[0, 4]), indices]);
    assert_eq!(results[0].as_f32s(), Some(&[2.; 3][..]));
    assert_eq!(results[1].as_f32s(), Some(&[0.; 12][..]));
    assert_eq!(results[5].as_f32s(), Some(&[2.; 8][..]));
    assert!([2, 3, 4, 6].iter().all(|&i| results[i].is_empty()));
}
