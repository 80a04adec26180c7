//! What a kernel computes, against plain arithmetic.

mod common;

use common::{folder, load, random, run};
use tegula_ir::{ArrayShape, ElementType, Literal};

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
