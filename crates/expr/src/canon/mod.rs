//! The canonical form of terms.
//!
//! Internally, a term is a linear combination of atoms ([`linear`]). An atom is a variable, a
//! linear combination divided by a constant (rounded down), or a term that has no simpler form: a
//! product of variables, a minimum, a comparison, a quotient by a variable. Remainders by constants
//! appear only when the combination is converted back to a term ([`spell`]). Quotients are reduced
//! by the rules of [`division`], whose side conditions are checked with [`bounds`].
//!
//! The canonical form refines the term: where the term has a value for variables in their ranges,
//! the form has the same value. A step whose numbers might overflow is not taken, so every term has
//! a form, and every loop is bounded.

mod bounds;
mod division;
mod linear;
mod order;
mod spell;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::interval::{Interval, Residue, Wide};
use crate::range::VarRanges;
use crate::term::{Node, Term};
pub(crate) use linear::Linear;
use linear::as_quotient;

/// Terms with at least this many nodes are cached individually, whatever they are part of.
const MEMO_SIZE: u32 = 8;

/// The canonical form of one term; see [`Canonicalizer`] for many.
pub fn canonicalize<R: VarRanges + ?Sized>(term: &Term, ranges: &R) -> Term {
    Canonicalizer::new(ranges).canonicalize(term)
}

/// The form of a subterm while a larger sum is built from it.
#[derive(Clone)]
enum Value {
    Sum(Linear),
    /// A sum whose numbers are too large to be added up. As a part of another sum, its value need
    /// not fit in `i64`, so nothing is known about it.
    Large(Term),
}

impl Value {
    fn to_term(&self) -> Term {
        match self {
            Self::Sum(linear) => linear.to_term(),
            Self::Large(term) => term.clone(),
        }
    }
}

/// Terms with bounds that hold for them.
pub type Facts = Vec<(Term, Interval)>;

/// One rewrite step of canonicalisation, for explanations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The rule.
    pub rule: &'static str,
    /// The terms and bounds that prove the side condition; they hold everywhere.
    pub facts: Facts,
    /// The term before the rewrite.
    pub before: Term,
    /// The term after the rewrite.
    pub after: Term,
}

/// The quotients of one dividend, by divisor; `None` if a quotient has no form.
type Quotients = SmallVec<[(i64, Option<Linear>); 1]>;

/// The cache of a [`Canonicalizer`]. It is valid only for that one's ranges and assumptions.
#[derive(Default)]
pub struct CanonCache {
    normal: FxHashMap<Term, Linear>,
    /// Parts of sums, before the sums are simplified as a whole.
    combined: FxHashMap<Term, Linear>,
    /// By dividend: for each divisor the quotient, if it has a form.
    quotients: FxHashMap<Linear, Quotients>,
    /// Combinations that are divided, as terms that their quotients share.
    dividends: FxHashMap<Linear, Term>,
    /// The combination of each operand term; the inverse of the conversion to terms.
    operands: FxHashMap<Term, Arc<Linear>>,
    facts: FxHashMap<Term, (Interval, Residue)>,
    /// Bounds of combinations that contain quotients.
    bounds: FxHashMap<Linear, Wide>,
    costs: FxHashMap<Term, u32>,
    /// Combinations with remainders reintroduced.
    recovered: FxHashMap<Linear, Linear>,
    spelled: FxHashMap<Term, Term>,
    /// The terms of combinations, with remainders.
    sums: FxHashMap<Linear, Term>,
    /// The assumed bounds of combinations without a constant.
    assumed: Arc<BTreeMap<Linear, Interval>>,
}

impl CanonCache {
    /// The number of cached terms.
    pub fn len(&self) -> usize {
        self.normal.len() + self.combined.len() + self.quotients.len() + self.facts.len()
    }

    /// Whether the cache is empty and nothing was assumed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.assumed.is_empty()
    }
}

impl std::fmt::Debug for CanonCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CanonCache")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Canonicalises terms over one set of ranges, with a cache.
///
/// It is one type for all kinds of ranges, because each copy of it would be 70 KB of machine code.
pub struct Canonicalizer<'a> {
    ranges: Box<dyn VarRanges + 'a>,
    memory: CanonCache,
    steps: Option<Vec<Step>>,
    /// Greater than zero while forms are tried that may not be used.
    muted: u32,
    nested: u32,
    spelling: u32,
}

