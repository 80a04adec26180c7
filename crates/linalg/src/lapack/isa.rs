//! Instruction sets: a routine is compiled for several, and the machine's is chosen when it runs.

/// An instruction set.
pub trait Isa: Copy {
    /// Whether a product and a sum are one instruction, rounded once.
    const FUSED: bool;
}

/// What every machine that this is compiled for has.
#[derive(Clone, Copy)]
pub(crate) struct Baseline;

impl Isa for Baseline {
    const FUSED: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));
}

/// A machine with fused products and sums.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Fused;

#[cfg(target_arch = "x86_64")]
impl Isa for Fused {
    const FUSED: bool = true;
}

/// A routine with its arguments. `run` must be `#[inline(always)]`, and so must be all that is
/// worth compiling for the instruction set.
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
        #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi1,bmi2")]
        fn avx512<R: Routine>(routine: R) -> R::Output {
            routine.run::<Fused>()
        }
        #[target_feature(enable = "avx2,fma,bmi1,bmi2")]
        fn avx2<R: Routine>(routine: R) -> R::Output {
            routine.run::<Fused>()
        }
        let has_avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2");
        let has_avx512 = has_avx2
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw");
        if has_avx512 {
            // SAFETY: the machine has every feature that the function is compiled for.
            return unsafe { avx512(routine) };
        }
        if has_avx2 {
            // SAFETY: the machine has every feature that the function is compiled for.
            return unsafe { avx2(routine) };
        }
    }
    routine.run::<Baseline>()
}
