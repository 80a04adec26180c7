//! The decision which values are computed where they are read (fused) and which
//! are written to memory once, and what is written by one kernel.
//!
//! Every value is either *materialised* or recomputed by each kernel that reads
//! it. Walking from users to producers, the pass collects at which places of which
//! kernels a value would be evaluated if it were fused into everything that reads it;
//! a kernel evaluates it once per place. It compares the evaluations with the number
//! of elements: a cheap operation may be evaluated a few times over, an expensive one
//! only once, and a view, which costs as much as a load, any number of times.
//!
//! Where kernels have lanes, a sum of many elements is not computed inside of another one: it
//! would have none, and takes little memory beside what it is a sum of. An element that is
//! gathered by an index of its own is expensive there.
//!
//! A kernel whose innermost dimensions are short evaluates what does not depend on them once, if
//! it is in a loop: [`short`].
//!
//! A kernel may write several values. What is materialised and read at a kernel's own
//! index is computed and written there, if nothing in between needs it from memory;
//! and kernels over one domain that would all evaluate an expensive value become one.

mod classify;
mod evaluation_sites;
mod units;
mod unroll_short_dims;

use crate::limits::Limits;
use crate::program::{Def, Node, NodeId, NodeKind, Program, Region, ValueId};
pub use classify::{Class, classify};
use classify::{Scattered, gathers_few, scatters_singly};
use classify::{elements, gathers_singly, is_function, is_updated, is_view, reads_per_element};
use evaluation_sites::{Place, Places};
use smallvec::SmallVec;
use std::fmt;
use tegula_arena::SecondaryMap;
use tegula_ir::{Module, Op};
use units::{At, Domain, Readers, UnitId, Units};
use unroll_short_dims::Short;

/// Elements that a sum has at least that is not computed inside of another such one.
const LONG_SUM: f64 = 9.0;
/// Constants that are summed from which on it pays that runs need not do so.
const MANY_SUMMANDS: f64 = 4096.0;
/// How often an element of a cheap value may be evaluated.
const CHEAP_RATIO: f64 = 3.0;
/// How often an element of an expensive value may be evaluated.
const EXPENSIVE_RATIO: f64 = 1.0;
/// Cheap operations between what is read and an expensive operation whose place in memory
/// it takes.
const MAX_BETWEEN: u32 = 8;
/// The longest chain of operations fused into one another: emitting recurses along it.
const MAX_CHAIN: u32 = 200;
/// Operations on an index that take longer without lanes than with them, the index written and
/// read again: about 0.1 ns each, and half a nanosecond.
const LONG_INDEX: usize = 8;
/// Evaluations more than elements that are worth a kernel of its own.
const MANY_LOOK_UPS: f64 = 256.0;
/// Nodes behind a value that are looked at to count its operations.
const MAX_LOOKED_AT: usize = 64;
/// Operations that one kernel may evaluate: the time to compile a body grows faster
/// than it does, because more lives at once than there are registers.
const MAX_BODY: u32 = 400;
/// Updates of an array, one after the other, that are looked at.
const MAX_UPDATES: usize = 8;
/// How many times as large an array is as a part of it that is worth memory of its own, when the
/// array is written over.
const MUCH_LARGER: f64 = 16.0;
/// Places at which one value may be evaluated.
const MAX_PLACES: usize = 16;

/// Why a value is fused or materialised.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Reason {
    /// Nothing reads it.
    #[default]
    Unused,
    /// A parameter or constant, or the state of a loop: in memory anyhow.
    GivenInMemory,
    /// The program, a loop or a branch gives it as a result.
    RegionResult,
    /// A library call or control flow makes it or reads it.
    LibraryOrControl,
    /// It updates an array in place, runs along a dimension, or has several results.
    OwnKernel,
    /// Fused, it would be evaluated this many times per element: too often.
    TooOften(f64),
    /// A sum inside of another sum.
    InsideALoop,
    /// What is scattered, by functions that lanes compute, or where it is, by many operations: a
    /// scatter has no lanes.
    Scattered,
    /// The kernels that read it evaluate too many operations already.
    KernelTooLarge,
    /// Fused into its readers, evaluated this many times per element.
    Fused(f64),
    /// Computed from constants alone, at no cost to speak of: fused everywhere.
    FromConstants,
    /// A sum over constants alone: it is the same in every run, which need not compute it.
    SumOfConstants,
    /// Kept by a kernel of rows for itself, a row at a time.
    KeptByRow,
    /// Read from an array that is written over in place, and needed by the update itself: read
    /// there, the array would have to be copied before it is written over.
    BeforeUpdate,
}

