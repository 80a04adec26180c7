//! Translates kernels into an optimisation problem: which arrays have their own order, what
//! operations prefer, and what disagreements cost.
//!
//! Inside a kernel, an array and everything computed from it elementwise share one order: a
//! *space*. Spaces are linked where an operation leads from one to another, and where a kernel
//! reads what another has written.

mod indexed;
mod pieces;
mod product;

use super::layout_preferences::{Dims, LANES, Wish};
use super::machine::{Machine, Order};
use super::orders::{add, candidates, followed, reshaped, transposed, with_major};
use super::tpu_fusion::{Group, Groups, Kind, captured, group, kind};
use crate::trips::trips;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tegula_fusion::{Node, NodeId, NodeKind, Program, Region, ValueId};
use tegula_ir::helpers::kept_dimensions;
use tegula_ir::{Module, Op};

/// A place of an array: memory, or the kernel with this root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Place {
    /// In memory.
    Memory,
    /// In a kernel.
    Kernel(NodeId),
    /// A result of the program, a loop or a branch.
    Result,
}

/// A set of arrays that share an order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Space {
    /// The dimensions.
    pub dims: SmallVec<[i64; 6]>,
    /// The element width of the first array, in bits.
    pub bits: u32,
    /// Traffic: for each array in memory its element width in bits and how often it is moved, once
    /// for writing and once for each kernel that reads it.
    pub traffic: Vec<(u32, f64)>,
    /// The number of arrays that pass through registers.
    pub registers: f64,
    /// The preferences for it, each with the element width of the array in bits, and how often it
    /// counts.
    pub wishes: Vec<(Wish, u32, f64)>,
    /// The only allowed order, if it is fixed, and the reason.
    pub fixed: Option<(Order, &'static str)>,
    /// The candidate orders.
    pub orders: Vec<Order>,
}

/// The relation between two linked spaces.
#[derive(Clone, Debug)]
pub(crate) enum Relation {
    /// The same array, of this element width, written in one order and read in another.
    Same(u32),
    /// A reshape between arrays of this element width.
    Reshape(u32),
    /// A transposition.
    Transpose(SmallVec<[u32; 6]>, u32),
    /// Arrays with common dimensions. The smaller array, of this element width, is transposed if
    /// these are not in the same order.
    Shared(SmallVec<[(u32, u32); 6]>, u32),
    /// The operand and the result of a product. Which operand streams through the matrix unit
    /// follows from the result's lanes. The fields are the operand's contracted dimensions, its
    /// free dimensions in the result, and its element width.
    Product {
        contracted: Dims,
        in_result: Dims,
        bits: u32,
    },
}

/// A link between two spaces, by an operation or a read.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// The space that is read.
    pub from: usize,
    /// The space that is computed from it.
    pub to: usize,
    /// Their relation.
    pub relation: Relation,
    /// How often the link is executed.
    pub times: f64,
}

/// The kernels of a region, and where the region is.
#[derive(Clone, Debug)]
pub(crate) struct RegionGroups {
    /// The loop or conditional and the number of its region; `None` for the program itself.
    pub of: Option<(NodeId, usize)>,
    /// The kernels.
    pub groups: Groups,
    /// The results of the region.
    pub results: Vec<ValueId>,
}

/// The problem before it is solved.
pub(crate) struct Spaces<'a> {
    module: &'a Module,
    program: &'a Program,
    machine: &'a Machine,
    all: Vec<Space>,
    parent: Vec<usize>,
    by_place: FxHashMap<(Place, ValueId), usize>,
    /// How often the current region runs.
    times: f64,
    /// How often each value is computed, if more than once.
    made: FxHashMap<ValueId, f64>,
    pub(crate) links: Vec<Link>,
    pub(crate) regions: Vec<RegionGroups>,
}

