//! Microkernels for the CPU: the innermost loops of products and convolutions in the widest
//! instructions that may be used, each with a portable form.
//!
//! - [`neon`]: all of them for AArch64; on other machines a model, against which programs are
//!   compiled.
//! - `amx`: tiles in matrix registers.
//! - [`packed_tile`]: one tile of a product, from packed panels.
//! - [`strided_tile`]: the same, from operands in place.
//! - [`pack`]: packs arrays of any strides and type into panels.
//! - [`dot_rows`]: dot products along rows, without packing.
//! - [`gemv`]: one row times a large matrix; `gemv_f16`: the same for 16-bit floats.
//! - [`store`]: stores tiles to arrays of any strides and type.
//!
//! # Safety
//! All functions work on raw pointers: each states what it may access, and its callers compute
//! sizes from shapes so that it stays inside. A function with a `target_feature` is reached only
//! through a table that [`CpuFeatures`] selected, which contains only features of the running CPU.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
pub(crate) mod dot_rows;
pub(crate) mod gemv;
#[cfg(target_arch = "x86_64")]
mod gemv_f16;
pub(crate) mod long_rows;
// On other machines it serves cross-compilers to AArch64; compiled programs' routines never need
// it.
#[cfg(any(target_arch = "aarch64", feature = "std"))]
pub(crate) mod neon;
pub(crate) mod pack;
pub(crate) mod packed_tile;
pub(crate) mod store;
pub(crate) mod strided;
pub(crate) mod strided_tile;
#[cfg(target_arch = "x86_64")]
pub(crate) mod vector512;

pub(crate) use tegula_target::{CpuFeatures, VectorWidth};
