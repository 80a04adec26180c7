//! Dispatch: which function evaluates which operation.

use crate::callee::{Callee, map};
use crate::error::{OpError, invalid, unsupported};
use crate::eval::Evaluator;
use crate::perturb::by_sums;
use crate::value::Value;
use crate::{
    batch_norm, convolution, dot, elementwise, fft, gather, linalg, movement, ragged, random,
    reduce, sort, window,
};
use tegula_custom_call::{CustomCallHandler, is_built_in};
use tegula_ir::helpers::tiles_keep_order;
use tegula_ir::{
    ArrayShape, CustomCall, Dim, ElementType, InstructionId, Lapack, Literal, Op, Scalar, Shape,
    is_size_computation,
};

/// The operands as arrays, by number.
struct Arrays(Vec<Literal>);

impl Arrays {
    fn get(&self, index: usize) -> Result<&Literal, OpError> {
        self.0
            .get(index)
            .ok_or_else(|| invalid(format!("operand {index} is missing")))
    }

    fn from(&self, start: usize) -> Vec<&Literal> {
        self.0.iter().skip(start).collect()
    }

    /// The operands split into two halves, such as inputs and initial values.
    fn halves(&self) -> (Vec<&Literal>, Vec<&Literal>) {
        let (a, b) = self.0.split_at(self.0.len() / 2);
        (a.iter().collect(), b.iter().collect())
    }

    fn five(&self) -> Result<[&Literal; 5], OpError> {
        <[&Literal; 5]>::try_from(self.from(0)).map_err(|_| invalid("expected five operands"))
    }

    fn into_first(self) -> Result<Literal, OpError> {
        let first = self.0.into_iter().next();
        first.ok_or_else(|| invalid("expected at least one operand"))
    }
}

/// The value of an operation: the array if its shape is an array, else a tuple.
fn results(literals: impl IntoIterator<Item = Literal>, shape: &Shape) -> Result<Value, OpError> {
    let mut values: Vec<Value> = literals.into_iter().map(Value::Array).collect();
    match shape {
        Shape::Tuple(_) => Ok(Value::Tuple(values)),
        _ => values
            .pop()
            .ok_or_else(|| invalid("expected at least one array for the result")),
    }
}

