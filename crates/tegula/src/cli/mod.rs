//! Commands, their options, and how their outcomes become exit codes:
//! 0 for success, 1 for a finding or a failed check, 2 for bad usage or input.

/// Prints a line. What cannot be written is reported when the command ends.
macro_rules! say {
    ($($text:tt)*) => {
        crate::cli::output::line(format_args!($($text)*))
    };
}

mod bench;
mod chip;
mod compile;
mod draw;
mod fused_text;
mod index;
mod inputs;
mod layout;
mod object;
pub(crate) mod output;
mod pallas;
mod passes;
mod reduce;
mod report;
mod run;
mod same_size;
mod shape;
mod simplify;
mod simulate;
mod trace;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use tegula_compile_cache::Environment;

/// Everything went well.
pub(crate) const SUCCESS: u8 = 0;
/// A check failed or something was found.
pub(crate) const FINDING: u8 = 1;
/// The command line or the input is wrong.
pub(crate) const BAD_USAGE: u8 = 2;

/// What code for the CPU may use.
#[derive(Debug, Args)]
pub(crate) struct CpuArgs {
    /// Which instructions may be used: native, x86-64-v2, x86-64-v3 or x86-64-v4.
    #[arg(long, default_value = "native")]
    cpu: String,
}

impl CpuArgs {
    fn get(&self) -> Result<tegula::IsaLevel, report::Failure> {
        let cpu: Result<tegula::IsaLevel, _> = self.cpu.parse();
        Ok(cpu.map_err(anyhow::Error::from)?)
    }
}

/// Where compiled programs are kept.
#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// Keep compiled programs in this folder and take them from there; `user`: in your cache
    /// folder. The environment variable `TEGULA_CACHE` says the same.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

impl CacheArgs {
    fn get(&self) -> Result<Option<tegula::Cache>, report::Failure> {
        let cache = match &self.cache {
            Some(name) => tegula::Cache::named(name).map(Some),
            None => tegula::Cache::from_environment().map(Environment::asked),
        };
        Ok(cache.map_err(tegula::Error::from)?)
    }
}

/// Compile and run machine-learning programs, and ask why.
#[derive(Debug, Parser)]
#[command(name = "tegula", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// Print one JSON object to standard output.
    #[arg(long, global = true)]
    pub json: bool,
    /// Log what is done, and how long it takes, to standard error.
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// Write a Chrome trace of the passes, or of what is simulated, to this file.
    #[arg(long, global = true, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// What a program is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetName {
    /// Machine code for this CPU.
    Cpu,
    /// The reference evaluator.
    Interp,
    /// The Plan evaluator.
    Plan,
    /// The first GPU.
    Cuda,
    /// A simulated GPU, which needs the CUDA compiler library only.
    CudaSim,
    /// A simulated TPU, which checks the placement.
    Tpu,
}

impl From<TargetName> for tegula::Target {
    fn from(name: TargetName) -> Self {
        match name {
            TargetName::Cpu => Self::Cpu,
            TargetName::Interp => Self::Interp,
            TargetName::Plan => Self::Plan,
            TargetName::Cuda => Self::Cuda,
            TargetName::CudaSim => Self::CudaSim,
            TargetName::Tpu => Self::Tpu,
        }
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compile a program, run it, and show or check what it gives.
    Run(run::RunArgs),
    /// Compile a program and print one of its forms on the way.
    Compile(compile::CompileArgs),
    /// Print the indexing maps of a program's instructions.
    Index(index::IndexArgs),
    /// Simplify an indexing map.
    Simplify(simplify::SimplifyArgs),
    /// Print sizes and element positions of a shape.
    Shape(shape::ShapeArgs),
    /// Print a program with layouts, tiles and memory spaces for a TPU.
    Layout(layout::LayoutArgs),
    /// Run a kernel on a simulated TPU core: what is wrong with it, what it needs.
    Simulate(simulate::SimulateArgs),
    /// Measure how long a program takes to compile and run.
    Bench(bench::BenchArgs),
    /// Find the smallest program on which a command still fails.
    Reduce(reduce::ReduceArgs),
}

impl Cli {
    /// Runs the command; gives the exit code.
    pub(crate) fn execute(self) -> u8 {
        // The timeline of a simulation is the chip's, not this process's.
        let path = match &self.command {
            Command::Simulate(_) => None,
            _ => self.common.trace.clone(),
        };
        let trace = trace::start(self.common.verbose, path);
        let common = &self.common;
        let outcome = match &self.command {
            Command::Run(args) => run::run(args, common),
            Command::Compile(args) => match args.emit {
                Some(form) => compile::compile(args, form, common),
                None => passes::passes(args, common),
            },
            Command::Index(args) => index::index(args, common),
            Command::Simplify(args) => simplify::simplify(args, common),
            Command::Shape(args) => shape::shape(args, common),
            Command::Layout(args) => layout::layout(args, common),
            Command::Simulate(args) => simulate::simulate(args, common),
            Command::Bench(args) => bench::bench(args, common),
            Command::Reduce(args) => reduce::reduce(args, common),
        };
        let code = match outcome {
            Ok(code) => code,
            Err(failure) => failure.report(common.json),
        };
        let code = output::report().unwrap_or(code);
        match trace.finish() {
            Ok(()) => code,
            Err(error) => {
                output::complain(format_args!("error: the trace cannot be written: {error}"));
                BAD_USAGE
            }
        }
    }
}
