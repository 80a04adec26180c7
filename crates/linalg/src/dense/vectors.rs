//! Arithmetic on lanes of numbers: the CPU's [vectors](crate::vectors), and subtraction of
//! products.

#[cfg(target_arch = "aarch64")]
pub(crate) use crate::vectors::Neon;
#[cfg(not(target_arch = "aarch64"))]
pub(crate) use crate::vectors::Portable;
use crate::vectors::Vector;
#[cfg(target_arch = "x86_64")]
pub(crate) use crate::vectors::{Avx2, Avx512};
#[cfg(target_arch = "aarch64")]
use core::arch::aarch64 as arch;
#[cfg(target_arch = "x86_64")]
use core::arch::x86_64 as arch;

/// The number of lanes that are computed together, on any CPU: a multiple of every vector's length.
pub(super) const LANES: usize = 16;

/// The number of elements in the longest vectors, those of `f32` with AVX-512.
pub(crate) const MAX_COUNT: usize = 16;

/// Vectors from which products can be subtracted.
pub trait Products<R>: Vector<R> {
    /// `from - by * x`.
    ///
    /// # Safety
    /// The CPU has these vectors.
    unsafe fn less_product(from: Self::Value, by: Self::Value, x: Self::Value) -> Self::Value;
    /// The horizontal sum, by repeated halving.
    ///
    /// # Safety
    /// The CPU has these vectors.
    unsafe fn total(x: Self::Value) -> R;
    /// The elements of each pair (the first two, the next two, ...) in reverse order: the vector
    /// itself if it has one element.
    ///
    /// # Safety
    /// The CPU has these vectors.
    unsafe fn swap_pairs(x: Self::Value) -> Self::Value;
}

/// A CPU's vectors.
pub trait Vectors: Products<f32> + Products<f64> {
    /// Whether a product and its sum are fused (rounded once).
    const FUSED: bool;
}

/// Subtracts the products of a number and lanes from lanes.
///
/// # Safety
/// The CPU has these vectors.
#[inline(always)]
pub(super) unsafe fn subtract<R: Copy, V: Products<R>>(
    from: &mut [R; LANES],
    by: R,
    lanes: &[R; LANES],
) {
    let (from, lanes) = (from.as_mut_ptr(), lanes.as_ptr());
    // SAFETY: the caller promises a CPU with these vector instructions; all that is read and
    // written are lanes.
    unsafe {
        let by = V::splat(by);
        for at in (0..LANES).step_by(V::COUNT) {
            let own = V::load(from.add(at));
            V::store(
                from.add(at),
                V::less_product(own, by, V::load(lanes.add(at))),
            );
        }
    }
}

/// Subtracts the lane-by-lane products from lanes.
///
/// # Safety
/// The CPU has these vectors.
#[inline(always)]
pub(super) unsafe fn subtract_each<R: Copy, V: Products<R>>(
    from: &mut [R; LANES],
    by: &[R; LANES],
    lanes: &[R; LANES],
) {
    let (from, by, lanes) = (from.as_mut_ptr(), by.as_ptr(), lanes.as_ptr());
    // SAFETY: the caller promises a CPU with these vector instructions; all that is read and
    // written are lanes.
    unsafe {
        for at in (0..LANES).step_by(V::COUNT) {
            let (own, by) = (V::load(from.add(at)), V::load(by.add(at)));
            V::store(
                from.add(at),
                V::less_product(own, by, V::load(lanes.add(at))),
            );
        }
    }
}

#[cfg(not(target_arch = "aarch64"))]
impl Vectors for Portable {
    const FUSED: bool = false;
}

#[cfg(not(target_arch = "aarch64"))]
macro_rules! portable {
    ($($ty:ident)*) => {$(
        impl Products<$ty> for Portable {
            #[inline(always)]
            unsafe fn less_product(from: $ty, by: $ty, x: $ty) -> $ty {
                from - by * x
            }
            #[inline(always)]
            unsafe fn total(x: $ty) -> $ty {
                x
            }
            #[inline(always)]
            unsafe fn swap_pairs(x: $ty) -> $ty {
                x
            }
        }
    )*};
}

#[cfg(not(target_arch = "aarch64"))]
portable! { f32 f64 }

/// The vectors of both types, given by the instructions that subtract a product from their first or
/// last argument, and the functions for horizontal sums and for swapping neighbours.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! products {
    ($name:ident, $($ty:ident: $fused:ident $last:literal $total:path, $swap:path);*) => {
        impl Vectors for $name {
            const FUSED: bool = true;
        }

        $(
            impl Products<$ty> for $name {
                #[inline(always)]
                unsafe fn less_product(
                    from: Self::Value,
                    by: Self::Value,
                    x: Self::Value,
                ) -> Self::Value {
                    let [a, b, c] = if $last { [by, x, from] } else { [from, by, x] };
                    // SAFETY: the caller promises a CPU with these vector instructions.
                    unsafe { arch::$fused(a, b, c) }
                }
                #[inline(always)]
                unsafe fn total(x: Self::Value) -> $ty {
                    // SAFETY: the caller promises a CPU with these vector instructions.
                    unsafe { $total(x) }
                }
                #[inline(always)]
                unsafe fn swap_pairs(x: Self::Value) -> Self::Value {
                    // SAFETY: the caller promises the vectors.
                    unsafe { $swap(x) }
                }
            }
        )*
    };
}

#[cfg(target_arch = "x86_64")]
products! {
    Avx512,
    f32: _mm512_fnmadd_ps true arch::_mm512_reduce_add_ps, arch::_mm512_permute_ps::<0b10_11_00_01>;
    f64: _mm512_fnmadd_pd true arch::_mm512_reduce_add_pd, arch::_mm512_permute_pd::<0b0101_0101>
}

#[cfg(target_arch = "x86_64")]
products! {
    Avx2,
    f32: _mm256_fnmadd_ps true total_of_8, arch::_mm256_permute_ps::<0b10_11_00_01>;
    f64: _mm256_fnmadd_pd true total_of_4, arch::_mm256_permute_pd::<0b0101>
}

#[cfg(target_arch = "aarch64")]
products! {
    Neon,
    f32: vfmsq_f32 false arch::vaddvq_f32, arch::vrev64q_f32;
    f64: vfmsq_f64 false arch::vaddvq_f64, swapped
}

/// # Safety
/// The CPU has NEON.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn swapped(x: arch::float64x2_t) -> arch::float64x2_t {
    // SAFETY: the caller promises the instruction.
    unsafe { arch::vextq_f64::<1>(x, x) }
}

/// # Safety
/// The CPU has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn total_of_8(x: arch::__m256) -> f32 {
    use arch::{
        _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_movehdup_ps, _mm_movehl_ps,
        _mm256_castps256_ps128, _mm256_extractf128_ps,
    };
    // SAFETY: the caller promises a CPU with these instructions.
    unsafe {
        let four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    }
}

/// # Safety
/// The CPU has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn total_of_4(x: arch::__m256d) -> f64 {
    use arch::{
        _mm_add_pd, _mm_add_sd, _mm_cvtsd_f64, _mm_unpackhi_pd, _mm256_castpd256_pd128,
        _mm256_extractf128_pd,
    };
    // SAFETY: the caller promises a CPU with these instructions.
    unsafe {
        let two = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd::<1>(x));
        _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
    }
}
