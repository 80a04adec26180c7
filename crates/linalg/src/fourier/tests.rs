use super::{Fourier, Plan};
use crate::microkernels::CpuFeatures;
use std::f64::consts::TAU;
use tegula_ir::FftType;
use tegula_target::IsaLevel;

/// Runs a transform on real numbers or pairs.
fn run(kind: FftType, dims: &[usize], count: usize, input: &[f64], results: usize) -> Vec<f64> {
    let plan = Plan::new(kind, dims, count);
    let transform = Fourier::new(&plan.words, &plan.numbers);
    let outputs = [IsaLevel::Native, IsaLevel::X86V3, IsaLevel::X86V2].map(|cpu| {
        let isa = CpuFeatures::up_to(cpu);
        let mut output = vec![0.0; results];
        let mut scratch = vec![f64::NAN; transform.scratch_bytes() / 8];
        // SAFETY: the arrays have the transform's sizes, and the scratch memory has the required
        // size.
        unsafe {
            let (output, scratch) = (output.as_mut_ptr(), scratch.as_mut_ptr());
            transform.run(isa, input.as_ptr(), output, scratch);
        }
        output
    });
    let [output, others @ ..] = outputs;
    assert!(others.iter().all(|other| *other == output));
    output
}

fn numbers(count: usize) -> Vec<f64> {
    (0..count)
        .map(|i| ((i * 7919 + 13) % 101) as f64 / 50.0 - 1.0)
        .collect()
}

/// The transform along one dimension, by its definition.
fn expected(values: &[f64], n: usize, inner: usize, sign: f64) -> Vec<f64> {
    let mut result = vec![0.0; values.len()];
    for block in 0..values.len() / (2 * n * inner) {
        for i in 0..inner {
            let at = |k: usize| 2 * ((block * n + k) * inner + i);
            for k in 0..n {
                for j in 0..n {
                    let angle = sign * TAU * (j * k % n) as f64 / n as f64;
                    let (re, im) = (values[at(j)], values[at(j) + 1]);
                    result[at(k)] += re * angle.cos() - im * angle.sin();
                    result[at(k) + 1] += re * angle.sin() + im * angle.cos();
                }
            }
        }
    }
    result
}

fn assert_close(found: &[f64], wanted: &[f64], what: &str) {
    let size = wanted.iter().fold(1.0f64, |size, x| size.max(x.abs()));
    for (i, (a, b)) in found.iter().zip(wanted).enumerate() {
        assert!((a - b).abs() <= 1e-13 * size, "{what} {i}: {a} {b}");
    }
}

/// Every radix, products of radices, primes that are transformed by convolution, and numbers of
/// lines that fill no vector.
#[test]
fn lines_are_transformed() {
    let lengths = [
        1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16, 30, 31, 37, 60, 64, 97, 105, 128, 143, 210, 256,
        512, 1000, 1009, 2048,
    ];
    for n in lengths {
        for lines in [1, 3, 16, 21] {
            if n * lines > 4096 {
                continue;
            }
            let input = numbers(2 * n * lines);
            for (kind, sign, factor) in [
                (FftType::Fft, -1.0, 1.0),
                (FftType::Ifft, 1.0, 1.0 / n as f64),
            ] {
                let found = run(kind, &[lines, n], 1, &input, input.len());
                let wanted = expected(&input, n, 1, sign);
                let wanted: Vec<f64> = wanted.iter().map(|x| x * factor).collect();
                assert_close(&found, &wanted, &format!("{kind:?} of {lines} of {n}"));
            }
        }
    }
}

#[test]
fn several_dimensions_are_transformed() {
    let dims = [2, 6, 5, 9];
    let input = numbers(2 * 540);
    let found = run(FftType::Fft, &dims, 3, &input, input.len());
    let mut wanted = expected(&input, 9, 1, -1.0);
    wanted = expected(&wanted, 5, 9, -1.0);
    wanted = expected(&wanted, 6, 45, -1.0);
    assert_close(&found, &wanted, "three dimensions");
    // Columns that fill vectors, and some that do not.
    let dims = [3, 20, 24];
    let input = numbers(2 * 1440);
    for (kind, sign, factor) in [(FftType::Fft, -1.0, 1.0), (FftType::Ifft, 1.0, 1.0 / 480.0)] {
        let found = run(kind, &dims, 2, &input, input.len());
        let wanted = expected(&expected(&input, 24, 1, sign), 20, 24, sign);
        let wanted: Vec<f64> = wanted.iter().map(|x| x * factor).collect();
        assert_close(&found, &wanted, &format!("{kind:?} of two dimensions"));
    }
}

/// Transforms of real numbers to half-complex ones, and back: with even and odd lengths, and odd
/// numbers of lines.
#[test]
fn real_numbers_are_transformed_there_and_back() {
    for (dims, count) in [
        (vec![5, 8], 1),
        (vec![1, 9], 1),
        // One line of even length, as a complex line of half the length.
        (vec![1, 2], 1),
        (vec![1, 4], 1),
        (vec![1, 6], 1),
        (vec![1, 128], 1),
        (vec![1, 1000], 1),
        (vec![1, 2018], 1),
        (vec![40, 12], 1),
        (vec![3, 4, 10], 2),
        (vec![3, 5, 7], 2),
        (vec![2, 3, 74], 1),
    ] {
        let n = dims[dims.len() - 1];
        let half = n / 2 + 1;
        let lines: usize = dims[..dims.len() - 1].iter().product();
        let input = numbers(lines * n);
        let found = run(FftType::Rfft, &dims, count, &input, 2 * lines * half);
        let complex: Vec<f64> = input.iter().flat_map(|&x| [x, 0.0]).collect();
        let mut wanted = expected(&complex, n, 1, -1.0);
        if count == 2 {
            wanted = expected(&wanted, dims[dims.len() - 2], n, -1.0);
        }
        let kept = wanted
            .chunks_exact(2 * n)
            .flat_map(|line| &line[..2 * half]);
        let wanted: Vec<f64> = kept.copied().collect();
        assert_close(&found, &wanted, &format!("{dims:?}"));
        let back = run(FftType::Irfft, &dims, count, &found, input.len());
        assert_close(&back, &input, &format!("{dims:?} and back"));
    }
}
