//! Bounds and residues of terms, derived from those of their variables.

use std::hash::BuildHasher;

use crate::interval::{Interval, Residue, Wide};
use crate::number::{wide_ceil, wide_floor};
use crate::term::{Cmp, Node, Term, Var};

/// A source of bounds for variables.
pub trait VarRanges {
    /// All values that the variable can take; [`Interval::FULL`] if unknown.
    fn range(&self, var: Var) -> Interval;

    /// The residue of the variable, if one is known.
    fn residue(&self, _var: Var) -> Residue {
        Residue::ANY
    }
}

impl VarRanges for [Interval] {
    fn range(&self, var: Var) -> Interval {
        self.get(var.0 as usize).copied().unwrap_or(Interval::FULL)
    }
}

impl VarRanges for Vec<Interval> {
    fn range(&self, var: Var) -> Interval {
        self.as_slice().range(var)
    }
}

impl<S: BuildHasher> VarRanges for std::collections::HashMap<Var, Interval, S> {
    fn range(&self, var: Var) -> Interval {
        self.get(&var).copied().unwrap_or(Interval::FULL)
    }
}

impl<R: VarRanges + ?Sized> VarRanges for &R {
    fn range(&self, var: Var) -> Interval {
        (**self).range(var)
    }

    fn residue(&self, var: Var) -> Residue {
        (**self).residue(var)
    }
}

/// An interval that contains every value of the term for variables in their ranges.
///
/// Operands are treated as independent; canonicalise first if a variable occurs twice.
pub fn range_of(term: &Term, ranges: &(impl VarRanges + ?Sized)) -> Interval {
    facts_of(term, ranges).0
}

/// A residue that contains every value of the term.
pub fn residue_of(term: &Term, ranges: &(impl VarRanges + ?Sized)) -> Residue {
    facts_of(term, ranges).1
}

/// The bounds and residue of a term; see [`range_of`] and [`residue_of`].
pub fn facts_of(term: &Term, ranges: &(impl VarRanges + ?Sized)) -> (Interval, Residue) {
    combined(term, &ranges)
}

/// [`facts_of`], compiled once for all kinds of ranges.
fn combined(term: &Term, ranges: &dyn VarRanges) -> (Interval, Residue) {
    let (range, residue) = term.fold(&mut |term: &Term, children: &[(Wide, Residue)]| {
        combine(term.node(), children, ranges)
    });
    (range.narrow().snap(&residue), residue)
}

type Facts = (Wide, Residue);

fn narrow(facts: Facts) -> Facts {
    (Wide::from(facts.0.narrow()), facts.1)
}

pub(crate) fn combine(node: &Node, children: &[Facts], ranges: &dyn VarRanges) -> Facts {
    let (range, residue) = match (node, children) {
        (Node::Const(value), _) => {
            return (Wide::point((*value).into()), Residue::point(*value));
        }
        (Node::Var(var), _) => (ranges.range(*var).into(), ranges.residue(*var)),
        (Node::Add(..), [a, b]) => return (a.0.add(b.0), a.1.add(&b.1)),
        (Node::Mul(a, b), [x, y]) => {
            if let Some(c) = b.as_constant().or_else(|| a.as_constant()) {
                let other = if b.as_constant().is_some() { x } else { y };
                return (other.0.scale(c.into()), other.1.mul(&Residue::point(c)));
            }
            let (x, y) = (narrow(*x), narrow(*y));
            (Wide::corners(x.0, y.0, |a, b| a * b), x.1.mul(&y.1))
        }
        (Node::FloorDiv(..), [a, b]) => divide(narrow(*a), narrow(*b), wide_floor),
        (Node::CeilDiv(..), [a, b]) => divide(narrow(*a), narrow(*b), wide_ceil),
        (Node::Mod(..), [a, b]) => remainder(narrow(*a), narrow(*b)),
        (Node::Min(..), [a, b]) => {
            let (a, b) = (narrow(*a), narrow(*b));
            let range = Wide {
                lower: a.0.lower.min(b.0.lower),
                upper: a.0.upper.min(b.0.upper),
            };
            (range, either(a.1, b.1))
        }
        (Node::Max(..), [a, b]) => {
            let (a, b) = (narrow(*a), narrow(*b));
            let range = Wide {
                lower: a.0.lower.max(b.0.lower),
                upper: a.0.upper.max(b.0.upper),
            };
            (range, either(a.1, b.1))
        }
        (Node::Cmp(op, ..), [a, b]) => return compare(*op, narrow(*a), narrow(*b)),
        (Node::Select(..), [c, a, b]) => return choose(narrow(*c), narrow(*a), narrow(*b)),
        _ => (Interval::FULL.into(), Residue::ANY),
    };
    (Wide::from(range.narrow().snap(&residue)), residue)
}

