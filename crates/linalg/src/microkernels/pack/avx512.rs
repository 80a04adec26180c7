//! Packing with AVX-512: 16 units at once, or all of a panel if its lanes are adjacent.

use super::{Arithmetic, CHUNK, ElementType, PackFn, Run, Segment};
use core::arch::x86_64::*;

#[inline(always)]
pub(super) fn function(element_type: ElementType, arithmetic: Arithmetic) -> Option<PackFn> {
    use ElementType::{BF16, F16, F32, S8, S16, S32, U8, U32};
    Some(match (arithmetic, element_type) {
        (Arithmetic::F32, F32) | (Arithmetic::I32, S32 | U32) => pack::<Word>,
        (Arithmetic::F32, BF16) => pack::<WideBf16>,
        (Arithmetic::F32, F16) => pack::<WideF16>,
        (Arithmetic::Bf16Pairs, BF16) => pack_parts::<PairBf16>,
        (Arithmetic::I16Pairs, S16) => pack_parts::<Pair16>,
        (Arithmetic::I16Pairs, S8) => pack_parts::<PairI8>,
        (Arithmetic::I16Pairs, U8) => pack_parts::<PairU8>,
        (Arithmetic::I8Quads | Arithmetic::U8Quads, S8 | U8) => pack_parts::<Quad8>,
        _ => return None,
    })
}

/// Loads 16 units of a type. Elements that a mask excludes are not accessed, and read as zero.
trait Load {
    type Element;
    /// Elements of a unit.
    const STEP: usize;
    /// Whether units are checked for subnormal numbers.
    const CHECK: bool;
    /// Loads consecutive elements of one lane: those of 16 units.
    ///
    /// # Safety
    /// The first `count` elements can be read; AVX-512 F, BW and VL.
    unsafe fn along(source: *const Self::Element, count: usize) -> __m512i;
    /// Loads one element of each of 16 lanes, into the lowest part of a unit that has several.
    ///
    /// # Safety
    /// The elements of the mask can be read; AVX-512 F, BW and VL.
    unsafe fn across(source: *const Self::Element, mask: u16) -> __m512i;
}

/// Masks of the first `count` of 16, of 64 or of 32 elements.
fn first(count: usize) -> u16 {
    ((1u32 << count.min(16)) - 1) as u16
}

fn first64(count: usize) -> u64 {
    ((1u128 << count.min(64)) - 1) as u64
}

fn first32(count: usize) -> u32 {
    ((1u64 << count.min(32)) - 1) as u32
}

macro_rules! loads {
    ($($name:ident, $element:ty, $step:literal, $check:literal,
       $along:expr, $across:expr;)*) => {$(
        struct $name;
        impl Load for $name {
            type Element = $element;
            const STEP: usize = $step;
            const CHECK: bool = $check;
            #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
            unsafe fn along(source: *const $element, count: usize) -> __m512i {
                // SAFETY: the caller promises that this many elements can be read.
                unsafe { $along(source, count) }
            }
            #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
            unsafe fn across(source: *const $element, mask: u16) -> __m512i {
                // SAFETY: the caller promises that the elements of the mask can be read.
                unsafe { $across(source, mask) }
            }
        }
    )*};
}

loads! {
    Word, i32, 1, false,
        |p, n| _mm512_maskz_loadu_epi32(first(n), p),
        |p, mask| _mm512_maskz_loadu_epi32(mask, p);
    WideBf16, i16, 1, false,
        |p, n| _mm512_slli_epi32::<16>(
            _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first(n), p))),
        |p, mask| _mm512_slli_epi32::<16>(
            _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, p)));
    WideF16, i16, 1, false,
        |p, n| _mm512_castps_si512(
            _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p))),
        |p, mask| _mm512_castps_si512(
            _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, p)));
    PairBf16, i16, 2, true,
        |p, n| _mm512_maskz_loadu_epi16(first32(n), p),
        |p, mask| _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, p));
    Pair16, i16, 2, false,
        |p, n| _mm512_maskz_loadu_epi16(first32(n), p),
        |p, mask| _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, p));
    PairI8, i8, 2, false,
        |p, n| _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(first32(n), p)),
        |p, mask| _mm512_and_si512(
            _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, p)),
            _mm512_set1_epi32(0xffff));
    PairU8, i8, 2, false,
        |p, n| _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(first32(n), p)),
        |p, mask| _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, p));
    Quad8, i8, 4, false,
        |p, n| _mm512_maskz_loadu_epi8(first64(n), p),
        |p, mask| _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, p));
}

