//! How close together the elements are that lanes gather: the same for all lanes, neighbours, or
//! elements of a narrow window, although the index is not linear in the lane.
//!
//! A repeated array is read at the index `i mod n`, an array of repeated elements at `i floordiv n`, and
//! an array that was flattened and cut into rows of another length at a sum of both. Between two
//! multiples of `n`, `i mod n` increases by one from lane to lane, and `i floordiv n` is constant. The
//! generated code tests for each vector whether it contains a multiple of `n`, so this analysis need not
//! know at which `i` vectors begin; it says for which accesses the test pays. A window is not tested, so
//! for windows the analysis must be exact.

use crate::simd::ir::Span;
use smallvec::SmallVec;
use tegula_expr::{Node, Term, Var};

/// The least `n` for which few vectors contain one of its multiples: two vectors of 16 lanes.
const MIN_PERIOD: i64 = 32;
/// The least such power of two: vectors usually begin at its multiples.
const MIN_ALIGNED: i64 = 16;
/// The least number of neighbouring lanes with the same element for which a test is faster than a
/// window.
const MIN_SAME: i64 = 64;

/// The variables of an index that differ between lanes.
#[derive(Clone, Copy)]
pub(super) struct Varying<'a> {
    /// The variable that is the lane's number plus a uniform value.
    pub lane: Var,
    /// Whether another variable differs between lanes, in an unknown way.
    pub differs: &'a dyn Fn(Var) -> bool,
}

impl Varying<'_> {
    /// Whether a term is the same for all lanes.
    fn is_same(self, term: &Term) -> bool {
        let mut same = true;
        term.for_each_var(&mut |var| same &= var != self.lane && !(self.differs)(var));
        same
    }
}

/// The span of elements at an index.
pub(super) fn span(index: &Term, lane: Varying<'_>) -> Option<Span> {
    if Steps::of(index, lane).is_some_and(|steps| 0 <= steps.least && steps.most <= 1) {
        let mut breaks = Breaks::new(lane);
        let same = breaks.step(index) == Some(0) && breaks.is_seldom(MIN_SAME, MIN_SAME);
        return Some(if same { Span::Same } else { Span::Window });
    }
    let mut breaks = Breaks::new(lane);
    let step = breaks.step(index)?;
    let is_seldom = breaks.is_seldom(MIN_PERIOD, MIN_ALIGNED);
    match step {
        0 if is_seldom => Some(Span::Same),
        1 if is_seldom => Some(Span::Neighbours),
        _ => None,
    }
}

/// Bounds of the difference between the values of a term in a lane and in the one before it.
struct Steps {
    least: i64,
    most: i64,
}

impl Steps {
    /// The bounds for a sum of terms that never decrease or never increase from lane to lane; `None`
    /// for other terms.
    fn of(term: &Term, lane: Varying<'_>) -> Option<Self> {
        if lane.is_same(term) {
            return Some(Self { least: 0, most: 0 });
        }
        let of = |term: &Term| Self::of(term, lane);
        match term.node() {
            Node::Var(var) if *var == lane.lane => Some(Self { least: 1, most: 1 }),
            Node::Add(a, b) => {
                let (a, b) = (of(a)?, of(b)?);
                Some(Self {
                    least: a.least.checked_add(b.least)?,
                    most: a.most.checked_add(b.most)?,
                })
            }
            Node::Mul(a, b) => {
                let (factor, inside) = match (a.as_constant(), b.as_constant()) {
                    (Some(factor), _) => (factor, of(b)?),
                    (_, Some(factor)) => (factor, of(a)?),
                    _ => return None,
                };
                let (x, y) = (
                    inside.least.checked_mul(factor)?,
                    inside.most.checked_mul(factor)?,
                );
                Some(Self {
                    least: x.min(y),
                    most: x.max(y),
                })
            }
            Node::FloorDiv(a, b) => {
                let divisor = b.as_constant().filter(|n| *n > 0)?;
                let inside = of(a)?;
                Some(Self {
                    least: inside.least.div_euclid(divisor),
                    most: inside.most.checked_add(divisor - 1)?.div_euclid(divisor),
                })
            }
            _ => None,
        }
    }
}

