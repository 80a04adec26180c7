//! Sharding propagation: chooses a sharding for each array from those that the program states,
//! through its operations.
//!
//! Stated shardings are set first. Cuts are then propagated from array to array along the axes of
//! operations, forward and backward, until nothing changes: first through elementwise operations,
//! which never prefer different shardings for their arrays; then through operations that move
//! elements; finally through those that combine them. If two arrays of an operation suggest
//! different cuts of an axis, the larger array takes precedence. A cut is accepted only if all
//! devices together still hold the whole array. The reason for each cut is recorded.

use crate::Freedom;
use crate::axes::{Axis, AxisFinder, AxisKind};
use crate::graph::{Graph, Kind, Node, RegionId, ValueId};
use crate::sharding::{Cut, Sharding};
use std::fmt;
use std::rc::Rc;
use tegula_ir::Op;

/// The maximum number of rounds through the whole program at one level. Each round goes in both
/// directions, so a cut usually takes a few rounds to reach everything.
const MAX_ROUNDS: usize = 32;

/// The reason why a dimension is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutReason {
    /// The dimension.
    pub dim: usize,
    /// The number of parts.
    pub parts: i64,
    /// The reason, as text for people.
    pub text: String,
}

/// The sharding of every value, with the reasons.
#[derive(Clone, Debug)]
pub(crate) struct Propagated {
    /// The sharding of each slot.
    shardings: Vec<Sharding>,
    /// For each slot and dimension, whether the cut is final.
    closed: Vec<Vec<bool>>,
    /// The reasons for each slot's cuts.
    reasons: Vec<Vec<CutReason>>,
    /// The slot of each value. Values that are the state of the same loop share a slot.
    slots: Vec<usize>,
}

impl Propagated {
    pub(crate) fn sharding(&self, value: ValueId) -> &Sharding {
        &self.shardings[self.slots[value]]
    }

    pub(crate) fn reasons(&self, value: ValueId) -> &[CutReason] {
        &self.reasons[self.slots[value]]
    }
}

/// Classes of operations, by how readily cuts are propagated through them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Elementwise,
    Moving,
    Combining,
}

fn level(node: &Node) -> Level {
    match &node.op {
        _ if matches!(node.kind, Kind::CustomPartitioning) => Level::Combining,
        op if op.is_elementwise() || !matches!(node.kind, Kind::Operation) => Level::Elementwise,
        Op::Copy | Op::Map { .. } | Op::BitcastConvert => Level::Elementwise,
        Op::Broadcast(_)
        | Op::Reshape
        | Op::Bitcast
        | Op::Transpose(_)
        | Op::Reverse(_)
        | Op::Slice(_)
        | Op::Pad(_)
        | Op::Concatenate(_)
        | Op::DynamicSlice(_)
        | Op::DynamicUpdateSlice => Level::Moving,
        _ => Level::Combining,
    }
}

/// The shardings of all values; `free` limits those of the parameters.
pub(crate) fn propagate(graph: &Graph, axes: &AxisFinder<'_>, free: &Freedom) -> Propagated {
    let found = begin(graph, free);
    let mut equal_parts = vec![false; graph.values.len()];
    if free.wants_equal_parts() {
        for &parameter in &graph.regions[graph.entry].parameters {
            equal_parts[found.slots[parameter]] = true;
        }
    }
    let mut propagation = Propagation {
        graph,
        axes,
        found,
        equal_parts,
    };
    for level in [Level::Elementwise, Level::Moving, Level::Combining] {
        for _ in 0..MAX_ROUNDS {
            let forward = propagation.region(graph.entry, level, false);
            let backward = propagation.region(graph.entry, level, true);
            let alike = propagation.alike();
            if !forward && !backward && !alike {
                break;
            }
        }
    }
    propagation.found
}

