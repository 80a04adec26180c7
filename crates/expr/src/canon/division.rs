//! Quotients by positive constants: the division rules of the canonical form.
//!
//! Every rule is an identity of integers under its side condition:
//!
//! | rule | identity | condition |
//! |---|---|---|
//! | div-pull | `(c*a + b) / c = a + b / c` | |
//! | div-range | `b / c = t` | `t*c <= b < (t+1)*c` |
//! | div-near-const | `(b + c*a) / c - a` with a constant quotient | as above |
//! | div-drop-small | `(g*a + b) / c = (a + t) / (c/g)` | `g` divides `c`, `t*g <= b < (t+1)*g` |
//! | div-lift | `(x/b + y) / c = (x + b*y) / (b*c)` | |
//! | div-lift-negative | `(y - x/b) / c = (b*y + b-1 - x) / (b*c)` | |

use smallvec::SmallVec;

use super::linear::{Linear, as_quotient, as_remainder};
use super::{Canonicalizer, Facts};
use crate::number::{gcd, wide_floor};
use crate::term::{Node, Term};

/// The most rounds of rules on one quotient. Each round removes or shrinks something, so this is
/// only a safeguard.
const MAX_ROUNDS: usize = 24;
/// The deepest nesting of quotients of quotients during computation.
const MAX_NESTED: u32 = 24;
/// The largest divisor that lifting may create.
const MAX_DIVISOR: i64 = 1 << 48;
/// The most units for which div-near-const tries every choice.
const MAX_CHOICES: usize = 3;
/// The most divisors of coefficients that are combined in pairs.
const MAX_PAIRED: usize = 24;
/// The most candidate divisors tried by div-drop-small.
const MAX_CANDIDATES: usize = 12;

/// A quotient under construction: `floor(rest / divisor) + pulled`.
struct Quotient {
    pulled: Linear,
    rest: Linear,
    divisor: i64,
}

impl Quotient {
    fn to_term(&self) -> Term {
        let quotient = self.rest.to_term().floor_div(&Term::constant(self.divisor));
        self.pulled.to_term().add(&quotient)
    }
}

