//! Operations on index expressions. Each result is canonicalised using what the scope knows about
//! its inputs.

use super::{IndexError, IndexExpr, Ratio, Scope};
use crate::canon::Canonicalizer;
use crate::term::{Cmp, Term};

/// The result of an operation, or an error about its misuse.
type Outcome = Result<IndexExpr, IndexError>;

impl Scope {
    /// `a + b`.
    ///
    /// # Errors
    /// The errors of every operation: an expression of another scope, an undefined expression, or
    /// numbers that overflow.
    pub fn add(&self, a: &IndexExpr, b: &IndexExpr) -> Outcome {
        let (a, b, denominator, float) = self.common(a, b)?;
        self.ratio(Ratio {
            numerator: a.add(&b),
            denominator,
            float,
        })
    }

    /// `a - b`.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn sub(&self, a: &IndexExpr, b: &IndexExpr) -> Outcome {
        let (a, b, denominator, float) = self.common(a, b)?;
        self.ratio(Ratio {
            numerator: a.sub(&b),
            denominator,
            float,
        })
    }

    /// `-a`.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn neg(&self, a: &IndexExpr) -> Outcome {
        self.sub(&self.literal(0), a)
    }

    /// `a * b`.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn mul(&self, a: &IndexExpr, b: &IndexExpr) -> Outcome {
        let (a, b) = (self.checked(a)?, self.checked(b)?);
        let denominator = a.denominator.checked_mul(b.denominator);
        self.ratio(Ratio {
            numerator: a.numerator.mul(&b.numerator),
            denominator: denominator.ok_or(IndexError::Overflow)?,
            float: a.float || b.float,
        })
    }

    /// `a / b` exactly, for a literal `b`; a number with a fraction.
    ///
    /// # Errors
    /// As [`Self::add`], [`IndexError::DivisionByZero`], and
    /// [`IndexError::NotAnInteger`] for a divisor that is not a literal.
    pub fn div(&self, a: &IndexExpr, b: &IndexExpr) -> Outcome {
        let (a, b) = (self.checked(a)?, self.checked(b)?);
        let divisor = b.numerator.as_constant().ok_or(IndexError::NotAnInteger)?;
        let denominator = a.denominator.checked_mul(divisor);
        self.ratio(Ratio {
            numerator: a.numerator.mul(&Term::constant(b.denominator)),
            denominator: denominator.ok_or(IndexError::Overflow)?,
            float: true,
        })
    }

    /// The largest integer not greater than the number.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn floor(&self, a: &IndexExpr) -> Outcome {
        let a = self.checked(a)?;
        self.whole(a.numerator.floor_div(&Term::constant(a.denominator)))
    }

    /// The smallest integer not less than the number.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn ceil(&self, a: &IndexExpr) -> Outcome {
        let a = self.checked(a)?;
        self.whole(a.numerator.ceil_div(&Term::constant(a.denominator)))
    }

    /// `a / b` rounded towards negative infinity.
    ///
    /// # Errors
    /// As [`Self::add`]; [`IndexError::NotAnInteger`]; [`IndexError::DivisionByZero`] if
    /// `b` is known to be zero. A divisor that may be zero is an error at run time only.
    pub fn floor_div(&self, a: &IndexExpr, b: &IndexExpr) -> Outcome {
        let (a, b) = self.dividing(a, b)?;
        self.whole(a.floor_div(b))
    }

    /// `a / b` rounded towards positive infinity.
    ///
    /// # Errors
    /// As [`Self::floor_div`].
    pub fn ceil_div(&self, a: &IndexExpr, b: &IndexExpr) -> Outcome {
        let (a, b) = self.dividing(a, b)?;
        self.whole(a.ceil_div(b))
    }

    /// `a - floor_div(a, b) * b`.
    ///
    /// # Errors
    /// As [`Self::floor_div`].
    pub fn modulo(&self, a: &IndexExpr, b: &IndexExpr) -> Outcome {
        let (a, b) = self.dividing(a, b)?;
        self.whole(a.modulo(b))
    }

    // ---- comparisons and truth -------------------------------------------------

    /// `a == b`: a predicate, or a literal if it is decided.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn eq(&self, a: &IndexExpr, b: &IndexExpr) -> Outcome {
        self.compare(Cmp::Eq, a, b)
    }

    /// `a != b`; see [`Self::eq`].
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn ne(&self, a: &IndexExpr, b: &IndexExpr) -> Outcome {
        self.compare(Cmp::Ne, a, b)
    }

    /// `a < b`; see [`Self::eq`].
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn lt(&self, a: &IndexExpr, b: &IndexExpr) -> Outcome {
        self.compare(Cmp::Lt, a, b)
    }

    /// `a <= b`; see [`Self::eq`].
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn le(&self, a: &IndexExpr, b: &IndexExpr) -> Outcome {
        self.compare(Cmp::Le, a, b)
    }

    /// `a > b`; see [`Self::eq`].
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn gt(&self, a: &IndexExpr, b: &IndexExpr) -> Outcome {
        self.compare(Cmp::Lt, b, a)
    }

    /// `a >= b`; see [`Self::eq`].
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn ge(&self, a: &IndexExpr, b: &IndexExpr) -> Outcome {
        self.compare(Cmp::Le, b, a)
    }

    /// The truth of a comparison.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn compare(&self, op: Cmp, a: &IndexExpr, b: &IndexExpr) -> Outcome {
        let (a, b, ..) = self.common(a, b)?;
        self.whole(Term::cmp(op, &a, &b))
    }

    /// Whether both predicates hold.
    ///
    /// # Errors
    /// As [`Self::add`]; [`IndexError::NotAPredicate`].
    pub fn and(&self, a: &IndexExpr, b: &IndexExpr) -> Outcome {
        self.whole(self.truth(a)?.mul(self.truth(b)?))
    }

    /// Whether one of the predicates holds.
    ///
    /// # Errors
    /// As [`Self::and`].
    pub fn or(&self, a: &IndexExpr, b: &IndexExpr) -> Outcome {
        self.whole(Term::max(self.truth(a)?, self.truth(b)?))
    }

    /// Whether the predicate does not hold.
    ///
    /// # Errors
    /// As [`Self::and`].
    pub fn not(&self, a: &IndexExpr) -> Outcome {
        self.whole(Term::cmp(Cmp::Eq, self.truth(a)?, &Term::constant(0)))
    }

    // ---- choices ---------------------------------------------------------------

    /// `a` if the predicate holds, else `b`.
    ///
    /// # Errors
    /// As [`Self::and`].
    pub fn select(&self, condition: &IndexExpr, a: &IndexExpr, b: &IndexExpr) -> Outcome {
        let condition = self.truth(condition)?;
        let (a, b, denominator, float) = self.common(a, b)?;
        self.ratio(Ratio {
            numerator: Term::select(condition, &a, &b),
            denominator,
            float,
        })
    }

    /// Clamps `a` to the two bounds. If they are in the wrong order, the result is the upper bound.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn clamp(&self, a: &IndexExpr, lower: &IndexExpr, upper: &IndexExpr) -> Outcome {
        let raised = self.max(&[a.clone(), lower.clone()])?;
        self.min(&[raised, upper.clone()])
    }

    /// The smallest of several numbers.
    ///
    /// # Errors
    /// As [`Self::add`]; [`IndexError::Empty`] of none.
    pub fn min(&self, all: &[IndexExpr]) -> Outcome {
        self.extremum(all, Term::min)
    }

    /// The largest of several numbers.
    ///
    /// # Errors
    /// As [`Self::min`].
    pub fn max(&self, all: &[IndexExpr]) -> Outcome {
        self.extremum(all, Term::max)
    }

    // ---- shared ----------------------------------------------------------------

    fn extremum(&self, all: &[IndexExpr], choose: fn(&Term, &Term) -> Term) -> Outcome {
        let (first, rest) = all.split_first().ok_or(IndexError::Empty)?;
        self.checked(first)?;
        rest.iter().try_fold(first.clone(), |chosen, next| {
            let (a, b, denominator, float) = self.common(&chosen, next)?;
            self.ratio(Ratio {
                numerator: choose(&a, &b),
                denominator,
                float,
            })
        })
    }

    fn whole(&self, numerator: Term) -> Outcome {
        self.ratio(Ratio {
            numerator,
            denominator: 1,
            float: false,
        })
    }

    /// Both numerators over a common denominator, that denominator, and whether either number is a
    /// float.
    fn common(&self, a: &IndexExpr, b: &IndexExpr) -> Result<(Term, Term, i64, bool), IndexError> {
        let (a, b) = (self.checked(a)?, self.checked(b)?);
        let float = a.float || b.float;
        if a.denominator == b.denominator {
            let denominator = a.denominator;
            return Ok((a.numerator.clone(), b.numerator.clone(), denominator, float));
        }
        let denominator = a.denominator.checked_mul(b.denominator);
        let denominator = denominator.ok_or(IndexError::Overflow)?;
        let left = a.numerator.mul(&Term::constant(b.denominator));
        let right = b.numerator.mul(&Term::constant(a.denominator));
        Ok((left, right, denominator, float))
    }

    fn dividing<'a>(
        &self,
        a: &'a IndexExpr,
        b: &'a IndexExpr,
    ) -> Result<(&'a Term, &'a Term), IndexError> {
        let (a, b) = (self.integer(a)?, self.integer(b)?);
        match Canonicalizer::new(self).facts_of(b).0.as_point() {
            Some(0) => Err(IndexError::DivisionByZero),
            _ => Ok((a, b)),
        }
    }

    fn truth<'a>(&self, expr: &'a IndexExpr) -> Result<&'a Term, IndexError> {
        let term = self.integer(expr)?;
        let decided = matches!(term.as_constant(), Some(0 | 1));
        match decided || super::form_of(term) == super::Kind::Predicate {
            true => Ok(term),
            false => Err(IndexError::NotAPredicate),
        }
    }
}