impl<'a> Spaces<'a> {
    /// The spaces of a program. `stated` are orders that the user states.
    pub(crate) fn new(
        module: &'a Module,
        program: &'a Program,
        machine: &'a Machine,
        stated: &FxHashMap<(Place, ValueId), Order>,
    ) -> Self {
        let mut spaces = Self {
            module,
            program,
            machine,
            all: Vec::new(),
            parent: Vec::new(),
            by_place: FxHashMap::default(),
            times: 1.0,
            made: FxHashMap::default(),
            links: Vec::new(),
            regions: Vec::new(),
        };
        for &parameter in &program.parameters {
            spaces.fix(
                Place::Memory,
                parameter,
                stated,
                "a parameter has the default layout",
            );
        }
        spaces.region(None, &program.entry);
        for &result in &program.entry.results {
            spaces.fix(
                Place::Result,
                result,
                stated,
                "a result has the default layout",
            );
            spaces.same(result, (Place::Memory, Place::Result));
        }
        spaces.finish();
        spaces
    }

    fn fix(
        &mut self,
        place: Place,
        value: ValueId,
        stated: &FxHashMap<(Place, ValueId), Order>,
        why: &'static str,
    ) {
        let Some(id) = self.space(place, value) else {
            return;
        };
        let space = &self.all[id];
        let order = match stated.get(&(place, value)) {
            Some(order) => (order.clone(), "the program states this layout"),
            None => (self.machine.default_order(space.bits, &space.dims), why),
        };
        self.all[id].fixed = Some(order);
    }

    /// The space of an array at a place, if it has more than one dimension.
    fn space(&mut self, place: Place, value: ValueId) -> Option<usize> {
        if let Some(&id) = self.by_place.get(&(place, value)) {
            return Some(self.root(id));
        }
        let shape = &self.program.values[value].shape;
        if shape.rank() < 2 {
            return None;
        }
        let id = self.all.len();
        let bits = shape.element_type.bits();
        // In memory it is written and read; in a kernel it passes through registers.
        let memory = place == Place::Memory;
        self.all.push(Space {
            dims: shape
                .dims
                .iter()
                .map(tegula_ir::Dim::representative)
                .collect(),
            bits,
            traffic: if memory {
                vec![(bits, self.made(value))]
            } else {
                Vec::new()
            },
            registers: if memory { 0.0 } else { self.times },
            ..Space::default()
        });
        self.parent.push(id);
        self.by_place.insert((place, value), id);
        Some(id)
    }

    /// How often a value is computed.
    fn made(&self, value: ValueId) -> f64 {
        self.made.get(&value).copied().unwrap_or(1.0)
    }

    fn root(&self, mut id: usize) -> usize {
        while self.parent[id] != id {
            id = self.parent[id];
        }
        id
    }

    /// The space of an array, after all spaces have been built.
    pub(crate) fn find(&self, place: Place, value: ValueId) -> Option<usize> {
        self.by_place.get(&(place, value)).map(|&id| self.root(id))
    }

    /// A space.
    pub(crate) fn get(&self, id: usize) -> &Space {
        &self.all[id]
    }

    /// The number of spaces, including merged ones.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether a space has not been merged into another one.
    pub(crate) fn is_root(&self, id: usize) -> bool {
        self.parent[id] == id
    }

    fn unite(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        if a == b || self.all[a].dims != self.all[b].dims {
            return;
        }
        let merged = std::mem::take(&mut self.all[b]);
        let kept = &mut self.all[a];
        kept.traffic.extend(merged.traffic);
        kept.registers += merged.registers;
        kept.wishes.extend(merged.wishes);
        if kept.fixed.is_none() {
            kept.fixed = merged.fixed;
        }
        self.parent[b] = a;
    }

    /// Links an array at two places.
    fn same(&mut self, value: ValueId, (from, to): (Place, Place)) {
        let bits = self.program.values[value].shape.element_type.bits();
        // An array from outside a loop that the loop reads in another order is copied before the
        // loop. Yet this counts as one copy per iteration, which reproduces the choices of libtpu's
        // compiler: it transposes such operands inside the products that read them.
        if let (Some(from), Some(to)) = (self.space(from, value), self.space(to, value)) {
            self.link(from, to, Relation::Same(bits));
        }
    }

