//! What a simulation found.

use crate::CollectiveKind;
use std::collections::BTreeMap;

/// What a program's time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Share {
    /// Products: the matrix units are the slowest of a kernel.
    Products,
    /// Operations on elements: the vector units are.
    Vector,
    /// Arrays from and to HBM are.
    Hbm,
    /// What a kernel takes besides its work.
    Starts,
    /// Waiting for links.
    Links,
}

impl Share {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Products,
        Self::Vector,
        Self::Hbm,
        Self::Starts,
        Self::Links,
    ];

    /// Its name, as in "bound by products".
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

/// Memory of a device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// The parameters.
    pub parameters: f64,
    /// The results.
    pub results: f64,
    /// The most that lives at once, parameters among it.
    pub peak: f64,
    /// What there is.
    pub capacity: f64,
}

impl Memory {
    /// Whether the program fits.
    pub fn fits(&self) -> bool {
        self.peak <= self.capacity
    }
}

/// The collectives of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CollectiveTime {
    /// How often they are done in a step.
    pub count: f64,
    /// Bytes that a device receives.
    pub bytes: f64,
    /// Seconds on the links, overlapped or not.
    pub seconds: f64,
    /// Of these, seconds of latency.
    pub latency: f64,
}

/// Where an event of the timeline is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Row {
    /// The core.
    Core,
    /// The links along an axis.
    Axis(usize),
}

/// An event of the timeline. Of a loop the first iteration is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Where.
    pub row: Row,
    /// The instruction.
    pub name: String,
    /// What it is: a share's name, a collective's, or `loop`.
    pub what: &'static str,
    /// When it begins, in seconds.
    pub start: f64,
    /// How long it takes.
    pub seconds: f64,
    /// How deep in loops it is.
    pub depth: usize,
    /// How often it is repeated in all.
    pub times: f64,
}

/// What a simulation found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The chip.
    pub chip: String,
    /// The slice, as `16x16`.
    pub topology: String,
    /// Devices that run the program.
    pub devices: usize,
    /// Seconds of a step.
    pub seconds: f64,
    /// The seconds by what they are spent on; their sum is the step.
    pub shares: BTreeMap<Share, f64>,
    /// Operations of products that a device does.
    pub flops: f64,
    /// Of the peak, what these are.
    pub utilisation: f64,
    /// Of the peak, what the model needs, if that was given.
    pub model_utilisation: Option<f64>,
    /// Memory of a device.
    pub memory: Memory,
    /// By kind, the collectives.
    pub collectives: BTreeMap<CollectiveKind, CollectiveTime>,
    /// For each axis, the part of the step that its links are busy.
    pub busy: Vec<f64>,
    /// For each axis of the torus: its chips, and whether it is a ring.
    pub axes: Vec<(usize, bool)>,
    /// Whether collectives are scheduled, or run as the program says.
    pub scheduled: bool,
    /// Loops whose number of iterations is not known, and what is taken for it.
    pub assumed_loops: Vec<(String, u64)>,
    /// Custom calls that are taken for the bytes of their arrays alone.
    pub unknown_calls: BTreeMap<String, usize>,
    /// What is not known of the chip, and what is taken instead.
    pub assumed: Vec<String>,
    /// What happens when.
    pub timeline: Vec<Event>,
}

impl Report {
    /// What most of the time is spent on.
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
