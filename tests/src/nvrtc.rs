//! Whether programs can be run on the simulated GPU.

/// Whether the CUDA compiler library is there. Without it a reason to skip is printed;
/// `TEGULA_REQUIRE_NVRTC` makes that a failure.
///
/// # Panics
/// It is not there and is required.
pub fn is_there() -> bool {
    match tegula_codegen_cuda::compiler() {
        Ok(_) => true,
        Err(error) => {
            let required = std::env::var_os("TEGULA_REQUIRE_NVRTC").is_some();
            assert!(!required, "{error}");
            println!("skipped: no NVRTC ({error})");
            false
        }
    }
}
