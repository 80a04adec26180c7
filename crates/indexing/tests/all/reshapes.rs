//! Tests chains of reshapes and transposes: each map by brute force against row-major order, and
//! that a chain followed by its inverse is the identity.

use crate::common::modules::{map_of, one_op};
use crate::common::proof::prove;
use crate::common::{Random, cases};
use tegula_indexing::{IndexingMap, Limits, Simplifier, output_to_input};
use tegula_ir::Op;

/// Sizes with a given product: its prime factors are assigned to random dimensions.
fn shape(random: &mut Random, primes: &[i64]) -> Vec<i64> {
    let mut dims = vec![1];
    for prime in primes {
        if random.range(0, 2) > 0 {
            dims.push(1);
        }
        if let Some(last) = dims.last_mut() {
            *last *= prime;
        }
    }
    dims
}

fn reshape(from: &[i64], to: &[i64]) -> IndexingMap {
    let (module, id) = one_op(Op::Reshape, &[from], to);
    map_of(&output_to_input(&module, id), 0).clone()
}

fn linear(index: &[i64], sizes: &[i64]) -> i64 {
    index.iter().zip(sizes).fold(0, |sum, (i, n)| sum * n + i)
}

#[test]
fn reshapes_keep_row_major_order() {
    for case in 0..cases(400) {
        let mut random = Random(case);
        let primes: Vec<i64> = (0..random.range(1, 7))
            .map(|_| [2, 2, 3, 3, 5, 7][random.range(0, 5) as usize])
            .collect();
        let (from, to) = (shape(&mut random, &primes), shape(&mut random, &primes));
        let map = reshape(&from, &to);
        for (point, result) in map.enumerate(100_000).unwrap_or_default() {
            assert_eq!(
                linear(&point, &to),
                linear(&result, &from),
                "{from:?} {to:?} {map}"
            );
            assert!(
                result.iter().zip(&from).all(|(i, n)| (0..*n).contains(i)),
                "{map}"
            );
        }
    }
}

#[test]
fn there_and_back_is_the_identity() {
    let mut hard = 0;
    let total = cases(600);
    for case in 0..total {
        let mut random = Random(case ^ 0xFFFF);
        // Too large to enumerate, so the rules must simplify it.
        let count = random.range(6, 14);
        let primes: Vec<i64> = (0..count)
            .map(|_| [2, 2, 3, 3, 5, 7, 11][random.range(0, 6) as usize])
            .collect();
        let start = shape(&mut random, &primes);
        let mut simplifier = Simplifier::new();
        let mut map = IndexingMap::identity(&start);
        let mut sizes = start.clone();
        for _ in 0..random.range(1, 3) {
            let next = shape(&mut random, &primes);
            let composed = map.compose(&reshape(&next, &sizes));
            map = simplifier.simplify_map(&composed);
            prove(&composed, &map, Limits::default());
            sizes = next;
        }
        map = simplifier.simplify_map(&map.compose(&reshape(&start, &sizes)));
        if map != simplifier.simplify_map(&IndexingMap::identity(&start)) {
            hard += 1;
            if hard < 4 {
                println!("{start:?} via {sizes:?}: {map}");
            }
        }
    }
    println!("{hard} of {total} chains left something");
    assert_eq!(hard, 0);
}
