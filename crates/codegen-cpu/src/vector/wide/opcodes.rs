//! Which instruction does an operation: by lane width and number of lanes.

use crate::vector::body::{BinaryOp, Condition, Fused, Type, UnaryOp};
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
    /// Half of one.
    R32,
}

/// How the lanes of a value lie in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// 16 of 32 bits.
    Full32 = 0,
    /// 8 of 32 bits.
    Half32 = 1,
    /// 8 of 64 bits.
    Full64 = 2,
}

impl Form {
    pub(super) fn size(self) -> Size {
        match self {
            Self::Half32 => Size::Ymm,
            _ => Size::Zmm,
        }
    }
}

/// An instruction by [`Form`].
pub(super) type Codes = [Code; 3];

macro_rules! three {
    ($a:ident, $b:ident, $c:ident) => {
        [Code::$a, Code::$b, Code::$c]
    };
}

/// An instruction of two operands, with a number after them where it has one.
pub(super) fn binary(op: BinaryOp, ty: Type) -> Option<(Codes, Option<i32>)> {
    let codes = match (op, ty.is_float()) {
        (BinaryOp::Add, true) => three!(
            EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vaddps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er
        ),
        (BinaryOp::Sub, true) => three!(
            EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vsubps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er
        ),
        (BinaryOp::Mul, true) => three!(
            EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vmulps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er
        ),
        (BinaryOp::Div, _) => three!(
            EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vdivps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er
        ),
        (BinaryOp::LesserOrSecond, _) => three!(
            EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae,
            EVEX_Vminps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vminpd_zmm_k1z_zmm_zmmm512b64_sae
        ),
        (BinaryOp::GreaterOrSecond, _) => three!(
            EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae,
            EVEX_Vmaxps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae
        ),
        (BinaryOp::Scale, _) => three!(
            EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vscalefps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vscalefpd_zmm_k1z_zmm_zmmm512b64_er
        ),
        // The sign by comparison: -0 is below +0. A NaN is repaired after it.
        (BinaryOp::Minimum, _) => return Some((range(), Some(0b0100))),
        (BinaryOp::Maximum, _) => return Some((range(), Some(0b0101))),
        _ => return integer(op).map(|codes| (codes, None)),
    };
    Some((codes, None))
}

fn range() -> Codes {
    three!(
        EVEX_Vrangeps_zmm_k1z_zmm_zmmm512b32_imm8_sae,
        EVEX_Vrangeps_ymm_k1z_ymm_ymmm256b32_imm8,
        EVEX_Vrangepd_zmm_k1z_zmm_zmmm512b64_imm8_sae
    )
}

fn integer(op: BinaryOp) -> Option<Codes> {
    Some(match op {
        BinaryOp::Add => three!(
            EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpaddd_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64
        ),
        BinaryOp::Sub => three!(
            EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpsubd_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64
        ),
        BinaryOp::Mul => three!(
            EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpmulld_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64
        ),
        BinaryOp::And => three!(
            EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpandd_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64
        ),
        BinaryOp::Or => three!(
            EVEX_Vpord_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpord_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vporq_zmm_k1z_zmm_zmmm512b64
        ),
        BinaryOp::Xor => three!(
            EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpxord_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64
        ),
        BinaryOp::MinSigned => three!(
            EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpminsd_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpminsq_zmm_k1z_zmm_zmmm512b64
        ),
        BinaryOp::MaxSigned => three!(
            EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpmaxsd_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpmaxsq_zmm_k1z_zmm_zmmm512b64
        ),
        BinaryOp::MinUnsigned => three!(
            EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpminud_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpminuq_zmm_k1z_zmm_zmmm512b64
        ),
        BinaryOp::MaxUnsigned => three!(
            EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpmaxud_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpmaxuq_zmm_k1z_zmm_zmmm512b64
        ),
        BinaryOp::ShiftLeft => three!(
            EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpsllvd_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64
        ),
        BinaryOp::ShiftRight => three!(
            EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpsrlvd_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64
        ),
        BinaryOp::ShiftRightSigned => three!(
            EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32,
            EVEX_Vpsravd_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64
        ),
        _ => return None,
    })
}

