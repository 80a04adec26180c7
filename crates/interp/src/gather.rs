//! `gather` and `scatter`.
//!
//! Both operations pair *index vectors* with *windows*. The index array holds a vector of starts
//! along `index_vector_dim`; its other dimensions, which are the batch dimensions of the updates or
//! result, select the vector. A window is a box of the operand; some of its dimensions, of size 1,
//! are left out (collapsed or inserted) or are paired with a dimension of the indices (batching).

use crate::callee::Callee;
use crate::error::{OpError, invalid};
use crate::movement::{indices, positions};
use crate::strided::{Sizes, Strides, Walk, product, read_along, row_major, sizes, write_along};
use smallvec::smallvec;
use tegula_ir::{ArrayShape, GatherDims, Literal, ScatterDims, TO_END};
use tegula_scalar::{Bits, BitsMut};

/// The index vectors of a gather or scatter.
struct Starts {
    /// The elements of the index array.
    values: Vec<i64>,
    /// The sizes of the index array without the vector dimension.
    batch: Sizes,
    /// The strides of the index array, by batch dimension.
    batch_strides: Strides,
    /// The distance between the components of a vector.
    component_stride: usize,
    /// The operand dimension of each component.
    components: Sizes,
    /// For each batching dimension, the operand dimension and the position in `batch`.
    batching: Vec<(usize, usize)>,
}

impl Starts {
    fn new(
        array: &Literal,
        vector_dim: i64,
        map: &[i64],
        operand_batching: &[i64],
        index_batching: &[i64],
        operand_rank: usize,
    ) -> Result<Self, OpError> {
        let mut dims = sizes(array);
        let values = indices(array)?;
        let mut strides = row_major(&dims);
        let vector_dim = usize::try_from(vector_dim)
            .ok()
            .filter(|&dim| dim <= dims.len())
            .ok_or_else(|| invalid("index_vector_dim is out of range"))?;
        let (mut components, mut component_stride) = (1, 0);
        if vector_dim < dims.len() {
            components = dims.remove(vector_dim);
            component_stride = strides.remove(vector_dim) as usize;
        }
        let map = positions(map, operand_rank)?;
        if map.len() != components {
            return Err(invalid(
                "expected index vectors with one component for each mapped dimension",
            ));
        }
        let operand_batching = positions(operand_batching, operand_rank)?;
        let in_array = positions(index_batching, array.shape().rank())?;
        if operand_batching.len() != in_array.len() || in_array.contains(&vector_dim) {
            return Err(invalid(
                "expected equal numbers of batching dimensions of operand and indices, without index_vector_dim",
            ));
        }
        let in_batch = in_array
            .iter()
            .map(|&d| if d > vector_dim { d - 1 } else { d });
        Ok(Self {
            values,
            batch_strides: strides,
            batch: dims,
            component_stride,
            components: map,
            batching: operand_batching.iter().copied().zip(in_batch).collect(),
        })
    }

    /// The start of an index's window in the operand, not clamped.
    fn at(&self, batch_index: &[usize], operand_rank: usize) -> Vec<i64> {
        let mut start = vec![0; operand_rank];
        let base: isize = (batch_index.iter().zip(&self.batch_strides))
            .map(|(&index, &stride)| index as isize * stride)
            .sum();
        for (component, &dim) in self.components.iter().enumerate() {
            let place = base as usize + component * self.component_stride;
            start[dim] = self.values.get(place).copied().unwrap_or(0);
        }
        for &(dim, batch) in &self.batching {
            start[dim] = batch_index[batch] as i64;
        }
        start
    }
}

/// Calls `visit` with every index below `dims`, the last dimension fastest.
fn for_each_index(
    dims: &[usize],
    mut visit: impl FnMut(&[usize]) -> Result<(), OpError>,
) -> Result<(), OpError> {
    let mut index: Sizes = smallvec![0; dims.len()];
    for _ in 0..product(dims) {
        tegula_limits::check()?;
        visit(&index)?;
        for (i, &size) in index.iter_mut().zip(dims).rev() {
            *i += 1;
            if *i < size {
                break;
            }
            *i = 0;
        }
    }
    Ok(())
}

