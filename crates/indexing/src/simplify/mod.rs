//! The simplifier of maps and terms.
//!
//! A map is simplified in this order:
//! 1. constraints are normalised, and narrow the variables' bounds ([`domain`]); small domains are
//!    enumerated exactly ([`exact`]);
//! 2. results are brought into canonical form over the narrowed bounds, under the constraints
//!    ([`tegula_expr::Canonicalizer`]);
//! 3. results that still contain divisions are tested for being affine on the domain;
//! 4. the rest is inserted into an e-graph ([`graph`]), whose cheapest form is taken if it contains
//!    fewer divisions.
//!
//! What was found about a domain is cached for all maps over it ([`known`]). Terms that will be
//! computed together share one e-graph, and their cheapest forms are extracted jointly
//! ([`Simplifier::simplify_terms`]).
//!
//! The meaning of a map never changes: no point of the domain is lost or added, and no result
//! changes its value at any point.

mod domain;
mod exact;
mod graph;
mod known;
mod program;
mod report;

use rustc_hash::FxHashMap;
use tegula_expr::{Canonicalizer, Interval, Term, VarRanges};

use crate::map::{Constraint, IndexingMap, Status};
use domain::Domain;
use graph::Graph;
pub use graph::address_cost;
use known::{Domains, Known, Searched};
pub use report::{Explained, Narrowed, RULES, Report, Rule, StopReason};

/// The most rounds of the whole pipeline on one map.
const MAX_ROUNDS: usize = 4;

/// If the results have more nodes together, the e-graph is not used: such a large map is canonical
/// already or has no short form.
const MAX_SEARCHED: u32 = 150;

/// Simplifies the maps and terms of one fused graph.
///
/// A simplifier caches results and, for each domain, what it found about terms: canonical forms,
/// intervals, and the e-graph's results. All of it is valid for every map over that domain, so a
/// result depends on its map alone, and not on what else the simplifier has cached. Terms of
/// different domains do not interact.
#[derive(Debug, Default)]
pub struct Simplifier {
    limits: Limits,
    explain: bool,
    maps: FxHashMap<IndexingMap, IndexingMap>,
    /// What is known about each domain. Maps share terms only through these.
    domains: Domains,
    /// The steps that led to each simplified map, if explanations are kept.
    derivations: FxHashMap<IndexingMap, Vec<Explained>>,
}

/// Bounds on the work of a simplifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most operations that one enumeration of a small domain may execute.
    pub enumeration: u64,
    /// The most nodes of one e-graph.
    pub nodes: usize,
    /// The most rounds of applying the rules in one e-graph.
    pub rounds: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            enumeration: 1 << 16,
            nodes: 2_000,
            rounds: 6,
        }
    }
}