impl Evaluator<'_> {
    pub(crate) fn dispatch(
        &mut self,
        id: InstructionId,
        operands: Vec<Value>,
    ) -> Result<Value, OpError> {
        if let Some(value) = self.structural(id, &operands) {
            return value;
        }
        if self.is_control(id) {
            return self.control(id, operands);
        }
        if let Some(call) = self.module.custom_call_to_run(id)
            && !is_built_in(&call.target)
        {
            return self.handled(&call, &operands, &self.module[id].shape);
        }
        let operands = operands.into_iter().map(Value::into_array);
        let operands = Arrays(operands.collect::<Result<_, _>>()?);
        match &self.module[id].op {
            Op::Unary(_)
            | Op::Binary(_)
            | Op::Compare { .. }
            | Op::Select
            | Op::Clamp
            | Op::Convert
            | Op::StochasticConvert
            | Op::ReducePrecision { .. } => self.elementwise(id, &operands).map(Value::Array),
            Op::Reduce { .. }
            | Op::ReduceWindow { .. }
            | Op::SelectAndScatter { .. }
            | Op::Scatter { .. }
            | Op::Map { .. }
            | Op::Sort { .. } => self.calling(id, operands),
            Op::Dot { .. }
            | Op::Convolution { .. }
            | Op::RaggedDot { .. }
            | Op::ScaledDot { .. } => self.products(id, &operands),
            Op::TopK { .. }
            | Op::BatchNormTraining { .. }
            | Op::BatchNormInference { .. }
            | Op::BatchNormGrad { .. }
            | Op::Fft { .. }
            | Op::Cholesky { .. }
            | Op::TriangularSolve { .. }
            | Op::Rng(_)
            | Op::RngBitGenerator(_)
            | Op::CustomCall(_) => self.library(id, &operands),
            _ => self.moving(id, operands).map(Value::Array),
        }
    }

    fn elementwise(&self, id: InstructionId, operands: &Arrays) -> Result<Literal, OpError> {
        let instruction = &self.module[id];
        let x = operands.get(0)?;
        match &instruction.op {
            Op::Unary(op) => elementwise::unary(*op, x),
            Op::Binary(op) => elementwise::binary(*op, x, operands.get(1)?),
            Op::Compare { direction, order } => {
                elementwise::compare(*direction, *order, x, operands.get(1)?)
            }
            Op::Select => elementwise::select(x, operands.get(1)?, operands.get(2)?),
            Op::Clamp => elementwise::clamp(x, operands.get(1)?, operands.get(2)?),
            Op::Convert => {
                let to = self.resolve(&instruction.shape)?.element_type;
                elementwise::convert(x, &x.shape().with_element_type(to))
            }
            Op::StochasticConvert => {
                let to = self.resolve(&instruction.shape)?.element_type;
                let shape = x.shape().with_element_type(to);
                elementwise::stochastic_convert(x, operands.get(1)?, &shape)
            }
            Op::ReducePrecision {
                exponent_bits,
                mantissa_bits,
            } => elementwise::reduce_precision(x, *exponent_bits, *mantissa_bits),
            _ => Err(invalid("expected an elementwise operation")),
        }
    }

    fn moving(&self, id: InstructionId, operands: Arrays) -> Result<Literal, OpError> {
        let instruction = &self.module[id];
        let shape = || self.resolve(&instruction.shape);
        match &instruction.op {
            Op::Constant(literals) => match literals.as_ref() {
                [literal] => Ok(literal.clone()),
                _ => Err(invalid("expected one literal for an array constant")),
            },
            Op::Iota(dimension) => movement::iota(&shape()?, *dimension),
            Op::Broadcast(dimensions) => {
                movement::broadcast(operands.get(0)?, &shape()?, dimensions)
            }
            Op::Reshape => Ok(operands.get(0)?.reshaped(&shape()?)?),
            Op::Bitcast => self.bitcast(id, operands.get(0)?),
            Op::BitcastConvert => movement::bitcast_convert(operands.get(0)?, &shape()?),
            Op::Transpose(permutation) => movement::transpose(operands.get(0)?, permutation),
            Op::Reverse(dimensions) => movement::reverse(operands.get(0)?, dimensions),
            Op::Slice(slices) => movement::slice(operands.get(0)?, slices),
            Op::Pad(padding) => {
                movement::pad(operands.get(0)?, operands.get(1)?, &shape()?, padding)
            }
            Op::Concatenate(dimension) => {
                movement::concatenate(&operands.from(0), &shape()?, *dimension)
            }
            Op::Copy => operands.into_first(),
            Op::DynamicSlice(slice) => {
                movement::dynamic_slice(operands.get(0)?, &operands.from(1), slice)
            }
            Op::DynamicUpdateSlice => {
                let mut operands = operands.0.into_iter();
                let (Some(x), Some(update)) = (operands.next(), operands.next()) else {
                    return Err(invalid("expected at least one operand"));
                };
                let starts: Vec<&Literal> = operands.as_slice().iter().collect();
                movement::dynamic_update_slice(x, &update, &starts)
            }
            Op::Gather {
                dims, slice_sizes, ..
            } => gather::gather(
                operands.get(0)?,
                operands.get(1)?,
                &shape()?,
                dims,
                slice_sizes,
            ),
            Op::GetDimensionSize(dimension) => {
                let dims = crate::strided::sizes(operands.get(0)?);
                let size = dims[movement::position(*dimension, dims.len())?];
                Ok(Literal::from_value(size as i32))
            }
            Op::SetDimensionSize(dimension) => {
                let shape = shape()?;
                let place = movement::position(*dimension, shape.rank())?;
                self.gives_size((id, 1), operands.get(1)?, shape.dims.get(place))?;
                movement::first_elements(operands.get(0)?, &shape)
            }
            Op::DynamicReshape => {
                let shape = shape()?;
                for (number, size) in shape.dims.iter().enumerate() {
                    let value = operands.get(1 + number)?;
                    self.gives_size((id, 1 + number), value, Some(size))?;
                }
                Ok(operands.get(0)?.reshaped(&shape)?)
            }
            Op::ReplicaId | Op::PartitionId => self.own_number(id),
            op => Err(left_out(op)),
        }
    }

    /// Checks that an operand that gives a size equals the size in the shape, which was resolved
    /// before the run: the operand must not depend on data.
    fn gives_size(
        &self,
        (id, operand): (InstructionId, usize),
        value: &Literal,
        size: Option<&Dim>,
    ) -> Result<(), OpError> {
        let follows = |&operand| is_size_computation(self.module, operand);
        let value = value.scalar(0).and_then(Scalar::to_i64);
        match self.module[id].operands.get(operand).is_some_and(follows)
            && value.is_some()
            && value == size.and_then(Dim::as_static)
        {
            true => Ok(()),
            false => Err(unsupported("an operand's size that is computed from data")),
        }
    }

    /// Reinterprets the same memory as another shape: the elements are reordered by the layouts of
    /// both sides.
    fn bitcast(&self, id: InstructionId, x: &Literal) -> Result<Literal, OpError> {
        let module = self.module;
        let shape = self.resolve(&module[id].shape)?;
        let (from, to) = (module.operand_shape(id, 0), &module[id].shape);
        if let (Some(Shape::Array(from)), Shape::Array(to)) = (from, to)
            && !tiles_keep_order(from, to)
        {
            return Err(unsupported(
                "a bitcast between tiled layouts that moves elements across padding",
            ));
        }
        let order = |shape: &Shape| -> Option<Vec<usize>> {
            let layout = shape.as_array()?.layout.as_deref()?;
            let order = layout.minor_to_major.iter().rev();
            Some(order.map(|&d| d as usize).collect())
        };
        let (from, to) = (from.and_then(order), order(to));
        let physical = match &from {
            Some(order) => dot::ordered(x, order)?,
            None => x.clone(),
        };
        let Some(to) = to else {
            return movement::bitcast_convert(&physical, &shape);
        };
        let dims = shape.static_dims().unwrap_or_default();
        let mut back = vec![0; to.len()];
        let mut physical_dims = Vec::with_capacity(to.len());
        for (place, &d) in to.iter().enumerate() {
            let size = dims.get(d).copied();
            physical_dims
                .push(size.ok_or_else(|| invalid("expected a layout with the shape's rank"))?);
            back[d] = place;
        }
        let physical_shape = ArrayShape::new(shape.element_type, &physical_dims);
        let result = movement::bitcast_convert(&physical, &physical_shape)?;
        dot::ordered(&result, &back)
    }

    fn products(&mut self, id: InstructionId, operands: &Arrays) -> Result<Value, OpError> {
        let instruction = &self.module[id];
        let shape = self.resolve(&instruction.shape)?;
        let (lhs, rhs) = (operands.get(0)?, operands.get(1)?);
        let magnitudes = self.options.perturb.is_some();
        let product = match &instruction.op {
            Op::Dot { dims, .. } => dot::dot(lhs, rhs, dims, &shape, magnitudes)?,
            Op::Convolution {
                window,
                dims,
                feature_group_count,
                batch_group_count,
                ..
            } => {
                let groups = (*feature_group_count, *batch_group_count);
                convolution::convolution(lhs, rhs, &shape, (window, dims), groups, magnitudes)?
            }
            Op::RaggedDot {
                dims,
                lhs_ragged_dims,
                rhs_group_dims,
                ..
            } => {
                let attributes = ragged::Attributes {
                    dims,
                    ragged: lhs_ragged_dims,
                    group: rhs_group_dims,
                };
                let arrays = [lhs, rhs, operands.get(2)?];
                ragged::ragged_dot(arrays, &attributes, &shape, magnitudes)?
            }
            Op::ScaledDot { dims, .. } => {
                let arrays = [lhs, rhs, operands.get(2)?, operands.get(3)?];
                ragged::scaled_dot(arrays, dims, &shape, magnitudes)?
            }
            op => return Err(left_out(op)),
        };
        let sums = self.perturb_sums(product.sums, product.magnitudes.as_deref(), product.terms)?;
        elementwise::convert(&sums, &shape).map(Value::Array)
    }

    /// Evaluates an operation that calls a computation for each element.
    fn calling(&mut self, id: InstructionId, operands: Arrays) -> Result<Value, OpError> {
        let module = self.module;
        let shape = &module[id].shape;
        let magnitudes = self.options.perturb.is_some();
        match &module[id].op {
            Op::Reduce {
                dimensions,
                to_apply,
            } => {
                let (inputs, inits) = operands.halves();
                let callee = &mut Callee::new(self, *to_apply);
                let reduced = reduce::reduce(&inputs, &inits, dimensions, callee, magnitudes)?;
                self.reduced(reduced, *to_apply, shape)
            }
            Op::ReduceWindow { window, to_apply } => {
                let (inputs, inits) = operands.halves();
                let callee = &mut Callee::new(self, *to_apply);
                let reduced = window::reduce_window(&inputs, &inits, window, callee, magnitudes)?;
                self.reduced(reduced, *to_apply, shape)
            }
            Op::SelectAndScatter {
                window,
                select,
                scatter,
            } => {
                let (x, source, init) = (operands.get(0)?, operands.get(1)?, operands.get(2)?);
                let mut select = Callee::new(self, *select);
                let places = window::select_places(x, window, &mut select)?;
                self.note_choice(id, &places.1);
                let mut callee = Callee::new(self, *scatter);
                let result = window::scatter_places(x, source, init, &places, &mut callee)?;
                self.rounded(vec![result], *scatter, shape)
            }
            Op::Scatter { dims, to_apply, .. } => {
                let count = operands.0.len() / 2;
                let mut arrays = operands.0;
                let rest = arrays.split_off(count.min(arrays.len()));
                let Some((indices, updates)) = rest.split_first() else {
                    return Err(invalid("expected an operand with the indices"));
                };
                let updates: Vec<&Literal> = updates.iter().collect();
                let mut callee = Callee::new(self, *to_apply);
                let scattered = gather::scatter(arrays, indices, &updates, dims, &mut callee)?;
                self.rounded(scattered, *to_apply, shape)
            }
            Op::Map { to_apply, .. } => {
                let result_shape = self.resolve(shape)?;
                let mut callee = Callee::new(self, *to_apply);
                let result = map(&operands.from(0), &result_shape, &mut callee)?;
                self.rounded(vec![result], *to_apply, shape)
            }
            Op::Sort {
                dimension,
                to_apply,
                ..
            } => {
                let mut callee = Callee::new(self, *to_apply);
                let sorted = sort::sort(&operands.from(0), *dimension, &mut callee)?;
                results(sorted, shape)
            }
            op => Err(left_out(op)),
        }
    }

    fn reduced(
        &mut self,
        reduced: reduce::Reduced,
        to_apply: tegula_ir::ComputationId,
        shape: &Shape,
    ) -> Result<Value, OpError> {
        let reduce::Reduced {
            results: mut literals,
            magnitudes,
            terms,
        } = reduced;
        if let (Some(sizes), [_]) = (&magnitudes, literals.as_slice()) {
            let sum = literals.remove(0);
            literals.push(self.perturb_sums(sum, Some(sizes), terms)?);
            return results(literals, shape);
        }
        self.rounded(literals, to_apply, shape)
    }

    /// The results of a computation called for each element, perturbed if it rounds.
    fn rounded(
        &mut self,
        literals: Vec<Literal>,
        to_apply: tegula_ir::ComputationId,
        shape: &Shape,
    ) -> Result<Value, OpError> {
        let mut value = results(literals, shape)?;
        let rounds = self.program(to_apply).is_none_or(|program| program.rounds);
        self.perturb(&mut value, rounds);
        Ok(value)
    }

    /// Perturbs a normalised array by the errors of the sums that it is computed from.
    fn perturb_normalised(
        &mut self,
        normalised: Literal,
        offset: &Literal,
        feature_index: i64,
    ) -> Result<Literal, OpError> {
        if self.options.perturb.is_none() {
            return Ok(normalised);
        }
        let (magnitudes, terms) = batch_norm::magnitudes(&normalised, offset, feature_index)?;
        self.perturb_sums(normalised, Some(&magnitudes), terms)
    }

    /// Perturbs the mean and the variance of a batch norm by the errors of their sums, unless the
    /// sums are more precise than the elements.
    fn perturb_moments(
        &mut self,
        [mean, variance]: [Literal; 2],
        x: &Literal,
        feature_index: i64,
    ) -> Result<[Literal; 2], OpError> {
        if self.options.perturb.is_none() || x.element_type() != ElementType::F64 {
            return Ok([mean, variance]);
        }
        let (magnitudes, terms) = batch_norm::moment_magnitudes(x, &mean, feature_index)?;
        let [of_mean, of_variance] = &magnitudes;
        Ok([
            self.perturb_sums(mean, Some(of_mean), terms)?,
            self.perturb_sums(variance, Some(of_variance), terms)?,
        ])
    }

    /// Perturbs the gradients of a batch norm by the errors of their sums.
    fn perturb_gradients(
        &mut self,
        gradients: [Literal; 3],
        operands: [&Literal; 5],
        epsilon: f32,
        feature_index: i64,
        shape: &Shape,
    ) -> Result<Value, OpError> {
        if self.options.perturb.is_none() {
            return results(gradients, shape);
        }
        let (magnitudes, terms) =
            batch_norm::gradient_magnitudes(operands, epsilon, feature_index)?;
        let moved = gradients.into_iter().zip(&magnitudes);
        let moved = moved.map(|(gradient, sizes)| self.perturb_sums(gradient, Some(sizes), terms));
        results(moved.collect::<Result<Vec<_>, _>>()?, shape)
    }

    /// A routine's last operand, perturbed by the backward error, which is the rounding error of
    /// the sums that recompute the operand from the factors or solutions.
    fn moved_operand(
        &mut self,
        routine: Lapack,
        operands: &[&Literal],
    ) -> Result<Literal, OpError> {
        let last = operands
            .last()
            .ok_or_else(|| invalid("expected at least one operand"))?;
        let Some(directions) = self.next_directions() else {
            return Ok((*last).clone());
        };
        let (magnitudes, terms) = linalg::magnitudes(routine, operands)?;
        by_sums(last, &magnitudes, terms, directions)
    }

    /// Evaluates a LAPACK routine.
    fn lapack(
        &mut self,
        call: &CustomCall,
        operands: &Arrays,
        shape: &Shape,
    ) -> Result<Value, OpError> {
        let routine =
            Lapack::of(call).ok_or_else(|| invalid("the custom call is not a LAPACK routine"))?;
        let routine = routine.map_err(|e| invalid(&e))?;
        let mut operands: Vec<&Literal> = operands.0.iter().collect();
        let moved = self.moved_operand(routine, &operands)?;
        operands.pop();
        operands.push(&moved);
        results(linalg::lapack(routine, &operands)?, shape)
    }

    fn library(&mut self, id: InstructionId, operands: &Arrays) -> Result<Value, OpError> {
        let instruction = &self.module[id];
        let shape = &instruction.shape;
        let x = operands.get(0)?;
        let value = match &instruction.op {
            Op::TopK { k, largest, .. } => return top_k(self, x, *k, *largest, shape),
            Op::BatchNormTraining {
                epsilon,
                feature_index,
            } => {
                let (scale, offset) = (operands.get(1)?, operands.get(2)?);
                let [normalised, mean, variance] =
                    batch_norm::training(x, scale, offset, *epsilon, *feature_index)?;
                let normalised = self.perturb_normalised(normalised, offset, *feature_index)?;
                let moments = self.perturb_moments([mean, variance], x, *feature_index)?;
                let [mean, variance] = moments;
                return results([normalised, mean, variance], shape);
            }
            Op::BatchNormInference {
                epsilon,
                feature_index,
            } => {
                let normalised = batch_norm::inference(operands.five()?, *epsilon, *feature_index)?;
                self.perturb_normalised(normalised, operands.get(2)?, *feature_index)?
            }
            Op::BatchNormGrad {
                epsilon,
                feature_index,
            } => {
                let five = operands.five()?;
                let gradients = batch_norm::gradient(five, *epsilon, *feature_index)?;
                return self.perturb_gradients(gradients, five, *epsilon, *feature_index, shape);
            }
            Op::Fft { kind, length } => {
                let result = fft::fft(x, &self.resolve(shape)?, *kind, length)?;
                if self.options.perturb.is_none() {
                    return Ok(Value::Array(result));
                }
                let (magnitudes, terms) = fft::magnitudes(x, &result, *kind, length)?;
                return self
                    .perturb_sums(result, Some(&magnitudes), terms)
                    .map(Value::Array);
            }
            Op::Cholesky { lower } => {
                let routine = Lapack::Cholesky { lower: *lower };
                linalg::cholesky(&self.moved_operand(routine, &[x])?, *lower)?
            }
            Op::TriangularSolve {
                left_side,
                lower,
                unit_diagonal,
                transpose_a,
            } => {
                let flags = linalg::Solve {
                    left_side: *left_side,
                    lower: *lower,
                    unit_diagonal: *unit_diagonal,
                    transpose_a: *transpose_a,
                };
                let b = self.moved_operand(flags.routine(), &[x, operands.get(1)?])?;
                linalg::triangular_solve(x, &b, flags)?
            }
            Op::Rng(distribution) => {
                random::rng(*distribution, x, operands.get(1)?, &self.resolve(shape)?)?
            }
            Op::RngBitGenerator(algorithm) => {
                let bits = match shape.as_tuple() {
                    Some([_, bits]) => self.resolve(bits)?,
                    _ => {
                        return Err(invalid(
                            "expected a result that is a pair of state and bits",
                        ));
                    }
                };
                let (state, bits) = random::bit_generator(*algorithm, x, &bits)?;
                return results([state, bits], shape);
            }
            Op::CustomCall(call)
                if Lapack::is_target(&call.target)
                    && let Some(call) = self.module.custom_call_to_run(id) =>
            {
                return self.lapack(&call, operands, shape);
            }
            Op::CustomCall(call) => return self.custom_call(call, operands, shape),
            op => return Err(left_out(op)),
        };
        Ok(Value::Array(value))
    }

    fn custom_call(
        &mut self,
        call: &CustomCall,
        operands: &Arrays,
        shape: &Shape,
    ) -> Result<Value, OpError> {
        let x = operands.get(0)?;
        match call.target.as_ref() {
            "LuDecomposition" => {
                let x = self.moved_operand(Lapack::Lu, &[x])?;
                results(linalg::lu(&x)?, shape)
            }
            "TopK" => {
                let k = shape.as_tuple().and_then(|parts| parts.first()?.as_array());
                let k = k.and_then(|array| array.dims.last()?.as_static());
                let k = k.ok_or_else(|| {
                    invalid("expected a result that is a pair of arrays: values and indices")
                })?;
                top_k(self, x, k, true, shape)
            }
            // The partitioner's annotations pass their values through, except those that convert
            // between whole arrays and shards.
            "Sharding"
            | "InspectSharding"
            | "SPMDFullToShardShape"
            | "SPMDShardToFullShape"
            | "xla.sdy.GlobalToLocalShape"
            | "xla.sdy.LocalToGlobalShape" => {
                let value = arranged(shape, &mut operands.0.iter().cloned())?;
                match value.matches(shape) {
                    true => Ok(value),
                    false => Err(unsupported(
                        "only one device is evaluated, so a shard is the whole array, but the shapes differ",
                    )),
                }
            }
            _ => Err(invalid(
                "the custom call is not built in; register a handler for its target",
            )),
        }
    }

    /// Evaluates a custom call that has a handler.
    fn handled(
        &self,
        call: &CustomCall,
        operands: &[Value],
        shape: &Shape,
    ) -> Result<Value, OpError> {
        let handler = CustomCallHandler::of(call)?;
        let arrays = operands.iter().flat_map(Value::leaves);
        let operands: Vec<Literal> = arrays.cloned().collect();
        let shapes = self.array_shapes(shape)?;
        let given = handler.run(call, &operands, &shapes)?;
        arranged(shape, &mut given.into_iter())
    }

    /// The shapes of the arrays in a value of this shape.
    pub(crate) fn array_shapes(&self, shape: &Shape) -> Result<Vec<ArrayShape>, OpError> {
        let mut shapes = Vec::new();
        shape.for_each_leaf(&mut |leaf| {
            if leaf.as_array().is_some() {
                shapes.push(self.resolve(leaf));
            }
        });
        shapes.into_iter().collect()
    }
}

