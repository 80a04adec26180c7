//! Products of many small groups whose rows are neighbours: a depthwise convolution with the features
//! before the positions, as ONNX has them.
//!
//! Vectors run over the innermost row axis, of which an element is one element of the result after the
//! other, and one or two of the left operand. Each weight is repeated to a vector, which several rows use. A
//! row's last vector is masked (AVX-512), or reaches back so that it ends with the row: nothing is read or
//! written outside. [`crate::depthwise`] has groups that are neighbours.

use crate::depthwise::{ROWS, Shared, taps};
use crate::gemm::{Axes, Axis, AxisList, SERIAL, Types, element_count, offsets_at, share, varying};
use crate::microkernels::{CpuFeatures, VectorWidth};
use crate::tables::{Table, Tables};
use crate::thread_pool::{ThreadPool, is_stopped};
use tegula_ir::ElementType;

/// Shorter rows are for the general product.
const MIN_ROW: usize = 4;

/// A product of groups ready to run.
#[derive(Clone, Debug)]
pub struct Planes {
    group: Axis,
    /// The row axes around the innermost one.
    outer: AxisList,
    outer_count: usize,
    /// The innermost row axis: its elements are neighbours in the result.
    inner: Axis,
    /// Where the summands are in the operands, from the row and the group.
    taps: Table<[isize; 2]>,
    starts: [isize; 3],
    function: RowsFn,
}

/// Rows of one group that are computed together.
struct Rows<'a> {
    /// The left operand and the result at each row's begin; rows that are not needed repeat another.
    lhs: [*const f32; ROWS],
    out: [*mut f32; ROWS],
    rhs: *const f32,
    taps: &'a [[isize; 2]],
    length: usize,
}

/// Computes the elements of some rows.
///
/// # Safety
/// Every summand can be read and every element written, there are at least [`MIN_ROW`] elements, and the
/// CPU has what the function was made for.
type RowsFn = unsafe fn(&Rows<'_>);

impl Planes {
    /// The loop for a product; `None` if it is not of this form.
    #[cfg(feature = "std")]
    pub fn new(isa: CpuFeatures, types: Types, axes: &Axes) -> Option<Self> {
        Self::new_in(&mut Tables, isa, types, axes)
    }

    /// As [`Self::new`], with tables in this memory.
    #[inline(always)]
    pub fn new_in(
        memory: &mut Tables,
        isa: CpuFeatures,
        types: Types,
        axes: &Axes,
    ) -> Option<Self> {
        let [group] = varying(&axes.batch)[..] else {
            return None;
        };
        if types != [ElementType::F32; 3] || !varying(&axes.columns).is_empty() {
            return None;
        }
        let (mut outer, depth) = (varying(&axes.rows), varying(&axes.depth));
        let at = outer.iter().position(|axis| axis.out == 1)?;
        outer[..=at].rotate_right(1);
        let inner = outer.take_first()?;
        let function = function(isa, inner.lhs)?;
        if inner.size < MIN_ROW || inner.rhs != 0 {
            return None;
        }
        Some(Self {
            group,
            outer_count: element_count(&outer),
            outer,
            inner,
            taps: taps(memory, &depth)?,
            starts: axes.starts,
            function,
        })
    }

    /// Bytes of the tables that it was prepared with.
    #[cfg(feature = "std")]
    pub fn table_bytes(&self) -> usize {
        crate::tables::bytes(&self.taps)
    }

    /// Computes the product.
    ///
    /// # Safety
    /// As [`crate::gemm::Product::run`].
    pub unsafe fn run(&self, lhs: *const u8, rhs: *const u8, out: *mut u8, pool: &ThreadPool) {
        let row = (self.inner.size * self.taps.len()) as f64;
        let work = (self.group.size * self.outer_count) as f64 * row;
        let parts = if work < SERIAL / 8.0 {
            1
        } else {
            pool.threads()
        };
        let blocks = self.outer_count.div_ceil(ROWS);
        let shared = Shared { lhs, rhs, out };
        pool.run(parts, &|part| {
            let shared = &shared;
            for unit in share(self.group.size * blocks, parts, part) {
                if is_stopped() {
                    return;
                }
                let rows = self.rows(shared, unit / blocks, unit % blocks * ROWS);
                // SAFETY: the caller promises that the operands and the result are there; parts
                // write different rows.
                unsafe { (self.function)(&rows) };
            }
        });
    }

    /// Rows of a group from one on.
    fn rows(&self, shared: &Shared, group: usize, first: usize) -> Rows<'_> {
        let group = group as isize;
        let (lhs, rhs) = (shared.lhs.cast::<f32>(), shared.rhs.cast::<f32>());
        let out = shared.out.cast::<f32>();
        let mut rows = Rows {
            lhs: [lhs; ROWS],
            out: [out; ROWS],
            rhs: rhs.wrapping_offset(self.starts[1] + group * self.group.rhs),
            taps: &self.taps,
            length: self.inner.size,
        };
        for i in 0..ROWS {
            let row = (first + i).min(self.outer_count - 1);
            let [from, _, to] = offsets_at(&self.outer, row);
            let (from, to) = (from + group * self.group.lhs, to + group * self.group.out);
            rows.lhs[i] = lhs.wrapping_offset(self.starts[0] + from);
            rows.out[i] = out.wrapping_offset(self.starts[2] + to);
        }
        rows
    }
}

