//! The one term language of Tegula: integer terms for indices, shapes, loop
//! bounds, buffer sizes and alignment proofs.
//!
//! A [`Term`] is an immutable, cheaply cloned tree over `i64` constants and
//! variables. What a variable means (a dimension of an indexing map, a symbolic
//! extent of a shape, a loop counter of a kernel) is the business of whoever
//! owns the term; here it is a number.
//!
//! # Invariants
//! - No operation wraps: a constructor that would overflow while folding leaves
//!   the node unfolded, and evaluation reports the overflow.
//! - Division rounds towards negative infinity (`floordiv`) or positive infinity
//!   (`ceildiv`); `mod` is `a - floordiv(a, b) * b`.

mod term;

pub use term::{Cmp, Node, Term, Var};