    /// Links two arrays in memory, one of which becomes the other.
    fn becomes(&mut self, from: ValueId, to: ValueId) {
        let bits = self.program.values[from].shape.element_type.bits();
        let ids = (
            self.space(Place::Memory, from),
            self.space(Place::Memory, to),
        );
        if let (Some(from), Some(to)) = ids {
            self.link(from, to, Relation::Same(bits));
        }
    }

    fn link(&mut self, from: usize, to: usize, relation: Relation) {
        let times = self.times;
        self.links.push(Link {
            from,
            to,
            relation,
            times,
        });
    }

    fn region(&mut self, of: Option<(NodeId, usize)>, region: &Region) {
        let results = region.nodes.iter();
        let results = results.flat_map(|&id| &self.program.nodes[id].results);
        self.made.extend(results.map(|&value| (value, self.times)));
        let groups = group(self.module, self.program, self.machine, region);
        for group in &groups.groups {
            self.group(group);
        }
        self.regions.push(RegionGroups {
            of,
            groups,
            results: region.results.clone(),
        });
        for &id in &region.nodes {
            let node = &self.program.nodes[id];
            let outside = self.times;
            if let NodeKind::While { states, .. } = &node.kind
                && self.machine.has_lanes()
            {
                self.times *= trips(self.module, self.program, node);
                self.made
                    .extend(states.iter().map(|&state| (state, self.times)));
            }
            for (number, inner) in node.kind.regions().into_iter().enumerate() {
                self.region(Some((id, number)), inner);
            }
            let inside = std::mem::replace(&mut self.times, outside);
            self.control(node, inside);
        }
    }

    /// A loop's states have one order throughout, and a conditional's results that of the branches,
    /// apart from copies.
    fn control(&mut self, node: &Node, inside: f64) {
        match &node.kind {
            NodeKind::While { body, states, .. } => {
                for (number, &state) in states.iter().enumerate() {
                    if let Some(&first) = node.operands.get(number) {
                        self.becomes(first, state);
                    }
                    if let Some(&next) = body.results.get(number) {
                        let outside = std::mem::replace(&mut self.times, inside);
                        self.becomes(next, state);
                        self.times = outside;
                    }
                    if let Some(&result) = node.results.get(number) {
                        self.becomes(state, result);
                    }
                }
            }
            NodeKind::Conditional { branches } => {
                for branch in branches {
                    for (&from, &to) in branch.results.iter().zip(&node.results) {
                        self.becomes(from, to);
                    }
                }
            }
            NodeKind::Op | NodeKind::Contraction(_) => {}
        }
    }

    fn group(&mut self, group: &Group) {
        let place = Place::Kernel(group.root);
        let mut made: Vec<ValueId> = Vec::new();
        let mut read: Vec<ValueId> = Vec::new();
        for &id in &group.nodes {
            let node = &self.program.nodes[id];
            for &operand in &node.operands {
                let outside = !made.contains(&operand) && !read.contains(&operand);
                if outside && node.kind.regions().is_empty() {
                    self.same(operand, (Place::Memory, place));
                    self.reads(operand);
                    read.push(operand);
                }
            }
            self.node(node, place);
            made.extend(&node.results);
        }
        let root = &self.program.nodes[group.root];
        if !root.kind.regions().is_empty() {
            return;
        }
        for &result in &root.results {
            let memory = self.space(Place::Memory, result);
            if let (Some(memory), Some(inside)) = (memory, self.space(place, result)) {
                self.unite(memory, inside);
            }
        }
    }

    /// Records that one more kernel reads an array.
    fn reads(&mut self, value: ValueId) {
        let bits = self.program.values[value].shape.element_type.bits();
        if let Some(id) = self.space(Place::Memory, value) {
            self.all[id].traffic.push((bits, self.times));
        }
    }

