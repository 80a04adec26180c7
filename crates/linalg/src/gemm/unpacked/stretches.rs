//! The depth of a product that reads operands in place, as stretches with constant strides.

use super::super::Sizes;
use super::super::geometry::{Axes, depth_count, offsets_at, share};
use crate::microkernels::strided::Stretch;
use crate::tables::{Table as TableOf, Tables};
use core::ops::Range;

/// The maximum number of stretches of a depth.
const MAX_STRETCHES: usize = 4096;

/// The depth blocks, divided into stretches along which each operand has one stride.
#[derive(Clone, Debug)]
pub(super) struct Stretches {
    pub(super) all: TableOf<Stretch>,
    /// The index of each block's first stretch, and the end of the last block's.
    pub(super) starts: TableOf<u32>,
}

impl Stretches {
    /// `None` if there are more than [`MAX_STRETCHES`].
    pub(super) fn new(
        memory: &mut Tables,
        axes: &Axes,
        sizes: Sizes,
        step: usize,
        lies: [bool; 2],
        deepest: usize,
    ) -> Option<Self> {
        let (inner, outer) = match axes.depth.split_last() {
            Some((inner, outer)) => (*inner, outer),
            None => Default::default(),
        };
        let run_units = sizes.run.div_ceil(step).max(1);
        let units = sizes.run.div_ceil(step) * sizes.runs;
        let blocks = depth_count(units, deepest);
        let block = move |block: usize| share(units, blocks, block);
        // The runs of the depth that overlap a block.
        let runs =
            move |block: &Range<usize>| block.start / run_units..block.end.div_ceil(run_units);
        let count = |index: usize| {
            let block = block(index);
            if block.is_empty() {
                0
            } else {
                runs(&block).len()
            }
        };
        if blocks > MAX_STRETCHES || (0..blocks).map(count).sum::<usize>() > MAX_STRETCHES {
            return None;
        }
        let starts = (0..=blocks).scan(0, |start, index| {
            let here = *start;
            *start += if index < blocks { count(index) } else { 0 };
            Some(here as u32)
        });
        let starts = memory.table(starts);
        let all = (0..blocks).map(block).filter(|block| !block.is_empty());
        let all = all.flat_map(|block| {
            runs(&block).map(move |run| {
                let from = (run * run_units).max(block.start);
                let length = ((run + 1) * run_units).min(block.end) - from;
                let [lhs, rhs, _] = offsets_at(outer, run);
                let skipped = ((from - run * run_units) * step) as isize;
                let own = [lhs + skipped * inner.lhs, rhs + skipped * inner.rhs];
                let packed = (from - block.start) as isize;
                let at = core::array::from_fn(|i| if lies[i] { own[i] } else { packed });
                Stretch { at, length }
            })
        });
        Some(Self {
            all: memory.table(all),
            starts,
        })
    }

    pub(super) fn of_block(&self, block: usize) -> &[Stretch] {
        &self.all[self.starts[block] as usize..self.starts[block + 1] as usize]
    }
}
