//! Dot, convolution, linear algebra, FFT, batch normalisation, random bits.

use crate::common::{assert_close, counting, f32s, run, run_one};
use half::bf16;
use tegula_ir::Literal;

#[test]
fn dots_of_any_dimension_numbers() {
    let text = "HloModule m
        ENTRY e { a = f32[2,3,2] parameter(0)  b = f32[3,4,2] parameter(1)
          ROOT d = f32[2,2,4] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={2},
            lhs_contracting_dims={1}, rhs_contracting_dims={0} }";
    let result = run_one(text, &[counting(&[2, 3, 2]), counting(&[3, 4, 2])]);
    // result[b, m, n] = sum over k of a[b, k, m] * b[k, n, b].
    let mut expected = Vec::new();
    for (b, m, n) in (0..2).flat_map(|b| (0..2).flat_map(move |m| (0..4).map(move |n| (b, m, n)))) {
        let term = |k| (b * 6 + k * 2 + m) * (k * 8 + n * 2 + b);
        expected.push((0..3).map(term).sum::<i32>() as f32);
    }
    assert_eq!(result.as_f32s(), Some(&expected[..]));
}

#[test]
fn dots_accumulate_wider_than_their_elements() {
    let text = "HloModule m
        ENTRY e { a = bf16[300] parameter(0)  b = bf16[300] parameter(1)
          i = s8[300] parameter(2)
          n = bf16[] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}
          w = f32[] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}
          s = s32[] dot(i, i), lhs_contracting_dims={0}, rhs_contracting_dims={0}
          ROOT t = (bf16[], f32[], s32[]) tuple(n, w, s) }";
    let ones = Literal::from_bf16s(&[300], &[bf16::ONE; 300]).unwrap();
    let large = Literal::from_i8s(&[300], &[-128; 300]).unwrap();
    let results = run(text, &[ones.clone(), ones, large]);
    assert_eq!(results[0].as_bf16s(), Some(&[bf16::from_f32(300.0)][..]));
    assert_eq!(results[1].as_f32s(), Some(&[300.0][..]));
    assert_eq!(results[2].as_i32s(), Some(&[300 * 16384][..]));
}

/// A 1-D convolution of `1..=5` with the kernel `1, 10, 100`.
fn convolve(size: usize, window: &str) -> Vec<f32> {
    let text = format!(
        "HloModule m
        ENTRY e {{ x = f32[1,5,1] parameter(0)  k = f32[3,1,1] parameter(1)
          ROOT c = f32[1,{size},1] convolution(x, k), window={{{window}}}, dim_labels=b0f_0io->b0f }}"
    );
    let x = Literal::from_f32s(&[1, 5, 1], &[1., 2., 3., 4., 5.]).unwrap();
    let k = Literal::from_f32s(&[3, 1, 1], &[1., 10., 100.]).unwrap();
    run_one(&text, &[x, k]).as_f32s().unwrap().to_vec()
}

#[test]
fn convolutions_with_every_window_attribute() {
    assert_eq!(convolve(3, "size=3"), [321., 432., 543.]);
    assert_eq!(convolve(5, "size=3 pad=1_1"), [210., 321., 432., 543., 54.]);
    assert_eq!(convolve(3, "size=3 pad=1_1 stride=2"), [210., 432., 54.]);
    assert_eq!(convolve(1, "size=3 rhs_dilate=2"), [531.]);
    assert_eq!(
        convolve(7, "size=3 lhs_dilate=2"),
        [201., 20., 302., 30., 403., 40., 504.]
    );
    assert_eq!(convolve(3, "size=3 rhs_reversal=1"), [123., 234., 345.]);
    assert_eq!(convolve(2, "size=3 pad=-1_0"), [432., 543.]);
}

#[test]
fn feature_and_batch_groups() {
    let text = "HloModule m
        ENTRY e { x = f32[1,2,4] parameter(0)  k = f32[2,2,2] parameter(1)
          ROOT c = f32[1,1,2] convolution(x, k), window={size=2}, dim_labels=b0f_0io->b0f,
            feature_group_count=2 }";
    let result = run_one(text, &[counting(&[1, 2, 4]), counting(&[2, 2, 2])]);
    // Group 0 has features 0 and 1 and output 0; group 1 has features 2 and 3 and output 1.
    let first = 1. * 2. + 4. * 4. + 5. * 6.;
    let second = 2. + 3. * 3. + 6. * 5. + 7. * 7.;
    assert_eq!(result.as_f32s(), Some(&[first, second][..]));

    let text = "HloModule m
        ENTRY e { x = f32[2,2,1] parameter(0)  k = f32[2,1,2] parameter(1)
          ROOT c = f32[1,1,2] convolution(x, k), window={size=2}, dim_labels=b0f_0io->b0f,
            batch_group_count=2 }";
    let result = run_one(text, &[counting(&[2, 2, 1]), counting(&[2, 1, 2])]);
    // Output 0 is of batch 0, output 1 of batch 1.
    assert_eq!(result.as_f32s(), Some(&[2., 2. + 3. * 3.][..]));
}