/// Units of several elements, 32 of which are loaded at once as 16-bit numbers.
trait Parts: Load {
    /// # Safety
    /// 32 elements can be read; AVX-512 F, BW and VL.
    unsafe fn elements(source: *const Self::Element) -> __m512i;
}

macro_rules! parts {
    ($($name:ident, $elements:expr;)*) => {$(
        impl Parts for $name {
            #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
            unsafe fn elements(source: *const Self::Element) -> __m512i {
                // SAFETY: the caller promises that the elements of a vector can be read.
                unsafe { $elements(source) }
            }
        }
    )*};
}

parts! {
    PairBf16, |p| _mm512_loadu_epi16(p);
    Pair16, |p| _mm512_loadu_epi16(p);
    PairI8, |p: *const i8| _mm512_cvtepi8_epi16(_mm256_loadu_si256(p.cast()));
    PairU8, |p: *const i8| _mm512_cvtepu8_epi16(_mm256_loadu_si256(p.cast()));
    Quad8, |p: *const i8| _mm512_cvtepu8_epi16(_mm256_loadu_si256(p.cast()));
}

/// # Safety
/// As [`PackFn`], on a CPU with AVX-512 F, BW and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn pack_parts<L: Parts>(run: &Run<'_>) -> bool {
    // SAFETY: the caller promises that every element of every lane can be read and every group
    // written, and a CPU with AVX-512 F, BW and VL.
    unsafe {
        match run.lanes.neighbours() {
            Some(offset) if run.width == 2 * CHUNK => pack_neighbours::<L>(run, offset),
            _ => pack::<L>(run),
        }
    }
}

/// Packs all lanes of a panel that are adjacent in memory: each half of 32 units is assembled from
/// rows of the array, then both are stored side by side.
///
/// # Safety
/// As [`pack_parts`]; the group is as wide as 32 units.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn pack_neighbours<L: Parts>(run: &Run<'_>, offset: isize) -> bool {
    let source = run.source.cast::<L::Element>().wrapping_offset(offset);
    let target = run.target.cast::<i32>();
    let from = |element: usize| source.wrapping_offset(element as isize * run.stride);
    let row = |element: usize| match element < run.length {
        true => {
            // Prefetches, as in `pack_across`.
            _mm_prefetch::<_MM_HINT_T0>(from(element + 16).cast());
            // SAFETY: the lanes' elements can be read.
            unsafe { L::elements(from(element)) }
        }
        false => _mm512_setzero_si512(),
    };
    let half = |element: usize| match L::STEP {
        2 => row(element),
        _ => _mm512_or_si512(row(element), _mm512_slli_epi16::<8>(row(element + 1))),
    };
    let places = |first: u16| {
        let places: [u16; 32] =
            core::array::from_fn(|i| first + i as u16 / 2 + (i as u16 % 2) * 32);
        // SAFETY: the array has 32 numbers of 16 bits, the size of the load.
        unsafe { _mm512_loadu_epi16(places.as_ptr().cast()) }
    };
    let (low, high) = (places(0), places(16));
    let mut smallest = Smallest::new();
    for unit in 0..run.length.div_ceil(L::STEP) {
        let first = half(unit * L::STEP);
        let second = half(unit * L::STEP + L::STEP / 2);
        if L::CHECK {
            smallest.see(first);
            smallest.see(second);
        }
        // SAFETY: the group has 32 units.
        unsafe {
            let group = target.add(unit * run.width);
            let [low, high] =
                [low, high].map(|places| _mm512_permutex2var_epi16(first, places, second));
            _mm512_storeu_epi32(group, low);
            _mm512_storeu_epi32(group.add(CHUNK), high);
        }
    }
    smallest.is_subnormal()
}

