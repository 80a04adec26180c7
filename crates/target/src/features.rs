//! Levels of x86-64 and AArch64 instruction sets that users can select, and detection of the CPU's
//! features. Every crate that selects code by CPU features uses this module.

use crate::cpu_features::{CpuFeatures, VectorWidth};
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

/// A CPU architecture that code can be generated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// x86-64.
    X86_64,
    /// AArch64, little-endian.
    Aarch64,
}

impl Architecture {
    /// The architecture of this machine. On others (WebAssembly), code for x86-64 can be listed,
    /// but not run.
    pub const HERE: Self = match cfg!(target_arch = "aarch64") {
        true => Self::Aarch64,
        false => Self::X86_64,
    };

    /// Every architecture.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// The target triple of Linux programs.
    pub const fn linux_triple(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-gnu",
            Self::Aarch64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// The levels of the architecture, the oldest first.
    pub const fn levels(self) -> [IsaLevel; 3] {
        match self {
            Self::X86_64 => [IsaLevel::X86V2, IsaLevel::X86V3, IsaLevel::X86V4],
            Self::Aarch64 => [IsaLevel::ArmV8, IsaLevel::ArmV8_4, IsaLevel::ArmV8_6],
        }
    }
}

/// The instruction set level that code may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IsaLevel {
    /// All features of this machine.
    #[default]
    Native,
    /// SSE4.2 and older, which any x86-64 of the last fifteen years has.
    X86V2,
    /// AVX2, FMA and bit manipulation.
    X86V3,
    /// AVX-512 F, BW, DQ and VL.
    X86V4,
    /// The features of every AArch64: vectors of 128 bits with fused multiply-add.
    ArmV8,
    /// Dot products of 8-bit integers, and atomic instructions (Armv8.4-A).
    ArmV8_4,
    /// Products of bf16, and matrix products of 8-bit integers (Armv8.6-A).
    ArmV8_6,
}

impl IsaLevel {
    /// All levels, with their names on the command line.
    pub const NAMES: [(Self, &'static str); 7] = [
        (Self::Native, "native"),
        (Self::X86V2, "x86-64-v2"),
        (Self::X86V3, "x86-64-v3"),
        (Self::X86V4, "x86-64-v4"),
        (Self::ArmV8, "armv8-a"),
        (Self::ArmV8_4, "armv8.4-a"),
        (Self::ArmV8_6, "armv8.6-a"),
    ];

    /// The architecture of the level.
    pub fn architecture(self) -> Architecture {
        match self {
            Self::Native => Architecture::HERE,
            Self::X86V2 | Self::X86V3 | Self::X86V4 => Architecture::X86_64,
            Self::ArmV8 | Self::ArmV8_4 | Self::ArmV8_6 => Architecture::Aarch64,
        }
    }

    /// The width of vectors in code for this level; for [`Self::Native`], that of this machine.
    pub fn width(self) -> VectorWidth {
        match self {
            Self::Native => CpuFeatures::detect().width,
            _ => self.features().width,
        }
    }

    /// Whether code for this level can run on this machine.
    pub fn is_supported(self) -> bool {
        let (needs, here) = (self.features(), CpuFeatures::detect());
        self == Self::Native
            || self.architecture() == Architecture::HERE
                && needs.width <= here.width
                && needs.dot_product <= here.dot_product
                && needs.int8_matrices <= here.int8_matrices
                && needs.bf16 <= here.bf16
    }

    /// The features that the level requires; none for [`Self::Native`].
    fn features(self) -> CpuFeatures {
        let newer = matches!(self, Self::ArmV8_4 | Self::ArmV8_6);
        let newest = self == Self::ArmV8_6;
        CpuFeatures {
            width: match self {
                Self::Native | Self::X86V2 => VectorWidth::Portable,
                Self::ArmV8 | Self::ArmV8_4 | Self::ArmV8_6 => VectorWidth::Neon,
                Self::X86V3 => VectorWidth::Avx2,
                Self::X86V4 => VectorWidth::Avx512,
            },
            dot_product: newer,
            int8_matrices: newest,
            bf16: newest,
            ..CpuFeatures::default()
        }
    }
}

impl fmt::Display for IsaLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(level, _)| level == self);
        f.write_str(name.map_or("", |(_, name)| name))
    }
}

/// The error for an unknown name of an [`IsaLevel`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no CPU `{0}`: use native, x86-64-v2, x86-64-v3, x86-64-v4, armv8-a, armv8.4-a or armv8.6-a"
)]
pub struct UnknownIsaLevel(pub String);

impl FromStr for IsaLevel {
    type Err = UnknownIsaLevel;

    fn from_str(name: &str) -> Result<Self, UnknownIsaLevel> {
        let level = Self::NAMES.iter().find(|(_, known)| *known == name);
        level
            .map(|(level, _)| *level)
            .ok_or_else(|| UnknownIsaLevel(name.to_owned()))
    }
}

impl CpuFeatures {
    /// The features that the CPU has, that the operating system supports, and that are worth using.
    /// This excludes dot products of bf16 if they are slower than multiplications of converted
    /// numbers.
    pub fn detect() -> Self {
        static FOUND: OnceLock<CpuFeatures> = OnceLock::new();
        *FOUND.get_or_init(|| worth_using(found()))
    }

    /// All features that the CPU has and the operating system supports, including those that are
    /// slower than code without them.
    pub fn every() -> Self {
        found()
    }