/// The stated shardings.
fn begin(graph: &Graph, free: &Freedom) -> Propagated {
    let mut slots: Vec<usize> = (0..graph.values.len()).collect();
    for region in &graph.regions {
        for node in &region.nodes {
            let Kind::While { condition, body } = node.kind else {
                continue;
            };
            for parameters in [
                &graph.regions[condition].parameters,
                &graph.regions[body].parameters,
            ] {
                for (parameter, result) in parameters.iter().zip(&node.results) {
                    slots[*parameter] = *result;
                }
            }
        }
    }
    let devices = graph.devices;
    let mut found = Propagated {
        shardings: graph
            .values
            .iter()
            .map(|value| Sharding::replicated(value.rank(), devices))
            .collect(),
        closed: graph
            .values
            .iter()
            .map(|value| vec![false; value.rank()])
            .collect(),
        reasons: vec![Vec::new(); graph.values.len()],
        slots,
    };
    for (id, value) in graph.values.iter().enumerate() {
        let Some(stated) = &value.stated else {
            continue;
        };
        let slot = found.slots[id];
        // For a value in another scope, the statement only names the devices of the scope.
        if stated.manual.is_some() || found.shardings[slot].rank() != stated.sharding.rank() {
            continue;
        }
        found.shardings[slot] = stated.sharding.clone();
        found.closed[slot] = stated.open.iter().map(|open| !open).collect();
        found.reasons[slot] = stated_reasons(&stated.sharding, "the program states it");
    }
    for (number, &parameter) in graph.regions[graph.entry].parameters.iter().enumerate() {
        if graph.values[parameter].stated.is_none() && !free.allows(number) {
            found.closed[parameter].fill(true);
        }
    }
    let results = &graph.regions[graph.entry].results;
    for (result, stated) in results.iter().zip(&graph.stated_results) {
        let slot = found.slots[*result];
        if let Some(stated) = stated
            && found.shardings[slot].is_replicated()
            && found.closed[slot].iter().all(|closed| !closed)
            && found.shardings[slot].rank() == stated.sharding.rank()
        {
            found.shardings[slot] = stated.sharding.clone();
            found.reasons[slot] =
                stated_reasons(&stated.sharding, "the program states it for this result");
        }
    }
    found
}

/// The reason to take a cut from another array.
#[derive(Clone, Copy)]
enum Because<'a> {
    /// An operation reads or writes both arrays.
    Through(&'a Node),
    /// The program states the cut; the text says where.
    Stated(&'static str),
}

impl fmt::Display for Because<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Through(node) => write!(f, "through `{}`", node.op.opcode().name()),
            Self::Stated(text) => f.write_str(text),
        }
    }
}

fn stated_reasons(sharding: &Sharding, text: &str) -> Vec<CutReason> {
    let cuts = sharding.cuts().iter().enumerate();
    let reason = |(dim, cut): (usize, &Option<Cut>)| {
        let parts = cut.as_ref()?.parts();
        Some(CutReason {
            dim,
            parts,
            text: text.to_owned(),
        })
    };
    cuts.filter_map(reason).collect()
}

struct Propagation<'a> {
    graph: &'a Graph,
    axes: &'a AxisFinder<'a>,
    found: Propagated,
    /// For each slot, whether only equal parts are allowed.
    equal_parts: Vec<bool>,
}

/// One of the arrays of an operation.
#[derive(Clone, Copy)]
enum Member {
    Operand(usize),
    Result,
}