/// A value of a shape, built from its arrays.
pub(crate) fn arranged(
    shape: &Shape,
    arrays: &mut impl Iterator<Item = Literal>,
) -> Result<Value, OpError> {
    match shape {
        Shape::Array(_) => {
            let array = arrays
                .next()
                .ok_or_else(|| invalid("expected at least one array for the result"))?;
            Ok(Value::Array(array))
        }
        Shape::Tuple(parts) => {
            let parts = parts.iter().map(|part| arranged(part, arrays));
            parts.collect::<Result<_, _>>().map(Value::Tuple)
        }
        Shape::Buffer(inner) => arranged(inner, arrays),
        _ => Ok(Value::Token),
    }
}

fn top_k(
    evaluator: &Evaluator<'_>,
    x: &Literal,
    k: i64,
    largest: bool,
    shape: &Shape,
) -> Result<Value, OpError> {
    let indices = match shape.as_tuple() {
        Some([_, indices, ..]) => evaluator.resolve(indices)?,
        _ => ArrayShape::new(ElementType::S32, &[]),
    };
    let (values, places) = sort::top_k(x, k, largest, &indices)?;
    results([values, places], shape)
}

/// The error for an operation that is not supported; the crate's documentation lists these.
pub(crate) fn left_out(op: &Op) -> OpError {
    unsupported(match op {
        Op::Infeed(_) | Op::Outfeed { .. } | Op::Channel { .. } => {
            "the evaluation has no host and no other device to exchange data with"
        }
        Op::RngGetAndUpdateState(_) => "a run starts without the random state of earlier runs",
        Op::AllGather { .. }
        | Op::AllReduce { .. }
        | Op::ReduceScatter { .. }
        | Op::AllToAll { .. }
        | Op::RaggedAllToAll(_)
        | Op::CollectiveBroadcast(_)
        | Op::CollectivePermute { .. }
        | Op::CollectiveDone(_) => {
            "only one device is evaluated, but a collective needs the others"
        }
        _ => "this operation cannot be evaluated on its own",
    })
}
