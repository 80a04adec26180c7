//! `tegula run`: compile, run, and show or check the results.

mod staged;

use crate::exit_code::{FINDING, SUCCESS};
use crate::inputs::{
    CheckArgs, DimArgs, FreezeArgs, InputArgs, borrowed, comparison_json, read_module_with,
};
use crate::options::{CacheArgs, Common, CpuArgs, TargetName};
use crate::report::Failure;
use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tegula::check::Comparison;
use tegula::{Compiled, Executable, Options, Tensor, compile, npz};
use tegula_ir::{Literal, Shape};

/// The options of `tegula run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The program: HLO text, StableHLO (text or bytecode), a file of jax.export, or an ONNX model.
    pub model: PathBuf,
    #[command(flatten)]
    pub dims: DimArgs,
    /// What to compile it for.
    #[arg(long, value_enum, default_value = "cpu")]
    pub target: TargetName,
    #[command(flatten)]
    pub cpu: CpuArgs,
    #[command(flatten)]
    pub cache: CacheArgs,
    /// The TPU chip: a name, or a file that describes one.
    #[arg(long, default_value = "v5e")]
    pub chip: String,
    #[command(flatten)]
    pub inputs: InputArgs,
    #[command(flatten)]
    pub freeze: FreezeArgs,
    /// Write the results to this file as out0, out1, ....
    #[arg(long, value_name = "NPZ")]
    pub outputs: Option<PathBuf>,
    #[command(flatten)]
    pub check: CheckArgs,
    /// Give up after this many instructions (interp) or statements (tpu).
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// Threads that a run may use.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Run this often and report the fastest run.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
}

/// Runs a program.
pub(crate) fn run(args: &RunArgs, common: &Common) -> Result<u8, Failure> {
    let cpu = args.cpu.get()?;
    let read_start = Instant::now();
    let source = read_module_with(&args.model, &args.dims, args.inputs.inputs.as_deref());
    let source = match source {
        Ok(source) => source,
        Err(failure) if failure.needs_stages() => return staged::run(args, common),
        Err(failure) => return Err(failure),
    };
    source.warn_of_callbacks();
    let read_time = read_start.elapsed();
    let inputs = args.inputs.load(&source)?;
    let options = Options {
        target: args.target.into(),
        cpu,
        threads: args.threads.into(),
        chip: Some(crate::chip::load(&args.chip)?),
        cache: args.cache.get()?,
        ..Options::default()
    };
    let mut executable = compile(&source.module, &options).map_err(|e| source.failure(e))?;
    if let Some(steps) = args.steps {
        executable.limit_steps(steps);
    }
    let given = args.freeze.freeze(&mut executable, &inputs);
    let given = given.map_err(|e| source.failure(e))?;
    let mut fastest = Duration::MAX;
    let mut outputs = Vec::new();
    for _ in 0..args.repeat {
        let given = borrowed(&given);
        let start = Instant::now();
        outputs = executable.run(given).map_err(|e| source.failure(e))?;
        fastest = fastest.min(start.elapsed());
    }
    write_outputs(args, &outputs)?;
    let comparisons = args.check.compare(&outputs)?;
    let times = Times {
        read: read_time,
        compile: executable.compile_time,
        run: fastest,
    };
    if common.json {
        print_json(&outputs, comparisons.as_deref(), &times);
    } else {
        print_text(args, &source.module, &executable, &inputs, &outputs, &times);
        for (i, comparison) in comparisons.iter().flatten().enumerate() {
            print_comparison(i, comparison);
        }
    }
    let ok = comparisons.is_none_or(|all| all.iter().all(|c| c.ok));
    Ok(if ok { SUCCESS } else { FINDING })
}

/// Writes results to the file that was asked for, if one was.
fn write_outputs(args: &RunArgs, outputs: &[Tensor]) -> anyhow::Result<()> {
    let Some(path) = &args.outputs else {
        return Ok(());
    };
    let named: Vec<(String, &Literal)> = outputs
        .iter()
        .enumerate()
        .map(|(i, b)| (format!("out{i}"), b.literal()))
        .collect();
    let write = || -> anyhow::Result<()> {
        let file = std::io::BufWriter::new(std::fs::File::create(path)?);
        Ok(npz::write_npz(
            file,
            named.iter().map(|(n, l)| (n.as_str(), *l)),
        )?)
    };
    write().with_context(|| format!("{} cannot be written", path.display()))
}

struct Times {
    read: Duration,
    compile: Duration,
    run: Duration,
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn print_json(outputs: &[Tensor], comparisons: Option<&[Comparison]>, times: &Times) {
    let results: Vec<Value> = match comparisons {
        Some(all) => all
            .iter()
            .enumerate()
            .map(|(i, c)| comparison_json(i, c))
            .collect(),
        None => outputs
            .iter()
            .enumerate()
            .map(|(i, b)| json!({ "index": i, "shape": shape_text(b) }))
            .collect(),
    };
    let ok = comparisons.is_none_or(|all| all.iter().all(|c| c.ok));
    say!(
        "{}",
        json!({
            "ok": ok,
            "outputs": results,
            "compile_ms": milliseconds(times.compile),
            "run_ms": milliseconds(times.run),
        })
    );
}

fn shape_text(buffer: &Tensor) -> String {
    Shape::Array(buffer.shape().clone()).to_string()
}

fn print_text(
    args: &RunArgs,
    module: &tegula_ir::Module,
    executable: &Executable,
    inputs: &[Tensor],
    outputs: &[Tensor],
    times: &Times,
) {
    let instructions = module.instructions.len();
    say!(
        "{}: {instructions} instructions, {} inputs, {} results",
        module.name,
        inputs.len(),
        outputs.len()
    );
    let plan = match executable.compiled() {
        Compiled::Cpu(compiled) => Some(compiled.plan()),
        Compiled::Cuda(compiled) => Some(compiled.plan()),
        Compiled::Interp(_) | Compiled::Plan(_) | Compiled::Tpu(_) => None,
    };
    if let Some(plan) = plan {
        say!("fused:    {}", crate::fused_text::summary(plan));
    }
    say!(
        "compiled: {:.2} ms (read and verified in {:.2} ms)",
        milliseconds(times.compile),
        milliseconds(times.read)
    );
    let best = if args.repeat > 1 {
        format!(", the fastest of {}", args.repeat)
    } else {
        String::new()
    };
    say!("ran:      {:.3} ms{best}", milliseconds(times.run));
    print_outputs(outputs);
}

/// Each result's shape and first elements.
fn print_outputs(outputs: &[Tensor]) {
    for (i, output) in outputs.iter().enumerate() {
        say!(
            "out{i} {} {}",
            shape_text(output),
            first_numbers(output.literal())
        );
    }
}

/// The first few elements, as a person reads them.
fn first_numbers(literal: &Literal) -> String {
    const SHOWN: usize = 6;
    let shown: Vec<String> = literal
        .scalars()
        .take(SHOWN)
        .map(|s| s.to_string())
        .collect();
    let rest = if literal.len() > SHOWN { ", ..." } else { "" };
    format!("[{}{rest}]", shown.join(", "))
}

fn print_comparison(index: usize, comparison: &Comparison) {
    let Comparison {
        max_abs,
        max_rel,
        ok,
    } = comparison;
    let verdict = if *ok { "agrees" } else { "DIFFERS" };
    say!("check out{index}: {verdict} (largest difference {max_abs:.3e}, relative {max_rel:.3e})");
}