    fn wish(&mut self, place: Place, value: Option<&ValueId>, wish: Wish) {
        let Some(&value) = value else { return };
        let bits = self.program.values[value].shape.element_type.bits();
        if let Some(id) = self.space(place, value) {
            self.all[id].wishes.push((wish, bits, self.times));
        }
    }

    /// Links arrays inside a kernel by their common dimensions.
    fn shared(
        &mut self,
        place: Place,
        from: ValueId,
        to: ValueId,
        pairs: impl Iterator<Item = (u32, u32)>,
    ) {
        let (Some(a), Some(b)) = (self.space(place, from), self.space(place, to)) else {
            return;
        };
        let (rows, columns) = (&self.all[a].dims, &self.all[b].dims);
        let large = |&(i, j): &(u32, u32)| {
            let sizes = (rows.get(i as usize), columns.get(j as usize));
            matches!(sizes, (Some(&i), Some(&j)) if i > 1 && j > 1)
        };
        let pairs: SmallVec<[(u32, u32); 6]> = pairs.filter(large).collect();
        if pairs.len() > 1 {
            let bits = self.program.values[from].shape.element_type.bits();
            self.link(a, b, Relation::Shared(pairs, bits));
        }
    }

    fn node(&mut self, node: &Node, place: Place) {
        let own = kind(self.module, self.program, node);
        let op = &self.module[node.origin].op;
        let first = node.operands.first().copied();
        let result = node.results.first().copied();
        let (Some(result), operands) = (result, &node.operands) else {
            return;
        };
        match own {
            Kind::Elementwise => {
                for &operand in operands {
                    let ids = (self.space(place, operand), self.space(place, result));
                    if let (Some(a), Some(b)) = ids {
                        self.unite(b, a);
                    }
                }
            }
            Kind::Move | Kind::View => {
                if let Some(first) = first {
                    self.moved(op, own, first, result, place);
                }
            }
            Kind::Join => {
                for &operand in operands {
                    let rank = self.program.values[operand].shape.rank() as u32;
                    self.shared(place, operand, result, (0..rank).map(|dim| (dim, dim)));
                }
                if let Op::Concatenate(dim) = op {
                    let dim = u32::try_from(*dim).unwrap_or(0);
                    self.wish(place, Some(&result), Wish::Joined(dim));
                }
            }
            Kind::Reduce => self.reduce(op, node, place),
            Kind::Window => self.windows(op, node, place),
            Kind::Product => self.product(op, node, place),
            Kind::Indexed => self.indexed(op, node, place),
            Kind::Whole => self.whole(op, node, place),
            Kind::Control => {}
        }
    }

    fn moved(&mut self, op: &Op, own: Kind, from: ValueId, to: ValueId, place: Place) {
        let rank = self.program.values[from].shape.rank() as u32;
        let bits = self.program.values[from].shape.element_type.bits();
        match op {
            Op::Broadcast(dims) => {
                let pairs = dims.iter().map(|&dim| u32::try_from(dim).unwrap_or(0));
                let pairs: Vec<(u32, u32)> = (0..rank).zip(pairs).collect();
                self.shared(place, from, to, pairs.into_iter());
            }
            Op::Transpose(dims) => {
                let permutation: SmallVec<[u32; 6]> = dims
                    .iter()
                    .map(|&dim| u32::try_from(dim).unwrap_or(0))
                    .collect();
                if let (Some(a), Some(b)) = (self.space(place, from), self.space(place, to)) {
                    self.link(a, b, Relation::Transpose(permutation, bits));
                }
            }
            Op::Reshape | Op::Bitcast if own == Kind::View => {
                if let (Some(a), Some(b)) = (self.space(place, from), self.space(place, to)) {
                    self.link(a, b, Relation::Reshape(bits));
                }
            }
            Op::Reshape | Op::Bitcast => {
                let large = |value: ValueId| {
                    let dims = self.program.values[value].shape.dims.iter().enumerate();
                    let large = dims.filter(|(_, dim)| dim.representative() != 1);
                    large.map(|(dim, _)| dim as u32).collect::<Vec<_>>()
                };
                let pairs: Vec<(u32, u32)> = large(from).into_iter().zip(large(to)).collect();
                self.shared(place, from, to, pairs.into_iter());
            }
            _ => {
                if matches!(op, Op::DynamicSlice(_)) {
                    let moving = self.moving(Some(&from), Some(&to));
                    self.wish(place, Some(&from), Wish::Moving(moving));
                }
                self.shared(place, from, to, (0..rank).map(|dim| (dim, dim)));
            }
        }
    }

