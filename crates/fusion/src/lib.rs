//! Kernel fusion: from a verified module to the fused graph and its kernels.
//!
//! Operations that are compositions of others are [expanded](expand), and the module is
//! [flattened](flatten) (no tuples, no calls). [Clustering](cluster) decides which values are
//! written to memory and which are computed where they are read, and each cluster becomes a
//! [`Kernel`] by composing indexing maps. The result is a graph of [`Unit`]s for layout and buffer
//! assignment.
//!
//! This crate knows no target, and nothing about memory: neither buffers nor addresses.
//!
//! # Invariants
//! - A fused program computes what the module computes, whatever the clusters:
//!   fusing changes where a value is computed, never what it is.
//! - A kernel reads only values that are materialised before it.
//!
//! # Example
//!
//! ```
//! use tegula_fusion::{Limits, ShortLoops, Unit, expand, flatten, fuse};
//! use tegula_ir::{PassManager, parse_module};
//!
//! let module = parse_module(
//!     "HloModule gate
//!     ENTRY main { x = f32[8,32] parameter(0) t = f32[8,32] tanh(x)
//!       ROOT y = f32[8,32] multiply(x, t) }",
//! )?;
//! tegula_ir::verify(&module)?;
//! let module = expand(&module)?;
//! let passes = &mut PassManager::new();
//! let program = flatten(&module, ShortLoops::Unrolled, passes)?;
//! let fused = fuse(&module, program, Limits::default(), passes)?;
//! // The tanh is computed where it is read: one kernel does both.
//! let kernels = fused.entry.units().filter(|(_, unit)| matches!(unit, Unit::Kernel(_)));
//! assert_eq!(kernels.count(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod analysis;
mod cluster;
mod emit;
mod error;
mod fused;
mod fused_text;
pub mod kernel;
mod limits;
mod pipeline;
mod program;
mod rewrite;
mod schedule;

pub use cluster::{Class, Clusters, Reason, classify, cluster};
pub use error::{Error, ErrorKind};
pub use fused::{BoundKernel, Fused, FusedRegion, LibraryOp, Unit};
pub use fused_text::{ClustersText, FusedText};
pub use kernel::substitute::Rename;
pub use kernel::{Kernel, KernelRanges};
pub use limits::Limits;
pub use pipeline::{PASSES, ShortLoops, flatten, fuse};
pub use program::contraction::{Contraction, Label, Labels, is_product_of};
pub use program::flatten::{MAX_DEPTH, MAX_NODES};
pub use program::text::ProgramText;
pub use program::{Def, Node, NodeId, NodeKind, Program, Region, Value, ValueId, array_leaves};
pub use rewrite::expand::{Routines, expand, expand_for};
pub use rewrite::hoist_loop_products::hoist_loop_products;
pub use rewrite::sink_loop_reductions::sink_loop_reductions;

/// The target name of custom calls that represent exchanges between the devices that run a program.
/// They keep the program's order where possible; otherwise they get another order, which is the
/// same on each device.
pub const COLLECTIVE: &str = "tegula.collective";
