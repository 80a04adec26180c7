//! Decides whether two sizes are equal, using the simplifier, under assumptions about the
//! variables: ranges, divisibility, equalities, and sizes that are equal or 1.
//!
//! ```
//! use tegula_expr::{Interval, Term, Var};
//! use tegula_indexing::equality::{Assumptions, same_dim};
//!
//! let (a, b) = (Term::var(Var(0)), Term::var(Var(1)));
//! let quotient = (&a * &b).floor_div(&b);
//! let mut known = Assumptions::new(vec![Interval::new(0, 1 << 31); 2]);
//! assert!(!same_dim(&quotient, &a, &known)?.is_yes(), "b may be 0");
//! known.at_least(&b, 1);
//! assert!(same_dim(&quotient, &a, &known)?.is_yes());
//! # Ok::<(), tegula_indexing::equality::Contradictory>(())
//! ```

use crate::map::{IndexingMap, Status, Variable};
use crate::simplify::Simplifier;
use crate::uses::Proof;
use std::fmt;
use tegula_expr::{Cmp, Interval, Names, Node, Residue, Style, Term, Var, canonicalize, facts_of};
use tegula_ir::{Module, Symbol};
use thiserror::Error;

/// The most case distinctions for "equal or 1" assumptions; each assumption doubles the number.
const MAX_CASES: usize = 64;

/// The most guards of a program that are examined, because each may rely on all before it, and the
/// most nodes of a guard. Other guards are checked at run time.
const MAX_SETTLED: usize = 64;
const MAX_GUARD: u32 = 256;

/// A fact that holds wherever sizes are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assumption {
    /// The term lies in the interval.
    In(Term, Interval),
    /// The term is a multiple of a positive number.
    Multiple(Term, i64),
    /// Both terms have the same value.
    Equal(Term, Term),
    /// The first term equals the second, or is 1: a dimension that may be broadcast.
    EqualOrOne(Term, Term),
}

impl Assumption {
    /// Displays the assumption with the given names of variables.
    pub fn display<'a, N: Names + ?Sized>(&'a self, names: &'a N) -> impl fmt::Display + 'a {
        let spell = |term: &Term| term.display(names, Style::Xla).to_string();
        fmt::from_fn(move |f| match self {
            Self::In(term, range) => match (range.lower, range.upper) {
                (lower, i64::MAX) => write!(f, "{} >= {lower}", spell(term)),
                (i64::MIN, upper) => write!(f, "{} <= {upper}", spell(term)),
                (lower, upper) => write!(f, "{} in [{lower}, {upper}]", spell(term)),
            },
            Self::Multiple(term, of) => write!(f, "{} is a multiple of {of}", spell(term)),
            Self::Equal(a, b) => write!(f, "{} = {}", spell(a), spell(b)),
            Self::EqualOrOne(a, b) => write!(f, "{} is {} or 1", spell(a), spell(b)),
        })
    }
}

/// What is known about the variables of sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assumptions {
    /// The values of each variable, by number.
    bounds: Vec<Interval>,
    all: Vec<Assumption>,
}

impl Assumptions {
    /// Assumes nothing beyond the bounds of the variables, given by number.
    pub fn new(bounds: Vec<Interval>) -> Self {
        Self {
            bounds,
            all: Vec::new(),
        }
    }

    /// Adds an assumption.
    pub fn assume(&mut self, assumption: Assumption) {
        self.all.push(assumption);
    }

    /// Assumes that a term is at least `lower`.
    pub fn at_least(&mut self, term: &Term, lower: i64) {
        let range = Interval::new(lower, i64::MAX);
        self.assume(Assumption::In(term.clone(), range));
    }

    fn with(&self, more: &[Assumption]) -> Self {
        let mut both = self.clone();
        both.all.extend_from_slice(more);
        both
    }

    /// All combinations of choices between "equal" and "1". If there would be too many, the
    /// remaining assumptions are left out, which is sound: what holds under fewer assumptions holds
    /// under more.
    fn cases(&self) -> Vec<Vec<Assumption>> {
        let mut cases = vec![Vec::new()];
        for assumption in &self.all {
            match assumption {
                Assumption::EqualOrOne(a, b) if 2 * cases.len() <= MAX_CASES => {
                    let one = Assumption::Equal(a.clone(), Term::constant(1));
                    let equal = Assumption::Equal(a.clone(), b.clone());
                    let both = |case: &Vec<Assumption>| {
                        [&one, &equal].map(|choice| {
                            let mut case = case.clone();
                            case.push(choice.clone());
                            case
                        })
                    };
                    cases = cases.iter().flat_map(both).collect();
                }
                Assumption::EqualOrOne(..) => {}
                other => cases.iter_mut().for_each(|case| case.push(other.clone())),
            }
        }
        cases
    }
}

