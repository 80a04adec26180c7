//! Maps of operations in which an element depends on whole lines, matrices or arrays.
//!
//! Such a relation is described by the dimensions that operand and result have in common: an index
//! of the result reads every index of the operand that agrees in these dimensions. It is the same
//! in both directions. If only a part of these elements is used, depending on the data (a sorted
//! payload, a triangular factor), the map is a superset.

use smallvec::SmallVec;
use tegula_expr::Term;
use tegula_ir::Op;

use super::builder::{Builder, index};
use super::{Cause, MapOrCause};
use crate::map::Exactness;

/// The dimensions that operand and result have in common, as pairs (operand's, result's).
pub(super) struct Shared {
    pairs: SmallVec<[(usize, usize); 6]>,
    exactness: Exactness,
}

impl Shared {
    /// The first `count` dimensions are common.
    fn leading(count: usize, exactness: Exactness) -> Self {
        Self {
            pairs: (0..count).map(|dim| (dim, dim)).collect(),
            exactness,
        }
    }

    /// No dimension is common: every element depends on every other.
    fn none(exactness: Exactness) -> Self {
        Self::leading(0, exactness)
    }
}

/// The common dimensions for an operand. The outer `None` means that the operation is of another
/// kind, the inner one that the operand is not read.
pub(super) fn shared(at: &Builder<'_>, operand: usize) -> Option<Result<Option<Shared>, Cause>> {
    use Exactness::{Exact, Superset};
    let found = match at.op() {
        Op::Sort { dimension, .. } => sort(at, operand, *dimension),
        Op::TopK { .. } => rank_of(at, 0).map(|rank| Some(Shared::leading(rank - 1, Exact))),
        Op::Fft { length, .. } => fft(at, length.len()),
        Op::Cholesky { .. } => {
            rank_of(at, 0).map(|rank| Some(Shared::leading(rank.saturating_sub(2), Superset)))
        }
        Op::TriangularSolve { left_side, .. } => triangular_solve(at, operand, *left_side),
        Op::BatchNormTraining { feature_index, .. }
        | Op::BatchNormInference { feature_index, .. }
        | Op::BatchNormGrad { feature_index, .. } => batch_norm(at, operand, *feature_index),
        Op::Rng(_) => Ok(Some(Shared::none(Exact))),
        Op::RngBitGenerator(_) | Op::CustomCall(_) | Op::RaggedDot { .. } => {
            Ok(Some(Shared::none(Superset)))
        }
        Op::RaggedAllToAll(_) => Ok(Some(Shared::none(Superset))),
        // It reads the size, not the elements.
        Op::GetDimensionSize(_) => Ok(None),
        _ => return None,
    };
    Some(found)
}

fn rank_of(at: &Builder<'_>, operand: usize) -> Result<usize, Cause> {
    match at.input(operand)?.rank() {
        0 => Err(Cause::Malformed),
        rank => Ok(rank),
    }
}

/// A sort compares whole lines. An operand that only moves along contributes one unknown element of
/// the line.
fn sort(at: &Builder<'_>, operand: usize, dimension: i64) -> Result<Option<Shared>, Cause> {
    let rank = at.output()?.rank();
    let sorted = index(dimension, rank)?;
    if at.input(operand)?.rank() != rank {
        return Err(Cause::Malformed);
    }
    let is_key = is_compared(at, operand).unwrap_or(false);
    if !is_key && operand != at.leaf {
        return Ok(None);
    }
    let others = (0..rank).filter(|dim| *dim != sorted);
    Ok(Some(Shared {
        pairs: others.map(|dim| (dim, dim)).collect(),
        exactness: if is_key {
            Exactness::Exact
        } else {
            Exactness::Superset
        },
    }))
}

/// Whether the comparator uses the elements of an operand.
fn is_compared(at: &Builder<'_>, operand: usize) -> Option<bool> {
    let Op::Sort { to_apply, .. } = at.op() else {
        return None;
    };
    let computation = at.module.computations.get(*to_apply)?;
    let first = operand.checked_mul(2)?;
    let own = computation.parameters.get(first..first.checked_add(2)?)?;
    let uses_own = |id: &tegula_ir::InstructionId| {
        let used = |data: &tegula_ir::Instruction| data.operands.iter().any(|o| own.contains(o));
        own.contains(&computation.root) || at.module.instructions.get(*id).is_some_and(used)
    };
    Some(computation.instructions.iter().any(uses_own))
}

