//! A program with its expected results, and a check that a target computes them.

use anyhow::{Context, Result, anyhow, ensure};
use std::fs;
use std::path::Path;
use tegula::check::{Tolerance, compare_every};
use tegula::npz::NpyArray;
use tegula::{Options, Target, Tensor, compile};
use tegula_ir::Module;
use tegula_ir::{Literal, Op};

/// A program with its inputs and expected results.
pub struct Program {
    /// Its name.
    pub name: String,
    /// The program itself, verified.
    pub module: Module,
    /// One array for each parameter.
    pub inputs: Vec<Literal>,
    /// The expected results.
    pub expected: Vec<Expected>,
}

/// The expected elements of one flattened result.
pub struct Expected {
    /// Which result.
    pub output: usize,
    /// The known elements: every `step`-th in row-major order.
    pub array: NpyArray,
    /// The distance between known elements.
    pub step: usize,
}

/// The names of the programs in a folder that have a file of this extension beside
/// their text, sorted.
///
/// # Errors
/// The folder cannot be read.
pub fn names(folder: &Path, extension: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|ext| ext == "hlo")
            && path.with_extension(extension).exists()
            && let Some(stem) = path.file_stem().and_then(|stem| stem.to_str())
        {
            names.push(stem.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

impl Program {
    /// The tolerance for floats, relative to the largest element. The references come from another
    /// compiler, which sums in another order: 2e-5 is a few hundred roundings of f32. A bf16 has 8
    /// bits, and where values are rounded to it is the compiler's choice. The matrix units of a TPU
    /// round f32 operands to it too.
    pub fn tolerance(&self, target: Target) -> f64 {
        let is_product = |op: &Op| matches!(op, Op::Dot { .. } | Op::Convolution { .. });
        let mut operations = self.module.instructions.values();
        let rounds = target == Target::Tpu && operations.any(|i| is_product(&i.op));
        if rounds || self.name.contains("bf16") {
            2e-2
        } else {
            2e-5
        }
    }

    /// Compiles the program for a target, runs it and compares the results.
    ///
    /// # Errors
    /// The target's error, or the result that differs.
    pub fn check(&self, target: Target, threads: usize) -> Result<()> {
        let options = Options {
            target,
            threads,
            ..Options::default()
        };
        self.check_with(&options)
    }

    /// As [`Self::check`], with all compilation options.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn check_with(&self, options: &Options) -> Result<()> {
        let executable = compile(&self.module, options)?;
        let inputs: Vec<Tensor> = self.inputs.iter().cloned().map(Tensor::from).collect();
        let outputs = executable.run(inputs.iter())?;
        self.compare(&outputs, options.target)
    }

    /// As [`Self::check_with`], with all inputs but the first frozen, run twice.
    ///
    /// # Errors
    /// As [`Self::check`], or runs that differ.
    pub fn check_frozen(&self, options: &Options) -> Result<()> {
        let mut executable = compile(&self.module, options)?;
        let mut inputs = self.inputs.iter().cloned().map(Tensor::from);
        let first: Vec<Tensor> = inputs.by_ref().take(1).collect();
        for (input, value) in inputs.enumerate() {
            executable.freeze(input + 1, value)?;
        }
        let run = || executable.run(first.iter());
        let (outputs, again) = (run()?, run()?);
        ensure!(outputs == again, "runs differ with frozen inputs");
        self.compare(&outputs, options.target)
    }

    /// Compares flattened results with the expected ones.
    ///
    /// # Errors
    /// The result that differs.
    pub fn compare(&self, results: &[Tensor], target: Target) -> Result<()> {
        ensure!(!self.expected.is_empty(), "no result to compare with");
        for expected in &self.expected {
            let ours = results.get(expected.output);
            let ours = ours.with_context(|| format!("there is no result {}", expected.output))?;
            let theirs = expected.array.to_literal(ours.literal().element_type())?;
            let tolerance = Tolerance::Scaled(self.tolerance(target));
            let comparison = compare_every(expected.step, ours.literal(), &theirs, tolerance)
                .with_context(|| format!("result {}", expected.output))?;
            if !comparison.ok {
                return Err(anyhow!(
                    "result {} differs by {:.3e}, more than {:.0e} of the largest",
                    expected.output,
                    comparison.max_abs,
                    self.tolerance(target)
                ));
            }
        }
        Ok(())
    }
}
