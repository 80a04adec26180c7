//! Proves the rules of the simplifier with an SMT solver. Each rule is proved as a schema, for a
//! grid of constants and terms of any value. Each step in explanations of random maps and of the
//! documents' examples is proved on its own domain, from the facts that it cites.
//!
//! The solver is `z3`, named by `TEGULA_Z3` or on the path. Without it, the tests report that they
//! are skipped, or fail if `TEGULA_REQUIRE_Z3` is set.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::common::{cases, random_map};
use tegula_expr::{Cmp, Interval, Node, Term, Var};
use tegula_indexing::{IndexingMap, RULES, Simplifier};

/// The time limit for one question, in milliseconds.
const PATIENCE: u32 = 3000;

/// Whether each formula (over `declarations`) holds everywhere: `Some(true)` if
/// its negation is unsatisfiable, `Some(false)` if there is a counterexample,
/// `None` if the solver gave up. `None` in all if there is no solver.
fn prove(questions: &[Question]) -> Option<Vec<Option<bool>>> {
    let solver = std::env::var("TEGULA_Z3").unwrap_or_else(|_| "z3".to_owned());
    let child = Command::new(&solver)
        .arg("-in")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else {
        let is_required = std::env::var_os("TEGULA_REQUIRE_Z3").is_some();
        assert!(!is_required, "there is no solver `{solver}`");
        println!("skipped: no z3");
        return None;
    };
    let mut script = format!("(set-option :timeout {PATIENCE})\n");
    for question in questions {
        script += "(push)\n";
        script += &question.assumptions;
        script += &format!("(assert (not {}))\n(check-sat)\n(pop)\n", question.claim);
    }
    let mut input = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || {
        input
            .write_all(script.as_bytes())
            .expect("the solver reads");
    });
    let output = child.wait_with_output().expect("the solver ends");
    writer.join().expect("everything is written");
    let text = String::from_utf8(output.stdout).expect("text");
    let answers: Vec<Option<bool>> = text
        .lines()
        .map(|line| match line {
            "unsat" => Some(true),
            "sat" => Some(false),
            "unknown" => None,
            other => panic!("the solver says {other}"),
        })
        .collect();
    assert_eq!(answers.len(), questions.len());
    Some(answers)
}

struct Question {
    name: String,
    /// Declarations and assertions.
    assumptions: String,
    claim: String,
}

fn name(var: Var) -> String {
    format!("v{}", var.0)
}

fn number(value: i64) -> String {
    match value {
        0.. => value.to_string(),
        _ => format!("(- {})", i128::from(value).unsigned_abs()),
    }
}

/// The term in SMT-LIB, whose `div` and `mod` agree with Tegula's for positive divisors.
fn spell(term: &Term) -> String {
    let two = |op: &str, a: &Term, b: &Term| format!("({op} {} {})", spell(a), spell(b));
    match term.node() {
        Node::Const(value) => number(*value),
        Node::Var(var) => name(*var),
        Node::Add(a, b) => two("+", a, b),
        Node::Mul(a, b) => two("*", a, b),
        Node::FloorDiv(a, b) => match b.as_constant() {
            Some(c) if c < 0 => format!("(div (- {}) {})", spell(a), -i128::from(c)),
            _ => two("div", a, b),
        },
        Node::CeilDiv(a, b) => match b.as_constant() {
            Some(c) if c < 0 => format!("(- (div {} {}))", spell(a), -i128::from(c)),
            _ => format!("(- (div (- {}) {}))", spell(a), spell(b)),
        },
        Node::Mod(a, b) => match b.as_constant() {
            // a - floor(a / c) * c
            Some(c) if c < 0 => {
                let c = -i128::from(c);
                format!("(+ {a} (* {c} (div (- {a}) {c})))", a = spell(a))
            }
            _ => two("mod", a, b),
        },
        Node::Min(a, b) => format!("(ite (<= {a} {b}) {a} {b})", a = spell(a), b = spell(b)),
        Node::Max(a, b) => format!("(ite (<= {a} {b}) {b} {a})", a = spell(a), b = spell(b)),
        Node::Cmp(op, a, b) => {
            let holds = match op {
                Cmp::Eq => two("=", a, b),
                Cmp::Ne => two("distinct", a, b),
                Cmp::Lt => two("<", a, b),
                Cmp::Le => two("<=", a, b),
            };
            format!("(ite {holds} 1 0)")
        }
        Node::Select(c, a, b) => {
            format!("(ite (distinct {} 0) {} {})", spell(c), spell(a), spell(b))
        }
    }
}

