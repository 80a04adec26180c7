//! Translates kernels to Cranelift's intermediate form (CLIF), one function for each.
//!
//! - [`lower`]: statements, loops, loads and stores; [`elementwise`] and [`complex`]: scalar
//!   operations; [`reduce_precision`]; [`integer`]: index terms; [`types`]: the Cranelift types for
//!   each element type.
//! - [`counted_loop`]: the blocks of a loop with a known number of iterations.
//! - [`simd_call`]: a vector loop as a call of its SIMD body; [`row_blocking`] and [`row_loop`]:
//!   several rows in one call.
//! - [`mem2reg`]: promotion of array elements to registers.
//! - [`operand_copy`]: copies of small arrays with permuted dimensions.
//! - [`transposed_tile`]: copies of parts of arrays with lanes and rows exchanged.
//! - [`shape_code`]: computations on symbolic dimensions.
//! - [`target`]: Cranelift's settings and the CPU features that it may use.

mod complex;
pub(crate) mod counted_loop;
pub(crate) mod elementwise;
pub(crate) mod integer;
pub(crate) mod lower;
pub(crate) mod mem2reg;
pub(crate) mod operand_copy;
mod reduce_precision;
pub(crate) mod row_blocking;
pub(crate) mod row_loop;
pub(crate) mod shape_code;
pub(crate) mod simd_call;
pub(crate) mod target;
mod transposed_tile;
pub(crate) mod types;
