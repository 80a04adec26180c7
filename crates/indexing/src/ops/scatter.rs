//! Scatters, in both directions.
//!
//! Operands are arrays, the indices, and as many updates. An update window is
//! written where its index says, if it lies inside as a whole: the run-time
//! variable of an index component is not clamped, its bounds are the places where
//! the window fits.

use tegula_expr::{Interval, Term};
use tegula_ir::{DimNumbers, InstructionId, Op, ScatterDims};

use super::builder::{Builder, Draft, index, last_index};
use super::forward::everywhere;
use super::rearrange::known;
use super::{Cause, MapOrCause};
use crate::map::RuntimeSource;

fn place(list: &DimNumbers, dim: usize) -> Option<usize> {
    list.iter().position(|d| usize::try_from(*d) == Ok(dim))
}

/// A scatter with the roles of its dimensions.
struct Scatter<'a> {
    at: &'a Builder<'a>,
    dims: &'a ScatterDims,
    /// The number of arrays that are updated.
    arrays: usize,
    indices: InstructionId,
    vector: usize,
}

/// Which operand, in terms of the operation.
enum Role {
    Array,
    Indices,
    Updates,
}

impl<'a> Scatter<'a> {
    fn new(at: &'a Builder<'a>) -> Result<Self, Cause> {
        let Op::Scatter { dims, .. } = at.op() else {
            return Err(Cause::Malformed);
        };
        let count = at.instruction.operands.len();
        let arrays = count / 2;
        let vector = usize::try_from(dims.index_vector_dim).map_err(|_| Cause::Malformed)?;
        let scatter = Self {
            at,
            dims,
            arrays,
            indices: at.operand_id(arrays)?,
            vector,
        };
        let rank = at.input(arrays)?.rank();
        if count.is_multiple_of(2) || vector > rank {
            return Err(Cause::Malformed);
        }
        Ok(scatter)
    }

    fn role(&self, operand: usize) -> Role {
        match operand {
            operand if operand < self.arrays => Role::Array,
            operand if operand == self.arrays => Role::Indices,
            _ => Role::Updates,
        }
    }

    /// The dimensions of the indices that number the windows.
    fn index_dims(&self) -> Result<Vec<usize>, Cause> {
        let rank = self.at.input(self.arrays)?.rank();
        Ok((0..rank).filter(|dim| *dim != self.vector).collect())
    }

    /// The element of the indices that is component `component` of a window.
    fn index_of(&self, window: &[Term], component: Term) -> Result<Vec<Term>, Cause> {
        let mut index = window.to_vec();
        if self.vector < self.at.input(self.arrays)?.rank() {
            index.insert(self.vector.min(index.len()), component);
        }
        Ok(index)
    }

    /// The sizes of a window along the updated array's dimensions.
    fn window_sizes(&self, draft: &mut Draft<'_>) -> Result<Vec<Term>, Cause> {
        let updates = self.at.input(self.arrays + 1)?;
        let mut own = self.dims.update_window_dims.iter();
        (0..self.at.input(0)?.rank())
            .map(|dim| {
                let is_one = place(&self.dims.inserted_window_dims, dim).is_some()
                    || place(&self.dims.input_batching_dims, dim).is_some();
                if is_one {
                    return Ok(Term::constant(1));
                }
                let own = index(*own.next().ok_or(Cause::Malformed)?, updates.rank())?;
                Ok(draft.extent(updates.dims.get(own).ok_or(Cause::Malformed)?))
            })
            .collect()
    }

    /// Where the window that `window` numbers starts along each dimension of the
    /// updated array.
    fn starts(
        &self,
        draft: &mut Draft<'_>,
        window: &[Term],
        sizes: &[Term],
    ) -> Result<Vec<Term>, Cause> {
        let array = draft.extents(self.at.input(0)?);
        let mut starts = Vec::new();
        for (dim, (all, size)) in array.iter().zip(sizes).enumerate() {
            if let Some(pair) = place(&self.dims.input_batching_dims, dim) {
                let paired = self.dims.scatter_indices_batching_dims.get(pair);
                let paired = paired.and_then(|d| usize::try_from(*d).ok());
                let position = paired.map(|d| d - usize::from(d > self.vector));
                let term = position.and_then(|position| window.get(position));
                starts.push(term.cloned().ok_or(Cause::Malformed)?);
                continue;
            }
            let Some(component) = place(&self.dims.scatter_dims_to_operand_dims, dim) else {
                starts.push(Term::constant(0));
                continue;
            };
            let component = i64::try_from(component).map_err(|_| Cause::Overflow)?;
            let last = known(all.sub(size))?;
            let source = RuntimeSource::Element {
                instruction: self.indices,
                index: self.index_of(window, component.into())?,
                clamped: false,
            };
            let upper = draft.range_of(&last).upper;
            let start = draft.runtime(Interval::new(0, upper), Some(source));
            if last.as_constant().is_none() {
                draft.limit(&start, last);
            }
            starts.push(start);
        }
        Ok(starts)
    }

    /// Whether the combination of old and new values uses the old one.
    fn reads_old(&self) -> bool {
        let Op::Scatter { to_apply, .. } = self.at.op() else {
            return true;
        };
        let module = self.at.module;
        let Some(computation) = module.computations.get(*to_apply) else {
            return false;
        };
        let Some(old) = computation.parameters.get(..self.arrays) else {
            return false;
        };
        old.contains(&computation.root)
            || computation.instructions.iter().any(|id| {
                let data = module.instructions.get(*id);
                data.is_some_and(|data| data.operands.iter().any(|o| old.contains(o)))
            })
    }
}

