//! Selects the instructions that convert lanes.

use super::opcodes::Form;
use crate::simd::ir::{Conversion, Type};
use iced_x86::Code;

/// The opcode of a conversion, by the form of its operand. `None` if there is none.
pub(super) fn convert(conversion: Conversion, from: Type, to: Type, form: Form) -> Option<Code> {
    let wide = (from.is_wide(), to.is_wide());
    match form {
        Form::Full32 | Form::Half32 | Form::Full64 => avx512(conversion, wide, form),
        Form::Avx2Full32 | Form::Avx2Half32 | Form::Avx2Full64 => avx2(conversion, wide, form),
    }
}

fn avx512(conversion: Conversion, wide: (bool, bool), form: Form) -> Option<Code> {
    let full = form == Form::Full32;
    Some(match (conversion, wide.0, wide.1) {
        (Conversion::FromSigned, false, false) if full => {
            Code::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er
        }
        (Conversion::FromSigned, false, false) => Code::EVEX_Vcvtdq2ps_ymm_k1z_ymmm256b32,
        (Conversion::FromUnsigned, false, false) if full => {
            Code::EVEX_Vcvtudq2ps_zmm_k1z_zmmm512b32_er
        }
        (Conversion::FromUnsigned, false, false) => Code::EVEX_Vcvtudq2ps_ymm_k1z_ymmm256b32,
        (Conversion::Truncate, false, false) if full => {
            Code::EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae
        }
        (Conversion::Truncate, false, false) => Code::EVEX_Vcvttps2dq_ymm_k1z_ymmm256b32,
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
    })
}

fn avx2(conversion: Conversion, wide: (bool, bool), form: Form) -> Option<Code> {
    let full = form == Form::Avx2Full32;
    Some(match (conversion, wide.0, wide.1) {
        (Conversion::FromSigned, false, false) if full => Code::VEX_Vcvtdq2ps_ymm_ymmm256,
        (Conversion::FromSigned, false, false) => Code::VEX_Vcvtdq2ps_xmm_xmmm128,
        (Conversion::Truncate, false, false) if full => Code::VEX_Vcvttps2dq_ymm_ymmm256,
        (Conversion::Truncate, false, false) => Code::VEX_Vcvttps2dq_xmm_xmmm128,
        (Conversion::Float, false, true) => Code::VEX_Vcvtps2pd_ymm_xmmm128,
        (Conversion::Float, true, false) => Code::VEX_Vcvtpd2ps_xmm_ymmm256,
        (Conversion::FromSigned, false, true) => Code::VEX_Vcvtdq2pd_ymm_xmmm128,
        (Conversion::Truncate, true, false) => Code::VEX_Vcvttpd2dq_xmm_ymmm256,
        (Conversion::ExtendSigned, false, true) => Code::VEX_Vpmovsxdq_ymm_xmmm128,
        (Conversion::ExtendUnsigned, false, true) => Code::VEX_Vpmovzxdq_ymm_xmmm128,
        _ => return None,
    })
}
