//! Runs CUDA kernels on the CPU: a SIMT interpreter of PTX, the text that NVIDIA's
//! compilers emit, with the checks that a device does not make.
//!
//! The model: a grid of blocks, which run one after another; a block of warps, which
//! run in turns between barriers; a warp of 32 lanes, which execute one instruction
//! at a time together, split at branches and meet again at the immediate
//! post-dominator. Memory is [`Memory`] with bounds, and a shadow that knows what was
//! written and who accessed each word last.
//!
//! What it reports ([`FindingKind`]): races, diverging barriers and deadlocks, lanes
//! missing from collectives, reads of what was never written, accesses out of bounds or
//! misaligned; and, as statistics and as findings about speed, 32-byte sectors per
//! request and wavefronts of shared memory.
//!
//! What it is not: a model of time, of caches or of weak memory order. Fences order
//! everything, and kernels whose blocks wait for each other do not end.
//!
//! # Invariants
//! - Results are those of the PTX manual to the bit, wherever the manual determines
//!   them; approximate functions and matrix products are more exact than the device's.
//! - An instruction, modifier or operand that is not known is an error when the module
//!   is read. Nothing is skipped.
//! - No text, parameter or address makes it panic, and the same launch gives the same
//!   bytes and the same findings.
//!
//! ```
//! use tegula_sim_ptx::{Launch, Memory, Module, Options, launch};
//!
//! let module = Module::parse(
//!     ".version 9.0 .target sm_90 .address_size 64
//!      .visible .entry double(.param .u64 p) {
//!        .reg .b32 %r<4>; .reg .b64 %rd<4>;
//!        ld.param.u64 %rd1, [p];
//!        mov.u32 %r1, %tid.x;
//!        mul.wide.u32 %rd2, %r1, 4;
//!        add.s64 %rd3, %rd1, %rd2;
//!        ld.global.u32 %r2, [%rd3];
//!        add.u32 %r3, %r2, %r2;
//!        st.global.u32 [%rd3], %r3;
//!        ret;
//!      }",
//! )?;
//! let mut memory = Memory::new(1 << 20);
//! let address = memory.allocate(32 * 4)?;
//! memory.write(address, &[1; 32 * 4])?;
//! let params = address.to_le_bytes();
//! let shape = Launch { grid: [1, 1, 1], block: [32, 1, 1], dynamic_shared: 0, params: &params };
//! let report = launch(&module, "double", &mut memory, &shape, &Options::default())?;
//! assert!(report.findings.is_empty());
//! let mut result = [0; 32 * 4];
//! memory.read(address, &mut result)?;
//! assert_eq!(result, [2; 32 * 4]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![allow(
    clippy::needless_range_loop,
    reason = "lanes index several arrays at once"
)]

mod decode;
mod execute;
mod history;
mod memory;
mod module;
mod number;
mod operand;
mod operation;
mod race;
mod region;
mod report;
mod text;

pub use decode::Parameter;
pub use execute::{Launch, LaunchError, Options, launch};
pub use memory::{Memory, MemoryError};
pub use module::{KernelAttributes, Module};
pub use report::{AccessStatistics, Finding, FindingKind, Location, Report, Statistics};
pub use text::ParseError;

/// The opcodes that are supported, with what of each, sorted.
pub fn supported() -> impl Iterator<Item = (&'static str, &'static str)> {
    decode::table::TABLE
        .iter()
        .map(|entry| (entry.name, entry.forms))
}
