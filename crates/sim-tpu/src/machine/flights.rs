//! Copies in flight: started and not yet waited for.

use super::clock::Clock;
use crate::engine::TransferId;
use crate::memory::region::Region;
use crate::program::{BufferId, SemaphoreId, Statement};
use rustc_hash::FxHashMap;

/// A copy in flight.
pub(super) struct Flight<'p> {
    pub(super) transfer: TransferId,
    pub(super) source: (BufferId, Region),
    pub(super) destination: (BufferId, Region),
    pub(super) semaphore: (SemaphoreId, i64),
    pub(super) line: u32,
    pub(super) statement: &'p Statement,
    /// Physical bytes that no wait has covered yet.
    pub(super) bytes: i64,
    /// The first wait for a part of its bytes, if there was one.
    pub(super) partly: Option<PartlyWaited<'p>>,
    /// Whether it only reads: it sends to another core, which records the write.
    pub(super) sends: bool,
    /// For a copy that another core started: that core and its clock at the start.
    pub(super) sender: Option<(usize, Clock)>,
}

/// A wait for a part of a copy's bytes.
#[derive(Clone, Copy)]
pub(super) struct PartlyWaited<'p> {
    pub(super) line: u32,
    pub(super) statement: &'p Statement,
    /// Bytes that it waits for.
    pub(super) wanted: i64,
    /// Bytes of the copy that were left before it.
    pub(super) bytes: i64,
}

/// All copies in flight, by number.
#[derive(Default)]
pub(super) struct Flights<'p> {
    flying: FxHashMap<usize, Flight<'p>>,
    by_buffer: FxHashMap<BufferId, Vec<usize>>,
    next: usize,
}

impl<'p> Flights<'p> {
    pub(super) fn len(&self) -> usize {
        self.flying.len()
    }

    pub(super) fn add(&mut self, flight: Flight<'p>) -> usize {
        let number = self.next;
        self.next += 1;
        for buffer in flight.buffers() {
            self.by_buffer.entry(buffer).or_default().push(number);
        }
        self.flying.insert(number, flight);
        number
    }

    pub(super) fn get(&self, number: usize) -> Option<&Flight<'p>> {
        self.flying.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Flight<'p>> {
        self.flying.get_mut(&number)
    }

    /// Removes a copy that was waited for.
    pub(super) fn land(&mut self, number: usize) -> Option<Flight<'p>> {
        let flight = self.flying.remove(&number)?;
        for buffer in flight.buffers() {
            if let Some(numbers) = self.by_buffer.get_mut(&buffer) {
                numbers.retain(|&n| n != number);
            }
        }
        Some(flight)
    }

    /// The copies that read or write a buffer, oldest first.
    pub(super) fn of(&self, buffer: BufferId) -> impl Iterator<Item = &Flight<'p>> {
        let numbers = self.by_buffer.get(&buffer).into_iter().flatten();
        numbers.filter_map(|number| self.flying.get(number))
    }

    /// All copies in flight, oldest first.
    pub(super) fn all(&self) -> Vec<FlightEnd<'p>> {
        let mut numbers: Vec<&usize> = self.flying.keys().collect();
        numbers.sort_unstable();
        let flights = numbers.into_iter().filter_map(|n| self.flying.get(n));
        flights
            .map(|flight| FlightEnd {
                destination: flight.destination.0,
                sends: flight.sends,
                semaphore: flight.semaphore,
                line: flight.line,
                statement: flight.statement,
                partly: flight.partly,
            })
            .collect()
    }
}

/// The report's text about a copy that was never waited for.
pub(super) struct FlightEnd<'p> {
    pub(super) destination: BufferId,
    pub(super) sends: bool,
    pub(super) semaphore: (SemaphoreId, i64),
    pub(super) line: u32,
    pub(super) statement: &'p Statement,
    pub(super) partly: Option<PartlyWaited<'p>>,
}

impl Flight<'_> {
    /// The buffers that the copy reads and writes, each once.
    fn buffers(&self) -> impl Iterator<Item = BufferId> + use<> {
        let (from, to) = (self.source.0, self.destination.0);
        std::iter::once(from).chain((from != to).then_some(to))
    }
}
