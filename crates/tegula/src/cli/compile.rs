//! `tegula compile`: one of a program's forms on the way to machine code.

use super::inputs::{DimArgs, read_module};
use super::report::Failure;
use super::{Common, SUCCESS};
use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::path::PathBuf;
use tegula_codegen_cpu::{Cpu, Listing, listing};
use tegula_ir::PrintStyle;

/// Targets of `tegula compile`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CompileTarget {
    /// Machine code for the CPU.
    Cpu,
}

/// A form of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// The program as HLO text.
    Hlo,
    /// What is fused, and why.
    Fused,
    /// Kernels, buffers and the schedule.
    Plan,
    /// Cranelift's intermediate form.
    Clif,
    /// Machine code.
    Asm,
}

/// The options of `tegula compile`.
#[derive(Debug, Args)]
pub(crate) struct CompileArgs {
    /// The program: HLO text.
    pub model: PathBuf,
    #[command(flatten)]
    pub dims: DimArgs,
    /// What to compile it for.
    #[arg(long, value_enum, default_value = "cpu")]
    pub target: CompileTarget,
    /// What to print.
    #[arg(long, value_enum)]
    pub emit: Form,
    /// Which instructions may be used: native, x86-64-v2, x86-64-v3 or x86-64-v4.
    #[arg(long, default_value = "native")]
    pub cpu: String,
    /// Write to this file instead of standard output.
    #[arg(short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Compiles a program and prints a form of it.
pub(crate) fn compile(args: &CompileArgs, common: &Common) -> Result<u8, Failure> {
    let CompileTarget::Cpu = args.target;
    let cpu = Cpu::from_name(&args.cpu).ok_or_else(|| {
        anyhow!(
            "there is no CPU `{}`: use native, x86-64-v2, x86-64-v3 or x86-64-v4",
            args.cpu
        )
    })?;
    let source = read_module(&args.model, &args.dims)?;
    let planned = || tegula::plan(&source.module).map_err(|e| source.failure(e));
    let options = tegula_codegen_cpu::Options { cpu, threads: 1 };
    let text = match args.emit {
        Form::Hlo => tegula_ir::print_module(&source.module, PrintStyle::Canonical),
        Form::Fused => {
            let planned = planned()?;
            super::fused_text::fused(&planned.module, &planned.fused)
        }
        Form::Plan => planned()?.plan.to_string(),
        Form::Clif | Form::Asm => {
            let what = if args.emit == Form::Clif {
                Listing::Clif
            } else {
                Listing::Asm
            };
            listing(&planned()?.plan, &options, what).map_err(|e| source.failure(e.into()))?
        }
    };
    match &args.output {
        Some(path) => std::fs::write(path, &text)
            .with_context(|| format!("{} cannot be written", path.display()))?,
        None if common.json => say!("{}", json!({ "text": text })),
        None => say!("{}", text.trim_end_matches('\n')),
    }
    Ok(SUCCESS)
}
