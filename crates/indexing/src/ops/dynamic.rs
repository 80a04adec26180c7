//! Operations with run-time indices: from the result to the operands.
//!
//! HLO clamps a dynamic offset so that the whole slice stays in bounds: the
//! run-time variable stands for the clamped offset, from 0 to size - slice.

use tegula_expr::{Interval, Term};
use tegula_ir::{DimNumbers, GatherDims, InstructionId};

use super::builder::{Builder, Draft, static_sizes};
use super::{Cause, MapOrCause};
use crate::map::RuntimeSource;

/// The run-time variable of an offset that is element `index` of `instruction`.
pub(super) fn offset(
    draft: &mut Draft<'_>,
    instruction: InstructionId,
    index: Vec<Term>,
    size: i64,
    slice: i64,
) -> Result<Term, Cause> {
    let last = size
        .checked_sub(slice)
        .filter(|last| *last >= 0)
        .ok_or(Cause::Malformed)?;
    let source = RuntimeSource::Element {
        instruction,
        index,
        clamped: true,
    };
    Ok(draft.runtime(Interval::new(0, last), Some(source)))
}

/// The offset of each dimension: operand `first + dim` is a scalar.
pub(super) fn offsets(
    at: &Builder<'_>,
    draft: &mut Draft<'_>,
    first: usize,
    sizes: &[i64],
    slice: &[i64],
) -> Result<Vec<Term>, Cause> {
    let mut terms = Vec::new();
    for (dim, (size, slice)) in sizes.iter().zip(slice).enumerate() {
        let instruction = at.operand_id(first + dim)?;
        if at.input(first + dim)?.rank() != 0 {
            // The old form with one vector of offsets.
            return Err(Cause::Operation(at.op().opcode()));
        }
        terms.push(offset(draft, instruction, Vec::new(), *size, *slice)?);
    }
    Ok(terms)
}

pub(super) fn dynamic_slice(at: &Builder<'_>, operand: usize, sizes: &DimNumbers) -> MapOrCause {
    let mut draft = at.draft(at.output()?);
    if operand > 0 {
        return draft.finish(Vec::new());
    }
    let input = static_sizes(at.input(0)?)?;
    if sizes.len() != input.len() || at.output()?.rank() != input.len() {
        return Err(Cause::Malformed);
    }
    let starts = offsets(at, &mut draft, 1, &input, sizes)?;
    let results = starts
        .iter()
        .enumerate()
        .map(|(d, start)| draft.dim(d).add(start))
        .collect();
    draft.finish(results)
}

/// The updated array is read outside the slice only, which is no conjunction of
/// intervals: its map is a superset. The update's domain is exactly the slice.
pub(super) fn dynamic_update_slice(at: &Builder<'_>, operand: usize) -> MapOrCause {
    let mut draft = at.draft(at.output()?);
    if operand == 0 {
        let results = draft.dims();
        return draft.superset().finish(results);
    }
    if operand > 1 {
        return draft.finish(Vec::new());
    }
    let (sizes, update) = (static_sizes(at.input(0)?)?, static_sizes(at.input(1)?)?);
    if sizes.len() != update.len() || at.output()?.rank() != sizes.len() {
        return Err(Cause::Malformed);
    }
    let starts = offsets(at, &mut draft, 2, &sizes, &update)?;
    let mut results = Vec::new();
    for (dim, (start, size)) in starts.iter().zip(&update).enumerate() {
        let index = draft.dim(dim).sub(start);
        draft.constrain(
            index.clone(),
            0,
            size.checked_sub(1).ok_or(Cause::Overflow)?,
        );
        results.push(index);
    }
    draft.finish(results)
}

/// A gather in its general form, with collapsed and batching dimensions.
pub(super) fn gather(
    at: &Builder<'_>,
    operand: usize,
    dims: &GatherDims,
    slice_sizes: &DimNumbers,
) -> MapOrCause {
    let output = at.output()?;
    let mut draft = at.draft(output);
    let has = |list: &DimNumbers, dim: usize| list.iter().any(|d| usize::try_from(*d) == Ok(dim));
    let place =
        |list: &DimNumbers, dim: usize| list.iter().position(|d| usize::try_from(*d) == Ok(dim));
    let (sizes, indices) = (static_sizes(at.input(0)?)?, static_sizes(at.input(1)?)?);
    let vector = usize::try_from(dims.index_vector_dim).map_err(|_| Cause::Malformed)?;
    if slice_sizes.len() != sizes.len() || vector > indices.len() {
        return Err(Cause::Malformed);
    }
    // Result dimensions that are no offsets run over the indices, in order.
    let batch: Vec<Term> = (0..output.rank())
        .filter(|dim| !has(&dims.offset_dims, *dim))
        .map(|d| draft.dim(d))
        .collect();
    if batch.len() != indices.len() - usize::from(vector < indices.len()) {
        return Err(Cause::Malformed);
    }
    let index_of = |component: Term| {
        let mut index = batch.clone();
        if vector < indices.len() {
            index.insert(vector.min(index.len()), component);
        }
        index
    };
    if operand == 1 {
        let component = match indices.get(vector) {
            Some(size) => draft.range(Interval::of_size(*size)),
            None => Term::constant(0),
        };
        let results = index_of(component);
        return draft.finish(results);
    }
    let source = at.operand_id(1)?;
    let mut windows = (0..output.rank()).filter(|dim| has(&dims.offset_dims, *dim));
    let mut results = Vec::new();
    for (dim, (size, slice)) in sizes.iter().zip(slice_sizes).enumerate() {
        let mut term = Term::constant(0);
        if let Some(batching) = place(&dims.operand_batching_dims, dim) {
            let indices_dim = dims.start_indices_batching_dims.get(batching).copied();
            let indices_dim = indices_dim
                .and_then(|d| usize::try_from(d).ok())
                .ok_or(Cause::Malformed)?;
            let position = indices_dim - usize::from(indices_dim > vector);
            term = batch.get(position).cloned().ok_or(Cause::Malformed)?;
        } else if !has(&dims.collapsed_slice_dims, dim) {
            term = draft.dim(windows.next().ok_or(Cause::Malformed)?);
        }
        if let Some(component) = place(&dims.start_index_map, dim) {
            let component = i64::try_from(component).map_err(|_| Cause::Overflow)?;
            let start = offset(
                &mut draft,
                source,
                index_of(component.into()),
                *size,
                *slice,
            )?;
            term = term.add(&start);
        }
        results.push(term);
    }
    draft.finish(results)
}
