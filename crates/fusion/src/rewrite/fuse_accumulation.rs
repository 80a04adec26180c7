//! Fuses the sum of a product and an array into the product's routine, which accumulates.
//!
//! `add(dot(a, b), c)` becomes a contraction of three operands if that saves writing the product
//! and reading it again. This is so if `c` is in memory anyway and the sum may overwrite it: `c` is
//! a loop state that becomes the sum (the gradient of weights, summed over time steps), or another
//! product that nothing else reads (the gates of a recurrent cell). Any other sum is computed where
//! it is read.

use crate::analysis::readers::Readers;
use crate::program::{Def, NodeId, NodeKind, Program, Region, ValueId};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use tegula_ir::{Binary, ElementType, Module, Op};

/// Makes products accumulate into arrays where this saves memory traffic.
pub(crate) fn accumulate(module: &Module, program: &mut Program) {
    let entry = std::mem::take(&mut program.entry);
    let pass = Accumulate {
        module,
        readers: Readers::of(program, &entry),
    };
    let changed = pass.region(program, &entry, &[]);
    program.entry = entry;
    if changed {
        crate::rewrite::dce::remove_dead(module, program);
    }
}

struct Accumulate<'a> {
    module: &'a Module,
    readers: Readers,
}

impl Accumulate<'_> {
    /// `states` are those of the loop whose body the region is. Returns whether anything changed.
    fn region(&self, program: &mut Program, region: &Region, states: &[ValueId]) -> bool {
        let inside: FxHashSet<NodeId> = region.nodes.iter().copied().collect();
        let mut changed = false;
        for &id in &region.nodes {
            let kind = std::mem::replace(&mut program.nodes[id].kind, NodeKind::Op);
            match &kind {
                NodeKind::While {
                    condition,
                    body,
                    states,
                } => {
                    changed |= self.region(program, condition, &[]);
                    changed |= self.region(program, body, states);
                }
                NodeKind::Conditional { branches } => {
                    for branch in branches {
                        changed |= self.region(program, branch, &[]);
                    }
                }
                NodeKind::Op | NodeKind::Contraction(_) => {}
            }
            program.nodes[id].kind = kind;
            changed |= self.node(program, id, (region, states), &inside);
        }
        changed
    }

    fn node(
        &self,
        program: &mut Program,
        id: NodeId,
        (region, states): (&Region, &[ValueId]),
        inside: &FxHashSet<NodeId>,
    ) -> bool {
        let node = &program.nodes[id];
        let sum = matches!(node.kind, NodeKind::Op)
            && self.module[node.origin].op == Op::Binary(Binary::Add);
        let (true, &[a, b], &[result]) = (sum, &node.operands[..], &node.results[..]) else {
            return false;
        };
        let ty = program.values[result].shape.element_type;
        if !matches!(ty, ElementType::F32 | ElementType::F64) || a == b {
            return false;
        }
        let same_dims =
            |v: ValueId| program.values[v].shape.dims == program.values[result].shape.dims;
        if !same_dims(a) || !same_dims(b) {
            return false;
        }
        let place = |v: ValueId| region.results.iter().position(|&r| r == v);
        let becomes = |state: ValueId| {
            let at = states.iter().position(|&s| s == state);
            at.is_some() && at == place(result)
        };
        // The later product accumulates into the earlier one.
        for (product, other) in [(b, a), (a, b)] {
            let Some(dot) = self.product(program, product, inside).filter(|&dot| {
                // A product that already accumulates can only be the one that is accumulated into.
                program.nodes[dot].operands.len() == 2
            }) else {
                continue;
            };
            let is_there = self.readers.is_read_once(other)
                && (becomes(other) || self.product(program, other, inside).is_some());
            if is_there {
                let node = &mut program.nodes[dot];
                node.results.clear();
                let (kind, origin) = (node.kind.clone(), node.origin);
                let mut operands: SmallVec<[ValueId; 4]> = node.operands.clone();
                operands.push(other);
                let node = &mut program.nodes[id];
                (node.kind, node.operands, node.origin) = (kind, operands, origin);
                return true;
            }
        }
        false
    }

    /// The contraction that computes a value, if the value is read once.
    fn product(
        &self,
        program: &Program,
        value: ValueId,
        inside: &FxHashSet<NodeId>,
    ) -> Option<NodeId> {
        let Def::Node(id, 0) = program.values[value].def else {
            return None;
        };
        let is_product = matches!(program.nodes[id].kind, NodeKind::Contraction(_));
        (is_product && self.readers.is_read_once(value) && inside.contains(&id)).then_some(id)
    }
}
