//! Schedules loops and conditionals: the kernels of their regions are placed between markers, and
//! values are passed in, around and out.
//!
//! A loop state has one place. Its first value is computed there if nothing else needs that value,
//! otherwise it is copied there. The same holds for the next value at the end of an iteration, once
//! nothing reads the state any more. The loop's result is what is in the place at the end. A branch
//! of a conditional computes its results in the conditional's places, or copies them there.

use super::builder::{Builder, Scope, is_immediate, is_plain, same_bytes};
use super::{BufferId, Control, Held, Source, Step};
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_fusion::{NodeKind, ValueId};
use tegula_ir::Layout;
use tegula_layout::assign::{Kernel, Region};
use tegula_layout::trips;

impl Builder<'_> {
    /// Schedules a loop or conditional of a region.
    pub(super) fn control(&mut self, region: usize, kernel: &Kernel) {
        let program = self.program();
        let node = &program.nodes[kernel.root];
        let uses = self.uses(region);
        // The values that its regions read must exist before it begins.
        for read in &kernel.reads {
            if !is_immediate(program, read.value) {
                self.home(read.value);
            }
        }
        match &node.kind {
            NodeKind::While { states, .. } => {
                self.turn_before(kernel);
                let places = states.iter().zip(&node.operands).map(|(&state, &first)| {
                    let others = node.operands.iter().filter(|&&value| value == first);
                    let is_last = uses.get(&first) == Some(&1) && others.count() == 1;
                    self.state(state, first, is_last)
                });
                let places: Vec<BufferId> = places.collect();
                self.while_loop(kernel, states, &places);
            }
            NodeKind::Conditional { branches } => self.choice(kernel, branches.len()),
            NodeKind::Op | NodeKind::Contraction(_) => {}
        }
    }

    /// How often the kernels of a region and its results use each value.
    fn uses(&self, region: usize) -> FxHashMap<ValueId, u32> {
        let mut uses = FxHashMap::default();
        let Some(region) = self.assignment.regions.get(region) else {
            return uses;
        };
        let reads = region.kernels.iter().flat_map(|kernel| &kernel.reads);
        let values = reads.map(|read| read.value);
        for value in values.chain(region.results.iter().copied()) {
            *uses.entry(value).or_insert(0) += 1;
        }
        uses
    }

    fn inner(&self, kernel: &Kernel, number: usize) -> Option<usize> {
        let of = Some((kernel.root, number));
        let mut regions = self.assignment.regions.iter();
        regions.position(|region| region.of == of)
    }

    /// A value from outside that is read in another layout inside a loop is copied once, before the
    /// loop.
    fn turn_before(&mut self, kernel: &Kernel) {
        let outside: FxHashSet<ValueId> = kernel.reads.iter().map(|read| read.value).collect();
        let assignment = self.assignment;
        let mut roots = vec![kernel.root];
        let mut wanted: Vec<(ValueId, &Layout)> = Vec::new();
        while let Some(root) = roots.pop() {
            let own = |region: &&Region| region.of.is_some_and(|(of, _)| of == root);
            for inner in assignment
                .regions
                .iter()
                .filter(own)
                .flat_map(|r| &r.kernels)
            {
                if !assignment.program.nodes[inner.root]
                    .kind
                    .regions()
                    .is_empty()
                {
                    roots.push(inner.root);
                }
                let copied = inner.reads.iter().filter(|read| read.copied);
                wanted.extend(copied.filter_map(|read| Some((read.value, read.layout.as_ref()?))));
            }
        }
        for (value, layout) in wanted {
            if outside.contains(&value) && !is_immediate(self.program(), value) {
                let home = self.home(value);
                self.turn(value, home, layout);
            }
        }
    }

    /// The place of a loop state, holding its first value.
    fn state(&mut self, state: ValueId, first: ValueId, is_last: bool) -> BufferId {
        let layout = self.layout(state);
        let home = self.scope.home.get(&first).copied();
        if let Some(home) = home.filter(|_| is_last)
            && self.is_free(first, home, &layout)
        {
            return self.buffer(state, layout, Source::Same(home));
        }
        let place = self.buffer(state, layout, Source::Passed);
        self.pass(first, place);
        place
    }

    /// Whether a value's place may be taken over: nothing else needs the value, and the place
    /// belongs to the region and has this layout.
    fn is_free(&self, value: ValueId, home: BufferId, layout: &Layout) -> bool {
        let buffer = &self.schedule.buffers[home];
        let is_own = match buffer.source {
            Source::Kernel => home >= self.scope.first,
            Source::Passed | Source::Same(_) => {
                self.scope.states.contains(&value) || home >= self.scope.first
            }
            _ => false,
        };
        is_own && buffer.value == value && same_bytes(&buffer.layout, layout)
    }

    fn held(&mut self, value: ValueId) -> Held {
        let is_written = is_immediate(self.program(), value);
        let by = (!is_written).then(|| self.home(value));
        Held { value, by }
    }

    /// Copies a value to a place.
    fn pass(&mut self, value: ValueId, to: BufferId) {
        let what = self.held(value);
        self.pass_held(what, to);
    }

    fn pass_held(&mut self, what: Held, to: BufferId) {
        let place = &self.schedule.buffers[to];
        let from = what.by.map(|id| &self.schedule.buffers[id]);
        let moved = place.bytes + from.map_or(0, |from| from.bytes);
        // Between equal layouts it is a copy of bytes, which needs no kernel.
        let is_plain = from.is_none_or(|from| is_plain(from, place));
        self.schedule.steps.push(Step::Pass {
            what,
            to,
            scoped: if is_plain { 0 } else { self.scoped(moved) },
            seconds: self.speeds.kernel(0.0, moved),
        });
    }

    fn enter(&mut self, states: &[ValueId], places: &[BufferId]) -> Scope {
        let saved = self.scope.clone();
        self.scope.first = self.schedule.buffers.len();
        self.scope.states.clear();
        let states = states.iter().copied();
        self.scope.home.extend(states.zip(places.iter().copied()));
        saved
    }

    fn while_loop(&mut self, kernel: &Kernel, states: &[ValueId], places: &[BufferId]) {
        let (Some(condition), Some(body)) = (self.inner(kernel, 0), self.inner(kernel, 1)) else {
            return;
        };
        let assignment = self.assignment;
        let node = &assignment.program.nodes[kernel.root];
        let Some(&predicate) = assignment.regions[condition].results.first() else {
            return;
        };
        let control = self.schedule.controls.len();
        let undecided = Held {
            value: predicate,
            by: None,
        };
        self.schedule.controls.push(Control {
            node: kernel.root,
            is_loop: true,
            places: places.to_vec(),
            decides: undecided,
            trips: trips(self.module, &assignment.program, node),
        });
        self.schedule.steps.push(Step::Part { control, part: 0 });
        let outside = self.enter(states, places);
        self.kernels(condition);
        let decides = self.held(predicate);
        self.schedule.controls[control].decides = decides;
        self.scope = outside;

        self.schedule.steps.push(Step::Part { control, part: 1 });
        let outside = self.enter(states, places);
        self.scope.states = states.iter().copied().collect();
        let begin = self.schedule.steps.len();
        self.kernels(body);
        self.next(body, states, places, begin);
        self.scope = outside;
        self.schedule.steps.push(Step::Leave(control));

        for (&result, &place) in node.results.iter().zip(places) {
            let layout = self.schedule.buffers[place].layout.clone();
            let wanted = self.layout(result);
            let same = same_bytes(&layout, &wanted);
            let id = self.buffer(result, layout, Source::Same(place));
            self.scope.home.insert(result, id);
            if !same {
                let turned = self.turn(result, id, &wanted);
                self.scope.home.insert(result, turned);
            }
        }
    }

    /// Ends an iteration: moves the next values of the states to their places.
    fn next(&mut self, body: usize, states: &[ValueId], places: &[BufferId], begin: usize) {
        let uses = self.uses(body);
        let results: Vec<ValueId> = {
            let region = &self.assignment.regions[body];
            region.results.iter().copied().take(states.len()).collect()
        };
        let next: Vec<Held> = results.iter().map(|&value| self.held(value)).collect();
        let mut left: Vec<(Held, BufferId)> = Vec::new();
        for ((held, &state), &place) in next.iter().zip(states).zip(places) {
            if held.value == state || self.next_in_place(*held, place, &next, &uses, begin) {
                continue;
            }
            // It is there already, as the result of a nested loop.
            let there = held.by.is_some_and(|id| {
                let buffer = &self.schedule.buffers[id];
                let is_view = matches!(buffer.source, Source::Bitcast(_));
                !is_view && self.schedule.base(id) == self.schedule.base(place)
            });
            if !there {
                left.push((*held, place));
            }
        }
        // States that become other states are read before any of them is written.
        let bases: Vec<BufferId> = places.iter().map(|&id| self.schedule.base(id)).collect();
        for (held, place) in &mut left {
            let is_state = |id: BufferId| bases.contains(&self.schedule.base(id));
            if held.by.is_some_and(is_state) {
                let layout = self.schedule.buffers[*place].layout.clone();
                let copy = self.buffer(held.value, layout, Source::Passed);
                self.pass_held(*held, copy);
                held.by = Some(copy);
            }
        }
        for (held, place) in left {
            self.pass_held(held, place);
        }
    }

    /// Lets the kernel that computes a state's next value write it in the state's place, if nothing
    /// else needs the next value and nothing reads the state afterwards.
    fn next_in_place(
        &mut self,
        held: Held,
        place: BufferId,
        next: &[Held],
        uses: &FxHashMap<ValueId, u32>,
        begin: usize,
    ) -> bool {
        let Some(id) = held.by.filter(|_| uses.get(&held.value) == Some(&1)) else {
            return false;
        };
        let schedule = &self.schedule;
        let layout = &schedule.buffers[place].layout;
        let is_made = schedule.buffers[id].source == Source::Kernel;
        let base = schedule.base(place);
        let is_state = |held: &Held| held.by.is_some_and(|id| schedule.base(id) == base);
        if !is_made || !self.is_free(held.value, id, layout) || next.iter().any(is_state) {
            return false;
        }
        let steps = schedule.steps.get(begin..).unwrap_or_default();
        let writes =
            |step: &Step| matches!(step, Step::Kernel { writes, .. } if writes.contains(&id));
        let Some(made) = steps.iter().position(writes) else {
            return false;
        };
        let later = steps.get(made..).unwrap_or_default();
        let mut is_read = false;
        for step in later {
            schedule.each_touched(step, &mut |id| is_read |= schedule.base(id) == base);
        }
        if !is_read {
            self.schedule.buffers[id].source = Source::Same(place);
        }
        !is_read
    }

    fn choice(&mut self, kernel: &Kernel, branches: usize) {
        let assignment = self.assignment;
        let node = &assignment.program.nodes[kernel.root];
        let Some(&selector) = node.operands.first() else {
            return;
        };
        let decides = self.held(selector);
        let results = node.results.iter();
        let places: Vec<BufferId> = results
            .map(|&result| {
                let layout = self.layout(result);
                self.buffer(result, layout, Source::Passed)
            })
            .collect();
        let control = self.schedule.controls.len();
        self.schedule.controls.push(Control {
            node: kernel.root,
            is_loop: false,
            places: places.clone(),
            decides,
            trips: 1.0,
        });
        for part in 0..branches {
            let Some(region) = self.inner(kernel, part) else {
                return;
            };
            self.schedule.steps.push(Step::Part { control, part });
            let outside = self.enter(&[], &[]);
            self.kernels(region);
            let uses = self.uses(region);
            for (&value, &place) in assignment.regions[region].results.iter().zip(&places) {
                let held = self.held(value);
                let layout = &self.schedule.buffers[place].layout;
                let made = held.by.filter(|&id| {
                    self.schedule.buffers[id].source == Source::Kernel
                        && uses.get(&value) == Some(&1)
                        && self.is_free(value, id, layout)
                });
                match made {
                    Some(id) => self.schedule.buffers[id].source = Source::Same(place),
                    None => self.pass_held(held, place),
                }
            }
            self.scope = outside;
        }
        self.schedule.steps.push(Step::Leave(control));
        let results = node.results.iter().copied();
        self.scope.home.extend(results.zip(places));
    }
}
