//! Library operations: the steps of a Plan that call routines instead of generated code.
//!
//! [`call`] chooses the routine and the memory that it needs. The other modules convert raw memory
//! and shapes to arguments: [`dot`] and [`convolution`] for matrix products, [`sort`] (by a
//! [`sort_key`] where possible), [`routine`] for routines on whole arrays ([`random_bits`],
//! [`stochastic_convert`]), [`custom_call`] for handlers that the user registers.

pub(crate) mod call;
pub(crate) mod convolution;
pub(crate) mod custom_call;
pub(crate) mod dot;
pub(crate) mod random_bits;
pub(crate) mod routine;
pub(crate) mod sort;
pub(crate) mod sort_key;
pub(crate) mod stochastic_convert;
