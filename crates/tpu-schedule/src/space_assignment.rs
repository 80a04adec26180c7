//! Assigns a memory space to each buffer. Buffers are considered in the order of the time that VMEM
//! saves, divided by the square root of their size.

mod inside;

use super::best_fit::Heap;
use super::builder::{Builder, is_plain};
use super::live_ranges::Nest;
use super::{BufferId, HBM, Reason, Source, Step};
use tegula_fusion::{Node, ValueId};
use tegula_ir::Op;

/// The alignment of buffers in VMEM, in bytes: one transfer (JAX Pallas documentation, "TPU
/// pipelining").
const ALIGNMENT: i64 = 4096;
/// The number of rows copied together with one row: those of its tile.
const ROWS_OF_A_TILE: i64 = 8;
/// The least fraction of a copy's time that kernels before its use must hide.
const LEAST_HIDDEN: f64 = 0.25;

/// Whether an operation uses each element of its operands at most once.
fn passes_once(op: &Op) -> bool {
    op.is_elementwise()
        || matches!(
            op,
            Op::Copy
                | Op::Reshape
                | Op::Transpose(_)
                | Op::Broadcast(_)
                | Op::Slice(_)
                | Op::Pad(_)
                | Op::Concatenate(_)
                | Op::Constant(_)
                | Op::Iota(_)
                | Op::Parameter(_)
                | Op::Bitcast
        )
}

/// A copy between memories to make.
#[derive(Clone, Debug)]
pub(super) struct Fetch {
    pub of: BufferId,
    /// The copy begins before this step.
    pub start: usize,
    /// The copy must be complete before this step.
    pub first: usize,
    /// The copy is read from this step on.
    pub switch: usize,
    /// The copy is read up to this step; `None` means to the end.
    pub until: Option<usize>,
    pub before_program: bool,
    /// The destination.
    pub to: To,
    pub saves: f64,
}

/// The destination of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// A new buffer at this offset in VMEM.
    Vmem(i64),
    /// A new buffer in HBM.
    Hbm,
    /// The place where a loop needs the value. The copy replaces the [`Step::Pass`], before which
    /// it must be complete.
    Place(BufferId),
}

/// A buffer that may be in VMEM.
struct Candidate {
    id: BufferId,
    /// The seconds that VMEM saves.
    saves: f64,
    /// The steps from its first to its last read; for a buffer that is written, from the writing
    /// step on.
    steps: (usize, usize),
    /// The steps that read it.
    reads: Vec<usize>,
    /// The steps at which views of it are made.
    views: Vec<usize>,
    kind: Kind,
}

/// How a buffer gets to VMEM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It is in HBM from the beginning and has to be fetched.
    Fetched,
    /// It is written there.
    Written,
    /// It is the place of a loop state whose first value is this buffer, which has to be fetched
    /// before this step.
    Begins(BufferId, usize),
}

/// The steps that use a buffer or another one in its place.
#[derive(Clone, Debug, Default)]
struct Used {
    reads: Vec<usize>,
    writes: Vec<usize>,
    /// The steps that make views of it.
    views: Vec<usize>,
    /// The bytes that are read and written, multiplied by how often the steps run.
    traffic: f64,
    /// The results of the program that are stored there.
    results: Vec<BufferId>,
    /// Whether a loop's condition reads it.
    is_tested: bool,
}

pub(super) struct Placer<'a> {
    builder: &'a Builder<'a>,
    pub heap: Heap,
    nest: Nest,
    /// How often each step runs.
    times: Vec<f64>,
    /// The total time of the steps before each one, in seconds.
    elapsed: Vec<f64>,
    /// The time of copies that already run during each step, in seconds.
    copying: Vec<f64>,
    pub decided: Vec<(BufferId, Option<i64>, Reason)>,
    pub fetches: Vec<Fetch>,
    /// The seconds that VMEM saves with the decisions so far.
    pub saved: f64,
    /// Whether some input that a loop or conditional reads is not in VMEM for all of it.
    pub is_short: bool,
    /// Whether to try fetching inputs inside loops and conditionals before trying to keep them in
    /// VMEM throughout. Several inputs can then use the same memory in turn.
    inside_first: bool,
}

