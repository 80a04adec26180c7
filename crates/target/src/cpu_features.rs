//! The instructions that code may use, as data. Nothing here needs more than `core`: the routines of
//! compiled programs (`crates/rt`) are built with this file, too.

/// How wide vectors are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum VectorWidth {
    /// What the compiler was told to use: 128 bits on x86-64.
    #[default]
    Portable,
    /// Those of every AArch64: 128 bits, with fused multiply-add.
    Neon,
    /// AVX2, FMA and BMI2: 256 bits.
    Avx2,
    /// AVX-512 F, BW, DQ and VL, and F16C: 512 bits.
    Avx512,
}

/// Instructions that may be used.
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
    /// The same of unsigned and signed ones, and products of matrices of them (FEAT_I8MM of AArch64).
    pub int8_matrices: bool,
    /// Products of matrices of pairs of bf16 (AMX-BF16).
    pub amx_bf16: bool,
    /// Products of matrices of fours of 8-bit integers (AMX-INT8).
    pub amx_int8: bool,
    /// How many cache lines with the same place the first-level data cache holds, if it is known.
    pub first_level_ways: Option<u8>,
}

impl CpuFeatures {
    /// How many cache lines with the same place the first-level data cache is taken to hold: 12 if
    /// it is not known.
    pub fn first_level_ways(self) -> usize {
        self.first_level_ways.map_or(12, usize::from)
    }
}
