//! What a simplifier remembers about domains.
//!
//! Maps share terms only through the same variables, and two variables are the same
//! only if they are of one domain: one list of bounds, remainders and constraints.
//! So everything that is remembered of terms lies with their domain: canonical
//! forms, intervals, and the e-graph. Not even constants are common to two graphs: a
//! domain without a point that nobody noticed may make two numbers one class, and
//! that must stay where it is true.

use rustc_hash::FxHashMap;
use tegula_expr::{CanonCache, Canonicalizer, Term};

use super::domain::Domain;
use super::report::StopReason;

/// Domains that are remembered; the oldest goes.
const MAX_DOMAINS: usize = 8;
/// Terms of one domain beyond which its memory starts anew.
const MAX_TERMS: usize = 1 << 14;

/// What the e-graph found for canonical terms that keep divisions and the like: the
/// simpler form, if there is one.
pub(super) type Searched = FxHashMap<Term, (StopReason, Option<Term>)>;

/// A domain, and what is known of terms over it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) domain: Domain,
    /// Of canonical forms, under the domain's constraints.
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

/// The domains of the maps that were simplified last.
#[derive(Debug, Default)]
pub(super) struct Domains(Vec<Known>);

impl Domains {
    /// What is known of the domain; at first nothing but its constraints.
    pub(super) fn get(&mut self, domain: Domain) -> &mut Known {
        // Few, and the last one is usually the right one.
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
