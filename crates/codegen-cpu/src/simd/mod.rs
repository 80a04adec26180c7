//! The SIMD intermediate form: the operations on each lane of a vector loop.
//!
//! [`ir`] defines the data, [`builder`] makes it, `interpreter` defines its meaning. [`mathlib`]
//! contains functions that have no instruction, as polynomials. The others are optimisations that
//! do not depend on an instruction set ([`merge_selected_polynomials`], [`list_schedule`]) and
//! expansions ([`integer_division`], [`half_precision`]). [`row_addressing`] defines how a call
//! that computes several rows of lanes finds their inputs. [`crate::isa`] lowers bodies to
//! instructions.

pub(crate) mod builder;
pub(crate) mod half_precision;
pub(crate) mod integer_division;
#[cfg(test)]
pub(crate) mod interpreter;
pub(crate) mod ir;
pub(crate) mod list_schedule;
pub(crate) mod mathlib;
pub(crate) mod merge_selected_polynomials;
pub(crate) mod row_addressing;
#[cfg(test)]
pub(crate) mod test_harness;
#[cfg(test)]
pub(crate) mod tests;
