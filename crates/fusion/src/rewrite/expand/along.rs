//! Loops along a dimension: what `scan` and `ragged-dot` become.
//!
//! The first state of such a loop counts steps; the size of a dimension of another state says how
//! many there are, so that it may be open.

use super::plain;
use tegula_ir::{
    ArrayShape, Binary, ComputationBuilder, ComputationId, Dim, DimNumbers, Direction, ElementType,
    Error, InstructionId, ModuleBuilder, Op, Shape, TO_END,
};

/// Whether steps are left: fewer were done than a state has elements along a dimension.
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

/// Whether it is known that there are no steps: a slice of nothing cannot be written.
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

/// Where a step is along a dimension of an array, counted from its end if so asked.
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

/// An array at a place along a dimension, without it.
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

/// An array with a value written at a place along a dimension, which the value lacks.
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

/// An array for all elements of a larger one, of this shape and the array's own type.
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

/// The index along a dimension, as `s64`.
pub(super) fn index(
    b: &mut ComputationBuilder<'_>,
    dimension: usize,
    shape: &ArrayShape,
) -> Result<InstructionId, Error> {
    let shape = Shape::Array(shape.with_element_type(ElementType::S64));
    b.push_with_shape(Op::Iota(dimension as i64), &[], shape)
}
