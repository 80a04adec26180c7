//! Operations that call a computation for each element: reduce, reduce-window,
//! select-and-scatter, map, sort; and top-k.

use crate::common::{counting, f32s, i32s, run, run_one};
use tegula_ir::Literal;

/// A module with this entry whose computation `f` of two `f32` has `body` as its root.
fn with(body: &str, entry: &str) -> String {
    format!(
        "HloModule m
        f {{ p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT r = f32[] {body} }}
        ENTRY e {{ {entry} }}"
    )
}

#[test]
fn sums_are_rounded_once() {
    let entry = "a = f32[2,4] parameter(0)  i = f32[] constant(1)
        ROOT s = f32[2] reduce(a, i), dimensions={1}, to_apply=f";
    let values = [1e8, 1.0, -1e8, 0.0, 0.5, 0.25, 0.125, 3.0];
    let a = Literal::from_f32s(&[2, 4], &values).unwrap();
    let result = run_one(&with("add(p, q)", entry), std::slice::from_ref(&a));
    assert_eq!(result.as_f32s(), Some(&[2.0, 4.875][..]));
    let result = run_one(&with("maximum(q, p)", entry), &[a]);
    assert_eq!(result.as_f32s(), Some(&[1e8, 3.0][..]));
}

#[test]
fn reductions_that_are_not_one_operation_run_in_order() {
    let entry = "a = f32[4] parameter(0)  i = f32[] constant(0)
        ROOT s = f32[] reduce(a, i), dimensions={0}, to_apply=f";
    let result = run_one(&with("subtract(q, p)", entry), &[f32s(&[1., 2., 4., 8.])]);
    assert_eq!(result.as_f32s(), Some(&[8. - (4. - (2. - 1.))][..]));
}

#[test]
fn reduces_keep_the_other_dimensions() {
    let entry = "a = f32[2,3,4] parameter(0)  i = f32[] constant(0)
        s = f32[3] reduce(a, i), dimensions={0,2}, to_apply=f
        t = f32[2,4] reduce(a, i), dimensions={1}, to_apply=f
        ROOT r = (f32[3], f32[2,4]) tuple(s, t)";
    let results = run(&with("add(p, q)", entry), &[counting(&[2, 3, 4])]);
    assert_eq!(results[0].as_f32s(), Some(&[60., 92., 124.][..]));
    let expected = [12., 15., 18., 21., 48., 51., 54., 57.];
    assert_eq!(results[1].as_f32s(), Some(&expected[..]));
}

#[test]
fn variadic_reduce_finds_the_first_largest() {
    let text = "HloModule m
        f { a = f32[] parameter(0)  i = s32[] parameter(1)
            b = f32[] parameter(2)  j = s32[] parameter(3)
            g = pred[] compare(a, b), direction=GE
            x = f32[] select(g, a, b)  y = s32[] select(g, i, j)
            ROOT t = (f32[], s32[]) tuple(x, y) }
        ENTRY e { a = f32[2,4] parameter(0)  i = s32[2,4] iota(), iota_dimension=1
          n = f32[] constant(-inf)  z = s32[] constant(-1)
          ROOT r = (f32[2], s32[2]) reduce(a, i, n, z), dimensions={1}, to_apply=f }";
    let a = Literal::from_f32s(&[2, 4], &[1., 7., 7., 0., -3., -9., -1., -1.]).unwrap();
    let results = run(text, &[a]);
    assert_eq!(results[0].as_f32s(), Some(&[7., -1.][..]));
    assert_eq!(results[1].as_i32s(), Some(&[1, 2][..]));
}

