//! Expands operations that are compositions of others, before flattening.
//!
//! This is a rewrite of the module. The instruction becomes a call of a new computation that holds
//! the composition, and flattening inlines the call. Making nodes while flattening would be an
//! alternative, but such nodes would have no instructions, and everything later (indexing maps,
//! error messages) starts from a node's instruction. Instructions keep their numbers, and new ones
//! carry the source location of the instruction that they replace.
//!
//! The called computations come after their callers, so the result may be passed to
//! [`flatten`](crate::program::flatten) only, and not to the verifier.

mod alone;
mod along;
mod batch_norm;
mod bits;
mod complex;
mod gathers;
mod lapack;
mod mixed;
mod qr;
mod ragged;
mod scaled;
mod scan;
mod small_solves;
mod start_indices;

use std::borrow::Cow;
use tegula_ir::{
    ArrayShape, ComputationBuilder, ComputationId, Dim, ElementType, Error, Instruction,
    InstructionId, Lapack, Module, ModuleBuilder, Op, Shape, is_size_computation,
};

/// Returns the module with compositions expanded; the same module if it has none.
///
/// # Errors
/// A composition that does not fit its operands: the module was not verified.
pub fn expand(module: &Module) -> Result<Cow<'_, Module>, crate::Error> {
    expand_for(module, Routines::Expanded)
}

/// What to do with LAPACK routines that a library provides and that HLO has no operation for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routines {
    /// Expand them into loops.
    Expanded,
    /// Keep them as calls, which the target runs by their handlers.
    Called,
}

/// Like [`expand`], for a target that may have its own routines.
///
/// # Errors
/// As [`expand`].
pub fn expand_for(module: &Module, routines: Routines) -> Result<Cow<'_, Module>, crate::Error> {
    let stays = |id: InstructionId| {
        routines == Routines::Called
            && matches!(&module[id].op, Op::CustomCall(call) if Lapack::has_handler(&call.target))
    };
    let wanted: Vec<InstructionId> = module
        .instructions
        .keys()
        .filter(|&id| expands(module, id) && !stays(id))
        .collect();
    for (id, instruction) in &module.instructions {
        sizes_are_known(module, id, instruction)?;
        if bits::depends_on_padding(module, id) {
            let what = "a bitcast between tiled layouts that moves elements across padding";
            return Err(crate::Error::unsupported(module, id, what));
        }
    }
    if wanted.is_empty() {
        return Ok(Cow::Borrowed(module));
    }
    let mut expanded = module.clone();
    for id in wanted {
        let failed = |e: Error| crate::Error::bug(module, id, e.message());
        expanded = expand_one(expanded, id).map_err(failed)?;
    }
    Ok(Cow::Owned(expanded))
}

fn expands(module: &Module, id: InstructionId) -> bool {
    let instruction = &module[id];
    let is_static = |shape: &Shape| {
        let leaves = crate::array_leaves(shape);
        leaves
            .iter()
            .all(|leaf| leaf.dims.iter().all(|d| matches!(d, Dim::Static(_))))
    };
    let operands_static = instruction
        .operands
        .iter()
        .all(|&o| is_static(&module[o].shape));
    // Operations of dynamic sizes stay, and are reported as unsupported later.
    let all_static = operands_static && is_static(&instruction.shape);
    match &instruction.op {
        Op::BatchNormTraining { .. } | Op::BatchNormInference { .. } | Op::BatchNormGrad { .. } => {
            true
        }
        Op::Bitcast => {
            let open_or_not = all_static || bits::keeps_elements(module, id);
            open_or_not && bits::is_more_than_reshape(module, id)
        }
        Op::BitcastConvert => all_static && bits::changes_sub_byte_width(module, id),
        _ if alone::is_expanded(module, id) => true,
        Op::DynamicSlice(_) | Op::DynamicUpdateSlice => {
            start_indices::are_vector(module, instruction)
        }
        Op::CustomCall(call) if Lapack::is_target(&call.target) => all_static,
        Op::CustomCall(call) => match stands_for(&call.target) {
            Some(Known::Annotation) => alone::is_of_operands(module, instruction),
            Some(Known::TopK) => true,
            None => false,
        },
        Op::Dot { .. } | Op::Convolution { .. } if mixed::is_mixed(module, instruction) => true,
        Op::Dot { .. } => all_static && complex::is_large(module, instruction),
        Op::DynamicReshape | Op::RaggedDot { .. } | Op::Scan { .. } | Op::ScaledDot { .. } => true,
        // Arrays of rank 0 have no dimensions for windows.
        Op::SelectAndScatter { .. } => instruction.shape.as_array().is_some_and(|a| a.rank() == 0),
        op @ Op::TriangularSolve { .. } => small_solves::is_small(module, op, instruction),
        Op::Gather { .. } => all_static && gathers::slices(module, instruction).is_some(),
        _ => false,
    }
}

