//! Derives the maps of an instruction, in both directions.
//!
//! Everything that an instruction reads is described by one map for each operand. An instruction
//! without a description yields [`Unknown`] with its cause and never panics, even if its attributes
//! contradict its shapes. A size known at run time is a run-time variable of the map, restricted by
//! constraints.
//!
//! # What is a superset
//!
//! A map is exact unless it says otherwise. These maps name more than is read:
//!
//! | operation | operand | why |
//! |---|---|---|
//! | dynamic-update-slice | updated array | it is read only outside the slice |
//! | pad | padding value | it is read only in the padding |
//! | sort | operands that the comparator does not use | which element of the line moves there depends on data |
//! | select-and-scatter | array and source | which element is selected depends on data |
//! | scatter of several arrays, or one that ignores the old value | arrays and updates | the combination may not use all of them |
//! | cholesky, triangular-solve | all | triangles and prefixes are read, not whole matrices |
//! | ragged-dot, ragged-all-to-all, rng-bit-generator, custom-call | all | whole operands |
//! | collectives whose groups are not stated | operands that go to everyone | the number of participants is not known |
//! | conditional | operands of the branches | only one branch is taken |
//! | while | states that change | the number of iterations depends on data |
//!
//! No map: tokens, infeed, outfeed, send and recv; an all-to-all whose groups are
//! not stated; a vector of dynamic offsets; bitcasts between different tilings;
//! groups of a convolution whose sizes are known at run time.

mod builder;
mod collective;
mod contract;
mod dynamic;
mod forward;
mod forward_window;
mod rearrange;
mod reshape;
mod route;
mod scatter;
mod select_scatter;
mod shared;
mod window;

use tegula_ir::{ArrayShape, InstructionId, Module, Op, Opcode, Shape};
use thiserror::Error;

use crate::map::IndexingMap;
use builder::Builder;
pub(crate) use reshape::{reshape_map, static_order};
pub(crate) use route::{Route, route};

/// The reason why an operand has no map.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Cause {
    /// The operation cannot be described as an indexing map.
    #[error("`{}` has no indexing map in the direction that was asked for", .0.name())]
    Operation(Opcode),
    /// The operand or result is not an array.
    #[error("the operand or the result is not an array")]
    NotAnArray,
    /// A size that the map needs is known only at run time.
    #[error("a size is known only at run time")]
    SymbolicSize,
    /// Attributes and shapes contradict each other.
    #[error("attributes and shapes contradict each other")]
    Malformed,
    /// A number does not fit in 64 bits.
    #[error("a number does not fit 64 bits")]
    Overflow,
    /// Collectives over different replica groups are composed.
    #[error("collectives over different replica groups follow one another")]
    MixedGroups,
    /// A fused operand is read through more different maps than are kept.
    #[error("the operand is read by more maps than the limit allows")]
    TooManyMaps,
}

/// The reason why nothing is known about an operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The cause.
    pub cause: Cause,
    /// The instruction that causes it; inside a fusion, the fused one.
    pub instruction: InstructionId,
}

/// What is known about one array of one operand: the maps through which it is read, or why there
/// are none. Outside a fusion, an instruction has at most one map for each array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperandIndexing {
    /// The number of the operand.
    pub operand: usize,
    /// The number of its array, counted through its tuple from the left.
    pub leaf: usize,
    /// The maps, or why there are none.
    pub maps: Result<Vec<IndexingMap>, Unknown>,
}

/// The identity over the indices of an array, whose sizes may be known only at run time.
pub(crate) fn identity_of(module: &Module, array: &ArrayShape) -> IndexingMap {
    let draft = builder::draft(module, array);
    let results = draft.dims();
    draft.numbered(results)
}

/// Relates every index of `from` to every index of `to`, a superset of any relation.
pub(crate) fn whole(module: &Module, from: &ArrayShape, to: &ArrayShape) -> IndexingMap {
    let mut draft = builder::draft(module, from).superset();
    let results = to.dims.iter().map(|dim| draft.range_over(dim)).collect();
    draft.numbered(results)
}

type MapOrCause = Result<IndexingMap, Cause>;

/// For each operand, the map from indices of the result to indices of the operand. For a tuple
/// result, this is about its first array. See [`output_leaf_to_input`].
pub fn output_to_input(module: &Module, instruction: InstructionId) -> Vec<OperandIndexing> {
    output_leaf_to_input(module, instruction, 0)
}

/// For each array of each operand, the map from indices of array `leaf` of the result (numbered
/// through its tuple from the left) to indices of the operand. An array that is not read has no
/// map. Tokens do not count as read.
///
/// Called computations are not analysed; see [`crate::fusion_output_to_input`].
pub fn output_leaf_to_input(
    module: &Module,
    instruction: InstructionId,
    leaf: usize,
) -> Vec<OperandIndexing> {
    all_operands(module, instruction, leaf, backward)
}

/// For each operand, the map from indices of the operand to the indices of the result that depend
/// on them. For a tuple result, this is about its first array. See [`input_to_output_leaf`].
pub fn input_to_output(module: &Module, instruction: InstructionId) -> Vec<OperandIndexing> {
    input_to_output_leaf(module, instruction, 0)
}

