//! What a simulation is asked and what it answers.

mod checks;
mod json;
mod merge;

pub use checks::{Check, How};

use crate::engine::{Cause, Engines};
use crate::finding::{Code, Finding};
use crate::program::Space;
use std::collections::BTreeMap;
use tegula_ir::Literal;

/// How to simulate.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether values are computed. Without, memories hold no bytes: everything that
    /// needs no values is checked and timed, a scalar that is loaded has the least value
    /// that is assumed of it, and padding lanes are not followed.
    pub functional: bool,
    /// The parameters' values, by number, for a functional run.
    pub inputs: Vec<Literal>,
    /// The byte that elements beyond an array's edge are filled with where a block has
    /// room for them: nothing that a correct kernel gives depends on it. 255 is a NaN in
    /// every float and -1 in every integer.
    pub fill: u8,
    /// Statements to execute, and as much other work, before giving up.
    pub step_limit: u64,
    /// Bytes of the host that the memories may take in a functional run.
    pub host_bytes: i64,
    /// Whether products of vectors round f32 operands to bf16, as the matrix units do at the
    /// default precision. Operations of HLO say themselves how precise they are.
    pub rounds_products: bool,
    /// Whether accesses without an order are findings, and `parallel` dimensions are run in reverse
    /// order, too.
    pub finds_races: bool,
    /// Whether the report lists what each buffer held when.
    pub record_timeline: bool,
}

/// Statements that are executed before giving up, if nothing else is said: some tens of
/// seconds.
const STEP_LIMIT: u64 = 200_000_000;

impl Default for Options {
    fn default() -> Self {
        Self {
            functional: false,
            inputs: Vec::new(),
            fill: 0xff,
            step_limit: STEP_LIMIT,
            host_bytes: 8 << 30,
            rounds_products: true,
            finds_races: true,
            record_timeline: true,
        }
    }
}

/// A buffer's place in memory, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Occupancy {
    /// The buffer's name.
    pub buffer: String,
    /// Its memory.
    pub space: Space,
    /// Its first byte.
    pub offset: i64,
    /// Its bytes, padding included.
    pub bytes: i64,
    /// When its life began, in seconds.
    pub from: f64,
    /// When it ended.
    pub to: f64,
}

/// Why an offset is aligned for all values of the variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlignmentProof {
    /// The statement's line.
    pub line: u32,
    /// The array, and which of its dimensions.
    pub place: (String, usize),
    /// Elements of a tile along it.
    pub tile: i64,
    /// The offset, as it is written.
    pub offset: String,
    /// The proof, one step a line.
    pub proof: String,
}

/// How the alignment of offsets was settled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlignmentProofs {
    /// Offsets whose alignment was proved for all values of the variables.
    pub proved: usize,
    /// Offsets for which it was not; each is a finding.
    pub failed: usize,
    /// The first proofs, different ones only.
    pub shown: Vec<AlignmentProof>,
}

/// The most of a memory that was held at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceUse {
    /// The memory.
    pub space: Space,
    /// The most bytes that were held at once, padding included.
    pub peak_bytes: i64,
    /// The greatest byte that was held.
    pub extent_bytes: i64,
    /// The most bytes that lay free below one that was held.
    pub fragmented_bytes: i64,
    /// What the chip has, if that is known.
    pub capacity_bytes: Option<i64>,
}