impl<'a> Placer<'a> {
    pub(super) fn new(builder: &'a Builder<'a>, inside_first: bool) -> Self {
        let schedule = &builder.schedule;
        let nest = Nest::of(schedule);
        let times = nest.times(schedule);
        let mut reserved = Vec::new();
        let mut elapsed = vec![0.0];
        for (number, step) in schedule.steps.iter().enumerate() {
            let (scoped, seconds) = match step {
                Step::Kernel {
                    scoped, seconds, ..
                }
                | Step::Relayout {
                    scoped, seconds, ..
                }
                | Step::Pass {
                    scoped, seconds, ..
                } => (*scoped, *seconds),
                _ => (0, 0.0),
            };
            reserved.push(scoped);
            let before = elapsed.last().copied().unwrap_or(0.0);
            elapsed.push(before + seconds * times[number]);
        }
        reserved.push(0);
        Self {
            builder,
            heap: Heap::new(schedule.vmem_bytes, ALIGNMENT, reserved),
            copying: vec![0.0; elapsed.len()],
            nest,
            times,
            elapsed,
            decided: Vec::new(),
            fetches: Vec::new(),
            saved: 0.0,
            is_short: false,
            inside_first,
        }
    }

    pub(super) fn place_all(&mut self) {
        let mut candidates = self.candidates();
        if !self.builder.keeps_arrays {
            let all = candidates.iter();
            self.decided
                .extend(all.map(|c| (c.id, None, Reason::NotKept)));
            return;
        }
        // libtpu's compiler fetches one input before the program begins.
        let is_input = |c: &Candidate| c.kind == Kind::Fetched;
        let inputs = candidates.iter().enumerate().filter(|(_, c)| is_input(c));
        let bytes = |c: &Candidate| self.builder.schedule.buffers[c.id].bytes;
        let room = self.builder.schedule.vmem_bytes - self.builder.options.scoped_bytes;
        let first = inputs
            .filter(|(_, c)| bytes(c) <= room && !self.is_streamed(c))
            .max_by_key(|(number, c)| (bytes(c), std::cmp::Reverse(*number)))
            .map(|(number, _)| number);
        if let Some(first) = first {
            let input = candidates.remove(first);
            self.fetch(&input, Some(0));
        }
        let worth = |c: &Candidate| c.saves / (bytes(c).max(1) as f64).sqrt();
        candidates.sort_by(|a, b| worth(b).total_cmp(&worth(a)).then(a.id.cmp(&b.id)));
        for candidate in &candidates {
            match candidate.kind {
                Kind::Fetched => {
                    if self.inside_first {
                        self.fetch_inside(candidate);
                    }
                    if !self.is_fetched(candidate.id) {
                        self.fetch(candidate, None);
                    }
                }
                Kind::Begins(of, pass) => self.begin(candidate, of, pass),
                Kind::Written => {
                    let bytes = bytes(candidate);
                    match self.heap.take(bytes, candidate.steps) {
                        Ok(offset) => self.decide(candidate, offset),
                        Err(gap) => self.evict(candidate, gap),
                    }
                }
            }
        }
        self.give_results(&candidates);
        for candidate in &candidates {
            if candidate.kind == Kind::Fetched && !self.is_fetched(candidate.id) {
                let mut reads = candidate.reads.iter();
                self.is_short |= reads.any(|&read| !self.nest.is_outside(read));
                self.fetch_inside(candidate);
            }
        }
    }

    fn is_fetched(&self, id: BufferId) -> bool {
        self.fetches.iter().any(|fetch| fetch.of == id)
    }

    fn decide(&mut self, candidate: &Candidate, offset: i64) {
        let reason = Reason::Saves(candidate.saves);
        self.saved += candidate.saves;
        self.decided.push((candidate.id, Some(offset), reason));
    }

    /// Copies results in the places of a loop or conditional from VMEM to HBM, once nothing writes
    /// them any more.
    fn give_results(&mut self, candidates: &[Candidate]) {
        let schedule = &self.builder.schedule;
        let all = self.used();
        for candidate in candidates {
            let in_vmem = |(id, offset, _): &(BufferId, Option<i64>, Reason)| {
                *id == candidate.id && offset.is_some()
            };
            if !self.decided.iter().any(in_vmem) {
                continue;
            }
            let Some(used) = all.get(candidate.id) else {
                continue;
            };
            let written = used
                .writes
                .iter()
                .map(|&step| self.nest.outside_after(step));
            let start = written.max().unwrap_or(0);
            for &of in &used.results {
                self.fetches.push(Fetch {
                    of,
                    start,
                    first: schedule.steps.len(),
                    switch: schedule.steps.len(),
                    until: None,
                    before_program: false,
                    to: To::Hbm,
                    saves: candidate.saves,
                });
            }
        }
    }

