//! The CPU backend: a Plan to machine code with Cranelift, and the runtime that
//! walks its schedule.
//!
//! Each kernel becomes one function; equal kernels were already one in the Plan.
//! Matrix products and sorts are calls of library routines. It never sees the
//! module that the plan was made from.
//!
//! # Invariants
//! - Results are those of the Plan evaluator: integers and data movement to the
//!   bit, floating point up to the order of sums in dots and reductions.
//! - A run allocates its outputs, unless the caller has dropped those of an earlier one, and,
//!   the first time, its arena and what is kept for the runs after it; nothing else of size.

mod call;
mod carrier;
mod ceilings;
mod collapse;
mod convolution;
mod counted_loop;
mod custom_call;
mod dot;
mod error;
mod exchange;
mod execute;
mod fft;
mod helpers;
mod integer;
mod jit;
mod kept;
mod kernels;
mod linear_algebra;
mod lower;
mod nests;
mod once;
mod phases;
mod pieces;
mod pool;
mod product;
mod random;
mod registers;
mod reordered;
mod routine;
mod row_turns;
mod rows;
mod runs;
mod scalars;
mod schedule;
mod sizes;
mod sort;
mod stochastic;
mod streaming;
mod strips;
mod top_k;
mod turns;
mod unroll;
mod unswitched;
mod vector;
mod versions;
mod views;
mod work;

pub use call::check_library;
pub use ceilings::Ceilings;
pub use error::Error;
pub use execute::{Executable, KernelTime, Options, listing};
pub use jit::{Cpu, Listing};
pub use sizes::{Checked, MachineSizes, SizeCode};
pub use streaming::StreamLimits;
pub use work::Work;
