//! The definition of every operation on one element: the scalar functions, and the words of random
//! numbers.
//!
//! All targets share these definitions: the reference evaluator's array loops call them, the Plan
//! evaluator evaluates scalar bodies with them, and a backend that does not generate code for a
//! function calls it here, so that all targets agree to the bit.
//!
//! There are two interfaces. Code that knows the type uses the typed functions ([`unary_f32`],
//! [`binary_signed`], [`compare`], ...). Code that does not uses the `apply_*` functions on raw
//! bits: a `u128` holds the bytes that one element takes in a [`Literal`](tegula_ir::Literal),
//! little endian, with zeros above.
//!
//! ```
//! use tegula_ir::{ElementType, Unary};
//! use tegula_scalar::{apply_unary, unary_f32};
//!
//! assert_eq!(unary_f32(Unary::Sqrt, 9.0), 3.0);
//! // The same on raw bits, of a type that is known at run time only: the root of 9 in bf16.
//! let nine = u128::from(0x4110_u16);
//! assert_eq!(apply_unary(Unary::Sqrt, ElementType::BF16, nine), Some(0x4040));
//! ```

mod bits;
mod compare;
mod complex;
mod elements;
mod float;
mod integer;
mod number;
pub mod random;
mod reduce_precision;

pub use bits::{
    apply_binary, apply_bitcast, apply_clamp, apply_compare, apply_convert, apply_reduce_precision,
    apply_select, apply_stochastic_convert, apply_unary, bits_from_scalar, has_binary, has_unary,
    scalar_from_bits,
};
pub use compare::{compare, holds};
pub use complex::{C32, C64, binary_c32, binary_c64, divide, narrow, part_c64, unary_c64, widen};
pub use elements::{Bits, BitsMut};
pub use float::{
    LEAST_ROUNDED_TO_NORMAL, binary_f32, binary_f32_function, binary_f64, binary_f64_function,
    maximum_f32, maximum_f64, minimum_f32, minimum_f64, unary_f32, unary_f32_function, unary_f64,
    unary_f64_function,
};
pub use integer::{
    binary_pred, binary_signed, binary_unsigned, unary_pred, unary_signed, unary_unsigned,
    wrap_signed, wrap_unsigned,
};
pub use number::{Number, decode, decode_single, encode, encode_double, encode_single};
pub use reduce_precision::reduce_precision;