fn within(term: &Term, interval: Interval) -> String {
    let term = spell(term);
    format!(
        "(and (<= {} {term}) (<= {term} {}))",
        number(interval.lower),
        number(interval.upper)
    )
}

/// The declarations of a map's variables, and the formula of its domain.
fn domain(map: &IndexingMap) -> (String, String) {
    let mut declarations = String::new();
    let mut parts = Vec::new();
    for (position, bounds) in map.bounds().iter().enumerate() {
        let var = Var(u32::try_from(position).expect("a number"));
        declarations += &format!("(declare-const {} Int)\n", name(var));
        parts.push(within(&Term::var(var), *bounds));
    }
    parts.extend(map.constraints.iter().map(|c| within(&c.term, c.interval)));
    (declarations, format!("(and true {})", parts.join(" ")))
}

/// The statements of an explanation, and that its result is the simplified map.
fn questions(map: &IndexingMap, rules: &mut BTreeSet<&'static str>) -> Vec<Question> {
    let (simple, report) = Simplifier::new().explaining().simplify_with_report(map);
    let (declarations, inside) = domain(map);
    let assumptions = format!("{declarations}(assert {inside})\n");
    let mut all = Vec::new();
    for step in &report.steps {
        rules.insert(step.rule);
        let mut ask = |claim: String| {
            all.push(Question {
                name: format!("{}: {map}\n{step:?}", step.rule),
                assumptions: assumptions.clone(),
                claim,
            });
        };
        ask(format!(
            "(= {} {})",
            spell(&step.before),
            spell(&step.after)
        ));
        for (term, interval) in &step.facts {
            // A bound at the limit of i64 is no bound.
            if *interval != Interval::FULL {
                ask(within(term, *interval));
            }
        }
    }
    let claim = if simple.is_empty() {
        "false".to_owned()
    } else {
        let results = map.results.iter().zip(&simple.results);
        let same: Vec<String> = results
            .map(|(a, b)| format!("(= {} {})", spell(a), spell(b)))
            .collect();
        format!("(and {} {})", domain(&simple).1, same.join(" "))
    };
    all.push(Question {
        name: format!("{map}\nhas the domain and values of {simple}"),
        assumptions,
        claim,
    });
    if !simple.is_empty() {
        // Simplification added no point either.
        all.push(Question {
            name: format!("{map}\nhas the points of {simple}"),
            assumptions: format!("{declarations}(assert {})\n", domain(&simple).1),
            claim: inside,
        });
    }
    all
}

/// Asks all questions; none may be refuted, and at most `most_open` of them left undecided.
fn check(questions: &[Question], most_open: f64) {
    let Some(answers) = prove(questions) else {
        return;
    };
    let mut open = 0;
    for (question, answer) in questions.iter().zip(answers) {
        match answer {
            Some(true) => {}
            Some(false) => panic!("not true: {}\n{}", question.name, question.claim),
            None => {
                open += 1;
                println!("open: {}", question.name);
            }
        }
    }
    println!("{} proved, {open} open", questions.len() - open);
    assert!(
        open as f64 <= most_open * questions.len() as f64,
        "{open} open"
    );
}

#[test]
fn steps_of_random_maps() {
    let mut all = Vec::new();
    let mut rules = BTreeSet::new();
    for case in 0..cases(400).min(5_000) {
        let map = random_map(case, 9, case % 2 == 1);
        all.extend(questions(&map, &mut rules));
    }
    check(&all, 0.002);
    for rule in &rules {
        assert!(
            RULES.iter().any(|known| known.name == *rule),
            "{rule} is not listed"
        );
    }
}

