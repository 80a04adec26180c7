//! Inputs that are fetched inside a loop's body or a branch each time it runs.

use super::{BufferId, Candidate, Fetch, LEAST_HIDDEN, Placer, Reason, To};
use crate::Step;
use std::ops::Range;

impl Placer<'_> {
    /// Fetches an input that is not in VMEM for all of a loop or conditional, inside the parts that
    /// read it, if earlier kernels hide the copy. It is in VMEM from the start of the copy to the
    /// part's last read, so its memory is free again in each iteration.
    pub(super) fn fetch_inside(&mut self, input: &Candidate) {
        let schedule = &self.builder.schedule;
        let mut parts: Vec<Range<usize>> = Vec::new();
        for &read in &input.reads {
            let Some(part) = self.nest.part(schedule, read) else {
                continue;
            };
            let overlaps = |other: &Range<usize>| part.start < other.end && other.start < part.end;
            if !parts.iter().any(overlaps) {
                parts.push(part);
            }
        }
        for part in parts {
            self.fetch_in(input, &part);
        }
    }

    fn fetch_in(&mut self, input: &Candidate, part: &Range<usize>) {
        let schedule = &self.builder.schedule;
        // A view made outside the part is not a view of the copy.
        if input.views.iter().any(|view| !part.contains(view)) {
            return;
        }
        let steps = input.reads.iter().chain(&input.views).copied();
        let steps: Vec<usize> = steps.filter(|step| part.contains(step)).collect();
        let (Some(&first), Some(&last)) = (steps.iter().min(), steps.iter().max()) else {
            return;
        };
        let beside = |&step: &usize| {
            self.nest.is_beside(step, part.start) && !self.takes_part(step, input.id)
        };
        let bytes = schedule.buffers[input.id].bytes;
        let seconds = self.builder.speeds.copy(bytes);
        let Some((start, hidden)) = self.start_in(part, first, seconds) else {
            return;
        };
        if !steps.iter().all(beside) || hidden < LEAST_HIDDEN * seconds {
            return;
        }
        let Ok(offset) = self.heap.take(bytes, (start, last)) else {
            return;
        };
        let times = self.times.get(first).copied().unwrap_or(1.0);
        self.runs(start, first, seconds * times);
        // The part of the copy that is not hidden is waited for.
        self.saved += input.saves * (hidden / seconds).min(1.0);
        self.decided.push((input.id, None, Reason::Boundary));
        self.fetches.push(Fetch {
            of: input.id,
            start,
            first,
            switch: first,
            until: Some(part.end),
            before_program: false,
            to: To::Vmem(offset),
            saves: input.saves,
        });
    }

    /// Like [`Placer::start`], for one run of a part.
    fn start_in(&self, part: &Range<usize>, first: usize, seconds: f64) -> Option<(usize, f64)> {
        let times = self.times.get(first).copied().unwrap_or(1.0).max(1e-9);
        let hidden = |start: usize| {
            let free = self.elapsed[first] - self.elapsed[start];
            (free - self.copying[start..first].iter().sum::<f64>()) / times
        };
        let beside = |&step: &usize| self.nest.is_beside(step, part.start);
        let earliest = (part.start..first).find(beside)?;
        let mut starts = (part.start..first).rev();
        let start = starts.find(|step| beside(step) && hidden(*step) >= seconds);
        let start = start.unwrap_or(earliest);
        Some((start, hidden(start)))
    }

    /// Whether a step only takes slices of an array.
    fn takes_part(&self, step: usize, id: BufferId) -> bool {
        match self.builder.schedule.steps.get(step) {
            Some(Step::Kernel { region, kernel, .. }) => {
                self.bytes_read(*region, *kernel, id) < self.builder.schedule.buffers[id].bytes
            }
            _ => false,
        }
    }
}
