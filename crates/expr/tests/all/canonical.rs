//! Tests the canonical form of chosen terms, and of terms that are deep or huge.

use crate::common::{names, spell};
use tegula_expr::{Canonicalizer, Cmp, Interval, Style, Term, Var, canonicalize, parse};

/// Canonicalises `text` where `dN` has the N-th range.
fn canonical(text: &str, ranges: &[(i64, i64)]) -> String {
    let ranges: Vec<Interval> = ranges.iter().map(|(a, b)| Interval::new(*a, *b)).collect();
    let term = parse(text, &names).expect(text);
    canonicalize(&term, &ranges)
        .display(&spell, Style::Xla)
        .to_string()
}

#[test]
fn quotients_and_remainders() {
    for (text, ranges, expected) in [
        ("d0 + d1 floordiv 16", &[(0, 6), (0, 14)][..], "d0"),
        ("(100*d0 + 10*d1 + d2) floordiv 100", &[(0, 9); 3], "d0"),
        (
            "((100*d0 + 10*d1 + d2) mod 100) floordiv 10",
            &[(0, 9); 3],
            "d1",
        ),
        (
            "(16*d0 + 4*d1 + d2) floordiv 8",
            &[(0, 9); 3],
            "d0 * 2 + (d1 * 4 + d2) / 8",
        ),
        (
            "(16*d0 + 4*d1 + d2) mod 8",
            &[(0, 9); 3],
            "(d1 * 4 + d2) mod 8",
        ),
        (
            "-((-11*d0 - d1 + 109) floordiv 11) + 9",
            &[(0, 9), (0, 10)],
            "d0",
        ),
        ("d0 - (d0 floordiv 7) * 7", &[(0, 99)], "d0 mod 7"),
        ("(d0 floordiv 7) * 7 + d0 mod 7", &[(-5, 99)], "d0"),
        ("(d0 mod 12) floordiv 4", &[(0, 99)], "d0 / 4 mod 3"),
        ("(d0 floordiv 3) floordiv 5", &[(-40, 99)], "d0 / 15"),
        ("(d1 - 3) floordiv 7", &[(0, 0), (3, 17)], "(d1 - 3) / 7"),
        ("(d1 - 3) mod 7", &[(0, 0), (3, 17)], "(d1 - 3) mod 7"),
        ("d0 mod -4", &[(0, 99)], "-((-d0) mod 4)"),
        // Among forms with equally many operations, the one with smaller numbers, not `(d0 / 3) *
        // -12 + d0 * 7`.
        (
            "(d0 mod 3) * 4 + d0 * 3 + d1",
            &[(0, 99), (0, 9)],
            "(d0 mod 3) * 4 + d0 * 3 + d1",
        ),
        ("d2 + (d1 mod 2) * 4", &[(0, 9); 3], "(d1 mod 2) * 4 + d2"),
        (
            "((d0 * 8 + d1) mod 16) * 3 - d0",
            &[(0, 9), (0, 7)],
            "(d0 mod 2) * 24 - d0 + d1 * 3",
        ),
        ("min(d0, 10) + max(d0, 10)", &[(0, 9)], "d0 + 10"),
        ("min(d0 * 2, d0 + 20)", &[(0, 9)], "d0 * 2"),
        (
            "select(d0 * 2 == 2 * d1 + 1, d0, d1)",
            &[(0, 9), (0, 9)],
            "d1",
        ),
        ("select(d0 < 10, d0, 0)", &[(0, 9)], "d0"),
        ("(d0 * d1) floordiv d1", &[(0, 9), (1, 9)], "d0"),
        ("(d0 * d1 + d0 * 2) mod d0", &[(1, 9), (1, 9)], "0"),
        ("d0 ceildiv 8", &[(0, 63)], "(d0 + 7) / 8"),
        ("(d0 + 3) - 3", &[(0, i64::MAX)], "d0"),
    ] {
        assert_eq!(
            canonical(text, ranges),
            expected.replace("d0 / 4 mod 3", "(d0 / 4) mod 3"),
            "{text}"
        );
    }
}

