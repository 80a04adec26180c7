//! Machines as data: what the planner, the cost model and the simulators know of
//! a machine.
//!
//! A TPU chip is a [`Chip`]: a list of [`Param`]s, each a [`Quantity`] with unit
//! and source, its [memory spaces](Chip::memory_spaces), and the rule by which its
//! compiler lays arrays out by default ([`TileRule`]). Chips are text, both
//! those in `chips/` and those of a user ([`Chip::parse`]); one reader reads them.
//! A [`Cpu`] is what is found out about the machine that this runs on, [`CpuFeatures`] which
//! instructions it has.
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
//! What it is not: it estimates nothing and plans nothing. It knows no program,
//! and of arrays only their element size and dimensions.
//!
//! # Invariants
//! - A number that is not known is missing; there are no defaults and no guesses.
//!   One that sources disagree on, or that was inferred, says that it is uncertain.
//! - Every number has a unit of its parameter's dimension, and a source.
//! - Reading a chip never panics, and what is wrong names its line.
//! - [`TileRule::default_layout`] agrees with the real compiler in every measured case; what
//!   was not measured is an error.

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
