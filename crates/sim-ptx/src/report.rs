//! What a launch tells: findings, and statistics of its memory accesses.

use std::fmt;

/// What a finding is about. The names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// Two threads access the same bytes, one writes, and nothing orders them.
    Race,
    /// Threads of a warp or block do not all come to a barrier.
    BarrierDivergence,
    /// Threads wait for ever.
    Deadlock,
    /// A collective of a warp names lanes that do not take part, or reads from them.
    WarpMask,
    /// Shared memory is read before it was written.
    UninitialisedShared,
    /// Global memory is read before it was written.
    UninitialisedGlobal,
    /// Asynchronously copied bytes are read before the copy was waited for.
    PendingCopy,
    /// An access outside every allocation, or the wrong space.
    OutOfBounds,
    /// An address that is no multiple of the access's size.
    Misaligned,
    /// `trap`, or a failed `assert`.
    Trap,
    /// Shared-memory accesses take at least twice the wavefronts that they need.
    BankConflict,
    /// Global accesses touch at least twice the sectors that their bytes fill.
    PartialSectors,
}

impl FindingKind {
    /// Its stable name.
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

    /// Whether it makes the program wrong, and not only slow.
    #[must_use]
    pub fn is_error(self) -> bool {
        !matches!(self, Self::BankConflict | Self::PartialSectors)
    }
}

/// A line of the program, in PTX and, where the PTX says so, in its source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// Line of the PTX text, from 1.
    pub line: u32,
    /// File and line of the source.
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

/// Something wrong or slow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub kind: FindingKind,
    /// The instruction.
    pub location: Location,
    /// The other instruction of a race.
    pub other: Option<Location>,
    /// The block in which it was found first.
    pub block: [u32; 3],
    /// The threads of the first occurrence, by their index in the block.
    pub threads: Vec<[u32; 3]>,
    /// What happened and what to do.
    pub message: String,
    /// How often it happened.
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

/// What one memory instruction did in a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessStatistics {
    /// The instruction.
    pub location: Location,
    /// `global`, `shared` or `local`.
    pub space: &'static str,
    /// Whether it writes (atomics do).
    pub writes: bool,
    /// Executions by a warp with at least one active lane.
    pub requests: u64,
    /// Bytes asked for by all lanes, with those that several ask for counted once per request.
    pub bytes: u64,
    /// 32-byte sectors touched by the requests.
    pub sectors: u64,
    /// Sectors that the bytes would fill if they were dense and aligned.
    pub minimum_sectors: u64,
    /// Wavefronts in shared memory.
    pub wavefronts: u64,
    /// Wavefronts without bank conflicts.
    pub minimum_wavefronts: u64,
}

/// Statistics of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Per memory instruction that was executed, in the order of the PTX.
    pub accesses: Vec<AccessStatistics>,
    /// Barriers of blocks that were passed.
    pub barriers: u64,
    /// Branches at which a warp split.
    pub divergent_branches: u64,
}

/// The outcome of a launch that ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What was found, each place once, in the order of finding.
    pub findings: Vec<Finding>,
    /// What the memory instructions did.
    pub statistics: Statistics,
    /// Instructions executed by warps.
    pub instructions: u64,
    /// The same, counted once for each active lane.
    pub lane_instructions: u64,
}

impl Report {
    /// The findings that make the program wrong.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| f.kind.is_error())
    }
}
