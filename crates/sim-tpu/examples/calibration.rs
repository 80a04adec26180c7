//! Calibrates the simulator's clock with published timings.
//!
//! Two numbers of a chip are not published and are fitted to all of its timings together: the time
//! of a loop's step, and the latency of copies after the first. The time that a timing contains
//! besides the program (dispatch) belongs to the method, not to the chip: for the notebook it is
//! known roughly, for the tables it is fitted too. A fit is no validation on its own points, so
//! every split that leaves out one or two points is tried: the numbers fitted on the other points
//! are judged on those left out.
//!
//!     cargo run --release -p tegula-sim-tpu --example calibration
//!
//! Sources: for v5e the outputs of JAX's Pallas notebook `docs/pallas/tpu/matmul.ipynb` (`timeit`);
//! for 7x the tables of AI-Hypercomputer/accelerator-microbenchmarks v1.1-legacy, per core.

use tegula_layout::assign::{Machine, assign};

use tegula_codegen_tpu::lower;
use tegula_sim_tpu::{Options, TpuProgram, read_kernel, simulate};
use tegula_target::{Chip, Param};

/// The candidates for the time of a step, in seconds.
const STEPS: [f64; 7] = [0.0, 50e-9, 100e-9, 150e-9, 200e-9, 250e-9, 300e-9];
/// The candidates for a copy's latency, in seconds.
const LATENCIES: [f64; 7] = [0.0, 100e-9, 200e-9, 300e-9, 400e-9, 500e-9, 600e-9];

/// The seconds of dispatch in each timing of the notebook, whose smallest product takes 0.119 ms
/// where the chip's peak would allow 0.011 ms.
const NOTEBOOK_DISPATCH: f64 = 100e-6;

/// A published timing.
struct Point {
    name: String,
    program: TpuProgram,
    seconds: f64,
}

fn main() {
    let v5e = chip("v5e");
    let mut points = Vec::new();
    for (n, milliseconds) in [(1024, 0.2977), (4096, 11.772), (8192, 91.836)] {
        let program = blocked(n, [128, 128, 128]);
        points.push(point(
            format!("v5e {n} in blocks of 128"),
            program,
            milliseconds * 1e-3,
        ));
    }
    for (n, milliseconds) in [(1024, 0.1271), (4096, 0.8891), (8192, 6.0994)] {
        let program = blocked(n, [512, 1024, 1024]);
        points.push(point(
            format!("v5e {n} in blocks of 512x1024x1024"),
            program,
            milliseconds * 1e-3,
        ));
    }
    for (n, milliseconds) in [(1024, 0.1194), (4096, 0.8273), (8192, 6.0471)] {
        let program = compiled(&v5e, &matmul(n));
        points.push(point(
            format!("v5e {n} compiled"),
            program,
            milliseconds * 1e-3,
        ));
    }
    judge(
        &v5e,
        Some(NOTEBOOK_DISPATCH),
        &[("bf16 matmuls", points, 10.0)],
    );

    let seven = chip("7x");
    let gemms = [
        (128, 2.59),
        (256, 18.29),
        (512, 105.1),
        (1024, 349.7),
        (2048, 679.3),
        (4096, 892.9),
        (16384, 950.1),
        (32768, 956.4),
    ];
    let products = gemms.map(|(n, teraflops)| {
        let seconds = 2.0 * (n as f64).powi(3) / (teraflops * 1e12);
        point(format!("7x {n}"), compiled(&seven, &matmul(n)), seconds)
    });

    let copies = [
        (2, 1379.0),
        (4, 2250.0),
        (8, 2246.0),
        (16, 2757.0),
        (32, 3010.0),
        (64, 3097.0),
        (128, 3177.0),
        (256, 3167.0),
        (512, 3199.0),
        (1024, 3198.0),
        (2048, 3203.0),
        (4096, 3198.0),
        (8192, 3210.0),
    ];
    let points = copies.map(|(mebibytes, gigabytes)| {
        // Every byte is read and written.
        let seconds = 2.0 * f64::from(mebibytes) * f64::from(1 << 20) / (gigabytes * 1e9);
        let text = format!(
            "HloModule copy\nENTRY main {{ p = f32[{},1024] parameter(0)\n ROOT n = f32[{0},1024] negate(p) }}",
            256 * mebibytes
        );
        point(format!("7x {mebibytes} MiB"), compiled(&seven, &text), seconds)
    });
    let groups = [
        ("bf16 GEMM", products.into(), 6.0),
        ("HBM copy", points.into(), 3.0),
    ];
    judge(&seven, None, &groups);
}