/// For each array of each operand, the map from its indices to the indices of
/// array `leaf` of the result that depend on them.
pub fn input_to_output_leaf(
    module: &Module,
    instruction: InstructionId,
    leaf: usize,
) -> Vec<OperandIndexing> {
    all_operands(module, instruction, leaf, forward::forward)
}

/// The operand's array that an instruction passes on unchanged as array `leaf` of its result, as a
/// tuple does; `None` if the instruction computes that array.
pub fn passed_on(
    module: &Module,
    instruction: InstructionId,
    leaf: usize,
) -> Option<OperandIndexing> {
    let data = module.instructions.get(instruction)?;
    let Route::From(operand, from) = route(module, data, leaf) else {
        return None;
    };
    let source = module.instructions.get(*data.operands.get(operand)?)?;
    let array = leaf_array(&source.shape, from).ok()?;
    Some(OperandIndexing {
        operand,
        leaf: from,
        maps: Ok(vec![identity_of(module, array)]),
    })
}

fn all_operands(
    module: &Module,
    instruction: InstructionId,
    leaf: usize,
    map: fn(&Builder<'_>, usize) -> MapOrCause,
) -> Vec<OperandIndexing> {
    let Some(data) = module.instructions.get(instruction) else {
        return Vec::new();
    };
    let route = route(module, data, leaf);
    let mut all = Vec::with_capacity(data.operands.len());
    for (operand, id) in data.operands.iter().enumerate() {
        let Some(shape) = module.instructions.get(*id).map(|data| &data.shape) else {
            continue;
        };
        let mut own = 0;
        shape.for_each_leaf(&mut |shape: &Shape| {
            let found = match (route, shape) {
                (Route::From(from, array), Shape::Array(shape))
                    if (from, array) == (operand, own) =>
                {
                    Ok(vec![identity_of(module, shape)])
                }
                (Route::From(..) | Route::Nothing, _) | (_, Shape::Token) => Ok(Vec::new()),
                (Route::Made(made), _) => {
                    let at = Builder::new(module, data, leaf, made);
                    made_maps(&at, operand, map)
                }
            };
            let maps = found.map_err(|cause| Unknown { cause, instruction });
            all.push(OperandIndexing {
                operand,
                leaf: own,
                maps,
            });
            own += 1;
        });
    }
    all
}

/// The maps of an operand for a result that the operation computes.
fn made_maps(
    at: &Builder<'_>,
    operand: usize,
    map: fn(&Builder<'_>, usize) -> MapOrCause,
) -> Result<Vec<IndexingMap>, Cause> {
    let is_unread = match shared::shared(at, operand) {
        Some(shared) => shared?.is_none(),
        None => collective::is_other_operand(at, operand),
    };
    if is_unread {
        return Ok(Vec::new());
    }
    Ok(vec![map(at, operand)?])
}

fn backward(at: &Builder<'_>, operand: usize) -> MapOrCause {
    match at.op() {
        op if op.is_elementwise() => rearrange::elementwise(at, operand),
        Op::Map { .. } | Op::SetDimensionSize(_) => rearrange::elementwise(at, operand),
        Op::BitcastConvert => rearrange::bitcast_convert(at, at.output()?, at.input(0)?),
        Op::Broadcast(dims) => rearrange::broadcast(at, dims),
        Op::Transpose(dims) => rearrange::transpose(at, dims),
        Op::Reverse(dims) => rearrange::reverse(at, dims),
        Op::Slice(dims) => rearrange::slice(at, dims),
        Op::Pad(dims) => rearrange::pad(at, operand, dims),
        Op::Concatenate(dim) => rearrange::concatenate(at, operand, *dim),
        Op::DynamicReshape if operand > 0 => at.draft(at.output()?).finish(Vec::new()),
        Op::Reshape | Op::DynamicReshape => reshape::reshape(at),
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
        Op::ScaledDot { dims, .. } if operand < 2 => contract::dot(at, operand, dims),
        Op::ScaledDot { dims, .. } => contract::scale(at, operand, dims),
        Op::Scatter { .. } => scatter::backward(at, operand),
        Op::SelectAndScatter { .. } => select_scatter::select_and_scatter(at, operand, false),
        Op::Scan { .. } => select_scatter::scan(at, operand, false),
        _ => match shared::shared(at, operand) {
            Some(shared) => match shared? {
                Some(shared) => shared.backward(at, operand),
                None => Err(Cause::Operation(at.op().opcode())),
            },
            None => collective::collective(at, operand, false),
        },
    }
}

/// Array number `leaf` of a shape.
pub(crate) fn leaf_array(shape: &Shape, leaf: usize) -> Result<&ArrayShape, Cause> {
    let mut left = leaf;
    let mut stack = vec![shape];
    while let Some(shape) = stack.pop() {
        match shape {
            Shape::Tuple(elements) => stack.extend(elements.iter().rev()),
            _ if left > 0 => left -= 1,
            Shape::Array(array) => return Ok(array),
            _ => return Err(Cause::NotAnArray),
        }
    }
    Err(Cause::NotAnArray)
}

/// The array of a shape; for a tuple of arrays, the first.
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
