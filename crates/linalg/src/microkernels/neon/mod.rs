//! Microkernels for AArch64, whose vectors have 128 bits.
//!
//! There are 32 registers and no masks. A tile keeps 24 accumulator vectors. For each element of
//! the depth it loads a row of four vectors, and multiplies them by one unit of each of six rows:
//! an instruction that multiplies a vector by one lane of another needs no broadcast of that lane.
//!
//! - [`vector`]: vectors by type, with `native` instructions on AArch64. On other machines
//!   (`emulated`) they are plain arrays: a cross-compiler for AArch64 reads the same tables there,
//!   and packs constants as AArch64's tiles read them.
//! - [`strided_tile`], [`gemv`]: like the modules of those names in the parent. Packed tiles, dot
//!   products of rows and the packing of panels are in the `neon.rs` files of the folders of those
//!   names.
//!
//! Dot products of 8-bit integers and of bf16 are inline assembly, because the compiler's
//! intrinsics for them are not stable.

#[cfg(not(target_arch = "aarch64"))]
pub(crate) mod emulated;
pub(crate) mod gemv;
mod lanes;
#[cfg(target_arch = "aarch64")]
mod native;
pub(crate) mod strided_tile;
#[cfg(test)]
mod tests;
pub(crate) mod vector;

/// The maximum number of rows of a tile, and the maximum number of vectors of a tile of that
/// height.
pub(crate) const ROWS: usize = 6;
pub(crate) const VECTORS: usize = 4;