/// Checks that operands which give sizes are computed from sizes: their values are not read.
fn sizes_are_known(
    module: &Module,
    id: InstructionId,
    instruction: &Instruction,
) -> Result<(), crate::Error> {
    let of_sizes = match instruction.op {
        Op::DynamicReshape | Op::SetDimensionSize(_) => instruction.operands.get(1..),
        _ => None,
    };
    let known = |&operand: &InstructionId| is_size_computation(module, operand);
    match of_sizes.unwrap_or_default().iter().all(known) {
        true => Ok(()),
        false => Err(crate::Error::unsupported(
            module,
            id,
            "sizes that are computed from data",
        )),
    }
}

/// The meaning of a custom call with a known target name.
enum Known {
    /// An annotation of the partitioner, which returns its operand.
    Annotation,
    TopK,
}

/// Whether an operation is an annotation of the partitioner. One that is not expanded changes the
/// shape: it assembles an array from the shards of several devices, or the reverse.
pub(crate) fn is_annotation(op: &Op) -> bool {
    matches!(op, Op::CustomCall(call) if matches!(stands_for(&call.target), Some(Known::Annotation)))
}

fn stands_for(target: &str) -> Option<Known> {
    match target {
        "Sharding"
        | "InspectSharding"
        | "SPMDFullToShardShape"
        | "SPMDShardToFullShape"
        | "xla.sdy.GlobalToLocalShape"
        | "xla.sdy.LocalToGlobalShape" => Some(Known::Annotation),
        "TopK" => Some(Known::TopK),
        _ => None,
    }
}

fn expand_one(mut module: Module, id: InstructionId) -> Result<Module, Error> {
    let mut instruction = module[id].clone();
    let mut routine = lapack_routine(&module, id)?;
    if let Some(Lapack::TriangularSolve {
        left_side,
        lower,
        unit_diagonal,
        transpose_a,
    }) = routine
    {
        instruction.op = Op::TriangularSolve {
            left_side,
            lower,
            unit_diagonal,
            transpose_a,
        };
        routine = None;
        if !small_solves::is_small(&module, &instruction.op, &instruction) {
            module.instructions[id].op = instruction.op;
            return Ok(module);
        }
    }
    if let Some(op) = alone::given_back(&module, &instruction) {
        module.instructions[id].op = op;
        return Ok(module);
    }
    let op = match &instruction.op {
        // The only window selects the only element, which is combined with the source.
        &Op::SelectAndScatter { scatter, .. } => {
            if let [_, source, start] = *instruction.operands {
                module.instructions[id].operands = [start, source].into_iter().collect();
            }
            Op::Call {
                to_apply: scatter,
                is_composite: false,
            }
        }
        // Its sizes are already in the shape, so the operands that compute them are dropped.
        Op::DynamicReshape => {
            module.instructions[id].operands.truncate(1);
            Op::Reshape
        }
        Op::CustomCall(call) if routine.is_none() => match stands_for(&call.target) {
            Some(Known::TopK) => top_k(&instruction)?,
            _ => alone::operands_as_result(&module, &instruction),
        },
        _ => {
            let first = module.instructions.len();
            let mut builder = ModuleBuilder::extend(module);
            let to_apply = composition(&mut builder, &instruction, routine)?;
            // The builder has added the finished computations; the entry computation stays.
            let entry = builder.module().entry;
            module = builder.build_unverified(entry);
            for new in module.instructions.values_mut().skip(first) {
                new.span = instruction.span;
            }
            Op::Call {
                to_apply,
                is_composite: false,
            }
        }
    };
    module.instructions[id].op = op;
    Ok(module)
}

