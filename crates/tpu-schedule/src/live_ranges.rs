//! The nesting of steps in loops and conditionals, and the lifetimes of buffers.

use super::{BufferId, Schedule, Source, Step};

/// The steps of a loop or conditional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    /// The first [`Step::Part`].
    begin: usize,
    /// The [`Step::Leave`].
    leave: usize,
    control: usize,
    /// The enclosing span.
    around: Option<usize>,
}

/// The loops and conditionals that contain each step of a schedule.
#[derive(Clone, Debug, Default)]
pub struct Nest {
    spans: Vec<Span>,
    /// For each step, and for the end, the innermost span that contains it. A marker is inside its
    /// own span, except for the first one, which is executed outside.
    inside: Vec<Option<usize>>,
}

impl Nest {
    /// The nesting of a schedule with matching markers.
    pub fn of(schedule: &Schedule) -> Self {
        let mut nest = Self::default();
        let mut open = None;
        for (number, step) in schedule.steps.iter().enumerate() {
            nest.inside.push(open);
            match *step {
                Step::Part { control, part: 0 } => {
                    nest.spans.push(Span {
                        begin: number,
                        leave: schedule.steps.len(),
                        control,
                        around: open,
                    });
                    open = Some(nest.spans.len() - 1);
                }
                Step::Leave(_) => {
                    if let Some(span) = open.and_then(|span| nest.spans.get_mut(span)) {
                        span.leave = number;
                        open = span.around;
                    }
                }
                _ => {}
            }
        }
        nest.inside.push(open);
        nest
    }

    /// The spans that contain a step, from the innermost.
    fn around(&self, step: usize) -> impl Iterator<Item = &Span> {
        let mut at = self.inside.get(step).copied().flatten();
        std::iter::from_fn(move || {
            let span = self.spans.get(at?)?;
            at = span.around;
            Some(span)
        })
    }

    /// Whether a step is in no loop or conditional.
    pub fn is_outside(&self, step: usize) -> bool {
        self.inside.get(step).copied().flatten().is_none()
    }

    /// The steps of the innermost part that contains a step, if there is one.
    pub(super) fn part(&self, schedule: &Schedule, step: usize) -> Option<std::ops::Range<usize>> {
        let span = self.around(step).next()?;
        let is_marker = |at: &usize| match schedule.steps.get(*at) {
            Some(&Step::Part { control, .. } | &Step::Leave(control)) => control == span.control,
            _ => false,
        };
        let begin = (span.begin..step).rev().find(is_marker)?;
        let end = (step..=span.leave).find(is_marker)?;
        Some(begin + 1..end)
    }

    /// Whether two steps are in the same loops and conditionals.
    pub(super) fn is_beside(&self, one: usize, other: usize) -> bool {
        self.inside.get(one) == self.inside.get(other)
    }

    /// The top-level step that contains a step: the step itself, or the beginning of the outermost
    /// loop or conditional around it.
    pub fn from_outside(&self, step: usize) -> usize {
        self.around(step).last().map_or(step, |span| span.begin)
    }

    /// The first top-level step after a step.
    pub fn outside_after(&self, step: usize) -> usize {
        self.around(step).last().map_or(step, |span| span.leave) + 1
    }

    /// The step until which a buffer that is accessed at `step` is live: the end of the outermost
    /// enclosing loop or conditional that begins after the buffer's first access `first` (`None`:
    /// before the program). Such a loop needs the contents in every iteration. If there is none,
    /// `step` itself.
    fn until(&self, first: Option<usize>, step: usize) -> usize {
        let outside = |span: &&Span| first.is_none_or(|first| first < span.begin);
        let ends = self.around(step).filter(outside).map(|span| span.leave);
        ends.max().unwrap_or(step)
    }

    /// How often each step runs, known or assumed. A branch is counted as one of several.
    pub fn times(&self, schedule: &Schedule) -> Vec<f64> {
        let mut parts = vec![1.0f64; schedule.controls.len()];
        for step in &schedule.steps {
            if let &Step::Part { control, part } = step
                && let Some(parts) = parts.get_mut(control)
            {
                *parts = parts.max(part as f64 + 1.0);
            }
        }
        let of = |span: &Span| match schedule.controls.get(span.control) {
            Some(control) if control.is_loop => control.trips,
            Some(_) => 1.0 / parts.get(span.control).copied().unwrap_or(1.0),
            None => 1.0,
        };
        (0..self.inside.len())
            .map(|step| self.around(step).map(of).product())
            .collect()
    }
}

impl Schedule {
    /// The lifetime of each buffer: the step at which it begins to hold something, and the last
    /// step that needs it. Buffers in another's place are counted with that one. Given buffers
    /// begin at 0, and results live to the end. What is needed inside a loop or conditional and
    /// comes from outside lives to its end.
    pub fn lifetimes(&self) -> Vec<(usize, usize)> {
        let nest = Nest::of(self);
        let mut lives: Vec<Option<(usize, usize)>> = vec![None; self.buffers.len()];
        let mut touch = |id: BufferId, step: usize| {
            let base = self.base(id);
            let Some(life) = lives.get_mut(base) else {
                return;
            };
            let is_given = self.buffers[base].source == Source::Given;
            let (first, last) = life.unwrap_or((if is_given { 0 } else { step }, step));
            let since = (!is_given).then_some(first);
            *life = Some((first, last.max(nest.until(since, step))));
        };
        for (number, step) in self.steps.iter().enumerate() {
            self.each_touched(step, &mut |id| touch(id, number));
        }
        for &result in &self.results {
            touch(result, self.steps.len());
        }
        lives
            .into_iter()
            .map(|life| life.unwrap_or((0, 0)))
            .collect()
    }

    /// The buffers that a step reads, writes, or requires in their places.
    pub(super) fn each_touched(&self, step: &Step, touch: &mut dyn FnMut(BufferId)) {
        if let Some(held) = self.decided_at(step) {
            held.by.into_iter().for_each(&mut *touch);
        }
        match step {
            Step::Kernel { reads, writes, .. } => {
                reads.iter().chain(writes).for_each(|&id| touch(id));
            }
            Step::Relayout { from, to, .. } | Step::Bitcast { from, to, .. } => {
                touch(*from);
                touch(*to);
            }
            Step::CopyStart(copy) | Step::CopyDone(copy) => {
                if let Some(transfer) = self.transfers.get(*copy) {
                    touch(transfer.from);
                    touch(transfer.to);
                }
            }
            Step::Pass { what, to, .. } => {
                what.by.into_iter().for_each(&mut *touch);
                touch(*to);
            }
            Step::Part { control, part: 0 } | Step::Leave(control) => {
                let control = self.controls.get(*control);
                let places = control.into_iter().flat_map(|control| &control.places);
                places.for_each(|&id| touch(id));
            }
            Step::Part { .. } => {}
        }
    }
}
