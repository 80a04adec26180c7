//! What the dimensions of operands and results are for.

use super::{Dimensions, place};
use crate::{DimNumbers, DotDims, GatherDims, ScatterDims};
use smallvec::SmallVec;

/// The dimensions of an array of this rank that a reduction keeps, in order.
pub fn kept_dimensions(reduced: &[i64], rank: usize) -> Dimensions {
    (0..rank)
        .filter(|&dim| place(reduced, dim).is_none())
        .collect()
}

/// What a dimension of a dot product's operand is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DotDim {
    /// Both operands and the result have it: the result's dimension.
    Batch(usize),
    /// Both operands have it, and the product is summed over it: its number.
    Contracted(usize),
    /// The operand has it for itself: the result's dimension.
    Free(usize),
}

impl DotDim {
    /// The dimension of the result that it is.
    pub fn in_result(self) -> Option<usize> {
        match self {
            Self::Batch(place) | Self::Free(place) => Some(place),
            Self::Contracted(_) => None,
        }
    }
}

/// The dimensions of a dot product. The result has the batch dimensions, then the
/// left operand's own, then the right one's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DotRoles {
    /// What each dimension of an operand (left, right) is for.
    pub operands: [SmallVec<[DotDim; 6]>; 2],
}

impl DotDims {
    /// The roles of operands of these ranks; `None` if they have too few dimensions.
    pub fn roles(&self, ranks: [usize; 2]) -> Option<DotRoles> {
        let mut next = self.lhs_batch.len();
        let mut side = |batch: &[i64], contracting: &[i64], rank: usize| {
            let first = next;
            let dims = (0..rank).map(|dim| match (place(batch, dim), place(contracting, dim)) {
                (Some(number), _) => DotDim::Batch(number),
                (None, Some(number)) => DotDim::Contracted(number),
                (None, None) => {
                    next += 1;
                    DotDim::Free(next - 1)
                }
            });
            let dims: SmallVec<[DotDim; 6]> = dims.collect();
            (next - first + batch.len() + contracting.len() == rank).then_some(dims)
        };
        let left = side(&self.lhs_batch, &self.lhs_contracting, ranks[0])?;
        let right = side(&self.rhs_batch, &self.rhs_contracting, ranks[1])?;
        Some(DotRoles {
            operands: [left, right],
        })
    }
}

impl DotRoles {
    /// The dimensions that an operand (left, right) has for itself, in order.
    pub fn free(&self, operand: usize) -> Dimensions {
        let dims = self.operands.get(operand).into_iter().flatten().enumerate();
        dims.filter(|(_, role)| matches!(role, DotDim::Free(_)))
            .map(|(dim, _)| dim)
            .collect()
    }
}

/// The dimensions of a gather, or of a scatter, which is one written backwards: its
/// updates are the gather's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatherRoles {
    /// The dimensions of the result that run over the indices, in order.
    pub batch: Dimensions,
    /// The dimensions of the indices that those are: all but the index vector.
    pub indices: Dimensions,
    /// The dimension of the indices that holds an index's components; `None` if indices
    /// are single numbers.
    pub vector: Option<usize>,
    /// What each dimension of the operand is for.
    pub operand: Vec<GatheredDim>,
}

/// A dimension of a gather's operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatheredDim {
    /// The dimension of the result that runs over the slice; `None` if the result
    /// does not have the dimension.
    pub offset: Option<usize>,
    /// The place in [`GatherRoles::batch`] of the index that picks its element.
    pub paired: Option<usize>,
    /// The component of an index that says where the slice starts.
    pub component: Option<usize>,
}

impl GatherRoles {
    /// The place in the indices of a component of the index that `batch` numbers, one
    /// number for each of [`Self::batch`].
    pub fn place_of_index<I: Clone>(&self, batch: &[I], component: I) -> Vec<I> {
        let mut place = batch.to_vec();
        if let Some(vector) = self.vector {
            place.insert(vector.min(place.len()), component);
        }
        place
    }