impl Canonicalizer<'_> {
    /// `floor(linear / divisor)` for a positive divisor; `None` if a number or the new dividend
    /// might not fit in `i64`.
    pub(super) fn quotient(&mut self, linear: &Linear, divisor: i64) -> Option<Linear> {
        if divisor == 1 {
            return Some(linear.clone());
        }
        let known = self.memory.quotients.get(linear);
        if let Some((_, known)) = known.and_then(|known| known.iter().find(|q| q.0 == divisor)) {
            return known.clone();
        }
        if self.nested >= MAX_NESTED {
            return None;
        }
        self.nested += 1;
        let result = self.reduce_quotient(linear, divisor);
        self.nested -= 1;
        // A result found while steps are muted is not cached, because its steps must be recorded
        // when it is used.
        if !self.is_tracing() || self.muted == 0 {
            let known = self.memory.quotients.entry(linear.clone()).or_default();
            known.push((divisor, result.clone()));
        }
        result
    }

    fn reduce_quotient(&mut self, linear: &Linear, divisor: i64) -> Option<Linear> {
        let mut q = Quotient {
            pulled: Linear::constant(0),
            rest: linear.clone(),
            divisor,
        };
        for _ in 0..MAX_ROUNDS {
            let before = self.is_tracing().then(|| q.to_term());
            let Some((rule, facts)) = self.step(&mut q)? else {
                break;
            };
            if let Some(before) = before {
                self.note(rule, facts, before, q.to_term());
            }
            if q.divisor == 1 || q.rest.as_constant().is_some() {
                break;
            }
        }
        let rest = match q.rest.as_constant() {
            Some(value) => Linear::constant(value.div_euclid(q.divisor)),
            None if q.divisor == 1 => q.rest,
            None => {
                if !self.bounds(&q.rest).fits() {
                    return None;
                }
                let (dividend, divisor) = (self.dividend(&q.rest), Term::constant(q.divisor));
                self.atom(Term::raw(Node::FloorDiv(dividend, divisor)))
            }
        };
        q.pulled.plus(&rest, 1)
    }

    /// The combination as a term; all its quotients share this term.
    pub(super) fn dividend(&mut self, linear: &Linear) -> Term {
        if let Some(known) = self.memory.dividends.get(linear) {
            return known.clone();
        }
        let term = linear.to_term();
        self.memory.dividends.insert(linear.clone(), term.clone());
        term
    }

    /// Applies the first applicable rule. The outer `None` means overflow.
    fn step(&mut self, q: &mut Quotient) -> Option<Option<(&'static str, Facts)>> {
        if self.pull_exact(q)? {
            return Some(Some(("div-pull", Facts::new())));
        }
        if let Some((value, facts)) = self.constant_quotient(&q.rest, q.divisor) {
            q.pulled = q.pulled.plus_constant(value)?;
            q.rest = Linear::constant(0);
            return Some(Some(("div-range", facts)));
        }
        let units = self.recover(&q.rest);
        if self.pull_units(q, &units)? {
            return Some(Some(("div-pull", Facts::new())));
        }
        if let Some(facts) = self.drop_small(q, &units)? {
            return Some(Some(("div-drop-small", facts)));
        }
        if let Some(facts) = self.near_constant(q, &units)? {
            return Some(Some(("div-near-const", facts)));
        }
        Some(self.lift(q).map(|rule| (rule, Facts::new())))
    }

    /// Pulls out the terms whose coefficients are multiples of the divisor.
    fn pull_exact(&mut self, q: &mut Quotient) -> Option<bool> {
        let (multiples, mut rest) = q.rest.partition(|_, c| c % q.divisor == 0);
        let constant = rest.constant.div_euclid(q.divisor);
        if multiples.terms.is_empty() && constant == 0 {
            return Some(false);
        }
        rest.constant = rest.constant.rem_euclid(q.divisor);
        let out = multiples
            .divide_exactly(q.divisor)
            .plus_constant(constant)?;
        q.pulled = q.pulled.plus(&out, 1)?;
        q.rest = rest;
        Some(true)
    }

    /// Pulls out whole multiples of the divisor from other coefficients. A remainder counts as one
    /// unit, because splitting it would lose its bounds.
    fn pull_units(&mut self, q: &mut Quotient, units: &Linear) -> Option<bool> {
        let mut out = Linear::constant(0);
        for (unit, coefficient) in &units.terms {
            let whole = coefficient / q.divisor;
            if whole != 0 && as_quotient(unit).is_none() {
                out = out.plus(&self.expand(unit), whole)?;
            }
        }
        if out.terms.is_empty() && out.constant == 0 {
            return Some(false);
        }
        q.rest = q.rest.plus(&out, q.divisor.checked_neg()?)?;
        q.pulled = q.pulled.plus(&out, 1)?;
        Some(true)
    }

    /// The value of the quotient, if the bounds leave only one.
    fn constant_quotient(&mut self, rest: &Linear, divisor: i64) -> Option<(i64, Facts)> {
        let range = self.bounds(rest);
        let c = i128::from(divisor);
        let low = wide_floor(range.lower, c);
        if range.lower > range.upper || low != wide_floor(range.upper, c) {
            return None;
        }
        let mut facts = Facts::new();
        if self.is_tracing() {
            facts.push((rest.to_term(), range.narrow()));
        }
        Some((i64::try_from(low).ok()?, facts))
    }

    /// Drops terms that cannot carry into the multiples of a common divisor `g`.
    fn drop_small(&mut self, q: &mut Quotient, units: &Linear) -> Option<Option<Facts>> {
        for candidate in candidates(units, q.divisor) {
            if self.is_wide(units, candidate) {
                continue;
            }
            let (big, small) = units.partition(|_, c| c % candidate == 0);
            if big.terms.is_empty() && small.terms.is_empty() {
                continue;
            }
            // The constant's multiples of g stay with the big part.
            let constant = small.constant.div_euclid(candidate);
            let mut small = self.expand_all(&small)?;
            small.constant -= constant.checked_mul(candidate)?;
            let Some((t, facts)) = self.constant_quotient(&small, candidate) else {
                continue;
            };
            let big = self.expand_all(&big)?.divide_exactly(candidate);
            q.rest = big.plus_constant(constant)?.plus_constant(t)?;
            q.divisor /= candidate;
            return Some(Some(facts));
        }
        Some(None)
    }

    /// Whether the terms that `candidate` does not divide certainly span several of its multiples,
    /// which is true for independent terms with a large enough span. This rejects most candidates
    /// before anything is built for them.
    fn is_wide(&mut self, units: &Linear, candidate: i64) -> bool {
        if !self.memory.assumed.is_empty() {
            return false;
        }
        let mut span = 0u128;
        for (unit, coefficient) in &units.terms {
            if coefficient % candidate == 0 {
                continue;
            }
            if as_quotient(unit).is_some() || as_remainder(unit).is_some() {
                return false;
            }
            let values = self.facts(unit).0.count().saturating_sub(1);
            span = span.saturating_add(values.saturating_mul(coefficient.unsigned_abs().into()));
        }
        span >= u128::from(candidate.unsigned_abs())
    }

    /// Rounds some coefficients to a different multiple of the divisor if that makes the quotient
    /// constant: each to the nearest multiple, or in every combination if there are few.
    fn near_constant(&mut self, q: &mut Quotient, units: &Linear) -> Option<Option<Facts>> {
        let count = units.terms.len();
        let nearer = units
            .terms
            .iter()
            .enumerate()
            .fold(0u32, |set, (position, (_, k))| {
                set | (u32::from(k.unsigned_abs() > q.divisor.unsigned_abs() / 2)
                    << position.min(31))
            });
        let choices = if count <= MAX_CHOICES {
            1..1u32 << count
        } else {
            nearer..nearer + 1
        };
        for choice in choices {
            let mut chosen = Linear::constant(0);
            for (position, (unit, coefficient)) in units.terms.iter().enumerate() {
                if choice >> position.min(31) & 1 == 1 {
                    chosen.terms.push((unit.clone(), coefficient.signum()));
                }
            }
            let out = self.expand_all(&chosen)?;
            if out.terms.is_empty() {
                continue;
            }
            let rest = q.rest.plus(&out, q.divisor.checked_neg()?)?;
            if let Some((value, facts)) = self.constant_quotient(&rest, q.divisor) {
                q.pulled = q.pulled.plus(&out, 1)?.plus_constant(value)?;
                q.rest = Linear::constant(0);
                return Some(Some(facts));
            }
        }
        Some(None)
    }

    /// Merges the outer quotient with an inner one whose coefficient is 1 or -1.
    fn lift(&mut self, q: &mut Quotient) -> Option<&'static str> {
        let (atom, sign) = q
            .rest
            .terms
            .iter()
            .find(|(atom, c)| c.abs() == 1 && as_quotient(atom).is_some())?;
        let (inner, b) = as_quotient(atom)?;
        let divisor = b
            .checked_mul(q.divisor)
            .filter(|product| *product <= MAX_DIVISOR)?;
        let sign = *sign;
        let rest = q.rest.without(atom);
        let mut lifted = rest.scale(b)?.plus(&Linear::from_term(inner), sign)?;
        if sign < 0 {
            lifted = lifted.plus_constant(b - 1)?;
        }
        if !self.bounds(&lifted).fits() {
            return None;
        }
        q.rest = lifted;
        q.divisor = divisor;
        Some(if sign > 0 {
            "div-lift"
        } else {
            "div-lift-negative"
        })
    }

    /// `linear - divisor * floor(linear / divisor)`.
    pub(super) fn remainder(&mut self, linear: &Linear, divisor: i64) -> Option<Linear> {
        let quotient = self.quotient(linear, divisor)?;
        linear.plus(&quotient, divisor.checked_neg()?)
    }

    /// Replaces a remainder that [`Canonicalizer::recover`] introduced by its expansion.
    pub(super) fn expand(&mut self, unit: &Term) -> Linear {
        as_remainder(unit)
            .and_then(|(inner, divisor)| self.remainder(&Linear::from_term(inner), divisor))
            .unwrap_or_else(|| Linear::atom(unit.clone()))
    }

    fn expand_all(&mut self, units: &Linear) -> Option<Linear> {
        if units
            .terms
            .iter()
            .all(|(unit, _)| as_remainder(unit).is_none())
        {
            return Some(units.clone());
        }
        let mut sum = Linear::constant(units.constant);
        for (unit, coefficient) in &units.terms {
            sum = sum.plus(&self.expand(unit), *coefficient)?;
        }
        Some(sum)
    }
}

