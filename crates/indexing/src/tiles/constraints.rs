//! Applies a map's bounds and constraints to a tile.
//!
//! A bound on one variable limits its progression, and a bound on a result limits the result's. A
//! constraint that fixes the remainder of a result's dividend widens the steps, for example where a
//! window passes over dilated elements. A constraint that is the same for the whole tile decides
//! whether the tile reads anything. Any other constraint has to hold for the whole tile; otherwise,
//! the tile only covers what is read.

use tegula_expr::{Cmp, Interval, Node, Term, floor_div};

use super::condition::Condition;
use super::image::{Image, as_one_quotient};
use super::independence::Group;
use super::progression::Progression;
use super::prover::Prover;
use super::reason::Reason;
use crate::map::Constraint;

/// What the constraints say beyond the variables' progressions.
#[derive(Debug, Default)]
pub(super) struct Domain {
    /// The condition that a tile reads anything at all, as far as it can be expressed.
    pub(super) present: Condition,
    /// For each limited result, its lower and upper limit.
    limits: Vec<(usize, Option<Term>, Option<Term>)>,
    /// Results that are a quotient whose dividend has a fixed remainder.
    dilated: Vec<(usize, Dilated)>,
    /// The remaining constraints.
    rest: Vec<Constraint>,
}

impl Default for Condition {
    fn default() -> Self {
        Self::always()
    }
}

/// A result `y / modulus` on the points where `y mod modulus = remainder`.
#[derive(Debug)]
struct Dilated {
    dividend: Term,
    modulus: i64,
    remainder: i64,
    limits: Vec<(Option<Term>, Option<Term>)>,
}

/// Narrows the variables' progressions, and classifies the other constraints.
pub(super) fn apply(walk: &mut Image<'_>, groups: &[Group]) -> Domain {
    let mut domain = Domain::default();
    let mut present = Vec::new();
    narrow_dimensions(walk, &mut present);
    let mut open: Vec<Constraint> = Vec::new();
    for constraint in &walk.map.constraints {
        let moving = walk.moving(&constraint.term);
        if moving.is_empty() {
            let value = walk.of(&constraint.term).offset;
            present.push(inside(&value, constraint.interval));
        } else if !narrow_variable(walk, constraint, &moving, &mut present) {
            open.push(constraint.clone());
        }
    }
    find_dilated(walk, &mut domain, &mut open, groups);
    for constraint in open {
        if !domain.limit_result(walk, &constraint, groups) {
            domain.rest.push(constraint);
        }
    }
    domain.present = Condition::all(present);
    domain
}

/// `lower <= value <= upper`.
fn inside(value: &Term, interval: Interval) -> Condition {
    let Interval { lower, upper } = interval;
    let mut both = Vec::new();
    if lower > i64::MIN {
        both.push(Condition::compare(Cmp::Le, &lower.into(), value));
    }
    if upper < i64::MAX {
        both.push(Condition::compare(Cmp::Le, value, &upper.into()));
    }
    Condition::all(both)
}

/// Applies bounds of dimensions that are narrower than the space.
fn narrow_dimensions(walk: &mut Image<'_>, present: &mut Vec<Condition>) {
    for (number, dim) in walk.map.dims.iter().enumerate() {
        let Some(own) = walk.variables.get(number).cloned() else {
            continue;
        };
        let (first, last) = (own.first(walk.prover), own.last(walk.prover));
        let lower = (walk.prover.range(&first).lower < dim.bounds.lower)
            .then(|| Term::constant(dim.bounds.lower));
        let upper = (walk.prover.range(&last).upper > dim.bounds.upper)
            .then(|| Term::constant(dim.bounds.upper));
        narrow(walk, number, lower, upper, present);
    }
}

fn narrow(
    walk: &mut Image<'_>,
    number: usize,
    lower: Option<Term>,
    upper: Option<Term>,
    present: &mut Vec<Condition>,
) {
    let Some(own) = walk.variables.get(number).cloned() else {
        return;
    };
    if lower.is_none() && upper.is_none() {
        return;
    }
    let narrowed = limited(own, lower, upper, walk.prover);
    let (first, last) = (narrowed.first(walk.prover), narrowed.last(walk.prover));
    present.push(Condition::compare(Cmp::Le, &first, &last));
    if let Some(slot) = walk.variables.get_mut(number) {
        *slot = narrowed;
        slot.extent = None;
    }
}

/// Adds limits to a progression.
fn limited(
    mut own: Progression,
    lower: Option<Term>,
    upper: Option<Term>,
    prover: &mut Prover,
) -> Progression {
    own.is_aligned &= own.step() == Some(1);
    if let Some(lower) = lower {
        let lower = match &own.lower {
            Some(known) => Term::max(known, &lower),
            None => lower,
        };
        own.lower = Some(prover.canonical(&lower));
    }
    if let Some(upper) = upper {
        let upper = match &own.upper {
            Some(known) => Term::min(known, &upper),
            None => upper,
        };
        own.upper = Some(prover.canonical(&upper));
    }
    own.is_tight &= own.step() == Some(1) || own.is_unlimited();
    own
}

