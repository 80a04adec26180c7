//! Maps of windowed operations and gathers, from an operand to the result.
//!
//! A range variable runs over the positions in the window (or over the indices of a gather). The
//! result index for which the element is at that position is in the domain if it is an integer
//! inside the result.

use tegula_expr::{Interval, Term, terms};
use tegula_ir::helpers::ConvolutionGroups;
use tegula_ir::{ArrayShape, DimNumbers, GatherDims, Op, WindowDim};

use super::builder::{Builder, Draft, index, last_index};
use super::dynamic::{lengths, offset};
use super::rearrange::known;
use super::window::spaced;
use super::{Cause, MapOrCause};

/// The result index whose window has the input's element `input` at `position`. It solves `output *
/// stride + position * dilation - padding = input * base_dilation`.
fn window_output(
    draft: &mut Draft<'_>,
    input: &Term,
    position: &Term,
    window: &WindowDim,
    size: &Term,
) -> Result<Term, Cause> {
    if !window.is_possible() {
        return Err(Cause::Malformed);
    }
    let place = window.base().place(&mut terms(), input);
    let distance = known(window.distance(&mut terms(), &place, position))?;
    spaced(draft, &distance, window.stride, size)
}

/// A variable over the positions of a window; a window of size 1 needs none.
fn position(draft: &mut Draft<'_>, window: &WindowDim) -> Term {
    match window.size {
        1 => Term::constant(0),
        size => draft.range(Interval::of_size(size)),
    }
}

pub(super) fn reduce_window(at: &Builder<'_>, operand: usize, window: &[WindowDim]) -> MapOrCause {
    if operand >= at.instruction.operands.len() / 2 {
        return at.everywhere(operand);
    }
    let (input, output) = (at.input(operand)?, at.output()?);
    if window.len() != output.rank() || input.rank() != output.rank() {
        return Err(Cause::Malformed);
    }
    let mut draft = at.draft(input);
    let mut results = Vec::new();
    for (dim, (window, size)) in window.iter().zip(&output.dims).enumerate() {
        let size = draft.extent(size);
        let place = position(&mut draft, window);
        let input = draft.dim(dim);
        results.push(window_output(&mut draft, &input, &place, window, &size)?);
    }
    draft.finish(results)
}

/// A convolution, for either operand. An element of the kernel affects every batch and every
/// position.
pub(super) fn convolution(at: &Builder<'_>, operand: usize) -> MapOrCause {
    let Op::Convolution {
        window,
        dims,
        feature_group_count,
        batch_group_count,
        ..
    } = at.op()
    else {
        return Err(Cause::Malformed);
    };
    let groups = ConvolutionGroups {
        features: *feature_group_count,
        batch: *batch_group_count,
    };
    let (output, input, kernel) = (at.output()?, at.input(0)?, at.input(1)?);
    let rank = output.rank();
    let spatial = [
        &dims.input_spatial,
        &dims.kernel_spatial,
        &dims.output_spatial,
    ];
    if input.rank() != rank
        || kernel.rank() != rank
        || window.len() + 2 != rank
        || spatial.iter().any(|spatial| spatial.len() != window.len())
        || !groups.is_possible()
    {
        return Err(Cause::Malformed);
    }
    let dim_of = |array: &'_ ArrayShape, dim: i64| {
        let dim = array.dims.get(index(dim, rank)?);
        dim.cloned().ok_or(Cause::Malformed)
    };
    // Groups are counted, so their sizes must be static.
    let count_of = |array: &'_ ArrayShape, dim: i64| {
        let dim = dim_of(array, dim)?;
        dim.as_static().ok_or(Cause::SymbolicSize)
    };
    let mut draft = at.draft(at.input(operand)?);
    let mut results = vec![Term::constant(0); rank];
    let mut put = |dim: i64, term: Term| -> Result<(), Cause> {
        *results.get_mut(index(dim, rank)?).ok_or(Cause::Malformed)? = term;
        Ok(())
    };
    if operand == 1 {
        put(
            dims.output_feature,
            draft.dim(index(dims.kernel_output_feature, rank)?),
        )?;
        let rest = dims.output_spatial.iter().chain([&dims.output_batch]);
        for dim in rest {
            put(*dim, draft.range_over(&dim_of(output, *dim)?))?;
        }
        return draft.finish(results);
    }
    let batch = draft.dim(index(dims.input_batch, rank)?);
    let channel = draft.dim(index(dims.input_feature, rank)?);
    // With groups, an element affects only the output features of its own group.
    let [output_batch, output_feature] = if groups.count() == 1 {
        [
            batch,
            draft.range_over(&dim_of(output, dims.output_feature)?),
        ]
    } else {
        let outputs = count_of(output, dims.output_feature)?;
        let channels = count_of(kernel, dims.kernel_input_feature)?;
        let batches = match groups.batch {
            1 => 0,
            _ => count_of(input, dims.input_batch)?,
        };
        let [outputs, channels, batches] = [outputs, channels, batches].map(Term::constant);
        let sizes = groups.sizes(&mut terms(), &outputs, &channels, &batches);
        let outputs = sizes.outputs.as_constant().ok_or(Cause::SymbolicSize)?;
        let feature = draft.range(Interval::of_size(outputs));
        groups.output(&mut terms(), &sizes, [&batch, &channel, &feature])
    };
    put(dims.output_feature, output_feature)?;
    put(dims.output_batch, output_batch)?;
    for (nth, window) in window.iter().enumerate() {
        let at_nth = |dims: &DimNumbers| dims.get(nth).copied().unwrap_or(-1);
        let place = position(&mut draft, window);
        let input = draft.dim(index(at_nth(&dims.input_spatial), rank)?);
        let size = draft.extent(&dim_of(output, at_nth(&dims.output_spatial))?);
        let term = window_output(&mut draft, &input, &place, window, &size)?;
        put(at_nth(&dims.output_spatial), term)?;
    }
    draft.finish(results)
}

