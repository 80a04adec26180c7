//! The prover: what is known about the variables of a tiling space, and decisions based on it.

use tegula_expr::{CanonCache, Canonicalizer, Cmp, Interval, Node, Residue, Term, Var, VarRanges};

use super::condition::Condition;
use super::space::TilingSpace;
use crate::map::IndexingMap;
use crate::simplify::refined;

/// The most values of tile numbers and run-time variables that are enumerated.
const MAX_POINTS: u128 = 1024;

/// Decides conditions for all tiles of a space.
pub(super) struct Prover {
    domain: Box<dyn VarRanges>,
    /// The same domain as a map, for enumeration.
    map: IndexingMap,
    cache: CanonCache,
    is_open: bool,
    dims: usize,
}

impl Prover {
    /// A prover for a space and run-time variables in these bounds; `None` if there are no tiles.
    pub(super) fn new(space: &TilingSpace, runtime: &[Interval]) -> Option<Self> {
        if space.dims.iter().any(|dim| dim.extent < 1) {
            return None;
        }
        let map = space.domain(runtime);
        let domain = refined(&map)?;
        let mut canonicalizer = Canonicalizer::new(&domain);
        for constraint in &map.constraints {
            canonicalizer.assume(&constraint.term, constraint.interval);
        }
        let cache = canonicalizer.into_memory();
        Some(Self {
            domain: Box::new(domain),
            map,
            cache,
            is_open: space.is_open(),
            dims: space.dims.len(),
        })
    }

