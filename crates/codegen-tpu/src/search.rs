//! How large blocks should be: among sizes that fit, those with which a pipeline over
//! them takes least time by a simple estimate.
//!
//! A step of the pipeline takes as long as its slowest part: its arithmetic, what HBM
//! moves for it (blocks that are fetched again included), or, where blocks are small, the
//! wait for the next one, which begins to be fetched when the step begins and is there a
//! latency after its bytes. The first blocks and the last have nothing that hides them.

use super::follow::Follows;
use rustc_hash::FxHashMap;
use tegula_ir::{ArrayShape, InstructionId, Module, TileDim};
use tegula_sim_tpu::speeds::Speeds;

/// The most choices that are compared.
const MOST_CHOICES: usize = 50_000;

/// How an array is cut along one of its dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// It is not.
    Whole,
    /// Into blocks of this size, which follow a dimension of the result.
    Follows {
        /// The result's dimension; the one behind them is a product's depth.
        dim: usize,
        /// Elements of a block.
        size: i64,
    },
}

/// The search for the sizes of blocks.
pub(super) struct Search<'a> {
    pub module: &'a Module,
    /// The parameters, then the result.
    pub arrays: &'a [InstructionId],
    /// Whether each of them moves between HBM and VMEM.
    pub staged: &'a [bool],
    pub follows: &'a FxHashMap<InstructionId, Follows>,
    /// The result's dimensions, then what a product sums over.
    pub extents: &'a [i64],
    /// For how many blocks of an array that moves there is to be room.
    pub copies: i64,
    /// Sums of a product are kept for a block, if its depth is cut: their value.
    pub sums: Option<InstructionId>,
    /// Bytes of VMEM there are.
    pub limit: i64,
    /// Seconds of the whole kernel's arithmetic.
    pub arithmetic: f64,
    /// Whether it has a product, whose results come a latency after its operands.
    pub has_product: bool,
    pub speeds: &'a Speeds,
    /// Bytes of an array with its padding.
    pub bytes: &'a dyn Fn(&ArrayShape) -> i64,
}

