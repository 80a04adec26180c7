//! Microkernels for AArch64, whose vectors have 128 bits.
//!
//! There are 32 registers and no masks. A tile keeps 24 vectors of sums, for each element of the depth loads
//! a row of four vectors, and multiplies them by one unit of each of six rows: products of a vector and one
//! lane of another need no copies of that lane.
//!
//! - [`vector`]: vectors by type, with `native` instructions on AArch64. Elsewhere (`emulated`) the same is
//!   plain arrays: whoever compiles for AArch64 asks the same tables there, and packs constants as their
//!   tiles read them.
//! - [`strided_tile`], [`gemv`]: as the modules of those names beside this one. Packed tiles, rows of dot
//!   products and the packing of panels are in `neon.rs` of the folders of those names.
//!
//! Dot products of 8-bit integers and of bf16 are instructions in assembly, because the compiler's functions
//! for them are not stable.

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

/// The most rows of a tile, and the most vectors of one of so many rows.
pub(crate) const ROWS: usize = 6;
pub(crate) const VECTORS: usize = 4;
