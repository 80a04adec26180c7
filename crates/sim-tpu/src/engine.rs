//! The clock of a core.
//!
//! The core runs its statements in order. Within one computation its units work in parallel, so a
//! computation takes as long as its slowest unit. Copies run in parallel to the core: copies of one
//! direction follow each other, copies of different directions share the bandwidth of HBM. A copy
//! is done a latency after its last byte was moved: for the first copy of a direction that is the
//! published latency, which fits a transfer on its own, and for later ones the chip's
//! `copy_latency`. Waiting for a copy that is not done is a stall and is charged to that copy. A
//! kernel of a compiled program begins with a launch: its first computation starts no sooner than
//! the published latency after the launch, whatever it reads (in the estimates of libtpu's compiler
//! for v5e no kernel takes fewer than 1824 cycles, of which 1700 are that latency). A kernel that
//! fetches operands of the matrix units from HBM waits `product_start` longer (in the same
//! estimates 3870 cycles for products of any few numbers, and none where the operands are in VMEM).
//!
//! The core's time is therefore a sum over [`Cause`]s, and an engine is idle exactly for the causes
//! that are not its own: [`Engines::stalls`] is complete.

use crate::program::Space;
use crate::speeds::Speeds;
use std::collections::{BTreeMap, VecDeque};

/// The number of a copy that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub usize);

/// What a copy moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The memory that is read.
    pub from: Space,
    /// The memory that is written.
    pub to: Space,
    /// Physical bytes, including padding that is moved.
    pub bytes: i64,
}

/// The cycles that one computation needs on each unit of the core.
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
    /// Arithmetic operations; a multiplication and an addition count as one each.
    pub operations: f64,
}

impl Work {
    /// The cycles of the slowest unit, and that unit.
    pub fn bound(&self) -> (f64, Engine) {
        let mut slowest = (self.matrix, Engine::Matrix);
        for (cycles, engine) in [
            (self.vector, Engine::Vector),
            (self.memory, Engine::Memory),
            (self.cross_lane, Engine::CrossLane),
        ] {
            if cycles > slowest.0 {
                slowest = (cycles, engine);
            }
        }
        slowest
    }

    /// The work of both computations together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            matrix: self.matrix + other.matrix,
            vector: self.vector + other.vector,
            memory: self.memory + other.memory,
            cross_lane: self.cross_lane + other.cross_lane,
            operations: self.operations + other.operations,
        }
    }
}

/// A unit of the core, or a direction of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Engine {
    /// The scalar unit, which issues statements.
    Scalar,
    /// The matrix units.
    Matrix,
    /// The vector unit.
    Vector,
    /// The load and store unit of VMEM.
    Memory,
    /// The cross-lane units.
    CrossLane,
    /// Copies that end in a memory of the core.
    CopyIn,
    /// Copies that end in HBM.
    CopyOut,
}

impl Engine {
    /// Every engine, in the order of the report.
    pub const ALL: [Self; 7] = [
        Self::Scalar,
        Self::Matrix,
        Self::Vector,
        Self::Memory,
        Self::CrossLane,
        Self::CopyIn,
        Self::CopyOut,
    ];

    /// The engine's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar unit",
            Self::Matrix => "matrix units",
            Self::Vector => "vector unit",
            Self::Memory => "VMEM accesses",
            Self::CrossLane => "cross-lane units",
            Self::CopyIn => "copies to the core",
            Self::CopyOut => "copies to HBM",
        }
    }
}

/// What the core spends time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A computation, bound by this unit.
    Compute(Engine),
    /// Waiting for a copy.
    Copy {
        /// The direction of the copy.
        engine: Engine,
        /// The line that started the copy.
        started: u32,
    },
    /// Waiting for the launch of a kernel.
    Launch,
    /// Issuing statements and advancing loops.
    Issue,
    /// Waiting for a signal of another core.
    Core,
}

/// An interval in which an engine did one thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The engine.
    pub engine: Engine,
    /// Start, in seconds.
    pub from: f64,
    /// End, in seconds.
    pub to: f64,
    /// The line of the statement.
    pub line: u32,
    /// Bytes moved, for a copy.
    pub bytes: i64,
    /// What the engine did.
    pub kind: SpanKind,
}

/// What an engine did in a [`Span`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// It computed or copied.
    Work,
    /// It waited for a copy or another core.
    Wait,
    /// It waited for the launch of a kernel.
    Launch,
    /// It issued statements and advanced loops, one after the other; the span's line is the first
    /// statement's.
    Issue,
}

