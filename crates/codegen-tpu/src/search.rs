//! Chooses the sizes of blocks: among those that fit, the ones with which a pipeline over the
//! blocks is fastest by a simple estimate.
//!
//! A step of the pipeline takes as long as its slowest part: its arithmetic, its HBM traffic
//! (including blocks that are fetched again), or, for small blocks, the wait for the next block.
//! The next block's fetch begins with the step and completes after its transfer time plus a
//! latency. The first fetches and the last write are not overlapped with anything.

use super::follow::Follows;
use rustc_hash::FxHashMap;
use tegula_ir::{ArrayShape, InstructionId, Module, TileDim};
use tegula_sim_tpu::speeds::Speeds;

/// The most combinations that are compared.
const MOST_CHOICES: usize = 50_000;

/// How an array is divided along one of its dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// It is not divided.
    Whole,
    /// It is divided into blocks of this size, which correspond to a dimension of the result.
    Follows {
        /// The dimension of the result; the number after the last one means a product's depth.
        dim: usize,
        /// The number of elements of a block.
        size: i64,
    },
}

/// The search for block sizes.
pub(super) struct Search<'a> {
    pub module: &'a Module,
    /// The parameters, then the result.
    pub arrays: &'a [InstructionId],
    /// Whether each of them is copied between HBM and VMEM.
    pub staged: &'a [bool],
    pub follows: &'a FxHashMap<InstructionId, Follows>,
    /// The extents of the result's dimensions, then that of a product's depth.
    pub extents: &'a [i64],
    /// The number of buffers for each array that moves from block to block.
    pub copies: i64,
    /// The value for which partial sums are kept, if a product's depth is divided.
    pub sums: Option<InstructionId>,
    /// The bytes of VMEM available.
    pub limit: i64,
    /// The time of the whole kernel's arithmetic, in seconds.
    pub arithmetic: f64,
    /// Whether it has a product, whose results come with a latency.
    pub has_product: bool,
    pub speeds: &'a Speeds,
    /// The size of an array in bytes, including padding.
    pub bytes: &'a dyn Fn(&ArrayShape) -> i64,
}

impl Search<'_> {
    /// The block sizes along the dimensions in `cut`; the other dimensions are not divided.
    ///
    /// # Errors
    /// The number of bytes that the smallest blocks need.
    pub(super) fn sizes(&self, cut: &[usize]) -> Result<Vec<i64>, i64> {
        let mut choices: Vec<Vec<i64>> = vec![self.extents.to_vec()];
        for &dim in cut {
            let mut along = vec![self.extents[dim]];
            while let Some(next) = along.last().and_then(|&size| self.smaller(dim, size)) {
                along.push(next);
            }
            // If there would be too many combinations, every second size is left out.
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

    /// The number of blocks along each dimension.
    pub(super) fn counts(&self, sizes: &[i64]) -> Vec<i64> {
        let counts = self.extents.iter().zip(sizes);
        counts
            .map(|(&extent, &size)| (extent + size - 1) / size.max(1))
            .collect()
    }

    /// The estimated time of a choice, in seconds.
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
        // If nothing is fetched, there is nothing to wait for.
        let next = match fetched > 0.0 {
            true => latency + fetched / steps / bandwidth,
            false => 0.0,
        };
        let ends = unhidden / bandwidth;
        let by_copies = transfer + arithmetic;
        let by_steps = steps * arithmetic.max(next) + ends;
        by_copies.max(by_steps)
    }

    /// The size of an array's block in bytes, and whether it moves from block to block.
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

    /// The bytes of VMEM that a choice needs.
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
            // The sums are at least as wide as the product's result.
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

    /// The next smaller block size along a dimension: about half, in whole tiles of the arrays that
    /// correspond to it. If an array that stays in VMEM is divided, or if partial sums run over the
    /// blocks, all blocks have the same size.
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

/// The size of a tile along a dimension, in elements.
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
