//! The roles of the dimensions of operands and results.

use super::{Dimensions, place};
use crate::{DimNumbers, DotDims, GatherDims, ScatterDims};
use smallvec::SmallVec;

/// The dimensions of an array of this rank that a reduction keeps, in order.
pub fn kept_dimensions(reduced: &[i64], rank: usize) -> Dimensions {
    (0..rank)
        .filter(|&dim| place(reduced, dim).is_none())
        .collect()
}

/// The role of a dimension of a dot product's operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DotDim {
    /// A batch dimension: both operands and the result have it. Holds the result's dimension.
    Batch(usize),
    /// A contracted dimension: both operands have it, and the product is summed over it. Holds its
    /// number among the contracted dimensions.
    Contracted(usize),
    /// A dimension that only this operand has. Holds the result's dimension.
    Free(usize),
}

impl DotDim {
    /// The dimension of the result that corresponds to this one, if any.
    pub fn in_result(self) -> Option<usize> {
        match self {
            Self::Batch(place) | Self::Free(place) => Some(place),
            Self::Contracted(_) => None,
        }
    }
}

/// The roles of the dimensions of a dot product. The result has the batch dimensions, then the left
/// operand's free dimensions, then the right operand's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DotRoles {
    /// The role of each dimension of the left and of the right operand.
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
    /// The free dimensions of an operand (0: left, 1: right), in order.
    pub fn free(&self, operand: usize) -> Dimensions {
        let dims = self.operands.get(operand).into_iter().flatten().enumerate();
        dims.filter(|(_, role)| matches!(role, DotDim::Free(_)))
            .map(|(dim, _)| dim)
            .collect()
    }
}

/// The roles of the dimensions of a gather or a scatter. A scatter is the inverse of a gather: its
/// updates correspond to the gather's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatherRoles {
    /// The dimensions of the result that correspond to dimensions of the indices, in order.
    pub batch: Dimensions,
    /// The corresponding dimensions of the indices: all but the index vector's.
    pub indices: Dimensions,
    /// The dimension of the indices that holds the components of an index; `None` if each index is
    /// a single number.
    pub vector: Option<usize>,
    /// The role of each dimension of the operand.
    pub operand: Vec<GatheredDim>,
}

/// A dimension of a gather's operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatheredDim {
    /// The dimension of the result that runs over the slice; `None` if the result
    /// does not have the dimension.
    pub offset: Option<usize>,
    /// The position in [`GatherRoles::batch`] of the paired batching dimension, whose index selects
    /// this dimension's element.
    pub paired: Option<usize>,
    /// The component of an index vector that is the start of the slice in this dimension.
    pub component: Option<usize>,
}

impl GatherRoles {
    /// The position in the indices array of a component of one index vector. `batch` selects the
    /// index vector: a number for each dimension of [`Self::batch`].
    pub fn place_of_index<I: Clone>(&self, batch: &[I], component: I) -> Vec<I> {
        let mut place = batch.to_vec();
        if let Some(vector) = self.vector {
            place.insert(vector.min(place.len()), component);
        }
        place
    }

    /// The position in the result of an element of a slice. `batch` selects the slice, and
    /// `offsets` are positions within it, one for each operand dimension that the result has, in
    /// order. `None` if there are too few or too many.
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

    /// The operand's batching dimension that is paired with the dimension of the indices that has
    /// this number in [`Self::indices`].
    pub fn paired_with(&self, number: usize) -> Option<usize> {
        self.operand
            .iter()
            .position(|dim| dim.paired == Some(number))
    }
}

/// The attributes that gathers and scatters share.
struct Attributes<'a> {
    offset: &'a DimNumbers,
    absent: &'a DimNumbers,
    batching: [&'a DimNumbers; 2],
    map: &'a DimNumbers,
    vector: i64,
}

impl Attributes<'_> {
    /// The roles for these ranks of the operand, the indices and the result.
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
    /// The roles for these ranks of the operand, the indices and the result; `None` if the ranks do
    /// not fit the attributes.
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
    /// The roles for these ranks of the operand, the indices and the updates; `None` if the ranks
    /// do not fit the attributes.
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
