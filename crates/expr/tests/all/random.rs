//! Tests random terms by brute force: the canonical form refines the term and is idempotent, bounds
//! and residues hold, and text parses back.

use crate::common::{Random, at, cases, names, points, random_box, random_term, spell};
use tegula_expr::{Canonicalizer, Style, canonicalize, parse, range_of, residue_of};

#[test]
fn the_canonical_form_refines_the_term() {
    for case in 0..cases(6_000) {
        let mut random = Random(case);
        let ranges = random_box(&mut random);
        let term = random_term(&mut random, ranges.len(), 5);
        let canonical = canonicalize(&term, &ranges);
        for point in points(&ranges) {
            if let Ok(value) = term.eval(&at(&point)) {
                assert_eq!(
                    canonical.eval(&at(&point)),
                    Ok(value),
                    "case {case} at {point:?}: {term:?} became {canonical:?} over {ranges:?}"
                );
            }
        }
    }
}

#[test]
fn the_canonical_form_is_idempotent() {
    let mut again = 0;
    let total = cases(6_000);
    for case in 0..total {
        let mut random = Random(case ^ 0x5555);
        let ranges = random_box(&mut random);
        let term = random_term(&mut random, ranges.len(), 5);
        let once = canonicalize(&term, &ranges);
        let twice = canonicalize(&once, &ranges);
        if once != twice {
            again += 1;
            if again < 12 {
                println!(
                    "case {case}: {term:?}\n  once {once:?}\n twice {twice:?}\n over {ranges:?}"
                );
            }
        }
    }
    assert_eq!(again, 0, "of {total}");
}

#[test]
fn bounds_and_remainders_hold() {
    for case in 0..cases(6_000) {
        let mut random = Random(case ^ 0xAAAA);
        let ranges = random_box(&mut random);
        let term = random_term(&mut random, ranges.len(), 5);
        let range = range_of(&term, &ranges);
        let residue = residue_of(&term, &ranges);
        let (close_range, close_residue) = Canonicalizer::new(&ranges).facts_of(&term);
        for point in points(&ranges) {
            let Ok(value) = term.eval(&at(&point)) else {
                continue;
            };
            assert!(range.contains(value), "{term:?} = {value} not in {range:?}");
            assert!(
                residue.contains(value),
                "{term:?} = {value} not in {residue:?}"
            );
            assert!(
                close_range.contains(value),
                "{term:?} = {value} not in {close_range:?}"
            );
            assert!(
                close_residue.contains(value),
                "{term:?} = {value} not in {close_residue:?}"
            );
        }
    }
}

#[test]
fn text_reads_back() {
    for case in 0..cases(6_000) {
        let mut random = Random(case ^ 0x1234);
        let term = random_term(&mut random, 3, 5);
        for style in [Style::Xla, Style::Document] {
            let text = term.display(&spell, style).to_string();
            let read = parse(&text, &names).unwrap_or_else(|e| panic!("{text}: {e}"));
            let again = read.display(&spell, style).to_string();
            let once_more = parse(&again, &names).unwrap_or_else(|e| panic!("{again}: {e}"));
            assert_eq!(read, once_more, "{text}\n{again}");
            for point in points(&[tegula_expr::Interval::new(-3, 3); 3]) {
                let (a, b) = (term.eval(&at(&point)), read.eval(&at(&point)));
                assert!(a == b || a.is_err(), "{text}: {a:?} {b:?} at {point:?}");
            }
        }
    }
}

#[test]
fn the_form_holds_near_the_limits_of_64_bits() {
    let ends = [
        i64::MIN,
        i64::MIN + 1,
        -(1 << 62),
        -7,
        0,
        1,
        6,
        1 << 40,
        1 << 62,
        i64::MAX - 1,
        i64::MAX,
    ];
    for case in 0..cases(6_000) {
        let mut random = Random(case ^ 0x4242);
        let pick = |random: &mut Random| ends[usize::try_from(random.range(0, 10)).unwrap_or(0)];
        let ranges: Vec<tegula_expr::Interval> = (0..3)
            .map(|_| {
                let (a, b) = (pick(&mut random), pick(&mut random));
                tegula_expr::Interval::new(a.min(b), a.max(b))
            })
            .collect();
        let small = random_term(&mut random, 3, 4);
        // Some constants grow large.
        let factor = pick(&mut random);
        let term = match random.range(0, 3) {
            0 => small
                .mul(&factor.into())
                .floor_div(&random.range(2, 9).into()),
            1 => small.add(&factor.into()).modulo(&random.range(2, 9).into()),
            2 => small.floor_div(&factor.into()),
            _ => small,
        };
        let canonical = canonicalize(&term, &ranges);
        let facts = Canonicalizer::new(&ranges).facts_of(&term);
        for _ in 0..40 {
            let point: Vec<i64> = ranges
                .iter()
                .map(|range| match random.range(0, 4) {
                    0 => range.lower,
                    1 => range.upper,
                    2 => range
                        .lower
                        .saturating_add(random.range(0, 9))
                        .min(range.upper),
                    3 => range
                        .upper
                        .saturating_sub(random.range(0, 9))
                        .max(range.lower),
                    _ => 0.clamp(range.lower, range.upper),
                })
                .collect();
            if let Ok(value) = term.eval(&at(&point)) {
                assert_eq!(
                    canonical.eval(&at(&point)),
                    Ok(value),
                    "case {case} at {point:?}: {term:?} became {canonical:?} over {ranges:?}"
                );
                assert!(
                    facts.0.contains(value) && facts.1.contains(value),
                    "case {case}: {term:?}"
                );
            }
        }
    }
}
