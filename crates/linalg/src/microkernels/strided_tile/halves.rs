//! AVX-512 vectors of 16-bit floats as tiles load and store them.

use crate::microkernels::vector512::{self, Vector as _};

/// Loads the selected ones of 16 bf16 as f32.
///
/// # Safety
/// Those of the mask can be read; AVX-512 F, BW and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn from_bf16(from: *const i16, mask: u16) -> core::arch::x86_64::__m512 {
    // SAFETY: the caller promises that the elements selected by the mask can be read, and a CPU
    // with AVX-512 F, BW and VL.
    unsafe { vector512::Bf16::load(from, mask) }
}

/// Loads the selected ones of 16 f16 as f32.
///
/// # Safety
/// Those of the mask can be read; AVX-512 F, BW and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn from_f16(from: *const i16, mask: u16) -> core::arch::x86_64::__m512 {
    // SAFETY: the caller promises that the elements selected by the mask can be read, and a CPU
    // with AVX-512 F, BW and VL.
    unsafe { vector512::F16::load(from, mask) }
}

/// Stores the selected ones of 16 sums of bf16 products, rounded to the nearest bf16. The
/// instruction flushes subnormal numbers to zero, but neither `vdpbf16ps` nor `tdpbf16ps` yields one.
///
/// # Safety
/// Those of the mask can be written; AVX-512 F, BW, VL and BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(in super::super) unsafe fn sums_to_bf16(
    to: *mut i16,
    mask: u16,
    sums: core::arch::x86_64::__m512,
) {
    use core::arch::x86_64::{__m256bh, __m256i, _mm256_mask_storeu_epi16, _mm512_cvtneps_pbh};
    // SAFETY: both are 256 bits; the caller promises that the elements of the mask can be written.
    unsafe {
        let rounded = core::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(sums));
        _mm256_mask_storeu_epi16(to, mask, rounded);
    }
}
