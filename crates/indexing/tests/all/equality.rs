//! Tests of equal sizes: what must be proved, what must not be proved, and random terms against
//! brute force.

use tegula_expr::{Interval, Style, Term, Var, parse};
use tegula_indexing::equality::{
    Assumption, Assumptions, Contradictory, Equality, missing, same_dim,
};

const EXTENT: Interval = Interval::new(0, i32::MAX as i64);
const NAMES: [&str; 6] = ["a", "b", "c", "d", "h", "w"];

fn names(name: &str) -> Option<Var> {
    let position = NAMES.iter().position(|known| *known == name)?;
    Some(Var(u32::try_from(position).ok()?))
}

fn spell(var: Var) -> String {
    NAMES[var.0 as usize].to_owned()
}

#[track_caller]
fn term(text: &str) -> Term {
    parse(text, &names).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Assumptions such as `b >= 1`, `d mod 8 = 0`, `a = b`, `a = b or 1`.
fn assumptions(all: &[&str]) -> Assumptions {
    let mut known = Assumptions::new(vec![EXTENT; NAMES.len()]);
    for text in all {
        if let Some((a, lower)) = text.split_once(">=") {
            known.at_least(&term(a), lower.trim().parse().expect("a number"));
        } else if let Some((a, of)) = text.split_once("mod") {
            let of = of.trim().trim_end_matches("= 0").trim();
            known.assume(Assumption::Multiple(term(a), of.parse().expect("a number")));
        } else if let Some((a, b)) = text.split_once('=') {
            known.assume(match b.split_once("or 1") {
                Some((b, _)) => Assumption::EqualOrOne(term(a), term(b)),
                None => Assumption::Equal(term(a), term(b)),
            });
        }
    }
    known
}

#[track_caller]
fn answer(a: &str, b: &str, known: &[&str]) -> Equality {
    same_dim(&term(a), &term(b), &assumptions(known)).expect("no contradiction")
}

#[test]
fn what_is_equal_is_proved() {
    for (a, b, known) in [
        ("(d + 3) - 3", "d", &[][..]),
        ("2 * d / 2", "d", &[]),
        ("(a * b) / b", "a", &["b >= 1"]),
        // A concatenation split again.
        ("(a + b) - a", "b", &[]),
        ("((a + b) + c) - (b + c)", "a", &[]),
        // Reshapes there and back: splitting and merging attention heads.
        ("(d * 768) / 64", "d * 12", &[]),
        ("((d * 768) / 64) * 64 / 768", "d", &[]),
        ("(a * b * 12 * 64) / (b * 768)", "a", &["b >= 1"]),
        ("(a * (h * w)) / (h * w)", "a", &["h >= 1", "w >= 1"]),
        // A division by eight and back, padded rows that are cut off again, and strides.
        ("(d / 8) * 8", "d", &["d mod 8 = 0"]),
        ("(d ceildiv 8) * 8", "d", &["d mod 8 = 0"]),
        ("(d + 7) / 8 * 8", "d ceildiv 8 * 8", &[]),
        ("((d - 1) * 2 + 1 - 1) / 2 + 1", "d", &[]),
        ("(d + 2 - 3) / 1 + 1", "d", &[]),
        // Broadcasts: equal or 1.
        ("max(a, b)", "b", &["a = b or 1", "b >= 1"]),
        ("select(a == 1, b, a)", "b", &["a = b or 1"]),
        (
            "max(a, max(b, c))",
            "c",
            &["a = c or 1", "b = c or 1", "c >= 1"],
        ),
        // Equalities of other dimensions.
        ("a * 2 + c", "2 * b + c", &["a = b"]),
        ("a + d", "b + c", &["a = b", "c = d"]),
        ("a", "c + 1", &["a = b + 1", "c = b"]),
        ("a / 2", "b", &["a = 2 * b"]),
    ] {
        let found = answer(a, b, known);
        assert!(found.is_yes(), "{a} = {b} with {known:?}: {found:?}");
    }
}

#[test]
fn what_differs_is_refuted() {
    for (a, b, known) in [
        ("d", "d + 1", &[][..]),
        ("2 * d", "2 * a + 1", &[]),
        ("max(d, 8)", "7", &[]),
        ("d mod 4", "5", &[]),
        ("a", "b + 1", &["a = b"]),
        ("d + 1", "0", &[]),
    ] {
        let found = answer(a, b, known);
        assert!(found.is_no(), "{a} = {b} with {known:?}: {found:?}");
    }
}

#[test]
fn what_is_unknown_says_what_is_missing() {
    for (a, b, known, expected) in [
        ("a", "b", &[][..], "a = b"),
        ("(a * b) / b", "a", &[], "b >= 1"),
        ("(a * h * w) / (h * w)", "a", &["h >= 1"], "w >= 1"),
        ("(d / 8) * 8", "d", &[], "d is a multiple of 8"),
        ("max(a, b)", "b", &["a = b or 1"], "b >= 1"),
        ("a + 1", "b * 2", &[], "a + 1 = b * 2"),
    ] {
        assert_eq!(answer(a, b, known), Equality::Unknown, "{a} = {b}");
        let found = missing(&term(a), &term(b), &assumptions(known));
        let found: Vec<String> = found
            .iter()
            .map(|m| m.display(&spell).to_string())
            .collect();
        assert_eq!(found, [expected], "{a} = {b}");
    }
}

#[test]
fn a_proof_names_its_rules_and_facts() {
    let Equality::Yes(proofs) = answer("(d + a * 8) / 8", "a", &["a >= 1", "7 - d >= 0"]) else {
        panic!("not proved");
    };
    let text = proofs[0].display(&spell).to_string();
    assert!(text.contains("by div-"), "{text}");
    assert!(text.ends_with("0 in [0, 0], is 0"), "{text}");
}

#[test]
fn contradictory_assumptions_are_an_error() {
    for known in [
        &["a >= 5", "a = 3"][..],
        &["a = a + 1"],
        &["a = 2 * b", "a = 2 * c + 1"],
    ] {
        let found = same_dim(&term("a"), &term("a + b"), &assumptions(known));
        assert_eq!(found, Err(Contradictory), "{known:?}");
    }
}

/// Answers against all points of small boxes.
#[test]
fn answers_hold_at_every_point() {
    let (mut yes, mut no) = (0, 0);
    for case in 0..4_000u64 {
        let mut random = crate::common::Random(case);
        let mut pick = |texts: &[&str]| {
            let index = random.range(0, texts.len() as i64 - 1);
            texts[usize::try_from(index).expect("not negative")].to_owned()
        };
        let mut size = |depth: u32| {
            let mut text = pick(&["a", "b", "c"]);
            for _ in 0..depth {
                let other = pick(&["a", "b", "c", "1", "2", "3"]);
                let divisor = pick(&["2", "3", "b", "c"]);
                text = match pick(&["+", "+", "-", "*", "/", "max", "mod"]).as_str() {
                    "/" => format!("({text}) / {divisor}"),
                    "mod" => format!("({text}) mod {divisor}"),
                    "max" => format!("max({text}, {other})"),
                    sign => format!("({text}) {sign} {other}"),
                };
            }
            text
        };
        let (left, other) = (size(3), size(1));
        let right = match case % 3 {
            0 => size(3),
            // The same number written differently, or with other variables.
            1 => format!("(({left}) * 2 + {other} - ({other}) + 1) / 2"),
            _ => left.replace('a', "b").replace("mbx", "max"),
        };
        let (a, b) = (term(&left), term(&right));
        let known = pick(&[
            "",
            "a >= 1",
            "b >= 1",
            "a = b",
            "a mod 2 = 0",
            "c = a or 1",
            "a = c + 1",
        ]);
        let small = with(&Assumptions::new(vec![Interval::new(0, 4); 3]), &known);
        let Ok(found) = same_dim(&a, &b, &small) else {
            continue;
        };
        yes += usize::from(found.is_yes());
        no += usize::from(found.is_no());
        for point in 0..125i64 {
            let values = [point % 5, point / 5 % 5, point / 25];
            let at = |Var(var): Var| values.get(var as usize).copied();
            if !holds(&known, values) {
                continue;
            }
            let (Ok(x), Ok(y)) = (a.eval(&at), b.eval(&at)) else {
                continue;
            };
            let wrong = (found.is_yes() && x != y) || (found.is_no() && x == y);
            let show = |t: &Term| t.display(&spell, Style::Xla).to_string();
            assert!(
                !wrong,
                "{} = {} at {values:?} with {known}: {found:?}",
                show(&a),
                show(&b)
            );
        }
    }
    assert!(yes > 50 && no > 50, "{yes} equal, {no} different");
}

fn with(known: &Assumptions, text: &str) -> Assumptions {
    let mut known = known.clone();
    let (a, c) = (term("a"), term("c"));
    match text {
        "" => {}
        "a >= 1" => known.at_least(&a, 1),
        "b >= 1" => known.at_least(&term("b"), 1),
        "a = b" => known.assume(Assumption::Equal(a, term("b"))),
        "a mod 2 = 0" => known.assume(Assumption::Multiple(a, 2)),
        "c = a or 1" => known.assume(Assumption::EqualOrOne(c, a)),
        _ => known.assume(Assumption::Equal(a, term("c + 1"))),
    }
    known
}

fn holds(text: &str, [a, b, c]: [i64; 3]) -> bool {
    match text {
        "" => true,
        "a >= 1" => a >= 1,
        "b >= 1" => b >= 1,
        "a = b" => a == b,
        "a mod 2 = 0" => a % 2 == 0,
        "c = a or 1" => c == a || c == 1,
        _ => a == c + 1,
    }
}
