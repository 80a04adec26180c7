//! From SIMD bodies to instructions, one folder for each way; and from machine code back to text.
//!
//! - [`clif128`]: vectors of 128 bits in Cranelift's own form, on every architecture: on AArch64, whose
//!   vectors have so many, this is what there is.
//! - [`x64`]: AVX2 and AVX-512 machine code of our own, because Cranelift's vectors end at 128 bits.
//! - `aarch64`: a disassembler, for listings on any machine.

#[cfg(feature = "aarch64")]
pub(crate) mod aarch64;
pub(crate) mod clif128;
pub(crate) mod listed;
pub(crate) mod x64;
