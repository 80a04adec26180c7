//! Tiles of maps, without operations.

use super::{At, check, points, random_sizes, tiles_of};
use crate::common::{Random, cases, random_map};
use tegula_indexing::tiles::{Tile, TilingSpace};
use tegula_indexing::{IndexingMap, Simplifier};

fn parse(text: &str) -> IndexingMap {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Tries every tile of some sizes, given and open; gives how many are exact of how many.
fn check_map(map: &IndexingMap, sizes: &[i64], random: &mut Random) -> (u32, u32) {
    let map = Simplifier::new().simplify_map(map);
    let space = TilingSpace::of_array(sizes);
    let all = points(&map, &|_, _, _| unreachable!("no run-time variables"));
    let open = Tile::of(&map, &space);
    let (mut exact, mut tried) = (0, 0);
    for _ in 0..6 {
        let sizes = random_sizes(&space, random);
        let given: Vec<Option<i64>> = sizes.iter().copied().map(Some).collect();
        let tile = Tile::of(&map, &space.with_sizes(&given));
        for number in tiles_of(&space, &sizes) {
            let at = At {
                tile: number,
                sizes: sizes.clone(),
                runtime: Vec::new(),
            };
            let inside = all.iter().filter(|(point, _)| at.has(point));
            let read = inside.map(|(_, results)| results.clone()).collect();
            tried += 1;
            exact += u32::from(check(&tile, &at, &read, &map.to_string()));
            check(&open, &at, &read, &format!("open: {map}"));
        }
    }
    (exact, tried)
}

#[test]
fn of_operations() {
    let mut random = Random(7);
    for (text, sizes) in [
        // collapse, expand, generic and m-to-n reshapes
        (
            "(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]",
            &[32][..],
        ),
        (
            "(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]",
            &[4, 8],
        ),
        (
            "(d0, d1, d2) -> (d0 * 2 + d1 / 2, d2 + (d1 mod 2) * 4), domain: d0 in [0, 1], d1 in [0, 3], d2 in [0, 3]",
            &[2, 4, 4],
        ),
        (
            "(d0) -> (d0 / 12, (d0 / 4) mod 3, d0 mod 4), domain: d0 in [0, 23]",
            &[24],
        ),
        (
            "(d0, d1) -> ((d0 * 3 + d1) / 4, (d0 * 3 + d1) mod 4), domain: d0 in [0, 7], d1 in [0, 2]",
            &[8, 3],
        ),
        // a slice of a split reshape
        (
            "(d0) -> (d0 / 4, d0 mod 4 + 2), domain: d0 in [0, 15]",
            &[16],
        ),
        // one operand of a concatenation
        (
            "(d0)[s0] -> (d0, s0), domain: d0 in [0, 5], s0 in [0, 2]",
            &[6],
        ),
        (
            "(d0, d1) -> (d0 - 2, d1), domain: d0 in [2, 5], d1 in [0, 3]",
            &[9, 4],
        ),
        // reversal, stride, broadcast, padding inside
        (
            "(d0, d1) -> (-d1 + 7, d0 * 3 + 1), domain: d0 in [0, 4], d1 in [0, 7]",
            &[5, 8],
        ),
        (
            "(d0, d1) -> (d1), domain: d0 in [0, 4], d1 in [0, 7]",
            &[5, 8],
        ),
        (
            "(d0) -> ((d0 - 1) / 2), domain: d0 in [1, 7], (d0 - 1) mod 2 in [0, 0]",
            &[12],
        ),
        // windows with both dilations
        (
            "(d0)[s0] -> ((d0 + s0 * 3 - 1) / 2), domain: d0 in [0, 12], s0 in [0, 1], d0 + s0 * 3 in [1, 13], (d0 + s0 * 3 - 1) mod 2 in [0, 0]",
            &[13],
        ),
        // a diagonal is no product
        ("(d0) -> (d0, d0), domain: d0 in [0, 5]", &[6]),
    ] {
        let (exact, tried) = check_map(&parse(text), sizes, &mut random);
        if exact == 0 {
            let space = TilingSpace::of_array(sizes).with_minor_sizes(&[4]);
            let tile = Tile::of(&Simplifier::new().simplify_map(&parse(text)), &space);
            panic!("{text}: {exact} of {tried}\n{tile:#?}");
        }
    }
}

#[test]
fn of_random_maps() {
    let (mut exact, mut tried) = (0, 0);
    for case in 0..cases(1_500) {
        let mut random = Random(case);
        let map = random_map(case, 8, case % 3 == 2);
        let starts_at_0 = map.dims.iter().all(|dim| dim.bounds.lower >= 0);
        if !starts_at_0 || map.enumerate(2_000).is_none() {
            continue;
        }
        let sizes: Vec<i64> = map.dims.iter().map(|dim| dim.bounds.upper + 1).collect();
        let found = check_map(&map, &sizes, &mut random);
        exact += found.0;
        tried += found.1;
    }
    println!("{exact} of {tried} tiles are exact");
    assert!(exact * 2 > tried, "{exact} of {tried}");
}
