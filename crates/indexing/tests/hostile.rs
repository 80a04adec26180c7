//! Maps with extreme numbers through everything that takes a map: an answer or a
//! refusal, never an overflow, a panic or an endless loop.

mod common;

use common::{Random, cases, random_map};
use tegula_expr::{Interval, Term};
use tegula_indexing::{
    Exactness, IndexingMap, Participant, Session, Tile, Warp, coalescing, contiguous_elements,
    is_multiple_of, parse_map, propagate_tile, row_major_address, stride_along, utilization,
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
    let mut session = Session::new().explaining();
    let simple = session.simplify_map(map);
    let _ = session.simplify_preserving_points(map);
    let _ = map.inverse();
    let _ = simple.inverse();
    let _ = map.ranges_as_dims();
    let mut rescaled = map.clone();
    rescaled.rescale_ranges();
    rescaled.remove_unused_variables();
    rescaled.merge_runtime_variables();
    let _ = map.then(map);
    let _ = map.then(&simple);
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
    let strides = vec![1; map.dims.len()];
    if let Some(tiled) = propagate_tile(map, &sizes, &Tile::symbolic(&strides)) {
        for value in EXTREMES {
            let _ = tiled.at(&vec![value; 2 * map.dims.len() + map.runtime.len()]);
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
    // Variables that are not there.
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
    let mut session = Session::new();
    let simple = session.simplify_map(&deep);
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
    let simple = session.simplify_map(&wide);
    let _ = simple.inverse();
    let _ = utilization(&[simple], &[1000, 1000]);
}
