//! Progressions: the values of a term over a tile, along one dimension.
//!
//! A progression has a nominal part, `offset + stride * j` for `0 <= j < size`, and limits that cut
//! off what a tile at the edge has too many of. Where possible, the size is the same for all tiles.

use tegula_expr::Term;

use super::prover::Prover;

/// The values `offset + stride * j` for `0 <= j < size` that are within the limits.
#[derive(Clone, Debug)]
pub(super) struct Progression {
    pub(super) offset: Term,
    pub(super) size: Term,
    pub(super) stride: Term,
    /// The smallest value that counts.
    pub(super) lower: Option<Term>,
    /// The largest value that counts.
    pub(super) upper: Option<Term>,
    /// Whether the limits are themselves values of the progression, continued in both directions.
    pub(super) is_aligned: bool,
    /// Whether its first and its last value are really taken.
    pub(super) is_tight: bool,
    /// The number of values when a tile covers a whole dimension, if the progression belongs to one
    /// dimension.
    pub(super) extent: Option<Term>,
}

impl Progression {
    /// A single value.
    pub(super) fn point(value: Term) -> Self {
        Self {
            offset: value,
            size: Term::constant(1),
            stride: Term::constant(1),
            lower: None,
            upper: None,
            is_aligned: true,
            is_tight: true,
            extent: None,
        }
    }

    /// `size` consecutive values.
    pub(super) fn neighbours(offset: Term, size: Term) -> Self {
        Self {
            size,
            ..Self::point(offset)
        }
    }

    /// Whether there is a single value, without limits.
    pub(super) fn is_point(&self) -> bool {
        self.size.as_constant() == Some(1) && self.lower.is_none() && self.upper.is_none()
    }

    /// Whether there are no limits.
    pub(super) fn is_unlimited(&self) -> bool {
        self.lower.is_none() && self.upper.is_none()
    }

    /// The stride, if it is a constant.
    pub(super) fn step(&self) -> Option<i64> {
        self.stride.as_constant()
    }

    /// The distance from the first value to the last, ignoring limits.
    fn reach(&self) -> Term {
        self.size.add(&Term::constant(-1)).mul(&self.stride)
    }

    fn is_plain(&self) -> bool {
        self.is_aligned || self.step() == Some(1)
    }

    /// The first value within the limits.
    pub(super) fn first(&self, prover: &mut Prover) -> Term {
        let first = match &self.lower {
            None => self.offset.clone(),
            Some(lower) if self.is_plain() => Term::max(&self.offset, lower),
            Some(lower) => {
                let missing = lower.sub(&self.offset).ceil_div(&self.stride);
                let skipped = Term::max(&Term::constant(0), &missing);
                self.offset.add(&skipped.mul(&self.stride))
            }
        };
        prover.canonical(&first)
    }

    /// The last value within the limits; less than the first if there is none.
    pub(super) fn last(&self, prover: &mut Prover) -> Term {
        let last = match &self.upper {
            None => self.offset.add(&self.reach()),
            Some(upper) if self.is_plain() => Term::min(&self.offset.add(&self.reach()), upper),
            Some(upper) => {
                let steps = upper.sub(&self.offset).floor_div(&self.stride);
                let last = self.size.add(&Term::constant(-1));
                self.offset.add(&Term::min(&last, &steps).mul(&self.stride))
            }
        };
        prover.canonical(&last)
    }

    /// The number of values within the limits; 0 or less if there are none.
    pub(super) fn count(&self, prover: &mut Prover) -> Term {
        if self.is_unlimited() {
            return self.size.clone();
        }
        let (first, last) = (self.first(prover), self.last(prover));
        let steps = last.sub(&first).floor_div(&self.stride);
        prover.canonical(&steps.add(&Term::constant(1)))
    }

    /// Adds `by`, which is constant on a tile, to every value.
    pub(super) fn shifted(mut self, by: &Term, prover: &mut Prover) -> Self {
        if by.as_constant() == Some(0) {
            return self;
        }
        let mut moved = |term: &Term| prover.canonical(&term.add(by));
        let limits = [&self.lower, &self.upper];
        let [lower, upper] = limits.map(|limit| limit.as_ref().map(&mut moved));
        self.offset = moved(&self.offset);
        Self {
            lower,
            upper,
            ..self
        }
    }

    /// Multiplies every value by `by`; `None` if the sign of `by` is not known.
    pub(super) fn scaled(&self, by: &Term, prover: &mut Prover) -> Option<Self> {
        if by.as_constant() == Some(1) {
            return Some(self.clone());
        }
        let range = prover.range(by);
        let mut times = |term: &Term| prover.canonical(&term.mul(by));
        let mut scaled = self.clone();
        if range.as_point() == Some(0) {
            return Some(Self::point(Term::constant(0)));
        }
        if range.lower >= 1 {
            scaled.offset = times(&self.offset);
            scaled.lower = self.lower.as_ref().map(&mut times);
            scaled.upper = self.upper.as_ref().map(&mut times);
            scaled.stride = times(&self.stride);
        } else if range.upper <= -1 {
            scaled.offset = times(&self.offset.add(&self.reach()));
            scaled.lower = self.upper.as_ref().map(&mut times);
            scaled.upper = self.lower.as_ref().map(&mut times);
            scaled.stride = times(&self.stride.neg());
        } else {
            return None;
        }
        if self.is_point() {
            scaled.stride = Term::constant(1);
        }
        Some(scaled)
    }

    /// Every value between `first` and `last`, inclusive, which may be more than are taken.
    pub(super) fn cover(first: &Term, last: &Term, prover: &mut Prover) -> Self {
        let size = prover.canonical(&last.sub(first).add(&Term::constant(1)));
        let range = prover.range(&size);
        let mut cover = Self::neighbours(first.clone(), size);
        // A size that depends on the tile is replaced by its largest value, with a limit.
        if cover.size.as_constant().is_none() && !prover.is_open() && range.upper < i64::MAX {
            cover.size = range.upper.into();
            cover.upper = Some(last.clone());
        }
        cover.is_tight = false;
        cover
    }
}
