//! Detection of the machine's threads, vectors and caches.
//!
//! There are no assumptions: properties that cannot be detected are missing.

use std::path::Path;

/// A cache of the CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The level; 1 is nearest to the core.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The size of a cache line in bytes, if it is stated.
    pub line_bytes: Option<u64>,
}

/// The detected properties of a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// The number of threads that run in parallel, from `std::thread::available_parallelism`.
    pub threads: Option<usize>,
    /// The width in bits of the widest vector register, from the features that the CPU reports.
    pub vector_bits: Option<u32>,
    /// The caches of the first core; from `/sys/devices/system/cpu` (Linux).
    pub caches: Vec<Cache>,
}

impl Cpu {
    /// Detects the properties of this machine.
    pub fn detect() -> Self {
        Self {
            threads: std::thread::available_parallelism().ok().map(usize::from),
            vector_bits: vector_bits(),
            caches: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
        }
    }

    /// The size in bytes of the data cache (or unified cache) at a level.
    pub fn cache_bytes(&self, level: u32) -> Option<u64> {
        let holds_data = |c: &&Cache| c.level == level && c.kind != "Instruction";
        self.caches.iter().find(holds_data).map(|cache| cache.bytes)
    }

    /// The size in bytes of the cache farthest from the core, if any is known.
    pub fn last_cache_bytes(&self) -> Option<u64> {
        let levels = self.caches.iter().map(|cache| cache.level);
        self.cache_bytes(levels.max()?)
    }
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
fn vector_bits() -> Option<u32> {
    if std::is_x86_feature_detected!("avx512f") {
        Some(512)
    } else if std::is_x86_feature_detected!("avx") {
        Some(256)
    } else if std::is_x86_feature_detected!("sse2") {
        Some(128)
    } else {
        None
    }
}

#[cfg(target_arch = "aarch64")]
fn vector_bits() -> Option<u32> {
    std::arch::is_aarch64_feature_detected!("neon").then_some(128)
}

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
fn vector_bits() -> Option<u32> {
    None
}

/// The caches in a folder of the kernel, nearest first.
fn caches(folder: &Path) -> Vec<Cache> {
    // This is more than any machine has.
    let mut caches: Vec<Cache> = (0..16)
        .map_while(|i| cache(&folder.join(format!("index{i}"))))
        .collect();
    caches.sort_by(|a, b| (a.level, &a.kind).cmp(&(b.level, &b.kind)));
    caches
}

fn cache(folder: &Path) -> Option<Cache> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    Some(Cache {
        level: read("level")?.trim().parse().ok()?,
        kind: read("type")?.trim().to_owned(),
        bytes: size(read("size")?.trim())?,
        line_bytes: read("coherency_line_size").and_then(|text| text.trim().parse().ok()),
    })
}

/// A size such as `48K` or `32M`.
fn size(text: &str) -> Option<u64> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'K' => (text.strip_suffix('K')?, 1 << 10),
        b'M' => (text.strip_suffix('M')?, 1 << 20),
        b'G' => (text.strip_suffix('G')?, 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_caches() {
        assert_eq!(size("48K"), Some(48 << 10));
        assert_eq!(size("32M"), Some(32 << 20));
        assert_eq!(size("512"), Some(512));
        for wrong in ["", "K", "x", "99999999999999999999G", "-1K"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn this_machine() {
        let cpu = Cpu::detect();
        assert_ne!(cpu.threads, Some(0));
        if cpu.caches.is_empty() {
            eprintln!("skipped: no caches are listed here");
        }
        assert!(cpu.caches.iter().all(|cache| cache.bytes > 0));
    }
}
