//! `tegula bench`: how long a program takes to compile and run.

use super::inputs::{DimArgs, InputArgs, Source, read_module};
use super::report::Failure;
use super::{Common, SUCCESS, TargetName};
use clap::Args;
use serde_json::json;
use std::borrow::Cow;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tegula::{Arg, Compiled, Options, compile};

/// The options of `tegula bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// The program: HLO text.
    pub model: PathBuf,
    #[command(flatten)]
    pub dims: DimArgs,
    /// What to compile it for.
    #[arg(long, value_enum, default_value = "cpu")]
    pub target: TargetName,
    #[command(flatten)]
    pub inputs: InputArgs,
    /// Threads that a run may use.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
}

/// Runs are repeated for about this long, and between these many times.
const BUDGET: Duration = Duration::from_secs(1);
const FEWEST: usize = 5;
const MOST: usize = 2000;
/// Reading and compiling is repeated this often; the fastest counts.
const COMPILES: usize = 3;
/// A device's runs are timed together this often; the fastest counts.
const ROUNDS: usize = 3;

/// Measures a program.
pub(crate) fn bench(args: &BenchArgs, common: &Common) -> Result<u8, Failure> {
    let source = read_module(&args.model, &args.dims)?;
    let inputs = args.inputs.load(&source)?;
    let options = Options {
        target: args.target.into(),
        threads: args.threads.into(),
        ..Options::default()
    };
    let read_ms = fastest_read(&source)?;
    let mut compile_times = Vec::new();
    let executable = loop {
        let executable = compile(&source.module, &options).map_err(|e| source.failure(e))?;
        compile_times.push(executable.compile_time);
        if compile_times.len() >= COMPILES {
            break executable;
        }
    };
    let mut times = Vec::new();
    let start = Instant::now();
    while times.len() < FEWEST || (start.elapsed() < BUDGET && times.len() < MOST) {
        let borrowed = inputs.iter().map(Arg::Borrowed).collect();
        let start = Instant::now();
        let outputs = executable.run(borrowed).map_err(|e| source.failure(e))?;
        times.push(start.elapsed());
        drop(outputs);
    }
    times.sort_unstable();
    compile_times.sort_unstable();
    let (median, least) = (ms(times[times.len() / 2]), ms(times[0]));
    let compile_ms = ms(compile_times[0]);
    let (peak, kernels) = match executable.compiled() {
        Compiled::Cpu(compiled) => {
            let shapes: Vec<_> = inputs.iter().map(tegula::Buffer::shape).collect();
            let peak = compiled
                .peak_bytes(&shapes)
                .map_err(|e| source.failure(e.into()))?;
            let borrowed: Vec<_> = inputs.iter().map(tegula::Buffer::literal).collect();
            let profile = compiled
                .profile(&borrowed)
                .map_err(|e| source.failure(e.into()))?;
            (peak, profile)
        }
        Compiled::Cuda(compiled) => {
            let shapes: Vec<_> = inputs.iter().map(tegula::Buffer::shape).collect();
            let peak = compiled.peak_bytes(&shapes);
            let peak = peak.map_err(|e| source.failure(e.into()))?;
            (i64::try_from(peak).unwrap_or(i64::MAX), Vec::new())
        }
        _ => (0, Vec::new()),
    };
    let device_ms = match executable.compiled() {
        Compiled::Cuda(compiled) => {
            let borrowed: Vec<_> = inputs.iter().map(|b| Cow::Borrowed(b.literal())).collect();
            let fitting = BUDGET.as_secs_f64() * 1e3 / least.max(1e-3);
            let runs = (fitting as usize).clamp(FEWEST, MOST);
            let fastest = (0..ROUNDS).map(|_| compiled.time(&borrowed, runs as u32));
            let fastest: Result<Vec<_>, _> = fastest.collect();
            let fastest = fastest.map_err(|e| source.failure(e.into()))?;
            fastest.into_iter().min().map(ms)
        }
        _ => None,
    };
    if common.json {
        let kernels: Vec<_> = kernels
            .iter()
            .map(|k| json!({ "name": k.name, "ms": ms(k.time), "runs": k.runs }))
            .collect();
        say!(
            "{}",
            json!({
                "read_ms": read_ms,
                "compile_ms": compile_ms,
                "run_ms_median": median,
                "run_ms_min": least,
                "device_ms": device_ms,
                "peak_bytes": peak,
                "threads": args.threads,
                "kernels": kernels,
            })
        );
        return Ok(SUCCESS);
    }
    say!(
        "{}: {} runs on {} thread(s)",
        source.module.name,
        times.len(),
        args.threads
    );
    say!("read     {read_ms:.3} ms with verifying");
    say!("compile  {compile_ms:.3} ms");
    say!("run      {median:.4} ms median, {least:.4} ms fastest");
    if let Some(device_ms) = device_ms {
        say!("device   {device_ms:.4} ms a run with nothing copied to it or back");
    }
    say!("memory   {peak} bytes of arena and results");
    let mut by_time = kernels;
    by_time.sort_by_key(|k| std::cmp::Reverse(k.time));
    for kernel in by_time.iter().take(20) {
        say!(
            "  {:>10.4} ms  {:>6} x  {}",
            ms(kernel.time),
            kernel.runs,
            kernel.name
        );
    }
    Ok(SUCCESS)
}

/// Reading and verifying the text, as often as it is compiled.
fn fastest_read(source: &Source) -> Result<f64, Failure> {
    let mut fastest = Duration::MAX;
    for _ in 0..COMPILES {
        let start = Instant::now();
        tegula::read(&source.text).map_err(|e| source.failure(e))?;
        fastest = fastest.min(start.elapsed());
    }
    Ok(ms(fastest))
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
