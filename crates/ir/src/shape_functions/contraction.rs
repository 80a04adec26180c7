//! Shape functions of dot products and convolutions.

use super::context::{Context, Inferred, Sizes, array};
use crate::helpers::{ConvolutionGroups, DotRoles, RaggedRole, WindowSizes};
use crate::{ConvDims, DimNumbers, DotDims, ElementType, Error, WindowDim};
use smallvec::SmallVec;
use tegula_expr::{Cmp, Provider};

impl<P: Provider> Context<'_, P> {
    /// The stated element type, or that of the operands.
    fn accumulated_type(&self) -> Result<ElementType, Error> {
        match self.stated {
            Some(_) => Ok(self.stated_array()?.element_type),
            None => {
                let ty = self.array(0)?.element_type;
                self.expect_type(1, ty)?;
                Ok(ty)
            }
        }
    }

    /// Checks that paired dimension numbers are equally many and that their sizes are equal.
    fn paired(
        &mut self,
        lhs: &[usize],
        rhs: &[usize],
        what: &str,
    ) -> Result<Sizes<P::Index>, Error> {
        if lhs.len() != rhs.len() {
            return Err(self.error(format_args!(
                "{} {what} dimensions on the left, {} on the right",
                lhs.len(),
                rhs.len()
            )));
        }
        let mut sizes = Sizes::new();
        for (&l, &r) in lhs.iter().zip(rhs) {
            let (l_size, r_size) = (self.provider.shape(0, l), self.provider.shape(1, r));
            let names = format!("sizes of {what} dimensions {l} and {r}");
            sizes.push(self.same(&l_size, &r_size, names)?);
        }
        Ok(sizes)
    }

    /// The roles of the operands' dimensions, for dimension numbers that are checked.
    fn dot_roles(&self, dims: &DotDims) -> Result<DotRoles, Error> {
        let roles = dims.roles([self.rank(0)?, self.rank(1)?]);
        roles.ok_or_else(|| self.error("an operand has too few dimensions"))
    }

    /// Batch and contracting dimension numbers of one operand, checked to be disjoint.
    #[expect(clippy::type_complexity, reason = "two lists of dimension numbers")]
    fn dot_side(
        &self,
        operand: usize,
        batch: &DimNumbers,
        contracting: &DimNumbers,
    ) -> Result<(SmallVec<[usize; 6]>, SmallVec<[usize; 6]>), Error> {
        let rank = self.rank(operand)?;
        let all: DimNumbers = batch.iter().chain(contracting).copied().collect();
        self.distinct(&all, rank)?;
        Ok((
            self.distinct(batch, rank)?,
            self.distinct(contracting, rank)?,
        ))
    }

    /// The result has the batch dimensions, then the left operand's free dimensions, then the right
    /// operand's.
    pub(super) fn dot(&mut self, dims: &DotDims) -> Inferred<P::Index> {
        let ty = self.accumulated_type()?;
        let (l_batch, l_contract) = self.dot_side(0, &dims.lhs_batch, &dims.lhs_contracting)?;
        let (r_batch, r_contract) = self.dot_side(1, &dims.rhs_batch, &dims.rhs_contracting)?;
        let mut sizes = self.paired(&l_batch, &r_batch, "batch")?;
        self.paired(&l_contract, &r_contract, "contracting")?;
        let roles = self.dot_roles(dims)?;
        for operand in 0..2 {
            let free = roles.free(operand).into_iter();
            sizes.extend(free.map(|dim| self.provider.shape(operand, dim)));
        }
        Ok(array(ty, sizes))
    }

    /// One dimension of the left operand is divided into groups, whose sizes are operand 2. They
    /// are the same for all, or vary with the index of the dimensions before the ragged one.
    pub(super) fn ragged_dot(
        &mut self,
        dims: &DotDims,
        ragged: &DimNumbers,
        groups: &DimNumbers,
    ) -> Inferred<P::Index> {
        let ty = self.accumulated_type()?;
        self.expect_integers(2)?;
        let ragged = match self.distinct(ragged, self.rank(0)?)?.as_slice() {
            [ragged] => *ragged,
            _ => return Err(self.error("expected one ragged dimension")),
        };
        let (l_batch, l_contract) = self.dot_side(0, &dims.lhs_batch, &dims.lhs_contracting)?;
        let (r_batch, r_contract) = self.dot_side(1, &dims.rhs_batch, &dims.rhs_contracting)?;
        let last = self.rank(2)?.checked_sub(1);
        let last = last.ok_or_else(|| self.error("group sizes must be an array"))?;
        let count = self.provider.shape(2, last);
        self.group_sizes(&dims.group_prefix(ragged, self.rank(0)?), last)?;
        let role = dims.ragged_role(ragged);
        let groups = self.distinct(groups, self.rank(1)?)?;
        match (role, groups.as_slice()) {
            (RaggedRole::Free, &[group]) => {
                if r_batch.contains(&group) || r_contract.contains(&group) {
                    return Err(self.error("the group dimension has another role"));
                }
                let size = self.provider.shape(1, group);
                self.same(&size, &count, "the sizes of the group dimension")?;
            }
            (RaggedRole::Free, _) => return Err(self.error("expected one group dimension")),
            (_, []) => {}
            _ => return Err(self.error("only a free ragged dimension has a group dimension")),
        }
        let mut sizes = Sizes::new();
        if role == RaggedRole::Contracted {
            sizes.push(count);
        }
        sizes.extend(self.paired(&l_batch, &r_batch, "batch")?);
        self.paired(&l_contract, &r_contract, "contracting")?;
        let roles = self.dot_roles(dims)?;
        for dim in roles.free(0) {
            sizes.push(self.provider.shape(0, dim));
        }
        for dim in roles.free(1).into_iter().filter(|d| !groups.contains(d)) {
            sizes.push(self.provider.shape(1, dim));
        }
        Ok(array(ty, sizes))
    }

    /// Checks the dimensions of the group sizes, except for the last one.
    fn group_sizes(&mut self, prefix: &[usize], last: usize) -> Result<(), Error> {
        if last == 0 {
            return Ok(());
        }
        if last != prefix.len() {
            return Err(self.error(format_args!(
                "the group sizes must have 1 or {} dimensions, found {}",
                prefix.len() + 1,
                last + 1
            )));
        }
        for (dim, &own) in prefix.iter().enumerate() {
            let (size, expected) = (self.provider.shape(2, dim), self.provider.shape(0, own));
            let what = format!("sizes of dimension {dim} of the group sizes and {own} on the left");
            self.same(&size, &expected, what)?;
        }
        Ok(())
    }

    /// As a dot. Each operand's scale has the operand's rank; along each dimension, its elements
    /// apply to equal parts of the operand. A scale of rank 0 means that there is none.
    pub(super) fn scaled_dot(&mut self, dims: &DotDims) -> Inferred<P::Index> {
        for operand in 0..2 {
            let (rank, scale) = (self.rank(operand)?, self.rank(operand + 2)?);
            if scale != 0 && scale != rank {
                return Err(self.error(format_args!(
                    "the scale of operand {operand} has {scale} dimensions, not {rank}"
                )));
            }
            let (whole, parts) = (self.array(operand)?, self.array(operand + 2)?);
            for (dim, (size, count)) in whole.dims.iter().zip(&parts.dims).enumerate() {
                // Open sizes are checked once they are known.
                if let (Some(size), Some(count)) = (size.as_static(), count.as_static())
                    && size != count
                    && (count == 0 || size % count != 0)
                {
                    return Err(self.error(format_args!(
                        "dimension {dim} of operand {operand}, {size}, has no {count} equal parts"
                    )));
                }
            }
        }
        self.dot(dims)
    }

    /// The sizes of a window along a dimension of this size.
    pub(super) fn windowed(
        &mut self,
        size: &P::Index,
        window: &WindowDim,
    ) -> Result<WindowSizes<P::Index>, Error> {
        if !window.is_possible() {
            return Err(
                self.error("sizes cannot be negative, strides and dilations must be positive")
            );
        }
        let sizes = window.sizes(self.provider, size);
        self.not_negative(sizes.padded.clone())?;
        Ok(sizes)
    }

    pub(super) fn convolution(
        &mut self,
        window: &[WindowDim],
        dims: &ConvDims,
        groups: ConvolutionGroups,
    ) -> Inferred<P::Index> {
        let ty = self.accumulated_type()?;
        if !groups.is_possible() {
            return Err(self.error("one of the group counts must be 1, the other positive"));
        }
        let rank = self.rank(0)?;
        let spatial = dims.input_spatial.len();
        let well_formed = rank == spatial + 2 && self.rank(1)? == rank && window.len() == spatial;
        if !well_formed {
            return Err(self.error(format_args!(
                "operands of {rank} and {} dimensions, {} labels and {} window dimensions do \
                    not fit together",
                self.rank(1)?,
                spatial + 2,
                window.len()
            )));
        }
        let feature = self.dim(0, dims.input_feature)?;
        let kernel_feature = self.dim(1, dims.kernel_input_feature)?;
        let feature_groups = self.literal(groups.features);
        let expected = self.provider.mul(&kernel_feature, &feature_groups);
        self.same(
            &feature,
            &expected,
            "input features and kernel features times groups",
        )?;
        let output_feature = self.dim(1, dims.kernel_output_feature)?;
        self.expect_multiple(&output_feature, groups.count(), "output features")?;
        let batch = self.dim(0, dims.input_batch)?;
        self.expect_multiple(&batch, groups.batch, "the batch")?;
        let group = groups.sizes(self.provider, &output_feature, &kernel_feature, &batch);
        let zero = self.literal(0);
        let mut result: Sizes<P::Index> = SmallVec::from_elem(zero, rank);
        let mut put = |context: &Self, dim: i64, size: P::Index| {
            let place = context.in_rank(dim, rank)?;
            if let Some(slot) = result.get_mut(place) {
                *slot = size;
            }
            Ok::<(), Error>(())
        };
        put(self, dims.output_batch, group.batch)?;
        put(self, dims.output_feature, output_feature)?;
        for (index, window) in window.iter().enumerate() {
            let numbers = [
                &dims.input_spatial,
                &dims.kernel_spatial,
                &dims.output_spatial,
            ];
            let [Some(&input), Some(&kernel), Some(&output)] = numbers.map(|list| list.get(index))
            else {
                return Err(self.error("a spatial dimension has no label"));
            };
            let kernel_size = self.dim(1, kernel)?;
            let window_size = self.literal(window.size);
            self.same(&kernel_size, &window_size, "sizes of kernel and window")?;
            let size = self.dim(0, input)?;
            let size = self.windowed(&size, window)?;
            put(self, output, size.positions)?;
        }
        Ok(array(ty, result))
    }

    fn expect_multiple(&mut self, size: &P::Index, of: i64, what: &str) -> Result<(), Error> {
        match self.provider.as_literal(size) {
            Some(size) if size % of != 0 => {
                Err(self.error(format_args!("{what}: {size} is not a multiple of {of}")))
            }
            Some(_) => Ok(()),
            None => {
                let (zero, divisor) = (self.literal(0), self.literal(of));
                let rest = self.provider.modulo(size, &divisor);
                let what = format!("{what} modulo {of}, and 0,");
                self.provider.require(Cmp::Eq, &rest, &zero, &what);
                Ok(())
            }
        }
    }
}
