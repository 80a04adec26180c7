//! Products with one column and adjacent rows, alone or in many groups: a convolution with one
//! feature, or a depthwise convolution with the features before the positions, as in ONNX.
//!
//! Vectors run over the innermost row axis, along which the result is contiguous and the left
//! operand has a stride of one or two. Each weight is broadcast to a vector that several rows use;
//! if there are few rows, several vectors of one row are computed together. A row's last vector is
//! masked (AVX-512), or moved back so that it ends with the row: nothing outside is read or
//! written. [`crate::depthwise`] has the products whose groups are adjacent.

#[cfg(target_arch = "x86_64")]
mod small;
#[cfg(target_arch = "x86_64")]
mod windows;

use crate::depthwise::{ROWS, Shared, taps};
use crate::gemm::{Axes, Axis, AxisList, SERIAL, Types, element_count, offsets_at, share, varying};
use crate::microkernels::{CpuFeatures, VectorWidth};
use crate::tables::{Table, Tables};
use crate::thread_pool::{ThreadPool, is_stopped};
use core::ops::{Add, Mul, Range};
#[cfg(target_arch = "x86_64")]
use small::SmallPlanes;
use tegula_ir::ElementType;
#[cfg(target_arch = "x86_64")]
use windows::Windows;

/// The minimum length of a row; the general product computes shorter rows.
const MIN_ROW: usize = 4;
/// If threads share rows, each gets a multiple of this many elements.
const STRETCH: usize = 64;

/// The position of an image: elements outside of it do not contribute to sums.
#[derive(Clone, Copy, Debug)]
pub struct ImageBounds {
    /// The line and the column of the first window's first element, possibly outside.
    pub first: [isize; 2],
    /// The numbers of lines and columns of the image.
    pub size: [usize; 2],
}

impl ImageBounds {
    /// The bounds if all windows are inside.
    #[cfg(target_arch = "x86_64")]
    const EVERYWHERE: Self = Self {
        first: [0; 2],
        size: [isize::MAX as usize; 2],
    };

    /// The bounds relative to a window this many lines further down.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn below(mut self, lines: isize) -> Self {
        self.first[0] += lines;
        self
    }
}

/// A product of groups, prepared to run.
#[derive(Clone, Debug)]
pub struct Planes {
    group: Axis,
    /// The offsets of the terms in the operands, relative to the row and the group.
    taps: Table<[isize; 2]>,
    starts: [isize; 3],
    element: usize,
    /// The number of multiplications of a group.
    work: usize,
    form: Form,
}

/// The unit that is computed together.
#[derive(Clone, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "there may be nothing to allocate from"
)]
enum Form {
    /// All results of a small plane.
    #[cfg(target_arch = "x86_64")]
    Small(SmallPlanes),
    /// Whole planes with rows of this length, for windows that have specialised loops.
    #[cfg(target_arch = "x86_64")]
    Windows(Windows, usize),
    Rows(RowsForm),
}

/// Rows of a group, or pieces of rows.
#[derive(Clone, Debug)]
struct RowsForm {
    /// The row axes outside of the innermost one.
    outer: AxisList,
    outer_count: usize,
    /// The innermost row axis, along which the result is contiguous.
    inner: Axis,
    /// The number of pieces that each row is split into. [`ROWS`] pieces are computed together;
    /// rows are only split if a group has fewer rows than that.
    pieces: usize,
    function: RowsFn,
}

/// Rows of one group, or pieces of rows, that are computed together.
struct Rows<'a> {
    /// The addresses of each row in the left operand and in the result; unused rows repeat another.
    lhs: [*const u8; ROWS],
    out: [*mut u8; ROWS],
    rhs: *const u8,
    taps: &'a [[isize; 2]],
    length: usize,
}

