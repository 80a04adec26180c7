//! The peak memory of a device: the arrays that are alive at the same time, in the program's order.
//!
//! An array is alive from the step that computes it to the last step that reads it. A result can
//! take over the memory of an operand of the same size that is not read later; so can loop states,
//! and results that use a donated parameter. Not included are a compiler's own buffers,
//! fragmentation, and the padding of tiles.

use crate::report::Memory;
use crate::steps::{Step, StepKind, Steps};
use crate::work::bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_fusion::{Program, ValueId};

/// The memory that a program needs.
pub(crate) fn peak(steps: &Steps) -> Memory {
    let program = &steps.program;
    let parameters: f64 = program.parameters.iter().map(|&v| bytes(program, v)).sum();
    let results: f64 = steps.results.iter().map(|&v| bytes(program, v)).sum();
    let mut kept: FxHashSet<ValueId> = program.parameters.iter().copied().collect();
    kept.retain(|value| !steps.donated.contains(value));
    let live: FxHashSet<ValueId> = program.parameters.iter().copied().collect();
    let peak = region(program, &steps.entry, &steps.results, live, &kept);
    Memory {
        parameters,
        results,
        peak,
        capacity: 0.0,
    }
}

/// The peak number of bytes in a region. `live` are the arrays at its beginning; those that are not
/// in the set to be kept are freed after their last use.
fn region(
    program: &Program,
    steps: &[Step],
    results: &[ValueId],
    mut live: FxHashSet<ValueId>,
    kept: &FxHashSet<ValueId>,
) -> f64 {
    let mut last: FxHashMap<ValueId, usize> = FxHashMap::default();
    for (position, step) in steps.iter().enumerate() {
        each_read(step, &mut |value| {
            last.insert(value, position);
        });
    }
    for &result in results {
        last.insert(result, steps.len());
    }
    // Views have no memory of their own, and keep the array alive that they refer to.
    let mut looks_at: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    let base = |looks_at: &FxHashMap<ValueId, ValueId>, mut value: ValueId| {
        while let Some(&next) = looks_at.get(&value) {
            value = next;
        }
        value
    };
    for step in steps {
        if let (StepKind::View | StepKind::Done, [made], Some(&from)) =
            (&step.kind, &step.writes[..], step.reads.last())
        {
            looks_at.insert(*made, from);
        }
    }
    let viewed: Vec<(ValueId, usize)> = last
        .iter()
        .filter(|(value, _)| looks_at.contains_key(value))
        .map(|(&value, &position)| (base(&looks_at, value), position))
        .collect();
    for (value, position) in viewed {
        let slot = last.entry(value).or_insert(position);
        *slot = (*slot).max(position);
    }
    let mut now: f64 = live.iter().map(|&value| bytes(program, value)).sum();
    let mut most = now;
    for (position, step) in steps.iter().enumerate() {
        let ends = |value: &ValueId| last.get(value).is_none_or(|&last| last <= position);
        // Operands that are not used later, largest first, whose memory results may take over.
        let mut free: Vec<(f64, ValueId)> = Vec::new();
        each_read(step, &mut |value| {
            let value = base(&looks_at, value);
            if ends(&value) && live.contains(&value) && !kept.contains(&value) {
                let entry = (bytes(program, value), value);
                if !free.contains(&entry) {
                    free.push(entry);
                }
            }
        });
        let inside = inner(program, step);
        let mut added = 0.0;
        if !matches!(step.kind, StepKind::View | StepKind::Done) {
            for &made in &step.writes {
                let own = bytes(program, made);
                match free.iter().position(|(bytes, _)| *bytes == own) {
                    Some(at) => {
                        let (_, taken) = free.swap_remove(at);
                        live.remove(&taken);
                    }
                    None => added += own,
                }
                live.insert(made);
            }
        }
        most = most.max(now + added.max(inside));
        now += added;
        for (bytes, value) in free {
            live.remove(&value);
            now -= bytes;
        }
        // Results that are never read are freed immediately.
        for &made in &step.writes {
            if !last.contains_key(&made) && live.remove(&made) {
                now -= bytes(program, made);
            }
        }
    }
    most
}

/// The bytes that a loop or conditional needs in addition to the arrays that are alive around it.
fn inner(program: &Program, step: &Step) -> f64 {
    let none = FxHashSet::default();
    match &step.kind {
        StepKind::Loop {
            body, states, next, ..
        } => {
            let own: FxHashSet<ValueId> = states.iter().copied().collect();
            let states: f64 = own.iter().map(|&value| bytes(program, value)).sum();
            // The states use the memory of the loop's operands or of its results.
            region(program, body, next, own, &none) - states
        }
        StepKind::Choice { branches } => branches
            .iter()
            .map(|branch| region(program, branch, &step.writes, FxHashSet::default(), &none))
            .fold(0.0, f64::max),
        _ => 0.0,
    }
}

/// Calls `note` with each value that a step reads, including those inside loops and conditionals.
fn each_read(step: &Step, note: &mut impl FnMut(ValueId)) {
    step.reads.iter().for_each(|&value| note(value));
    if let StepKind::Kernel {
        in_place: Some(value),
        ..
    } = step.kind
    {
        note(value);
    }
    match &step.kind {
        StepKind::Loop {
            condition,
            body,
            next,
            ..
        } => {
            for step in condition.iter().chain(body) {
                each_read(step, note);
            }
            next.iter().for_each(|&value| note(value));
        }
        StepKind::Choice { branches } => {
            for step in branches.iter().flatten() {
                each_read(step, note);
            }
        }
        _ => {}
    }
}
