//! The CPU's SIMD vectors: numbers of one type that its instructions load, store and compute with
//! together. Routines use intrinsics in their hot loops, because the compiler does not always
//! vectorise code on arrays. [`crate::dense`] and [`crate::fourier`] extend [`Vector`] by traits
//! with the arithmetic that they need.

#[cfg(target_arch = "aarch64")]
use core::arch::aarch64 as arch;
#[cfg(target_arch = "x86_64")]
use core::arch::x86_64 as arch;

/// A CPU's vectors of numbers of one type.
pub trait Vector<R> {
    /// A vector.
    type Value: Copy;
    /// The number of its elements: a power of two, at most 16.
    const COUNT: usize;
    /// Broadcasts a number.
    ///
    /// # Safety
    /// The CPU has these vectors.
    unsafe fn splat(x: R) -> Self::Value;
    /// Loads numbers from memory.
    ///
    /// # Safety
    /// The CPU has these vectors; [`Self::COUNT`] numbers can be read.
    unsafe fn load(from: *const R) -> Self::Value;
    /// Stores numbers to memory.
    ///
    /// # Safety
    /// The CPU has these vectors; [`Self::COUNT`] numbers can be written.
    unsafe fn store(to: *mut R, x: Self::Value);
}

/// Single numbers, on any CPU.
#[derive(Debug)]
#[allow(
    unreachable_pub,
    reason = "where there are no vectors, public types name it"
)]
pub struct Portable;

impl<R: Copy> Vector<R> for Portable {
    type Value = R;
    const COUNT: usize = 1;

    #[inline(always)]
    unsafe fn splat(x: R) -> R {
        x
    }
    #[inline(always)]
    unsafe fn load(from: *const R) -> R {
        // SAFETY: the caller promises that the number can be accessed.
        unsafe { from.read() }
    }
    #[inline(always)]
    unsafe fn store(to: *mut R, x: R) {
        // SAFETY: the caller promises that the number can be accessed.
        unsafe { to.write(x) }
    }
}

/// The vectors of types, given by the instructions that broadcast, load and store.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! vectors {
    ($(#[$what:meta])* $name:ident, $($ty:ident: $value:ident $splat:ident $load:ident $store:ident),*) => {
        $(#[$what])*
        #[derive(Debug)]
        pub struct $name;

        $(
            impl Vector<$ty> for $name {
                type Value = arch::$value;
                const COUNT: usize = size_of::<arch::$value>() / size_of::<$ty>();

                #[inline(always)]
                unsafe fn splat(x: $ty) -> Self::Value {
                    // SAFETY: the caller promises a CPU with these vector instructions.
                    unsafe { arch::$splat(x) }
                }
                #[inline(always)]
                unsafe fn load(from: *const $ty) -> Self::Value {
                    // SAFETY: the caller promises a CPU with these vector instructions, and that
                    // the numbers can be accessed.
                    unsafe { arch::$load(from) }
                }
                #[inline(always)]
                unsafe fn store(to: *mut $ty, x: Self::Value) {
                    // SAFETY: the caller promises a CPU with these vector instructions, and that
                    // the numbers can be accessed.
                    unsafe { arch::$store(to, x) }
                }
            }
        )*
    };
}

#[cfg(target_arch = "x86_64")]
vectors! {
    /// 128-bit vectors, which every x86-64 has.
    Sse2,
    f32: __m128 _mm_set1_ps _mm_loadu_ps _mm_storeu_ps,
    f64: __m128d _mm_set1_pd _mm_loadu_pd _mm_storeu_pd
}

#[cfg(target_arch = "x86_64")]
vectors! {
    /// 256-bit vectors: AVX2 and FMA.
    Avx2,
    f32: __m256 _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps,
    f64: __m256d _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd
}

#[cfg(target_arch = "x86_64")]
vectors! {
    /// 512-bit vectors: AVX-512.
    Avx512,
    f32: __m512 _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps,
    f64: __m512d _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd
}

#[cfg(target_arch = "aarch64")]
vectors! {
    /// 128-bit vectors, which every AArch64 has: NEON.
    Neon,
    f32: float32x4_t vdupq_n_f32 vld1q_f32 vst1q_f32,
    f64: float64x2_t vdupq_n_f64 vld1q_f64 vst1q_f64
}
