//! Operations that only move elements.

use crate::error::{OpError, invalid};
use crate::strided::{Sizes, Walk, product, read_along, row_major, sizes, write_along};
use tegula_ir::{ArrayShape, ElementType, Literal, PadDim, SliceDim, TO_END};
use tegula_scalar::{Bits, BitsMut};
use tegula_scalar::{Number, encode};

/// Dimension numbers as positions below `rank`; an error if one is out of range.
pub(crate) fn positions(numbers: &[i64], rank: usize) -> Result<Sizes, OpError> {
    let position = |&number: &i64| {
        usize::try_from(number)
            .ok()
            .filter(|&number| number < rank)
            .ok_or_else(|| {
                invalid(format!(
                    "dimension {number} is out of range for rank {rank}"
                ))
            })
    };
    numbers.iter().map(position).collect()
}

/// A dimension number as a position below `rank`; an error if it is out of range.
pub(crate) fn position(number: i64, rank: usize) -> Result<usize, OpError> {
    positions(&[number], rank).map(|found| found[0])
}

/// The elements that `walk` visits, as an array of a shape.
fn read(x: &Literal, shape: &ArrayShape, walk: &Walk) -> Result<Literal, OpError> {
    let mut result = Literal::zeros(&shape.with_element_type(x.element_type()))?;
    if sizes(&result) != walk.dims {
        return Err(invalid(
            "the stated shape of the result differs from the computed one",
        ));
    }
    let size = x.element_type().storage_bytes();
    read_along(result.bytes_mut(), x.bytes(), size, walk)?;
    Ok(result)
}

fn shape_of(ty: ElementType, dims: &[usize]) -> ArrayShape {
    ArrayShape::new(ty, &crate::strided::to_i64s(dims))
}

/// Evaluates `iota`: the position along one dimension, in the shape's element type.
pub(crate) fn iota(shape: &ArrayShape, dimension: i64) -> Result<Literal, OpError> {
    let mut result = Literal::zeros(shape)?;
    let dims = sizes(&result);
    let dimension = position(dimension, dims.len())?;
    // Besides a dimension without elements, another dimension may have any size.
    if result.is_empty() {
        return Ok(result);
    }
    let inner = product(&dims[dimension + 1..]);
    let ty = shape.element_type;
    let line = (0..dims[dimension]).map(|i| encode(ty, Number::Unsigned(i as u64)));
    let line: Vec<u128> = line.collect();
    let len = result.len();
    let mut out = BitsMut::of(&mut result);
    for i in 0..len {
        out.set(i, line[i / inner % line.len()]);
    }
    Ok(result)
}

/// Evaluates `broadcast`: operand dimension `i` becomes result dimension `dimensions[i]`.
pub(crate) fn broadcast(
    x: &Literal,
    shape: &ArrayShape,
    dimensions: &[i64],
) -> Result<Literal, OpError> {
    let result = Literal::zeros(&shape.with_element_type(x.element_type()))?;
    let mut walk = Walk::dense(&sizes(&result));
    walk.strides.fill(0);
    let dims = sizes(x);
    let targets = positions(dimensions, walk.dims.len())?;
    if targets.len() != dims.len() {
        return Err(invalid(
            "expected one result dimension for each operand dimension",
        ));
    }
    for ((&target, &stride), &size) in targets.iter().zip(&row_major(&dims)).zip(&dims) {
        if size != 1 && size != walk.dims[target] {
            return Err(invalid("a broadcast changes the size of a dimension"));
        }
        walk.strides[target] = if size == 1 { 0 } else { stride };
    }
    read(x, shape, &walk)
}

/// Evaluates `transpose`: result dimension `i` is operand dimension `permutation[i]`.
pub(crate) fn transpose(x: &Literal, permutation: &[i64]) -> Result<Literal, OpError> {
    let dims = sizes(x);
    let sources = positions(permutation, dims.len())?;
    let mut seen = vec![false; dims.len()];
    sources.iter().for_each(|&source| seen[source] = true);
    if sources.len() != dims.len() || seen.contains(&false) {
        return Err(invalid(
            "expected a permutation of the operand's dimensions",
        ));
    }
    let strides = row_major(&dims);
    let walk = Walk {
        dims: sources.iter().map(|&source| dims[source]).collect(),
        offset: 0,
        strides: sources.iter().map(|&source| strides[source]).collect(),
    };
    read(x, &shape_of(x.element_type(), &walk.dims), &walk)
}

/// Evaluates `reverse` along some dimensions.
pub(crate) fn reverse(x: &Literal, dimensions: &[i64]) -> Result<Literal, OpError> {
    let dims = sizes(x);
    let mut walk = Walk::dense(&dims);
    for dimension in positions(dimensions, dims.len())? {
        walk.offset += walk.strides[dimension] * (dims[dimension] as isize - 1);
        walk.strides[dimension] = -walk.strides[dimension];
    }
    read(x, x.shape(), &walk)
}

