//! Operations that move elements: from the result to the operand.

use tegula_expr::Term;
use tegula_ir::{ArrayShape, DimNumbers, PadDim, SliceDim};

use super::builder::{Builder, index, static_sizes};
use super::{Cause, MapOrCause};

/// Each result element reads the operand element at the same index; a scalar
/// operand of a larger result is read everywhere.
pub(super) fn elementwise(at: &Builder<'_>, operand: usize) -> MapOrCause {
    let (output, input) = (at.output()?, at.input(operand)?);
    let draft = at.draft(output);
    if input.rank() == 0 {
        return draft.finish(Vec::new());
    }
    if input.rank() != output.rank() {
        return Err(Cause::Malformed);
    }
    let results = draft.dims();
    draft.finish(results)
}

/// `bitcast-convert`, from either array to the other: the one of narrower
/// elements may have a minor dimension more.
pub(super) fn bitcast_convert(
    at: &Builder<'_>,
    output: &ArrayShape,
    input: &ArrayShape,
) -> MapOrCause {
    let mut draft = at.draft(output);
    let mut results = draft.dims();
    if input.rank() + 1 == output.rank() {
        results.pop();
    } else if input.rank() == output.rank() + 1 {
        let minor = input.dims.last().ok_or(Cause::Malformed)?;
        results.push(draft.range_over(minor));
    } else if input.rank() != output.rank() {
        return Err(Cause::Malformed);
    }
    draft.finish(results)
}

pub(super) fn broadcast(at: &Builder<'_>, dims: &DimNumbers) -> MapOrCause {
    let (output, input) = (at.output()?, at.input(0)?);
    if dims.len() != input.rank() {
        return Err(Cause::Malformed);
    }
    let draft = at.draft(output);
    let results: Result<_, Cause> = dims
        .iter()
        .map(|dim| Ok(draft.dim(index(*dim, output.rank())?)))
        .collect();
    draft.finish(results?)
}

pub(super) fn transpose(at: &Builder<'_>, dims: &DimNumbers) -> MapOrCause {
    let (output, input) = (at.output()?, at.input(0)?);
    if dims.len() != output.rank() || input.rank() != output.rank() {
        return Err(Cause::Malformed);
    }
    let draft = at.draft(output);
    let mut results = vec![None; input.rank()];
    for (position, dim) in dims.iter().enumerate() {
        let slot = results
            .get_mut(index(*dim, output.rank())?)
            .ok_or(Cause::Malformed)?;
        *slot = Some(draft.dim(position));
    }
    let results: Option<Vec<Term>> = results.into_iter().collect();
    draft.finish(results.ok_or(Cause::Malformed)?)
}

/// The same in both directions.
pub(super) fn reverse(at: &Builder<'_>, dims: &DimNumbers) -> MapOrCause {
    let output = at.output()?;
    if at.input(0)?.rank() != output.rank() {
        return Err(Cause::Malformed);
    }
    let mut draft = at.draft(output);
    let mut results = draft.dims();
    for dim in dims {
        let dim = index(*dim, output.rank())?;
        let size = output.dims.get(dim).ok_or(Cause::Malformed)?;
        let last = draft.extent(size).add(&Term::constant(-1));
        if let Some(slot) = results.get_mut(dim) {
            *slot = slot.neg().add(&last);
        }
    }
    draft.finish(results)
}

pub(super) fn slice(at: &Builder<'_>, dims: &[SliceDim]) -> MapOrCause {
    let output = at.output()?;
    if dims.len() != output.rank() || at.input(0)?.rank() != output.rank() {
        return Err(Cause::Malformed);
    }
    let draft = at.draft(output);
    let results = dims
        .iter()
        .enumerate()
        .map(|(position, dim)| {
            draft
                .dim(position)
                .mul(&dim.stride.into())
                .add(&dim.start.into())
        })
        .collect();
    draft.finish(results)
}

/// The inverse of a slice: only indices that hit an element are in the domain.
/// The padding value's domain is the whole result, a superset of the padding.
pub(super) fn pad(at: &Builder<'_>, operand: usize, dims: &[PadDim]) -> MapOrCause {
    let output = at.output()?;
    if operand == 1 {
        return at.draft(output).superset().finish(Vec::new());
    }
    let input = static_sizes(at.input(0)?)?;
    if dims.len() != output.rank() || input.len() != output.rank() {
        return Err(Cause::Malformed);
    }
    let mut draft = at.draft(output);
    let mut results = Vec::new();
    for (position, (dim, size)) in dims.iter().zip(&input).enumerate() {
        let step = dim
            .interior
            .checked_add(1)
            .filter(|step| *step > 0)
            .ok_or(Cause::Malformed)?;
        let index = draft
            .dim(position)
            .add(&dim.low.checked_neg().ok_or(Cause::Overflow)?.into());
        let last = size.checked_sub(1).and_then(|last| last.checked_mul(step));
        let first = dim.low;
        let last = last
            .and_then(|last| last.checked_add(first))
            .ok_or(Cause::Overflow)?;
        let slot = draft.map.dims.get_mut(position).ok_or(Cause::Malformed)?;
        slot.bounds = slot
            .bounds
            .intersect(&tegula_expr::Interval::new(first, last));
        if step > 1 {
            draft.constrain(index.modulo(&step.into()), 0, 0);
        }
        results.push(index.floor_div(&step.into()));
    }
    draft.finish(results)
}

/// Each operand is read for its own part of the concatenated dimension.
pub(super) fn concatenate(at: &Builder<'_>, operand: usize, dim: i64) -> MapOrCause {
    let output = at.output()?;
    let dim = index(dim, output.rank())?;
    let (start, size) = concatenated_part(at, operand, dim)?;
    let end = start.checked_add(size - 1).ok_or(Cause::Overflow)?;
    let mut draft = at.draft(output);
    let slot = draft.map.dims.get_mut(dim).ok_or(Cause::Malformed)?;
    slot.bounds = slot
        .bounds
        .intersect(&tegula_expr::Interval::new(start, end));
    let mut results = draft.dims();
    if let Some(slot) = results.get_mut(dim) {
        *slot = slot.add(&start.checked_neg().ok_or(Cause::Overflow)?.into());
    }
    draft.finish(results)
}

/// Where an operand of a concatenation starts in the result, and its size.
pub(super) fn concatenated_part(
    at: &Builder<'_>,
    operand: usize,
    dim: usize,
) -> Result<(i64, i64), Cause> {
    let size = |operand: usize| {
        let array = at.input(operand)?;
        let size = array.dims.get(dim).ok_or(Cause::Malformed)?;
        size.as_static()
            .filter(|size| *size >= 0)
            .ok_or(Cause::SymbolicSize)
    };
    let mut start = 0i64;
    for before in 0..operand {
        start = start.checked_add(size(before)?).ok_or(Cause::Overflow)?;
    }
    Ok((start, size(operand)?))
}
