//! Verifies a schedule step by step. It shares no code with the scheduler except for the data
//! structure itself.
//!
//! The schedule is run without data: for each place, the verifier tracks which value it holds. When
//! a step writes a value, everything else in these bytes is lost; when a step reserves VMEM,
//! everything there is lost. A read of a value that its buffer does not hold is an error. So no
//! lifetime is trusted: arrays may share bytes if and only if no read can tell. A loop is run until
//! the state at its head does not change any more. After a conditional, the state is what all
//! branches agree on. Values that a loop or conditional passes must be in their places, as the
//! program says: the next state at the end of an iteration, the result of each branch.

use super::{BufferId, Control, Held, Schedule, Source, Step, Transfer, VMEM};
use std::ops::Range;
use tegula_fusion::{Def, NodeKind, Program, ValueId};

/// An error in a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifierError {
    /// A number that refers to nothing.
    #[error("step {0} names a buffer or copy that does not exist")]
    NoSuch(usize),
    /// A buffer is read before it has contents.
    #[error("step {step} reads buffer {buffer} before it is written")]
    Uninitialised {
        /// The step.
        step: usize,
        /// The buffer.
        buffer: BufferId,
    },
    /// A copy is waited for before it began, or twice.
    #[error("step {0} waits for a copy that is not in flight")]
    NotUnderWay(usize),
    /// A buffer is used during a copy into it, or written during a copy from it.
    #[error("step {step} uses buffer {buffer} while a copy of it is in flight")]
    Racing {
        /// The step.
        step: usize,
        /// The buffer.
        buffer: BufferId,
    },
    /// A buffer is read after another one that shares bytes with it was written.
    #[error("step {step} reads buffer {first}, part of which buffer {second} overwrote")]
    Overlap {
        /// The buffer that is read.
        first: BufferId,
        /// The buffer that was written.
        second: BufferId,
        /// The step that reads.
        step: usize,
    },
    /// A buffer, or the memory that a step reserves, does not fit.
    #[error("step {step} needs {needed} bytes of VMEM; there are {capacity}")]
    Capacity {
        /// The step.
        step: usize,
        /// The bytes needed, up to the end of the buffer.
        needed: i64,
        /// The bytes available.
        capacity: i64,
    },
    /// A place does not hold what a loop or conditional passes there.
    #[error(
        "at step {step} buffer {buffer} does not hold the array that the loop or conditional passes"
    )]
    Passed {
        /// The step.
        step: usize,
        /// The place.
        buffer: BufferId,
    },
    /// The parts of a loop or conditional are not consecutive, or differ from the program's.
    #[error("step {0} does not belong to a loop or conditional of the program as it should")]
    Structure(usize),
    /// The copies in flight at the end of a part differ from those at its beginning.
    #[error(
        "the copies in flight at the end of a part of a loop or conditional differ from those \
            at its beginning, at step {0}"
    )]
    Unbalanced(usize),
    /// A buffer in VMEM has no offset, or one outside of VMEM has one.
    #[error("buffer {0} is in VMEM without an offset, or elsewhere with one")]
    Offset(BufferId),
    /// A copy is still in flight at the end.
    #[error("copy {0} is never waited for")]
    NeverDone(usize),
    /// A result of the program is missing, or is in neither HBM nor the host's memory.
    #[error("result {0} of the program is not in HBM or at the host at the end")]
    Result(usize),
}

/// Verifies a schedule of a program.
///
/// # Errors
/// The first violation.
pub fn verify(schedule: &Schedule, program: &Program) -> Result<(), VerifierError> {
    let places = Places::of(schedule)?;
    let proof = Proof {
        schedule,
        program,
        places: &places,
    };
    let contents = schedule.buffers.iter().map(|buffer| match buffer.source {
        Source::Given => Content::Holds(buffer.value),
        _ => Content::Nothing,
    });
    let mut state = State {
        contents: contents.collect(),
        under_way: vec![false; schedule.transfers.len()],
    };
    let end = schedule.steps.len();
    proof.steps(0..end, &mut state)?;
    if let Some(copy) = state.under_way.iter().position(|&under_way| under_way) {
        return Err(VerifierError::NeverDone(copy));
    }
    if schedule.results.len() != program.entry.results.len() {
        return Err(VerifierError::Result(schedule.results.len()));
    }
    let results = schedule.results.iter().zip(&program.entry.results);
    for (number, (&result, &value)) in results.enumerate() {
        let space = schedule.buffers.get(schedule.base(result));
        let space = space.map(super::Buffer::space);
        let is_it = schedule.buffers.get(result).map(|buffer| buffer.value) == Some(value);
        if !is_it || !matches!(space, Some(super::HBM | super::HOST)) {
            return Err(VerifierError::Result(number));
        }
        proof.read(end, result, &state)?;
    }
    Ok(())
}

