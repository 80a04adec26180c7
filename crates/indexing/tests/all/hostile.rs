//! Passes maps with extreme numbers to everything that takes a map: it must answer or refuse, and
//! never overflow, panic or loop forever.

use crate::common::{Random, cases, random_map};
use tegula_expr::{Interval, Term};
use tegula_indexing::tiles::{Tile, TilingSpace};
use tegula_indexing::{
    Exactness, IndexingMap, Participant, Simplifier, Warp, coalescing, contiguous_elements,
    is_multiple_of, parse_map, row_major_address, stride_along, utilization,
};

const EXTREMES: [i64; 10] = [
    i64::MIN,
    i64::MIN + 1,
    -(1 << 62),
    -1,
    0,
    1,
    2,
    1 << 40,
    i64::MAX - 1,
    i64::MAX,
];

fn extreme(random: &mut Random) -> i64 {
    EXTREMES[usize::try_from(random.range(0, 9)).expect("a place")]
}

fn use_it(map: &IndexingMap) {
    let mut simplifier = Simplifier::new().explaining();
    let simple = simplifier.simplify_map(map);
    let _ = simplifier.simplify_preserving_points(map);
    let _ = map.inverse();
    let _ = simple.inverse();
    let _ = map.ranges_as_dims();
    let mut rescaled = map.clone();
    rescaled.rescale_ranges();
    rescaled.remove_unused_variables();
    rescaled.merge_runtime_variables();
    let _ = map.compose(map);
    let _ = map.compose(&simple);
    let _ = map.to_string().parse::<IndexingMap>();
    for sizes in [
        vec![i64::MAX; map.results.len()],
        vec![7; map.results.len()],
    ] {
        let _ = utilization(std::slice::from_ref(map), &sizes);
        let _ = utilization(&[map.clone(), simple.clone()], &sizes);
        if let Some(address) = row_major_address(&sizes, None) {
            for start in EXTREMES {
                let warp = Warp {
                    lanes: 4,
                    vector: 2,
                    sector_bytes: 32,
                };
                let _ = coalescing(map, &address, 4, warp, start);
                let _ = coalescing(map, &address, i64::MAX, warp, start);
            }
        }
    }
    let sizes: Vec<i64> = map.dims.iter().map(|dim| dim.bounds.upper).collect();
    let open = TilingSpace::of_array(&sizes);
    for space in [open.with_minor_sizes(&[8, 128]), open] {
        let tile = Tile::of(map, &space);
        for value in EXTREMES {
            let _ = tile.at(&|_| Some(value));
        }
    }
    for result in 0..map.results.len() {
        let _ = is_multiple_of(map, &map.results[result], 128);
        let _ = is_multiple_of(map, &map.results[result], i64::MAX);
        for variable in 0..map.variable_count() {
            let _ = stride_along(map, result, variable);
            let _ = contiguous_elements(map, result, variable, 16);
            let _ = contiguous_elements(map, result, variable, i64::MAX);
        }
    }
}

#[test]
fn extreme_bounds_and_constants() {
    for case in 0..cases(400) {
        let mut random = Random(case ^ 0xBAD);
        let mut map = random_map(case, 6, case % 2 == 1);
        for variable in map.variables_mut() {
            if random.range(0, 2) == 0 {
                variable.bounds = Interval::new(extreme(&mut random), extreme(&mut random));
            }
        }
        for constraint in &mut map.constraints {
            if random.range(0, 1) == 0 {
                constraint.interval = Interval::new(extreme(&mut random), extreme(&mut random));
            }
        }
        let factor = Term::constant(extreme(&mut random));
        let divisor = Term::constant(extreme(&mut random));
        if let Some(result) = map.results.first_mut() {
            *result = match random.range(0, 3) {
                0 => result.mul(&factor),
                1 => result.add(&factor).floor_div(&divisor),
                2 => result.modulo(&divisor).mul(&factor),
                _ => factor.sub(result),
            };
        }
        use_it(&map);
    }
}