/// A Fourier transform reads the last `transformed` dimensions as a whole. If its result is real,
/// the last dimension is about twice as long.
fn fft(at: &Builder<'_>, transformed: usize) -> Result<Option<Shared>, Cause> {
    let rank = at.input(0)?.rank();
    let batch = rank.checked_sub(transformed).ok_or(Cause::Malformed)?;
    if at.output()?.rank() != rank {
        return Err(Cause::Malformed);
    }
    // For a real result, the imaginary parts of some elements do not matter, but every element is
    // used.
    Ok(Some(Shared::leading(batch, Exactness::Exact)))
}

fn triangular_solve(
    at: &Builder<'_>,
    operand: usize,
    left_side: bool,
) -> Result<Option<Shared>, Cause> {
    let rank = at.output()?.rank();
    let batch = rank.checked_sub(2).ok_or(Cause::Malformed)?;
    if at.input(operand)?.rank() != rank {
        return Err(Cause::Malformed);
    }
    let mut shared = Shared::leading(batch, Exactness::Superset);
    if operand == 1 {
        // Right-hand sides are solved independently.
        let own = if left_side { rank - 1 } else { rank - 2 };
        shared.pairs.push((own, own));
    }
    Ok(Some(shared))
}

/// The operands and results of batch norms are whole arrays, or one value per feature.
fn batch_norm(at: &Builder<'_>, operand: usize, feature: i64) -> Result<Option<Shared>, Cause> {
    let whole = at.input(0)?.rank();
    let feature = index(feature, whole)?;
    let (input, output) = (at.input(operand)?, at.output()?);
    let leaf = at.leaf;
    let is_read = match (at.op(), operand) {
        // The statistics of a feature are computed from the input alone.
        (Op::BatchNormTraining { .. }, 1 | 2) => leaf == 0,
        // The operands are input, scale, mean, variance, and the gradient of the result.
        (Op::BatchNormGrad { .. }, 0 | 2 | 3) => leaf != 2,
        (Op::BatchNormGrad { .. }, 1) => leaf == 0,
        _ => true,
    };
    if !is_read {
        return Ok(None);
    }
    let is_pointwise = matches!(at.op(), Op::BatchNormInference { .. });
    if is_pointwise && operand == 0 {
        return Ok(Some(Shared::leading(whole, Exactness::Exact)));
    }
    let place = |rank: usize| match rank {
        1 if whole != 1 || !is_pointwise && operand > 0 => Ok(0),
        rank if rank == whole => Ok(feature),
        _ => Err(Cause::Malformed),
    };
    Ok(Some(Shared {
        pairs: SmallVec::from_slice(&[(place(input.rank())?, place(output.rank())?)]),
        exactness: Exactness::Exact,
    }))
}

impl Shared {
    /// The map from the result to the operand.
    pub(super) fn backward(&self, at: &Builder<'_>, operand: usize) -> MapOrCause {
        let (output, input) = (at.output()?, at.input(operand)?);
        let mut draft = at.draft(output);
        let results: Vec<Term> = input
            .dims
            .iter()
            .enumerate()
            .map(
                |(dim, size)| match self.pairs.iter().find(|(own, _)| *own == dim) {
                    Some((_, other)) => draft.dim(*other),
                    None => draft.range_over(size),
                },
            )
            .collect();
        draft.with(self.exactness).finish(results)
    }

    /// The map from the operand to the result.
    pub(super) fn forward(&self, at: &Builder<'_>, operand: usize) -> MapOrCause {
        let (output, input) = (at.output()?, at.input(operand)?);
        let mut draft = at.draft(input);
        let results: Vec<Term> = output
            .dims
            .iter()
            .enumerate()
            .map(
                |(dim, size)| match self.pairs.iter().find(|(_, other)| *other == dim) {
                    Some((own, _)) => draft.dim(*own),
                    None => draft.range_over(size),
                },
            )
            .collect();
        draft.with(self.exactness).finish(results)
    }
}