#[test]
fn triangles_are_solved() {
    let text = |flags: &str| {
        format!(
            "HloModule m
            ENTRY e {{ a = f32[2,2] parameter(0)  b = f32[2,1] parameter(1)
              ROOT x = f32[2,1] triangular-solve(a, b), left_side=true, {flags} }}"
        )
    };
    let a = Literal::from_f32s(&[2, 2], &[2., 3., 5., 4.]).unwrap();
    let b = Literal::from_f32s(&[2, 1], &[2., 13.]).unwrap();
    let solve = |flags: &str| run_one(&text(flags), &[a.clone(), b.clone()]);
    assert_close(&solve("lower=true, transpose_a=NO_TRANSPOSE"), &[1., 2.]);
    assert_close(
        &solve("lower=false, transpose_a=NO_TRANSPOSE"),
        &[-3.875, 3.25],
    );
    assert_close(&solve("lower=true, transpose_a=TRANSPOSE"), &[-7.125, 3.25]);
    let unit = "lower=true, unit_diagonal=true, transpose_a=NO_TRANSPOSE";
    assert_close(&solve(unit), &[2., 3.]);
}

#[test]
fn cholesky_of_either_triangle() {
    let text = |lower: bool| {
        format!(
            "HloModule m
            ENTRY e {{ a = f32[2,2] parameter(0)  ROOT c = f32[2,2] cholesky(a), lower={lower} }}"
        )
    };
    let a = |off: f32, other: f32| Literal::from_f32s(&[2, 2], &[4., off, other, 10.]).unwrap();
    assert_close(&run_one(&text(true), &[a(99., 2.)]), &[2., 0., 1., 3.]);
    assert_close(&run_one(&text(false), &[a(2., 99.)]), &[2., 1., 0., 3.]);
}

#[test]
fn lu_decomposition_is_a_custom_call() {
    let text = "HloModule m
        ENTRY e { a = f32[2,2] parameter(0)
          ROOT l = (f32[2,2], s32[2], s32[2]) custom-call(a), custom_call_target=\"LuDecomposition\" }";
    let results = run(
        text,
        &[Literal::from_f32s(&[2, 2], &[1., 2., 4., 4.]).unwrap()],
    );
    assert_close(&results[0], &[4., 4., 0.25, 1.]);
    assert_eq!(results[1].as_i32s(), Some(&[1, 1][..]));
    assert_eq!(results[2].as_i32s(), Some(&[1, 0][..]));
}

#[test]
fn transforms_go_there_and_back() {
    let text = "HloModule m
        ENTRY e { x = f32[2,4] parameter(0)
          y = c64[2,3] fft(x), fft_type=RFFT, fft_length={2,4}
          z = f32[2,4] fft(y), fft_type=IRFFT, fft_length={2,4}
          r = f32[2,3] real(y)  i = f32[2,3] imag(y)
          ROOT t = (f32[2,3], f32[2,3], f32[2,4]) tuple(r, i, z) }";
    let x = [1., 2., 3., 4., 0., 0., 0., 8.];
    let results = run(text, &[Literal::from_f32s(&[2, 4], &x).unwrap()]);
    assert_close(&results[0], &[18., -2., -10., 2., -2., 6.]);
    assert_close(&results[1], &[0., 10., 0., 0., -6., 0.]);
    assert_close(&results[2], &x);
}

#[test]
fn batches_are_normalised() {
    let text = "HloModule m
        ENTRY e { x = f32[4,1] parameter(0)  s = f32[1] parameter(1)  o = f32[1] parameter(2)
          n = (f32[4,1], f32[1], f32[1]) batch-norm-training(x, s, o), epsilon=0, feature_index=1
          y = f32[4,1] get-tuple-element(n), index=0
          m = f32[1] get-tuple-element(n), index=1
          v = f32[1] get-tuple-element(n), index=2
          i = f32[4,1] batch-norm-inference(x, s, o, m, v), epsilon=0, feature_index=1
          g = (f32[4,1], f32[1], f32[1]) batch-norm-grad(x, s, m, v, x), epsilon=0, feature_index=1
          gx = f32[4,1] get-tuple-element(g), index=0
          gs = f32[1] get-tuple-element(g), index=1
          go = f32[1] get-tuple-element(g), index=2
          ROOT t = (f32[4,1], f32[1], f32[1], f32[4,1], f32[4,1], f32[1], f32[1])
            tuple(y, m, v, i, gx, gs, go) }";
    let x = Literal::from_f32s(&[4, 1], &[1., 3., 5., 7.]).unwrap();
    let results = run(text, &[x, f32s(&[2.0]), f32s(&[10.0])]);
    let r = 5f32.sqrt();
    let expected = [-3., -1., 1., 3.].map(|x| 10. + 2. * x / r);
    assert_close(&results[0], &expected);
    assert_close(&results[1], &[4.]);
    assert_close(&results[2], &[5.]);
    assert_close(&results[3], &expected);
    // The gradient lies along x, so it is x's mean plus a part that the normalisation removes.
    assert_close(&results[4], &[0.; 4]);
    assert_close(&results[5], &[20. / r]);
    assert_close(&results[6], &[16.]);
}

#[test]
fn random_bits_are_those_of_the_algorithms() {
    let text = |algorithm: &str| {
        format!(
            "HloModule m
            ENTRY e {{ s = u64[2] parameter(0)
              ROOT r = (u64[2], u32[2]) rng-bit-generator(s), algorithm={algorithm} }}"
        )
    };
    let state = Literal::from_u64s(&[2], &[0, 0]).unwrap();
    let results = run(&text("rng_three_fry"), std::slice::from_ref(&state));
    // The first known answer of Random123, for a zero key and counter.
    assert_eq!(results[1].as_u32s(), Some(&[0x6b20_0159, 0x99ba_4efe][..]));
    assert_eq!(results[0].as_u64s(), Some(&[0, 1][..]));
    let results = run(&text("rng_philox"), &[state]);
    assert_eq!(results[1].as_u32s(), Some(&[0x6627_e8d5, 0xe169_c58d][..]));
    assert_eq!(results[0].as_u64s(), Some(&[0, 1][..]));
}
