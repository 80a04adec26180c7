//! Expands `scan` into a loop: each step takes one slice of the inputs along a dimension, writes
//! one slice of the outputs, and passes the carries on.

use super::along;
use super::plain;
use tegula_ir::{
    ArrayShape, ComputationBuilder, ComputationId, ElementType, Error, InstructionId,
    ModuleBuilder, Op, Shape,
};

/// The attributes of a `scan`.
struct Scan {
    dimension: usize,
    from_end: bool,
    step: ComputationId,
    inputs: usize,
    outputs: usize,
}

impl Scan {
    fn of(op: &Op, operands: &[Shape], result: &Shape) -> Option<Self> {
        let Op::Scan {
            dimension,
            num_carries,
            is_reverse,
            to_apply,
            ..
        } = op
        else {
            return None;
        };
        let carries = usize::try_from(*num_carries).ok()?;
        let results = result.as_tuple().map_or(1, <[Shape]>::len);
        Some(Self {
            dimension: usize::try_from(*dimension).ok()?,
            from_end: *is_reverse,
            step: *to_apply,
            inputs: operands.len().checked_sub(carries)?,
            outputs: results.checked_sub(carries)?,
        })
    }
}

/// The computation of a `scan`. Its loop states are the counter, the inputs, the carries and the
/// outputs.
pub(super) fn expand(
    builder: &mut ModuleBuilder,
    op: &Op,
    operands: &[Shape],
    result: &Shape,
) -> Result<ComputationId, Error> {
    let scan = Scan::of(op, operands, result);
    let scan =
        scan.ok_or_else(|| Error::input("a scan has the wrong number of operands or results"))?;
    let outputs = result.as_tuple().unwrap_or(std::slice::from_ref(result));
    let outputs: Option<Vec<ArrayShape>> = outputs[..scan.outputs]
        .iter()
        .map(|shape| shape.as_array().map(plain))
        .collect();
    let outputs =
        outputs.ok_or_else(|| Error::input("expected arrays as the results of a scan"))?;
    let mut states = vec![Shape::array(ElementType::S32, &[])];
    states.extend(operands.iter().cloned());
    states.extend(outputs.iter().cloned().map(Shape::Array));
    let states = Shape::Tuple(states);
    let measured = if scan.inputs > 0 {
        1
    } else {
        1 + operands.len()
    };
    let measured = (measured as i64, scan.dimension as i64);
    let looped = match along::is_empty(&states, measured) {
        true => None,
        false => {
            let condition = along::steps_left(builder, &states, measured)?;
            Some((condition, scan.body(builder, states)?))
        }
    };

    let mut b = builder.computation("scan");
    let mut states = vec![b.scalar(0i32)?];
    states.extend(operands.iter().map(|shape| b.parameter(shape.clone())));
    for shape in &outputs {
        states.push(along::zeros(&mut b, shape)?);
    }
    let done = match looped {
        None => states,
        Some((condition, body)) => {
            let init = b.tuple(&states)?;
            let done = b.while_loop(condition, body, init)?;
            along::elements(&mut b, done)?
        }
    };
    let (carries, outputs) = done[1 + scan.inputs..].split_at(operands.len() - scan.inputs);
    let results = [outputs, carries].concat();
    let root = match result {
        Shape::Tuple(_) => b.tuple(&results)?,
        _ => *results
            .first()
            .ok_or_else(|| Error::input("expected at least one result of a scan"))?,
    };
    b.finish(root)
}

impl Scan {
    fn body(&self, builder: &mut ModuleBuilder, states: Shape) -> Result<ComputationId, Error> {
        let mut b = builder.computation("scan_step");
        let p = b.parameter(states);
        let states = along::elements(&mut b, p)?;
        let (inputs, rest) = states[1..].split_at(self.inputs);
        let (carries, outputs) = rest.split_at(rest.len() - self.outputs);
        let measured = inputs.first().or(outputs.first()).copied();
        let measured = measured
            .ok_or_else(|| Error::input("expected at least one input or output of a scan"))?;
        let measured = (measured, self.dimension);
        let place = along::place(&mut b, states[0], measured, self.from_end)?;
        let mut arguments = Vec::with_capacity(states.len());
        for &input in inputs {
            arguments.push(along::at(&mut b, input, self.dimension, place)?);
        }
        arguments.extend(carries);
        let given = self.called(&mut b, &arguments)?;
        let mut next = vec![along::next_step(&mut b, states[0])?];
        next.extend(inputs);
        next.extend(given.get(self.outputs..).unwrap_or_default());
        for (&output, &value) in outputs.iter().zip(&given) {
            let written = along::written_at(&mut b, output, value, self.dimension, place)?;
            next.push(written);
        }
        let root = b.tuple(&next)?;
        b.finish(root)
    }

    /// The results of one step: a single value or the elements of a tuple.
    fn called(
        &self,
        b: &mut ComputationBuilder<'_>,
        arguments: &[InstructionId],
    ) -> Result<Vec<InstructionId>, Error> {
        let given = b.call(self.step, arguments)?;
        match b.shape(given)? {
            Shape::Tuple(_) => along::elements(b, given),
            _ => Ok(vec![given]),
        }
    }
}
