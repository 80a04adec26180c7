//! From SIMD bodies to instructions, one folder for each way.
//!
//! - [`clif128`]: vectors of 128 bits in Cranelift's own form, on every architecture.
//! - [`x64`]: AVX2 and AVX-512 machine code of our own, because Cranelift's vectors end at 128 bits.

pub(crate) mod clif128;
pub(crate) mod x64;