/// A residue that contains those of two terms: both remainders are equal modulo the gcd of the
/// moduli and the difference.
fn either(a: Residue, b: Residue) -> Residue {
    let distance = i128::from(a.remainder) - i128::from(b.remainder);
    match i64::try_from(distance) {
        Ok(distance) => Residue::new(
            i64::try_from(crate::number::gcd(
                i64::try_from(crate::number::gcd(a.modulus, b.modulus)).unwrap_or(1),
                distance,
            ))
            .unwrap_or(1),
            a.remainder,
        ),
        Err(_) => Residue::ANY,
    }
}

fn divide(a: Facts, b: Facts, round: fn(i128, i128) -> i128) -> Facts {
    let unknown = (Interval::FULL.into(), Residue::ANY);
    if a.0.lower > a.0.upper || b.0.lower > b.0.upper {
        return unknown;
    }
    let (a, b) = if b.0.upper < 0 {
        (
            (a.0.scale(-1), a.1.mul(&Residue::point(-1))),
            (b.0.scale(-1), b.1),
        )
    } else {
        (a, b)
    };
    if b.0.upper <= 0 {
        return unknown;
    }
    if b.0.lower < 0 {
        // The sign of the divisor is unknown, so only the magnitude is bounded.
        let most = a.0.lower.abs().max(a.0.upper.abs());
        return (
            Wide {
                lower: -most,
                upper: most,
            },
            Residue::ANY,
        );
    }
    // A divisor of 0 yields no value, so it is at least 1 where there is one.
    let b = Wide {
        lower: b.0.lower.max(1),
        upper: b.0.upper,
    };
    let range = Wide::corners(a.0, b, round);
    let residue = match i64::try_from(b.lower) {
        Ok(c) if b.lower == b.upper && a.1.modulus % c == 0 && a.1.modulus > 0 => {
            // x = m k + r with c | m, so x / c = (m / c) k + r / c.
            let r = round(a.1.remainder.into(), c.into());
            Residue::new(a.1.modulus / c, i64::try_from(r).unwrap_or(0))
        }
        _ => Residue::ANY,
    };
    (range, residue)
}

fn remainder(a: Facts, b: Facts) -> Facts {
    let (a_range, b_range) = (a.0, b.0);
    if a_range.lower > a_range.upper || b_range.lower > b_range.upper {
        return (Interval::FULL.into(), Residue::ANY);
    }
    let mut range = Wide {
        lower: (b_range.lower + 1).min(0),
        upper: (b_range.upper - 1).max(0),
    };
    let mut residue = Residue::ANY;
    if b_range.lower == b_range.upper && b_range.lower > 0 {
        let c = b_range.lower;
        if wide_floor(a_range.lower, c) == wide_floor(a_range.upper, c) {
            range = Wide {
                lower: a_range.lower.rem_euclid(c),
                upper: a_range.upper.rem_euclid(c),
            };
        }
        if let Ok(c) = i64::try_from(c) {
            residue = either(a.1, Residue::new(c, a.1.remainder));
        }
    } else if b_range.lower > 0 && a_range.lower >= 0 {
        range.upper = range.upper.min(a_range.upper);
    }
    (range, residue)
}

fn compare(op: Cmp, a: Facts, b: Facts) -> Facts {
    match decide(op, a, b) {
        Some(value) => (Wide::point(value.into()), Residue::point(value.into())),
        None => (Wide { lower: 0, upper: 1 }, Residue::ANY),
    }
}

/// The truth of a comparison, if bounds or residues decide it.
fn decide(op: Cmp, a: Facts, b: Facts) -> Option<bool> {
    if a.0.lower > a.0.upper || b.0.lower > b.0.upper {
        return None;
    }
    let less = a.0.upper < b.0.lower;
    let greater = a.0.lower > b.0.upper;
    let never_equal = less || greater || a.1.intersect(&b.1).is_none();
    let equal = a.0.lower == a.0.upper && a.0 == b.0;
    match op {
        Cmp::Eq if never_equal => Some(false),
        Cmp::Eq if equal => Some(true),
        Cmp::Ne if never_equal => Some(true),
        Cmp::Ne if equal => Some(false),
        Cmp::Lt if less => Some(true),
        Cmp::Lt if a.0.lower >= b.0.upper => Some(false),
        Cmp::Le if a.0.upper <= b.0.lower => Some(true),
        Cmp::Le if greater => Some(false),
        _ => None,
    }
}

fn choose(c: Facts, a: Facts, b: Facts) -> Facts {
    if c.0 == Wide::point(0) {
        return b;
    }
    if c.0.lower > 0 || c.0.upper < 0 {
        return a;
    }
    (
        Wide::from(a.0.narrow().hull(&b.0.narrow())),
        either(a.1, b.1),
    )
}
