//! Operations that pass arrays on unchanged: tuples, copies, and start and done forms.

use tegula_ir::{Instruction, InstructionId, Module, Op, Opcode, Shape};

/// Where an array of an instruction's result comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Array `.1` of operand `.0`.
    From(usize, usize),
    /// Computed by the operation, as array `.0` of those that it computes.
    Made(usize),
    /// Nothing that was computed: the context of a start form.
    Nothing,
}

fn leaves(module: &Module, id: InstructionId) -> usize {
    let data = module.instructions.get(id);
    data.map_or(0, |data| data.shape.leaf_count())
}

/// The number of arrays in the first `count` elements of an operand's tuple.
fn leaves_before(module: &Module, id: InstructionId, count: usize) -> usize {
    let shape = module.instructions.get(id).map(|data| &data.shape);
    let elements = shape.and_then(Shape::as_tuple).unwrap_or(&[]);
    elements.iter().take(count).map(Shape::leaf_count).sum()
}

/// Where array `leaf` (numbered through the tuple from the left) comes from.
pub(crate) fn route(module: &Module, data: &Instruction, leaf: usize) -> Route {
    let first = data.operands.first().copied();
    let operand = |count: usize| first.map_or(0, |id| leaves_before(module, id, count));
    match &data.op {
        Op::Tuple | Op::OptBarrier => of_all(module, data, leaf).unwrap_or(Route::Nothing),
        Op::GetTupleElement(index) => {
            let before = operand(usize::try_from(*index).unwrap_or(usize::MAX));
            Route::From(0, before.saturating_add(leaf))
        }
        Op::Copy | Op::Domain(_) | Op::AddDependency | Op::AsyncUpdate | Op::CopyDone => {
            Route::From(0, leaf)
        }
        Op::SetDimensionSize(_) if leaf == 0 => Route::Made(0),
        Op::CollectiveDone(Opcode::AllReduceDone) => Route::From(0, leaf),
        Op::CollectiveDone(_) | Op::AsyncDone => Route::From(0, operand(1).saturating_add(leaf)),
        Op::CopyStart { .. } => {
            let count = first.map_or(0, |id| leaves(module, id)).max(1);
            if leaf < count * 2 {
                Route::From(0, leaf % count)
            } else {
                Route::Nothing
            }
        }
        // The result is a tuple of the operands, followed by the results.
        Op::AllGather { start: true, .. }
        | Op::CollectivePermute { start: true, .. }
        | Op::AsyncStart { .. } => {
            let all: usize = data.operands.iter().map(|id| leaves(module, *id)).sum();
            of_all(module, data, leaf).unwrap_or(Route::Made(leaf.saturating_sub(all)))
        }
        _ => Route::Made(leaf),
    }
}

/// The operand that contains array `leaf`, counted over all operands.
fn of_all(module: &Module, data: &Instruction, leaf: usize) -> Option<Route> {
    let mut before = 0;
    for (operand, id) in data.operands.iter().enumerate() {
        let count = leaves(module, *id);
        if leaf < before + count {
            return Some(Route::From(operand, leaf - before));
        }
        before += count;
    }
    None
}