/// The known contents of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Nothing, or nothing certain.
    Nothing,
    /// A value.
    Holds(ValueId),
    /// Another buffer was written there.
    Taken(BufferId),
    /// A step reserved these bytes.
    Scoped(usize),
}

/// What is known at a step.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    contents: Vec<Content>,
    under_way: Vec<bool>,
}

impl State {
    /// Keeps only what two paths to a step agree on.
    fn meet(&mut self, other: &Self) {
        for (own, other) in self.contents.iter_mut().zip(&other.contents) {
            let is_held = matches!(own, Content::Holds(_));
            if is_held && own != other {
                *own = match other {
                    Content::Holds(_) => Content::Nothing,
                    lost => *lost,
                };
            }
        }
    }
}

/// The bytes of VMEM of the buffers that have their own.
struct Places {
    /// The ranges, sorted by their ends.
    ranges: Vec<(i64, i64, BufferId)>,
    /// For each buffer, the other buffers that share bytes with it.
    shared: Vec<Vec<BufferId>>,
}

impl Places {
    fn of(schedule: &Schedule) -> Result<Self, VerifierError> {
        let mut ranges = Vec::new();
        for (id, buffer) in schedule.buffers.iter().enumerate() {
            let is_own = !matches!(buffer.source, Source::Bitcast(_) | Source::Same(_));
            if is_own && (buffer.space() == VMEM) != buffer.offset.is_some() {
                return Err(VerifierError::Offset(id));
            }
            if is_own && let Some(offset) = buffer.offset {
                let needed = offset.saturating_add(buffer.bytes.max(0));
                if offset < 0 || needed > schedule.vmem_bytes {
                    return Err(VerifierError::Capacity {
                        step: 0,
                        needed,
                        capacity: schedule.vmem_bytes,
                    });
                }
                ranges.push((needed, offset, id));
            }
        }
        ranges.sort_unstable();
        let mut shared = vec![Vec::new(); schedule.buffers.len()];
        for (at, &(end, start, id)) in ranges.iter().enumerate() {
            for &(_, other_start, other) in ranges.iter().skip(at + 1) {
                if other_start < end && start < end {
                    shared[id].push(other);
                    shared[other].push(id);
                }
            }
        }
        Ok(Self { ranges, shared })
    }

    fn overlap(&self, a: BufferId, b: BufferId) -> bool {
        a == b || self.shared.get(a).is_some_and(|others| others.contains(&b))
    }
}

struct Proof<'a> {
    schedule: &'a Schedule,
    program: &'a Program,
    places: &'a Places,
}

