//! Liveness: whether code after a loop reads what the loop leaves in memory.

use super::bytes_of;
use crate::clif::mem2reg::Element;
use crate::program::ir::{Action, Area, Location};
use tegula_fusion::kernel::Access;
use tegula_plan::{KernelId, Plan};

/// Whether actions that run in sequence, up to the end of the program, may read an element's bytes
/// before they write them; true if the actions are not known.
pub(super) fn is_read_after(plan: &Plan, after: Option<&[Action]>, element: &Element) -> bool {
    let Some(after) = after else {
        return true;
    };
    // Only the contents of the arena are lost when the run ends.
    if element.at.area != Area::Arena {
        return true;
    }
    let bytes = Bytes {
        at: element.at,
        count: element.ty.bytes() as usize,
    };
    for action in after {
        if bytes.may_be_read(plan, action) {
            return true;
        }
        if bytes.are_written(plan, action) {
            return false;
        }
    }
    false
}

struct Bytes {
    at: Location,
    count: usize,
}

impl Bytes {
    fn overlap(&self, at: Location, count: usize) -> bool {
        self.at.area == at.area
            && self.at.offset < at.offset + count
            && at.offset < self.at.offset + self.count
    }

    fn are_in(&self, at: Location, count: usize) -> bool {
        self.at.area == at.area
            && at.offset <= self.at.offset
            && self.at.offset + self.count <= at.offset + count
    }

    /// Whether an array of unknown size that begins at a location may contain these bytes.
    fn may_lie_behind(&self, at: Location) -> bool {
        self.at.area == at.area && at.offset < self.at.offset + self.count
    }

    fn may_be_read(&self, plan: &Plan, action: &Action) -> bool {
        match action {
            Action::Kernel { kernel, args, .. } => {
                let params = &plan.kernels[KernelId::from_u32(*kernel as u32)].params;
                let mut pairs = params.iter().zip(args);
                pairs.any(|(param, &at)| {
                    param.access != Access::Write
                        && bytes_of(param).map_or(self.may_lie_behind(at), |n| self.overlap(at, n))
                })
            }
            Action::Copy { from, bytes, .. } => self.overlap(*from, *bytes),
            Action::Call { inputs, .. } => inputs.iter().any(|&at| self.may_lie_behind(at)),
            Action::While {
                condition,
                predicate,
                body,
                exchanges,
                ..
            } => {
                let mut inside = condition.iter().chain(body);
                let exchanged = |e: &crate::program::ir::Exchange| {
                    self.overlap(e.state, e.bytes) || self.overlap(e.next, e.bytes)
                };
                self.overlap(*predicate, 1)
                    || exchanges.iter().any(exchanged)
                    || inside.any(|action| self.may_be_read(plan, action))
            }
            Action::Conditional {
                selector, branches, ..
            } => {
                let mut inside = branches.iter().flatten();
                self.overlap(*selector, 4) || inside.any(|action| self.may_be_read(plan, action))
            }
            Action::Pack { .. } | Action::View { .. } | Action::Strips(_) => true,
        }
    }

    /// Whether an action certainly writes all of the bytes.
    fn are_written(&self, plan: &Plan, action: &Action) -> bool {
        match action {
            Action::Kernel { kernel, args, .. } => {
                let params = &plan.kernels[KernelId::from_u32(*kernel as u32)].params;
                let mut pairs = params.iter().zip(args);
                pairs.any(|(param, &at)| {
                    param.access == Access::Write
                        && bytes_of(param).is_some_and(|n| self.are_in(at, n))
                })
            }
            Action::Copy { to, bytes, .. } => self.are_in(*to, *bytes),
            _ => false,
        }
    }
}