impl<'a> Canonicalizer<'a> {
    /// A canonicaliser with an empty cache.
    pub fn new<R: VarRanges + ?Sized>(ranges: &'a R) -> Self {
        Self::resume(ranges, CanonCache::default())
    }

    /// A canonicaliser that continues with the cache and assumptions of another one over the same
    /// ranges. With a cache for other ranges, its answers are wrong.
    pub fn resume<R: VarRanges + ?Sized>(ranges: &'a R, memory: CanonCache) -> Self {
        Self {
            ranges: Box::new(ranges),
            memory,
            steps: None,
            muted: 0,
            nested: 0,
            spelling: 0,
        }
    }

    /// Its cache; see [`Canonicalizer::resume`].
    pub fn into_memory(self) -> CanonCache {
        self.memory
    }

    /// Restricts the domain to values for which the term is in the interval. From then on,
    /// canonical forms agree with the original terms only there.
    pub fn assume(&mut self, term: &Term, interval: Interval) {
        let mut linear = self.normalize(term);
        let Some(constant) = linear.constant.checked_neg() else {
            return;
        };
        linear.constant = 0;
        let interval = interval.add(&Interval::point(constant));
        let mut all = std::mem::take(&mut self.memory.assumed);
        let assumed = Arc::make_mut(&mut all);
        if let Some(negated) = linear.scale(-1) {
            let slot = assumed.entry(negated).or_insert(Interval::FULL);
            *slot = slot.intersect(&interval.scale(-1));
        }
        let slot = assumed.entry(linear).or_insert(Interval::FULL);
        *slot = slot.intersect(&interval);
        self.memory = CanonCache {
            assumed: all,
            ..CanonCache::default()
        };
    }

    /// Starts recording rewrite steps.
    pub fn trace(&mut self) {
        self.steps = Some(Vec::new());
    }

    /// Takes the steps recorded so far.
    pub fn take_steps(&mut self) -> Vec<Step> {
        self.steps.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The canonical form of a term.
    pub fn canonicalize(&mut self, term: &Term) -> Term {
        let linear = self.normalize(term);
        let spelled = self.spell(&linear);
        // The result is likely to be part of the next term.
        if spelled.size() >= MEMO_SIZE && self.steps.is_none() {
            self.memory.combined.insert(spelled.clone(), linear.clone());
            self.memory.normal.insert(spelled.clone(), linear);
        }
        spelled
    }

    /// The bounds and residue of a term. Unlike [`crate::facts_of`], they take into account that
    /// `x` and `x / 4` are correlated.
    pub fn facts_of(&mut self, term: &Term) -> (Interval, Residue) {
        let linear = self.normalize(term);
        let residue = self.residue(&linear);
        (self.bounds(&linear).narrow().snap(&residue), residue)
    }

    /// A canonical operand of an atom, as a combination.
    fn operand(&mut self, term: &Term) -> Arc<Linear> {
        if let Some(known) = self.memory.operands.get(term) {
            return known.clone();
        }
        let linear = Arc::new(Linear::from_term(term));
        if term.size() >= MEMO_SIZE {
            self.memory.operands.insert(term.clone(), linear.clone());
        }
        linear
    }

    fn is_tracing(&self) -> bool {
        self.steps.is_some()
    }

    fn note(&mut self, rule: &'static str, facts: Facts, before: Term, after: Term) {
        if let Some(steps) = &mut self.steps
            && self.muted == 0
            && before != after
        {
            steps.push(Step {
                rule,
                facts,
                before,
                after,
            });
        }
    }

    fn normalize(&mut self, term: &Term) -> Linear {
        if let Some(known) = self.memory.normal.get(term) {
            return known.clone();
        }
        let value = term.fold_with(
            self,
            &|this, term| {
                let known = (term.size() >= MEMO_SIZE).then(|| this.memory.combined.get(term));
                known.flatten().cloned().map(Value::Sum)
            },
            &|this, term, children: &[Value]| {
                let is_part = match term.node() {
                    Node::Add(..) => true,
                    Node::Mul(_, b) => b.as_constant().is_some(),
                    _ => false,
                };
                if is_part {
                    return this.part(term, children);
                }
                Value::Sum(this.atomic(term, children))
            },
        );
        let linear = self.whole(&value).into_owned();
        self.memory.normal.insert(term.clone(), linear.clone());
        linear
    }

    /// The combination for a term that is no sum, given the forms of its operands.
    fn atomic(&mut self, term: &Term, children: &[Value]) -> Linear {
        // Only whole sums are simplified, so that the form does not depend on the parentheses in a
        // sum.
        let whole: SmallVec<[Cow<'_, Linear>; 3]> =
            children.iter().map(|child| self.whole(child)).collect();
        let linear = self.combine(term, &whole);
        let linear = linear.unwrap_or_else(|| self.opaque(term, &whole));
        // A result found while steps are muted is not cached, because its steps must be recorded
        // when it is used.
        if term.size() >= MEMO_SIZE && (!self.is_tracing() || self.muted == 0) {
            self.memory.combined.insert(term.clone(), linear.clone());
        }
        linear
    }

    /// A sum or multiple that is a part of a larger sum.
    fn part(&mut self, term: &Term, children: &[Value]) -> Value {
        let sum = match (term.node(), children) {
            (Node::Add(..), [Value::Sum(a), Value::Sum(b)]) => a.plus(b, 1),
            (Node::Mul(_, factor), [Value::Sum(a), _]) => {
                factor.as_constant().and_then(|factor| a.scale(factor))
            }
            _ => None,
        };
        sum.map_or_else(
            || {
                let terms: SmallVec<[Term; 2]> = children.iter().map(Value::to_term).collect();
                match (term.node(), terms.as_slice()) {
                    (Node::Add(..), [a, b]) => {
                        Value::Large(Term::raw(Node::Add(a.clone(), b.clone())))
                    }
                    (Node::Mul(..), [a, b]) => {
                        Value::Large(Term::raw(Node::Mul(a.clone(), b.clone())))
                    }
                    _ => Value::Large(term.clone()),
                }
            },
            Value::Sum,
        )
    }

    /// A sum that is not part of another one.
    fn whole<'v>(&mut self, value: &'v Value) -> Cow<'v, Linear> {
        match value {
            Value::Sum(linear) => self.exact_quotients(linear),
            Value::Large(term) => Cow::Owned(Linear::from_term(term)),
        }
    }

