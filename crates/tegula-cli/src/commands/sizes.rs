//! `tegula sizes`: the shape of every value of a program, and why two sizes are equal.

use super::same_size;
use crate::documents::{self, Sizes, ValueShape};
use crate::exit_code::SUCCESS;
use crate::inputs::{DimArgs, read_module_with};
use crate::options::Common;
use crate::report::Failure;
use clap::Args;
use std::path::PathBuf;
use tegula_ir::spell_shape;

/// The options of `tegula sizes`.
#[derive(Debug, Args)]
pub(crate) struct SizesArgs {
    /// The program: HLO text, StableHLO (text or bytecode), a file of jax.export, or an ONNX model; `-`:
    /// standard input.
    pub model: PathBuf,
    #[command(flatten)]
    pub dims: DimArgs,
    /// Why are these two sizes equal? Each is a dimension (`dot.3:0`, `body::dot.3:0` of another
    /// computation, `while.2:1.0` of array 1 of a tuple) or a formula over dimensions and the sizes of
    /// the inputs (`p0_d0 * 2 / dot.3:1`).
    #[arg(long, num_args = 2, value_names = ["A", "B"], allow_hyphen_values = true)]
    pub why: Option<Vec<String>>,
    /// Take the values of an ONNX graph's inputs that decide shapes from this file.
    #[arg(long, value_name = "NPZ")]
    pub inputs: Option<PathBuf>,
}

/// Prints the shapes of a program's values, or why two sizes are equal.
pub(crate) fn sizes(args: &SizesArgs, common: &Common) -> Result<u8, Failure> {
    let inputs = args.inputs.as_deref();
    if let Some([a, b]) = args.why.as_deref() {
        return same_size::why(&args.model, [a, b], &args.dims, inputs, common);
    }
    let source = read_module_with(&args.model, &args.dims, inputs)?;
    let module = &source.module;
    let computations = module.computations.values();
    let values = computations.flat_map(|computation| {
        let instructions = computation.instructions.iter();
        instructions.map(|&id| ValueShape {
            computation: computation.name.to_string(),
            name: module[id].name.to_string(),
            shape: spell_shape(&module[id].shape, &module.symbols),
        })
    });
    if common.json {
        let values = values.collect();
        documents::print(&Sizes { values });
        return Ok(SUCCESS);
    }
    for value in values {
        say!("{}::{}: {}", value.computation, value.name, value.shape);
    }
    Ok(SUCCESS)
}
