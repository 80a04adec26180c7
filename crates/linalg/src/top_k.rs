//! The first `k` elements by rank along the last dimension.
//!
//! An element and its index are packed into one number; smaller numbers rank first. A small `k`
//! keeps its elements sorted while the row is read in blocks: vector comparisons skip most blocks,
//! in which no element ranks before the last one kept. A large `k` partitions the row.

use crate::sort::KeyOrder;
use crate::thread_pool::is_stopped;
use tegula_ir::ElementType;
use tegula_target::CpuFeatures;
#[cfg(target_arch = "x86_64")]
use tegula_target::VectorWidth;

/// A selection of the first `k` elements of each row.
#[derive(Clone, Copy, Debug)]
pub struct TopK {
    /// The instructions that may be used.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "chosen by vectors on x86-64 alone")
    )]
    pub isa: CpuFeatures,
    /// The type of the elements; not complex.
    pub element_type: ElementType,
    /// The number of rows.
    pub rows: usize,
    /// Elements of a row.
    pub length: usize,
    /// The number of elements that are selected, at most all.
    pub k: usize,
    /// Whether the largest come first.
    pub largest: bool,
}

/// Up to this `k`, the kept elements are sorted while the row is read.
const FEW: usize = 64;
/// Elements that are compared together.
const TOGETHER: usize = 16;

/// An element's bits.
trait Bits: Copy + Ord {
    /// The bits with an index below them.
    type Key: Copy + Ord;
    fn read(bytes: &[u8]) -> Self;
    /// The rank: the bits with some inverted, by one mask if the sign bit is clear and by another
    /// if it is set.
    fn rank(self, changed: [u64; 2]) -> Self;
    fn key(self, place: u32) -> Self::Key;
    fn place(key: Self::Key) -> u32;
}

macro_rules! bits {
    ($($bits:ty, $signed:ty, $key:ty;)*) => {$(
        impl Bits for $bits {
            type Key = $key;
            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                let mut all = [0; size_of::<$bits>()];
                all.copy_from_slice(bytes);
                <$bits>::from_le_bytes(all)
            }
            #[inline(always)]
            fn rank(self, [positive, negative]: [u64; 2]) -> Self {
                let sign = (self as $signed >> (<$bits>::BITS - 1)) as $bits;
                self ^ positive as $bits ^ (sign & (positive ^ negative) as $bits)
            }
            #[inline(always)]
            fn key(self, place: u32) -> $key {
                <$key>::from(self) << 32 | <$key>::from(place)
            }
            #[inline(always)]
            fn place(key: $key) -> u32 {
                key as u32
            }
        }
    )*};
}

bits! {
    u8, i8, u64;
    u16, i16, u64;
    u32, i32, u64;
    u64, i64, u128;
}

/// The input and output of a run.
struct Arrays<'a> {
    input: &'a [u8],
    values: &'a mut [u8],
    places: &'a mut [i32],
}

impl TopK {
    /// Bytes of scratch memory that a run needs.
    pub fn scratch_bytes(&self) -> usize {
        self.keys()
            * match self.element_type.storage_bytes() {
                1 | 2 | 4 => size_of::<u64>(),
                _ => size_of::<u128>(),
            }
    }

    /// The number of keys of a row that are kept. Without rows, a row's length may exceed the
    /// memory.
    fn keys(&self) -> usize {
        match self.rows {
            0 => 0,
            _ if self.k <= FEW => self.k,
            _ => self.length,
        }
    }

    /// Selects elements. Floats are compared in the total order; of equal elements, the one with
    /// the lower index comes first.
    ///
    /// # Safety
    /// `scratch` has [`Self::scratch_bytes`], aligned to 16, and is used only by this call.
    #[inline(always)]
    pub unsafe fn run(
        &self,
        input: &[u8],
        values: &mut [u8],
        places: &mut [i32],
        scratch: *mut u8,
    ) {
        if self.rows == 0 || self.k == 0 || self.length == 0 {
            return;
        }
        let arrays = &mut Arrays {
            input,
            values,
            places,
        };
        // SAFETY: the caller promises scratch memory of the required size.
        unsafe {
            match self.element_type.storage_bytes() {
                4 => self.select::<u32>(arrays, scratch),
                2 => self.select::<u16>(arrays, scratch),
                1 => self.select::<u8>(arrays, scratch),
                _ => self.select::<u64>(arrays, scratch),
            }
        }
    }