impl Simplifier {
    /// A simplifier with an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// A simplifier with the given bounds on its work.
    pub fn with_limits(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Makes the simplifier record the rewrites in its reports from now on.
    #[must_use]
    pub fn explaining(mut self) -> Self {
        self.explain = true;
        self
    }

    /// The simplest form of a map, with the same value.
    ///
    /// Every variable is kept; see [`IndexingMap::remove_unused_variables`].
    pub fn simplify_map(&mut self, map: &IndexingMap) -> IndexingMap {
        if let Some(known) = self.maps.get(map) {
            return known.clone();
        }
        let (simple, report) = self.simplify_with_report(map);
        if self.explain && !report.steps.is_empty() {
            self.derivations.insert(simple.clone(), report.steps);
        }
        self.maps.insert(map.clone(), simple.clone());
        simple
    }

    /// Records that `map` is `from` with its variables renumbered.
    pub(crate) fn renumbered(&mut self, from: &IndexingMap, map: &IndexingMap) {
        if from != map
            && let Some(steps) = self.derivations.get(from).cloned()
        {
            self.derivations.entry(map.clone()).or_insert(steps);
        }
    }

    /// Like [`Simplifier::simplify_map`], but a dimension that has only one value keeps its
    /// variable in the results instead of being replaced by the value. This is for readers who want
    /// to see which dimension a result follows.
    pub fn simplify_preserving_points(&mut self, map: &IndexingMap) -> IndexingMap {
        let points: Vec<usize> = map
            .dims
            .iter()
            .enumerate()
            .filter(|(_, dim)| dim.bounds.as_point().is_some_and(|value| value < i64::MAX))
            .map(|(position, _)| position)
            .collect();
        let mut wider = map.clone();
        // What holds for two values holds for one of them.
        for position in &points {
            if let Some(dim) = wider.dims.get_mut(*position) {
                dim.bounds.upper += 1;
            }
        }
        let mut simple = self.simplify_map(&wider);
        let is_kept = simple.dims.len() == map.dims.len()
            && points.iter().all(|position| {
                simple.dims.get(*position).map(|dim| dim.bounds.lower)
                    == map.dims.get(*position).map(|dim| dim.bounds.lower)
            });
        if !is_kept {
            return self.simplify_map(map);
        }
        for position in points {
            if let (Some(dim), Some(own)) = (simple.dims.get_mut(position), map.dims.get(position))
            {
                dim.bounds = own.bounds;
            }
        }
        simple
    }

    /// Like [`Simplifier::simplify_map`]; also reports what it did.
    pub fn simplify_with_report(&mut self, map: &IndexingMap) -> (IndexingMap, Report) {
        let mut report = Report::default();
        if map.status != Status::Ok {
            return (map.clone(), report);
        }
        // The report includes the steps by which a composition was simplified before.
        report.steps = self.derivations.get(map).cloned().unwrap_or_default();
        let given = map;
        let mut map = map.clone();
        for _ in 0..MAX_ROUNDS {
            report.rounds += 1;
            let before = map.clone();
            let mut domain = Domain::of(&map);
            let wide = (domain.bounds.clone(), domain.constraints.clone());
            if self.tighten(&mut domain).is_err() {
                return (IndexingMap::empty(), report);
            }
            for (variable, bounds) in map.variables_mut().zip(&domain.bounds) {
                variable.bounds = *bounds;
            }
            map.constraints = domain.constraints.clone();
            let mut terms = std::mem::take(&mut map.results);
            terms.extend(map.participant.iter().map(|p| p.position.clone()));
            let is_same = wide.0 == domain.bounds && wide.1 == domain.constraints;
            let (terms_found, searched) = self.simplify_results(&terms, domain, &mut report);
            terms = terms_found;
            if let Some(participant) = &mut map.participant
                && let Some(position) = terms.pop()
            {
                participant.position = position;
            }
            map.results = terms;
            // Canonicalisation is idempotent, so only a change by the domain or the e-graph can
            // lead to further changes.
            if !searched && is_same || map == before {
                break;
            }
        }
        if self.explain {
            report.domain = Narrowed::between(given, &map);
        }
        (map, report)
    }

    /// The forms of several terms that are cheapest together: a common subterm is paid once.
    /// `bounds` are those of the variables, by number; the results agree with the terms wherever
    /// the variables are inside them.
    pub fn simplify_terms(&mut self, terms: &[Term], bounds: &[Interval]) -> Vec<Term> {
        let mut canonicalizer = Canonicalizer::new(bounds);
        let canonical: Vec<Term> = terms
            .iter()
            .map(|term| canonicalizer.canonicalize(term))
            .collect();
        let is_moderate = |term: &Term| is_moderate(term, &bounds);
        if canonical.iter().all(Term::is_affine)
            || !canonical.iter().all(is_moderate)
            || !graph::is_small(&canonical)
        {
            return canonical;
        }
        let count = u32::try_from(bounds.len()).unwrap_or(u32::MAX);
        let mut graph = Graph::new(&bounds, count, false);
        match graph.cheapest(&canonical, &self.limits).1 {
            Some(found) if address_cost(&found) < address_cost(&canonical) => found,
            _ => canonical,
        }
    }

    fn tighten(&mut self, domain: &mut Domain) -> Result<(), domain::Empty> {
        domain.tighten()?;
        // Each repetition narrows a bound or drops a constraint.
        while exact::tighten(domain, self.limits.enumeration)? {
            domain.tighten()?;
        }
        Ok(())
    }

    fn simplify_results(
        &mut self,
        results: &[Term],
        domain: Domain,
        report: &mut Report,
    ) -> (Vec<Term>, bool) {
        // Cached results come without steps, so they are not used for explanations.
        let mut alone = Domains::default();
        let domains = if self.explain {
            &mut alone
        } else {
            &mut self.domains
        };
        let Known {
            domain,
            memory,
            searched,
        } = domains.get(domain);
        let mut canonicalizer = Canonicalizer::resume(domain, std::mem::take(memory));
        if self.explain {
            canonicalizer.trace();
        }
        let (mut simple, fitted) = canonical(results, domain, &mut canonicalizer, &self.limits);
        let steps = canonicalizer.take_steps().into_iter().map(Explained::from);
        let mut steps: Vec<Explained> = steps.chain(fitted).collect();
        let searched = Search {
            limits: self.limits,
            explain: self.explain,
            domain,
        }
        .improve(&mut simple, searched, &mut canonicalizer, report);
        *memory = canonicalizer.into_memory();
        if self.explain {
            // The difference that remains is due to collecting terms and normalising the spelling.
            for (before, after) in results.iter().zip(&simple) {
                let is_told = steps
                    .iter()
                    .chain(&report.steps)
                    .any(|step| step.before == *before && step.after == *after);
                if before != after && !is_told {
                    steps.push(Explained {
                        rule: "linear-form",
                        condition: String::new(),
                        facts: Vec::new(),
                        before: before.clone(),
                        after: after.clone(),
                    });
                }
            }
            for step in steps {
                if !report.steps.contains(&step) {
                    report.steps.push(step);
                }
            }
        }
        (simple, searched)
    }
}

/// Brings each term into canonical form or, if the domain is small and all of its points agree with
/// one, into affine form. Also returns the steps that explain the affine forms.
fn canonical(
    results: &[Term],
    domain: &Domain,
    canonicalizer: &mut Canonicalizer<'_>,
    limits: &Limits,
) -> (Vec<Term>, Vec<Explained>) {
    let mut simple = Vec::with_capacity(results.len());
    let mut fitted = Vec::new();
    for result in results {
        let canonical = canonicalizer.canonicalize(result);
        let affine = if canonical.is_affine() {
            None
        } else {
            exact::affine_form(&canonical, domain, limits.enumeration)
        };
        let Some(affine) = affine else {
            simple.push(canonical);
            continue;
        };
        let affine = canonicalizer.canonicalize(&affine);
        fitted.push(Explained {
            rule: "affine-on-every-point",
            condition: "the domain was enumerated".into(),
            facts: Vec::new(),
            before: canonical,
            after: affine.clone(),
        });
        simple.push(affine);
    }
    (simple, fitted)
}

/// The e-graph search for the results of one map.
struct Search<'a> {
    limits: Limits,
    explain: bool,
    domain: &'a Domain,
}