#[test]
fn integer_and_pred_reductions_are_exact() {
    let text = "HloModule m
        m { p = s8[] parameter(0)  q = s8[] parameter(1)  ROOT r = s8[] multiply(p, q) }
        o { p = pred[] parameter(0)  q = pred[] parameter(1)  ROOT r = pred[] or(p, q) }
        ENTRY e { a = s8[3] parameter(0)  b = pred[2,2] parameter(1)
          i = s8[] constant(3)  f = pred[] constant(false)
          s = s8[] reduce(a, i), dimensions={0}, to_apply=m
          t = pred[2] reduce(b, f), dimensions={1}, to_apply=o
          ROOT r = (s8[], pred[2]) tuple(s, t) }";
    let a = Literal::from_i8s(&[3], &[5, 7, 9]).unwrap();
    let b = Literal::from_bools(&[2, 2], &[false, false, false, true]).unwrap();
    let results = run(text, &[a, b]);
    assert_eq!(results[0].as_i8s(), Some(&[945i32 as i8][..]));
    assert_eq!(results[1].bytes(), [0, 1]);
}

#[test]
fn windows_slide_with_every_attribute() {
    let window = |size: usize, window: &str| {
        let entry = format!(
            "a = f32[5] parameter(0)  i = f32[] constant(0)
            ROOT s = f32[{size}] reduce-window(a, i), window={{{window}}}, to_apply=f"
        );
        let result = run_one(&with("add(p, q)", &entry), &[f32s(&[1., 2., 4., 8., 16.])]);
        result.as_f32s().unwrap().to_vec()
    };
    assert_eq!(window(3, "size=3"), [7., 14., 28.]);
    assert_eq!(window(3, "size=3 stride=2 pad=1_1"), [3., 14., 24.]);
    assert_eq!(window(3, "size=2 rhs_dilate=2"), [5., 10., 20.]);
    assert_eq!(
        window(8, "size=2 lhs_dilate=2"),
        [1., 2., 2., 4., 4., 8., 8., 16.]
    );
    assert_eq!(window(5, "size=5 pad=4_0"), [1., 3., 7., 15., 31.]);
    assert_eq!(window(3, "size=2 pad=-1_0"), [6., 12., 24.]);
}

#[test]
fn padding_of_a_window_is_skipped() {
    let entry = "a = f32[3] parameter(0)  i = f32[] constant(10)
        ROOT s = f32[4] reduce-window(a, i), window={size=2 pad=1_1}, to_apply=f";
    let result = run_one(&with("add(p, q)", entry), &[f32s(&[1., 2., 4.])]);
    assert_eq!(result.as_f32s(), Some(&[11., 13., 16., 14.][..]));
}

#[test]
fn select_and_scatter_adds_where_the_largest_was() {
    let text = "HloModule m
        g { p = f32[] parameter(0)  q = f32[] parameter(1)
            ROOT r = pred[] compare(p, q), direction=GE }
        f { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT r = f32[] add(p, q) }
        ENTRY e { a = f32[6] parameter(0)  s = f32[3] parameter(1)  i = f32[] constant(1)
          ROOT r = f32[6] select-and-scatter(a, s, i), window={size=3 stride=2 pad=0_1},
            select=g, scatter=f }";
    let a = f32s(&[1., 5., 5., 5., 2., 7.]);
    let result = run_one(text, &[a, f32s(&[10., 20., 30.])]);
    // The windows are 0-2, 2-4 and 4-5; the first of equal elements is chosen.
    assert_eq!(result.as_f32s(), Some(&[1., 11., 21., 1., 1., 31.][..]));
}

#[test]
fn map_calls_and_calls_are_inlined() {
    let text = "HloModule m
        g { x = f32[] parameter(0)  c = f32[] constant(2)  ROOT y = f32[] multiply(x, c) }
        f { p = f32[] parameter(0)  q = f32[] parameter(1)
            d = f32[] call(p), to_apply=g  ROOT r = f32[] subtract(d, q) }
        ENTRY e { a = f32[3] parameter(0)  b = f32[3] parameter(1)
          ROOT m = f32[3] map(a, b), dimensions={0}, to_apply=f }";
    let result = run_one(text, &[f32s(&[1., 2., 3.]), f32s(&[10., 20., 30.])]);
    assert_eq!(result.as_f32s(), Some(&[-8., -16., -24.][..]));
}

