//! The decision which values are computed where they are read (fused) and which
//! are written to memory once (roots of kernels).
//!
//! Every value is either *materialised* or recomputed by each kernel that reads
//! it. Walking from users to producers, the pass counts how often a value's
//! elements would be evaluated if it were fused into everything that reads it,
//! and compares that with its number of elements. A cheap operation may be
//! evaluated a few times over, an expensive one only once.

use crate::contraction::is_product_of;
use crate::program::{Def, Node, NodeId, NodeKind, Program, Region, ValueId};
use cranelift_entity::SecondaryMap;
use std::fmt;
use tegula_ir::{Binary, Module, Op, Unary};

/// How often an element of a cheap value may be evaluated.
const CHEAP_RATIO: f64 = 3.0;
/// How often an element of an expensive value may be evaluated.
const EXPENSIVE_RATIO: f64 = 1.0;
/// The longest chain of operations fused into one another.
const MAX_CHAIN: u32 = 48;

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
    /// It updates an array in place, or has several results.
    OwnKernel,
    /// Fused, it would be evaluated this many times per element: too often.
    TooOften(f64),
    /// The chain of fused operations would be too long.
    ChainTooLong,
    /// Fused into its readers, evaluated this many times per element.
    Fused(f64),
    /// Computed from constants alone, at no cost to speak of: fused everywhere.
    FromConstants,
}

impl Reason {
    /// Whether the value is written to memory.
    pub fn is_materialised(self) -> bool {
        !matches!(self, Self::Unused | Self::Fused(_) | Self::FromConstants)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unused => f.write_str("unused"),
            Self::GivenInMemory => f.write_str("already in memory"),
            Self::RegionResult => f.write_str("a result of its region"),
            Self::LibraryOrControl => f.write_str("made or read by a library call or control flow"),
            Self::OwnKernel => f.write_str("updates in place or has several results"),
            Self::TooOften(ratio) => {
                write!(f, "fused, each element would be evaluated {ratio:.3} times")
            }
            Self::ChainTooLong => write!(f, "the fused chain would exceed {MAX_CHAIN} operations"),
            Self::Fused(ratio) => write!(f, "fused, evaluated {ratio:.3} times per element"),
            Self::FromConstants => f.write_str("fused, from constants alone"),
        }
    }
}

/// What is fused and what is materialised.
#[derive(Clone, Debug, Default)]
pub struct Clusters {
    reasons: SecondaryMap<ValueId, Reason>,
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
}

/// What a backend-independent view of an operation says about fusing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Each element is computed from a few elements of the operands; the number
    /// is how expensive that is: 0 moves data, 1 is arithmetic, 2 transcendental.
    Pointwise(u8),
    /// Each element is computed by a loop.
    Loop,
    /// Writes part of an array in place.
    Update,
    /// A named routine.
    Library,
}

/// The class of an operation. Control flow is not asked for.
pub fn classify(module: &Module, program: &Program, node: NodeId) -> Class {
    let node = &program.nodes[node];
    if matches!(node.kind, NodeKind::Contraction(_)) {
        return Class::Library;
    }
    match &module[node.origin].op {
        Op::Unary(op) => Class::Pointwise(unary_cost(*op)),
        Op::Binary(Binary::Divide | Binary::Remainder | Binary::Power | Binary::Atan2) => {
            Class::Pointwise(2)
        }
        Op::Binary(_)
        | Op::Compare { .. }
        | Op::Select
        | Op::Clamp
        | Op::Convert
        | Op::ReducePrecision { .. } => Class::Pointwise(1),
        Op::BitcastConvert if is_reinterpretation(program, node) => Class::Library,
        Op::BitcastConvert => Class::Pointwise(1),
        Op::Map { .. } => Class::Pointwise(2),
        Op::Gather { .. } | Op::DynamicSlice(_) => Class::Pointwise(1),
        Op::Iota(_)
        | Op::GetDimensionSize(_)
        | Op::Broadcast(_)
        | Op::Reshape
        | Op::Bitcast
        | Op::Transpose(_)
        | Op::Reverse(_)
        | Op::Slice(_)
        | Op::Pad(_)
        | Op::Concatenate(_) => Class::Pointwise(0),
        // Dots that a routine computes are contractions.
        Op::Reduce { .. } | Op::ReduceWindow { .. } | Op::Dot { .. } => Class::Loop,
        Op::Convolution { .. } => {
            let ty = |v: Option<&ValueId>| v.map(|&v| program.values[v].shape.element_type);
            let [lhs, rhs] = [node.operands.first(), node.operands.get(1)].map(ty);
            match (lhs, rhs, ty(node.results.first())) {
                (Some(lhs), Some(rhs), Some(out)) if is_product_of(lhs, rhs, out) => Class::Library,
                _ => Class::Loop,
            }
        }
        Op::DynamicUpdateSlice | Op::Scatter { .. } | Op::SelectAndScatter { .. } => Class::Update,
        _ => Class::Library,
    }
}

