//! Lowers SIMD bodies to instructions, with a folder for each lowering; and disassembles machine
//! code.
//!
//! - [`clif128`]: 128-bit vectors in Cranelift's form, on every architecture. On AArch64, whose
//!   vectors have 128 bits, it is the only lowering.
//! - [`x64`]: our own AVX2 and AVX-512 code generation, because Cranelift's vectors have at most
//!   128 bits.
//! - `aarch64`: a disassembler, for listings on any machine.

#[cfg(feature = "aarch64")]
pub(crate) mod aarch64;
pub(crate) mod clif128;
pub(crate) mod listed;
pub(crate) mod x64;
