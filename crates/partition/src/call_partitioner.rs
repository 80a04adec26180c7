//! Custom calls that are partitioned by functions of whoever wrote them, as with JAX's
//! `custom_partitioning`.
//!
//! What a custom call computes is not known here, so each device would make all of it. A rule that the
//! call states ([`crate::read::rule`]) says which of its dimensions are cut alike, so that cuts spread
//! through it; a [`CallPartitioner`] gives the program of one device.

use crate::error::Error;
use crate::graph::{Graph, Kind};
use crate::propagate::Propagated;
use crate::read::shardy::plain;
use crate::sharding::Sharding;
use std::fmt;
use std::sync::Arc;
use tegula_ir::{Module, Shape};

/// Cuts the custom calls of some targets.
pub trait CallPartitioner: Send + Sync {
    /// Whether it cuts calls of this target.
    fn is_for(&self, target: &str) -> bool;

    /// The program of one device in place of a call, and how its arrays are cut.
    ///
    /// # Errors
    /// Why it cannot be cut.
    fn cut(&self, call: &WholeCall<'_>) -> Result<CutCall, String>;

    /// Is told how an array is cut, for which a program asks by a custom call of the target
    /// [`INSPECTION`]: JAX's `inspect_array_sharding`. `config` is the call's `backend_config=`
    /// without quotes; `None`: the array is each device's own, in a manual computation. If it is not
    /// implemented, nobody is told.
    ///
    /// # Errors
    /// What went wrong where it was told.
    fn inspect(&self, _config: &str, _sharding: Option<&Sharding>) -> Result<(), String> {
        Ok(())
    }
}

/// The target of custom calls that ask how their operand is cut.
pub const INSPECTION: &str = "InspectSharding";

/// Tells the partitioner of calls how the arrays are cut that the program asks about.
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

/// A custom call over whole arrays.
#[derive(Clone, Debug)]
pub struct WholeCall<'a> {
    /// Its target.
    pub target: &'a str,
    /// Its `backend_config=` without quotes, empty if there is none.
    pub config: &'a str,
    /// Its operands, and how they are cut so far.
    pub operands: Vec<(Shape, Sharding)>,
    /// Its results, and how they are wanted.
    pub results: Vec<(Shape, Sharding)>,
}

/// What each device does in place of a custom call.
#[derive(Clone, Debug)]
pub struct CutCall {
    /// A program over the parts of the operands that gives the parts of the results, with exchanges
    /// between partitions where it needs some.
    pub program: Module,
    /// How the program wants the operands.
    pub operands: Vec<Sharding>,
    /// How it gives the results.
    pub results: Vec<Sharding>,
}

/// The [`CallPartitioner`] to ask, if any. Two are equal if they are the same object.
#[derive(Clone, Default)]
pub struct Calls(Option<Arc<dyn CallPartitioner>>);

impl Calls {
    /// To ask `partitioner`.
    pub fn new(partitioner: Arc<dyn CallPartitioner>) -> Self {
        Self(Some(partitioner))
    }

    /// The one that cuts calls of a target.
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
