//! Emits an operation on parts of its arrays.
//!
//! `choose` selects the cheapest plan, and this module executes it: operands are resharded and
//! prepared (`prepare`), the operation is applied to parts, partial results are combined
//! (`combine`), and the result is resharded.

use super::local::part_shape;
use super::plan::Plan;
use super::{Emitter, Frame, Local};
use crate::axes::{AxisKind, Combination, is_reshape};
use crate::error::Error;
use crate::graph::Node;
use tegula_ir::{Annotations, ArrayShape, Dims, DraftId, ElementType, Op, Shape};

impl Emitter<'_> {
    pub(super) fn dims_of(&self, value: usize) -> Dims {
        let array = self.graph.values[value].shape.as_array();
        array.map(|array| array.dims.clone()).unwrap_or_default()
    }

    pub(super) fn array_of(&self, value: usize) -> ArrayShape {
        let array = self.graph.values[value].shape.as_array().cloned();
        array.unwrap_or_else(|| ArrayShape::new(ElementType::Pred, &[]))
    }

    /// Emits an operation; its results get the shardings that propagation chose.
    pub(super) fn operation(&mut self, frame: &mut Frame, node: &Node) -> Result<(), Error> {
        if let Some(made) = self.made_of_nothing(frame, node)? {
            frame.values.insert(node.results[0], made);
            return Ok(());
        }
        let plan = self.plan(frame, node);
        self.explain(frame, node, &plan);
        let results = match &plan.indexed {
            Some(_) => self.indexed(frame, node, &plan)?,
            None => self.compute(frame, node, &plan)?,
        };
        let scope = self.scope_of(node);
        for (value, local) in node.results.iter().zip(results) {
            let target = self.found.sharding(*value).clone();
            let local = Local {
                sharding: local.sharding.of_rank(target.rank()),
                ..local
            };
            self.reason = format!("its result is needed as {target}");
            let local = self.reshard(frame, &local, &target, &self.dims_of(*value), scope)?;
            frame.values.insert(*value, local);
        }
        Ok(())
    }

    /// Reports computations that are not simply the operation on parts.
    fn explain(&mut self, frame: &Frame, node: &Node, plan: &Plan) {
        let cut_operands = node
            .operands
            .iter()
            .filter_map(|value| frame.values.get(value));
        let any_cut = cut_operands
            .clone()
            .any(|local| !local.sharding.is_replicated());
        let result_cut = node
            .results
            .iter()
            .any(|value| !self.found.sharding(*value).is_replicated());
        let alone = plan.picks.is_empty() && plan.windows.is_empty() && plan.indexed.is_none();
        if alone && (any_cut || result_cut) {
            let what = if any_cut {
                "its operands are gathered and "
            } else {
                ""
            };
            self.note(format!("{what}every device computes all of it: it cannot be partitioned along any of these dimensions, or that would cost more"));
        }
        if let Some((combination, cut)) = plan.contracted() {
            let by = match combination {
                Combination::By(op) => op.opcode().name(),
                Combination::Selection => node.op.opcode().name(),
            };
            let parts = cut.parts();
            self.note(format!(
                "each of {parts} devices has a partial result, combined by `{by}`"
            ));
        }
        for pick in &plan.windows {
            self.note(format!(
                "the windows of a part of dimension {} reach into neighbouring parts of the operand",
                pick.dim
            ));
        }
        if let Some(indexed) = &plan.indexed {
            self.note(indexed.text());
        }
    }

    /// Emits the computation of a plan.
    fn compute(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        plan: &Plan,
    ) -> Result<Vec<Local>, Error> {
        let scope_id = self.scope_of(node);
        let mut operands = self.brought(frame, node, plan)?;
        let scope = self.scope(scope_id).clone();
        for (axis, cut) in &plan.picks {
            if let AxisKind::Contracted(combination) = axis.kind {
                self.mask_padding(frame, node, axis, cut, combination, &mut operands)?;
            }
        }
        for pick in &plan.windows {
            self.fetch_windows(frame, node, plan, pick, &mut operands, &scope)?;
        }
        let is_concatenation = matches!(node.op, Op::Concatenate(_));
        if let (true, [pick]) = (is_concatenation, plan.windows.as_slice()) {
            let id = self.concatenated(frame, node, pick, &operands)?;
            return Ok(vec![Local {
                id,
                sharding: plan.result.clone(),
            }]);
        }
        if Self::is_pooled(node, plan) {
            return self.pooled(frame, node, plan, &operands);
        }
        let contracted = plan.contracted();
        // The initial value of a sum is added once, at the end.
        let mut begin = None;
        if let (Some((Combination::By(op), _)), Op::Reduce { .. }) = (&contracted, &node.op)
            && let Some(init) = operands.get_mut(1)
        {
            let ty = frame.array(*init).element_type;
            let identity = self.identity(frame, *op, ty)?;
            begin = Some(std::mem::replace(init, identity));
        }
        if let (Some((Combination::By(op), cut)), Op::Scatter { .. }) = (&contracted, &node.op)
            && let Some(array) = operands.first_mut()
        {
            *array = self.on_first_part(frame, *array, *op, cut)?;
        }
        let mut op = self.localized(node, &plan.picks, &plan.windows)?;
        let mut shape = part_shape(&node.shape, &plan.result);
        if let Op::CustomCall(call) = &mut op {
            shape = laid_out(shape, &node.shape);
            let stated = call.operand_layouts.iter_mut().flatten();
            for (stated, sharding) in stated.zip(&plan.operands) {
                *stated = laid_out(part_shape(stated, sharding), stated);
            }
        }
        if let (Op::Bitcast, Some(operand)) = (&node.op, operands.first_mut()) {
            if is_reshape(self.module, node.instruction) {
                op = Op::Reshape;
            } else {
                // Both arrays are whole, with the dimension orders that the program states.
                let stated = self.module[self.module[node.instruction].operands[0]]
                    .shape
                    .clone();
                *operand = self.push(frame, Op::Copy, &[*operand], Some(stated))?;
                shape = node.shape.clone();
            }
        }
        let operands = self.as_stated(frame, node, operands)?;
        let id = self.push(frame, op, &operands, Some(shape))?;
        self.annotate(frame, node, id);
        let results = self.leaves_of(frame, id)?;
        if let Some((Combination::Selection, cut)) = &contracted {
            return self.selected(frame, node, plan, (&results, &operands), cut);
        }
        // A sum over devices has a single result.
        if let (Some((Combination::By(op), cut)), [value], [id]) =
            (contracted, node.results.as_slice(), results.as_slice())
        {
            let local = self.combined(frame, *value, plan, (*id, op, &cut), &scope)?;
            let local = self.begun_with(frame, (*value, local), begin, op)?;
            return Ok(vec![local]);
        }
        let local = |id| Local {
            id,
            sharding: plan.result.clone(),
        };
        Ok(results.into_iter().map(local).collect())
    }

    /// The operands, resharded as the plan requires.
    pub(super) fn brought(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        plan: &Plan,
    ) -> Result<Vec<DraftId>, Error> {
        let scope = self.scope_of(node);
        let mut operands = Vec::new();
        for (number, value) in node.operands.iter().enumerate() {
            self.combine(frame, *value)?;
            let local = frame.values.get(value).cloned();
            let local = local
                .ok_or_else(|| self.bug("expected an operand that is emitted before its use"))?;
            if self.graph.values[*value].shape.as_array().is_none() {
                operands.push(local.id);
                continue;
            }
            let wanted = &plan.operands[number];
            self.reason = format!(
                "operand {number} is {}, but {wanted} is needed",
                local.sharding
            );
            let dims = self.dims_of(*value);
            operands.push(self.reshard(frame, &local, wanted, &dims, scope)?.id);
        }
        Ok(operands)
    }

    /// Rebuilds operands that are tuples.
    pub(super) fn as_stated(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        leaves: Vec<DraftId>,
    ) -> Result<Vec<DraftId>, Error> {
        let module = self.module;
        let source = &module[node.instruction];
        let mut rest = leaves.into_iter();
        let mut operands = Vec::new();
        for operand in &source.operands {
            let shape = module[*operand].shape.clone();
            operands.push(self.tuple_of(frame, &shape, &mut rest)?);
        }
        Ok(operands)
    }

    /// Copies annotations of the original instruction, except for those for a partitioner.
    pub(super) fn annotate(&mut self, frame: &mut Frame, node: &Node, id: DraftId) {
        let source = &self.module[node.instruction];
        frame.draft.set_name(id, &source.name);
        let Some(annotations) = source.annotations.as_deref() else {
            return;
        };
        *frame.draft.annotations_mut(id) = kept(annotations);
    }
}

/// The annotations without those for a partitioner, and without references to instructions.
pub(super) fn kept(annotations: &Annotations) -> Annotations {
    let mut kept = annotations.clone();
    kept.sharding = None;
    kept.control_predecessors.clear();
    kept.frontend_attributes
        .retain(|(name, _)| !name.starts_with("xla.sdy."));
    kept
}

/// A part's shape, with the layouts of the whole.
pub(super) fn laid_out(part: Shape, whole: &Shape) -> Shape {
    match (part, whole) {
        (Shape::Array(part), Shape::Array(whole)) => Shape::Array(ArrayShape {
            layout: whole.layout.clone(),
            ..part
        }),
        (Shape::Tuple(parts), Shape::Tuple(wholes)) => {
            let pairs = parts.into_iter().zip(wholes);
            Shape::Tuple(pairs.map(|(part, whole)| laid_out(part, whole)).collect())
        }
        (part, _) => part,
    }
}
