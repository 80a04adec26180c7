//! Tests utilisation, coalescing and alignment by counting.

use crate::common::proof::simplified;
use std::collections::BTreeSet;

use crate::common::{Random, cases, random_map};
use tegula_indexing::{
    Answer, IndexingMap, Warp, coalescing, contiguous_elements, is_multiple_of, row_major_address,
    stride_along, utilization,
};

fn parse(text: &str) -> IndexingMap {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Random maps into small arrays, with results shifted to start at 0, and the sizes of the array.
fn random_access(seed: u64) -> Option<(IndexingMap, Vec<i64>)> {
    let mut map = random_map(seed, 6, seed.is_multiple_of(3));
    let points = map.enumerate(2_000)?;
    let mut sizes = Vec::new();
    for result in 0..map.results.len() {
        let values = points.iter().map(|(_, results)| results[result]);
        let (low, high) = (values.clone().min()?, values.max()?);
        map.results[result] = map.results[result].sub(&low.into());
        sizes.push(high - low + 2);
    }
    Some((map, sizes))
}

#[test]
fn counts_of_random_maps() {
    let mut counted = 0;
    for case in 0..cases(2_000) {
        let Some((map, sizes)) = random_access(case) else {
            continue;
        };
        let points = map.enumerate(2_000).expect("small");
        let distinct: BTreeSet<_> = points.iter().map(|(_, to)| to.clone()).collect();
        let found = utilization(std::slice::from_ref(&map), &sizes).expect("small");
        assert_eq!(found.distinct, distinct.len() as u128, "{map}");
        assert_eq!(found.reads, points.len() as u128, "{map}");
        // The same map into an array too large to mark, so that elements are counted as a product.
        let mut large = map.clone();
        large.dims.push(tegula_indexing::Variable::of_size(1 << 40));
        let shift = map.dims.len();
        large.for_each_term(&mut |term| {
            *term = term.substitute(&mut |var| {
                let number = var.0 as usize;
                let moved = number + usize::from(number >= shift);
                Some(tegula_expr::Term::var(tegula_expr::Var(moved as u32)))
            });
        });
        let last = large.dim(shift);
        large.results.push(last);
        let large_sizes = [sizes.as_slice(), &[1 << 41]].concat();
        if let Some(found) = utilization(&[large], &large_sizes) {
            counted += 1;
            assert_eq!(found.distinct, (distinct.len() as u128) << 40, "{map}");
        }
    }
    assert!(counted > 0);
}

#[test]
fn several_maps_are_united() {
    for case in 0..cases(400) {
        let mut random = Random(case);
        let mut one = || {
            let (k, c) = (random.range(1, 3), random.range(0, 4));
            parse(&format!(
                "(d0, d1) -> (d0 * {k} + {c}, d1 + {c}), domain: d0 in [0, {}], d1 in [0, {}]",
                random.range(0, 6),
                random.range(0, 5)
            ))
        };
        let maps = [one(), one(), one()];
        let small = utilization(&maps, &[40, 40]).expect("small");
        // Larger than what is marked element by element.
        let large = utilization(&maps, &[40_000, 40_000]).expect("products");
        assert_eq!(small.distinct, large.distinct, "{maps:?}");
    }
}

#[test]
fn sectors_of_strided_loads() {
    let address = row_major_address(&[1 << 20], None).expect("it fits");
    let load = |text: &str, warp| coalescing(&parse(text), &address, 4, warp, 0).expect("a load");
    for (stride, sectors) in [(1, 4), (2, 8), (4, 16), (8, 32), (100, 32)] {
        let text = format!("(d0) -> (d0 * {stride}), domain: d0 in [0, 9999]");
        let found = load(&text, Warp::default());
        assert_eq!(
            (found.sectors, found.ideal, found.active),
            (sectors, 4, 32),
            "{stride}"
        );
    }
    // A broadcast needs one sector, and an unaligned start one more.
    assert_eq!(
        load("(d0) -> (7), domain: d0 in [0, 9999]", Warp::default()).sectors,
        1
    );
    assert_eq!(
        load("(d0) -> (d0 + 1), domain: d0 in [0, 9999]", Warp::default()).sectors,
        5
    );
    let four = Warp {
        vector: 4,
        ..Warp::default()
    };
    assert_eq!(
        load("(d0) -> (d0), domain: d0 in [0, 9999]", four).sectors,
        16
    );
    // Lanes outside the domain load nothing.
    let found = load("(d0) -> (d0), domain: d0 in [0, 9]", Warp::default());
    assert_eq!((found.active, found.sectors), (10, 2));
}

#[test]
fn alignment_is_proved_or_refuted() {
    let (mut yes, mut no) = (0, 0);
    for case in 0..cases(1_500) {
        let map = random_map(case, 6, case % 2 == 1);
        let Some(points) = map.enumerate(2_000) else {
            continue;
        };
        let modulus = [2, 3, 4, 8][usize::try_from(case % 4).expect("small")];
        match is_multiple_of(&map, &map.results[0], modulus) {
            Answer::Yes(_) => {
                yes += 1;
                assert!(points.iter().all(|(_, to)| to[0] % modulus == 0), "{map}");
            }
            Answer::No(point) => {
                no += 1;
                let value = map.evaluate(&point).expect("a value").expect("inside");
                assert_ne!(value[0] % modulus, 0, "{map}");
            }
            Answer::Unknown => assert!(points.is_empty(), "{map}"),
        }
    }
    assert!(yes > 20 && no > 20);
    let tall = parse(
        "(d0, d1) -> (d0 * 8192 + (d1 / 128) * 128), domain: d0 in [0, 9999999], d1 in [0, 8191]",
    );
    let Answer::Yes(proof) = is_multiple_of(&tall, &tall.results[0], 128) else {
        panic!("128 divides both parts");
    };
    let names = |var| tall.name(var);
    assert!(proof.display(&names).to_string().ends_with("modulo 128"));
}

#[test]
fn strides_and_vector_widths() {
    for case in 0..cases(1_500) {
        let map = random_map(case, 8, case % 2 == 1);
        let Some(points) = map.enumerate(2_000) else {
            continue;
        };
        let at = |point: &[i64]| map.evaluate(point).expect("a value").map(|to| to[0]);
        if let Some((stride, _)) = stride_along(&map, 0, 0) {
            for (point, to) in &points {
                let mut next = point.clone();
                next[0] += 1;
                if let Some(after) = at(&next) {
                    assert_eq!(after - to[0], stride, "{map}");
                }
            }
        }
        let (width, _) = contiguous_elements(&map, 0, 0, 8);
        for (point, to) in &points {
            let first = point[0].div_euclid(width) * width;
            let mut start = point.clone();
            start[0] = first;
            assert_eq!(
                at(&start).map(|own| to[0] - own),
                Some(point[0] - first),
                "{map}"
            );
        }
    }
    let simple = simplified(&parse(
        "(d0, d1) -> (d0 * 64 + d1), domain: d0 in [0, 9], d1 in [0, 63]",
    ));
    assert_eq!(contiguous_elements(&simple, 0, 1, 16).0, 16);
    assert_eq!(contiguous_elements(&simple, 0, 0, 16).0, 1);
}
