//! The image of a tile under a term: the progression of the term's values.
//!
//! - A progression times a constant, or plus a value that is the same on the whole tile, is a
//!   progression.
//! - A sum of progressions is a progression if each one fills the steps of the next larger one.
//! - A quotient is a progression if the step is no longer than the divisor. A remainder is one if
//!   the values are within one period, or cover whole periods.
//!
//! What does not hold for every tile becomes a condition. Where the condition fails, the
//! progression still covers all values.

use tegula_expr::{Cmp, Interval, Node, Term, Var, gcd};

use super::condition::Condition;
use super::progression::Progression;
use super::prover::Prover;
use super::reason::Reason;
use crate::map::IndexingMap;

/// The most terms of a sum.
const MAX_TERMS: usize = 64;

/// Computes the images of one map's terms.
pub(super) struct Image<'a> {
    pub(super) map: &'a IndexingMap,
    pub(super) prover: &'a mut Prover,
    /// The progression of each variable of the map.
    pub(super) variables: Vec<Progression>,
    /// Conditions under which all progressions so far are exact.
    pub(super) exact: Vec<Condition>,
    /// The reasons why they may not be exact.
    pub(super) reasons: Vec<Reason>,
}

impl Image<'_> {
    /// Records that the image is exact only if the condition holds.
    pub(super) fn require(&mut self, condition: &Condition, reason: impl FnOnce() -> Reason) {
        let condition = self.prover.settle(condition);
        if condition.is_always() {
            return;
        }
        let reason = reason();
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
        self.exact.push(condition);
    }

    /// A marker of what has been required so far; see [`Self::forget`].
    pub(super) fn noted(&self) -> (usize, usize) {
        (self.exact.len(), self.reasons.len())
    }

    /// Drops what was required since the marker, for a form that is not used after all.
    pub(super) fn forget(&mut self, noted: (usize, usize)) {
        self.exact.truncate(noted.0);
        self.reasons.truncate(noted.1);
    }

    /// The variables of a term that have more than one value on a tile.
    pub(super) fn moving(&self, term: &Term) -> Vec<usize> {
        let mut found = Vec::new();
        term.for_each_var(&mut |var: Var| {
            let number = var.0 as usize;
            let is_point = self
                .variables
                .get(number)
                .is_some_and(Progression::is_point);
            if !is_point && !found.contains(&number) {
                found.push(number);
            }
        });
        found
    }

    /// The term over the variables of the space, if all its variables have one value on a tile.
    fn value(&mut self, term: &Term) -> Term {
        let variables = &self.variables;
        let term = term.substitute(&mut |var| {
            let variable = variables.get(var.0 as usize)?;
            Some(variable.offset.clone())
        });
        self.prover.canonical(&term)
    }

    /// The values of a term over the map's variables.
    pub(super) fn of(&mut self, term: &Term) -> Progression {
        if self.moving(term).is_empty() {
            return Progression::point(self.value(term));
        }
        match term.node() {
            Node::Const(_) => Progression::point(term.clone()),
            Node::Var(var) => match self.variables.get(var.0 as usize) {
                Some(variable) => variable.clone(),
                None => Progression::point(term.clone()),
            },
            Node::FloorDiv(x, c) if self.moving(c).is_empty() => {
                let c = self.value(c);
                let x = self.of(x);
                self.quotient(&x, &c)
            }
            Node::CeilDiv(x, c) if self.moving(c).is_empty() => {
                let c = self.value(c);
                let x = self.of(x);
                let up = c.add(&Term::constant(-1));
                let x = x.shifted(&up, self.prover);
                self.quotient(&x, &c)
            }
            Node::Mod(x, c) if self.moving(c).is_empty() => {
                let c = self.value(c);
                let x = self.of(x);
                self.remainder(&x, &c)
            }
            Node::Add(..) | Node::Mul(..) => self.sum(term),
            Node::Min(a, b) => self.extremum(term, a, b, true),
            Node::Max(a, b) => self.extremum(term, a, b, false),
            Node::Select(c, a, b) if self.moving(c).is_empty() => {
                let condition = self.value(c);
                match self.prover.decide(&condition) {
                    Some(true) => self.of(a),
                    Some(false) => self.of(b),
                    None => self.hull(term, a, b),
                }
            }
            Node::Select(_, a, b) => self.hull(term, a, b),
            Node::Cmp(..) => self.between(term, Interval::new(0, 1)),
            _ => self.unknown(term),
        }
    }

    /// The range of all values that the term can have anywhere.
    fn unknown(&mut self, term: &Term) -> Progression {
        let range = tegula_expr::range_of(term, self.map);
        self.between(term, range)
    }

    fn between(&mut self, term: &Term, range: Interval) -> Progression {
        self.require(&Condition::never(), || Reason::NotLinear(term.clone()));
        let (first, last) = (range.lower.into(), range.upper.into());
        Progression::cover(&first, &last, self.prover)
    }

    fn extremum(&mut self, term: &Term, a: &Term, b: &Term, is_min: bool) -> Progression {
        let (x, y) = (self.of(a), self.of(b));
        let (x_first, x_last) = (x.first(self.prover), x.last(self.prover));
        let (y_first, y_last) = (y.first(self.prover), y.last(self.prover));
        let below = |small: &Term, large: &Term| Condition::compare(Cmp::Le, small, large);
        if self.prover.holds(&below(&x_last, &y_first)) {
            return if is_min { x } else { y };
        }
        if self.prover.holds(&below(&y_last, &x_first)) {
            return if is_min { y } else { x };
        }
        self.require(&Condition::never(), || Reason::NotLinear(term.clone()));
        let pick = |a: &Term, b: &Term| {
            if is_min {
                Term::min(a, b)
            } else {
                Term::max(a, b)
            }
        };
        let (first, last) = (pick(&x_first, &y_first), pick(&x_last, &y_last));
        Progression::cover(&first, &last, self.prover)
    }

    fn hull(&mut self, term: &Term, a: &Term, b: &Term) -> Progression {
        let (x, y) = (self.of(a), self.of(b));
        self.require(&Condition::never(), || Reason::NotLinear(term.clone()));
        let first = Term::min(&x.first(self.prover), &y.first(self.prover));
        let last = Term::max(&x.last(self.prover), &y.last(self.prover));
        Progression::cover(&first, &last, self.prover)
    }

    /// The floor quotients of a progression by `c`.
    pub(super) fn quotient(&mut self, x: &Progression, c: &Term) -> Progression {
        if self.prover.range(c).lower < 1 {
            let term = x.offset.floor_div(c);
            return self.between(&term, Interval::FULL);
        }
        let (s, k) = (x.step(), c.as_constant());
        if let (Some(s), Some(k)) = (s, k)
            && s % k == 0
            && x.is_aligned
        {
            let mut over = |term: &Term| self.prover.canonical(&term.floor_div(c));
            return Progression {
                offset: over(&x.offset),
                lower: x.lower.as_ref().map(&mut over),
                upper: x.upper.as_ref().map(&mut over),
                stride: (s / k).into(),
                ..x.clone()
            };
        }
        let (first, last) = (x.first(self.prover), x.last(self.prover));
        let is_dense = match (s, k) {
            (Some(s), Some(k)) => s <= k,
            (Some(s), None) => s == 1,
            _ => false,
        };
        if !is_dense {
            // The steps of the quotients differ, so the image is exact only for a single value.
            let one = Condition::compare(Cmp::Eq, &x.count(self.prover), &Term::constant(1));
            let stride = x.stride.clone();
            self.require(&one, || Reason::UnevenSteps(stride, c.clone()));
        }
        self.dense_quotient(x, c, &first, &last)
    }

    /// Every value from the first quotient to the last.
    fn dense_quotient(
        &mut self,
        x: &Progression,
        c: &Term,
        first: &Term,
        last: &Term,
    ) -> Progression {
        let one = Term::constant(1);
        let offset = self.prover.canonical(&x.offset.floor_div(c));
        let rest = self.prover.canonical(&x.offset.modulo(c));
        let reach = x.size.sub(&one).mul(&x.stride);
        let size_from = |rest: &Term| rest.add(&reach).floor_div(c).add(&one);
        let most = self.prover.range(&rest).upper;
        let mut size = self.prover.canonical(&size_from(&rest));
        let mut varies = false;
        if self.prover.is_open() && size.as_constant().is_none() {
            // The size for aligned tiles; otherwise, the most values that there can be.
            let within = self.within_period(x, c);
            let whole = self.whole_periods(x, c);
            let most = size_from(&c.sub(&one));
            let exact = x.size.mul(&x.stride).ceil_div(c);
            size = Term::select(&whole.term(), &exact, &most);
            size = Term::select(&within.term(), &one, &size);
            size = self.prover.canonical(&size);
            varies = true;
        } else if size.as_constant().is_none() && c.as_constant().is_some() && most < i64::MAX {
            size = self.prover.canonical(&size_from(&most.into()));
            varies = true;
        }
        let is_fixed = self.prover.range(&rest).as_point().is_some() || !varies;
        let upper = if is_fixed && x.is_aligned {
            x.upper
                .as_ref()
                .map(|upper| self.prover.canonical(&upper.floor_div(c)))
        } else if varies || x.upper.is_some() {
            Some(self.prover.canonical(&last.floor_div(c)))
        } else {
            None
        };
        let lower = x.lower.as_ref().map(|_| first.floor_div(c));
        let lower = lower.map(|lower| self.prover.canonical(&lower));
        Progression {
            lower,
            upper,
            is_tight: x.is_tight,
            ..Progression::neighbours(offset, size)
        }
    }

    /// The condition that consecutive values do not cross a multiple of `c`.
    fn within_period(&mut self, x: &Progression, c: &Term) -> Condition {
        let whole = Condition::multiple(c, &x.size);
        let aligned = self.prover.multiple(&x.offset, &x.size);
        let condition = match x.step() {
            Some(1) => Condition::all([whole, aligned]),
            _ => Condition::never(),
        };
        self.prover.settle(&condition)
    }

    /// The condition that consecutive values cover whole periods, from one multiple of `c` to
    /// another. The last part may be cut off at a multiple.
    fn whole_periods(&mut self, x: &Progression, c: &Term) -> Condition {
        let mut all = vec![
            Condition::multiple(&x.size, c),
            self.prover.multiple(&x.offset, c),
        ];
        if let Some(upper) = &x.upper {
            all.push(self.prover.multiple(&upper.add(&Term::constant(1)), c));
        }
        if let Some(lower) = &x.lower {
            all.push(self.prover.multiple(lower, c));
        }
        let condition = match x.step() {
            Some(1) => Condition::all(all),
            _ => Condition::never(),
        };
        self.prover.settle(&condition)
    }

    /// The remainders of a progression modulo `c`.
    pub(super) fn remainder(&mut self, x: &Progression, c: &Term) -> Progression {
        if self.prover.range(c).lower < 1 {
            let term = x.offset.modulo(c);
            return self.between(&term, Interval::FULL);
        }
        let zero = Term::constant(0);
        let (s, k) = (x.step(), c.as_constant());
        if let (Some(s), Some(k)) = (s, k)
            && s % k == 0
        {
            return Progression::point(self.prover.canonical(&x.offset.modulo(c)));
        }
        let (first, last) = (x.first(self.prover), x.last(self.prover));
        let start = self.prover.canonical(&first.modulo(c));
        // From here on, values are counted from the start of the first value's period.
        let inside = match self.prover.is_open() && x.step() == Some(1) {
            true => self.within_period(x, c),
            false => {
                let end = start.add(&last.sub(&first));
                let ends = Condition::compare(Cmp::Lt, &end, c);
                self.prover.settle(&ends)
            }
        };
        let period = Progression {
            offset: self.prover.canonical(&start.add(&x.offset.sub(&first))),
            lower: x.lower.as_ref().map(|_| start.clone()),
            upper: x.upper.as_ref().map(|_| last.modulo(c)),
            ..x.clone()
        };
        if inside.is_always() {
            let upper = period.upper.map(|upper| self.prover.canonical(&upper));
            return Progression {
                upper,
                extent: None,
                ..period
            };
        }
        // The least distance between two remainders.
        let step = match (s, k) {
            (Some(s), Some(k)) => i64::try_from(gcd(s, k)).unwrap_or(1),
            _ => 1,
        };
        let is_divided = s == Some(step);
        let covers = match (self.prover.is_open(), is_divided) {
            (_, false) => Condition::never(),
            (true, _) => self.whole_periods(x, c),
            (false, _) => {
                let most = c.floor_div(&step.into());
                let count = x.count(self.prover);
                let covers = Condition::compare(Cmp::Le, &most, &count);
                self.prover.settle(&covers)
            }
        };
        let all = Progression {
            stride: step.into(),
            is_tight: is_divided && x.is_tight && self.reasons.is_empty() && !self.prover.is_open(),
            ..Progression::neighbours(
                self.prover.canonical(&x.offset.modulo(&step.into())),
                c.floor_div(&step.into()),
            )
        };
        if inside.is_never() || covers.is_always() {
            self.require(&covers, || Reason::CrossesPeriod(c.clone()));
            return all;
        }
        if s != Some(step) {
            // The steps inside a period differ from those across its end.
            self.require(&Condition::never(), || Reason::CrossesPeriod(c.clone()));
            return all;
        }
        let either = Condition::any([inside.clone(), covers]);
        self.require(&either, || Reason::CrossesPeriod(c.clone()));
        let inside = inside.term();
        let mut choose = |a: &Term, b: &Term| {
            let chosen = Term::select(&inside, a, b);
            self.prover.canonical(&chosen)
        };
        let offset = choose(&period.offset, &all.offset);
        let (mut size, mut upper, mut lower) = (all.size.clone(), None, None);
        let end = all.offset.add(&c.sub(&step.into()));
        if period.lower.is_some() {
            lower = Some(choose(&start, &zero));
        }
        if self.prover.is_open() {
            size = Term::select(&inside, &x.size, &all.size);
            size = self.prover.canonical(&size);
            if period.upper.is_some() {
                let last = Term::select(&inside, &last.modulo(c), &end);
                upper = Some(self.prover.canonical(&last));
            }
        } else {
            // The number of values depends on the tile; the limit accounts for that.
            let last = Term::select(&inside, &last.modulo(c), &end);
            upper = Some(self.prover.canonical(&last));
            size = Term::max(&size, &x.size);
        }
        Progression {
            offset,
            size,
            lower,
            upper,
            is_tight: false,
            ..all
        }
    }

    /// The image of a sum: a progression if each part fills the steps of the next larger one.
    fn sum(&mut self, term: &Term) -> Progression {
        let Some((terms, constant)) = term.as_linear().filter(|(t, _)| t.len() <= MAX_TERMS) else {
            return self.unknown(term);
        };
        let before = self.noted();
        let mut rest = Term::constant(constant);
        let mut parts: Vec<Progression> = Vec::new();
        let mut seen: Vec<usize> = Vec::new();
        let mut is_coupled = false;
        for (atom, factor) in &terms {
            let moving = self.moving(atom);
            let part = match (atom == term, atom.node()) {
                (_, Node::Mul(a, b)) => self.product(atom, a, b),
                (true, _) => return self.unknown(term),
                _ => self.of(atom),
            };
            let factor = Term::constant(*factor);
            let Some(part) = part.scaled(&factor, self.prover) else {
                return self.unknown(term);
            };
            if part.is_point() {
                rest = rest.add(&part.offset);
                continue;
            }
            is_coupled |= moving.iter().any(|var| seen.contains(var));
            seen.extend(moving);
            parts.push(part);
        }
        let rest = self.prover.canonical(&rest);
        self.sum_of(term, parts, &rest, (is_coupled, before))
    }

    /// The image of a product, one factor of which must be constant on a tile.
    fn product(&mut self, term: &Term, a: &Term, b: &Term) -> Progression {
        let (a, b) = (self.of(a), self.of(b));
        let scaled = if b.is_point() {
            a.scaled(&b.offset, self.prover)
        } else if a.is_point() {
            b.scaled(&a.offset, self.prover)
        } else {
            None
        };
        scaled.unwrap_or_else(|| self.unknown(term))
    }

    fn sum_of(
        &mut self,
        term: &Term,
        mut parts: Vec<Progression>,
        rest: &Term,
        (is_coupled, before): (bool, (usize, usize)),
    ) -> Progression {
        if parts.len() <= 1 {
            return match parts.pop() {
                Some(only) => only.shifted(rest, self.prover),
                None => Progression::point(rest.clone()),
            };
        }
        if is_coupled {
            if let Some((dividend, divisor)) = as_one_quotient(term) {
                self.forget(before);
                let dividend = self.of(&dividend);
                return self.quotient(&dividend, &divisor.into());
            }
            self.require(&Condition::never(), || Reason::NotLinear(term.clone()));
        }
        self.by_stride(&mut parts);
        let mut offset = rest.clone();
        for part in &parts {
            offset = offset.add(&part.offset);
        }
        let offset = self.prover.canonical(&offset);
        let mut parts = parts.into_iter();
        let Some(mut all) = parts.next() else {
            return Progression::point(offset);
        };
        let (mut first, mut last) = (all.first(self.prover), all.last(self.prover));
        let mut is_tight = all.is_tight && !is_coupled;
        for part in parts {
            let (own_first, own_last) = (part.first(self.prover), part.last(self.prover));
            is_tight &= part.is_tight;
            let joined = self.joined(&all, &part, term);
            // The inner parts have no limits, so the limits of the outer part are shifted.
            let is_simple = all.is_unlimited();
            let lower = match (&part.lower, &all.lower) {
                (None, None) => None,
                (Some(lower), _) if is_simple => Some(lower.add(&first)),
                _ => Some(first.add(&own_first)),
            };
            let upper = match (&part.upper, &all.upper) {
                (None, None) => None,
                (Some(upper), _) if is_simple => Some(upper.add(&last)),
                _ => Some(last.add(&own_last)),
            };
            first = first.add(&own_first);
            last = last.add(&own_last);
            all = Progression {
                offset: all.offset.add(&part.offset),
                lower,
                upper,
                is_aligned: all.is_aligned && part.is_aligned,
                ..joined
            };
        }
        let mut moved =
            |limit: Option<Term>| limit.map(|limit| self.prover.canonical(&limit.add(rest)));
        Progression {
            lower: moved(all.lower),
            upper: moved(all.upper),
            offset,
            is_tight,
            extent: None,
            ..all
        }
    }

    fn by_stride(&mut self, parts: &mut [Progression]) {
        if parts.iter().all(|part| part.step().is_some()) {
            parts.sort_by_key(Progression::step);
            return;
        }
        // There are few parts: an insertion sort by what can be proved.
        for last in 1..parts.len() {
            for at in (1..=last).rev() {
                let (Some(a), Some(b)) = (parts.get(at - 1), parts.get(at)) else {
                    continue;
                };
                let order = Condition::compare(Cmp::Lt, &b.stride, &a.stride);
                if self.prover.holds(&order) {
                    parts.swap(at - 1, at);
                }
            }
        }
    }

    /// The size and stride of the sum of an inner and an outer progression.
    fn joined(&mut self, inner: &Progression, outer: &Progression, term: &Term) -> Progression {
        let one = Term::constant(1);
        let step = match (inner.step(), outer.step()) {
            (Some(a), Some(b)) if b % a == 0 => Some(Term::constant(b / a)),
            (Some(1), None) => Some(outer.stride.clone()),
            _ if inner.stride == outer.stride => Some(one.clone()),
            _ => None,
        };
        let Some(step) = step else {
            let unit = match (inner.step(), outer.step()) {
                (Some(a), Some(b)) => i64::try_from(gcd(a, b)).unwrap_or(1),
                _ => 1,
            };
            self.require(&Condition::never(), || Reason::Gaps(term.clone()));
            let unit = Term::constant(unit);
            let reach = |part: &Progression| part.size.sub(&one).mul(&part.stride);
            let size = reach(inner).add(&reach(outer)).floor_div(&unit).add(&one);
            return Progression {
                stride: unit,
                size: self.prover.canonical(&size),
                ..Progression::point(Term::constant(0))
            };
        };
        let fills = match (self.prover.is_open(), &inner.extent) {
            (true, Some(extent)) => Condition::all([
                Condition::compare(Cmp::Le, extent, &inner.size),
                Condition::compare(Cmp::Le, &step, extent),
            ]),
            _ => Condition::compare(Cmp::Le, &step, &inner.count(self.prover)),
        };
        let single = match self.prover.is_open() {
            true => outer.size.clone(),
            false => outer.count(self.prover),
        };
        let single = Condition::compare(Cmp::Le, &single, &one);
        self.require(&Condition::any([single, fills]), || {
            Reason::Gaps(term.clone())
        });
        let size = outer.size.sub(&one).mul(&step).add(&inner.size);
        Progression {
            stride: inner.stride.clone(),
            size: self.prover.canonical(&size),
            ..Progression::point(Term::constant(0))
        }
    }
}

/// Rewrites a sum with one quotient, `y / c + rest`, as `(y + c * rest) / c`. The canonical form
/// moves multiples of the divisor out of the quotient, also with variables that otherwise stay
/// inside.
pub(super) fn as_one_quotient(term: &Term) -> Option<(Term, i64)> {
    let (terms, constant) = term.as_linear()?;
    let mut quotient = None;
    let mut rest = Term::constant(constant);
    for (atom, factor) in &terms {
        match atom.node() {
            Node::FloorDiv(y, c) if *factor == 1 && quotient.is_none() => {
                quotient = Some((y.clone(), c.as_constant().filter(|c| *c > 1)?));
            }
            Node::FloorDiv(..) => return None,
            _ => rest = rest.add(&atom.mul(&(*factor).into())),
        }
    }
    let (y, c) = quotient?;
    let dividend = y.add(&rest.mul(&c.into()));
    // Built as one sum, so that equal atoms are merged.
    let (terms, constant) = dividend.as_linear()?;
    let sum = terms.iter().fold(Term::constant(0), |sum, (atom, factor)| {
        sum.add(&atom.mul(&(*factor).into()))
    });
    Some((sum.add(&constant.into()), c))
}