/// The common divisors of coefficients and the divisor, largest first: for each coefficient, for
/// pairs, and for all together.
fn candidates(units: &Linear, divisor: i64) -> Vec<i64> {
    // gcd(a, b, c) = gcd(gcd(a, c), gcd(b, c)), and there are few different values.
    let mut own: SmallVec<[i64; 8]> = SmallVec::new();
    let mut all = divisor;
    for (_, coefficient) in &units.terms {
        let common = common_divisor(*coefficient, divisor);
        all = common_divisor(all, common);
        if !own.contains(&common) && own.len() < MAX_PAIRED {
            own.push(common);
        }
    }
    let mut found: Vec<i64> = Vec::new();
    let mut consider = |value: i64| {
        if value > 1 && !found.contains(&value) && found.len() < MAX_CANDIDATES {
            found.push(value);
        }
    };
    own.iter().for_each(|value| consider(*value));
    consider(all);
    for (position, a) in own.iter().enumerate() {
        for b in own.iter().skip(position + 1) {
            consider(common_divisor(*a, *b));
        }
    }
    found.sort_unstable_by_key(|value| std::cmp::Reverse(*value));
    found
}

/// The greatest common divisor of a number and a positive number.
fn common_divisor(a: i64, b: i64) -> i64 {
    i64::try_from(gcd(a, b)).unwrap_or(1)
}
