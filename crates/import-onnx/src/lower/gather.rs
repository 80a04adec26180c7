//! Gathers and scatters at indices that depend on data.

use super::{Fold, Lowerer, Result, Value};
use crate::Error;
use tegula_expr::Term;
use tegula_ir::{
    Binary, ComputationId, DimNumbers, Direction, Draft, ElementType, GatherDims, Op, ScatterDims,
    Shape, TO_END,
};

fn numbers(list: impl IntoIterator<Item = usize>) -> DimNumbers {
    list.into_iter().map(|at| at as i64).collect()
}

impl Lowerer<'_> {
    /// Converts negative indices, which count from the end, to non-negative ones.
    pub(crate) fn counted_indices(&mut self, indices: &Value, size: &Term) -> Result<Value> {
        let indices = self.convert(indices, ElementType::S64)?;
        if indices
            .integers()
            .is_some_and(|all| all.iter().all(|x| *x >= 0))
        {
            return Ok(indices);
        }
        let size = self.of_terms(ElementType::S64, &[], std::slice::from_ref(size))?;
        let zero = self.like(&indices, 0.0)?;
        let is_negative = self.compare(Direction::Lt, &indices, &zero)?;
        let moved = self.add(&indices, &size)?;
        self.select(&is_negative, &moved, &indices)
    }

    /// Gathers slices along one dimension at non-negative indices. The dimensions of the indices
    /// replace that dimension.
    pub(crate) fn take(&mut self, value: &Value, indices: &Value, along: usize) -> Result<Value> {
        value.size(along)?;
        let dims = [
            &value.dims[..along],
            &indices.dims,
            &value.dims[along + 1..],
        ]
        .concat();
        if let (Some(out), Some(list)) = (self.followed_dims(value, &dims), indices.integers()) {
            let own = indices.static_dims().unwrap_or_default();
            let end = along + own.len();
            return self.rearranged(value, &out, &|index| {
                let flat = index[along..end]
                    .iter()
                    .zip(&own)
                    .fold(0, |flat, (at, size)| flat * size + at);
                let picked = list.get(flat as usize).copied().unwrap_or(-1);
                [&index[..along], &[picked], &index[end..]].concat()
            });
        }
        let rank = indices.rank();
        let gather = GatherDims {
            offset_dims: numbers((0..dims.len()).filter(|at| *at < along || *at >= along + rank)),
            collapsed_slice_dims: numbers([along]),
            start_index_map: numbers([along]),
            operand_batching_dims: DimNumbers::new(),
            start_indices_batching_dims: DimNumbers::new(),
            index_vector_dim: rank as i64,
        };
        let lengths = value.dims.iter().enumerate();
        let slice_sizes = lengths.map(|(at, size)| match at == along {
            true => 1,
            false => size.as_constant().unwrap_or(TO_END),
        });
        let op = Op::Gather {
            dims: gather,
            slice_sizes: slice_sizes.collect(),
            indices_are_sorted: false,
        };
        let operands = [self.local(value)?, self.local(indices)?];
        self.push(op, &operands, value.ty, &dims)
    }

    /// Gathers slices at index vectors, which are the last dimension of `indices`. The first
    /// `batch` dimensions of both arrays are paired.
    pub(crate) fn gather_nd(
        &mut self,
        value: &Value,
        indices: &Value,
        batch: usize,
    ) -> Result<Value> {
        let (lead, count) = self.index_vector(value, indices, batch)?;
        let indices = self.nd_indices(value, indices, batch, count)?;
        let rest = batch + count..value.rank();
        let mut dims = indices.dims[..lead].to_vec();
        dims.extend_from_slice(&value.dims[rest.clone()]);
        let gather = GatherDims {
            offset_dims: numbers(lead..dims.len()),
            collapsed_slice_dims: numbers(batch..batch + count),
            start_index_map: numbers(batch..batch + count),
            operand_batching_dims: numbers(0..batch),
            start_indices_batching_dims: numbers(0..batch),
            index_vector_dim: lead as i64,
        };
        let lengths = value.dims.iter().enumerate();
        let slice_sizes = lengths.map(|(at, size)| match rest.contains(&at) {
            true => size.as_constant().unwrap_or(TO_END),
            false => 1,
        });
        let op = Op::Gather {
            dims: gather,
            slice_sizes: slice_sizes.collect(),
            indices_are_sorted: false,
        };
        let operands = [self.local(value)?, self.local(&indices)?];
        self.push(op, &operands, value.ty, &dims)
    }

    /// The number of the indices' dimensions before the index vectors, and the size of these
    /// vectors.
    fn index_vector(&self, value: &Value, indices: &Value, batch: usize) -> Result<(usize, usize)> {
        let lead = indices.rank().checked_sub(1);
        let count = indices.dims.last().and_then(Term::as_constant);
        let (Some(lead), Some(count)) = (lead, count.and_then(|n| usize::try_from(n).ok())) else {
            return Err(Error::unsupported(
                "indices whose last dimension has an unknown size are not supported",
            ));
        };
        if batch + count > value.rank() || batch > lead {
            return Err(Error::input(format!(
                "index vectors of {count} elements do not fit an array of {} dimensions",
                value.rank()
            )));
        }
        Ok((lead, count))
    }

    fn nd_indices(
        &mut self,
        value: &Value,
        indices: &Value,
        batch: usize,
        count: usize,
    ) -> Result<Value> {
        let indices = self.convert(indices, ElementType::S64)?;
        let sizes = self.dims_value(&value.dims[batch..batch + count])?;
        let zero = self.like(&indices, 0.0)?;
        let is_negative = self.compare(Direction::Lt, &indices, &zero)?;
        let moved = self.add(&indices, &sizes)?;
        self.select(&is_negative, &moved, &indices)
    }

    /// For each element of `indices`, which is a position along one dimension: the vector of its
    /// full index.
    pub(crate) fn whole_index(
        &mut self,
        data: &Value,
        indices: &Value,
        along: usize,
    ) -> Result<Value> {
        let indices = self.counted_indices(indices, &data.dims[along])?;
        let mut parts = Vec::new();
        for at in 0..data.rank() {
            let part = match at == along {
                true => indices.clone(),
                false => self.iota(ElementType::S64, &indices.dims, at)?,
            };
            parts.push(self.unsqueeze(&part, indices.rank())?);
        }
        self.concat(&parts, indices.rank())
    }

    /// Scatters elements or slices of `updates` at index vectors, combining them with existing
    /// elements.
    pub(crate) fn scatter_nd(
        &mut self,
        value: &Value,
        indices: &Value,
        updates: &Value,
        combine: Option<Binary>,
    ) -> Result<Value> {
        let (lead, count) = self.index_vector(value, indices, 0)?;
        let indices = self.nd_indices(value, indices, 0, count)?;
        let dims = ScatterDims {
            update_window_dims: numbers(lead..updates.rank()),
            inserted_window_dims: numbers(0..count),
            scatter_dims_to_operand_dims: numbers(0..count),
            input_batching_dims: DimNumbers::new(),
            scatter_indices_batching_dims: DimNumbers::new(),
            index_vector_dim: lead as i64,
        };
        let to_apply = match combine {
            Some(op) => self.reducer(op, value.ty)?,
            None => self.second(value.ty)?,
        };
        let op = Op::Scatter {
            dims,
            indices_are_sorted: false,
            unique_indices: false,
            to_apply,
        };
        let operands = [
            self.local(value)?,
            self.local(&indices)?,
            self.local(updates)?,
        ];
        self.push(op, &operands, value.ty, &value.dims)
    }

    /// A computation that returns its second parameter.
    fn second(&mut self, ty: ElementType) -> Result<ComputationId> {
        let mut draft = Draft::new("second");
        draft.parameter(Shape::array(ty, &[]), None);
        let second = draft.parameter(Shape::array(ty, &[]), None);
        Ok(draft.finish(&mut self.builder, second)?)
    }

    /// The prefix combination along a dimension: each result combines an element with all before
    /// it.
    pub(crate) fn running(&mut self, value: &Value, along: usize, fold: Fold) -> Result<Value> {
        let init = self.identity(fold, value.ty)?;
        if let Some(size) = value.dims[along].as_constant() {
            let mut window = vec![tegula_ir::WindowDim::TRIVIAL; value.rank()];
            window[along].size = size.max(1);
            window[along].padding_low = size.max(1) - 1;
            return self.window(value, &init, fold, window);
        }
        // A loop that carries the prefix combination.
        let mut slice = value.dims.clone();
        slice.remove(along);
        let rows = self.at_least_one(value, along)?;
        let whole = self.splat(value.ty, 0.0, &rows.dims)?;
        let so_far = self.broadcast_to(&init, &slice)?;
        let counter = self.scalar(ElementType::S64, 0.0)?;
        let length = value.dims[along].clone();
        let size = self.of_terms(ElementType::S64, &[], std::slice::from_ref(&length))?;
        let state = [counter, size, rows, so_far, whole];
        let done = self.while_loop(
            &state,
            |lower, state| lower.compare(Direction::Lt, &state[0], &state[1]),
            |lower, state| {
                let row = lower.at_index(&state[2], along, &state[0])?;
                let so_far = lower.binary(fold.op(), &state[3], &row)?;
                let whole = lower.with_row(&state[4], along, &state[0], &so_far)?;
                let next = lower.shifted(&state[0], 1.0)?;
                Ok(vec![
                    next,
                    state[1].clone(),
                    state[2].clone(),
                    so_far,
                    whole,
                ])
            },
        )?;
        self.slice(&done[4], along, &Term::constant(0), &length, 1)
    }
}
