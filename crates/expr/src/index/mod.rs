//! Index expressions: terms with a kind of number, in a scope that gives them a meaning.
//!
//! An [`IndexExpr`] is a [`Term`] of a [`Scope`], with a [`Kind`]. The scope holds the variables
//! and what is known about them. Operations are methods of the scope: they canonicalise their
//! results using that knowledge, and reject expressions of another scope. So `(d + 3) - 3` *is* the
//! dimension `d`, also in an analysis: a question mark is a separate variable, and arithmetic on it
//! loses no information.
//!
//! Numbers with a fraction (the scales of a resize) are exact: an integer term over a constant
//! denominator. A float literal is exactly the rational number that its bits represent, and
//! `floor(dim * scale)` is a floor division of integers, without any rounding.
//!
//! ```
//! use tegula_expr::index::{Kind, Scope};
//! use tegula_expr::Interval;
//!
//! let mut scope = Scope::new();
//! let n = scope.dim("n", Interval::new(1, 1 << 31))?;
//! let three = scope.literal(3);
//! let sum = scope.add(&n, &three)?;
//! assert_eq!(sum.kind(), Kind::Affine);
//! assert_eq!(scope.sub(&sum, &three)?, n);
//! # Ok::<(), tegula_expr::index::IndexError>(())
//! ```

mod error;
mod known;
mod operations;
mod scope;
mod tile;

pub use error::IndexError;
pub use known::{KnownInScope, Phase};
pub use scope::{Role, Scope, Variable};

use crate::eval::EvalError;
use crate::provider::{Provider, emit_term};
use crate::term::{Node, Term, Var};
use std::sync::Arc;

/// The kind of an index expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Undefined: an expression that was never given a value.
    Undefined,
    /// A number that is known now; see [`IndexExpr::is_float`].
    Literal,
    /// A sum of multiples of dims and symbols, and such sums divided by positive
    /// literals (floor, ceiling, remainder).
    Affine,
    /// Any other number computed at run time.
    NonAffine,
    /// The truth of a comparison, or of several.
    Predicate,
    /// An input that varies within the scope, such as an extent or a loop's index.
    Dim,
    /// An input that is constant within the scope.
    Symbol,
    /// A number of which nothing is known, and which no code can compute at this time.
    QuestionMark,
}

/// The identity of a scope, which is the address of this value.
#[derive(Debug)]
pub(crate) struct Home(#[allow(dead_code, reason = "gives the address its own memory")] u8);

/// An index expression: a number in a [`Scope`], with a [`Kind`] (see the module documentation).
///
/// Two expressions are equal (`==`) if they have the same scope and the same canonical form.
/// [`Scope::compare`] can also prove the equality of expressions with different forms.
#[derive(Clone, Debug, Default)]
pub struct IndexExpr {
    /// The scope; `None` for literals, which belong to every scope.
    home: Option<Arc<Home>>,
    value: Option<Ratio>,
    kind: Option<Kind>,
}

/// An exact number: a term divided by a positive constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ratio {
    pub(crate) numerator: Term,
    pub(crate) denominator: i64,
    /// Whether it was computed from a number with a fraction, even if its value is an integer.
    pub(crate) float: bool,
}

impl PartialEq for IndexExpr {
    fn eq(&self, other: &Self) -> bool {
        let same_home = match (&self.home, &other.home) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        same_home && self.value == other.value
    }
}

impl IndexExpr {
    /// An expression without a value; operations on it are errors.
    pub fn undefined() -> Self {
        Self::default()
    }

    // ---- queries -----------------------------------------------------------

    /// The kind of the expression.
    pub fn kind(&self) -> Kind {
        self.kind.unwrap_or(Kind::Undefined)
    }

    /// Whether it is defined.
    pub fn is_defined(&self) -> bool {
        !self.is_undefined()
    }

    /// Whether it is undefined.
    pub fn is_undefined(&self) -> bool {
        self.kind() == Kind::Undefined
    }

    /// Whether it is a literal.
    pub fn is_literal(&self) -> bool {
        self.kind() == Kind::Literal
    }

    /// Whether it is a question mark.
    pub fn is_question_mark(&self) -> bool {
        self.kind() == Kind::QuestionMark
    }

    /// Whether it is a sum of multiples, possibly divided by literals, but neither a literal nor a
    /// single input; [`Self::has_affine_expr`] includes those.
    pub fn is_affine(&self) -> bool {
        self.kind() == Kind::Affine
    }

    /// Whether it is computed at run time and has no affine form.
    pub fn is_non_affine(&self) -> bool {
        self.kind() == Kind::NonAffine
    }

    /// Whether it is an input that varies within its scope.
    pub fn is_dim(&self) -> bool {
        self.kind() == Kind::Dim
    }

    /// Whether it is an input that is constant within its scope.
    pub fn is_symbol(&self) -> bool {
        self.kind() == Kind::Symbol
    }

