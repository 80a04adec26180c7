//! Facts about a product that are constant when its code is compiled, so that a program with one
//! kind of product contains the kernels of no other.
//!
//! The CPU's vectors and the element types determine how a product is computed. They are known at
//! run time only, so the code must contain all variants. Where both are constants, the compiler
//! removes the other variants; for this it must see the constants at each choice, which these
//! functions ensure.

use super::Types;
use crate::microkernels::{CpuFeatures, VectorWidth};
use tegula_ir::ElementType;

/// What is known.
pub trait Known {
    /// The vectors, if they are known. There are no matrix registers then.
    const WIDTH: Option<VectorWidth>;
    /// The type of both operands, if it is known.
    const OPERANDS: Option<ElementType>;
    /// The types that the result may have, if those of the operands are known.
    const RESULTS: &'static [ElementType];

    /// The CPU, with what is known of it as constants.
    #[inline(always)]
    fn isa(isa: CpuFeatures) -> CpuFeatures {
        match Self::WIDTH {
            Some(width) => CpuFeatures {
                width,
                amx_bf16: false,
                amx_int8: false,
                ..isa
            },
            None => isa,
        }
    }

    /// The types, as constants if they are known.
    #[inline(always)]
    fn types([lhs, rhs, out]: Types) -> Types {
        let result = match *Self::RESULTS {
            [] => out,
            [first] => first,
            [first, second, ..] => match out == first {
                true => first,
                false => second,
            },
        };
        match Self::OPERANDS {
            Some(ty) => [ty, ty, result],
            None => [lhs, rhs, result],
        }
    }
}

/// Nothing is known: the CPU is the one that runs the code.
pub(super) struct Nothing;

impl Known for Nothing {
    const WIDTH: Option<VectorWidth> = None;
    const OPERANDS: Option<ElementType> = None;
    const RESULTS: &'static [ElementType] = &[];
}
