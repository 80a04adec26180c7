//! Bounds of linear combinations that take correlated quotients into account.
//!
//! Interval arithmetic treats `x` and `floor(x / 4)` as independent. But `c * (rest + q * floor(y /
//! c)) = c * rest + q * y - q * (y mod c)`, where the variables of `y` cancel against the same
//! variables in `rest`. So quotients are eliminated from a sum one after the other, the deepest
//! first, and the bounds found on the way are intersected.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Canonicalizer;
use super::linear::{Linear, as_quotient};
use crate::interval::{Interval, Residue, Wide};
use crate::number::{gcd, wide_ceil, wide_floor};
use crate::range::combine;
use crate::term::{Node, Term};

/// The most quotients eliminated from one sum.
const MAX_ELIMINATIONS: usize = 6;
/// The most assumptions compared with a sum.
const MAX_ASSUMPTIONS: usize = 16;

/// The positive factors by which the assumed combination would have to be multiplied to match a
/// term of the other one.
fn factors_between(assumed: &Linear, linear: &Linear) -> SmallVec<[i64; 4]> {
    let mut found = SmallVec::new();
    for (atom, own) in &assumed.terms {
        let other = linear.terms.iter().find(|(other, _)| other == atom);
        if let Some((_, other)) = other
            && other % own == 0
            && other / own > 0
            && !found.contains(&(other / own))
        {
            found.push(other / own);
        }
    }
    found
}