    /// Whether it is a truth value. A decided one is a literal, and counts too.
    pub fn is_predicate(&self) -> bool {
        self.kind() == Kind::Predicate
            || (!self.is_float() && matches!(self.get_literal(), Some(0 | 1)))
    }

    /// Whether it came from numbers with a fraction.
    pub fn is_float(&self) -> bool {
        self.value.as_ref().is_some_and(|value| value.float)
    }

    /// Whether it is a literal, an affine expression, a dim or a symbol, so that
    /// [`Self::get_affine_expr`] returns a term.
    pub fn has_affine_expr(&self) -> bool {
        let kind = matches!(
            self.kind(),
            Kind::Literal | Kind::Affine | Kind::Dim | Kind::Symbol
        );
        kind && !self.is_float()
    }

    /// Whether code can compute its value at run time: it is defined and depends on no question
    /// mark.
    pub fn has_value(&self) -> bool {
        self.is_defined() && !self.is_question_mark()
    }

    /// Whether it is this literal.
    pub fn is_literal_and_identical_to(&self, value: i64) -> bool {
        self.get_literal() == Some(value)
    }

    /// Whether it is a literal other than this one.
    pub fn is_literal_and_different_than(&self, value: i64) -> bool {
        self.get_literal().is_some_and(|own| own != value)
    }

    /// Whether it is a literal above this one.
    pub fn is_literal_and_greater_than(&self, value: i64) -> bool {
        self.get_literal().is_some_and(|own| own > value)
    }

    /// Whether it is a literal below this one.
    pub fn is_literal_and_smaller_than(&self, value: i64) -> bool {
        self.get_literal().is_some_and(|own| own < value)
    }

    // ---- getters -----------------------------------------------------------

    /// The integer, if it is an integer literal.
    pub fn get_literal(&self) -> Option<i64> {
        let value = self.value.as_ref().filter(|value| value.denominator == 1)?;
        value.numerator.as_constant().filter(|_| !value.float)
    }

    /// The number, if it is a literal of either sort; the nearest double.
    pub fn get_float_literal(&self) -> Option<f64> {
        let value = self.value.as_ref()?;
        let numerator = value.numerator.as_constant()?;
        Some(numerator as f64 / value.denominator as f64)
    }

    /// The affine expression, if it is one; see [`Self::has_affine_expr`].
    pub fn get_affine_expr(&self) -> Option<&Term> {
        self.term().filter(|_| self.has_affine_expr())
    }

    /// The term over the variables of its scope, question marks among them; `None`
    /// for what is undefined or not an integer.
    pub fn term(&self) -> Option<&Term> {
        let value = self.value.as_ref()?;
        (value.denominator == 1 && !value.float).then_some(&value.numerator)
    }

    /// The expression as a number of a provider; with an emitting provider, code that computes it.
    /// `variable` maps the scope's variables to numbers. `None` if it has no value
    /// ([`Self::has_value`]) or has a fraction.
    pub fn get_value<P: Provider>(
        &self,
        provider: &mut P,
        variable: &mut impl FnMut(&mut P, Var) -> P::Index,
    ) -> Option<P::Index> {
        let term = self.term().filter(|_| self.has_value())?;
        Some(emit_term(provider, term, variable))
    }

    /// Evaluates the expression for given values of the scope's variables.
    ///
    /// # Errors
    /// [`EvalError`] if it has no value there.
    pub fn eval(&self, env: &dyn Fn(Var) -> Option<i64>) -> Result<i64, EvalError> {
        self.term().ok_or(EvalError::Overflow)?.eval(env)
    }
}

/// The kind of a term by its form alone, ignoring question marks.
pub(crate) fn form_of(term: &Term) -> Kind {
    /// Whether a subterm is affine, and whether it is a truth value.
    type Part = (bool, bool);
    let is_positive = |term: &Term| term.as_constant().is_some_and(|value| value > 0);
    let part = term.fold(&mut |term: &Term, parts: &[Part]| -> Part {
        match (term.node(), parts) {
            (Node::Const(value), _) => (true, matches!(value, 0 | 1)),
            (Node::Var(_), _) => (true, false),
            (Node::Add(..), [a, b]) => (a.0 && b.0, false),
            (Node::Mul(x, y), [a, b]) => {
                let scaled = x.as_constant().is_some() || y.as_constant().is_some();
                (scaled && a.0 && b.0, a.1 && b.1)
            }
            (Node::FloorDiv(_, d) | Node::CeilDiv(_, d) | Node::Mod(_, d), [a, _]) => {
                (a.0 && is_positive(d), false)
            }
            (Node::Min(..) | Node::Max(..), [a, b]) => (false, a.1 && b.1),
            (Node::Cmp(..), _) => (false, true),
            (Node::Select(..), [_, a, b]) => (false, a.1 && b.1),
            _ => (false, false),
        }
    });
    match (term.node(), part) {
        (Node::Const(_), _) => Kind::Literal,
        (_, (_, true)) => Kind::Predicate,
        (_, (true, _)) => Kind::Affine,
        _ => Kind::NonAffine,
    }
}
