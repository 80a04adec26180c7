//! The SIMD intermediate form: what is done for each lane of a vector loop.
//!
//! [`ir`] is the data, [`builder`] makes it, `interpreter` says what it means. [`mathlib`] holds
//! the functions that have no instruction, as polynomials. The rest are optimisations that do not
//! depend on an instruction set: [`merge_selected_polynomials`], [`list_schedule`],
//! [`integer_division`], [`half_precision`]. [`row_addressing`] says how several rows of lanes in
//! one call find their inputs. [`crate::isa`] turns bodies into instructions.

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