    fn reduce(&mut self, op: &Op, node: &Node, place: Place) {
        let Op::Reduce { dimensions, .. } = op else {
            return;
        };
        let gone: Dims = dimensions
            .iter()
            .map(|&dim| u32::try_from(dim).unwrap_or(0))
            .collect();
        for (number, &result) in node.results.iter().enumerate() {
            let Some(&operand) = node.operands.get(number) else {
                return;
            };
            self.wish(place, Some(&operand), Wish::Reduced(gone.clone()));
            let rank = self.program.values[operand].shape.rank();
            let kept = kept_dimensions(dimensions, rank).into_iter();
            let pairs: Vec<(u32, u32)> = kept.map(|dim| dim as u32).zip(0..).collect();
            self.shared(place, operand, result, pairs.into_iter());
        }
    }

    fn windows(&mut self, op: &Op, node: &Node, place: Place) {
        let (Op::ReduceWindow { window, .. } | Op::SelectAndScatter { window, .. }) = op else {
            return;
        };
        let over: Dims = window
            .iter()
            .zip(0..)
            .filter(|(dim, _)| dim.size != 1)
            .map(|(_, number)| number)
            .collect();
        let half = node.operands.len() / 2;
        let arrays = if matches!(op, Op::SelectAndScatter { .. }) {
            2
        } else {
            half
        };
        for &operand in node.operands.iter().take(arrays) {
            if matches!(op, Op::SelectAndScatter { .. }) {
                // Each window writes one element, at a data-dependent position.
                self.wish(place, Some(&operand), Wish::Outside(over.clone()));
                self.wish(place, node.results.first(), Wish::Outside(over.clone()));
            } else {
                self.wish(place, Some(&operand), Wish::Windows(over.clone()));
            }
            for &result in &node.results {
                let rank = self.program.values[operand].shape.rank() as u32;
                self.shared(place, operand, result, (0..rank).map(|dim| (dim, dim)));
            }
        }
    }

    fn whole(&mut self, op: &Op, node: &Node, place: Place) {
        let first = node
            .operands
            .first()
            .map(|&value| self.program.values[value].shape.rank());
        let along = match op {
            Op::Sort { dimension, .. } => u32::try_from(*dimension).ok(),
            Op::TopK { .. } if self.machine.has_lanes() => {
                first.and_then(|r| r.checked_sub(1)).map(|d| d as u32)
            }
            _ => None,
        };
        if let Some(dim) = along {
            let size = |&value: &ValueId| {
                let dims = &self.program.values[value].shape.dims;
                dims.get(dim as usize).map(tegula_ir::Dim::representative)
            };
            let size = node.operands.first().and_then(size).unwrap_or(1);
            let log = 64 - (size - 1).max(0).leading_zeros();
            // A bitonic sort has log n (log n + 1) / 2 passes.
            let along = Wish::Along {
                dim,
                passes: log * (log + 1) / 2,
                is_short: size < LANES,
            };
            let is_sort = matches!(op, Op::Sort { .. });
            for (number, &result) in node.results.iter().enumerate() {
                let Some(&operand) = node.operands.get(if is_sort { number } else { 0 }) else {
                    break;
                };
                let rank = self.program.values[operand].shape.rank() as u32;
                self.wish(place, Some(&operand), along.clone());
                self.wish(place, Some(&result), along.clone());
                self.shared(place, operand, result, (0..rank).map(|dim| (dim, dim)));
            }
            if let (Some(&one), Some(&two)) = (node.results.first(), node.results.get(1)) {
                let rank = self.program.values[one].shape.rank() as u32;
                self.shared(place, one, two, (0..rank).map(|dim| (dim, dim)));
            }
            return;
        }
        for value in node.operands.iter().chain(&node.results) {
            self.wish(place, Some(value), Wish::InOrder);
        }
    }

