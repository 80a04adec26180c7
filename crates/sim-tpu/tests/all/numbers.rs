//! Compares what kernels compute with plain arithmetic.

use crate::common::{folder, load, random, run};
use tegula_ir::{ArrayShape, ElementType, Literal, Scalar};
use tegula_sim_tpu::{Options, read_kernel, simulate};
use tegula_target::Chip;

fn floats(literal: &Literal) -> Vec<f32> {
    let values = literal.scalars();
    values.map(|value| value.to_f64() as f32).collect()
}

fn parameter(dims: &[i64], number: u64) -> Vec<f32> {
    floats(&random(
        &ArrayShape::new(ElementType::F32, dims),
        number + 1,
    ))
}

fn result(name: &str) -> Vec<f32> {
    let report = run(&load(&folder().join("clean").join(name)), true);
    let report = report.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(report.fits && report.functional, "{name}");
    assert!(report.seconds > 0.0, "{name}");
    floats(&report.results[0])
}

#[test]
fn a_scale() {
    let x = parameter(&[1024, 128], 0);
    let y = result("double_buffered_scale.kernel");
    assert!(x.iter().zip(&y).all(|(x, y)| x * 2.0 == *y));
}

#[test]
fn a_product_in_a_grid() {
    let (m, k, n) = (256, 512, 384);
    let (x, y) = (parameter(&[m, k], 0), parameter(&[k, n], 1));
    let z = result("matmul_grid.kernel");
    let (m, k, n) = (m as usize, k as usize, n as usize);
    // Multiples of 1/8 below 4 are exact in bf16, and so are the sums in f32.
    for i in (0..m).step_by(37) {
        for j in 0..n {
            let sum: f32 = (0..k).map(|p| x[i * k + p] * y[p * n + j]).sum();
            assert_eq!(z[i * n + j], sum, "at {i}, {j}");
        }
    }
}

fn product(precision: &str, ty: &str) -> String {
    format!(
        "kernel product {{
  hbm x : {ty}[8,128] = parameter(0)
  hbm w : {ty}[128,128] = parameter(1)
  hbm y : f32[8,128] = result(0)
  vmem a : {ty}[8,128]
  vmem b : {ty}[128,128]
  vmem c : f32[8,128]
  sem s
  start x[:, :] -> a[:, :], s
  wait s
  start w[:, :] -> b[:, :], s
  wait s
  c[:, :] = dot(a[:, :], b[:, :]), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{precision}
  start c[:, :] -> y[:, :], s
  wait s
}}"
    )
}

/// An f32 rounded to `bits` mantissa bits, to nearest even.
fn to_bits(value: f32, bits: i32) -> f32 {
    let scale = f64::from(value.abs()).log2().floor();
    let unit = 2f64.powi(scale as i32 - bits);
    let quotient = f64::from(value) / unit;
    let down = quotient.floor();
    let rounded = match (quotient - down, down as i64 % 2) {
        (rest, even) if rest > 0.5 || rest == 0.5 && even != 0 => down + 1.0,
        _ => down,
    };
    (rounded * unit) as f32
}

