//! Collectives of a program that runs on one device: they exchange nothing, and return their
//! operands.
//!
//! The result of a start form contains the operands, the results, and numbers that only a device
//! uses; the done form extracts the results.

use tegula_devices::Group;
use tegula_ir::{
    ComputationId, Error, Instruction, InstructionId, Literal, Module, ModuleBuilder, Op, Opcode,
    Shape,
};

/// Whether an operation is a collective that returns its operands, or the done form of one.
///
/// A collective whose result has another shape is one for several devices, whatever the module
/// declares. It stays, and is reported as unsupported later.
pub(super) fn is_expanded(module: &Module, id: InstructionId) -> bool {
    let instruction = &module[id];
    match &instruction.op {
        Op::CollectiveDone(_) => {
            let start = instruction.operands.first();
            start.is_some_and(|&start| is_started(module, start) && gives_operands(module, start))
        }
        _ => gives_operands(module, id),
    }
}

fn is_started(module: &Module, id: InstructionId) -> bool {
    matches!(
        module[id].op,
        Op::AllGather { start: true, .. }
            | Op::AllReduce { start: true, .. }
            | Op::CollectivePermute { start: true, .. }
    )
}

fn gives_operands(module: &Module, id: InstructionId) -> bool {
    let instruction = &module[id];
    let of_operands = match &instruction.op {
        // There is one operand for each device.
        Op::AllToAll {
            dimension: None, ..
        } if instruction.operands.len() != 1 => false,
        Op::AllReduce { .. }
        | Op::ReduceScatter { .. }
        | Op::AllToAll { .. }
        | Op::CollectiveBroadcast(_)
        | Op::AllGather { start: false, .. } => is_of_operands(module, instruction),
        Op::CollectivePermute { pairs, start, .. } if pairs.as_slice() == [(0, 0)] => match start {
            true => started_of_operands(module, instruction),
            false => is_of_operands(module, instruction),
        },
        Op::AllGather { start: true, .. } => started_of_operands(module, instruction),
        _ => false,
    };
    of_operands && Group::is_alone(module, &instruction.op)
}

/// Whether the result has the operand's shape, or is a tuple of all operands' shapes; layouts may
/// differ.
pub(super) fn is_of_operands(module: &Module, instruction: &Instruction) -> bool {
    matches!(instruction.operands.as_slice(), [only] if module[*only].shape.may_equal(&instruction.shape))
        || has_parts(module, instruction, &instruction.shape)
}

fn has_parts(module: &Module, instruction: &Instruction, shape: &Shape) -> bool {
    let operands = &instruction.operands;
    shape.as_tuple().is_some_and(|parts| {
        let mut pairs = operands.iter().zip(parts);
        parts.len() == operands.len() && pairs.all(|(&o, part)| module[o].shape.may_equal(part))
    })
}

/// Whether a start form's result is a tuple of the operands, the same again as results, and context
/// arrays.
fn started_of_operands(module: &Module, instruction: &Instruction) -> bool {
    let Some([given, results, contexts @ ..]) = instruction.shape.as_tuple() else {
        return false;
    };
    let is_operands = |shape: &Shape| match instruction.operands.as_slice() {
        [only] => module[*only].shape.may_equal(shape),
        _ => has_parts(module, instruction, shape),
    };
    is_operands(given) && is_operands(results) && contexts.iter().all(|c| c.as_array().is_some())
}

/// The operation on its operands that replaces a [collective](is_expanded) or its done form. `None`
/// for one that needs a [computation](started), or that is no collective.
pub(super) fn given_back(module: &Module, instruction: &Instruction) -> Option<Op> {
    match &instruction.op {
        Op::CollectiveDone(Opcode::AllReduceDone) => Some(Op::Copy),
        Op::CollectiveDone(_) => Some(Op::GetTupleElement(1)),
        Op::AllReduce { .. }
        | Op::ReduceScatter { .. }
        | Op::AllToAll { .. }
        | Op::CollectiveBroadcast(_)
        | Op::AllGather { start: false, .. }
        | Op::CollectivePermute { start: false, .. } => {
            Some(operands_as_result(module, instruction))
        }
        _ => None,
    }
}

/// The operation that returns the operands: a copy if the only operand has the result's shape, else
/// a tuple.
pub(super) fn operands_as_result(module: &Module, instruction: &Instruction) -> Op {
    match instruction.operands.as_slice() {
        [only] if module[*only].shape.may_equal(&instruction.shape) => Op::Copy,
        _ => Op::Tuple,
    }
}

/// The computation of a start form: a tuple of the operands, the operands as results, and zeros.
pub(super) fn started(
    builder: &mut ModuleBuilder,
    operands: &[Shape],
    result: &Shape,
) -> Result<ComputationId, Error> {
    let mut b = builder.computation("collective_of_one_device");
    let parameters: Vec<InstructionId> = operands.iter().map(|o| b.parameter(o.clone())).collect();
    let given = match parameters.as_slice() {
        &[only] => only,
        several => b.tuple(several)?,
    };
    let mut parts = vec![given, given];
    for context in result.as_tuple().into_iter().flatten().skip(2) {
        let context = context.as_array().ok_or_else(|| {
            Error::bug("expected an array as the context of an asynchronous collective")
        })?;
        let zero = b.constant(Literal::zeros(context).map_err(|e| Error::input(e.to_string()))?)?;
        parts.push(zero);
    }
    let root = b.tuple(&parts)?;
    b.finish(root)
}
