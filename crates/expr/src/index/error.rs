//! Errors in the use of index expressions.

use super::Role;
use std::sync::Arc;
use thiserror::Error;

/// A misuse of index expressions, or incompatible numbers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IndexError {
    /// An expression of another scope was used.
    #[error("an expression of another scope is used: import it first")]
    ForeignScope,
    /// An expression was imported from a scope that does not enclose this one.
    #[error("an expression is imported from a scope that does not enclose this one")]
    NotEnclosing,
    /// An input of a scope was declared with a different role than before.
    #[error("`{name}` is a {is} of this scope and cannot also be a {wanted}")]
    Roles {
        /// The input.
        name: Arc<str>,
        /// Its role.
        is: Role,
        /// The role that was requested.
        wanted: Role,
    },
    /// The declarations of an input contradict each other.
    #[error("`{name}` is declared to be between {lower} and {upper}, an empty range")]
    Contradiction {
        /// The input.
        name: Arc<str>,
        /// The largest of the lower bounds.
        lower: i64,
        /// The smallest of the upper bounds.
        upper: i64,
    },
    /// An undefined expression was used.
    #[error("an undefined expression is used")]
    Undefined,
    /// An integer is needed, but the number has a fraction.
    #[error("an integer is needed: take `floor` or `ceil` of the number first")]
    NotAnInteger,
    /// A truth value is needed.
    #[error("a predicate is needed, such as a comparison")]
    NotAPredicate,
    /// A divisor is zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A number is too large, not finite, or not a fraction of 64-bit integers.
    #[error("the number {0} is not a fraction of 64-bit integers")]
    NotRepresentable(Arc<str>),
    /// The parts of an exact number grow beyond 64 bits.
    #[error("the exact number needs more than 64 bits")]
    Overflow,
    /// The minimum or maximum of nothing.
    #[error("the minimum or maximum of an empty list")]
    Empty,
}
