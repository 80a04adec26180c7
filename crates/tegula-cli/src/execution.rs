//! The options shared by the commands that compile and run a program.

use crate::inputs::{DimArgs, FreezeArgs, InputArgs, Source, read_file, read_module_with};
use crate::options::{CacheArgs, CpuArgs, TargetName};
use crate::report::Failure;
use anyhow::anyhow;
use clap::Args;
use std::path::PathBuf;
use tegula::{Options, StagedModel, Tensor};

/// A program, how it is compiled, and its inputs.
#[derive(Debug, Args)]
pub(crate) struct ExecutionArgs {
    /// The program's file: HLO text, StableHLO (text or bytecode), an artifact that `jax.export`
    /// serialized, or an ONNX model. The contents decide which one it is. `-` reads standard input.
    pub model: PathBuf,
    #[command(flatten)]
    pub dims: DimArgs,
    /// Where the program runs.
    #[arg(long, value_enum, default_value = "cpu")]
    pub target: TargetName,
    #[command(flatten)]
    pub cpu: CpuArgs,
    #[command(flatten)]
    pub cache: CacheArgs,
    #[command(flatten)]
    pub inputs: InputArgs,
    #[command(flatten)]
    pub freeze: FreezeArgs,
    /// The number of threads that a run may use on a CPU.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
}

impl ExecutionArgs {
    /// Returns the options for compiling the program.
    pub(crate) fn options(&self) -> Result<Options, Failure> {
        Ok(Options {
            target: self.target.into(),
            cpu: self.cpu.get()?,
            threads: self.threads.into(),
            cache: self.cache.get()?,
            ..Options::default()
        })
    }

    /// Reads and verifies the program.
    pub(crate) fn read(&self) -> Result<Source, Failure> {
        read_module_with(&self.model, &self.dims, self.inputs.inputs.as_deref())
    }

    /// Reads an ONNX model whose sizes depend on data, and its inputs.
    pub(crate) fn staged(&self, options: &Options) -> Result<(StagedModel, Vec<Tensor>), Failure> {
        if !self.dims.dims.is_empty() || self.freeze.freeze.is_some() {
            let message =
                "`--dim` and `--freeze` cannot be used with models whose sizes depend on data";
            return Err(anyhow!(message).into());
        }
        let path = self.model.clone();
        let external = Box::new(move |name: &str| tegula::read_beside(&path, name));
        let bytes = read_file(&self.model)?;
        let model = StagedModel::new(bytes, external, options);
        let model = model.map_err(|error| self.failure(error))?;
        let inputs = self.inputs.load_staged(&model)?;
        Ok((model, inputs))
    }

    /// An error in a model that has no text.
    pub(crate) fn failure(&self, error: tegula::Error) -> Failure {
        Failure::program(&self.model, "", error)
    }
}