impl Reason {
    /// Whether the value is written to memory.
    pub fn is_materialised(self) -> bool {
        !matches!(
            self,
            Self::Unused | Self::Fused(_) | Self::FromConstants | Self::KeptByRow
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unused => f.write_str("unused"),
            Self::GivenInMemory => f.write_str("already in memory"),
            Self::RegionResult => f.write_str("a result of its region"),
            Self::LibraryOrControl => f.write_str("made or read by a library call or control flow"),
            Self::OwnKernel => {
                f.write_str("updates in place, runs along a dimension or has several results")
            }
            Self::TooOften(ratio) => {
                write!(f, "fused, each element would be evaluated {ratio:.3} times")
            }
            Self::InsideALoop => f.write_str("a long sum, read inside of another one"),
            Self::Scattered => f.write_str("scattered, one element after the other"),
            Self::KernelTooLarge => write!(
                f,
                "its readers would exceed {MAX_BODY} operations or a chain of {MAX_CHAIN}"
            ),
            Self::Fused(ratio) => write!(f, "fused, evaluated {ratio:.3} times per element"),
            Self::FromConstants => f.write_str("fused, from constants alone"),
            Self::SumOfConstants => f.write_str("a sum over constants alone"),
            Self::KeptByRow => f.write_str("kept by its kernel, a row at a time"),
            Self::BeforeUpdate => f.write_str("read from an array before that is updated in place"),
        }
    }
}

/// What is fused and what is materialised.
#[derive(Clone, Debug, Default)]
pub struct Clusters {
    reasons: SecondaryMap<ValueId, Reason>,
    /// By operation: those that one kernel computes, if there are several, in the
    /// program's order.
    together: SecondaryMap<NodeId, SmallVec<[NodeId; 2]>>,
}

impl Clusters {
    /// Why a value is fused or not.
    pub fn reason(&self, value: ValueId) -> Reason {
        self.reasons[value]
    }

    /// Whether a value is written to memory.
    pub fn is_materialised(&self, value: ValueId) -> bool {
        self.reasons[value].is_materialised()
    }

    /// Notes that a kernel of rows keeps a value for itself.
    pub(crate) fn keep(&mut self, value: ValueId) {
        self.reasons[value] = Reason::KeptByRow;
    }

    /// The operations whose results the kernel of an operation writes, in the program's
    /// order; empty if it is alone.
    pub fn together(&self, node: NodeId) -> &[NodeId] {
        &self.together[node]
    }
}

/// Decides for every value of a flattened program, for kernels within limits.
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
    /// What a long sum reads, or what that is computed from.
    inside_a_loop: SecondaryMap<ValueId, bool>,
    /// What is scattered, a few elements at each index, and the indices.
    scattered: SecondaryMap<ValueId, Scattered>,
    /// What is gathered, a few elements at each index, or what that is computed from.
    gathered: SecondaryMap<ValueId, bool>,
    /// The readers seen so far.
    readers: SecondaryMap<ValueId, Readers>,
    /// Why a reader seen so far needs the value in memory.
    must: SecondaryMap<ValueId, Option<Reason>>,
    /// The longest chain of fused readers.
    chain: SecondaryMap<ValueId, u32>,
    from_constants: SecondaryMap<ValueId, bool>,
    /// Whether a value follows from constants by any operations.
    only_constants: SecondaryMap<ValueId, bool>,
    /// The region that a node's results belong to, by number.
    home: SecondaryMap<ValueId, u32>,
    regions: u32,
    /// The loops and branches around what is looked at: the region that each stands
    /// in, and its unit.
    inside: Vec<(u32, UnitId)>,
    units: Units,
    /// The unit that writes a node's results.
    unit_of: SecondaryMap<NodeId, Option<UnitId>>,
    places: Places<'a>,
    /// The nodes and regions that read each value.
    program_readers: crate::analysis::readers::Readers,
}

