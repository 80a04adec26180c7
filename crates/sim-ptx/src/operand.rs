//! Register slots and types.

/// The number of lanes of a warp.
pub(crate) const LANES: usize = 32;

/// A slot of the 32-bit bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct R32(pub(crate) u32);

/// A slot of the 64-bit bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct R64(pub(crate) u32);

/// A slot of the predicate bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct P(pub(crate) u32);

/// A predicate register, optionally negated when it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) p: P,
    pub(crate) negated: bool,
}

/// A slot of either value bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    W(R32),
    D(R64),
}

/// The types of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Type {
    Pred,
    B8,
    B16,
    B32,
    B64,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    BF16,
    BF16x2,
    F32,
    F64,
    TF32,
    E4M3x2,
    E5M2x2,
}

impl Type {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "pred" => Self::Pred,
            "b8" => Self::B8,
            "b16" => Self::B16,
            "b32" => Self::B32,
            "b64" => Self::B64,
            "u8" => Self::U8,
            "u16" => Self::U16,
            "u32" => Self::U32,
            "u64" => Self::U64,
            "s8" => Self::S8,
            "s16" => Self::S16,
            "s32" => Self::S32,
            "s64" => Self::S64,
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::BF16,
            "bf16x2" => Self::BF16x2,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "tf32" => Self::TF32,
            "e4m3x2" => Self::E4M3x2,
            "e5m2x2" => Self::E5M2x2,
            _ => return None,
        })
    }

    /// The number of bits of a value; 1 for a predicate.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::Pred => 1,
            Self::B8 | Self::U8 | Self::S8 => 8,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::BF16 => 16,
            Self::E4M3x2 | Self::E5M2x2 => 16,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 | Self::TF32 => 32,
            Self::F16x2 | Self::BF16x2 => 32,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 64,
        }
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    /// Whether it is a signed or unsigned integer type.
    pub(crate) fn is_integer(self) -> bool {
        self.is_signed() || matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64)
    }

    pub(crate) fn is_bits(self) -> bool {
        matches!(self, Self::B8 | Self::B16 | Self::B32 | Self::B64)
    }
}
