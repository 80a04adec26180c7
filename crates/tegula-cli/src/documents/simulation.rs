//! The documents of `tegula simulate`: for one simulated core, and for a slice of TPUs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The findings and times of a simulation.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct Simulation {
    /// The chip's name.
    pub chip: String,
    /// Whether all buffers fit in their memories.
    pub fits: bool,
    /// The errors and warnings.
    pub findings: Vec<SimulationFinding>,
    /// The checks that were made, and how.
    pub checks: Vec<SimulationCheck>,
    /// The simulated time in seconds.
    pub seconds: f64,
    /// The unit that limits the speed.
    pub bound: String,
    /// The number of copies between memories.
    pub copies: u64,
    /// The bytes that these copies move.
    pub copied_bytes: i64,
    /// The number of statements that were executed.
    pub steps: u64,
    /// The most bytes of HBM in use at once.
    pub hbm_bytes: i64,
    /// The most bytes of VMEM in use at once.
    pub vmem_peak_bytes: i64,
    /// The bytes of padding in all arrays.
    pub padding_bytes: i64,
    /// The chip's memories.
    pub spaces: Vec<SimulationSpace>,
    /// The simulated time of each line of the source, the slowest first.
    pub lines: Vec<SimulationLine>,
    /// The loops whose trip count is unknown, with the count that was assumed.
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
    /// The source file of the statement; empty if it is the file that was read.
    pub file: String,
    /// The statement's line, from 1.
    pub line: u32,
    /// The printed text.
    pub text: String,
}

/// An error or a warning about a kernel.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct SimulationFinding {
    /// Its code, for example `race`.
    pub code: String,
    /// `error` or `warning`.
    pub severity: String,
    /// The statement.
    pub instruction: String,
    /// The statement's line, from 1; 0 if it has none.
    pub line: u32,
    /// The message.
    pub message: String,
    /// How to fix it.
    pub help: String,
    /// How often it occurred.
    pub count: u64,
    /// The source file of the statement, if it is not the file that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// A check of a kernel.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct SimulationCheck {
    /// The property that was checked.
    pub what: String,
    /// The codes of the findings that it can report.
    pub codes: String,
    /// `proved` for all inputs, or `executed`: checked in this run.
    pub how: String,
    /// How much of the program it covered.
    pub extent: String,
}

/// The simulated time of a line of the source.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct SimulationLine {
    /// The source file; empty if it is the file that was read.
    pub file: String,
    /// The line, from 1; 0 if there is none.
    pub line: u32,
    /// The unit that is busy, or the event that is waited for.
    pub what: String,
    /// The simulated time in seconds.
    pub seconds: f64,
}

/// A memory of the chip.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct SimulationSpace {
    /// Its name.
    pub space: String,
    /// The most bytes in use at once.
    pub peak_bytes: i64,
    /// Its size in bytes; null if that is unknown.
    pub capacity_bytes: Option<i64>,
}

/// A loop whose trip count is unknown, and was assumed.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct AssumedLoop {
    /// The loop's instruction.
    #[serde(rename = "loop")]
    pub name: String,
    /// The number of iterations that was assumed.
    pub trips: u64,
}

/// How long a program takes on a slice of TPUs.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SliceSimulation {
    /// The chip's name.
    pub chip: String,
    /// The number of chips along each axis, for example `16x16`.
    pub topology: String,
    /// The number of devices that run the program.
    pub devices: usize,
    /// The time of a step in seconds.
    pub seconds: f64,
    /// What most of the time is spent on.
    pub bound_by: String,
    /// The seconds spent on each cause. They add up to the step.
    pub shares: BTreeMap<String, f64>,
    /// The floating-point operations of a device's matrix products.
    pub flops: f64,
    /// These operations as a fraction of the bf16 peak, from 0 to 1.
    pub utilisation: f64,
    /// The model FLOPs utilisation: the operations given by `--model-flops` as a fraction of the bf16
    /// peak; null without that option.
    pub mfu: Option<f64>,
    /// The memory of a device.
    pub memory: SliceMemory,
    /// The collectives of each kind.
    pub collectives: Vec<SliceCollectives>,
    /// The links along each axis.
    pub links: Vec<SliceLinks>,
    /// Whether collectives were scheduled to overlap, rather than run as the program states.
    pub scheduled: bool,
    /// The loops whose trip count is unknown, with the count that was assumed.
    pub assumed_loops: Vec<AssumedLoop>,
    /// The custom calls with unknown work, and how many there are of each. Their time is estimated
    /// from the bytes of their arrays alone.
    pub unknown_calls: BTreeMap<String, usize>,
    /// What is unknown about the chip, and what was assumed instead.
    pub assumed: Vec<String>,
    /// The events of a step. Of a loop, only the first iteration is listed.
    pub timeline: Vec<SliceEvent>,
}

/// The memory of a device, in bytes.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SliceMemory {
    /// The bytes of the parameters.
    pub parameters: f64,
    /// The bytes of the results.
    pub results: f64,
    /// The most bytes that are live at once.
    pub peak: f64,
    /// The bytes that the device has.
    pub capacity: f64,
    /// Whether the program fits.
    pub fits: bool,
}

/// The collectives of one kind.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SliceCollectives {
    /// The kind, for example `all-gather`.
    pub kind: String,
    /// The number of them in a step.
    pub count: f64,
    /// The bytes that a device receives.
    pub bytes: f64,
    /// The time on the links in seconds, whether it overlaps with computation or not.
    pub seconds: f64,
    /// The part of that time that is latency, in seconds.
    pub latency: f64,
}

/// The links along an axis.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SliceLinks {
    /// The number of chips along the axis.
    pub chips: usize,
    /// Whether the links form a ring.
    pub ring: bool,
    /// The fraction of the step during which the links are busy, from 0 to 1.
    pub busy: f64,
}

/// A kernel or a collective at its time.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SliceEvent {
    /// Where it runs: `core` for the core, `axis N` for the links of an axis.
    pub row: String,
    /// The instruction's name.
    pub name: String,
    /// A description of the work.
    pub what: String,
    /// The time at which it begins, in seconds.
    pub start: f64,
    /// Its duration in seconds.
    pub seconds: f64,
    /// The number of loops around it.
    pub depth: usize,
    /// The number of times that it runs in a step.
    pub times: f64,
}
