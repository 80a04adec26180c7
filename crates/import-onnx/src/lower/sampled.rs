//! What terms over open sizes are for a few of these sizes.
//!
//! A simplifier that knows only what holds for every size, 0 among them, cannot say that `min(n, 1)` is 1. Models
//! mean sizes that are not that small: what holds for those of inputs in use is taken to hold, and a run checks it.

use tegula_expr::Term;

/// Sizes: odd and even, prime, around the powers of two, and as many as a sound has samples, so that what a
/// model divides by its steps is more than one, too.
const SIZES: [i64; 17] = [
    3, 4, 5, 7, 16, 31, 32, 33, 64, 100, 225, 1000, 4096, 16_001, 48_000, 100_000, 1_000_003,
];

/// The term's values, if it has one each time.
fn values(term: &Term) -> Option<Vec<i64>> {
    // Symbols have different sizes, and each of them every size.
    let size = |time: usize, symbol: u32| SIZES[(time + 4 * symbol as usize) % SIZES.len()];
    (0..SIZES.len())
        .map(|time| term.eval(&|symbol| Some(size(time, symbol.0))).ok())
        .collect()
}

/// Whether a size is 1, whatever the open sizes are.
pub(crate) fn is_one(size: &Term) -> bool {
    match size.as_constant() {
        Some(size) => size == 1,
        None => values(size).is_some_and(|values| values.iter().all(|value| *value == 1)),
    }
}

/// Whether two sizes are never the same.
pub(crate) fn are_different(a: &Term, b: &Term) -> bool {
    let pairs = values(a).zip(values(b));
    a != b && pairs.is_some_and(|(a, b)| a.iter().zip(&b).all(|(a, b)| a != b))
}
