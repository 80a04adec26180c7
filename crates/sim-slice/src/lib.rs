//! Simulates TPU slices: predicts the time of a program that many chips run together, and what
//! limits it.
//!
//! A slice is a torus of chips ([`Torus`]) with links between neighbours. The program is that of
//! one device, with its collectives; all devices run it in lockstep. It is fused as for other
//! targets. A kernel takes as long as its slowest unit (matrix units, vector units, HBM), a
//! collective as long as its busiest link ([`Links`]). The timeline has one row for the core and
//! one for each axis of the torus.
//!
//! No values are computed and no arrays allocated, so programs may have any size.
//!
//! This crate does not simulate the inside of kernels (`tegula-sim-tpu` does, for programs of one
//! chip) or communication between slices. Devices are always placed on chips in row-major order.
//!
//! # Invariants
//! - More bandwidth, or less latency, never makes a program slower.
//! - The time is the sum of named causes: the shares of a [`Report`], of which [`Report::bound_by`]
//!   is the largest, add up to the time of a step.
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

/// Which collectives overlap with computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overlap {
    /// `Written` if the program has asynchronous pairs, otherwise `Scheduled`.
    #[default]
    Auto,
    /// As the program says: a collective without separate start and done operations is waited for
    /// at once.
    Written,
    /// As a latency-hiding scheduler would do it: a collective begins when its operands are
    /// available and a link is free, and only readers of its result wait.
    Scheduled,
}

/// Options of the simulation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Which collectives overlap with computation.
    pub overlap: Overlap,
    /// The number of operations of a step that the model requires, on all chips, to compute model
    /// FLOPs utilisation.
    pub model_flops: Option<f64>,
}

/// Predicts the time of a verified module, the program of each device, on a slice.
///
/// # Errors
/// A program for another number of devices, groups with missing devices, unknown sizes, an
/// operation that cannot be flattened.
pub fn simulate(module: &Module, slice: &Slice, options: &Options) -> Result<Report, Error> {
    let program = steps::read(module, slice)?;
    let memory = memory::peak(&program);
    Ok(timeline::run(&program, slice, options, memory))
}
