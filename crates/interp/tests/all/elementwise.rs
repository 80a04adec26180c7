//! Elementwise operations on arrays, through whole modules.

use crate::common::{f32s, i32s, run, run_one};
use half::{bf16, f16};
use tegula_ir::Literal;

#[test]
fn each_result_is_rounded_to_its_type() {
    let text = "HloModule m
        ENTRY e { a = bf16[2] parameter(0)  b = bf16[2] parameter(1)
          s = bf16[2] add(a, b)  ROOT t = bf16[2] multiply(s, s) }";
    let a = [bf16::from_f32(1.0), bf16::from_f32(256.0)];
    let b = [bf16::from_f32(0.003_906_25), bf16::from_f32(1.0)];
    let literal = |x: &[bf16]| Literal::from_bf16s(&[2], x).unwrap();
    let result = run_one(text, &[literal(&a), literal(&b)]);
    // 1 + 2^-8 and 256 + 1 are ties, which round to the adjacent even number.
    let expected = [bf16::from_f32(1.0), bf16::from_f32(65536.0)];
    assert_eq!(result.as_bf16s(), Some(&expected[..]));
}

#[test]
fn half_precision_overflows_to_infinity() {
    let text = "HloModule m
        ENTRY e { a = f16[1] parameter(0)  ROOT s = f16[1] exponential(a) }";
    let argument = Literal::from_f16s(&[1], &[f16::from_f32(12.0)]).unwrap();
    let result = run_one(text, &[argument]);
    assert_eq!(result.as_f16s(), Some(&[f16::INFINITY][..]));
}

#[test]
fn integers_wrap_and_divide_without_traps() {
    let text = "HloModule m
        ENTRY e { a = s32[5] parameter(0)  b = s32[5] parameter(1)
          q = s32[5] divide(a, b)  r = s32[5] remainder(a, b)  s = s32[5] add(a, b)
          l = s32[5] shift-left(a, b)  p = s32[5] power(b, b)
          ROOT t = (s32[5], s32[5], s32[5], s32[5], s32[5]) tuple(q, r, s, l, p) }";
    let a = i32s(&[7, i32::MIN, -7, i32::MAX, 1]);
    let b = i32s(&[0, -1, 2, 1, 33]);
    let results = run(text, &[a, b]);
    let expected: [[i32; 5]; 5] = [
        [-1, i32::MIN, -3, i32::MAX, 0],
        [7, 0, -1, 0, 1],
        [7, i32::MAX, -5, i32::MIN, 34],
        [7, 0, -28, -2, 0],
        [1, -1, 4, 1, 33i32.wrapping_pow(33)],
    ];
    for (result, expected) in results.iter().zip(&expected) {
        assert_eq!(result.as_i32s(), Some(&expected[..]));
    }
}

#[test]
fn narrow_integers_stay_within_their_width() {
    let text = "HloModule m
        ENTRY e { a = s4[3] parameter(0)
          s = s4[3] add(a, a)  r = s4[3] shift-right-logical(a, a)  c = s4[3] popcnt(a)
          ROOT t = (s4[3], s4[3], s4[3]) tuple(s, r, c) }";
    let shape = tegula_ir::ArrayShape::new(tegula_ir::ElementType::S4, &[3]);
    let a = Literal::from_bytes(&shape, &[7, 0xff, 1]).unwrap();
    let bytes: Vec<Vec<u8>> = run(text, &[a]).iter().map(|r| r.bytes().to_vec()).collect();
    assert_eq!(bytes, [[0xfe, 0xfe, 2], [0, 0, 0], [3, 4, 1]]);
}

#[test]
fn comparisons_follow_their_order() {
    let text = "HloModule m
        ENTRY e { a = f32[4] parameter(0)  b = f32[4] parameter(1)
          p = pred[4] compare(a, b), direction=LT
          t = pred[4] compare(a, b), direction=LT, type=TOTALORDER
          n = pred[4] compare(a, b), direction=NE
          ROOT r = (pred[4], pred[4], pred[4]) tuple(p, t, n) }";
    let a = f32s(&[-0.0, f32::INFINITY, f32::NAN, -f32::NAN]);
    let b = f32s(&[0.0, f32::NAN, f32::NAN, f32::NEG_INFINITY]);
    let bytes: Vec<Vec<u8>> = run(text, &[a, b])
        .iter()
        .map(|r| r.bytes().to_vec())
        .collect();
    assert_eq!(bytes, [[0, 0, 0, 0], [1, 1, 0, 1], [0, 1, 1, 1]]);
}

