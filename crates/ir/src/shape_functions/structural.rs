//! Shape functions of operations that move elements.

use super::context::{Context, Inferred, ShapeOf, array};
use crate::helpers::{ConcatenateSizes, ReshapeSizes, up_to};
use crate::{ArrayShape, Dim, DimNumbers, Error, PadDim, Shape, SliceDim, TO_END};
use tegula_expr::Provider;

impl<P: Provider> Context<'_, P> {
    /// Dimensions that come from the operand have its sizes; the other sizes are stated. The
    /// element type is the operand's.
    pub(super) fn broadcast(&mut self, dimensions: &DimNumbers) -> Inferred<P::Index> {
        let operand = self.array(0)?;
        let rank = operand.rank();
        if dimensions.len() != rank {
            return Err(self.error(format_args!(
                "the operand has {rank} dimensions, but {} are mapped",
                dimensions.len()
            )));
        }
        let stated = match self.stated {
            // If no dimension is added, the operand determines the shape.
            None if self.distinct(dimensions, rank).is_ok_and(|d| d.is_sorted()) => operand,
            _ => self.stated_array()?,
        };
        let places = self.distinct(dimensions, stated.rank())?;
        for (dim, &place) in places.iter().enumerate() {
            let size = self.provider.shape(0, dim);
            if let Some(Dim::Static(expected)) = stated.dims.get(place) {
                let expected = self.literal(*expected);
                let what = format!("sizes of operand dimension {dim} and result dimension {place}");
                self.same(&size, &expected, what)?;
            }
        }
        self.with_stated_sizes(operand, stated, |context, place| {
            let dim = places.iter().position(|&p| p == place)?;
            Some(context.provider.shape(0, dim))
        })
    }

    /// The stated dimensions, with open sizes replaced by those that `known` finds. If it does not
    /// find all of them, the stated dimensions as they are.
    fn with_stated_sizes(
        &mut self,
        operand: &ArrayShape,
        stated: &ArrayShape,
        known: impl Fn(&mut Self, usize) -> Option<P::Index>,
    ) -> Inferred<P::Index> {
        let mut dims = super::Sizes::new();
        for (place, dim) in stated.dims.iter().enumerate() {
            let size = match dim {
                Dim::Static(size) => Some(self.literal(*size)),
                _ => known(self, place),
            };
            match size {
                Some(size) => dims.push(size),
                None => {
                    return Ok(ShapeOf::Same(Shape::Array(ArrayShape {
                        element_type: operand.element_type,
                        dims: stated.dims.clone(),
                        layout: None,
                    })));
                }
            }
        }
        Ok(array(operand.element_type, dims))
    }

    /// The stated shape; a single open size follows from the number of elements.
    pub(super) fn reshape(&mut self) -> Inferred<P::Index> {
        let operand = self.array(0)?;
        let stated = self.stated_array()?;
        let from = self.dims(0)?;
        let sizes = ReshapeSizes::of(self.provider, &operand.dims, &from, &stated.dims);
        let is_static = stated.dims.iter().all(|dim| matches!(dim, Dim::Static(_)));
        if is_static {
            self.same(&sizes.count, &sizes.fixed, "numbers of elements")?;
        }
        let open = sizes.open.unwrap_or_default();
        if let [(_, size)] = open.as_slice() {
            let whole = self.provider.mul(size, &sizes.fixed);
            self.same(&sizes.count, &whole, "numbers of elements")?;
        }
        self.with_stated_sizes(operand, stated, |_, place| {
            let found = open.iter().find(|(own, _)| *own == place);
            found.map(|(_, size)| size.clone())
        })
    }

    /// The operand's shape, with one dimension reduced to the size in operand 1.
    pub(super) fn set_dimension_size(&mut self, dimension: i64) -> Inferred<P::Index> {
        let place = self.dimension(0, dimension)?;
        let ty = self.array(1)?.element_type;
        self.expect_integers(1)?;
        self.expect_scalar(1, ty)?;
        let (operand, stated) = (self.array(0)?, self.stated_array()?);
        self.expect_count(stated.rank(), "dimensions of the result")?;
        let mut dims = self.dims(0)?;
        let Some((size, whole)) = stated.dims.get(place).zip(dims.get_mut(place)) else {
            return Err(self.error("a dimension is missing"));
        };
        let what = format!("the size that dimension {place} is set to");
        match size {
            Dim::Static(size) => {
                let (size, bound) = (self.provider.literal(*size), whole.clone());
                *whole = size.clone();
                self.at_most(&size, &bound, what)?;
                Ok(array(operand.element_type, dims))
            }
            // The size is the value of an operand.
            Dim::Symbolic(_) | Dim::Bounded { .. } => {
                self.with_stated_sizes(operand, stated, |_, dim| {
                    dims.get(dim).filter(|_| dim != place).cloned()
                })
            }
        }
    }

    /// The stated shape; the size of each dimension is an operand.
    pub(super) fn dynamic_reshape(&mut self) -> Inferred<P::Index> {
        let stated = self.stated_array()?;
        let operand = self.array(0)?;
        for size in 1..self.operands.len() {
            self.expect_integers(size)?;
        }
        let is_scalar = |operand: usize| self.rank(operand).is_ok_and(|rank| rank == 0);
        if self.operands.len() != stated.rank() + 1 || !(1..self.operands.len()).all(is_scalar) {
            return Err(self.error(format_args!(
                "expected a scalar for each of the {} dimensions of the result",
                stated.rank()
            )));
        }
        self.with_stated_sizes(operand, stated, |_, _| None)
    }

    /// The stated shape, checked to have as many bits as the operand if neither is tiled.
    pub(super) fn bitcast(&mut self) -> Inferred<P::Index> {
        let bits = |shape: &Shape| {
            let array = shape.as_array()?;
            let plain = array
                .layout
                .as_ref()
                .is_none_or(|layout| layout.tiles.is_empty());
            let bits = i64::from(array.element_type.bits());
            array.element_count()?.checked_mul(bits).filter(|_| plain)
        };
        let (from, to) = (bits(self.operand(0)?), bits(self.stated()?));
        if let (Some(from), Some(to)) = (from, to)
            && from != to
        {
            return Err(self.error(format_args!("{from} bits cannot be seen as {to} bits")));
        }
        self.as_stated()
    }

    pub(super) fn iota(&mut self, dimension: i64) -> Inferred<P::Index> {
        let stated = self.stated_array()?;
        self.in_rank(dimension, stated.rank())?;
        if stated.element_type == crate::ElementType::Pred {
            return Err(self.error("not defined for pred"));
        }
        self.as_stated()
    }

    pub(super) fn transpose(&mut self, permutation: &DimNumbers) -> Inferred<P::Index> {
        let ty = self.array(0)?.element_type;
        let rank = self.rank(0)?;
        let places = self.distinct(permutation, rank)?;
        if places.len() != rank {
            return Err(self.error(format_args!("{rank} dimensions must be permuted")));
        }
        let dims = self.dims(0)?;
        Ok(array(
            ty,
            places.iter().filter_map(|&place| dims.get(place).cloned()),
        ))
    }

    pub(super) fn reverse(&mut self, dimensions: &DimNumbers) -> Inferred<P::Index> {
        self.distinct(dimensions, self.rank(0)?)?;
        self.same_as(0)
    }

    pub(super) fn slice(&mut self, slices: &[SliceDim]) -> Inferred<P::Index> {
        let ty = self.array(0)?.element_type;
        self.expect_count(slices.len(), "slices")?;
        let mut dims = super::Sizes::new();
        for (dim, slice) in slices.iter().enumerate() {
            let size = self.provider.shape(0, dim);
            let sizes = slice.sizes(self.provider, &size);
            let what = format!("the limit of dimension {dim}");
            self.at_most(&sizes.limit, &size, what)?;
            if slice.limit == TO_END {
                let start = self.literal(slice.start);
                self.at_most(&start, &size, format_args!("the start of dimension {dim}"))?;
            }
            if !slice.is_possible() {
                return Err(self.error(format_args!(
                    "[{}:{}:{}] is not a slice of dimension {dim}",
                    slice.start, slice.limit, slice.stride
                )));
            }
            dims.push(sizes.length);
        }
        Ok(array(ty, dims))
    }

    /// Checks that the number of some items is that of operand 0's dimensions.
    pub(super) fn expect_count(&self, count: usize, what: &str) -> Result<(), Error> {
        let rank = self.rank(0)?;
        match count == rank {
            true => Ok(()),
            false => Err(self.error(format_args!("{count} {what} for {rank} dimensions"))),
        }
    }

    pub(super) fn pad(&mut self, padding: &[PadDim]) -> Inferred<P::Index> {
        let ty = self.array(0)?.element_type;
        self.expect_scalar(1, ty)?;
        self.expect_count(padding.len(), "paddings")?;
        let mut dims = super::Sizes::new();
        for (dim, padding) in padding.iter().enumerate() {
            if !padding.is_possible() {
                return Err(self.error("interior padding cannot be negative"));
            }
            let size = self.provider.shape(0, dim);
            let sizes = padding.sizes(self.provider, &size);
            dims.push(self.not_negative(sizes.padded)?);
        }
        Ok(array(ty, dims))
    }

    pub(super) fn concatenate(&mut self, dimension: i64) -> Inferred<P::Index> {
        let ty = self.array(0)?.element_type;
        let place = self.dimension(0, dimension)?;
        let mut dims = self.dims(0)?;
        let mut along: Vec<P::Index> = dims.get(place).cloned().into_iter().collect();
        for operand in 1..self.operands.len() {
            self.expect_type(operand, ty)?;
            let others = self.dims(operand)?;
            if others.len() != dims.len() {
                return Err(self.error("operands must have the same number of dimensions"));
            }
            for (dim, (size, other)) in dims.iter_mut().zip(&others).enumerate() {
                match dim == place {
                    true => along.push(other.clone()),
                    false => {
                        *size = self.same(size, other, format_args!("sizes of dimension {dim}"))?;
                    }
                }
            }
        }
        let whole = ConcatenateSizes::of(self.provider, &along);
        if let Some(size) = dims.get_mut(place) {
            *size = whole.size;
        }
        Ok(array(ty, dims))
    }

    /// Checks the start indices, which follow operand `first`: one scalar for each dimension of
    /// operand 0, or a one-dimensional array of them.
    fn start_indices(&mut self, first: usize) -> Result<(), Error> {
        let rank = self.rank(0)?;
        for operand in first..self.operands.len() {
            self.expect_integers(operand)?;
        }
        let count = self.operands.len().saturating_sub(first);
        let list = count == 1 && self.rank(first)? == 1;
        let listed = self
            .array(first)
            .ok()
            .and_then(|list| list.dims.first()?.as_static());
        if list && listed.is_some_and(|listed| listed != rank as i64) {
            return Err(self.error(format_args!("expected a list of {rank} start indices")));
        }
        let scalars = (first..self.operands.len())
            .all(|operand| self.rank(operand).is_ok_and(|rank| rank == 0));
        match list || (scalars && count == rank) {
            true => Ok(()),
            false => Err(self.error(format_args!("expected {rank} scalar start indices"))),
        }
    }

    pub(super) fn dynamic_slice(&mut self, sizes: &DimNumbers) -> Inferred<P::Index> {
        let ty = self.array(0)?.element_type;
        self.expect_count(sizes.len(), "slice sizes")?;
        self.start_indices(1)?;
        let mut dims = super::Sizes::new();
        for (dim, &size) in sizes.iter().enumerate() {
            let whole = self.provider.shape(0, dim);
            let size = up_to(self.provider, size, &whole);
            self.at_most(&size, &whole, format_args!("the slice of dimension {dim}"))?;
            dims.push(self.not_negative(size)?);
        }
        Ok(array(ty, dims))
    }

    pub(super) fn dynamic_update_slice(&mut self) -> Inferred<P::Index> {
        let ty = self.array(0)?.element_type;
        self.expect_type(1, ty)?;
        let update = self.dims(1)?;
        self.expect_count(update.len(), "dimensions of the update")?;
        self.start_indices(2)?;
        for (dim, size) in update.iter().enumerate() {
            let whole = self.provider.shape(0, dim);
            self.at_most(size, &whole, format_args!("the update of dimension {dim}"))?;
        }
        self.same_as(0)
    }
}
