//! Finds the tile sizes that are valid for a fusion, best first by a given cost.
//!
//! Sizes are valid if every tile of every operand is exactly what is read, and the caller's limit
//! is respected. The caller supplies the cost. [`Traffic`] is one: the bytes of memory traffic if
//! loops over tiles run in the order of the space's dimensions, and a tile is kept as long as the
//! inner loops do not change it.

use tegula_expr::Var;

use super::propagate::{OperandTiles, Tiling};
use super::space::TilingSpace;
use super::tile::Tile;

/// The most tilings that are evaluated.
const MAX_TRIED: usize = 512;
/// The most sizes of one dimension that are tried.
const MAX_SIZES: usize = 16;
/// The most rounds over all dimensions; each changes one size at a time.
const MAX_ROUNDS: usize = 3;

/// Tile sizes and their cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// One size for each dimension of the space.
    pub sizes: Vec<i64>,
    /// The cost; lower is better.
    pub cost: f64,
}

/// The cost of a tiling, which is a space with fixed sizes, and the tiles of all operands. `None`
/// if the tiling is not allowed.
pub type Cost<'a> = dyn Fn(&TilingSpace, &[OperandTiles]) -> Option<f64> + 'a;

impl Tiling {
    /// Valid tile sizes, best first: all that were tried in a search that starts from the smallest
    /// and the largest tiles and changes one size at a time. The sizes tried are powers of two
    /// times `units`, and whole dimensions. Units are, for example, 8 and 128 for the last two
    /// dimensions of a TPU's arrays; the last unit is that of the last parallel dimension, and
    /// dimensions without one have unit 1.
    ///
    /// ```
    /// use tegula_indexing::Simplifier;
    /// use tegula_indexing::tiles::{Tiling, Traffic};
    ///
    /// let module = tegula_ir::parse_module(
    ///     "HloModule m
    ///      ENTRY e { a = f32[1024,512] parameter(0)
    ///                ROOT t = f32[512,1024] transpose(a), dimensions={1,0} }",
    /// )?;
    /// let root = module.entry_computation().root;
    /// let tiling = Tiling::of(&module, root, 0, &mut Simplifier::new()).expect("an array");
    /// let cost = Traffic { element_bytes: vec![4], result_bytes: 4, line_bytes: 64,
    ///                      capacity_bytes: 32 << 10, tile_bytes: 1024 };
    /// let best = tiling.best_sizes(&[8, 8], &cost.cost());
    /// // Both sides of a transposition are read in whole lines, in tiles that fit.
    /// assert!(best[0].sizes.iter().all(|size| size % 16 == 0));
    /// assert!(best[0].sizes.iter().product::<i64>() * 8 <= 32 << 10);
    /// # Ok::<(), tegula_ir::Error>(())
    /// ```
    pub fn best_sizes(&self, units: &[i64], cost: &Cost<'_>) -> Vec<Choice> {
        let options: Vec<Vec<i64>> = (0..self.space.dims.len())
            .map(|dim| self.sizes_of(dim, units))
            .collect();
        let mut found: Vec<Choice> = Vec::new();
        let mut tried: Vec<Vec<i64>> = Vec::new();
        let ends = [
            options
                .iter()
                .map(|sizes| sizes.first().copied().unwrap_or(1))
                .collect(),
            options
                .iter()
                .map(|sizes| sizes.last().copied().unwrap_or(1))
                .collect(),
        ];
        for start in ends {
            self.descend(start, &options, cost, &mut found, &mut tried);
        }
        found.sort_by(|a, b| {
            a.cost
                .total_cmp(&b.cost)
                .then_with(|| a.sizes.cmp(&b.sizes))
        });
        found
    }

    /// Improves sizes one at a time, as long as the cost decreases.
    fn descend(
        &self,
        start: Vec<i64>,
        options: &[Vec<i64>],
        cost: &Cost<'_>,
        found: &mut Vec<Choice>,
        tried: &mut Vec<Vec<i64>>,
    ) {
        let mut best = start;
        let mut least = self.evaluate(&best, cost, found, tried);
        for _ in 0..MAX_ROUNDS {
            let before = best.clone();
            for (dim, sizes) in options.iter().enumerate() {
                for size in sizes {
                    let mut next = best.clone();
                    if let Some(slot) = next.get_mut(dim) {
                        *slot = *size;
                    }
                    let own = self.evaluate(&next, cost, found, tried);
                    if own < least {
                        (least, best) = (own, next);
                    }
                }
            }
            if best == before {
                break;
            }
        }
    }

