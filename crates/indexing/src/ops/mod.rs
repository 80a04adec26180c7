//! From an instruction to its maps, in both directions.
//!
//! Everything an instruction reads is described by one map for each operand; an
//! instruction without a description gives [`Unknown`] with its cause, never a
//! panic, even if its attributes contradict its shapes.

mod builder;
mod contract;
mod dynamic;
mod forward;
mod forward_window;
mod rearrange;
mod reshape;
mod window;

use tegula_ir::{ArrayShape, InstructionId, Module, Op, Opcode, Shape};
use thiserror::Error;

use crate::map::IndexingMap;
use builder::Builder;

/// Why an operand has no map.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Cause {
    /// The operation has no description as an indexing map.
    #[error("`{}` has no indexing map in this direction", .0.name())]
    Operation(Opcode),
    /// The operand or result is no array.
    #[error("the operand or the result is no array")]
    NotAnArray,
    /// A size that the map needs is known only at run time.
    #[error("a size is known only at run time")]
    SymbolicSize,
    /// Attributes and shapes contradict each other.
    #[error("attributes and shapes contradict each other")]
    Malformed,
    /// A number does not fit 64 bits.
    #[error("a number does not fit 64 bits")]
    Overflow,
    /// A fused operand is read through more different maps than are kept.
    #[error("the operand is read in more ways than are kept")]
    TooManyMaps,
}

/// An operand about which nothing is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Why.
    pub cause: Cause,
    /// Which instruction is to blame: inside a fusion, the fused one.
    pub instruction: InstructionId,
}

/// What is known about one operand: the maps through which it is read, or why
/// there are none. An instruction outside a fusion has one map for each operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperandIndexing {
    /// The number of the operand.
    pub operand: usize,
    /// The maps, or why there are none.
    pub maps: Result<Vec<IndexingMap>, Unknown>,
}

/// The identity over the indices of an array, whose sizes may be known at run
/// time only.
pub(crate) fn identity_of(module: &Module, array: &ArrayShape) -> IndexingMap {
    let draft = builder::draft(module, array);
    let results = draft.dims();
    draft.numbered(results)
}

type MapOrCause = Result<IndexingMap, Cause>;

/// For each operand, the map from indices of the result to indices of the
/// operand. All arrays of a tuple result (variadic reductions) share the maps.
///
/// Fusions are not looked into; see [`crate::fusion_output_to_input`].
pub fn output_to_input(module: &Module, instruction: InstructionId) -> Vec<OperandIndexing> {
    all_operands(module, instruction, backward)
}

/// For each operand, the map from indices of the operand to the indices of the
/// result that depend on them.
pub fn input_to_output(module: &Module, instruction: InstructionId) -> Vec<OperandIndexing> {
    all_operands(module, instruction, forward::forward)
}

fn all_operands(
    module: &Module,
    instruction: InstructionId,
    map: fn(&Builder<'_>, usize) -> MapOrCause,
) -> Vec<OperandIndexing> {
    let Some(data) = module.instructions.get(instruction) else {
        return Vec::new();
    };
    let builder = Builder::new(module, data);
    (0..data.operands.len())
        .map(|operand| {
            let maps = map(&builder, operand)
                .map(|map| vec![map])
                .map_err(|cause| Unknown { cause, instruction });
            OperandIndexing { operand, maps }
        })
        .collect()
}

fn backward(at: &Builder<'_>, operand: usize) -> MapOrCause {
    match at.op() {
        op if op.is_elementwise() => rearrange::elementwise(at, operand),
        Op::Copy | Op::OptBarrier | Op::Domain(_) | Op::Map { .. } => {
            rearrange::elementwise(at, operand)
        }
        Op::AllReduce { start: false, .. } | Op::AddDependency if operand == 0 => {
            rearrange::elementwise(at, operand)
        }
        Op::BitcastConvert => rearrange::bitcast_convert(at, at.output()?, at.input(0)?),
        Op::Broadcast(dims) => rearrange::broadcast(at, dims),
        Op::Transpose(dims) => rearrange::transpose(at, dims),
        Op::Reverse(dims) => rearrange::reverse(at, dims),
        Op::Slice(dims) => rearrange::slice(at, dims),
        Op::Pad(dims) => rearrange::pad(at, operand, dims),
        Op::Concatenate(dim) => rearrange::concatenate(at, operand, *dim),
        Op::Reshape => reshape::reshape(at),
        Op::Bitcast => reshape::bitcast(at, at.output()?, at.input(0)?),
        Op::Reduce { dimensions, .. } => contract::reduce(at, operand, dimensions),
        Op::Dot { dims, .. } => contract::dot(at, operand, dims),
        Op::Convolution { .. } => window::convolution(at, operand),
        Op::ReduceWindow { window, .. } => window::reduce_window(at, operand, window),
        Op::DynamicSlice(sizes) => dynamic::dynamic_slice(at, operand, sizes),
        Op::DynamicUpdateSlice => dynamic::dynamic_update_slice(at, operand),
        Op::Gather {
            dims, slice_sizes, ..
        } => dynamic::gather(at, operand, dims, slice_sizes),
        op => Err(Cause::Operation(op.opcode())),
    }
}

/// The array of a shape; of a tuple of arrays, the first.
fn array(shape: &Shape) -> Result<&ArrayShape, Cause> {
    match shape {
        Shape::Array(array) => Ok(array),
        Shape::Tuple(elements) => match elements.first() {
            Some(Shape::Array(array)) => Ok(array),
            _ => Err(Cause::NotAnArray),
        },
        _ => Err(Cause::NotAnArray),
    }
}