    /// The place in the result of what lies at `offsets` in the slice that `batch`
    /// numbers: an offset for each dimension of the operand that has one, in order.
    /// `None` if there are too few or too many.
    pub fn place_in_result<I>(&self, batch: Vec<I>, offsets: Vec<I>) -> Option<Vec<I>> {
        let (mut batch, mut offsets) = (batch.into_iter(), offsets.into_iter());
        let own = self.operand.iter().filter(|dim| dim.offset.is_some());
        let place =
            (0..self.batch.len() + own.count()).map(|dim| match self.batch.contains(&dim) {
                true => batch.next(),
                false => offsets.next(),
            });
        let place: Option<Vec<I>> = place.collect();
        let all_used = batch.next().is_none() && offsets.next().is_none();
        place.filter(|_| all_used)
    }

    /// The operand's dimension whose element the indices' dimension `number` of
    /// [`Self::indices`] picks.
    pub fn paired_with(&self, number: usize) -> Option<usize> {
        self.operand
            .iter()
            .position(|dim| dim.paired == Some(number))
    }
}

/// The attributes that gathers and scatters have in common.
struct Attributes<'a> {
    offset: &'a DimNumbers,
    absent: &'a DimNumbers,
    batching: [&'a DimNumbers; 2],
    map: &'a DimNumbers,
    vector: i64,
}

impl Attributes<'_> {
    /// For ranks of the operand, the indices and the result.
    fn roles(&self, [operand, rank, result]: [usize; 3]) -> Option<GatherRoles> {
        let vector = usize::try_from(self.vector).ok().filter(|&v| v <= rank)?;
        let batch: Dimensions = (0..result)
            .filter(|&dim| place(self.offset, dim).is_none())
            .collect();
        let indices: Dimensions = (0..rank).filter(|&dim| dim != vector).collect();
        if batch.len() != indices.len() {
            return None;
        }
        let mut offsets = (0..result).filter(|&dim| place(self.offset, dim).is_some());
        let mut dims = Vec::with_capacity(operand);
        for dim in 0..operand {
            let pair = place(self.batching[0], dim);
            let paired = match pair {
                Some(pair) => {
                    let of = *self.batching[1].get(pair)?;
                    Some(indices.iter().position(|&i| usize::try_from(of) == Ok(i))?)
                }
                None => None,
            };
            let is_absent = paired.is_some() || place(self.absent, dim).is_some();
            dims.push(GatheredDim {
                offset: match is_absent {
                    true => None,
                    false => Some(offsets.next()?),
                },
                paired,
                component: place(self.map, dim),
            });
        }
        offsets.next().is_none().then_some(GatherRoles {
            batch,
            vector: (indices.len() < rank).then_some(vector),
            indices,
            operand: dims,
        })
    }
}

impl GatherDims {
    /// The roles for ranks of the operand, the indices and the result; `None` if they
    /// do not go together.
    pub fn roles(&self, ranks: [usize; 3]) -> Option<GatherRoles> {
        Attributes {
            offset: &self.offset_dims,
            absent: &self.collapsed_slice_dims,
            batching: [
                &self.operand_batching_dims,
                &self.start_indices_batching_dims,
            ],
            map: &self.start_index_map,
            vector: self.index_vector_dim,
        }
        .roles(ranks)
    }
}

impl ScatterDims {
    /// The roles for ranks of an array, the indices and its updates; `None` if they do
    /// not go together.
    pub fn roles(&self, ranks: [usize; 3]) -> Option<GatherRoles> {
        Attributes {
            offset: &self.update_window_dims,
            absent: &self.inserted_window_dims,
            batching: [
                &self.input_batching_dims,
                &self.scatter_indices_batching_dims,
            ],
            map: &self.scatter_dims_to_operand_dims,
            vector: self.index_vector_dim,
        }
        .roles(ranks)
    }
}
