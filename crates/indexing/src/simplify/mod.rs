//! The simplifier.
//!
//! A map is simplified in this order:
//! 1. constraints go into normal form and narrow the variables' bounds
//!    ([`domain`]); small domains are enumerated exactly ([`exact`]);
//! 2. results take their canonical form over the narrowed bounds, under the
//!    constraints ([`tegula_expr::Canonicalizer`]);
//! 3. results that still divide are tested for being affine on the domain;
//! 4. what is left enters an e-graph of its own ([`graph`]), whose cheapest form is
//!    taken where it divides less.
//!
//! What was found of a domain is remembered with it ([`known`]), for all maps of the
//! simplifier. Terms that are to be computed together share one e-graph, and their
//! cheapest forms are extracted jointly ([`Simplifier::simplify_terms`]).
//!
//! The meaning of a map is never touched: no point of the domain is lost or
//! added, and no result changes its value on any point.

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

/// Rounds of the whole pipeline on one map.
const MAX_ROUNDS: usize = 4;

/// Nodes of all results beyond which the e-graph is not asked: so large a map is
/// canonical already or has no short form.
const MAX_SEARCHED: u32 = 150;

/// Simplifies the maps and terms of one fused graph.
///
/// A simplifier remembers results, and by domain what it found of terms: canonical
/// forms, intervals, what the e-graph made of them. That is worth the same in every
/// map over the domain, so a result depends on its map alone, whatever else the
/// simplifier holds. Terms of different domains never meet.
#[derive(Debug, Default)]
pub struct Simplifier {
    limits: Limits,
    explain: bool,
    maps: FxHashMap<IndexingMap, IndexingMap>,
    /// What is known of each domain: maps share terms through these alone.
    domains: Domains,
    /// How maps that were made came about, if explanations are kept.
    derivations: FxHashMap<IndexingMap, Vec<Explained>>,
}

/// Bounds on the work of a simplifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Operations that one enumeration of a small domain may execute.
    pub enumeration: u64,
    /// Nodes that one e-graph may hold.
    pub nodes: usize,
    /// Rounds of rules in one e-graph.
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
    /// A simplifier that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A simplifier with other bounds on its work.
    pub fn with_limits(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Keeps the steps of what is simplified from now on in the reports.
    #[must_use]
    pub fn explaining(mut self) -> Self {
        self.explain = true;
        self
    }

    /// The map with the same value in its simplest form.
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

    /// Says that `map` is `from` under another numbering of its variables.
    pub(crate) fn renumbered(&mut self, from: &IndexingMap, map: &IndexingMap) {
        if from != map
            && let Some(steps) = self.derivations.get(from).cloned()
        {
            self.derivations.entry(map.clone()).or_insert(steps);
        }
    }

    /// As [`Simplifier::simplify_map`], but a dimension that has one value keeps its
    /// variable in the results instead of becoming that value: for a reader that
    /// wants to see which dimension a result follows.
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

    /// As [`Simplifier::simplify_map`], and what it did.
    pub fn simplify_with_report(&mut self, map: &IndexingMap) -> (IndexingMap, Report) {
        let mut report = Report::default();
        if map.status != Status::Ok {
            return (map.clone(), report);
        }
        // A composition that was simplified before keeps the steps it took.
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
            // The canonical form of a canonical form is itself: only what the domain
            // or the e-graph changed can lead on.
            if !searched && is_same || map == before {
                break;
            }
        }
        if self.explain {
            report.domain = Narrowed::between(given, &map);
        }
        (map, report)
    }

    /// The terms in their cheapest form, jointly: a subterm that several terms
    /// share is paid once. `bounds` are those of the variables by number; the
    /// result agrees with the terms wherever the variables are inside them.
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
        // What is remembered has no steps.
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
            // What is left between the steps is collecting and spelling.
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

/// The canonical forms, or affine ones where all points of a small domain allow
/// them; and the steps that found the latter.
fn canonical(
    results: &[Term],
    domain: &Domain,
    canonicalizer: &mut Canonicalizer<'_, Domain>,
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

/// The e-graph's part in simplifying the results of one map.
struct Search<'a> {
    limits: Limits,
    explain: bool,
    domain: &'a Domain,
}

impl Search<'_> {
    /// Replaces results that still divide by what the e-graph finds, where that
    /// is shorter. Gives whether it did.
    fn improve(
        &self,
        results: &mut [Term],
        searched: &mut Searched,
        canonicalizer: &mut Canonicalizer<'_, Domain>,
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
            // Extraction weighs machine operations; readers want sums multiplied
            // out, so only its divisions are taken.
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

/// What is known of the variables on the domain of a map; `None` if it has no
/// point.
pub(crate) fn refined(map: &IndexingMap) -> Option<impl VarRanges + use<>> {
    let mut domain = Domain::of(map);
    domain.tighten().ok()?;
    Some(domain)
}

/// The largest magnitude that any part of the term can take.
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

/// Whether no part of the term can leave `i64`, nor come near.
fn is_moderate(term: &Term, ranges: &dyn VarRanges) -> bool {
    magnitude(term, ranges) < 1 << 62
}

/// How simple a term is to read and to reason about: divisions and the like
/// first, then size.
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