/// Computes the elements of some rows.
///
/// # Safety
/// Every term can be read and every element written, there are at least [`MIN_ROW`] elements, and
/// the CPU has the features that the function was compiled for.
type RowsFn = unsafe fn(&Rows<'_>);

impl Planes {
    /// Prepares the loop for a product; `None` if it does not have this form. `bounds` are those of
    /// the images, if windows reach outside of them: only small planes, and windows of 3x3, 5x5 and
    /// 7x7 elements, support that, and only with AVX-512.
    #[cfg(feature = "std")]
    pub fn new(
        isa: CpuFeatures,
        types: Types,
        axes: &Axes,
        bounds: Option<ImageBounds>,
    ) -> Option<Self> {
        Self::new_in(&mut Tables, isa, types, axes, bounds)
    }

    /// Like [`Self::new`], with tables in the given memory.
    #[inline(always)]
    pub fn new_in(
        memory: &mut Tables,
        isa: CpuFeatures,
        types: Types,
        axes: &Axes,
        bounds: Option<ImageBounds>,
    ) -> Option<Self> {
        let group = match varying(&axes.batch)[..] {
            [] => Axis {
                size: 1,
                lhs: 0,
                rhs: 0,
                out: 0,
            },
            [group] => group,
            _ => return None,
        };
        let [ty, other, result] = types;
        if ty != other || ty != result || !varying(&axes.columns).is_empty() {
            return None;
        }
        let depth = varying(&axes.depth);
        let work = element_count(&axes.rows).checked_mul(element_count(&depth))?;
        let taps = taps(memory, &depth)?;
        let form = Self::form(memory, (isa, ty), axes, &taps, bounds)?;
        Some(Self {
            group,
            taps,
            starts: axes.starts,
            element: ty.storage_bytes(),
            work,
            form,
        })
    }

    #[inline(always)]
    fn form(
        memory: &mut Tables,
        (isa, ty): (CpuFeatures, ElementType),
        axes: &Axes,
        taps: &[[isize; 2]],
        bounds: Option<ImageBounds>,
    ) -> Option<Form> {
        #[cfg(target_arch = "x86_64")]
        if let Some(bounds) = bounds
            && let Some(small) = SmallPlanes::new(memory, isa, ty, axes, bounds)
        {
            return Some(Form::Small(small));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (memory, taps);
        let mut outer = varying(&axes.rows);
        let at = outer.iter().position(|axis| axis.out == 1)?;
        outer[..=at].rotate_right(1);
        let inner = outer.take_first()?;
        let function = function(isa, ty, inner.lhs)?;
        if inner.size < MIN_ROW || inner.rhs != 0 {
            return None;
        }
        #[cfg(target_arch = "x86_64")]
        let image = bounds.map(|bounds| (bounds, &axes.rows[..]));
        #[cfg(target_arch = "x86_64")]
        if let Some(windows) = Windows::new(isa, ty, (&outer, inner), taps, image) {
            return Some(Form::Windows(windows, inner.size));
        }
        if bounds.is_some() {
            return None;
        }
        let outer_count = element_count(&outer);
        let pieces = ROWS.div_ceil(outer_count.max(1)).min(inner.size / MIN_ROW);
        Some(Form::Rows(RowsForm {
            outer,
            outer_count,
            inner,
            pieces,
            function,
        }))
    }

    /// Bytes of the tables that it was prepared with.
    #[cfg(feature = "std")]
    pub fn table_bytes(&self) -> usize {
        let own = match &self.form {
            #[cfg(target_arch = "x86_64")]
            Form::Small(small) => small.table_bytes(),
            _ => 0,
        };
        crate::tables::bytes(&self.taps) + own
    }

    /// Computes the product.
    ///
    /// # Safety
    /// As [`crate::gemm::Product::run`].
    pub unsafe fn run(&self, lhs: *const u8, rhs: *const u8, out: *mut u8, pool: &ThreadPool) {
        let work = self.group.size as f64 * self.work as f64;
        let parts = if work < SERIAL / 8.0 {
            1
        } else {
            pool.threads()
        };
        let shared = &Shared { lhs, rhs, out };
        // SAFETY: the caller promises pointers to arrays that contain every element the axes reach,
        // with `out` overlapping neither operand.
        unsafe {
            match &self.form {
                #[cfg(target_arch = "x86_64")]
                Form::Small(small) => self.run_small(small, shared, parts, pool),
                #[cfg(target_arch = "x86_64")]
                Form::Windows(windows, length) => {
                    self.run_windows((windows, *length), shared, parts, pool);
                }
                Form::Rows(rows) => self.run_rows(rows, shared, parts, pool),
            }
        }
    }

    /// # Safety
    /// As [`Self::run`].
    unsafe fn run_rows(&self, form: &RowsForm, shared: &Shared, parts: usize, pool: &ThreadPool) {
        let blocks = (form.outer_count * form.pieces).div_ceil(ROWS);
        let units = self.group.size * blocks;
        let stretches = form.inner.size / STRETCH;
        // A few long rows are divided between threads, too.
        let cuts = match units < parts {
            true => stretches.clamp(1, parts),
            false => 1,
        };
        pool.run(parts, &|part| {
            for item in share(units * cuts, parts, part) {
                if is_stopped() {
                    return;
                }
                let mine = share(stretches, cuts, item % cuts);
                let end = match item % cuts + 1 == cuts {
                    true => form.inner.size,
                    false => mine.end * STRETCH,
                };
                let (unit, elements) = (item / cuts, mine.start * STRETCH..end);
                let places = (unit / blocks, unit % blocks * ROWS);
                let rows = self.rows(form, shared, places, elements);
                // SAFETY: the caller promises the operands and the result; parts write different
                // elements.
                unsafe { (form.function)(&rows) };
            }
        });
    }

    /// # Safety
    /// As [`Self::run`].
    #[cfg(target_arch = "x86_64")]
    unsafe fn run_small(
        &self,
        small: &SmallPlanes,
        shared: &Shared,
        parts: usize,
        pool: &ThreadPool,
    ) {
        let planes = self.group.size * small.images.size;
        pool.run(parts, &|part| {
            let arrays = (&self.group, &self.starts, self.element);
            // SAFETY: the caller promises the operands and the result; parts write different
            // planes.
            unsafe { small.run(shared, arrays, share(planes, parts, part)) };
        });
    }

    /// # Safety
    /// As [`Self::run`].
    #[cfg(target_arch = "x86_64")]
    unsafe fn run_windows(
        &self,
        (windows, length): (&Windows, usize),
        shared: &Shared,
        parts: usize,
        pool: &ThreadPool,
    ) {
        let images = windows.images;
        let (rows, planes) = (windows.row.size, self.group.size * images.size);
        // If there are few planes, threads share their rows.
        let cuts = match planes < parts {
            true => (rows / ROWS).clamp(1, parts.max(1)),
            false => 1,
        };
        let bytes = self.element as isize;
        pool.run(parts, &|part| {
            for item in share(planes * cuts, parts, part) {
                if is_stopped() {
                    return;
                }
                let (plane, own) = (item / cuts, share(rows, cuts, item % cuts));
                let group = (plane / images.size) as isize;
                let image = (plane % images.size) as isize;
                let place = |base: *const u8, array: usize, [of_group, of_image]: [isize; 2]| {
                    let offset = self.starts[array] + group * of_group + image * of_image;
                    base.wrapping_offset(offset * bytes)
                };
                let lhs = place(shared.lhs, 0, [self.group.lhs, images.lhs]);
                let rhs = place(shared.rhs, 1, [self.group.rhs, 0]);
                let out = place(shared.out, 2, [self.group.out, images.out]).cast_mut();
                let arrays = (lhs, rhs, out);
                // SAFETY: the caller promises the operands and the result; parts write different
                // elements, and have as many rows as are computed together.
                unsafe { windows.run(arrays, &self.taps, own, (length, bytes)) };
            }
        });
    }

    /// The pieces of a group's rows from one piece on, for a range of elements of each row. The
    /// last piece of a row overlaps the one before, so that it has the same length.
    fn rows(
        &self,
        form: &RowsForm,
        shared: &Shared,
        (group, first): (usize, usize),
        elements: Range<usize>,
    ) -> Rows<'_> {
        let group = group as isize;
        let place =
            |base: *const u8, offset: isize| base.wrapping_offset(offset * self.element as isize);
        let length = elements.len().div_ceil(form.pieces);
        let mut rows = Rows {
            lhs: [shared.lhs; ROWS],
            out: [shared.out; ROWS],
            rhs: place(shared.rhs, self.starts[1] + group * self.group.rhs),
            taps: &self.taps,
            length,
        };
        for i in 0..ROWS {
            let piece = (first + i).min(form.outer_count * form.pieces - 1);
            let [from, _, to] = offsets_at(&form.outer, piece / form.pieces);
            let begin = elements.start + piece % form.pieces * length;
            let begin = begin.min(elements.end - length) as isize;
            let from = from + begin * form.inner.lhs + group * self.group.lhs;
            let to = to + begin + group * self.group.out;
            rows.lhs[i] = place(shared.lhs, self.starts[0] + from);
            rows.out[i] = place(shared.out, self.starts[2] + to).cast_mut();
        }
        rows
    }
}

/// The function for rows of a type, for a stride of the left operand's elements.
#[inline(always)]
fn function(isa: CpuFeatures, ty: ElementType, stride: isize) -> Option<RowsFn> {
    match ty {
        ElementType::F32 => function_of::<f32>(isa, stride),
        ElementType::F64 => function_of::<f64>(isa, stride),
        _ => None,
    }
}

#[inline(always)]
fn function_of<T: Number>(isa: CpuFeatures, stride: isize) -> Option<RowsFn> {
    #[cfg(target_arch = "x86_64")]
    match (isa.width, stride) {
        (VectorWidth::Avx512, 1) => return Some(avx512::rows::<T::Wide, 1>),
        (VectorWidth::Avx512, 2) => return Some(avx512::rows::<T::Wide, 2>),
        (VectorWidth::Avx2, 1) => return Some(avx2_plain::<T>),
        (VectorWidth::Avx2, 2) => return Some(avx2_pairs::<T>),
        _ => {}
    }
    #[cfg(any(target_arch = "aarch64", feature = "std"))]
    match (isa.width, stride) {
        (VectorWidth::Neon, 1) => return Some(neon_plain::<T>),
        (VectorWidth::Neon, 2) => return Some(neon_pairs::<T>),
        _ => {}
    }
    let _ = isa;
    match stride {
        1 => Some(portable_plain::<T>),
        2 => Some(portable_pairs::<T>),
        _ => None,
    }
}

/// An element type.
trait Number: Copy + Default + Add<Output = Self> + Mul<Output = Self> + 'static {
    /// Its 64-byte vectors.
    #[cfg(target_arch = "x86_64")]
    type Wide: avx512::Lanes;

    /// `x * y + z`, fused (rounded once).
    ///
    /// # Safety
    /// The CPU has FMA.
    unsafe fn fused(x: Self, y: Self, z: Self) -> Self;
}

