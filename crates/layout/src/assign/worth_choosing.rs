//! Decides whether choosing orders of dimensions can save anything on a machine with dense memory.
//!
//! Row-major arrays cost extra only if an operation prefers another order, or if there is a
//! transposition that moves data and is not adjacent to a product (which reads and writes any
//! order). Most programs contain neither, and choosing orders for them would take longer than all
//! the rest of planning.

use super::Machine;
use super::layout_preferences::MANY_FEATURES;
use super::tpu_fusion::{Kind, kind};
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_fusion::{Def, Node, NodeId, NodeKind, Program, ValueId};
use tegula_ir::{Module, Op};

/// Whether some array may cost less in an order other than row-major.
pub(super) fn is_there(module: &Module, program: &Program, machine: &Machine) -> bool {
    let mut choice = Choice {
        module,
        program,
        machine,
        readers: None,
    };
    program.nodes.values().any(|node| choice.asks(node))
}

/// The transpositions inside loops of loop-invariant arrays, except those next to products. Made
/// before the loop, they are read by all iterations.
pub(super) fn made_before_loops(
    module: &Module,
    program: &Program,
    machine: &Machine,
) -> FxHashSet<NodeId> {
    let mut choice = Choice {
        module,
        program,
        machine,
        readers: None,
    };
    let mut found = FxHashSet::default();
    for node in program.nodes.values() {
        if matches!(node.kind, NodeKind::While { .. }) {
            let mut inside = Inside::default();
            inside.walk(program, node);
            let invariant = inside.nodes.into_iter().filter(|&id| {
                let node = &program.nodes[id];
                let is_invariant = node.operands.iter().all(|v| !inside.made.contains(v));
                let is_view = matches!(module[node.origin].op, Op::Transpose(_));
                is_view && is_invariant && choice.asks(node)
            });
            found.extend(invariant);
        }
    }
    found
}

/// The values that a loop defines and its nodes, including nested loops and branches.
#[derive(Default)]
struct Inside {
    made: FxHashSet<ValueId>,
    nodes: Vec<NodeId>,
}

impl Inside {
    fn walk(&mut self, program: &Program, node: &Node) {
        if let NodeKind::While { states, .. } = &node.kind {
            self.made.extend(states);
        }
        for region in node.kind.regions() {
            for &id in &region.nodes {
                let inner = &program.nodes[id];
                self.made.extend(&inner.results);
                self.nodes.push(id);
                self.walk(program, inner);
            }
        }
    }
}

struct Choice<'a> {
    module: &'a Module,
    program: &'a Program,
    machine: &'a Machine,
    /// The nodes that read each value, computed on first use.
    readers: Option<FxHashMap<ValueId, Vec<&'a Node>>>,
}

impl<'a> Choice<'a> {
    fn asks(&mut self, node: &'a Node) -> bool {
        let minor = |value: Option<&ValueId>| {
            let rank = value.map_or(0, |&value| self.program.values[value].shape.rank());
            rank.checked_sub(1).map(|minor| minor as i64)
        };
        let (first, result) = (node.operands.first(), node.results.first());
        match &self.module[node.origin].op {
            Op::Transpose(_) => {
                kind(self.module, self.program, node) == Kind::View
                    && !self.is_read_by_products(node)
                    && !self.is_of_product(node)
            }
            Op::Sort { dimension, .. } => minor(first) != Some(*dimension),
            Op::Gather { slice_sizes, .. } => {
                let last = slice_sizes.last().copied().unwrap_or(1);
                last == 1 && slice_sizes.iter().any(|&size| size > 1)
            }
            Op::Convolution {
                dims,
                feature_group_count: 1,
                batch_group_count: 1,
                ..
            } => {
                let shape = result.map(|&value| &self.program.values[value].shape);
                let features = shape.and_then(|shape| shape.dimension(dims.output_feature));
                self.machine.operations().is_some()
                    && minor(result) != Some(dims.output_feature)
                    && features.is_some_and(|size| size.representative() >= MANY_FEATURES)
            }
            _ => false,
        }
    }

    /// Whether a node's operand is the result of a product, possibly through views.
    fn is_of_product(&self, node: &Node) -> bool {
        let mut at = node.operands.first().copied();
        while let Some(value) = at {
            let Def::Node(id, 0) = self.program.values[value].def else {
                return false;
            };
            let maker = &self.program.nodes[id];
            match &self.module[maker.origin].op {
                Op::Dot { .. } => return true,
                Op::Transpose(_) => at = maker.operands.first().copied(),
                _ => return false,
            }
        }
        false
    }

    /// Whether only products read a node's results, possibly through views.
    fn is_read_by_products(&mut self, node: &Node) -> bool {
        let mut open: Vec<ValueId> = node.results.to_vec();
        let mut looked_at = 0;
        while let Some(value) = open.pop() {
            looked_at += 1;
            let readers = self.readers().get(&value).cloned().unwrap_or_default();
            if readers.is_empty() || looked_at > 16 {
                return false;
            }
            for reader in readers {
                match &self.module[reader.origin].op {
                    Op::Dot { .. } => {}
                    Op::Transpose(_) | Op::Reshape | Op::Bitcast => open.extend(&reader.results),
                    _ => return false,
                }
            }
        }
        true
    }

    fn readers(&mut self) -> &FxHashMap<ValueId, Vec<&'a Node>> {
        let program = self.program;
        self.readers.get_or_insert_with(|| {
            let mut readers: FxHashMap<ValueId, Vec<&Node>> = FxHashMap::default();
            for node in program.nodes.values() {
                for &operand in &node.operands {
                    readers.entry(operand).or_default().push(node);
                }
                // A result of a loop or branch is not read by a product inside it.
                if let NodeKind::While { .. } | NodeKind::Conditional { .. } = node.kind {
                    let results = node.kind.regions().into_iter().flat_map(|r| &r.results);
                    results.for_each(|&value| readers.entry(value).or_default().push(node));
                }
            }
            readers
        })
    }
}