/// A gather. An element of the operand affects, for each index, the position in the slice where it
/// is. An index affects its whole slice.
pub(super) fn gather(
    at: &Builder<'_>,
    operand: usize,
    dims: &GatherDims,
    slice_sizes: &DimNumbers,
) -> MapOrCause {
    let output = at.output()?;
    let mut draft = at.draft(at.input(operand)?);
    let (sizes, indices) = (draft.extents(at.input(0)?), at.input(1)?.dims.as_slice());
    let roles = dims.roles([sizes.len(), indices.len(), output.rank()]);
    let roles = roles.ok_or(Cause::Malformed)?;
    if slice_sizes.len() != sizes.len() {
        return Err(Cause::Malformed);
    }
    // The dimensions of the index: those of the indices operand itself, or else all, except for
    // batching dimensions, which the operand's element determines.
    let mut batch = Vec::new();
    for (number, dim) in roles.indices.iter().enumerate() {
        batch.push(match (operand, roles.paired_with(number)) {
            (1, _) => draft.dim(*dim),
            (_, Some(own)) => draft.dim(own),
            _ => draft.range_over(indices.get(*dim).ok_or(Cause::Malformed)?),
        });
    }
    let mut offsets = Vec::new();
    let slice_sizes = lengths(slice_sizes, &sizes);
    for (dim, (size, slice)) in sizes.iter().zip(&slice_sizes).enumerate() {
        let role = roles.operand.get(dim).copied().unwrap_or_default();
        if role.paired.is_some() {
            continue;
        }
        if operand == 1 {
            if let Some(kept) = role.offset {
                let size = output.dims.get(kept).ok_or(Cause::Malformed)?;
                offsets.push(draft.range_over(size));
            }
            continue;
        }
        let mut term = draft.dim(dim);
        if let Some(component) = role.component {
            let component = i64::try_from(component).map_err(|_| Cause::Overflow)?;
            let at_index = roles.place_of_index(&batch, component.into());
            let start = offset(&mut draft, at.operand_id(1)?, at_index, size, slice)?;
            term = term.sub(&start);
        }
        draft.within(&term, &last_index(slice));
        if role.offset.is_some() {
            offsets.push(term);
        }
    }
    let results = roles.place_in_result(batch, offsets);
    draft.finish(results.ok_or(Cause::Malformed)?)
}
