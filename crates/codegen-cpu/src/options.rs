//! How to compile for the CPU.

use crate::isa::x64::InstructionSet;

/// Which instructions the generated code may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cpu {
    /// Everything this machine has.
    #[default]
    Native,
    /// SSE4.2 and older: what any x86-64 of the last fifteen years has.
    X86V2,
    /// AVX2, FMA and bit manipulation.
    X86V3,
    /// AVX-512.
    X86V4,
}

impl Cpu {
    /// The CPU of this name on the command line.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "native" => Self::Native,
            "x86-64-v2" => Self::X86V2,
            "x86-64-v3" => Self::X86V3,
            "x86-64-v4" => Self::X86V4,
            _ => return None,
        })
    }

    /// What bodies are made of by [`crate::isa::x64`], if its vectors may be used.
    pub(crate) fn wide_vectors(self) -> Option<InstructionSet> {
        // Bodies are called by the System V convention.
        if cfg!(not(all(target_arch = "x86_64", unix))) {
            return None;
        }
        match self {
            Self::Native => InstructionSet::ALL
                .into_iter()
                .find(|set| set.is_supported()),
            Self::X86V2 => None,
            Self::X86V3 => Some(InstructionSet::Avx2),
            Self::X86V4 => Some(InstructionSet::Avx512),
        }
    }

    pub(crate) fn features(self) -> Vec<&'static str> {
        let v2 = [
            "has_sse3",
            "has_ssse3",
            "has_sse41",
            "has_sse42",
            "has_popcnt",
        ];
        let v3 = [
            "has_avx",
            "has_avx2",
            "has_fma",
            "has_bmi1",
            "has_bmi2",
            "has_lzcnt",
        ];
        let v4 = ["has_avx512f", "has_avx512dq", "has_avx512vl"];
        match self {
            Self::Native => Vec::new(),
            Self::X86V2 => v2.to_vec(),
            Self::X86V3 => [&v2[..], &v3].concat(),
            Self::X86V4 => [&v2[..], &v3, &v4].concat(),
        }
    }
}

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
    pub cpu: Cpu,
    /// How many threads a run may use, at least 1.
    pub threads: usize,
    /// When large arrays are stored past the caches.
    pub streaming: StreamLimits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cpu: Cpu::Native,
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
    /// (`docs/performance.md`): rows of 4004 bytes lose 3 %, of 8004 gain 3.
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
