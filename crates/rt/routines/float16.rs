//! 16-bit floats, with the operations that products need.

/// A bf16: the upper half of a binary32.
#[allow(non_camel_case_types, reason = "named like the types of the language")]
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct bf16(u16);

/// An IEEE binary16.
#[allow(non_camel_case_types, reason = "named like the types of the language")]
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct f16(u16);

impl bf16 {
    /// The number with these bits.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Its bits.
    pub const fn to_bits(self) -> u16 {
        self.0
    }

    /// Converts exactly.
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    /// The nearest number, ties to even; NaN keeps its upper bits and is quiet.
    pub fn from_f32(x: f32) -> Self {
        let bits = x.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        Self(match x.is_nan() {
            true => (bits >> 16) as u16 | 0x40,
            false => rounded as u16,
        })
    }
}

impl f16 {
    /// The number with these bits.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Its bits.
    pub const fn to_bits(self) -> u16 {
        self.0
    }

    /// Converts exactly, and makes NaN quiet.
    pub fn to_f32(self) -> f32 {
        let bits = u32::from(self.0);
        let (sign, exponent, fraction) = ((bits & 0x8000) << 16, bits >> 10 & 0x1f, bits & 0x3ff);
        let magnitude = match (exponent, fraction) {
            (0, _) => {
                // A multiple of 2^-24: exact.
                (fraction as f32 * f32::from_bits((127 - 24) << 23)).to_bits()
            }
            (0x1f, 0) => 0x7f80_0000,
            (0x1f, _) => 0x7fc0_0000 | fraction << 13,
            _ => (exponent + 112) << 23 | fraction << 13,
        };
        f32::from_bits(sign | magnitude)
    }

    /// The nearest number, ties to even.
    pub fn from_f32(x: f32) -> Self {
        let bits = x.to_bits();
        let (sign, magnitude) = ((bits >> 16 & 0x8000) as u16, bits & 0x7fff_ffff);
        let rounded = match magnitude {
            0x7f80_0001.. => 0x7e00 | (magnitude >> 13) as u16 & 0x3ff,
            // From 65520 on, which is halfway to 65536, numbers round to infinity.
            0x477f_f000.. => 0x7c00,
            // 2^-14, the smallest normal number.
            0x3880_0000.. => {
                let odd = magnitude >> 13 & 1;
                ((magnitude - (112 << 23) + 0xfff + odd) >> 13) as u16
            }
            // Adding 0.5 gives a sum whose last bit is worth 2^-24, so that the addition rounds
            // correctly.
            _ => (f32::from_bits(magnitude) + 0.5).to_bits() as u16,
        };
        Self(sign | rounded)
    }
}
