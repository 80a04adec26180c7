//! The program as a graph without tuples and calls, for propagation and partitioning.
//!
//! A value is one array (or token). Nodes are ordered such that operands come first. Calls, fusions
//! and asynchronous wrappers are inlined; loops and branches have regions. The values of a manual
//! computation, which is written for each device separately, have their own scope.

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
    /// The shape, which is never a tuple.
    pub(crate) shape: Shape,
    /// The name of the instruction that computes it.
    pub(crate) name: Arc<str>,
    pub(crate) scope: ScopeId,
    /// The sharding that the program states.
    pub(crate) stated: Option<Stated>,
}

impl Value {
    pub(crate) fn rank(&self) -> usize {
        self.shape.as_array().map_or(0, tegula_ir::ArrayShape::rank)
    }

    /// The size of a dimension, if it is static.
    pub(crate) fn size(&self, dim: usize) -> Option<i64> {
        self.shape.as_array()?.dims.get(dim)?.as_static()
    }

    /// The bytes of the whole array, estimated if sizes are open.
    pub(crate) fn bytes(&self) -> i64 {
        let array = self.shape.as_array();
        array
            .and_then(|array| array.representative().byte_size())
            .unwrap_or(0)
    }
}

/// The kind of a node.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// An operation that is partitioned along its axes.
    Operation,
    /// A call that each device executes, on its parts of the operands.
    OnParts,
    /// A call that one device executes for all.
    Once,
    /// A call that a [`CallPartitioner`](crate::CallPartitioner) partitions.
    CustomPartitioning,
    /// A sharding constraint.
    Constraint,
    /// A request for the sharding of its operand, which is also its result.
    Inspection,
    /// `opt-barrier`.
    Barrier,
    /// The entrance of a manual computation, where arrays become each device's own; the cuts of
    /// each operand.
    Enter(Vec<Sharding>),
    /// The exit of a manual computation, where each device's own arrays become parts; the cuts of
    /// each operand.
    Exit(Vec<Sharding>),
    /// A loop whose state is its operands.
    While { condition: RegionId, body: RegionId },
    /// A conditional. The operands after the selector are distributed to the regions.
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
    /// The shape of the result, with its tuples.
    pub(crate) shape: Shape,
}

/// A sequence of nodes, with parameters and results.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region {
    pub(crate) parameters: Vec<ValueId>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) results: Vec<ValueId>,
}

/// A scope of manual computations, in which arrays are each device's own.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) parent: ScopeId,
    /// Devices in the same part of this cut share the scope's arrays.
    pub(crate) cut: Cut,
}

/// The graph of a program.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) values: Vec<Value>,
    pub(crate) regions: Vec<Region>,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) entry: RegionId,
    /// Results at boundaries of manual computations that are partial results inside.
    pub(crate) at_borders: FxHashMap<ValueId, Unreduced>,
    /// Groups of values that must have the same sharding, by the group's name.
    pub(crate) alike: BTreeMap<String, Vec<ValueId>>,
    /// Values for which the program requests partial results.
    pub(crate) wanted_partial: FxHashMap<ValueId, Unreduced>,
    /// Shardings that the program states for its results, in addition to those of the values.
    pub(crate) stated_results: Vec<Option<Stated>>,
    pub(crate) devices: usize,
}

impl Graph {
    /// The partial results that the program states for a value, if any.
    pub(crate) fn unreduced(&self, value: ValueId) -> Option<&Unreduced> {
        self.values[value].stated.as_ref()?.unreduced.as_ref()
    }
}
