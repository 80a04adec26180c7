//! Matrix kernels for the CPU: the innermost loops of products and convolutions
//! in the widest instructions that may be used, with a portable form of each.
//!
//! - `amx`: tiles whose registers are matrices.
//! - [`packed_tile`]: one tile of a product, from packed panels.
//! - [`strided_tile`]: the same, from operands as they lie in memory.
//! - [`pack`]: panels from arrays of any strides and type.
//! - [`depthwise`]: products of many small groups, without packing.
//! - [`dot_rows`]: dot products along rows, without packing.
//! - [`gemv`]: one row times a large matrix; `gemv_f16`: of 16-bit floats.
//! - [`store`]: tiles to arrays of any strides and type.
//!
//! # Safety
//! Everything here works on raw pointers: what a function may access is said at
//! it, and its callers compute from shapes that it stays inside. A function with a
//! `target_feature` is reached only through a table that [`Isa`] chose, and an
//! `Isa` says only what the running CPU has.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
pub(crate) mod depthwise;
pub(crate) mod dot_rows;
pub(crate) mod gemv;
#[cfg(target_arch = "x86_64")]
mod gemv_f16;
pub(crate) mod pack;
pub(crate) mod packed_tile;
pub(crate) mod store;
pub(crate) mod strided_tile;

use crate::options::Cpu;

/// How wide the vectors are that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Width {
    /// What the crate is compiled for.
    Portable,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

/// Instructions that may be used: those that were asked for and that the running
/// CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Isa {
    pub(crate) width: Width,
    /// Dot products of pairs of bf16.
    pub(crate) bf16: bool,
    /// Dot products of pairs of 16-bit integers.
    pub(crate) vnni: bool,
    /// Products of matrices of pairs of bf16.
    pub(crate) amx_bf16: bool,
    /// Products of matrices of fours of 8-bit integers.
    pub(crate) amx_int8: bool,
}

impl Isa {
    /// The instructions of a CPU, as far as the running one has them.
    pub(crate) fn new(cpu: Cpu) -> Self {
        let here = Self::detect();
        let width = match cpu {
            Cpu::Native | Cpu::X86V4 => Width::Avx512,
            Cpu::X86V3 => Width::Avx2,
            Cpu::X86V2 => Width::Portable,
        };
        let native = cpu == Cpu::Native;
        Self {
            width: width.min(here.width),
            bf16: here.bf16 && native,
            vnni: here.vnni && native,
            amx_bf16: here.amx_bf16 && native,
            amx_int8: here.amx_int8 && native,
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn detect() -> Self {
        use std::is_x86_feature_detected as has;
        let avx2 = has!("avx2") && has!("fma");
        let avx512 = avx2
            && has!("avx512f")
            && has!("avx512bw")
            && has!("avx512dq")
            && has!("avx512vl")
            && has!("f16c");
        let matrices = match avx512 {
            true => amx::detect(),
            false => amx::Amx::default(),
        };
        Self {
            width: match (avx512, avx2) {
                (true, _) => Width::Avx512,
                (false, true) => Width::Avx2,
                (false, false) => Width::Portable,
            },
            bf16: avx512 && has!("avx512bf16"),
            vnni: avx512 && has!("avx512vnni"),
            amx_bf16: matrices.bf16,
            amx_int8: matrices.int8,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn detect() -> Self {
        Self {
            width: Width::Portable,
            bf16: false,
            vnni: false,
            amx_bf16: false,
            amx_int8: false,
        }
    }
}

/// How many lines with the same place the first-level data cache holds, as the CPU says; 12 if
/// it does not.
#[cfg(target_arch = "x86_64")]
pub(crate) fn first_level_ways() -> usize {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    use std::sync::OnceLock;
    static WAYS: OnceLock<usize> = OnceLock::new();
    // Both vendors describe caches alike, in leaves of their own.
    const INTEL: u32 = 4;
    const AMD: u32 = 0x8000_001d;
    *WAYS.get_or_init(|| {
        let leaves = [(INTEL, __cpuid(0).eax), (AMD, __cpuid(0x8000_0000).eax)];
        let leaves = leaves.into_iter().filter(|(leaf, last)| leaf <= last);
        let caches = leaves.flat_map(|(leaf, _)| (0..4).map(move |i| __cpuid_count(leaf, i)));
        // Kind 1 is of data, in bits 0 to 4; the level is in bits 5 to 7.
        let first = caches
            .into_iter()
            .find(|cache| cache.eax & 0xff == 1 << 5 | 1);
        first.map_or(UNKNOWN_WAYS, |cache| (cache.ebx >> 22) as usize + 1)
    })
}

/// As above.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn first_level_ways() -> usize {
    UNKNOWN_WAYS
}

const UNKNOWN_WAYS: usize = 12;
