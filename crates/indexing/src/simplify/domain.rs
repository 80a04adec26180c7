//! The domain of a map during simplification: bounds, residues and constraints.
//!
//! A constraint narrows its variables: what is known about a term is propagated to its operands
//! ([`Domain::narrow`]), as intervals and as residues. Bounds are part of the result. Residues are
//! only auxiliary knowledge, because maps do not store them; the constraint that a residue came
//! from stays.

use tegula_expr::{
    Canonicalizer, Cmp, Interval, Node, Residue, Term, Var, VarRanges, facts_of, gcd, range_of,
};

use crate::map::{Constraint, IndexingMap};

/// The deepest operand to which narrowing propagates.
const MAX_DEPTH: u32 = 24;
/// The most values that are tried at each end of a variable.
const MAX_PROBES: usize = 24;
/// The most variables of a constraint whose ends are tried.
const MAX_SHAVED: usize = 12;
/// The most terms of a sum through which residues are propagated.
const MAX_TERMS: usize = 32;
/// The most steps to bring a constraint into normal form.
const MAX_STEPS: usize = 12;
/// The most constraints that are combined in pairs.
const MAX_PAIRED: usize = 12;
/// The most rounds of narrowing with all constraints.
const MAX_ROUNDS: usize = 6;

/// No point satisfies the constraints.
#[derive(Debug)]
pub(super) struct Empty;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Domain {
    pub(super) bounds: Vec<Interval>,
    pub(super) residues: Vec<Residue>,
    pub(super) constraints: Vec<Constraint>,
    /// Variables whose bounds must stay: run-time variables with a source. Their bounds are facts
    /// about the source (an offset is clamped to them), so a constraint on such a variable must not
    /// be merged into the bounds.
    pinned: Vec<bool>,
}

impl VarRanges for Domain {
    fn range(&self, var: Var) -> Interval {
        self.bounds.as_slice().range(var)
    }

    fn residue(&self, var: Var) -> Residue {
        self.residues
            .get(var.0 as usize)
            .copied()
            .unwrap_or(Residue::ANY)
    }
}

/// A domain in which one variable is fixed to a value.
struct Probe<'a> {
    domain: &'a Domain,
    var: Var,
    value: i64,
}

impl VarRanges for Probe<'_> {
    fn range(&self, var: Var) -> Interval {
        if var == self.var {
            Interval::point(self.value)
        } else {
            self.domain.range(var)
        }
    }

    fn residue(&self, var: Var) -> Residue {
        if var == self.var {
            Residue::point(self.value)
        } else {
            self.domain.residue(var)
        }
    }
}

impl Domain {
    pub(super) fn of(map: &IndexingMap) -> Self {
        let bounds = map.bounds().to_vec();
        let residues = vec![Residue::ANY; bounds.len()];
        let has_source = map.runtime.iter().map(|runtime| runtime.source.is_some());
        let free = std::iter::repeat_n(false, map.dims.len() + map.ranges.len());
        let pinned = free.chain(has_source).collect();
        Self {
            bounds,
            residues,
            constraints: map.constraints.clone(),
            pinned,
        }
    }

    /// Brings the constraints into normal form, narrows the variables by them, and drops those that
    /// the bounds imply, until nothing changes.
    pub(super) fn tighten(&mut self) -> Result<(), Empty> {
        for _ in 0..MAX_ROUNDS {
            let before = (self.bounds.clone(), self.constraints.clone());
            if self.bounds.iter().any(Interval::is_empty) {
                return Err(Empty);
            }
            self.normalize_constraints()?;
            self.eliminate()?;
            for constraint in self.constraints.clone() {
                self.narrow(&constraint.term, constraint.interval, 0)?;
                if let Some((inner, residue)) = remainder_constraint(&constraint) {
                    self.narrow_residue(&inner, residue, 0)?;
                }
                if !constraint.term.is_affine() {
                    self.shave(&constraint)?;
                }
            }
            if before == (self.bounds.clone(), self.constraints.clone()) {
                break;
            }
        }
        Ok(())
    }

