//! Transformations of maps: the inverse, turning ranges into dimensions, and rescaling ranges with
//! a fixed remainder.

use rustc_hash::FxHashMap;
use tegula_expr::{Canonicalizer, Interval, Node, Term, Var, range_of};

use crate::map::{Constraint, IndexingMap, Status, Variable, renumber, variable};

/// The most rounds of joining quotients with remainders and of splitting sums.
const MAX_ROUNDS: usize = 64;
/// The most terms of a sum that is split.
const MAX_TERMS: usize = 16;

impl IndexingMap {
    /// The inverse relation: from indices that the map leads to, to the indices that it starts
    /// from. The new dimensions are the results, in their order and with their bounds.
    ///
    /// A dimension that the results determine becomes a term over them: mixed-radix sums are split,
    /// and quotients are joined with remainders. A dimension that they do not determine becomes a
    /// range variable with constraints. The inverse is exact for every map, undefined for an
    /// undefined one, and not simplified.
    ///
    /// ```
    /// use tegula_indexing::{IndexingMap, Simplifier};
    ///
    /// let collapse: IndexingMap =
    ///     "(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]".parse()?;
    /// let expand = Simplifier::new().simplify_map(&collapse.inverse());
    /// assert_eq!(
    ///     expand.to_string(),
    ///     "(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]"
    /// );
    /// # Ok::<(), tegula_expr::ParseError>(())
    /// ```
    #[must_use]
    pub fn inverse(&self) -> Self {
        if self.status != Status::Ok || self.participant.is_some() {
            return match self.status {
                Status::Empty => Self::empty(),
                _ => Self::undefined(),
            };
        }
        Inversion::new(self).finish()
    }

    /// Rescales range variables with a fixed remainder: for a constraint `s mod 4 in [1, 1]`, the
    /// range variable is replaced by `4 * s + 1`, and the constraint is removed.
    ///
    /// ```
    /// use tegula_indexing::IndexingMap;
    ///
    /// let mut map: IndexingMap =
    ///     "()[s0] -> (s0), domain: s0 in [0, 9], s0 mod 4 in [1, 1]".parse()?;
    /// map.rescale_ranges();
    /// assert_eq!(map.to_string(), "()[s0] -> (s0 * 4 + 1), domain: s0 in [0, 2]");
    /// # Ok::<(), tegula_expr::ParseError>(())
    /// ```
    pub fn rescale_ranges(&mut self) {
        let (first, last) = (self.dims.len(), self.dims.len() + self.ranges.len());
        let mut position = 0;
        while let Some(constraint) = self.constraints.get(position) {
            position += 1;
            let Some((var, modulus, remainder)) = one_remainder(constraint) else {
                continue;
            };
            let var = var.0 as usize;
            if !(first..last).contains(&var) {
                continue;
            }
            let Some(slot) = self.ranges.get_mut(var - first) else {
                continue;
            };
            // lower <= m * s + r <= upper
            let shifted = slot.bounds.add(&Interval::point(-remainder));
            let (Some(lower), Some(upper)) = (
                tegula_expr::ceil_div(shifted.lower, modulus),
                tegula_expr::floor_div(shifted.upper, modulus),
            ) else {
                continue;
            };
            slot.bounds = Interval::new(lower, upper);
            self.constraints.remove(position - 1);
            position = 0;
            let value = variable(var).mul(&modulus.into()).add(&remainder.into());
            self.for_each_term(&mut |term| {
                *term = term.substitute(&mut |own| (own.0 as usize == var).then(|| value.clone()));
            });
        }
        if self.ranges.iter().any(|range| range.bounds.is_empty()) {
            *self = Self::empty();
        }
    }
}

/// Recognises a constraint `v mod m in [r, r]` with `0 <= r < m`.
fn one_remainder(constraint: &Constraint) -> Option<(Var, i64, i64)> {
    let Node::Mod(inner, modulus) = constraint.term.node() else {
        return None;
    };
    let modulus = modulus.as_constant().filter(|m| *m > 1)?;
    let remainder = constraint.interval.as_point()?;
    let is_remainder = (0..modulus).contains(&remainder);
    is_remainder
        .then(|| inner.as_var())
        .flatten()
        .map(|var| (var, modulus, remainder))
}

/// An equation `left = right`; `left` is over the old variables, `right` over the new dimensions.
struct Equation {
    left: Term,
    right: Term,
}