impl Search<'_> {
    /// The sizes of the blocks along `cut`, whole along the others.
    ///
    /// # Errors
    /// The bytes that the smallest blocks need.
    pub(super) fn sizes(&self, cut: &[usize]) -> Result<Vec<i64>, i64> {
        let mut choices: Vec<Vec<i64>> = vec![self.extents.to_vec()];
        for &dim in cut {
            let mut along = vec![self.extents[dim]];
            while let Some(next) = along.last().and_then(|&size| self.smaller(dim, size)) {
                along.push(next);
            }
            // Every second size where there would be too many.
            while along.len() > 2 && choices.len() * along.len() > MOST_CHOICES {
                let last = along.len() - 1;
                let mut at = 0..;
                along.retain(|_| at.next().is_some_and(|at| at % 2 == 0 || at == last));
            }
            let with = |choice: &Vec<i64>| {
                let choice = choice.clone();
                along.iter().map(move |&size| {
                    let mut sizes = choice.clone();
                    sizes[dim] = size;
                    sizes
                })
            };
            choices = choices.iter().flat_map(with).collect();
        }
        let mut least = i64::MAX;
        let mut best: Option<(f64, i64, Vec<i64>)> = None;
        for sizes in choices {
            let needed = self.needed(&sizes);
            least = least.min(needed);
            if needed > self.limit {
                continue;
            }
            let seconds = self.seconds(&sizes);
            let is_better = best
                .as_ref()
                .is_none_or(|(other, bytes, _)| (seconds, needed) < (*other, *bytes));
            if is_better {
                best = Some((seconds, needed, sizes));
            }
        }
        best.map(|(_, _, sizes)| sizes).ok_or(least)
    }

    /// Along each dimension how many blocks.
    pub(super) fn counts(&self, sizes: &[i64]) -> Vec<i64> {
        let counts = self.extents.iter().zip(sizes);
        counts
            .map(|(&extent, &size)| (extent + size - 1) / size.max(1))
            .collect()
    }

    /// The estimate for a choice.
    fn seconds(&self, sizes: &[i64]) -> f64 {
        let counts = self.counts(sizes);
        let steps: f64 = counts.iter().map(|&count| count as f64).product();
        let (mut moved, mut fetched, mut unhidden) = (0.0, 0.0, 0.0);
        for (at, &id) in self.arrays.iter().enumerate() {
            if !self.staged.get(at).copied().unwrap_or(true) {
                continue;
            }
            let (bytes, _) = self.block(id, sizes);
            let follows = self.follows.get(&id).cloned().unwrap_or_default();
            let last = follows.iter().flatten().max();
            let last = last.map_or(0, |&last| last + 1);
            let fetches: f64 = counts
                .iter()
                .take(last)
                .map(|&count| count as f64)
                .product();
            moved += fetches * bytes as f64;
            if at + 1 < self.arrays.len() {
                fetched += fetches * bytes as f64;
            }
            unhidden += bytes as f64;
        }
        let Speeds {
            bandwidth,
            clock,
            step,
            matrix,
            ..
        } = self.speeds;
        let drain = match self.has_product {
            true => (matrix.latency + matrix.dim) / clock,
            false => 0.0,
        };
        let arithmetic = self.arithmetic / steps + drain + step;
        let transfer = moved / bandwidth;
        if steps <= 1.0 || self.copies < 2 {
            return transfer + steps * arithmetic;
        }
        let latency = self.speeds.copy_latency.unwrap_or(self.speeds.latency_in);
        // Nobody waits where nothing is fetched.
        let next = match fetched > 0.0 {
            true => latency + fetched / steps / bandwidth,
            false => 0.0,
        };
        let ends = unhidden / bandwidth;
        let by_copies = transfer + arithmetic;
        let by_steps = steps * arithmetic.max(next) + ends;
        by_copies.max(by_steps)
    }

    /// The bytes of an array's block, and whether it moves.
    fn block(&self, id: InstructionId, sizes: &[i64]) -> (i64, bool) {
        let Some(shape) = self.module[id].shape.as_array() else {
            return (i64::MAX / 8, false);
        };
        let mut block = shape.clone();
        let mut moves = false;
        for (dim, cut) in block.dims.iter_mut().zip(self.cuts(id, sizes)) {
            if let Cut::Follows { size, .. } = cut {
                moves = true;
                *dim = size.into();
            }
        }
        ((self.bytes)(&block), moves)
    }

    /// Bytes of VMEM for a choice.
    fn needed(&self, sizes: &[i64]) -> i64 {
        let mut total = 0_i64;
        for (at, &id) in self.arrays.iter().enumerate() {
            if self.staged.get(at).copied().unwrap_or(true) {
                let (bytes, moves) = self.block(id, sizes);
                let copies = if moves { self.copies } else { 1 };
                total = total.saturating_add(copies.saturating_mul(bytes));
            }
        }
        if let Some(sums) = self.sums {
            // At least as wide as the product's result.
            total = total.saturating_add(self.block(sums, sizes).0.saturating_mul(2));
        }
        total
    }

    pub(super) fn cuts(&self, id: InstructionId, sizes: &[i64]) -> Vec<Cut> {
        let follows = self.follows.get(&id).cloned().unwrap_or_default();
        let cut = |follows: &Option<usize>| match *follows {
            Some(dim) if sizes[dim] < self.extents[dim] => Cut::Follows {
                dim,
                size: sizes[dim],
            },
            _ => Cut::Whole,
        };
        follows.iter().map(cut).collect()
    }

    /// The next smaller block along a dimension: about half, whole tiles of the arrays
    /// that follow it. Where an array that stays in VMEM is cut, or where sums go over
    /// the blocks, they are all of one size.
    fn smaller(&self, dim: usize, size: i64) -> Option<i64> {
        let mut granule = 1;
        let mut exact = self.sums.is_some() && dim + 1 == self.extents.len();
        for (at, id) in self.arrays.iter().enumerate() {
            let shape = self.module[*id].shape.as_array()?;
            let own = self.follows.get(id)?;
            for (own_dim, follows) in own.iter().enumerate() {
                if *follows == Some(dim) {
                    granule = granule.max(tile_of(shape, own_dim));
                    exact |= !self.staged.get(at).copied().unwrap_or(true);
                }
            }
        }
        let extent = self.extents[dim];
        let mut next = (size / 2 / granule) * granule;
        if next == 0 && size > granule {
            next = granule;
        }
        while exact && next > 0 && extent % next != 0 {
            next -= granule;
        }
        (next > 0 && next < size).then_some(next)
    }
}

/// Elements of a tile along a dimension.
pub(super) fn tile_of(shape: &ArrayShape, dim: usize) -> i64 {
    let Some(layout) = &shape.layout else {
        return 1;
    };
    let position = layout
        .minor_to_major
        .iter()
        .position(|&minor| minor as usize == dim);
    let tile = layout.tiles.first();
    let (Some(position), Some(tile)) = (position, tile) else {
        return 1;
    };
    let sizes = tile.dims.len();
    let at = sizes.checked_sub(1 + position);
    match at.and_then(|at| tile.dims.get(at)) {
        Some(TileDim::Size(size)) => *size,
        _ => 1,
    }
}