/// Whether a bitcast-convert changes the width of elements: the bytes stay.
pub(crate) fn is_reinterpretation(program: &Program, node: &Node) -> bool {
    let bits = |v: Option<&ValueId>| v.map(|&v| program.values[v].shape.element_type.bits());
    bits(node.operands.first()) != bits(node.results.first())
}

fn unary_cost(op: Unary) -> u8 {
    match op {
        Unary::Abs
        | Unary::Ceil
        | Unary::Floor
        | Unary::Imag
        | Unary::IsFinite
        | Unary::Negate
        | Unary::Not
        | Unary::Real
        | Unary::RoundNearestEven
        | Unary::Sign
        | Unary::CountLeadingZeros
        | Unary::Popcnt => 1,
        _ => 2,
    }
}

/// Decides for every value of a flattened program.
pub fn cluster(module: &Module, program: &Program) -> Clusters {
    let mut pass = Pass {
        module,
        program,
        clusters: Clusters::default(),
        evaluations: SecondaryMap::default(),
        must: SecondaryMap::default(),
        chain: SecondaryMap::default(),
        from_constants: SecondaryMap::default(),
        home: SecondaryMap::default(),
        regions: 0,
    };
    for (id, value) in &program.values {
        if matches!(value.def, Def::Parameter(_) | Def::LoopState) {
            pass.clusters.reasons[id] = Reason::GivenInMemory;
        }
        if let Def::Constant(literal) = &value.def {
            let splat = is_splat(literal.bytes(), literal.element_type().storage_bytes());
            pass.from_constants[id] = splat;
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
    /// How many element evaluations the readers seen so far ask for.
    evaluations: SecondaryMap<ValueId, f64>,
    /// Why a reader seen so far needs the value in memory.
    must: SecondaryMap<ValueId, Option<Reason>>,
    /// The longest chain of fused readers.
    chain: SecondaryMap<ValueId, u32>,
    from_constants: SecondaryMap<ValueId, bool>,
    /// The region that a node's results belong to, by number.
    home: SecondaryMap<ValueId, u32>,
    regions: u32,
}

impl Pass<'_> {
    /// Finds values that follow from splat constants by cheap operations, and
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
            for &result in &node.results {
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
            self.need(result, Reason::RegionResult);
        }
        for &id in region.nodes.iter().rev() {
            let node = &self.program.nodes[id];
            let inner = node.kind.regions();
            if inner.is_empty() {
                self.operation(id);
                continue;
            }
            for inner in inner {
                self.region(inner);
            }
            for &v in &node.results {
                self.clusters.reasons[v] = Reason::LibraryOrControl;
            }
            for &v in &node.operands {
                self.need(v, Reason::LibraryOrControl);
            }
        }
    }

    fn need(&mut self, value: ValueId, reason: Reason) {
        self.must[value] = Some(reason);
    }

    fn operation(&mut self, id: NodeId) {
        let node = &self.program.nodes[id];
        let class = classify(self.module, self.program, id);
        let reason = self.decide(id, class);
        for &v in &node.results {
            self.clusters.reasons[v] = reason;
        }
        let root = reason.is_materialised();
        let Some(&result) = node.results.first() else {
            // Done for its effect alone.
            for &operand in &node.operands {
                self.need(operand, Reason::LibraryOrControl);
            }
            return;
        };
        let evaluations = if root {
            elements(self.program, result)
        } else {
            self.evaluations[result]
        };
        let chain = if root { 0 } else { self.chain[result] + 1 };
        for (i, &operand) in node.operands.iter().enumerate() {
            if class == Class::Library || (class == Class::Update && self.is_updated(id, i)) {
                self.need(operand, Reason::LibraryOrControl);
            }
            // A loop would evaluate a value from around it in every iteration.
            let captured = self.home[operand] != self.home[result];
            if captured && !self.from_constants[operand] {
                self.need(operand, Reason::RegionResult);
            }
            self.evaluations[operand] += evaluations * self.reads_per_element(id, i);
            if !self.from_constants[operand] {
                self.chain[operand] = self.chain[operand].max(chain);
            }
        }
    }

    fn decide(&self, id: NodeId, class: Class) -> Reason {
        let node = &self.program.nodes[id];
        let [result] = node.results[..] else {
            return Reason::OwnKernel;
        };
        let ratio = self.evaluations[result] / elements(self.program, result).max(1.0);
        let limit = match class {
            Class::Library => return Reason::LibraryOrControl,
            Class::Update => return Reason::OwnKernel,
            Class::Pointwise(0 | 1) => CHEAP_RATIO,
            Class::Pointwise(_) | Class::Loop => EXPENSIVE_RATIO,
        };
        if let Some(reason) = self.must[result] {
            return reason;
        }
        if self.from_constants[result] {
            return Reason::FromConstants;
        }
        if ratio > limit {
            return Reason::TooOften(ratio);
        }
        if self.chain[result] >= MAX_CHAIN {
            return Reason::ChainTooLong;
        }
        Reason::Fused(ratio)
    }

    /// Whether an operand of an update is the array that is updated.
    fn is_updated(&self, id: NodeId, operand: usize) -> bool {
        let node = &self.program.nodes[id];
        match &self.module[node.origin].op {
            Op::Scatter { .. } => operand < node.results.len(),
            Op::DynamicUpdateSlice => operand == 0,
            // Select-and-scatter walks its operands with loops of its own.
            _ => operand < 2,
        }
    }

    /// How many elements of an operand one element of the result reads.
    fn reads_per_element(&self, id: NodeId, operand: usize) -> f64 {
        let node = &self.program.nodes[id];
        let result = node
            .results
            .first()
            .map_or(1.0, |&v| elements(self.program, v))
            .max(1.0);
        let size = |i: usize| {
            node.operands
                .get(i)
                .map_or(1.0, |&v| elements(self.program, v))
        };
        match &self.module[node.origin].op {
            Op::Reduce { .. } if operand < node.operands.len() / 2 => size(operand) / result,
            Op::ReduceWindow { window, .. } if operand < node.operands.len() / 2 => {
                window.iter().map(|w| w.size as f64).product()
            }
            Op::Dot { dims, .. } => {
                contracted(self.program, node.operands.first(), &dims.lhs_contracting)
            }
            Op::Convolution { .. } => 1e9,
            // The update's own elements are visited once each.
            Op::DynamicUpdateSlice | Op::Scatter { .. } => size(operand) / result,
            Op::Pad(_) | Op::Concatenate(_) => size(operand).min(result) / result,
            _ => 1.0,
        }
    }
}

/// How many elements a value has; where that is known only at run time, a guess.
fn elements(program: &Program, value: ValueId) -> f64 {
    let dims = &program.values[value].shape.dims;
    dims.iter().map(|dim| dim.typical() as f64).product()
}

fn contracted(program: &Program, lhs: Option<&ValueId>, dims: &[i64]) -> f64 {
    let Some(&lhs) = lhs else { return 1.0 };
    let shape = &program.values[lhs].shape;
    let size = |&d: &i64| Some(shape.dims.get(usize::try_from(d).ok()?)?.typical());
    dims.iter().map(|d| size(d).unwrap_or(1) as f64).product()
}
