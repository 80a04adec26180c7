//! Conversion between PJRT's numbers of element types and Tegula's types.

use crate::c_api::*;
use crate::error::Error;
use tegula_ir::ElementType;

const TYPES: [(PJRT_Buffer_Type, ElementType); 32] = [
    (PJRT_Buffer_Type_PRED, ElementType::Pred),
    (PJRT_Buffer_Type_S1, ElementType::S1),
    (PJRT_Buffer_Type_S2, ElementType::S2),
    (PJRT_Buffer_Type_S4, ElementType::S4),
    (PJRT_Buffer_Type_S8, ElementType::S8),
    (PJRT_Buffer_Type_S16, ElementType::S16),
    (PJRT_Buffer_Type_S32, ElementType::S32),
    (PJRT_Buffer_Type_S64, ElementType::S64),
    (PJRT_Buffer_Type_U1, ElementType::U1),
    (PJRT_Buffer_Type_U2, ElementType::U2),
    (PJRT_Buffer_Type_U4, ElementType::U4),
    (PJRT_Buffer_Type_U8, ElementType::U8),
    (PJRT_Buffer_Type_U16, ElementType::U16),
    (PJRT_Buffer_Type_U32, ElementType::U32),
    (PJRT_Buffer_Type_U64, ElementType::U64),
    (PJRT_Buffer_Type_F4E2M1FN, ElementType::F4E2M1FN),
    (PJRT_Buffer_Type_F6E2M3FN, ElementType::F6E2M3FN),
    (PJRT_Buffer_Type_F6E3M2FN, ElementType::F6E3M2FN),
    (PJRT_Buffer_Type_F8E3M4, ElementType::F8E3M4),
    (PJRT_Buffer_Type_F8E4M3, ElementType::F8E4M3),
    (PJRT_Buffer_Type_F8E4M3FN, ElementType::F8E4M3FN),
    (PJRT_Buffer_Type_F8E4M3FNUZ, ElementType::F8E4M3FNUZ),
    (PJRT_Buffer_Type_F8E4M3B11FNUZ, ElementType::F8E4M3B11FNUZ),
    (PJRT_Buffer_Type_F8E5M2, ElementType::F8E5M2),
    (PJRT_Buffer_Type_F8E5M2FNUZ, ElementType::F8E5M2FNUZ),
    (PJRT_Buffer_Type_F8E8M0FNU, ElementType::F8E8M0FNU),
    (PJRT_Buffer_Type_F16, ElementType::F16),
    (PJRT_Buffer_Type_BF16, ElementType::BF16),
    (PJRT_Buffer_Type_F32, ElementType::F32),
    (PJRT_Buffer_Type_F64, ElementType::F64),
    (PJRT_Buffer_Type_C64, ElementType::C64),
    (PJRT_Buffer_Type_C128, ElementType::C128),
];

/// The element type for PJRT's number.
pub(crate) fn from_c(number: PJRT_Buffer_Type) -> Result<ElementType, Error> {
    let known = TYPES.iter().find(|(known, _)| *known == number);
    let known = known.map(|&(_, element_type)| element_type);
    known
        .ok_or_else(|| Error::invalid(format!("element type {number} is not supported for arrays")))
}

/// PJRT's number for an element type.
pub(crate) fn to_c(element_type: ElementType) -> PJRT_Buffer_Type {
    let known = TYPES.iter().find(|(_, known)| *known == element_type);
    known.map_or(PJRT_Buffer_Type_INVALID, |&(number, _)| number)
}

/// Normalises elements narrower than a byte to the form in literals: integers are sign- or
/// zero-extended, and unused bits of other types are zero. Callers may have any values in the
/// unused bits.
pub(crate) fn extend(element_type: ElementType, bytes: &mut [u8]) {
    use tegula_ir::Category;
    let bits = element_type.bits();
    let unused = match u32::checked_sub(8, bits) {
        Some(unused) if unused > 0 => unused,
        _ => return,
    };
    for byte in bytes {
        *byte = match element_type.category() {
            Category::Signed => (((*byte << unused) as i8) >> unused) as u8,
            _ => (*byte << unused) >> unused,
        };
    }
}
