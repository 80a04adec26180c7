//! The documents of `tegula simulate`: for one simulated core, and for a slice of TPUs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The findings and times of a simulation.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct Simulation {
    /// The chip.
    pub chip: String,
    /// Whether everything has room.
    pub fits: bool,
    /// What is wrong.
    pub findings: Vec<SimulationFinding>,
    /// The checks that were made, and how.
    pub checks: Vec<SimulationCheck>,
    /// Simulated seconds.
    pub seconds: f64,
    /// The unit that limits the speed.
    pub bound: String,
    /// Copies between memories.
    pub copies: u64,
    /// Bytes that they move.
    pub copied_bytes: i64,
    /// Statements that were executed.
    pub steps: u64,
    /// The most bytes of HBM in use at once.
    pub hbm_bytes: i64,
    /// The most bytes of VMEM in use at once.
    pub vmem_peak_bytes: i64,
    /// Bytes of padding in all arrays.
    pub padding_bytes: i64,
    /// Each memory.
    pub spaces: Vec<SimulationSpace>,
    /// Where the time went, by line of the source, the most first.
    pub lines: Vec<SimulationLine>,
    /// Loops of which it is not known how often they run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed_loops: Vec<AssumedLoop>,
    /// What the kernel printed, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub printed: Vec<PrintedText>,
}

/// A text that a kernel printed.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct PrintedText {
    /// The core that printed it, from 0.
    pub core: u64,
    /// The file of the statement's line; empty if it is the one that was read.
    pub file: String,
    /// The statement's line, from 1.
    pub line: u32,
    /// The text, with its values.
    pub text: String,
}

/// Something that is wrong with a kernel.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct SimulationFinding {
    /// Its code: `race`, for example.
    pub code: String,
    /// `error` or `warning`.
    pub severity: String,
    /// The statement.
    pub instruction: String,
    /// Its line, from 1; 0 if it has none.
    pub line: u32,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: String,
    /// How often it was met.
    pub count: u64,
    /// The file of that line, if it is not the one that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// A check.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct SimulationCheck {
    /// The property that was checked.
    pub what: String,
    /// The codes of findings that it makes.
    pub codes: String,
    /// `proved` or `executed`.
    pub how: String,
    /// How much of the program it covers.
    pub extent: String,
}

/// The simulated time of a line of the source.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct SimulationLine {
    /// The file; empty if it is the one that was read.
    pub file: String,
    /// The line, from 1; 0 if there is none.
    pub line: u32,
    /// The unit that is busy, or the event that is waited for.
    pub what: String,
    /// Simulated seconds.
    pub seconds: f64,
}

/// A memory of the chip.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct SimulationSpace {
    /// Its name.
    pub space: String,
    /// The most bytes in use at once.
    pub peak_bytes: i64,
    /// Bytes that it has; null if that is not known.
    pub capacity_bytes: Option<i64>,
}

/// A loop that was taken to run so often.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct AssumedLoop {
    /// Its instruction.
    #[serde(rename = "loop")]
    pub name: String,
    /// How often.
    pub trips: u64,
}

/// How long a program takes on a slice of TPUs.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SliceSimulation {
    /// The chip.
    pub chip: String,
    /// Chips along each axis, as `16x16`.
    pub topology: String,
    /// Devices that run the program.
    pub devices: usize,
    /// Seconds of a step.
    pub seconds: f64,
    /// What most of the time is spent on.
    pub bound_by: String,
    /// Seconds by what they are spent on; their sum is the step.
    pub shares: BTreeMap<String, f64>,
    /// Operations of products that a device does.
    pub flops: f64,
    /// Of the peak of bf16, what these are.
    pub utilisation: f64,
    /// Of the peak of bf16, what the model needs, if `--model-flops` said what that is.
    pub mfu: Option<f64>,
    /// Memory of a device.
    pub memory: SliceMemory,
    /// Collectives by kind.
    pub collectives: Vec<SliceCollectives>,
    /// The links along each axis.
    pub links: Vec<SliceLinks>,
    /// Whether collectives were scheduled, or run as the program says.
    pub scheduled: bool,
    /// Loops of which it is not known how often they run.
    pub assumed_loops: Vec<AssumedLoop>,
    /// Custom calls that are taken for the bytes of their arrays alone, and how many there are.
    pub unknown_calls: BTreeMap<String, usize>,
    /// What is not known of the chip, and what is taken instead.
    pub assumed: Vec<String>,
    /// What happens when. Of a loop the first iteration is listed.
    pub timeline: Vec<SliceEvent>,
}

/// Memory of a device, in bytes.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SliceMemory {
    /// The parameters.
    pub parameters: f64,
    /// The results.
    pub results: f64,
    /// The most that lives at once.
    pub peak: f64,
    /// What there is.
    pub capacity: f64,
    /// Whether the program fits.
    pub fits: bool,
}

/// The collectives of one kind.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SliceCollectives {
    /// Which.
    pub kind: String,
    /// How many there are in a step.
    pub count: f64,
    /// Bytes that a device receives.
    pub bytes: f64,
    /// Seconds on the links, overlapped or not.
    pub seconds: f64,
    /// Of these, seconds of latency.
    pub latency: f64,
}

/// The links along an axis.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SliceLinks {
    /// Chips along it.
    pub chips: usize,
    /// Whether it is a ring.
    pub ring: bool,
    /// The part of the step that it is busy.
    pub busy: f64,
}

/// Something that happens.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SliceEvent {
    /// `core`, or `axis N`.
    pub row: String,
    /// The instruction.
    pub name: String,
    /// What it is.
    pub what: String,
    /// When it begins, in seconds.
    pub start: f64,
    /// How long it takes.
    pub seconds: f64,
    /// How deep in loops it is.
    pub depth: usize,
    /// How often it is done in a step.
    pub times: f64,
}