/// The places at which a term does not change by its usual step: where a term that increases by one is a
/// multiple of a number. These terms and numbers are `at`.
struct Breaks<'a> {
    lane: Varying<'a>,
    at: SmallVec<[(Term, i64); 2]>,
}

impl<'a> Breaks<'a> {
    fn new(lane: Varying<'a>) -> Self {
        Self {
            lane,
            at: SmallVec::new(),
        }
    }

    /// Whether few vectors contain a break: all breaks are at the multiples of one number, which is at
    /// least `period`, or a power of two and at least `aligned`.
    fn is_seldom(&self, period: i64, aligned: i64) -> bool {
        match &self.at[..] {
            [(_, number)] => *number >= period || *number >= aligned && number.count_ones() == 1,
            _ => false,
        }
    }

    /// By how much a term increases from lane to lane, except at breaks; adds the breaks to `self`. `None`
    /// if that is unknown.
    fn step(&mut self, term: &Term) -> Option<i64> {
        if self.lane.is_same(term) {
            return Some(0);
        }
        match term.node() {
            Node::Var(var) if *var == self.lane.lane => Some(1),
            Node::Add(a, b) => self.step(a)?.checked_add(self.step(b)?),
            Node::Mul(a, b) => match (self.step(a)?, self.step(b)?) {
                (0, 0) => Some(0),
                (step, 0) => step.checked_mul(b.as_constant()?),
                (0, step) => step.checked_mul(a.as_constant()?),
                _ => None,
            },
            Node::FloorDiv(a, b) | Node::Mod(a, b) => {
                if self.step(b)? != 0 {
                    return None;
                }
                match self.step(a)? {
                    0 => Some(0),
                    1 => {
                        let number = b.as_constant().filter(|n| *n > 0)?;
                        let new = (a.clone(), number);
                        if !self.at.contains(&new) {
                            self.at.push(new);
                        }
                        Some(matches!(term.node(), Node::Mod(..)).into())
                    }
                    _ => None,
                }
            }
            Node::Min(a, b) | Node::Max(a, b) => {
                ((self.step(a)?, self.step(b)?) == (0, 0)).then_some(0)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_arrays_and_elements_are_close_together() {
        let (row, lane, bound) = (Var(0), Var(1), Var(2));
        let [row, i, bound] = [row, lane, bound].map(Term::var);
        let c = Term::constant;
        let differs = |var| var == Var(2);
        let span = |term: &Term| {
            let lane = Varying {
                lane,
                differs: &differs,
            };
            span(term, lane)
        };
        // An array of 100 elements, repeated; and one that is too short.
        assert_eq!(span(&i.modulo(&c(100))), Some(Span::Neighbours));
        assert_eq!(span(&i.modulo(&c(16)).add(&row)), Some(Span::Neighbours));
        assert_eq!(span(&i.modulo(&c(12))), None);
        // Each element three times, or a hundred times.
        assert_eq!(span(&i.floor_div(&c(3)).add(&row)), Some(Span::Window));
        assert_eq!(span(&i.floor_div(&c(100))), Some(Span::Same));
        // Two elements of three.
        let two = i.mul(&c(2)).floor_div(&c(3));
        assert_eq!(span(&two), Some(Span::Window));
        let three = i.mul(&c(3)).floor_div(&c(2));
        assert_eq!(span(&three), None);
        // Rows of another length: the row and the column change at the same place.
        let at = row.mul(&c(88)).add(&i);
        let flat =
            (at.floor_div(&c(512)).add(&row).modulo(&c(256)).mul(&c(512))).add(&at.modulo(&c(512)));
        assert_eq!(span(&flat), Some(Span::Neighbours));
        // At two places.
        let both = i.modulo(&c(100)).add(&i.floor_div(&c(40)));
        assert_eq!(span(&both), None);
        assert_eq!(span(&i.mul(&i)), None);
        // An index that each lane looks up.
        assert_eq!(span(&i.modulo(&c(100)).add(&bound)), None);
        assert_eq!(span(&bound), None);
    }
}
