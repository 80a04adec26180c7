//! The partitioner: converts a program over sharded arrays to one program for each device.
//!
//! A program states for some arrays how they are divided between devices ([`Sharding`]). The
//! partitioner chooses shardings for all other arrays (`propagate`), and emits a program that each
//! device runs on its own parts, with collectives that fetch elements from other devices (`emit`).
//! The two programs are equivalent: the parts of the results, put together, are the results of the
//! whole program.
//!
//! The indexing maps of `tegula-indexing` determine which parts of the operands a part of the
//! result needs. Every operation is supported: if nothing better is possible, its operands are
//! gathered. The [`Report`] lists all choices with their reasons.
//!
//! The partitioner runs nothing, and depends on no machine except for the rates in `emit`'s costs.
//!
//! # Invariants
//! - All devices' parts of an array have the same shape; elements after the end of an unevenly
//!   divided dimension are padding. No element of the program's results depends on padding.
//! - All devices execute the same collectives in the same order, because the values that control
//!   loops and branches are replicated (inside a manual computation, the program itself is
//!   responsible).
//! - Partitioning is deterministic.
//!
//! # Example
//!
//! ```
//! use tegula_ir::{Opcode, parse_module};
//! use tegula_partition::{Options, partition};
//!
//! // A product whose left operand is cut along the sum, over two devices: each has half of the
//! // products, and one collective adds them.
//! let module = parse_module(
//!     "HloModule product, num_partitions=2
//!     ENTRY main {
//!       x = f32[4,64] parameter(0), sharding={devices=[1,2]<=[2]}
//!       w = f32[64,8] parameter(1), sharding={devices=[2,1]<=[2]}
//!       ROOT y = f32[4,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0},
//!         sharding={replicated} }",
//! )?;
//! tegula_ir::verify(&module)?;
//! let partitioned = partition(&module, &Options::default())?;
//! let opcodes = partitioned.module.instructions.values().map(|i| i.op.opcode());
//! assert_eq!(opcodes.filter(|&opcode| opcode == Opcode::AllReduce).count(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod axes;
mod call_partitioner;
mod emit;
mod error;
mod graph;
mod parts;
mod propagate;
mod read;
mod report;
mod selection;
mod sharding;

pub use call_partitioner::{CallPartitioner, Calls, CutCall, INSPECTION, WholeCall};
pub use error::Error;
pub use propagate::CutReason;
pub use read::Unreduced;
pub use report::{Choice, Exchanged, Note, Report};
pub use sharding::{Cut, Sharding};

use rustc_hash::FxHashMap;
use tegula_ir::{Instruction, Module, Op};

/// Options of the partitioner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The number of devices; [`None`] uses the number that the program states.
    pub devices: Option<usize>,
    /// How the partitioner may shard parameters in addition to the shardings that the program
    /// states.
    pub parameters: Freedom,
    /// How the partitioner may shard results in addition to the shardings that the program states.
    pub results: Freedom,
    /// The partitioner of custom calls, if any.
    pub calls: Calls,
}

/// Which shardings the partitioner may choose for parameters or results in addition to those that
/// the program states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Freedom {
    /// Any cuts, including those that need padding.
    #[default]
    Any,
    /// Cuts into equal parts only. For arrays without a stated sharding, the flags say which may be
    /// cut; the others are replicated. The flags are in the order of the arrays in [`Partitioned`].
    EqualParts(Vec<bool>),
}

impl Freedom {
    /// Whether an array without a stated sharding may be cut.
    pub(crate) fn allows(&self, array: usize) -> bool {
        match self {
            Self::Any => true,
            Self::EqualParts(marked) => marked.get(array).copied().unwrap_or(false),
        }
    }

    /// Whether parts must be equal.
    pub(crate) fn wants_equal_parts(&self) -> bool {
        matches!(self, Self::EqualParts(_))
    }
}

/// A partitioned program.
#[derive(Clone, Debug)]
pub struct Partitioned {
    /// The program of every device.
    pub module: Module,
    /// The shardings of the parameters' arrays in order, including those in tuples. Tokens have
    /// shardings without dimensions.
    pub parameters: Vec<Sharding>,
    /// The shardings of the result's arrays, in order.
    pub results: Vec<Sharding>,
    /// For each array of the parameters: the axes over which devices hold partial results.
    pub unreduced_parameters: Vec<Option<Unreduced>>,
    /// For each array of the result: the axes over which devices hold partial results.
    pub unreduced_results: Vec<Option<Unreduced>>,
    /// The decisions and their reasons.
    pub report: Report,
}

