//! `tegula reduce`: finds the smallest program on which a command still fails.

use crate::documents::{self, Reduced};
use crate::exit_code::SUCCESS;
use crate::inputs::{DimArgs, read_module};
use crate::options::Common;
use crate::report::Failure;
use crate::terminal::output::complain;
use anyhow::{Context, anyhow};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tegula_ir::Module;
use tegula_ir::{PrintStyle, print_module};

/// The options of `tegula reduce`.
#[derive(Debug, Args)]
pub(crate) struct ReduceArgs {
    /// The program's file: HLO text, StableHLO (text or bytecode), an artifact that `jax.export`
    /// serialized, or an ONNX model. The contents decide which one it is. `-` reads standard input.
    pub model: PathBuf,
    /// Write the smallest program to this file. The default is MODEL.reduced.hlo.
    #[arg(short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Try at most N programs.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub max_tries: usize,
    /// The command that fails on the program: it exits with a code other than 0. `%s` in it stands
    /// for the path of the program to try; without `%s`, the path is appended. For example
    /// `tegula reduce model.hlo -- tegula run --check expected.npz %s`.
    #[arg(last = true, required = true)]
    pub command: Vec<String>,
}

/// Reduces a program.
pub(crate) fn reduce(args: &ReduceArgs, common: &Common) -> Result<u8, Failure> {
    let source = read_module(&args.model, &DimArgs::default())?;
    let candidate = Candidate::new();
    if !candidate.fails(&source.module, &args.command)? {
        let command = args.command.join(" ");
        return Err(anyhow!("`{command}` succeeds on {}", args.model.display()).into());
    }
    let before = source.module.instructions.len();
    let mut smallest = before;
    let reduction = tegula::reduce::reduce(&source.module, args.max_tries, &mut |module| {
        let fails = candidate.fails(module, &args.command)?;
        let size = module.instructions.len();
        if fails && size < smallest {
            smallest = size;
            complain(format_args!("{size} instructions"));
        }
        anyhow::Ok(fails)
    })?;
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| args.model.with_extension("reduced.hlo"));
    write(&output, &reduction.module)?;
    let after = reduction.module.instructions.len();
    if reduction.gave_up {
        complain(format_args!(
            "stopped after {} tries; --max-tries allows more",
            reduction.tries
        ));
    }
    if common.json {
        documents::print(&Reduced {
            output: output.display().to_string(),
            instructions_before: before,
            instructions: after,
            tries: reduction.tries,
            gave_up: reduction.gave_up,
        });
    } else {
        let tries = reduction.tries;
        say!(
            "{}: {after} instructions of {before}, after {tries} tries",
            output.display()
        );
    }
    Ok(SUCCESS)
}

fn write(path: &Path, module: &Module) -> anyhow::Result<()> {
    crate::terminal::result_file::write(path, print_module(module, PrintStyle::Short))
}

/// The temporary file that holds the candidate program; removed when this is dropped.
struct Candidate(PathBuf);

impl Candidate {
    fn new() -> Self {
        let name = format!("tegula-reduce-{}.hlo", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    /// Tells whether the command fails on a program.
    fn fails(&self, module: &Module, command: &[String]) -> anyhow::Result<bool> {
        write(&self.0, module)?;
        let path = self.0.display().to_string();
        let mut words: Vec<String> = command.iter().map(|w| w.replace("%s", &path)).collect();
        if !command.iter().any(|w| w.contains("%s")) {
            words.push(path);
        }
        let (program, arguments) = words
            .split_first()
            .ok_or_else(|| anyhow!("expected a command after `--`"))?;
        let status = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .with_context(|| format!("`{program}` cannot be run"))?;
        Ok(!status.success())
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        // A temporary file that cannot be removed does no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}
