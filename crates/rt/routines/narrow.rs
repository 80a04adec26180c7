//! Conversions between numbers and the bits of floats narrower than 32 bits: as
//! `tegula_scalar::{decode_single, encode_single, encode_double}`.

use crate::{ElementType, bf16, f16};

fn named(index: u32) -> ElementType {
    let known = ElementType::ALL.get(index as usize);
    known.copied().unwrap_or(ElementType::F16)
}

/// The number with these bits, in a type given by its index in `ElementType::ALL`.
#[unsafe(no_mangle)]
pub extern "C" fn tegula_rt_decode_narrow(element_type: u32, bits: u32) -> f32 {
    match named(element_type) {
        ElementType::F32 => f32::from_bits(bits),
        ElementType::BF16 => bf16::from_bits(bits as u16).to_f32(),
        ElementType::F16 => f16::from_bits(bits as u16).to_f32(),
        ty => ty.float_format().map_or(f32::NAN, |format| {
            format.decode(u64::from(bits & 0xff)) as f32
        }),
    }
}

/// The bits of the nearest number of a type.
#[unsafe(no_mangle)]
pub extern "C" fn tegula_rt_encode_narrow(element_type: u32, x: f32) -> u32 {
    match named(element_type) {
        ElementType::F32 => x.to_bits(),
        ElementType::BF16 => u32::from(bf16::from_f32(x).to_bits()),
        ElementType::F16 => u32::from(f16::from_f32(x).to_bits()),
        _ => tegula_rt_encode_narrow_f64(element_type, f64::from(x)),
    }
}

/// The bits of the nearest number of a type to a 64-bit number, rounded once.
#[unsafe(no_mangle)]
pub extern "C" fn tegula_rt_encode_narrow_f64(element_type: u32, x: f64) -> u32 {
    match named(element_type) {
        ElementType::F32 => (x as f32).to_bits(),
        ty => ty.float_format().map_or(0, |format| format.encode(x)) as u32,
    }
}