    /// The node over canonical operands, as an atom.
    fn opaque(&mut self, term: &Term, children: &[Cow<'_, Linear>]) -> Linear {
        let children: Vec<Term> = children.iter().map(|child| child.to_term()).collect();
        self.atom(term.rebuild(&children))
    }

    /// The combination for a node over canonical operands; `None` if numbers grow too large or the
    /// node has no better form.
    fn combine(&mut self, term: &Term, children: &[Cow<'_, Linear>]) -> Option<Linear> {
        match (term.node(), children) {
            (Node::Const(value), _) => Some(Linear::constant(*value)),
            (Node::Var(_), _) => Some(self.atom(term.clone())),
            (Node::Mul(..), [a, b]) => self.product(a, b),
            (Node::FloorDiv(..), [a, b]) => self.floor_quotient(a, b),
            (Node::CeilDiv(..), [a, b]) => self.ceil_quotient(a, b),
            (Node::Mod(..), [a, b]) => self.modulo(a, b),
            (Node::Min(..), [a, b]) => self.extremum(a, b, true),
            (Node::Max(..), [a, b]) => self.extremum(a, b, false),
            (Node::Cmp(op, ..), [a, b]) => self.comparison(*op, a, b),
            (Node::Select(..), [c, a, b]) => self.selection(c, a, b),
            _ => None,
        }
    }

    /// Replaces multiples of quotients with a known remainder, and parts of a sum for which the
    /// bounds leave one value: `2 * (x / 2) = x` for even `x`, and `(x + 3) / 4 - x = 0` for `x` in
    /// `[0, 1]`.
    pub(crate) fn exact_quotients<'s>(&mut self, sum: &'s Linear) -> Cow<'s, Linear> {
        let mut result = Cow::Borrowed(sum);
        let mut position = 0;
        while let Some((atom, coefficient)) = result.terms.get(position).cloned() {
            position += 1;
            let Some((inner, divisor)) = as_quotient(&atom) else {
                continue;
            };
            let inner = self.operand(inner);
            if let Some(replaced) =
                self.exact_quotient(&result, &atom, coefficient, &inner, divisor)
            {
                result = Cow::Owned(replaced);
                position = 0;
            }
        }
        result
    }