    /// Whether a single kernel reads an input elementwise, block by block, or only a few rows of
    /// it. Then fetching all of it first would not be faster.
    fn is_streamed(&self, input: &Candidate) -> bool {
        let [reader] = input.reads[..] else {
            return false;
        };
        let builder = self.builder;
        if !self.nest.is_outside(reader) {
            return false;
        }
        match &builder.schedule.steps[reader] {
            Step::Relayout { .. } => true,
            Step::Kernel { region, kernel, .. } => {
                let region = builder.assignment.regions.get(*region);
                let Some(kernel) = region.and_then(|region| region.kernels.get(*kernel)) else {
                    return false;
                };
                let nodes = || kernel.nodes.iter().map(|&id| &builder.program().nodes[id]);
                let op = |node: &Node| &builder.module[node.origin].op;
                let value = builder.schedule.buffers[input.id].value;
                let elements =
                    |value: ValueId| builder.program().values[value].shape.element_count();
                let takes_rows = |node: &Node| {
                    let few = node.results.first().is_some_and(|&rows| {
                        let (rows, all) = (elements(rows), elements(value));
                        rows.zip(all)
                            .is_some_and(|(rows, all)| rows < all / ROWS_OF_A_TILE)
                    });
                    few && matches!(op(node), Op::Gather { .. } | Op::DynamicSlice(_))
                        && node.operands.first() == Some(&value)
                };
                nodes().all(|node| passes_once(op(node))) || nodes().any(takes_rows)
            }
            _ => false,
        }
    }

    /// For an array that does not fit for its whole lifetime: keeps it in VMEM for the first part,
    /// and meanwhile copies it to HBM for later readers.
    fn evict(&mut self, candidate: &Candidate, gap: i64) {
        let buffer = &self.builder.schedule.buffers[candidate.id];
        let (bytes, written) = (buffer.bytes, candidate.steps.0);
        let seconds = self.builder.speeds.copy(bytes);
        let is_passed = buffer.source == Source::Passed;
        // Readers of a view would still read from VMEM.
        let schedule = &self.builder.schedule;
        let has_view = (0..schedule.buffers.len())
            .any(|id| id != candidate.id && schedule.base(id) == candidate.id);
        let mut steps = candidate.reads.iter().chain([&written]);
        if is_passed || has_view || !steps.all(|&step| self.nest.is_outside(step)) {
            self.decided.push((candidate.id, None, Reason::NoRoom(gap)));
            return;
        }
        for (kept, later) in candidate
            .reads
            .iter()
            .zip(candidate.reads.iter().skip(1))
            .rev()
        {
            // The copy runs concurrently with the kernels after the one that writes the array, up
            // to the last one that reads it from VMEM.
            let hidden = self.elapsed[*kept + 1] - self.elapsed[written + 1];
            if *kept <= written || hidden < LEAST_HIDDEN * seconds {
                continue;
            }
            if let Ok(offset) = self.heap.take(bytes, (written, *kept)) {
                self.decide(candidate, offset);
                self.fetches.push(Fetch {
                    of: candidate.id,
                    start: written + 1,
                    first: *kept + 1,
                    switch: *later,
                    until: None,
                    before_program: false,
                    to: To::Hbm,
                    saves: candidate.saves,
                });
                return;
            }
        }
        self.decided.push((candidate.id, None, Reason::NoRoom(gap)));
    }