#[test]
fn computations_that_are_no_programs_are_interpreted() {
    let text = "HloModule m
        c { s = (f32[], f32[]) parameter(0)  x = f32[] get-tuple-element(s), index=0
            l = f32[] constant(100)  ROOT r = pred[] compare(x, l), direction=LT }
        b { s = (f32[], f32[]) parameter(0)  x = f32[] get-tuple-element(s), index=0
            k = f32[] get-tuple-element(s), index=1  y = f32[] multiply(x, k)
            ROOT t = (f32[], f32[]) tuple(y, k) }
        f { p = f32[] parameter(0)  q = f32[] parameter(1)
            s = (f32[], f32[]) tuple(p, q)
            w = (f32[], f32[]) while(s), condition=c, body=b
            ROOT r = f32[] get-tuple-element(w), index=0 }
        ENTRY e { a = f32[2] parameter(0)  b = f32[2] parameter(1)
          ROOT m = f32[2] map(a, b), dimensions={0}, to_apply=f }";
    let result = run_one(text, &[f32s(&[1., 7.]), f32s(&[2., 10.])]);
    assert_eq!(result.as_f32s(), Some(&[128., 700.][..]));
}

#[test]
fn sorts_are_stable_and_carry_the_other_operands() {
    let text = "HloModule m
        f { a = s32[] parameter(0)  b = s32[] parameter(1)
            c = s32[] parameter(2)  d = s32[] parameter(3)
            ROOT r = pred[] compare(a, b), direction=GT }
        ENTRY e { k = s32[6] parameter(0)  v = s32[6] iota(), iota_dimension=0
          ROOT s = (s32[6], s32[6]) sort(k, v), dimensions={0}, is_stable=true, to_apply=f }";
    let results = run(text, &[i32s(&[3, 1, 3, 2, 1, 3])]);
    assert_eq!(results[0].as_i32s(), Some(&[3, 3, 3, 2, 1, 1][..]));
    assert_eq!(results[1].as_i32s(), Some(&[0, 2, 5, 3, 1, 4][..]));
}

#[test]
fn sorting_along_an_outer_dimension() {
    let text = "HloModule m
        f { a = f32[] parameter(0)  b = f32[] parameter(1)
            ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER }
        ENTRY e { a = f32[3,2] parameter(0)
          ROOT s = f32[3,2] sort(a), dimensions={0}, to_apply=f }";
    let a = Literal::from_f32s(&[3, 2], &[f32::NAN, 0.0, 5., -0.0, -1., -7.]).unwrap();
    let result = run_one(text, &[a]);
    let result = result.as_f32s().unwrap();
    assert_eq!(result[..4], [-1., -7., 5., -0.0]);
    assert!(result[3].is_sign_negative() && result[4].is_nan() && result[5] == 0.0);
}

#[test]
fn top_k_prefers_the_lower_index() {
    let text = "HloModule m
        ENTRY e { a = f32[2,5] parameter(0)
          ROOT t = (f32[2,3], s32[2,3]) topk(a), k=3, largest=true }";
    let a = [1., 9., 9., 3., 9., -1., f32::NAN, 4., f32::INFINITY, 4.];
    let results = run(text, &[Literal::from_f32s(&[2, 5], &a).unwrap()]);
    assert_eq!(results[1].as_i32s(), Some(&[1, 2, 4, 1, 3, 2][..]));
    assert_eq!(results[0].as_f32s().unwrap()[..3], [9., 9., 9.]);
    let text = text.replace("largest=true", "largest=false");
    let results = run(&text, &[Literal::from_f32s(&[2, 5], &a).unwrap()]);
    assert_eq!(results[1].as_i32s(), Some(&[0, 3, 1, 0, 2, 4][..]));
}
