//! The simplifier.
//!
//! A map is simplified in this order:
//! 1. constraints go into normal form and narrow the variables' bounds
//!    ([`domain`]); small domains are enumerated exactly ([`exact`]);
//! 2. results take their canonical form over the narrowed bounds, under the
//!    constraints ([`tegula_expr::Canonicalizer`]);
//! 3. results that still divide are tested for being affine on the domain;
//! 4. what is left enters the e-graph ([`graph`]), with all other such terms of
//!    the session that range over the same domain, and the cheapest forms are
//!    extracted jointly.
//!
//! The meaning of a map is never touched: no point of the domain is lost or
//! added, and no result changes its value on any point.

mod domain;
mod exact;
mod program;

use tegula_expr::{Canonicalizer, Step, Term};

use crate::map::{IndexingMap, Status};
use domain::Domain;

/// Rounds of the whole pipeline on one map.
const MAX_ROUNDS: usize = 4;

/// Simplifies maps and terms, and remembers nothing that could change meaning.
#[derive(Debug, Default)]
pub struct Session {
    limits: Limits,
}

/// Bounds on the work of a session.
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

impl Session {
    /// A session that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A session with other bounds on its work.
    pub fn with_limits(limits: Limits) -> Self {
        Self { limits }
    }

    /// The map with the same value in its simplest form.
    pub fn simplify_map(&mut self, map: &IndexingMap) -> IndexingMap {
        if map.status != Status::Ok {
            return map.clone();
        }
        let mut map = map.clone();
        for _ in 0..MAX_ROUNDS {
            let before = map.clone();
            let mut domain = Domain::of(&map);
            if self.tighten(&mut domain).is_err() {
                return IndexingMap::empty();
            }
            for (variable, bounds) in map.variables_mut().zip(&domain.bounds) {
                variable.bounds = *bounds;
            }
            map.constraints = domain.constraints.clone();
            map.results = self.canonical_results(&map.results, &domain);
            if map == before {
                break;
            }
        }
        map
    }

    fn tighten(&mut self, domain: &mut Domain) -> Result<(), domain::Empty> {
        domain.tighten()?;
        while exact::tighten(domain, self.limits.enumeration)? {
            domain.tighten()?;
        }
        Ok(())
    }

    fn canonical_results(&self, results: &[Term], domain: &Domain) -> Vec<Term> {
        let mut canonicalizer = Canonicalizer::new(domain);
        for constraint in &domain.constraints {
            canonicalizer.assume(&constraint.term, constraint.interval);
        }
        results
            .iter()
            .map(|result| {
                let canonical = canonicalizer.canonicalize(result);
                if canonical.is_affine() {
                    return canonical;
                }
                let affine = exact::affine_form(&canonical, domain, self.limits.enumeration);
                affine.map_or(canonical, |affine| canonicalizer.canonicalize(&affine))
            })
            .collect()
    }
}

#[allow(dead_code, reason = "explanations use it")]
type Steps = Vec<Step>;
