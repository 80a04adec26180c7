//! Custom calls that are partitioned by functions of their authors, as with JAX's
//! `custom_partitioning`.
//!
//! The partitioner does not know what a custom call computes, so by default each device would
//! compute all of it. If the call states a sharding rule ([`crate::read::rule`]), shardings are
//! propagated through it; a [`CallPartitioner`] supplies the program of one device.

use crate::error::Error;
use crate::graph::{Graph, Kind};
use crate::propagate::Propagated;
use crate::read::shardy::plain;
use crate::sharding::Sharding;
use std::fmt;
use std::sync::Arc;
use tegula_ir::{Module, Shape};

/// A partitioner for the custom calls of some targets.
pub trait CallPartitioner: Send + Sync {
    /// Whether it partitions calls of this target.
    fn is_for(&self, target: &str) -> bool;

    /// The program of one device that replaces a call, and the shardings of its arrays.
    ///
    /// # Errors
    /// The reason why the call cannot be partitioned.
    fn cut(&self, call: &WholeCall<'_>) -> Result<CutCall, String>;

    /// Reports the sharding of an array that a program asks for by a custom call of the target
    /// [`INSPECTION`], JAX's `inspect_array_sharding`. `config` is the call's `backend_config=`
    /// without quotes. Without a sharding, the array is each device's own, in a manual computation.
    /// The default implementation ignores the report.
    ///
    /// # Errors
    /// A failure of the receiver of the report.
    fn inspect(&self, _config: &str, _sharding: Option<&Sharding>) -> Result<(), String> {
        Ok(())
    }
}

/// The target of custom calls that ask for the sharding of their operand.
pub const INSPECTION: &str = "InspectSharding";

/// Reports the shardings of the arrays that the program asks about to the partitioner of calls.
///
/// # Errors
/// As [`CallPartitioner::inspect`].
pub(crate) fn answer_inspections(
    module: &Module,
    graph: &Graph,
    found: &Propagated,
    calls: &Calls,
) -> Result<(), Error> {
    let Some(partitioner) = calls.0.as_deref() else {
        return Ok(());
    };
    let nodes = graph.regions.iter().flat_map(|region| &region.nodes);
    for node in nodes.filter(|node| matches!(node.kind, Kind::Inspection)) {
        let instruction = &module[node.instruction];
        let annotations = instruction.annotations.as_deref();
        let config = annotations.and_then(|annotations| annotations.backend_config.as_deref());
        let config = config.map(plain).unwrap_or_default();
        for &operand in &node.operands {
            let scope = graph.values[operand].scope;
            let is_whole = graph.scopes[scope].cut.parts() == 1;
            let sharding = is_whole.then(|| found.sharding(operand));
            let told = partitioner.inspect(&config, sharding);
            told.map_err(|reason| Error::Inspection {
                name: instruction.name.to_string(),
                reason,
            })?;
        }
    }
    Ok(())
}

/// A custom call on whole arrays.
#[derive(Clone, Debug)]
pub struct WholeCall<'a> {
    /// The target of the call.
    pub target: &'a str,
    /// The call's `backend_config=` without quotes; empty if there is none.
    pub config: &'a str,
    /// The operands and their current shardings.
    pub operands: Vec<(Shape, Sharding)>,
    /// The results and the shardings that they should have.
    pub results: Vec<(Shape, Sharding)>,
}

/// The program that replaces a custom call on each device.
#[derive(Clone, Debug)]
pub struct CutCall {
    /// A program from parts of the operands to parts of the results, with communication between
    /// partitions if needed.
    pub program: Module,
    /// The shardings that the program requires of its operands.
    pub operands: Vec<Sharding>,
    /// The shardings of the program's results.
    pub results: Vec<Sharding>,
}

/// The optional [`CallPartitioner`]. Two of these are equal if they hold the same object.
#[derive(Clone, Default)]
pub struct Calls(Option<Arc<dyn CallPartitioner>>);

impl Calls {
    /// Uses this partitioner.
    pub fn new(partitioner: Arc<dyn CallPartitioner>) -> Self {
        Self(Some(partitioner))
    }

    /// The partitioner, if it is responsible for this target.
    pub(crate) fn partitioner(&self, target: &str) -> Option<&dyn CallPartitioner> {
        self.0.as_deref().filter(|own| own.is_for(target))
    }
}

impl PartialEq for Calls {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        }
    }
}

impl Eq for Calls {}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.0 {
            Some(_) => "Calls(a partitioner)",
            None => "Calls(none)",
        };
        f.write_str(what)
    }
}