    /// The uses of each buffer that has its own bytes.
    fn used(&self) -> Vec<Used> {
        let schedule = &self.builder.schedule;
        let mut all: Vec<Used> = vec![Used::default(); schedule.buffers.len()];
        let mut conditions = 0;
        for (number, step) in schedule.steps.iter().enumerate() {
            if let &Step::Part { control, part } = step
                && schedule.controls[control].is_loop
            {
                conditions = if part == 0 {
                    conditions + 1
                } else {
                    conditions - 1
                };
            }
            let times = self.times.get(number).copied().unwrap_or(1.0);
            let mut read = |id: BufferId, bytes: i64| {
                let used = &mut all[schedule.base(id)];
                used.reads.push(number);
                used.is_tested |= conditions > 0;
                used.traffic += bytes as f64 * times;
            };
            let bytes = |id: BufferId| schedule.buffers[id].bytes;
            let mut written: &[BufferId] = &[];
            match step {
                Step::Kernel {
                    region,
                    kernel,
                    reads,
                    writes,
                    ..
                } => {
                    for &id in reads {
                        read(id, self.bytes_read(*region, *kernel, id));
                    }
                    written = writes;
                }
                Step::Relayout { from, to, .. } => {
                    read(*from, bytes(*from));
                    written = std::slice::from_ref(to);
                }
                Step::Pass { what, to, .. } => {
                    if let Some(from) = what.by {
                        read(from, bytes(from));
                    }
                    written = std::slice::from_ref(to);
                }
                Step::Bitcast { from, .. } => all[schedule.base(*from)].views.push(number),
                _ => {}
            }
            for &id in written {
                let used = &mut all[schedule.base(id)];
                used.writes.push(number);
                used.traffic += bytes(id) as f64 * times;
            }
        }
        for &result in &schedule.results {
            let used = &mut all[schedule.base(result)];
            if !used.results.contains(&result) {
                used.results.push(result);
            }
        }
        all
    }

    /// The bytes that a kernel reads of an array: all of them, or those of the slices that it
    /// takes.
    fn bytes_read(&self, region: usize, kernel: usize, id: BufferId) -> i64 {
        let builder = self.builder;
        let (buffer, program) = (&builder.schedule.buffers[id], builder.program());
        let region = builder.assignment.regions.get(region);
        let Some(kernel) = region.and_then(|region| region.kernels.get(kernel)) else {
            return buffer.bytes;
        };
        let elements = |value: ValueId| {
            let count = program.values[value].shape.element_count();
            count.unwrap_or(0).max(1)
        };
        let mut taken = 0;
        for &node in &kernel.nodes {
            let node = &program.nodes[node];
            if !node.operands.contains(&buffer.value) {
                continue;
            }
            let op = &builder.module[node.origin].op;
            let takes_part = matches!(op, Op::DynamicSlice(_) | Op::Slice(_) | Op::Gather { .. })
                && node.operands.iter().position(|&v| v == buffer.value) == Some(0);
            match node.results.first() {
                Some(&result) if takes_part => taken += elements(result),
                _ => return buffer.bytes,
            }
        }
        let share = taken as f64 / elements(buffer.value) as f64;
        (buffer.bytes as f64 * share.min(1.0)) as i64
    }

    /// The buffers that may be in VMEM, in order; the others are decided here.
    fn candidates(&mut self) -> Vec<Candidate> {
        let schedule = &self.builder.schedule;
        let lives = schedule.lifetimes();
        let mut candidates = Vec::new();
        for (id, used) in self.used().into_iter().enumerate() {
            let buffer = &schedule.buffers[id];
            if matches!(buffer.source, Source::Bitcast(_) | Source::Same(_)) {
                continue;
            }
            let shape = &self.builder.program().values[buffer.value].shape;
            let is_tested = used.is_tested;
            match self.candidate(id, lives[id], used) {
                _ if shape.element_count() == Some(1) => {
                    self.decided.push((id, None, Reason::SingleElement));
                }
                _ if is_tested => self.decided.push((id, None, Reason::Tested)),
                Some(candidate) => candidates.push(candidate),
                None => self.decided.push((id, None, Reason::Boundary)),
            }
        }
        candidates
    }

    fn candidate(&self, id: BufferId, life: (usize, usize), used: Used) -> Option<Candidate> {
        let schedule = &self.builder.schedule;
        let buffer = &schedule.buffers[id];
        let speeds = &self.builder.speeds;
        let saves = speeds.saved(used.traffic as i64);
        if buffer.source != Source::Given {
            // Results of a loop or conditional are copied from there to HBM.
            let is_passed = |&id: &BufferId| {
                let source = schedule.buffers[id].source;
                matches!(source, Source::Passed | Source::Same(_))
            };
            if !used.results.iter().all(is_passed) {
                return None;
            }
            // The copy to HBM replaces the last write.
            let copied = speeds.hbm(buffer.bytes) * used.results.len() as f64;
            let kind = self.begins(id, &used).unwrap_or(Kind::Written);
            return Some(Candidate {
                id,
                saves: (saves - copied).max(0.0),
                steps: life,
                reads: used.reads,
                views: used.views,
                kind,
            });
        }
        // A value that is only passed is fetched directly to its destination.
        let is_pass = |&step: &usize| matches!(schedule.steps[step], Step::Pass { .. });
        if !used.results.is_empty() || used.reads.iter().all(is_pass) {
            return None;
        }
        let reads = used.reads.iter().chain(&used.views);
        let first = reads.map(|&step| self.nest.from_outside(step)).min()?;
        Some(Candidate {
            id,
            saves,
            steps: (first, life.1.max(first)),
            reads: used.reads,
            views: used.views,
            kind: Kind::Fetched,
        })
    }