    /// Narrows by every pair of constraints with a common atom. Suitable multiples of the two are
    /// added so that the atom cancels.
    fn eliminate(&mut self) -> Result<(), Empty> {
        if self.constraints.len() < 2 || self.constraints.len() > MAX_PAIRED {
            return Ok(());
        }
        let sums: Vec<_> = self
            .constraints
            .iter()
            .filter_map(|constraint| {
                let (terms, constant) = constraint.term.as_linear()?;
                (constant == 0).then_some((terms, constraint.interval))
            })
            .collect();
        for (position, (first, own)) in sums.iter().enumerate() {
            for (second, other) in sums.iter().skip(position + 1) {
                for (atom, a) in first {
                    let Some((_, b)) = second.iter().find(|(same, _)| same == atom) else {
                        continue;
                    };
                    let Some((sum, interval)) = without_common(first, *own, *b, second, *other, *a)
                    else {
                        continue;
                    };
                    self.narrow(&sum, interval, 0)?;
                }
            }
        }
        Ok(())
    }

    /// Normalises constraints: canonical terms without constants, merged by term, without implied
    /// ones. Affine constraints are kept as they are; the others are simplified under the affine
    /// ones.
    fn normalize_constraints(&mut self) -> Result<(), Empty> {
        let bounds = self.bounds.clone();
        let given = std::mem::take(&mut self.constraints);
        let (affine, others): (Vec<_>, Vec<_>) = given
            .into_iter()
            .partition(|constraint| constraint.term.is_affine());
        let mut canonicalizer = Canonicalizer::new(bounds.as_slice());
        let mut kept: Vec<Constraint> = Vec::new();
        normalize(affine, &mut canonicalizer, &bounds, &mut kept)?;
        if !others.is_empty() {
            for constraint in kept.iter().filter(|c| c.term.is_affine()) {
                canonicalizer.assume(&constraint.term, constraint.interval);
            }
            normalize(others, &mut canonicalizer, &bounds, &mut kept)?;
        }
        self.constraints = kept;
        self.merge_remainders()?;
        self.constraints.sort_by(|a, b| a.term.cmp(&b.term));
        Ok(())
    }

    /// Merges two residues of one term by the Chinese remainder theorem.
    fn merge_remainders(&mut self) -> Result<(), Empty> {
        let mut merged: Vec<(Term, Residue)> = Vec::new();
        let mut rest = Vec::new();
        for constraint in std::mem::take(&mut self.constraints) {
            let Some((inner, residue)) = remainder_constraint(&constraint) else {
                rest.push(constraint);
                continue;
            };
            match merged.iter_mut().find(|(term, _)| *term == inner) {
                Some((_, known)) => {
                    let both = known.intersect(&residue).ok_or(Empty)?;
                    let divides = |m: i64| m != 0 && both.modulus % m == 0;
                    if divides(known.modulus) && divides(residue.modulus) {
                        *known = both;
                    } else {
                        // The common multiple overflows.
                        rest.push(constraint);
                    }
                }
                None => merged.push((inner, residue)),
            }
        }
        rest.extend(merged.into_iter().map(|(inner, residue)| Constraint {
            term: inner.modulo(&residue.modulus.into()),
            interval: Interval::point(residue.remainder),
        }));
        self.constraints = rest;
        Ok(())
    }

    /// Whether the variable's bounds must stay.
    pub(super) fn is_pinned(&self, var: usize) -> bool {
        self.pinned.get(var).copied().unwrap_or(false)
    }

    fn set_bounds(&mut self, var: Var, interval: Interval) -> Result<(), Empty> {
        let residue = self.residue(var);
        let is_pinned = self.is_pinned(var.0 as usize);
        if let Some(slot) = self.bounds.get_mut(var.0 as usize) {
            let narrow = slot.intersect(&interval).snap(&residue);
            if narrow.is_empty() {
                return Err(Empty);
            }
            if !is_pinned {
                *slot = narrow;
            }
        }
        Ok(())
    }

