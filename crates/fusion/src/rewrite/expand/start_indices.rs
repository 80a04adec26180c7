//! Expands the old form of `dynamic-slice` and `dynamic-update-slice`, whose start indices are one
//! vector, into the form with a scalar for each dimension.

use super::plain;
use tegula_ir::{
    ArrayShape, ComputationId, Error, Instruction, Module, ModuleBuilder, Op, Shape, SliceDim,
};

/// The number of the first operand that is a start index.
fn first_index(op: &Op) -> Option<usize> {
    match op {
        Op::DynamicSlice(_) => Some(1),
        Op::DynamicUpdateSlice => Some(2),
        _ => None,
    }
}

/// Whether the start indices of an operation are one vector.
pub(super) fn are_vector(module: &Module, instruction: &Instruction) -> bool {
    let place = first_index(&instruction.op);
    let index = place.and_then(|place| instruction.operands.get(place));
    let shape = index.and_then(|&index| module[index].shape.as_array());
    shape.is_some_and(|shape| shape.rank() == 1)
}

/// The computation that splits the vector into scalars.
pub(super) fn expand(
    builder: &mut ModuleBuilder,
    op: &Op,
    operands: &[Shape],
    result: &Shape,
) -> Result<ComputationId, Error> {
    let arrays: Option<Vec<&ArrayShape>> = operands.iter().map(Shape::as_array).collect();
    let arrays =
        arrays.ok_or_else(|| Error::input("expected arrays as the operands of a dynamic slice"))?;
    let mut b = builder.computation("slice_at_vector");
    let mut values: Vec<_> = arrays
        .iter()
        .map(|&a| b.parameter(Shape::Array(plain(a))))
        .collect();
    let vector = values
        .pop()
        .ok_or_else(|| Error::bug("expected start indices"))?;
    for dim in 0..arrays[0].rank() as i64 {
        let (start, limit, stride) = (dim, dim + 1, 1);
        let part = SliceDim {
            start,
            limit,
            stride,
        };
        let part = b.slice(vector, &[part])?;
        values.push(b.reshape(part, &[])?);
    }
    let root = b.push_with_shape(op.clone(), &values, result.clone())?;
    b.finish(root)
}