/// A shift by a constant.
pub(super) fn shift(op: BinaryOp) -> Codes {
    match op {
        BinaryOp::ShiftLeft => three!(
            EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8,
            EVEX_Vpslld_ymm_k1z_ymmm256b32_imm8,
            EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8
        ),
        BinaryOp::ShiftRight => three!(
            EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8,
            EVEX_Vpsrld_ymm_k1z_ymmm256b32_imm8,
            EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8
        ),
        _ => three!(
            EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8,
            EVEX_Vpsrad_ymm_k1z_ymmm256b32_imm8,
            EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8
        ),
    }
}

/// An instruction of one operand, with a number after it where it has one.
pub(super) fn unary(op: UnaryOp) -> (Codes, Option<i32>) {
    let round = three!(
        EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae,
        EVEX_Vrndscaleps_ymm_k1z_ymmm256b32_imm8,
        EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae
    );
    // Bit 3: no exception for an inexact result.
    match op {
        UnaryOp::Nearest => (round, Some(8)),
        UnaryOp::Floor => (round, Some(9)),
        UnaryOp::Ceil => (round, Some(10)),
        UnaryOp::Trunc => (round, Some(11)),
        UnaryOp::AbsInt => (
            three!(
                EVEX_Vpabsd_zmm_k1z_zmmm512b32,
                EVEX_Vpabsd_ymm_k1z_ymmm256b32,
                EVEX_Vpabsq_zmm_k1z_zmmm512b64
            ),
            None,
        ),
        UnaryOp::Sqrt | UnaryOp::Not => (
            three!(
                EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er,
                EVEX_Vsqrtps_ymm_k1z_ymmm256b32,
                EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er
            ),
            None,
        ),
    }
}

/// A product and a sum: onto the first operand, a factor.
pub(super) fn fused_onto_factor(fused: Fused) -> Codes {
    match fused {
        Fused::Sum => three!(
            EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vfmadd213ps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er
        ),
        Fused::Less => three!(
            EVEX_Vfmsub213ps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vfmsub213ps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vfmsub213pd_zmm_k1z_zmm_zmmm512b64_er
        ),
        Fused::From => three!(
            EVEX_Vfnmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vfnmadd213ps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vfnmadd213pd_zmm_k1z_zmm_zmmm512b64_er
        ),
    }
}

/// A product and a sum: onto the first operand, which is added or subtracted from.
pub(super) fn fused_onto_sum(fused: Fused) -> Codes {
    match fused {
        Fused::Sum => three!(
            EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vfmadd231ps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er
        ),
        Fused::Less => three!(
            EVEX_Vfmsub231ps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vfmsub231ps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vfmsub231pd_zmm_k1z_zmm_zmmm512b64_er
        ),
        Fused::From => three!(
            EVEX_Vfnmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
            EVEX_Vfnmadd231ps_ymm_k1z_ymm_ymmm256b32,
            EVEX_Vfnmadd231pd_zmm_k1z_zmm_zmmm512b64_er
        ),
    }
}

/// The second operand where the mask holds, else the first.
pub(super) const BLEND: Codes = three!(
    EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32,
    EVEX_Vblendmps_ymm_k1z_ymm_ymmm256b32,
    EVEX_Vblendmpd_zmm_k1z_zmm_zmmm512b64
);

