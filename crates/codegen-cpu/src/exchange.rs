//! Loops whose states change places with what becomes of them.
//!
//! An iteration computes the next value of a state beside the state, if it still needs the
//! old one, and at its end copies it there. Where what lies beside is of no use to the
//! next iteration, the two memories may as well change roles: the loop's code finds both
//! through a table, and the copy is an exchange of two entries.

use crate::schedule::{Action, Area, Location};
use tegula_fusion::kernel::Access;
use tegula_layout::plan::{Place, Plan, Step, ValueId};

/// Copies of fewer bytes take less time than finding memory through a table.
const MIN_BYTES: usize = 1024;

/// Two memories of one size that change roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// Where the state is before the loop, and must be after it.
    pub state: Location,
    /// Where the next one is computed.
    pub next: Location,
    pub bytes: usize,
    /// The entries of the table that lead to them.
    pub entries: [usize; 2],
}

/// A value's memory.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    at: Location,
    bytes: usize,
}

impl Span {
    /// Where it begins.
    pub(crate) fn place(&self) -> Location {
        self.at
    }

    /// Where it ends, if it lies in the arena.
    pub(crate) fn end_in_arena(&self) -> Option<usize> {
        let inside = self.at.area == Area::Arena;
        inside.then_some(self.at.offset + self.bytes)
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.at.area == other.at.area
            && self.at.offset < other.at.offset + other.bytes
            && other.at.offset < self.at.offset + self.bytes
    }

    fn contains(&self, other: &Self) -> bool {
        self.at.area == other.at.area
            && self.at.offset <= other.at.offset
            && other.at.offset + other.bytes <= self.at.offset + self.bytes
    }
}

/// What a step does to a value. A step that reads and writes has one of each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Touch {
    pub value: ValueId,
    /// Whether it writes; else it reads.
    pub writes: bool,
    /// Whether what it writes is all of the value, every time that the step is done.
    pub whole: bool,
    /// Whether that is inside of control flow.
    inside: bool,
}

/// The copies at the end of a loop's body that can be exchanges, with no entries yet.
/// Values may lie `elsewhere` than the plan says.
pub(crate) fn find(
    plan: &Plan,
    [condition, body]: [&[Step]; 2],
    elsewhere: impl Fn(ValueId) -> bool,
) -> Vec<Exchange> {
    let is_copy = |step: &&Step| matches!(step, Step::Copy { .. });
    let copies = body.iter().rev().take_while(is_copy).count();
    let first = body.len() - copies;
    let mut found: Vec<Exchange> = Vec::new();
    for position in first..body.len() {
        let Step::Copy { from, to } = &body[position] else {
            continue;
        };
        let (Some(next), Some(state)) = (span(plan, *from), span(plan, *to)) else {
            continue;
        };
        if elsewhere(*from) || elsewhere(*to) {
            continue;
        }
        let others = found
            .iter()
            .flat_map(|e| [e.state, e.next].map(|at| Span { at, bytes: e.bytes }));
        let writable = |s: &Span| matches!(s.at.area, Area::Arena | Area::Output(_));
        let apart = !next.overlaps(&state)
            && others
                .into_iter()
                .all(|other| !other.overlaps(&next) && !other.overlaps(&state));
        if next.bytes >= MIN_BYTES
            && next.bytes == state.bytes
            && writable(&next)
            && writable(&state)
            && apart
            && can_change(plan, [condition, body], position, [state, next])
        {
            found.push(Exchange {
                state: state.at,
                next: next.at,
                bytes: next.bytes,
                entries: [0, 0],
            });
        }
    }
    found
}

/// Whether the copy at a position of the body can be an exchange: whatever the loop
/// touches of either memory lies inside it, an iteration reads of the next state's only
/// what it has written before, and nothing of either is touched after the copy.
fn can_change(
    plan: &Plan,
    [condition, body]: [&[Step]; 2],
    position: usize,
    [state, next]: [Span; 2],
) -> bool {
    let mut written: Vec<ValueId> = Vec::new();
    let all = condition.iter().chain(body);
    for (i, step) in all.enumerate() {
        let at = i.checked_sub(condition.len());
        let mut touched = Vec::new();
        touches(plan, step, &mut touched);
        for touch in touched {
            let Some(span) = span(plan, touch.value) else {
                return false;
            };
            let (of_state, of_next) = (state.overlaps(&span), next.overlaps(&span));
            if !of_state && !of_next {
                continue;
            }
            if at.is_some_and(|at| at > position)
                || !(state.contains(&span) || next.contains(&span))
            {
                return false;
            }
            let known = written.contains(&touch.value);
            if of_next && (touch.inside || !(known || touch.whole)) {
                return false;
            }
            if touch.whole {
                written.push(touch.value);
            }
        }
    }
    true
}

