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
