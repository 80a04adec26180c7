//! Making a schedule: steps in order, then a space for each buffer, then the copies
//! that fetch inputs.

use super::heap::Heap;
use super::time::{Speeds, operations};
use super::{Buffer, BufferId, HBM, Reason, Schedule, Source, Step, Transfer, VMEM};
use crate::assign::{Assignment, Kernel, Order, Region, flat, reshaped};
use crate::physical::{PhysicalLayout, is_bitcast};
use rustc_hash::FxHashMap;
use tegula_fusion::{Def, Node, Program, ValueId};
use tegula_ir::{ArrayShape, Layout, Module, Op};
use tegula_target::{Chip, Param};

/// Buffers in VMEM begin at multiples of this many bytes: one transfer of VMEM (JAX
/// Pallas documentation, "TPU pipelining").
const ALIGNMENT: i64 = 4096;
/// VMEM that a kernel may use for its windows: the default of the real compiler's flag
/// `xla_tpu_scoped_vmem_limit_kib` (openxla docs/flags_guidance.md); no kernel that was
/// measured on v5e uses more.
const SCOPED_LIMIT: i64 = 16 << 20;
/// From so many bytes on a copy is made in slices, so that kernels between them find
/// HBM free (the least that was seen sliced on v5e).
const SLICED_FROM: i64 = 1 << 20;
/// Rows that a copy of one row brings with it: those of a tile.
const ROWS_OF_A_TILE: i64 = 8;
/// How many slices (the most common number that was seen on v5e).
const SLICES: i64 = 4;
/// A copy is worth starting if the kernels before its use hide this share of it.
const LEAST_HIDDEN: f64 = 0.25;

/// What a schedule is made for.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of VMEM; [`None`]: the chip's.
    pub vmem_bytes: Option<i64>,
    /// Bytes of VMEM that a kernel may use for its windows.
    pub scoped_bytes: i64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            vmem_bytes: None,
            scoped_bytes: SCOPED_LIMIT,
        }
    }
}

/// Schedules a program's own region. What loops and branches hold is not looked into:
/// it stays in HBM, and their steps keep the scoped limit for themselves.
pub fn schedule(
    module: &Module,
    assignment: &Assignment,
    chip: &Chip,
    options: &Options,
) -> Schedule {
    let vmem = chip.base(Param::VmemBytes).unwrap_or(0.0) as i64;
    let Some(region) = assignment.regions.iter().find(|region| region.of.is_none()) else {
        return Schedule::default();
    };
    let mut builder = Builder {
        module,
        assignment,
        options,
        speeds: Speeds::new(chip),
        schedule: Schedule {
            vmem_bytes: options.vmem_bytes.unwrap_or(vmem),
            ..Schedule::default()
        },
        home: FxHashMap::default(),
        pending: FxHashMap::default(),
        turned: FxHashMap::default(),
    };
    builder.steps(region);
    builder.results(region);
    let mut placer = Placer::new(&builder);
    placer.place_all();
    let fetches = std::mem::take(&mut placer.fetches);
    let peak = placer.heap.peak();
    let decided = std::mem::take(&mut placer.decided);
    builder.apply(decided);
    builder.insert_copies(fetches);
    builder.schedule.vmem_peak = peak;
    builder.schedule
}

struct Builder<'a> {
    module: &'a Module,
    assignment: &'a Assignment,
    options: &'a Options,
    speeds: Speeds,
    schedule: Schedule,
    /// The buffer that holds a value.
    home: FxHashMap<ValueId, BufferId>,
    /// Views that nothing has read yet, by the kernel's number.
    pending: FxHashMap<ValueId, usize>,
    /// Copies of a value in other layouts, by the layout's text.
    turned: FxHashMap<(ValueId, String), BufferId>,
}

