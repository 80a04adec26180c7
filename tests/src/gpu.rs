//! The GPU that the suites run on: the simulated one, or with `TEGULA_GPU=1` the first real
//! one.

use tegula::Target;

/// Whether `TEGULA_GPU` asks for a real GPU.
#[must_use]
pub fn is_real() -> bool {
    std::env::var_os("TEGULA_GPU").is_some_and(|value| value == "1")
}

/// What programs are compiled for: [`Target::Cuda`] where `TEGULA_GPU` asks for it, else the
/// simulated GPU; none without NVRTC.
///
/// # Panics
/// NVRTC is not there and is required.
#[must_use]
pub fn target() -> Option<Target> {
    is_there().then(|| match is_real() {
        true => Target::Cuda,
        false => Target::CudaSim,
    })
}

/// The target with its label as tests run it here: another one as it is, the simulated GPU as
/// [`target`] says, or not at all.
#[must_use]
pub fn in_place_of((label, wanted): (&str, Target), gpu: Option<Target>) -> Option<(&str, Target)> {
    match (wanted, gpu) {
        (Target::CudaSim, None) => None,
        (Target::CudaSim, Some(Target::Cuda)) => Some(("cuda", Target::Cuda)),
        _ => Some((label, wanted)),
    }
}

/// Whether the CUDA compiler library is there, which the simulated GPU needs, too. Without it
/// a reason to skip is printed; `TEGULA_REQUIRE_NVRTC` makes that a failure.
///
/// # Panics
/// It is not there and is required.
#[must_use]
pub fn is_there() -> bool {
    match tegula_codegen_cuda::compiler() {
        Ok(_) => true,
        Err(error) => {
            let required = std::env::var_os("TEGULA_REQUIRE_NVRTC").is_some();
            assert!(!required && !is_real(), "{error}");
            println!("skipped: no NVRTC ({error})");
            false
        }
    }
}
