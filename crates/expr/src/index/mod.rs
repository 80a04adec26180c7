//! Index expressions: terms that know what kind of number they are and in which
//! scope they mean something.
//!
//! An [`IndexExpr`] is a [`Term`] of a [`Scope`], with a [`Kind`]. The scope has the
//! variables and what is known of them; every operation is the scope's, brings its
//! result to the canonical form over that knowledge, and refuses expressions of
//! another scope. So `(d + 3) - 3` *is* the dimension `d`, in an analysis too: a
//! question mark is a variable of its own, and arithmetic on it forgets nothing.
//!
//! Numbers with a fraction (the scales of a resize) are exact: an integer term over
//! a constant denominator. A float literal is the rational number that its bits are,
//! and `floor(dim * scale)` is a floor division of integers, rounded nowhere.
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

/// What an index expression is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Nothing: an expression that was never given a value.
    Undefined,
    /// A number that is known now; see [`IndexExpr::is_float`].
    Literal,
    /// A sum of multiples of dims and symbols, and such sums divided by positive
    /// literals (floor, ceiling, remainder).
    Affine,
    /// Anything else that is computed at run time.
    NonAffine,
    /// The truth of a comparison, or of several.
    Predicate,
    /// An input that varies inside the scope: an extent, a loop's index.
    Dim,
    /// An input that stays the same inside the scope.
    Symbol,
    /// Known to exist, but neither its value nor code for it can be had now.
    QuestionMark,
}

/// Which scope an expression belongs to: the address is the identity.
#[derive(Debug)]
pub(crate) struct Home(#[allow(dead_code, reason = "gives the address its own memory")] u8);

/// A number of a scope; see the module's text.
///
/// Two expressions are equal if they are the same number of the same scope by
/// structure; [`Scope::compare`] decides more.
#[derive(Clone, Debug, Default)]
pub struct IndexExpr {
    /// `None` for what belongs to every scope: literals.
    home: Option<Arc<Home>>,
    value: Option<Ratio>,
    kind: Option<Kind>,
}

/// An exact number: a term over a positive constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ratio {
    pub(crate) numerator: Term,
    pub(crate) denominator: i64,
    /// Whether it came from a number with a fraction, whatever its value is.
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

    /// What the expression is.
    pub fn kind(&self) -> Kind {
        self.kind.unwrap_or(Kind::Undefined)
    }

    /// Whether it has a meaning.
    pub fn is_defined(&self) -> bool {
        !self.is_undefined()
    }

    /// Whether it was never given a value.
    pub fn is_undefined(&self) -> bool {
        self.kind() == Kind::Undefined
    }

    /// Whether it is a number known now.
    pub fn is_literal(&self) -> bool {
        self.kind() == Kind::Literal
    }

    /// Whether it is known to exist, and nothing more.
    pub fn is_question_mark(&self) -> bool {
        self.kind() == Kind::QuestionMark
    }

    /// Whether it is a sum of multiples and their divisions by literals, but neither a
    /// literal nor a single input. See [`Self::has_affine_expr`] for all of those.
    pub fn is_affine(&self) -> bool {
        self.kind() == Kind::Affine
    }

    /// Whether it is computed at run time and has no affine form.
    pub fn is_non_affine(&self) -> bool {
        self.kind() == Kind::NonAffine
    }

    /// Whether it is an input that varies inside its scope.
    pub fn is_dim(&self) -> bool {
        self.kind() == Kind::Dim
    }

    /// Whether it is an input that stays the same inside its scope.
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

    /// Whether it is a literal, an affine expression, a dim or a symbol: what
    /// [`Self::get_affine_expr`] gives.
    pub fn has_affine_expr(&self) -> bool {
        let kind = matches!(
            self.kind(),
            Kind::Literal | Kind::Affine | Kind::Dim | Kind::Symbol
        );
        kind && !self.is_float()
    }

    /// Whether a run has a value for it that code can compute: it is defined and
    /// depends on no question mark.
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

    /// The number of a provider that the expression is: with an emitting provider,
    /// code that computes it. `variable` says what each variable of the scope is.
    /// `None` without a value ([`Self::has_value`]) or with a fraction.
    pub fn get_value<P: Provider>(
        &self,
        provider: &mut P,
        variable: &mut impl FnMut(&mut P, Var) -> P::Index,
    ) -> Option<P::Index> {
        let term = self.term().filter(|_| self.has_value())?;
        Some(emit_term(provider, term, variable))
    }

    /// The value, given those of the scope's variables.
    ///
    /// # Errors
    /// It has none there: [`EvalError`].
    pub fn eval(&self, env: &dyn Fn(Var) -> Option<i64>) -> Result<i64, EvalError> {
        self.term().ok_or(EvalError::Overflow)?.eval(env)
    }
}

/// What a term is, by its form alone: question marks apart.
pub(crate) fn form_of(term: &Term) -> Kind {
    /// Whether a part is affine, and whether it is a truth value.
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