    /// Whether some tile size is symbolic.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    fn with<T>(&mut self, f: impl FnOnce(&mut Canonicalizer<'_>) -> T) -> T {
        let cache = std::mem::take(&mut self.cache);
        let mut canonicalizer = Canonicalizer::resume(self.domain.as_ref(), cache);
        let found = f(&mut canonicalizer);
        self.cache = canonicalizer.into_memory();
        found
    }

    /// The canonical form of a term.
    pub(super) fn canonical(&mut self, term: &Term) -> Term {
        if term.as_constant().is_some() || term.as_var().is_some() {
            return term.clone();
        }
        self.with(|canonicalizer| canonicalizer.canonicalize(term))
    }

    /// The bounds and residue of a term.
    pub(super) fn facts(&mut self, term: &Term) -> (Interval, Residue) {
        self.with(|canonicalizer| canonicalizer.facts_of(term))
    }

    /// The bounds of the term's values.
    pub(super) fn range(&mut self, term: &Term) -> Interval {
        self.facts(term).0
    }

    /// Simplifies a condition by deciding those of its terms that bounds, residues or enumeration
    /// decide.
    pub(super) fn settle(&mut self, condition: &Condition) -> Condition {
        condition.map(&mut |term| match self.decide(term) {
            Some(holds) => Term::constant(holds.into()),
            None => {
                let simple = self.canonical(term);
                if simple.size() < term.size() {
                    simple
                } else {
                    term.clone()
                }
            }
        })
    }

    /// Whether a condition holds for every tile.
    pub(super) fn holds(&mut self, condition: &Condition) -> bool {
        condition.is_always() || self.settle(condition).is_always()
    }

    /// Whether a term is nonzero on all tiles or zero on all tiles; `None` if that is not known or
    /// differs between tiles.
    pub(super) fn decide(&mut self, term: &Term) -> Option<bool> {
        let simple = self.canonical(term);
        if let Some(value) = simple.as_constant() {
            return Some(value != 0);
        }
        let range = self.range(&simple);
        if let Some(value) = range.as_point() {
            return Some(value != 0);
        }
        if range.lower > 0 || range.upper < 0 {
            return Some(true);
        }
        if let Node::Cmp(op, a, b) = term.node()
            && let Some(found) = self.compared(*op, a, b)
        {
            return Some(found);
        }
        self.tried(term)
    }

    /// Decides a comparison by the bounds of the difference.
    fn compared(&mut self, op: Cmp, a: &Term, b: &Term) -> Option<bool> {
        let (range, residue) = self.facts(&a.sub(b));
        let never_equal = !range.contains(0) || !residue.contains(0);
        match op {
            Cmp::Eq if never_equal => Some(false),
            Cmp::Ne if never_equal => Some(true),
            Cmp::Eq if range.as_point() == Some(0) => Some(true),
            Cmp::Ne if range.as_point() == Some(0) => Some(false),
            Cmp::Lt if range.upper < 0 => Some(true),
            Cmp::Lt if range.lower >= 0 => Some(false),
            Cmp::Le if range.upper <= 0 => Some(true),
            Cmp::Le if range.lower > 0 => Some(false),
            _ => None,
        }
    }

    /// Decides a term by enumerating the values of its variables, if there are few.
    fn tried(&self, term: &Term) -> Option<bool> {
        let mut vars: Vec<Var> = Vec::new();
        term.for_each_var(&mut |var| {
            if !vars.contains(&var) {
                vars.push(var);
            }
        });
        let bounds: Vec<Interval> = vars.iter().map(|var| self.map.range_of(*var)).collect();
        if crate::points::box_size(&bounds)? > MAX_POINTS {
            return None;
        }
        let mut found: Option<bool> = None;
        let mut is_same = true;
        crate::points::for_each_point(&bounds, &mut |point| {
            let env = |var: Var| {
                let at = vars.iter().position(|own| *own == var)?;
                point.get(at).copied()
            };
            let excluded = self.map.constraints.iter().any(|constraint| {
                constraint
                    .term
                    .eval(&env)
                    .is_ok_and(|value| !constraint.interval.contains(value))
            });
            if excluded {
                return true;
            }
            match term.eval(&env) {
                Ok(value) => {
                    let holds = value != 0;
                    is_same &= *found.get_or_insert(holds) == holds;
                }
                Err(_) => is_same = false,
            }
            is_same
        });
        found.filter(|_| is_same)
    }

    /// The condition that the term is a multiple of `of` on every tile: always, or if certain
    /// symbolic sizes are multiples of something.
    pub(super) fn multiple(&mut self, term: &Term, of: &Term) -> Condition {
        let rest = self.canonical(&term.modulo(of));
        if rest.as_constant() == Some(0) || self.range(&rest).as_point() == Some(0) {
            return Condition::always();
        }
        let whole = Condition::multiple(term, of);
        if !self.is_open {
            return whole;
        }
        let simple = self.canonical(term);
        let Some((terms, constant)) = simple.as_linear() else {
            return whole;
        };
        let mut needed = vec![Condition::multiple(&constant.into(), of)];
        for (atom, factor) in &terms {
            let multiple = atom.mul(&(*factor).into());
            let rest = self.canonical(&multiple.modulo(of));
            if rest.as_constant() == Some(0) {
                continue;
            }
            // A factor that is a symbolic size may contribute what is missing.
            let mut choices: Vec<Condition> = Vec::new();
            for part in factors(atom) {
                let is_size = part.as_var().is_some_and(|var| self.is_size(var));
                if !is_size {
                    continue;
                }
                choices.push(match of.as_constant() {
                    Some(of) if of > 0 => {
                        let own = i64::try_from(tegula_expr::gcd(of, *factor)).unwrap_or(1);
                        Condition::multiple(&part, &(of / own.max(1)).into())
                    }
                    _ => Condition::multiple(&part.mul(&(*factor).into()), of),
                });
            }
            if choices.is_empty() {
                choices.push(Condition::multiple(&multiple, of));
            }
            needed.push(Condition::any(choices));
        }
        let needed = Condition::all(needed);
        if needed.is_never() { whole } else { needed }
    }

    fn is_size(&self, var: Var) -> bool {
        (self.dims..2 * self.dims).contains(&(var.0 as usize))
    }
}

impl IndexingMap {
    fn range_of(&self, var: Var) -> Interval {
        VarRanges::range(self, var)
    }
}

/// The factors of a product.
fn factors(term: &Term) -> Vec<Term> {
    let mut found = Vec::new();
    let mut stack = vec![term.clone()];
    while let Some(term) = stack.pop() {
        match term.node() {
            Node::Mul(a, b) => stack.extend([a.clone(), b.clone()]),
            _ => found.push(term),
        }
    }
    found
}
