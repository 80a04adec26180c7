//! Tests terms over open sizes by evaluating them for sample sizes.
//!
//! The simplifier proves only what holds for every size, including 0, so it cannot replace `min(n,
//! 1)` by 1. Models are meant for sizes that are not that small. What holds for sample sizes that
//! are in practical use is therefore assumed, and checked at run time.

use tegula_expr::Term;

/// The sample sizes: odd and even numbers, primes, numbers near powers of two, and sizes as large
/// as the number of samples of a sound, so that quotients by a model's strides are above one, too.
const SIZES: [i64; 17] = [
    3, 4, 5, 7, 16, 31, 32, 33, 64, 100, 225, 1000, 4096, 16_001, 48_000, 100_000, 1_000_003,
];

/// The term's values for the sample sizes, if it has a value for each.
fn values(term: &Term) -> Option<Vec<i64>> {
    // Different symbols have different sizes at a time, and each takes all sizes over time.
    let size = |time: usize, symbol: u32| SIZES[(time + 4 * symbol as usize) % SIZES.len()];
    (0..SIZES.len())
        .map(|time| term.eval(&|symbol| Some(size(time, symbol.0))).ok())
        .collect()
}

/// Whether a size is 1 for all sample sizes.
pub(crate) fn is_one(size: &Term) -> bool {
    match size.as_constant() {
        Some(size) => size == 1,
        None => values(size).is_some_and(|values| values.iter().all(|value| *value == 1)),
    }
}

/// Whether two sizes differ for all sample sizes.
pub(crate) fn are_different(a: &Term, b: &Term) -> bool {
    let pairs = values(a).zip(values(b));
    a != b && pairs.is_some_and(|(a, b)| a.iter().zip(&b).all(|(a, b)| a != b))
}
