//! Names of attribute values that are enumerations, as HLO text writes them.

use crate::{
    AliasKind, Direction, FftType, FusionKind, Precision, RngAlgorithm, RngDistribution,
    TransposeA, WindowDim,
};

macro_rules! names {
    ($($enum:ident { $($variant:ident $name:literal)* })*) => { $(
        impl $enum {
            /// The name in HLO text.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The value of this name, if there is one.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    )* };
}

names! {
    Direction { Eq "EQ" Ne "NE" Ge "GE" Gt "GT" Le "LE" Lt "LT" }
    Precision { Default "default" High "high" Highest "highest" }
    FftType { Fft "FFT" Ifft "IFFT" Rfft "RFFT" Irfft "IRFFT" }
    RngAlgorithm { Default "rng_default" ThreeFry "rng_three_fry" Philox "rng_philox" }
    RngDistribution { Uniform "rng_uniform" Normal "rng_normal" }
    TransposeA { NoTranspose "NO_TRANSPOSE" Transpose "TRANSPOSE" Adjoint "ADJOINT" }
    FusionKind { Loop "kLoop" Input "kInput" Output "kOutput" Custom "kCustom" }
    AliasKind { May "may-alias" Must "must-alias" }
}

impl WindowDim {
    /// A window of one element, with stride 1 and without padding or dilation.
    pub const TRIVIAL: Self = Self {
        size: 1,
        stride: 1,
        padding_low: 0,
        padding_high: 0,
        base_dilation: 1,
        window_dilation: 1,
        reversal: false,
    };
}
