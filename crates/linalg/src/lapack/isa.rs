//! Instruction sets: each routine is compiled for several, and the best that the machine has is
//! selected when it runs.
//!
//! There is no version for AVX-512: AVX2 took 0.98 of its time for f32 and f64, in the geometric mean
//! over seven routines of orders 8 to 200, and 1.01 for complex numbers, whose loops were scalar then
//! (30 November 2026, AMD EPYC with AVX-512, Zen 4). It was 1.0 MB of machine code and a third of the
//! time to compile the routines. Products of blocks are done by [`crate::gemm`], which does use it.

#[cfg(target_arch = "x86_64")]
use crate::dense::vectors::Avx2;
#[cfg(target_arch = "aarch64")]
use crate::dense::vectors::Neon;
#[cfg(not(target_arch = "aarch64"))]
use crate::dense::vectors::Portable;
use crate::dense::vectors::Vectors;

/// An instruction set.
pub trait Isa: Copy {
    /// Its vectors.
    type Vectors: Vectors;
    /// Whether a product and a sum are one fused instruction (rounded once).
    const FUSED: bool;
}

/// The instructions of every machine that the crate is compiled for.
#[derive(Clone, Copy)]
pub(crate) struct Baseline;

impl Isa for Baseline {
    #[cfg(target_arch = "aarch64")]
    type Vectors = Neon;
    #[cfg(not(target_arch = "aarch64"))]
    type Vectors = Portable;
    const FUSED: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));
}

/// AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct FusedAvx2;

#[cfg(target_arch = "x86_64")]
impl Isa for FusedAvx2 {
    type Vectors = Avx2;
    const FUSED: bool = true;
}

/// A routine with its arguments. `run`, and all functions that are to be compiled for the
/// instruction set, must be `#[inline(always)]`. Vectors and fused products must not be in closures, or
/// in those of [`array::map`](std::array): the compiler may leave a closure outside of its function,
/// and then compiles it for the baseline, where each intrinsic and each fused product is a call.
pub(crate) trait Routine {
    /// The result.
    type Output;

    /// Runs the routine.
    fn run<I: Isa>(self) -> Self::Output;
}

/// Runs a routine compiled for the best instruction set of this machine.
pub(crate) fn dispatch<R: Routine>(routine: R) -> R::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma,bmi1,bmi2")]
        fn avx2<R: Routine>(routine: R) -> R::Output {
            routine.run::<FusedAvx2>()
        }
        let has_avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2");
        if has_avx2 {
            // SAFETY: the machine has every feature that the function is compiled for.
            return unsafe { avx2(routine) };
        }
    }
    routine.run::<Baseline>()
}