/// What the statement of one line did in total, over all its executions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LineUse {
    /// Arithmetic operations.
    pub operations: f64,
    /// Bytes copied between HBM and the core.
    pub bytes: f64,
    /// Duration of its computations, in seconds.
    pub seconds: f64,
}

/// The most spans that are kept; further ones are only counted.
const MOST_SPANS: usize = 1 << 20;

/// A copy that was started.
#[derive(Clone, Copy, Debug)]
struct Flight {
    line: u32,
    engine: Engine,
    bytes: i64,
    /// Time at which it is done, latency included; infinite while that is not known.
    done: f64,
    /// Time at which its first byte moved.
    began: f64,
}

/// The copies of one direction, in order; the first one is being moved.
#[derive(Clone, Debug, Default)]
struct Queue {
    waiting: VecDeque<usize>,
    /// Bytes of the first copy that are still to be moved.
    left: f64,
    /// Whether a copy of this direction has ended before.
    used: bool,
}

/// The engines of one core, and the time that the core has reached.
#[derive(Clone, Debug)]
pub struct Engines {
    speeds: Speeds,
    now: f64,
    /// Time from which the kernel launched last can compute.
    ready: f64,
    /// Whether that kernel has computed nothing yet.
    fresh: bool,
    /// Whether that kernel fetches from HBM.
    fetches: bool,
    /// The time up to which copies have been moved.
    moved_to: f64,
    /// Time at which the link to other chips has moved every copy started so far.
    link_free: f64,
    flights: Vec<Flight>,
    queues: [Queue; 2],
    causes: BTreeMap<(u32, Cause), f64>,
    busy: [f64; Engine::ALL.len()],
    lines: BTreeMap<u32, LineUse>,
    spans: Option<Vec<Span>>,
    spans_left_out: usize,
}

impl Engines {
    /// Engines with these speeds at time zero; `record` keeps a timeline.
    pub fn new(speeds: &Speeds, record: bool) -> Self {
        Self {
            speeds: speeds.clone(),
            now: 0.0,
            ready: 0.0,
            fresh: false,
            fetches: false,
            moved_to: 0.0,
            link_free: 0.0,
            flights: Vec::new(),
            queues: [Queue::default(), Queue::default()],
            causes: BTreeMap::new(),
            busy: [0.0; Engine::ALL.len()],
            lines: BTreeMap::new(),
            spans: record.then(Vec::new),
            spans_left_out: 0,
        }
    }

    /// The chip's speeds.
    pub fn speeds(&self) -> &Speeds {
        &self.speeds
    }

    /// The time that the core has reached, in seconds.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// Starts a copy; the statement's line is charged.
    pub fn start(&mut self, transfer: &Transfer, line: u32) -> TransferId {
        self.issue(line);
        self.move_copies(self.now);
        let outward = transfer.to == Space::Hbm;
        self.fetches |= transfer.from == Space::Hbm && transfer.to == Space::Vmem;
        let (at, engine) = if outward {
            (1, Engine::CopyOut)
        } else {
            (0, Engine::CopyIn)
        };
        self.lines.entry(line).or_default().bytes += transfer.bytes as f64;
        let id = self.flights.len();
        self.flights.push(Flight {
            line,
            engine,
            bytes: transfer.bytes,
            done: f64::INFINITY,
            began: f64::INFINITY,
        });
        let queue = &mut self.queues[at];
        queue.waiting.push_back(id);
        if queue.waiting.len() == 1 {
            queue.left = transfer.bytes.max(0) as f64;
            self.flights[id].began = self.now;
        }
        TransferId(id)
    }

    /// Waits for a copy; the statement's line is charged.
    pub fn wait(&mut self, transfer: TransferId, line: u32) {
        self.issue(line);
        let Some(&flight) = self.flights.get(transfer.0) else {
            return;
        };
        self.move_copies(self.now);
        while self.flights[transfer.0].done.is_infinite() {
            let next = self.next_completion();
            self.move_copies(next);
        }
        let done = self.flights[transfer.0].done;
        if done > self.now {
            let cause = Cause::Copy {
                engine: flight.engine,
                started: flight.line,
            };
            *self.causes.entry((line, cause)).or_default() += done - self.now;
            self.record(Engine::Scalar, self.now, done, line, 0, SpanKind::Wait);
            self.now = done;
        }
    }

