//! Machines as data: the facts about a machine that the planner, the cost model and the simulators
//! use.
//!
//! A TPU chip is a [`Chip`]: a list of [`Param`]s, each a [`Quantity`] with unit and source, its
//! [memory spaces](Chip::memory_spaces), and the rule for its default layouts ([`TileRule`]). Chips
//! are read from text, both the built-in ones in `chips/` and those of users ([`Chip::parse`]). A
//! [`Cpu`] has the detected properties of the current machine, and [`CpuFeatures`] its instruction
//! set extensions.
//!
//! ```
//! use tegula_target::Chip;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let chip = Chip::by_name("v5e")?;
//! let vmem = chip.memory_spaces().into_iter().find(|space| space.name == "VMEM");
//! let size = vmem.and_then(|vmem| vmem.size);
//! assert_eq!(size.and_then(|size| size.base_value()), Some(128.0 * 1024.0 * 1024.0));
//! // How its compiler stores 300 rows of 784 floats, if nothing else is asked for.
//! assert_eq!(chip.default_layout(32, &[300, 784])?.to_string(), "{1,0:T(8,128)}");
//! # Ok(())
//! # }
//! ```
//!
//! This crate does not estimate or plan anything. It does not use programs, and of arrays only the
//! element size and dimensions.
//!
//! # Invariants
//! - An unknown number is missing; there are no defaults and no guesses. A number on which sources
//!   disagree, or that was inferred, is marked as uncertain.
//! - Every number has a source, and a unit of its parameter's dimension.
//! - Reading a chip never panics, and errors have a line number.
//! - [`TileRule::default_layout`] agrees with libtpu in every measured case; cases that
//!   were not measured are errors.

#[cfg(target_arch = "x86_64")]
mod bf16_speed;
mod chip;
mod cpu;
mod cpu_features;
mod features;
mod param;
mod quantity;
mod text;
mod tile;

pub use chip::{Chip, MemorySpace, UnknownChip};
pub use cpu::{Cache, Cpu};
pub use cpu_features::{CpuFeatures, VectorWidth};
pub use features::{Architecture, IsaLevel, UnknownIsaLevel};
pub use param::Param;
pub use quantity::{Dimension, Quantity, Unit};
pub use text::ChipTextError;
pub use tile::{TileError, TileRule};
