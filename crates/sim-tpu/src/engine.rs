//! The clock of a core. Statements take their time in order; copies run beside them
//! and share the bandwidth of their direction; waiting for one is a stall that is
//! charged to it.

use crate::program::Space;

/// A copy that was begun, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub usize);

/// What a copy moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// From this memory.
    pub from: Space,
    /// To this one.
    pub to: Space,
    /// Physical bytes, padding that travels included.
    pub bytes: i64,
}

/// What the units of the core have to do for one computation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Cycles of the matrix units, all of them together.
    pub matrix: f64,
    /// Cycles of the vector unit.
    pub vector: f64,
    /// Cycles of loads from and stores to VMEM.
    pub memory: f64,
    /// Cycles of the cross-lane units.
    pub cross_lane: f64,
}

/// The engines of one core and the time that each has reached.
#[derive(Clone, Debug, Default)]
pub struct Engines {
    now: f64,
    done: Vec<f64>,
}

impl Engines {
    /// The time that the core has reached, in seconds.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// Begins a copy for the statement of a line.
    pub fn start(&mut self, _transfer: &Transfer, _line: u32) -> TransferId {
        self.done.push(self.now);
        TransferId(self.done.len() - 1)
    }

    /// Waits for a copy.
    pub fn wait(&mut self, transfer: TransferId, _line: u32) {
        let done = self.done.get(transfer.0).copied().unwrap_or(self.now);
        self.now = self.now.max(done);
    }

    /// Computes.
    pub fn compute(&mut self, _work: &Work, _line: u32) {}
}