/// The leading elements along each dimension, as many as the shape has.
pub(crate) fn first_elements(x: &Literal, shape: &ArrayShape) -> Result<Literal, OpError> {
    let slices = shape.dims.iter().map(|dim| SliceDim {
        start: 0,
        limit: dim.as_static().unwrap_or(TO_END),
        stride: 1,
    });
    slice(x, &slices.collect::<Vec<_>>())
}

pub(crate) fn slice(x: &Literal, slices: &[SliceDim]) -> Result<Literal, OpError> {
    let dims = sizes(x);
    let mut walk = Walk::dense(&dims);
    if slices.len() != dims.len() {
        return Err(invalid("expected one slice for each dimension"));
    }
    for (dimension, slice) in slices.iter().enumerate() {
        let size = dims[dimension] as i64;
        let limit = if slice.limit == TO_END {
            size
        } else {
            slice.limit
        };
        let in_range =
            0 <= slice.start && slice.start <= limit && limit <= size && slice.stride >= 1;
        if !in_range {
            return Err(invalid(
                "expected a slice within the operand's bounds, with a positive stride",
            ));
        }
        let len = (limit - slice.start) as u64;
        walk.dims[dimension] = len.div_ceil(slice.stride as u64) as usize;
        walk.offset += walk.strides[dimension] * slice.start as isize;
        walk.strides[dimension] = walk.strides[dimension].saturating_mul(slice.stride as isize);
    }
    read(x, &shape_of(x.element_type(), &walk.dims), &walk)
}

/// Evaluates `pad`: `x` with `value` around and between its elements; negative padding crops.
pub(crate) fn pad(
    x: &Literal,
    value: &Literal,
    shape: &ArrayShape,
    padding: &[PadDim],
) -> Result<Literal, OpError> {
    let dims = sizes(x);
    let mut result = filled(&shape.with_element_type(x.element_type()), value)?;
    let out_dims = sizes(&result);
    if padding.len() != dims.len() || out_dims.len() != dims.len() {
        return Err(invalid("expected one padding for each dimension"));
    }
    let (mut from, mut to) = (Walk::dense(&dims), Walk::dense(&out_dims));
    for (d, pad) in padding.iter().enumerate() {
        // Element i goes to low + i * step; those below 0 or beyond are cropped.
        let step = pad.interior.max(0).saturating_add(1);
        let first = pad.low.saturating_neg().max(0) as u64;
        let first = first.div_ceil(step as u64).min(dims[d] as u64) as i64;
        let room = (out_dims[d] as i64).saturating_sub(pad.low).max(0) as u64;
        let end = room.div_ceil(step as u64).min(dims[d] as u64) as i64;
        let count = (end - first).max(0) as usize;
        from.dims[d] = count;
        to.dims[d] = count;
        if count == 0 {
            return Ok(result);
        }
        from.offset += from.strides[d] * first as isize;
        let start = first.saturating_mul(step).saturating_add(pad.low);
        to.offset = (to.strides[d].saturating_mul(start as isize)).saturating_add(to.offset);
        to.strides[d] = to.strides[d].saturating_mul(step as isize);
    }
    let size = x.element_type().storage_bytes();
    let mut inside = vec![0; product(&from.dims) * size];
    read_along(&mut inside, x.bytes(), size, &from)?;
    write_along(result.bytes_mut(), &inside, size, &to)?;
    Ok(result)
}

/// An array filled with one value.
pub(crate) fn filled(shape: &ArrayShape, value: &Literal) -> Result<Literal, OpError> {
    if value.len() != 1 || value.element_type() != shape.element_type {
        return Err(invalid(
            "expected an initial or padding value that is a scalar of the result's element type",
        ));
    }
    let mut result = Literal::zeros(shape)?;
    let size = shape.element_type.storage_bytes();
    if value.bytes().iter().any(|&byte| byte != 0) {
        for element in result.bytes_mut().chunks_exact_mut(size) {
            element.copy_from_slice(value.bytes());
        }
    }
    Ok(result)
}

/// Evaluates `concatenate` along a dimension.
pub(crate) fn concatenate(
    operands: &[&Literal],
    shape: &ArrayShape,
    dimension: i64,
) -> Result<Literal, OpError> {
    let mut result = Literal::zeros(shape)?;
    let out_dims = sizes(&result);
    let dimension = position(dimension, out_dims.len())?;
    let size = shape.element_type.storage_bytes();
    let mut start = 0usize;
    for operand in operands {
        let mut walk = Walk::dense(&out_dims);
        walk.dims = sizes(operand);
        let agrees = operand.element_type() == shape.element_type
            && walk.dims.len() == out_dims.len()
            && (0..out_dims.len()).all(|d| d == dimension || walk.dims[d] == out_dims[d]);
        if !agrees {
            return Err(invalid(
                "expected operands of the result's type and sizes, except along the concatenated dimension",
            ));
        }
        walk.offset = walk.strides[dimension] * start as isize;
        start += walk.dims[dimension];
        write_along(result.bytes_mut(), operand.bytes(), size, &walk)?;
    }
    if start != out_dims[dimension] {
        return Err(invalid(
            "the operands' sizes along the concatenated dimension do not add up to the result's",
        ));
    }
    Ok(result)
}