    /// # Safety
    /// As [`Self::run`].
    #[inline(always)]
    unsafe fn select<B: Bits>(&self, arrays: &mut Arrays<'_>, scratch: *mut u8) {
        // SAFETY: the caller promises room for this many keys, which are numbers.
        let best: &mut [B::Key] =
            unsafe { core::slice::from_raw_parts_mut(scratch.cast(), self.keys()) };
        #[cfg(target_arch = "x86_64")]
        match self.isa.width {
            // SAFETY: the CPU has the instructions that may be used.
            VectorWidth::Avx512 => return unsafe { self.avx512::<B>(arrays, best) },
            // SAFETY: the CPU has the instructions that may be used.
            VectorWidth::Avx2 => return unsafe { self.avx2::<B>(arrays, best) },
            _ => {}
        }
        self.each_row::<B>(arrays, best);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn avx512<B: Bits>(&self, arrays: &mut Arrays<'_>, best: &mut [B::Key]) {
        self.each_row::<B>(arrays, best);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn avx2<B: Bits>(&self, arrays: &mut Arrays<'_>, best: &mut [B::Key]) {
        self.each_row::<B>(arrays, best);
    }

    #[inline(always)]
    fn each_row<B: Bits>(&self, arrays: &mut Arrays<'_>, best: &mut [B::Key]) {
        let size = size_of::<B>();
        let rows = arrays.input.chunks_exact(self.length * size);
        let values = arrays.values.chunks_exact_mut(self.k * size);
        let outputs = values.zip(arrays.places.chunks_exact_mut(self.k));
        let order = KeyOrder::new(self.element_type, self.largest);
        let sign = 1u64 << (8 * size - 1);
        let changed = [order.rank(0), order.rank(sign) ^ sign];
        for (row, (values, places)) in rows.zip(outputs) {
            if is_stopped() {
                return;
            }
            if self.k <= FEW {
                few_of::<B>(row, changed, best);
            } else {
                keys_of::<B>(row, changed, best);
                if self.k < self.length {
                    best.select_nth_unstable(self.k - 1);
                }
                best[..self.k].sort_unstable();
            }
            for (i, &key) in best[..self.k].iter().enumerate() {
                let from = B::place(key) as usize * size;
                values[i * size..][..size].copy_from_slice(&row[from..from + size]);
                places[i] = B::place(key) as i32;
            }
        }
    }
}

/// Writes the keys of elements, as many as there is room for.
#[inline(always)]
fn keys_of<B: Bits>(elements: &[u8], changed: [u64; 2], keys: &mut [B::Key]) {
    let ranks = elements.chunks_exact(size_of::<B>());
    let ranks = ranks.map(|x| B::read(x).rank(changed));
    for ((key, rank), place) in keys.iter_mut().zip(ranks).zip(0..) {
        *key = rank.key(place);
    }
}

/// Finds the first elements of a row in order, as many as `best` has.
#[inline(always)]
fn few_of<B: Bits>(row: &[u8], changed: [u64; 2], best: &mut [B::Key]) {
    let (size, k) = (size_of::<B>(), best.len());
    let (first, rest) = row.split_at((k * size).min(row.len()));
    keys_of::<B>(first, changed, best);
    best.sort_unstable();
    let Some(&last) = best.last() else { return };
    let mut last = rank_of::<B>(first, B::place(last), changed);
    let mut look = |elements: &[u8], place: u32, last: &mut B| {
        for (element, place) in elements.chunks_exact(size).zip(place..) {
            let rank = B::read(element).rank(changed);
            if rank < *last {
                let key = rank.key(place);
                let at = best.partition_point(|&other| other < key);
                best.copy_within(at..k - 1, at + 1);
                best[at] = key;
                *last = rank_of::<B>(row, B::place(best[k - 1]), changed);
            }
        }
    };
    let together = rest.chunks_exact(TOGETHER * size);
    let (left, whole) = (together.remainder(), together.len() * TOGETHER);
    for (together, place) in together.zip((k as u32..).step_by(TOGETHER)) {
        let mut any = false;
        for element in together.chunks_exact(size) {
            any |= B::read(element).rank(changed) < last;
        }
        // This is rare: for random elements, the n-th has a chance of k in n. An equal element
        // ranks later.
        if any {
            look(together, place, &mut last);
        }
    }
    look(left, (k + whole) as u32, &mut last);
}

#[inline(always)]
fn rank_of<B: Bits>(row: &[u8], place: u32, changed: [u64; 2]) -> B {
    let size = size_of::<B>();
    B::read(&row[place as usize * size..][..size]).rank(changed)
}

#[cfg(test)]
mod tests {
    use super::{CpuFeatures, ElementType, KeyOrder, TopK};
    use tegula_target::IsaLevel;
    #[test]
    fn the_first_are_those_of_a_sort() {
        use ElementType::{F32, S8, S64, U16};
        let special = [
            f32::NAN,
            -f32::NAN,
            0.0,
            -0.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
        ];
        for (element_type, length) in [(F32, 1000), (F32, 65), (S8, 300), (U16, 77), (S64, 200)] {
            let size = element_type.storage_bytes();
            let mut bytes: Vec<u8> = (0..2 * length * size)
                .map(|i| (i.wrapping_mul(2_654_435_761) >> 9) as u8)
                .collect();
            if element_type == F32 {
                for (i, x) in special.iter().enumerate() {
                    let at = (i * 11 + 40) % (2 * length) * size;
                    bytes[at..at + size].copy_from_slice(&x.to_le_bytes());
                }
            }
            for (k, largest) in [(1, true), (10, false), (64, true), (65, true)] {
                let order = KeyOrder::new(element_type, largest);
                let rank = |place: usize| {
                    let mut bits = [0; 8];
                    bits[..size].copy_from_slice(&bytes[place * size..][..size]);
                    order.rank(u64::from_le_bytes(bits))
                };
                let mut wanted = Vec::new();
                for row in 0..2 {
                    let mut places: Vec<usize> = (0..length).collect();
                    places.sort_by_key(|&place| rank(row * length + place));
                    wanted.extend(places[..k].iter().map(|&place| place as i32));
                }
                for cpu in [IsaLevel::Native, IsaLevel::X86V3, IsaLevel::X86V2] {
                    let top = TopK {
                        isa: CpuFeatures::up_to(cpu),
                        element_type,
                        rows: 2,
                        length,
                        k,
                        largest,
                    };
                    let (mut values, mut places) = (vec![0; 2 * k * size], vec![0; 2 * k]);
                    let mut scratch = vec![0u128; top.scratch_bytes().div_ceil(16)];
                    // SAFETY: the scratch memory has the requested size.
                    unsafe {
                        let scratch = scratch.as_mut_ptr().cast();
                        top.run(&bytes, &mut values, &mut places, scratch);
                    }
                    assert_eq!(places, wanted, "{element_type} {k} {cpu:?}");
                    for (i, &place) in places.iter().enumerate() {
                        let from = (i / k * length + place as usize) * size;
                        assert_eq!(values[i * size..][..size], bytes[from..][..size]);
                    }
                }
            }
        }
    }
}
