//! Which instruction converts lanes.

use super::opcodes::Size;
use crate::vector::body::{Conversion, Type};
use iced_x86::Code;

/// The instruction, and the sizes of its result and its operand; `full`: 16 lanes
/// instead of 8. `None` if there is none.
pub(super) fn convert(
    conversion: Conversion,
    from: Type,
    to: Type,
    full: bool,
) -> Option<(Code, Size, Size)> {
    let (wide_from, wide_to) = (from.is_wide(), to.is_wide());
    if !wide_from && !wide_to {
        let size = if full { Size::Zmm } else { Size::Ymm };
        let code = match (conversion, full) {
            (Conversion::FromSigned, true) => Code::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er,
            (Conversion::FromSigned, false) => Code::EVEX_Vcvtdq2ps_ymm_k1z_ymmm256b32,
            (Conversion::FromUnsigned, true) => Code::EVEX_Vcvtudq2ps_zmm_k1z_zmmm512b32_er,
            (Conversion::FromUnsigned, false) => Code::EVEX_Vcvtudq2ps_ymm_k1z_ymmm256b32,
            (Conversion::Truncate, true) => Code::EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae,
            (Conversion::Truncate, false) => Code::EVEX_Vcvttps2dq_ymm_k1z_ymmm256b32,
            _ => return None,
        };
        return Some((code, size, size));
    }
    let code = match (conversion, wide_from, wide_to) {
        (Conversion::Float, false, true) => Code::EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae,
        (Conversion::Float, true, false) => Code::EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er,
        (Conversion::FromSigned, false, true) => Code::EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er,
        (Conversion::FromUnsigned, false, true) => Code::EVEX_Vcvtudq2pd_zmm_k1z_ymmm256b32_er,
        (Conversion::FromSigned, true, true) => Code::EVEX_Vcvtqq2pd_zmm_k1z_zmmm512b64_er,
        (Conversion::FromUnsigned, true, true) => Code::EVEX_Vcvtuqq2pd_zmm_k1z_zmmm512b64_er,
        (Conversion::FromSigned, true, false) => Code::EVEX_Vcvtqq2ps_ymm_k1z_zmmm512b64_er,
        (Conversion::FromUnsigned, true, false) => Code::EVEX_Vcvtuqq2ps_ymm_k1z_zmmm512b64_er,
        (Conversion::Truncate, true, false) => Code::EVEX_Vcvttpd2dq_ymm_k1z_zmmm512b64_sae,
        (Conversion::Truncate, true, true) => Code::EVEX_Vcvttpd2qq_zmm_k1z_zmmm512b64_sae,
        (Conversion::ExtendSigned, false, true) => Code::EVEX_Vpmovsxdq_zmm_k1z_ymmm256,
        (Conversion::ExtendUnsigned, false, true) => Code::EVEX_Vpmovzxdq_zmm_k1z_ymmm256,
        (Conversion::Low, true, false) => Code::EVEX_Vpmovqd_ymmm256_k1z_zmm,
        _ => return None,
    };
    let size = |wide| if wide { Size::Zmm } else { Size::Ymm };
    Some((code, size(wide_to), size(wide_from)))
}
