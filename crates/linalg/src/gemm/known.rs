//! What is known of a product when its code is compiled, so that a program that has one kind of product
//! has the kernels of no other.
//!
//! How a product is computed is decided by the CPU's vectors and the element types, at run time, and
//! the code for every answer is there. Where both are constants, the compiler leaves out the rest;
//! it has to see them as constants at each choice, which is what these functions are for.

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