fn chip(name: &str) -> Chip {
    Chip::by_name(name).expect("the chip comes with the crate")
}

fn point(name: String, program: TpuProgram, seconds: f64) -> Point {
    Point {
        name,
        program,
        seconds,
    }
}

fn matmul(n: i64) -> String {
    format!(
        "HloModule matmul\nENTRY main {{\n a = bf16[{n},{n}] parameter(0)\n b = bf16[{n},{n}] parameter(1)\n \
         ROOT c = bf16[{n},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}"
    )
}

/// The notebook's kernel.
fn blocked(n: i64, [bm, bk, bn]: [i64; 3]) -> TpuProgram {
    let (m, k) = (n / bm, n / bk);
    let text = format!(
        "kernel matmul {{
  hbm x : bf16[{n},{n}] = parameter(0)
  hbm y : bf16[{n},{n}] = parameter(1)
  hbm z : bf16[{n},{n}] = result(0)
  vmem acc : f32[{bm},{bn}]
  grid i in 0..{m}, j in 0..{}, k in 0..{k} {{
    window xb = x block ({bm},{bk}) at (i, k) buffers 2
    window yb = y block ({bk},{bn}) at (k, j) buffers 2
    window out zb = z block ({bm},{bn}) at (i, j) buffers 2
    if k == 0 {{ acc[:, :] = broadcast(0.0), dimensions={{}} }}
    acc[:, :] += dot(xb[:, :], yb[:, :]), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
    if k == {} {{ zb[:, :] = convert(acc[:, :]) }}
  }}
}}",
        n / bn,
        k - 1
    );
    read_kernel(&text).expect("the kernel is right")
}

/// A program compiled for a chip.
fn compiled(chip: &Chip, text: &str) -> TpuProgram {
    let module = tegula_ir::parse_module(text).expect("the program is right");
    let machine = Machine::tpu(chip).expect("the chip has layouts");
    let assignment = assign(
        &module,
        &machine,
        &|_| false,
        &mut tegula_ir::PassManager::new(),
    )
    .expect("sizes are known");
    let schedule = tegula_tpu_schedule::schedule(
        &module,
        &assignment,
        chip,
        &tegula_tpu_schedule::Options::default(),
    );
    let lowered = lower(&module, &assignment, &schedule, chip);
    lowered.expect("the program can be lowered").program
}

/// The predicted seconds for each candidate step and latency.
fn predict(chip: &Chip, program: &TpuProgram) -> Vec<f64> {
    let options = Options {
        record_timeline: false,
        ..Options::default()
    };
    let predict = |(step, latency): (f64, f64)| {
        let mut text: String = chip
            .to_string()
            .lines()
            .filter(|line| {
                let fitted = [Param::StepOverhead, Param::CopyLatency];
                !fitted.iter().any(|param| line.starts_with(param.name()))
            })
            .map(|line| format!("{line}\n"))
            .collect();
        text.push_str(&format!("step_overhead = {} ns # tried\n", step * 1e9));
        text.push_str(&format!("copy_latency = {} ns # tried\n", latency * 1e9));
        let chip = Chip::parse(&text).expect("a chip's text reads back");
        simulate(program, &chip, &options).expect("it runs").seconds
    };
    tried().into_iter().map(predict).collect()
}

