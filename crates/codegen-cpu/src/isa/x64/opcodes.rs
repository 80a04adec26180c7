//! The opcode of an operation, by instruction set, lane width and number of lanes.

use crate::simd::ir::{BinaryOp, Condition, Fused, Type, UnaryOp};
use iced_x86::Code;

/// The size of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// 512 bits.
    Zmm,
    /// 256 bits.
    Ymm,
    /// 128 bits.
    Xmm,
    /// A mask.
    K,
    /// A general register.
    R64,
    /// The lower half of a general register.
    R32,
}

/// The layout of a value's lanes in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// AVX-512: 16 of 32 bits.
    Full32 = 0,
    /// AVX-512: 8 of 32 bits.
    Half32 = 1,
    /// AVX-512: 8 of 64 bits.
    Full64 = 2,
    /// AVX2: 8 of 32 bits.
    Avx2Full32 = 3,
    /// AVX2: 4 of 32 bits.
    Avx2Half32 = 4,
    /// AVX2: 4 of 64 bits.
    Avx2Full64 = 5,
}

impl Form {
    pub(super) fn size(self) -> Size {
        match self {
            Self::Full32 | Self::Full64 => Size::Zmm,
            Self::Half32 | Self::Avx2Full32 | Self::Avx2Full64 => Size::Ymm,
            Self::Avx2Half32 => Size::Xmm,
        }
    }
}

/// The opcodes of an instruction by [`Form`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Codes([Code; 6]);

impl Codes {
    /// The opcode for a form; `None` if the instruction set has none.
    pub(super) fn of(self, form: Form) -> Option<Code> {
        let code = self.0[form as usize];
        (code != Code::INVALID).then_some(code)
    }
}

/// The opcodes of AVX-512's three forms, then of AVX2's; `NONE` if one of the sets has none.
macro_rules! forms {
    ($($wide:ident),*; NONE) => {
        forms!($($wide),*; INVALID, INVALID, INVALID)
    };
    ($a:ident, $b:ident, $c:ident; $d:ident, $e:ident, $f:ident) => {
        Codes([Code::$a, Code::$b, Code::$c, Code::$d, Code::$e, Code::$f])
    };
}

/// The opcode for a binary operation, and its immediate if it has one.
pub(super) fn binary(op: BinaryOp, ty: Type) -> Option<(Codes, Option<i32>)> {
    let codes = match (op, ty.is_float()) {
        (BinaryOp::Add, true) => forms!(
            EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vaddps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er;
            VEX_Vaddps_ymm_ymm_ymmm256,
            VEX_Vaddps_xmm_xmm_xmmm128,
            VEX_Vaddpd_ymm_ymm_ymmm256
        ),
        (BinaryOp::Sub, true) => forms!(
            EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vsubps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er;
            VEX_Vsubps_ymm_ymm_ymmm256,
            VEX_Vsubps_xmm_xmm_xmmm128,
            VEX_Vsubpd_ymm_ymm_ymmm256
        ),
        (BinaryOp::Mul, true) => forms!(
            EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vmulps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er;
            VEX_Vmulps_ymm_ymm_ymmm256,
            VEX_Vmulps_xmm_xmm_xmmm128,
            VEX_Vmulpd_ymm_ymm_ymmm256
        ),
        (BinaryOp::Div, _) => forms!(
            EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vdivps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er;
            VEX_Vdivps_ymm_ymm_ymmm256,
            VEX_Vdivps_xmm_xmm_xmmm128,
            VEX_Vdivpd_ymm_ymm_ymmm256
        ),
        (BinaryOp::LesserOrSecond, _) => forms!(
            EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae,
            EVEX_Vminps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vminpd_zmm_k1z_zmm_zmmm512b64_sae;
            VEX_Vminps_ymm_ymm_ymmm256,
            VEX_Vminps_xmm_xmm_xmmm128,
            VEX_Vminpd_ymm_ymm_ymmm256
        ),
        (BinaryOp::GreaterOrSecond, _) => forms!(
            EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae,
            EVEX_Vmaxps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae;
            VEX_Vmaxps_ymm_ymm_ymmm256,
            VEX_Vmaxps_xmm_xmm_xmmm128,
            VEX_Vmaxpd_ymm_ymm_ymmm256
        ),
        (BinaryOp::Scale, _) => forms!(
            EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vscalefps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vscalefpd_zmm_k1z_zmm_zmmm512b64_er;
            NONE
        ),
        // Compares signs of zeros as well: -0 is below +0. NaN is corrected afterwards.
        (BinaryOp::Minimum, _) => return Some((range(), Some(0b0100))),
        (BinaryOp::Maximum, _) => return Some((range(), Some(0b0101))),
        _ => return integer(op).map(|codes| (codes, None)),
    };
    Some((codes, None))
}

