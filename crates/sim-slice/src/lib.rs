//! Slices of TPUs: how long a program takes that many chips run together, and what it waits for.
//!
//! A slice is a torus of chips ([`Torus`]) with links between neighbours. The program is that of one
//! device, with its collectives; all devices run it in step. It is fused as for other targets, each
//! kernel takes as long as its slowest unit needs (matrix units, vector units, HBM), each collective
//! as long as its busiest link ([`Links`]). The timeline has one row for the core and one for each axis
//! of the torus.
//!
//! No value is computed and no array allocated, so that a program may be of any size.
//!
//! What it is not: it does not look inside of kernels (that is `tegula-sim-tpu`, for programs of one
//! chip), knows nothing between slices, and places devices on chips in one way, row-major.
//!
//! # Invariants
//! - More bandwidth, or less latency, never makes a program slower.
//! - A time is the sum of named causes: [`Report::bound_by`] adds up to the step.
//!
//! # Example
//!
//! ```
//! use tegula_ir::parse_module;
//! use tegula_sim_slice::{Options, Share, Slice, simulate};
//! use tegula_target::Chip;
//!
//! // Every chip of four has 4 MB of gradients that are added up.
//! let module = parse_module(
//!     "HloModule step, num_partitions=4
//!     sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
//!     ENTRY main { g = f32[1024,1024] parameter(0)
//!       ROOT r = f32[1024,1024] all-reduce(g), replica_groups={{0,1,2,3}}, channel_id=1,
//!         use_global_device_ids=true, to_apply=sum }",
//! )?;
//! tegula_ir::verify(&module)?;
//! let slice = Slice::new(&Chip::by_name("v5e")?, "2x2")?;
//! let report = simulate(&module, &slice, &Options::default())?;
//! assert_eq!(report.devices, 4);
//! assert!(report.seconds > 0.0 && report.shares[&Share::Links] > 0.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod links;
mod memory;
mod report;
mod slice;
mod steps;
mod timeline;
mod torus;
mod work;

pub use error::Error;
pub use links::{CollectiveKind, Links, Transfer};
pub use report::{CollectiveTime, Event, Memory, Report, Row, Share};
pub use slice::{Slice, Speeds};
pub use torus::{Axis, Torus};

use tegula_ir::Module;

/// Which collectives run beside computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overlap {
    /// As written if the program has asynchronous pairs, else scheduled.
    #[default]
    Auto,
    /// As the program says: one without a start and a done waits for its end at once.
    Written,
    /// As a latency-hiding scheduler would have it: a collective begins when its operands are there
    /// and a link is free, and only who reads its result waits.
    Scheduled,
}

/// How to simulate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Which collectives run beside computation.
    pub overlap: Overlap,
    /// Operations of a step that the model needs, on all chips, for the model FLOPs utilisation.
    pub model_flops: Option<f64>,
}

/// Times a verified module, the program of each device, on a slice.
///
/// # Errors
/// A program for another number of devices, groups that name devices which are not there, sizes that
/// are not known, an operation that cannot be flattened.
pub fn simulate(module: &Module, slice: &Slice, options: &Options) -> Result<Report, Error> {
    let program = steps::read(module, slice)?;
    let memory = memory::peak(&program);
    Ok(timeline::run(&program, slice, options, memory))
}
