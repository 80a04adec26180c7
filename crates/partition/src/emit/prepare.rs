//! Prepares operands for an operation on parts: masks padding, and fetches elements of neighbouring
//! parts.

use super::local::WindowPick;
use super::plan::Plan;
use super::{Emitter, Frame};
use crate::axes::{Axis, Combination, combination};
use crate::error::Error;
use crate::graph::Node;
use crate::sharding::Cut;
use tegula_ir::{DraftId, Op};

impl Emitter<'_> {
    /// Replaces the padding after the end of an unevenly divided dimension by values that do not
    /// affect the result.
    pub(super) fn mask_padding(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        axis: &Axis,
        cut: &Cut,
        by: Combination,
        operands: &mut [DraftId],
    ) -> Result<(), Error> {
        let arrays = operands.len() / 2;
        for (number, dim) in axis.operands.iter().enumerate() {
            let (Some(dim), Some(&array)) = (dim, operands.get(number)) else {
                continue;
            };
            let size = self.graph.values[node.operands[number]]
                .size(*dim)
                .unwrap_or(0);
            if cut.divides(size) {
                continue;
            }
            let start = self.by_device(frame, &cut.starts(size))?;
            let ty = frame.array(array).element_type;
            let fill = match (by, &node.op) {
                // An index that nothing is written to may be any number.
                (Combination::By(op), Op::Reduce { .. } | Op::Scatter { .. }) => {
                    self.identity(frame, op, ty)?
                }
                // Repeating the initial candidate does not change the selection.
                (Combination::Selection, _) => operands[arrays + number],
                _ => self.zero(frame, ty)?,
            };
            operands[number] = self.masked(frame, array, *dim, start, 0..size, fill)?;
        }
        Ok(())
    }

    pub(super) fn fetch_windows(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        plan: &Plan,
        pick: &WindowPick,
        operands: &mut [DraftId],
        scope: &Cut,
    ) -> Result<(), Error> {
        for (operand, window) in &pick.windows {
            let value = node.operands[*operand];
            let size = self.graph.values[value].size(window.dim).unwrap_or(0);
            let fill = match node.op {
                Op::Pad(_) => operands.get(1).copied(),
                // Elements before and after the array must not affect the result.
                Op::ReduceWindow { to_apply, .. } => {
                    let combination = combination(self.module, to_apply);
                    let combination = combination.ok_or_else(|| {
                        self.bug("expected windows combined by a known operation")
                    })?;
                    let ty = frame.array(operands[*operand]).element_type;
                    Some(self.identity(frame, combination, ty)?)
                }
                // Windows that do not exist must contribute nothing.
                Op::SelectAndScatter { scatter, .. } if *operand == 1 => {
                    let combination = combination(self.module, scatter);
                    let combination = combination.ok_or_else(|| {
                        self.bug("expected windows combined by a known operation")
                    })?;
                    let ty = frame.array(operands[*operand]).element_type;
                    Some(self.identity(frame, combination, ty)?)
                }
                Op::Convolution { .. } => {
                    let ty = frame.array(operands[*operand]).element_type;
                    Some(self.zero(frame, ty)?)
                }
                _ => None,
            };
            self.reason = format!(
                "elements {} before part {} of dimension {}",
                window.first, 0, window.dim
            );
            let sharding = &plan.operands[*operand];
            operands[*operand] = self.fetch(
                frame,
                operands[*operand],
                sharding,
                size,
                &pick.cut,
                window,
                fill,
                scope,
            )?;
        }
        Ok(())
    }

    /// Computes a concatenation by selecting, for each element, the operand that it is from.
    pub(super) fn concatenated(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        pick: &WindowPick,
        operands: &[DraftId],
    ) -> Result<DraftId, Error> {
        let mut end = 0;
        let mut result: Option<DraftId> = None;
        let size = pick.windows.first().map_or(0, |(_, window)| window.size);
        let firsts: Vec<i64> = pick.cut.places().iter().map(|place| place * size).collect();
        for (operand, value) in operands.iter().zip(&node.operands) {
            let begin = end;
            let own = self.graph.values[*value].size(pick.dim).unwrap_or(0);
            end += own;
            if own == 0 {
                continue;
            }
            result = Some(match result {
                None => *operand,
                Some(before) => {
                    let dims = frame.array(*operand).dims;
                    let first = self.by_device(frame, &firsts)?;
                    let inside =
                        self.inside(frame, &dims, pick.dim, first, begin..i64::from(i32::MAX))?;
                    self.push(frame, Op::Select, &[inside, *operand, before], None)?
                }
            });
        }
        result.ok_or_else(|| self.bug("expected at least one operand to concatenate"))
    }
}
