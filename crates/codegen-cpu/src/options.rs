//! Options of compiling for the CPU.

use tegula_target::IsaLevel;

/// The form in which code is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Cranelift's intermediate form, before optimisation.
    Clif,
    /// Machine code.
    Asm,
}

/// Options of compiling for the CPU.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The instructions that may be used.
    pub cpu: IsaLevel,
    /// The maximum number of threads of a run, at least 1.
    pub threads: usize,
    /// The sizes above which arrays are stored past the caches.
    pub streaming: StreamLimits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cpu: IsaLevel::Native,
            threads: 1,
            streaming: StreamLimits::MEASURED,
        }
    }
}

/// The sizes above which stores bypass the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// The bytes of the cache that an array must exceed; [`None`] for this machine's last-level
    /// cache.
    pub cache: Option<u64>,
    /// The minimum bytes that a vector loop must store, if it begins at a cache line.
    pub run: i64,
    /// The same if it does not begin at a cache line: its first and last lines are partial, shared
    /// with the neighbouring rows, and the lanes before the first whole line are computed
    /// separately.
    pub parted_run: i64,
}

impl StreamLimits {
    /// The limits for this machine. With `parted_run` bytes, one in 64 lines is partial. Measured
    /// (`docs/notes/fusion.md`): rows of 4004 bytes lose 3 %, rows of 8004 gain 3 %.
    pub const MEASURED: Self = Self {
        cache: None,
        run: 1 << 10,
        parted_run: 8 << 10,
    };
    /// Stores past the caches wherever possible: for tests that results do not change.
    pub const ALWAYS: Self = Self {
        cache: Some(0),
        run: 0,
        parted_run: 0,
    };

    /// Stores arrays past the caches that exceed this many bytes.
    pub const fn past(cache: u64) -> Self {
        Self {
            cache: Some(cache),
            ..Self::MEASURED
        }
    }
}
