//! Forms of gathers and scatters whose arrays have other orders.
//!
//! The slice dimensions take the operand's order, and the index dimensions take the order of the
//! indices. So the order of the operand determines the order within slices, wherever the slice
//! dimensions are in the other array. The indices keep their order, and a scatter processes them in
//! the same sequence, because sums and last writers depend on it.

use super::forms::{Asked, Form, listed, moved, sorted};
use super::order::{Permutation, inverse, row_major};
use tegula_ir::{DimNumbers, GatherDims, Op, ScatterDims};

/// The order of an array whose slices have the operand's order. `slices` are its dimensions that
/// run over slices, one for each dimension of the operand that `absent` does not contain, in order.
/// They keep the positions that slices have in `wanted`; the other dimensions are in ascending
/// order.
fn following(
    wanted: &[usize],
    slices: &[i64],
    operand: &[usize],
    absent: &[&DimNumbers],
) -> Option<Permutation> {
    let is_absent = |dim: usize| {
        let mut all = absent.iter().flat_map(|list| list.iter());
        all.any(|&d| usize::try_from(d) == Ok(dim))
    };
    let present: Vec<usize> = (0..operand.len()).filter(|&d| !is_absent(d)).collect();
    if present.len() != slices.len() {
        return None;
    }
    let of_operand = |dim: usize| {
        let number = present.iter().position(|&d| d == dim)?;
        usize::try_from(*slices.get(number)?).ok()
    };
    let mut own = operand
        .iter()
        .filter(|&&d| !is_absent(d))
        .map(|&d| of_operand(d));
    let is_slice = |dim: usize| slices.iter().any(|&d| usize::try_from(d) == Ok(dim));
    let mut others = (0..wanted.len()).filter(|&dim| !is_slice(dim));
    let dims = wanted.iter().map(|&dim| match is_slice(dim) {
        true => own.next()?,
        false => others.next(),
    });
    dims.collect()
}

/// Pairs of batching dimensions, sorted by the new numbers of the operand's.
fn paired(operand: &[i64], indices: &[i64], places: &[usize]) -> Option<(DimNumbers, DimNumbers)> {
    let moved = moved(operand, places)?;
    let mut pairs: Vec<(i64, i64)> = moved.into_iter().zip(indices.iter().copied()).collect();
    pairs.sort_unstable();
    Some(pairs.into_iter().unzip())
}

impl Asked<'_> {
    pub(super) fn gather(&self) -> Option<Form> {
        let Op::Gather {
            dims,
            slice_sizes,
            indices_are_sorted,
        } = self.op
        else {
            return None;
        };
        let [own, indices] = self.own else {
            return None;
        };
        let places = inverse(own);
        let absent = [&dims.collapsed_slice_dims, &dims.operand_batching_dims];
        let gives = following(self.wanted, &dims.offset_dims, own, &absent)?;
        let (operand_batching_dims, start_indices_batching_dims) = paired(
            &dims.operand_batching_dims,
            &dims.start_indices_batching_dims,
            &places,
        )?;
        let op = Op::Gather {
            dims: GatherDims {
                offset_dims: sorted(moved(&dims.offset_dims, &inverse(&gives))?),
                collapsed_slice_dims: sorted(moved(&dims.collapsed_slice_dims, &places)?),
                start_index_map: moved(&dims.start_index_map, &places)?,
                operand_batching_dims,
                start_indices_batching_dims,
                index_vector_dim: dims.index_vector_dim,
            },
            slice_sizes: listed(slice_sizes, own)?,
            indices_are_sorted: *indices_are_sorted,
        };
        let takes = [own.clone(), row_major(indices.len())];
        self.with(op, takes.into_iter().collect(), &gives)
    }

    pub(super) fn scatter(&self) -> Option<Form> {
        let Op::Scatter {
            dims,
            indices_are_sorted,
            unique_indices,
            to_apply,
        } = self.op
        else {
            return None;
        };
        let arrays = self.results.len();
        let order = self.wanted;
        let places = inverse(order);
        let absent = [&dims.inserted_window_dims, &dims.input_batching_dims];
        let own = self.own.get(arrays + 1)?;
        let updates = following(own, &dims.update_window_dims, order, &absent)?;
        let (input_batching_dims, scatter_indices_batching_dims) = paired(
            &dims.input_batching_dims,
            &dims.scatter_indices_batching_dims,
            &places,
        )?;
        let op = Op::Scatter {
            dims: ScatterDims {
                update_window_dims: sorted(moved(&dims.update_window_dims, &inverse(&updates))?),
                inserted_window_dims: sorted(moved(&dims.inserted_window_dims, &places)?),
                scatter_dims_to_operand_dims: moved(&dims.scatter_dims_to_operand_dims, &places)?,
                input_batching_dims,
                scatter_indices_batching_dims,
                index_vector_dim: dims.index_vector_dim,
            },
            indices_are_sorted: *indices_are_sorted,
            unique_indices: *unique_indices,
            to_apply: *to_apply,
        };
        let takes = self.operands.iter().enumerate().map(|(number, shape)| {
            if number < arrays {
                order.clone()
            } else if number == arrays {
                row_major(shape.rank())
            } else {
                updates.clone()
            }
        });
        self.with(op, takes.collect(), order)
    }
}
