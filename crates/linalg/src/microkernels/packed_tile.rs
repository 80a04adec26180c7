//! One tile of a product: the sum over the depth of the outer products of a column
//! of the left panel and a row of the right panel, kept in registers.
//!
//! A left panel is `depth` groups of as many units as the tile has rows, a right
//! panel `depth` groups of [`TileKernel::lanes`] units for each vector. A *unit* is
//! what one lane multiplies: one number, or two of 16 bits or four of 8 whose products
//! are summed.

#[cfg(any(target_arch = "aarch64", feature = "std"))]
mod neon;

use super::{CpuFeatures, VectorWidth};
use tegula_ir::ElementType;

/// The arithmetic of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    /// `f32`, accumulated in `f32`.
    F32,
    /// `f64`, accumulated in `f64`.
    F64,
    /// Pairs of `bf16`, accumulated in `f32`. Subnormal numbers are treated as zero.
    Bf16Pairs,
    /// Pairs of `i16`, accumulated in `i32` modulo 2^32.
    I16Pairs,
    /// Groups of four `u8` times `i8`, accumulated in `i32` modulo 2^32.
    U8Quads,
    /// Groups of four `i8`, accumulated in `i32` modulo 2^32. CPUs multiply `u8` by `i8`, so the
    /// tile adds 128 to the left elements, and subtracts 128 times each column's sum from the
    /// result.
    I8Quads,
    /// `i32`, with arithmetic modulo 2^32.
    I32,
    /// `i64`, with arithmetic modulo 2^64.
    I64,
}

impl Arithmetic {
    /// The number of elements in a unit.
    pub(crate) fn step(self) -> usize {
        match self {
            Self::U8Quads | Self::I8Quads => 4,
            Self::Bf16Pairs | Self::I16Pairs => 2,
            Self::F32 | Self::F64 | Self::I32 | Self::I64 => 1,
        }
    }

    /// The element type whose elements are units without conversion.
    pub(crate) fn element_type(self) -> Option<ElementType> {
        Some(match self {
            Self::F32 => ElementType::F32,
            Self::F64 => ElementType::F64,
            Self::I32 => ElementType::S32,
            Self::I64 => ElementType::S64,
            Self::Bf16Pairs | Self::I16Pairs | Self::U8Quads | Self::I8Quads => return None,
        })
    }

    /// The bytes of a unit, and of an accumulator.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            _ => 4,
        }
    }
}

/// The destination of a tile's sums.
pub(crate) struct Target {
    /// Element (row, column) is at `out + rows[row] + column`, in accumulators.
    pub(crate) out: *mut u8,
    /// One offset for each row.
    pub(crate) rows: *const isize,
    /// Whether the sums are added to the old values.
    pub(crate) add: bool,
}

/// Computes a tile: `(rows, vectors, depth, left panel, right panel, distance between groups of the
/// right panel in units, target)`.
///
/// # Safety
/// The panels hold `depth` groups, the target's rows are `vectors` vectors long, `rows` and
/// `vectors` are between 1 and the kernel's, and the CPU has the features that the kernel was
/// compiled for.
type TileFn = unsafe fn(usize, usize, usize, *const u8, *const u8, usize, &Target);

/// A tile's function and its sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileKernel {
    /// The maximum number of rows.
    pub(crate) rows: usize,
    /// The maximum number of vectors.
    pub(crate) vectors: usize,
    /// Lanes of a vector.
    pub(crate) lanes: usize,
    pub(crate) function: TileFn,
}

impl TileKernel {
    /// The maximum number of columns.
    pub(crate) fn width(&self) -> usize {
        self.lanes * self.vectors
    }

