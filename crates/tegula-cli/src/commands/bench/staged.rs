//! `tegula bench` for an ONNX model whose sizes depend on data.

use super::{COMPILES, FEWEST, MOST, PROFILES, Rated, fastest_of_each, ms, print_kernels, rated};
use crate::documents::{self, StageTime, StagedMeasurement};
use crate::execution::ExecutionArgs;
use crate::exit_code::SUCCESS;
use crate::options::Common;
use crate::report::Failure;
use crate::terminal::{count, progress};
use anyhow::anyhow;
use std::time::{Duration, Instant};
use tegula::{Arg, Options, StagedModel, Tensor};
use tegula_codegen_cpu::KernelTime;

/// Measures a model stage by stage. The time to compile includes the first run, because that run
/// compiles the stages that depend on the inputs.
pub(super) fn bench(
    args: &ExecutionArgs,
    options: &Options,
    budget: Duration,
    common: &Common,
) -> Result<u8, Failure> {
    let failed = |error| args.failure(error);
    let mut compile = Duration::MAX;
    let mut made = None;
    for _ in 0..COMPILES {
        let start = Instant::now();
        let (model, inputs) = args.staged(options)?;
        model.run(&inputs).map_err(failed)?;
        compile = compile.min(start.elapsed());
        made = Some((model, inputs));
    }
    let (model, inputs) = made.ok_or_else(|| anyhow!("nothing was compiled"))?;
    // The spinner is removed first: drawing it would distort the measurement.
    progress::clear();
    let mut times = Vec::new();
    let start = Instant::now();
    while times.len() < FEWEST || (start.elapsed() < budget && times.len() < MOST) {
        let start = Instant::now();
        let outputs = model.run(&inputs).map_err(failed)?;
        times.push(start.elapsed());
        drop(outputs);
    }
    times.sort_unstable();
    let (median, least) = (ms(times[times.len() / 2]), ms(times[0]));
    let kernels = kernels(&model, &inputs, budget / 2).map_err(failed)?;
    let stages: Vec<Vec<Rated>> = kernels
        .into_iter()
        .map(|kernels| rated(kernels, args.threads))
        .collect();
    if common.json {
        let stage = |kernels: Vec<Rated>| StageTime {
            kernels: kernels.into_iter().map(Rated::document).collect(),
        };
        documents::print(&StagedMeasurement {
            compile_ms: ms(compile),
            run_ms_median: median,
            run_ms_min: least,
            threads: args.threads,
            stages: stages.into_iter().map(stage).collect(),
        });
        return Ok(SUCCESS);
    }
    say!(
        "{} for these inputs: {} on {}",
        count(stages.len(), "stage"),
        count(times.len(), "run"),
        count(args.threads.into(), "thread")
    );
    say!(
        "compile  {:.3} ms with reading and the first run",
        ms(compile)
    );
    say!("run      {median:.4} ms median, {least:.4} ms fastest");
    for (stage, kernels) in stages.iter().enumerate() {
        say!("\nstage {stage}");
        print_kernels(kernels);
    }
    Ok(SUCCESS)
}

/// Returns the kernels of each stage with their fastest times.
fn kernels(
    model: &StagedModel,
    inputs: &[Tensor],
    budget: Duration,
) -> Result<Vec<Vec<KernelTime>>, tegula::Error> {
    let mut stages: Vec<Vec<Vec<KernelTime>>> = Vec::new();
    let start = Instant::now();
    let mut runs = 0;
    while runs == 0 || (start.elapsed() < budget && runs < PROFILES) {
        runs += 1;
        model.run_watched(inputs, &mut |stage, executable, args| {
            if stages.len() <= stage {
                stages.resize_with(stage + 1, Vec::new);
            }
            let given: Vec<_> = args.iter().map(Arg::tensor).map(Tensor::stored).collect();
            stages[stage].push(executable.backend().profile(&given)?);
            Ok(())
        })?;
    }
    Ok(stages.into_iter().map(fastest_of_each).collect())
}
