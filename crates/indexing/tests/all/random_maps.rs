//! Tests random maps by brute force: simplification loses and adds no point and changes no value.
//! Also measures how close it comes to the best form.

use crate::common::proof::{prove, simplified};
use crate::common::{cases, hull, is_affine, random_map};
use tegula_indexing::{IndexingMap, Limits, Simplifier, Status, check_same};

const LIMIT: usize = 40_000;

/// Simplifies and compares on every point.
fn checked(map: &IndexingMap, limits: Limits, case: u64) -> Option<IndexingMap> {
    let points = map.enumerate(LIMIT)?;
    let simple = Simplifier::with_limits(limits).simplify_map(map);
    // In long sweeps only some explanations are checked, otherwise all.
    if case < 5_000 || case.is_multiple_of(16) {
        prove(map, &simple, limits);
    }
    if simple.status == Status::Empty {
        assert!(points.is_empty(), "case {case}: {map}\n is not empty");
        return Some(simple);
    }
    assert_eq!(simple.variable_count(), map.variable_count());
    let after = simple.enumerate(LIMIT).unwrap_or_default();
    let lost = points.iter().find(|point| !after.contains(point));
    assert!(
        lost.is_none() && after.len() == points.len(),
        "case {case}: {map}\nbecame {simple}\nlost or changed {lost:?}, {} of {} points",
        after.len(),
        points.len()
    );
    let again = Simplifier::with_limits(limits).simplify_map(&simple);
    assert_eq!(simple, again, "case {case}: simplified twice");
    Some(simple)
}

#[derive(Default, Debug)]
struct Measures {
    affine: u32,
    affine_left: u32,
    empty: u32,
    empty_missed: u32,
    constrained: u32,
    loose: u32,
}

fn percent(part: u32, whole: u32) -> f64 {
    100.0 * f64::from(part) / f64::from(whole.max(1))
}

fn measure(total: u64, most: i64, limits: Limits, name: &str) -> Measures {
    let mut m = Measures::default();
    for case in 0..total {
        let map = random_map(case, most, case % 2 == 1);
        let Some(points) = map.enumerate(LIMIT) else {
            continue;
        };
        let Some(simple) = checked(&map, limits, case) else {
            continue;
        };
        let vars = map.variable_count();
        if points.is_empty() {
            m.empty += 1;
            if !simple.is_empty() {
                m.empty_missed += 1;
                println!("empty missed {case}: {map}\n  {simple}");
            }
            continue;
        }
        if (0..map.results.len()).all(|result| is_affine(&points, result, vars)) {
            m.affine += 1;
            if !simple.is_affine() {
                m.affine_left += 1;
                if m.affine_left < 12 {
                    println!("affine left {case}: {map}\n  {simple}");
                }
            }
        }
        if !map.constraints.is_empty() {
            m.constrained += 1;
            if hull(&points, vars) != simple.bounds().to_vec() {
                m.loose += 1;
                if m.loose < 6 {
                    println!(
                        "loose {case}: {map}\n  {simple}\n {:?}",
                        hull(&points, vars)
                    );
                }
            }
        }
    }
    println!(
        "{name}: affine left {:.2} % of {}, empties missed {} of {}, loose bounds {:.2} % of {}",
        percent(m.affine_left, m.affine),
        m.affine,
        m.empty_missed,
        m.empty,
        percent(m.loose, m.constrained),
        m.constrained
    );
    m
}

#[test]
fn the_checker_agrees_and_sees_differences() {
    for case in 0..cases(1_000) {
        let map = random_map(case, 8, true);
        let simple = Simplifier::new().simplify_map(&map);
        let all =
            check_same(&map, &simple, LIMIT).unwrap_or_else(|e| panic!("{map}\n{simple}\n{e}"));
        assert!(all.exhaustive);
        check_same(&map, &simple, 20).unwrap_or_else(|e| panic!("{map}\n{simple}\n{e}"));
        let mut wrong = map.clone();
        if let Some(result) = wrong.results.first_mut() {
            *result = result.add(&1.into());
        }
        let has_points = map
            .enumerate(LIMIT)
            .is_some_and(|points| !points.is_empty());
        assert_eq!(check_same(&map, &wrong, LIMIT).is_err(), has_points);
    }
}

#[test]
fn precision_with_enumeration() {
    let m = measure(cases(4_000), 10, Limits::default(), "with enumeration");
    assert!(percent(m.affine_left, m.affine) <= 0.2, "{m:?}");
    assert_eq!(m.empty_missed, 0);
    assert!(percent(m.loose, m.constrained) <= 0.2, "{m:?}");
}

#[test]
fn precision_by_rules_alone() {
    let limits = Limits {
        enumeration: 0,
        ..Limits::default()
    };
    let m = measure(cases(2_000), 10, limits, "rules alone");
    assert!(percent(m.affine_left, m.affine) <= 1.0, "{m:?}");
    assert!(percent(m.empty_missed, m.empty) <= 0.1, "{m:?}");
    assert!(percent(m.loose, m.constrained) <= 1.0, "{m:?}");
}

#[test]
fn large_domains_by_sampling() {
    for case in 0..cases(1_500) {
        let mut map = random_map(case ^ 0x1111, 8, true);
        let mut random = crate::common::Random(case);
        for variable in map.variables_mut() {
            let scale =
                [1, 1_000, 1 << 30, 1 << 45][usize::try_from(random.range(0, 3)).unwrap_or(0)];
            variable.bounds.upper = variable.bounds.upper.max(1) * scale;
        }
        for constraint in &mut map.constraints {
            constraint.interval.upper = constraint.interval.upper.max(1) * (1 << 20);
        }
        let simple = simplified(&map);
        check_same(&map, &simple, 300)
            .unwrap_or_else(|e| panic!("case {case}: {map}\n{simple}\n{e}"));
    }
}

#[test]
fn huge_maps_take_no_huge_time() {
    let names: Vec<String> = (0..600).map(|n| format!("d{n}")).collect();
    let bounds: Vec<String> = names
        .iter()
        .map(|name| format!("{name} in [0, 9999]"))
        .collect();
    let sum = |f: &dyn Fn(&String) -> String| names.iter().map(f).collect::<Vec<_>>().join(" + ");
    for result in [
        sum(&|name| format!("{name} mod 7")),
        sum(&|name| format!("({name} / 3) * 5")),
        format!("({}) mod 12", sum(&|name| format!("{name} * 3"))),
    ] {
        let constraints: Vec<String> = names
            .windows(2)
            .map(|two| format!("{} + {} in [3, 1000]", two[0], two[1]))
            .collect();
        for constraints in [&[][..], &constraints, &[format!("{result} in [5, 500]")]] {
            let items: Vec<&str> = bounds
                .iter()
                .chain(constraints)
                .map(String::as_str)
                .collect();
            let text = format!(
                "({}) -> ({result}), domain: {}",
                names.join(", "),
                items.join(", ")
            );
            let map: IndexingMap = text.parse().expect("a map");
            Simplifier::new().simplify_map(&map);
        }
    }
}
