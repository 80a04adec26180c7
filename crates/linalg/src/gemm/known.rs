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

/// The constant facts.
pub trait Known {
    /// The vectors, if known; matrix registers are then not used.
    const WIDTH: Option<VectorWidth>;
    /// The type of both operands, if known.
    const OPERANDS: Option<ElementType>;
    /// The possible types of the result, if the operands' types are known.
    const RESULTS: &'static [ElementType];

    /// The CPU's features, with the known ones as constants.
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

    /// The types, as constants where known.
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

/// No compile-time facts: the instruction set and the types are known only at run time.
pub(super) struct Nothing;

impl Known for Nothing {
    const WIDTH: Option<VectorWidth> = None;
    const OPERANDS: Option<ElementType> = None;
    const RESULTS: &'static [ElementType] = &[];
}
