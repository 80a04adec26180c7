//! Clustering: decides which values are computed where they are read (fused), which are written to
//! memory (materialised), and which of these one kernel writes.
//!
//! Every value is either materialised or recomputed by each kernel that reads it. The pass walks
//! from users to producers. For each value, it collects the places of kernels where the value would
//! be evaluated if it were fused into all its readers; a kernel evaluates it once per place. Then
//! it compares the number of evaluations with the number of elements. A cheap operation may be
//! evaluated a few times per element, an expensive one only once, and a view, which costs as much
//! as a load, any number of times.
//!
//! For targets with vectors ([`Limits::lanes`]), a long sum is not fused into another one: inner
//! loops are not vectorised, and the materialised sums are small compared with their inputs. A
//! gather of single elements counts as expensive there.
//!
//! A kernel with loops whose innermost dimensions are short evaluates what does not depend on those
//! dimensions once for all points along them: see [`unroll_short_dims`].
//!
//! A kernel may write several values. A materialised value that a kernel reads at its own index is
//! computed and written by that kernel, unless something in between needs it from memory. Kernels
//! over the same domain that would all evaluate an expensive value become one.

mod classify;
mod evaluation_sites;
mod reason;
mod units;
mod unroll_short_dims;

use crate::limits::Limits;
use crate::program::{Def, Node, NodeId, NodeKind, Program, Region, ValueId};
pub use classify::{Class, classify};
use classify::{Scattered, gathers_few, scatters_singly};
use classify::{elements, gathers_singly, is_function, is_updated, is_view, reads_per_element};
use evaluation_sites::{Place, Places};
pub use reason::Reason;
use smallvec::SmallVec;
use tegula_arena::SecondaryMap;
use tegula_ir::{Module, Op};
use units::{At, Domain, Readers, UnitId, Units};
use unroll_short_dims::Short;

/// A sum with at least this many summands is not fused into another one.
const LONG_SUM: f64 = 9.0;
/// A sum over constants with at least this many summands is computed once rather than in every run.
const MANY_SUMMANDS: f64 = 4096.0;
/// The most evaluations per element of a cheap value.
const CHEAP_RATIO: f64 = 3.0;
/// The most evaluations per element of an expensive value.
const EXPENSIVE_RATIO: f64 = 1.0;
/// The most cheap operations to look through when searching for an expensive operation on which a
/// value depends.
const MAX_BETWEEN: u32 = 8;
/// The longest chain of operations fused into one another. Emitting recurses along it.
const MAX_CHAIN: u32 = 200;
/// An index computed by at least this many operations is materialised, so that its computation is
/// vectorised: an operation takes about 0.1 ns in scalar code, writing and reading the index half a
/// nanosecond.
const LONG_INDEX: usize = 8;
/// The least number of evaluations in excess of the number of elements that pays for a separate
/// kernel.
const MANY_LOOK_UPS: f64 = 256.0;
/// The most nodes visited when counting the operations that a value is computed by.
const MAX_LOOKED_AT: usize = 64;
/// The most operations that one kernel may evaluate. Compile time grows faster than the size of the
/// body, because more values are live at once than there are registers.
const MAX_BODY: u32 = 400;
/// The most successive updates of an array to look back through.
const MAX_UPDATES: usize = 8;
/// How many times larger an updated array must be than a value read from it, for the value to be
/// materialised rather than the array copied.
const MUCH_LARGER: f64 = 16.0;
/// The most places at which one value may be evaluated.
const MAX_PLACES: usize = 16;

/// The result of clustering: which values are fused and which are materialised.
#[derive(Clone, Debug, Default)]
pub struct Clusters {
    reasons: SecondaryMap<ValueId, Reason>,
    /// For each operation that shares its kernel with others, the operations that this kernel
    /// computes, in the program's order.
    together: SecondaryMap<NodeId, SmallVec<[NodeId; 2]>>,
}

impl Clusters {
    /// Why a value is fused or materialised.
    pub fn reason(&self, value: ValueId) -> Reason {
        self.reasons[value]
    }

