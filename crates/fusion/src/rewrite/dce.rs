//! Dead-code elimination on the flat program: removes nodes whose results nothing uses. Custom
//! calls that declare a side effect stay, and so do the loops and conditionals that contain them.
//! No pass reorders nodes, so effects happen in the program's order.
//!
//! Exchanges with a host or another device (`send`, `recv`, `infeed`, `outfeed`) stay even if
//! nothing uses their results. They are reported as unsupported later, as by the reference
//! evaluator.

use crate::program::{Def, Node, NodeId, NodeKind, Program, Region, ValueId};
use rustc_hash::FxHashSet;
use tegula_ir::{Module, Op};

/// Whether a node itself has a side effect.
pub(crate) fn has_effect(module: &Module, node: &Node) -> bool {
    match &module[node.origin].op {
        Op::CustomCall(call) => call.has_side_effect,
        op => exchanges_data(op),
    }
}

/// Whether an operation exchanges data with a host or another device.
pub(crate) fn exchanges_data(op: &Op) -> bool {
    matches!(op, Op::Infeed(_) | Op::Outfeed { .. } | Op::Channel { .. })
}

/// Removes every node without a side effect on which no result of the program depends.
pub(crate) fn remove_dead(module: &Module, program: &mut Program) {
    let mut entry = std::mem::take(&mut program.entry);
    let mut used: FxHashSet<ValueId> = entry.results.iter().copied().collect();
    sweep(module, program, &mut entry, &mut used);
    program.entry = entry;
}

/// Whether a node or one in its regions has a side effect.
pub(crate) fn acts(module: &Module, program: &Program, id: NodeId) -> bool {
    let node = &program.nodes[id];
    let mut inner = node.kind.regions().into_iter().flat_map(|r| &r.nodes);
    has_effect(module, node) || inner.any(|&n| acts(module, program, n))
}

fn sweep(
    module: &Module,
    program: &mut Program,
    region: &mut Region,
    used: &mut FxHashSet<ValueId>,
) {
    let mut kept: Vec<NodeId> = Vec::with_capacity(region.nodes.len());
    for &id in region.nodes.iter().rev() {
        let is_used = program.nodes[id].results.iter().any(|v| used.contains(v));
        if !is_used && !acts(module, program, id) {
            continue;
        }
        drop_states(module, program, id, used);
        let mut kind = std::mem::replace(&mut program.nodes[id].kind, NodeKind::Op);
        let mut regions: Vec<&mut Region> = match &mut kind {
            NodeKind::Op | NodeKind::Contraction(_) => Vec::new(),
            NodeKind::While {
                condition, body, ..
            } => vec![condition, body],
            NodeKind::Conditional { branches } => branches.iter_mut().collect(),
        };
        for inner in &mut regions {
            used.extend(inner.results.iter().copied());
        }
        for inner in regions {
            sweep(module, program, inner, used);
        }
        program.nodes[id].kind = kind;
        used.extend(program.nodes[id].operands.iter().copied());
        kept.push(id);
    }
    kept.reverse();
    region.nodes = kept;
}

/// Removes loop states that only their own next values depend on.
fn drop_states(module: &Module, program: &mut Program, id: NodeId, used: &FxHashSet<ValueId>) {
    let node = &program.nodes[id];
    let NodeKind::While {
        condition,
        body,
        states,
    } = &node.kind
    else {
        return;
    };
    let mut needed: Vec<bool> = node.results.iter().map(|v| used.contains(v)).collect();
    loop {
        let mut read = FxHashSet::default();
        note_used(module, program, condition, &condition.results, &mut read);
        let results: Vec<ValueId> = (body.results.iter().zip(&needed))
            .filter_map(|(&v, &needed)| needed.then_some(v))
            .collect();
        note_used(module, program, body, &results, &mut read);
        let next: Vec<bool> = (states.iter().zip(&needed))
            .map(|(state, &needed)| needed || read.contains(state))
            .collect();
        if next == needed {
            break;
        }
        needed = next;
    }
    if !needed.contains(&false) {
        return;
    }
    let node = &mut program.nodes[id];
    let keep = |i: usize| needed.get(i).copied().unwrap_or(true);
    let mut at = 0..;
    node.operands.retain(|_| at.next().is_some_and(keep));
    let mut at = 0..;
    node.results.retain(|_| at.next().is_some_and(keep));
    if let NodeKind::While { body, states, .. } = &mut node.kind {
        for values in [&mut body.results, states] {
            let mut at = 0..;
            values.retain(|_| at.next().is_some_and(keep));
        }
    }
    for (number, result) in program.nodes[id].results.clone().into_iter().enumerate() {
        program.values[result].def = Def::Node(id, number);
    }
}

/// Adds to `used` the values on which the given results of a region, and its side effects, depend.
fn note_used(
    module: &Module,
    program: &Program,
    region: &Region,
    results: &[ValueId],
    used: &mut FxHashSet<ValueId>,
) {
    used.extend(results);
    for &id in region.nodes.iter().rev() {
        let node = &program.nodes[id];
        if node.results.iter().any(|v| used.contains(v)) || acts(module, program, id) {
            used.extend(&node.operands);
            for inner in node.kind.regions() {
                note_used(module, program, inner, &inner.results, used);
            }
        }
    }
}