    /// The kernel for an arithmetic; `None` if the instruction set lacks it.
    #[inline(always)]
    pub(crate) fn new(isa: CpuFeatures, arithmetic: Arithmetic) -> Option<Self> {
        let new = |rows, vectors, lanes, function| {
            Some(Self {
                rows,
                vectors,
                lanes,
                function,
            })
        };
        #[cfg(any(target_arch = "aarch64", feature = "std"))]
        if isa.width == VectorWidth::Neon
            && let Some(kernel) = neon::kernel(isa, arithmetic)
        {
            return Some(kernel);
        }
        #[cfg(target_arch = "x86_64")]
        match (isa.width, arithmetic) {
            (VectorWidth::Avx512, Arithmetic::F32) => return new(14, 2, 16, avx512_f32::dispatch),
            (VectorWidth::Avx512, Arithmetic::F64) => return new(14, 2, 8, avx512_f64::dispatch),
            (VectorWidth::Avx512, Arithmetic::I32) => return new(14, 2, 16, avx512_i32::dispatch),
            (VectorWidth::Avx512, Arithmetic::Bf16Pairs) if isa.bf16 => {
                return new(14, 2, 16, avx512_bf16::dispatch);
            }
            (VectorWidth::Avx512, Arithmetic::I16Pairs) if isa.vnni => {
                return new(14, 2, 16, avx512_i16::dispatch);
            }
            (VectorWidth::Avx512, Arithmetic::U8Quads) if isa.vnni => {
                return new(14, 2, 16, avx512_u8::dispatch);
            }
            // The columns' sums and their factors take three registers.
            (VectorWidth::Avx512, Arithmetic::I8Quads) if isa.vnni => {
                return new(12, 2, 16, avx512_i8::dispatch);
            }
            (VectorWidth::Avx2, Arithmetic::F32) => return new(6, 2, 8, avx2_f32::dispatch),
            (VectorWidth::Avx2, Arithmetic::F64) => return new(6, 2, 4, avx2_f64::dispatch),
            (VectorWidth::Avx2, Arithmetic::I32) => return new(6, 2, 8, avx2_i32::dispatch),
            (VectorWidth::Avx2, Arithmetic::I16Pairs) => return new(6, 2, 8, avx2_i16::dispatch),
            _ => {}
        }
        let _ = (isa, VectorWidth::Portable);
        match arithmetic {
            Arithmetic::F32 => new(4, 2, 4, portable::dispatch::<f32>),
            Arithmetic::F64 => new(4, 2, 4, portable::dispatch::<f64>),
            Arithmetic::I32 => new(4, 2, 4, portable::dispatch::<i32>),
            Arithmetic::I64 => new(4, 2, 4, portable::dispatch::<i64>),
            Arithmetic::Bf16Pairs
            | Arithmetic::I16Pairs
            | Arithmetic::U8Quads
            | Arithmetic::I8Quads => None,
        }
    }
}

/// Calls `tile::<rows, vectors>` for numbers that are known at run time.
#[cfg(target_arch = "x86_64")]
macro_rules! dispatch {
    ($rows:expr, $vectors:expr, $tile:ident, $arguments:tt, [$($m:literal)*]) => {
        // SAFETY: the caller promises panels and sums of the tile's sizes, and numbers of rows and
        // vectors that the tile has.
        unsafe {
            match ($rows, $vectors) {
                $(
                    ($m, 1) => $tile::<$m, 1>$arguments,
                    ($m, 2) => $tile::<$m, 2>$arguments,
                )*
                _ => {}
            }
        }
    };
}

