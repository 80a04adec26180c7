//! When what runs: the core goes through kernels in the program's order, links carry collectives
//! beside it.
//!
//! A scheduled collective is begun once its operands are there. In which order the links take them does
//! not depend on times: by the last kernel that they wait for, then by their place in the program. So
//! the time of everything is a maximum of sums of what is before it, and nothing becomes slower when
//! something becomes faster.
//!
//! A loop's iterations are alike: one is timed, from idle links to idle links.

use crate::report::{CollectiveTime, Event, Memory, Report, Row, Share};
use crate::steps::{Step, StepKind, Steps};
use crate::work::Work;
use crate::{CollectiveKind, Options, Overlap, Slice, Transfer};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use tegula_fusion::ValueId;

/// Events that a timeline has at most.
const MOST_EVENTS: usize = 20_000;

/// Runs a program.
pub(crate) fn run(program: &Steps, slice: &Slice, options: &Options, memory: Memory) -> Report {
    let scheduled = match options.overlap {
        Overlap::Auto => !program.has_pairs,
        Overlap::Written => false,
        Overlap::Scheduled => true,
    };
    let axes = slice.links.torus.axes.len();
    let mut runner = Runner {
        slice,
        scheduled,
        totals: Totals {
            busy: vec![0.0; axes],
            ..Totals::default()
        },
        timeline: Vec::new(),
    };
    let all = runner.region(&program.entry, 0.0, 1.0, 0);
    let Totals {
        flops,
        collectives,
        busy,
    } = runner.totals;
    let peak = slice.speeds.bf16;
    let per_second = |flops: f64| {
        if all.seconds > 0.0 {
            flops / all.seconds / peak
        } else {
            0.0
        }
    };
    Report {
        chip: slice.chip.clone(),
        topology: slice.links.torus.to_string(),
        devices: slice.devices(),
        seconds: all.seconds,
        shares: all.shares,
        flops,
        utilisation: per_second(flops),
        model_utilisation: options
            .model_flops
            .map(|all| per_second(all / slice.devices() as f64)),
        memory: Memory {
            capacity: slice.speeds.hbm_bytes,
            ..memory
        },
        collectives,
        busy: busy
            .iter()
            .map(|busy| (busy / all.seconds.max(f64::MIN_POSITIVE)).min(1.0))
            .collect(),
        axes: slice
            .links
            .torus
            .axes
            .iter()
            .map(|axis| (axis.size, axis.wraps))
            .collect(),
        scheduled,
        assumed_loops: program.assumed_loops.clone(),
        unknown_calls: program.unknown_calls.clone(),
        assumed: slice.speeds.assumed.clone(),
        timeline: runner.timeline,
    }
}

/// What adds up over the whole program.
#[derive(Default)]
struct Totals {
    flops: f64,
    collectives: BTreeMap<CollectiveKind, CollectiveTime>,
    busy: Vec<f64>,
}

/// A region's time.
#[derive(Default)]
struct Span {
    seconds: f64,
    shares: BTreeMap<Share, f64>,
}

struct Runner<'a> {
    slice: &'a Slice,
    scheduled: bool,
    totals: Totals,
    timeline: Vec<Event>,
}

/// A value that a collective gives.
#[derive(Clone, Copy)]
struct Arrival {
    /// When it is all there.
    at: f64,
    /// How long the collective takes.
    seconds: f64,
}

/// The state of a region that is run.
struct State {
    /// When the core is free.
    core: f64,
    /// When the links of each axis are free.
    links: Vec<f64>,
    /// When values are there that are not from the beginning.
    there: FxHashMap<ValueId, f64>,
    /// Those that collectives give.
    arrivals: FxHashMap<ValueId, Arrival>,
    /// Kernels with products: when they end, and how long they take.
    products: FxHashMap<ValueId, (f64, f64)>,
    shares: BTreeMap<Share, f64>,
}

impl State {
    fn spend(&mut self, share: Share, seconds: f64) {
        if seconds > 0.0 {
            *self.shares.entry(share).or_default() += seconds;
        }
    }

    /// The core waits for links until a time.
    fn wait(&mut self, until: f64) {
        self.spend(Share::Links, until - self.core);
        self.core = self.core.max(until);
    }

    fn ready(&self, values: &[ValueId]) -> f64 {
        let times = values.iter().filter_map(|value| self.there.get(value));
        times.copied().fold(0.0, f64::max)
    }
}

