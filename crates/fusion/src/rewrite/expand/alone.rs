//! Collectives of a program for one device: they exchange nothing and give their operands.
//!
//! The result of a start form has the operands beside the results, and numbers that are of use to
//! the device only; its done form takes the results.

use tegula_devices::Group;
use tegula_ir::{
    ComputationId, Error, Instruction, InstructionId, Literal, Module, ModuleBuilder, Op, Opcode,
    Shape,
};

/// Whether an operation is a collective that gives its operands, or the end of one.
///
/// A result of another shape is one of several devices, whatever the module says of their number:
/// it stays, and is refused with its name.
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
        // An operand for each device.
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

/// Whether the result has the operand's shape, or is a tuple of those of all operands; layouts apart.
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

/// Whether a start form's result is the operands, the same once more, and numbers of the device.
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

/// What a collective or the end of one [that is expanded](is_expanded) becomes: an operation on its
/// operands. `None` of an operation that takes a [computation](started), or is no collective.
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

/// The operation that gives the operands themselves: as a tuple, unless the one operand has the
/// result's shape.
pub(super) fn operands_as_result(module: &Module, instruction: &Instruction) -> Op {
    match instruction.operands.as_slice() {
        [only] if module[*only].shape.may_equal(&instruction.shape) => Op::Copy,
        _ => Op::Tuple,
    }
}

/// The computation of a start form: the operands, the operands as results, zeros.
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
        let context = context
            .as_array()
            .ok_or_else(|| Error::bug("a context is an array"))?;
        let zero = b.constant(Literal::zeros(context).map_err(|e| Error::input(e.to_string()))?)?;
        parts.push(zero);
    }
    let root = b.tuple(&parts)?;
    b.finish(root)
}
