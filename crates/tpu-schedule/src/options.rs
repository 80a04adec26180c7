//! What a schedule is made for.

/// VMEM that a kernel may use for its windows: the default of the real compiler's flag
/// `xla_tpu_scoped_vmem_limit_kib` (openxla docs/flags_guidance.md); no kernel that was
/// measured on v5e uses more.
const SCOPED_LIMIT: i64 = 16 << 20;

/// What a schedule is made for.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of VMEM; [`None`]: the chip's.
    pub vmem_bytes: Option<i64>,
    /// Bytes of VMEM that a kernel may use for its windows.
    pub scoped_bytes: i64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            vmem_bytes: None,
            scoped_bytes: SCOPED_LIMIT,
        }
    }
}