/// What a step does, also inside of it; reads first.
pub(crate) fn touches(plan: &Plan, step: &Step, out: &mut Vec<Touch>) {
    let mut note = |value: &ValueId, writes, whole| {
        out.push(Touch {
            value: *value,
            writes,
            whole,
            inside: false,
        });
    };
    match step {
        Step::Copy { from, to } => {
            note(from, false, false);
            note(to, true, true);
        }
        Step::Kernel { kernel, args } => {
            let params = &plan.kernels[*kernel].params;
            for (param, arg) in params.iter().zip(args) {
                if param.access != Access::Write {
                    note(arg, false, false);
                }
            }
            for (param, arg) in params.iter().zip(args) {
                if param.access != Access::Read {
                    note(arg, true, param.access == Access::Write);
                }
            }
        }
        Step::Library {
            operands, results, ..
        } => {
            operands.iter().for_each(|v| note(v, false, false));
            results.iter().for_each(|v| note(v, true, true));
        }
        Step::While {
            condition,
            predicate,
            body,
        } => {
            note(predicate, false, false);
            inner(plan, condition.iter().chain(body), out);
        }
        Step::Conditional { selector, branches } => {
            note(selector, false, false);
            inner(plan, branches.iter().flatten(), out);
        }
        Step::Strips { steps, .. } => inner(plan, steps.iter(), out),
    }
}

/// What steps inside of control flow do.
fn inner<'s>(plan: &Plan, steps: impl Iterator<Item = &'s Step>, out: &mut Vec<Touch>) {
    let first = out.len();
    steps.for_each(|step| touches(plan, step, out));
    for touch in &mut out[first..] {
        touch.inside = true;
        touch.whole = false;
    }
}

/// A value's memory; `None` if its size is not known.
pub(crate) fn span(plan: &Plan, value: ValueId) -> Option<Span> {
    let value = &plan.values[value];
    let bytes = usize::try_from(value.shape.byte_size()?).ok()?;
    let (area, offset) = match &plan.buffers[value.buffer].place {
        Place::Parameter(i) => (Area::Parameter(*i), 0),
        Place::Output { result, from } => (Area::Output(*result), usize::try_from(*from).ok()?),
        Place::Constant(i) => (Area::Constant(*i), 0),
        Place::Arena(offset) => (Area::Arena, usize::try_from(offset.as_constant()?).ok()?),
    };
    let at = Location { area, offset };
    Some(Span { at, bytes })
}

/// Leads a loop to both memories of each exchange through the table, and drops the
/// copies.
pub(crate) fn apply(found: Vec<Exchange>, action: &mut Action) {
    if found.is_empty() {
        return;
    }
    action.each_location(&mut |location| lead(&found, location));
    if let Action::While {
        body, exchanges, ..
    } = action
    {
        body.retain(|action| !is_copy_of(&found, action));
        *exchanges = found;
    }
}

/// A place inside one of the memories, by its entry.
fn lead(exchanges: &[Exchange], location: &mut Location) {
    for exchange in exchanges {
        let both = [exchange.state, exchange.next];
        for (at, entry) in both.into_iter().zip(exchange.entries) {
            let inside = at.offset..at.offset + exchange.bytes;
            if location.area == at.area && inside.contains(&location.offset) {
                *location = Location {
                    area: Area::Exchanged(entry),
                    offset: location.offset - at.offset,
                };
                return;
            }
        }
    }
}

/// Whether an action, led through the table, is the copy in whose place an exchange is.
fn is_copy_of(exchanges: &[Exchange], action: &Action) -> bool {
    let Action::Copy { from, to, bytes } = action else {
        return false;
    };
    let is = |at: &Location, entry| at.area == Area::Exchanged(entry) && at.offset == 0;
    let same = |e: &Exchange| is(from, e.entries[1]) && is(to, e.entries[0]) && e.bytes == *bytes;
    exchanges.iter().any(same)
}
