//! Shape functions of reductions, windows, sorting and scanning.

use super::context::{Context, Inferred, ShapeOf, Sizes, array};
use crate::helpers::kept_dimensions;
use crate::{ComputationId, DimNumbers, ElementType, Error, WindowDim};
use tegula_expr::Provider;

impl<P: Provider> Context<'_, P> {
    /// Checks that the second half of the operands are scalars, the initial values, and that all
    /// inputs have the same sizes. Returns the number of inputs.
    fn inputs_and_inits(&mut self) -> Result<usize, Error> {
        let count = self.operands.len() / 2;
        for input in 0..count {
            let ty = self.array(input)?.element_type;
            self.expect_scalar(count + input, ty)?;
            self.same_dims(0, input)?;
        }
        Ok(count)
    }

    /// Arrays of these sizes, one for each input: a single array or a tuple.
    fn one_or_tuple(&self, count: usize, sizes: &Sizes<P::Index>) -> Inferred<P::Index> {
        let of = |input: usize| {
            Ok(array(
                self.array(input)?.element_type,
                sizes.iter().cloned(),
            ))
        };
        match count {
            1 => of(0),
            _ => (0..count)
                .map(of)
                .collect::<Result<_, _>>()
                .map(ShapeOf::Tuple),
        }
    }

    pub(super) fn reduce(&mut self, dimensions: &DimNumbers) -> Inferred<P::Index> {
        let count = self.inputs_and_inits()?;
        let rank = self.rank(0)?;
        self.distinct(dimensions, rank)?;
        let kept = kept_dimensions(dimensions, rank);
        let sizes = kept
            .iter()
            .map(|&dim| self.provider.shape(0, dim))
            .collect();
        self.one_or_tuple(count, &sizes)
    }

    /// The number of positions of a window along each dimension of operand 0.
    fn window_positions(&mut self, window: &[WindowDim]) -> Result<Sizes<P::Index>, Error> {
        self.expect_count(window.len(), "window dimensions")?;
        let sizes = self.dims(0)?;
        sizes
            .iter()
            .zip(window)
            .map(|(size, window)| Ok(self.windowed(size, window)?.positions))
            .collect()
    }

    pub(super) fn reduce_window(&mut self, window: &[WindowDim]) -> Inferred<P::Index> {
        let count = self.inputs_and_inits()?;
        let sizes = self.window_positions(window)?;
        self.one_or_tuple(count, &sizes)
    }

    pub(super) fn select_and_scatter(&mut self, window: &[WindowDim]) -> Inferred<P::Index> {
        let ty = self.array(0)?.element_type;
        self.expect_type(1, ty)?;
        self.expect_scalar(2, ty)?;
        let positions = self.window_positions(window)?;
        let source = self.dims(1)?;
        if source.len() != positions.len() {
            return Err(self.error("the source must have as many dimensions as the operand"));
        }
        for (dim, (position, size)) in positions.iter().zip(&source).enumerate() {
            let what = format!("window positions and source size in dimension {dim}");
            self.same(position, size, what)?;
        }
        self.same_as(0)
    }

    pub(super) fn map(&mut self, callee: ComputationId) -> Inferred<P::Index> {
        for operand in 1..self.operands.len() {
            self.same_dims(0, operand)?;
        }
        match self.result_of(callee)?.as_array() {
            Some(result) => Ok(array(result.element_type, self.dims(0)?)),
            None => Err(self.error("the applied computation must return a scalar")),
        }
    }

    pub(super) fn sort(&mut self, dimension: i64) -> Inferred<P::Index> {
        self.dimension(0, dimension)?;
        for operand in 1..self.operands.len() {
            self.same_dims(0, operand)?;
        }
        let sizes = self.dims(0)?;
        self.one_or_tuple(self.operands.len(), &sizes)
    }

    /// Values and indices along the last dimension.
    pub(super) fn top_k(&mut self, k: i64) -> Inferred<P::Index> {
        let ty = self.array(0)?.element_type;
        let mut sizes = self.dims(0)?;
        let Some(last) = sizes.pop() else {
            return Err(self.error("a scalar has no last dimension"));
        };
        let k = self.literal(k);
        self.at_most(&k, &last, "k")?;
        sizes.push(self.not_negative(k)?);
        let values = array(ty, sizes.iter().cloned());
        Ok(ShapeOf::Tuple(vec![values, array(ElementType::S32, sizes)]))
    }
}
