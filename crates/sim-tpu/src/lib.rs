//! A simulator of a TPU core: memories of physical bytes, copies that run in parallel to the
//! computation, and engines with a clock. It reports whether a tiled program fits, how much memory
//! padding wastes, whether it has races, and how long it takes and why.
//!
//! There is one machine, which runs a [`TpuProgram`]: buffers with a place and a layout, copies
//! between them, semaphores, computations on slices, loops. People write such a program as text; a
//! compiled program is lowered to one. [`tegula_interp`] defines what a computation means,
//! [`tegula_layout`] how an array is stored in memory.
//!
//! # Finding a race in a kernel
//! The kernel copies an array through two buffers in VMEM, so that one is filled while the other is
//! written back. It waits for the copy that writes a buffer back only after it has begun to refill
//! that buffer:
//!
//! ```
//! use tegula_sim_tpu::{Options, read_kernel, simulate};
//! use tegula_target::Chip;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = |wait_before: &str, wait_after: &str| format!(
//!     "kernel copy_through_vmem {{
//!        hbm  x : f32[1024,128] = parameter(0)
//!        hbm  y : f32[1024,128] = result(0)
//!        vmem a : f32[2,128,128]
//!        sem  in[2], out[2]
//!        for i in 0..8 {{
//!          {wait_before}
//!          dma_start x[128*i +: 128, :] -> a[i mod 2, :, :], in[i mod 2]
//!          dma_wait in[i mod 2]
//!          dma_start a[i mod 2, :, :] -> y[128*i +: 128, :], out[i mod 2]
//!          {wait_after}
//!        }}
//!        dma_wait out[0]
//!        dma_wait out[1]
//!      }}");
//! let wait = "if i >= 2 { dma_wait out[i mod 2] }";
//! let chip = Chip::by_name("v5e")?;
//!
//! let report = simulate(&read_kernel(&text("", wait))?, &chip, &Options::default())?;
//! let finding = &report.findings[0];
//! assert_eq!((finding.code.name(), finding.line), ("TG041", 8));
//! assert!(finding.message.contains("is overwritten, but the copy that reads it"));
//! assert_eq!(finding.help, "`dma_wait out[0]` before this statement");
//!
//! // As the help says.
//! let report = simulate(&read_kernel(&text(wait, ""))?, &chip, &Options::default())?;
//! assert!(report.is_clean());
//! assert!(report.seconds > 0.0);
//! # Ok(())
//! # }
//! ```
//!
//! With [`Options::functional`] and inputs it also computes values, and follows padding to see
//! whether a result depends on it.
//!
//! # Parts
//!
//! - [`program`]: the data structures of a program; [`text`]: its parser and printer; [`expand`]:
//!   grids expanded into loops;
//! - [`pallas`]: a Pallas kernel as a [`TpuProgram`];
//! - [`engine`]: the clock: what runs when, and who waits for whom;
//! - [`speeds`]: a chip's speeds, as the clock uses them;
//! - [`work`]: the cycles that a computation needs on each unit;
//! - `machine`: runs the statements on `memory`, with or without values;
//! - `check`: the checks before a run, and which elements depend on padding;
//! - [`finding`], [`report`]: the results; [`chrome_trace`]: the timeline in a format for tools
//!   (`tegula-draw` makes a page for people).
//!
//! # Invariants
//! - The simulator executes a [`TpuProgram`] and nothing else.
//! - Every number of a chip is a parameter of [`tegula_target::Chip`] with a source.
//! - The same program, chip and options give the same report, byte for byte.

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

/// The module with the operands of its matrix products rounded as the matrix units round them: what
/// the program computes on a TPU.
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
