//! AVX-512 vectors of 16 elements of several floating-point types, loaded and stored as f32.

use core::arch::x86_64::*;

/// Vectors of 16 elements of a type, as f32.
pub(crate) trait Vector {
    type Element;
    /// # Safety
    /// The elements of the mask can be read; AVX-512 F, BW and VL.
    unsafe fn load(from: *const Self::Element, mask: u16) -> __m512;
    /// # Safety
    /// The elements of the mask can be written; AVX-512 F, BW and VL.
    unsafe fn store(to: *mut Self::Element, mask: u16, x: __m512);
}

pub(crate) struct F32;

impl Vector for F32 {
    type Element = f32;
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load(from: *const f32, mask: u16) -> __m512 {
        // SAFETY: the caller promises that the elements of the mask can be read, and that the CPU
        // has the instructions.
        unsafe { _mm512_maskz_loadu_ps(mask, from) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn store(to: *mut f32, mask: u16, x: __m512) {
        // SAFETY: the caller promises that the elements of the mask can be written, and that the
        // CPU has the instructions.
        unsafe { _mm512_mask_storeu_ps(to, mask, x) };
    }
}

pub(crate) struct Bf16;

impl Vector for Bf16 {
    type Element = i16;
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load(from: *const i16, mask: u16) -> __m512 {
        // SAFETY: the caller promises that the elements of the mask can be read, and that the CPU
        // has the instructions.
        let bits = unsafe { _mm256_maskz_loadu_epi16(mask, from) };
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bits)))
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn store(to: *mut i16, mask: u16, x: __m512) {
        // To the nearest, ties to even; a NaN stays one.
        let bits = _mm512_castps_si512(x);
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
        let quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x40_0000));
        let rounded = _mm512_mask_blend_epi32(nan, rounded, quiet);
        let halves = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded));
        // SAFETY: the caller promises that the elements of the mask can be written, and that the
        // CPU has the instructions.
        unsafe { _mm256_mask_storeu_epi16(to, mask, halves) };
    }
}

pub(crate) struct F16;

impl Vector for F16 {
    type Element = i16;
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load(from: *const i16, mask: u16) -> __m512 {
        // SAFETY: the caller promises that the elements of the mask can be read, and that the CPU
        // has the instructions.
        unsafe { _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, from)) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn store(to: *mut i16, mask: u16, x: __m512) {
        let halves = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
        // SAFETY: the caller promises that the elements of the mask can be written, and that the
        // CPU has the instructions.
        unsafe { _mm256_mask_storeu_epi16(to, mask, halves) };
    }
}

/// Stores the selected ones of 16 sums of bf16 products, rounded to the nearest bf16. The
/// instruction flushes subnormal numbers to zero, but `vdpbf16ps` and `tdpbf16ps` yield none.
///
/// # Safety
/// Those of the mask can be written; AVX-512 F, BW, VL and BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(super) unsafe fn sums_to_bf16(to: *mut i16, mask: u16, sums: __m512) {
    // SAFETY: both are 256 bits; the caller promises that the elements of the mask can be written.
    unsafe {
        let rounded = core::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(sums));
        _mm256_mask_storeu_epi16(to, mask, rounded);
    }
}
