//! `select-and-scatter` along a partitioned dimension: each window adds a number to the element
//! that it selects.
//!
//! Windows overlap the borders of parts. Each device evaluates all windows that overlap its part of
//! the array, and keeps the results for its own elements.

use super::local::part_of;
use super::plan::Plan;
use super::{Emitter, Frame, Local};
use crate::axes::Window;
use crate::error::Error;
use crate::graph::Node;
use crate::sharding::Cut;
use tegula_ir::{Dim, DraftId, Op, Shape, WindowDim};

/// The windows of the array and the source that a part of the result reads, if windows have the
/// same offsets in each part and none extends beyond the array: no element there can be selected.
pub(super) fn windows(
    own: &WindowDim,
    dim: usize,
    part: i64,
    cut: &Cut,
) -> Option<Vec<(usize, Window)>> {
    let plain = own.base_dilation == 1 && own.window_dilation == 1 && !own.reversal;
    let inside = (own.padding_low, own.padding_high) == (0, 0);
    let possible = own.size > 0 && own.stride > 0 && cut.parts() > 1;
    if !plain || !inside || !possible || part % own.stride != 0 {
        return None;
    }
    let before = (own.size - 1) / own.stride;
    let count = before + (part - 1) / own.stride + 1;
    let covered = (count - 1) * own.stride + own.size;
    let array = Window {
        dim,
        first: -before * own.stride,
        step: part,
        size: covered.max(before * own.stride + part),
    };
    let source = Window {
        dim,
        first: -before,
        step: part / own.stride,
        size: count,
    };
    Some(vec![(0, array), (1, source)])
}

impl Emitter<'_> {
    /// Evaluates all windows that were fetched, and keeps the elements of this device's part.
    pub(super) fn pooled(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        plan: &Plan,
        operands: &[DraftId],
    ) -> Result<Vec<Local>, Error> {
        let op = self.localized(node, &plan.picks, &plan.windows)?;
        let array = operands.first().map(|array| frame.array(*array));
        let array = array.ok_or_else(|| self.bug("expected an operand for the windows"))?;
        let mut id = self.push(frame, op, operands, Some(Shape::Array(array)))?;
        let part = part_of(&self.array_of(node.results[0]), &plan.result);
        for pick in &plan.windows {
            let first = pick.windows.first().map_or(0, |(_, window)| -window.first);
            let size = part.dims.get(pick.dim).and_then(Dim::as_static);
            id = self.slice(frame, id, pick.dim, first, first + size.unwrap_or(0))?;
        }
        self.annotate(frame, node, id);
        Ok(vec![Local {
            id,
            sharding: plan.result.clone(),
        }])
    }

    /// Whether a plan evaluates a `select-and-scatter` on fetched windows.
    pub(super) fn is_pooled(node: &Node, plan: &Plan) -> bool {
        matches!(node.op, Op::SelectAndScatter { .. }) && !plan.windows.is_empty()
    }
}
