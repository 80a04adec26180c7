//! Builds loops along a dimension, for the expansion of `scan` and `ragged-dot`.
//!
//! The first state of such a loop counts the steps. The number of steps is the size of a dimension
//! of another state, so it may be symbolic.

use super::plain;
use tegula_ir::{
    ArrayShape, Binary, ComputationBuilder, ComputationId, Dim, DimNumbers, Direction, ElementType,
    Error, InstructionId, ModuleBuilder, Op, Shape, TO_END,
};

/// The loop condition: whether fewer steps were done than a state has elements along a dimension.
pub(super) fn steps_left(
    builder: &mut ModuleBuilder,
    state: &Shape,
    (measured, dimension): (i64, i64),
) -> Result<ComputationId, Error> {
    let mut b = builder.computation("steps_left");
    let p = b.parameter(state.clone());
    let step = b.get_tuple_element(p, 0)?;
    let array = b.get_tuple_element(p, measured)?;
    let size = b.push(Op::GetDimensionSize(dimension), &[array])?;
    let root = b.compare(Direction::Lt, step, size)?;
    b.finish(root)
}

/// Whether the number of steps is known to be zero; then no slice can be taken.
pub(super) fn is_empty(state: &Shape, (measured, dimension): (i64, i64)) -> bool {
    let array = state
        .as_tuple()
        .and_then(|states| states.get(measured as usize)?.as_array());
    let size = array.and_then(|array| array.dims.get(dimension as usize)?.as_static());
    size == Some(0)
}

/// All elements of a tuple.
pub(super) fn elements(
    b: &mut ComputationBuilder<'_>,
    tuple: InstructionId,
) -> Result<Vec<InstructionId>, Error> {
    let count = b.shape(tuple)?.as_tuple().map_or(0, <[Shape]>::len);
    (0..count as i64)
        .map(|element| b.get_tuple_element(tuple, element))
        .collect()
}

/// The number of the next step.
pub(super) fn next_step(
    b: &mut ComputationBuilder<'_>,
    step: InstructionId,
) -> Result<InstructionId, Error> {
    let one = b.scalar(1i32)?;
    b.binary(Binary::Add, step, one)
}

/// The position of a step along a dimension of an array, counted from the end if `from_end`.
pub(super) fn place(
    b: &mut ComputationBuilder<'_>,
    step: InstructionId,
    (array, dimension): (InstructionId, usize),
    from_end: bool,
) -> Result<InstructionId, Error> {
    if !from_end {
        return Ok(step);
    }
    let one = b.scalar(1i32)?;
    let size = b.push(Op::GetDimensionSize(dimension as i64), &[array])?;
    let left = b.binary(Binary::Subtract, size, step)?;
    b.binary(Binary::Subtract, left, one)
}

/// The slice of an array at a position along a dimension, without that dimension.
pub(super) fn at(
    b: &mut ComputationBuilder<'_>,
    array: InstructionId,
    dimension: usize,
    place: InstructionId,
) -> Result<InstructionId, Error> {
    let mut shape = plain(b.array_shape(array)?);
    let zero = b.scalar(0i32)?;
    let mut operands = vec![zero; 1 + shape.rank()];
    operands[0] = array;
    operands[1 + dimension] = place;
    let sizes = shape.dims.iter().enumerate();
    let sizes: DimNumbers = sizes
        .map(|(dim, size)| match dim == dimension {
            true => 1,
            false => size.as_static().unwrap_or(TO_END),
        })
        .collect();
    let slice = b.push(Op::DynamicSlice(sizes), &operands)?;
    shape.dims.remove(dimension);
    b.push_with_shape(Op::Reshape, &[slice], Shape::Array(shape))
}

/// An array updated with a slice, which lacks the dimension, at a position along the dimension.
pub(super) fn written_at(
    b: &mut ComputationBuilder<'_>,
    array: InstructionId,
    value: InstructionId,
    dimension: usize,
    place: InstructionId,
) -> Result<InstructionId, Error> {
    let mut shape = plain(b.array_shape(array)?);
    let zero = b.scalar(0i32)?;
    let mut operands = vec![zero; 2 + shape.rank()];
    shape.dims[dimension] = Dim::Static(1);
    let slice = b.push_with_shape(Op::Reshape, &[value], Shape::Array(shape))?;
    (operands[0], operands[1]) = (array, slice);
    operands[2 + dimension] = place;
    b.push(Op::DynamicUpdateSlice, &operands)
}

/// An array of zeros.
pub(super) fn zeros(
    b: &mut ComputationBuilder<'_>,
    shape: &ArrayShape,
) -> Result<InstructionId, Error> {
    let zero = b.scalar(0i32)?;
    let zero = b.push_with_shape(Op::Convert, &[zero], Shape::array(shape.element_type, &[]))?;
    spread(b, zero, &[], shape)
}

/// Broadcasts an array to a shape, keeping its element type.
pub(super) fn spread(
    b: &mut ComputationBuilder<'_>,
    x: InstructionId,
    dims: &[usize],
    shape: &ArrayShape,
) -> Result<InstructionId, Error> {
    let ty = b.array_shape(x)?.element_type;
    let dims = dims.iter().map(|&dim| dim as i64).collect();
    let shape = Shape::Array(shape.with_element_type(ty));
    b.push_with_shape(Op::Broadcast(dims), &[x], shape)
}

/// The index along a dimension, as `s64` (an iota).
pub(super) fn index(
    b: &mut ComputationBuilder<'_>,
    dimension: usize,
    shape: &ArrayShape,
) -> Result<InstructionId, Error> {
    let shape = Shape::Array(shape.with_element_type(ElementType::S64));
    b.push_with_shape(Op::Iota(dimension as i64), &[], shape)
}