/// The answer to whether two sizes are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Equality {
    /// For all values of their variables; a proof for each case.
    Yes(Vec<Proof>),
    /// The sizes differ for all values of their variables. Each case has a proof that the
    /// difference, which is the proof's term, is not zero.
    No(Vec<Proof>),
    /// Neither was proved. If it matters, it has to be checked at run time.
    Unknown,
}

impl Equality {
    /// Whether the sizes are proved equal.
    pub fn is_yes(&self) -> bool {
        matches!(self, Self::Yes(_))
    }

    /// Whether the sizes are proved to differ.
    pub fn is_no(&self) -> bool {
        matches!(self, Self::No(_))
    }
}

/// The assumptions contradict each other: no values satisfy them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the assumptions about the sizes contradict each other")]
pub struct Contradictory;

/// Decides whether two sizes are equal under the assumptions.
///
/// # Errors
/// The assumptions contradict each other.
pub fn same_dim(a: &Term, b: &Term, assumptions: &Assumptions) -> Result<Equality, Contradictory> {
    let mut proofs = Vec::new();
    let (mut all_equal, mut all_differ) = (true, true);
    for case in assumptions.cases() {
        let Some(proof) = difference(a, b, &assumptions.bounds, &case) else {
            continue;
        };
        all_equal &= proof.term.as_constant() == Some(0);
        all_differ &= !proof.range.contains(0) || !proof.residue.contains(0);
        proofs.push(proof);
    }
    match (proofs.is_empty(), all_equal, all_differ) {
        (true, ..) => Err(Contradictory),
        (_, true, _) => Ok(Equality::Yes(proofs)),
        (.., true) => Ok(Equality::No(proofs)),
        _ => Ok(Equality::Unknown),
    }
}

/// The simplest form of `a - b` in one case, with what is known about it; `None` if no values
/// satisfy the case.
fn difference(a: &Term, b: &Term, bounds: &[Interval], case: &[Assumption]) -> Option<Proof> {
    let mut map = IndexingMap {
        dims: bounds.iter().map(|&range| Variable::new(range)).collect(),
        results: vec![a.clone(), b.clone()],
        ..IndexingMap::default()
    };
    let mut equalities = Vec::new();
    for assumption in case {
        match assumption {
            Assumption::In(term, range) => map.constrain(term.clone(), *range),
            Assumption::Multiple(term, of) => {
                map.constrain(term.modulo(&Term::constant(*of)), Interval::point(0));
            }
            Assumption::Equal(x, y) => equalities.push(x.sub(y)),
            Assumption::EqualOrOne(..) => {}
        }
    }
    substitute_all(&mut map, equalities)?;
    let mut simplifier = Simplifier::new().explaining();
    let (simple, report) = simplifier.simplify_with_report(&map);
    let (steps, term, bounds) = match (simple.results.as_slice(), map.results.as_slice()) {
        ([x, y], [a, b]) if x == y => match a == b {
            true => (Vec::new(), Term::constant(0), simple.bounds()),
            false => (report.steps, Term::constant(0), simple.bounds()),
        },
        (_, [a, b]) => {
            map.results = vec![a.sub(b)];
            let (simple, report) = simplifier.simplify_with_report(&map);
            let term = simple.results.first().cloned()?;
            (report.steps, term, simple.bounds())
        }
        _ => return None,
    };
    if simple.status == Status::Empty {
        return None;
    }
    let (range, residue) = facts_of(&term, bounds.as_slice());
    Some(Proof {
        steps,
        term,
        range,
        residue,
    })
}

/// Substitutes variables using terms that are known to be zero. A term that cannot be solved for a
/// variable becomes a constraint. `None` if a term cannot be zero.
fn substitute_all(map: &mut IndexingMap, mut zeros: Vec<Term>) -> Option<()> {
    while let Some(zero) = zeros.pop() {
        let bounds = map.bounds().to_vec();
        let zero = canonicalize(&zero, &bounds);
        if let Some(value) = zero.as_constant() {
            match value {
                0 => continue,
                _ => return None,
            }
        }
        let Some((var, value)) = solved(&zero) else {
            map.constrain(zero, Interval::point(0));
            continue;
        };
        let range = bounds.get(var.0 as usize).copied();
        let replace = |term: &Term| term.substitute(&mut |v| (v == var).then(|| value.clone()));
        zeros.iter_mut().for_each(|term| *term = replace(term));
        map.for_each_term(&mut |term| *term = replace(term));
        // The substituted term must stay within the variable's bounds.
        map.constrain(value.clone(), range.unwrap_or(Interval::FULL));
    }
    Some(())
}

