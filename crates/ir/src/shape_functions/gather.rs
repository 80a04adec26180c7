//! Shape functions of gather and scatter.

use super::context::{Context, Inferred, ShapeOf, Sizes, array};
use crate::helpers::up_to;
use crate::{DimNumbers, Error, GatherDims, ScatterDims};
use smallvec::SmallVec;
use tegula_expr::Provider;

impl<P: Provider> Context<'_, P> {
    /// The sizes of the indices without the index vector's dimension, and the number of components
    /// of an index.
    fn index_sizes(
        &mut self,
        operand: usize,
        vector_dim: i64,
    ) -> Result<(Sizes<P::Index>, P::Index), Error> {
        self.expect_integers(operand)?;
        let mut sizes = self.dims(operand)?;
        // If the index vector's dimension is one past the last, each index is a single number.
        let place = self.in_rank(vector_dim, sizes.len() + 1)?;
        let components = match place == sizes.len() {
            true => self.literal(1),
            false => sizes.remove(place),
        };
        Ok((sizes, components))
    }

    /// Checks that an index has one component for each entry of the map into the operand's
    /// dimensions, and that batching dimensions are paired.
    fn check_index_map(
        &mut self,
        map: &DimNumbers,
        components: &P::Index,
        batching: (&DimNumbers, &DimNumbers),
        indices: usize,
    ) -> Result<(), Error> {
        let rank = self.rank(0)?;
        self.distinct(map, rank)?;
        let count = self.literal(map.len() as i64);
        self.same(&count, components, "mapped dimensions and index components")?;
        let operand_dims = self.increasing(batching.0, rank)?;
        let index_dims = self.distinct(batching.1, self.rank(indices)?)?;
        if operand_dims.len() != index_dims.len() {
            return Err(self.error("batching dimensions must come in pairs"));
        }
        for (&o, &i) in operand_dims.iter().zip(&index_dims) {
            let (o, i) = (self.provider.shape(0, o), self.provider.shape(indices, i));
            self.same(&o, &i, "sizes of paired batching dimensions")?;
        }
        let both: DimNumbers = map.iter().chain(batching.0).copied().collect();
        self.distinct(&both, rank)?;
        Ok(())
    }

    /// The result has slice dimensions at `offset_dims` and index dimensions in the other places.
    pub(super) fn gather(
        &mut self,
        dims: &GatherDims,
        slice_sizes: &DimNumbers,
    ) -> Inferred<P::Index> {
        let ty = self.array(0)?.element_type;
        let rank = self.rank(0)?;
        self.expect_count(slice_sizes.len(), "slice sizes")?;
        let (index_sizes, components) = self.index_sizes(1, dims.index_vector_dim)?;
        let batching = (
            &dims.operand_batching_dims,
            &dims.start_indices_batching_dims,
        );
        self.check_index_map(&dims.start_index_map, &components, batching, 1)?;
        let removed: DimNumbers = dims
            .collapsed_slice_dims
            .iter()
            .chain(&dims.operand_batching_dims)
            .copied()
            .collect();
        self.increasing(&dims.collapsed_slice_dims, rank)?;
        let removed = self.distinct(&removed, rank)?;
        // This is 1, or 0 if there are no indices and so no slices.
        let one = self.literal(1);
        let mut any = one.clone();
        for size in &index_sizes {
            let some = self.provider.min(size, &one);
            any = self.provider.mul(&any, &some);
        }
        let mut slice: SmallVec<[i64; 6]> = SmallVec::new();
        let mut taken: Sizes<P::Index> = SmallVec::new();
        for (dim, &size) in slice_sizes.iter().enumerate() {
            let whole = self.provider.shape(0, dim);
            let literal = up_to(self.provider, size, &whole);
            taken.push(literal.clone());
            let needed = self.provider.mul(&literal, &any);
            self.at_most(
                &needed,
                &whole,
                format_args!("the slice of dimension {dim}"),
            )?;
            if size < 0 {
                return Err(self.error(format_args!("slice size {size} in dimension {dim}")));
            }
            // A collapsed dimension must contribute exactly one element: with an empty slice, the
            // result's elements would have no value.
            if removed.contains(&dim) && size != 1 {
                return Err(self.error(format_args!(
                    "the slice of dimension {dim}, which the result does not have, must be 1, not {size}"
                )));
            }
            if !removed.contains(&dim) {
                slice.push(size);
            }
        }
        let offsets = self.increasing(&dims.offset_dims, slice.len() + index_sizes.len())?;
        if offsets.len() != slice.len() {
            return Err(self.error(format_args!(
                "{} offset dimensions for a slice of {} dimensions",
                offsets.len(),
                slice.len()
            )));
        }
        let total = slice.len() + index_sizes.len();
        let roles = dims.roles([rank, self.rank(1)?, total]);
        let roles = roles.ok_or_else(|| self.error("the dimension numbers are inconsistent"))?;
        let zero = self.literal(0);
        let mut result: Sizes<P::Index> = SmallVec::from_elem(zero, total);
        let offsets = roles.operand.iter().map(|dim| dim.offset).zip(taken);
        for (place, size) in offsets {
            if let Some(slot) = place.and_then(|place| result.get_mut(place)) {
                *slot = size;
            }
        }
        for (&place, size) in roles.batch.iter().zip(index_sizes) {
            if let Some(slot) = result.get_mut(place) {
                *slot = size;
            }
        }
        Ok(array(ty, result))
    }

    /// The result has the operands' shapes. The updates have the index dimensions, with the window
    /// dimensions inserted.
    pub(super) fn scatter(&mut self, dims: &ScatterDims) -> Inferred<P::Index> {
        let count = self.operands.len();
        if count.is_multiple_of(2) {
            return Err(self.error("expected as many updates as operands, and indices"));
        }
        let inputs = count / 2;
        let rank = self.rank(0)?;
        let (index_sizes, components) = self.index_sizes(inputs, dims.index_vector_dim)?;
        let batching = (
            &dims.input_batching_dims,
            &dims.scatter_indices_batching_dims,
        );
        self.check_index_map(
            &dims.scatter_dims_to_operand_dims,
            &components,
            batching,
            inputs,
        )?;
        let absent: DimNumbers = dims
            .inserted_window_dims
            .iter()
            .chain(&dims.input_batching_dims)
            .copied()
            .collect();
        self.increasing(&dims.inserted_window_dims, rank)?;
        self.distinct(&absent, rank)?;
        for input in 0..inputs {
            let update = inputs + 1 + input;
            self.expect_type(update, self.array(input)?.element_type)?;
            self.same_dims(0, input)?;
            self.check_update(update, dims, inputs, &index_sizes)?;
        }
        if inputs == 1 {
            return self.same_as(0);
        }
        let results: Result<Vec<_>, Error> = (0..inputs).map(|input| self.same_as(input)).collect();
        Ok(ShapeOf::Tuple(results?))
    }

    fn check_update(
        &mut self,
        update: usize,
        dims: &ScatterDims,
        indices: usize,
        index_sizes: &[P::Index],
    ) -> Result<(), Error> {
        let ranks = [self.rank(0)?, self.rank(indices)?, self.rank(update)?];
        self.increasing(&dims.update_window_dims, ranks[2])?;
        let roles = dims.roles(ranks).ok_or_else(|| {
            self.error("the number of update dimensions does not fit the indices and windows")
        })?;
        for (dim, gathered) in roles.operand.iter().enumerate() {
            if let Some(place) = gathered.offset {
                let size = self.provider.shape(update, place);
                let whole = self.provider.shape(0, dim);
                let what = format!("the window of dimension {place}");
                self.at_most(&size, &whole, what)?;
            }
        }
        for (&place, index_size) in roles.batch.iter().zip(index_sizes) {
            let size = self.provider.shape(update, place);
            let what = format!("sizes of update dimension {place} and of the indices");
            self.same(&size, index_size, what)?;
        }
        Ok(())
    }
}