    /// Launches a kernel of a compiled program; the statement's line is charged.
    pub fn launch(&mut self, line: u32) {
        self.ready = self.now + self.speeds.latency_in;
        (self.fresh, self.fetches) = (true, false);
        self.issue(line);
    }

    /// Runs a computation; the statement's line is charged.
    pub fn compute(&mut self, work: &Work, line: u32) {
        self.issue(line);
        if self.fresh && self.fetches && work.matrix > 0.0 {
            self.ready += self.speeds.product_start;
        }
        self.fresh = false;
        if self.ready > self.now {
            *self.causes.entry((line, Cause::Launch)).or_default() += self.ready - self.now;
            self.busy[Engine::Scalar as usize] += self.ready - self.now;
            let (from, to) = (self.now, self.ready);
            self.record(Engine::Scalar, from, to, line, 0, SpanKind::Launch);
            self.now = self.ready;
        }
        let (cycles, slowest) = work.bound();
        let seconds = cycles / self.speeds.clock;
        for (engine, cycles) in [
            (Engine::Matrix, work.matrix),
            (Engine::Vector, work.vector),
            (Engine::Memory, work.memory),
            (Engine::CrossLane, work.cross_lane),
        ] {
            if cycles > 0.0 {
                let end = self.now + cycles / self.speeds.clock;
                self.record(engine, self.now, end, line, 0, SpanKind::Work);
                self.busy[engine as usize] += end - self.now;
            }
        }
        let used = self.lines.entry(line).or_default();
        used.operations += work.operations;
        used.seconds += seconds;
        let cause = Cause::Compute(slowest);
        *self.causes.entry((line, cause)).or_default() += seconds;
        self.now += seconds;
    }

    /// Advances a loop by one iteration; the statement's line is charged.
    pub fn step(&mut self, line: u32) {
        self.scalar(self.speeds.step, line);
    }

    /// Ends the run after the core's last statement: copies that nobody waited for are moved to
    /// their end.
    pub fn finish(&mut self) {
        while self.queues.iter().any(|queue| !queue.waiting.is_empty()) {
            let next = self.next_completion();
            self.move_copies(next);
        }
    }

    /// The core's time in seconds by line and cause.
    pub fn causes(&self) -> impl Iterator<Item = (u32, Cause, f64)> {
        self.causes
            .iter()
            .map(|(&(line, cause), &seconds)| (line, cause, seconds))
    }

    /// How long an engine was busy, in seconds.
    pub fn busy(&self, engine: Engine) -> f64 {
        self.busy[engine as usize]
    }

    /// What the statement of each line did.
    pub fn lines(&self) -> &BTreeMap<u32, LineUse> {
        &self.lines
    }

    /// The seconds in which an engine was idle, by line and cause. Together with [`Engines::busy`]
    /// of the core's units this is all of the core's time.
    pub fn stalls(&self, engine: Engine) -> Vec<(u32, Cause, f64)> {
        let own = |cause: Cause| match cause {
            Cause::Compute(slowest) => slowest == engine,
            Cause::Copy { engine: of, .. } => of == engine,
            Cause::Launch | Cause::Issue => engine == Engine::Scalar,
            Cause::Core => false,
        };
        let mut waits: Vec<_> = self.causes().filter(|&(_, cause, _)| !own(cause)).collect();
        waits.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
        waits
    }

    /// The recorded spans, empty if nothing was recorded, and the number of spans left out.
    pub fn timeline(&self) -> (&[Span], usize) {
        (
            self.spans.as_deref().unwrap_or_default(),
            self.spans_left_out,
        )
    }

    /// Starts a copy of this many bytes to another core; the statement's line is charged. Copies
    /// over the link follow each other. Also returns the arrival time in seconds.
    pub fn sends(&mut self, bytes: i64, line: u32) -> (TransferId, f64) {
        self.issue(line);
        let seconds = bytes.max(0) as f64 / self.speeds.link_bandwidth;
        self.link_free = self.link_free.max(self.now) + seconds;
        let done = self.link_free + self.speeds.link_latency();
        (self.arrives(done, line, bytes), done)
    }

    /// Registers a copy over a link that is done at a given time.
    pub fn arrives(&mut self, done: f64, line: u32, bytes: i64) -> TransferId {
        self.lines.entry(line).or_default().bytes += bytes.max(0) as f64;
        self.flights.push(Flight {
            line,
            engine: Engine::CopyIn,
            bytes,
            done,
            began: done,
        });
        TransferId(self.flights.len() - 1)
    }