    /// The cost of sizes; infinite if they are not valid or too many have been tried already.
    fn evaluate(
        &self,
        sizes: &[i64],
        cost: &Cost<'_>,
        found: &mut Vec<Choice>,
        tried: &mut Vec<Vec<i64>>,
    ) -> f64 {
        if let Some(known) = found.iter().find(|choice| choice.sizes == sizes) {
            return known.cost;
        }
        if tried.len() >= MAX_TRIED || tried.iter().any(|other| other == sizes) {
            return f64::INFINITY;
        }
        tried.push(sizes.to_vec());
        let given: Vec<Option<i64>> = sizes.iter().copied().map(Some).collect();
        let space = self.space.with_sizes(&given);
        let operands = self.operands(&space);
        let is_valid = operands.iter().all(|operand| {
            let tiles = operand.tiles.as_ref();
            tiles.is_ok_and(|tiles| tiles.iter().all(Tile::is_exact))
        });
        match cost(&space, &operands).filter(|_| is_valid) {
            Some(cost) => {
                let sizes = sizes.to_vec();
                found.push(Choice { sizes, cost });
                cost
            }
            None => f64::INFINITY,
        }
    }

    /// The sizes to try along a dimension.
    fn sizes_of(&self, dim: usize, units: &[i64]) -> Vec<i64> {
        let extent = self.space.dims.get(dim).map_or(1, |dim| dim.extent.max(1));
        let parallel = self.space.parallel().count();
        let unit = (dim + units.len())
            .checked_sub(parallel)
            .and_then(|at| units.get(at).copied())
            .unwrap_or(1);
        let mut sizes = Vec::new();
        let mut size = unit.max(1);
        while size < extent && sizes.len() + 1 < MAX_SIZES {
            sizes.push(size);
            size = size.saturating_mul(2);
        }
        sizes.push(extent);
        sizes
    }
}

/// A cost model that counts the bytes of memory traffic.
///
/// Loops over tiles run in the order of the space's dimensions, the last innermost. An operand's
/// tile is read again whenever a loop that it depends on, or a loop outside of that one, advances.
/// The result's tile is written once for each tile of the parallel dimensions. Rows of a tile are
/// rounded up to whole lines. In addition, each tile costs as much as moving `tile_bytes`.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// The size of an element of each operand, in bytes.
    pub element_bytes: Vec<i64>,
    /// The size of an element of the result, in bytes.
    pub result_bytes: i64,
    /// The size of a cache line or sector, in bytes.
    pub line_bytes: i64,
    /// The most bytes that all tiles together may take.
    pub capacity_bytes: i64,
    /// The overhead per tile, as the equivalent number of bytes moved.
    pub tile_bytes: i64,
}

impl Traffic {
    /// The cost as a function, for [`Tiling::best_sizes`].
    pub fn cost(&self) -> impl Fn(&TilingSpace, &[OperandTiles]) -> Option<f64> + '_ {
        |space, operands| self.of(space, operands)
    }

    /// The bytes that a tiling moves; `None` if its tiles exceed the capacity.
    fn of(&self, space: &TilingSpace, operands: &[OperandTiles]) -> Option<f64> {
        let counts: Vec<f64> = space
            .dims
            .iter()
            .map(|dim| dim.tile_count().map(|count| count as f64))
            .collect::<Option<_>>()?;
        let parallel = space.parallel().count();
        let result: Vec<i64> = space
            .parallel()
            .map(|dim| dim.sizes.as_point())
            .collect::<Option<_>>()?;
        let own = self.bytes(&result, self.result_bytes);
        let written: f64 = counts.iter().take(parallel).product();
        let (mut taken, mut moved) = (own, own * written);
        for operand in operands {
            let element = self
                .element_bytes
                .get(operand.operand)
                .copied()
                .unwrap_or(4);
            for tile in operand.tiles.as_ref().ok()? {
                let sizes: Vec<i64> = tile
                    .dims
                    .iter()
                    .map(|dim| dim.size.as_constant())
                    .collect::<Option<_>>()?;
                let bytes = self.bytes(&sizes, element);
                let vars = tile.variables();
                let depends = |dim: usize| vars.contains(&Var(u32::try_from(dim).unwrap_or(0)));
                let last = (0..counts.len()).rev().find(|dim| depends(*dim));
                let fetches: f64 = counts.iter().take(last.map_or(0, |dim| dim + 1)).product();
                taken += bytes;
                moved += bytes * fetches;
            }
        }
        let tiles: f64 = counts.iter().product();
        (taken <= self.capacity_bytes as f64).then_some(moved + tiles * self.tile_bytes as f64)
    }

    fn bytes(&self, sizes: &[i64], element: i64) -> f64 {
        let (row, rows) = match sizes.split_last() {
            Some((row, rows)) => (*row, rows.iter().map(|size| *size as f64).product()),
            None => (1, 1.0),
        };
        let line = self.line_bytes.max(1) as f64;
        let lines = (row as f64 * element as f64 / line).ceil();
        lines * line * rows
    }
}
