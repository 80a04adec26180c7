//! Hoists whole loop-invariant kernels and routine calls out of loops.
//!
//! A kernel or routine in a loop's body that reads nothing that iterations change writes the same
//! array each time. Before the loop, it runs once. Its array then needs its memory for the whole
//! loop rather than for a part of each iteration.
//!
//! An array that an iteration overwrites stays inside, because hoisting it would require a copy in
//! each iteration.

use crate::emit::Context;
use crate::fused::{FusedRegion, LibraryOp, Steps, Unit};
use crate::kernel::Access;
use crate::program::{NodeId, ValueId};
use crate::rewrite::dce::acts;
use rustc_hash::FxHashSet;
use tegula_ir::Op;

/// Removes from the steps of a loop's body those that can run before the loop, and returns them.
/// The steps are in order; `states` are the loop's states, `next` their next values.
pub(crate) fn take_before(
    context: &Context<'_>,
    steps: &mut Steps,
    states: &[ValueId],
    next: &[ValueId],
) -> Steps {
    let mut changing: FxHashSet<ValueId> = states.iter().copied().collect();
    changing.extend(steps.iter().flatten().flat_map(|(_, unit)| unit.writes()));
    // By step.
    let over: Vec<FxHashSet<ValueId>> = steps.iter().map(|step| written_over(step)).collect();
    let mut before = Steps::new();
    for (i, step) in std::mem::take(steps).into_iter().enumerate() {
        let made: FxHashSet<ValueId> = step.iter().flat_map(|(_, unit)| unit.writes()).collect();
        let stays = |value: &ValueId| {
            let mut others = over.iter().enumerate().filter(|&(other, _)| other != i);
            next.contains(value) || others.any(|(_, over)| over.contains(value))
        };
        let same = (step.iter()).all(|(id, unit)| {
            may_be_done_once(unit) && !acts(context.module, context.program, *id)
        });
        let reads = step.iter().flat_map(|(_, unit)| unit.reads());
        let changes = reads
            .filter(|v| !made.contains(v))
            .any(|v| changing.contains(&v));
        if !step.is_empty() && same && !changes && !made.iter().any(stays) {
            made.iter().for_each(|value| {
                changing.remove(value);
            });
            before.push(step);
        } else {
            steps.push(step);
        }
    }
    before
}

/// Whether a unit always gives the same results for the same inputs, and terminates. The handler of
/// a custom call may do neither, and may fail although the loop has no iteration.
fn may_be_done_once(unit: &Unit) -> bool {
    match unit {
        Unit::Kernel(_) | Unit::Copy { .. } => true,
        Unit::Library { op, .. } => !matches!(
            op,
            LibraryOp::Operation(op) if matches!(**op, Op::Rng(_) | Op::CustomCall(_))
        ),
        Unit::While { .. } | Unit::Conditional { .. } => false,
    }
}

/// The values that some units may overwrite, or return unchanged.
fn written_over(step: &[(NodeId, Unit)]) -> FxHashSet<ValueId> {
    let mut over = FxHashSet::default();
    step.iter().for_each(|(_, unit)| note(unit, &mut over));
    over
}

fn note(unit: &Unit, over: &mut FxHashSet<ValueId>) {
    let region = |region: &FusedRegion, over: &mut FxHashSet<ValueId>| {
        over.extend(&region.results);
        region.units().for_each(|(_, unit)| note(unit, over));
    };
    match unit {
        Unit::Kernel(bound) => over.extend(bound.with_access(|a| a == Access::Update)),
        Unit::Copy { from, .. } => {
            over.insert(*from);
        }
        Unit::Library {
            op,
            operands,
            results,
        } => {
            let at = operands.iter().enumerate();
            let may = |i: usize| (0..results.len()).any(|r| op.may_write_over(i, r));
            over.extend(at.filter(|&(i, _)| may(i)).map(|(_, &value)| value));
        }
        Unit::While {
            condition,
            body,
            operands,
            ..
        } => {
            over.extend(operands);
            region(condition, over);
            region(body, over);
        }
        Unit::Conditional { branches, .. } => branches.iter().for_each(|b| region(b, over)),
    }
}
