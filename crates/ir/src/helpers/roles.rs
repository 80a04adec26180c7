//! What the dimensions of operands and results are for.

use super::{Dimensions, place};
use crate::{DimNumbers, DotDims, GatherDims, ScatterDims};

/// The dimensions of an array of this rank that a reduction keeps, in order.
pub fn kept_dimensions(reduced: &[i64], rank: usize) -> Dimensions {
    (0..rank)
        .filter(|&dim| place(reduced, dim).is_none())
        .collect()
}

/// The dimensions of a dot product. The result has the batch dimensions, then the
/// left operand's own, then the right one's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DotRoles {
    /// The number of batch dimensions.
    pub batch: usize,
    /// The dimensions that an operand (left, right) has for itself, in order.
    pub free: [Dimensions; 2],
}

impl DotDims {
    /// The roles of operands of these ranks; `None` if they have too few dimensions.
    pub fn roles(&self, ranks: [usize; 2]) -> Option<DotRoles> {
        let lists = [
            [&self.lhs_batch, &self.lhs_contracting],
            [&self.rhs_batch, &self.rhs_contracting],
        ];
        let free = |operand: usize| {
            let [batch, contracting] = lists[operand];
            let used = |dim| place(batch, dim).or(place(contracting, dim)).is_some();
            let free: Dimensions = (0..ranks[operand]).filter(|&dim| !used(dim)).collect();
            (free.len() + batch.len() + contracting.len() == ranks[operand]).then_some(free)
        };
        Some(DotRoles {
            batch: self.lhs_batch.len(),
            free: [free(0)?, free(1)?],
        })
    }
}

impl DotRoles {
    /// The first dimension of the result that an operand has for itself.
    pub fn first_free(&self, operand: usize) -> usize {
        match operand {
            0 => self.batch,
            _ => self.batch + self.free[0].len(),
        }
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
    fn roles(&self, [operand, indices, result]: [usize; 3]) -> Option<GatherRoles> {
        let vector = usize::try_from(self.vector)
            .ok()
            .filter(|&v| v <= indices)?;
        let batch: Dimensions = (0..result)
            .filter(|&dim| place(self.offset, dim).is_none())
            .collect();
        let indices: Dimensions = (0..indices).filter(|&dim| dim != vector).collect();
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