/// The dimensions below `rank` that are in neither list, in order.
fn others(rank: usize, a: &[usize], b: &[usize]) -> Sizes {
    (0..rank)
        .filter(|d| !a.contains(d) && !b.contains(d))
        .collect()
}

/// Evaluates `gather(operand, indices)`: a window for each index vector, its start clamped so that
/// the window lies inside the operand.
pub(crate) fn gather(
    operand: &Literal,
    index_array: &Literal,
    shape: &ArrayShape,
    dims: &GatherDims,
    slice_sizes: &[i64],
) -> Result<Literal, OpError> {
    let operand_dims = sizes(operand);
    let rank = operand_dims.len();
    let starts = Starts::new(
        index_array,
        dims.index_vector_dim,
        &dims.start_index_map,
        &dims.operand_batching_dims,
        &dims.start_indices_batching_dims,
        rank,
    )?;
    let slice: Sizes = slice_sizes
        .iter()
        .zip(&operand_dims)
        .map(|(&size, &whole)| match size {
            TO_END => whole,
            size => size.max(0) as usize,
        })
        .collect();
    let larger = slice.iter().zip(&operand_dims).any(|(s, d)| s > d);
    // Without index vectors no slice is taken, so any slice size is valid.
    if slice.len() != rank || larger && !starts.batch.contains(&0) {
        return Err(invalid(
            "expected slice sizes, one for each dimension, that are at most the operand's sizes",
        ));
    }
    let mut result = Literal::zeros(shape)?;
    let out_dims = sizes(&result);
    let out_strides = row_major(&out_dims);
    let offset_dims = positions(&dims.offset_dims, out_dims.len())?;
    let batch_dims = others(out_dims.len(), &offset_dims, &[]);
    let kept = others(
        rank,
        &positions(&dims.collapsed_slice_dims, rank)?,
        &positions(&dims.operand_batching_dims, rank)?,
    );
    let agrees = kept.len() == offset_dims.len()
        && kept
            .iter()
            .zip(&offset_dims)
            .all(|(&k, &o)| slice[k] == out_dims[o])
        && batch_dims.len() == starts.batch.len()
        && batch_dims
            .iter()
            .zip(&starts.batch)
            .all(|(&d, &b)| out_dims[d] == b)
        && operand.element_type() == shape.element_type;
    if !agrees {
        return Err(invalid(
            "the stated shape of the result differs from the computed one",
        ));
    }
    let operand_strides = row_major(&operand_dims);
    let size = shape.element_type.storage_bytes();
    let window: Sizes = kept.iter().map(|&d| slice[d]).collect();
    let mut buffer = vec![0u8; product(&window) * size];
    let mut from = Walk {
        dims: window.clone(),
        offset: 0,
        strides: kept.iter().map(|&d| operand_strides[d]).collect(),
    };
    let mut to = Walk {
        dims: window,
        offset: 0,
        strides: offset_dims.iter().map(|&d| out_strides[d]).collect(),
    };
    for_each_index(&starts.batch, |batch| {
        let start = starts.at(batch, rank);
        from.offset = (0..rank)
            .map(|d| {
                start[d].clamp(0, (operand_dims[d] - slice[d]) as i64) as isize * operand_strides[d]
            })
            .sum();
        to.offset = (batch.iter().zip(&batch_dims))
            .map(|(&index, &d)| index as isize * out_strides[d])
            .sum();
        read_along(&mut buffer, operand.bytes(), size, &from)?;
        write_along(result.bytes_mut(), &buffer, size, &to)
    })?;
    Ok(result)
}

