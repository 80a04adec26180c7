//! The fused graph: what a program becomes once clusters are kernels.
//!
//! A [`FusedRegion`] is a petgraph graph whose nodes are [`Unit`]s and whose
//! edges are the values that one unit makes and another reads. Node indices in
//! ascending order are a valid schedule.

use crate::cluster::Clusters;
use crate::kernel::{Access, Kernel};
use crate::program::contraction::Contraction;
use crate::program::{NodeId, Program, ValueId};
use petgraph::graph::DiGraph;
use tegula_ir::Op;

/// A named routine of a backend's runtime.
#[derive(Clone, Debug, PartialEq)]
pub enum LibraryOp {
    /// A matrix product over batches, of types that [`is_product_of`] lists. A third
    /// operand, of the result's shape and type, which is f32 or f64, is added to it; the
    /// result may lie in its place.
    ///
    /// [`is_product_of`]: crate::is_product_of
    Dot(Box<Contraction>),
    /// Sorts all operands together along a dimension.
    Sort {
        /// The dimension sorted along.
        dimension: usize,
        /// A kernel without a domain. Its parameters are scalars: for each operand
        /// the element of `a` and of `b`, then the `pred` it writes: whether `a`
        /// goes before `b`.
        comparator: Box<Kernel>,
    },
    /// Any other operation, by its own attributes; it calls no computation.
    Operation(Box<Op>),
}

impl LibraryOp {
    /// Whether the routine may write a result over an operand: a dot over what it is added to,
    /// a sort over what it sorts.
    pub fn may_write_over(&self, operand: usize, result: usize) -> bool {
        match self {
            Self::Dot(_) => operand == 2,
            Self::Sort { .. } => operand == result,
            Self::Operation(_) => false,
        }
    }

    /// The routine's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Dot(_) => "dot",
            Self::Sort { .. } => "sort",
            Self::Operation(op) => op.opcode().name(),
        }
    }
}

/// A kernel and the values its parameters are.
#[derive(Clone, Debug)]
pub struct BoundKernel {
    /// The kernel.
    pub kernel: Kernel,
    /// One value per parameter that the kernel is [given](Kernel::given).
    pub args: Vec<ValueId>,
}

/// One step of a fused region.
#[derive(Clone, Debug)]
pub enum Unit {
    /// A generated kernel.
    Kernel(BoundKernel),
    /// The same bytes under another value, whose dimensions and element type may
    /// differ.
    Copy {
        /// What is copied.
        from: ValueId,
        /// What it becomes.
        to: ValueId,
    },
    /// A call of a named routine.
    Library {
        /// Which.
        op: LibraryOp,
        /// What it reads.
        operands: Vec<ValueId>,
        /// What it writes.
        results: Vec<ValueId>,
    },
    /// A loop.
    While {
        /// Computes the predicate from the states.
        condition: FusedRegion,
        /// Computes the next states from the states.
        body: FusedRegion,
        /// The states at the start of an iteration.
        states: Vec<ValueId>,
        /// Their first values.
        operands: Vec<ValueId>,
        /// Their last values.
        results: Vec<ValueId>,
    },
    /// A choice.
    Conditional {
        /// A pred or an s32.
        selector: ValueId,
        /// By selector value; a pred selects 0 for true and 1 for false.
        branches: Vec<FusedRegion>,
        /// What the branch taken gives.
        results: Vec<ValueId>,
    },
}

/// Units in order, and what the region gives.
#[derive(Clone, Debug, Default)]
pub struct FusedRegion {
    /// The units; edges are the values passed.
    pub graph: DiGraph<(NodeId, Unit), ValueId>,
    /// What the region gives.
    pub results: Vec<ValueId>,
}

/// A fused program.
#[derive(Clone, Debug)]
pub struct Fused {
    /// The flattened program.
    pub program: Program,
    /// What was fused, and why.
    pub clusters: Clusters,
    /// The whole program.
    pub entry: FusedRegion,
}

/// The units of each step of a region, in the program's order or that of a schedule.
pub(crate) type Steps = Vec<Vec<(NodeId, Unit)>>;
/// For each step, those that cannot come before it is done.
pub(crate) type Waiting = Vec<Vec<usize>>;

impl Unit {
    /// The values of its region, or around it, that it reads.
    pub fn reads(&self) -> Vec<ValueId> {
        match self {
            Self::Kernel(bound) => bound.with_access(|a| a != Access::Write),
            Self::Copy { from, .. } => vec![*from],
            Self::Library { operands, .. } => operands.clone(),
            Self::While {
                condition,
                body,
                operands,
                ..
            } => {
                let mut all = operands.clone();
                all.extend(condition.reads());
                all.extend(body.reads());
                all
            }
            Self::Conditional {
                selector, branches, ..
            } => {
                let mut all = vec![*selector];
                branches.iter().for_each(|b| all.extend(b.reads()));
                all
            }
        }
    }

    /// The values it makes or changes.
    pub fn writes(&self) -> Vec<ValueId> {
        match self {
            Self::Kernel(bound) => bound.with_access(|a| a != Access::Read),
            Self::Copy { to, .. } => vec![*to],
            Self::Library { results, .. }
            | Self::While { results, .. }
            | Self::Conditional { results, .. } => results.clone(),
        }
    }
}

impl FusedRegion {
    /// The units in the order of a valid schedule.
    pub fn units(&self) -> impl Iterator<Item = (NodeId, &Unit)> {
        self.graph.node_weights().map(|(id, unit)| (*id, unit))
    }

    /// Every value that a unit reads or that the region gives.
    pub fn reads(&self) -> impl Iterator<Item = ValueId> {
        let reads = self.units().flat_map(|(_, unit)| unit.reads());
        reads.chain(self.results.iter().copied())
    }
}

impl BoundKernel {
    /// The values of the parameters with a wanted access.
    pub(crate) fn with_access(&self, wanted: impl Fn(Access) -> bool) -> Vec<ValueId> {
        let pairs = self.kernel.params.iter().zip(&self.args);
        pairs
            .filter(|(p, _)| wanted(p.access))
            .map(|(_, &v)| v)
            .collect()
    }
}