    /// The [detected](Self::detect) features that a level allows. Extensions that no level includes
    /// are allowed for [`IsaLevel::Native`] only. A level of another architecture allows
    /// everything, because its code does not run here.
    pub fn up_to(level: IsaLevel) -> Self {
        let here = Self::detect();
        if level == IsaLevel::Native {
            return here;
        }
        let allowed = level.features();
        if level.architecture() != Architecture::HERE {
            return allowed;
        }
        Self {
            width: allowed.width.min(here.width),
            dot_product: allowed.dot_product && here.dot_product,
            int8_matrices: allowed.int8_matrices && here.int8_matrices,
            bf16: allowed.bf16 && here.bf16,
            first_level_ways: here.first_level_ways,
            ..Self::default()
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn found() -> CpuFeatures {
    use std::is_x86_feature_detected as has;
    let avx2 = has!("avx2") && has!("fma") && has!("f16c") && has!("bmi1") && has!("bmi2");
    let avx512 =
        avx2 && has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
    let [amx_bf16, amx_int8] = match avx512 {
        true => amx::found(),
        false => [false; 2],
    };
    CpuFeatures {
        width: match (avx512, avx2) {
            (true, _) => VectorWidth::Avx512,
            (false, true) => VectorWidth::Avx2,
            (false, false) => VectorWidth::Portable,
        },
        bf16: avx512 && has!("avx512bf16"),
        vnni: avx512 && has!("avx512vnni"),
        dot_product: false,
        int8_matrices: false,
        amx_bf16,
        amx_int8,
        first_level_ways: first_level_ways(),
    }
}

/// Removes features that are not worth using. Dot products of bf16 are kept if there are matrix
/// products of bf16, because both use the same operand layout.
fn worth_using(found: CpuFeatures) -> CpuFeatures {
    #[cfg(target_arch = "x86_64")]
    if found.bf16 && !found.amx_bf16 {
        // SAFETY: `found` says that the CPU has AVX-512 F and AVX512-BF16.
        let bf16 = unsafe { crate::bf16_speed::dot_products_pay() };
        return CpuFeatures { bf16, ..found };
    }
    found
}

#[cfg(target_arch = "aarch64")]
fn found() -> CpuFeatures {
    use std::arch::is_aarch64_feature_detected as has;
    CpuFeatures {
        // NEON is part of the architecture, and the compiler uses it, too.
        width: VectorWidth::Neon,
        bf16: has!("bf16"),
        dot_product: has!("dotprod"),
        int8_matrices: has!("i8mm"),
        ..CpuFeatures::default()
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn found() -> CpuFeatures {
    CpuFeatures::default()
}

/// AMX tile registers. Linux saves their state only for processes that request it.
#[cfg(target_arch = "x86_64")]
mod amx {
    use std::arch::x86_64::__cpuid_count;

    /// Whether there are matrix products of bf16, and of 8-bit integers.
    pub(super) fn found() -> [bool; 2] {
        if __cpuid_count(0, 0).eax < 7 {
            return [false; 2];
        }
        // In the structured extended features, AMX-BF16 is bit 22, AMX-TILE bit 24, AMX-INT8 bit
        // 25.
        let features = __cpuid_count(7, 0).edx;
        let has = |bit: u32| features >> bit & 1 == 1;
        match has(24) && is_permitted() {
            true => [has(22), has(25)],
            false => [false; 2],
        }
    }

    /// Requests that the state of the registers is saved (`Documentation/arch/x86/xstate.rst` of
    /// Linux).
    #[cfg(target_os = "linux")]
    fn is_permitted() -> bool {
        const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
        const XFEATURE_XTILEDATA: libc::c_long = 18;
        // SAFETY: the call takes two numbers and accesses no memory of this process.
        let failed = unsafe {
            libc::syscall(
                libc::SYS_arch_prctl,
                ARCH_REQ_XCOMP_PERM,
                XFEATURE_XTILEDATA,
            )
        };
        failed == 0
    }

    #[cfg(not(target_os = "linux"))]
    fn is_permitted() -> bool {
        false
    }
}

/// The associativity (number of ways) of the first-level data cache, if the CPU reports it.
#[cfg(target_arch = "x86_64")]
fn first_level_ways() -> Option<u8> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // Both vendors use the same format, in different leaves.
    const INTEL: u32 = 4;
    const AMD: u32 = 0x8000_001d;
    let leaves = [(INTEL, __cpuid(0).eax), (AMD, __cpuid(0x8000_0000).eax)];
    let leaves = leaves.into_iter().filter(|(leaf, last)| leaf <= last);
    let mut caches = leaves.flat_map(|(leaf, _)| (0..4).map(move |i| __cpuid_count(leaf, i)));
    // The kind is in bits 0 to 4 (1 is data), the level in bits 5 to 7.
    let first = caches.find(|cache| cache.eax & 0xff == 1 << 5 | 1)?;
    u8::try_from((first.ebx >> 22) + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (level, name) in IsaLevel::NAMES {
            assert_eq!(name.parse(), Ok(level));
            assert_eq!(level.to_string(), name);
        }
        assert!("x86-64-v5".parse::<IsaLevel>().is_err());
    }

    #[test]
    fn a_level_allows_no_more_than_the_machine_has() {
        for level in Architecture::HERE.levels() {
            let allowed = CpuFeatures::up_to(level);
            assert!(allowed.width <= CpuFeatures::detect().width, "{level}");
        }
        assert_eq!(CpuFeatures::up_to(IsaLevel::Native), CpuFeatures::detect());
        assert!(!CpuFeatures::up_to(IsaLevel::X86V4).bf16);
    }

    #[test]
    fn levels_of_another_architecture_run_nowhere_here() {
        for architecture in Architecture::ALL {
            for level in architecture.levels() {
                assert_eq!(level.architecture(), architecture);
                let here = architecture == Architecture::HERE;
                assert!(here || !level.is_supported(), "{level}");
            }
        }
        assert!(IsaLevel::Native.is_supported());
        assert_eq!(CpuFeatures::up_to(IsaLevel::ArmV8).width, VectorWidth::Neon);
    }
}