impl Runner<'_> {
    /// Runs the steps of a region from idle links; `times` is how often that happens in all.
    fn region(&mut self, steps: &[Step], start: f64, times: f64, depth: usize) -> Span {
        let mut state = State {
            core: 0.0,
            links: vec![0.0; self.slice.links.torus.axes.len()],
            there: FxHashMap::default(),
            arrivals: FxHashMap::default(),
            products: FxHashMap::default(),
            shares: BTreeMap::new(),
        };
        let at = At {
            start,
            times,
            depth,
        };
        if self.scheduled {
            let after = begins(steps);
            let mut by_position: Vec<Vec<usize>> = vec![Vec::new(); steps.len() + 1];
            for (position, &after) in after.iter().enumerate() {
                if let Some(slot) = after.and_then(|after| by_position.get_mut(after)) {
                    slot.push(position);
                }
            }
            // Those that wait for no kernel come first.
            for position in 0..=steps.len() {
                if let Some(step) = position.checked_sub(1).and_then(|at| steps.get(at))
                    && after.get(position - 1).is_some_and(Option::is_none)
                {
                    self.step(step, &mut state, at);
                }
                for collective in by_position.get(position).into_iter().flatten() {
                    if let Some(step) = steps.get(*collective) {
                        self.step(step, &mut state, at);
                    }
                }
            }
        } else {
            for step in steps {
                self.step(step, &mut state, at);
            }
        }
        // An iteration, and a program, ends with its last collective.
        let links = state.links.iter().copied().fold(0.0, f64::max);
        state.wait(links);
        Span {
            seconds: state.core,
            shares: state.shares,
        }
    }

    fn step(&mut self, step: &Step, state: &mut State, at: At) {
        match &step.kind {
            StepKind::Kernel {
                work,
                has_product,
                starts,
                ..
            } => self.kernel(step, work, *has_product, *starts, state, at),
            StepKind::Collective {
                kind,
                transfer,
                is_async,
            } => self.collective(step, *kind, transfer, *is_async, state, at),
            StepKind::Done => {
                let ready = state.ready(&step.reads);
                if !self.scheduled {
                    state.wait(ready);
                }
                pass_on(step, state);
            }
            StepKind::View => pass_on(step, state),
            StepKind::Loop {
                trips,
                condition,
                body,
                ..
            } => {
                let ready = state.ready(&step.reads);
                state.wait(ready);
                let begin = state.core;
                let own = at.start + begin;
                let times = at.times * trips;
                let tests = self.region(condition, own, at.times * (trips + 1.0), at.depth + 1);
                let one = self.region(body, own + tests.seconds, times, at.depth + 1);
                for (span, often) in [(tests, trips + 1.0), (one, *trips)] {
                    state.core += span.seconds * often;
                    for (share, seconds) in span.shares {
                        state.spend(share, seconds * often);
                    }
                }
                // The loop's collectives take the links' time as well.
                let end = state.core;
                state
                    .links
                    .iter_mut()
                    .for_each(|links| *links = links.max(end));
                self.event(Row::Core, &step.name, "loop", begin, end - begin, at);
            }
            StepKind::Choice { branches } => {
                let ready = state.ready(&step.reads);
                state.wait(ready);
                let begin = state.core;
                let own = at.start + begin;
                let spans = branches
                    .iter()
                    .map(|branch| self.region(branch, own, at.times, at.depth + 1));
                // Which branch is taken is not known: the longest.
                let longest = spans.max_by(|a, b| a.seconds.total_cmp(&b.seconds));
                let longest = longest.unwrap_or_default();
                state.core += longest.seconds;
                for (share, seconds) in longest.shares {
                    state.spend(share, seconds);
                }
                let end = state.core;
                state
                    .links
                    .iter_mut()
                    .for_each(|links| *links = links.max(end));
                self.event(Row::Core, &step.name, "conditional", begin, end - begin, at);
            }
        }
    }

    fn kernel(
        &mut self,
        step: &Step,
        work: &Work,
        has_product: bool,
        starts: bool,
        state: &mut State,
        at: At,
    ) {
        let speeds = &self.slice.speeds;
        let hbm = work.bytes / (speeds.hbm * speeds.hbm_efficiency);
        let vector = work.vector / speeds.vector;
        let parts = [
            (Share::Products, work.products),
            (Share::Hbm, hbm),
            (Share::Vector, vector),
        ];
        let (share, busy) = parts
            .into_iter()
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap_or((Share::Starts, 0.0));
        let start = if starts { speeds.start } else { 0.0 };
        let seconds = busy + start;
        // A product reads what arrives piece by piece.
        let part = match has_product && self.scheduled {
            true => speeds.collective_overlap.clamp(0.0, 1.0),
            false => 0.0,
        };
        let (mut begins, mut ends) = (0.0_f64, 0.0_f64);
        for value in &step.reads {
            match (state.arrivals.get(value), state.there.get(value)) {
                (Some(arrival), _) => {
                    begins = begins.max(arrival.at - part * arrival.seconds);
                    ends = ends.max(arrival.at);
                }
                (None, Some(there)) => begins = begins.max(*there),
                (None, None) => {}
            }
        }
        state.wait(begins);
        let begin = state.core;
        state.spend(Share::Starts, start);
        state.spend(share, busy);
        state.core += seconds;
        state.wait(ends);
        for &made in &step.writes {
            state.there.insert(made, state.core);
            if has_product {
                // Waiting for the last piece of an operand is a part of it.
                state
                    .products
                    .insert(made, (state.core, state.core - begin));
            }
        }
        self.totals.flops += work.flops * at.times;
        self.event(
            Row::Core,
            &step.name,
            share.name(),
            begin,
            state.core - begin,
            at,
        );
    }

    fn collective(
        &mut self,
        step: &Step,
        kind: CollectiveKind,
        transfer: &Transfer,
        is_async: bool,
        state: &mut State,
        at: At,
    ) {
        let mut ready = state.ready(&step.reads);
        let mut ends = ready + transfer.seconds;
        if self.scheduled {
            // What a product makes is sent piece by piece.
            let part = self.slice.speeds.collective_overlap.clamp(0.0, 1.0);
            let made = step
                .reads
                .iter()
                .filter_map(|value| state.products.get(value));
            let latest = made.copied().max_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((end, seconds)) = latest.filter(|(end, _)| *end >= ready) {
                ready = end - part * seconds.min(transfer.seconds);
                ends = end;
            }
        } else {
            ready = ready.max(state.core);
        }
        let links = transfer
            .axes
            .iter()
            .filter_map(|&axis| state.links.get(axis));
        let begin = links.copied().fold(ready, f64::max);
        let end = (begin + transfer.seconds).max(ends);
        for &axis in &transfer.axes {
            if let Some(links) = state.links.get_mut(axis) {
                *links = end;
            }
            if let Some(busy) = self.totals.busy.get_mut(axis) {
                *busy += transfer.seconds * at.times;
            }
            self.event(
                Row::Axis(axis),
                &step.name,
                kind.name(),
                begin,
                end - begin,
                at,
            );
        }
        let arrival = Arrival {
            at: end,
            seconds: transfer.seconds,
        };
        for &made in &step.writes {
            state.there.insert(made, end);
            state.arrivals.insert(made, arrival);
        }
        if !self.scheduled && !is_async {
            state.wait(end);
        }
        let total = self.totals.collectives.entry(kind).or_default();
        total.count += at.times;
        total.bytes += transfer.received * at.times;
        total.seconds += transfer.seconds * at.times;
        total.latency += transfer.latency * at.times;
    }

    fn event(
        &mut self,
        row: Row,
        name: &str,
        what: &'static str,
        begin: f64,
        seconds: f64,
        at: At,
    ) {
        if self.timeline.len() < MOST_EVENTS {
            self.timeline.push(Event {
                row,
                name: name.to_owned(),
                what,
                start: at.start + begin,
                seconds,
                depth: at.depth,
                times: at.times,
            });
        }
    }
}

