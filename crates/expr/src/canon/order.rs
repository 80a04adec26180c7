//! Minima, maxima, comparisons and selections, which are simplified by bounds.

use super::Canonicalizer;
use super::linear::Linear;
use crate::interval::{Interval, Residue, Wide};
use crate::term::{Cmp, Node, Term};

impl Canonicalizer<'_> {
    /// `min(a, b)` or `max(a, b)`: one of the two if the sign of the difference is known, else an
    /// atom with sorted operands.
    pub(super) fn extremum(&mut self, a: &Linear, b: &Linear, smaller: bool) -> Option<Linear> {
        if let Some(difference) = a.plus(b, -1) {
            let range = self.bounds(&difference);
            let chosen = if range.upper <= 0 {
                Some(if smaller { a } else { b })
            } else if range.lower >= 0 {
                Some(if smaller { b } else { a })
            } else {
                None
            };
            if let Some(chosen) = chosen {
                if self.is_tracing() {
                    let make = if smaller { Term::min } else { Term::max };
                    let before = make(&a.to_term(), &b.to_term());
                    let facts = vec![(difference.to_term(), range.narrow())];
                    self.note("min-max-order", facts, before, chosen.to_term());
                }
                return Some(chosen.clone());
            }
        }
        let (mut a, mut b) = (a.to_term(), b.to_term());
        if b < a {
            std::mem::swap(&mut a, &mut b);
        }
        let atom = if smaller {
            Term::min(&a, &b)
        } else {
            Term::max(&a, &b)
        };
        Some(self.atom(atom))
    }

    /// A comparison: its value if bounds or residues decide it, else an atom with only positive
    /// coefficients on both sides.
    pub(super) fn comparison(&mut self, op: Cmp, a: &Linear, b: &Linear) -> Option<Linear> {
        let mut difference = a.plus(b, -1)?;
        let range = self.bounds(&difference);
        let residue = self.residue(&difference);
        if let Some(truth) = decide(op, range, residue) {
            if self.is_tracing() {
                let before = Term::raw(Node::Cmp(op, a.to_term(), b.to_term()));
                let mut facts = vec![(difference.to_term(), range.narrow())];
                if residue.modulus > 1 {
                    let rest = difference.to_term().modulo(&residue.modulus.into());
                    facts.push((rest, Interval::point(residue.remainder)));
                }
                let value = Term::constant(i64::from(truth));
                self.note("comparison-decided", facts, before, value);
            }
            return Some(Linear::constant(i64::from(truth)));
        }
        let symmetric = matches!(op, Cmp::Eq | Cmp::Ne);
        if symmetric && difference.terms.first().is_some_and(|(_, c)| *c < 0) {
            difference = difference.scale(-1)?;
        }
        let (mut left, mut right) = difference.partition(|_, c| c > 0);
        let constant = right.constant;
        right.constant = 0;
        right = right.scale(-1)?;
        if constant > 0 {
            left.constant = constant;
        } else {
            right.constant = constant.checked_neg()?;
        }
        let left = self.exact_quotients(&left).into_owned();
        let right = self.exact_quotients(&right).into_owned();
        if !self.bounds(&left).fits() || !self.bounds(&right).fits() {
            return None;
        }
        let atom = Term::raw(Node::Cmp(op, left.to_term(), right.to_term()));
        Some(self.atom(atom))
    }

    /// A selection: the branch that a decided condition selects, the condition itself if the
    /// branches are 1 and 0, else an atom.
    pub(super) fn selection(&mut self, c: &Linear, a: &Linear, b: &Linear) -> Option<Linear> {
        if a == b {
            return Some(a.clone());
        }
        let range = self.bounds(c);
        if range == Wide::point(0) {
            return Some(b.clone());
        }
        if range.lower > 0 || range.upper < 0 {
            return Some(a.clone());
        }
        if range.lower == 0
            && range.upper == 1
            && b.as_constant() == Some(0)
            && a.as_constant() == Some(1)
        {
            return Some(c.clone());
        }
        let atom = Term::select(&c.to_term(), &a.to_term(), &b.to_term());
        Some(self.atom(atom))
    }
}

/// The truth of `difference op 0`, if bounds or the residue decide it.
fn decide(op: Cmp, range: Wide, residue: Residue) -> Option<bool> {
    if range.lower > range.upper {
        return None;
    }
    let never_zero = range.lower > 0 || range.upper < 0 || !residue.contains(0);
    let always_zero = range == Wide::point(0);
    match op {
        Cmp::Eq | Cmp::Ne if never_zero => Some(op == Cmp::Ne),
        Cmp::Eq | Cmp::Ne if always_zero => Some(op == Cmp::Eq),
        Cmp::Lt if range.upper < 0 => Some(true),
        Cmp::Lt if range.lower >= 0 => Some(false),
        Cmp::Le if range.upper <= 0 => Some(true),
        Cmp::Le if range.lower > 0 => Some(false),
        _ => None,
    }
}
