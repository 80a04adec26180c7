//! Applies the decisions to a schedule: memory spaces, offsets, and copies between memories.

use super::builder::Builder;
use super::space_assignment::{Fetch, To};
use super::{BufferId, HBM, Reason, Source, Step, Transfer, VMEM};
use rustc_hash::FxHashMap;

/// Copies of at least this many bytes are made in slices, so that HBM is free for kernels in
/// between (the smallest size observed to be sliced on v5e).
const SLICED_FROM: i64 = 1 << 20;
/// The number of slices (the most common number observed on v5e).
const SLICES: i64 = 4;

impl Builder<'_> {
    /// Sets the decided spaces and offsets, and gives views the space of their bases.
    pub(super) fn apply(&mut self, decided: Vec<(BufferId, Option<i64>, Reason)>) {
        for (id, offset, reason) in decided {
            let buffer = &mut self.schedule.buffers[id];
            // A given buffer may be in the host's memory, and so may a result.
            if offset.is_some() {
                buffer.layout.memory_space = VMEM;
            } else if buffer.layout.memory_space == VMEM {
                buffer.layout.memory_space = HBM;
            }
            buffer.offset = offset;
            buffer.reason = reason;
        }
        for id in 0..self.schedule.buffers.len() {
            let reason = match self.schedule.buffers[id].source {
                Source::Bitcast(_) => Reason::View,
                Source::Same(_) => Reason::Passed,
                _ => continue,
            };
            let space = self.schedule.buffers[self.schedule.base(id)].space();
            let buffer = &mut self.schedule.buffers[id];
            buffer.layout.memory_space = space;
            buffer.reason = reason;
        }
    }

    /// Inserts the copies into the steps, and makes kernels read what was fetched.
    pub(super) fn insert_copies(&mut self, mut fetches: Vec<Fetch>) {
        fetches.sort_by_key(|fetch| (fetch.start, fetch.first, fetch.of));
        let old = std::mem::take(&mut self.schedule.steps);
        let count = old.len();
        let mut starts: Vec<Vec<usize>> = vec![Vec::new(); count + 1];
        let mut dones: Vec<Vec<usize>> = vec![Vec::new(); count + 1];
        for fetch in &fetches {
            let from = fetch.of;
            let to = match fetch.to {
                To::Place(place) => place,
                To::Vmem(offset) => self.copy_of(from, Some(offset), Reason::Saves(fetch.saves)),
                To::Hbm => {
                    let is_given = fetch.switch == count;
                    let reason = if is_given {
                        Reason::Boundary
                    } else {
                        Reason::Evicted
                    };
                    self.copy_of(from, None, reason)
                }
            };
            starts[fetch.start].push(self.schedule.transfers.len());
            dones[fetch.first].push(self.schedule.transfers.len());
            let seconds = self.speeds.copy(self.schedule.buffers[from].bytes);
            let slices = if fetch.before_program {
                1
            } else {
                self.slices(from)
            };
            self.schedule.transfers.push(Transfer {
                from,
                to,
                slices,
                before_program: fetch.before_program,
                seconds,
            });
        }
        let evicts = |copy: &&usize| fetches[**copy].to == To::Hbm;
        let mut fetched: FxHashMap<BufferId, BufferId> = FxHashMap::default();
        let ends = old.into_iter().map(Some).chain([None]);
        for (number, step) in ends.enumerate() {
            // Evicting makes room for what is fetched.
            let (out, brought): (Vec<usize>, Vec<usize>) =
                dones[number].iter().partition(|copy| evicts(copy));
            let is_here = |copy: &&usize| fetches[**copy].start < number;
            for &copy in out.iter().filter(is_here) {
                self.schedule.steps.push(Step::CopyDone(copy));
            }
            for &copy in &starts[number] {
                self.schedule.steps.push(Step::CopyStart(copy));
            }
            let late = out.iter().filter(|copy| !is_here(copy));
            for &copy in late.chain(&brought) {
                self.schedule.steps.push(Step::CopyDone(copy));
            }
            for (fetch, transfer) in fetches.iter().zip(&self.schedule.transfers) {
                if fetch.until == Some(number) && fetched.get(&transfer.from) == Some(&transfer.to)
                {
                    fetched.remove(&transfer.from);
                }
                if fetch.switch == number && !matches!(fetch.to, To::Place(_)) {
                    fetched.insert(transfer.from, transfer.to);
                }
            }
            let is_fetched = |copy: &usize| matches!(fetches[*copy].to, To::Place(_));
            match step {
                // The copy itself passes the value.
                Some(Step::Pass { to, .. })
                    if brought.iter().any(|copy| {
                        is_fetched(copy) && self.schedule.transfers[*copy].to == to
                    }) => {}
                Some(step) => self.reading(step, &fetched),
                None => {}
            }
        }
        for result in &mut self.schedule.results {
            if let Some(&to) = fetched.get(result) {
                *result = to;
            }
        }
    }

    /// A buffer for a copy of another one.
    fn copy_of(&mut self, from: BufferId, offset: Option<i64>, reason: Reason) -> BufferId {
        let mut buffer = self.schedule.buffers[from].clone();
        buffer.layout.memory_space = if offset.is_some() { VMEM } else { HBM };
        buffer.source = Source::Copy(from);
        buffer.offset = offset;
        buffer.reason = reason;
        self.schedule.buffers.push(buffer);
        self.schedule.buffers.len() - 1
    }

    /// Adds a step that reads from the fetched buffers.
    fn reading(&mut self, mut step: Step, fetched: &FxHashMap<BufferId, BufferId>) {
        let moved = |id: &mut BufferId| {
            if let Some(&to) = fetched.get(id) {
                *id = to;
            }
        };
        match &mut step {
            Step::Kernel { reads, .. } => reads.iter_mut().for_each(moved),
            Step::Relayout { from, to, .. } => {
                moved(from);
                self.schedule.buffers[*to].source = Source::Relayout(*from);
            }
            Step::Bitcast { from, to, .. } => {
                moved(from);
                let space = self.schedule.buffers[*from].space();
                let view = &mut self.schedule.buffers[*to];
                view.source = Source::Bitcast(*from);
                view.layout.memory_space = space;
            }
            Step::Pass { what, .. } => what.by.iter_mut().for_each(moved),
            Step::Part { control, .. } => {
                let control = &mut self.schedule.controls[*control];
                control.decides.by.iter_mut().for_each(moved);
            }
            Step::CopyStart(_) | Step::CopyDone(_) | Step::Leave(_) => {}
        }
        self.schedule.steps.push(step);
    }

    /// The number of slices in which a buffer is copied: along its most major dimension, at tile
    /// boundaries.
    fn slices(&self, id: BufferId) -> i64 {
        let buffer = &self.schedule.buffers[id];
        let dims = self.program().values[buffer.value].shape.static_dims();
        let order = &buffer.layout.minor_to_major;
        let (Some(dims), Some(&major)) = (dims, order.last()) else {
            return 1;
        };
        let size = dims.get(major as usize).copied().unwrap_or(1);
        // With two dimensions, the most major one is part of the tile.
        let multiple = if order.len() == 2 { 8 } else { 1 };
        if order.len() < 2 || buffer.bytes < SLICED_FROM {
            1
        } else if size % (SLICES * multiple) == 0 {
            SLICES
        } else if size < SLICES && multiple == 1 {
            size.max(1)
        } else {
            1
        }
    }
}