/// # Safety
/// As [`PackFn`], on a CPU with AVX-512 F, BW and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn pack<L: Load>(run: &Run<'_>) -> bool {
    let mut subnormal = false;
    for start in (0..run.width).step_by(CHUNK) {
        // SAFETY: the caller promises that every element of every lane can be read and every group
        // written, and a CPU with AVX-512 F, BW and VL.
        subnormal |= unsafe {
            match run.lanes.segments(start / CHUNK) {
                Some((segments, 1)) => pack_across::<L>(run, start, segments),
                // The only units of four bytes are words.
                Some((segments, 2)) if size_of::<L::Element>() == size_of::<i32>() => {
                    pack_every_second(run, start, segments)
                }
                _ => pack_along::<L>(run, start),
            }
        };
    }
    subnormal
}

/// The smallest magnitudes of bf16 seen so far, each less one: that of zero becomes the largest
/// number, and those of subnormals are below [`LEAST_NORMAL`] less one.
#[derive(Clone, Copy)]
struct Smallest(__m512i);

/// The bits of the smallest normal bf16.
const LEAST_NORMAL: i16 = 0x80;

impl Smallest {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn new() -> Self {
        Self(_mm512_set1_epi16(-1))
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn see(&mut self, x: __m512i) {
        let magnitudes = _mm512_and_si512(x, _mm512_set1_epi16(i16::MAX));
        let less_one = _mm512_sub_epi16(magnitudes, _mm512_set1_epi16(1));
        self.0 = _mm512_min_epu16(self.0, less_one);
    }

    /// Whether a number was neither zero nor normal.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn is_subnormal(self) -> bool {
        _mm512_cmplt_epu16_mask(self.0, _mm512_set1_epi16(LEAST_NORMAL - 1)) != 0
    }
}

/// # Safety
/// The elements can be read; AVX-512 F, BW and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn any_subnormal(source: *const i16, count: usize) -> bool {
    let mut smallest = Smallest::new();
    for start in (0..count).step_by(32) {
        // SAFETY: the mask selects only existing elements.
        smallest
            .see(unsafe { _mm512_maskz_loadu_epi16(first32(count - start), source.add(start)) });
    }
    smallest.is_subnormal()
}

/// Packs a chunk of lanes that are adjacent in memory, one group at a time.
///
/// # Safety
/// As [`pack`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn pack_across<L: Load>(run: &Run<'_>, start: usize, segments: &[Segment]) -> bool {
    let source = run.source.cast::<L::Element>();
    let target = run.target.cast::<i32>();
    let stored = first(run.width - start);
    let mut smallest = Smallest::new();
    // SAFETY: a mask only has the bits of lanes whose elements can be read; the other pointers are
    // computed but not dereferenced.
    let load = |element: usize| unsafe {
        if let [segment, ..] = segments {
            // Prefetches 16 elements ahead: the hardware prefetcher does not predict large strides.
            let ahead = (element + 16) as isize * run.stride + segment.offset;
            _mm_prefetch::<_MM_HINT_T0>(source.wrapping_offset(ahead).cast());
        }
        let base = source.wrapping_offset(element as isize * run.stride);
        let mut x = _mm512_setzero_si512();
        for segment in segments {
            let loaded = L::across(base.wrapping_offset(segment.offset), segment.mask);
            x = _mm512_or_si512(x, loaded);
        }
        x
    };
    for unit in 0..run.length.div_ceil(L::STEP) {
        let mut x = load(unit * L::STEP);
        for part in 1..L::STEP {
            let element = unit * L::STEP + part;
            if element < run.length {
                let shift = _mm_cvtsi32_si128((32 / L::STEP * part) as i32);
                x = _mm512_or_si512(x, _mm512_sll_epi32(load(element), shift));
            }
        }
        if L::CHECK {
            smallest.see(x);
        }
        // SAFETY: the group has `width` units from its start.
        unsafe { _mm512_mask_storeu_epi32(target.add(unit * run.width + start), stored, x) };
    }
    smallest.is_subnormal()
}