fn range() -> Codes {
    forms!(
        EVEX_Vrangeps_zmm_k1z_zmm_zmmm512b32_imm8_sae,
        EVEX_Vrangeps_ymm_k1z_ymm_ymmm256b32_imm8,
        EVEX_Vrangepd_zmm_k1z_zmm_zmmm512b64_imm8_sae;
        NONE
    )
}

fn integer(op: BinaryOp) -> Option<Codes> {
    Some(match op {
        BinaryOp::Add => forms!(
            EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpaddd_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64;
            VEX_Vpaddd_ymm_ymm_ymmm256,
            VEX_Vpaddd_xmm_xmm_xmmm128,
            VEX_Vpaddq_ymm_ymm_ymmm256
        ),
        BinaryOp::Sub => forms!(
            EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpsubd_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64;
            VEX_Vpsubd_ymm_ymm_ymmm256,
            VEX_Vpsubd_xmm_xmm_xmmm128,
            VEX_Vpsubq_ymm_ymm_ymmm256
        ),
        BinaryOp::Mul => forms!(
            EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpmulld_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64;
            VEX_Vpmulld_ymm_ymm_ymmm256,
            VEX_Vpmulld_xmm_xmm_xmmm128,
            INVALID
        ),
        BinaryOp::And => forms!(
            EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpandd_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64;
            VEX_Vpand_ymm_ymm_ymmm256,
            VEX_Vpand_xmm_xmm_xmmm128,
            VEX_Vpand_ymm_ymm_ymmm256
        ),
        BinaryOp::Or => forms!(
            EVEX_Vpord_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpord_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vporq_zmm_k1z_zmm_zmmm512b64;
            VEX_Vpor_ymm_ymm_ymmm256,
            VEX_Vpor_xmm_xmm_xmmm128,
            VEX_Vpor_ymm_ymm_ymmm256
        ),
        BinaryOp::Xor => forms!(
            EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpxord_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64;
            VEX_Vpxor_ymm_ymm_ymmm256,
            VEX_Vpxor_xmm_xmm_xmmm128,
            VEX_Vpxor_ymm_ymm_ymmm256
        ),
        BinaryOp::MinSigned => forms!(
            EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpminsd_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpminsq_zmm_k1z_zmm_zmmm512b64;
            VEX_Vpminsd_ymm_ymm_ymmm256,
            VEX_Vpminsd_xmm_xmm_xmmm128,
            INVALID
        ),
        BinaryOp::MaxSigned => forms!(
            EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpmaxsd_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpmaxsq_zmm_k1z_zmm_zmmm512b64;
            VEX_Vpmaxsd_ymm_ymm_ymmm256,
            VEX_Vpmaxsd_xmm_xmm_xmmm128,
            INVALID
        ),
        BinaryOp::MinUnsigned => forms!(
            EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpminud_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpminuq_zmm_k1z_zmm_zmmm512b64;
            VEX_Vpminud_ymm_ymm_ymmm256,
            VEX_Vpminud_xmm_xmm_xmmm128,
            INVALID
        ),
        BinaryOp::MaxUnsigned => forms!(
            EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpmaxud_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpmaxuq_zmm_k1z_zmm_zmmm512b64;
            VEX_Vpmaxud_ymm_ymm_ymmm256,
            VEX_Vpmaxud_xmm_xmm_xmmm128,
            INVALID
        ),
        BinaryOp::ShiftLeft => forms!(
            EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpsllvd_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64;
            VEX_Vpsllvd_ymm_ymm_ymmm256,
            VEX_Vpsllvd_xmm_xmm_xmmm128,
            VEX_Vpsllvq_ymm_ymm_ymmm256
        ),
        BinaryOp::ShiftRight => forms!(
            EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpsrlvd_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64;
            VEX_Vpsrlvd_ymm_ymm_ymmm256,
            VEX_Vpsrlvd_xmm_xmm_xmmm128,
            VEX_Vpsrlvq_ymm_ymm_ymmm256
        ),
        BinaryOp::ShiftRightSigned => forms!(
            EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpsravd_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64;
            VEX_Vpsravd_ymm_ymm_ymmm256,
            VEX_Vpsravd_xmm_xmm_xmmm128,
            INVALID
        ),
        _ => return None,
    })
}

