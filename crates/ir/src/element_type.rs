//! Element types of arrays, and their widths.

use std::fmt;

/// The kind of number that an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// `pred`: true or false.
    Boolean,
    /// A two's-complement integer.
    Signed,
    /// An unsigned integer.
    Unsigned,
    /// A binary floating-point number.
    Float,
    /// A pair of floating-point numbers.
    Complex,
}

macro_rules! element_types {
    ($($variant:ident $name:literal $bits:literal $category:ident $doc:literal;)*) => {
        /// The type of an array's elements.
        ///
        /// Names are those of HLO text. Widths are logical; [`ElementType::storage_bytes`] is the
        /// number of bytes of an element in a host literal.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ElementType { $(#[doc = $doc] $variant,)* }

        impl ElementType {
            /// Every element type.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name in HLO text.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The logical width in bits.
            pub const fn bits(self) -> u32 {
                match self { $(Self::$variant => $bits,)* }
            }

            /// The kind of number that an element is.
            pub const fn category(self) -> Category {
                match self { $(Self::$variant => Category::$category,)* }
            }

            /// The type of this name, if there is one.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

element_types! {
    Pred "pred" 8 Boolean "A truth value; takes a byte.";
    S1 "s1" 1 Signed "Signed, 1 bit.";
    S2 "s2" 2 Signed "Signed, 2 bits.";
    S4 "s4" 4 Signed "Signed, 4 bits.";
    S8 "s8" 8 Signed "Signed, 8 bits.";
    S16 "s16" 16 Signed "Signed, 16 bits.";
    S32 "s32" 32 Signed "Signed, 32 bits.";
    S64 "s64" 64 Signed "Signed, 64 bits.";
    U1 "u1" 1 Unsigned "Unsigned, 1 bit.";
    U2 "u2" 2 Unsigned "Unsigned, 2 bits.";
    U4 "u4" 4 Unsigned "Unsigned, 4 bits.";
    U8 "u8" 8 Unsigned "Unsigned, 8 bits.";
    U16 "u16" 16 Unsigned "Unsigned, 16 bits.";
    U32 "u32" 32 Unsigned "Unsigned, 32 bits.";
    U64 "u64" 64 Unsigned "Unsigned, 64 bits.";
    F4E2M1FN "f4e2m1fn" 4 Float "OCP microscaling FP4: 1 sign, 2 exponent, 1 mantissa bit; finite only.";
    F6E2M3FN "f6e2m3fn" 6 Float "OCP microscaling FP6, 2 exponent bits; finite only.";
    F6E3M2FN "f6e3m2fn" 6 Float "OCP microscaling FP6, 3 exponent bits; finite only.";
    F8E3M4 "f8e3m4" 8 Float "IEEE-like, 3 exponent and 4 mantissa bits.";
    F8E4M3 "f8e4m3" 8 Float "IEEE-like, 4 exponent and 3 mantissa bits.";
    F8E4M3FN "f8e4m3fn" 8 Float "OCP FP8 E4M3: no infinities, one NaN per sign.";
    F8E4M3FNUZ "f8e4m3fnuz" 8 Float "E4M3, no infinities, one NaN (0x80), no negative zero; bias 8.";
    F8E4M3B11FNUZ "f8e4m3b11fnuz" 8 Float "E4M3 with bias 11, one NaN (0x80), no negative zero.";
    F8E5M2 "f8e5m2" 8 Float "OCP FP8 E5M2: IEEE-like.";
    F8E5M2FNUZ "f8e5m2fnuz" 8 Float "E5M2, no infinities, one NaN (0x80), no negative zero; bias 16.";
    F8E8M0FNU "f8e8m0fnu" 8 Float "OCP microscaling scale: powers of two from 2^-127 to 2^127, and NaN (0xff).";
    F16 "f16" 16 Float "IEEE binary16.";
    BF16 "bf16" 16 Float "The upper half of an IEEE binary32.";
    F32 "f32" 32 Float "IEEE binary32.";
    F64 "f64" 64 Float "IEEE binary64.";
    C64 "c64" 64 Complex "A pair of f32: real, imaginary.";
    C128 "c128" 128 Complex "A pair of f64: real, imaginary.";
}

impl ElementType {
    /// Bytes of one element in a host [`Literal`](crate::Literal) or buffer.
    /// A type narrower than a byte takes a whole byte there.
    pub const fn storage_bytes(self) -> usize {
        (self.bits() as usize).div_ceil(8)
    }

    /// Whether this is a floating-point type (complex ones are not).
    pub fn is_float(self) -> bool {
        self.category() == Category::Float
    }

    /// Whether this is an integer type (`pred` is not).
    pub fn is_integer(self) -> bool {
        matches!(self.category(), Category::Signed | Category::Unsigned)
    }

    /// Whether this is a signed integer type.
    pub fn is_signed(self) -> bool {
        self.category() == Category::Signed
    }

    /// Whether this is a complex type.
    pub fn is_complex(self) -> bool {
        self.category() == Category::Complex
    }

    /// The element type of the real and the imaginary part, if this is a complex type.
    pub fn complex_part(self) -> Option<Self> {
        match self {
            Self::C64 => Some(Self::F32),
            Self::C128 => Some(Self::F64),
            _ => None,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
