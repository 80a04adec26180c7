//! Double buffering of loop state: swaps two pointers instead of copying the next state over the
//! old one.
//!
//! An iteration that still needs the old state computes the next one in another buffer, and copies
//! it at its end. If the next iteration does not need that buffer's contents, the two buffers can
//! swap roles: the loop's code finds both through a table of pointers, and the copy becomes a swap
//! of two entries.

use super::effects::{Span, span, touches};
use super::ir::Exchange;
use super::ir::{Action, Area, Location};
use tegula_plan::{Plan, Step, ValueId};

/// Copies of fewer bytes take less time than finding memory through a table.
const MIN_BYTES: usize = 1024;

/// Finds the copies at the end of a loop's body that can become exchanges; their table entries are
/// not set yet. `elsewhere` returns whether a value is stored outside of the plan's location.
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

/// Whether the copy at a position of the body can become an exchange: all accesses of the loop to
/// either buffer stay inside it, an iteration only reads those parts of the next state that it has
/// written before, and neither buffer is accessed after the copy.
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

/// Redirects a loop's accesses to both buffers of each exchange to the table, and removes the
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

/// Redirects a location inside an exchanged buffer to the table entry that holds the buffer's
/// address.
fn lead(exchanges: &[Exchange], location: &mut Location) {
    let found = exchanges.iter().find_map(|exchange| {
        let (number, offset) = exchange.part(*location)?;
        Some((exchange.entries[number], offset))
    });
    if let Some((entry, offset)) = found {
        *location = Location {
            area: Area::Exchanged(entry),
            offset,
        };
    }
}

/// Whether an action, after redirection to the table, is the copy that an exchange replaces.
fn is_copy_of(exchanges: &[Exchange], action: &Action) -> bool {
    let Action::Copy { from, to, bytes } = action else {
        return false;
    };
    let is = |at: &Location, entry| at.area == Area::Exchanged(entry) && at.offset == 0;
    let same = |e: &Exchange| is(from, e.entries[1]) && is(to, e.entries[0]) && e.bytes == *bytes;
    exchanges.iter().any(same)
}