#[test]
fn examples_of_the_documents() {
    let mut all = Vec::new();
    for text in [
        "(d0, d1) -> (d0 + d1 floordiv 16, d1 mod 16), domain: d0 in [0, 6], d1 in [0, 14]",
        "(d0, d1, d2) -> ((100*d0 + 10*d1 + d2) floordiv 100, ((100*d0 + 10*d1 + d2) mod 100) floordiv 10, d2 mod 10), domain: d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]",
        "(d0, d1, d2) -> ((16*d0 + 4*d1 + d2) floordiv 8, (16*d0 + 4*d1 + d2) mod 8), domain: d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]",
        "(d0, d1) -> (-((-11*d0 - d1 + 109) floordiv 11) + 9), domain: d0 in [0, 9], d1 in [0, 10]",
        "(d0, d1, d2) -> ((d0 * 5 + d1 / 2) / 5, ((d0 * 5 + d1 / 2) mod 5) * 2 + ((d1 mod 2) * 10 + d2) / 10, ((d1 mod 2) * 10 + d2) mod 10), domain: d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]",
    ] {
        all.extend(questions(
            &text.parse().expect("a map"),
            &mut BTreeSet::new(),
        ));
    }
    check(&all, 0.0);
}

/// The schema of each rule for given constants, over `a`, `b`, `x`, `y` of any
/// value: assumption and claim.
fn schemas() -> BTreeMap<&'static str, Vec<(String, String)>> {
    let mut all: BTreeMap<&'static str, Vec<(String, String)>> = BTreeMap::new();
    let mut add = |rule: &'static str, assumption: &str, claim: String| {
        all.entry(rule)
            .or_default()
            .push((assumption.to_owned(), claim));
    };
    let constants = [2, 3, 4, 5, 7, 8, 12, 32, 128, 1000];
    for c in constants {
        add(
            "linear-form",
            "true",
            format!("(= (- x (* {c} (div x {c}))) (mod x {c}))"),
        );
        add(
            "div-pull",
            "true",
            format!("(= (div (+ (* {c} a) b) {c}) (+ a (div b {c})))"),
        );
        add(
            "mod-def",
            "true",
            format!("(= (mod x {c}) (- x (* {c} (div x {c}))))"),
        );
        add(
            "min-max-order",
            "(<= (- a b) 0)",
            "(and (= (ite (<= a b) a b) a) (= (ite (<= a b) b a) b))".to_owned(),
        );
        add(
            "comparison-decided",
            "(< (- a b) 0)",
            "(= (ite (< a b) 1 0) 1)".to_owned(),
        );
        add(
            "comparison-decided",
            "(>= (- a b) 0)",
            "(= (ite (< a b) 1 0) 0)".to_owned(),
        );
        add(
            "range-is-a-point",
            &format!("(and (<= {c} x) (<= x {c}))"),
            format!("(= x {c})"),
        );
        add(
            "part-is-a-point",
            &format!("(= b {c})"),
            format!("(= (+ a b) (+ a {c}))"),
        );
        add(
            "sum-flatten",
            "true",
            format!("(= (+ a (* {c} (+ x y))) (+ a (* {c} x) (* {c} y)))"),
        );
        add("sum-base", "true", format!("(= (+ a {c}) (+ (+ a) {c}))"));
        add(
            "sum-factor",
            "true",
            format!("(= (+ (* {c} a) (* {c} b)) (* {c} (+ a b)))"),
        );
        add(
            "sum-share",
            "true",
            "(= (+ a b x) (+ (+ a b) x))".to_owned(),
        );
        for t in [-3, -1, 0, 1, 5] {
            let (t, next) = (number(t), number(t + 1));
            let inside = format!("(and (<= (* {t} {c}) b) (< b (* {next} {c})))");
            add("div-range", &inside, format!("(= (div b {c}) {t})"));
            add(
                "div-near-const",
                &inside,
                format!("(= (div (+ b (* {c} a)) {c}) (+ a {t}))"),
            );
            for g in constants.iter().filter(|g| c % *g == 0) {
                let inside = format!("(and (<= (* {t} {g}) b) (< b (* {next} {g})))");
                add(
                    "div-drop-small",
                    &inside,
                    format!("(= (div (+ (* {g} a) b) {c}) (div (+ a {t}) {}))", c / g),
                );
            }
        }
        for r in [0, 1, c - 1] {
            add(
                "exact-quotient",
                &format!("(= (mod x {c}) {r})"),
                format!("(= (* {c} (div x {c})) (- x {r}))"),
            );
        }
        for b in constants {
            add(
                "div-lift",
                "true",
                format!(
                    "(= (div (+ (div x {b}) y) {c}) (div (+ x (* {b} y)) {}))",
                    b * c
                ),
            );
            add(
                "div-lift-negative",
                "true",
                format!(
                    "(= (div (- y (div x {b})) {c}) (div (- (+ (* {b} y) {}) x) {}))",
                    b - 1,
                    b * c
                ),
            );
            add(
                "div-split",
                "true",
                format!("(= (div x {}) (div (div x {b}) {c}))", b * c),
            );
            add(
                "mod-recover",
                "true",
                format!(
                    "(= (- (* {b} x) (* {} (div x {c}))) (* {b} (mod x {c})))",
                    b * c
                ),
            );
        }
    }
    all
}