/// A shift by a constant.
pub(super) fn shift(op: BinaryOp) -> Codes {
    match op {
        BinaryOp::ShiftLeft => forms!(
            EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8,
            EVEX_Vpslld_ymm_k1z_ymmm256b32_imm8,
            EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8;
            VEX_Vpslld_ymm_ymm_imm8,
            VEX_Vpslld_xmm_xmm_imm8,
            VEX_Vpsllq_ymm_ymm_imm8
        ),
        BinaryOp::ShiftRight => forms!(
            EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8,
            EVEX_Vpsrld_ymm_k1z_ymmm256b32_imm8,
            EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8;
            VEX_Vpsrld_ymm_ymm_imm8,
            VEX_Vpsrld_xmm_xmm_imm8,
            VEX_Vpsrlq_ymm_ymm_imm8
        ),
        BinaryOp::RotateLeft => forms!(
            EVEX_Vprold_zmm_k1z_zmmm512b32_imm8,
            EVEX_Vprold_ymm_k1z_ymmm256b32_imm8,
            EVEX_Vprolq_zmm_k1z_zmmm512b64_imm8;
            NONE
        ),
        _ => forms!(
            EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8,
            EVEX_Vpsrad_ymm_k1z_ymmm256b32_imm8,
            EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8;
            VEX_Vpsrad_ymm_ymm_imm8,
            VEX_Vpsrad_xmm_xmm_imm8,
            INVALID
        ),
    }
}

/// The opcode for a unary operation, and its immediate if it has one.
pub(super) fn unary(op: UnaryOp) -> (Codes, Option<i32>) {
    let round = forms!(
        EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae,
        EVEX_Vrndscaleps_ymm_k1z_ymmm256b32_imm8,
        EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae;
        VEX_Vroundps_ymm_ymmm256_imm8,
        VEX_Vroundps_xmm_xmmm128_imm8,
        VEX_Vroundpd_ymm_ymmm256_imm8
    );
    // Bit 3 suppresses the exception for inexact results.
    match op {
        UnaryOp::Nearest => (round, Some(8)),
        UnaryOp::Floor => (round, Some(9)),
        UnaryOp::Ceil => (round, Some(10)),
        UnaryOp::Trunc => (round, Some(11)),
        UnaryOp::AbsInt => (
            forms!(
                EVEX_Vpabsd_zmm_k1z_zmmm512b32,
                EVEX_Vpabsd_ymm_k1z_ymmm256b32,
                EVEX_Vpabsq_zmm_k1z_zmmm512b64;
                VEX_Vpabsd_ymm_ymmm256,
                VEX_Vpabsd_xmm_xmmm128,
                INVALID
            ),
            None,
        ),
        UnaryOp::Sqrt | UnaryOp::Not => (
            forms!(
                EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er,
                EVEX_Vsqrtps_ymm_k1z_ymmm256b32,
                EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er;
                VEX_Vsqrtps_ymm_ymmm256,
                VEX_Vsqrtps_xmm_xmmm128,
                VEX_Vsqrtpd_ymm_ymmm256
            ),
            None,
        ),
    }
}

