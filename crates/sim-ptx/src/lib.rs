//! A SIMT interpreter of PTX, which runs CUDA kernels on the CPU with checks that devices do not
//! make. PTX is the text that NVIDIA's compilers emit.
//!
//! The model: the blocks of a grid run one after another; the warps of a block take turns between
//! barriers; the 32 lanes of a warp execute each instruction together, diverge at branches and
//! reconverge at the immediate post-dominator. [`Memory`] has bounds, and shadow memory that
//! records which bytes were written and the last accesses to each word.
//!
//! Errors that it reports ([`FindingKind`]) are races, divergent barriers and deadlocks, lanes
//! missing from collectives, reads of uninitialised memory, and accesses that are out of bounds or
//! misaligned. It also counts 32-byte sectors per request and wavefronts of shared memory, and
//! reports inefficient accesses.
//!
//! It does not model time, caches or weak memory order. Fences order everything, and kernels whose
//! blocks wait for each other do not end.
//!
//! # Invariants
//! - Results are bit-exact wherever the PTX manual determines them; approximate functions and
//!   matrix products are more accurate than on a device.
//! - An unknown instruction, modifier or operand is an error when the module is read. Nothing is
//!   ignored silently.
//! - No text, parameter or address causes a panic, and the same launch always gives the same bytes
//!   and the same findings.
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

/// The supported opcodes with their supported forms, sorted.
pub fn supported() -> impl Iterator<Item = (&'static str, &'static str)> {
    decode::table::TABLE
        .iter()
        .map(|entry| (entry.name, entry.forms))
}
