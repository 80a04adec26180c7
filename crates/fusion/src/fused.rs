//! The fused graph: the form of a program after clusters have become kernels.
//!
//! A [`FusedRegion`] is a petgraph graph. Its nodes are [`Unit`]s, and its edges are the values
//! that one unit produces and another reads. Node indices in ascending order are a valid schedule.

use crate::cluster::Clusters;
use crate::kernel::{Access, Kernel};
use crate::program::contraction::Contraction;
use crate::program::{NodeId, Program, ValueId};
use petgraph::graph::DiGraph;
use tegula_ir::Op;

/// A named routine of a backend's runtime.
#[derive(Clone, Debug, PartialEq)]
pub enum LibraryOp {
    /// A batched matrix product of types for which [`is_product_of`] holds. A third operand, of the
    /// result's shape and type, which is f32 or f64, is added to it; the result may share that
    /// operand's memory.
    ///
    /// [`is_product_of`]: crate::is_product_of
    Dot(Box<Contraction>),
    /// Sorts all operands together along a dimension.
    Sort {
        /// The dimension to sort along.
        dimension: usize,
        /// A kernel without a domain, whose parameters are scalars: for each operand an element of
        /// `a` and one of `b`, then the `pred` that it writes, which says whether `a` goes before
        /// `b`.
        comparator: Box<Kernel>,
    },
    /// Any other operation that calls no computation, with its attributes.
    Operation(Box<Op>),
}

impl LibraryOp {
    /// Whether the routine may write this result over this operand: a dot over the operand that is
    /// added to it, a sort over the array that it sorts.
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

/// A kernel with the values of its parameters.
#[derive(Clone, Debug)]
pub struct BoundKernel {
    /// The kernel.
    pub kernel: Kernel,
    /// One value for each parameter that the kernel is [given](Kernel::given).
    pub args: Vec<ValueId>,
}

/// One step of a fused region.
#[derive(Clone, Debug)]
pub enum Unit {
    /// A generated kernel.
    Kernel(BoundKernel),
    /// Copies the bytes of a value to another, whose dimensions and element type may differ.
    Copy {
        /// The source.
        from: ValueId,
        /// The destination.
        to: ValueId,
    },
    /// A call of a library routine.
    Library {
        /// The routine.
        op: LibraryOp,
        /// The values that it reads.
        operands: Vec<ValueId>,
        /// The values that it writes.
        results: Vec<ValueId>,
    },
    /// A loop.
    While {
        /// Computes from the states whether to go on.
        condition: FusedRegion,
        /// Computes the next states from the states.
        body: FusedRegion,
        /// The states at the start of an iteration.
        states: Vec<ValueId>,
        /// The initial states.
        operands: Vec<ValueId>,
        /// The states after the last iteration.
        results: Vec<ValueId>,
    },
    /// A conditional.
    Conditional {
        /// A `pred` or an `s32`.
        selector: ValueId,
        /// The branches by selector value; a `pred` selects 0 for true and 1 for false.
        branches: Vec<FusedRegion>,
        /// The results of the branch that runs.
        results: Vec<ValueId>,
    },
}

/// Units in order, and the region's results.
#[derive(Clone, Debug, Default)]
pub struct FusedRegion {
    /// The units; edges are the values passed between them.
    pub graph: DiGraph<(NodeId, Unit), ValueId>,
    /// The region's results.
    pub results: Vec<ValueId>,
}

/// A fused program.
#[derive(Clone, Debug)]
pub struct Fused {
    /// The flattened program.
    pub program: Program,
    /// Which values were fused, and why.
    pub clusters: Clusters,
    /// The region of the whole program.
    pub entry: FusedRegion,
}

/// The units of each step of a region, in the program's order or in the order of a schedule.
pub(crate) type Steps = Vec<Vec<(NodeId, Unit)>>;
/// For each step, the steps that must come after it.
pub(crate) type Waiting = Vec<Vec<usize>>;

impl Unit {
    /// The values that the unit reads from its own region or from enclosing ones.
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

    /// The values that the unit produces or changes.
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

    /// Every value that a unit reads or that is a result of the region.
    pub fn reads(&self) -> impl Iterator<Item = ValueId> {
        let reads = self.units().flat_map(|(_, unit)| unit.reads());
        reads.chain(self.results.iter().copied())
    }
}

impl BoundKernel {
    /// The values of those parameters whose access satisfies `wanted`.
    pub(crate) fn with_access(&self, wanted: impl Fn(Access) -> bool) -> Vec<ValueId> {
        let pairs = self.kernel.params.iter().zip(&self.args);
        pairs
            .filter(|(p, _)| wanted(p.access))
            .map(|(_, &v)| v)
            .collect()
    }
}