impl Builder<'_> {
    fn program(&self) -> &Program {
        &self.assignment.program
    }

    fn layout(&self, value: ValueId) -> Layout {
        let layout = self.assignment.layouts.get(&value).cloned();
        layout.unwrap_or_else(|| flat(self.program(), value))
    }

    fn buffer(&mut self, value: ValueId, layout: Layout, source: Source) -> BufferId {
        let shape = ArrayShape {
            layout: Some(Box::new(layout.clone())),
            ..self.program().values[value].shape.clone()
        };
        let bytes = PhysicalLayout::new(&shape).map_or(0, |layout| layout.padded_bytes());
        self.schedule.buffers.push(Buffer {
            value,
            layout,
            bytes,
            source,
            offset: None,
            reason: Reason::Boundary,
        });
        self.schedule.buffers.len() - 1
    }

    /// The buffer of a value; made as a given one if nothing has written it, and as a
    /// view where the first reads it.
    fn home(&mut self, region: &Region, value: ValueId) -> BufferId {
        if let Some(&id) = self.home.get(&value) {
            return id;
        }
        let view = self
            .pending
            .remove(&value)
            .and_then(|number| region.kernels.get(number));
        if let Some(view) = view
            && let [from] = self.reads(region, view)[..]
        {
            let layout = self.layout(value);
            let to = self.buffer(value, layout, Source::Bitcast(from));
            self.home.insert(value, to);
            let root = view.root;
            self.schedule.steps.push(Step::Bitcast { root, from, to });
            return to;
        }
        let layout = self.layout(value);
        let id = self.buffer(value, layout, Source::Given);
        self.home.insert(value, id);
        id
    }

    fn steps(&mut self, region: &Region) {
        for &parameter in &self.program().parameters.clone() {
            self.home(region, parameter);
        }
        for (number, kernel) in region.kernels.iter().enumerate() {
            let node = &self.program().nodes[kernel.root];
            let results = node.results.clone();
            if let (true, [result]) = (kernel.is_bitcast, results.as_slice()) {
                self.pending.insert(*result, number);
                continue;
            }
            let control = !node.kind.regions().is_empty();
            if let (true, [result]) = (kernel.is_view, results.as_slice())
                && self.view_of_copy(region, kernel, *result)
            {
                continue;
            }
            let reads = self.reads(region, kernel);
            let mut writes = Vec::new();
            for &result in &results {
                let layout = kernel.inside.get(&result).cloned();
                let layout = layout.unwrap_or_else(|| self.layout(result));
                let id = self.buffer(result, layout, Source::Kernel);
                self.home.insert(result, id);
                writes.push(id);
            }
            let bytes = |ids: &[BufferId]| -> i64 {
                ids.iter().map(|&id| self.schedule.buffers[id].bytes).sum()
            };
            let moved = bytes(&reads) + bytes(&writes);
            let work = operations(self.module, self.program(), &kernel.nodes);
            self.schedule.steps.push(Step::Kernel {
                kernel: number,
                is_control: control,
                scoped: if control {
                    self.options.scoped_bytes
                } else {
                    self.scoped(moved)
                },
                seconds: self.speeds.kernel(work, moved),
                reads,
                writes,
            });
        }
    }

    /// A view that moves bytes, as a copy into the layout of which it is a bitcast, if
    /// there is one.
    fn view_of_copy(&mut self, region: &Region, kernel: &Kernel, result: ValueId) -> bool {
        let [read] = kernel.reads.as_slice() else {
            return false;
        };
        let program = self.program();
        let shapes = [read.value, result].map(|value| program.values[value].shape.clone());
        let to = self.layout(result);
        let sizes = [0, 1].map(|at| shapes[at].static_dims().unwrap_or_default());
        let op = &self.module[program.nodes[kernel.root].origin].op;
        let order = match op {
            // Dimension `i` of the result is dimension `permutation[i]` of the operand.
            Op::Transpose(permutation) => to
                .minor_to_major
                .iter()
                .map(|&dim| permutation.get(dim as usize).map(|&d| d as u32))
                .collect(),
            _ => reshaped(&to.minor_to_major, &sizes[1], &sizes[0]),
        };
        let bits = shapes[0].element_type.bits();
        let layout = order
            .and_then(|order: Order| tegula_target::layout_in_order(bits, &sizes[0], &order).ok());
        let Some(layout) = layout else { return false };
        let [from, into] =
            [(&shapes[0], &layout), (&shapes[1], &to)].map(|(shape, layout)| ArrayShape {
                layout: Some(Box::new(layout.clone())),
                ..shape.clone()
            });
        // A transposition was turned to the same order: the same bytes, unless padded
        // otherwise.
        let same = match op {
            Op::Transpose(_) => {
                let bytes = |shape| PhysicalLayout::new(shape).map(|layout| layout.padded_bytes());
                bytes(&from) == bytes(&into)
            }
            _ => is_bitcast(&from, &into),
        };
        if !same {
            return false;
        }
        let home = self.home(region, read.value);
        let copy = self.turn(read.value, home, &layout);
        let view = self.buffer(result, to, Source::Bitcast(copy));
        self.home.insert(result, view);
        let root = kernel.root;
        self.schedule.steps.push(Step::Bitcast {
            root,
            from: copy,
            to: view,
        });
        true
    }

    /// VMEM for two windows each of what a kernel moves, up to the limit.
    fn scoped(&self, moved: i64) -> i64 {
        moved.saturating_mul(2).min(self.options.scoped_bytes)
    }

    /// The buffers that a kernel reads, with copies into the layouts that it wants.
    fn reads(&mut self, region: &Region, kernel: &Kernel) -> Vec<BufferId> {
        let mut reads = Vec::new();
        for read in &kernel.reads {
            if is_immediate(self.program(), read.value) {
                continue;
            }
            let home = self.home(region, read.value);
            let id = match &read.layout {
                Some(layout) if read.copied => self.turn(read.value, home, layout),
                _ => home,
            };
            reads.push(id);
        }
        reads
    }

    /// The value in another layout, copied once for all kernels that want it.
    fn turn(&mut self, value: ValueId, from: BufferId, layout: &Layout) -> BufferId {
        let key = (value, layout.to_string());
        if let Some(&id) = self.turned.get(&key) {
            return id;
        }
        let to = self.buffer(value, layout.clone(), Source::Relayout(from));
        let moved = self.schedule.buffers[from].bytes + self.schedule.buffers[to].bytes;
        self.schedule.steps.push(Step::Relayout {
            from,
            to,
            scoped: self.scoped(moved),
            seconds: self.speeds.kernel(0.0, moved),
        });
        self.turned.insert(key, to);
        to
    }

    fn results(&mut self, region: &Region) {
        for (number, &value) in region.results.iter().enumerate() {
            let home = self.home(region, value);
            let wanted = self.assignment.results.get(number).cloned();
            let own = self.schedule.buffers[home].layout.clone();
            let given = self.schedule.base(home);
            let is_given = self.schedule.buffers[given].source == Source::Given;
            let id = match wanted {
                Some(wanted) if !self.same_bytes(value, &own, &wanted) || is_given => {
                    self.turn(value, home, &wanted)
                }
                _ => home,
            };
            self.schedule.results.push(id);
        }
    }

    fn same_bytes(&self, value: ValueId, a: &Layout, b: &Layout) -> bool {
        let with = |layout: &Layout| ArrayShape {
            layout: Some(Box::new(layout.clone())),
            ..self.program().values[value].shape.clone()
        };
        a == b || is_bitcast(&with(a), &with(b))
    }

    /// Sets what was decided, and the views' spaces after their bases'.
    fn apply(&mut self, decided: Vec<(BufferId, Option<i64>, Reason)>) {
        for (id, offset, reason) in decided {
            let buffer = &mut self.schedule.buffers[id];
            // What is given may be in the host's memory, and a result may go there.
            if offset.is_some() {
                buffer.layout.memory_space = VMEM;
            } else if buffer.layout.memory_space == VMEM {
                buffer.layout.memory_space = HBM;
            }
            buffer.offset = offset;
            buffer.reason = reason;
        }
        for id in 0..self.schedule.buffers.len() {
            if let Source::Bitcast(_) = self.schedule.buffers[id].source {
                let space = self.schedule.buffers[self.schedule.base(id)].space();
                let buffer = &mut self.schedule.buffers[id];
                buffer.layout.memory_space = space;
                buffer.reason = Reason::View;
            }
        }
    }

    /// Puts the copies into the steps, and lets the kernels read what they fetched.
    fn insert_copies(&mut self, mut fetches: Vec<Fetch>) {
        fetches.sort_by_key(|fetch| (fetch.start, fetch.first, fetch.of));
        let old = std::mem::take(&mut self.schedule.steps);
        let count = old.len();
        let mut starts: Vec<Vec<usize>> = vec![Vec::new(); count + 1];
        let mut dones: Vec<Vec<usize>> = vec![Vec::new(); count + 1];
        for fetch in &fetches {
            let from = fetch.of;
            let mut buffer = self.schedule.buffers[from].clone();
            buffer.layout.memory_space = if fetch.offset.is_some() { VMEM } else { HBM };
            buffer.source = Source::Copy(from);
            buffer.offset = fetch.offset;
            buffer.reason = match fetch.offset {
                Some(_) => Reason::Saves(fetch.saves),
                None => Reason::Evicted,
            };
            self.schedule.buffers.push(buffer);
            let to = self.schedule.buffers.len() - 1;
            let bytes = self.schedule.buffers[from].bytes;
            starts[fetch.start].push(self.schedule.transfers.len());
            dones[fetch.first].push(self.schedule.transfers.len());
            let seconds = self.speeds.copy(bytes);
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
        let mut fetched: FxHashMap<BufferId, BufferId> = FxHashMap::default();
        for (number, mut step) in old.into_iter().enumerate() {
            // What is evicted makes room for what is fetched.
            let evicts = |copy: &&usize| fetches[**copy].offset.is_none();
            for &copy in dones[number].iter().filter(evicts) {
                self.schedule.steps.push(Step::CopyDone(copy));
            }
            for &copy in &starts[number] {
                self.schedule.steps.push(Step::CopyStart(copy));
            }
            for &copy in dones[number].iter().filter(|copy| !evicts(copy)) {
                self.schedule.steps.push(Step::CopyDone(copy));
            }
            for (fetch, transfer) in fetches.iter().zip(&self.schedule.transfers) {
                if fetch.switch == number {
                    fetched.insert(transfer.from, transfer.to);
                }
            }
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
                Step::CopyStart(_) | Step::CopyDone(_) => {}
            }
            self.schedule.steps.push(step);
        }
    }

    /// How many slices a copy of a buffer is made in: along its most major dimension,
    /// at tiles.
    fn slices(&self, id: BufferId) -> i64 {
        let buffer = &self.schedule.buffers[id];
        let dims = self.program().values[buffer.value].shape.static_dims();
        let order = &buffer.layout.minor_to_major;
        let (Some(dims), Some(&major)) = (dims, order.last()) else {
            return 1;
        };
        let size = dims.get(major as usize).copied().unwrap_or(1);
        // Of two dimensions the most major one lies in the tile.
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

/// Whether a value is a constant that kernels hold themselves.
pub(crate) fn is_immediate(program: &Program, value: ValueId) -> bool {
    let data = &program.values[value];
    match &data.def {
        Def::Constant(literal) => literal.is_empty() || literal.uniform_element().is_some(),
        _ => false,
    }
}

/// Whether an operation takes each element of its operands once, where it takes them.
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

/// A copy to make.
#[derive(Clone, Debug)]
struct Fetch {
    of: BufferId,
    /// Before this step it begins.
    start: usize,
    /// Before this step it must be done.
    first: usize,
    /// From this step on the copy is read.
    switch: usize,
    before_program: bool,
    /// Where in VMEM it goes; without, it goes to HBM.
    offset: Option<i64>,
    saves: f64,
}

/// Something that may go to VMEM.
struct Candidate {
    id: BufferId,
    /// Seconds that VMEM saves.
    saves: f64,
    /// Steps that read it; for one that is written, from the step that writes it on.
    steps: (usize, usize),
    /// The kernels that read it.
    reads: Vec<usize>,
    fetched: bool,
}

struct Placer<'a> {
    builder: &'a Builder<'a>,
    heap: Heap,
    /// For each step its seconds, and those before it.
    elapsed: Vec<f64>,
    /// Seconds of copies that run during a step already.
    copying: Vec<f64>,
    decided: Vec<(BufferId, Option<i64>, Reason)>,
    fetches: Vec<Fetch>,
}

