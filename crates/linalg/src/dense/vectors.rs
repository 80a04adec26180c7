//! The vectors of a CPU: what lanes of numbers are computed with. They are said by their instructions
//! where the time goes, because of arrays of numbers alone the compiler does not always make vectors.

/// How many numbers are computed with together, on any CPU.
pub(super) const LANES: usize = 16;

/// A CPU's vectors of numbers of one type.
pub trait Vector<R> {
    /// A vector.
    type Value: Copy;
    /// How many numbers it has, a divisor of [`LANES`].
    const COUNT: usize;
    /// A number in each place.
    ///
    /// # Safety
    /// The CPU has these vectors.
    unsafe fn splat(x: R) -> Self::Value;
    /// Numbers from memory.
    ///
    /// # Safety
    /// The CPU has these vectors; so many numbers may be read.
    unsafe fn load(from: *const R) -> Self::Value;
    /// Numbers to memory.
    ///
    /// # Safety
    /// The CPU has these vectors; so many numbers may be written.
    unsafe fn store(to: *mut R, x: Self::Value);
    /// What is left without products: `from - by * x`.
    ///
    /// # Safety
    /// The CPU has these vectors.
    unsafe fn less_product(from: Self::Value, by: Self::Value, x: Self::Value) -> Self::Value;
}

/// A CPU's vectors.
pub trait Vectors: Vector<f32> + Vector<f64> {
    /// Whether a product and its sum are rounded once.
    const FUSED: bool;
}

/// Takes the products of a number and lanes from lanes.
///
/// # Safety
/// The CPU has these vectors.
#[inline(always)]
pub(super) unsafe fn subtract<R: Copy, V: Vector<R>>(
    from: &mut [R; LANES],
    by: R,
    lanes: &[R; LANES],
) {
    let (from, lanes) = (from.as_mut_ptr(), lanes.as_ptr());
    // SAFETY: the caller promises the vectors; all that is read and written are lanes.
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

/// Takes the products of lanes and lanes from lanes.
///
/// # Safety
/// The CPU has these vectors.
#[inline(always)]
pub(super) unsafe fn subtract_each<R: Copy, V: Vector<R>>(
    from: &mut [R; LANES],
    by: &[R; LANES],
    lanes: &[R; LANES],
) {
    let (from, by, lanes) = (from.as_mut_ptr(), by.as_ptr(), lanes.as_ptr());
    // SAFETY: the caller promises the vectors; all that is read and written are lanes.
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

/// Numbers one by one, on any CPU.
#[cfg(not(target_arch = "aarch64"))]
pub(super) struct Portable;

#[cfg(not(target_arch = "aarch64"))]
impl Vectors for Portable {
    const FUSED: bool = false;
}

#[cfg(not(target_arch = "aarch64"))]
macro_rules! portable {
    ($($ty:ident)*) => {$(
        impl Vector<$ty> for Portable {
            type Value = $ty;
            const COUNT: usize = 1;

            #[inline(always)]
            unsafe fn splat(x: $ty) -> $ty {
                x
            }
            #[inline(always)]
            unsafe fn load(from: *const $ty) -> $ty {
                // SAFETY: the caller promises the number.
                unsafe { from.read() }
            }
            #[inline(always)]
            unsafe fn store(to: *mut $ty, x: $ty) {
                // SAFETY: the caller promises the number.
                unsafe { to.write(x) }
            }
            #[inline(always)]
            unsafe fn less_product(from: $ty, by: $ty, x: $ty) -> $ty {
                from - by * x
            }
        }
    )*};
}

#[cfg(not(target_arch = "aarch64"))]
portable! { f32 f64 }

/// What has vectors of both types, each given by its instructions: the last three load, store and take
/// a product away, from the first or the last of their arguments.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! vectors {
    ($(#[$what:meta])* $name:ident, $($ty:ident: $value:ident $splat:ident $load:ident $store:ident $fused:ident $last:literal),*) => {
        $(#[$what])*
        pub(super) struct $name;

        impl Vectors for $name {
            const FUSED: bool = true;
        }

        $(
            impl Vector<$ty> for $name {
                type Value = arch::$value;
                const COUNT: usize = size_of::<arch::$value>() / size_of::<$ty>();

                #[inline(always)]
                unsafe fn splat(x: $ty) -> Self::Value {
                    // SAFETY: the caller promises the vectors.
                    unsafe { arch::$splat(x) }
                }
                #[inline(always)]
                unsafe fn load(from: *const $ty) -> Self::Value {
                    // SAFETY: the caller promises the vectors and the numbers.
                    unsafe { arch::$load(from) }
                }
                #[inline(always)]
                unsafe fn store(to: *mut $ty, x: Self::Value) {
                    // SAFETY: the caller promises the vectors and the numbers.
                    unsafe { arch::$store(to, x) }
                }
                #[inline(always)]
                unsafe fn less_product(
                    from: Self::Value,
                    by: Self::Value,
                    x: Self::Value,
                ) -> Self::Value {
                    let [a, b, c] = if $last { [by, x, from] } else { [from, by, x] };
                    // SAFETY: the caller promises the vectors.
                    unsafe { arch::$fused(a, b, c) }
                }
            }
        )*
    };
}

#[cfg(target_arch = "aarch64")]
use core::arch::aarch64 as arch;
#[cfg(target_arch = "x86_64")]
use core::arch::x86_64 as arch;

#[cfg(target_arch = "x86_64")]
vectors! {
    /// AVX-512.
    Avx512,
    f32: __m512 _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_fnmadd_ps true,
    f64: __m512d _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_fnmadd_pd true
}

#[cfg(target_arch = "x86_64")]
vectors! {
    /// AVX2 and FMA.
    Avx2,
    f32: __m256 _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_fnmadd_ps true,
    f64: __m256d _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_fnmadd_pd true
}

#[cfg(target_arch = "aarch64")]
vectors! {
    /// NEON.
    Neon,
    f32: float32x4_t vdupq_n_f32 vld1q_f32 vst1q_f32 vfmsq_f32 false,
    f64: float64x2_t vdupq_n_f64 vld1q_f64 vst1q_f64 vfmsq_f64 false
}
