//! Packs arrays of any strides and element type into panels of units.
//!
//! A panel's *lanes* are rows of the left operand or columns of the right one; its groups follow
//! the depth. Packing proceeds by *runs*: elements of the depth with a constant stride. If a unit
//! has several elements and does not divide a run, the run's last unit is filled with zeros, at
//! least in the right panel.

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(target_arch = "aarch64", feature = "std"))]
pub(crate) mod neon;

use super::CpuFeatures;
use super::packed_tile::Arithmetic;
#[cfg(target_arch = "x86_64")]
pub(super) use avx512::transpose;
use half::{bf16, f16};
use tegula_ir::ElementType;

/// The maximum number of lanes of a panel.
pub(crate) const MAX_LANES: usize = 32;
/// Lanes that are examined together.
const CHUNK: usize = 16;
/// The maximum number of segments of a chunk that are loaded separately.
const MAX_SEGMENTS: usize = 4;

/// Lanes whose elements are equally far apart in memory.
#[derive(Clone, Copy, Default)]
struct Segment {
    /// A bit for each lane of the chunk.
    mask: u16,
    /// The offset that lane 0 would have.
    offset: isize,
}

/// The distances of a segment's elements that are looked for: adjacent ones, and every second one,
/// as in a convolution with a stride of 2.
const DISTANCES: [isize; 2] = [1, 2];

/// The lanes of a panel, given by offsets in elements.
pub(crate) struct Lanes {
    offsets: [isize; MAX_LANES],
    count: usize,
    segments: [[Segment; MAX_SEGMENTS]; MAX_LANES / CHUNK],
    /// The number of segments of each chunk; 0 if there are too many.
    counts: [u8; MAX_LANES / CHUNK],
    /// The distance of elements in the segments of each chunk.
    distances: [u8; MAX_LANES / CHUNK],
}

impl Lanes {
    /// `count` lanes, at most [`MAX_LANES`]; `fill` writes their offsets.
    pub(crate) fn new(count: usize, fill: impl FnOnce(&mut [isize])) -> Self {
        let count = count.min(MAX_LANES);
        let mut lanes = Self {
            offsets: [0; MAX_LANES],
            count,
            segments: [[Segment::default(); MAX_SEGMENTS]; MAX_LANES / CHUNK],
            counts: [0; MAX_LANES / CHUNK],
            distances: [0; MAX_LANES / CHUNK],
        };
        fill(&mut lanes.offsets[..count]);
        for chunk in 0..MAX_LANES / CHUNK {
            let _ = DISTANCES.iter().any(|&d| lanes.find_segments(chunk, d));
        }
        lanes
    }

    /// Finds the segments of a chunk, with elements at a distance; false if there are too many.
    fn find_segments(&mut self, chunk: usize, distance: isize) -> bool {
        let range = (chunk * CHUNK).min(self.count)..((chunk + 1) * CHUNK).min(self.count);
        let mut found = 0;
        for (lane, &offset) in self.offsets[range].iter().enumerate() {
            let offset = offset - lane as isize * distance;
            let known = self.segments[chunk][..found].last_mut();
            match known.filter(|s| s.offset == offset) {
                Some(segment) => segment.mask |= 1 << lane,
                None if found == MAX_SEGMENTS => return false,
                None => {
                    let mask = 1 << lane;
                    self.segments[chunk][found] = Segment { mask, offset };
                    found += 1;
                }
            }
        }
        self.counts[chunk] = found as u8;
        self.distances[chunk] = distance as u8;
        found > 0
    }

    pub(super) fn offsets(&self) -> &[isize] {
        &self.offsets[..self.count]
    }

    /// The offset of the first lane, if the panel has the maximum number of lanes and all are
    /// adjacent.
    #[cfg(target_arch = "x86_64")]
    fn neighbours(&self) -> Option<isize> {
        let next = |pair: &[isize]| pair[1] == pair[0] + 1;
        let all = self.count == MAX_LANES && self.offsets.windows(2).all(next);
        all.then_some(self.offsets[0])
    }

    /// The offset of the first lane, if all lanes are adjacent.
    #[cfg(any(target_arch = "aarch64", feature = "std"))]
    pub(super) fn in_a_row(&self) -> Option<isize> {
        let mut pairs = self.offsets().windows(2);
        let all = pairs.all(|pair| pair[1] == pair[0] + 1);
        self.offsets().first().copied().filter(|_| all)
    }