/// Packs a chunk of lanes whose elements, words, are two apart in memory, one group at a time.
///
/// # Safety
/// As [`pack`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn pack_every_second(run: &Run<'_>, start: usize, segments: &[Segment]) -> bool {
    let source = run.source.cast::<i32>();
    let target = run.target.cast::<i32>();
    let stored = first(run.width - start);
    let even: [i32; CHUNK] = core::array::from_fn(|lane| 2 * lane as i32);
    // SAFETY: the array has 16 words, the size of the load.
    let even = unsafe { _mm512_loadu_epi32(even.as_ptr()) };
    // The lanes of the lower and the upper half, at the even places of a vector.
    let places = |lanes: u16| (0..8).fold(0, |m, lane| m | (lanes >> lane & 1) << (2 * lane));
    let mut masks = [[0u16; 2]; super::MAX_SEGMENTS];
    for (masks, segment) in masks.iter_mut().zip(segments) {
        *masks = [places(segment.mask & 0xff), places(segment.mask >> 8)];
    }
    for element in 0..run.length {
        let base = source.wrapping_offset(element as isize * run.stride);
        let mut halves = [_mm512_setzero_si512(); 2];
        for (masks, segment) in masks.iter().zip(segments) {
            let from = base.wrapping_offset(segment.offset);
            // SAFETY: the masks only have the bits of lanes whose elements can be read.
            unsafe {
                halves[0] = _mm512_mask_loadu_epi32(halves[0], masks[0], from);
                let from = from.wrapping_add(CHUNK);
                halves[1] = _mm512_mask_loadu_epi32(halves[1], masks[1], from);
            }
        }
        let x = _mm512_permutex2var_epi32(halves[0], even, halves[1]);
        // SAFETY: the group has `width` units from its start.
        unsafe { _mm512_mask_storeu_epi32(target.add(element * run.width + start), stored, x) };
    }
    false
}

/// Packs a chunk of lanes that are contiguous along the depth, or have any strides.
///
/// # Safety
/// As [`pack`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn pack_along<L: Load>(run: &Run<'_>, start: usize) -> bool {
    let source = run.source.cast::<L::Element>();
    let target = run.target.cast::<i32>();
    let stored = first(run.width - start);
    let offsets = run.lanes.offsets();
    let offsets = offsets.get(start..offsets.len().min(start + CHUNK));
    let offsets = offsets.unwrap_or_default();
    let units = run.length.div_ceil(L::STEP);
    let mut smallest = Smallest::new();
    let (mut subnormal, mut turned) = (false, 0);
    if let (Ok(offsets), 1) = (<&[isize; CHUNK]>::try_from(offsets), run.stride) {
        turned = run.length / (CHUNK * L::STEP);
        // SAFETY: all lanes have this many elements, and groups as many units.
        subnormal = unsafe { turned_blocks::<L>(run, start, offsets, turned) };
    }
    for first_unit in (turned * CHUNK..units).step_by(CHUNK) {
        let element = first_unit * L::STEP;
        let count = (run.length - element).min(16 * L::STEP);
        let load = |lane: usize| {
            let Some(&offset) = offsets.get(lane) else {
                return _mm512_setzero_si512();
            };
            let place = offset + element as isize * run.stride;
            // SAFETY: the lane has `count` more elements.
            unsafe {
                let source = source.offset(place);
                if run.stride == 1 {
                    L::along(source, count)
                } else {
                    gathered::<L>(source, run.stride, count)
                }
            }
        };
        // A full block of 16 lanes stays in registers.
        let mut block: [__m512i; 16] = match offsets.len() {
            16 if run.stride == 1 => core::array::from_fn(|lane| {
                // SAFETY: the lane has `count` more elements.
                unsafe { L::along(source.offset(offsets[lane] + element as isize), count) }
            }),
            _ => core::array::from_fn(load),
        };
        if L::CHECK {
            for &x in &block {
                smallest.see(x);
            }
        }
        transpose(&mut block);
        for (i, &x) in block.iter().take(units - first_unit).enumerate() {
            let place = (first_unit + i) * run.width + start;
            // SAFETY: the group has `width` units from its start.
            unsafe { _mm512_mask_storeu_epi32(target.add(place), stored, x) };
        }
    }
    subnormal || smallest.is_subnormal()
}

