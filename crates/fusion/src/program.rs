//! The flat program: regions of nodes over array values, without tuples, calls and copies.
//!
//! A node represents one execution site of an HLO instruction: an instruction of a computation that
//! is called twice becomes two nodes. Loops and conditionals contain regions. A region can use its
//! own values and values of the enclosing regions. A loop state that no iteration changes is such
//! an outer value and is not carried.

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

/// The definition of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Def {
    /// A parameter of the program, by its number after flattening tuples.
    Parameter(usize),
    /// A constant.
    Constant(Literal),
    /// Result number `.1` of a node.
    Node(NodeId, usize),
    /// A loop state at the start of an iteration.
    LoopState,
}

/// An array value of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Its element type and dimensions, without a layout.
    pub shape: ArrayShape,
    /// Its definition.
    pub def: Def,
}

/// The kind of a node.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// The operation of the node's instruction.
    Op,
    /// The node's instruction, a dot, with transpositions and sums folded into it. A third operand
    /// is added to the product.
    Contraction(Box<Contraction>),
    /// A loop. The operands are the initial values of the carried states, the results their final
    /// values.
    While {
        /// Computes one `pred` scalar: whether to go on.
        condition: Region,
        /// Computes the next states.
        body: Region,
        /// The states at the start of an iteration, visible in both regions.
        states: Vec<ValueId>,
    },
    /// A conditional. The operand is the selector; the results are those of the branch that runs.
    Conditional {
        /// The branches by selector value; a `pred` selects 0 for true and 1 for false.
        branches: Vec<Region>,
    },
}

impl NodeKind {
    /// The regions that the node contains.
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

/// One operation at one place of the program.
#[derive(Clone, Debug)]
pub struct Node {
    /// The kind of node.
    pub kind: NodeKind,
    /// The values that it reads.
    pub operands: SmallVec<[ValueId; 4]>,
    /// The values that it defines.
    pub results: SmallVec<[ValueId; 2]>,
    /// The instruction that it was made from.
    pub origin: InstructionId,
}

/// Nodes in order, and the region's results.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// The nodes, operands before users.
    pub nodes: Vec<NodeId>,
    /// The region's results.
    pub results: Vec<ValueId>,
}

/// A flattened program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// All values.
    pub values: Arena<ValueId, Value>,
    /// All nodes.
    pub nodes: Arena<NodeId, Node>,
    /// The parameters, with tuples flattened.
    pub parameters: Vec<ValueId>,
    /// The region of the whole program.
    pub entry: Region,
}

/// The array leaves of a shape, in order.
pub fn array_leaves(shape: &Shape) -> Vec<&ArrayShape> {
    let mut leaves = Vec::new();
    shape.for_each_leaf(&mut |leaf| leaves.extend(leaf.as_array()));
    leaves
}