/// The fused multiply-add of a type. `core` has no `mul_add`; the compiler also vectorises
/// intrinsics on single lanes.
macro_rules! number {
    ($type:ident, $wide:ident, $set:ident $fmadd:ident $get:ident, $dup:ident $fma:ident $lane:ident) => {
        impl Number for $type {
            #[cfg(target_arch = "x86_64")]
            type Wide = avx512::$wide;

            #[inline(always)]
            unsafe fn fused(x: Self, y: Self, z: Self) -> Self {
                #[cfg(all(target_arch = "x86_64", not(feature = "std")))]
                {
                    use core::arch::x86_64::{$fmadd, $get, $set};
                    // SAFETY: the caller promises the feature.
                    unsafe { $get($fmadd($set(x), $set(y), $set(z))) }
                }
                #[cfg(all(target_arch = "aarch64", not(feature = "std")))]
                {
                    use core::arch::aarch64::{$dup, $fma, $lane};
                    // SAFETY: vectors are part of the architecture.
                    unsafe { $lane::<0>($fma($dup(z), $dup(x), $dup(y))) }
                }
                // No function for other CPUs is compiled with this.
                #[cfg(not(any(feature = "std", target_arch = "x86_64", target_arch = "aarch64")))]
                {
                    x * y + z
                }
                #[cfg(feature = "std")]
                x.mul_add(y, z)
            }
        }
    };
}

