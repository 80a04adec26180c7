//! The flattened program: regions of nodes over array values, with no tuples,
//! calls or copies left.
//!
//! A node stands for one HLO instruction at one place: an instruction of a
//! computation that is called twice gives two nodes. Loops and conditionals hold
//! regions; a region sees its own values, and the values around it that it uses
//! unchanged (a loop state that an iteration passes through is not carried).

pub(crate) mod contraction;
pub(crate) mod flatten;
pub(crate) mod text;

use contraction::Contraction;
use smallvec::SmallVec;
use tegula_arena::{Arena, entity_impl};
use tegula_ir::{ArrayShape, InstructionId, Literal, Shape};

/// An array value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(u32);
entity_impl!(ValueId, "x");

/// A node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);
entity_impl!(NodeId, "n");

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Def {
    /// A parameter of the program, by flattened number.
    Parameter(usize),
    /// A constant.
    Constant(Literal),
    /// A result of a node.
    Node(NodeId, usize),
    /// The state of a loop at the start of an iteration.
    LoopState,
}

/// An array value of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Element type and dimensions; no layout.
    pub shape: ArrayShape,
    /// Where it comes from.
    pub def: Def,
}

/// What a node does.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// The operation of the node's instruction.
    Op,
    /// A dot, the node's instruction, with what was folded into it; a third operand is
    /// added to the product.
    Contraction(Box<Contraction>),
    /// A loop. Operands are the carried states' first values, results their last.
    While {
        /// Ends in one pred scalar: whether to go on.
        condition: Region,
        /// Ends in the next states.
        body: Region,
        /// The states at the start of an iteration, seen by both regions.
        states: Vec<ValueId>,
    },
    /// A choice. The operand is the selector, results those of the region taken.
    Conditional {
        /// By selector value; a pred selects 0 for true and 1 for false.
        branches: Vec<Region>,
    },
}

impl NodeKind {
    /// The regions inside.
    pub fn regions(&self) -> SmallVec<[&Region; 2]> {
        match self {
            Self::Op | Self::Contraction(_) => SmallVec::new(),
            Self::While {
                condition, body, ..
            } => SmallVec::from_slice(&[condition, body]),
            Self::Conditional { branches } => branches.iter().collect(),
        }
    }
}

/// One operation at one place.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it does.
    pub kind: NodeKind,
    /// What it reads.
    pub operands: SmallVec<[ValueId; 4]>,
    /// What it gives.
    pub results: SmallVec<[ValueId; 2]>,
    /// The instruction it stands for.
    pub origin: InstructionId,
}

/// Nodes in order, and what they are for.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// Operands before users.
    pub nodes: Vec<NodeId>,
    /// What the region gives.
    pub results: Vec<ValueId>,
}

/// A flattened program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Every value.
    pub values: Arena<ValueId, Value>,
    /// Every node.
    pub nodes: Arena<NodeId, Node>,
    /// The parameters, flattened.
    pub parameters: Vec<ValueId>,
    /// The whole program.
    pub entry: Region,
}

/// The arrays of a shape, in order.
pub fn array_leaves(shape: &Shape) -> Vec<&ArrayShape> {
    let mut leaves = Vec::new();
    shape.for_each_leaf(&mut |leaf| leaves.extend(leaf.as_array()));
    leaves
}