/// Handles a constraint `lower <= k * x + rest <= upper` in which only the variable `x` varies
/// within a tile.
fn narrow_variable(
    walk: &mut Image<'_>,
    constraint: &Constraint,
    moving: &[usize],
    present: &mut Vec<Condition>,
) -> bool {
    let &[number] = moving else { return false };
    let Some((terms, constant)) = constraint.term.as_linear() else {
        return false;
    };
    let mut rest = Term::constant(constant);
    let mut factor = None;
    for (atom, k) in &terms {
        if walk.moving(atom).is_empty() {
            rest = rest.add(&walk.of(atom).offset.mul(&(*k).into()));
        } else if atom.as_var().is_some() && factor.is_none() {
            factor = Some(*k);
        } else {
            return false;
        }
    }
    let Some(factor) = factor else { return false };
    let (lower, upper) = ends(constraint.interval, &rest, factor);
    narrow(walk, number, lower, upper, present);
    true
}

/// Solves `k * x + rest in interval` for `x`: returns its lower and upper bound.
fn ends(interval: Interval, rest: &Term, k: i64) -> (Option<Term>, Option<Term>) {
    let k_term = Term::constant(k);
    let lower = (interval.lower > i64::MIN).then(|| Term::constant(interval.lower).sub(rest));
    let upper = (interval.upper < i64::MAX).then(|| Term::constant(interval.upper).sub(rest));
    if k > 0 {
        (
            lower.map(|lower| lower.ceil_div(&k_term)),
            upper.map(|upper| upper.floor_div(&k_term)),
        )
    } else {
        (
            upper.map(|upper| upper.ceil_div(&k_term)),
            lower.map(|lower| lower.floor_div(&k_term)),
        )
    }
}

/// The difference `a - b`, if it is constant within a tile.
fn distance(walk: &mut Image<'_>, a: &Term, b: &Term) -> Option<Term> {
    let difference = tegula_expr::canonicalize(&a.sub(b), walk.map);
    if !walk.moving(&difference).is_empty() {
        return None;
    }
    Some(walk.of(&difference).offset)
}

/// Whether the result is the only one of its group.
fn stands_alone(groups: &[Group], result: usize) -> bool {
    let own = groups.iter().find(|group| group.results.contains(&result));
    own.is_some_and(|group| group.results.len() == 1)
}

/// Finds results `(y + multiple) / m` with a constraint that fixes the remainder of `y`.
fn find_dilated(
    walk: &mut Image<'_>,
    domain: &mut Domain,
    open: &mut Vec<Constraint>,
    groups: &[Group],
) {
    let results = walk.map.results.clone();
    for (number, result) in results.iter().enumerate() {
        let Some((y, modulus)) = as_one_quotient(result) else {
            continue;
        };
        let y = &y;
        if !stands_alone(groups, number) {
            continue;
        }
        let found = open
            .iter()
            .position(|constraint| remainder_of(walk, constraint, y, modulus).is_some());
        let Some(position) = found else { continue };
        let constraint = open.remove(position);
        let Some(remainder) = remainder_of(walk, &constraint, y, modulus) else {
            continue;
        };
        let mut limits = Vec::new();
        open.retain(|constraint| {
            let Some((lower, upper)) = around(walk, constraint, y) else {
                return true;
            };
            limits.push((lower, upper));
            false
        });
        domain.dilated.push((
            number,
            Dilated {
                dividend: y.clone(),
                modulus,
                remainder,
                limits,
            },
        ));
    }
}

/// The remainder of `y` if the constraint says `(y + c) mod m in [r, r]`.
fn remainder_of(
    walk: &mut Image<'_>,
    constraint: &Constraint,
    y: &Term,
    modulus: i64,
) -> Option<i64> {
    let Node::Mod(x, m) = constraint.term.node() else {
        return None;
    };
    if m.as_constant() != Some(modulus) {
        return None;
    }
    let remainder = constraint.interval.as_point()?;
    // The coefficients may also have been reduced modulo `m`.
    let distance = tegula_expr::canonicalize(&x.sub(y).modulo(m), walk.map);
    let distance = distance.as_constant()?;
    Some(remainder.checked_sub(distance)?.rem_euclid(modulus))
}

/// The limits of `y` that follow from a constraint on `y` or `-y` plus something constant within a
/// tile.
fn around(
    walk: &mut Image<'_>,
    constraint: &Constraint,
    y: &Term,
) -> Option<(Option<Term>, Option<Term>)> {
    if let Some(rest) = distance(walk, &constraint.term, y) {
        return Some(ends(constraint.interval, &rest, 1));
    }
    let rest = distance(walk, &constraint.term, &y.neg())?;
    Some(ends(constraint.interval, &rest, -1))
}

