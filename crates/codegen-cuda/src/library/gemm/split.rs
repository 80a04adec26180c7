//! Splits the sum of a product over blocks where its tiles are too few to occupy a GPU.
//!
//! A block sums a slice of the positions and stores what it has in scratch memory, in the
//! accumulator's type, as one of several arrays like the result. A second function adds
//! these, then what is added to the product, and converts. Which numbers it adds in which
//! order depends on sizes only. Slices begin at multiples of a tile's depth.
//!
//! A convolution's NaN that comes of the padding is summed again by the block that has it,
//! over its own slice: a slice without a NaN met nothing but zeros in the padding.

use super::{BLOCKS, Product};
use crate::error::Error;
use crate::function::{Function, KernelSequence, Slot, Work, linear};
use crate::library::dot::{accumulator, sum_type};
use crate::scalars::convert;
use crate::types::{carrier, load, storage, store, wrapped};
use tegula_expr::Term;

/// Two blocks for each multiprocessor of a large GPU, of which one loads while the other
/// multiplies. So partial results are at most as many tiles: a few MiB.
const WANTED: i64 = 2 * BLOCKS;
/// Steps of a slice, each of a tile's depth, below which starting a block and adding
/// what it has take longer than its sum. An estimate.
const SHORTEST: i64 = 4;
/// Steps that a block has to save for the launch of a second function. An estimate: a step
/// waits for memory once, for half a microsecond or more.
const WORTH_A_LAUNCH: i64 = 8;
/// Threads of a block of the function that adds.
const THREADS: i64 = 256;
/// The most threads that share an element there, and how many slices are worth another.
const SHARING: i64 = 8;
const SLICES_OF_THREAD: i64 = 4;

/// How a sum is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    pub slices: i64,
    /// Positions of a slice; the last may have fewer.
    pub chunk: i64,
}

impl Split {
    /// The split of a sum of `depth` positions, taken `step` at a time, for a result of so
    /// many tiles; none if it would not save time.
    pub(super) fn of(tiles: i64, depth: i64, step: i64) -> Option<Self> {
        let steps = depth.checked_add(step - 1)? / step;
        let wanted = (WANTED / tiles.max(1)).min(steps / SHORTEST);
        if wanted < 2 {
            return None;
        }
        let own = (steps + wanted - 1) / wanted;
        (steps - own >= WORTH_A_LAUNCH).then_some(Self {
            slices: (steps + own - 1) / own,
            chunk: own * step,
        })
    }
}

