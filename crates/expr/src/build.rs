//! Smart constructors: they build terms and fold what the operands alone decide.
//!
//! Folding is local and cheap: constants, neutral elements, constants moved to the right and
//! merged. Whatever needs the variables' ranges is left to [`crate::canonicalize`]. A fold whose
//! result does not fit in `i64` is not done.

use crate::number::{ceil_div, floor_div, floor_mod};
use crate::term::{Cmp, Node, Term};

/// The constant 0.
impl Default for Term {
    fn default() -> Self {
        Self::constant(0)
    }
}

impl Term {
    /// `self + other`.
    #[must_use]
    pub fn add(&self, other: &Self) -> Self {
        match (self.as_constant(), other.as_constant()) {
            (Some(a), Some(b)) => a.checked_add(b).map_or_else(
                || Self::raw(Node::Add(self.clone(), other.clone())),
                Self::constant,
            ),
            (Some(0), None) => other.clone(),
            (None, Some(0)) => self.clone(),
            (Some(_), None) => other.add(self),
            (None, Some(b)) => {
                if let Node::Add(rest, inner) = self.node()
                    && let Some(sum) = inner.as_constant().and_then(|a| a.checked_add(b))
                {
                    return rest.add(&Self::constant(sum));
                }
                Self::raw(Node::Add(self.clone(), other.clone()))
            }
            (None, None) => Self::raw(Node::Add(self.clone(), other.clone())),
        }
    }

    /// `self - other`, as `self + other * -1`.
    #[must_use]
    pub fn sub(&self, other: &Self) -> Self {
        self.add(&other.neg())
    }

    /// `self * other`.
    #[must_use]
    pub fn mul(&self, other: &Self) -> Self {
        match (self.as_constant(), other.as_constant()) {
            (Some(a), Some(b)) => a.checked_mul(b).map_or_else(
                || Self::raw(Node::Mul(self.clone(), other.clone())),
                Self::constant,
            ),
            (Some(_), None) => other.mul(self),
            (None, Some(0)) => Self::constant(0),
            (None, Some(1)) => self.clone(),
            (None, Some(b)) => {
                if let Node::Mul(rest, inner) = self.node()
                    && let Some(product) = inner.as_constant().and_then(|a| a.checked_mul(b))
                {
                    return rest.mul(&Self::constant(product));
                }
                Self::raw(Node::Mul(self.clone(), other.clone()))
            }
            (None, None) => Self::raw(Node::Mul(self.clone(), other.clone())),
        }
    }

    /// `-self`, as `self * -1`.
    #[must_use]
    pub fn neg(&self) -> Self {
        self.mul(&Self::constant(-1))
    }

    /// `self / other`, rounded towards negative infinity.
    #[must_use]
    pub fn floor_div(&self, other: &Self) -> Self {
        match (self.as_constant(), other.as_constant()) {
            (_, Some(1)) => self.clone(),
            (Some(a), Some(b)) => floor_div(a, b).map_or_else(
                || Self::raw(Node::FloorDiv(self.clone(), other.clone())),
                Self::constant,
            ),
            _ => Self::raw(Node::FloorDiv(self.clone(), other.clone())),
        }
    }

    /// `self / other`, rounded towards positive infinity.
    #[must_use]
    pub fn ceil_div(&self, other: &Self) -> Self {
        match (self.as_constant(), other.as_constant()) {
            (_, Some(1)) => self.clone(),
            (Some(a), Some(b)) => ceil_div(a, b).map_or_else(
                || Self::raw(Node::CeilDiv(self.clone(), other.clone())),
                Self::constant,
            ),
            _ => Self::raw(Node::CeilDiv(self.clone(), other.clone())),
        }
    }

    /// `self - floor_div(self, other) * other`.
    #[must_use]
    pub fn modulo(&self, other: &Self) -> Self {
        match (self.as_constant(), other.as_constant()) {
            (_, Some(1 | -1)) => Self::constant(0),
            (Some(a), Some(b)) => floor_mod(a, b).map_or_else(
                || Self::raw(Node::Mod(self.clone(), other.clone())),
                Self::constant,
            ),
            _ => Self::raw(Node::Mod(self.clone(), other.clone())),
        }
    }

    /// The smaller of the two. Write `Term::min(&a, &b)`: on an owned term
    /// `a.min(b)` is the minimum in the order of terms, as for any `Ord`.
    #[must_use]
    pub fn min(&self, other: &Self) -> Self {
        match (self.as_constant(), other.as_constant()) {
            (Some(a), Some(b)) => Self::constant(a.min(b)),
            _ if self == other => self.clone(),
            _ => Self::raw(Node::Min(self.clone(), other.clone())),
        }
    }

    /// The larger of the two; see [`Term::min`] for how to call it.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        match (self.as_constant(), other.as_constant()) {
            (Some(a), Some(b)) => Self::constant(a.max(b)),
            _ if self == other => self.clone(),
            _ => Self::raw(Node::Max(self.clone(), other.clone())),
        }
    }

    /// 1 if `a op b`, else 0.
    #[must_use]
    pub fn cmp(op: Cmp, a: &Self, b: &Self) -> Self {
        match (a.as_constant(), b.as_constant()) {
            (Some(x), Some(y)) => Self::constant(i64::from(op.holds(x, y))),
            _ if a == b => Self::constant(i64::from(matches!(op, Cmp::Eq | Cmp::Le))),
            _ => Self::raw(Node::Cmp(op, a.clone(), b.clone())),
        }
    }

    /// `a` where `condition` is not zero, else `b`.
    #[must_use]
    pub fn select(condition: &Self, a: &Self, b: &Self) -> Self {
        match condition.as_constant() {
            Some(0) => b.clone(),
            Some(_) => a.clone(),
            None if a == b => a.clone(),
            None => Self::raw(Node::Select(condition.clone(), a.clone(), b.clone())),
        }
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident) => {
        impl std::ops::$trait<&Term> for &Term {
            type Output = Term;
            fn $method(self, other: &Term) -> Term {
                Term::$method(self, other)
            }
        }
        impl std::ops::$trait<i64> for &Term {
            type Output = Term;
            fn $method(self, other: i64) -> Term {
                Term::$method(self, &Term::constant(other))
            }
        }
        impl std::ops::$trait for Term {
            type Output = Term;
            fn $method(self, other: Term) -> Term {
                Term::$method(&self, &other)
            }
        }
        impl std::ops::$trait<i64> for Term {
            type Output = Term;
            fn $method(self, other: i64) -> Term {
                Term::$method(&self, &Term::constant(other))
            }
        }
    };
}

operator!(Add, add);
operator!(Sub, sub);
operator!(Mul, mul);

impl std::ops::Neg for &Term {
    type Output = Term;
    fn neg(self) -> Term {
        Term::neg(self)
    }
}