/// Where in the program a region is run.
#[derive(Clone, Copy)]
struct At {
    /// When it begins.
    start: f64,
    /// How often it is run.
    times: f64,
    /// How deep in loops it is.
    depth: usize,
}

/// Another name is there when what it names is.
fn pass_on(step: &Step, state: &mut State) {
    let ready = state.ready(&step.reads);
    let arrival = step
        .reads
        .iter()
        .filter_map(|value| state.arrivals.get(value))
        .copied()
        .max_by(|a, b| a.at.total_cmp(&b.at));
    let product = step
        .reads
        .iter()
        .filter_map(|value| state.products.get(value))
        .copied()
        .max_by(|a, b| a.0.total_cmp(&b.0));
    for &made in &step.writes {
        if ready > 0.0 {
            state.there.insert(made, ready);
        }
        if let Some(arrival) = arrival {
            state.arrivals.insert(made, arrival);
        }
        if let Some(product) = product {
            state.products.insert(made, product);
        }
    }
}

/// For each step that is no work of the core: after which step, from 1, it can begin; 0: at once. It
/// does not depend on times.
fn begins(steps: &[Step]) -> Vec<Option<usize>> {
    let mut after: FxHashMap<ValueId, usize> = FxHashMap::default();
    let mut begins = Vec::with_capacity(steps.len());
    for (number, step) in steps.iter().enumerate() {
        let reads = step.reads.iter().filter_map(|value| after.get(value));
        let latest = reads.copied().max().unwrap_or(0);
        let (made, begin) = match step.kind {
            // These are no work of the core.
            StepKind::Collective { .. } | StepKind::View | StepKind::Done => (latest, Some(latest)),
            _ => (number + 1, None),
        };
        for &value in &step.writes {
            after.insert(value, made);
        }
        begins.push(begin);
    }
    begins
}
