//! The scalar forms of operations with loops: reductions, windows and contractions.

use super::{Emitter, Scalars};
use crate::error::Error;
use crate::kernel::{ScalarId, ScalarOp};
use crate::program::NodeId;
use smallvec::smallvec;
use tegula_expr::Term;
use tegula_ir::{Binary, ComputationId, ElementType, Op};

/// The type in which sums are accumulated: `f32` for floats narrower than that, otherwise the type
/// itself.
pub(crate) fn accumulator_type(element_type: ElementType) -> ElementType {
    if element_type.is_float() && element_type.bits() < 32 {
        ElementType::F32
    } else {
        element_type
    }
}

impl Emitter<'_> {
    /// The number of inputs of a variadic reduction, which has as many initial values.
    fn halves(&self, id: NodeId) -> usize {
        self.program.nodes[id].operands.len() / 2
    }

    fn inits(&mut self, id: NodeId) -> Result<Scalars, Error> {
        let program = self.program;
        let inputs = self.halves(id);
        program.nodes[id].operands[inputs..]
            .iter()
            .map(|&init| self.element(init, &[]))
            .collect()
    }

    /// The scalars that a fold starts with: the initial values, converted to a wider type for a
    /// plain sum of narrow floats.
    pub(crate) fn fold_start(
        &mut self,
        id: NodeId,
        to_apply: ComputationId,
    ) -> Result<Scalars, Error> {
        let init = self.inits(id)?;
        Ok(match self.wide_sum(to_apply, &init) {
            Some(wide) => smallvec![self.convert(init[0], wide)],
            None => init,
        })
    }

    /// The scalars that a fold carries after combining one more element of each input.
    pub(crate) fn fold_step(
        &mut self,
        to_apply: ComputationId,
        carried: &[ScalarId],
        values: &[ScalarId],
    ) -> Result<Scalars, Error> {
        let types = |e: &Self, list: &[ScalarId]| list.first().map(|&s| e.kernel.scalars[s]);
        let wide = types(self, carried);
        if let (&[sum], &[value], Some(wide)) = (carried, values, wide)
            && types(self, values) != Some(wide)
        {
            let value = self.convert(value, wide);
            return Ok(smallvec![self.binary(Binary::Add, sum, value)]);
        }
        let arguments: Scalars = carried.iter().chain(values).copied().collect();
        self.apply(to_apply, &arguments)
    }

    /// `reduce` and `reduce-window`: loops over the reduced dimensions or the window that skip
    /// positions in a window's padding.
    pub(crate) fn fold(
        &mut self,
        id: NodeId,
        index: &[Term],
        to_apply: ComputationId,
    ) -> Result<Scalars, Error> {
        let program = self.program;
        let node = &program.nodes[id];
        let inputs = self.halves(id);
        let start = self.fold_start(id, to_apply)?;
        // All inputs are read through the same map.
        let extents = self.extents(id, 0)?;
        // The loops of a window are unrolled where this decides which positions are padding.
        let is_window = matches!(self.module[node.origin].op, Op::ReduceWindow { .. });
        let mut sizes = extents.iter().zip(index);
        let is_decided =
            sizes.all(|(size, at)| size.as_constant() == Some(1) || at.as_constant().is_some());
        let mut step = |e: &mut Self, ranges: &[Term], carried: &[ScalarId]| {
            let read = e.read(id, 0, index, ranges)?;
            e.branch(
                &read.condition,
                &mut |e| {
                    let mut values = Scalars::new();
                    for &operand in &node.operands[..inputs] {
                        values.push(e.element(operand, &read.index)?);
                    }
                    e.fold_step(to_apply, carried, &values)
                },
                &mut |_| Ok(carried.iter().copied().collect()),
            )
        };
        let results = match is_window && !is_decided {
            true => self.loops(&extents, &start, &mut step)?,
            false => self.short_loops(&extents, &start, &mut step)?,
        };
        let types = node.results.iter().map(|&v| self.element_type(v));
        let types: Vec<ElementType> = types.collect();
        let narrowed = results.iter().zip(types);
        Ok(narrowed.map(|(&s, ty)| self.convert(s, ty)).collect())
    }

    /// The wider type that a reduction accumulates in; only a plain sum of narrow floats has one.
    fn wide_sum(&self, to_apply: ComputationId, init: &[ScalarId]) -> Option<ElementType> {
        let [init] = init else { return None };
        let element_type = self.kernel.scalars[*init];
        let wide = accumulator_type(element_type);
        let root = &self.module[self.module[to_apply].root];
        let parameters = |i: usize| matches!(self.module[root.operands[i]].op, Op::Parameter(_));
        let is_sum = root.op == Op::Binary(Binary::Add)
            && root.operands[0] != root.operands[1]
            && parameters(0)
            && parameters(1);
        (is_sum && wide != element_type).then_some(wide)
    }

    /// `dot` and `convolution` as loops: a sum of products of two operands, unrolled if it is
    /// short.
    pub(crate) fn contract(&mut self, id: NodeId, index: &[Term]) -> Result<ScalarId, Error> {
        let program = self.program;
        let node = &program.nodes[id];
        let element_type = self.element_type(node.results[0]);
        let wide = accumulator_type(element_type);
        let extents = self.extents(id, 0)?;
        let zero = self.compute(wide, ScalarOp::Constant(0), &[]);
        let sum = self.short_loops(&extents, &[zero], &mut |e, ranges, carried| {
            let left = e.read(id, 0, index, ranges)?;
            let right = e.read(id, 1, index, ranges)?;
            let inside = left.condition.mul(&right.condition);
            e.branch(
                &inside,
                &mut |e| {
                    let a = e.element(node.operands[0], &left.index)?;
                    let b = e.element(node.operands[1], &right.index)?;
                    let (a, b) = (e.convert(a, wide), e.convert(b, wide));
                    let product = e.binary(Binary::Multiply, a, b);
                    Ok(smallvec![e.binary(Binary::Add, carried[0], product)])
                },
                &mut |_| Ok(smallvec![carried[0]]),
            )
        })?;
        Ok(self.convert(sum[0], element_type))
    }
}
