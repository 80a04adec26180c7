//! The indexing crate alone: which element does a chain of operations read?
//!
//!     cargo run --example indexing
//!
//! A channel shuffle views `n` channels as `[groups, n / groups]`, transposes, and
//! views the result as `[n]` again. Its map says from which channel each one comes;
//! shuffling back composes to the identity.

use tegula_expr::Term;
use tegula_indexing::{IndexingMap, Simplifier};

/// From an index of the shuffled channels to the index that is read.
fn shuffle(n: i64, groups: i64) -> IndexingMap {
    let size = n / groups;
    let (groups_term, size_term) = (Term::constant(groups), Term::constant(size));

    // The result [n] is a reshape of [size, groups] ...
    let mut merge = IndexingMap::over(&[n]);
    let channel = merge.dim(0);
    merge.results = vec![
        channel.floor_div(&groups_term),
        channel.modulo(&groups_term),
    ];
    // ... which is a transpose of [groups, size] ...
    let mut transpose = IndexingMap::over(&[size, groups]);
    transpose.results = vec![transpose.dim(1), transpose.dim(0)];
    // ... which is a reshape of the operand [n].
    let mut split = IndexingMap::over(&[groups, size]);
    split.results = vec![split.dim(0).mul(&size_term).add(&split.dim(1))];

    merge.compose(&transpose).compose(&split)
}

fn main() {
    let mut simplifier = Simplifier::new();
    let (there, back) = (shuffle(12, 3), shuffle(12, 4));
    println!("composed:   {there}");
    println!("simplified: {}", simplifier.simplify_map(&there));
    println!(
        "and back:   {}",
        simplifier.simplify_map(&there.compose(&back))
    );
    println!("channel 5 is read from {:?}", there.evaluate(&[5]));
}

#[test]
fn shuffling_there_and_back_is_the_identity() {
    let (there, back) = (shuffle(12, 3), shuffle(12, 4));
    let both = Simplifier::new().simplify_map(&there.compose(&back));
    assert_eq!(both.to_string(), "(d0) -> (d0), domain: d0 in [0, 11]");
}

#[test]
fn channels_come_from_where_a_shuffle_takes_them() {
    let simplified = Simplifier::new().simplify_map(&shuffle(12, 3));
    for (to, from) in [(0, 0), (1, 4), (2, 8), (3, 1), (5, 9), (11, 11)] {
        assert_eq!(simplified.evaluate(&[to]), Ok(Some(vec![from])));
    }
}