/// Fused multiply-add whose result replaces a factor, the first operand.
pub(super) fn fused_onto_factor(fused: Fused) -> Codes {
    match fused {
        Fused::Sum => forms!(
            EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vfmadd213ps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er;
            VEX_Vfmadd213ps_ymm_ymm_ymmm256,
            VEX_Vfmadd213ps_xmm_xmm_xmmm128,
            VEX_Vfmadd213pd_ymm_ymm_ymmm256
        ),
        Fused::Less => forms!(
            EVEX_Vfmsub213ps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vfmsub213ps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vfmsub213pd_zmm_k1z_zmm_zmmm512b64_er;
            VEX_Vfmsub213ps_ymm_ymm_ymmm256,
            VEX_Vfmsub213ps_xmm_xmm_xmmm128,
            VEX_Vfmsub213pd_ymm_ymm_ymmm256
        ),
        Fused::From => forms!(
            EVEX_Vfnmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vfnmadd213ps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vfnmadd213pd_zmm_k1z_zmm_zmmm512b64_er;
            VEX_Vfnmadd213ps_ymm_ymm_ymmm256,
            VEX_Vfnmadd213ps_xmm_xmm_xmmm128,
            VEX_Vfnmadd213pd_ymm_ymm_ymmm256
        ),
    }
}

/// Fused multiply-add whose result replaces the addend, the first operand.
pub(super) fn fused_onto_sum(fused: Fused) -> Codes {
    match fused {
        Fused::Sum => forms!(
            EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vfmadd231ps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er;
            VEX_Vfmadd231ps_ymm_ymm_ymmm256,
            VEX_Vfmadd231ps_xmm_xmm_xmmm128,
            VEX_Vfmadd231pd_ymm_ymm_ymmm256
        ),
        Fused::Less => forms!(
            EVEX_Vfmsub231ps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vfmsub231ps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vfmsub231pd_zmm_k1z_zmm_zmmm512b64_er;
            VEX_Vfmsub231ps_ymm_ymm_ymmm256,
            VEX_Vfmsub231ps_xmm_xmm_xmmm128,
            VEX_Vfmsub231pd_ymm_ymm_ymmm256
        ),
        Fused::From => forms!(
            EVEX_Vfnmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vfnmadd231ps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vfnmadd231pd_zmm_k1z_zmm_zmmm512b64_er;
            VEX_Vfnmadd231ps_ymm_ymm_ymmm256,
            VEX_Vfnmadd231ps_xmm_xmm_xmmm128,
            VEX_Vfnmadd231pd_ymm_ymm_ymmm256
        ),
    }
}

/// Keeps the first operand, except where a table replaces it by the class of the second one.
pub(super) const FIX: Codes = forms!(
    EVEX_Vfixupimmps_zmm_k1z_zmm_zmmm512b32_imm8_sae,
    EVEX_Vfixupimmps_ymm_k1z_ymm_ymmm256b32_imm8,
    INVALID;
    NONE
);

/// The table for [`FIX`]: the second operand, made quiet, if it is a NaN of either kind (the lowest
/// digits), else the first.
pub(super) const QUIET_NAN: u64 = 0x22;

/// Selects the second operand if the mask holds, else the first. With AVX2 the mask is a vector,
/// the last operand.
pub(super) const BLEND: Codes = forms!(
    EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32,
    EVEX_Vblendmps_ymm_k1z_ymm_ymmm256b32,
    EVEX_Vblendmpd_zmm_k1z_zmm_zmmm512b64;
    VEX_Vblendvps_ymm_ymm_ymmm256_ymm,
    VEX_Vblendvps_xmm_xmm_xmmm128_xmm,
    VEX_Vblendvpd_ymm_ymm_ymmm256_ymm
);

