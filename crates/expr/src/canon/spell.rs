//! Converts canonical forms back to terms, and reintroduces remainders.
//!
//! Internally, `x mod c` is `x - c * floor(x / c)`, so that remainders and quotients cancel by
//! linear addition. In the conversion, a quotient `floor(y / c)` with coefficient `-k * m`, where
//! `m` divides `c`, can become part of `k * (x mod m) + the rest` with `x = floor(y / (c/m))`. This
//! is done where it is cheaper.

use super::Canonicalizer;
use super::linear::{Linear, as_quotient, as_remainder};
use crate::interval::Wide;
use crate::term::{Node, Term};

/// The cost of a division or remainder, relative to an addition.
const DIVISION: u32 = 4;
/// The most quotients of a sum in which remainders are looked for.
const MAX_QUOTIENTS: usize = 32;
/// The deepest nesting of atoms that are converted; deeper ones stay as they are.
const MAX_NESTED: u32 = 64;

/// The number of operations, the number of terms, and the sum of the magnitudes of coefficients.
type Weight = (u32, usize, u64);

impl Canonicalizer<'_> {
    /// Rewrites the combination over variables, quotients and remainders, with the fewest
    /// operations that greedy grouping finds.
    pub(super) fn recover(&mut self, linear: &Linear) -> Linear {
        let mut current = linear.clone();
        let quotients = current
            .terms
            .iter()
            .filter(|(atom, _)| as_quotient(atom).is_some())
            .count();
        if quotients == 0 || quotients > MAX_QUOTIENTS {
            return current;
        }
        if let Some(known) = self.memory.recovered.get(linear) {
            return known.clone();
        }
        self.muted += 1;
        // Each round turns one quotient into a remainder.
        for _ in 0..linear.terms.len() {
            let cost = self.weight(&current);
            let mut best: Option<(Weight, Linear)> = None;
            for position in 0..current.terms.len() {
                for candidate in self.remainders(&current, position) {
                    let gained = self.weight(&candidate);
                    if gained < best.as_ref().map_or(cost, |(cost, _)| *cost) {
                        best = Some((gained, candidate));
                    }
                }
            }
            match best {
                Some((_, better)) => current = better,
                None => break,
            }
        }
        self.muted -= 1;
        self.memory
            .recovered
            .insert(linear.clone(), current.clone());
        current
    }

    /// The combinations in which the quotient at `position` is absorbed into a remainder, one for
    /// each modulus that may pay.
    fn remainders(&mut self, linear: &Linear, position: usize) -> Vec<Linear> {
        let Some((atom, coefficient)) = linear.terms.get(position).cloned() else {
            return Vec::new();
        };
        let Some((inner, divisor)) = as_quotient(&atom) else {
            return Vec::new();
        };
        let inner = self.operand(inner);
        let mut moduli: Vec<i64> = vec![divisor];
        for (_, other) in &linear.terms {
            let m = coefficient
                .checked_div(*other)
                .map_or(0, i64::saturating_abs);
            if m > 1 && coefficient % other == 0 && divisor % m == 0 && !moduli.contains(&m) {
                moduli.push(m);
            }
        }
        moduli
            .into_iter()
            .filter_map(|m| self.with_remainder(linear, &atom, coefficient, &inner, divisor, m))
            .collect()
    }

    fn with_remainder(
        &mut self,
        linear: &Linear,
        atom: &Term,
        coefficient: i64,
        inner: &Linear,
        divisor: i64,
        modulus: i64,
    ) -> Option<Linear> {
        if coefficient % modulus != 0 {
            return None;
        }
        let factor = -(coefficient / modulus);
        let dividend = self.quotient(inner, divisor / modulus)?;
        // x mod m = x - m * floor(x / m), and floor(x / m) is the atom.
        if modulus != divisor
            && self
                .quotient(&dividend, modulus)
                .is_none_or(|q| q.as_multiple() != Some((atom, 1)))
        {
            return None;
        }
        let remainder = self.dividend(&dividend).modulo(&Term::constant(modulus));
        if remainder.as_constant().is_some() {
            return None;
        }
        linear
            .without(atom)
            .plus(&dividend, factor.checked_neg()?)?
            .plus(&Linear::atom(remainder), factor)
    }

    /// The cost: first the operations, then the number of terms, then the magnitudes of numbers.
    /// `(x mod 3) * 4 + x * 3` and `(x / 3) * -12 + x * 7` have equally many operations. The first
    /// is better: it subtracts nothing, so no term exceeds the sum, and the sum of the terms'
    /// bounds is a tight bound.
    fn weight(&mut self, linear: &Linear) -> Weight {
        let numbers = linear.terms.iter().map(|(_, k)| k.unsigned_abs());
        let numbers = numbers.fold(0, u64::saturating_add);
        (self.cost(linear), linear.terms.len(), numbers)
    }

    fn cost(&mut self, linear: &Linear) -> u32 {
        let mut sum = u32::from(linear.constant != 0);
        for (atom, coefficient) in &linear.terms {
            sum = sum
                .saturating_add(1 + u32::from(coefficient.abs() != 1))
                .saturating_add(self.atom_cost(atom));
        }
        sum
    }

    fn atom_cost(&mut self, atom: &Term) -> u32 {
        match as_quotient(atom).or_else(|| as_remainder(atom)) {
            Some((inner, _)) => {
                if let Some(cost) = self.memory.costs.get(atom) {
                    return *cost;
                }
                let inner = self.operand(inner);
                let cost = self.cost(&inner).saturating_add(DIVISION);
                self.memory.costs.insert(atom.clone(), cost);
                cost
            }
            None => 0,
        }
    }

    /// The combination as a term, as readers and backends see it.
    pub(super) fn spell(&mut self, linear: &Linear) -> Term {
        if let Some(known) = self.memory.sums.get(linear) {
            return known.clone();
        }
        let term = self.spell_sum(linear);
        if linear.terms.len() > 1 && self.spelling < MAX_NESTED {
            self.memory.sums.insert(linear.clone(), term.clone());
        }
        term
    }

    fn spell_sum(&mut self, linear: &Linear) -> Term {
        let mut units = self.recover(linear);
        self.absorb_constant(&mut units);
        let mut terms: Vec<Term> = units
            .terms
            .iter()
            .map(|(unit, coefficient)| self.spell_atom(unit).mul(&Term::constant(*coefficient)))
            .collect();
        terms.sort_unstable();
        match terms.into_iter().reduce(|sum, term| sum.add(&term)) {
            Some(sum) => sum.add(&Term::constant(units.constant)),
            None => Term::constant(units.constant),
        }
    }

    /// Moves the constant into a quotient whose dividend has a constant: `(x + 1) / 4 + 2` becomes
    /// `(x + 9) / 4`, which saves an addition.
    fn absorb_constant(&mut self, units: &mut Linear) {
        if units.constant == 0 {
            return;
        }
        for position in 0..units.terms.len() {
            let Some((unit, coefficient)) = units.terms.get(position) else {
                return;
            };
            let Some((inner, divisor)) = as_quotient(unit) else {
                continue;
            };
            let inner = Linear::from_term(inner);
            if inner.constant == 0 || units.constant % coefficient != 0 {
                continue;
            }
            let moved = (units.constant / coefficient).checked_mul(divisor);
            let Some(inner) = moved.and_then(|moved| inner.plus_constant(moved)) else {
                continue;
            };
            if !self.bounds(&inner).fits() {
                continue;
            }
            let quotient = inner.to_term().floor_div(&Term::constant(divisor));
            if let Some(slot) = units.terms.get_mut(position) {
                slot.0 = quotient;
                units.constant = 0;
            }
            return;
        }
    }

    fn spell_atom(&mut self, atom: &Term) -> Term {
        if atom.as_var().is_some() {
            return atom.clone();
        }
        if let Some(known) = self.memory.spelled.get(atom) {
            return known.clone();
        }
        if self.spelling >= MAX_NESTED {
            return atom.clone();
        }
        self.spelling += 1;
        let term = if let Some((inner, divisor)) = as_remainder(atom) {
            let inner = self.nearest_to_zero(Linear::from_term(inner), divisor);
            self.spell(&inner).modulo(&Term::constant(divisor))
        } else {
            let children: Vec<Term> = atom
                .node()
                .children()
                .into_iter()
                .map(|child| match Linear::from_term(child) {
                    inner if inner.as_multiple() == Some((atom, 1)) => child.clone(),
                    inner => self.spell(&inner),
                })
                .collect();
            spelled_node(atom, &children)
        };
        self.spelling -= 1;
        self.memory.spelled.insert(atom.clone(), term.clone());
        term
    }

    /// Changes the constant of a dividend of a remainder to the one nearest to zero: `x + 6`
    /// becomes `x - 1` under `mod 7`.
    fn nearest_to_zero(&mut self, linear: Linear, divisor: i64) -> Linear {
        let shifted = linear.plus_constant(-divisor);
        match shifted {
            Some(shifted)
                if shifted.constant.abs() < linear.constant && {
                    let range: Wide = self.bounds(&shifted);
                    range.fits()
                } =>
            {
                shifted
            }
            _ => linear,
        }
    }
}

/// Rebuilds a node. Sums that are atoms keep their node, other nodes are built by the smart
/// constructors.
fn spelled_node(atom: &Term, children: &[Term]) -> Term {
    match (atom.node(), children) {
        (Node::Add(..), [a, b]) => Term::raw(Node::Add(a.clone(), b.clone())),
        _ => atom.rebuild(children),
    }
}
