//! Options that several commands share.

use crate::report;
use crate::terminal::style::Color;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use tegula::{Interrupt, Limits};
use tegula_compile_cache::Environment;

/// What code for the CPU may use.
#[derive(Debug, Args)]
pub(crate) struct CpuArgs {
    /// The CPU's instruction set: native, x86-64-v2 (SSE4.2), x86-64-v3 (AVX2), x86-64-v4 (AVX-512),
    /// armv8-a, armv8.4-a or armv8.6-a. The default is native: all that this machine has.
    #[arg(long, value_name = "CPU")]
    cpu: Option<String>,
}

impl CpuArgs {
    /// The requested instruction set level, or this machine's if none is requested.
    pub(crate) fn get(&self) -> Result<tegula::IsaLevel, report::Failure> {
        Ok(self.asked()?.unwrap_or_default())
    }

    /// The requested instruction set level, if any.
    pub(crate) fn asked(&self) -> Result<Option<tegula::IsaLevel>, report::Failure> {
        let cpu = self.cpu.as_deref().map(str::parse::<tegula::IsaLevel>);
        Ok(cpu.transpose().map_err(anyhow::Error::from)?)
    }
}

/// Where compiled programs are kept.
#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// Keep compiled programs in this folder, and load a program from there if it was compiled
    /// before. `user` is the folder `tegula` in your cache folder. The environment variable
    /// `TEGULA_CACHE` sets a default; without either, nothing is kept.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

impl CacheArgs {
    pub(crate) fn get(&self) -> Result<Option<tegula::Cache>, report::Failure> {
        let cache = match &self.cache {
            Some(name) => tegula::Cache::named(name).map(Some),
            None => tegula::Cache::from_environment().map(Environment::asked),
        };
        Ok(cache.map_err(tegula::Error::from)?)
    }
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Common {
    /// Print one JSON object to standard output instead of text. `tegula schema` describes its
    /// members.
    #[arg(long, global = true)]
    pub json: bool,
    /// Log each step, and how long it takes, to standard error.
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// When to use colours.
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value = "auto"
    )]
    pub color: Color,
    /// Stop after this many seconds, for example 0.5 or 60, with exit code 124. The default is no
    /// limit.
    #[arg(long, global = true, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<Duration>,
    /// Stop before arrays take more memory than this: a number of bytes, or one with KiB, MiB or
    /// GiB, such as 1.5GiB. The default is no limit.
    #[arg(long, global = true, value_name = "BYTES", value_parser = bytes)]
    pub memory: Option<u64>,
    /// Write a timeline to this file: of the passes, or for `simulate` of the simulated chip. Open it
    /// with Perfetto or `chrome://tracing`.
    #[arg(long, global = true, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

impl Common {
    /// The limits of the command's work: time, memory and interrupts.
    pub(crate) fn limits(&self, interrupt: &Interrupt) -> Limits {
        let mut limits = Limits::new().interrupt(interrupt);
        limits.timeout = self.timeout;
        limits.memory = self.memory;
        limits
    }
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok();
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| "expected a number of seconds, such as 10 or 0.5".to_owned())
}

fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("B", 0)];
    let unit = UNITS.iter().find_map(|(name, shift)| {
        let number = text.strip_suffix(name)?;
        Some((number, *shift))
    });
    let (number, shift) = unit.unwrap_or((text, 0));
    let number: Option<f64> = number.trim().parse().ok();
    let bytes = number.map(|number| number * f64::from(1u32 << shift));
    match bytes {
        Some(bytes) if (0.0..u64::MAX as f64).contains(&bytes) => Ok(bytes as u64),
        _ => Err("expected a number of bytes, such as 500000000, 512MiB or 1.5GiB".to_owned()),
    }
}

/// What a program is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetName {
    /// This CPU, as machine code.
    Cpu,
    /// The reference evaluator, which executes each operation by its definition, slowly.
    Interp,
    /// The Plan evaluator, which executes fused kernels in their planned buffers, slowly.
    Plan,
    /// The first NVIDIA GPU.
    Cuda,
    /// A simulated GPU with checks for races and bad accesses. Of CUDA it needs NVRTC alone.
    CudaSim,
    /// A simulated TPU core, which also checks where arrays are placed.
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