impl<'a> Placer<'a> {
    fn new(builder: &'a Builder<'a>) -> Self {
        let schedule = &builder.schedule;
        let mut reserved = Vec::new();
        let mut elapsed = vec![0.0];
        for step in &schedule.steps {
            let (scoped, seconds) = match step {
                Step::Kernel {
                    scoped, seconds, ..
                }
                | Step::Relayout {
                    scoped, seconds, ..
                } => (*scoped, *seconds),
                _ => (0, 0.0),
            };
            reserved.push(scoped);
            elapsed.push(elapsed.last().copied().unwrap_or(0.0) + seconds);
        }
        reserved.push(0);
        Self {
            builder,
            heap: Heap::new(schedule.vmem_bytes, ALIGNMENT, reserved),
            copying: vec![0.0; elapsed.len()],
            elapsed,
            decided: Vec::new(),
            fetches: Vec::new(),
        }
    }

    fn place_all(&mut self) {
        let mut candidates = self.candidates();
        // The real compiler fetches one input before the program begins.
        let inputs = candidates.iter().enumerate().filter(|(_, c)| c.fetched);
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
            if candidate.fetched {
                self.fetch(candidate, None);
                continue;
            }
            let bytes = bytes(candidate);
            match self.heap.take(bytes, candidate.steps) {
                Ok(offset) => {
                    let reason = Reason::Saves(candidate.saves);
                    self.decided.push((candidate.id, Some(offset), reason));
                }
                Err(gap) => self.evict(candidate, gap),
            }
        }
    }

    /// Whether one kernel reads an input, element by element, block by block or a few rows
    /// of it: that takes no longer than fetching all of it first.
    fn is_streamed(&self, input: &Candidate) -> bool {
        let [reader] = input.reads[..] else {
            return false;
        };
        let builder = self.builder;
        let region = builder.assignment.regions.iter().find(|r| r.of.is_none());
        match (&builder.schedule.steps[reader], region) {
            (Step::Relayout { .. }, _) => true,
            (Step::Kernel { kernel, .. }, Some(region)) => {
                let Some(kernel) = region.kernels.get(*kernel) else {
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

    /// Keeps an array that finds no room for all its life in VMEM for the first part of
    /// it, and copies it to HBM meanwhile for what reads it later.
    fn evict(&mut self, candidate: &Candidate, gap: i64) {
        let buffer = &self.builder.schedule.buffers[candidate.id];
        let (bytes, written) = (buffer.bytes, candidate.steps.0);
        let seconds = self.builder.speeds.copy(bytes);
        // What reads a view would still read VMEM.
        let schedule = &self.builder.schedule;
        let has_view = (0..schedule.buffers.len())
            .any(|id| id != candidate.id && schedule.base(id) == candidate.id);
        if has_view {
            self.decided.push((candidate.id, None, Reason::NoRoom(gap)));
            return;
        }
        for (kept, later) in candidate
            .reads
            .iter()
            .zip(candidate.reads.iter().skip(1))
            .rev()
        {
            // The copy runs beside the kernels behind the one that writes, up to the
            // last that reads VMEM.
            let hidden = self.elapsed[*kept + 1] - self.elapsed[written + 1];
            if *kept <= written || hidden < LEAST_HIDDEN * seconds {
                continue;
            }
            if let Ok(offset) = self.heap.take(bytes, (written, *kept)) {
                let reason = Reason::Saves(candidate.saves);
                self.decided.push((candidate.id, Some(offset), reason));
                self.fetches.push(Fetch {
                    of: candidate.id,
                    start: written + 1,
                    first: *kept + 1,
                    switch: *later,
                    before_program: false,
                    offset: None,
                    saves: candidate.saves,
                });
                return;
            }
        }
        self.decided.push((candidate.id, None, Reason::NoRoom(gap)));
    }

    /// What may go to VMEM, in the order of buffers; the rest is decided.
    fn candidates(&mut self) -> Vec<Candidate> {
        let schedule = &self.builder.schedule;
        let lives = schedule.lifetimes();
        let mut reads: Vec<Vec<usize>> = vec![Vec::new(); schedule.buffers.len()];
        let mut passed = vec![false; schedule.buffers.len()];
        for (number, step) in schedule.steps.iter().enumerate() {
            match step {
                Step::Kernel {
                    reads: ids,
                    writes,
                    is_control,
                    ..
                } => {
                    for &id in ids {
                        reads[schedule.base(id)].push(number);
                    }
                    if *is_control {
                        let all = ids.iter().chain(writes);
                        all.for_each(|&id| passed[schedule.base(id)] = true);
                    }
                }
                Step::Relayout { from, .. } => reads[schedule.base(*from)].push(number),
                _ => {}
            }
        }
        let results: Vec<BufferId> = schedule
            .results
            .iter()
            .map(|&id| schedule.base(id))
            .collect();
        let mut candidates = Vec::new();
        for (id, buffer) in schedule.buffers.iter().enumerate() {
            if matches!(buffer.source, Source::Bitcast(_)) {
                continue;
            }
            let elements = self.builder.program().values[buffer.value]
                .shape
                .element_count();
            if results.contains(&id) {
                self.decided.push((id, None, Reason::Boundary));
                continue;
            }
            if passed[id] {
                self.decided.push((id, None, Reason::Control));
                continue;
            }
            if elements == Some(1) {
                self.decided.push((id, None, Reason::SingleElement));
                continue;
            }
            let fetched = buffer.source == Source::Given;
            let times = reads[id].len() as i64 + i64::from(!fetched);
            let saves = self
                .builder
                .speeds
                .saved(buffer.bytes.saturating_mul(times));
            let first = if fetched {
                reads[id].first().copied()
            } else {
                Some(lives[id].0)
            };
            let Some(first) = first else {
                self.decided.push((id, None, Reason::Boundary));
                continue;
            };
            let last = lives[id].1.max(first);
            candidates.push(Candidate {
                id,
                saves,
                steps: (first, last),
                reads: reads[id].clone(),
                fetched,
            });
        }
        candidates
    }

    /// Fetches an input, from a given step on or as late as hides the copy.
    fn fetch(&mut self, input: &Candidate, from: Option<usize>) {
        let bytes = self.builder.schedule.buffers[input.id].bytes;
        let seconds = self.builder.speeds.copy(bytes);
        let (first, last) = input.steps;
        let hidden = |start: usize| {
            let free = self.elapsed[first] - self.elapsed[start];
            free - self.copying[start..first].iter().sum::<f64>()
        };
        let start = from.unwrap_or_else(|| {
            let enough = (0..first).rev().find(|&start| hidden(start) >= seconds);
            enough.unwrap_or(0)
        });
        if from.is_none() && hidden(start) < LEAST_HIDDEN * seconds {
            self.decided.push((input.id, None, Reason::NotHidden));
            return;
        }
        match self.heap.take(bytes, (start, last)) {
            Ok(offset) => {
                let total = (self.elapsed[first] - self.elapsed[start]).max(1e-12);
                for step in start..first {
                    let share = (self.elapsed[step + 1] - self.elapsed[step]) / total;
                    self.copying[step] += seconds * share;
                }
                self.decided.push((input.id, None, Reason::Boundary));
                self.fetches.push(Fetch {
                    of: input.id,
                    start,
                    first,
                    switch: first,
                    before_program: from.is_some(),
                    offset: Some(offset),
                    saves: input.saves,
                });
            }
            Err(gap) => self.decided.push((input.id, None, Reason::NoRoom(gap))),
        }
    }
}