/// Evaluates `scatter(operands..., indices, updates...)`: combines each window of the updates into
/// the operands, in the order of the updates. A window that is not completely inside is skipped.
pub(crate) fn scatter(
    mut operands: Vec<Literal>,
    index_array: &Literal,
    updates: &[&Literal],
    dims: &ScatterDims,
    combine: &mut Callee<'_, '_>,
) -> Result<Vec<Literal>, OpError> {
    let (Some(first), Some(update)) = (operands.first(), updates.first()) else {
        return Err(invalid("expected at least one operand and one update"));
    };
    let (operand_dims, update_dims) = (sizes(first), sizes(update));
    let agrees = operands.iter().all(|o| sizes(o) == operand_dims)
        && updates.iter().all(|u| sizes(u) == update_dims)
        && operands.len() == updates.len()
        && operands
            .iter()
            .zip(updates)
            .all(|(o, u)| o.element_type() == u.element_type());
    if !agrees {
        return Err(invalid(
            "expected operands of equal shapes, and updates of equal shapes and of the operands' types",
        ));
    }
    let rank = operand_dims.len();
    let starts = Starts::new(
        index_array,
        dims.index_vector_dim,
        &dims.scatter_dims_to_operand_dims,
        &dims.input_batching_dims,
        &dims.scatter_indices_batching_dims,
        rank,
    )?;
    let window_dims = positions(&dims.update_window_dims, update_dims.len())?;
    let batch_dims = others(update_dims.len(), &window_dims, &[]);
    let kept = others(
        rank,
        &positions(&dims.inserted_window_dims, rank)?,
        &positions(&dims.input_batching_dims, rank)?,
    );
    let agrees = kept.len() == window_dims.len()
        && batch_dims.len() == starts.batch.len()
        && batch_dims
            .iter()
            .zip(&starts.batch)
            .all(|(&d, &b)| update_dims[d] == b);
    if !agrees {
        return Err(invalid(
            "the updates' shape does not fit the operand, the indices and the dimension numbers",
        ));
    }
    // The size of the window along each operand dimension.
    let mut window: Sizes = smallvec![1; rank];
    for (&k, &w) in kept.iter().zip(&window_dims) {
        window[k] = update_dims[w];
    }
    let (operand_strides, update_strides) = (row_major(&operand_dims), row_major(&update_dims));
    let window_sizes: Sizes = kept.iter().map(|&d| window[d]).collect();
    let into = Walk {
        dims: window_sizes.clone(),
        offset: 0,
        strides: kept.iter().map(|&d| operand_strides[d]).collect(),
    };
    let from = Walk {
        dims: window_sizes,
        offset: 0,
        strides: window_dims.iter().map(|&d| update_strides[d]).collect(),
    };
    let places: Vec<(isize, isize)> = into.offsets().into_iter().zip(from.offsets()).collect();
    let update_bits: Vec<Bits<'_>> = updates.iter().map(|u| Bits::of(u)).collect();
    let mut operand_bits: Vec<BitsMut<'_>> = operands.iter_mut().map(BitsMut::of).collect();
    for_each_index(&starts.batch, |batch| {
        let start = starts.at(batch, rank);
        let inside = (0..rank)
            .all(|d| start[d] >= 0 && start[d] <= operand_dims[d] as i64 - window[d] as i64);
        if !inside {
            return Ok(());
        }
        let base: isize = (0..rank)
            .map(|d| start[d] as isize * operand_strides[d])
            .sum();
        let update_base: isize = (batch.iter().zip(&batch_dims))
            .map(|(&index, &d)| index as isize * update_strides[d])
            .sum();
        for &(to, from) in &places {
            let (to, from) = ((base + to) as usize, (update_base + from) as usize);
            let old = operand_bits.iter().map(|o| o.get(to));
            let new = update_bits.iter().map(|u| u.get(from));
            let arguments: smallvec::SmallVec<[u128; 4]> = old.chain(new).collect();
            let combined = combine.call(&arguments)?;
            for (operand, value) in operand_bits.iter_mut().zip(combined) {
                operand.set(to, value);
            }
        }
        Ok(())
    })?;
    Ok(operands)
}