/// The LAPACK routine that a custom call names.
fn lapack_routine(module: &Module, id: InstructionId) -> Result<Option<Lapack>, Error> {
    let call = module.custom_call_to_run(id);
    let routine = call.and_then(|call| Lapack::of(&call)).transpose();
    routine.map_err(Error::input)
}

fn top_k(instruction: &Instruction) -> Result<Op, Error> {
    let parts = instruction.shape.as_tuple().unwrap_or_default();
    let k = parts
        .first()
        .and_then(Shape::as_array)
        .and_then(|a| a.dims.last()?.as_static());
    let k = k.ok_or_else(|| {
        Error::input("expected a tuple of values and indices as the result of a TopK")
    })?;
    Ok(Op::TopK {
        k,
        largest: true,
        is_stable: None,
    })
}

fn composition(
    builder: &mut ModuleBuilder,
    instruction: &Instruction,
    routine: Option<Lapack>,
) -> Result<ComputationId, Error> {
    let shapes: Vec<Shape> = instruction
        .operands
        .iter()
        .map(|&operand| builder.module()[operand].shape.clone())
        .collect();
    if let Some(routine) = routine {
        return lapack::expand(builder, routine, &shapes, &instruction.shape);
    }
    if let Some(slices) = gathers::slices(builder.module(), instruction) {
        return gathers::expand(builder, &slices, &shapes);
    }
    let is_mixed = mixed::is_mixed(builder.module(), instruction);
    match &instruction.op {
        Op::Bitcast => bits::bitcast(builder, &shapes, &instruction.shape),
        Op::BitcastConvert => bits::bitcast_convert(builder, &shapes, &instruction.shape),
        op @ (Op::Dot { .. } | Op::Convolution { .. }) if is_mixed => {
            mixed::product(builder, op, &shapes, &instruction.shape)
        }
        op @ Op::Dot { .. } => complex::product(builder, op, &shapes, &instruction.shape),
        op @ Op::RaggedDot { .. } => ragged::expand(builder, op, &shapes, &instruction.shape),
        op @ Op::ScaledDot { .. } => scaled::expand(builder, op, &shapes, &instruction.shape),
        op @ Op::TriangularSolve { .. } => small_solves::expand(builder, op, &shapes),
        op @ Op::Scan { .. } => scan::expand(builder, op, &shapes, &instruction.shape),
        op @ (Op::DynamicSlice(_) | Op::DynamicUpdateSlice) => {
            start_indices::expand(builder, op, &shapes, &instruction.shape)
        }
        Op::AllGather { .. } | Op::CollectivePermute { .. } => {
            alone::started(builder, &shapes, &instruction.shape)
        }
        _ => batch_norm::expand(builder, &instruction.op, &shapes, &instruction.shape),
    }
}

/// An array's shape without its layout.
fn plain(shape: &ArrayShape) -> ArrayShape {
    ArrayShape {
        layout: None,
        ..shape.clone()
    }
}

/// The sizes of an instruction's result.
fn sizes(b: &ComputationBuilder<'_>, id: InstructionId) -> Result<Vec<i64>, Error> {
    let dims = b.array_shape(id)?.static_dims();
    let dims = dims.ok_or_else(|| Error::input("a dynamic size"))?;
    Ok(dims.iter().copied().collect())
}

/// Converts a value to a type, unless it already has it.
fn converted(
    b: &mut ComputationBuilder<'_>,
    x: InstructionId,
    ty: ElementType,
) -> Result<InstructionId, Error> {
    if b.array_shape(x)?.element_type == ty {
        Ok(x)
    } else {
        b.convert(x, ty)
    }
}
