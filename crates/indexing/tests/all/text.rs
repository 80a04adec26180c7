//! Tests the text of maps: what is printed parses to an equal map, names are kept, and bad text is
//! an error.

use crate::common::proof::simplified;
use crate::common::{cases, random_map};
use tegula_expr::Style;
use tegula_indexing::{IndexingMap, parse_map};

#[test]
fn random_maps_read_back() {
    for case in 0..cases(2_000) {
        let map = random_map(case, 9, true);
        for style in [Style::Xla, Style::Document] {
            let text = map.display(style).to_string();
            let read = parse_map(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            // Constants of a sum may be folded by the first round trip.
            let again = read.display(style).to_string();
            assert_eq!(parse_map(&again), Ok(read.clone()), "{text}");
            assert_eq!(read.accesses(10_000), map.accesses(10_000), "{text}");
        }
    }
}

#[test]
fn names_and_states_are_kept() {
    for text in [
        "() -> ()",
        "UNDEFINED",
        "KNOWN EMPTY",
        "(th_x, bl_x)[s0]{rt0} -> (th_x + bl_x * 128 + s0, rt0), domain: th_x in [0, 127], bl_x in [0, 9], s0 in [0, 3], rt0 in [0, 7]",
        "(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31], d0 mod 8 in [0, 3]",
        "(d1, d0) -> (d0), domain: d1 in [0, 1], d0 in [0, 2]",
        "(d0)[a, b] -> (), domain: d0 in [-9223372036854775808, 9223372036854775807], a in [0, 1], b in [0, 1]",
        "(d0, d1) -> ((d0 mod 2) * 4 + d1, d0 / 2 / 3, (d0 / 2) mod 3, -d0 + 3, d0 - d1, min(d0, d1) ceildiv 4), domain: d0 in [0, 1], d1 in [0, 2]",
    ] {
        assert_eq!(
            parse_map(text).map(|map| map.to_string()),
            Ok(text.to_owned())
        );
    }
}

#[test]
fn both_spellings_are_read() {
    let map = "(d0) -> (d0 floordiv 8 + d0 ceilDiv 3, d0 floorDiv 2), domain:\n d0 in [0, 31],\n";
    let read = parse_map(map).map(|map| map.display(Style::Document).to_string());
    assert_eq!(
        read.as_deref(),
        Ok("(d0) -> (d0 floordiv 8 + d0 ceildiv 3, d0 floordiv 2), domain: d0 in [0, 31]")
    );
}

#[test]
fn every_declared_variable_is_kept() {
    let map: IndexingMap =
        "(d0, unused)[s0, s1] -> (d0 mod 8), domain: d0 in [0, 7], unused in [0, 3], s0 in [0, 0], s1 in [0, 9]"
            .parse()
            .expect("a map");
    let simple = simplified(&map);
    assert_eq!(
        simple.to_string(),
        "(d0, unused)[s0, s1] -> (d0), domain: d0 in [0, 7], unused in [0, 3], s0 in [0, 0], s1 in [0, 9]"
    );
    let mut short = simple;
    short.remove_unused_variables();
    assert_eq!(
        short.to_string(),
        "(d0, unused) -> (d0), domain: d0 in [0, 7], unused in [0, 3]"
    );
}

#[test]
fn bad_text_is_an_error() {
    for text in [
        "",
        "(",
        "(d0",
        "(d0) ->",
        "(d0) -> (d0)",
        "(d0) -> (d1), domain: d0 in [0, 1]",
        "(d0, d0) -> (), domain: d0 in [0, 1], d0 in [0, 1]",
        "(d0) -> (d0), domain: d0 in [0, 99999999999999999999]",
        "(d0) -> (d0), domain: d0 in [0 1]",
        "(d0) -> (d0), domain: d0 in [0, 1], d0",
        "(1) -> ()",
        "(d0) -> (d0) domain d0 in [0, 1]",
        "(é) -> ()",
        "(d0) -> (é), domain: d0 in [0, 1]",
        "() -> () x",
    ] {
        assert!(parse_map(text).is_err(), "{text}");
    }
    let names: Vec<String> = (0..100_000).map(|n| format!("x{n}")).collect();
    assert!(parse_map(&format!("({})", names.join(","))).is_err());
}

#[test]
fn bounds_at_the_limits_never_panic() {
    for text in [
        "(d0) -> (d0 * 9223372036854775807 + 5), domain: d0 in [-9223372036854775808, 9223372036854775807]",
        "(d0) -> (d0 mod 8), domain: d0 in [-9223372036854775808, 9223372036854775807], d0 * 3 + 7 in [-9223372036854775808, 9223372036854775807]",
        "(d0) -> ((d0 + 9223372036854775807) / 3), domain: d0 in [0, 9223372036854775807], d0 mod 9223372036854775807 in [5, 5], d0 mod 9223372036854775806 in [7, 7]",
        "(d0, d1) -> (d0 / d1), domain: d0 in [5, 2], d1 in [0, 0]",
        "(d0, d1) -> (d0 / d1, d0 mod 0), domain: d0 in [0, 2], d1 in [0, 0], d0 / 0 in [0, 1]",
        "(d0) -> (-d0), domain: d0 in [-9223372036854775808, -9223372036854775808], -d0 in [0, 3]",
    ] {
        let map = parse_map(text).expect(text);
        simplified(&map);
        let undone = map.compose(&map);
        simplified(&undone);
    }
}
