//! The instruction sets that bodies are lowered to, AVX-512 and AVX2, and how they differ.

use super::opcodes::{Form, Size};
use crate::simd::list_schedule::Limits;
use regalloc2::RegClass;
use tegula_target::{IsaLevel, VectorWidth};

/// The register classes of general registers, vectors and masks (of AVX-512).
pub(super) const INTEGER: RegClass = RegClass::Int;
pub(super) const VECTOR: RegClass = RegClass::Float;
pub(super) const MASK: RegClass = RegClass::Vector;

/// An instruction set of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstructionSet {
    /// AVX-512 F, BW, DQ and VL: 32 registers of 512 bits, and mask registers.
    Avx512,
    /// AVX2 and FMA: 16 registers of 256 bits. A mask is a vector whose lanes have all bits set or
    /// none; if a body has 64-bit lanes, its masks have 64-bit lanes too.
    Avx2,
}

impl InstructionSet {
    /// The instruction set of a level; for [`IsaLevel::Native`] the widest that this machine has.
    pub(crate) fn of(level: IsaLevel) -> Option<Self> {
        // Bodies are called by the System V convention. WebAssembly executes none, but lists them.
        if cfg!(not(any(
            all(target_arch = "x86_64", unix),
            target_family = "wasm"
        ))) {
            return None;
        }
        match level.width() {
            VectorWidth::Avx512 => Some(Self::Avx512),
            VectorWidth::Avx2 => Some(Self::Avx2),
            VectorWidth::Neon | VectorWidth::Portable => None,
        }
    }

    /// Whether this machine supports the instruction set.
    #[cfg(test)]
    pub(crate) fn is_supported(self) -> bool {
        let needed = match self {
            Self::Avx512 => VectorWidth::Avx512,
            Self::Avx2 => VectorWidth::Avx2,
        };
        needed <= tegula_target::CpuFeatures::detect().width
    }

    /// Whether strided accesses are loads and stores of whole vectors that are shuffled. Otherwise
    /// elements are accessed one by one.
    pub(crate) fn interleaves(self) -> bool {
        self == Self::Avx512
    }

    /// The lanes of a vector: half as many in bodies with 64-bit lanes.
    pub(super) fn lanes(self, wide: bool) -> i32 {
        match (self, wide) {
            (Self::Avx512, false) => 16,
            (Self::Avx512, true) | (Self::Avx2, false) => 8,
            (Self::Avx2, true) => 4,
        }
    }

    /// The form of lanes of 64 or 32 bits in a register; `fewer` for bodies with 64-bit lanes.
    pub(super) fn form(self, wide: bool, fewer: bool) -> Form {
        match (self, wide, fewer) {
            (Self::Avx512, true, _) => Form::Full64,
            (Self::Avx512, false, true) => Form::Half32,
            (Self::Avx512, false, false) => Form::Full32,
            (Self::Avx2, true, _) => Form::Avx2Full64,
            (Self::Avx2, false, true) => Form::Avx2Half32,
            (Self::Avx2, false, false) => Form::Avx2Full32,
        }
    }

    /// The maximum number of live values in a body's schedule. Some of 32 registers hold uniform
    /// values, and some of 7 masks are the ends of runs. With 16 registers, a few spilled values
    /// are better than stalls.
    pub(super) fn alive(self) -> Limits {
        let (vectors, masks) = match self {
            Self::Avx512 => (24, Some(5)),
            Self::Avx2 => (18, None),
        };
        Limits { vectors, masks }
    }

    /// The number of vector registers.
    pub(super) fn vector_registers(self) -> usize {
        match self {
            Self::Avx512 => 32,
            Self::Avx2 => 16,
        }
    }

    /// The size of a vector register in bytes.
    pub(super) fn vector_bytes(self) -> usize {
        match self {
            Self::Avx512 => 64,
            Self::Avx2 => 32,
        }
    }

    /// The size of a register that holds a mask.
    pub(super) fn mask_size(self) -> Size {
        match self {
            Self::Avx512 => Size::K,
            Self::Avx2 => Size::Ymm,
        }
    }

    /// The register class of masks.
    pub(super) fn mask_class(self) -> RegClass {
        match self {
            Self::Avx512 => MASK,
            Self::Avx2 => VECTOR,
        }
    }
}