    /// Waits for another core until a given time.
    pub fn wait_until(&mut self, time: f64, line: u32) {
        if time > self.now {
            *self.causes.entry((line, Cause::Core)).or_default() += time - self.now;
            self.record(Engine::Scalar, self.now, time, line, 0, SpanKind::Wait);
            self.now = time;
        }
    }

    /// Lets a number of seconds pass; the statement's line is charged.
    pub fn delay(&mut self, seconds: f64, line: u32) {
        self.scalar(seconds, line);
    }

    /// Issues one instruction of the scalar unit; the statement's line is charged.
    pub fn issue(&mut self, line: u32) {
        self.scalar(1.0 / self.speeds.clock, line);
    }

    fn scalar(&mut self, seconds: f64, line: u32) {
        *self.causes.entry((line, Cause::Issue)).or_default() += seconds;
        self.busy[Engine::Scalar as usize] += seconds;
        let from = self.now;
        self.now += seconds;
        // Statements that follow each other without a gap share one span: it says as much as
        // thousands.
        let last = self.spans.as_mut().and_then(|spans| spans.last_mut());
        match last {
            Some(last) if last.kind == SpanKind::Issue && last.to == from => last.to = self.now,
            _ => self.record(Engine::Scalar, from, self.now, line, 0, SpanKind::Issue),
        }
    }

    /// The rate of each direction that has bytes to move, in bytes per second.
    fn rate(&self) -> f64 {
        let active = self.queues.iter().filter(|queue| !queue.waiting.is_empty());
        self.speeds.bandwidth / active.count().max(1) as f64
    }

    /// Time at which the next copy's last byte is moved if no other copy starts before.
    fn next_completion(&self) -> f64 {
        let rate = self.rate();
        let heads = self.queues.iter().filter(|queue| !queue.waiting.is_empty());
        let soonest = heads.map(|queue| queue.left / rate).min_by(f64::total_cmp);
        self.moved_to + soonest.unwrap_or(0.0)
    }

    /// Moves the bytes of all copies up to a given time.
    fn move_copies(&mut self, until: f64) {
        loop {
            let idle = self.queues.iter().all(|queue| queue.waiting.is_empty());
            let next = self.next_completion();
            if idle || next > until {
                let bytes = (until - self.moved_to).max(0.0) * self.rate();
                for queue in &mut self.queues {
                    queue.left = (queue.left - bytes).max(0.0);
                }
                self.moved_to = self.moved_to.max(until);
                return;
            }
            let bytes = (next - self.moved_to) * self.rate();
            self.moved_to = next;
            // The copy with the fewest remaining bytes ends here, whatever remainder rounding left
            // of it.
            let ends = self.queues.iter().filter(|queue| !queue.waiting.is_empty());
            let least = ends.map(|queue| queue.left).min_by(f64::total_cmp);
            for at in 0..self.queues.len() {
                if self.queues[at].waiting.is_empty() {
                    continue;
                }
                if Some(self.queues[at].left) == least {
                    self.end_first(at, next);
                } else {
                    self.queues[at].left = (self.queues[at].left - bytes).max(0.0);
                }
            }
        }
    }

    /// Ends the first copy of a direction: its last byte was moved.
    fn end_first(&mut self, at: usize, now: f64) {
        let Some(id) = self.queues[at].waiting.pop_front() else {
            return;
        };
        let first = [self.speeds.latency_in, self.speeds.latency_out][at];
        let later = self.speeds.copy_latency.filter(|_| self.queues[at].used);
        let latency = later.unwrap_or(first);
        self.queues[at].used = true;
        self.flights[id].done = now + latency;
        let flight = self.flights[id];
        self.busy[flight.engine as usize] += now - flight.began;
        self.record(
            flight.engine,
            flight.began,
            now + latency,
            flight.line,
            flight.bytes,
            SpanKind::Work,
        );
        if let Some(&next) = self.queues[at].waiting.front() {
            self.flights[next].began = now;
            self.queues[at].left = self.flights[next].bytes.max(0) as f64;
        }
    }

