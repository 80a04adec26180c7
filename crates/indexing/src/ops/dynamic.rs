//! Maps of operations with run-time indices, from the result to the operands.
//!
//! HLO clamps a dynamic offset so that the whole slice is in bounds. The run-time variable is the
//! clamped offset, from 0 to size - slice.

use tegula_expr::{Interval, Term, terms};
use tegula_ir::helpers::up_to;
use tegula_ir::{DimNumbers, GatherDims, InstructionId};

use super::builder::{Builder, Draft, last_index};
use super::rearrange::known;
use super::{Cause, MapOrCause};
use crate::map::RuntimeSource;

/// The run-time variable of an offset that is element `index` of `instruction`. It is an offset
/// into a dimension of `size` elements, `slice` of which are taken.
pub(super) fn offset(
    draft: &mut Draft<'_>,
    instruction: InstructionId,
    index: Vec<Term>,
    size: &Term,
    slice: &Term,
) -> Result<Term, Cause> {
    let last = known(size.sub(slice))?;
    let source = RuntimeSource::Element {
        instruction,
        index,
        clamped: true,
    };
    // A gather without indices may have slices larger than the array, because it takes none.
    let largest = draft.range_of(&last).upper.max(0);
    let offset = draft.runtime(Interval::new(0, largest), Some(source));
    if last.as_constant().is_none() {
        draft.limit(&offset, last);
    }
    Ok(offset)
}

/// The offset in each dimension; operand `first + dim` is a scalar.
pub(super) fn offsets(
    at: &Builder<'_>,
    draft: &mut Draft<'_>,
    first: usize,
    sizes: &[Term],
    slice: &[Term],
) -> Result<Vec<Term>, Cause> {
    let mut terms = Vec::new();
    for (dim, (size, slice)) in sizes.iter().zip(slice).enumerate() {
        let instruction = at.operand_id(first + dim)?;
        if at.input(first + dim)?.rank() != 0 {
            // The old form, with a vector of offsets, is not supported.
            return Err(Cause::Operation(at.op().opcode()));
        }
        terms.push(offset(draft, instruction, Vec::new(), size, slice)?);
    }
    Ok(terms)
}

pub(super) fn dynamic_slice(at: &Builder<'_>, operand: usize, sizes: &DimNumbers) -> MapOrCause {
    let mut draft = at.draft(at.output()?);
    if operand > 0 {
        return draft.finish(Vec::new());
    }
    let input = draft.extents(at.input(0)?);
    if sizes.len() != input.len() || at.output()?.rank() != input.len() {
        return Err(Cause::Malformed);
    }
    let starts = offsets(at, &mut draft, 1, &input, &lengths(sizes, &input))?;
    let results = starts
        .iter()
        .enumerate()
        .map(|(d, start)| draft.dim(d).add(start))
        .collect();
    draft.finish(results)
}

/// The map of a dynamic-update-slice. The updated array is read only outside the slice, which is no
/// conjunction of intervals, so its map is a superset. The update's domain is exactly the slice.
pub(super) fn dynamic_update_slice(at: &Builder<'_>, operand: usize) -> MapOrCause {
    let mut draft = at.draft(at.output()?);
    if operand == 0 {
        let results = draft.dims();
        return draft.superset().finish(results);
    }
    if operand > 1 {
        return draft.finish(Vec::new());
    }
    let (sizes, update) = (draft.extents(at.input(0)?), draft.extents(at.input(1)?));
    if sizes.len() != update.len() || at.output()?.rank() != sizes.len() {
        return Err(Cause::Malformed);
    }
    let starts = offsets(at, &mut draft, 2, &sizes, &update)?;
    inside_slice(draft, &starts, &update)
}

/// The map from an index of an array to that of a slice, for indices in the slice.
pub(super) fn inside_slice(mut draft: Draft<'_>, starts: &[Term], sizes: &[Term]) -> MapOrCause {
    let mut results = Vec::new();
    for (dim, (start, size)) in starts.iter().zip(sizes).enumerate() {
        let index = draft.dim(dim).sub(start);
        draft.within(&index, &last_index(size));
        results.push(index);
    }
    draft.finish(results)
}

/// The sizes of a slice of an array with these extents.
pub(super) fn lengths(sizes: &DimNumbers, extents: &[Term]) -> Vec<Term> {
    let sizes = sizes.iter().zip(extents);
    sizes
        .map(|(&size, extent)| up_to(&mut terms(), size, extent))
        .collect()
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
    let (sizes, indices) = (draft.extents(at.input(0)?), at.input(1)?.dims.as_slice());
    let roles = dims.roles([sizes.len(), indices.len(), output.rank()]);
    let roles = roles.ok_or(Cause::Malformed)?;
    if slice_sizes.len() != sizes.len() {
        return Err(Cause::Malformed);
    }
    let batch: Vec<Term> = roles.batch.iter().map(|&dim| draft.dim(dim)).collect();
    if operand == 1 {
        let component = match roles.vector.and_then(|vector| indices.get(vector)) {
            Some(size) => draft.range_over(size),
            None => Term::constant(0),
        };
        return draft.finish(roles.place_of_index(&batch, component));
    }
    let source = at.operand_id(1)?;
    let mut results = Vec::new();
    let slice_sizes = lengths(slice_sizes, &sizes);
    let slices = sizes.iter().zip(&slice_sizes);
    for (role, (size, slice)) in roles.operand.iter().zip(slices) {
        let mut term = match (role.paired, role.offset) {
            (Some(paired), _) => batch.get(paired).cloned().ok_or(Cause::Malformed)?,
            (None, Some(offset)) => draft.dim(offset),
            (None, None) => Term::constant(0),
        };
        if let Some(component) = role.component {
            let component = i64::try_from(component).map_err(|_| Cause::Overflow)?;
            let start = offset(
                &mut draft,
                source,
                roles.place_of_index(&batch, component.into()),
                size,
                slice,
            )?;
            term = term.add(&start);
        }
        results.push(term);
    }
    draft.finish(results)
}
