//! Tests that sharing a simplifier changes no result: the maps of one fused graph, over one domain
//! and over several, in any order, alone and together.

use crate::common::{Random, cases, random_map};
use tegula_expr::{Interval, Term};
use tegula_indexing::{IndexingMap, Simplifier};

/// Maps over one domain whose results have subterms in common.
fn group(case: u64) -> Vec<IndexingMap> {
    let map = random_map(case, 7, case % 2 == 1);
    let mut random = Random(case ^ 0x5E55);
    let mut terms = map.results.clone();
    for other in 0..3u64 {
        let other = random_map(case.wrapping_add(other << 40), 7, false);
        if other.variable_count() <= map.variable_count() {
            terms.extend(other.results);
        }
    }
    let mut any = || {
        let position = random.range(0, terms.len() as i64 - 1);
        terms[usize::try_from(position).expect("a place")].clone()
    };
    let with = |results: Vec<Term>| IndexingMap {
        results,
        ..map.clone()
    };
    let mut maps: Vec<IndexingMap> = Vec::new();
    for _ in 0..6 {
        maps.push(with(vec![any().add(&any()), any()]));
    }
    // A nearly equal domain: what holds on the first need not hold on it.
    let mut wider = maps[0].clone();
    if let Some(dim) = wider.dims.first_mut() {
        dim.bounds = Interval::new(dim.bounds.lower, dim.bounds.upper + 9);
    }
    let mut narrower = maps[0].clone();
    let first = narrower.dim(0);
    narrower.constrain(first, Interval::new(1, 2));
    // An empty domain, on which everything is true.
    let mut nowhere = maps[1].clone();
    let (first, last) = (nowhere.dim(0), nowhere.results[0].clone());
    nowhere.constrain(first.add(&last).modulo(&4.into()), Interval::point(1));
    nowhere.constrain(first.add(&last).modulo(&8.into()), Interval::point(2));
    maps.insert(3, wider);
    maps.insert(1, narrower);
    maps.insert(2, nowhere);
    maps
}

#[test]
fn neighbours_change_no_result() {
    for case in 0..cases(600) {
        let maps = group(case);
        let alone: Vec<IndexingMap> = maps
            .iter()
            .map(|map| Simplifier::new().simplify_map(map))
            .collect();
        let mut simplifier = Simplifier::new();
        for (map, alone) in maps.iter().zip(&alone) {
            let together = simplifier.simplify_map(map);
            assert_eq!(together, *alone, "case {case}: {map}");
            assert_eq!(
                together.same_value(map, 20_000),
                Some(true),
                "case {case}: {map}"
            );
        }
        let mut simplifier = Simplifier::new();
        for (map, alone) in maps.iter().zip(&alone).rev() {
            assert_eq!(
                simplifier.simplify_map(map),
                *alone,
                "case {case}: {map}, the other way"
            );
        }
    }
}