/// The comparison and its immediate: AVX-512's gives a mask, AVX2's of floats a vector of all bits
/// or none.
pub(super) fn compare(condition: Condition, ty: Type) -> (Codes, i32) {
    if ty.is_float() {
        let codes = forms!(
            EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae,
            EVEX_Vcmpps_kr_k1_ymm_ymmm256b32_imm8,
            EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae;
            VEX_Vcmpps_ymm_ymm_ymmm256_imm8,
            VEX_Vcmpps_xmm_xmm_xmmm128_imm8,
            VEX_Vcmppd_ymm_ymm_ymmm256_imm8
        );
        let which = match condition {
            Condition::Equal => 0,
            Condition::Less | Condition::LessUnsigned => 1,
            Condition::LessEqual | Condition::LessEqualUnsigned => 2,
            Condition::Unordered => 3,
            Condition::NotEqual => 4,
        };
        return (codes, which);
    }
    let signed = forms!(
        EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8,
        EVEX_Vpcmpd_kr_k1_ymm_ymmm256b32_imm8,
        EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8;
        NONE
    );
    let unsigned = forms!(
        EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8,
        EVEX_Vpcmpud_kr_k1_ymm_ymmm256b32_imm8,
        EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8;
        NONE
    );
    match condition {
        Condition::Equal => (signed, 0),
        Condition::Less => (signed, 1),
        Condition::LessEqual => (signed, 2),
        Condition::LessUnsigned => (unsigned, 1),
        Condition::LessEqualUnsigned => (unsigned, 2),
        Condition::NotEqual | Condition::Unordered => (signed, 4),
    }
}

/// AVX2's equality of integers.
pub(super) const EQUAL: Codes = forms!(
    INVALID,
    INVALID,
    INVALID;
    VEX_Vpcmpeqd_ymm_ymm_ymmm256,
    VEX_Vpcmpeqd_xmm_xmm_xmmm128,
    VEX_Vpcmpeqq_ymm_ymm_ymmm256
);

/// AVX2's signed greater-than of integers.
pub(super) const GREATER: Codes = forms!(
    INVALID,
    INVALID,
    INVALID;
    VEX_Vpcmpgtd_ymm_ymm_ymmm256,
    VEX_Vpcmpgtd_xmm_xmm_xmmm128,
    VEX_Vpcmpgtq_ymm_ymm_ymmm256
);

/// Broadcasts one element of memory to all lanes.
pub(super) const SPLAT: Codes = forms!(
    EVEX_Vbroadcastss_zmm_k1z_xmmm32,
    EVEX_Vbroadcastss_ymm_k1z_xmmm32,
    EVEX_Vbroadcastsd_zmm_k1z_xmmm64;
    VEX_Vbroadcastss_ymm_m32,
    VEX_Vbroadcastss_xmm_m32,
    VEX_Vbroadcastsd_ymm_m64
);

/// Broadcasts a general register to all lanes; with AVX2, the first lane of a vector.
pub(super) const SPLAT_REGISTER: Codes = forms!(
    EVEX_Vpbroadcastd_zmm_k1z_r32,
    EVEX_Vpbroadcastd_ymm_k1z_r32,
    EVEX_Vpbroadcastq_zmm_k1z_r64;
    VEX_Vpbroadcastd_ymm_xmmm32,
    VEX_Vpbroadcastd_xmm_xmmm32,
    VEX_Vpbroadcastq_ymm_xmmm64
);

/// Loads a vector.
pub(super) const LOAD: Codes = forms!(
    EVEX_Vmovups_zmm_k1z_zmmm512,
    EVEX_Vmovups_ymm_k1z_ymmm256,
    EVEX_Vmovupd_zmm_k1z_zmmm512;
    VEX_Vmovups_ymm_ymmm256,
    VEX_Vmovups_xmm_xmmm128,
    VEX_Vmovupd_ymm_ymmm256
);

/// Stores a vector.
pub(super) const STORE: Codes = forms!(
    EVEX_Vmovups_zmmm512_k1z_zmm,
    EVEX_Vmovups_ymmm256_k1z_ymm,
    EVEX_Vmovupd_zmmm512_k1z_zmm;
    VEX_Vmovups_ymmm256_ymm,
    VEX_Vmovups_xmmm128_xmm,
    VEX_Vmovupd_ymmm256_ymm
);

/// Non-temporal store of a vector, aligned to its size.
pub(super) const STREAM: Codes = forms!(
    EVEX_Vmovntps_m512_zmm,
    EVEX_Vmovntps_m256_ymm,
    EVEX_Vmovntpd_m512_zmm;
    VEX_Vmovntps_m256_ymm,
    VEX_Vmovntps_m128_xmm,
    VEX_Vmovntpd_m256_ymm
);