impl Pass<'_> {
    /// Finds values that follow from splat constants by cheap operations, or from any constants, and
    /// notes which region each value belongs to.
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
                // A chain of cheap operations is still cheap only if it is short.
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

    /// A loop or a conditional.
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
        // A loop over no state has no result, and nothing to say where it stands.
        let home = node.results.first().map_or(0, |&v| self.home[v]);
        self.inside.push((home, unit));
        for inner in node.kind.regions() {
            self.region(inner);
        }
        self.inside.pop();
    }

    /// What a unit needs in memory.
    fn need(&mut self, value: ValueId, unit: UnitId, reason: Reason) {
        self.must[value] = Some(reason);
        self.readers[value].memory.push(unit);
    }

    /// If a value comes from around the region that reads it: the loop or branch that
    /// does so, in the value's own region, reads it from memory.
    fn read_around(&mut self, value: ValueId) {
        let home = self.home[value];
        let around = self.inside.iter().find(|(region, _)| *region == home);
        if let Some(&(_, unit)) = around {
            self.need(value, unit, Reason::RegionResult);
        }
    }

    /// Tells a unit who reads a value that it writes.
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
        for &v in &node.results {
            self.clusters.reasons[v] = reason;
        }
        let at = match node.results.first() {
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
        let chain = match node.results.first() {
            Some(&result) if !reason.is_materialised() => self.chain[result] + 1,
            _ => 0,
        };
        for (i, &operand) in node.operands.iter().enumerate() {
            self.operand(id, i, class, &at);
            if !self.from_constants[operand] {
                self.chain[operand] = self.chain[operand].max(chain);
            }
        }
    }

    /// Notes who reads an operand of a node that is evaluated at places.
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
        // A loop would evaluate a value from around it in every iteration.
        let home = node.results.first().map_or(0, |&v| self.home[v]);
        if self.home[operand] != home {
            self.must[operand] = Some(Reason::RegionResult);
            return self.read_around(operand);
        }
        let times = reads_per_element(module, program, node, i);
        let inside = |&v: &ValueId| !self.clusters.is_materialised(v) && self.inside_a_loop[v];
        let is_inside = node.results.first().is_some_and(inside);
        self.inside_a_loop[operand] |= is_inside || self.is_long(class, times);
        if self.limits.lanes && self.scattered[operand] != Scattered::Update {
            let scattered = scatters_singly(module, program, node, i);
            if scattered != Scattered::No {
                self.scattered[operand] = scattered;
            }
        }
        let is_fused = |&v: &ValueId| !self.clusters.is_materialised(v) && self.gathered[v];
        let is_gathered = node.results.first().is_some_and(is_fused);
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

    /// Whether an operand of an update is computed from the array that is updated, or from what
    /// that was before other updates, and is little beside it. The elements that are written over
    /// may be read where they lie.
    fn reads_updated(&self, id: NodeId, operand: ValueId) -> bool {
        let (module, program) = (self.module, self.program);
        let node = &program.nodes[id];
        let home = |v: &ValueId| self.home[*v];
        let own = node.results.first().map(home);
        // The array in all its states.
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

    /// Whether a slice of an array is what an update writes over.
    fn reads_in_place(&self, update: &Node, slice: &Node) -> bool {
        let op = |node: &Node| &self.module[node.origin].op;
        let shape = |v: Option<&ValueId>| v.map(|&v| &self.program.values[v].shape.dims);
        matches!(op(update), Op::DynamicUpdateSlice)
            && matches!(op(slice), Op::DynamicSlice(_))
            && update.operands.first() == slice.operands.first()
            && update.operands.get(2..) == slice.operands.get(1..)
            && shape(update.operands.get(1)) == shape(slice.results.first())
    }

    /// The short dimensions of what a node's kernel writes.
    fn short(&self, id: NodeId, class: Class) -> Short {
        let domain = self.domain(id, class);
        domain.map_or(Short::default(), |domain| {
            Short::of_result(&domain.dims, self.limits.short)
        })
    }

    /// The unit that writes a node's results.
    fn unit_of_root(&mut self, id: NodeId, position: usize, class: Class) -> UnitId {
        let domain = self.domain(id, class);
        let node = &self.program.nodes[id];
        let unit = match (&domain, node.results.first()) {
            (Some(domain), Some(&result)) => self.taken_in(id, position, domain, result),
            _ => None,
        };
        let unit = unit.unwrap_or_else(|| self.units.add(id, position, domain));
        self.unit_of[id] = Some(unit);
        for &v in &node.results {
            self.note_readers(v, unit);
        }
        unit
    }

    /// What the kernel of a node computes over, if it may compute other values too.
    fn domain(&self, id: NodeId, class: Class) -> Option<Domain> {
        let node = &self.program.nodes[id];
        let [result] = node.results[..] else {
            return None;
        };
        if self.clusters.reasons[result] == Reason::SumOfConstants {
            return None;
        }
        // Of what is in memory already, these are other names.
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

    /// The kernels that read a value at their own index and nowhere else.
    fn at_top(&self, value: ValueId, domain: &Domain) -> SmallVec<[UnitId; 4]> {
        // Sorted by unit and place, of which the top is the first.
        let by_unit = self.readers[value].at.chunk_by(|a, b| a.unit == b.unit);
        by_unit
            .filter(|at| matches!(at, [at] if at.place == Place::TOP))
            .map(|at| at[0].unit)
            .filter(|&unit| self.units.computes_over(unit, domain))
            .collect()
    }

    /// Finds a kernel that reads the result at its own index and can write it too.
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
            // What it is a view of is evaluated as often, and decides.
            _ if is_view(self.module, self.program, id) => f64::INFINITY,
            Class::Pointwise(0 | 1) => CHEAP_RATIO,
            Class::Pointwise(_) | Class::Loop => EXPENSIVE_RATIO,
        };
        let [result] = node.results[..] else {
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

    /// What an operation costs, by the kernels that there are.
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

    /// Whether an operation of a class that reads so many elements for each of its own is a
    /// loop that another one should not have inside.
    fn is_long(&self, class: Class, reads: f64) -> bool {
        self.limits.lanes && class == Class::Loop && reads >= LONG_SUM
    }

    /// Whether elements that are gathered are looked up faster than computed: lanes that gather have no
    /// branches, so of what is put together they compute all parts.
    fn is_slow_to_gather(&self, id: NodeId, result: ValueId, size: f64) -> bool {
        let op = &self.module[self.program.nodes[id].origin].op;
        self.limits.lanes
            && self.gathered[result]
            && self.readers[result].evaluations() - size >= MANY_LOOK_UPS
            && (matches!(op, Op::Concatenate(_)) || self.takes_operations(id, LONG_INDEX))
    }

    /// Whether at least so many operations compute an element, of the [`MAX_LOOKED_AT`] nodes
    /// that are nearest. To move an element is no operation.
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

    /// Whether an element is computed by functions that are calls where there are no lanes.
    fn calls(&self, id: NodeId, steps: u32) -> bool {
        let node = &self.program.nodes[id];
        let home = node.results.first().map(|&v| self.home[v]);
        is_function(self.module, node)
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

    /// Whether a cheap operation is of as many elements of an expensive one that nothing
    /// else reads: one of the two will be in memory, and whoever reads this one then reads
    /// nothing else that it is made from.
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

    /// Makes one kernel of those that read a value at their own index. Gives whether
    /// any became one.
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

    /// Writes down which operations of a region share a kernel.
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