    /// Whether a value is written to memory.
    pub fn is_materialised(&self, value: ValueId) -> bool {
        self.reasons[value].is_materialised()
    }

    /// Marks a value as kept by a row-fused kernel for itself.
    pub(crate) fn keep(&mut self, value: ValueId) {
        self.reasons[value] = Reason::KeptByRow;
    }

    /// The operations whose results are written by the kernel of `node`, in the program's order;
    /// empty if the kernel writes only this node's results.
    pub fn together(&self, node: NodeId) -> &[NodeId] {
        &self.together[node]
    }
}

/// Clusters a flattened program: decides for every value, within the backend's limits.
pub fn cluster(module: &Module, program: &Program, limits: Limits) -> Clusters {
    let mut pass = Pass {
        module,
        program,
        limits,
        inside_a_loop: SecondaryMap::default(),
        scattered: SecondaryMap::default(),
        gathered: SecondaryMap::default(),
        clusters: Clusters::default(),
        readers: SecondaryMap::default(),
        must: SecondaryMap::default(),
        chain: SecondaryMap::default(),
        from_constants: SecondaryMap::default(),
        only_constants: SecondaryMap::default(),
        home: SecondaryMap::default(),
        regions: 0,
        inside: Vec::new(),
        units: Units::default(),
        unit_of: SecondaryMap::default(),
        places: Places::new(module, program),
        program_readers: crate::analysis::readers::Readers::of(program, &program.entry),
    };
    for (id, value) in &program.values {
        if matches!(value.def, Def::Parameter(_) | Def::LoopState) {
            pass.clusters.reasons[id] = Reason::GivenInMemory;
        }
        if let Def::Constant(literal) = &value.def {
            let splat = is_splat(literal.bytes(), literal.element_type().storage_bytes());
            pass.from_constants[id] = splat;
            pass.only_constants[id] = true;
            pass.clusters.reasons[id] = if splat {
                Reason::FromConstants
            } else {
                Reason::GivenInMemory
            };
        }
    }
    pass.mark_from_constants(&program.entry);
    pass.region(&program.entry);
    pass.clusters
}

/// Whether all elements have the same bits.
pub(crate) fn is_splat(bytes: &[u8], element: usize) -> bool {
    let mut elements = bytes.chunks_exact(element.max(1));
    let first = elements.next();
    elements.all(|e| Some(e) == first)
}

struct Pass<'a> {
    module: &'a Module,
    program: &'a Program,
    clusters: Clusters,
    limits: Limits,
    /// Whether a long sum reads the value, or a fused value computed from it.
    inside_a_loop: SecondaryMap<ValueId, bool>,
    /// The role of the value in a scatter of few elements per index.
    scattered: SecondaryMap<ValueId, Scattered>,
    /// Whether few elements at each index are gathered from the value, or from a fused value
    /// computed from it.
    gathered: SecondaryMap<ValueId, bool>,
    /// The readers seen so far.
    readers: SecondaryMap<ValueId, Readers>,
    /// The reason why a reader seen so far needs the value in memory.
    must: SecondaryMap<ValueId, Option<Reason>>,
    /// The length of the longest chain of fused readers.
    chain: SecondaryMap<ValueId, u32>,
    from_constants: SecondaryMap<ValueId, bool>,
    /// Whether a value is computed from constants alone, by any operations.
    only_constants: SecondaryMap<ValueId, bool>,
    /// The number of the region that computes the value.
    home: SecondaryMap<ValueId, u32>,
    regions: u32,
    /// The loops and branches that enclose the current region: for each, the number of the region
    /// that it is in, and its unit.
    inside: Vec<(u32, UnitId)>,
    units: Units,
    /// The unit that writes a node's results.
    unit_of: SecondaryMap<NodeId, Option<UnitId>>,
    places: Places<'a>,
    /// The nodes and regions that read each value.
    program_readers: crate::analysis::readers::Readers,
}