#[test]
fn select_and_clamp_take_scalars() {
    let text = "HloModule m
        ENTRY e { p = pred[] parameter(0)  a = f32[3] parameter(1)  b = f32[3] parameter(2)
          l = f32[] constant(-1)  h = f32[] constant(2)
          s = f32[3] select(p, a, b)  ROOT c = f32[3] clamp(l, s, h) }";
    let (a, b) = (f32s(&[-5.0, 0.5, f32::NAN]), f32s(&[9.0, 9.0, 9.0]));
    for (p, first) in [(true, [-1.0, 0.5]), (false, [2.0, 2.0])] {
        let p = Literal::from_bools(&[], &[p]).unwrap();
        let result = run_one(text, &[p, a.clone(), b.clone()]);
        assert_eq!(result.as_f32s().unwrap()[..2], first);
    }
    let p = Literal::from_bools(&[], &[true]).unwrap();
    assert!(run_one(text, &[p, a, b]).as_f32s().unwrap()[2].is_nan());
}

#[test]
fn conversions_saturate_and_wrap() {
    let text = "HloModule m
        ENTRY e { a = f32[5] parameter(0)
          i = s8[5] convert(a)  u = u8[5] convert(a)  p = pred[5] convert(a)
          w = s32[5] convert(a)  n = s8[5] convert(w)
          ROOT r = (s8[5], u8[5], pred[5], s8[5]) tuple(i, u, p, n) }";
    let results = run(text, &[f32s(&[300.7, -300.7, f32::NAN, -0.0, -1.9])]);
    assert_eq!(results[0].as_i8s(), Some(&[127, -128, 0, 0, -1][..]));
    assert_eq!(results[1].as_u8s(), Some(&[255, 0, 0, 0, 0][..]));
    assert_eq!(results[2].bytes(), [1, 1, 1, 0, 1]);
    assert_eq!(results[3].as_i8s(), Some(&[44, -44, 0, 0, -1][..]));
}

#[test]
fn complex_numbers_are_put_together_and_taken_apart() {
    let text = "HloModule m
        ENTRY e { a = f32[2] parameter(0)  b = f32[2] parameter(1)
          z = c64[2] complex(a, b)  y = c64[2] multiply(z, z)
          r = f32[2] real(y)  i = f32[2] imag(y)  s = f32[2] abs(z)
          ROOT t = (f32[2], f32[2], f32[2]) tuple(r, i, s) }";
    let results = run(text, &[f32s(&[3.0, 0.0]), f32s(&[4.0, -2.0])]);
    let expected = [[-7.0, -4.0], [24.0, -0.0], [5.0, 2.0]];
    for (result, expected) in results.iter().zip(&expected) {
        assert_eq!(result.as_f32s(), Some(&expected[..]));
    }
}

#[test]
fn f8_and_reduce_precision_round_once() {
    let text = "HloModule m
        ENTRY e { a = f32[4] parameter(0)
          q = f8e4m3fn[4] convert(a)  b = f32[4] convert(q)
          p = f32[4] reduce-precision(a), exponent_bits=5, mantissa_bits=2
          ROOT t = (f32[4], f32[4]) tuple(b, p) }";
    let results = run(text, &[f32s(&[17.0, 1.0625, 0.001, 1e6])]);
    let quantised = results[0].as_f32s().unwrap();
    assert_eq!(quantised[..3], [16.0, 1.0, 0.001_953_125]);
    assert!(quantised[3].is_nan());
    let reduced = results[1].as_f32s().unwrap();
    assert_eq!(reduced[..2], [16.0, 1.0]);
    assert_eq!(reduced[3], f32::INFINITY);
}