/// Reinterprets the bits as another type. If the widths differ, the array of the narrower type has
/// an additional last dimension for the parts, the least significant part first.
pub(crate) fn bitcast_convert(x: &Literal, shape: &ArrayShape) -> Result<Literal, OpError> {
    let (from, to) = (x.element_type().bits(), shape.element_type.bits());
    if from >= 8 && to >= 8 {
        return Ok(Literal::from_bytes(shape, x.bytes())?);
    }
    repack(x, shape)
}

/// [`bitcast_convert`] where a type is narrower than a byte: such elements take a whole byte each
/// here, so the bits go through a dense bit string.
fn repack(x: &Literal, shape: &ArrayShape) -> Result<Literal, OpError> {
    let (from, to) = (
        x.element_type().bits() as usize,
        shape.element_type.bits() as usize,
    );
    let mut result = Literal::zeros(shape)?;
    if x.len() * from != result.len() * to {
        return Err(invalid(
            "expected equal numbers of bits before and after the bitcast",
        ));
    }
    let mut string = Vec::with_capacity(x.len() * from);
    let bits = Bits::of(x);
    for i in 0..x.len() {
        let word = bits.get(i);
        string.extend((0..from).map(|bit| word >> bit & 1 == 1));
    }
    let ty = shape.element_type;
    let mut out = BitsMut::of(&mut result);
    for (i, chunk) in string.chunks(to).enumerate() {
        let word = chunk
            .iter()
            .rev()
            .fold(0u128, |word, &bit| word << 1 | u128::from(bit));
        // Encoding sign-extends a narrow integer.
        let signed = ty.is_signed() && to < 8;
        out.set(
            i,
            if signed {
                encode(ty, Number::Signed(word as i64))
            } else {
                word
            },
        );
    }
    Ok(result)
}

/// The starts of a dynamic slice, clamped so that the slice lies inside.
fn clamped_starts(
    starts: &[&Literal],
    dims: &[usize],
    slice: &[usize],
) -> Result<Vec<usize>, OpError> {
    let fits = dims.len() == slice.len() && slice.iter().zip(dims).all(|(s, d)| s <= d);
    if !fits {
        return Err(invalid(
            "expected a slice or update no larger than its array",
        ));
    }
    let values = index_values(starts)?;
    if values.len() != dims.len() {
        return Err(invalid("expected one start index for each dimension"));
    }
    let limits = dims
        .iter()
        .zip(slice)
        .map(|(&dim, &slice)| (dim - slice) as i64);
    Ok(values
        .into_iter()
        .zip(limits)
        .map(|(value, limit)| value.clamp(0, limit) as usize)
        .collect())
}

/// The start indices: one scalar each, or one vector (the older form).
fn index_values(starts: &[&Literal]) -> Result<Vec<i64>, OpError> {
    let mut values = Vec::new();
    for start in starts {
        values.extend(indices(start)?);
    }
    Ok(values)
}

/// The elements of an integer array, saturated to `i64`.
pub(crate) fn indices(x: &Literal) -> Result<Vec<i64>, OpError> {
    let ty = x.element_type();
    if !ty.is_integer() {
        return Err(invalid(format!(
            "expected indices of an integer type, found {ty}"
        )));
    }
    let bits = Bits::of(x);
    Ok((0..x.len())
        .map(|i| match tegula_scalar::decode(ty, bits.get(i)) {
            Number::Signed(value) => value,
            Number::Unsigned(value) => i64::try_from(value).unwrap_or(i64::MAX),
            _ => 0,
        })
        .collect())
}

fn window(dims: &[usize], slice: &[usize], starts: &[usize]) -> Walk {
    let mut walk = Walk::dense(dims);
    walk.dims = slice.into();
    for (&start, &stride) in starts.iter().zip(&walk.strides) {
        walk.offset += stride * start as isize;
    }
    walk
}

/// The window of `x` at clamped run-time starts.
pub(crate) fn dynamic_slice(
    x: &Literal,
    starts: &[&Literal],
    slice: &[i64],
) -> Result<Literal, OpError> {
    let dims = sizes(x);
    let length = |(&size, &whole): (&i64, &usize)| match size {
        TO_END => whole,
        size => size.max(0) as usize,
    };
    let slice: Sizes = slice.iter().zip(&dims).map(length).collect();
    let starts = clamped_starts(starts, &dims, &slice)?;
    read(
        x,
        &shape_of(x.element_type(), &slice),
        &window(&dims, &slice, &starts),
    )
}

/// `x` with the window at clamped run-time starts replaced by `update`.
pub(crate) fn dynamic_update_slice(
    mut x: Literal,
    update: &Literal,
    starts: &[&Literal],
) -> Result<Literal, OpError> {
    let (dims, slice) = (sizes(&x), sizes(update));
    let starts = clamped_starts(starts, &dims, &slice)?;
    if update.element_type() != x.element_type() {
        return Err(invalid("expected an update of the operand's element type"));
    }
    let size = x.element_type().storage_bytes();
    let walk = window(&dims, &slice, &starts);
    write_along(x.bytes_mut(), update.bytes(), size, &walk)?;
    Ok(x)
}
