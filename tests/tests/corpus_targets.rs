//! The corpus on every target, against the results of XLA: the whole of it if
//! `TEGULA_CORPUS` names its folder, else the small programs among it, which are
//! part of the repository.

use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};
use std::path::Path;
use std::time::Instant;
use tegula::{IsaLevel, Options, Target};
use tegula_tests::corpus::{load, names, small_corpus, whole_corpus};
use tegula_tests::gpu;
use tegula_tests::judge::{MIDDLE, OLDEST};

/// All inputs but the first are frozen.
const FROZEN: &str = "cpu-frozen";

/// The program as StableHLO.
const STABLEHLO: &str = "cpu-stablehlo";

const TARGETS: &[(&str, Target, IsaLevel)] = &[
    ("interp", Target::Interp, IsaLevel::Native),
    ("plan", Target::Plan, IsaLevel::Native),
    ("cpu", Target::Cpu, IsaLevel::Native),
    (FROZEN, Target::Cpu, IsaLevel::Native),
    (STABLEHLO, Target::Cpu, IsaLevel::Native),
    ("cpu-middle", Target::Cpu, MIDDLE),
    ("cpu-oldest", Target::Cpu, OLDEST),
    ("cuda-sim", Target::CudaSim, IsaLevel::Native),
    ("tpu", Target::Tpu, IsaLevel::Native),
];

/// The largest programs: they take the Plan's evaluator, which knows no faster way
/// than one element after the other, more than some seconds. They are shown as
/// ignored; `--include-ignored` runs them.
const SLOW_ON_THE_PLAN: &[&str] = &[
    "bert12_fwd_f32",
    "gpt2_small_fwd",
    "resnet50_fwd_bf16",
    "resnet50_fwd_f32",
];

/// Programs that take the simulated GPU, which interprets every instruction of every
/// lane, more than two or three seconds. They are shown as
/// ignored; `--include-ignored` runs them.
const SLOW_ON_THE_SIMULATOR: &[&str] = &[
    "bert12_fwd_f32",
    "bert_layer_bf16",
    "bert_layer_f32",
    "gpt2_kv_decode_scan",
    "gpt2_small_fwd",
    "llama_block_f32",
    "matmul_f32_1024",
    "resnet18_fwd_bf16",
    "resnet50_fwd_bf16",
    "resnet50_fwd_f32",
    "vit_tiny_fwd",
];

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    match whole_corpus() {
        Some(folder) => add(&mut trials, "corpus", &folder),
        None => {
            println!("skipped: the large programs of the corpus (TEGULA_CORPUS is not set)");
            add(&mut trials, "small", &small_corpus());
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn add(trials: &mut Vec<Trial>, group: &str, folder: &Path) {
    let names = match names(folder) {
        Ok(names) => names,
        Err(error) => {
            let message = format!("{error:#}");
            let fail = move || Err(Failed::from(message));
            trials.push(Trial::test(format!("{group}/folder"), fail));
            return;
        }
    };
    let gpu = gpu::target();
    for name in names {
        for &(label, target, cpu) in TARGETS {
            let Some((label, target)) = gpu::in_place_of((label, target), gpu) else {
                continue;
            };
            let (folder, program) = (folder.to_owned(), name.clone());
            let run = move || check(&folder, &program, label, (target, cpu));
            let run = move || run().map_err(|error| Failed::from(format!("{error:#}")));
            let slow = match target {
                Target::Plan => SLOW_ON_THE_PLAN.contains(&name.as_str()),
                Target::CudaSim => SLOW_ON_THE_SIMULATOR.contains(&name.as_str()),
                _ => false,
            };
            let trial = Trial::test(format!("{label}/{group}/{name}"), run);
            trials.push(trial.with_ignored_flag(slow));
        }
    }
}

fn check(folder: &Path, name: &str, label: &str, (target, cpu): (Target, IsaLevel)) -> Result<()> {
    let extension = if label == STABLEHLO { "mlir" } else { "hlo" };
    let program = load(folder, name, extension)?;
    let start = Instant::now();
    let options = Options {
        target,
        cpu,
        threads: 1,
        chip: None,
        orders: tegula::LayoutPolicy::LeastCost,
        cache: None,
        ..Options::default()
    };
    match label == FROZEN {
        true => program.check_frozen(&options)?,
        false => program.check_with(&options)?,
    }
    println!(
        "{name} on {target:?}: {:.2} s",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