/// New dimensions are numbered from here on as long as old variables keep their numbers.
const NEW: usize = 1 << 24;

struct Inversion<'a> {
    map: &'a IndexingMap,
    equations: Vec<Equation>,
    /// Old variables as terms over the new dimensions.
    solved: FxHashMap<Var, Term>,
    constraints: Vec<Constraint>,
}

impl<'a> Inversion<'a> {
    fn new(map: &'a IndexingMap) -> Self {
        let bounds = map.bounds();
        let mut canonicalizer = Canonicalizer::new(bounds.as_slice());
        let equations = map
            .results
            .iter()
            .enumerate()
            .map(|(position, result)| Equation {
                left: canonicalizer.canonicalize(result),
                right: variable(NEW + position),
            });
        Self {
            map,
            equations: equations.collect(),
            solved: FxHashMap::default(),
            constraints: Vec::new(),
        }
    }

    fn finish(mut self) -> IndexingMap {
        for _ in 0..MAX_ROUNDS {
            if !self.join() && !self.split() {
                break;
            }
        }
        for equation in std::mem::take(&mut self.equations) {
            match equation.left.as_var().filter(|var| self.is_unsolved(*var)) {
                Some(var) => {
                    self.solved.insert(var, equation.right);
                }
                None => self.constraints.push(Constraint {
                    term: equation.left.sub(&equation.right),
                    interval: Interval::point(0),
                }),
            }
        }
        self.build()
    }

    fn is_unsolved(&self, var: Var) -> bool {
        (var.0 as usize) < self.known() && !self.solved.contains_key(&var)
    }

    /// Joins `x / c = q` and `x mod c = r` into `x = c * q + r`.
    fn join(&mut self) -> bool {
        let found = self
            .equations
            .iter()
            .enumerate()
            .find_map(|(at, equation)| {
                let Node::Mod(inner, c) = equation.left.node() else {
                    return None;
                };
                let c = c.as_constant().filter(|c| *c > 1)?;
                // `(y / b) mod c` is joined with `y / (b * c)`.
                let (base, divisor) = match inner.node() {
                    Node::FloorDiv(y, b) => (y, b.as_constant()?.checked_mul(c)?),
                    _ => (inner, c),
                };
                let is_quotient = |other: &Equation| {
                    matches!(other.left.node(), Node::FloorDiv(x, d)
                    if x == base && d.as_constant() == Some(divisor))
                };
                let other = self.equations.iter().position(is_quotient);
                match other {
                    Some(other) => Some((at, Some(other), inner.clone(), c)),
                    // Alternatively, the operand may be within one period.
                    None => {
                        let bounds = self.map.bounds();
                        let range = range_of(inner, bounds.as_slice());
                        (range.lower >= 0 && range.upper < c).then(|| (at, None, inner.clone(), c))
                    }
                }
            });
        let Some((at, other, inner, c)) = found else {
            return false;
        };
        let remainder = self.equations.get(at).map(|e| e.right.clone());
        let quotient = match other {
            Some(other) => self.equations.get(other).map(|e| e.right.clone()),
            None => Some(Term::constant(0)),
        };
        let (Some(remainder), Some(quotient)) = (remainder, quotient) else {
            return false;
        };
        self.constraints.push(Constraint {
            term: remainder.clone(),
            interval: Interval::of_size(c),
        });
        let mut position = 0;
        self.equations.retain(|_| {
            position += 1;
            position - 1 != at && Some(position - 1) != other
        });
        self.equations.push(Equation {
            left: inner,
            right: quotient.mul(&c.into()).add(&remainder),
        });
        true
    }

    /// Splits an equation `c + sum of k * t = r` into equations for its terms.
    fn split(&mut self) -> bool {
        let found = self.equations.iter().position(|equation| {
            !matches!(
                equation.left.node(),
                Node::Var(_) | Node::FloorDiv(..) | Node::Mod(..)
            ) && self.parts(equation).is_some()
        });
        let Some(position) = found else {
            return false;
        };
        let equation = self.equations.remove(position);
        if let Some((parts, rest)) = self.parts(&equation) {
            self.equations.extend(parts);
            // The remainder must be zero.
            if rest.as_constant() != Some(0) {
                self.constraints.push(Constraint {
                    term: rest,
                    interval: Interval::point(0),
                });
            }
        }
        true
    }

