//! Linear combinations of atoms: the internal representation of the canonical form.

use smallvec::SmallVec;

use crate::term::{Node, Term};

/// The most nodes of a term that is multiplied out.
const MAX_SIZE: u32 = 1 << 18;

/// A linear combination: `constant + sum of coefficient * atom`. Atoms are sorted and distinct,
/// coefficients are not zero, and the magnitudes of all numbers add up to at most `i64::MAX`. So
/// the sum fits in `i128` for all `i64` values of the atoms.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Linear {
    pub(crate) terms: SmallVec<[(Term, i64); 4]>,
    pub(crate) constant: i64,
}

impl Linear {
    pub(crate) fn constant(constant: i64) -> Self {
        Self {
            terms: SmallVec::new(),
            constant,
        }
    }

    pub(crate) fn atom(term: Term) -> Self {
        Self {
            terms: SmallVec::from_iter([(term, 1)]),
            constant: 0,
        }
    }

    pub(crate) fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The atom and its coefficient, if the combination is a multiple of one atom.
    pub(crate) fn as_multiple(&self) -> Option<(&Term, i64)> {
        match self.terms.as_slice() {
            [(atom, coefficient)] if self.constant == 0 => Some((atom, *coefficient)),
            _ => None,
        }
    }

    /// `self + other * factor`, unless the numbers grow too large.
    pub(crate) fn plus(&self, other: &Self, factor: i64) -> Option<Self> {
        let mut terms = SmallVec::with_capacity(self.terms.len() + other.terms.len());
        let (mut left, mut right) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            match (left.peek(), right.peek()) {
                (None, None) => break,
                (Some((atom, a)), Some((same, b))) if atom == same => {
                    let sum = a.checked_add(b.checked_mul(factor)?)?;
                    if sum != 0 {
                        terms.push((atom.clone(), sum));
                    }
                    left.next();
                    right.next();
                }
                (Some((a, coefficient)), next) if next.is_none_or(|(b, _)| a < b) => {
                    terms.push((a.clone(), *coefficient));
                    left.next();
                }
                (_, Some((atom, coefficient))) => {
                    let product = coefficient.checked_mul(factor)?;
                    if product != 0 {
                        terms.push((atom.clone(), product));
                    }
                    right.next();
                }
                (Some(_), None) => break,
            }
        }
        let constant = self
            .constant
            .checked_add(other.constant.checked_mul(factor)?)?;
        Self { terms, constant }.checked()
    }

    pub(crate) fn plus_constant(&self, constant: i64) -> Option<Self> {
        let constant = self.constant.checked_add(constant)?;
        Self {
            terms: self.terms.clone(),
            constant,
        }
        .checked()
    }

    pub(crate) fn scale(&self, factor: i64) -> Option<Self> {
        if factor == 0 {
            return Some(Self::constant(0));
        }
        let mut scaled = self.clone();
        scaled.constant = scaled.constant.checked_mul(factor)?;
        for (_, coefficient) in &mut scaled.terms {
            *coefficient = coefficient.checked_mul(factor)?;
        }
        scaled.checked()
    }

    /// The combination without one of its atoms.
    pub(crate) fn without(&self, atom: &Term) -> Self {
        let mut rest = self.clone();
        rest.terms.retain(|(own, _)| own != atom);
        rest
    }

    fn checked(self) -> Option<Self> {
        let mut total = i128::from(self.constant).abs();
        for (_, coefficient) in &self.terms {
            total += i128::from(*coefficient).abs();
        }
        i64::try_from(total).is_ok().then_some(self)
    }

    /// Divides every number by `divisor`, which must divide all of them.
    pub(crate) fn divide_exactly(&self, divisor: i64) -> Self {
        let terms = self
            .terms
            .iter()
            .map(|(atom, c)| (atom.clone(), c / divisor))
            .collect();
        Self {
            terms,
            constant: self.constant / divisor,
        }
    }

    /// Splits the combination into the terms for which the test holds, and the others with the
    /// constant.
    pub(crate) fn partition(&self, test: impl Fn(&Term, i64) -> bool) -> (Self, Self) {
        let (mut yes, mut no) = (Self::constant(0), Self::constant(self.constant));
        for (atom, coefficient) in &self.terms {
            let side = if test(atom, *coefficient) {
                &mut yes
            } else {
                &mut no
            };
            side.terms.push((atom.clone(), *coefficient));
        }
        (yes, no)
    }

    /// The combination as a term: multiples in the order of the atoms, then the
    /// constant.
    pub(crate) fn to_term(&self) -> Term {
        let multiples = self
            .terms
            .iter()
            .map(|(atom, c)| atom.mul(&Term::constant(*c)));
        match multiples.reduce(|sum, term| sum.add(&term)) {
            Some(sum) => sum.add(&Term::constant(self.constant)),
            None => Term::constant(self.constant),
        }
    }

    /// The inverse of [`Linear::to_term`]. A sum whose numbers are too large to be added up is an
    /// atom.
    pub(crate) fn from_term(term: &Term) -> Self {
        Self::try_from_term(term).unwrap_or_else(|| Self::atom(term.clone()))
    }

    /// Expands sums and multiples, so that no atom is a sum or a multiple; `None` if the numbers
    /// grow too large.
    pub(crate) fn try_from_term(term: &Term) -> Option<Self> {
        // A sum of shared sums can be exponentially larger than its graph.
        if term.size() > MAX_SIZE {
            return None;
        }
        let mut pairs: SmallVec<[(&Term, i64); 16]> = SmallVec::new();
        let mut constant = 0i64;
        let mut stack: SmallVec<[(&Term, i64); 8]> = SmallVec::from_iter([(term, 1)]);
        while let Some((term, factor)) = stack.pop() {
            match term.node() {
                Node::Add(a, b) => stack.extend([(a, factor), (b, factor)]),
                Node::Mul(a, b) if b.as_constant().is_some() => {
                    stack.push((a, factor.checked_mul(b.as_constant()?)?));
                }
                Node::Const(value) => {
                    constant = constant.checked_add(value.checked_mul(factor)?)?;
                }
                _ => pairs.push((term, factor)),
            }
        }
        // The stack yields terms from right to left; those that `to_term` wrote are then sorted.
        pairs.reverse();
        if !pairs.is_sorted_by(|a, b| a.0 < b.0) {
            pairs.sort_by(|a, b| a.0.cmp(b.0));
        }
        let mut terms: SmallVec<[(Term, i64); 4]> = SmallVec::with_capacity(pairs.len());
        for (atom, factor) in pairs {
            match terms.last_mut().filter(|(last, _)| last == atom) {
                Some((_, sum)) => *sum = sum.checked_add(factor)?,
                None => terms.push((atom.clone(), factor)),
            }
        }
        terms.retain(|(_, c)| *c != 0);
        Self { terms, constant }.checked()
    }
}

/// Recognises `floor(inner / divisor)` with a constant divisor greater than one.
pub(crate) fn as_quotient(atom: &Term) -> Option<(&Term, i64)> {
    match atom.node() {
        Node::FloorDiv(inner, divisor) => {
            divisor.as_constant().filter(|c| *c > 1).map(|c| (inner, c))
        }
        _ => None,
    }
}

/// Recognises `inner mod divisor` with a constant divisor greater than one.
pub(crate) fn as_remainder(atom: &Term) -> Option<(&Term, i64)> {
    match atom.node() {
        Node::Mod(inner, divisor) => divisor.as_constant().filter(|c| *c > 1).map(|c| (inner, c)),
        _ => None,
    }
}
