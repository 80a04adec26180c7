//! The GPU that the suites run on: the simulated one, or with `TEGULA_GPU=1` the first real
//! one.

use tegula::Target;

/// Whether `TEGULA_GPU` asks for a real GPU.
#[must_use]
pub fn is_real() -> bool {
    std::env::var_os("TEGULA_GPU").is_some_and(|value| value == "1")
}

/// The GPU target: [`Target::Cuda`] if `TEGULA_GPU` asks for it, otherwise the simulated GPU;
/// [`None`] without NVRTC.
///
/// # Panics
/// NVRTC is missing and `TEGULA_REQUIRE_NVRTC` or `TEGULA_GPU` requires it.
#[must_use]
pub fn target() -> Option<Target> {
    is_there().then(|| match is_real() {
        true => Target::Cuda,
        false => Target::CudaSim,
    })
}

/// The target, with its label, to test in place of `wanted`: the simulated GPU is replaced by
/// `gpu`, the result of [`target`] ([`None`] if there is none). Other targets stay.
#[must_use]
pub fn in_place_of((label, wanted): (&str, Target), gpu: Option<Target>) -> Option<(&str, Target)> {
    match (wanted, gpu) {
        (Target::CudaSim, None) => None,
        (Target::CudaSim, Some(Target::Cuda)) => Some(("cuda", Target::Cuda)),
        _ => Some((label, wanted)),
    }
}

/// Whether NVRTC, the CUDA compiler library, can be loaded. The simulated GPU needs it too. If it
/// is missing, this prints why tests are skipped, or panics if `TEGULA_REQUIRE_NVRTC` is set.
///
/// # Panics
/// NVRTC is missing, and it or a real GPU is required.
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