/// The function for rows whose elements are so far apart in the left operand.
#[inline(always)]
fn function(isa: CpuFeatures, stride: isize) -> Option<RowsFn> {
    #[cfg(target_arch = "x86_64")]
    match (isa.width, stride) {
        (VectorWidth::Avx512, 1) => return Some(avx512::rows::<1>),
        (VectorWidth::Avx512, 2) => return Some(avx512::rows::<2>),
        (VectorWidth::Avx2, 1) => return Some(avx2_plain),
        (VectorWidth::Avx2, 2) => return Some(avx2_pairs),
        _ => {}
    }
    #[cfg(any(target_arch = "aarch64", feature = "std"))]
    match (isa.width, stride) {
        (VectorWidth::Neon, 1) => return Some(neon_plain),
        (VectorWidth::Neon, 2) => return Some(neon_pairs),
        _ => {}
    }
    let _ = isa;
    match stride {
        1 => Some(portable_plain),
        2 => Some(portable_pairs),
        _ => None,
    }
}

/// Functions that are [`whole_rows`] compiled for instruction sets.
macro_rules! compiled {
    ($name:ident, $features:literal, $stride:literal, $fused:literal) => {
        /// # Safety
        /// As [`RowsFn`], on a CPU with these features.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name(rows: &Rows<'_>) {
            // SAFETY: the caller promises what `whole_rows` asks for.
            unsafe { whole_rows::<$stride, $fused>(rows) }
        }
    };
}

compiled!(avx2_plain, "avx2,fma", 1, true);
compiled!(avx2_pairs, "avx2,fma", 2, true);

/// With products that are rounded once: AArch64 always has the instructions, and elsewhere this only stands
/// for them.
///
/// # Safety
/// As [`RowsFn`].
#[cfg(any(target_arch = "aarch64", feature = "std"))]
unsafe fn neon_plain(rows: &Rows<'_>) {
    // SAFETY: the caller promises what `whole_rows` asks for.
    unsafe { whole_rows::<1, true>(rows) }
}

/// As [`neon_plain`].
///
/// # Safety
/// As [`RowsFn`].
#[cfg(any(target_arch = "aarch64", feature = "std"))]
unsafe fn neon_pairs(rows: &Rows<'_>) {
    // SAFETY: the caller promises what `whole_rows` asks for.
    unsafe { whole_rows::<2, true>(rows) }
}

/// # Safety
/// As [`RowsFn`].
unsafe fn portable_plain(rows: &Rows<'_>) {
    // SAFETY: the caller promises what `whole_rows` asks for.
    unsafe { whole_rows::<1, false>(rows) }
}

/// # Safety
/// As [`RowsFn`].
unsafe fn portable_pairs(rows: &Rows<'_>) {
    // SAFETY: the caller promises what `whole_rows` asks for.
    unsafe { whole_rows::<2, false>(rows) }
}

