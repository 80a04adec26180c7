//! Depthwise products: many small groups, each with one column. Groups are adjacent in every array,
//! and vectors run over groups. A depthwise convolution with the features last is such a product.

use crate::gemm::{Axes, Axis, AxisList, SERIAL, Types, element_count, offsets_at, share, varying};
#[cfg(any(target_arch = "aarch64", feature = "std"))]
use crate::microkernels::neon::vector::{F32, F64};
#[cfg(target_arch = "x86_64")]
use crate::microkernels::vector512;
use crate::microkernels::{CpuFeatures, VectorWidth};
use crate::tables::{Table, Tables};
use crate::thread_pool::{ThreadPool, is_stopped};
use tegula_ir::ElementType;

/// The maximum number of terms in the sum of an element.
pub(crate) const MAX_TAPS: usize = 1024;
/// The number of rows that share each load of a right operand's vector.
pub(crate) const ROWS: usize = 4;

/// A product of groups, prepared to run.
#[derive(Clone, Debug)]
pub struct Direct {
    rows: AxisList,
    row_count: usize,
    groups: usize,
    /// The offsets of the terms in both operands, relative to the row and the group.
    taps: Table<[isize; 2]>,
    starts: [isize; 3],
    function: RowsFn,
    element: usize,
}

/// Rows that are computed together.
pub struct Rows<'a> {
    /// The addresses of each row's first group in the left operand and in the result; unused rows
    /// repeat another.
    lhs: [*const u8; ROWS],
    out: [*mut u8; ROWS],
    rhs: *const u8,
    taps: &'a [[isize; 2]],
    groups: usize,
}