/// Whether a program is for several devices but not partitioned yet: it states shardings of arrays,
/// or has manual computations (written for each device separately).
pub fn is_sharded(module: &Module) -> bool {
    module.instructions.values().any(|instruction| {
        let annotations = instruction.annotations.as_deref();
        let stated = annotations.is_some_and(|annotations| {
            let shardy = annotations
                .frontend_attributes
                .iter()
                .any(|(name, _)| name.starts_with("xla.sdy."));
            shardy || annotations.sharding.is_some()
        });
        stated || is_boundary(instruction)
    }) && !is_cut_already(module)
}

/// Whether a program communicates between partitions outside of manual computations. It is then the
/// program of one device, and its shardings are only annotations.
fn is_cut_already(module: &Module) -> bool {
    let has_manual = module.instructions.values().any(is_boundary);
    let mut instructions = module.instructions.values();
    !has_manual && instructions.any(|instruction| instruction.op.is_between_partitions())
}

fn is_boundary(instruction: &Instruction) -> bool {
    let Op::CustomCall(call) = &instruction.op else {
        return false;
    };
    matches!(
        &*call.target,
        "xla.sdy.GlobalToLocalShape"
            | "xla.sdy.LocalToGlobalShape"
            | "SPMDFullToShardShape"
            | "SPMDShardToFullShape"
    )
}

/// The meshes of a program.
fn meshes(module: &Module) -> Result<read::shardy::Meshes, Error> {
    let mut attributes = module.attributes.frontend_attributes.iter();
    let Some((_, text)) = attributes.find(|(name, _)| &**name == "xla.sdy.meshes") else {
        return Ok(FxHashMap::default());
    };
    let text = read::shardy::plain(text);
    read::shardy::meshes(&text).ok_or_else(|| Error::Sharding {
        name: module.name.to_string(),
        text,
        expected: "meshes, each with the sizes of its axes".to_owned(),
    })
}

/// The number of devices that a program states: `num_partitions=`, or that of its meshes.
pub fn stated_devices(module: &Module) -> Option<usize> {
    let partitions = module.attributes.num_partitions.filter(|count| *count > 1);
    let meshes = meshes(module)
        .ok()
        .as_ref()
        .and_then(read::shardy::device_count);
    let stated = partitions.or(meshes).or(module.attributes.num_partitions);
    usize::try_from(stated?).ok().filter(|count| *count > 0)
}

/// Partitions a program.
///
/// # Errors
/// A sharding that is invalid or does not fit; a number of devices that differs from the stated
/// one.
pub fn partition(module: &Module, options: &Options) -> Result<Partitioned, Error> {
    if let Some(stated) = module.attributes.num_partitions.filter(|count| *count < 1) {
        let wanted = options.devices.unwrap_or(0);
        return Err(Error::Devices { stated, wanted });
    }
    let meshes = meshes(module)?;
    let stated = stated_devices(module);
    let devices = options.devices.or(stated).filter(|count| *count > 0);
    let devices = devices.ok_or(Error::NoDevices)?;
    if let Some(stated) = stated.filter(|stated| *stated > 1 && *stated != devices) {
        let stated = stated as i64;
        return Err(Error::Devices {
            stated,
            wanted: devices,
        });
    }
    let graph = graph::build(module, &meshes, devices, &options.calls)?;
    let axes = axes::AxisFinder::new(module);
    let found = propagate::propagate(&graph, &axes, &options.parameters);
    call_partitioner::answer_inspections(module, &graph, &found, &options.calls)?;
    let emitted = emit::emit(module, &graph, &axes, &found, options)?;
    let parameters = graph.regions[graph.entry].parameters.iter();
    Ok(Partitioned {
        module: emitted.module,
        unreduced_parameters: parameters
            .clone()
            .map(|value| graph.unreduced(*value).cloned())
            .collect(),
        unreduced_results: emitted.unreduced_results,
        parameters: parameters
            .map(|value| found.sharding(*value).clone())
            .collect(),
        results: emitted.results,
        report: emitted.report,
    })
}