/// A module with the tile for one kind of vector. With an `excess`, every row's sums are too large
/// by that number times each column's sum over the depth: this is computed like one more row, and
/// subtracted.
#[cfg(target_arch = "x86_64")]
macro_rules! vector_tile {
    (
        $module:ident, $features:literal, $number:ty, $lanes:literal, [$($m:literal)*],
        $zero:ident, $load:expr, $broadcast:expr, $multiply_add:expr,
        $add:expr, $read:expr, $write:expr $(, excess: $excess:expr, $subtract:expr)?
    ) => {
        mod $module {
            use super::Target;
            use core::arch::x86_64::*;
            #[target_feature(enable = $features)]
            unsafe fn tile<const M: usize, const V: usize>(
                depth: usize,
                mut left: *const $number,
                mut right: *const $number,
                stride: usize,
                target: &Target,
            ) {
                let mut sums = [[$zero(); V]; M];
                $(let mut excess = [$subtract($zero(), $zero()); V];)?
                // SAFETY: the panels hold `depth` groups of units, so does every
                // address that is read; the target's rows are as long as the tile.
                unsafe {
                    for _ in 0..depth {
                        let columns: [_; V] = core::array::from_fn(|v| {
                            $load(right.add(v * $lanes))
                        });
                        for (m, sums) in sums.iter_mut().enumerate() {
                            let row = $broadcast(left.add(m));
                            for (sum, column) in sums.iter_mut().zip(columns) {
                                *sum = $multiply_add(row, column, *sum);
                            }
                        }
                        $(
                            for (sum, column) in excess.iter_mut().zip(columns) {
                                *sum = $multiply_add($excess(), column, *sum);
                            }
                        )?
                        left = left.add(M);
                        right = right.add(stride);
                    }
                    for (m, sums) in sums.iter().enumerate() {
                        let row = target.out.cast::<$number>().offset(*target.rows.add(m));
                        for (v, &sum) in sums.iter().enumerate() {
                            $(let sum = $subtract(sum, excess[v]);)?
                            let place = row.add(v * $lanes);
                            let before = if target.add { $read(place) } else { $zero() };
                            $write(place, $add(before, sum));
                        }
                    }
                }
            }

            /// # Safety
            /// As [`super::TileFn`].
            #[target_feature(enable = $features)]
            pub(super) unsafe fn dispatch(
                rows: usize,
                vectors: usize,
                depth: usize,
                left: *const u8,
                right: *const u8,
                stride: usize,
                target: &Target,
            ) {
                let (left, right) = (left.cast::<$number>(), right.cast::<$number>());
                dispatch!(rows, vectors, tile, (depth, left, right, stride, target), [$($m)*]);
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
vector_tile!(
    avx512_f32, "avx512f", f32, 16, [1 2 3 4 5 6 7 8 9 10 11 12 13 14],
    _mm512_setzero_ps, |p| _mm512_loadu_ps(p), |p: *const f32| _mm512_set1_ps(*p),
    |a, b, c| _mm512_fmadd_ps(a, b, c),
    |a, b| _mm512_add_ps(a, b), |p| _mm512_loadu_ps(p), |p, x| _mm512_storeu_ps(p, x)
);
#[cfg(target_arch = "x86_64")]
vector_tile!(
    avx512_f64, "avx512f", f64, 8, [1 2 3 4 5 6 7 8 9 10 11 12 13 14],
    _mm512_setzero_pd, |p| _mm512_loadu_pd(p), |p: *const f64| _mm512_set1_pd(*p),
    |a, b, c| _mm512_fmadd_pd(a, b, c),
    |a, b| _mm512_add_pd(a, b), |p| _mm512_loadu_pd(p), |p, x| _mm512_storeu_pd(p, x)
);
#[cfg(target_arch = "x86_64")]
vector_tile!(
    avx512_i32, "avx512f", i32, 16, [1 2 3 4 5 6 7 8 9 10 11 12 13 14],
    _mm512_setzero_si512, |p: *const i32| _mm512_loadu_epi32(p),
    |p: *const i32| _mm512_set1_epi32(*p),
    |a, b, c| _mm512_add_epi32(_mm512_mullo_epi32(a, b), c),
    |a, b| _mm512_add_epi32(a, b), |p: *mut i32| _mm512_loadu_epi32(p),
    |p, x| _mm512_storeu_epi32(p, x)
);
#[cfg(target_arch = "x86_64")]
vector_tile!(
    avx512_i16, "avx512f,avx512vnni", i32, 16, [1 2 3 4 5 6 7 8 9 10 11 12 13 14],
    _mm512_setzero_si512, |p: *const i32| _mm512_loadu_epi32(p),
    |p: *const i32| _mm512_set1_epi32(*p), |a, b, c| _mm512_dpwssd_epi32(c, a, b),
    |a, b| _mm512_add_epi32(a, b), |p: *mut i32| _mm512_loadu_epi32(p),
    |p, x| _mm512_storeu_epi32(p, x)
);
#[cfg(target_arch = "x86_64")]
vector_tile!(
    avx512_u8, "avx512f,avx512vnni", i32, 16, [1 2 3 4 5 6 7 8 9 10 11 12 13 14],
    _mm512_setzero_si512, |p: *const i32| _mm512_loadu_epi32(p),
    |p: *const i32| _mm512_set1_epi32(*p), |a, b, c| _mm512_dpbusd_epi32(c, a, b),
    |a, b| _mm512_add_epi32(a, b), |p: *mut i32| _mm512_loadu_epi32(p),
    |p, x| _mm512_storeu_epi32(p, x)
);
#[cfg(target_arch = "x86_64")]
vector_tile!(
    avx512_i8, "avx512f,avx512vnni", i32, 16, [1 2 3 4 5 6 7 8 9 10 11 12],
    _mm512_setzero_si512, |p: *const i32| _mm512_loadu_epi32(p),
    |p: *const i32| _mm512_xor_si512(_mm512_set1_epi32(*p), _mm512_set1_epi8(-128)),
    |a, b, c| _mm512_dpbusd_epi32(c, a, b),
    |a, b| _mm512_add_epi32(a, b), |p: *mut i32| _mm512_loadu_epi32(p),
    |p, x| _mm512_storeu_epi32(p, x),
    excess: || _mm512_set1_epi8(-128), |sum, excess| _mm512_sub_epi32(sum, excess)
);
#[cfg(target_arch = "x86_64")]
vector_tile!(
    avx512_bf16, "avx512f,avx512bf16", f32, 16, [1 2 3 4 5 6 7 8 9 10 11 12 13 14],
    _mm512_setzero_ps, |p: *const f32| _mm512_loadu_epi32(p.cast()),
    |p: *const f32| _mm512_set1_epi32(*p.cast::<i32>()),
    |a, b, c| _mm512_dpbf16_ps(
        c,
        core::mem::transmute::<__m512i, __m512bh>(a),
        core::mem::transmute::<__m512i, __m512bh>(b),
    ),
    |a, b| _mm512_add_ps(a, b), |p| _mm512_loadu_ps(p), |p, x| _mm512_storeu_ps(p, x)
);
#[cfg(target_arch = "x86_64")]
vector_tile!(
    avx2_f32, "avx2,fma", f32, 8, [1 2 3 4 5 6],
    _mm256_setzero_ps, |p| _mm256_loadu_ps(p), |p: *const f32| _mm256_set1_ps(*p),
    |a, b, c| _mm256_fmadd_ps(a, b, c),
    |a, b| _mm256_add_ps(a, b), |p| _mm256_loadu_ps(p), |p, x| _mm256_storeu_ps(p, x)
);
#[cfg(target_arch = "x86_64")]
vector_tile!(
    avx2_f64, "avx2,fma", f64, 4, [1 2 3 4 5 6],
    _mm256_setzero_pd, |p| _mm256_loadu_pd(p), |p: *const f64| _mm256_set1_pd(*p),
    |a, b, c| _mm256_fmadd_pd(a, b, c),
    |a, b| _mm256_add_pd(a, b), |p| _mm256_loadu_pd(p), |p, x| _mm256_storeu_pd(p, x)
);
#[cfg(target_arch = "x86_64")]
vector_tile!(
    avx2_i32, "avx2", i32, 8, [1 2 3 4 5 6],
    _mm256_setzero_si256, |p: *const i32| _mm256_loadu_si256(p.cast()),
    |p: *const i32| _mm256_set1_epi32(*p),
    |a, b, c| _mm256_add_epi32(_mm256_mullo_epi32(a, b), c),
    |a, b| _mm256_add_epi32(a, b), |p: *mut i32| _mm256_loadu_si256(p.cast()),
    |p: *mut i32, x| _mm256_storeu_si256(p.cast(), x)
);
#[cfg(target_arch = "x86_64")]
vector_tile!(
    avx2_i16, "avx2", i32, 8, [1 2 3 4 5 6],
    _mm256_setzero_si256, |p: *const i32| _mm256_loadu_si256(p.cast()),
    |p: *const i32| _mm256_set1_epi32(*p),
    // Only the sum of two products that are both (-2^15)^2 wraps.
    |a, b, c| _mm256_add_epi32(c, _mm256_madd_epi16(a, b)),
    |a, b| _mm256_add_epi32(a, b), |p: *mut i32| _mm256_loadu_si256(p.cast()),
    |p: *mut i32, x| _mm256_storeu_si256(p.cast(), x)
);

/// Plain loops, which the compiler vectorises where it can.
mod portable {
    use super::Target;
    const LANES: usize = 4;

    pub(super) trait Number: Copy {
        const ZERO: Self;
        fn multiply_add(self, a: Self, b: Self) -> Self;
        fn plus(self, other: Self) -> Self;
    }

    macro_rules! floats {
        ($($ty:ty)*) => {$(
            impl Number for $ty {
                const ZERO: Self = 0.0;
                fn multiply_add(self, a: Self, b: Self) -> Self {
                    self + a * b
                }
                fn plus(self, other: Self) -> Self {
                    self + other
                }
            }
        )*};
    }

    macro_rules! integers {
        ($($ty:ty)*) => {$(
            impl Number for $ty {
                const ZERO: Self = 0;
                fn multiply_add(self, a: Self, b: Self) -> Self {
                    self.wrapping_add(a.wrapping_mul(b))
                }
                fn plus(self, other: Self) -> Self {
                    self.wrapping_add(other)
                }
            }
        )*};
    }

    floats!(f32 f64);
    integers!(i32 i64);

    /// # Safety
    /// As [`super::TileFn`].
    unsafe fn tile<T: Number, const M: usize, const V: usize>(
        depth: usize,
        mut left: *const T,
        mut right: *const T,
        stride: usize,
        target: &Target,
    ) {
        let mut sums = [[[T::ZERO; LANES]; V]; M];
        // SAFETY: the panels hold `depth` groups of units; the target's rows are as
        // long as the tile.
        unsafe {
            for _ in 0..depth {
                for (m, sums) in sums.iter_mut().enumerate() {
                    let row = *left.add(m);
                    for (v, sums) in sums.iter_mut().enumerate() {
                        let columns = &*right.add(v * LANES).cast::<[T; LANES]>();
                        for (sum, &column) in sums.iter_mut().zip(columns) {
                            *sum = sum.multiply_add(row, column);
                        }
                    }
                }
                left = left.add(M);
                right = right.add(stride);
            }
            for (m, sums) in sums.iter().enumerate() {
                let row = target.out.cast::<T>().offset(*target.rows.add(m));
                for (i, &sum) in sums.iter().flatten().enumerate() {
                    let before = if target.add { *row.add(i) } else { T::ZERO };
                    *row.add(i) = before.plus(sum);
                }
            }
        }
    }

    /// # Safety
    /// As [`super::TileFn`].
    pub(super) unsafe fn dispatch<T: Number>(
        rows: usize,
        vectors: usize,
        depth: usize,
        left: *const u8,
        right: *const u8,
        stride: usize,
        target: &Target,
    ) {
        let (left, right) = (left.cast::<T>(), right.cast::<T>());
        // SAFETY: the caller promises panels of `depth` groups, target rows of `vectors` vectors,
        // numbers of rows and vectors that the kernel has, and its CPU features.
        unsafe {
            match (rows, vectors) {
                (1, 1) => tile::<T, 1, 1>(depth, left, right, stride, target),
                (2, 1) => tile::<T, 2, 1>(depth, left, right, stride, target),
                (3, 1) => tile::<T, 3, 1>(depth, left, right, stride, target),
                (4, 1) => tile::<T, 4, 1>(depth, left, right, stride, target),
                (1, 2) => tile::<T, 1, 2>(depth, left, right, stride, target),
                (2, 2) => tile::<T, 2, 2>(depth, left, right, stride, target),
                (3, 2) => tile::<T, 3, 2>(depth, left, right, stride, target),
                (4, 2) => tile::<T, 4, 2>(depth, left, right, stride, target),
                _ => {}
            }
        }
    }
}