/// Computes the elements of all groups in some rows.
///
/// # Safety
/// Every summand can be read and every element written, and the CPU has the features that the
/// function was compiled for.
type RowsFn = unsafe fn(&Rows<'_>);

impl Direct {
    /// Prepares the loop for a product; `None` if it does not have this form.
    #[cfg(feature = "std")]
    pub fn new(isa: CpuFeatures, types: Types, axes: &Axes) -> Option<Self> {
        Self::new_in(&mut Tables, isa, types, axes)
    }

    /// Like [`Self::new`], with tables in the given memory.
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
        let neighbours = [group.lhs, group.rhs, group.out] == [1, 1, 1];
        if !neighbours || !varying(&axes.columns).is_empty() {
            return None;
        }
        let [ty, other, out] = types;
        let function = function(isa, ty).filter(|_| ty == other && ty == out)?;
        let (rows, depth) = (varying(&axes.rows), varying(&axes.depth));
        let taps = taps(memory, &depth)?;
        Some(Self {
            row_count: element_count(&rows),
            groups: group.size,
            taps,
            starts: axes.starts,
            function,
            element: ty.storage_bytes(),
            rows,
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
        let work = self.row_count as f64 * self.groups as f64 * self.taps.len() as f64;
        let parts = if work < SERIAL / 8.0 {
            1
        } else {
            pool.threads()
        };
        let shared = Shared { lhs, rhs, out };
        pool.run(parts, &|part| {
            let shared = &shared;
            let mut rows = share(self.row_count, parts, part);
            while !rows.is_empty() && !is_stopped() {
                let together = self.together(shared, rows.start, rows.len());
                // SAFETY: the caller promises pointers to arrays that contain every element the
                // axes reach, with `out` overlapping neither operand; parts write different rows.
                unsafe { (self.function)(&together) };
                rows.start = (rows.start + ROWS).min(rows.end);
            }
        });
    }

    fn together(&self, shared: &Shared, first: usize, count: usize) -> Rows<'_> {
        let place =
            |base: *const u8, offset: isize| base.wrapping_offset(offset * self.element as isize);
        let mut rows = Rows {
            lhs: [shared.lhs; ROWS],
            out: [shared.out; ROWS],
            rhs: place(shared.rhs, self.starts[1]),
            taps: &self.taps,
            groups: self.groups,
        };
        for i in 0..ROWS {
            let [lhs, _, out] = offsets_at(&self.rows, first + i.min(count - 1));
            rows.lhs[i] = place(shared.lhs, self.starts[0] + lhs);
            rows.out[i] = place(shared.out, self.starts[2] + out).cast_mut();
        }
        rows
    }
}

/// The arrays of a product, shared by its threads.
pub(crate) struct Shared {
    pub(crate) lhs: *const u8,
    pub(crate) rhs: *const u8,
    pub(crate) out: *mut u8,
}

// SAFETY: operands are only read, and each thread writes its own rows.
unsafe impl Sync for Shared {}

/// The offsets in both operands of the terms of an element's sum; [`None`] if there are too many to
/// list.
pub(crate) fn taps(memory: &mut Tables, depth: &[Axis]) -> Option<Table<[isize; 2]>> {
    let count = element_count(depth);
    let tap = |tap| {
        let [lhs, rhs, _] = offsets_at(depth, tap);
        [lhs, rhs]
    };
    (count <= MAX_TAPS).then(|| memory.table((0..count).map(tap)))
}

#[inline(always)]
fn function(isa: CpuFeatures, ty: ElementType) -> Option<RowsFn> {
    #[cfg(target_arch = "x86_64")]
    if isa.width == VectorWidth::Avx512 {
        match ty {
            ElementType::F32 => return Some(avx512::rows::<vector512::F32>),
            ElementType::BF16 => return Some(avx512::rows::<vector512::Bf16>),
            ElementType::F16 => return Some(avx512::rows::<vector512::F16>),
            _ => {}
        }
    }
    #[cfg(target_arch = "x86_64")]
    if isa.width == VectorWidth::Avx2 && ty == ElementType::F32 {
        return Some(avx2::rows);
    }
    #[cfg(any(target_arch = "aarch64", feature = "std"))]
    if isa.width == VectorWidth::Neon {
        match ty {
            ElementType::F32 => return Some(neon::rows::<F32>),
            ElementType::F64 => return Some(neon::rows::<F64>),
            _ => return None,
        }
    }
    let _ = (isa, VectorWidth::Portable);
    match ty {
        ElementType::F32 => Some(portable::<f32>),
        ElementType::F64 => Some(portable::<f64>),
        _ => None,
    }
}

/// Computes a few groups at a time, so that their sums stay in registers.
///
/// # Safety
/// As [`RowsFn`].
unsafe fn portable<T>(rows: &Rows<'_>)
where
    T: Copy + Default + core::ops::Add<Output = T> + core::ops::Mul<Output = T>,
{
    const TOGETHER: usize = 8;
    for (lhs, out) in rows.lhs.iter().zip(&rows.out) {
        let (lhs, rhs, out) = (lhs.cast::<T>(), rows.rhs.cast::<T>(), out.cast::<T>());
        for start in (0..rows.groups).step_by(TOGETHER) {
            let count = TOGETHER.min(rows.groups - start);
            let mut sums = [T::default(); TOGETHER];
            // SAFETY: the caller promises that every summand can be read and every element written;
            // for the groups from `start` on.
            unsafe {
                for &[l, r] in rows.taps {
                    let lhs = lhs.offset(l).add(start);
                    let rhs = rhs.offset(r).add(start);
                    for (i, sum) in sums.iter_mut().enumerate().take(count) {
                        *sum = *sum + *lhs.add(i) * *rhs.add(i);
                    }
                }
                for (i, &sum) in sums.iter().enumerate().take(count) {
                    *out.add(start + i) = sum;
                }
            }
        }
    }
}

/// 128-bit vectors.
#[cfg(any(target_arch = "aarch64", feature = "std"))]
mod neon {
    use super::{ROWS, Rows};
    use crate::microkernels::neon::vector::Numbers;

    /// # Safety
    /// As [`super::RowsFn`].
    pub(super) unsafe fn rows<V: Numbers>(rows: &Rows<'_>) {
        let mut start = 0;
        // SAFETY: the caller promises that every summand can be read and every element written; all
        // groups are below `rows.groups`.
        unsafe {
            while start + 4 * V::LANES <= rows.groups {
                groups::<V, 4>(rows, start, V::LANES);
                start += 4 * V::LANES;
            }
            while start < rows.groups {
                groups::<V, 1>(rows, start, (rows.groups - start).min(V::LANES));
                start += V::LANES;
            }
        }
    }

    /// Computes `N` vectors of groups from `start` on; the last vector has `last` lanes.
    ///
    /// # Safety
    /// As [`rows`]; these groups exist.
    #[inline(always)]
    unsafe fn groups<V: Numbers, const N: usize>(rows: &Rows<'_>, start: usize, last: usize) {
        let lanes = |n: usize| if n + 1 < N { V::LANES } else { last };
        let mut sums = [[V::zero(); N]; ROWS];
        // SAFETY: the caller promises that every summand can be read and every element written, and
        // this many lanes.
        unsafe {
            for &[l, r] in rows.taps {
                let right = rows.rhs.cast::<V::Unit>().offset(r).add(start);
                let right: [V; N] =
                    core::array::from_fn(|n| V::load(right.add(n * V::LANES), lanes(n)));
                for (sums, lhs) in sums.iter_mut().zip(&rows.lhs) {
                    let left = lhs.cast::<V::Unit>().offset(l).add(start);
                    for (n, sum) in sums.iter_mut().enumerate() {
                        let left = V::load(left.add(n * V::LANES), lanes(n));
                        *sum = sum.multiply_add_lanes(left, right[n]);
                    }
                }
            }
            for (sums, out) in sums.iter().zip(&rows.out) {
                let out = out.cast::<V::Unit>().add(start);
                for (n, sum) in sums.iter().enumerate() {
                    sum.store(out.add(n * V::LANES), lanes(n));
                }
            }
        }
    }
}

/// Vectors of 16 elements, widened to f32.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{ROWS, Rows};
    use crate::microkernels::vector512::Vector;
    use core::arch::x86_64::*;

    /// # Safety
    /// As [`super::RowsFn`], on a CPU with AVX-512 F, BW and VL.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn rows<V: Vector>(rows: &Rows<'_>) {
        let rhs = rows.rhs.cast::<V::Element>();
        for start in (0..rows.groups).step_by(16) {
            let count = (rows.groups - start).min(16);
            let mask = ((1u32 << count) - 1) as u16;
            let mut sums = [_mm512_setzero_ps(); ROWS];
            // SAFETY: the caller promises that every summand can be read and every element written,
            // and a CPU with AVX-512 F, BW and VL; the mask selects only existing groups from
            // `start` on.
            unsafe {
                for &[l, r] in rows.taps {
                    let right = V::load(rhs.offset(r).add(start), mask);
                    for (sum, lhs) in sums.iter_mut().zip(&rows.lhs) {
                        let lhs = lhs.cast::<V::Element>().offset(l).add(start);
                        *sum = _mm512_fmadd_ps(V::load(lhs, mask), right, *sum);
                    }
                }
                for (&sum, out) in sums.iter().zip(&rows.out) {
                    V::store(out.cast::<V::Element>().add(start), mask, sum);
                }
            }
        }
    }
}