    /// Moves the ends of each variable of a constraint inwards past values that the constraint
    /// excludes, whatever the values of the other variables. Unlike narrowing, this sees that two
    /// operands of the constraint change together.
    fn shave(&mut self, constraint: &Constraint) -> Result<(), Empty> {
        let mut variables = Vec::new();
        constraint.term.for_each_var(&mut |var| {
            if !variables.contains(&var) && !self.is_pinned(var.0 as usize) {
                variables.push(var);
            }
        });
        if variables.len() > MAX_SHAVED {
            return Ok(());
        }
        for var in variables {
            for from_below in [true, false] {
                for _ in 0..MAX_PROBES {
                    let own = self.range(var);
                    let value = if from_below { own.lower } else { own.upper };
                    let probe = Probe {
                        domain: self,
                        var,
                        value,
                    };
                    let (range, residue) = facts_of(&constraint.term, &probe);
                    let left = constraint.interval.intersect(&range).snap(&residue);
                    if !left.is_empty() {
                        break;
                    }
                    let rest = if from_below {
                        Interval::new(value.saturating_add(1), own.upper)
                    } else {
                        Interval::new(own.lower, value.saturating_sub(1))
                    };
                    if own.as_point().is_some() {
                        return Err(Empty);
                    }
                    self.set_bounds(var, rest)?;
                }
            }
        }
        Ok(())
    }