impl Canonicalizer<'_> {
    /// The bounds and residue of an atom.
    pub(super) fn facts(&mut self, atom: &Term) -> (Interval, Residue) {
        if let Some(var) = atom.as_var() {
            return (self.ranges.range(var), self.ranges.residue(var));
        }
        if let Some(facts) = self.memory.facts.get(atom) {
            return *facts;
        }
        // A sum is an atom only if its numbers are too large to be added up.
        let is_large = match atom.node() {
            Node::Add(..) => true,
            Node::Mul(_, factor) => factor.as_constant().is_some(),
            _ => false,
        };
        if is_large {
            return (Interval::FULL, Residue::ANY);
        }
        let children: Vec<(Wide, Residue)> = atom
            .node()
            .children()
            .into_iter()
            .map(|child| {
                let linear = self.operand(child);
                (self.bounds(&linear), self.residue(&linear))
            })
            .collect();
        let (range, residue) = combine(atom.node(), &children, &*self.ranges);
        let facts = (range.narrow().snap(&residue), residue);
        self.memory.facts.insert(atom.clone(), facts);
        facts
    }

    /// The residue of the combination.
    pub(super) fn residue(&mut self, linear: &Linear) -> Residue {
        let mut sum = Residue::point(linear.constant);
        for (atom, coefficient) in &linear.terms {
            let multiple = self.facts(atom).1.mul(&Residue::point(*coefficient));
            sum = sum.add(&multiple);
        }
        sum
    }

    fn independent_bounds(&mut self, linear: &Linear) -> Wide {
        let mut sum = Wide::point(linear.constant.into());
        for (atom, coefficient) in &linear.terms {
            let range = Wide::from(self.facts(atom).0);
            sum = sum.add(range.scale((*coefficient).into()));
        }
        sum
    }

    /// Bounds that follow from an assumption: those of a multiple of the assumed combination plus
    /// those of the rest.
    fn assumed_bounds(&mut self, linear: &Linear) -> Option<Wide> {
        if self.memory.assumed.is_empty() || linear.terms.is_empty() {
            return None;
        }
        let assumptions = Arc::clone(&self.memory.assumed);
        let mut best: Option<Wide> = None;
        for (assumed, interval) in assumptions.iter().take(MAX_ASSUMPTIONS) {
            for factor in factors_between(assumed, linear) {
                let Some(rest) = linear.plus(assumed, -factor) else {
                    continue;
                };
                // The facts of other atoms may need the very bounds that are being computed.
                let is_known = |(atom, _): &(Term, i64)| {
                    atom.as_var().is_some() || linear.terms.iter().any(|(own, _)| own == atom)
                };
                if !rest.terms.iter().all(is_known) {
                    continue;
                }
                let multiple = Wide::from(*interval).scale(factor.into());
                let bounds = self.independent_bounds(&rest).add(multiple);
                best = Some(best.map_or(bounds, |best| best.intersect(bounds)));
            }
        }
        best
    }

    /// The bounds of the combination. Contradictory assumptions may lead to empty bounds.
    pub(super) fn bounds(&mut self, linear: &Linear) -> Wide {
        let mut best = self.independent_bounds(linear);
        if let Some(assumed) = self.assumed_bounds(linear) {
            best = best.intersect(assumed);
        }
        let quotients = linear
            .terms
            .iter()
            .filter(|(atom, _)| as_quotient(atom).is_some())
            .count();
        if quotients == 0 || linear.terms.len() == 1 {
            return best;
        }
        if let Some(known) = self.memory.bounds.get(linear) {
            return *known;
        }
        best = best.intersect(self.correlated_bounds(linear));
        self.memory.bounds.insert(linear.clone(), best);
        best
    }

    /// The bounds found by eliminating quotients.
    fn correlated_bounds(&mut self, linear: &Linear) -> Wide {
        let mut best = Wide {
            lower: i128::MIN,
            upper: i128::MAX,
        };
        // scale * linear = current + slack
        let (mut current, mut scale, mut slack) = (linear.clone(), 1i128, Wide::point(0));
        for _ in 0..MAX_ELIMINATIONS {
            let deepest = current
                .terms
                .iter()
                .filter_map(|(atom, q)| {
                    as_quotient(atom).map(|(y, c)| (atom.depth(), atom, *q, y, c))
                })
                .max_by_key(|(depth, ..)| *depth);
            let Some((_, atom, q, y, c)) = deepest else {
                break;
            };
            let y = self.operand(y);
            let Some(next) = current
                .without(atom)
                .scale(c)
                .and_then(|rest| rest.plus(&y, q))
            else {
                break;
            };
            let Some(next_scale) = scale.checked_mul(c.into()).filter(|s| *s < 1 << 62) else {
                break;
            };
            let remainder = self.remainder_bounds(&y, c);
            slack = slack
                .scale(c.into())
                .add(Wide::from(remainder).scale(-i128::from(q)));
            (current, scale) = (next, next_scale);
            let total = self.independent_bounds(&current).add(slack);
            best = best.intersect(Wide {
                lower: wide_ceil(total.lower, scale),
                upper: wide_floor(total.upper, scale),
            });
        }
        best
    }

    /// The bounds of `linear mod divisor`.
    pub(super) fn remainder_bounds(&mut self, linear: &Linear, divisor: i64) -> Interval {
        let range = self.bounds(linear);
        let c = i128::from(divisor);
        if range.lower <= range.upper && wide_floor(range.lower, c) == wide_floor(range.upper, c) {
            return Wide {
                lower: range.lower.rem_euclid(c),
                upper: range.upper.rem_euclid(c),
            }
            .narrow();
        }
        let residue = self.residue(linear);
        let step = i64::try_from(gcd(residue.modulus, divisor))
            .unwrap_or(1)
            .max(1);
        let first = residue.remainder.rem_euclid(step);
        Interval::new(first, divisor - step + first)
    }

    /// The combination that consists of an atom, or of its value if its bounds leave only one.
    pub(super) fn atom(&mut self, term: Term) -> Linear {
        if let Node::Const(value) = term.node() {
            return Linear::constant(*value);
        }
        let point = self.facts(&term).0.as_point();
        // Equal atoms share one tree, which makes comparing them cheap.
        let term = match self.memory.facts.get_key_value(&term) {
            Some((known, _)) => known.clone(),
            None => term,
        };
        match point {
            Some(value) => {
                if self.is_tracing() {
                    let facts = vec![(term.clone(), Interval::point(value))];
                    self.note("range-is-a-point", facts, term, Term::constant(value));
                }
                Linear::constant(value)
            }
            None => Linear::atom(term),
        }
    }
}