    fn exact_quotient(
        &mut self,
        sum: &Linear,
        atom: &Term,
        coefficient: i64,
        inner: &Linear,
        divisor: i64,
    ) -> Option<Linear> {
        if coefficient % divisor == 0
            && let Some(remainder) = self.remainder_bounds(inner, divisor).as_point()
        {
            // c * floor(x / c) = x - r
            let exact = inner.plus_constant(remainder.checked_neg()?)?;
            let result = sum.without(atom).plus(&exact, coefficient / divisor)?;
            if self.is_tracing() {
                let rest = inner.to_term().modulo(&Term::constant(divisor));
                let facts = vec![(rest, Interval::point(remainder))];
                self.note("exact-quotient", facts, sum.to_term(), result.to_term());
            }
            return Some(result);
        }
        if !self.may_cancel(sum, coefficient, inner, divisor) {
            return None;
        }
        let (mut part, _) = sum
            .partition(|other, _| other == atom || inner.terms.iter().any(|(own, _)| own == other));
        part.constant = 0;
        let range = self.bounds(&part);
        if part.terms.len() > 1 && range.lower == range.upper {
            let value = i64::try_from(range.lower).ok()?;
            let result = sum.plus(&part, -1)?.plus_constant(value)?;
            if self.is_tracing() {
                let facts = vec![(part.to_term(), range.narrow())];
                self.note("part-is-a-point", facts, sum.to_term(), result.to_term());
            }
            return Some(result);
        }
        None
    }

    /// Whether a quotient and the variables of its dividend may cancel, judged by single steps:
    /// when one variable increases by one, its own multiple in the sum must offset the change of
    /// the quotient.
    fn may_cancel(&self, sum: &Linear, coefficient: i64, inner: &Linear, divisor: i64) -> bool {
        if !self.memory.assumed.is_empty() {
            return true;
        }
        let is_free = |term: &Term| {
            let var = term.as_var()?;
            let is_point = self.ranges.range(var).as_point().is_some();
            Some(!is_point && self.ranges.residue(var) == Residue::ANY)
        };
        // If the dividend contains quotients, it is hard to tell whether a step cancels terms.
        if inner.terms.iter().any(|(atom, _)| atom.as_var().is_none()) {
            return true;
        }
        inner.terms.iter().all(|(atom, k)| {
            if is_free(atom) != Some(true) {
                return true;
            }
            let own = sum.terms.iter().find(|(other, _)| other == atom);
            let own = i128::from(own.map_or(0, |(_, own)| *own));
            let gains = [k.div_euclid(divisor), k.div_euclid(divisor) + 1];
            gains
                .iter()
                .any(|gain| own + i128::from(coefficient) * i128::from(*gain) == 0)
        })
    }

    /// Multiplies out a product of sums if that gives few terms and no product can overflow `i64`.
    fn product(&mut self, a: &Linear, b: &Linear) -> Option<Linear> {
        if let Some(factor) = a.as_constant() {
            return b.scale(factor);
        }
        if let Some(factor) = b.as_constant() {
            return a.scale(factor);
        }
        if a.terms.len() * b.terms.len() > 16 {
            return None;
        }
        let mut sum = b.scale(a.constant)?.plus(&a.scale(b.constant)?, 1)?;
        sum = sum.plus_constant(a.constant.checked_mul(b.constant)?.checked_neg()?)?;
        for (x, p) in &a.terms {
            for (y, q) in &b.terms {
                let (s, t) = (self.facts(x).0, self.facts(y).0);
                let range = crate::interval::Wide::corners(s.into(), t.into(), |s, t| s * t);
                if !range.fits() {
                    return None;
                }
                let monomial = self.monomial(x, y);
                sum = sum.plus(&monomial, p.checked_mul(*q)?)?;
            }
        }
        Some(sum)
    }

    /// The product of two atoms, with its factors sorted.
    fn monomial(&mut self, a: &Term, b: &Term) -> Linear {
        let mut factors = factors(a);
        factors.extend(self::factors(b));
        factors.sort_unstable();
        let product = factors
            .into_iter()
            .reduce(|a, b| Term::raw(Node::Mul(a, b)));
        product.map_or_else(|| Linear::constant(1), |product| self.atom(product))
    }

