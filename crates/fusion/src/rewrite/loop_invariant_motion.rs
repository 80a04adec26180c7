//! Loop-invariant code motion on the flat program: moves operations that would compute the same in
//! every iteration to before the loop.
//!
//! It runs before clustering, which would otherwise fuse an invariant sum into the kernel that uses
//! it, so that it is evaluated in every iteration. Later,
//! [`hoist_kernels`](crate::schedule::hoist_kernels) moves whole kernels that turn out to be
//! invariant.
//!
//! A hoisted value takes memory for as long as the loop runs, and each iteration reads it from
//! there. That pays for sums, products and routines, for expensive functions (`exp`, quotients) of
//! arrays at least as large as their results, and for scalars that take several operations.
//! Everything else is cheaper to compute where it is read: a broadcast, or a comparison of two
//! iotas. Cheap operations that feed a hoisted one are copied, so that other readers in the loop
//! keep their own.
//!
//! A hoisted operation is executed even if the loop has no iterations. So loops, conditionals and
//! custom calls stay, because they may fail or not terminate.

use super::gvn::is_a_function;
use crate::cluster::{Class, classify};
use crate::program::{Def, Node, NodeId, NodeKind, Program, Region, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_arena::EntityRef;
use tegula_ir::Module;

/// The least number of operations on scalars that are moved; fewer cost less than the load that
/// replaces them.
const MIN_OPERATIONS: usize = 4;
/// The most operations visited when counting the operations that a value depends on.
const MAX_COUNTED: usize = 256;

/// Moves invariant operations out of all loops, the innermost first.
pub(crate) fn move_out(module: &Module, program: &mut Program) {
    let mut entry = std::mem::take(&mut program.entry);
    region(module, program, &mut entry);
    program.entry = entry;
}

fn region(module: &Module, program: &mut Program, around: &mut Region) {
    let mut nodes = Vec::with_capacity(around.nodes.len());
    for id in std::mem::take(&mut around.nodes) {
        let mut kind = std::mem::replace(&mut program.nodes[id].kind, NodeKind::Op);
        match &mut kind {
            NodeKind::Op | NodeKind::Contraction(_) => {}
            NodeKind::Conditional { branches } => {
                for branch in branches {
                    region(module, program, branch);
                }
            }
            NodeKind::While {
                condition,
                body,
                states,
            } => {
                for inner in [condition, body] {
                    region(module, program, inner);
                    let mut pass = Pass::new(module, program, inner, states);
                    pass.choose(inner);
                    nodes.extend(pass.apply(inner));
                }
            }
        }
        program.nodes[id].kind = kind;
        nodes.push(id);
    }
    around.nodes = nodes;
}

/// The pass on one region of a loop.
struct Pass<'a> {
    module: &'a Module,
    program: &'a mut Program,
    /// The loop-invariant nodes of the region.
    invariant: FxHashSet<NodeId>,
    /// The invariant nodes that are moved.
    moved: FxHashSet<NodeId>,
}

impl<'a> Pass<'a> {
    fn new(
        module: &'a Module,
        program: &'a mut Program,
        inside: &Region,
        states: &[ValueId],
    ) -> Self {
        let own: FxHashSet<NodeId> = inside.nodes.iter().copied().collect();
        let mut invariant = FxHashSet::default();
        for &id in &inside.nodes {
            let node = &program.nodes[id];
            let stays = |v: &ValueId| match program.values[*v].def {
                Def::Parameter(_) | Def::Constant(_) => true,
                Def::Node(maker, _) => !own.contains(&maker) || invariant.contains(&maker),
                // The state may belong to an enclosing loop.
                Def::LoopState => !states.contains(v),
            };
            if may_move(module, node) && node.operands.iter().all(stays) {
                invariant.insert(id);
            }
        }
        Self {
            module,
            program,
            invariant,
            moved: FxHashSet::default(),
        }
    }

    /// Decides which nodes are moved.
    fn choose(&mut self, inside: &Region) {
        if self.invariant.is_empty() {
            return;
        }
        for &id in &inside.nodes {
            if self.invariant.contains(&id) && self.is_expensive(id) {
                self.moved.insert(id);
            }
        }
        for id in self.frontier(inside) {
            if !self.moved.contains(&id) && self.is_long(id) {
                self.moved.insert(id);
            }
        }
    }

    /// The invariant nodes with a reader that is not invariant.
    fn frontier(&self, inside: &Region) -> Vec<NodeId> {
        let mut read = FxHashSet::default();
        let mut note = |values: &[ValueId]| {
            read.extend(values.iter().filter_map(|&v| self.maker(v)));
        };
        note(&inside.results);
        for &id in &inside.nodes {
            if !self.invariant.contains(&id) {
                note(&self.program.nodes[id].operands);
                each_read_inside(self.program, id, &mut note);
            }
        }
        let nodes = inside.nodes.iter().copied();
        nodes.filter(|id| read.contains(id)).collect()
    }

    /// The invariant node of the region that computes a value.
    fn maker(&self, value: ValueId) -> Option<NodeId> {
        match self.program.values[value].def {
            Def::Node(id, _) if self.invariant.contains(&id) => Some(id),
            _ => None,
        }
    }