#[test]
fn every_rule_as_a_schema() {
    let schemas = schemas();
    for rule in RULES {
        // This rule's condition is its own definition.
        let is_definition = rule.name == "affine-on-every-point";
        assert!(
            is_definition || schemas.contains_key(rule.name),
            "{} has no schema",
            rule.name
        );
    }
    let declarations: String = ["a", "b", "x", "y"]
        .map(|v| format!("(declare-const {v} Int)\n"))
        .concat();
    let all: Vec<Question> = schemas
        .iter()
        .flat_map(|(rule, cases)| cases.iter().map(move |case| (rule, case)))
        .map(|(rule, (assumption, claim))| Question {
            name: (*rule).to_owned(),
            assumptions: format!("{declarations}(assert {assumption})\n"),
            claim: claim.clone(),
        })
        .collect();
    check(&all, 0.0);
}

/// The same for divisors of any value, for those rules where the solver terminates.
#[test]
fn rules_with_any_divisor() {
    let declarations: String = ["a", "b", "x", "c", "t", "r"]
        .map(|v| format!("(declare-const {v} Int)\n"))
        .concat();
    let claims = [
        ("true", "(= (div (+ (* c a) b) c) (+ a (div b c)))"),
        (
            "(and (<= (* t c) b) (< b (* (+ t 1) c)))",
            "(= (div b c) t)",
        ),
        (
            "(and (<= (* t c) b) (< b (* (+ t 1) c)))",
            "(= (div (+ b (* c a)) c) (+ a t))",
        ),
        ("(= (mod x c) r)", "(= (* c (div x c)) (- x r))"),
        ("true", "(= (mod x c) (- x (* c (div x c))))"),
    ];
    let all: Vec<Question> = claims
        .iter()
        .map(|(assumption, claim)| Question {
            name: (*claim).to_owned(),
            assumptions: format!("{declarations}(assert (> c 0))\n(assert {assumption})\n"),
            claim: (*claim).to_owned(),
        })
        .collect();
    check(&all, 1.0);
}

#[test]
fn false_rules_are_refuted() {
    let wrong = [
        "(= (div (+ x y) 4) (+ (div x 4) (div y 4)))",
        "(= (div (- x) 3) (- (div x 3)))",
        "(= (mod (* 2 x) 4) (mod x 4))",
    ];
    let questions: Vec<Question> = wrong
        .iter()
        .map(|claim| Question {
            name: "wrong".to_owned(),
            assumptions: "(declare-const x Int)\n(declare-const y Int)\n".to_owned(),
            claim: (*claim).to_owned(),
        })
        .collect();
    if let Some(answers) = prove(&questions) {
        assert!(
            answers.iter().all(|answer| *answer == Some(false)),
            "{answers:?}"
        );
    }
}