impl Pass<'_> {
    /// Finds values computed from splat constants by cheap operations and values computed from any
    /// constants, and records the region of each value.
    fn mark_from_constants(&mut self, region: &Region) {
        self.regions += 1;
        let home = self.regions;
        for &id in &region.nodes {
            let node = &self.program.nodes[id];
            for &result in &node.results {
                self.home[result] = home;
            }
            for inner in node.kind.regions() {
                self.mark_from_constants(inner);
            }
            if !matches!(node.kind, NodeKind::Op) {
                continue;
            }
            let cheap = matches!(
                classify(self.module, self.program, id),
                Class::Pointwise(0 | 1)
            ) && !matches!(
                self.module[node.origin].op,
                Op::Gather { .. } | Op::Concatenate(_)
            );
            let constant = node.operands.iter().all(|&v| self.from_constants[v]);
            let only_constants = node.operands.iter().all(|&v| self.only_constants[v]);
            for &result in &node.results {
                self.only_constants[result] = only_constants && !node.operands.is_empty();
                // A chain of cheap operations is cheap only if it is short.
                let chain = node
                    .operands
                    .iter()
                    .map(|&v| self.chain[v])
                    .max()
                    .unwrap_or(0)
                    + 1;
                self.from_constants[result] = cheap && constant && chain <= 4;
                self.chain[result] = if self.from_constants[result] {
                    chain
                } else {
                    0
                };
            }
        }
    }

    fn region(&mut self, region: &Region) {
        for &result in &region.results {
            self.must[result] = Some(Reason::RegionResult);
            self.read_around(result);
        }
        for (position, &id) in region.nodes.iter().enumerate().rev() {
            let node = &self.program.nodes[id];
            if node.kind.regions().is_empty() {
                self.operation(id, position);
            } else {
                self.control(id, position);
            }
        }
        self.note_together(region);
    }

    /// Handles a loop or a conditional.
    fn control(&mut self, id: NodeId, position: usize) {
        let node = &self.program.nodes[id];
        let unit = self.units.add(id, position, None);
        for &v in &node.results {
            self.clusters.reasons[v] = Reason::LibraryOrControl;
            self.note_readers(v, unit);
        }
        for &v in &node.operands {
            self.need(v, unit, Reason::LibraryOrControl);
        }
        // A loop without state has no results that would tell its region.
        let home = node.results.first().map_or(0, |&v| self.home[v]);
        self.inside.push((home, unit));
        for inner in node.kind.regions() {
            self.region(inner);
        }
        self.inside.pop();
    }

    /// Records that a unit reads a value from memory.
    fn need(&mut self, value: ValueId, unit: UnitId, reason: Reason) {
        self.must[value] = Some(reason);
        self.readers[value].memory.push(unit);
    }

    /// If a value is defined outside the region that reads it, records that the enclosing loop or
    /// branch in the value's own region reads it from memory.
    fn read_around(&mut self, value: ValueId) {
        let home = self.home[value];
        let around = self.inside.iter().find(|(region, _)| *region == home);
        if let Some(&(_, unit)) = around {
            self.need(value, unit, Reason::RegionResult);
        }
    }

    /// Records the readers of a value at the unit that writes it.
    fn note_readers(&mut self, value: ValueId, unit: UnitId) {
        for reader in self.readers[value].units() {
            if self.units.find(reader) != self.units.find(unit) {
                self.units.add_user(unit, reader);
            }
        }
    }

    fn operation(&mut self, id: NodeId, position: usize) {
        let node = &self.program.nodes[id];
        let class = self.class(id);
        for &v in &node.results {
            let mut readers = std::mem::take(&mut self.readers[v]);
            readers.settle(&self.units);
            self.readers[v] = readers;
        }
        let reason = self.decide(id, class);
        let only = self.only_result(id, class);
        for &v in &node.results {
            let is_read = only.is_none_or(|only| only == v);
            self.clusters.reasons[v] = if is_read { reason } else { Reason::Unused };
        }
        let at = match only.as_ref().or(node.results.first()) {
            Some(&result) if !reason.is_materialised() => self.readers[result].at.clone(),
            result => {
                let unit = self.unit_of_root(id, position, class);
                vec![At {
                    unit,
                    place: Place::TOP,
                    elements: result.map_or(1.0, |&v| elements(self.program, v)),
                    short: self.short(id, class),
                }]
            }
        };
        if !matches!(reason, Reason::FromConstants) {
            at.iter().for_each(|at| self.units.grow(at.unit));
        }
        let chain = match only {
            Some(result) if !reason.is_materialised() => self.chain[result] + 1,
            _ => 0,
        };
        for (i, &operand) in node.operands.iter().enumerate() {
            self.operand(id, i, class, &at);
            if !self.from_constants[operand] {
                self.chain[operand] = self.chain[operand].max(chain);
            }
        }
    }

    /// Records how a node that is evaluated at the places `at` reads an operand.
    fn operand(&mut self, id: NodeId, i: usize, class: Class, at: &[At]) {
        let (module, program) = (self.module, self.program);
        let node = &program.nodes[id];
        let operand = node.operands[i];
        let in_memory = class == Class::Library
            || node.results.is_empty()
            || (class == Class::Update && is_updated(module, node, i));
        if class == Class::Update && !in_memory && self.reads_updated(id, operand) {
            self.must[operand] = Some(Reason::BeforeUpdate);
        }
        if in_memory {
            for at in at {
                self.need(operand, at.unit, Reason::LibraryOrControl);
            }
        }
        if self.from_constants[operand] {
            return;
        }
        // A value from outside a loop would be evaluated again in every iteration.
        let home = node.results.first().map_or(0, |&v| self.home[v]);
        if self.home[operand] != home {
            self.must[operand] = Some(Reason::RegionResult);
            return self.read_around(operand);
        }
        let times = reads_per_element(module, program, node, i);
        let only = self.only_result(id, class);
        let inside = |v: ValueId| !self.clusters.is_materialised(v) && self.inside_a_loop[v];
        let is_inside = only.is_some_and(inside);
        self.inside_a_loop[operand] |= is_inside || self.is_long(class, times);
        if self.limits.lanes && self.scattered[operand] != Scattered::Update {
            let scattered = scatters_singly(module, program, node, i);
            if scattered != Scattered::No {
                self.scattered[operand] = scattered;
            }
        }
        let is_fused = |v: ValueId| !self.clusters.is_materialised(v) && self.gathered[v];
        let is_gathered = only.is_some_and(is_fused);
        self.gathered[operand] |= is_gathered || gathers_few(module, program, node, i);
        let in_loop = class == Class::Loop && times > self.limits.shallow as f64;
        for at in at {
            if !in_memory {
                let (short, shared) = at.short.step((module, program), id, i, in_loop);
                self.readers[operand].at.push(At {
                    unit: at.unit,
                    place: self.places.step(at.place, id, i),
                    elements: at.elements * times / shared,
                    short,
                });
            }
        }
    }

    /// Whether an operand of an update is a small value computed from the array that is updated, or
    /// from that array's state before earlier updates. The very elements that are overwritten do
    /// not count: they can be read in place.
    fn reads_updated(&self, id: NodeId, operand: ValueId) -> bool {
        let (module, program) = (self.module, self.program);
        let node = &program.nodes[id];
        let home = |v: &ValueId| self.home[*v];
        let own = node.results.first().map(home);
        // The array before this update and before each of the preceding ones.
        let mut states: SmallVec<[ValueId; 4]> = SmallVec::new();
        let mut last = id;
        while states.len() < MAX_UPDATES {
            let update = &program.nodes[last];
            let updated = (0..update.operands.len()).find(|&i| is_updated(module, update, i));
            let Some(array) = updated.map(|i| update.operands[i]) else {
                break;
            };
            states.push(array);
            match program.values[array].def {
                Def::Node(before, _)
                    if Some(home(&array)) == own && self.class(before) == Class::Update =>
                {
                    last = before;
                }
                _ => break,
            }
        }
        let size = elements(program, operand);
        if states
            .first()
            .is_none_or(|&a| elements(program, a) < MUCH_LARGER * size)
        {
            return false;
        }
        let mut seen: SmallVec<[ValueId; 16]> = SmallVec::from_slice(&[operand]);
        let mut next = 0;
        while let Some(&value) = seen.get(next) {
            next += 1;
            let Def::Node(maker, _) = program.values[value].def else {
                continue;
            };
            let is_fused = matches!(self.class(maker), Class::Pointwise(_) | Class::Loop);
            if Some(home(&value)) != own || !is_fused {
                continue;
            }
            let maker = &program.nodes[maker];
            for (i, read) in maker.operands.iter().enumerate() {
                if states.contains(read) && !(i == 0 && self.reads_in_place(node, maker)) {
                    return true;
                }
                if seen.len() < MAX_LOOKED_AT && !seen.contains(read) {
                    seen.push(*read);
                }
            }
        }
        false
    }

    /// Whether `slice` reads exactly the elements that `update` overwrites.
    fn reads_in_place(&self, update: &Node, slice: &Node) -> bool {
        let op = |node: &Node| &self.module[node.origin].op;
        let shape = |v: Option<&ValueId>| v.map(|&v| &self.program.values[v].shape.dims);
        matches!(op(update), Op::DynamicUpdateSlice)
            && matches!(op(slice), Op::DynamicSlice(_))
            && update.operands.first() == slice.operands.first()
            && update.operands.get(2..) == slice.operands.get(1..)
            && shape(update.operands.get(1)) == shape(slice.results.first())
    }

    /// The short dimensions of the kernel that writes a node's results.
    fn short(&self, id: NodeId, class: Class) -> Short {
        let domain = self.domain(id, class);
        domain.map_or(Short::default(), |domain| {
            Short::of_result(&domain.dims, self.limits.short)
        })
    }

    /// The unit that writes a node's results: an existing one that can take it in, or a new one.
    fn unit_of_root(&mut self, id: NodeId, position: usize, class: Class) -> UnitId {
        let domain = self.domain(id, class);
        let node = &self.program.nodes[id];
        let unit = match (&domain, self.only_result(id, class)) {
            (Some(domain), Some(result)) => self.taken_in(id, position, domain, result),
            _ => None,
        };
        let unit = unit.unwrap_or_else(|| self.units.add(id, position, domain));
        self.unit_of[id] = Some(unit);
        for &v in &node.results {
            self.note_readers(v, unit);
        }
        unit
    }

    /// The result of a node if nothing reads another one, as of a reduction to the index of the
    /// largest element, which has that element as another result. Library routines, scans and
    /// updates write all of their results.
    fn only_result(&self, id: NodeId, class: Class) -> Option<ValueId> {
        let results = &self.program.nodes[id].results;
        if let [result] = results[..] {
            return Some(result);
        }
        if !matches!(class, Class::Pointwise(_) | Class::Loop) {
            return None;
        }
        let mut read = results.iter().filter(|v| self.program_readers.is_read(**v));
        read.next().copied().filter(|_| read.next().is_none())
    }

    /// The domain of the kernel of a node, if that kernel may compute further values.
    fn domain(&self, id: NodeId, class: Class) -> Option<Domain> {
        let node = &self.program.nodes[id];
        let result = self.only_result(id, class)?;
        if self.clusters.reasons[result] == Reason::SumOfConstants {
            return None;
        }
        // A reshape or bitcast of a value in memory is another name for the same data.
        let relabels = matches!(self.module[node.origin].op, Op::Reshape | Op::Bitcast);
        (!relabels && matches!(class, Class::Pointwise(_) | Class::Loop)).then(|| Domain {
            region: self.home[result],
            dims: self.program.values[result]
                .shape
                .dims
                .iter()
                .cloned()
                .collect(),
        })
    }

    /// The kernels over this domain that read a value only at their own index.
    fn at_top(&self, value: ValueId, domain: &Domain) -> SmallVec<[UnitId; 4]> {
        // The list is sorted by unit, then place, and `TOP` is the first place.
        let by_unit = self.readers[value].at.chunk_by(|a, b| a.unit == b.unit);
        by_unit
            .filter(|at| matches!(at, [at] if at.place == Place::TOP))
            .map(|at| at[0].unit)
            .filter(|&unit| self.units.computes_over(unit, domain))
            .collect()
    }

    /// Adds the result to a kernel that reads it at its own index and can write it too.
    fn taken_in(
        &mut self,
        id: NodeId,
        position: usize,
        domain: &Domain,
        result: ValueId,
    ) -> Option<UnitId> {
        let readers = self.readers[result].units();
        let tops = self.at_top(result, domain);
        let mut tops = tops.iter().copied().take(MAX_PLACES);
        let unit = tops.find(|&unit| self.units.takes_in(unit, &readers))?;
        self.units.take_in(unit, id, position);
        Some(unit)
    }

    fn decide(&mut self, id: NodeId, class: Class) -> Reason {
        let node = &self.program.nodes[id];
        let limit = match class {
            Class::Library => return Reason::LibraryOrControl,
            Class::Update | Class::Scan => return Reason::OwnKernel,
            // The operand of a view is evaluated as often as the view, so the decision is made
            // there.
            _ if is_view(self.module, self.program, id) => f64::INFINITY,
            Class::Pointwise(0 | 1) => CHEAP_RATIO,
            Class::Pointwise(_) | Class::Loop => EXPENSIVE_RATIO,
        };
        let Some(result) = self.only_result(id, class) else {
            return Reason::OwnKernel;
        };
        if let Some(reason) = self.must[result] {
            return reason;
        }
        if self.from_constants[result] {
            return Reason::FromConstants;
        }
        let times = (0..node.operands.len())
            .map(|i| reads_per_element(self.module, self.program, node, i))
            .fold(0.0, f64::max);
        if self.inside_a_loop[result] && self.is_long(class, times) {
            return Reason::InsideALoop;
        }
        let summands = times * elements(self.program, result);
        if class == Class::Loop && self.only_constants[result] && summands >= MANY_SUMMANDS {
            return Reason::SumOfConstants;
        }
        let slow_alone = match self.scattered[result] {
            Scattered::No => false,
            Scattered::Index => self.takes_operations(id, LONG_INDEX),
            Scattered::Update => self.calls(id, MAX_BETWEEN),
        };
        if slow_alone {
            return Reason::Scattered;
        }
        let size = elements(self.program, result).max(1.0);
        let mut ratio = self.readers[result].evaluations() / size;
        let once = ratio > EXPENSIVE_RATIO
            && limit == CHEAP_RATIO
            && (self.hides(id, MAX_BETWEEN) || self.is_slow_to_gather(id, result, size));
        let limit = if once { EXPENSIVE_RATIO } else { limit };
        if ratio > limit && self.unite_readers(id, class, result) {
            ratio = self.readers[result].evaluations() / size;
        }
        let readers = &self.readers[result].at;
        if ratio > limit || readers.len() > MAX_PLACES {
            return Reason::TooOften(ratio);
        }
        let full = readers.iter().any(|at| self.units.is_full(at.unit));
        if full || self.chain[result] >= MAX_CHAIN {
            return Reason::KernelTooLarge;
        }
        Reason::Fused(ratio)
    }

    /// The class of an operation. For a target with vectors, a gather of single elements is
    /// expensive.
    fn class(&self, id: NodeId) -> Class {
        match classify(self.module, self.program, id) {
            Class::Pointwise(_)
                if self.limits.lanes && gathers_singly(self.module, self.program, id) =>
            {
                Class::Pointwise(2)
            }
            class => class,
        }
    }

    /// Whether an operation of this class that reads this many elements for each of its own is a
    /// loop that should not be inside another one.
    fn is_long(&self, class: Class, reads: f64) -> bool {
        self.limits.lanes && class == Class::Loop && reads >= LONG_SUM
    }

    /// Whether gathering elements from memory is faster than computing them where they are
    /// gathered. Vector code has no branches, so it evaluates all parts of a concatenation for each
    /// element.
    fn is_slow_to_gather(&self, id: NodeId, result: ValueId, size: f64) -> bool {
        let op = &self.module[self.program.nodes[id].origin].op;
        self.limits.lanes
            && self.gathered[result]
            && self.readers[result].evaluations() - size >= MANY_LOOK_UPS
            && (matches!(op, Op::Concatenate(_)) || self.takes_operations(id, LONG_INDEX))
    }

    /// Whether computing an element takes at least `least` operations, counted over the nearest
    /// [`MAX_LOOKED_AT`] nodes. Moving an element does not count as an operation.
    fn takes_operations(&self, id: NodeId, least: usize) -> bool {
        let home = |id: NodeId| {
            let results = &self.program.nodes[id].results;
            results.first().map(|&v| self.home[v])
        };
        let own = home(id);
        let mut seen = vec![id];
        let mut count = 0;
        let mut next = 0;
        while let Some(&id) = seen.get(next)
            && count < least
        {
            next += 1;
            let Class::Pointwise(cost) = self.class(id) else {
                continue;
            };
            count += usize::from(cost > 0);
            for &operand in &self.program.nodes[id].operands {
                if let Def::Node(inner, _) = self.program.values[operand].def
                    && home(inner) == own
                    && seen.len() < MAX_LOOKED_AT
                    && !seen.contains(&inner)
                {
                    seen.push(inner);
                }
            }
        }
        count >= least
    }

    /// Whether computing an element needs functions that are slow in scalar code.
    fn calls(&self, id: NodeId, steps: u32) -> bool {
        let node = &self.program.nodes[id];
        let home = node.results.first().map(|&v| self.home[v]);
        is_function(self.module, self.program, node)
            || steps > 0
                && matches!(self.class(id), Class::Pointwise(_))
                && node.operands.iter().any(|&operand| {
                    let own = Some(self.home[operand]) == home;
                    match self.program.values[operand].def {
                        Def::Node(inner, _) => own && self.calls(inner, steps - 1),
                        _ => false,
                    }
                })
    }

    /// Whether a cheap operation reads, possibly through other cheap ones, an expensive value of
    /// the same shape that nothing else reads. One of the two has to be in memory. The result of
    /// the cheap operation is the better choice, because its readers then need no other operand of
    /// that operation.
    fn hides(&self, id: NodeId, steps: u32) -> bool {
        let node = &self.program.nodes[id];
        let &[result] = &node.results[..] else {
            return false;
        };
        let shape = |v: ValueId| &self.program.values[v].shape;
        let bits = |v: ValueId| shape(v).element_type.bits();
        node.operands.iter().any(|&operand| {
            let Def::Node(inner, 0) = self.program.values[operand].def else {
                return false;
            };
            let alike = shape(operand).dims == shape(result).dims && bits(operand) >= bits(result);
            let own = self.program_readers.is_read_once(operand)
                && self.home[operand] == self.home[result]
                && !self.from_constants[operand];
            alike
                && own
                && match self.class(inner) {
                    Class::Pointwise(2) | Class::Loop => true,
                    Class::Pointwise(_) => steps > 0 && self.hides(inner, steps - 1),
                    Class::Scan | Class::Update | Class::Library => false,
                }
        })
    }

    /// Merges the kernels that read a value at their own index. Returns whether any were merged.
    fn unite_readers(&mut self, id: NodeId, class: Class, result: ValueId) -> bool {
        let Some(domain) = self.domain(id, class) else {
            return false;
        };
        let tops = self.at_top(result, &domain);
        if tops.len() > MAX_PLACES {
            return false;
        }
        let mut united = false;
        for (i, &a) in tops.iter().enumerate() {
            for &b in &tops[i + 1..] {
                united |= self.units.unite(a, b);
            }
        }
        if united {
            let mut readers = std::mem::take(&mut self.readers[result]);
            readers.settle(&self.units);
            self.readers[result] = readers;
        }
        united
    }

    /// Records which operations of a region share a kernel.
    fn note_together(&mut self, region: &Region) {
        for &id in &region.nodes {
            let Some(unit) = self.unit_of[id] else {
                continue;
            };
            let roots = self.units.roots(unit);
            if roots.len() > 1 {
                self.clusters.together[id] = roots;
            }
        }
    }
}