/// From the result to an operand.
pub(super) fn backward(at: &Builder<'_>, operand: usize) -> MapOrCause {
    let scatter = Scatter::new(at)?;
    let mut draft = at.draft(at.output()?);
    match scatter.role(operand) {
        Role::Array => {
            let results = draft.dims();
            let is_exact = scatter.reads_old() && scatter.arrays == 1;
            let draft = if is_exact { draft } else { draft.superset() };
            draft.finish(results)
        }
        // Every index is looked at, for it may say this place.
        Role::Indices => {
            let indices = at.input(operand)?;
            let batching = &scatter.dims.scatter_indices_batching_dims;
            let mut results = Vec::new();
            for (dim, size) in indices.dims.iter().enumerate() {
                results.push(match place(batching, dim) {
                    Some(pair) => draft.dim(batching_dim(scatter.dims, pair, at.output()?.rank())?),
                    None => draft.range_over(size),
                });
            }
            draft.finish(results)
        }
        Role::Updates => {
            let indices = at.input(scatter.arrays)?;
            let mut window = Vec::new();
            for dim in scatter.index_dims()? {
                let batching = place(&scatter.dims.scatter_indices_batching_dims, dim);
                window.push(match batching {
                    Some(pair) => draft.dim(batching_dim(scatter.dims, pair, at.output()?.rank())?),
                    None => draft.range_over(indices.dims.get(dim).ok_or(Cause::Malformed)?),
                });
            }
            let sizes = scatter.window_sizes(&mut draft)?;
            let starts = scatter.starts(&mut draft, &window, &sizes)?;
            let mut offsets = Vec::new();
            for (dim, (start, size)) in starts.iter().zip(&sizes).enumerate() {
                if place(&scatter.dims.input_batching_dims, dim).is_some() {
                    continue;
                }
                let offset = draft.dim(dim).sub(start);
                draft.within(&offset, &last_index(size));
                if place(&scatter.dims.inserted_window_dims, dim).is_none() {
                    offsets.push(offset);
                }
            }
            let rank = at.input(operand)?.rank();
            let results = interleave(rank, &scatter.dims.update_window_dims, offsets, window)?;
            let draft = if scatter.arrays == 1 {
                draft
            } else {
                draft.superset()
            };
            draft.finish(results)
        }
    }
}

/// From an operand to the result.
pub(super) fn forward(at: &Builder<'_>, operand: usize) -> MapOrCause {
    let scatter = Scatter::new(at)?;
    match scatter.role(operand) {
        Role::Array => {
            let draft = at.draft(at.input(operand)?);
            let results = draft.dims();
            let is_exact = scatter.reads_old() && scatter.arrays == 1;
            let draft = if is_exact { draft } else { draft.superset() };
            draft.finish(results)
        }
        Role::Indices => {
            if scatter.dims.scatter_indices_batching_dims.is_empty() {
                return everywhere(at, operand);
            }
            let mut draft = at.draft(at.input(operand)?);
            let mut results = Vec::new();
            for (dim, size) in at.output()?.dims.iter().enumerate() {
                let pair = place(&scatter.dims.input_batching_dims, dim);
                let own =
                    pair.and_then(|pair| scatter.dims.scatter_indices_batching_dims.get(pair));
                results.push(match own {
                    Some(own) => draft.dim(index(*own, at.input(operand)?.rank())?),
                    None => draft.range_over(size),
                });
            }
            draft.finish(results)
        }
        Role::Updates => {
            let mut draft = at.draft(at.input(operand)?);
            let updates = at.input(operand)?.rank();
            let is_window = |dim: &usize| place(&scatter.dims.update_window_dims, *dim).is_some();
            let window: Vec<Term> = (0..updates)
                .filter(|dim| !is_window(dim))
                .map(|dim| draft.dim(dim))
                .collect();
            let sizes = scatter.window_sizes(&mut draft)?;
            let starts = scatter.starts(&mut draft, &window, &sizes)?;
            let mut own = (0..updates).filter(is_window);
            let mut results = Vec::new();
            for (dim, start) in starts.iter().enumerate() {
                let is_one = place(&scatter.dims.inserted_window_dims, dim).is_some()
                    || place(&scatter.dims.input_batching_dims, dim).is_some();
                results.push(if is_one {
                    start.clone()
                } else {
                    start.add(&draft.dim(own.next().ok_or(Cause::Malformed)?))
                });
            }
            let draft = if scatter.arrays == 1 {
                draft
            } else {
                draft.superset()
            };
            draft.finish(results)
        }
    }
}

/// The updated array's batching dimension of a pair.
fn batching_dim(dims: &ScatterDims, pair: usize, rank: usize) -> Result<usize, Cause> {
    index(
        *dims.input_batching_dims.get(pair).ok_or(Cause::Malformed)?,
        rank,
    )
}

/// The index of the updates: window offsets at the window dimensions, in order,
/// window numbers elsewhere.
fn interleave(
    rank: usize,
    window_dims: &DimNumbers,
    offsets: Vec<Term>,
    window: Vec<Term>,
) -> Result<Vec<Term>, Cause> {
    let (mut offsets, mut window) = (offsets.into_iter(), window.into_iter());
    let terms: Option<Vec<Term>> = (0..rank)
        .map(|dim| match place(window_dims, dim) {
            Some(_) => offsets.next(),
            None => window.next(),
        })
        .collect();
    let all_used = offsets.next().is_none() && window.next().is_none();
    terms.filter(|_| all_used).ok_or(Cause::Malformed)
}
