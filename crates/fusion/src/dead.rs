//! Removal of nodes whose results nothing uses. No operation that is compiled
//! has a side effect, so an unused result is an unneeded node.

use crate::program::{NodeId, NodeKind, Program, Region, ValueId};
use rustc_hash::FxHashSet;

/// Drops every node that no result of the program depends on.
pub(crate) fn remove_dead(program: &mut Program) {
    let mut entry = std::mem::take(&mut program.entry);
    let mut used: FxHashSet<ValueId> = entry.results.iter().copied().collect();
    sweep(program, &mut entry, &mut used);
    program.entry = entry;
}

fn sweep(program: &mut Program, region: &mut Region, used: &mut FxHashSet<ValueId>) {
    let mut kept: Vec<NodeId> = Vec::with_capacity(region.nodes.len());
    for &id in region.nodes.iter().rev() {
        if !program.nodes[id].results.iter().any(|v| used.contains(v)) {
            continue;
        }
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
            sweep(program, inner, used);
        }
        program.nodes[id].kind = kind;
        used.extend(program.nodes[id].operands.iter().copied());
        kept.push(id);
    }
    kept.reverse();
    region.nodes = kept;
}
