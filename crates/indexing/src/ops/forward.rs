//! Maps from an operand to the result.

use tegula_expr::{Interval, Term, terms};
use tegula_ir::helpers::kept_dimensions;
use tegula_ir::{DimNumbers, DotDims, Op, PadDim, SliceDim};

use super::builder::{Builder, index, last_index};
use super::contract::dot_dims;
use super::dynamic::{inside_slice, lengths, offsets};
use super::rearrange::known;
use super::{
    Cause, MapOrCause, collective, forward_window, rearrange, reshape, scatter, select_scatter,
    shared,
};

pub(super) fn forward(at: &Builder<'_>, operand: usize) -> MapOrCause {
    match at.op() {
        op if op.is_elementwise() => elementwise(at, operand),
        Op::Map { .. } | Op::SetDimensionSize(_) => elementwise(at, operand),
        Op::Broadcast(dims) => broadcast(at, dims),
        Op::Transpose(dims) => transpose(at, dims),
        // A reversal is its own inverse.
        Op::Reverse(dims) => rearrange::reverse(at, dims),
        Op::Slice(dims) => slice(at, dims),
        Op::Pad(dims) => pad(at, operand, dims),
        Op::Concatenate(dim) => concatenate(at, operand, *dim),
        Op::DynamicReshape if operand > 0 => at.everywhere(operand),
        Op::Reshape | Op::DynamicReshape => reshape::reshape_arrays(at, at.input(0)?, at.output()?),
        Op::Bitcast => reshape::bitcast(at, at.input(0)?, at.output()?),
        Op::BitcastConvert => rearrange::bitcast_convert(at, at.input(0)?, at.output()?),
        Op::DynamicSlice(sizes) => dynamic_slice(at, operand, sizes),
        Op::DynamicUpdateSlice => dynamic_update_slice(at, operand),
        Op::Gather {
            dims, slice_sizes, ..
        } => forward_window::gather(at, operand, dims, slice_sizes),
        Op::ReduceWindow { window, .. } => forward_window::reduce_window(at, operand, window),
        Op::Convolution { .. } => forward_window::convolution(at, operand),
        Op::Reduce { dimensions, .. } => reduce(at, operand, dimensions),
        Op::Dot { dims, .. } => dot(at, operand, dims),
        Op::ScaledDot { dims, .. } if operand < 2 => dot(at, operand, dims),
        Op::ScaledDot { dims, .. } => scale(at, operand, dims),
        Op::Scatter { .. } => scatter::forward(at, operand),
        Op::SelectAndScatter { .. } => select_scatter::select_and_scatter(at, operand, true),
        Op::Scan { .. } => select_scatter::scan(at, operand, true),
        _ => match shared::shared(at, operand) {
            Some(shared) => match shared? {
                Some(shared) => shared.forward(at, operand),
                None => Err(Cause::Operation(at.op().opcode())),
            },
            None => collective::collective(at, operand, true),
        },
    }
}

fn elementwise(at: &Builder<'_>, operand: usize) -> MapOrCause {
    let (output, input) = (at.output()?, at.input(operand)?);
    if input.rank() == 0 {
        return at.everywhere(operand);
    }
    if input.rank() != output.rank() {
        return Err(Cause::Malformed);
    }
    let draft = at.draft(input);
    let results = draft.dims();
    draft.finish(results)
}

fn broadcast(at: &Builder<'_>, dims: &DimNumbers) -> MapOrCause {
    let (output, input) = (at.output()?, at.input(0)?);
    if dims.len() != input.rank() {
        return Err(Cause::Malformed);
    }
    let mut draft = at.draft(input);
    let results = output
        .dims
        .iter()
        .enumerate()
        .map(|(position, dim)| {
            match dims
                .iter()
                .position(|d| usize::try_from(*d) == Ok(position))
            {
                Some(from) => draft.dim(from),
                None => draft.range_over(dim),
            }
        })
        .collect();
    draft.finish(results)
}

fn transpose(at: &Builder<'_>, dims: &DimNumbers) -> MapOrCause {
    let input = at.input(0)?;
    if dims.len() != input.rank() {
        return Err(Cause::Malformed);
    }
    let draft = at.draft(input);
    let results: Result<_, Cause> = dims
        .iter()
        .map(|dim| Ok(draft.dim(index(*dim, input.rank())?)))
        .collect();
    draft.finish(results?)
}

/// A slice; its domain contains only the elements that are taken.
fn slice(at: &Builder<'_>, dims: &[SliceDim]) -> MapOrCause {
    let (output, input) = (at.output()?, at.input(0)?);
    if dims.len() != input.rank() || output.rank() != input.rank() {
        return Err(Cause::Malformed);
    }
    let mut draft = at.draft(input);
    let mut results = Vec::new();
    for (position, (dim, size)) in dims.iter().zip(&output.dims).enumerate() {
        if !dim.is_possible() {
            return Err(Cause::Malformed);
        }
        let size = draft.extent(size);
        results.push(rearrange::spaced_dim(
            &mut draft,
            position,
            dim.spaced(),
            &size,
        )?);
    }
    draft.finish(results)
}

