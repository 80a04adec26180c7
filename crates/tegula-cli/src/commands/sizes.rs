//! `tegula sizes`: prints the shape of every value of a program, or why two sizes are equal.

use super::same_size;
use crate::documents::{self, NodeShape, NodeShapes, Sizes, ValueShape};
use crate::exit_code::SUCCESS;
use crate::inputs::{DimArgs, Source, node_shapes, read_programs};
use crate::options::Common;
use crate::report::Failure;
use clap::Args;
use std::path::PathBuf;
use tegula_ir::display_shape;

/// The options of `tegula sizes`.
#[derive(Debug, Args)]
pub(crate) struct SizesArgs {
    /// The program's file: HLO text, StableHLO (text or bytecode), an artifact that `jax.export`
    /// serialized, or an ONNX model. The contents decide which one it is. `-` reads standard input.
    pub model: PathBuf,
    #[command(flatten)]
    pub dims: DimArgs,
    /// Prove that sizes A and B are equal, and print the proof, or the missing assumption. Each is
    /// a dimension or a formula. `dot.3:0` is dimension 0 of instruction dot.3, `body::dot.3:0`
    /// that of an instruction in the computation `body`, and `while.2:1.0` dimension 0 of array 1
    /// of a tuple. A formula may use these and the sizes of inputs: `p0_d0 * 2 / dot.3:1`.
    #[arg(long, num_args = 2, value_names = ["A", "B"], allow_hyphen_values = true)]
    pub why: Option<Vec<String>>,
    /// For an ONNX model whose shapes depend on the values of inputs: read those values from this
    /// NumPy `.npz` file.
    #[arg(long, value_name = "NPZ")]
    pub inputs: Option<PathBuf>,
    /// For an ONNX model: print the shapes of its nodes' outputs, by their names in the model.
    #[arg(long, conflicts_with = "why")]
    pub nodes: bool,
}

/// Prints the shapes of a program's values, or why two sizes are equal.
pub(crate) fn sizes(args: &SizesArgs, common: &Common) -> Result<u8, Failure> {
    let inputs = args.inputs.as_deref();
    if let Some([a, b]) = args.why.as_deref() {
        return same_size::why(&args.model, [a, b], &args.dims, inputs, common);
    }
    if args.nodes {
        return nodes(args, common);
    }
    let sources = read_programs(&args.model, &args.dims, inputs)?;
    let is_staged = sources.len() > 1;
    let mut all = Vec::new();
    for (stage, source) in sources.iter().enumerate() {
        let values = values(source, is_staged.then_some(stage));
        if common.json {
            all.extend(values);
            continue;
        }
        if is_staged {
            say!("stage {stage}:");
        }
        for value in values {
            say!("{}::{}: {}", value.computation, value.name, value.shape);
        }
    }
    if common.json {
        documents::print(&Sizes { values: all });
    }
    Ok(SUCCESS)
}

/// Returns the shapes of a program's values.
fn values(source: &Source, stage: Option<usize>) -> impl Iterator<Item = ValueShape> {
    let module = &source.module;
    let computations = module.computations.values();
    computations.flat_map(move |computation| {
        let instructions = computation.instructions.iter();
        instructions.map(move |&id| ValueShape {
            stage,
            computation: computation.name.to_string(),
            name: module[id].name.to_string(),
            shape: display_shape(&module[id].shape, &module.symbols),
        })
    })
}

/// Prints the shapes of the outputs of an ONNX model's nodes.
fn nodes(args: &SizesArgs, common: &Common) -> Result<u8, Failure> {
    let shapes = node_shapes(&args.model, args.inputs.as_deref())?;
    if common.json {
        let shapes = shapes.into_iter();
        let values = shapes.map(|(name, shape)| NodeShape { name, shape });
        let values = values.collect();
        documents::print(&NodeShapes { values });
    } else {
        for (name, shape) in shapes {
            say!("{name}: {shape}");
        }
    }
    Ok(SUCCESS)
}
