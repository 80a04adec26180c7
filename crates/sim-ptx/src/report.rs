//! The report of a launch: findings, and statistics of memory accesses.

use std::fmt;

/// The kind of a finding. The names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// Two threads access the same bytes, at least one writes, and nothing orders the accesses.
    Race,
    /// Not all threads of a warp or block reach a barrier.
    BarrierDivergence,
    /// Threads wait forever.
    Deadlock,
    /// A warp collective names lanes that do not take part, or reads from such lanes.
    WarpMask,
    /// Uninitialised shared memory is read.
    UninitialisedShared,
    /// Uninitialised global memory is read.
    UninitialisedGlobal,
    /// Bytes of an asynchronous copy are read before the copy was waited for.
    PendingCopy,
    /// An access outside of all allocations, or in the wrong state space.
    OutOfBounds,
    /// An address that is not a multiple of the access size.
    Misaligned,
    /// `trap`, or a failed `assert`.
    Trap,
    /// Shared-memory accesses take at least twice as many wavefronts as necessary.
    BankConflict,
    /// Global accesses touch at least twice as many sectors as their bytes fill.
    PartialSectors,
}

impl FindingKind {
    /// The stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Race => "race",
            Self::BarrierDivergence => "barrier-divergence",
            Self::Deadlock => "deadlock",
            Self::WarpMask => "warp-mask",
            Self::UninitialisedShared => "uninitialised-shared",
            Self::UninitialisedGlobal => "uninitialised-global",
            Self::PendingCopy => "pending-copy",
            Self::OutOfBounds => "out-of-bounds",
            Self::Misaligned => "misaligned",
            Self::Trap => "trap",
            Self::BankConflict => "bank-conflict",
            Self::PartialSectors => "partial-sectors",
        }
    }

    /// Whether the program is wrong, rather than only slow.
    #[must_use]
    pub fn is_error(self) -> bool {
        !matches!(self, Self::BankConflict | Self::PartialSectors)
    }
}

/// A position in the PTX and, if the PTX states it, in the original source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The line of the PTX text, from 1.
    pub line: u32,
    /// The file and the line of the source.
    pub source: Option<(String, u32)>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some((file, line)) => write!(f, "{file}:{line} (PTX line {})", self.line),
            None => write!(f, "PTX line {}", self.line),
        }
    }
}

/// A problem in a program: an error, or an inefficient access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind.
    pub kind: FindingKind,
    /// The instruction.
    pub location: Location,
    /// The other instruction of a race.
    pub other: Option<Location>,
    /// The block of the first occurrence.
    pub block: [u32; 3],
    /// The threads of the first occurrence, by their indices in the block.
    pub threads: Vec<[u32; 3]>,
    /// A description of the problem, and advice.
    pub message: String,
    /// The number of occurrences.
    pub occurrences: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.block;
        write!(
            f,
            "{}: {}, block ({x}, {y}, {z})",
            self.kind.name(),
            self.location
        )?;
        for [x, y, z] in self.threads.iter().take(4) {
            write!(f, ", thread ({x}, {y}, {z})")?;
        }
        write!(f, ": {}", self.message)?;
        if self.occurrences > 1 {
            write!(f, " ({} times)", self.occurrences)?;
        }
        Ok(())
    }
}

/// The statistics of a memory instruction in a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessStatistics {
    /// The instruction.
    pub location: Location,
    /// `global`, `shared` or `local`.
    pub space: &'static str,
    /// Whether the instruction writes (atomics do).
    pub writes: bool,
    /// The number of executions by a warp with at least one active lane.
    pub requests: u64,
    /// The number of bytes that all lanes request; bytes that several lanes request count once per
    /// request.
    pub bytes: u64,
    /// The number of 32-byte sectors that the requests touch.
    pub sectors: u64,
    /// The number of sectors that the bytes would fill if they were dense and aligned.
    pub minimum_sectors: u64,
    /// The number of wavefronts in shared memory.
    pub wavefronts: u64,
    /// The number of wavefronts without bank conflicts.
    pub minimum_wavefronts: u64,
}

/// Statistics of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The statistics of each executed memory instruction, in the order of the PTX.
    pub accesses: Vec<AccessStatistics>,
    /// The number of completed block barriers.
    pub barriers: u64,
    /// The number of branches at which a warp diverged.
    pub divergent_branches: u64,
}

/// The result of a completed launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The findings, one for each place, in the order in which they occurred.
    pub findings: Vec<Finding>,
    /// The statistics of memory accesses.
    pub statistics: Statistics,
    /// The number of instructions executed by warps.
    pub instructions: u64,
    /// The number of instructions, counted once for each active lane.
    pub lane_instructions: u64,
}

impl Report {
    /// The findings that are errors.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| f.kind.is_error())
    }
}