/// Solves a linear term that is zero for one of its variables: returns the variable and its value.
fn solved(zero: &Term) -> Option<(Var, Term)> {
    let (terms, constant) = zero.as_linear()?;
    let alone = |var: Var| {
        let occurrences = terms.iter().filter(|(atom, _)| atom.mentions(var));
        occurrences.count() == 1
    };
    // The variable with the highest number is replaced: the names of inputs come first.
    let candidates = terms
        .iter()
        .filter_map(|(atom, factor)| Some((atom.as_var()?, *factor)));
    let (var, factor) = candidates
        .filter(|&(var, factor)| (factor == 1 || factor == -1) && alone(var))
        .max()?;
    let rest = terms.iter().filter(|(atom, _)| atom.as_var() != Some(var));
    let rest = rest.fold(Term::constant(constant), |sum, (atom, factor)| {
        sum.add(&atom.mul(&Term::constant(*factor)))
    });
    Some((var, if factor == 1 { rest.neg() } else { rest }))
}

/// What would also have to be assumed for two sizes to be equal: the fewest assumptions of the
/// forms "this variable is at least 1" and "this dividend is a multiple" that suffice, or else that
/// the sizes are equal.
pub fn missing(a: &Term, b: &Term, assumptions: &Assumptions) -> Vec<Assumption> {
    let mut candidates = Vec::new();
    for term in [a, b] {
        collect_candidates(term, &assumptions.bounds, &mut candidates);
    }
    let suffices = |more: &[Assumption]| {
        same_dim(a, b, &assumptions.with(more)).is_ok_and(|answer| answer.is_yes())
    };
    if !candidates.is_empty() && suffices(&candidates) {
        let mut position = 0;
        while position < candidates.len() {
            let mut fewer = candidates.clone();
            fewer.remove(position);
            match suffices(&fewer) {
                true => candidates = fewer,
                false => position += 1,
            }
        }
        return candidates;
    }
    vec![Assumption::Equal(a.clone(), b.clone())]
}

fn collect_candidates(term: &Term, bounds: &[Interval], found: &mut Vec<Assumption>) {
    let mut add = |assumption: Assumption| {
        if !found.contains(&assumption) {
            found.push(assumption);
        }
    };
    term.fold(&mut |term: &Term, _: &[()]| match term.node() {
        Node::Var(var) => {
            let range = bounds.get(var.0 as usize).copied();
            if range.is_none_or(|range| range.lower < 1) {
                add(Assumption::In(term.clone(), Interval::new(1, i64::MAX)));
            }
        }
        Node::FloorDiv(x, d) | Node::CeilDiv(x, d) | Node::Mod(x, d) => {
            if let Some(of) = d.as_constant().filter(|&of| of > 1) {
                add(Assumption::Multiple(x.clone(), of));
            }
        }
        _ => {}
    });
}

impl Proof {
    /// Whether the proof is trivial: both sides are the same term.
    pub fn is_immediate(&self) -> bool {
        self.steps.is_empty() && self.residue == Residue::point(0)
    }
}

/// The ranges of a module's symbols, as assumptions.
pub fn assumptions_of(module: &Module) -> Assumptions {
    let range = |symbol: &Symbol| Interval::new(symbol.lower, symbol.upper);
    Assumptions::new(module.symbols.iter().map(range).collect())
}

/// Discharges the guards of a module whose symbolic sizes are resolved. A guard that is proved is
/// removed, and one that never holds is an error; the others stay, to be checked at run time. Each
/// guard may rely on those before it, which are checked first at run time.
///
/// # Errors
/// Sizes that can never be as the program needs them, naming the instruction.
pub fn discharge_guards(module: &mut Module) -> Result<(), tegula_ir::Error> {
    let mut known = assumptions_of(module);
    let guards = std::mem::take(&mut module.sizes.guards);
    for (number, guard) in guards.into_iter().enumerate() {
        let is_large = guard.left.size().saturating_add(guard.right.size()) > MAX_GUARD;
        if guard.op != Cmp::Eq || number >= MAX_SETTLED || is_large {
            module.sizes.guards.push(guard);
            continue;
        }
        match same_dim(&guard.left, &guard.right, &known) {
            Ok(Equality::Yes(_)) => {}
            Ok(Equality::Unknown) => {
                known.assume(Assumption::Equal(guard.left.clone(), guard.right.clone()));
                module.sizes.guards.push(guard);
            }
            Ok(Equality::No(_)) | Err(Contradictory) => {
                let spell = |term: &Term| tegula_ir::display_term(term, &module.symbols);
                return Err(tegula_ir::Error::input(format!(
                    "{} must be equal, but are never: {} and {}",
                    guard.what,
                    spell(&guard.left),
                    spell(&guard.right)
                )));
            }
        }
    }
    Ok(())
}