number!(f32, F32, _mm_set_ss _mm_fmadd_ss _mm_cvtss_f32, vdup_n_f32 vfma_f32 vget_lane_f32);
number!(f64, F64, _mm_set_sd _mm_fmadd_sd _mm_cvtsd_f64, vdup_n_f64 vfma_f64 vget_lane_f64);

/// [`whole_rows`] compiled for instruction sets.
macro_rules! compiled {
    ($name:ident, $features:literal, $stride:literal) => {
        /// # Safety
        /// As [`RowsFn`], on a CPU with these features.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name<T: Number>(rows: &Rows<'_>) {
            // SAFETY: the caller promises that every term can be read and every element written,
            // and rows of at least [`MIN_ROW`] elements.
            unsafe { whole_rows::<T, $stride, true>(rows) }
        }
    };
}

compiled!(avx2_plain, "avx2,fma", 1);
compiled!(avx2_pairs, "avx2,fma", 2);

/// Fused products: AArch64 always has the instruction; on other machines this is a placeholder.
///
/// # Safety
/// As [`RowsFn`].
#[cfg(any(target_arch = "aarch64", feature = "std"))]
unsafe fn neon_plain<T: Number>(rows: &Rows<'_>) {
    // SAFETY: the caller promises that every term can be read and every element written, and rows
    // of at least [`MIN_ROW`] elements.
    unsafe { whole_rows::<T, 1, true>(rows) }
}