#[test]
fn odd_maps() {
    for text in [
        "() -> ()",
        "() -> (5)",
        "()[s0] -> (), domain: s0 in [0, -1]",
        "(d0) -> (d0, d0, d0), domain: d0 in [-9223372036854775808, 9223372036854775807]",
        "(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 9], rt0 in [-9223372036854775808, 9223372036854775807]",
        "(d0) -> (d0 / 0, d0 mod 0), domain: d0 in [0, 9]",
        "(d0) -> (d0 / d0), domain: d0 in [-3, 3]",
        "(d0) -> (d0), domain: d0 in [0, 9], 3 in [4, 5]",
        "(d0)[s0] -> (s0), domain: d0 in [0, 9], s0 in [0, 9], s0 mod 4 in [1, 1], s0 mod 6 in [2, 2]",
        "(d0)[s0] -> (s0), domain: d0 in [0, 9], s0 in [-9223372036854775808, 0], s0 mod 9223372036854775807 in [5, 5]",
        "UNDEFINED",
        "KNOWN EMPTY",
    ] {
        let map = parse_map(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        use_it(&map);
    }
    // Variables that do not exist.
    let mut map = IndexingMap::over(&[4]);
    map.results.push(Term::var(tegula_expr::Var(77)));
    map.results.push(Term::var(tegula_expr::Var(u32::MAX)));
    map.exactness = Exactness::Superset;
    use_it(&map);
    map.participant = Some(Box::new(Participant {
        groups: std::sync::Arc::new(tegula_ir::ReplicaGroups::Lists(Vec::new())),
        position: Term::var(tegula_expr::Var(3)),
    }));
    use_it(&map);
}

#[test]
fn deep_and_wide_maps() {
    let mut deep = IndexingMap::over(&[1000, 1000]);
    let mut term = deep.dim(0);
    for level in 0..5_000i64 {
        let next = if level % 2 == 0 {
            deep.dim(1)
        } else {
            deep.dim(0)
        };
        term = term.add(&next).floor_div(&Term::constant(level % 7 + 2));
    }
    deep.results.push(term);
    let mut simplifier = Simplifier::new();
    let simple = simplifier.simplify_map(&deep);
    assert_eq!(simple.results.len(), 1);
    let _ = deep.inverse();
    let _ = utilization(std::slice::from_ref(&simple), &[10]);
    let mut wide = IndexingMap::over(&vec![3; 400]);
    let sum = wide.results.clone();
    assert!(sum.is_empty());
    let all = (0..400).fold(Term::constant(0), |sum, dim| {
        sum.add(&wide.dim(dim).mul(&(dim as i64 + 1).into()))
    });
    wide.results.push(all.floor_div(&1000.into()));
    wide.results.push(all.modulo(&1000.into()));
    let simple = simplifier.simplify_map(&wide);
    let _ = simple.inverse();
    let _ = utilization(&[simple], &[1000, 1000]);
}

/// Texts of maps with `count` of something, each with a description.
fn large_texts(count: usize) -> Vec<(&'static str, String)> {
    let in_domain =
        |result: String| format!("(d0, d1) -> ({result}), domain: d0 in [0, 99], d1 in [0, 99]");
    let nested = |open: &str, close: &str| {
        in_domain(format!("{}d0{}", open.repeat(count), close.repeat(count)))
    };
    let list = |f: &dyn Fn(usize) -> String| (0..count).map(f).collect::<Vec<_>>().join(", ");
    let sum = |f: &dyn Fn(usize) -> String| (0..count).map(f).collect::<Vec<_>>().join(" + ");
    let names = list(&|n| format!("d{n}"));
    let bounds = list(&|n| format!("d{n} in [0, {n}]"));
    vec![
        ("open parentheses", "(".repeat(count)),
        ("parentheses", nested("(", ")")),
        ("signs", nested("-", "")),
        ("minima", nested("min(d1, ", ")")),
        ("divisions", nested("(", " + d1) / 2")),
        ("remainders", nested("(", " * 3) mod 7")),
        ("terms", in_domain(sum(&|n| format!("(d0 + {n}) mod 5")))),
        ("equal terms", in_domain(sum(&|_| "d0 / 3".to_owned()))),
        ("factors", in_domain(vec!["d0"; count].join(" * "))),
        ("variables", format!("({names}) -> (d0), domain: {bounds}")),
        (
            "results",
            format!(
                "({names}) -> ({}), domain: {bounds}",
                list(&|n| format!("d{n} mod 7"))
            ),
        ),
        (
            "constraints",
            in_domain("d0".to_owned()) + ", " + &list(&|n| format!("d0 * {n} + d1 in [0, 9000]")),
        ),
        (
            "distinct constraints",
            in_domain("d0".to_owned())
                + ", "
                + &list(&|n| format!("(d0 + {n}) mod 9 + d1 in [0, 90]")),
        ),
        (
            "spaces",
            format!("(d0){}-> (d0), domain: d0 in [0, 9]", " ".repeat(count)),
        ),
        (
            "digits",
            format!(
                "(d0) -> (d0 + 1{}), domain: d0 in [0, 9]",
                "0".repeat(count)
            ),
        ),
    ]
}

#[test]
fn large_texts_are_read_or_refused() {
    for count in [100, 10_000, 100_000] {
        for (what, text) in large_texts(count) {
            let is_nesting = what.contains("parenth") || what == "signs" || what == "digits";
            if count > 10_000 && !is_nesting {
                continue;
            }
            let start = std::time::Instant::now();
            let shown = match parse_map(&text) {
                Ok(map) => {
                    let simple = Simplifier::new().simplify_map(&map);
                    let _ = simple.to_string();
                    drop(simple);
                    "read"
                }
                Err(_) => "refused",
            };
            println!("{count} {what}: {shown}, {:?}", start.elapsed());
        }
    }
}

#[test]
fn odd_texts_are_refused() {
    for text in [
        "",
        "(",
        "->",
        "(d0)",
        "(d0) ->",
        "(d0) -> (d0",
        "(d0) -> (d0), domain: d0 in [0, 99999999999999999999]",
        "(d0) -> (d0 + 9223372036854775808), domain: d0 in [0, 9]",
        "(d0, d0) -> (d0), domain: d0 in [0, 9], d0 in [0, 9]",
        "(d0)[d0] -> (d0), domain: d0 in [0, 9]",
        "(d0) -> (d1), domain: d0 in [0, 9]",
        "(d0) -> (d0), domain: d1 in [0, 9]",
        "(d0) -> (d0), domain: d0 in [0 9]",
        "(d0) -> (d0), domain: d0 in [0, 9]\0",
        "(d0) \u{2192} (d0), domain: d0 in [0, 9]",
        "(d0) -> (d0 % 3), domain: d0 in [0, 9]",
        "(d0) -> (d0 mod), domain: d0 in [0, 9]",
        "(d0) -> (min(d0)), domain: d0 in [0, 9]",
        "(d0) -> (d0 /), domain: d0 in [0, 9]",
        "(d0) -> (d0)) , domain: d0 in [0, 9]",
        "KNOWN EMPTYX",
        "UNDEFINED UNDEFINED",
    ] {
        match parse_map(text) {
            Ok(map) => panic!("`{text}` was read as {map}"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn changed_texts() {
    let texts = [
        "(d0, d1)[s0]{rt0} -> (d0 * 5 + d1 / 2, (d1 mod 2) * 10 + s0 - rt0), domain: d0 in [0, 9], d1 in [-3, 9], s0 in [0, 9], rt0 in [0, 4], d0 + s0 mod 3 in [0, 7]",
        "(d0) -> (min(d0, 7) floordiv -3, max(d0 ceildiv 2, 1)), domain: d0 in [-9223372036854775808, 9]",
    ];
    let pieces = [
        "(",
        ")",
        "[",
        "]",
        "-",
        "+",
        "*",
        "/",
        " mod ",
        "0",
        "9",
        "9223372036854775807",
        ",",
        "d0",
        "s0",
        "in",
        "min(",
        "-9223372036854775808",
        "é",
        "\r\n",
        " floordiv ",
        "KNOWN EMPTY",
    ];
    let mut read = 0;
    for case in 0..cases(3_000) {
        let mut random = Random(case ^ 0xF00D);
        let mut text: Vec<char> = texts[usize::try_from(case % 2).expect("two")]
            .chars()
            .collect();
        for _ in 0..random.range(1, 3) {
            let at = usize::try_from(random.range(0, text.len() as i64 - 1)).expect("a place");
            match random.range(0, 2) {
                0 => drop(text.remove(at)),
                1 => {
                    let piece = pieces
                        [usize::try_from(random.range(0, pieces.len() as i64 - 1)).expect("one")];
                    text.splice(at..at, piece.chars());
                }
                _ => text.truncate(
                    text.len()
                        - usize::try_from(random.range(0, 9))
                            .expect("few")
                            .min(text.len() - 1),
                ),
            }
        }
        let text: String = text.into_iter().collect();
        if let Ok(map) = parse_map(&text) {
            read += 1;
            use_it(&map);
        }
    }
    assert!(read > 50, "{read}");
}
