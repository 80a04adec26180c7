//! The effects of each step of a Plan: the memory that it reads and writes.

use super::ir::{Area, Location};
use tegula_fusion::kernel::Access;
use tegula_plan::{Place, Plan, Step, ValueId};

/// A value's memory.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub at: Location,
    pub bytes: usize,
}

impl Span {
    /// The location of its first byte.
    pub(crate) fn place(&self) -> Location {
        self.at
    }

    /// The offset of its end, if it is in the arena.
    pub(crate) fn end_in_arena(&self) -> Option<usize> {
        let inside = self.at.area == Area::Arena;
        inside.then_some(self.at.offset + self.bytes)
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.at.area == other.at.area
            && self.at.offset < other.at.offset + other.bytes
            && other.at.offset < self.at.offset + self.bytes
    }

    pub(crate) fn contains(&self, other: &Self) -> bool {
        self.at.area == other.at.area
            && self.at.offset <= other.at.offset
            && other.at.offset + other.bytes <= self.at.offset + self.bytes
    }
}

/// An access of a step to a value. A step that reads and writes a value has one access of each
/// kind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Touch {
    pub value: ValueId,
    /// Whether it is a write; otherwise it is a read.
    pub writes: bool,
    /// Whether it writes the whole value, every time that the step is executed.
    pub whole: bool,
    /// Whether it is inside control flow.
    pub inside: bool,
}

/// Collects the accesses of a step, including nested steps; reads come first.
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

/// Collects the accesses of steps inside control flow.
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
    let at = location(&plan.buffers[value.buffer].place)?;
    Some(Span { at, bytes })
}

/// The location of a place; `None` if it depends on open sizes.
pub(crate) fn location(place: &Place) -> Option<Location> {
    let (area, offset) = match place {
        Place::Parameter(i) => (Area::Parameter(*i), 0),
        Place::Output { result, from } => (Area::Output(*result), usize::try_from(*from).ok()?),
        Place::Constant(i) => (Area::Constant(*i), 0),
        Place::Arena(offset) => (Area::Arena, usize::try_from(offset.as_constant()?).ok()?),
    };
    Some(Location { area, offset })
}