    fn record(
        &mut self,
        engine: Engine,
        from: f64,
        to: f64,
        line: u32,
        bytes: i64,
        kind: SpanKind,
    ) {
        let Some(spans) = &mut self.spans else { return };
        if spans.len() >= MOST_SPANS {
            self.spans_left_out += 1;
            return;
        }
        spans.push(Span {
            engine,
            from,
            to,
            line,
            bytes,
            kind,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speeds() -> Speeds {
        Speeds {
            clock: 1e9,
            bandwidth: 1e9,
            latency_in: 1e-6,
            latency_out: 2e-6,
            step: 1e-7,
            ..Speeds::default()
        }
    }

    const IN: Transfer = Transfer {
        from: Space::Hbm,
        to: Space::Vmem,
        bytes: 4000,
    };
    const OUT: Transfer = Transfer {
        from: Space::Vmem,
        to: Space::Hbm,
        bytes: 4000,
    };

    #[test]
    fn a_copy_takes_its_latency_and_its_bytes() {
        let mut engines = Engines::new(&speeds(), true);
        let copy = engines.start(&IN, 1);
        engines.wait(copy, 2);
        // One cycle before the first byte.
        assert!((engines.now() - (1e-9 + 4e-6 + 1e-6)).abs() < 1e-12);
        let waits: Vec<_> = engines.stalls(Engine::Matrix);
        assert_eq!(waits[0].0, 2);
        assert!(matches!(waits[0].1, Cause::Copy { started: 1, .. }));
    }

    #[test]
    fn copies_of_one_direction_follow_each_other_and_hide_their_latency() {
        let mut engines = Engines::new(&speeds(), false);
        let (_, second) = (engines.start(&IN, 1), engines.start(&IN, 2));
        engines.wait(second, 3);
        assert!((engines.now() - (1e-9 + 8e-6 + 1e-6)).abs() < 1e-12);
    }

    #[test]
    fn directions_share_the_bandwidth() {
        let mut engines = Engines::new(&speeds(), false);
        let inward = engines.start(&IN, 1);
        let outward = engines.start(&OUT, 2);
        engines.wait(inward, 3);
        engines.wait(outward, 4);
        // One nanosecond alone, then halves of the bandwidth, then the rest alone.
        assert!((engines.now() - (1e-9 + 8e-6 + 2e-6)).abs() < 2e-9);
    }

    #[test]
    fn a_launched_kernel_computes_a_latency_later_and_copies_go_on() {
        let mut engines = Engines::new(&speeds(), false);
        engines.launch(1);
        let copy = engines.start(&IN, 2);
        engines.compute(&Work::default(), 3);
        assert!((engines.now() - 1e-6).abs() < 1e-15);
        assert!(
            engines
                .causes()
                .any(|cause| matches!(cause, (3, Cause::Launch, _)))
        );
        // The copy began a cycle after each of the two statements.
        engines.wait(copy, 4);
        assert!((engines.now() - (2e-9 + 4e-6 + 1e-6)).abs() < 1e-12);
    }

    #[test]
    fn the_timeline_has_the_core_at_every_time() {
        let mut engines = Engines::new(&speeds(), true);
        engines.launch(1);
        let copy = engines.start(&IN, 2);
        let work = Work {
            vector: 500.0,
            ..Work::default()
        };
        engines.compute(&work, 3);
        engines.step(4);
        engines.wait(copy, 5);
        let (spans, _) = engines.timeline();
        let kinds = |kind| spans.iter().any(|span| span.kind == kind);
        assert!(kinds(SpanKind::Launch) && kinds(SpanKind::Issue) && kinds(SpanKind::Wait));
        // The core issues, starts, computes or waits: one after the other, without a gap.
        let mut core: Vec<&Span> = spans
            .iter()
            .filter(|span| matches!(span.engine, Engine::Scalar | Engine::Vector))
            .collect();
        core.sort_by(|a, b| a.from.total_cmp(&b.from));
        let end = core.iter().fold(0.0, |now, span| {
            assert!((span.from - now).abs() < 1e-15, "{span:?} after {now}");
            span.to
        });
        assert!((end - engines.now()).abs() < 1e-15);
    }

    #[test]
    fn a_copy_behind_a_computation_costs_nothing() {
        let mut engines = Engines::new(&speeds(), false);
        let copy = engines.start(&IN, 1);
        let work = Work {
            matrix: 6000.0,
            vector: 10.0,
            ..Work::default()
        };
        engines.compute(&work, 2);
        let before = engines.now();
        engines.wait(copy, 3);
        assert!((engines.now() - before - 1e-9).abs() < 1e-15);
        let total: f64 = engines.causes().map(|(_, _, seconds)| seconds).sum();
        assert!((total - engines.now()).abs() < 1e-15);
    }
}
