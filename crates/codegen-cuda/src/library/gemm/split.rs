//! Split-K: splits the sum of a product over several blocks if its tiles are too few to occupy a
//! GPU.
//!
//! A block sums a slice of the positions, and stores its partial result in scratch memory, in the
//! accumulator's type, as one of several arrays like the result. A second function adds these
//! arrays and the addend of the product, and converts the sum. The order of additions depends on
//! sizes only. Slices begin at multiples of a tile's depth.
//!
//! If a NaN of a convolution comes from the padding, the block that found it recomputes the sum
//! over its own slice: a slice without a NaN has met only zeros in the padding.

use super::{BLOCKS, Product};
use crate::error::Error;
use crate::function::{Function, KernelSequence, Slot, Work, linear};
use crate::library::dot::{accumulator, sum_type};
use crate::scalars::convert;
use crate::types::{carrier, load, storage, store, wrapped};
use tegula_expr::Term;

/// The number of blocks wanted: two for each multiprocessor of a large GPU, of which one loads
/// while the other multiplies. So the partial results are at most this many tiles: a few MiB.
const WANTED: i64 = 2 * BLOCKS;
/// The fewest steps (each of a tile's depth) in a slice: with fewer, starting a block and adding
/// its result take longer than its sum. An estimate.
const SHORTEST: i64 = 4;
/// The steps that splitting must save to be worth the launch of a second function. An estimate: a
/// step waits for memory once, for half a microsecond or more.
const WORTH_A_LAUNCH: i64 = 8;
/// The number of threads of a block in the function that adds slices.
const THREADS: i64 = 256;
/// The most threads that share an element there; `SLICES_OF_THREAD` is the number of slices for
/// which a further thread pays.
const SHARING: i64 = 8;
const SLICES_OF_THREAD: i64 = 4;

/// How a sum is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    pub slices: i64,
    /// The number of positions in a slice; the last one may have fewer.
    pub chunk: i64,
}

impl Split {
    /// The split of a sum of `depth` positions, processed `step` at a time, for a result with this
    /// many tiles; `None` if splitting would not save time.
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
    /// The product whose result is the partial result of a slice.
    pub(super) fn partial(&self) -> Self {
        let [lhs, rhs, out] = self.types;
        Self {
            types: [lhs, rhs, accumulator(out)],
            added: false,
            ..self.clone()
        }
    }

    /// The sequence of two functions: `first`, which computes the partial result of each slice, and
    /// one that adds the partial results. Its arguments are the factors, the addend if there is
    /// one, and the result.
    ///
    /// # Errors
    /// A type that cannot be converted, which is a bug in Tegula.
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

    /// The function that adds slices; rows of threads share the slices of adjacent elements.
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

    /// An element of the result in the accumulator's type, given the expressions for its sum and,
    /// if there is one, the addend.
    pub(super) fn total(&self, sum: &str, added: &str) -> String {
        let wide = accumulator(self.types[2]);
        match (wide.is_float(), self.added) {
            (true, true) => format!("{sum} + {added}"),
            (true, false) => sum.to_owned(),
            // Sums are unsigned, and the type is as wide or narrower.
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
        // There are enough tiles; the sum is too short; the sum is too short to be worth a second
        // launch.
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
                // Every slice has at least one position.
                assert!((slices - 1) * chunk < depth && depth <= slices * chunk);
            }
        }
    }
}
