//! Evaluates a term at a point.

use thiserror::Error;

use crate::number::{wide_ceil, wide_floor};
use crate::term::{Node, Term, Var};

/// Why a term has no value at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EvalError {
    /// A variable was given no value.
    #[error("variable {} has no value", .0.0)]
    Unbound(Var),
    /// A divisor was zero.
    #[error("division by zero")]
    DivisionByZero,
    /// The value, or an operand of a node other than a sum, does not fit in `i64`.
    #[error("the value does not fit 64 bits")]
    Overflow,
}

type Value = Result<i128, EvalError>;

impl Term {
    /// The value of the term; `env` returns the values of variables.
    ///
    /// Sums and multiples are exact whatever the order of their terms. The result, and the operands
    /// of every other node, must fit in `i64`. Code with wrapping 64-bit additions and
    /// multiplications computes the same values. Of a selection, only the chosen branch needs a
    /// value.
    ///
    /// # Errors
    /// [`EvalError`] where the term has no value.
    pub fn eval(&self, env: &dyn Fn(Var) -> Option<i64>) -> Result<i64, EvalError> {
        let wide =
            self.fold(&mut |term: &Self, children: &[Value]| step(term.node(), children, env))?;
        i64::try_from(wide).map_err(|_| EvalError::Overflow)
    }
}

fn narrow(value: &Value) -> Value {
    let value = (*value)?;
    i64::try_from(value)
        .map(i128::from)
        .map_err(|_| EvalError::Overflow)
}

fn divisor(value: &Value) -> Value {
    match narrow(value)? {
        0 => Err(EvalError::DivisionByZero),
        value => Ok(value),
    }
}

/// Both operands of a division, with the divisor made positive: `a / b == -a / -b`.
fn quotient(a: &Value, b: &Value) -> Result<(i128, i128), EvalError> {
    let (a, b) = (narrow(a)?, divisor(b)?);
    Ok(if b < 0 { (-a, -b) } else { (a, b) })
}

fn product(a: &Term, b: &Term, left: &Value, right: &Value) -> Value {
    let constant = a.as_constant().is_some() || b.as_constant().is_some();
    if constant {
        (*left)?.checked_mul((*right)?).ok_or(EvalError::Overflow)
    } else {
        narrow(&Ok(narrow(left)? * narrow(right)?))
    }
}

fn step(node: &Node, children: &[Value], env: &dyn Fn(Var) -> Option<i64>) -> Value {
    match (node, children) {
        (Node::Const(value), _) => Ok(i128::from(*value)),
        (Node::Var(var), _) => env(*var).map(i128::from).ok_or(EvalError::Unbound(*var)),
        (Node::Add(..), [a, b]) => (*a)?.checked_add((*b)?).ok_or(EvalError::Overflow),
        (Node::Mul(a, b), [left, right]) => product(a, b, left, right),
        (Node::FloorDiv(..), [a, b]) => quotient(a, b).map(|(a, b)| wide_floor(a, b)),
        (Node::CeilDiv(..), [a, b]) => quotient(a, b).map(|(a, b)| wide_ceil(a, b)),
        (Node::Mod(..), [a, b]) => {
            let (a, b) = (narrow(a)?, divisor(b)?);
            let remainder = a.rem_euclid(b.abs());
            Ok(if b < 0 && remainder != 0 {
                remainder + b
            } else {
                remainder
            })
        }
        (Node::Min(..), [a, b]) => Ok(narrow(a)?.min(narrow(b)?)),
        (Node::Max(..), [a, b]) => Ok(narrow(a)?.max(narrow(b)?)),
        (Node::Cmp(op, ..), [a, b]) => Ok(i128::from(op.holds(narrow(a)?, narrow(b)?))),
        (Node::Select(..), [c, a, b]) => {
            if narrow(c)? != 0 {
                narrow(a)
            } else {
                narrow(b)
            }
        }
        // `fold` passes one result for each operand, so this does not occur.
        _ => Err(EvalError::Overflow),
    }
}