    /// Whether the operation of a node takes longer than reading its result.
    fn is_expensive(&self, id: NodeId) -> bool {
        match classify(self.module, self.program, id) {
            Class::Loop | Class::Scan | Class::Library => true,
            Class::Pointwise(2) => self.is_no_larger(id),
            Class::Pointwise(_) | Class::Update => false,
        }
    }

    /// Whether a node computes scalars that take several operations.
    fn is_long(&self, id: NodeId) -> bool {
        let one = |v: &ValueId| self.program.values[*v].shape.element_count() == Some(1);
        if !self.program.nodes[id].results.iter().all(one) {
            return false;
        }
        let before = self.before(id, MAX_COUNTED, |_| false);
        let cost = before
            .iter()
            .filter(|&&id| !matches!(classify(self.module, self.program, id), Class::Pointwise(0)));
        cost.count() >= MIN_OPERATIONS
    }

    /// Whether the result has no more elements than one of the arrays from outside that it is
    /// computed from.
    fn is_no_larger(&self, id: NodeId) -> bool {
        let elements = |v: ValueId| self.program.values[v].shape.element_count();
        let result = self.program.nodes[id].results.first();
        let Some(size) = result.and_then(|&v| elements(v)) else {
            return false;
        };
        size == 1
            || self.before(id, MAX_COUNTED, |_| false).iter().any(|&id| {
                self.program.nodes[id].operands.iter().any(|&v| {
                    let is_array = !matches!(self.program.values[v].def, Def::Constant(_));
                    let from_outside = self.maker(v).is_none_or(|id| self.moved.contains(&id));
                    is_array && from_outside && elements(v).is_some_and(|n| n >= size)
                })
            })
    }

    /// A node and the nearest `most` invariant nodes that it is computed from, not going past nodes
    /// that are moved themselves.
    fn before(&self, id: NodeId, most: usize, skip: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
        let mut found = vec![id];
        let mut seen = FxHashSet::default();
        let mut next = 0;
        while let Some(&id) = found.get(next)
            && found.len() < most
        {
            next += 1;
            for &operand in &self.program.nodes[id].operands {
                if let Some(maker) = self.maker(operand)
                    && !self.moved.contains(&maker)
                    && !skip(maker)
                    && seen.insert(maker)
                {
                    found.push(maker);
                }
            }
        }
        found
    }

    /// Removes the moved nodes from the region. Returns the nodes to put before the loop: the moved
    /// ones and copies of those that they depend on.
    fn apply(mut self, inside: &mut Region) -> Vec<NodeId> {
        if self.moved.is_empty() {
            return Vec::new();
        }
        let mut before = Vec::new();
        let mut copies = FxHashMap::default();
        let position: FxHashMap<NodeId, usize> = inside.nodes.iter().copied().zip(0..).collect();
        for &id in &inside.nodes {
            if self.moved.contains(&id) {
                self.copy_operands(id, &position, &mut copies, &mut before);
                before.push(id);
            }
        }
        inside.nodes.retain(|id| !self.moved.contains(id));
        before
    }

    /// Copies the nodes that stay in the loop and that a moved node depends on, and makes it read
    /// the copies.
    fn copy_operands(
        &mut self,
        id: NodeId,
        position: &FxHashMap<NodeId, usize>,
        copies: &mut FxHashMap<ValueId, ValueId>,
        before: &mut Vec<NodeId>,
    ) {
        let is_copied = |id: NodeId| {
            let results = &self.program.nodes[id].results;
            results.iter().any(|value| copies.contains_key(value))
        };
        let mut needed = self.before(id, usize::MAX, is_copied);
        needed.retain(|&other| other != id);
        // In the region's order, so that operands come first.
        needed.sort_unstable_by_key(|other| position.get(other));
        for other in needed {
            let mut node = self.program.nodes[other].clone();
            let copy = NodeId::new(self.program.nodes.len());
            rename(&mut node.operands, copies);
            for (number, result) in node.results.iter_mut().enumerate() {
                let mut value = self.program.values[*result].clone();
                value.def = Def::Node(copy, number);
                let value = self.program.values.push(value);
                copies.insert(*result, value);
                *result = value;
            }
            self.program.nodes.push(node);
            before.push(copy);
        }
        rename(&mut self.program.nodes[id].operands, copies);
    }
}

fn rename(values: &mut [ValueId], copies: &FxHashMap<ValueId, ValueId>) {
    for value in values {
        *value = copies.get(value).copied().unwrap_or(*value);
    }
}

/// Whether a node depends on its operands alone, terminates, and cannot fail.
fn may_move(module: &Module, node: &Node) -> bool {
    let is_operation = matches!(node.kind, NodeKind::Op | NodeKind::Contraction(_));
    is_operation && !node.results.is_empty() && is_a_function(&module[node.origin].op)
}

/// Passes to `note` the values that the regions of a node read or return.
fn each_read_inside(program: &Program, id: NodeId, note: &mut impl FnMut(&[ValueId])) {
    for region in program.nodes[id].kind.regions() {
        note(&region.results);
        for &inner in &region.nodes {
            note(&program.nodes[inner].operands);
            each_read_inside(program, inner, note);
        }
    }
}