    /// The segments of a chunk and the distance of their elements, if there are few.
    #[cfg(target_arch = "x86_64")]
    fn segments(&self, chunk: usize) -> Option<(&[Segment], u8)> {
        match self.counts[chunk] {
            0 => None,
            count => Some((
                &self.segments[chunk][..count as usize],
                self.distances[chunk],
            )),
        }
    }
}

/// One run of a panel.
pub(crate) struct Run<'a> {
    /// The run's first element, in a lane with offset 0.
    pub(crate) source: *const u8,
    /// The stride of the elements.
    pub(crate) stride: isize,
    /// The number of elements.
    pub(crate) length: usize,
    pub(crate) lanes: &'a Lanes,
    /// The address of the run's first group.
    pub(crate) target: *mut u8,
    /// Units of a group, at least as many as lanes; units without a lane are zero.
    pub(crate) width: usize,
}

/// Packs a run. For pairs of bf16, returns whether an element is subnormal (the multiplication
/// would treat it as zero); for other units, `false`.
///
/// # Safety
/// Every element of every lane can be read, and every group can be written.
pub(crate) type PackFn = unsafe fn(&Run<'_>) -> bool;

/// The function that packs elements of a type into an arithmetic's units.
#[inline(always)]
pub(crate) fn pack_function(
    isa: CpuFeatures,
    element_type: ElementType,
    arithmetic: Arithmetic,
) -> Option<PackFn> {
    #[cfg(target_arch = "x86_64")]
    if isa.width == super::VectorWidth::Avx512
        && let Some(function) = avx512::function(element_type, arithmetic)
    {
        return Some(function);
    }
    #[cfg(any(target_arch = "aarch64", feature = "std"))]
    if isa.width == super::VectorWidth::Neon
        && let Some(function) = neon::function(element_type, arithmetic)
    {
        return Some(function);
    }
    let _ = isa;
    use ElementType::{BF16, F16, F32, F64, S8, S16, S32, S64, U8, U16, U32, U64};
    let function: PackFn = match (arithmetic, element_type) {
        (Arithmetic::F32, F32) => singles::<f32, f32>,
        (Arithmetic::F32, BF16) => singles::<bf16, f32>,
        (Arithmetic::F32, F16) => singles::<f16, f32>,
        (Arithmetic::F64, F64) => singles::<f64, f64>,
        (Arithmetic::I32, S8) => singles::<i8, i32>,
        (Arithmetic::I32, U8) => singles::<u8, i32>,
        (Arithmetic::I32, S16) => singles::<i16, i32>,
        (Arithmetic::I32, U16) => singles::<u16, i32>,
        (Arithmetic::I32, S32) => singles::<i32, i32>,
        (Arithmetic::I32, U32) => singles::<u32, i32>,
        (Arithmetic::I32, S64) => singles::<i64, i32>,
        (Arithmetic::I32, U64) => singles::<u64, i32>,
        (Arithmetic::I64, S8) => singles::<i8, i64>,
        (Arithmetic::I64, U8) => singles::<u8, i64>,
        (Arithmetic::I64, S16) => singles::<i16, i64>,
        (Arithmetic::I64, U16) => singles::<u16, i64>,
        (Arithmetic::I64, S32) => singles::<i32, i64>,
        (Arithmetic::I64, U32) => singles::<u32, i64>,
        (Arithmetic::I64, S64) => singles::<i64, i64>,
        (Arithmetic::I64, U64) => singles::<u64, i64>,
        (Arithmetic::Bf16Pairs, BF16) => pairs::<bf16, true>,
        (Arithmetic::I16Pairs, S8) => pairs::<i8, false>,
        (Arithmetic::I16Pairs, U8) => pairs::<u8, false>,
        (Arithmetic::I16Pairs, S16) => pairs::<i16, false>,
        (Arithmetic::I8Quads, S8) => quads,
        (Arithmetic::U8Quads, S8 | U8) => quads,
        _ => return None,
    };
    Some(function)
}

/// Converts an element to a unit. Integers keep their value modulo the unit's size.
pub(crate) trait Convert<To> {
    fn convert(self) -> To;
}

macro_rules! converts {
    ($($from:ty => $to:ty: $convert:expr;)*) => {$(
        impl Convert<$to> for $from {
            #[inline(always)]
            fn convert(self) -> $to {
                let convert: fn($from) -> $to = $convert;
                convert(self)
            }
        }
    )*};
}

converts! {
    f32 => f32: |x| x;
    f64 => f64: |x| x;
    bf16 => f32: |x| f32::from_bits(u32::from(x.to_bits()) << 16);
    f16 => f32: |x| x.to_f32();
    bf16 => u16: |x| x.to_bits();
    i8 => u16: |x| i16::from(x) as u16;
    u8 => u16: |x| u16::from(x);
    i16 => u16: |x| x as u16;
    i8 => i32: |x| i32::from(x);
    u8 => i32: |x| i32::from(x);
    i16 => i32: |x| i32::from(x);
    u16 => i32: |x| i32::from(x);
    i32 => i32: |x| x;
    u32 => i32: |x| x as i32;
    i64 => i32: |x| x as i32;
    u64 => i32: |x| x as i32;
    i8 => i64: |x| i64::from(x);
    u8 => i64: |x| i64::from(x);
    i16 => i64: |x| i64::from(x);
    u16 => i64: |x| i64::from(x);
    i32 => i64: |x| i64::from(x);
    u32 => i64: |x| i64::from(x);
    i64 => i64: |x| x;
    u64 => i64: |x| x as i64;
}

/// Packs units of one element.
///
/// # Safety
/// As [`PackFn`].
unsafe fn singles<S: Copy + Convert<U>, U: Copy + Default>(run: &Run<'_>) -> bool {
    let (source, target) = (run.source.cast::<S>(), run.target.cast::<U>());
    let offsets = run.lanes.offsets();
    for element in 0..run.length {
        // SAFETY: the caller promises that every element of every lane can be read and every group
        // written.
        unsafe {
            let source = source.offset(element as isize * run.stride);
            let group = target.add(element * run.width);
            for (lane, &offset) in offsets.iter().enumerate() {
                *group.add(lane) = (*source.offset(offset)).convert();
            }
            for lane in offsets.len()..run.width {
                *group.add(lane) = U::default();
            }
        }
    }
    false
}

/// Packs units of two 16-bit elements, the first in the lower half.
///
/// # Safety
/// As [`PackFn`].
unsafe fn pairs<S: Copy + Convert<u16>, const CHECK: bool>(run: &Run<'_>) -> bool {
    let (source, target) = (run.source.cast::<S>(), run.target.cast::<u32>());
    let offsets = run.lanes.offsets();
    let mut subnormal = false;
    for unit in 0..run.length.div_ceil(2) {
        // SAFETY: the caller promises that every element of every lane can be read and every group
        // written.
        unsafe {
            let source = source.offset(2 * unit as isize * run.stride);
            let group = target.add(unit * run.width);
            for (lane, &offset) in offsets.iter().enumerate() {
                let low: u16 = (*source.offset(offset)).convert();
                let high: u16 = if 2 * unit + 1 < run.length {
                    (*source.offset(offset + run.stride)).convert()
                } else {
                    0
                };
                subnormal |= CHECK && (is_subnormal(low) || is_subnormal(high));
                *group.add(lane) = u32::from(low) | u32::from(high) << 16;
            }
            for lane in offsets.len()..run.width {
                *group.add(lane) = 0;
            }
        }
    }
    subnormal
}

/// Packs units of four 8-bit elements, the first in the lowest byte.
///
/// # Safety
/// As [`PackFn`].
unsafe fn quads(run: &Run<'_>) -> bool {
    let target = run.target.cast::<[u8; 4]>();
    let offsets = run.lanes.offsets();
    for unit in 0..run.length.div_ceil(4) {
        let count = (run.length - 4 * unit).min(4);
        // SAFETY: the caller promises that every element of every lane can be read and every group
        // written.
        unsafe {
            let source = run.source.offset(4 * unit as isize * run.stride);
            let group = target.add(unit * run.width);
            for (lane, &offset) in offsets.iter().enumerate() {
                let first = source.offset(offset);
                let mut quad = [0; 4];
                for (i, byte) in quad.iter_mut().enumerate().take(count) {
                    *byte = *first.offset(i as isize * run.stride);
                }
                *group.add(lane) = quad;
            }
            for lane in offsets.len()..run.width {
                *group.add(lane) = [0; 4];
            }
        }
    }
    false
}

/// Whether a bf16 is subnormal (neither zero nor normal).
fn is_subnormal(bits: u16) -> bool {
    bits & 0x7f80 == 0 && bits & 0x7f != 0
}

/// Transposes groups of units, each with a unit for every row, to rows of units: at most 16 groups,
/// of at most [`MAX_LANES`] rows, to rows at a distance of `distance` units.
///
/// # Safety
/// As many units of each row can be written as there are groups. On x86-64, the CPU has AVX-512 F.
pub(crate) unsafe fn turn(groups: &[i32], rows: usize, target: *mut i32, distance: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller promises that as many units of each row can be written as there are
    // groups, and AVX-512 F.
    unsafe {
        avx512::turn(groups, rows, target, distance);
    }
    #[cfg(not(target_arch = "x86_64"))]
    for (unit, group) in groups.chunks(rows.max(1)).enumerate() {
        for (row, &value) in group.iter().enumerate() {
            // SAFETY: the caller promises that as many units of each row can be written as there
            // are groups.
            unsafe { target.add(row * distance + unit).write(value) };
        }
    }
}

/// Whether any of some bf16 is subnormal (neither zero nor normal).
///
/// # Safety
/// The numbers can be read; the CPU has AVX-512 F, BW and VL where [`super::CpuFeatures`] may
/// report them.
pub(crate) unsafe fn any_subnormal(source: *const u16, count: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller promises that the numbers can be read, and that the CPU has AVX-512 F, BW
    // and VL where [`super::CpuFeatures`] may report them.
    return unsafe { avx512::any_subnormal(source.cast(), count) };
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller promises that the numbers can be read.
    return unsafe { core::slice::from_raw_parts(source, count) }
        .iter()
        .any(|&bits| is_subnormal(bits));
}

#[cfg(test)]
mod tests {
    use super::{Arithmetic, CpuFeatures, ElementType, Lanes, PackFn, Run, pack_function};
    use tegula_target::IsaLevel;
    /// The packed groups of a run of `length` elements, with 18 lanes in groups of 20 units.
    fn packed(
        function: PackFn,
        source: &[u16],
        stride: isize,
        lane: isize,
        length: usize,
    ) -> Vec<u32> {
        let lanes = Lanes::new(18, |offsets| {
            for (i, offset) in offsets.iter_mut().enumerate() {
                *offset = i as isize * lane;
            }
        });
        let mut target = vec![u32::MAX; length.div_ceil(2) * 20];
        let run = Run {
            source: source.as_ptr().cast(),
            stride,
            length,
            lanes: &lanes,
            target: target.as_mut_ptr().cast(),
            width: 20,
        };
        // SAFETY: callers have sources of that length.
        unsafe { function(&run) };
        target
    }

    #[test]
    fn pairs_end_in_zeros() {
        let source: Vec<u16> = (1..2000).collect();
        let portable: PackFn = super::pairs::<i16, false>;
        let here = CpuFeatures::up_to(IsaLevel::Native);
        let native = pack_function(here, ElementType::S16, Arithmetic::I16Pairs);
        for function in [portable, native.expect("pairs of s16")] {
            // Contiguous along the depth, across it, and neither.
            for (stride, lane) in [(1, 41), (23, 1), (3, 50)] {
                for length in [1, 2, 7, 32, 33] {
                    let at = |lane_index: isize, element: usize| match element < length {
                        true => {
                            let place = lane_index * lane + element as isize * stride;
                            u32::from(source[place as usize])
                        }
                        false => 0,
                    };
                    let target = packed(function, &source, stride, lane, length);
                    for (unit, group) in target.chunks(20).enumerate() {
                        for (i, &got) in group.iter().enumerate() {
                            let pair =
                                at(i as isize, 2 * unit) | at(i as isize, 2 * unit + 1) << 16;
                            assert_eq!(
                                got,
                                if i < 18 { pair } else { 0 },
                                "{stride} {lane} {length}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn words_at_any_distances_are_packed_as_they_are_read() {
        let source: Vec<u32> = (0..4000).collect();
        let here = CpuFeatures::up_to(IsaLevel::Native);
        let native = pack_function(here, ElementType::F32, Arithmetic::F32);
        let portable: PackFn = super::singles::<f32, f32>;
        for function in [portable, native.expect("f32 is packed on every CPU")] {
            // Rows of this many lanes, every first, second or third element of them.
            for (row, distance) in [(40, 1), (40, 2), (13, 2), (5, 2), (3, 2), (1, 2), (40, 3)] {
                for count in [1, 7, 16, 17, 31, 32] {
                    let place = |i: usize| i / row * 100 + i % row * distance;
                    let lanes = Lanes::new(count, |offsets| {
                        for (i, offset) in offsets.iter_mut().enumerate() {
                            *offset = place(i) as isize;
                        }
                    });
                    let mut target = [u32::MAX; 3 * 32];
                    let run = Run {
                        source: source.as_ptr().cast(),
                        stride: 201,
                        length: 3,
                        lanes: &lanes,
                        target: target.as_mut_ptr().cast(),
                        width: 32,
                    };
                    // SAFETY: the last place is below 4000; three groups of 32 units.
                    unsafe { function(&run) };
                    for (unit, group) in target.chunks(32).enumerate() {
                        for (i, &got) in group.iter().enumerate() {
                            let want = if i < count { place(i) + unit * 201 } else { 0 };
                            assert_eq!(got as usize, want, "{row} {distance} {count}");
                        }
                    }
                }
            }
        }
    }

    /// Packing all lanes of a panel at once gives the same as packing fewer, which takes another
    /// path.
    #[test]
    fn full_panels_are_packed_as_others() {
        use ElementType::{BF16, S8, S16, U8};
        let random = |i: u64| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8;
        let source: Vec<u8> = (0..64 * 100).map(random).collect();
        let here = CpuFeatures::up_to(IsaLevel::Native);
        let kinds = [
            (BF16, Arithmetic::Bf16Pairs),
            (S16, Arithmetic::I16Pairs),
            (S8, Arithmetic::I16Pairs),
            (U8, Arithmetic::I16Pairs),
            (S8, Arithmetic::I8Quads),
            (U8, Arithmetic::U8Quads),
        ];
        for (element_type, arithmetic) in kinds {
            let Some(function) = pack_function(here, element_type, arithmetic) else {
                continue;
            };
            for length in [1usize, 2, 3, 4, 5, 33, 90] {
                let units = length.div_ceil(arithmetic.step());
                let packed = |first: isize, count: usize| {
                    let lanes = Lanes::new(count, |offsets| {
                        for (i, offset) in offsets.iter_mut().enumerate() {
                            *offset = first + i as isize;
                        }
                    });
                    let mut target = vec![u32::MAX; units * 32];
                    let run = Run {
                        source: source.as_ptr(),
                        stride: 33,
                        length,
                        lanes: &lanes,
                        target: target.as_mut_ptr().cast(),
                        width: 32,
                    };
                    // SAFETY: 90 rows of 33 elements of at most two bytes, a group for each unit.
                    unsafe { function(&run) };
                    target
                };
                let [all, first, last] = [(1, 32), (1, 31), (2, 31)].map(|(i, n)| packed(i, n));
                for unit in 0..units {
                    let group = |target: &[u32]| target[unit * 32..][..32].to_vec();
                    let [all, first, last] = [&all, &first, &last].map(|t| group(t));
                    assert_eq!(all[..31], first[..31], "{arithmetic:?} of {length}");
                    assert_eq!(all[1..], last[..31], "{arithmetic:?} of {length}");
                }
            }
        }
    }

    #[test]
    fn subnormal_numbers_of_full_panels_are_found() {
        let here = CpuFeatures::every();
        let Some(function) = pack_function(here, ElementType::BF16, Arithmetic::Bf16Pairs) else {
            return;
        };
        let lanes = Lanes::new(32, |offsets| {
            for (i, offset) in offsets.iter_mut().enumerate() {
                *offset = i as isize;
            }
        });
        for place in [None, Some(0), Some(31), Some(32), Some(95)] {
            let mut source = [0x3f80u16; 96];
            if let Some(place) = place {
                source[place] = 0x8001;
            }
            let mut target = [0u32; 64];
            let run = Run {
                source: source.as_ptr().cast(),
                stride: 32,
                length: 3,
                lanes: &lanes,
                target: target.as_mut_ptr().cast(),
                width: 32,
            };
            // SAFETY: the function reads three rows of 32 elements and writes two groups of 32 units, which
            // are the sizes of both arrays.
            assert_eq!(unsafe { function(&run) }, place.is_some(), "{place:?}");
        }
    }
}