/// Like [`neon_plain`], for elements that are two apart.
///
/// # Safety
/// As [`RowsFn`].
#[cfg(any(target_arch = "aarch64", feature = "std"))]
unsafe fn neon_pairs<T: Number>(rows: &Rows<'_>) {
    // SAFETY: the caller promises that every term can be read and every element written, and rows
    // of at least [`MIN_ROW`] elements.
    unsafe { whole_rows::<T, 2, true>(rows) }
}

/// # Safety
/// As [`RowsFn`].
unsafe fn portable_plain<T: Number>(rows: &Rows<'_>) {
    // SAFETY: the caller promises that every term can be read and every element written, and rows
    // of at least [`MIN_ROW`] elements.
    unsafe { whole_rows::<T, 1, false>(rows) }
}

/// # Safety
/// As [`RowsFn`].
unsafe fn portable_pairs<T: Number>(rows: &Rows<'_>) {
    // SAFETY: the caller promises that every term can be read and every element written, and rows
    // of at least [`MIN_ROW`] elements.
    unsafe { whole_rows::<T, 2, false>(rows) }
}

/// 64-byte vectors.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{ROWS, Rows};
    use core::arch::x86_64::*;

    /// The vectors of a type. All functions need AVX-512 F.
    pub(super) trait Lanes {
        type Element: Copy + Default;
        type Register: Copy;
        const COUNT: usize;

        unsafe fn splat(x: Self::Element) -> Self::Register;
        /// # Safety
        /// The elements of the mask can be read.
        unsafe fn load(mask: u32, from: *const Self::Element) -> Self::Register;
        /// # Safety
        /// The elements of the mask can be written.
        unsafe fn store(to: *mut Self::Element, mask: u32, x: Self::Register);
        /// `x * y + z`.
        unsafe fn fused(x: Self::Register, y: Self::Register, z: Self::Register) -> Self::Register;
        /// The elements with even indices, of two consecutive vectors.
        unsafe fn even(low: Self::Register, high: Self::Register) -> Self::Register;
        /// The elements with odd indices, of two consecutive vectors.
        unsafe fn odd(low: Self::Register, high: Self::Register) -> Self::Register;
        /// `x * y + z` in the elements of the mask, `z` in the others.
        unsafe fn fused_where(
            mask: u32,
            x: Self::Register,
            y: Self::Register,
            z: Self::Register,
        ) -> Self::Register;
        /// A vector of indices for [`Self::permuted`].
        unsafe fn numbers(numbers: &[u8; 16]) -> __m512i;
        /// The elements with these indices, of two consecutive vectors.
        unsafe fn permuted(
            low: Self::Register,
            numbers: __m512i,
            high: Self::Register,
        ) -> Self::Register;
    }

    macro_rules! lanes {
        ($name:ident $element:ident $count:literal $register:ident $mask:ident, $splat:ident $load:ident
         $store:ident $fused:ident $fused_where:ident, $permute:ident $numbers:ident $even:expr, $odd:expr) => {
            pub(super) struct $name;

            impl Lanes for $name {
                type Element = $element;
                type Register = $register;
                const COUNT: usize = $count;

                #[target_feature(enable = "avx512f")]
                unsafe fn splat(x: $element) -> $register {
                    $splat(x)
                }

                #[target_feature(enable = "avx512f")]
                unsafe fn load(mask: u32, from: *const $element) -> $register {
                    // SAFETY: the caller promises that the elements selected by the mask can be
                    // accessed.
                    unsafe { $load(mask as $mask, from) }
                }

                #[target_feature(enable = "avx512f")]
                unsafe fn store(to: *mut $element, mask: u32, x: $register) {
                    // SAFETY: the caller promises that the elements selected by the mask can be
                    // accessed.
                    unsafe { $store(to, mask as $mask, x) }
                }

                #[target_feature(enable = "avx512f")]
                unsafe fn fused(x: $register, y: $register, z: $register) -> $register {
                    $fused(x, y, z)
                }

                #[target_feature(enable = "avx512f")]
                unsafe fn even(low: $register, high: $register) -> $register {
                    $permute(low, $even, high)
                }

                #[target_feature(enable = "avx512f")]
                unsafe fn odd(low: $register, high: $register) -> $register {
                    $permute(low, $odd, high)
                }

                #[target_feature(enable = "avx512f")]
                unsafe fn fused_where(
                    mask: u32,
                    x: $register,
                    y: $register,
                    z: $register,
                ) -> $register {
                    $fused_where(x, y, z, mask as $mask)
                }

                #[target_feature(enable = "avx512f")]
                unsafe fn numbers(numbers: &[u8; 16]) -> __m512i {
                    // SAFETY: the array has 16 bytes.
                    $numbers(unsafe { _mm_loadu_si128(numbers.as_ptr().cast()) })
                }

                #[target_feature(enable = "avx512f")]
                unsafe fn permuted(low: $register, numbers: __m512i, high: $register) -> $register {
                    $permute(low, numbers, high)
                }
            }
        };
    }

    lanes!(F32 f32 16 __m512 __mmask16, _mm512_set1_ps _mm512_maskz_loadu_ps _mm512_mask_storeu_ps
        _mm512_fmadd_ps _mm512_mask3_fmadd_ps, _mm512_permutex2var_ps _mm512_cvtepu8_epi32
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
        _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31));
    lanes!(F64 f64 8 __m512d __mmask8, _mm512_set1_pd _mm512_maskz_loadu_pd _mm512_mask_storeu_pd
        _mm512_fmadd_pd _mm512_mask3_fmadd_pd, _mm512_permutex2var_pd _mm512_cvtepu8_epi64
        _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14),
        _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15));

    /// # Safety
    /// As [`super::RowsFn`], on a CPU with AVX-512 F; `STRIDE` is 1 or 2.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn rows<V: Lanes, const STRIDE: usize>(rows: &Rows<'_>) {
        for start in (0..rows.length).step_by(V::COUNT) {
            let count = (rows.length - start).min(V::COUNT);
            let mask = ((1u64 << count) - 1) as u32;
            // The mask over two vectors of all pairs' elements except for the last one.
            let both = (1u64 << (2 * count - 1)) - 1;
            let (first, second) = (both as u32, (both >> V::COUNT) as u32);
            // SAFETY: the caller promises AVX-512 F, and that all terms can be read and all
            // elements written; the masks select only elements from `start` on that exist.
            unsafe {
                let mut sums = [V::splat(V::Element::default()); ROWS];
                for &[l, r] in rows.taps {
                    let weight = V::splat(*rows.rhs.cast::<V::Element>().offset(r));
                    for (sum, lhs) in sums.iter_mut().zip(&rows.lhs) {
                        let from = lhs.cast::<V::Element>().offset(l).add(start * STRIDE);
                        let x = match STRIDE {
                            1 => V::load(mask, from),
                            _ => {
                                let high = V::load(second, from.wrapping_add(V::COUNT));
                                V::even(V::load(first, from), high)
                            }
                        };
                        *sum = V::fused(x, weight, *sum);
                    }
                }
                for (&sum, out) in sums.iter().zip(&rows.out) {
                    V::store(out.cast::<V::Element>().add(start), mask, sum);
                }
            }
        }
    }
}

