//! Options of scheduling.

/// The VMEM that a kernel may use for its windows: the default of libtpu's flag
/// `xla_tpu_scoped_vmem_limit_kib` (openxla docs/flags_guidance.md). No kernel measured on v5e uses
/// more.
const SCOPED_LIMIT: i64 = 16 << 20;

/// Options of scheduling.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The size of VMEM in bytes; [`None`] for the chip's.
    pub vmem_bytes: Option<i64>,
    /// The bytes of VMEM that a kernel may use for its windows.
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
