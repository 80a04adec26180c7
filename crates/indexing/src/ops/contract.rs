//! Maps of reductions and dots, from the result to the operands.

use smallvec::SmallVec;
use tegula_expr::Term;
use tegula_ir::helpers::{DotDim, kept_dimensions};
use tegula_ir::{DimNumbers, DotDims};

use super::builder::Builder;
use super::{Cause, MapOrCause};

/// The operands are the inputs, followed by as many initial values.
pub(super) fn reduce(at: &Builder<'_>, operand: usize, dimensions: &DimNumbers) -> MapOrCause {
    let output = at.output()?;
    let mut draft = at.draft(output);
    if operand >= at.instruction.operands.len() / 2 {
        return draft.finish(Vec::new());
    }
    let input = at.input(operand)?;
    if output.rank() + dimensions.len() != input.rank() {
        return Err(Cause::Malformed);
    }
    let kept = kept_dimensions(dimensions, input.rank());
    if kept.len() != output.rank() {
        return Err(Cause::Malformed);
    }
    let mut results = Vec::new();
    for (position, dim) in input.dims.iter().enumerate() {
        results.push(match kept.iter().position(|&own| own == position) {
            Some(place) => draft.dim(place),
            None => draft.range_over(dim),
        });
    }
    draft.finish(results)
}

/// The role of each dimension of an operand of a dot.
pub(super) fn dot_dims(
    at: &Builder<'_>,
    operand: usize,
    dims: &DotDims,
) -> Result<SmallVec<[DotDim; 6]>, Cause> {
    let ranks = [at.input(0)?.rank(), at.input(1)?.rank()];
    let roles = dims.roles(ranks).ok_or(Cause::Malformed)?;
    let [left, right] = roles.operands;
    match operand {
        0 => Ok(left),
        1 => Ok(right),
        _ => Err(Cause::Malformed),
    }
}

pub(super) fn dot(at: &Builder<'_>, operand: usize, dims: &DotDims) -> MapOrCause {
    let (output, input) = (at.output()?, at.input(operand)?);
    let roles = dot_dims(at, operand, dims)?;
    let mut draft = at.draft(output);
    // The ranges are numbered in the order in which the contracted dimensions are paired.
    let mut contracted: Vec<Term> = Vec::new();
    for number in 0..roles.len() {
        let Some(dim) = roles.iter().position(|r| *r == DotDim::Contracted(number)) else {
            break;
        };
        contracted.push(draft.range_over(input.dims.get(dim).ok_or(Cause::Malformed)?));
    }
    let mut results = Vec::new();
    for role in roles {
        results.push(match role {
            DotDim::Contracted(number) => {
                contracted.get(number).cloned().ok_or(Cause::Malformed)?
            }
            DotDim::Batch(place) | DotDim::Free(place) if place < output.rank() => draft.dim(place),
            _ => return Err(Cause::Malformed),
        });
    }
    draft.finish(results)
}

/// The map of a scale of a scaled dot: each of its elements applies to a block of the operand two
/// before it.
pub(super) fn scale(at: &Builder<'_>, operand: usize, dims: &DotDims) -> MapOrCause {
    let scaled = operand.checked_sub(2).ok_or(Cause::Malformed)?;
    let elements = dot(at, scaled, dims)?;
    let (whole, scale) = (at.input(scaled)?, at.input(operand)?);
    if whole.rank() != scale.rank() {
        return Err(Cause::Malformed);
    }
    let mut map = elements;
    for (result, (all, own)) in map
        .results
        .iter_mut()
        .zip(whole.dims.iter().zip(&scale.dims))
    {
        if all.term() == own.term() {
            continue;
        }
        let (Some(all), Some(own)) = (all.as_static(), own.as_static()) else {
            return Err(Cause::SymbolicSize);
        };
        if own < 1 || all % own != 0 {
            return Err(Cause::Malformed);
        }
        *result = result.floor_div(&Term::constant(all / own));
    }
    Ok(map)
}