/// Vectors of 16 f32.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{ROWS, Rows};
    use core::arch::x86_64::*;

    /// # Safety
    /// As [`super::RowsFn`], on a CPU with AVX-512 F; `STRIDE` is 1 or 2.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn rows<const STRIDE: usize>(rows: &Rows<'_>) {
        let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        for start in (0..rows.length).step_by(16) {
            let count = (rows.length - start).min(16);
            let mask = ((1u32 << count) - 1) as u16;
            // The mask of all elements of the pairs but the last one, over two vectors.
            let both = (1u64 << (2 * count - 1)) - 1;
            let (first, second) = (both as u16, (both >> 16) as u16);
            let mut sums = [_mm512_setzero_ps(); ROWS];
            // SAFETY: the caller promises that all summands can be read and all elements written;
            // the masks have those of the elements from `start` on alone.
            unsafe {
                for &[l, r] in rows.taps {
                    let weight = _mm512_set1_ps(*rows.rhs.offset(r));
                    for (sum, lhs) in sums.iter_mut().zip(&rows.lhs) {
                        let from = lhs.offset(l).add(start * STRIDE);
                        let x = match STRIDE {
                            1 => _mm512_maskz_loadu_ps(mask, from),
                            _ => {
                                let low = _mm512_maskz_loadu_ps(first, from);
                                let high = from.wrapping_add(16);
                                let high = _mm512_maskz_loadu_ps(second, high);
                                _mm512_permutex2var_ps(low, even, high)
                            }
                        };
                        *sum = _mm512_fmadd_ps(x, weight, *sum);
                    }
                }
                for (&sum, out) in sums.iter().zip(&rows.out) {
                    _mm512_mask_storeu_ps(out.add(start), mask, sum);
                }
            }
        }
    }
}

/// Vectors as long as rows have room for.
///
/// # Safety
/// As [`RowsFn`].
#[inline(always)]
unsafe fn whole_rows<const STRIDE: usize, const FUSED: bool>(rows: &Rows<'_>) {
    // SAFETY: the caller promises what [`RowsFn`] asks for; rows are as long as the vectors.
    unsafe {
        match rows.length {
            16.. => vectors::<16, STRIDE, FUSED>(rows),
            8.. => vectors::<8, STRIDE, FUSED>(rows),
            _ => vectors::<MIN_ROW, STRIDE, FUSED>(rows),
        }
    }
}

/// # Safety
/// As [`RowsFn`]; rows have at least `LANES` elements.
#[inline(always)]
unsafe fn vectors<const LANES: usize, const STRIDE: usize, const FUSED: bool>(rows: &Rows<'_>) {
    let last = rows.length - LANES;
    let mut start = 0;
    loop {
        let mut sums = [[0f32; LANES]; ROWS];
        // SAFETY: the caller promises that all summands of the elements from `start` on can be read,
        // and the elements be written: there are `LANES` of them, as `start` is at most `last`.
        unsafe {
            for &[l, r] in rows.taps {
                let weight = *rows.rhs.offset(r);
                for (sums, lhs) in sums.iter_mut().zip(&rows.lhs) {
                    let x = load::<LANES, STRIDE>(lhs.offset(l).add(start * STRIDE));
                    for (sum, x) in sums.iter_mut().zip(&x) {
                        *sum = match FUSED {
                            true => fused(*x, weight, *sum),
                            false => x * weight + *sum,
                        };
                    }
                }
            }
            for (sums, out) in sums.iter().zip(&rows.out) {
                out.add(start).cast::<[f32; LANES]>().write_unaligned(*sums);
            }
        }
        if start == last {
            return;
        }
        start = (start + LANES).min(last);
    }
}

/// `x * y + z`, rounded once.
///
/// # Safety
/// The CPU has FMA.
#[inline(always)]
unsafe fn fused(x: f32, y: f32, z: f32) -> f32 {
    #[cfg(all(target_arch = "x86_64", not(feature = "std")))]
    {
        use core::arch::x86_64::{_mm_cvtss_f32, _mm_fmadd_ss, _mm_set_ss};
        // SAFETY: the caller promises the feature. `core` has no `mul_add`; the compiler makes
        // vectors of these as well.
        unsafe { _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(x), _mm_set_ss(y), _mm_set_ss(z))) }
    }
    #[cfg(all(target_arch = "aarch64", not(feature = "std")))]
    {
        use core::arch::aarch64::{vdup_n_f32, vfma_f32, vget_lane_f32};
        // SAFETY: vectors are part of the architecture. The compiler takes the one lane for a number.
        unsafe { vget_lane_f32::<0>(vfma_f32(vdup_n_f32(z), vdup_n_f32(x), vdup_n_f32(y))) }
    }
    #[cfg(feature = "std")]
    x.mul_add(y, z)
}