impl Search<'_> {
    /// Replaces results that still contain divisions by what the e-graph finds, if that is simpler.
    /// Returns whether anything was replaced.
    fn improve(
        &self,
        results: &mut [Term],
        searched: &mut Searched,
        canonicalizer: &mut Canonicalizer<'_>,
        report: &mut Report,
    ) -> bool {
        if results.iter().all(Term::is_affine) {
            return false;
        }
        let constraints = || self.domain.constraints.iter().map(|c| &c.term);
        let size = |sum: u32, term: &Term| sum.saturating_add(term.size());
        let is_moderate = |term: &Term| is_moderate(term, self.domain);
        if results.iter().fold(0, size) > MAX_SEARCHED
            || !results.iter().chain(constraints()).all(is_moderate)
            || !graph::is_small(results.iter().chain(constraints()))
        {
            report.stop = StopReason::TooLarge;
            return false;
        }
        let limits = Limits {
            nodes: self.limits.nodes / 8,
            rounds: self.limits.rounds / 2,
            ..self.limits
        };
        let mut used = false;
        for result in results.iter_mut().filter(|result| !result.is_affine()) {
            if let Some((stop, known)) = searched.get(result) {
                report.stop = *stop;
                if let Some(known) = known {
                    *result = known.clone();
                    used = true;
                }
                continue;
            }
            let mut graph = self.new_graph();
            let (stop, found) = graph.cheapest(std::slice::from_ref(result), &limits);
            report.stop = stop;
            // Extraction minimises machine operations, but readers want sums multiplied out. So the
            // result is canonicalised again, which leaves only its fewer divisions.
            let found = found
                .and_then(|found| found.into_iter().next())
                .map(|found| canonicalizer.canonicalize(&found))
                .filter(|found| simplicity(found) < simplicity(result));
            searched.insert(result.clone(), (stop, found.clone()));
            if let Some(found) = found {
                *result = found;
                used = true;
                if self.explain {
                    report.steps.extend(graph.explain());
                }
            }
        }
        used
    }

    fn new_graph(&self) -> Graph {
        let count = u32::try_from(self.domain.bounds.len()).unwrap_or(u32::MAX);
        let mut graph = Graph::new(self.domain, count, self.explain);
        for constraint in &self.domain.constraints {
            graph.assume(constraint);
        }
        graph
    }
}

/// What is known about the variables on the domain of a map; `None` if the domain is empty.
pub(crate) fn refined(map: &IndexingMap) -> Option<impl VarRanges + use<>> {
    let mut domain = Domain::of(map);
    domain.tighten().ok()?;
    Some(domain)
}

/// The largest magnitude that any subterm can have.
fn magnitude(term: &Term, ranges: &dyn VarRanges) -> u128 {
    use tegula_expr::Node;
    term.fold(&mut |term: &Term, parts: &[u128]| match term.node() {
        Node::Const(value) => value.unsigned_abs().into(),
        Node::Var(var) => {
            let range = ranges.range(*var);
            range
                .lower
                .unsigned_abs()
                .max(range.upper.unsigned_abs())
                .into()
        }
        Node::Add(..) => parts.iter().fold(0, |sum, part| sum.saturating_add(*part)),
        Node::Mul(..) => parts
            .iter()
            .fold(1, |product, part| product.saturating_mul(*part)),
        _ => parts.iter().copied().max().unwrap_or(0),
    })
}

/// Whether all subterms stay well inside `i64`.
fn is_moderate(term: &Term, ranges: &dyn VarRanges) -> bool {
    magnitude(term, ranges) < 1 << 62
}

/// How simple a term is to read and reason about: first by the number of divisions and the like,
/// then by size.
fn simplicity(term: &Term) -> (u32, u32) {
    let hard = term.fold(&mut |term: &Term, children: &[u32]| {
        let own = match term.node() {
            tegula_expr::Node::Const(_)
            | tegula_expr::Node::Var(_)
            | tegula_expr::Node::Add(..) => 0,
            tegula_expr::Node::Mul(_, factor) if factor.as_constant().is_some() => 0,
            _ => 1u32,
        };
        children
            .iter()
            .fold(own, |sum, child| sum.saturating_add(*child))
    });
    (hard, term.size())
}