/// AVX2's masked load: loads lanes for which the mask's highest bit is set; others are 0.
pub(super) const MASKED_LOAD: Codes = forms!(
    INVALID,
    INVALID,
    INVALID;
    VEX_Vmaskmovps_ymm_ymm_m256,
    VEX_Vmaskmovps_xmm_xmm_m128,
    VEX_Vmaskmovpd_ymm_ymm_m256
);

/// AVX2's masked store.
pub(super) const MASKED_STORE: Codes = forms!(
    INVALID,
    INVALID,
    INVALID;
    VEX_Vmaskmovps_m256_ymm_ymm,
    VEX_Vmaskmovps_m128_xmm_xmm,
    VEX_Vmaskmovpd_m256_ymm_ymm
);

/// Bitwise operations on masks: on AVX-512's registers, and on AVX2's vectors.
pub(super) fn mask_bits(op: BinaryOp) -> Option<[Code; 2]> {
    Some(match op {
        BinaryOp::And => [Code::VEX_Kandw_kr_kr_kr, Code::VEX_Vandps_ymm_ymm_ymmm256],
        BinaryOp::Or => [Code::VEX_Korw_kr_kr_kr, Code::VEX_Vorps_ymm_ymm_ymmm256],
        BinaryOp::Xor => [Code::VEX_Kxorw_kr_kr_kr, Code::VEX_Vxorps_ymm_ymm_ymmm256],
        _ => return None,
    })
}

/// Widens narrow elements, from memory or a smaller register, to 32-bit lanes.
pub(super) fn widen(bytes: u32, signed: bool, form: Form) -> Option<Code> {
    let codes = match (bytes, signed) {
        (1, false) => forms!(
            EVEX_Vpmovzxbd_zmm_k1z_xmmm128,
            EVEX_Vpmovzxbd_ymm_k1z_xmmm64,
            INVALID;
            VEX_Vpmovzxbd_ymm_xmmm64,
            VEX_Vpmovzxbd_xmm_xmmm32,
            INVALID
        ),
        (1, true) => forms!(
            EVEX_Vpmovsxbd_zmm_k1z_xmmm128,
            EVEX_Vpmovsxbd_ymm_k1z_xmmm64,
            INVALID;
            VEX_Vpmovsxbd_ymm_xmmm64,
            VEX_Vpmovsxbd_xmm_xmmm32,
            INVALID
        ),
        (_, false) => forms!(
            EVEX_Vpmovzxwd_zmm_k1z_ymmm256,
            EVEX_Vpmovzxwd_ymm_k1z_xmmm128,
            INVALID;
            VEX_Vpmovzxwd_ymm_xmmm128,
            VEX_Vpmovzxwd_xmm_xmmm64,
            INVALID
        ),
        (_, true) => forms!(
            EVEX_Vpmovsxwd_zmm_k1z_ymmm256,
            EVEX_Vpmovsxwd_ymm_k1z_xmmm128,
            INVALID;
            VEX_Vpmovsxwd_ymm_xmmm128,
            VEX_Vpmovsxwd_xmm_xmmm64,
            INVALID
        ),
    };
    codes.of(form)
}

/// Narrows 32-bit lanes to elements in memory.
pub(super) fn narrow(bytes: u32, form: Form) -> Option<Code> {
    let codes = match bytes {
        1 => forms!(
            EVEX_Vpmovdb_xmmm128_k1z_zmm,
            EVEX_Vpmovdb_xmmm64_k1z_ymm,
            INVALID;
            NONE
        ),
        _ => forms!(
            EVEX_Vpmovdw_ymmm256_k1z_zmm,
            EVEX_Vpmovdw_xmmm128_k1z_ymm,
            INVALID;
            NONE
        ),
    };
    codes.of(form)
}

