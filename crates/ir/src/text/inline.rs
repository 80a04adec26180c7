//! Inline computations, which are written in the place of their names: `to_apply={ ... }`.

use super::tree::{Callee, Value};
use super::tree::{RawComputation, RawInstruction};
use rustc_hash::FxHashSet;

/// Unused names for `count` inline computations.
pub(crate) fn names(computations: &[RawComputation<'_>], count: usize) -> Vec<String> {
    let used: FxHashSet<&str> = computations.iter().map(|c| c.name).collect();
    let free = (0..).map(|number| format!("inline.{number}"));
    free.filter(|name| !used.contains(name.as_str()))
        .take(count)
        .collect()
}

/// Names the inline computations, and gives their callers these names.
pub(crate) fn expand<'a>(
    computations: &mut Vec<RawComputation<'a>>,
    mut inline: Vec<RawComputation<'a>>,
    names: &'a [String],
) {
    for (computation, name) in inline.iter_mut().zip(names) {
        computation.name = name;
    }
    // They go first, so that the last computation stays the default entry.
    computations.splice(0..0, inline);
    for instruction in computations.iter_mut().flat_map(|c| &mut c.instructions) {
        name_callees(instruction, names);
    }
}

fn name_callees<'a>(instruction: &mut RawInstruction<'a>, names: &'a [String]) {
    for attribute in &mut instruction.attributes {
        let Value::Inline(callees) = &attribute.value else {
            continue;
        };
        let name = |callee: &Callee<'a>| match *callee {
            Callee::Named(named) => named,
            Callee::Inline(number, span) => (names.get(number).map_or("", String::as_str), span),
        };
        attribute.value = Value::Names(callees.iter().map(name).collect());
    }
}