/// Elements that are `STRIDE` apart, 1 or 2: of pairs by two vectors, of which the second begins one element
/// early, so that it ends with the last one that is needed.
///
/// # Safety
/// The elements can be read.
#[inline(always)]
unsafe fn load<const LANES: usize, const STRIDE: usize>(from: *const f32) -> [f32; LANES] {
    // SAFETY: the caller promises elements 0, 2, ..., 2 * (LANES - 1), or 0, 1, ..., LANES - 1, of one
    // array, in which those between them are, too.
    unsafe {
        let first = from.cast::<[f32; LANES]>().read_unaligned();
        if STRIDE == 1 {
            return first;
        }
        let second = from.add(LANES - 1).cast::<[f32; LANES]>().read_unaligned();
        core::array::from_fn(|i| match 2 * i < LANES {
            true => first[2 * i],
            false => second[2 * i + 1 - LANES],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(size: usize, lhs: isize, rhs: isize, out: isize) -> Axis {
        Axis {
            size,
            lhs,
            rhs,
            out,
        }
    }

    /// A depthwise convolution of planes against its definition.
    fn agrees(
        isa: CpuFeatures,
        channels: usize,
        [height, width]: [usize; 2],
        stride: usize,
        kernel: usize,
    ) {
        let (rows, columns) = (
            (height - kernel) / stride + 1,
            (width - kernel) / stride + 1,
        );
        let x: Vec<f32> = (0..channels * height * width)
            .map(|i| (i % 13) as f32 - 6.0)
            .collect();
        let w: Vec<f32> = (0..channels * kernel * kernel)
            .map(|i| (i % 7) as f32 - 3.0)
            .collect();
        let mut y = vec![f32::NAN; channels * rows * columns];
        let (s, size) = (stride as isize, width as isize);
        let taps = (kernel * kernel) as isize;
        let axes = Axes {
            batch: [axis(
                channels,
                height as isize * size,
                taps,
                (rows * columns) as isize,
            )]
            .into(),
            rows: [
                axis(rows, s * size, 0, columns as isize),
                axis(columns, s, 0, 1),
            ]
            .into(),
            columns: AxisList::new(),
            depth: [
                axis(kernel, size, kernel as isize, 0),
                axis(kernel, 1, 1, 0),
            ]
            .into(),
            starts: [0; 3],
        };
        let planes = Planes::new(isa, [ElementType::F32; 3], &axes).expect("planes");
        let pool = ThreadPool::new(1);
        // SAFETY: the axes are those of the arrays.
        unsafe {
            let (x, w) = (x.as_ptr().cast(), w.as_ptr().cast());
            planes.run(x, w, y.as_mut_ptr().cast(), &pool);
        }
        for (at, found) in y.iter().enumerate() {
            let (c, row, column) = (at / (rows * columns), at / columns % rows, at % columns);
            let mut sum = 0.0;
            for i in 0..kernel {
                for j in 0..kernel {
                    let place = (c * height + row * stride + i) * width + column * stride + j;
                    sum += x[place] * w[(c * kernel + i) * kernel + j];
                }
            }
            assert_eq!(
                *found, sum,
                "{channels} {height}x{width} {stride} {kernel} at {at}"
            );
        }
    }

    #[test]
    fn planes_of_every_length() {
        let native = CpuFeatures::detect();
        let portable = CpuFeatures {
            width: VectorWidth::Portable,
            ..native
        };
        let neon = CpuFeatures {
            width: VectorWidth::Neon,
            ..native
        };
        for isa in [native, portable, neon] {
            for width in [4usize, 5, 7, 8, 9, 15, 16, 17, 31, 33, 40] {
                for stride in [1, 2] {
                    for kernel in [1, 3, 5] {
                        let size = (width - 1) * stride + kernel;
                        agrees(isa, 3, [7, size], stride, kernel);
                    }
                }
            }
        }
    }
}