/// A text that the program printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintedText {
    /// The core that printed it.
    pub core: usize,
    /// The statement's line.
    pub line: u32,
    /// The text, with its values.
    pub text: String,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The chip's name.
    pub chip: String,
    /// What is wrong, by line.
    pub findings: Vec<Finding>,
    /// Whether every memory has room: no finding of a capacity.
    pub fits: bool,
    /// How long it takes on the chip.
    pub seconds: f64,
    /// The results, by number; none if no values were computed.
    pub results: Vec<Literal>,
    /// Whether values were computed; they are not where the program does not fit.
    pub functional: bool,
    /// The most bytes of HBM that were held at once.
    pub hbm_bytes: i64,
    /// The most bytes of VMEM that were held at once.
    pub vmem_peak_bytes: i64,
    /// Padding of all buffers together, in bytes.
    pub padding_bytes: i64,
    /// Each memory that the program uses.
    pub spaces: Vec<SpaceUse>,
    /// The most bytes of scoped VMEM that were held at once.
    pub scoped_vmem_peak_bytes: i64,
    /// Each buffer's place and time, if that was asked for.
    pub occupancy: Vec<Occupancy>,
    /// How the alignment of dynamic offsets was settled.
    pub alignment: AlignmentProofs,
    /// What the program printed, in order: the first texts, if there are many. Nothing if no values
    /// were computed.
    pub printed: Vec<PrintedText>,
    /// Whether `parallel` dimensions were also run in reverse order.
    pub free_order: bool,
    /// Statements that were executed.
    pub steps: u64,
    /// Copies that were begun.
    pub copies: u64,
    /// The physical bytes that they moved.
    pub copied_bytes: i64,
    /// The engines at the end: where the time went, and the timeline if it was recorded.
    pub engines: Engines,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// What most of the core's time went to.
    pub fn bound(&self) -> &'static str {
        let mut by_what = BTreeMap::<&str, f64>::new();
        for (_, cause, seconds) in self.engines.causes() {
            let what = match cause {
                Cause::Compute(engine) | Cause::Copy { engine, .. } => engine.name(),
                Cause::Launch => "the start of kernels",
                Cause::Issue => "the steps of loops",
                Cause::Core => "other cores",
            };
            *by_what.entry(what).or_default() += seconds;
        }
        let most = by_what.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        most.map_or("nothing", |(what, _)| what)
    }

    /// How often a code was found, place by place.
    pub fn count(&self, code: Code) -> usize {
        self.findings.iter().filter(|f| f.code == code).count()
    }
}

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The program contradicts itself.
    #[error("line {line}: {message}")]
    Program {
        /// The statement's line.
        line: u32,
        /// What is wrong.
        message: String,
    },
    /// The program is right, but the simulator cannot compute one of its values.
    #[error("line {line}: {message}")]
    Unsupported {
        /// The statement's line.
        line: u32,
        /// What it cannot compute.
        message: String,
    },
    /// The evaluator has no value for an operation: its operands are not what it takes, or it is
    /// not supported.
    #[error("line {line}: {reason}")]
    Evaluation {
        /// The statement's line.
        line: u32,
        /// Why.
        reason: tegula_interp::Error,
    },
    /// The inputs are not what the program takes.
    #[error("{0}")]
    Inputs(String),
    /// The simulation takes more than it was given.
    #[error("line {line}: {message}")]
    Limit {
        /// Where it stopped.
        line: u32,
        /// Which limit.
        message: String,
    },
    /// A limit of the run was exceeded, or it was interrupted.
    #[error("line {line}: {reason}")]
    Stopped {
        /// The line of the statement that was executed.
        line: u32,
        /// Why.
        reason: tegula_limits::Stopped,
    },
}

impl Error {
    /// The statement's line and what is wrong there, where it is about one.
    pub fn at_line(&self) -> Option<(u32, String)> {
        match self {
            Self::Program { line, message }
            | Self::Unsupported { line, message }
            | Self::Limit { line, message } => Some((*line, message.clone())),
            Self::Evaluation { line, reason } => Some((*line, reason.to_string())),
            Self::Inputs(_) | Self::Stopped { .. } => None,
        }
    }
}

/// Bytes as a person reads them.
pub fn bytes_text(count: i64) -> String {
    const UNITS: [(&str, i64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (unit, size) in UNITS {
        if count >= size {
            let value = format!("{:.2}", count as f64 / size as f64);
            let value = value.trim_end_matches('0').trim_end_matches('.');
            return format!("{value} {unit}");
        }
    }
    format!("{count} B")
}

/// Seconds as a person reads them, to three digits.
pub fn seconds_text(seconds: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("s", 1.0), ("ms", 1e-3), ("\u{b5}s", 1e-6), ("ns", 1e-9)];
    if seconds.abs() >= 1e7 {
        return format!("{seconds:.2e} s");
    }
    let fits = UNITS
        .iter()
        .find(|(_, scale)| seconds.abs() >= scale * 0.9995);
    let (unit, scale) = fits.copied().unwrap_or(UNITS[3]);
    let value = seconds / scale;
    let digits = match value.abs() {
        x if x < 9.995 => 2,
        x if x < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}
