//! Reductions and dots: from the result to the operands.

use tegula_expr::Term;
use tegula_ir::helpers::kept_dimensions;
use tegula_ir::{DimNumbers, DotDims};

use super::builder::{Builder, index};
use super::{Cause, MapOrCause};

/// Operands are inputs, then as many initial values.
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

/// Dimension numbers of one side of a dot, and how its result is laid out:
/// batch dimensions, then the free ones of the left, then of the right operand.
pub(super) struct DotSide<'a> {
    pub(super) batch: &'a DimNumbers,
    pub(super) contracting: &'a DimNumbers,
    /// The first result dimension that is a free dimension of this operand.
    pub(super) first_free: usize,
}

impl<'a> DotSide<'a> {
    pub(super) fn of(at: &Builder<'_>, operand: usize, dims: &'a DotDims) -> Result<Self, Cause> {
        let ranks = [at.input(0)?.rank(), at.input(1)?.rank()];
        let roles = dims.roles(ranks).ok_or(Cause::Malformed)?;
        match operand {
            0 => Ok(Self {
                batch: &dims.lhs_batch,
                contracting: &dims.lhs_contracting,
                first_free: roles.first_free(0),
            }),
            1 => Ok(Self {
                batch: &dims.rhs_batch,
                contracting: &dims.rhs_contracting,
                first_free: roles.first_free(1),
            }),
            _ => Err(Cause::Malformed),
        }
    }

    /// Where a dimension of this operand is in the given list.
    pub(super) fn place(list: &DimNumbers, dim: usize) -> Option<usize> {
        list.iter().position(|d| usize::try_from(*d) == Ok(dim))
    }
}

pub(super) fn dot(at: &Builder<'_>, operand: usize, dims: &DotDims) -> MapOrCause {
    let (output, input) = (at.output()?, at.input(operand)?);
    let side = DotSide::of(at, operand, dims)?;
    let mut draft = at.draft(output);
    let mut contracted: Vec<Term> = Vec::new();
    for dim in side.contracting {
        let dim = index(*dim, input.rank())?;
        contracted.push(draft.range_over(input.dims.get(dim).ok_or(Cause::Malformed)?));
    }
    let mut free = side.first_free;
    let mut results = Vec::new();
    for dim in 0..input.rank() {
        let term = if let Some(batch) = DotSide::place(side.batch, dim) {
            draft.dim(batch)
        } else if let Some(range) = DotSide::place(side.contracting, dim) {
            contracted.get(range).cloned().ok_or(Cause::Malformed)?
        } else {
            free += 1;
            draft.dim(free - 1)
        };
        results.push(term);
    }
    if free > output.rank() {
        return Err(Cause::Malformed);
    }
    draft.finish(results)
}

/// A scale of a scaled dot: each of its elements serves a block of elements of
/// the operand two before it.
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
