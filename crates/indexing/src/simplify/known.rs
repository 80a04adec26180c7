//! What a simplifier caches about domains.
//!
//! Maps share terms only through the same variables, and two variables are the same only in the
//! same domain: the same list of bounds, residues and constraints. So everything that is cached
//! about terms is stored with their domain: canonical forms, intervals, and the e-graph's results.
//! Not even constants are shared between two graphs: a domain that is empty without anyone having
//! noticed may put two numbers into one e-class, and that must not spread to other domains.

use rustc_hash::FxHashMap;
use tegula_expr::{CanonCache, Canonicalizer, Term};

use super::domain::Domain;
use super::report::StopReason;

/// The most domains that are cached; the oldest is evicted.
const MAX_DOMAINS: usize = 8;
/// The most terms of one domain; beyond that its cache is cleared.
const MAX_TERMS: usize = 1 << 14;

/// What the e-graph found for canonical terms that still contain divisions and the like: a simpler
/// form, if there is one.
pub(super) type Searched = FxHashMap<Term, (StopReason, Option<Term>)>;

/// A domain, with what is known about terms over it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) domain: Domain,
    /// A cache of canonical forms under the domain's constraints.
    pub(super) memory: CanonCache,
    pub(super) searched: Searched,
}

impl Known {
    fn new(domain: Domain) -> Self {
        let memory = assuming(&domain);
        Self {
            domain,
            memory,
            searched: Searched::default(),
        }
    }
}

fn assuming(domain: &Domain) -> CanonCache {
    let mut canonicalizer = Canonicalizer::new(domain);
    for constraint in &domain.constraints {
        canonicalizer.assume(&constraint.term, constraint.interval);
    }
    canonicalizer.into_memory()
}

/// The domains of the maps that were simplified most recently.
#[derive(Debug, Default)]
pub(super) struct Domains(Vec<Known>);

impl Domains {
    /// The cache of the domain; if it is new, it contains only its constraints.
    pub(super) fn get(&mut self, domain: Domain) -> &mut Known {
        // There are few, and the last one is usually the right one.
        let known = self.0.iter().rposition(|known| known.domain == domain);
        if let Some(position) = known {
            let known = self.0.remove(position);
            self.0.push(known);
        } else {
            if self.0.len() >= MAX_DOMAINS {
                self.0.remove(0);
            }
            self.0.push(Known::new(domain));
        }
        let last = self.0.len() - 1;
        let known = &mut self.0[last];
        if known.memory.len() > MAX_TERMS {
            known.memory = assuming(&known.domain);
        }
        known
    }
}
