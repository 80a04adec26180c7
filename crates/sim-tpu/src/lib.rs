//! A simulated TPU core: memories of physical bytes, copies that run beside the
//! computation, and engines with a clock. It says of a tiled placement whether it fits,
//! what is wasted in padding, whether it races, and how long it takes and why.
//!
//! There is one machine. A [`TpuProgram`] is what it runs: buffers with a place and a
//! layout, copies between them, semaphores, computations on slices, loops. People write
//! one as text; a compiled program is lowered to one. What a computation means is
//! [`tegula_interp`]'s business, how an array lies in memory [`tegula_layout`]'s.
//!
//! - [`program`]: the data; [`text`]: its text, in and out; [`expand`]: grids written out;
//! - [`pallas`]: a kernel of Pallas as a [`TpuProgram`];
//! - [`engine`]: the clock: what runs when, and who waited for whom;
//! - [`speeds`]: a chip's numbers, as the clock uses them;
//! - [`work`]: what a computation asks of the units;
//! - `machine`: runs the statements on `memory`, with or without values;
//! - `check`: what is checked before running, and which elements padding reaches;
//! - [`finding`], [`report`]: what comes out; [`chrome_trace`]: that as a timeline for tools
//!   (`tegula-draw` makes a page for people).
//!
//! # Invariants
//! - The simulator executes a [`TpuProgram`] and nothing else.
//! - Every number of a chip is a parameter of [`tegula_target::Chip`] with a source.
//! - Same program, same chip, same options: the same report, to the byte.

mod check;
pub mod engine;
mod expand;
pub mod finding;
mod lines;
mod machine;
mod memory;
pub mod pallas;
pub mod program;
pub mod report;
pub mod speeds;
pub mod text;
mod trace;
pub mod work;

/// A module with the operands of its products rounded as the matrix units round them:
/// what a program means on a TPU.
pub fn as_matrix_units_round(module: tegula_ir::Module) -> std::sync::Arc<tegula_ir::Module> {
    machine::matrix::rounded(&std::sync::Arc::new(module))
}

pub use expand::{copies_of, expand};
pub use finding::{Code, Finding, Severity};
pub use lines::Lines;
pub use machine::life::scoped_limit;
pub use machine::{simulate, simulate_cores};
pub use memory::ledger::alignment;
pub use program::TpuProgram;
pub use report::{Error, Options, Report};
pub use text::{PrintForm, is_kernel, print_kernel, read_kernel};
pub use trace::chrome_trace;
