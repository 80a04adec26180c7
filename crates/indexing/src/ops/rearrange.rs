//! Maps of operations that move elements, from the result to the operand.

use tegula_expr::{Term, terms};
use tegula_ir::helpers::{ConcatenateSizes, Spaced};
use tegula_ir::{ArrayShape, DimNumbers, PadDim, SliceDim};

use super::builder::{Builder, Draft, index, last_index};
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

/// A `bitcast-convert`, from either array to the other. The array with narrower elements may have
/// an additional minor dimension.
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

/// A reversal, the same in both directions.
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
        .map(|(position, dim)| dim.spaced().place(&mut terms(), &draft.dim(position)))
        .collect();
    draft.finish(results)
}

/// A pad. For the padded array, only indices that hit an element are in the domain. For the padding
/// value, the domain is the whole result, a superset of the padding.
pub(super) fn pad(at: &Builder<'_>, operand: usize, dims: &[PadDim]) -> MapOrCause {
    let output = at.output()?;
    if operand == 1 {
        return at.draft(output).superset().finish(Vec::new());
    }
    let input = at.input(0)?;
    if dims.len() != output.rank() || input.rank() != output.rank() {
        return Err(Cause::Malformed);
    }
    let mut draft = at.draft(output);
    let mut results = Vec::new();
    for (position, (dim, size)) in dims.iter().zip(&input.dims).enumerate() {
        if !dim.is_possible() {
            return Err(Cause::Malformed);
        }
        let size = draft.extent(size);
        results.push(spaced_dim(&mut draft, position, dim.spaced(), &size)?);
    }
    draft.finish(results)
}

/// The element at the position given by a dimension of the domain. The domain is restricted to
/// positions that have one of the `size` elements.
pub(super) fn spaced_dim(
    draft: &mut Draft<'_>,
    position: usize,
    spaced: Spaced,
    size: &Term,
) -> Result<Term, Cause> {
    let last = spaced.place(&mut terms(), &last_index(size));
    draft.narrow_dim(position, spaced.first, &known(last)?)?;
    let distance = known(spaced.distance(&mut terms(), &draft.dim(position)))?;
    let (element, rest) = spaced.element(&mut terms(), &distance);
    if spaced.step > 1 {
        draft.constrain(rest, 0, 0);
    }
    Ok(element)
}

/// Returns the term, unless it consists of constants and overflows.
pub(super) fn known(term: Term) -> Result<Term, Cause> {
    let mut is_variable = term.as_constant().is_some();
    term.for_each_var(&mut |_| is_variable = true);
    is_variable.then_some(term).ok_or(Cause::Overflow)
}

/// A concatenation: each operand is read for its own part of the dimension.
pub(super) fn concatenate(at: &Builder<'_>, operand: usize, dim: i64) -> MapOrCause {
    let output = at.output()?;
    let dim = index(dim, output.rank())?;
    let mut draft = at.draft(output);
    let (start, size) = concatenated_part(at, &mut draft, operand, dim)?;
    let end = known(last_index(&start.add(&size)))?;
    let first = start.as_constant().unwrap_or(0);
    draft.narrow_dim(dim, first, &end)?;
    let mut results = draft.dims();
    if let Some(slot) = results.get_mut(dim) {
        *slot = slot.sub(&start);
        if start.as_constant().is_none() {
            let own = slot.clone();
            draft.constrain(own, 0, i64::MAX);
        }
    }
    draft.finish(results)
}

/// The start of a concatenation's operand in the result, and its size.
pub(super) fn concatenated_part(
    at: &Builder<'_>,
    draft: &mut Draft<'_>,
    operand: usize,
    dim: usize,
) -> Result<(Term, Term), Cause> {
    let mut size = |operand: usize| {
        let size = at.input(operand)?.dims.get(dim).ok_or(Cause::Malformed)?;
        match size.as_static() {
            Some(size) if size < 0 => Err(Cause::Malformed),
            _ => Ok(draft.extent(size)),
        }
    };
    let sizes: Vec<Term> = (0..=operand).map(&mut size).collect::<Result<_, _>>()?;
    let whole = ConcatenateSizes::of(&mut terms(), &sizes);
    match (whole.starts.last(), sizes.last()) {
        (Some(start), Some(size)) => Ok((known(start.clone())?, size.clone())),
        _ => Err(Cause::Malformed),
    }
}