/// Computes rows by vectors of at most 64 bytes, as long as the rows allow.
///
/// # Safety
/// As [`RowsFn`].
#[inline(always)]
unsafe fn whole_rows<T: Number, const STRIDE: usize, const FUSED: bool>(rows: &Rows<'_>) {
    // SAFETY: the caller promises that every term can be read and every element written, and rows
    // of at least [`MIN_ROW`] elements; rows are as long as the vectors.
    unsafe {
        match rows.length {
            16.. if size_of::<T>() == 4 => vectors::<T, 16, STRIDE, FUSED>(rows),
            8.. => vectors::<T, 8, STRIDE, FUSED>(rows),
            _ => vectors::<T, MIN_ROW, STRIDE, FUSED>(rows),
        }
    }
}

/// # Safety
/// As [`RowsFn`]; rows have at least `LANES` elements.
#[inline(always)]
unsafe fn vectors<T: Number, const LANES: usize, const STRIDE: usize, const FUSED: bool>(
    rows: &Rows<'_>,
) {
    let last = rows.length - LANES;
    let mut start = 0;
    loop {
        let mut sums = [[T::default(); LANES]; ROWS];
        // SAFETY: the caller promises that all terms of the elements from `start` on can be read,
        // and the elements written: `LANES` of them exist, because `start` is at most `last`.
        unsafe {
            for &[l, r] in rows.taps {
                let weight = *rows.rhs.cast::<T>().offset(r);
                for (sums, lhs) in sums.iter_mut().zip(&rows.lhs) {
                    let from = lhs.cast::<T>().offset(l).add(start * STRIDE);
                    let x = load::<T, LANES, STRIDE>(from);
                    for (sum, x) in sums.iter_mut().zip(&x) {
                        *sum = match FUSED {
                            true => T::fused(*x, weight, *sum),
                            false => *x * weight + *sum,
                        };
                    }
                }
            }
            for (sums, out) in sums.iter().zip(&rows.out) {
                let to = out.cast::<T>().add(start).cast::<[T; LANES]>();
                to.write_unaligned(*sums);
            }
        }
        if start == last {
            return;
        }
        start = (start + LANES).min(last);
    }
}

/// Loads elements that are `STRIDE` apart, 1 or 2. Pairs are loaded as two vectors, of which the
/// second begins one element early, so that it ends at the last element that is needed.
///
/// # Safety
/// The elements can be read.
#[inline(always)]
unsafe fn load<T: Copy, const LANES: usize, const STRIDE: usize>(from: *const T) -> [T; LANES] {
    // SAFETY: the caller promises elements 0, 2, ..., 2 * (LANES - 1), or 0, 1, ..., LANES - 1, of
    // one array, which also contains the elements between them.
    unsafe {
        let first = from.cast::<[T; LANES]>().read_unaligned();
        if STRIDE == 1 {
            return first;
        }
        let second = from.add(LANES - 1).cast::<[T; LANES]>().read_unaligned();
        core::array::from_fn(|i| match 2 * i < LANES {
            true => first[2 * i],
            false => second[2 * i + 1 - LANES],
        })
    }
}

#[cfg(test)]
mod tests;
