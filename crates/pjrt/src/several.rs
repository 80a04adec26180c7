//! Executions on several devices: whole arrays are put together from the devices' parts, the program
//! runs once, and the results are cut. See [`crate::sharding`] for why that is the same.

use crate::buffer::Buffer;
use crate::error::Error;
use crate::program::Program;
use crate::sharding::Sharding;
use crate::strides::{Strided, dense};
use std::sync::Arc;
use tegula_ir::{ArrayShape, ElementType, Literal};

/// A whole array from the parts that devices have.
pub(crate) fn whole(
    parts: &[Arc<tegula::Tensor>],
    sharding: &Sharding,
    dims: &[i64],
) -> Result<tegula::Tensor, Error> {
    let first = parts
        .first()
        .ok_or_else(|| Error::internal("an execution on no device"))?;
    if sharding.is_replicated() {
        return Ok(tegula::Tensor::clone(first));
    }
    let element_type = first.shape().element_type;
    let part = sharding.part(dims);
    let mut whole = Literal::zeros(&ArrayShape::new(element_type, dims))?;
    for (device, array) in parts.iter().enumerate() {
        let shape = array.shape();
        if shape.static_dims().as_deref() != Some(&part) || shape.element_type != element_type {
            let message = format!("device {device} has {shape} as its part of {dims:?}");
            return Err(Error::invalid(message));
        }
        let (strided, offset) = region(sharding, dims, &part, element_type, device);
        let bytes = whole.bytes_mut();
        let to = bytes.get_mut(offset..).unwrap_or_default().as_mut_ptr();
        // SAFETY: the part lies inside the whole array, as `Sharding` cuts it.
        unsafe { strided.strided().scatter(array.literal().bytes(), to) };
    }
    Ok(whole.into())
}

/// The part of an array that a device gets.
pub(crate) fn part(
    whole: &tegula::Tensor,
    sharding: &Sharding,
    dims: &[i64],
    device: usize,
) -> Result<tegula::Tensor, Error> {
    if sharding.is_replicated() {
        return Ok(whole.clone());
    }
    let element_type = whole.shape().element_type;
    let part = sharding.part(dims);
    let mut literal = Literal::zeros(&ArrayShape::new(element_type, &part))?;
    let (strided, offset) = region(sharding, dims, &part, element_type, device);
    let from = whole.literal().bytes().get(offset..).unwrap_or_default();
    // SAFETY: as in `whole`.
    unsafe { strided.strided().gather(from.as_ptr(), literal.bytes_mut()) };
    Ok(tegula::Tensor::from(literal).reordered(&whole.order())?)
}

/// Where a device's part is: its strides in the whole array, and the byte it begins at.
fn region(
    sharding: &Sharding,
    dims: &[i64],
    part: &[i64],
    element_type: ElementType,
    device: usize,
) -> (Region, usize) {
    let width = element_type.storage_bytes();
    let order: Vec<usize> = (0..dims.len()).collect();
    let strides = dense(dims, &order, width);
    let start = sharding.start(dims, device);
    let offset: i64 = start
        .iter()
        .zip(&strides)
        .map(|(at, stride)| at * stride)
        .sum();
    let region = Region {
        dims: part.to_vec(),
        strides,
        width,
    };
    (region, usize::try_from(offset).unwrap_or(usize::MAX))
}

struct Region {
    dims: Vec<i64>,
    strides: Vec<i64>,
    width: usize,
}

impl Region {
    fn strided(&self) -> Strided<'_> {
        Strided {
            dims: &self.dims,
            strides: &self.strides,
            width: self.width,
        }
    }
}

/// The arguments of a run from those of all devices; donated ones are taken away from their buffers.
pub(crate) fn arguments(
    program: &Program,
    lists: &[Vec<&Buffer>],
    kept: &[i64],
) -> Result<Vec<tegula::Tensor>, Error> {
    let shardings = program.shardings.as_ref();
    let shardings = shardings.ok_or_else(|| Error::internal("a program of one device"))?;
    let mut arguments = Vec::new();
    for (place, parameter) in program.parameters.iter().enumerate() {
        if parameter.is_token {
            continue;
        }
        let buffers = lists.iter().map(|list| list[place]);
        let parts: Result<Vec<_>, Error> = buffers.clone().map(Buffer::array).collect();
        arguments.push(whole(
            &parts?,
            &shardings.parameters[place],
            &parameter.dims,
        )?);
        if parameter.is_donated && !kept.contains(&(place as i64)) {
            buffers.for_each(Buffer::delete);
        }
    }
    Ok(arguments)
}