    /// Collects the candidate orders, now that the spaces are known.
    fn finish(&mut self) {
        for link in &mut self.links {
            (link.from, link.to) = (root(&self.parent, link.from), root(&self.parent, link.to));
        }
        for id in 0..self.all.len() {
            if self.parent[id] != id {
                continue;
            }
            let space = &mut self.all[id];
            space.orders = match &space.fixed {
                Some((order, _)) => vec![order.clone()],
                None => candidates(self.machine, space.bits, &space.dims),
            };
            if space.fixed.is_none() {
                // A unit may write orders that need more padding than the candidates so far.
                let rank = space.dims.len() as u32;
                let written: Vec<Order> = space
                    .wishes
                    .iter()
                    .flat_map(|(wish, ..)| wish.written(self.machine, &space.orders, rank))
                    .collect();
                for order in written {
                    add(&mut space.orders, order);
                }
                let moving = space.wishes.iter().filter_map(|(wish, ..)| match wish {
                    Wish::Moving(dims) | Wish::Outside(dims) if self.machine.has_lanes() => {
                        Some(dims)
                    }
                    _ => None,
                });
                let moving: Vec<Dims> = moving.cloned().collect();
                for dims in moving {
                    // These come first, so that they are carried over to neighbours.
                    let given = std::mem::take(&mut space.orders);
                    for order in &given {
                        add(&mut space.orders, order.clone());
                        add(&mut space.orders, with_major(order, &dims));
                    }
                }
            }
        }
        // Adds orders that make a view a bitcast, through up to two views in a row.
        for _ in 0..2 {
            for link in 0..self.links.len() {
                self.carry_over(link);
            }
        }
    }

    fn carry_over(&mut self, link: usize) {
        /// The number of orders that are carried over: only the first few are likely.
        const CARRIED: usize = 6;
        let Link {
            from, to, relation, ..
        } = self.links[link].clone();
        let (a, b) = (&self.all[from], &self.all[to]);
        let there = |order: &Order| match &relation {
            Relation::Transpose(permutation, _) => transposed(order, permutation),
            Relation::Reshape(_) => reshaped(order, &a.dims, &b.dims),
            Relation::Same(_) => Some(order.clone()),
            Relation::Shared(pairs, _) => followed(order, pairs, &b.dims),
            Relation::Product { .. } => None,
        };
        let back = |order: &Order| match &relation {
            Relation::Transpose(permutation, _) => {
                let dims = order.iter().map(|&d| permutation.get(d as usize).copied());
                dims.collect()
            }
            Relation::Reshape(_) => reshaped(order, &b.dims, &a.dims),
            Relation::Same(_) => Some(order.clone()),
            Relation::Shared(pairs, _) => {
                let turned = pairs.iter().map(|&(own, other)| (other, own));
                followed(order, &turned.collect::<Vec<_>>(), &a.dims)
            }
            Relation::Product { .. } => None,
        };
        let new_there: Vec<Order> = a.orders.iter().take(CARRIED).filter_map(there).collect();
        let new_back: Vec<Order> = b.orders.iter().take(CARRIED).filter_map(back).collect();
        for (id, orders) in [(to, new_there), (from, new_back)] {
            if self.all[id].fixed.is_none() {
                orders
                    .into_iter()
                    .for_each(|order| add(&mut self.all[id].orders, order));
            }
        }
    }
}

fn root(parent: &[usize], mut id: usize) -> usize {
    while parent[id] != id {
        id = parent[id];
    }
    id
}

/// The values that a loop or conditional reads: its operands, and what its regions use from
/// outside.
pub(crate) fn control_reads(program: &Program, node: &Node) -> Vec<ValueId> {
    let mut reads = node.operands.to_vec();
    reads.extend(captured(program, node));
    reads
}
