//! The options of a simulation, and its report.

mod checks;
mod json;
mod merge;

pub use checks::{Check, How};

use crate::engine::{Cause, Engines};
use crate::finding::{Code, Finding};
use crate::program::Space;
use std::collections::BTreeMap;
use tegula_ir::Literal;

/// The options of a simulation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether values are computed. Without values, memories hold no bytes: all checks that need no
    /// values are made and the time is counted, a loaded scalar has the least value of its assumed
    /// range, and padding is not followed.
    pub functional: bool,
    /// The parameters' values, by number, for a functional run.
    pub inputs: Vec<Literal>,
    /// The byte that fills elements beyond an array's edge where a block has room for them; no
    /// result of a correct kernel depends on it. 255 is a NaN in every float type and -1 in every
    /// integer type.
    pub fill: u8,
    /// The most statements, and equivalent other work, that are executed before the simulation
    /// stops.
    pub step_limit: u64,
    /// The most bytes of host memory that the simulated memories may take in a functional run.
    pub host_bytes: i64,
    /// Whether vector products round f32 operands to bf16, as the matrix units do at the default
    /// precision. HLO operations state their own precision.
    pub rounds_products: bool,
    /// Whether unordered accesses are findings, and `parallel` dimensions are also run in reverse
    /// order.
    pub finds_races: bool,
    /// Whether the report keeps the engines' timeline and which buffer held which bytes when.
    pub record_timeline: bool,
}

/// The default of [`Options::step_limit`]: some tens of seconds.
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

/// A buffer's place in memory during one life.
#[derive(Clone, Debug, PartialEq)]
pub struct Occupancy {
    /// The buffer's name.
    pub buffer: String,
    /// The memory that holds it.
    pub space: Space,
    /// The offset of its first byte.
    pub offset: i64,
    /// Its size in bytes, padding included.
    pub bytes: i64,
    /// Beginning of its life, in seconds.
    pub from: f64,
    /// End of its life, in seconds.
    pub to: f64,
}

/// The proof that an offset is aligned for all values of the variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlignmentProof {
    /// The statement's line.
    pub line: u32,
    /// The array's name, and the number of the dimension.
    pub place: (String, usize),
    /// The tile's size along the dimension, in elements.
    pub tile: i64,
    /// The offset as the program writes it.
    pub offset: String,
    /// The proof, one step on each line.
    pub proof: String,
}

/// The results of the alignment proofs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlignmentProofs {
    /// The number of offsets whose alignment was proved for all values of the variables.
    pub proved: usize,
    /// The number of offsets whose alignment was not proved; each is a finding.
    pub failed: usize,
    /// The first proofs, without duplicates.
    pub shown: Vec<AlignmentProof>,
}

/// The greatest use of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceUse {
    /// The memory.
    pub space: Space,
    /// The most bytes that were held at once, padding included.
    pub peak_bytes: i64,
    /// The greatest end of a buffer's bytes.
    pub extent_bytes: i64,
    /// The most bytes that were free below the last used one.
    pub fragmented_bytes: i64,
    /// The capacity of the chip's memory in bytes, if it is known.
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

/// The result of a simulation.
#[derive(Clone, Debug)]
pub struct Report {
    /// The chip's name.
    pub chip: String,
    /// The findings, by line.
    pub findings: Vec<Finding>,
    /// Whether every buffer has room: there is no finding about a capacity.
    pub fits: bool,
    /// The time on the chip, in seconds.
    pub seconds: f64,
    /// The results by number; empty if no values were computed.
    pub results: Vec<Literal>,
    /// Whether values were computed; they are not if the program does not fit.
    pub functional: bool,
    /// The most bytes of HBM that were held at once.
    pub hbm_bytes: i64,
    /// The most bytes of VMEM that were held at once.
    pub vmem_peak_bytes: i64,
    /// The padding of all buffers together, in bytes.
    pub padding_bytes: i64,
    /// The use of each memory of the program.
    pub spaces: Vec<SpaceUse>,
    /// The most bytes of scoped VMEM that were held at once.
    pub scoped_vmem_peak_bytes: i64,
    /// Each buffer's place and lifetime, if the options asked for it.
    pub occupancy: Vec<Occupancy>,
    /// The results of the alignment proofs.
    pub alignment: AlignmentProofs,
    /// The texts that the program printed, in order; only the first ones if there are many, and
    /// none if no values were computed.
    pub printed: Vec<PrintedText>,
    /// Whether `parallel` dimensions were also run in reverse order.
    pub free_order: bool,
    /// The number of statements executed.
    pub steps: u64,
    /// The number of copies started.
    pub copies: u64,
    /// The physical bytes that the copies moved.
    pub copied_bytes: i64,
    /// The engines at the end of the run: where the time went, and the timeline if it was recorded.
    pub engines: Engines,
}

impl Report {
    /// Whether there are no findings.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// The kind of work or wait that took most of the core's time.
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

    /// The number of places with a finding of a code.
    pub fn count(&self, code: Code) -> usize {
        self.findings.iter().filter(|f| f.code == code).count()
    }
}

/// The reason why there is no report.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The program is inconsistent.
    #[error("line {line}: {message}")]
    Program {
        /// The statement's line.
        line: u32,
        /// What is wrong.
        message: String,
    },
    /// The program is valid, but the simulator cannot compute one of its values.
    #[error("line {line}: {message}")]
    Unsupported {
        /// The statement's line.
        line: u32,
        /// What cannot be computed.
        message: String,
    },
    /// The evaluator cannot evaluate an operation: its operands do not fit it, or it is not
    /// supported.
    #[error("line {line}: {reason}")]
    Evaluation {
        /// The statement's line.
        line: u32,
        /// The evaluator's error.
        reason: tegula_interp::Error,
    },
    /// The inputs do not match the program's parameters.
    #[error("{0}")]
    Inputs(String),
    /// The simulation exceeds one of its limits.
    #[error("line {line}: {message}")]
    Limit {
        /// The line where it stopped.
        line: u32,
        /// The limit that was exceeded.
        message: String,
    },
    /// A limit of the process was exceeded, or the run was interrupted.
    #[error("line {line}: {reason}")]
    Stopped {
        /// The line of the statement that was executed.
        line: u32,
        /// The reason.
        reason: tegula_limits::Stopped,
    },
}

impl Error {
    /// The statement's line and the message, if the error is about a statement.
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

/// A number of bytes in a readable unit.
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

/// A time in a readable unit, with three digits.
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
