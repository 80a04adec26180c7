//! Explanations: every step is true on its own, and the limits are reported.

use crate::common::{cases, random_map};
use tegula_expr::{Style, Var};
use tegula_indexing::{IndexingMap, Limits, RULES, Simplifier, StopReason};

#[test]
fn steps_name_rules_and_conditions() {
    let map: IndexingMap =
        "(d0, d1) -> ((d0 * 128 + d1) / 128), domain: d0 in [0, 7], d1 in [0, 127]"
            .parse()
            .expect("a map");
    let (simple, report) = Simplifier::new().explaining().simplify_with_report(&map);
    assert_eq!(
        simple.to_string(),
        "(d0, d1) -> (d0), domain: d0 in [0, 7], d1 in [0, 127]"
    );
    let names = |var: Var| map.name(var);
    let steps: Vec<String> = report
        .steps
        .iter()
        .map(|step| step.display(&names, Style::Xla).to_string())
        .collect();
    assert_eq!(
        steps,
        [
            "(d0 * 128 + d1) / 128  =>  d0 + d1 / 128  by div-pull",
            "d0 + d1 / 128  =>  d0  by div-range (d1 in [0, 127])",
            "(d0 * 128 + d1) / 128  =>  d0  by linear-form",
        ]
    );
}

#[test]
fn every_step_is_true_on_its_own() {
    let mut seen = std::collections::BTreeSet::new();
    for case in 0..cases(3_000) {
        let map = random_map(case, 8, case % 2 == 1);
        let (simple, report) = Simplifier::new().explaining().simplify_with_report(&map);
        assert_eq!(
            simple,
            Simplifier::new().simplify_map(&map),
            "explaining changed the result"
        );
        for step in &report.steps {
            assert!(RULES.iter().any(|rule| rule.name == step.rule), "{step:?}");
            seen.insert(step.rule);
            let (mut before, mut after) = (map.clone(), map.clone());
            before.results = vec![step.before.clone()];
            after.results = vec![step.after.clone()];
            assert_eq!(
                before.enumerate(5_000),
                after.enumerate(5_000),
                "case {case}: {step:?}"
            );
        }
    }
    for rule in [
        "div-pull",
        "div-range",
        "div-near-const",
        "div-drop-small",
        "div-lift",
        "affine-on-every-point",
    ] {
        assert!(seen.contains(rule), "{rule} never fired: {seen:?}");
    }
}

#[test]
fn limits_are_reported() {
    let map: IndexingMap =
        "(d0, d1) -> ((d0 * 7 + d1) mod 12 + ((d0 * 5 + d1 * 3) / 4) mod 7 + (d0 + d1) mod 9), \
         domain: d0 in [0, 99999], d1 in [0, 99999]"
            .parse()
            .expect("a map");
    let limits = Limits {
        nodes: 0,
        ..Limits::default()
    };
    let (_, report) = Simplifier::with_limits(limits).simplify_with_report(&map);
    assert_eq!(report.stop, StopReason::NodeLimit);
    let limits = Limits {
        rounds: 2,
        ..Limits::default()
    };
    let (_, report) = Simplifier::with_limits(limits).simplify_with_report(&map);
    assert_eq!(report.stop, StopReason::RoundLimit);
}

#[test]
fn a_session_changes_no_result() {
    let mut simplifier = Simplifier::new();
    for case in 0..cases(1_000) {
        let map = random_map(case % 500, 8, true);
        assert_eq!(
            simplifier.simplify_map(&map),
            Simplifier::new().simplify_map(&map)
        );
    }
}

#[test]
fn what_constraints_did_is_told() {
    let map: IndexingMap = "(d0, d1) -> (d0), domain: d0 in [0, 9], d1 in [0, 9], \
         d0 + d1 in [0, 4], (d0 + d1) / 2 in [0, 5], d0 * 2 in [4, 30]"
        .parse()
        .expect("a map");
    let (simple, report) = Simplifier::new().explaining().simplify_with_report(&map);
    assert_eq!(
        simple.to_string(),
        "(d0, d1) -> (d0), domain: d0 in [2, 4], d1 in [0, 2], d0 + d1 in [2, 4]"
    );
    let names = |var: Var| map.name(var);
    assert_eq!(
        report.domain.lines(&names, Style::Xla),
        [
            "d0 in [0, 9]  =>  d0 in [2, 4]  by constraints",
            "d1 in [0, 9]  =>  d1 in [0, 2]  by constraints",
            "d0 + d1 in [0, 4], (d0 + d1) / 2 in [0, 5], d0 * 2 in [4, 30]  =>  \
             d0 + d1 in [2, 4]  by constraints",
        ]
    );
}