    fn floor_quotient(&mut self, a: &Linear, b: &Linear) -> Option<Linear> {
        match b.as_constant() {
            Some(0) => None,
            Some(c) if c > 0 => self.quotient(a, c),
            Some(c) => self.quotient(&a.scale(-1)?, c.checked_neg()?),
            None => {
                let (pulled, rest) = self.pull_symbolic(a, b)?;
                if self.is_below(&rest, b)? {
                    return Some(pulled);
                }
                let atom = rest.to_term().floor_div(&b.to_term());
                pulled.plus(&self.atom(atom), 1)
            }
        }
    }

    fn ceil_quotient(&mut self, a: &Linear, b: &Linear) -> Option<Linear> {
        match b.as_constant() {
            Some(0) => None,
            Some(c) if c > 0 => self.quotient(&a.plus_constant(c - 1)?, c),
            Some(c) => self.quotient(
                &a.scale(-1)?.plus_constant(c.checked_neg()? - 1)?,
                c.checked_neg()?,
            ),
            None => {
                let (pulled, rest) = self.pull_symbolic(a, b)?;
                if rest.as_constant() == Some(0) {
                    return Some(pulled);
                }
                let atom = rest.to_term().ceil_div(&b.to_term());
                pulled.plus(&self.atom(atom), 1)
            }
        }
    }

    fn modulo(&mut self, a: &Linear, b: &Linear) -> Option<Linear> {
        match b.as_constant() {
            Some(0) => None,
            Some(c) if c > 0 => self.remainder(a, c),
            Some(c) => self.remainder(&a.scale(-1)?, c.checked_neg()?)?.scale(-1),
            None => {
                let (_, rest) = self.pull_symbolic(a, b)?;
                if self.is_below(&rest, b)? {
                    return Some(rest);
                }
                let atom = rest.to_term().modulo(&b.to_term());
                Some(self.atom(atom))
            }
        }
    }

    /// Writes `a` as `pulled * b + rest` for a divisor `b` that is a positive multiple of one atom;
    /// for other divisors, `pulled` is zero. `None` if the rest might not fit in `i64`.
    fn pull_symbolic(&mut self, a: &Linear, b: &Linear) -> Option<(Linear, Linear)> {
        let mut pulled = Linear::constant(0);
        let mut rest = a.clone();
        if let Some((divisor, k)) = b.as_multiple()
            && self.bounds(b).lower >= 1
        {
            for (atom, coefficient) in &a.terms {
                if coefficient % k != 0 {
                    continue;
                }
                let Some(quotient) = self.divide_monomial(atom, divisor) else {
                    continue;
                };
                pulled = pulled.plus(&quotient, coefficient / k)?;
                rest = rest.plus(&Linear::atom(atom.clone()), coefficient.checked_neg()?)?;
            }
        }
        self.bounds(&rest).fits().then_some((pulled, rest))
    }

    /// The monomial divided by `divisor`, if it contains all factors of that.
    fn divide_monomial(&mut self, monomial: &Term, divisor: &Term) -> Option<Linear> {
        let mut left = factors(monomial);
        for factor in factors(divisor) {
            let position = left.iter().position(|f| *f == factor)?;
            left.remove(position);
        }
        let product = left.into_iter().reduce(|a, b| Term::raw(Node::Mul(a, b)));
        Some(product.map_or_else(|| Linear::constant(1), |product| self.atom(product)))
    }

    /// Whether the bounds prove `0 <= a < b`.
    fn is_below(&mut self, a: &Linear, b: &Linear) -> Option<bool> {
        let distance = b.plus(a, -1)?;
        Some(self.bounds(a).lower >= 0 && self.bounds(&distance).lower >= 1)
    }
}

/// The factors of a product of atoms.
fn factors(term: &Term) -> Vec<Term> {
    let mut found = Vec::new();
    let mut stack = vec![term];
    while let Some(term) = stack.pop() {
        match term.node() {
            Node::Mul(a, b) if a.as_constant().is_none() && b.as_constant().is_none() => {
                stack.extend([a, b]);
            }
            _ => found.push(term.clone()),
        }
    }
    found
}