/// Packs blocks of 16 units of 16 lanes that are contiguous along the depth, by transposing. A
/// separate function, so that a whole block stays in registers, next to which only few values fit.
///
/// # Safety
/// The lanes' elements can be read, and their groups written; AVX-512 F, BW and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline(never)]
unsafe fn turned_blocks<L: Load>(
    run: &Run<'_>,
    start: usize,
    offsets: &[isize; CHUNK],
    blocks: usize,
) -> bool {
    let mut source = run.source.cast::<L::Element>();
    let mut group = run.target.cast::<i32>().wrapping_add(start);
    let width = run.width;
    let mut smallest = Smallest::new();
    for _ in 0..blocks {
        let mut block: [__m512i; CHUNK] = core::array::from_fn(|lane| {
            // SAFETY: the caller promises that the lanes' elements can be read, and AVX-512 F, BW
            // and VL.
            unsafe { L::along(source.offset(offsets[lane]), CHUNK * L::STEP) }
        });
        if L::CHECK {
            for &x in &block {
                smallest.see(x);
            }
        }
        transpose(&mut block);
        for &x in &block {
            // SAFETY: the caller promises that the groups can be written, and AVX-512 F, BW and VL.
            unsafe { _mm512_storeu_epi32(group, x) };
            group = group.wrapping_add(width);
        }
        source = source.wrapping_add(CHUNK * L::STEP);
    }
    smallest.is_subnormal()
}

/// Loads elements at a stride as if they were adjacent.
///
/// # Safety
/// The elements can be read; AVX-512 F, BW and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn gathered<L: Load>(source: *const L::Element, stride: isize, count: usize) -> __m512i {
    let mut near: [core::mem::MaybeUninit<L::Element>; 64] =
        [const { core::mem::MaybeUninit::uninit() }; 64];
    for (i, near) in near.iter_mut().take(count).enumerate() {
        // SAFETY: the caller promises: the elements can be read; AVX-512 F, BW and VL.
        near.write(unsafe { core::ptr::read(source.offset(i as isize * stride)) });
    }
    // SAFETY: `count` elements, at most 64, were written.
    unsafe { L::along(near.as_ptr().cast(), count) }
}

/// # Safety
/// As [`super::turn`].
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn turn(groups: &[i32], rows: usize, target: *mut i32, distance: usize) {
    let units = groups.len().checked_div(rows).unwrap_or(0);
    for start in (0..rows).step_by(CHUNK) {
        let lanes = (rows - start).min(CHUNK);
        let mut block: [__m512i; 16] = core::array::from_fn(|unit| match unit < units {
            // SAFETY: the group has this many more units.
            true => unsafe {
                let group = groups.as_ptr().add(unit * rows + start);
                _mm512_maskz_loadu_epi32(first(lanes), group)
            },
            false => _mm512_setzero_si512(),
        });
        transpose(&mut block);
        for (i, &row) in block.iter().take(lanes).enumerate() {
            // SAFETY: the row has room for this many units.
            unsafe {
                let target = target.add((start + i) * distance);
                _mm512_mask_storeu_epi32(target, first(units), row);
            }
        }
    }
}

/// Transposes 16 rows of 16 units.
#[target_feature(enable = "avx512f")]
#[inline]
pub(in crate::microkernels) fn transpose(rows: &mut [__m512i; 16]) {
    let mut fours = [[_mm512_setzero_si512(); 4]; 4];
    for (g, four) in fours.iter_mut().enumerate() {
        let (a, b) = (rows[4 * g], rows[4 * g + 1]);
        let (c, d) = (rows[4 * g + 2], rows[4 * g + 3]);
        let low = [_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d)];
        let high = [_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d)];
        *four = [
            _mm512_unpacklo_epi64(low[0], low[1]),
            _mm512_unpackhi_epi64(low[0], low[1]),
            _mm512_unpacklo_epi64(high[0], high[1]),
            _mm512_unpackhi_epi64(high[0], high[1]),
        ];
    }
    // Each 128-bit part holds four rows of one column.
    for j in 0..4 {
        let [p, q, r, s] = [fours[0][j], fours[1][j], fours[2][j], fours[3][j]];
        let a = _mm512_shuffle_i32x4::<0x88>(p, q);
        let b = _mm512_shuffle_i32x4::<0xdd>(p, q);
        let c = _mm512_shuffle_i32x4::<0x88>(r, s);
        let d = _mm512_shuffle_i32x4::<0xdd>(r, s);
        rows[j] = _mm512_shuffle_i32x4::<0x88>(a, c);
        rows[8 + j] = _mm512_shuffle_i32x4::<0xdd>(a, c);
        rows[4 + j] = _mm512_shuffle_i32x4::<0x88>(b, d);
        rows[12 + j] = _mm512_shuffle_i32x4::<0xdd>(b, d);
    }
}