/// A pad; elements that negative padding cuts off are not in its domain.
fn pad(at: &Builder<'_>, operand: usize, dims: &[PadDim]) -> MapOrCause {
    if operand == 1 {
        let mut map = at.everywhere(operand)?;
        map.exactness = crate::map::Exactness::Superset;
        return Ok(map);
    }
    let (output, input) = (at.output()?, at.input(0)?);
    if dims.len() != input.rank() || output.rank() != input.rank() {
        return Err(Cause::Malformed);
    }
    let mut draft = at.draft(input);
    let mut results = Vec::new();
    for (position, (dim, size)) in dims.iter().zip(&output.dims).enumerate() {
        let index = known(dim.spaced().place(&mut terms(), &draft.dim(position)))?;
        let last = last_index(&draft.extent(size));
        draft.within(&index, &last);
        results.push(index);
    }
    draft.finish(results)
}

/// A dynamic-slice; its domain is the elements in the slice, whose position is known at run time.
fn dynamic_slice(at: &Builder<'_>, operand: usize, sizes: &DimNumbers) -> MapOrCause {
    if operand > 0 {
        return at.everywhere(operand);
    }
    let input = at.input(0)?;
    let mut draft = at.draft(input);
    let all = draft.extents(input);
    let sizes = lengths(sizes, &all);
    if sizes.len() != all.len() || at.output()?.rank() != all.len() {
        return Err(Cause::Malformed);
    }
    let starts = offsets(at, &mut draft, 1, &all, &sizes)?;
    inside_slice(draft, &starts, &sizes)
}

/// A dynamic-update-slice. The updated array goes everywhere except the slice, and its map is the
/// superset "everywhere". The update goes to the slice.
fn dynamic_update_slice(at: &Builder<'_>, operand: usize) -> MapOrCause {
    let input = at.input(operand)?;
    if operand == 0 {
        let draft = at.draft(input);
        let results = draft.dims();
        return draft.superset().finish(results);
    }
    if operand > 1 {
        return at.everywhere(operand);
    }
    let mut draft = at.draft(input);
    let (sizes, update) = (draft.extents(at.input(0)?), draft.extents(input));
    if sizes.len() != update.len() || at.output()?.rank() != sizes.len() {
        return Err(Cause::Malformed);
    }
    let starts = offsets(at, &mut draft, 2, &sizes, &update)?;
    let results = starts
        .iter()
        .enumerate()
        .map(|(d, start)| draft.dim(d).add(start))
        .collect();
    draft.finish(results)
}

fn concatenate(at: &Builder<'_>, operand: usize, dim: i64) -> MapOrCause {
    let input = at.input(operand)?;
    let dim = index(dim, input.rank())?;
    let mut draft = at.draft(input);
    let (start, _) = rearrange::concatenated_part(at, &mut draft, operand, dim)?;
    let mut results = draft.dims();
    if let Some(slot) = results.get_mut(dim) {
        *slot = slot.add(&start);
    }
    draft.finish(results)
}

fn reduce(at: &Builder<'_>, operand: usize, dimensions: &DimNumbers) -> MapOrCause {
    if operand >= at.instruction.operands.len() / 2 {
        return at.everywhere(operand);
    }
    let input = at.input(operand)?;
    let draft = at.draft(input);
    let kept = kept_dimensions(dimensions, input.rank());
    let results: Vec<Term> = kept.into_iter().map(|dim| draft.dim(dim)).collect();
    if results.len() != at.output()?.rank() {
        return Err(Cause::Malformed);
    }
    draft.finish(results)
}

/// A dot: an element of one operand is combined with all free dimensions of the other operand.
fn dot(at: &Builder<'_>, operand: usize, dims: &DotDims) -> MapOrCause {
    let (output, input) = (at.output()?, at.input(operand)?);
    let mut draft = at.draft(input);
    let mut own: Vec<Option<Term>> = vec![None; output.rank()];
    for (dim, role) in dot_dims(at, operand, dims)?.into_iter().enumerate() {
        if let Some(place) = role.in_result() {
            *own.get_mut(place).ok_or(Cause::Malformed)? = Some(draft.dim(dim));
        }
    }
    let results = own
        .into_iter()
        .zip(&output.dims)
        .map(|(own, dim)| own.unwrap_or_else(|| draft.range_over(dim)))
        .collect();
    draft.finish(results)
}

/// A scale of a scaled dot affects what every element of its block affects.
fn scale(at: &Builder<'_>, operand: usize, dims: &DotDims) -> MapOrCause {
    let scaled = operand.checked_sub(2).ok_or(Cause::Malformed)?;
    let (whole, own) = (at.input(scaled)?, at.input(operand)?);
    if whole.rank() != own.rank() {
        return Err(Cause::Malformed);
    }
    // First from the scale to the elements of its block, then from these to the result.
    let mut draft = at.draft(own);
    let mut elements = Vec::new();
    for (dim, (all, own)) in whole.dims.iter().zip(&own.dims).enumerate() {
        if all.term() == own.term() {
            elements.push(draft.dim(dim));
            continue;
        }
        let (Some(all), Some(own)) = (all.as_static(), own.as_static()) else {
            return Err(Cause::SymbolicSize);
        };
        if own < 1 || all % own != 0 {
            return Err(Cause::Malformed);
        }
        let block = draft.range(Interval::of_size(all / own));
        elements.push(draft.dim(dim).mul(&(all / own).into()).add(&block));
    }
    Ok(draft.finish(elements)?.compose(&dot(at, scaled, dims)?))
}
