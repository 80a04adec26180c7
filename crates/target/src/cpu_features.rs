//! The CPU features that code may use, as data. This file needs only `core`, because the run-time
//! routines of compiled programs (`crates/rt`) include it as well.

/// The width of vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum VectorWidth {
    /// The width that the compiler targets: 128 bits on x86-64.
    #[default]
    Portable,
    /// Vectors of every AArch64: 128 bits, with fused multiply-add.
    Neon,
    /// AVX2, FMA and BMI2: 256 bits.
    Avx2,
    /// AVX-512 F, BW, DQ and VL, and F16C: 512 bits.
    Avx512,
}

/// The CPU features that code may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuFeatures {
    /// The widest vectors.
    pub width: VectorWidth,
    /// Dot products of pairs of bf16 (AVX512-BF16; FEAT_BF16 of AArch64) that are worth using: on x86-64 only
    /// where they are faster than multiplications of `f32`, or where there are products of matrices.
    pub bf16: bool,
    /// Dot products of pairs of 16-bit integers (AVX512-VNNI).
    pub vnni: bool,
    /// Dot products of fours of 8-bit integers of one sign (FEAT_DotProd of AArch64).
    pub dot_product: bool,
    /// Dot products of quadruples of unsigned and signed 8-bit integers, and matrix products of
    /// them (FEAT_I8MM of AArch64).
    pub int8_matrices: bool,
    /// Matrix products of bf16 pairs (AMX-BF16).
    pub amx_bf16: bool,
    /// Matrix products of quadruples of 8-bit integers (AMX-INT8).
    pub amx_int8: bool,
    /// The associativity (number of ways) of the first-level data cache, if it is known.
    pub first_level_ways: Option<u8>,
}

impl CpuFeatures {
    /// The associativity (number of ways) of the first-level data cache; 12 if it is not known.
    pub fn first_level_ways(self) -> usize {
        self.first_level_ways.map_or(12, usize::from)
    }
}