    /// The equations for the terms of a mixed-radix sum, largest coefficient first, as long as the
    /// smaller terms stay below each coefficient; and a term that must be 0.
    fn parts(&self, equation: &Equation) -> Option<(Vec<Equation>, Term)> {
        let (terms, constant) = equation.left.as_linear()?;
        if terms.is_empty() || terms.len() > MAX_TERMS {
            return None;
        }
        let mut parts: Vec<(Term, i64, Interval)> = Vec::new();
        for (atom, k) in &terms {
            let mut is_unknown = true;
            atom.for_each_var(&mut |var| is_unknown &= (var.0 as usize) < self.known());
            if !is_unknown || *atom == equation.left {
                return None;
            }
            parts.push((atom.clone(), *k, range_of(atom, self.map)));
        }
        parts.sort_by_key(|(_, k, _)| std::cmp::Reverse(k.unsigned_abs()));
        // Terms with a negative coefficient are counted from their upper end, so that all
        // coefficients are positive.
        let mut low = i128::from(constant);
        for (_, k, range) in &parts {
            let end = if *k > 0 { range.lower } else { range.upper };
            low += i128::from(*k) * i128::from(end);
        }
        let mut rest = equation.right.sub(&i64::try_from(low).ok()?.into());
        let mut found = Vec::new();
        for (position, (atom, k, range)) in parts.iter().enumerate() {
            let spans = parts.iter().skip(position + 1).map(|(_, k, range)| {
                let span = (i128::from(range.upper) - i128::from(range.lower)).max(0);
                i128::from(k.unsigned_abs()).saturating_mul(span)
            });
            let reach = spans.fold(0i128, i128::saturating_add);
            let size = i64::try_from(k.unsigned_abs()).ok()?;
            if reach >= i128::from(size) {
                return None;
            }
            // The distance of the term from its lower bound if the coefficient is positive, else
            // from its upper bound.
            let distance = rest.floor_div(&size.into());
            rest = rest.modulo(&size.into());
            let right = if *k > 0 {
                distance.add(&range.lower.into())
            } else {
                distance.neg().add(&range.upper.into())
            };
            found.push(Equation {
                left: atom.clone(),
                right,
            });
        }
        Some((found, rest))
    }

    /// The number of dimensions and ranges; run-time variables are not solved for.
    fn known(&self) -> usize {
        self.map.dims.len() + self.map.ranges.len()
    }

    fn build(self) -> IndexingMap {
        let map = self.map;
        let known = self.known();
        let free: Vec<usize> = (0..known)
            .filter(|var| !self.solved.contains_key(&number(*var)))
            .collect();
        let mut inverse = IndexingMap {
            exactness: map.exactness,
            ..IndexingMap::default()
        };
        let bounds = map.bounds();
        for result in &map.results {
            inverse
                .dims
                .push(Variable::new(range_of(result, bounds.as_slice())));
        }
        for var in &free {
            inverse.ranges.extend(map.variables().nth(*var).cloned());
        }
        inverse.runtime.clone_from(&map.runtime);
        let (dims, ranges) = (inverse.dims.len(), inverse.ranges.len());
        let place = |var: usize| {
            if var >= NEW {
                return var - NEW;
            }
            match free.iter().position(|own| *own == var) {
                Some(position) => dims + position,
                None => dims + ranges + var.saturating_sub(known),
            }
        };
        let moved = |term: &Term| {
            let term = term.substitute(&mut |var| self.solved.get(&var).cloned());
            renumber(&term, &place)
        };
        inverse.results = (0..map.dims.len())
            .map(|dim| moved(&variable(dim)))
            .collect();
        for runtime in &mut inverse.runtime {
            if let Some(crate::map::RuntimeSource::Element { index, .. }) = &mut runtime.source {
                index.iter_mut().for_each(|term| *term = moved(term));
            }
            runtime.upper_bound = runtime.upper_bound.as_ref().map(&moved);
        }
        for constraint in self.constraints.iter().chain(&map.constraints) {
            inverse.constrain(moved(&constraint.term), constraint.interval);
        }
        for (var, bounds) in bounds.iter().enumerate().take(known) {
            if self.solved.contains_key(&number(var)) {
                inverse.constrain(moved(&variable(var)), *bounds);
            }
        }
        inverse
    }
}

fn number(position: usize) -> Var {
    Var(u32::try_from(position).unwrap_or(u32::MAX))
}
