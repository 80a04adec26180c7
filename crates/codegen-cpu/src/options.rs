//! Options of compiling for the CPU.

use tegula_target::IsaLevel;

/// What to print of the compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Cranelift's intermediate form, before optimisation.
    Clif,
    /// Machine code.
    Asm,
}

/// How to compile for the CPU.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Which instructions may be used.
    pub cpu: IsaLevel,
    /// How many threads a run may use, at least 1.
    pub threads: usize,
    /// When large arrays are stored past the caches.
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

/// When stores go past the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Bytes of the cache past which large arrays are stored; [`None`]: of this machine's last one.
    pub cache: Option<u64>,
    /// Bytes that a run of lanes stores from which on it is worth it, if it begins with a line.
    pub run: i64,
    /// The same if it does not: its first line and its last one are stored in part, as those of
    /// the runs beside it, and what is before a line is done on its own.
    pub parted_run: i64,
}

impl StreamLimits {
    /// Of this machine. Of `parted_run` bytes, what is stored in part is one in 64 lines. Measured
    /// (`docs/notes/fusion.md`): rows of 4004 bytes lose 3 %, of 8004 gain 3.
    pub const MEASURED: Self = Self {
        cache: None,
        run: 1 << 10,
        parted_run: 8 << 10,
    };
    /// Wherever it can be done: to see that it changes nothing.
    pub const ALWAYS: Self = Self {
        cache: Some(0),
        run: 0,
        parted_run: 0,
    };

    /// Past a cache of so many bytes.
    pub const fn past(cache: u64) -> Self {
        Self {
            cache: Some(cache),
            ..Self::MEASURED
        }
    }
}
