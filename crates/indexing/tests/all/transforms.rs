//! Tests that inverted and rewritten maps are the expected relations.

use crate::common::proof::simplified;
use std::collections::BTreeSet;

use crate::common::{Random, cases, random_map};
use tegula_indexing::{IndexingMap, Simplifier};

fn turned(map: &IndexingMap) -> BTreeSet<(Vec<i64>, Vec<i64>)> {
    let accesses = map.accesses(100_000).expect("small");
    accesses.into_iter().map(|(from, to)| (to, from)).collect()
}

#[test]
fn inverses_of_random_maps_are_exact() {
    let mut solved = 0;
    for case in 0..cases(2_000) {
        let map = random_map(case, 5, case % 2 == 1);
        if map.enumerate(1_000).is_none() {
            continue;
        }
        let inverse = map.inverse();
        let simple = simplified(&inverse);
        for inverse in [&inverse, &simple] {
            let Some(found) = inverse.accesses(200_000) else {
                continue;
            };
            assert_eq!(found, turned(&map), "case {case}: {map}\n{inverse}");
        }
        solved += u32::from(inverse.ranges.is_empty());
    }
    assert!(solved > 0);
}

#[test]
fn what_results_determine_becomes_a_term() {
    for (map, expected) in [
        (
            "(d0, d1, d2) -> (d0 * 2 + d1 / 2, d2 + (d1 mod 2) * 4), domain: d0 in [0, 1], d1 in [0, 3], d2 in [0, 3]",
            "(d0, d1)",
        ),
        (
            "(d0) -> (d0 / 12, (d0 / 4) mod 3, d0 mod 4), domain: d0 in [0, 35]",
            "(d0 * 12 + d1 * 4 + d2)",
        ),
        (
            "(d0, d1) -> (-d0 + 9, d1 * 3 + 1), domain: d0 in [0, 9], d1 in [0, 4]",
            "(-d0 + 9, (d1 - 1) / 3)",
        ),
        (
            "(d0)[s0] -> (s0, d0), domain: d0 in [0, 9], s0 in [0, 255]",
            "(d1)",
        ),
    ] {
        let map: IndexingMap = map.parse().expect("a map");
        let inverse = simplified(&map.inverse());
        assert_eq!(inverse.accesses(100_000), Some(turned(&map)));
        if !expected.contains("d0, d1)") {
            assert!(inverse.ranges.is_empty(), "{inverse}");
            assert!(inverse.to_string().contains(expected), "{inverse}");
        }
    }
}

#[test]
fn rescaled_ranges_reach_the_same() {
    for case in 0..cases(300) {
        let mut random = Random(case);
        let (modulus, low) = (random.range(2, 5), random.range(-6, 6));
        let text = format!(
            "(d0)[s0, s1] -> (s0 * 3 + d0, s1), domain: d0 in [0, 3], s0 in [{low}, {}], s1 in [0, 4], s0 mod {modulus} in [{r}, {r}], s0 + s1 in [0, 8]",
            low + random.range(0, 12),
            r = random.range(0, modulus - 1),
        );
        let map: IndexingMap = text.parse().expect("a map");
        let mut rescaled = map.clone();
        rescaled.rescale_ranges();
        let count = |map: &IndexingMap| map.constraints.len();
        assert!(rescaled.is_empty() || count(&rescaled) < count(&map));
        assert_eq!(
            rescaled.same_value(&map, 10_000),
            Some(true),
            "{map}\n{rescaled}"
        );
    }
}

#[test]
fn dimensions_of_one_value_are_kept_on_request() {
    let map: IndexingMap = "(d0, d1) -> (d0 + d1, d0 * 4), domain: d0 in [0, 0], d1 in [0, 9]"
        .parse()
        .expect("a map");
    let mut simplifier = Simplifier::new();
    let replaced = simplifier.simplify_map(&map).to_string();
    assert_eq!(
        replaced,
        "(d0, d1) -> (d1, 0), domain: d0 in [0, 0], d1 in [0, 9]"
    );
    let kept = simplifier.simplify_preserving_points(&map).to_string();
    assert_eq!(
        kept,
        "(d0, d1) -> (d0 + d1, d0 * 4), domain: d0 in [0, 0], d1 in [0, 9]"
    );
}
