//! Tests tiles by brute force: for random operations and fusions, every tile must contain all
//! elements that the reference evaluator reads, and no others where it claims to be exact.
//!
//! Each tiling is tried with given and with symbolic sizes. The conditions for symbolic sizes are
//! evaluated at the sizes that are drawn.

mod conditions;
mod corpus;
mod fusions;
mod hard_shapes;
mod maps;
mod operations;

use std::collections::BTreeSet;

use crate::common::Random;
use tegula_expr::Var;
use tegula_indexing::IndexingMap;
use tegula_indexing::tiles::{Tile, TilingSpace};

/// Indices of an array.
pub(crate) type Indices = BTreeSet<Vec<i64>>;

/// The space's variables at one tile: numbers, sizes, and run-time variables.
pub(crate) struct At {
    pub(crate) tile: Vec<i64>,
    pub(crate) sizes: Vec<i64>,
    pub(crate) runtime: Vec<i64>,
}

impl At {
    fn value(&self, var: Var) -> Option<i64> {
        let all = self.tile.iter().chain(&self.sizes).chain(&self.runtime);
        all.copied().nth(var.0 as usize)
    }

    /// Whether a point of the space is in the tile.
    pub(crate) fn has(&self, point: &[i64]) -> bool {
        let dims = self.tile.iter().zip(&self.sizes).zip(point);
        dims.into_iter()
            .all(|((number, size), at)| at / size == *number)
    }
}

/// The indices of a tile.
pub(crate) fn indices(tile: &Tile, at: &At) -> Indices {
    let found = tile.at(&|var| at.value(var)).expect("values");
    let Some(found) = found else {
        return Indices::new();
    };
    let mut all = vec![Vec::new()];
    for extent in found {
        assert!(extent.stride >= 1 && extent.size >= 1);
        all = all
            .into_iter()
            .flat_map(|index: Vec<i64>| {
                let steps = 0..extent.size;
                steps.map(move |j| [index.clone(), vec![extent.first + j * extent.stride]].concat())
            })
            .collect();
    }
    all.into_iter().collect()
}

/// Whether the tile claims to be exact there.
pub(crate) fn is_exact(tile: &Tile, at: &At) -> bool {
    tile.exact.eval(&|var| at.value(var)).expect("values")
}

/// Checks a tile against the indices that are read; returns whether it claims to be exact.
pub(crate) fn check(tile: &Tile, at: &At, read: &Indices, what: &str) -> bool {
    let found = indices(tile, at);
    let shown = || {
        format!(
            "{what}\ntile {:?} of sizes {:?}, run-time {:?}\n{tile:#?}",
            at.tile, at.sizes, at.runtime
        )
    };
    let missed: Vec<_> = read.difference(&found).take(3).collect();
    assert!(missed.is_empty(), "not covered: {missed:?}\n{}", shown());
    let exact = is_exact(tile, at);
    if exact {
        let more: Vec<_> = found.difference(read).take(3).collect();
        assert!(more.is_empty(), "not read: {more:?}\n{}", shown());
    }
    if tile.is_smallest && !read.is_empty() {
        for dim in 0..tile.dims.len() {
            let ends = |set: &Indices| {
                let all = set.iter().map(|index| index[dim]);
                (all.clone().min(), all.max())
            };
            assert_eq!(ends(&found), ends(read), "not the smallest\n{}", shown());
        }
    }
    // The size is an upper bound for the number of values within the limits.
    exact
}

/// Random sizes of tiles, each of which is sometimes whole.
pub(crate) fn random_sizes(space: &TilingSpace, random: &mut Random) -> Vec<i64> {
    let size = |extent: i64, random: &mut Random| match random.range(0, 4) {
        0 => 1,
        1 => extent.max(1),
        _ => random.range(1, extent.max(1)),
    };
    let dims = space.dims.iter();
    dims.map(|dim| size(dim.extent, random)).collect()
}

/// The numbers of all tiles of these sizes.
pub(crate) fn tiles_of(space: &TilingSpace, sizes: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for (dim, size) in space.dims.iter().zip(sizes) {
        let count = (dim.extent + size - 1) / size;
        all = all
            .into_iter()
            .flat_map(|tile: Vec<i64>| {
                (0..count).map(move |number| [tile.clone(), vec![number]].concat())
            })
            .collect();
    }
    all
}

/// The map's points and results with run-time variables bound by `bind`, which gets the
/// point so far.
pub(crate) fn points(
    map: &IndexingMap,
    bind: &dyn Fn(&IndexingMap, usize, &[i64]) -> i64,
) -> Vec<(Vec<i64>, Vec<i64>)> {
    let mut free = map.clone();
    free.runtime.clear();
    free.constraints.clear();
    free.results.clear();
    let mut found = Vec::new();
    for (point, _) in free.enumerate(2_000_000).expect("small") {
        let mut point = point.to_vec();
        for number in 0..map.runtime.len() {
            point.push(bind(map, number, &point));
        }
        if let Some(results) = map.evaluate(&point).expect("a value") {
            found.push((point, results));
        }
    }
    found
}
