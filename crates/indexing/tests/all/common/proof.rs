//! Checks explanations: the rules that led to a simplified map are replayed and checked.

use std::collections::BTreeSet;

use tegula_expr::{Interval, Node, Term, Var};
use tegula_indexing::{Explained, IndexingMap, Limits, Point, RULES, Simplifier, Status};

use super::Random;

/// The most points of a domain at which steps are evaluated.
const POINTS: usize = 2_000;
/// The number of points sampled from a larger domain.
const SAMPLES: usize = 150;

/// Simplifies in a new simplifier, and checks the explanation.
pub(crate) fn simplified(map: &IndexingMap) -> IndexingMap {
    let simple = Simplifier::new().simplify_map(map);
    prove(map, &simple, Limits::default());
    simple
}

/// Replays how `simple` was derived. Checks that every step is a listed rule, that both of its
/// sides are equal and its facts hold wherever the map is defined, that the facts alone prove the
/// rule's condition, and that the steps lead from each result to the simple one.
pub(crate) fn prove(map: &IndexingMap, simple: &IndexingMap, limits: Limits) {
    let mut simplifier = Simplifier::with_limits(limits).explaining();
    let (explained, report) = simplifier.simplify_with_report(map);
    assert_eq!(explained, *simple, "explaining changed the result of {map}");
    if map.status != Status::Ok || simple.status != Status::Ok {
        return;
    }
    let points = points(map, simple);
    for step in &report.steps {
        assert!(RULES.iter().any(|rule| rule.name == step.rule), "{step:?}");
        assert!(
            is_discharged(step),
            "{map}\nfacts do not discharge {step:?}"
        );
        for point in &points {
            let value = |term: &Term| term.eval(&|var: Var| point.get(var.0 as usize).copied());
            let Ok(before) = value(&step.before) else {
                continue;
            };
            assert_eq!(
                Ok(before),
                value(&step.after),
                "{map}\nat {point:?}: {step:?}"
            );
            for (term, interval) in &step.facts {
                let inside = value(term).is_ok_and(|value| interval.contains(value));
                assert!(inside, "{map}\nat {point:?}: {step:?}");
            }
        }
    }
    for (from, to) in map.results.iter().zip(&simple.results) {
        assert!(
            leads(&report.steps, from, to),
            "{map}\nno steps to {simple}: {report:?}"
        );
    }
}

/// Whether steps on whole results lead from one to the other.
fn leads(steps: &[Explained], from: &Term, to: &Term) -> bool {
    let mut reached = BTreeSet::from([from]);
    loop {
        let next: Vec<&Term> = steps
            .iter()
            .filter(|step| reached.contains(&step.before) && !reached.contains(&step.after))
            .map(|step| &step.after)
            .collect();
        if reached.contains(to) || next.is_empty() {
            return reached.contains(to);
        }
        reached.extend(next);
    }
}

/// Points of the map's domain: all, or some of the simple one's.
fn points(map: &IndexingMap, simple: &IndexingMap) -> Vec<Point> {
    if let Some(all) = map.enumerate(POINTS) {
        return all.into_iter().map(|(point, _)| point).collect();
    }
    let mut random = Random(7);
    let bounds = simple.bounds();
    let mut draw = |bounds: &Interval| {
        let span = bounds.count().min(1 << 40);
        let offset = i128::from(random.next() >> 20) % i128::try_from(span).unwrap_or(1).max(1);
        i64::try_from(i128::from(bounds.lower) + offset).unwrap_or(bounds.upper)
    };
    (0..SAMPLES)
        .map(|_| bounds.iter().map(&mut draw).collect::<Point>())
        .filter(|point| map.contains(point) == Ok(true))
        .collect()
}

/// Whether a step's condition follows from the bounds that it cites.
fn is_discharged(step: &Explained) -> bool {
    let mut facts = step.facts.iter().map(|(_, interval)| *interval);
    let mut divisors = Vec::new();
    constant_divisors(&step.before, &mut divisors);
    // The quotient is constant: no multiple of `g` is between the ends.
    let one_quotient =
        |fact: Interval, g: i64| fact.lower.div_euclid(g) == fact.upper.div_euclid(g);
    match step.rule {
        "div-range" | "div-near-const" if !step.condition.is_empty() => true,
        "div-range" | "div-near-const" => {
            facts.any(|fact| divisors.iter().any(|c| one_quotient(fact, *c)))
        }
        // In the e-graph, the condition is given as a text.
        "div-drop-small" if !step.condition.is_empty() => true,
        "div-drop-small" => facts.any(|fact| {
            let width = i128::from(fact.upper) - i128::from(fact.lower);
            divisors.iter().any(|c| {
                let least = i64::try_from(width + 1).unwrap_or(i64::MAX).max(2);
                (least..=(*c).min(least + 100_000)).any(|g| c % g == 0 && one_quotient(fact, g))
            })
        }),
        "exact-quotient" | "part-is-a-point" | "range-is-a-point" => {
            facts.any(|fact| fact.as_point().is_some())
        }
        "min-max-order" if !step.condition.is_empty() => true,
        "min-max-order" => facts.any(|fact| fact.upper <= 0 || fact.lower >= 0),
        "comparison-decided" => !step.facts.is_empty(),
        _ => true,
    }
}

fn constant_divisors(term: &Term, found: &mut Vec<i64>) {
    let mut stack = vec![term];
    while let Some(term) = stack.pop() {
        match term.node() {
            Node::FloorDiv(a, b) => {
                found.extend(b.as_constant().filter(|c| *c > 0));
                stack.push(a);
            }
            Node::Add(a, b) | Node::Mul(a, b) | Node::Mod(a, b) => stack.extend([a, b]),
            _ => {}
        }
    }
}