impl Proof<'_> {
    /// Runs steps; loops and conditionals must be complete in the range.
    fn steps(&self, range: Range<usize>, state: &mut State) -> Result<(), VerifierError> {
        let mut number = range.start;
        while number < range.end {
            let step = &self.schedule.steps[number];
            if let &Step::Part { control, part: 0 } = step {
                number = self.control(control, number, range.end, state)?;
            } else {
                self.step(number, step, state)?;
                number += 1;
            }
        }
        Ok(())
    }

    /// The first step of each of a control's parts, and its end.
    fn parts(&self, control: usize, begin: usize, end: usize) -> Result<Vec<usize>, VerifierError> {
        let mut parts = Vec::new();
        for number in begin..end {
            match self.schedule.steps[number] {
                Step::Part { control: own, part } if own == control => {
                    if part != parts.len() {
                        return Err(VerifierError::Structure(number));
                    }
                    parts.push(number);
                }
                Step::Leave(own) if own == control => {
                    parts.push(number);
                    return Ok(parts);
                }
                _ => {}
            }
        }
        Err(VerifierError::Structure(begin))
    }

    /// Runs a loop or conditional; returns the step after it.
    fn control(
        &self,
        number: usize,
        begin: usize,
        end: usize,
        state: &mut State,
    ) -> Result<usize, VerifierError> {
        let wrong = VerifierError::Structure(begin);
        let parts = self.parts(number, begin, end)?;
        let control = self.schedule.controls.get(number).ok_or(wrong.clone())?;
        let node = self.program.nodes.get(control.node).ok_or(wrong.clone())?;
        let regions = node.kind.regions();
        if parts.len() != regions.len() + 1 {
            return Err(wrong);
        }
        let runs: Vec<Range<usize>> = parts.windows(2).map(|p| p[0] + 1..p[1]).collect();
        let leave = parts.last().copied().unwrap_or(begin);
        if let (NodeKind::While { states, .. }, [condition, body]) = (&node.kind, &runs[..]) {
            let predicate = regions[0].results.first().copied();
            if !control.is_loop || control.places.len() != states.len() {
                return Err(wrong);
            }
            self.found(begin, control, &node.operands, states, state)?;
            let tested = loop {
                let mut run = state.clone();
                self.steps(condition.clone(), &mut run)?;
                self.decided(condition.end, control, predicate, &run)?;
                let tested = run.clone();
                self.steps(body.clone(), &mut run)?;
                self.found(leave, control, &regions[1].results, states, &mut run)?;
                if tested.under_way != state.under_way || run.under_way != state.under_way {
                    return Err(VerifierError::Unbalanced(leave));
                }
                let head = state.clone();
                state.meet(&run);
                if *state == head {
                    break tested;
                }
            };
            *state = tested;
            self.found(leave, control, states, &node.results, state)?;
            return Ok(leave + 1);
        }
        if control.is_loop || control.places.len() != node.results.len() {
            return Err(wrong);
        }
        self.decided(begin, control, node.operands.first().copied(), state)?;
        let before = state.clone();
        for (at, (run, region)) in runs.iter().zip(&regions).enumerate() {
            let mut own = before.clone();
            self.steps(run.clone(), &mut own)?;
            self.found(run.end, control, &region.results, &node.results, &mut own)?;
            if own.under_way != before.under_way {
                return Err(VerifierError::Unbalanced(run.end));
            }
            if at == 0 {
                *state = own;
            } else {
                state.meet(&own);
            }
        }
        Ok(leave + 1)
    }

    /// Checks that the places hold these values; from here on, the values have other names.
    fn found(
        &self,
        step: usize,
        control: &Control,
        values: &[ValueId],
        names: &[ValueId],
        state: &mut State,
    ) -> Result<(), VerifierError> {
        if values.len() < control.places.len() || names.len() < control.places.len() {
            return Err(VerifierError::Structure(step));
        }
        for (&place, &value) in control.places.iter().zip(values) {
            let base = self.schedule.base(place);
            if state.contents.get(base) != Some(&Content::Holds(value)) || self.busy(base, state) {
                return Err(VerifierError::Passed {
                    step,
                    buffer: place,
                });
            }
        }
        for (&place, &name) in control.places.iter().zip(names) {
            state.contents[self.schedule.base(place)] = Content::Holds(name);
        }
        Ok(())
    }

    /// Checks that the predicate or selector is available.
    fn decided(
        &self,
        step: usize,
        control: &Control,
        value: Option<ValueId>,
        state: &State,
    ) -> Result<(), VerifierError> {
        if Some(control.decides.value) != value {
            return Err(VerifierError::Structure(step));
        }
        self.held(step, control.decides, state)
    }

    /// Checks that a value is available, or is a constant.
    fn held(&self, step: usize, held: Held, state: &State) -> Result<(), VerifierError> {
        match held.by {
            Some(id) => {
                let buffer = self.schedule.buffers.get(id);
                if buffer.is_none_or(|buffer| buffer.value != held.value) {
                    return Err(VerifierError::Passed { step, buffer: id });
                }
                self.read(step, id, state)
            }
            None => match self.program.values.get(held.value).map(|value| &value.def) {
                Some(Def::Constant(_)) => Ok(()),
                _ => Err(VerifierError::NoSuch(step)),
            },
        }
    }

    /// Whether a copy to a place is in flight.
    fn busy(&self, base: BufferId, state: &State) -> bool {
        let mut copies = self.under_way(state);
        copies.any(|copy| self.schedule.base(copy.to) == base)
    }

    fn under_way<'s>(&'s self, state: &'s State) -> impl Iterator<Item = &'s Transfer> {
        let copies = self.schedule.transfers.iter().zip(&state.under_way);
        copies
            .filter(|(_, under_way)| **under_way)
            .map(|(copy, _)| copy)
    }

    fn read(&self, step: usize, id: BufferId, state: &State) -> Result<(), VerifierError> {
        let mut of = id;
        while let Some(Source::Bitcast(under)) = self.schedule.buffers.get(of).map(|b| b.source) {
            of = under;
        }
        let base = self.schedule.base(of);
        let (Some(buffer), Some(&content)) =
            (self.schedule.buffers.get(of), state.contents.get(base))
        else {
            return Err(VerifierError::NoSuch(step));
        };
        if self.busy(base, state) {
            return Err(VerifierError::Racing { step, buffer: id });
        }
        match content {
            Content::Holds(value) if value == buffer.value => Ok(()),
            Content::Holds(_) | Content::Nothing => {
                Err(VerifierError::Uninitialised { step, buffer: id })
            }
            Content::Taken(second) => Err(VerifierError::Overlap {
                first: id,
                second,
                step,
            }),
            Content::Scoped(step) => Err(self.no_room(step, base)),
        }
    }

    /// The error for a step that reserves bytes in which a buffer is live.
    fn no_room(&self, step: usize, base: BufferId) -> VerifierError {
        let end = self.places.ranges.iter().find(|range| range.2 == base);
        VerifierError::Capacity {
            step,
            needed: end.map_or(0, |range| range.0) + self.scoped(step),
            capacity: self.schedule.vmem_bytes,
        }
    }

    fn scoped(&self, step: usize) -> i64 {
        match self.schedule.steps.get(step) {
            Some(
                Step::Kernel { scoped, .. }
                | Step::Relayout { scoped, .. }
                | Step::Pass { scoped, .. },
            ) => *scoped,
            _ => 0,
        }
    }

    /// Writes a value to a buffer's place.
    fn write(
        &self,
        step: usize,
        id: BufferId,
        value: ValueId,
        state: &mut State,
    ) -> Result<(), VerifierError> {
        let base = self.schedule.base(id);
        if self.schedule.buffers.get(base).is_none() {
            return Err(VerifierError::NoSuch(step));
        }
        let meets = |other: BufferId| self.places.overlap(base, self.schedule.base(other));
        let mut copies = self.under_way(state);
        if copies.any(|copy| meets(copy.to) || meets(copy.from)) {
            return Err(VerifierError::Racing { step, buffer: id });
        }
        drop(copies);
        for &other in &self.places.shared[base] {
            state.contents[other] = Content::Taken(base);
        }
        state.contents[base] = Content::Holds(value);
        Ok(())
    }

    /// Reserves the end of VMEM for a step that uses these buffers.
    fn keep(
        &self,
        step: usize,
        scoped: i64,
        uses: &[BufferId],
        state: &mut State,
    ) -> Result<(), VerifierError> {
        if scoped <= 0 {
            return Ok(());
        }
        let capacity = self.schedule.vmem_bytes;
        let from = capacity - scoped;
        if from < 0 {
            return Err(VerifierError::Capacity {
                step,
                needed: scoped,
                capacity,
            });
        }
        let first = self.places.ranges.partition_point(|range| range.0 <= from);
        for &(end, start, id) in self.places.ranges.iter().skip(first) {
            let is_own = |&other: &BufferId| self.schedule.base(other) == id;
            let mut copies = self.under_way(state);
            let is_used = uses.iter().any(is_own)
                || copies.any(|copy| is_own(&copy.to) || is_own(&copy.from));
            drop(copies);
            if end > start && is_used {
                return Err(self.no_room(step, id));
            }
            if end > start {
                state.contents[id] = Content::Scoped(step);
            }
        }
        Ok(())
    }

    fn step(&self, number: usize, step: &Step, state: &mut State) -> Result<(), VerifierError> {
        let value = |id: BufferId| {
            let buffer = self.schedule.buffers.get(id);
            buffer.map(|b| b.value).ok_or(VerifierError::NoSuch(number))
        };
        match step {
            Step::Kernel {
                reads,
                writes,
                scoped,
                ..
            } => {
                for &id in reads {
                    self.read(number, id, state)?;
                }
                let bases: Vec<BufferId> = reads.iter().map(|&id| self.schedule.base(id)).collect();
                for &id in writes {
                    let base = self.schedule.base(id);
                    // A kernel reads while it writes.
                    if let Some(&read) = bases.iter().find(|&&b| self.places.overlap(b, base)) {
                        return Err(VerifierError::Overlap {
                            first: read,
                            second: id,
                            step: number,
                        });
                    }
                    self.write(number, id, value(id)?, state)?;
                }
                for &id in writes {
                    self.read(number, id, state)?;
                }
                let uses: Vec<BufferId> = reads.iter().chain(writes).copied().collect();
                self.keep(number, *scoped, &uses, state)
            }
            Step::Relayout {
                from, to, scoped, ..
            } => {
                self.copied(number, *from, *to, state)?;
                self.write(number, *to, value(*from)?, state)?;
                self.keep(number, *scoped, &[*from, *to], state)
            }
            Step::Pass {
                what, to, scoped, ..
            } => {
                self.held(number, *what, state)?;
                let own = self.schedule.base(*to);
                let from = what.by.map(|id| self.schedule.base(id));
                if let Some(first) = from.filter(|&from| self.places.overlap(from, own)) {
                    return Err(VerifierError::Overlap {
                        first,
                        second: *to,
                        step: number,
                    });
                }
                self.write(number, *to, what.value, state)?;
                let uses: Vec<BufferId> = what.by.into_iter().chain([*to]).collect();
                self.keep(number, *scoped, &uses, state)
            }
            Step::Bitcast { from, to, .. } => {
                self.read(number, *from, state)?;
                let source = self.schedule.buffers.get(*to).map(|buffer| buffer.source);
                if source == Some(Source::Bitcast(*from)) {
                    Ok(())
                } else {
                    Err(VerifierError::NoSuch(number))
                }
            }
            Step::CopyStart(copy) => {
                let transfer = self.schedule.transfers.get(*copy);
                let transfer = transfer.ok_or(VerifierError::NoSuch(number))?;
                if state.under_way[*copy] {
                    return Err(VerifierError::NotUnderWay(number));
                }
                self.copied(number, transfer.from, transfer.to, state)?;
                self.write(number, transfer.to, value(transfer.from)?, state)?;
                state.under_way[*copy] = true;
                Ok(())
            }
            Step::CopyDone(copy) => match state.under_way.get_mut(*copy) {
                None => Err(VerifierError::NoSuch(number)),
                Some(under_way) if !*under_way => Err(VerifierError::NotUnderWay(number)),
                Some(under_way) => {
                    *under_way = false;
                    Ok(())
                }
            },
            Step::Part { .. } | Step::Leave(_) => Err(VerifierError::Structure(number)),
        }
    }

    /// Checks that the source of a copy is available and does not overlap the destination.
    fn copied(
        &self,
        step: usize,
        from: BufferId,
        to: BufferId,
        state: &State,
    ) -> Result<(), VerifierError> {
        self.read(step, from, state)?;
        let (source, own) = (self.schedule.base(from), self.schedule.base(to));
        if self.places.overlap(source, own) {
            return Err(VerifierError::Overlap {
                first: from,
                second: to,
                step,
            });
        }
        Ok(())
    }
}
