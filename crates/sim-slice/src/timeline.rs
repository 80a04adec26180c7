//! The timeline: the core executes kernels in the program's order, while links execute collectives.
//!
//! A scheduled collective begins when its operands are available. The order in which links execute
//! collectives does not depend on times: they are ordered by the last kernel that they wait for,
//! and then by their position in the program. The time of each event is therefore a maximum of sums
//! of earlier times, and speeding something up never slows anything down.
//!
//! All iterations of a loop are taken to be equal: one is simulated, from idle links to idle links.

use crate::report::{CollectiveTime, Event, Memory, Report, Row, Share};
use crate::steps::{Step, StepKind, Steps};
use crate::work::Work;
use crate::{CollectiveKind, Options, Overlap, Slice, Transfer};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use tegula_fusion::ValueId;

/// The maximum number of events on a timeline.
const MOST_EVENTS: usize = 20_000;

/// Simulates a program.
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

/// Totals over the whole program.
#[derive(Default)]
struct Totals {
    flops: f64,
    collectives: BTreeMap<CollectiveKind, CollectiveTime>,
    busy: Vec<f64>,
}

/// The time of a region.
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

/// A value that a collective computes.
#[derive(Clone, Copy)]
struct Arrival {
    /// The time at which it is complete.
    at: f64,
    /// The duration of the collective.
    seconds: f64,
}

/// The state of a region that is being simulated.
struct State {
    /// The time at which the core is free.
    core: f64,
    /// For each axis, the time at which its links are free.
    links: Vec<f64>,
    /// The time at which each value is available, unless it is from the beginning.
    there: FxHashMap<ValueId, f64>,
    /// The values that collectives compute.
    arrivals: FxHashMap<ValueId, Arrival>,
    /// The end and the duration of kernels with matrix products.
    products: FxHashMap<ValueId, (f64, f64)>,
    shares: BTreeMap<Share, f64>,
}

impl State {
    fn spend(&mut self, share: Share, seconds: f64) {
        if seconds > 0.0 {
            *self.shares.entry(share).or_default() += seconds;
        }
    }

    /// Lets the core wait for links until a time.
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
    /// Simulates the steps of a region, beginning with idle links; `times` is the total number of
    /// executions.
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
            // Collectives that wait for no kernel come first.
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
        // An iteration, or a program, ends with its last collective.
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
                // The loop's collectives occupy the links, too.
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
                // The branch that will be taken is unknown, so the longest is used.
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
        // A product can read an operand piece by piece while it arrives.
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
                // Waiting for the last piece of an operand is part of the product's time.
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
            // The result of a product can be sent piece by piece.
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

/// The position at which a region is executed.
#[derive(Clone, Copy)]
struct At {
    /// The start time.
    start: f64,
    /// The number of executions.
    times: f64,
    /// The nesting depth in loops.
    depth: usize,
}

/// An alias is available when its value is.
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

/// For each step that does not run on the core: the number of the step, from 1, after which it can
/// begin, or 0 for the beginning. It does not depend on times.
fn begins(steps: &[Step]) -> Vec<Option<usize>> {
    let mut after: FxHashMap<ValueId, usize> = FxHashMap::default();
    let mut begins = Vec::with_capacity(steps.len());
    for (number, step) in steps.iter().enumerate() {
        let reads = step.reads.iter().filter_map(|value| after.get(value));
        let latest = reads.copied().max().unwrap_or(0);
        let (made, begin) = match step.kind {
            // These steps do not run on the core.
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
