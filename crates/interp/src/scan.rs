//! `scan`: applies a computation to the slices of arrays along a dimension, in order.

use crate::error::{OpError, invalid, unsupported};
use crate::eval::Evaluator;
use crate::movement::{concatenate, position, slice};
use crate::strided::sizes;
use crate::value::Value;
use tegula_ir::{ArrayShape, ComputationId, Dim, InstructionId, Literal, Op, Shape, SliceDim};

/// The slice of an array at a position along a dimension, without that dimension.
fn at(x: &Literal, dimension: usize, place: usize) -> Result<Literal, OpError> {
    let mut shape = x.shape().with_element_type(x.element_type());
    let whole = sizes(x);
    let slices: Vec<SliceDim> = whole
        .iter()
        .enumerate()
        .map(|(dim, &size)| {
            let (start, limit) = match dim == dimension {
                true => (place, place + 1),
                false => (0, size),
            };
            SliceDim {
                start: start as i64,
                limit: limit as i64,
                stride: 1,
            }
        })
        .collect();
    shape.dims.remove(dimension);
    Ok(slice(x, &slices)?.reshaped(&shape)?)
}

/// Stacks the outputs of all steps along the dimension.
fn together(steps: &[Literal], shape: &ArrayShape, dimension: usize) -> Result<Literal, OpError> {
    let mut one = shape.clone();
    *one.dims
        .get_mut(dimension)
        .ok_or_else(|| invalid("expected outputs that have the scanned dimension"))? =
        Dim::Static(1);
    let parts = steps.iter().map(|step| step.reshaped(&one));
    let parts: Vec<Literal> = parts.collect::<Result<_, _>>()?;
    match parts.is_empty() {
        true => Ok(Literal::zeros(shape)?),
        false => concatenate(&parts.iter().collect::<Vec<_>>(), shape, dimension as i64),
    }
}

impl Evaluator<'_> {
    /// Evaluates `scan(inputs..., carries...)`: the outputs of all steps, then the last carries.
    pub(crate) fn scan(
        &mut self,
        id: InstructionId,
        operands: Vec<Value>,
    ) -> Result<Value, OpError> {
        let Op::Scan {
            dimension,
            num_carries,
            is_reverse,
            to_apply,
            ..
        } = self.module[id].op
        else {
            return Err(invalid("expected a scan instruction"));
        };
        let shape = self.module[id].shape.clone();
        let shapes = shape.as_tuple().unwrap_or(std::slice::from_ref(&shape));
        let count = |total: usize| -> Result<usize, OpError> {
            let carries = usize::try_from(num_carries).ok();
            let rest = carries.and_then(|carries| total.checked_sub(carries));
            rest.ok_or_else(|| invalid("expected at least as many operands and results as carries"))
        };
        let outputs = count(shapes.len())?;
        let mut inputs = operands;
        let mut carries = inputs.split_off(count(inputs.len())?);
        let inputs: Vec<Literal> = inputs
            .into_iter()
            .map(Value::into_array)
            .collect::<Result<_, _>>()?;
        let outputs: Vec<ArrayShape> = shapes[..outputs]
            .iter()
            .map(|shape| self.resolve(shape))
            .collect::<Result<_, _>>()?;
        let measured = inputs.first().map(Literal::shape).or(outputs.first());
        let measured = measured
            .ok_or_else(|| unsupported("a scan without inputs and outputs"))?
            .clone();
        let dimension = position(dimension, measured.rank())?;
        let length = measured.dims[dimension].as_static().unwrap_or(0).max(0) as usize;
        let mut given: Vec<Vec<Literal>> = vec![Vec::new(); outputs.len()];
        for step in 0..length {
            let place = if is_reverse { length - 1 - step } else { step };
            let mut results = self.scan_step(to_apply, (&inputs, dimension, place), carries)?;
            carries = results.split_off(outputs.len().min(results.len()));
            for (all, one) in given.iter_mut().zip(results) {
                all.push(one.into_array()?);
            }
        }
        let mut results = Vec::with_capacity(shapes.len());
        for (mut steps, shape) in given.into_iter().zip(&outputs) {
            if is_reverse {
                steps.reverse();
            }
            results.push(Value::Array(together(&steps, shape, dimension)?));
        }
        results.extend(carries);
        match shape {
            Shape::Tuple(_) => Ok(Value::Tuple(results)),
            _ => results
                .pop()
                .ok_or_else(|| invalid("expected at least one result")),
        }
    }

    /// Evaluates a step: its outputs, then its carries.
    fn scan_step(
        &mut self,
        to_apply: ComputationId,
        (inputs, dimension, place): (&[Literal], usize, usize),
        carries: Vec<Value>,
    ) -> Result<Vec<Value>, OpError> {
        self.count_iteration()?;
        let slices = inputs
            .iter()
            .map(|x| at(x, dimension, place).map(Value::Array));
        let mut arguments: Vec<Value> = slices.collect::<Result<_, _>>()?;
        arguments.extend(carries);
        match self.computation(to_apply, arguments)? {
            Value::Tuple(elements) => Ok(elements),
            one => Ok(vec![one]),
        }
    }
}