/// Every candidate step with every candidate latency.
fn tried() -> Vec<(f64, f64)> {
    let with = |step: f64| LATENCIES.map(|latency| (step, latency));
    STEPS.into_iter().flat_map(with).collect()
}

/// The number of the candidate, and the dispatch if it is not known, with the least mean error over
/// some points.
fn fit(
    predicted: &[Vec<f64>],
    measured: &[f64],
    chosen: &[usize],
    known: Option<f64>,
) -> (usize, f64) {
    let mut best = (0, 0.0, f64::INFINITY);
    for (step, _) in tried().iter().enumerate() {
        // The best dispatch makes one of the points exact, or is zero.
        let exact = chosen.iter().map(|&i| measured[i] - predicted[i][step]);
        let dispatches: Vec<f64> = match known {
            Some(dispatch) => vec![dispatch],
            None => exact.chain([0.0]).collect(),
        };
        for dispatch in dispatches.into_iter().map(|seconds| seconds.max(0.0)) {
            let errors = chosen
                .iter()
                .map(|&i| error(predicted[i][step] + dispatch, measured[i]));
            let mean = errors.map(f64::abs).sum::<f64>() / chosen.len() as f64;
            if mean < best.2 {
                best = (step, dispatch, mean);
            }
        }
    }
    (best.0, best.1)
}

/// The relative error in percent.
fn error(predicted: f64, measured: f64) -> f64 {
    100.0 * (predicted / measured - 1.0)
}

/// Fits a chip's numbers, and the timings' dispatch if it is not known, on all of its points but
/// one or two, for each choice of those, and prints the errors of the points left out: by group,
/// with the mean error in percent that the group may have.
fn judge(chip: &Chip, known: Option<f64>, groups: &[(&str, Vec<Point>, f64)]) {
    let points: Vec<&Point> = groups.iter().flat_map(|(_, points, _)| points).collect();
    let predicted: Vec<Vec<f64>> = points.iter().map(|p| predict(chip, &p.program)).collect();
    let measured: Vec<f64> = points.iter().map(|p| p.seconds).collect();
    let all: Vec<usize> = (0..points.len()).collect();
    let (step, dispatch) = fit(&predicted, &measured, &all, known);
    println!(
        "{}: fitted on all: step {:.0} ns, copy latency {:.0} ns, dispatch {:.2} us",
        chip.name,
        tried()[step].0 * 1e9,
        tried()[step].1 * 1e9,
        dispatch * 1e6
    );
    // For each point, its errors in the splits that leave it out.
    let mut left_out: Vec<Vec<f64>> = vec![Vec::new(); points.len()];
    for first in 0..points.len() {
        for second in first..points.len() {
            let rest: Vec<usize> = all
                .iter()
                .copied()
                .filter(|&i| i != first && i != second)
                .collect();
            let (step, dispatch) = fit(&predicted, &measured, &rest, known);
            let judged = if first == second {
                vec![first]
            } else {
                vec![first, second]
            };
            for i in judged {
                left_out[i].push(error(predicted[i][step] + dispatch, measured[i]));
            }
        }
    }
    let mean = |errors: &[f64]| errors.iter().map(|e| e.abs()).sum::<f64>() / errors.len() as f64;
    let mut at = 0;
    for (title, points, most) in groups {
        println!(" {title}");
        let begin = at;
        for point in points {
            let own = error(predicted[at][step] + dispatch, measured[at]);
            let worst = left_out[at]
                .iter()
                .copied()
                .max_by(|a, b| a.abs().total_cmp(&b.abs()));
            println!(
                "  {:<36} {:>12.3} us  fitted {own:>+6.1} %  left out {:>5.1} % (worst {:>+6.1} %)",
                point.name,
                point.seconds * 1e6,
                mean(&left_out[at]),
                worst.unwrap_or_default()
            );
            at += 1;
        }
        let every: Vec<f64> = left_out[begin..at].concat();
        let every = mean(&every);
        println!("  mean error of what was left out: {every:.2} %");
        assert!(every <= *most, "more than {most} %");
    }
    println!();
}