#[test]
fn nothing_wraps() {
    let full = (i64::MIN, i64::MAX);
    for text in [
        "d0 * 9223372036854775807 + d1 * 9223372036854775807",
        "(d0 + 5) floordiv 4",
        "(d0 - 9223372036854775807 - 1) mod -9223372036854775808",
        "d0 floordiv -1",
        "d0 floordiv 0 + d1 mod 0",
        "d0 * d1 * d0 * d1",
        "min(d0 * 4611686018427387904, d1)",
        "(d0 * 4 + 9223372036854775807) ceildiv 9223372036854775807",
        "select(d0 + 1 < d1, d0 * 2, d1 * -2)",
    ] {
        canonical(text, &[full, full]);
        canonical(text, &[(0, -1), (i64::MAX, i64::MAX)]);
    }
}

#[test]
fn deep_terms_need_no_stack() {
    let mut sum = Term::var(Var(0));
    let mut nest = Term::var(Var(0));
    for step in 1..100_000i64 {
        sum = Term::raw(tegula_expr::Node::Add(
            sum,
            Term::var(Var(u32::try_from(step % 3).unwrap_or(0))),
        ));
        nest =
            Term::min(&nest.add(&Term::var(Var(1))), &Term::constant(step)).mul(&Term::var(Var(2)));
    }
    let ranges = [Interval::new(0, 1); 3];
    for term in [&sum, &nest] {
        assert!(term.eval(&|_| Some(1)).is_ok());
        assert!(term.display(&spell, Style::Xla).to_string().len() > 100_000);
        assert!(term == &term.substitute(&mut |var| Some(Term::var(var))));
    }
    assert_eq!(
        canonicalize(&sum, ranges.as_slice())
            .display(&spell, Style::Xla)
            .to_string(),
        "d0 * 33334 + d1 * 33333 + d2 * 33333"
    );
    // Shared subterms: a tree of 2^200 nodes.
    let mut double = Term::var(Var(0));
    for _ in 0..200 {
        double = Term::min(&double.add(&Term::var(Var(1))), &double);
    }
    assert!(double.eval(&|_| Some(0)).is_ok());
    canonicalize(&double, ranges.as_slice());
    let mut sum = Term::var(Var(0));
    for _ in 0..200 {
        sum = sum.add(&sum);
    }
    canonicalize(&sum, ranges.as_slice());
}

#[test]
fn hostile_text_is_an_error() {
    for text in [
        "",
        "(",
        "d0 +",
        "d0 d1",
        "1 / ",
        "99999999999999999999",
        "x",
        "min(d0)",
        "d0 mod",
        "é",
        "d0 + é",
        "select(d0, d1)",
        "))",
    ] {
        assert!(parse(text, &names).is_err(), "{text}");
    }
    let deep = "(".repeat(100_000);
    assert!(parse(&deep, &names).is_err());
    let minus = format!("{}d0", "-".repeat(100_000));
    assert!(parse(&minus, &names).is_err());
    let long = "d0 * 3 / 2 + 1 - ".repeat(20_000) + "d0";
    let chain = format!("d0{}", " * 2 / 3".repeat(20_000));
    for text in [long, chain] {
        let term = parse(&text, &names).expect("long but flat");
        canonicalize(&term, [Interval::of_size(100)].as_slice());
    }
    assert_eq!(parse("d0 + $", &names).map_err(|e| e.offset), Err(5));
}

#[test]
fn steps_explain_the_form() {
    let ranges = [Interval::of_size(8), Interval::of_size(128)];
    let mut canonicalizer = Canonicalizer::new(ranges.as_slice());
    canonicalizer.trace();
    let term = parse("(d0 * 128 + d1) floordiv 128", &names).expect("a term");
    canonicalizer.canonicalize(&term);
    let steps = canonicalizer.take_steps();
    let rules: Vec<_> = steps
        .iter()
        .map(|step| (step.rule, step.facts.clone()))
        .collect();
    let rest = (Term::var(Var(1)), Interval::of_size(128));
    assert_eq!(rules, [("div-pull", vec![]), ("div-range", vec![rest])]);
}

#[test]
fn comparisons_are_oriented() {
    let d0 = Term::var(Var(0));
    let less = Term::cmp(Cmp::Lt, &d0.sub(&5.into()), &0.into());
    assert_eq!(
        canonicalize(&less, [Interval::of_size(9)].as_slice())
            .display(&spell, Style::Xla)
            .to_string(),
        "d0 < 5"
    );
}
