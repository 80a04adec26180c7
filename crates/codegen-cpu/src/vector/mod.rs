//! Vector code for kernels.
//!
//! A kernel's innermost loop over a domain, or a loop of its body, becomes a
//! [`body`]: what is done for each lane of a run. The body is lowered to 128-bit
//! Cranelift vectors ([`portable`]), or to machine code of its own where the
//! CPU has AVX-512 or AVX2 ([`wide`]).

mod body;
mod builder;
mod choose;
mod complex;
mod contract;
#[cfg(test)]
mod evaluate;
mod exclusive;
mod linear;
mod mathlib;
mod narrow;
pub(crate) mod portable;
mod quotient;
#[cfg(test)]
mod run;
mod scalars;
mod schedule;
mod terms;
#[cfg(test)]
mod tests;
pub(crate) mod translate;
mod turns;
pub(crate) mod wide;

pub(crate) use body::{Body, Input, Storage};
pub(crate) use choose::{Choice, choose, exchanged};
pub(crate) use linear::{Ranges, linear_index, merged, split, steps_along};
pub(crate) use mathlib::is_call;
pub(crate) use translate::{Combined, Run, Source, small_array};
pub(crate) use turns::{Change, RowsIn, Turns, Word};

/// The address of the table that sines and cosines look up.
pub(crate) fn sine_table() -> i64 {
    mathlib::sine_table().as_ptr() as i64
}
