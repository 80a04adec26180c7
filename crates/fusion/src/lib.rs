//! The fused graph and its kernels.
//!
//! In a verified module, operations that are compositions of others are
//! [written out](expand); it is [flattened](flatten) (no tuples, no calls), its values
//! are [clustered](cluster) into what is written to memory and what is computed
//! where it is read, and each cluster becomes a [`Kernel`] by composing indexing
//! maps. The result is a graph of [`Unit`]s for layout and buffer assignment.
//!
//! It knows no memory: neither buffers nor addresses, and no target.
//!
//! # Invariants
//! - A fused program computes what the module computes, whatever the clusters:
//!   fusing changes where a value is computed, never what it is.
//! - A kernel reads only values that are materialised before it.

mod accumulate;
mod apply;
mod before_loops;
mod cluster;
mod common;
mod contraction;
mod counted;
mod dead;
mod emit;
mod emit_loops;
mod error;
mod expand;
mod flatten;
mod fold;
mod fused;
mod identities;
pub mod kernel;
mod loop_invariants;
mod loop_sums;
mod order;
mod program;
mod readers;
mod reads;
mod rename;
mod rows;
mod scan;
mod symbolic;
mod updates;

pub use cluster::{Class, Clusters, Reason, classify, cluster};
pub use contraction::{Contraction, Label, Labels, is_product_of};
pub use emit::{BoundKernel, KernelRanges, var_range};
pub use error::{Error, Fault};
pub use expand::{Routines, expand, expand_for};
pub use flatten::{MAX_DEPTH, MAX_NODES, array_leaves, flatten, flatten_unrolled};
pub use fused::{Fused, FusedRegion, LibraryOp, Unit, fuse};
pub use kernel::Kernel;
pub use loop_sums::sum_after_loops;
pub use program::{Def, Node, NodeId, NodeKind, Program, Region, Value, ValueId};
pub use rename::Rename;
pub use rows::Limits;
