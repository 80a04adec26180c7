//! The instruction sets that bodies are lowered to, AVX-512 and AVX2, and how they differ.

use super::opcodes::{Form, Size};
use crate::simd::list_schedule::Limits;
use regalloc2::RegClass;
use tegula_target::{IsaLevel, VectorWidth};

/// Where general registers, vectors and masks (of AVX-512) live.
pub(super) const INTEGER: RegClass = RegClass::Int;
pub(super) const VECTOR: RegClass = RegClass::Float;
pub(super) const MASK: RegClass = RegClass::Vector;

/// Instructions that bodies are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstructionSet {
    /// AVX-512 F, BW, DQ and VL: 32 registers of 512 bits, and masks in registers of their own.
    Avx512,
    /// AVX2 and FMA: 16 registers of 256 bits. A mask is a vector whose lanes are all bits or
    /// none; where some lanes of a body take 64 bits, so do those of its masks.
    Avx2,
}

impl InstructionSet {
    /// Those of a level, of [`IsaLevel::Native`] the widest that this machine has.
    pub(crate) fn of(level: IsaLevel) -> Option<Self> {
        // Bodies are called by the System V convention. WebAssembly runs none: it lists them.
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

    /// Whether this machine has it.
    #[cfg(test)]
    pub(crate) fn is_supported(self) -> bool {
        let needed = match self {
            Self::Avx512 => VectorWidth::Avx512,
            Self::Avx2 => VectorWidth::Avx2,
        };
        needed <= tegula_target::CpuFeatures::detect().width
    }

    /// Whether lanes at equal distances are stores and loads of whole vectors that are shuffled.
    /// Otherwise they are accessed one by one.
    pub(crate) fn interleaves(self) -> bool {
        self == Self::Avx512
    }

    /// Lanes of a vector: half as many where some take 64 bits.
    pub(super) fn lanes(self, wide: bool) -> i32 {
        match (self, wide) {
            (Self::Avx512, false) => 16,
            (Self::Avx512, true) | (Self::Avx2, false) => 8,
            (Self::Avx2, true) => 4,
        }
    }

    /// How lanes of 64 or of 32 bits lie in a register; `fewer`: of a body that has lanes of
    /// 64 bits.
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

    /// How many values a body's schedule may keep alive. Of 32 registers some hold what is the
    /// same for all lanes, and of 7 masks some are the ends' of runs. Of 16, a few more than there
    /// are is better than waiting for them.
    pub(super) fn alive(self) -> Limits {
        let (vectors, masks) = match self {
            Self::Avx512 => (24, Some(5)),
            Self::Avx2 => (18, None),
        };
        Limits { vectors, masks }
    }

    /// How many vector registers there are.
    pub(super) fn vector_registers(self) -> usize {
        match self {
            Self::Avx512 => 32,
            Self::Avx2 => 16,
        }
    }

    /// Bytes of one.
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

    /// Where masks live.
    pub(super) fn mask_class(self) -> RegClass {
        match self {
            Self::Avx512 => MASK,
            Self::Avx2 => VECTOR,
        }
    }
}