impl Product<'_> {
    /// The product whose result is a slice's, ready to be added.
    pub(super) fn partial(&self) -> Self {
        let [lhs, rhs, out] = self.types;
        Self {
            types: [lhs, rhs, accumulator(out)],
            added: false,
            ..self.clone()
        }
    }

    /// The function that sums slices, and one after it that adds them. What they are given
    /// is the factors, what is added if something is, and the result.
    ///
    /// # Errors
    /// A type that cannot be converted: a bug.
    pub(super) fn in_slices(
        &self,
        first: Function,
        split: Split,
        elements: i64,
    ) -> Result<KernelSequence, Error> {
        let rest = self.rest(&first.name, split, elements)?;
        let given = Slot::Given;
        let partial = Slot::Scratch(0);
        let added = self.added.then_some(given(2));
        let result = given(2 + usize::from(self.added));
        let wide = accumulator(self.types[2]).storage_bytes() as i64;
        let bytes = elements.saturating_mul(split.slices * wide);
        Ok(KernelSequence {
            functions: vec![first, rest],
            scratch: vec![Term::constant(bytes)],
            steps: vec![
                Work::Launch {
                    function: 0,
                    arrays: vec![given(0), given(1), partial],
                },
                Work::Launch {
                    function: 1,
                    arrays: [Some(partial), added, Some(result)]
                        .into_iter()
                        .flatten()
                        .collect(),
                },
            ],
        })
    }

    /// The function that adds slices: rows of threads share those of neighbouring elements.
    fn rest(&self, first: &str, split: Split, elements: i64) -> Result<Function, Error> {
        let out = self.types[2];
        let wide = accumulator(out);
        let slices = split.slices;
        let sharing = (slices as u64).div_ceil(SLICES_OF_THREAD as u64);
        let sharing = (sharing.next_power_of_two() as i64).min(SHARING);
        let lanes = THREADS / sharing;
        let (sum, own, partial, element) =
            (sum_type(wide), carrier(wide), storage(wide), storage(out));
        let name = format!("{first}_rest");
        let result = match self.added {
            true => format!("const {element} *d, {element} *c"),
            false => format!("{element} *__restrict__ c"),
        };
        let loaded = load(
            wide,
            &format!("q0[(long long)slice * {elements} + element]"),
        );
        let total = self.total("sum", &load(out, "d[element]"));
        let value = convert(wide, out, "total")
            .ok_or_else(|| Error::Bug(format!("no conversion from {wide} to {out}")))?;
        let value = store(out, &value);
        let text = format!(
            "extern \"C\" __global__ void __launch_bounds__({THREADS}) {name}(const {partial} *__restrict__ q0, {result}) {{
    __shared__ {sum} rows[{sharing}][{lanes}];
    const int across = threadIdx.x % {lanes}, row = threadIdx.x / {lanes};
    const long long element = (long long)blockIdx.x * {lanes} + across;
    {sum} sum = 0;
    if (element < {elements}) {{
        #pragma unroll {SLICES_OF_THREAD}
        for (int slice = row; slice < {slices}; slice += {sharing}) sum += ({sum}){loaded};
    }}
    rows[row][across] = sum;
    __syncthreads();
    if (row != 0 || element >= {elements}) return;
    #pragma unroll
    for (int other = 1; other < {sharing}; ++other) sum += rows[other][across];
    const {own} total = {total};
    c[element] = {value};
}}
"
        );
        Ok(Function {
            reason: format!("adds the {slices} slices of `{first}`"),
            name,
            text,
            block: [THREADS as u32, 1, 1],
            grid: linear(Term::constant(elements).ceil_div(&Term::constant(lanes))),
            symbols: Vec::new(),
            guarded: false,
        })
    }

    /// An element of the result in the accumulator's type, from the expressions of its sum
    /// and of what is added to it if something is.
    pub(super) fn total(&self, sum: &str, added: &str) -> String {
        let wide = accumulator(self.types[2]);
        match (wide.is_float(), self.added) {
            (true, true) => format!("{sum} + {added}"),
            (true, false) => sum.to_owned(),
            // What is summed is unsigned; the type is as wide or narrower.
            (false, true) => wrapped(wide, &format!("{sum} + {added}")),
            (false, false) => wrapped(wide, sum),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_split_where_tiles_are_few_and_sums_long() {
        // Enough tiles; a sum too short; one too short for the second launch.
        assert_eq!(Split::of(133, 4608, 16), None);
        assert_eq!(Split::of(1, 64, 16), None);
        assert_eq!(Split::of(1, 10 * 16, 16), None);
        let split = Split::of(8, 4608, 16).expect("a split");
        assert_eq!((split.slices, split.chunk), (32, 9 * 16));
    }

    #[test]
    fn slices_are_all_of_a_sum() {
        for tiles in [1, 2, 3, 7, 25, 49, 98, 132] {
            for depth in [2, 100, 193, 1600, 4608, 12544, 100_003] {
                let Some(Split { slices, chunk }) = Split::of(tiles, depth, 16) else {
                    continue;
                };
                assert_eq!(chunk % 16, 0);
                assert!(chunk >= SHORTEST * 16);
                assert!(tiles * slices <= WANTED);
                // Every slice has a position.
                assert!((slices - 1) * chunk < depth && depth <= slices * chunk);
            }
        }
    }
}