/// A comparison to a mask, and the number that says which.
pub(super) fn compare(condition: Condition, ty: Type) -> (Codes, i32) {
    if ty.is_float() {
        let codes = three!(
            EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae,
            EVEX_Vcmpps_kr_k1_ymm_ymmm256b32_imm8,
            EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae
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
    let signed = three!(
        EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8,
        EVEX_Vpcmpd_kr_k1_ymm_ymmm256b32_imm8,
        EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8
    );
    let unsigned = three!(
        EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8,
        EVEX_Vpcmpud_kr_k1_ymm_ymmm256b32_imm8,
        EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8
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

/// One element into all lanes.
pub(super) const SPLAT: Codes = three!(
    EVEX_Vbroadcastss_zmm_k1z_xmmm32,
    EVEX_Vbroadcastss_ymm_k1z_xmmm32,
    EVEX_Vbroadcastsd_zmm_k1z_xmmm64
);

/// A general register into all lanes.
pub(super) const SPLAT_REGISTER: Codes = three!(
    EVEX_Vpbroadcastd_zmm_k1z_r32,
    EVEX_Vpbroadcastd_ymm_k1z_r32,
    EVEX_Vpbroadcastq_zmm_k1z_r64
);

/// Lanes from memory.
pub(super) const LOAD: Codes = three!(
    EVEX_Vmovups_zmm_k1z_zmmm512,
    EVEX_Vmovups_ymm_k1z_ymmm256,
    EVEX_Vmovupd_zmm_k1z_zmmm512
);

/// Lanes to memory.
pub(super) const STORE: Codes = three!(
    EVEX_Vmovups_zmmm512_k1z_zmm,
    EVEX_Vmovups_ymmm256_k1z_ymm,
    EVEX_Vmovupd_zmmm512_k1z_zmm
);

/// Narrow elements to 32-bit lanes, from memory or a smaller register.
pub(super) fn widen(bytes: u32, signed: bool, form: Form) -> Code {
    match (bytes, signed, form) {
        (1, false, Form::Half32) => Code::EVEX_Vpmovzxbd_ymm_k1z_xmmm64,
        (1, false, _) => Code::EVEX_Vpmovzxbd_zmm_k1z_xmmm128,
        (1, true, Form::Half32) => Code::EVEX_Vpmovsxbd_ymm_k1z_xmmm64,
        (1, true, _) => Code::EVEX_Vpmovsxbd_zmm_k1z_xmmm128,
        (_, false, Form::Half32) => Code::EVEX_Vpmovzxwd_ymm_k1z_xmmm128,
        (_, false, _) => Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256,
        (_, true, Form::Half32) => Code::EVEX_Vpmovsxwd_ymm_k1z_xmmm128,
        (_, true, _) => Code::EVEX_Vpmovsxwd_zmm_k1z_ymmm256,
    }
}

/// 32-bit lanes to narrow elements in memory.
pub(super) fn narrow(bytes: u32, form: Form) -> Code {
    match (bytes, form) {
        (1, Form::Half32) => Code::EVEX_Vpmovdb_xmmm64_k1z_ymm,
        (1, _) => Code::EVEX_Vpmovdb_xmmm128_k1z_zmm,
        (_, Form::Half32) => Code::EVEX_Vpmovdw_xmmm128_k1z_ymm,
        (_, _) => Code::EVEX_Vpmovdw_ymmm256_k1z_zmm,
    }
}

/// Elements at 32-bit indices, and the size of the register of indices.
pub(super) fn gather(form: Form) -> (Code, Size) {
    match form {
        Form::Full32 => (Code::EVEX_Vpgatherdd_zmm_k1_vm32z, Size::Zmm),
        Form::Half32 => (Code::EVEX_Vpgatherdd_ymm_k1_vm32y, Size::Ymm),
        Form::Full64 => (Code::EVEX_Vpgatherdq_zmm_k1_vm32y, Size::Ymm),
    }
}

/// [`gather`]'s other direction.
pub(super) fn scatter(form: Form) -> (Code, Size) {
    match form {
        Form::Full32 => (Code::EVEX_Vpscatterdd_vm32z_k1_zmm, Size::Zmm),
        Form::Half32 => (Code::EVEX_Vpscatterdd_vm32y_k1_ymm, Size::Ymm),
        Form::Full64 => (Code::EVEX_Vpscatterdq_vm32y_k1_zmm, Size::Ymm),
    }
}

/// The steps of moving the upper half of what is left onto the lower, by form:
/// instructions and their numbers.
pub(super) fn halvings(form: Form) -> &'static [(bool, i32)] {
    // Whether 128-bit parts move, or what is in them.
    match form {
        Form::Full32 => &[(true, 0x4e), (true, 0xb1), (false, 0x4e), (false, 0xb1)],
        Form::Half32 => &[(true, 0x01), (false, 0x4e), (false, 0xb1)],
        Form::Full64 => &[(true, 0x4e), (true, 0xb1), (false, 0x4e)],
    }
}

/// 128-bit parts by number.
pub(super) const MOVE_PARTS: Codes = three!(
    EVEX_Vshuff32x4_zmm_k1z_zmm_zmmm512b32_imm8,
    EVEX_Vshuff32x4_ymm_k1z_ymm_ymmm256b32_imm8,
    EVEX_Vshuff32x4_zmm_k1z_zmm_zmmm512b32_imm8
);

/// 32-bit lanes inside 128-bit parts by number.
pub(super) const MOVE_LANES: Codes = three!(
    EVEX_Vpshufd_zmm_k1z_zmmm512b32_imm8,
    EVEX_Vpshufd_ymm_k1z_ymmm256b32_imm8,
    EVEX_Vpshufd_zmm_k1z_zmmm512b32_imm8
);