/// Gathers elements at 32-bit indices, and the size of the index register.
pub(super) fn gather(form: Form) -> (Code, Size) {
    match form {
        Form::Full32 => (Code::EVEX_Vpgatherdd_zmm_k1_vm32z, Size::Zmm),
        Form::Half32 => (Code::EVEX_Vpgatherdd_ymm_k1_vm32y, Size::Ymm),
        Form::Full64 => (Code::EVEX_Vpgatherdq_zmm_k1_vm32y, Size::Ymm),
        Form::Avx2Full32 => (Code::VEX_Vpgatherdd_ymm_vm32y_ymm, Size::Ymm),
        Form::Avx2Half32 => (Code::VEX_Vpgatherdd_xmm_vm32x_xmm, Size::Xmm),
        Form::Avx2Full64 => (Code::VEX_Vpgatherdq_ymm_vm32x_ymm, Size::Xmm),
    }
}

/// Scatters elements at 32-bit indices, and the size of the index register.
pub(super) fn scatter(form: Form) -> Option<(Code, Size)> {
    Some(match form {
        Form::Full32 => (Code::EVEX_Vpscatterdd_vm32z_k1_zmm, Size::Zmm),
        Form::Half32 => (Code::EVEX_Vpscatterdd_vm32y_k1_ymm, Size::Ymm),
        Form::Full64 => (Code::EVEX_Vpscatterdq_vm32y_k1_zmm, Size::Ymm),
        Form::Avx2Full32 | Form::Avx2Half32 | Form::Avx2Full64 => return None,
    })
}

/// The steps of a horizontal reduction by form, which move the upper half of the remaining lanes to
/// the lower one: instructions and immediates.
pub(super) fn halvings(form: Form) -> &'static [(bool, i32)] {
    // Whether 128-bit parts move, or lanes inside them.
    match form {
        // After the first step half a register remains.
        Form::Full32 => &[(true, 0x4e), (true, 0x01), (false, 0x4e), (false, 0xb1)],
        Form::Half32 | Form::Avx2Full32 => &[(true, 0x01), (false, 0x4e), (false, 0xb1)],
        Form::Full64 => &[(true, 0x4e), (true, 0xb1), (false, 0x4e)],
        Form::Avx2Half32 => &[(false, 0x4e), (false, 0xb1)],
        Form::Avx2Full64 => &[(true, 0x01), (false, 0x4e)],
    }
}

/// Compresses the lanes of a mask to the lowest lanes.
pub(super) const COMPRESS: Codes = forms!(
    EVEX_Vcompressps_zmmm512_k1z_zmm,
    EVEX_Vcompressps_ymmm256_k1z_ymm,
    EVEX_Vcompresspd_zmmm512_k1z_zmm;
    NONE
);

/// Permutes 128-bit parts.
pub(super) const MOVE_PARTS: Codes = forms!(
    EVEX_Vshuff32x4_zmm_k1z_zmm_zmmm512b32_imm8,
    EVEX_Vshuff32x4_ymm_k1z_ymm_ymmm256b32_imm8,
    EVEX_Vshuff32x4_zmm_k1z_zmm_zmmm512b32_imm8;
    VEX_Vperm2f128_ymm_ymm_ymmm256_imm8,
    INVALID,
    VEX_Vperm2f128_ymm_ymm_ymmm256_imm8
);

/// Permutes 32-bit lanes inside 128-bit parts.
pub(super) const MOVE_LANES: Codes = forms!(
    EVEX_Vpshufd_zmm_k1z_zmmm512b32_imm8,
    EVEX_Vpshufd_ymm_k1z_ymmm256b32_imm8,
    EVEX_Vpshufd_zmm_k1z_zmmm512b32_imm8;
    VEX_Vpshufd_ymm_ymmm256_imm8,
    VEX_Vpshufd_xmm_xmmm128_imm8,
    VEX_Vpshufd_ymm_ymmm256_imm8
);

/// Stores the first lane, the result of a reduction.
pub(super) const STORE_LANE: Codes = forms!(
    EVEX_Vmovss_m32_k1_xmm,
    EVEX_Vmovss_m32_k1_xmm,
    EVEX_Vmovsd_m64_k1_xmm;
    VEX_Vmovss_m32_xmm,
    VEX_Vmovss_m32_xmm,
    VEX_Vmovsd_m64_xmm
);