impl Propagation<'_> {
    /// Propagates cuts within each group of values that must have the same sharding.
    fn alike(&mut self) -> bool {
        let graph = self.graph;
        let mut changed = false;
        for group in graph.alike.values() {
            for (place, &value) in group.iter().enumerate() {
                for &other in &group[place + 1..] {
                    let ranks = [value, other].map(|value| graph.values[value].rank());
                    for dim in 0..ranks[0].min(ranks[1]) {
                        let text = Because::Stated("because the program requires equal shardings");
                        changed |= self.same_dim_because(value, other, dim, text);
                    }
                }
            }
        }
        changed
    }

    /// Propagates through a region once; says whether anything changed.
    fn region(&mut self, region: RegionId, level: Level, backward: bool) -> bool {
        let graph = self.graph;
        let nodes = &graph.regions[region].nodes;
        let mut changed = false;
        for at in 0..nodes.len() {
            let at = if backward { nodes.len() - 1 - at } else { at };
            changed |= self.node(&nodes[at], level, backward);
        }
        changed
    }

    fn node(&mut self, node: &Node, wanted: Level, backward: bool) -> bool {
        let graph = self.graph;
        let mut changed = false;
        match &node.kind {
            Kind::Operation if level(node) <= wanted => return self.operation(node),
            Kind::CustomPartitioning if level(node) <= wanted => return self.by_rule(node),
            Kind::Operation | Kind::CustomPartitioning | Kind::Once | Kind::OnParts => {}
            Kind::Constraint | Kind::Inspection | Kind::Barrier => {
                for (operand, result) in node.operands.iter().zip(&node.results) {
                    changed |= self.same(*operand, *result, node);
                }
            }
            Kind::Enter(cuts) | Kind::Exit(cuts) => {
                let enters = matches!(node.kind, Kind::Enter(_));
                for ((operand, result), manual) in node.operands.iter().zip(&node.results).zip(cuts)
                {
                    let (whole, own) = match enters {
                        true => (*operand, *result),
                        false => (*result, *operand),
                    };
                    for dim in 0..manual.rank() {
                        changed |= match manual.cut(dim) {
                            None => self.same_dim(*operand, *result, dim, node),
                            Some(cut) => self.manual_dim(whole, own, dim, cut, node),
                        };
                    }
                }
            }
            Kind::While { condition, body } => {
                let ends = graph.regions[*body].results.clone();
                for pair in node
                    .operands
                    .iter()
                    .chain(&ends)
                    .zip(node.results.iter().chain(&node.results))
                {
                    changed |= self.same(*pair.0, *pair.1, node);
                }
                changed |= self.region(*body, wanted, backward);
                changed |= self.region(*condition, wanted, backward);
            }
            Kind::Conditional(branches) => {
                let mut given = node.operands.iter().skip(1);
                for branch in branches {
                    let region = &graph.regions[*branch];
                    for (parameter, operand) in region.parameters.iter().zip(given.by_ref()) {
                        changed |= self.same(*operand, *parameter, node);
                    }
                    changed |= self.region(*branch, wanted, backward);
                    for (end, result) in region.results.iter().zip(&node.results) {
                        changed |= self.same(*end, *result, node);
                    }
                }
            }
        }
        changed
    }

    /// Propagates between two values that are the same array.
    fn same(&mut self, a: ValueId, b: ValueId, node: &Node) -> bool {
        let rank = self.graph.values[a].rank();
        let mut changed = false;
        for dim in 0..rank {
            changed |= self.same_dim(a, b, dim, node);
        }
        changed
    }

    fn same_dim(&mut self, a: ValueId, b: ValueId, dim: usize, node: &Node) -> bool {
        self.same_dim_because(a, b, dim, Because::Through(node))
    }

    fn same_dim_because(&mut self, a: ValueId, b: ValueId, dim: usize, why: Because<'_>) -> bool {
        let cut = |of: ValueId, found: &Propagated| found.sharding(of).cut(dim).cloned();
        let (first, second) = (cut(a, &self.found), cut(b, &self.found));
        match (first, second) {
            (Some(cut), None) => self.take(b, dim, &cut, a, why),
            (None, Some(cut)) => self.take(a, dim, &cut, b, why),
            _ => false,
        }
    }

    /// Propagates at a boundary of a manual computation: the whole array is cut along the manual
    /// axes, and each part as it is cut inside.
    fn manual_dim(
        &mut self,
        whole: ValueId,
        own: ValueId,
        dim: usize,
        manual: &Cut,
        node: &Node,
    ) -> bool {
        let inner = self.found.sharding(own).cut(dim);
        let cut = match inner {
            Some(inner) => manual.then(inner),
            None => Some(manual.clone()),
        };
        cut.is_some_and(|cut| self.take(whole, dim, &cut, own, Because::Through(node)))
    }

    /// Gives a value the cuts of another one, as far as possible.
    fn take(
        &mut self,
        value: ValueId,
        dim: usize,
        cut: &Cut,
        from: ValueId,
        why: Because<'_>,
    ) -> bool {
        let graph = self.graph;
        let slot = self.found.slots[value];
        let own = &self.found.shardings[slot];
        let large_enough = graph.values[value].size(dim).is_some_and(|size| {
            size >= cut.parts() && (cut.divides(size) || !self.equal_parts[slot])
        });
        let closed = self.found.closed[slot].get(dim).copied().unwrap_or(true);
        if closed || own.cut(dim).is_some() || !large_enough {
            return false;
        }
        let changed = own.with(dim, Some(cut.clone()));
        if !changed.is_complete(&graph.scopes[graph.values[value].scope].cut) {
            return false;
        }
        self.found.shardings[slot] = changed;
        let text = format!("as `{}`, {why}", graph.values[from].name);
        self.found.reasons[slot].push(CutReason {
            dim,
            parts: cut.parts(),
            text,
        });
        true
    }

    /// Propagates cuts along the axes of an operation.
    fn operation(&mut self, node: &Node) -> bool {
        let graph = self.graph;
        // The largest array takes precedence.
        let mut members: Vec<(ValueId, Member)> = Vec::new();
        members.extend(node.results.iter().map(|value| (*value, Member::Result)));
        members.extend(
            node.operands
                .iter()
                .enumerate()
                .map(|(n, value)| (*value, Member::Operand(n))),
        );
        members.sort_by_key(|(value, _)| std::cmp::Reverse(graph.values[*value].bytes()));
        let mut changed = false;
        for &(value, member) in &members {
            for dim in 0..graph.values[value].rank() {
                let Some(cut) = self.found.sharding(value).cut(dim).cloned() else {
                    continue;
                };
                let axes: Rc<Vec<Axis>> = self.axes.axes(node.instruction, cut.parts());
                for axis in axes.iter() {
                    let own = match member {
                        Member::Result => axis.result,
                        Member::Operand(number) => axis.operands.get(number).copied().flatten(),
                    };
                    if own == Some(dim) {
                        changed |= self.along(node, axis, &cut, value);
                    }
                }
            }
        }
        if let (
            Op::Sort { .. }
            | Op::ReduceWindow { .. }
            | Op::SelectAndScatter { .. }
            | Op::Fft { .. }
            | Op::Reverse(_),
            Some(&first),
        ) = (&node.op, node.results.first())
        {
            for (operand, result) in node.operands.iter().zip(&node.results) {
                changed |= self.same_sizes(*operand, *result, node);
                changed |= self.same_sizes(first, *result, node);
            }
        }
        changed
    }

    /// Propagates cuts along the factors of the sharding rule that a call states.
    fn by_rule(&mut self, node: &Node) -> bool {
        let mut changed = false;
        for factor in self.axes.rule(node.instruction) {
            let operands = node.operands.iter().zip(&factor.operands);
            let results = node.results.iter().zip(&factor.results);
            let arrays = operands.chain(results);
            let alike: Vec<(ValueId, usize)> = arrays
                .filter_map(|(value, dim)| Some((*value, (*dim)?)))
                .collect();
            let mut cuts = alike.iter().filter_map(|(value, dim)| {
                let cut = self.found.sharding(*value).cut(*dim)?;
                Some((*value, cut.clone()))
            });
            let Some((from, cut)) = cuts.next() else {
                continue;
            };
            if factor.divided.is_some_and(|size| !cut.divides(size)) {
                continue;
            }
            for (value, dim) in alike {
                changed |= self.take(value, dim, &cut, from, Because::Through(node));
            }
        }
        changed
    }

    /// Propagates cuts between the same dimensions of two arrays, for an operation that combines
    /// all elements of a dimension, or windows of it. The sizes must be equal, or the cut must
    /// divide both. No device then has to hold the whole dimension.
    fn same_sizes(&mut self, a: ValueId, b: ValueId, node: &Node) -> bool {
        let graph = self.graph;
        let (first, second) = (&graph.values[a], &graph.values[b]);
        let mut changed = false;
        for dim in 0..first.rank().min(second.rank()) {
            let cut = [a, b].map(|value| self.found.sharding(value).cut(dim));
            let cut = cut.into_iter().flatten().next();
            let divides = |size: i64| cut.is_some_and(|cut| cut.divides(size));
            let sizes = (first.size(dim), second.size(dim));
            if matches!(sizes, (Some(a), Some(b)) if a == b || divides(a) && divides(b)) {
                changed |= self.same_dim(a, b, dim, node);
            }
        }
        changed
    }

    /// Cuts all arrays along an axis.
    fn along(&mut self, node: &Node, axis: &Axis, cut: &Cut, from: ValueId) -> bool {
        let mut changed = false;
        for (operand, dim) in node.operands.iter().zip(&axis.operands) {
            if let Some(dim) = dim {
                changed |= self.take(*operand, *dim, cut, from, Because::Through(node));
            }
        }
        if axis.kind == AxisKind::Parallel
            && let Some(dim) = axis.result
        {
            for result in &node.results {
                changed |= self.take(*result, dim, cut, from, Because::Through(node));
            }
        }
        changed
    }
}
