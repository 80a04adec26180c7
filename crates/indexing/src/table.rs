//! Functions of one variable given by a table of values.
//!
//! A permutation of participants is such a function: `own == 0 ? 1 : own == 1 ? 2 : -1`. Composing
//! two of them by substitution would repeat the inner one at every mention of the variable, and a
//! chain of permutations would grow exponentially. Instead, the values of the inner table are
//! looked up in the outer one, so the composition is again a table, no longer than the inner one.

use tegula_expr::{Cmp, Node, Term, Var};

/// `values[i].1` where the variable is `values[i].0`, else `other`.
struct Table {
    var: Var,
    values: Vec<(i64, i64)>,
    other: i64,
}

impl Table {
    /// The table that a term represents; `None` if it is not a table.
    fn of(term: &Term) -> Option<Self> {
        let mut found: Option<Var> = None;
        let mut values: Vec<(i64, i64)> = Vec::new();
        let mut rest = term;
        while let Node::Select(condition, value, others) = rest.node() {
            let Node::Cmp(Cmp::Eq, own, at) = condition.node() else {
                return None;
            };
            let own = own.as_var()?;
            if *found.get_or_insert(own) != own {
                return None;
            }
            let at = at.as_constant()?;
            // The first condition that holds decides.
            if values.iter().all(|(known, _)| *known != at) {
                values.push((at, value.as_constant()?));
            }
            rest = others;
        }
        Some(Self {
            var: found?,
            values,
            other: rest.as_constant()?,
        })
    }

    fn at(&self, value: i64) -> i64 {
        let entry = self.values.iter().find(|(at, _)| *at == value);
        entry.map_or(self.other, |(_, value)| *value)
    }

    fn term(&self) -> Term {
        let own = Term::var(self.var);
        let other = Term::constant(self.other);
        self.values.iter().rev().fold(other, |rest, (at, value)| {
            let is_this = Term::cmp(Cmp::Eq, &own, &Term::constant(*at));
            Term::select(&is_this, &Term::constant(*value), &rest)
        })
    }
}

/// Substitutes `inner` for the variable `var` of `term`, if both are tables.
pub(crate) fn composed(term: &Term, var: Var, inner: &Term) -> Option<Term> {
    let outer = Table::of(term).filter(|outer| outer.var == var)?;
    let mut inner = Table::of(inner)?;
    for (_, value) in &mut inner.values {
        *value = outer.at(*value);
    }
    inner.other = outer.at(inner.other);
    Some(inner.term())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shift(by: i64) -> Term {
        let values = (0..4).map(|at| (at, (at + by) % 4)).collect();
        let var = Var(7);
        Table {
            var,
            values,
            other: -1,
        }
        .term()
    }

    #[test]
    fn permutations_stay_lists() {
        let mut all = shift(1);
        for _ in 0..100 {
            all = composed(&shift(1), Var(7), &all).unwrap();
        }
        assert_eq!(all, shift(101 % 4));
        assert_eq!(composed(&shift(1), Var(6), &all), None);
        assert_eq!(composed(&Term::var(Var(7)), Var(7), &all), None);
    }
}