    /// Whether a state's first value is a given array that has to be fetched to its place.
    fn begins(&self, id: BufferId, used: &Used) -> Option<Kind> {
        let schedule = &self.builder.schedule;
        let &pass = used.writes.first()?;
        let Step::Pass { what, to, .. } = &schedule.steps[pass] else {
            return None;
        };
        let from = what.by?;
        let buffer = &schedule.buffers[from];
        let is_first = *to == id && used.reads.iter().all(|&read| read > pass);
        let is_given = buffer.source == Source::Given && buffer.space() == HBM;
        let same = is_plain(buffer, &schedule.buffers[id]);
        (is_first && is_given && same && self.nest.is_outside(pass))
            .then_some(Kind::Begins(from, pass))
    }

    /// The latest step before which a copy may begin so that it is hidden, and the seconds that
    /// hide it.
    fn start(&self, first: usize, seconds: f64) -> (usize, f64) {
        let hidden = |start: usize| {
            let free = self.elapsed[first] - self.elapsed[start];
            free - self.copying[start..first].iter().sum::<f64>()
        };
        let mut outside = (0..first).rev().filter(|&step| self.nest.is_outside(step));
        let start = outside.find(|&start| hidden(start) >= seconds).unwrap_or(0);
        (start, hidden(start))
    }

    /// Records that a copy runs concurrently with a range of steps.
    fn runs(&mut self, start: usize, first: usize, seconds: f64) {
        let total = (self.elapsed[first] - self.elapsed[start]).max(1e-12);
        for step in start..first {
            let share = (self.elapsed[step + 1] - self.elapsed[step]) / total;
            self.copying[step] += seconds * share;
        }
    }

    /// Fetches an input, from a given step on, or as late as the copy can be hidden.
    fn fetch(&mut self, input: &Candidate, from: Option<usize>) {
        let bytes = self.builder.schedule.buffers[input.id].bytes;
        let seconds = self.builder.speeds.copy(bytes);
        let (first, last) = input.steps;
        let (start, hidden) = self.start(first, seconds);
        let start = from.unwrap_or(start);
        // Data that a loop reads repeatedly is worth waiting for.
        let is_looped = input.reads.iter().any(|&step| !self.nest.is_outside(step));
        let is_repeated = is_looped && input.saves > seconds;
        if from.is_none() && hidden < LEAST_HIDDEN * seconds && !is_repeated {
            self.decided.push((input.id, None, Reason::NotHidden));
            return;
        }
        match self.heap.take(bytes, (start, last)) {
            Ok(offset) => {
                self.runs(start, first, seconds);
                self.saved += input.saves;
                self.decided.push((input.id, None, Reason::Boundary));
                self.fetches.push(Fetch {
                    of: input.id,
                    start,
                    first,
                    switch: first,
                    until: None,
                    before_program: from.is_some(),
                    to: To::Vmem(offset),
                    saves: input.saves,
                });
            }
            Err(gap) => self.decided.push((input.id, None, Reason::NoRoom(gap))),
        }
    }

    /// Fetches the first value of a state to the state's place.
    fn begin(&mut self, state: &Candidate, of: BufferId, pass: usize) {
        let bytes = self.builder.schedule.buffers[state.id].bytes;
        let seconds = self.builder.speeds.copy(bytes);
        let (early, _) = self.start(pass, seconds);
        let mut starts = [early, pass].into_iter();
        let last = state.steps.1;
        let found = starts.find_map(|start| {
            let offset = self.heap.take(bytes, (start, last)).ok()?;
            Some((start, offset))
        });
        let Some((start, offset)) = found else {
            let gap = self.heap.take(bytes, (pass, last)).err().unwrap_or(0);
            self.decided.push((state.id, None, Reason::NoRoom(gap)));
            return;
        };
        self.runs(start, pass, seconds);
        self.decide(state, offset);
        self.fetches.push(Fetch {
            of,
            start,
            first: pass,
            switch: pass,
            until: None,
            before_program: false,
            to: To::Place(state.id),
            saves: state.saves,
        });
    }
}