/// The matrix units round f32 operands to bf16 at the default precision, keep 16 bits at `high`,
/// and all bits at `highest`.
#[test]
fn operands_of_products_are_rounded() {
    let shape = |dims: &[i64]| ArrayShape::new(ElementType::F32, dims);
    let value = |i: usize| 1.0 + (i * 7919 % 4093) as f32 / 4093.0;
    let literal = |dims: &[i64], from: usize| {
        let count = dims.iter().product::<i64>() as usize;
        let values = (0..count).map(|i| Scalar::Float(f64::from(value(from + i))));
        Literal::from_scalars(&shape(dims), values).expect("as many")
    };
    let (x, w) = (literal(&[8, 128], 0), literal(&[128, 128], 5000));
    for (precision, bits) in [
        ("", 7),
        (", operand_precision={high,high}", 15),
        (", operand_precision={highest,highest}", 23),
    ] {
        let program = read_kernel(&product(precision, "f32")).expect("a kernel");
        let options = Options {
            functional: true,
            inputs: vec![x.clone(), w.clone()],
            ..Options::default()
        };
        let chip = Chip::by_name("v5e").expect("a chip");
        let report = simulate(&program, &chip, &options).expect("it runs");
        assert!(report.is_clean(), "{:?}", report.findings);
        let (x, w, y) = (floats(&x), floats(&w), floats(&report.results[0]));
        for i in 0..8 {
            for j in 0..128 {
                let sum: f32 = (0..128)
                    .map(|p| to_bits(x[i * 128 + p], bits) * to_bits(w[p * 128 + j], bits))
                    .sum();
                assert_eq!(y[i * 128 + j], sum, "{bits} bits at {i}, {j}");
            }
        }
    }
}

/// A copy into VMEM in another layout and back preserves the content in every layout.
#[test]
fn bytes_survive_every_layout() {
    for (ty, dims, layout) in [
        ("f32", "20,300", "{1,0:T(8,128)}"),
        ("f32", "20,300", "{0,1:T(8,128)}"),
        ("bf16", "24,256", "{1,0:T(8,128)(2,1)}"),
        ("bf16", "3,16,130", "{2,1,0:T(8,128)(2,1)}"),
        ("bf16", "3,16,130", "{1,2,0:T(16,128)(2,1)}"),
        ("s8", "40,200", "{1,0:T(32,128)(4,1)}"),
        ("s4", "64,128", "{1,0:T(64,128)(8,1)E(4)}"),
        ("pred", "9,130", "{1,0:T(8,128)(4,1)}"),
        ("f32", "2,3,4", "{2,1,0:T(*,8,2)}"),
        ("s32", "5000", "{0:T(1024)}"),
        ("f32", "", ""),
    ] {
        let whole = match dims {
            "" => String::new(),
            dims => vec![":"; dims.split(',').count()].join(", "),
        };
        let text = format!(
            "kernel through {{
  hbm x : {ty}[{dims}] = parameter(0)
  hbm y : {ty}[{dims}]{layout} = result(0)
  vmem a : {ty}[{dims}]{layout}
  vmem b : {ty}[{dims}]
  sem s
  start x[{whole}] -> a[{whole}], s
  wait s
  b[{whole}] = copy(a[{whole}])
  start b[{whole}] -> y[{whole}], s
  wait s
}}"
        );
        let program = read_kernel(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let inputs = crate::common::inputs(&program, "");
        let options = Options {
            functional: true,
            inputs: inputs.clone(),
            ..Options::default()
        };
        let chip = Chip::by_name("v5e").expect("a chip");
        let report =
            simulate(&program, &chip, &options).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(report.is_clean(), "{:?}\n{text}", report.findings);
        assert_eq!(report.results, inputs, "{text}");
    }
}

/// Tests the reported peaks and sizes.
#[test]
fn memory_is_added_up_with_padding() {
    let report = run(&load(&folder().join("clean/use_after_free.kernel")), true);
    let report = report.expect("it runs");
    assert_eq!(report.vmem_peak_bytes, 2 * 64 * 128 * 4);
    assert_eq!(report.hbm_bytes, 2 * 64 * 128 * 4);
    assert_eq!(report.padding_bytes, 0);
    let a = report
        .occupancy
        .iter()
        .find(|o| o.buffer == "a")
        .expect("it is listed");
    assert!(a.from < a.to && a.to < report.seconds);
    let padded = run(&load(&folder().join("clean/padding_travels.kernel")), true);
    let padded = padded.expect("it runs");
    assert_eq!(padded.padding_bytes, 3 * 64 * 28 * 4);
    assert_eq!(padded.copied_bytes, 2 * 64 * 128 * 4);
}
