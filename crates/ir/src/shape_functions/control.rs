//! The dispatch of shape functions by operation, and those for tuples, calls and tokens.

use super::context::{Context, Inferred, ShapeOf, array, without_layouts};
use crate::helpers::ConvolutionGroups;
use crate::{ComputationId, ElementType, Error, Literal, Op, Opcode, Shape};
use tegula_expr::Provider;

impl<P: Provider> Context<'_, P> {
    /// The shape function of the operation.
    pub(super) fn shape(&mut self) -> Inferred<P::Index> {
        match self.op {
            Op::Unary(op) => self.unary(*op),
            Op::Binary(op) => self.binary(*op),
            Op::Compare { direction, .. } => self.compare(*direction),
            Op::Select => self.select(),
            Op::Clamp => self.clamp(),
            Op::Convert => self.convert(),
            Op::BitcastConvert => self.bitcast_convert(),
            Op::StochasticConvert => self.stochastic_convert(),
            Op::ReducePrecision { .. } => self.reduce_precision(),
            Op::Iota(dimension) => self.iota(*dimension),
            Op::Broadcast(dimensions) => self.broadcast(dimensions),
            Op::Reshape => self.reshape(),
            Op::Bitcast => self.bitcast(),
            Op::Transpose(permutation) => self.transpose(permutation),
            Op::Reverse(dimensions) => self.reverse(dimensions),
            Op::Slice(slices) => self.slice(slices),
            Op::Pad(padding) => self.pad(padding),
            Op::Concatenate(dimension) => self.concatenate(*dimension),
            Op::DynamicSlice(sizes) => self.dynamic_slice(sizes),
            Op::DynamicUpdateSlice => self.dynamic_update_slice(),
            Op::Gather {
                dims, slice_sizes, ..
            } => self.gather(dims, slice_sizes),
            Op::Scatter { dims, .. } => self.scatter(dims),
            Op::Dot { dims, .. } => self.dot(dims),
            Op::ScaledDot { dims, .. } => self.scaled_dot(dims),
            Op::RaggedDot {
                dims,
                lhs_ragged_dims,
                rhs_group_dims,
                ..
            } => self.ragged_dot(dims, lhs_ragged_dims, rhs_group_dims),
            Op::Convolution {
                window,
                dims,
                feature_group_count,
                batch_group_count,
                ..
            } => {
                let groups = ConvolutionGroups {
                    features: *feature_group_count,
                    batch: *batch_group_count,
                };
                self.convolution(window, dims, groups)
            }
            Op::Reduce { dimensions, .. } => self.reduce(dimensions),
            Op::ReduceWindow { window, .. } => self.reduce_window(window),
            Op::SelectAndScatter { window, .. } => self.select_and_scatter(window),
            Op::Map { to_apply, .. } => self.map(*to_apply),
            Op::Sort { dimension, .. } => self.sort(*dimension),
            Op::TopK { k, .. } => self.top_k(*k),
            Op::Fft { kind, length } => self.fft(*kind, length),
            Op::Cholesky { .. } => self.cholesky(),
            Op::TriangularSolve { left_side, .. } => self.triangular_solve(*left_side),
            Op::BatchNormTraining { feature_index, .. } => self.batch_norm_training(*feature_index),
            Op::BatchNormInference { feature_index, .. } => {
                self.batch_norm_inference(*feature_index)
            }
            Op::BatchNormGrad { feature_index, .. } => self.batch_norm_grad(*feature_index),
            _ => self.control(),
        }
    }

    /// Random numbers of the stated shape; the operands are two scalars of their type.
    fn rng(&mut self) -> Inferred<P::Index> {
        let ty = self.stated_array()?.element_type;
        for operand in 0..2 {
            let parameter = self.array(operand)?;
            if parameter.rank() > 0 || parameter.element_type != ty {
                return Err(self.error(format_args!(
                    "operand {operand} must be {ty}[], a scalar of the result's type, found {parameter}"
                )));
            }
        }
        self.as_stated()
    }

    fn control(&mut self) -> Inferred<P::Index> {
        match self.op {
            Op::Constant(literals) => self.constant(literals),
            // The operands do not determine the results of these.
            Op::Parameter(_) | Op::RngGetAndUpdateState(_) | Op::CustomCall(_) | Op::Infeed(_) => {
                self.as_stated()
            }
            Op::Rng(_) => self.rng(),
            // The new state, which is an array, and the random numbers.
            Op::RngBitGenerator(_) => {
                self.array(0)?;
                self.as_stated()
            }
            Op::Scan {
                dimension,
                num_carries,
                to_apply,
                ..
            } => self.scan(*dimension, *num_carries, *to_apply),
            Op::SetDimensionSize(dimension) => self.set_dimension_size(*dimension),
            Op::DynamicReshape => self.dynamic_reshape(),
            Op::GetDimensionSize(dimension) => {
                self.dimension(0, *dimension)?;
                Ok(array(ElementType::S32, []))
            }
            Op::Tuple => {
                let elements = (0..self.operands.len()).map(|operand| self.same_as(operand));
                elements.collect::<Result<_, _>>().map(ShapeOf::Tuple)
            }
            Op::GetTupleElement(index) => self.element(*index),
            Op::Call { to_apply, .. } => self.call(*to_apply),
            Op::Fusion { calls, .. } => self.call(*calls),
            Op::While { .. } | Op::Copy | Op::Domain(_) | Op::AddDependency | Op::AsyncUpdate => {
                self.same_as(0)
            }
            Op::OptBarrier => match self.operands.len() {
                1 => self.same_as(0),
                count => {
                    let elements = (0..count).map(|operand| self.same_as(operand));
                    elements.collect::<Result<_, _>>().map(ShapeOf::Tuple)
                }
            },
            Op::Conditional { branches, .. } => match branches.first() {
                Some(&branch) => self.call(branch),
                None => Err(self.error("expected at least one branch")),
            },
            Op::AfterAll => Ok(ShapeOf::Same(Shape::Token)),
            Op::Outfeed { .. } => Ok(ShapeOf::Same(Shape::Token)),
            Op::CopyStart { .. } => {
                let context = Shape::array(ElementType::U32, &[]);
                self.started(0, vec![self.operand(0)?.clone()], vec![context])
            }
            Op::CopyDone => self.element(0),
            Op::AsyncStart { calls, .. } => {
                let operands = self.operands.iter().map(|&shape| shape.clone()).collect();
                let result = self.result_of(*calls)?.clone();
                self.started(1, vec![Shape::Tuple(operands), result], Vec::new())
            }
            Op::AsyncDone => self.element(1),
            Op::Channel { opcode, .. } => self.channel(*opcode),
            Op::ReplicaId | Op::PartitionId => Ok(array(ElementType::U32, [])),
            _ => self.collective(),
        }
    }

    fn constant(&mut self, literals: &[Literal]) -> Inferred<P::Index> {
        match (literals, self.stated) {
            ([literal], None | Some(Shape::Array(_))) => {
                Ok(ShapeOf::Same(Shape::Array(literal.shape().clone())))
            }
            _ => {
                let stated = self.stated()?;
                let mut rest = literals.iter();
                let mut agree = true;
                stated.for_each_leaf(&mut |leaf| {
                    let literal = rest.next().map(Literal::shape);
                    let pair = leaf.as_array().zip(literal);
                    agree &= pair.is_some_and(|(leaf, literal)| leaf.same_ignoring_layout(literal));
                });
                match agree && rest.next().is_none() {
                    true => self.as_stated(),
                    false => Err(self.error("the literals do not fit the shape")),
                }
            }
        }
    }

    /// An element of operand 0, which must be a tuple.
    pub(super) fn element(&mut self, index: i64) -> Inferred<P::Index> {
        let tuple = self.operand(0)?;
        let Some(elements) = tuple.as_tuple() else {
            return Err(self.error(format_args!("the operand must be a tuple, found {tuple:#}")));
        };
        let element = usize::try_from(index)
            .ok()
            .and_then(|index| elements.get(index));
        match element {
            Some(element) => Ok(ShapeOf::Same(without_layouts(element))),
            None => Err(self.error(format_args!(
                "element {index} is out of range for a tuple of {} elements",
                elements.len()
            ))),
        }
    }

    fn call(&mut self, callee: ComputationId) -> Inferred<P::Index> {
        Ok(ShapeOf::Same(without_layouts(self.result_of(callee)?)))
    }

    /// The result of a start operation: a tuple that begins with these elements and ends with
    /// whatever the instruction states, or with `context` if it states nothing. With `repeat` 0 the
    /// elements are repeated, because they are both destination and source.
    pub(super) fn started(
        &mut self,
        repeat: usize,
        mut elements: Vec<Shape>,
        context: Vec<Shape>,
    ) -> Inferred<P::Index> {
        if repeat == 0 {
            let again = elements.clone();
            elements.extend(again);
        }
        let Some(stated) = self.stated else {
            elements.extend(context);
            return Ok(ShapeOf::Same(without_layouts(&Shape::Tuple(elements))));
        };
        let stated_elements = stated.as_tuple().unwrap_or_default();
        let agree = stated_elements.len() >= elements.len()
            && elements
                .iter()
                .zip(stated_elements)
                .all(|(a, b)| a.may_equal(b));
        match agree {
            true => self.as_stated(),
            false => {
                let expected = Shape::Tuple(elements);
                Err(self.error(format_args!(
                    "the result must begin with the elements of {expected:#}, found {stated:#}"
                )))
            }
        }
    }

    fn channel(&mut self, opcode: Opcode) -> Inferred<P::Index> {
        match opcode {
            Opcode::SendDone => Ok(ShapeOf::Same(Shape::Token)),
            Opcode::Send => {
                let context = vec![Shape::array(ElementType::U32, &[]), Shape::Token];
                self.started(1, vec![self.operand(0)?.clone()], context)
            }
            Opcode::RecvDone => match self.operand(0)?.as_tuple() {
                Some([received, ..]) => Ok(ShapeOf::Same(Shape::Tuple(vec![
                    without_layouts(received),
                    Shape::Token,
                ]))),
                _ => Err(self.error("the operand must be the result of a `recv`")),
            },
            _ => self.as_stated(),
        }
    }

    /// The results of `of` for the operands: its result for a single operand, otherwise a tuple.
    pub(super) fn each_operand(
        &mut self,
        of: impl Fn(&mut Self, usize) -> Inferred<P::Index>,
    ) -> Inferred<P::Index> {
        match self.operands.len() {
            1 => of(self, 0),
            count => (0..count)
                .map(|operand| of(self, operand))
                .collect::<Result<Vec<_>, Error>>()
                .map(ShapeOf::Tuple),
        }
    }
}
