//! The routines, as one crate made of the files of `crates/linalg` that need only `core`.
//!
//! `shared` has links to those files, so that they are part of this package. Items that they import
//! from elsewhere are here under the same names: element types and CPU features are the original
//! files; 16-bit floats, tables and the single-threaded pool are modules of this folder.

#![no_std]

// The names by which those files import these crates.
extern crate core as std;
extern crate self as half;
extern crate self as libm;
extern crate self as tegula_ir;
extern crate self as tegula_target;

mod arrays;
#[path = "shared/border.rs"]
mod border;
mod c_library;
mod complex;
#[path = "shared/convolution/mod.rs"]
mod convolution;
mod convolutions;
#[path = "shared/cpu_features.rs"]
mod cpu_features;
#[path = "shared/dense/mod.rs"]
mod dense;
#[path = "shared/depthwise.rs"]
mod depthwise;
#[path = "shared/element_type.rs"]
mod element_type;
mod entries;
mod float16;
#[path = "shared/float_format.rs"]
mod float_format;
#[path = "shared/fourier/mod.rs"]
mod fourier;
#[path = "shared/gemm/mod.rs"]
mod gemm;
#[path = "shared/generators.rs"]
mod generators;
#[path = "shared/list.rs"]
mod list;
#[path = "shared/microkernels/mod.rs"]
mod microkernels;
mod narrow;
#[path = "shared/planes/mod.rs"]
mod planes;
mod prepared;
#[path = "shared/sort/mod.rs"]
mod sort;
mod tables;
mod thread_pool;
#[path = "shared/top_k.rs"]
mod top_k;
#[path = "shared/vectors.rs"]
mod vectors;

pub use c_library::*;
pub use cpu_features::{CpuFeatures, VectorWidth};
pub use element_type::{Category, ElementType};
pub use float16::{bf16, f16};

/// Required by `no_std`. No routine panics on a valid call; an invalid one stops the process,
/// because there is no caller that could handle a panic.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    stop()
}

/// Ends the process.
fn stop() -> ! {
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
