//! The result of a simulation.

use crate::CollectiveKind;
use std::collections::BTreeMap;

/// The causes of a program's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Share {
    /// Matrix products: kernels whose slowest unit is the matrix units.
    Products,
    /// Elementwise operations: kernels whose slowest unit is the vector units.
    Vector,
    /// Memory: kernels that are limited by HBM.
    Hbm,
    /// The overhead of kernels besides their work.
    Starts,
    /// Waiting for collectives.
    Links,
}

impl Share {
    /// All causes.
    pub const ALL: [Self; 5] = [
        Self::Products,
        Self::Vector,
        Self::Hbm,
        Self::Starts,
        Self::Links,
    ];

    /// The name, as in "bound by products".
    pub const fn name(self) -> &'static str {
        match self {
            Self::Products => "products",
            Self::Vector => "operations on elements",
            Self::Hbm => "HBM",
            Self::Starts => "starts of kernels",
            Self::Links => "links",
        }
    }
}

/// The memory of a device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// The size of the parameters.
    pub parameters: f64,
    /// The size of the results.
    pub results: f64,
    /// The peak size, including the parameters.
    pub peak: f64,
    /// The size of the memory.
    pub capacity: f64,
}

impl Memory {
    /// Whether the program fits into the memory.
    pub fn fits(&self) -> bool {
        self.peak <= self.capacity
    }
}

/// The total time of all collectives of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CollectiveTime {
    /// The number of executions in a step.
    pub count: f64,
    /// The bytes that a device receives.
    pub bytes: f64,
    /// The time on the links in seconds, overlapped or not.
    pub seconds: f64,
    /// The part of the time that is latency, in seconds.
    pub latency: f64,
}

/// A row of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Row {
    /// The core.
    Core,
    /// The links along an axis.
    Axis(usize),
}

/// An event of the timeline. For loops, the first iteration is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The row.
    pub row: Row,
    /// The instruction.
    pub name: String,
    /// The kind: the name of a share or of a collective, or `loop`.
    pub what: &'static str,
    /// The start, in seconds.
    pub start: f64,
    /// The duration, in seconds.
    pub seconds: f64,
    /// The nesting depth in loops.
    pub depth: usize,
    /// The total number of repetitions.
    pub times: f64,
}

/// The result of a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The chip.
    pub chip: String,
    /// The slice's topology, such as `16x16`.
    pub topology: String,
    /// The number of devices that run the program.
    pub devices: usize,
    /// The time of a step, in seconds.
    pub seconds: f64,
    /// The time by causes, in seconds; the sum is the time of a step.
    pub shares: BTreeMap<Share, f64>,
    /// The number of operations in a device's matrix products.
    pub flops: f64,
    /// The rate of these operations, as a fraction of the peak.
    pub utilisation: f64,
    /// The operations that the model requires, as a fraction of the peak, if they were given.
    pub model_utilisation: Option<f64>,
    /// The memory of a device.
    pub memory: Memory,
    /// The collectives, by kind.
    pub collectives: BTreeMap<CollectiveKind, CollectiveTime>,
    /// For each axis, the fraction of the step during which its links are busy.
    pub busy: Vec<f64>,
    /// For each axis of the torus, the number of chips and whether it is a ring.
    pub axes: Vec<(usize, bool)>,
    /// Whether collectives are scheduled, rather than run as the program says.
    pub scheduled: bool,
    /// Loops whose trip counts are unknown, with the assumed counts.
    pub assumed_loops: Vec<(String, u64)>,
    /// Custom calls of unknown cost, which are charged only for the bytes of their arrays.
    pub unknown_calls: BTreeMap<String, usize>,
    /// Assumptions about the chip where facts are unknown.
    pub assumed: Vec<String>,
    /// The events of the timeline.
    pub timeline: Vec<Event>,
}

impl Report {
    /// The cause of the largest part of the time.
    pub fn bound_by(&self) -> Share {
        let mut shares = self.shares.iter();
        let first = shares.next().map(|(share, seconds)| (*share, *seconds));
        let most = shares.fold(first, |most, (&share, &seconds)| match most {
            Some((_, highest)) if highest >= seconds => most,
            _ => Some((share, seconds)),
        });
        most.map_or(Share::Starts, |(share, _)| share)
    }
}
