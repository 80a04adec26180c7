//! Matrix kernels for the CPU: the innermost loops of products and convolutions
//! in the widest instructions that may be used, with a portable form of each.
//!
//! - [`neon`]: all of it for AArch64; elsewhere as a model that programs are compiled with.
//! - `amx`: tiles whose registers are matrices.
//! - [`packed_tile`]: one tile of a product, from packed panels.
//! - [`strided_tile`]: the same, from operands as they lie in memory.
//! - [`pack`]: panels from arrays of any strides and type.
//! - [`dot_rows`]: dot products along rows, without packing.
//! - [`gemv`]: one row times a large matrix; `gemv_f16`: of 16-bit floats.
//! - [`store`]: tiles to arrays of any strides and type.
//!
//! # Safety
//! Everything here works on raw pointers: what a function may access is said at
//! it, and its callers compute from shapes that it stays inside. A function with a
//! `target_feature` is reached only through a table that [`CpuFeatures`] chose, which says only
//! what the running CPU has.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
pub(crate) mod dot_rows;
pub(crate) mod gemv;
#[cfg(target_arch = "x86_64")]
mod gemv_f16;
pub(crate) mod long_rows;
// On other machines it is there for whoever compiles for AArch64, which routines of programs never do.
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