    /// Narrows the variables of a term that is known to be in an interval.
    fn narrow(&mut self, term: &Term, interval: Interval, depth: u32) -> Result<(), Empty> {
        let (range, residue) = facts_of(term, self);
        let interval = interval.intersect(&range).snap(&residue);
        if interval.is_empty() {
            return Err(Empty);
        }
        if interval == range && depth > 0 || depth > MAX_DEPTH {
            return Ok(());
        }
        match term.node() {
            Node::Var(var) => self.set_bounds(*var, interval),
            Node::Add(..) => self.narrow_sum(term, interval, depth),
            Node::Mul(_, b) if b.as_constant().is_some() => self.narrow_sum(term, interval, depth),
            Node::FloorDiv(a, b) => match b.as_constant() {
                Some(c) if c > 0 => self.narrow(a, dividend(interval, c), depth + 1),
                _ => Ok(()),
            },
            Node::Mod(a, b) => match b.as_constant() {
                Some(c) if c > 0 => self.narrow_remainder(a, c, interval, depth),
                _ => Ok(()),
            },
            Node::Min(a, b) => {
                let below = Interval::new(interval.lower, i64::MAX);
                self.narrow(a, below, depth + 1)?;
                self.narrow(b, below, depth + 1)?;
                self.narrow_chosen(a, b, interval, depth)
            }
            Node::Max(a, b) => {
                let above = Interval::new(i64::MIN, interval.upper);
                self.narrow(a, above, depth + 1)?;
                self.narrow(b, above, depth + 1)?;
                self.narrow_chosen(a, b, interval, depth)
            }
            Node::Cmp(op, a, b) => match interval.as_point() {
                Some(truth) => self.narrow_comparison(*op, a, b, truth == 1, depth),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Narrows by `min(a, b)` or `max(a, b)` in an interval. If one operand cannot be in it, the
    /// other one is chosen, so it is in the interval.
    fn narrow_chosen(
        &mut self,
        a: &Term,
        b: &Term,
        interval: Interval,
        depth: u32,
    ) -> Result<(), Empty> {
        for (one, other) in [(a, b), (b, a)] {
            if range_of(other, self).intersect(&interval).is_empty() {
                self.narrow(one, interval, depth + 1)?;
            }
        }
        Ok(())
    }

    fn narrow_comparison(
        &mut self,
        op: Cmp,
        a: &Term,
        b: &Term,
        holds: bool,
        depth: u32,
    ) -> Result<(), Empty> {
        let difference = a.sub(b);
        let interval = match (op, holds) {
            (Cmp::Eq, true) | (Cmp::Ne, false) => Interval::point(0),
            (Cmp::Lt, true) => Interval::new(i64::MIN, -1),
            (Cmp::Lt, false) => Interval::new(0, i64::MAX),
            (Cmp::Le, true) => Interval::new(i64::MIN, 0),
            (Cmp::Le, false) => Interval::new(1, i64::MAX),
            _ => return Ok(()),
        };
        self.narrow(&difference, interval, depth + 1)
    }

    /// Narrows by `constant + sum of k * atom` in `[a, b]`: each summand is in the interval that
    /// the ranges of the others leave.
    fn narrow_sum(&mut self, term: &Term, interval: Interval, depth: u32) -> Result<(), Empty> {
        let Some((terms, constant)) = term.as_linear() else {
            return Ok(());
        };
        // The magnitudes of the coefficients add up to an i64, so nothing overflows.
        let multiple = |domain: &Self, atom: &Term, k: i64| {
            let range = range_of(atom, domain);
            let ends = [range.lower, range.upper].map(|e| i128::from(e) * i128::from(k));
            (ends[0].min(ends[1]), ends[0].max(ends[1]))
        };
        let mut multiples: Vec<(i128, i128)> = terms
            .iter()
            .map(|(atom, k)| multiple(self, atom, *k))
            .collect();
        let total = multiples
            .iter()
            .fold((0, 0), |sum, m| (sum.0 + m.0, sum.1 + m.1));
        let (mut all_low, mut all_high) = (
            total.0 + i128::from(constant),
            total.1 + i128::from(constant),
        );
        for ((atom, factor), own) in terms.iter().zip(&mut multiples) {
            let (lower, upper) = (all_low - own.0, all_high - own.1);
            let low = i128::from(interval.lower).saturating_sub(upper);
            let high = i128::from(interval.upper).saturating_sub(lower);
            let k = i128::from(*factor);
            let (low, high) = if k > 0 { (low, high) } else { (-high, -low) };
            let k = k.abs();
            let (low, high) = (-((-low).div_euclid(k)), high.div_euclid(k));
            let clamp =
                |v: i128| i64::try_from(v).unwrap_or(if v < 0 { i64::MIN } else { i64::MAX });
            if low > high {
                return Err(Empty);
            }
            self.narrow(atom, Interval::new(clamp(low), clamp(high)), depth + 1)?;
            *own = multiple(self, atom, *factor);
            (all_low, all_high) = (lower + own.0, upper + own.1);
        }
        if let Some(point) = interval.as_point() {
            self.narrow_residue(term, Residue::point(point), depth)?;
        }
        Ok(())
    }

    /// Narrows by `a mod c` in an interval: the ends of `a` move to the next value whose remainder
    /// is in it.
    fn narrow_remainder(
        &mut self,
        a: &Term,
        c: i64,
        interval: Interval,
        depth: u32,
    ) -> Result<(), Empty> {
        let interval = interval.intersect(&Interval::new(0, c - 1));
        if interval.is_empty() {
            return Err(Empty);
        }
        let range = range_of(a, self);
        let (r, c) = (
            i128::from(range.lower).rem_euclid(i128::from(c)),
            i128::from(c),
        );
        let (low, high) = (i128::from(interval.lower), i128::from(interval.upper));
        let mut lower = i128::from(range.lower);
        if r < low {
            lower += low - r;
        } else if r > high {
            lower += c - r + low;
        }
        let r = i128::from(range.upper).rem_euclid(c);
        let mut upper = i128::from(range.upper);
        if r > high {
            upper -= r - high;
        } else if r < low {
            upper -= r + c - high;
        }
        if lower > upper {
            return Err(Empty);
        }
        // Both ends moved inwards, so both fit, unless they crossed.
        let (Ok(lower), Ok(upper)) = (i64::try_from(lower), i64::try_from(upper)) else {
            return Ok(());
        };
        self.narrow(a, Interval::new(lower, upper), depth + 1)
    }

    /// Narrows the residues of the variables of a term with a known residue.
    fn narrow_residue(&mut self, term: &Term, residue: Residue, depth: u32) -> Result<(), Empty> {
        if depth > MAX_DEPTH || residue == Residue::ANY {
            return Ok(());
        }
        if let Some(var) = term.as_var() {
            let known = self.residue(var).intersect(&residue).ok_or(Empty)?;
            if let Some(slot) = self.residues.get_mut(var.0 as usize) {
                *slot = known;
            }
            return self.set_bounds(var, Interval::FULL);
        }
        if let Node::Mod(inner, c) = term.node()
            && let Some(c) = c.as_constant().filter(|c| *c > 0)
        {
            // What divides both moduli divides the difference between dividend and remainder.
            let common = i64::try_from(gcd(residue.modulus, c)).unwrap_or(1);
            let own = Residue::new(common.max(1), residue.remainder);
            return self.narrow_residue(inner, own, depth + 1);
        }
        let Some((terms, constant)) = term.as_linear() else {
            return Ok(());
        };
        if terms.len() > MAX_TERMS {
            return Ok(());
        }
        for (position, (atom, k)) in terms.iter().enumerate() {
            // k * atom = residue - the others
            let mut others = Residue::point(constant);
            for (other, (atom, k)) in terms.iter().enumerate() {
                if other != position {
                    others = others.add(&facts_of(atom, self).1.mul(&Residue::point(*k)));
                }
            }
            let target = residue.add(&others.mul(&Residue::point(-1)));
            let Some(own) = divide_residue(target, *k)? else {
                continue;
            };
            if atom == term {
                continue;
            }
            self.narrow_residue(atom, own, depth + 1)?;
        }
        Ok(())
    }
}

/// Normalises constraints and adds them to those kept.
fn normalize(
    constraints: Vec<Constraint>,
    canonicalizer: &mut Canonicalizer<'_>,
    bounds: &[Interval],
    kept: &mut Vec<Constraint>,
) -> Result<(), Empty> {
    for constraint in constraints {
        let mut term = canonicalizer.canonicalize(&constraint.term);
        let mut interval = constraint.interval;
        for _ in 0..MAX_STEPS {
            // The constants that move to the bounds must not make the rest too large.
            if !super::is_moderate(&term, &bounds) {
                break;
            }
            let Some((next, bounds)) = normal_form(&term, interval) else {
                break;
            };
            term = canonicalizer.canonicalize(&next);
            interval = bounds;
        }
        // `range_of` treats operands as independent; both bounds hold, so they are intersected.
        let range = canonicalizer
            .facts_of(&term)
            .0
            .intersect(&range_of(&term, bounds));
        if interval.intersect(&range).is_empty() {
            return Err(Empty);
        }
        if interval.contains_all(&range) {
            continue;
        }
        // Bounds beyond the range of the term say nothing.
        interval = interval.intersect(&range);
        match kept.iter_mut().find(|other| other.term == term) {
            Some(same) => same.interval = same.interval.intersect(&interval),
            None => kept.push(Constraint { term, interval }),
        }
    }
    Ok(())
}

/// `p * first - q * second`, in which an atom with the coefficients `q` and `p` cancels, and its
/// bounds. Common divisors of `p` and `q` are removed first.
fn without_common(
    first: &[(Term, i64)],
    own: Interval,
    p: i64,
    second: &[(Term, i64)],
    other: Interval,
    q: i64,
) -> Option<(Term, Interval)> {
    let g = i64::try_from(gcd(p, q)).ok()?;
    let (p, q) = (p.checked_div(g)?, q.checked_div(g)?.checked_neg()?);
    let mut sum = Term::constant(0);
    for (terms, factor) in [(first, p), (second, q)] {
        for (atom, k) in terms {
            sum = sum.add(&atom.mul(&Term::constant(k.checked_mul(factor)?)));
        }
    }
    sum.as_linear()?;
    let scaled = |interval: Interval, factor: i64| {
        let ends = [interval.lower, interval.upper].map(|end| end.checked_mul(factor));
        Some((ends[0]?.min(ends[1]?), ends[0]?.max(ends[1]?)))
    };
    let (own, other) = (scaled(own, p)?, scaled(other, q)?);
    let interval = Interval::new(own.0.checked_add(other.0)?, own.1.checked_add(other.1)?);
    Some((sum, interval))
}

/// The residue of all `x` for which `k * x` has the target residue; `None` if that says nothing.
fn divide_residue(target: Residue, k: i64) -> Result<Option<Residue>, Empty> {
    if target.modulus == 0 {
        return match target.remainder.checked_rem(k) {
            Some(0) => Ok(target.remainder.checked_div(k).map(Residue::point)),
            _ => Err(Empty),
        };
    }
    let Ok(g) = i64::try_from(gcd(k, target.modulus)) else {
        return Ok(None);
    };
    if g == 0 || target.remainder % g != 0 {
        return Err(Empty);
    }
    let modulus = target.modulus / g;
    if modulus == 1 {
        return Ok(None);
    }
    // `k / g` is invertible modulo `m / g`.
    let step = Residue::new(modulus, 0);
    let (k, r) = (
        (k / g).rem_euclid(modulus),
        (target.remainder / g).rem_euclid(modulus),
    );
    let Some(inverse) = inverse(k, step.modulus) else {
        return Ok(None);
    };
    let product = i128::from(inverse) * i128::from(r) % i128::from(modulus);
    Ok(i64::try_from(product)
        .ok()
        .map(|value| Residue::new(modulus, value)))
}

/// The inverse of `k` modulo `m`, for coprime positive numbers.
fn inverse(k: i64, m: i64) -> Option<i64> {
    let (mut a, mut b) = (i128::from(k), i128::from(m));
    let (mut x, mut y) = (1i128, 0i128);
    while b != 0 {
        let q = a / b;
        (a, b) = (b, a - q * b);
        (x, y) = (y, x - q * y);
    }
    if a != 1 {
        return None;
    }
    i64::try_from(x.rem_euclid(i128::from(m))).ok()
}

/// The interval of all `x` for which `x / c` is in the interval.
fn dividend(interval: Interval, c: i64) -> Interval {
    let lower = interval.lower.saturating_mul(c);
    let upper = interval.upper.saturating_mul(c).saturating_add(c - 1);
    Interval::new(lower, upper)
}

/// Recognises a constraint that allows one value of `x mod c`: returns `x` and its residue.
fn remainder_constraint(constraint: &Constraint) -> Option<(Term, Residue)> {
    let Node::Mod(inner, c) = constraint.term.node() else {
        return None;
    };
    let c = c.as_constant().filter(|c| *c > 1)?;
    let remainder = constraint.interval.as_point()?;
    (0..c)
        .contains(&remainder)
        .then(|| (inner.clone(), Residue::new(c, remainder)))
}

/// One step towards the normal form of a constraint. In normal form, there is no constant, the
/// coefficients are coprime with the first one positive, the term is not a quotient by itself, and
/// there is no offset inside a remainder with only one allowed value.
fn normal_form(term: &Term, interval: Interval) -> Option<(Term, Interval)> {
    if let Node::FloorDiv(a, b) = term.node()
        && let Some(c) = b.as_constant().filter(|c| *c > 0)
    {
        return Some((a.clone(), dividend(interval, c)));
    }
    if let Some((inner, residue)) = remainder_constraint(&Constraint {
        term: term.clone(),
        interval,
    }) {
        return normal_remainder(&inner, residue);
    }
    let (terms, constant) = term.as_linear()?;
    let factor = common_factor(&terms)?;
    if terms.is_empty() || (constant == 0 && factor == 1) {
        return None;
    }
    // A bound at the limit of i64 stands for any value beyond it.
    let shifted = interval.add(&Interval::point(constant.checked_neg()?));
    let (lower, upper) = if factor > 0 {
        (shifted.lower, shifted.upper)
    } else {
        (
            shifted.upper.saturating_neg(),
            shifted.lower.saturating_neg(),
        )
    };
    let divisor = factor.abs();
    let interval = Interval::new(
        tegula_expr::ceil_div(lower, divisor)?,
        tegula_expr::floor_div(upper, divisor)?,
    );
    let sum = terms
        .iter()
        .map(|(atom, k)| atom.mul(&Term::constant(k / factor)))
        .reduce(|sum, term| sum.add(&term))?;
    Some((sum, interval))
}

/// Rewrites `(k * x + o) mod c = r` as `x mod (c / g) = s`, where `k` is the common factor of the
/// sum's coefficients. Without a common factor, only the offset is moved to the other side.
fn normal_remainder(inner: &Term, residue: Residue) -> Option<(Term, Interval)> {
    let (terms, constant) = inner.as_linear()?;
    let shifted = residue.add(&Residue::point(constant.checked_neg()?));
    let mut factor = common_factor(&terms)?;
    let mut own = shifted;
    match divide_residue(shifted, factor) {
        Ok(Some(divided)) if factor != 1 => own = divided,
        _ => factor = 1,
    }
    if terms.is_empty() || (constant == 0 && factor == 1) {
        return None;
    }
    let sum = terms
        .iter()
        .map(|(atom, k)| atom.mul(&Term::constant(k / factor)))
        .reduce(|sum, term| sum.add(&term))?;
    Some((
        sum.modulo(&own.modulus.into()),
        Interval::point(own.remainder),
    ))
}

/// The greatest common divisor of the coefficients, with the sign of the first.
fn common_factor(terms: &[(Term, i64)]) -> Option<i64> {
    let factor = terms
        .iter()
        .fold(0i64, |g, (_, k)| i64::try_from(gcd(g, *k)).unwrap_or(1));
    match terms.first() {
        Some((_, k)) if *k < 0 => factor.checked_neg(),
        _ => Some(factor),
    }
}