/// Vectors of 8 f32.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{ROWS, Rows};
    use core::arch::x86_64::*;
    const LANES: usize = 8;

    /// # Safety
    /// As [`super::RowsFn`], on a CPU with AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn rows(rows: &Rows<'_>) {
        let mut start = 0;
        // SAFETY: the caller promises that every summand can be read and every element written, and
        // a CPU with AVX2 and FMA; all groups are below `rows.groups`.
        unsafe {
            // Two vectors: with one for each row there would be too few independent sums.
            while start + 2 * LANES <= rows.groups {
                groups::<2, false>(rows, start);
                start += 2 * LANES;
            }
            while start + LANES <= rows.groups {
                groups::<1, false>(rows, start);
                start += LANES;
            }
            if start < rows.groups {
                groups::<1, true>(rows, start);
            }
        }
    }

    /// Computes `V` vectors of groups from `start` on, or a partial vector of the remaining groups.
    ///
    /// # Safety
    /// As [`rows`]; these groups exist.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn groups<const V: usize, const SOME: bool>(rows: &Rows<'_>, start: usize) {
        let there = _mm256_set1_epi32((rows.groups - start).min(LANES) as i32);
        let mask = _mm256_cmpgt_epi32(there, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        // SAFETY: the caller promises that every summand can be read and every element written; the
        // mask selects only existing groups.
        unsafe {
            let load = |base: *const u8, tap: isize, v: usize| {
                let place = base.cast::<f32>().offset(tap).add(start + v * LANES);
                match SOME {
                    true => _mm256_maskload_ps(place, mask),
                    false => _mm256_loadu_ps(place),
                }
            };
            let mut sums = [[_mm256_setzero_ps(); V]; ROWS];
            for &[l, r] in rows.taps {
                let right: [_; V] = core::array::from_fn(|v| load(rows.rhs, r, v));
                for (sums, &lhs) in sums.iter_mut().zip(&rows.lhs) {
                    *sums = core::array::from_fn(|v| {
                        _mm256_fmadd_ps(load(lhs, l, v), right[v], sums[v])
                    });
                }
            }
            for (sums, out) in sums.iter().zip(&rows.out) {
                for (v, &sum) in sums.iter().enumerate() {
                    let place = out.cast::<f32>().add(start + v * LANES);
                    match SOME {
                        true => _mm256_maskstore_ps(place, mask, sum),
                        false => _mm256_storeu_ps(place, sum),
                    }
                }
            }
        }
    }
}
