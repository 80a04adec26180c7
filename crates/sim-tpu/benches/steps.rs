//! Measures how many grid steps are simulated per second: a matrix product in blocks of 128, with
//! and without values. Reports the best of five runs, because other work on the machine only slows
//! a run down.

use std::time::Instant;
use tegula_ir::{ArrayShape, ElementType, Literal, Scalar};
use tegula_sim_tpu::{Options, read_kernel, simulate};
use tegula_target::Chip;

fn product(size: i64) -> String {
    let blocks = size / 128;
    format!(
        "kernel matmul {{
  hbm x : f32[{size},{size}] = parameter(0)
  hbm y : f32[{size},{size}] = parameter(1)
  hbm z : f32[{size},{size}] = result(0)
  grid parallel i in 0..{blocks}, parallel j in 0..{blocks}, k in 0..{blocks} {{
    window xb = x block (128, 128) at (i, k)
    window yb = y block (128, 128) at (k, j)
    window out zb = z block (128, 128) at (i, j)
    if k == 0 {{ zb[:, :] = broadcast(0.0), dimensions={{}} }}
    zb[:, :] += dot(xb[:, :], yb[:, :]), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  }}
}}"
    )
}

fn measure(size: i64, functional: bool) {
    let program = read_kernel(&product(size)).expect("a kernel");
    let chip = Chip::by_name("v5e").expect("a chip");
    let shape = ArrayShape::new(ElementType::F32, &[size, size]);
    let values = (0..size * size).map(|i| Scalar::Float((i % 61) as f64 / 8.0 - 3.0));
    let input = Literal::from_scalars(&shape, values).expect("as many");
    let options = Options {
        functional,
        inputs: vec![input.clone(), input],
        record_timeline: false,
        ..Options::default()
    };
    let steps = (size / 128).pow(3) as f64;
    let best = (0..5)
        .map(|_| {
            let start = Instant::now();
            let report = simulate(&program, &chip, &options).expect("it runs");
            assert!(report.findings.is_empty());
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    let how = if functional { "with" } else { "without" };
    println!("{size}^3, {how} values: {:.0} grid steps/s", steps / best);
}

fn main() {
    measure(1024, true);
    measure(1024, false);
    measure(4096, false);
}
