//! The program without tuples and calls: what propagation and partitioning work on.
//!
//! A value is one array (or token). Nodes are in an order in which operands come first. Calls,
//! fusions and asynchronous wrappers are written out; loops and branches have regions. Where a
//! computation is written for each device by itself (manual), its values have a scope.

mod build;

pub(crate) use build::build;

use crate::read::{Stated, Unreduced};
use crate::sharding::{Cut, Sharding};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use tegula_ir::{InstructionId, Op, Shape};

/// The number of a value.
pub(crate) type ValueId = usize;
/// The number of a region.
pub(crate) type RegionId = usize;
/// The number of a scope.
pub(crate) type ScopeId = usize;

/// One array or token.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    /// What it is: never a tuple.
    pub(crate) shape: Shape,
    /// The name of the instruction that gives it.
    pub(crate) name: Arc<str>,
    pub(crate) scope: ScopeId,
    /// What the program states.
    pub(crate) stated: Option<Stated>,
}

impl Value {
    pub(crate) fn rank(&self) -> usize {
        self.shape.as_array().map_or(0, tegula_ir::ArrayShape::rank)
    }

    /// The size of a dimension, if it is known.
    pub(crate) fn size(&self, dim: usize) -> Option<i64> {
        self.shape.as_array()?.dims.get(dim)?.as_static()
    }

    /// Bytes of the whole array, guessed where sizes are open.
    pub(crate) fn bytes(&self) -> i64 {
        let array = self.shape.as_array();
        array
            .and_then(|array| array.representative().byte_size())
            .unwrap_or(0)
    }
}

/// What a node does with its operands.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// The operation.
    Operation,
    /// A call that each device makes, on its parts of the operands.
    OnParts,
    /// A call that one device makes for all.
    Once,
    /// A call that a [`CallPartitioner`](crate::CallPartitioner) cuts.
    CustomPartitioning,
    /// States a sharding.
    Constraint,
    /// Asks how its operand is cut; its result is the operand.
    Inspection,
    /// `opt-barrier`.
    Barrier,
    /// Arrays become each device's own: by operand, how they are cut.
    Enter(Vec<Sharding>),
    /// Each device's own arrays are put together: by operand, how they are cut.
    Exit(Vec<Sharding>),
    /// A loop over its operands.
    While { condition: RegionId, body: RegionId },
    /// Regions of one operand each, behind the selector; by region, how many values it takes.
    Conditional(Vec<RegionId>),
}

/// An instruction.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) instruction: InstructionId,
    pub(crate) op: Op,
    pub(crate) kind: Kind,
    pub(crate) operands: Vec<ValueId>,
    pub(crate) results: Vec<ValueId>,
    /// The result, with its tuples.
    pub(crate) shape: Shape,
}

/// A piece of program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region {
    pub(crate) parameters: Vec<ValueId>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) results: Vec<ValueId>,
}

/// Where arrays are each device's own.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) parent: ScopeId,
    /// Devices in the same part see the same arrays.
    pub(crate) cut: Cut,
}

/// A program.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) values: Vec<Value>,
    pub(crate) regions: Vec<Region>,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) entry: RegionId,
    /// By result of a border of a manual computation: what of it is each device's partial result
    /// inside.
    pub(crate) at_borders: FxHashMap<ValueId, Unreduced>,
    /// Values that are cut alike, by the number of their group.
    pub(crate) alike: BTreeMap<String, Vec<ValueId>>,
    /// Values of which the program wants partial results.
    pub(crate) wanted_partial: FxHashMap<ValueId, Unreduced>,
    /// What the program states of its results apart from the values that they are.
    pub(crate) stated_results: Vec<Option<Stated>>,
    pub(crate) devices: usize,
}

impl Graph {
    /// Of which partial results the program states a value to be made.
    pub(crate) fn unreduced(&self, value: ValueId) -> Option<&Unreduced> {
        self.values[value].stated.as_ref()?.unreduced.as_ref()
    }
}
