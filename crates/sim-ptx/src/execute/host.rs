//! Detects the vector instructions of the host's processor.

/// The vector instructions of the host's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vectors {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Of256,
    #[cfg(target_arch = "x86_64")]
    Of512,
}

/// The widest vectors that the processor supports.
pub(super) fn vectors() -> Vectors {
    #[cfg(target_arch = "x86_64")]
    {
        let has_256 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let has_512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("f16c");
        match (has_256, has_512) {
            (true, true) => Vectors::Of512,
            (true, false) => Vectors::Of256,
            _ => Vectors::Portable,
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        Vectors::Portable
    }
}
