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
struct Span {
    at: Location,
    bytes: usize,
}

impl Span {
    fn overlaps(&self, other: &Self) -> bool {
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

/// What a step does to a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Touch {
    Read,
    /// All of it.
    Written,
    /// Something, at some time.
    Inside,
}

/// The copies at the end of a loop's body that can be exchanges. `entries` is how many
/// entries the table has.
pub(crate) fn find(
    plan: &Plan,
    condition: &[Step],
    body: &[Step],
    entries: &mut usize,
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
                entries: [*entries, *entries + 1],
            });
            *entries += 2;
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
        touches(plan, step, false, &mut touched);
        for (value, touch) in touched {
            let Some(span) = span(plan, value) else {
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
            if of_next {
                match touch {
                    Touch::Read if written.contains(&value) => {}
                    Touch::Written => written.push(value),
                    _ => return false,
                }
            }
        }
    }
    true
}

/// What a step does, reads first.
fn touches(plan: &Plan, step: &Step, inside: bool, out: &mut Vec<(ValueId, Touch)>) {
    let mut note = |value: ValueId, touch| {
        out.push((value, if inside { Touch::Inside } else { touch }));
    };
    match step {
        Step::Copy { from, to } => {
            note(*from, Touch::Read);
            note(*to, Touch::Written);
        }
        Step::Kernel { kernel, args } => {
            let params = &plan.kernels[*kernel].params;
            for (param, &arg) in params.iter().zip(args) {
                if param.access != Access::Write {
                    note(arg, Touch::Read);
                }
            }
            for (param, &arg) in params.iter().zip(args) {
                if param.access == Access::Write {
                    note(arg, Touch::Written);
                }
            }
        }
        Step::Library {
            operands, results, ..
        } => {
            operands.iter().for_each(|&v| note(v, Touch::Read));
            results.iter().for_each(|&v| note(v, Touch::Written));
        }
        Step::While {
            condition,
            predicate,
            body,
        } => {
            note(*predicate, Touch::Inside);
            for step in condition.iter().chain(body) {
                touches(plan, step, true, out);
            }
        }
        Step::Conditional { selector, branches } => {
            note(*selector, Touch::Read);
            for step in branches.iter().flatten() {
                touches(plan, step, true, out);
            }
        }
    }
}

fn span(plan: &Plan, value: ValueId) -> Option<Span> {
    let value = &plan.values[value];
    let bytes = usize::try_from(value.shape.byte_size()?).ok()?;
    let (area, offset) = match &plan.buffers[value.buffer].place {
        Place::Parameter(i) => (Area::Parameter(*i), 0),
        Place::Output(i) => (Area::Output(*i), 0),
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
