//! Tests terms that are simplified together: they keep their values, never cost more, and common
//! subterms are computed once.

use crate::common::{Random, cases, random_map};
use tegula_expr::{Interval, Term, Var, canonicalize, parse};
use tegula_indexing::{Simplifier, address_cost};

fn terms(texts: &[&str]) -> Vec<Term> {
    let names = |name: &str| name.strip_prefix('d')?.parse().ok().map(Var);
    texts
        .iter()
        .map(|text| parse(text, &names).expect(text))
        .collect()
}

/// Costs before (each term canonical on its own) and after.
fn costs(texts: &[&str], bounds: &[Interval]) -> (u64, u64) {
    let terms = terms(texts);
    let alone: Vec<Term> = terms
        .iter()
        .map(|term| canonicalize(term, bounds))
        .collect();
    let together = Simplifier::new().simplify_terms(&terms, bounds);
    println!("{texts:?}\n  {alone:?}\n  {together:?}");
    (address_cost(&alone), address_cost(&together))
}

#[test]
fn quotients_and_remainders_share() {
    let (before, after) = costs(&["d0 floordiv 10", "d0 mod 10"], &[Interval::of_size(1000)]);
    assert!(after < before, "{after} of {before}");
    let (before, after) = costs(
        &["d0 floordiv 35", "(d0 floordiv 7) mod 5", "d0 mod 7"],
        &[Interval::of_size(10_000)],
    );
    assert!(after < before, "{after} of {before}");
    let (before, after) = costs(
        &[
            "d0 * 512 + d1 * 24 + d2",
            "d0 * 512 + d1 * 24 + d2 + 1",
            "d0 * 512 + d1 * 24 + 7",
        ],
        &[Interval::of_size(100); 3],
    );
    assert!(after <= before, "{after} of {before}");
    let (before, after) = costs(
        &[
            "(d0 * 60 + d1) floordiv 7 * 9 + d2",
            "(d0 * 60 + d1) mod 7",
            "((d0 * 60 + d1) floordiv 7) mod 3",
        ],
        &[Interval::of_size(100); 3],
    );
    assert!(after < before, "{after} of {before}");
}

#[test]
fn values_are_kept_and_costs_never_rise() {
    let (mut before, mut after) = (0, 0);
    for case in 0..cases(2_000) {
        let mut random = Random(case ^ 0x77);
        let map = random_map(random.next(), 7, false);
        let other = random_map(random.next(), 7, false);
        let mut all = map.results.clone();
        if other.variable_count() <= map.variable_count() {
            all.extend(other.results.iter().cloned());
        }
        let bounds = map.bounds();
        let alone: Vec<Term> = all
            .iter()
            .map(|term| canonicalize(term, bounds.as_slice()))
            .collect();
        let together = Simplifier::new().simplify_terms(&all, &bounds);
        before += address_cost(&alone);
        after += address_cost(&together);
        assert!(
            address_cost(&together) <= address_cost(&alone),
            "case {case}"
        );
        let mut box_map = map.clone();
        box_map.results = all.clone();
        let mut simple_map = map.clone();
        simple_map.results.clone_from(&together);
        assert_eq!(
            box_map.enumerate(10_000),
            simple_map.enumerate(10_000),
            "case {case}: {all:?} became {together:?} over {bounds:?}"
        );
    }
    println!("address cost: {before} alone, {after} together");
    assert!(after < before);
}
