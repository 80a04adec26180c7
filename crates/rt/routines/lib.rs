//! The routines, as one crate of the files of `crates/linalg` that need no more than `core`.
//!
//! What those files import from elsewhere is here under the same names: element types and CPU
//! features are the crates' own files, floats of 16 bits, tables and the pool of one thread are
//! modules of this folder.

#![no_std]

// Those files name these crates.
extern crate core as std;
extern crate self as half;
extern crate self as tegula_ir;
extern crate self as tegula_target;

#[path = "../../target/src/cpu_features.rs"]
mod cpu_features;
#[path = "../../linalg/src/depthwise.rs"]
mod depthwise;
#[path = "../../ir/src/element_type.rs"]
mod element_type;
mod entries;
mod float16;
#[path = "../../ir/src/float_format.rs"]
mod float_format;
#[path = "../../linalg/src/gemm/mod.rs"]
mod gemm;
#[path = "../../linalg/src/list.rs"]
mod list;
#[path = "../../linalg/src/microkernels/mod.rs"]
mod microkernels;
mod narrow;
#[path = "../../linalg/src/planes.rs"]
mod planes;
mod tables;
mod thread_pool;

pub use cpu_features::{CpuFeatures, VectorWidth};
pub use element_type::ElementType;
pub use float16::{bf16, f16};

/// Required by `no_std`. No routine panics on a valid call; an invalid one stops the process, since there
/// is no caller that could handle a panic.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction ends the process.
    unsafe {
        core::arch::asm!("ud2", options(noreturn))
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction ends the process.
    unsafe {
        core::arch::asm!("udf #0", options(noreturn))
    }
}