impl Domain {
    /// Uses the constraint as a limit of a result that varies on its own; returns whether it is
    /// one.
    fn limit_result(
        &mut self,
        walk: &mut Image<'_>,
        constraint: &Constraint,
        groups: &[Group],
    ) -> bool {
        let results = walk.map.results.clone();
        for (number, result) in results.iter().enumerate() {
            let is_dilated = self.dilated.iter().any(|(own, _)| *own == number);
            if is_dilated || !stands_alone(groups, number) {
                continue;
            }
            if let Some((lower, upper)) = around(walk, constraint, result) {
                self.limits.push((number, lower, upper));
                return true;
            }
        }
        false
    }

    /// The progression of a result, with the limits from constraints.
    pub(super) fn progression(
        &self,
        number: usize,
        result: &Term,
        walk: &mut Image<'_>,
    ) -> Progression {
        let dilated = self.dilated.iter().find(|(own, _)| *own == number);
        let mut found = match dilated {
            Some((_, dilated)) => dilated.progression(walk),
            None => walk.of(result),
        };
        for (own, lower, upper) in &self.limits {
            if *own == number {
                found = limited(found, lower.clone(), upper.clone(), walk.prover);
                // If the progression has gaps, a limit may be in a gap.
                found.is_tight &= walk.reasons.is_empty();
            }
        }
        found
    }

    /// Requires that the remaining constraints hold for the whole tile.
    pub(super) fn check_rest(&self, walk: &mut Image<'_>) {
        for constraint in &self.rest {
            let noted = walk.noted();
            let found = walk.of(&constraint.term);
            // It does not matter whether the values of the constraint's own term are a progression.
            walk.forget(noted);
            let (first, last) = (found.first(walk.prover), found.last(walk.prover));
            let Interval { lower, upper } = constraint.interval;
            let whole = Condition::all([
                Condition::compare(Cmp::Le, &lower.into(), &first),
                Condition::compare(Cmp::Le, &last, &upper.into()),
            ]);
            let term = constraint.term.clone();
            walk.require(&whole, || Reason::Constraint(term));
        }
    }
}

impl Dilated {
    /// The quotients of those values of the dividend that have the required remainder.
    fn progression(&self, walk: &mut Image<'_>) -> Progression {
        let mut y = walk.of(&self.dividend);
        for (lower, upper) in &self.limits {
            y = limited(y, lower.clone(), upper.clone(), walk.prover);
        }
        let modulus = Term::constant(self.modulus);
        let Some((step, inverse)) = y.step().and_then(|s| Some((s, inverse(s, self.modulus)?)))
        else {
            // The steps share a factor with the modulus, so which values remain depends on the
            // tile.
            let dividend = self.dividend.clone();
            walk.require(&Condition::never(), || Reason::Constraint(dividend));
            y.is_tight = false;
            return walk.quotient(&y, &modulus);
        };
        // The first value with the required remainder solves step * k = remainder - offset.
        let wanted = Term::constant(self.remainder).sub(&y.offset);
        let skipped = wanted.mul(&inverse.into()).modulo(&modulus);
        let first = y.offset.add(&skipped.mul(&step.into()));
        let quotient = |term: &Term, up: bool| {
            let moved = term.sub(&self.remainder.into());
            if up {
                moved.ceil_div(&modulus)
            } else {
                moved.floor_div(&modulus)
            }
        };
        let (from, to) = (y.first(walk.prover), y.last(walk.prover));
        let size = y.size.ceil_div(&modulus);
        let size = walk.prover.canonical(&size);
        // Without limits, there may still be one value fewer at the end.
        let lower = y
            .lower
            .as_ref()
            .map(|_| walk.prover.canonical(&quotient(&from, true)));
        let upper = walk.prover.canonical(&quotient(&to, false));
        Progression {
            offset: walk.prover.canonical(&quotient(&first, false)),
            size,
            stride: step.into(),
            lower,
            upper: Some(upper),
            is_aligned: step == 1,
            is_tight: y.is_tight && step == 1 && walk.reasons.is_empty(),
            extent: None,
        }
    }
}

/// The inverse `x` of `a` modulo `m`, with `x * a = 1 (mod m)`, if there is one.
fn inverse(a: i64, m: i64) -> Option<i64> {
    if a == 1 {
        return Some(1);
    }
    let (mut old, mut rest) = (a.rem_euclid(m), m);
    let (mut x, mut next) = (1i64, 0i64);
    while rest != 0 {
        let q = floor_div(old, rest)?;
        (old, rest) = (rest, old - q * rest);
        (x, next) = (next, x.checked_sub(q.checked_mul(next)?)?);
    }
    (old == 1).then(|| x.rem_euclid(m))
}
