//! The form of an operation when its arrays have other orders of dimensions: the same operation
//! with permuted dimension numbers.
//!
//! Some operations produce their result in the order of the operand (a reduction, a product).
//! Others accept any order as long as operands and result share it (elementwise operations). A form
//! states the orders that the operation then takes and produces; if another order is wanted, a
//! transposition is added.
//!
//! If the result of an operation depends on the order in which it combines elements, that order is
//! preserved: the relative order of the dimensions that are reduced, or spanned by a window, does
//! not change.

use super::order::{Permutation, inverse, row_major, to_layout};
use smallvec::SmallVec;
use tegula_ir::helpers::kept_dimensions;
use tegula_ir::{ArrayShape, ConvDims, DimNumbers, DotDims, Op, WindowDim};

/// An operation and its arrays.
pub(super) struct Asked<'a> {
    /// The operation on logical arrays.
    pub op: &'a Op,
    /// The logical shapes of the operands.
    pub operands: &'a [&'a ArrayShape],
    /// The orders of the operands.
    pub own: &'a [Permutation],
    /// The logical shapes of the results.
    pub results: &'a [&'a ArrayShape],
    /// The requested order of the first result.
    pub wanted: &'a Permutation,
}

/// The operation on permuted arrays.
pub(super) struct Form {
    /// The operation, with its dimension numbers permuted.
    pub op: Op,
    /// For each operand of the form, its number among the original operands: the start indices of
    /// slices are permuted with the dimensions.
    pub sources: SmallVec<[usize; 4]>,
    /// The order in which each operand is taken.
    pub takes: SmallVec<[Permutation; 4]>,
    /// The order in which each result is produced.
    pub gives: SmallVec<[Permutation; 2]>,
}

/// Permutes dimension numbers; `places` maps old to new ones.
pub(super) fn moved(dims: &[i64], places: &[usize]) -> Option<DimNumbers> {
    dims.iter().map(|&dim| moved_one(dim, places)).collect()
}

pub(super) fn moved_one(dim: i64, places: &[usize]) -> Option<i64> {
    let place = places.get(usize::try_from(dim).ok()?)?;
    i64::try_from(*place).ok()
}

pub(super) fn sorted(mut dims: DimNumbers) -> DimNumbers {
    dims.sort_unstable();
    dims
}

/// Permutes a list that has an entry for each dimension.
pub(super) fn listed<T: Clone, L: FromIterator<T>>(list: &[T], order: &[usize]) -> Option<L> {
    order.iter().map(|&dim| list.get(dim).cloned()).collect()
}

/// Changes an order so that the dimensions of a set are in ascending order within the positions
/// that the set has; the others stay.
pub(super) fn keeping(order: &[usize], set: impl Fn(usize) -> bool) -> Permutation {
    let mut rising: Permutation = order.iter().copied().filter(|&dim| set(dim)).collect();
    rising.sort_unstable();
    let mut rising = rising.into_iter();
    let dims = order.iter().map(|&dim| match set(dim) {
        true => rising.next().unwrap_or(dim),
        false => dim,
    });
    dims.collect()
}

fn window_spans(window: &[WindowDim]) -> impl Fn(usize) -> bool {
    move |dim| window.get(dim).is_none_or(|w| w.size != 1)
}

impl Asked<'_> {
    /// The form; [`None`] for an operation that takes row-major arrays only.
    pub(super) fn form(&self) -> Option<Form> {
        let wanted = self.wanted;
        let places = inverse(wanted);
        match self.op {
            op if op.is_elementwise() => self.all_in(op.clone(), wanted),
            Op::Map { .. } => self.all_in(self.op.clone(), wanted),
            Op::BitcastConvert if self.same_dims() => self.all_in(self.op.clone(), wanted),
            Op::Iota(dim) => self.all_in(Op::Iota(moved_one(*dim, &places)?), wanted),
            Op::Reverse(dims) => {
                let dims = sorted(moved(dims, &places)?);
                self.all_in(Op::Reverse(dims), wanted)
            }
            Op::Slice(dims) => self.all_in(Op::Slice(listed(dims, wanted)?), wanted),
            Op::Pad(dims) => self.all_in(Op::Pad(listed(dims, wanted)?), wanted),
            Op::Concatenate(dim) => {
                let dim = moved_one(*dim, &places)?;
                self.all_in(Op::Concatenate(dim), wanted)
            }
            Op::Sort {
                dimension,
                is_stable,
                to_apply,
            } => {
                let op = Op::Sort {
                    dimension: moved_one(*dimension, &places)?,
                    is_stable: *is_stable,
                    to_apply: *to_apply,
                };
                self.all_in(op, wanted)
            }
            Op::ReduceWindow { window, to_apply } => {
                let order = keeping(wanted, window_spans(window));
                let op = Op::ReduceWindow {
                    window: listed(window, &order)?,
                    to_apply: *to_apply,
                };
                self.all_in(op, &order)
            }
            Op::SelectAndScatter {
                window,
                select,
                scatter,
            } => {
                let order = keeping(wanted, window_spans(window));
                let op = Op::SelectAndScatter {
                    window: listed(window, &order)?,
                    select: *select,
                    scatter: *scatter,
                };
                self.all_in(op, &order)
            }
            Op::DynamicSlice(sizes) => {
                self.sliced(Op::DynamicSlice(listed(sizes, wanted)?), 1, wanted)
            }
            Op::DynamicUpdateSlice => self.sliced(Op::DynamicUpdateSlice, 2, wanted),
            Op::Broadcast(dims) => self.broadcast(dims, &places),
            Op::Transpose(dims) => self.transpose(dims),
            Op::Reshape | Op::Bitcast => self.reshape(),
            Op::Reduce { dimensions, .. } => self.reduce(dimensions),
            Op::Dot { dims, .. } => self.dot(dims),
            Op::Convolution { dims, .. } => self.convolution(dims, &places),
            Op::Gather { .. } => self.gather(),
            Op::Scatter { .. } => self.scatter(),
            Op::GetDimensionSize(dim) => {
                let [own] = self.own else { return None };
                let op = Op::GetDimensionSize(moved_one(*dim, &inverse(own))?);
                self.with(op, [own.clone()].into_iter().collect(), &row_major(0))
            }
            _ => None,
        }
    }

    fn same_dims(&self) -> bool {
        let (from, to) = (self.operands.first(), self.results.first());
        from.map(|shape| &shape.dims) == to.map(|shape| &shape.dims)
    }

    pub(super) fn with(
        &self,
        op: Op,
        takes: SmallVec<[Permutation; 4]>,
        gives: &Permutation,
    ) -> Option<Form> {
        let fits = takes.len() == self.operands.len()
            && takes
                .iter()
                .zip(self.operands)
                .all(|(order, shape)| order.len() == shape.rank())
            && self.results.iter().all(|shape| shape.rank() == gives.len());
        fits.then(|| Form {
            op,
            sources: (0..self.operands.len()).collect(),
            takes,
            gives: self.results.iter().map(|_| gives.clone()).collect(),
        })
    }

    /// All operands of the result's rank have the given order; the others have at most one
    /// dimension.
    fn all_in(&self, op: Op, order: &Permutation) -> Option<Form> {
        let takes = self.operands.iter().map(|shape| match shape.rank() {
            rank if rank == order.len() => Some(order.clone()),
            rank if rank < 2 => Some(row_major(rank)),
            _ => None,
        });
        let takes: Option<_> = takes.collect();
        self.with(op, takes?, order)
    }

    /// Like [`Self::all_in`], for an operation with `arrays` array operands followed by a start
    /// index for each dimension.
    fn sliced(&self, op: Op, arrays: usize, order: &Permutation) -> Option<Form> {
        if self.operands.len() != arrays + order.len() {
            return None;
        }
        let mut form = self.all_in(op, order)?;
        let starts = order.iter().map(|&dim| arrays + dim);
        form.sources = (0..arrays).chain(starts).collect();
        Some(form)
    }

    fn broadcast(&self, dims: &[i64], places: &[usize]) -> Option<Form> {
        let to = moved(dims, places)?;
        let mut takes = row_major(to.len());
        takes.sort_by_key(|&dim| to[dim]);
        self.with(
            Op::Broadcast(sorted(to)),
            [takes].into_iter().collect(),
            self.wanted,
        )
    }

    fn transpose(&self, dims: &[i64]) -> Option<Form> {
        let own = self.own.first()?;
        let places = inverse(own);
        let dims: DimNumbers = listed(dims, self.wanted)?;
        self.with(
            Op::Transpose(moved(&dims, &places)?),
            [own.clone()].into_iter().collect(),
            self.wanted,
        )
    }

    /// A reshape that keeps the operand's order, if dimensions split and merge along it. Otherwise,
    /// the order of the operand is derived from the wanted order of the result.
    fn reshape(&self) -> Option<Form> {
        let (Some(own), [from], [to]) = (self.own.first(), self.operands, self.results) else {
            return None;
        };
        if from.element_type != to.element_type {
            return None;
        }
        let (from, to) = (from.static_dims()?, to.static_dims()?);
        let carried = |order: &[usize], from: &[i64], to: &[i64]| -> Option<Permutation> {
            let minor_to_major = to_layout(order).minor_to_major;
            let order = crate::assign::reshaped(&minor_to_major, from, to)?;
            Some(order.iter().rev().map(|&dim| dim as usize).collect())
        };
        let (takes, gives) = match carried(self.wanted, &to, &from) {
            Some(takes) => (takes, self.wanted.clone()),
            None => (own.clone(), carried(own, &from, &to)?),
        };
        self.with(Op::Reshape, [takes].into_iter().collect(), &gives)
    }

    fn reduce(&self, reduced: &[i64]) -> Option<Form> {
        let Op::Reduce { to_apply, .. } = self.op else {
            return None;
        };
        let arrays = self.operands.len() / 2;
        let own = self.own.first()?;
        let gone = |dim: usize| reduced.iter().any(|&d| usize::try_from(d) == Ok(dim));
        let order = keeping(own, gone);
        let places = inverse(&order);
        let numbers = kept_dimensions(reduced, own.len());
        let number = |&dim: &usize| numbers.iter().position(|&kept| kept == dim);
        let kept = order.iter().filter(|&&dim| !gone(dim));
        let gives: Option<Permutation> = kept.map(number).collect();
        let takes = self.operands.iter().enumerate().map(|(number, shape)| {
            if number < arrays {
                order.clone()
            } else {
                row_major(shape.rank())
            }
        });
        let op = Op::Reduce {
            dimensions: sorted(moved(reduced, &places)?),
            to_apply: *to_apply,
        };
        self.with(op, takes.collect(), &gives?)
    }

    fn dot(&self, dims: &DotDims) -> Option<Form> {
        let Op::Dot {
            precision,
            algorithm,
            ..
        } = self.op
        else {
            return None;
        };
        let [left, right] = self.own else { return None };
        let roles = dims.roles([left.len(), right.len()])?;
        let (at_left, at_right) = (inverse(left), inverse(right));
        let mut gives = row_major(dims.lhs_batch.len());
        for (order, roles) in [left, right].into_iter().zip(&roles.operands) {
            let in_order = order.iter().filter_map(|&dim| roles.get(dim));
            gives.extend(in_order.filter_map(|role| match role {
                tegula_ir::helpers::DotDim::Free(place) => Some(*place),
                _ => None,
            }));
        }
        let op = Op::Dot {
            dims: DotDims {
                lhs_batch: moved(&dims.lhs_batch, &at_left)?,
                rhs_batch: moved(&dims.rhs_batch, &at_right)?,
                lhs_contracting: moved(&dims.lhs_contracting, &at_left)?,
                rhs_contracting: moved(&dims.rhs_contracting, &at_right)?,
            },
            precision: precision.clone(),
            algorithm: algorithm.clone(),
        };
        self.with(op, self.own.iter().cloned().collect(), &gives)
    }

    fn convolution(&self, dims: &ConvDims, places: &[usize]) -> Option<Form> {
        let mut op = self.op.clone();
        let Op::Convolution { dims: new, .. } = &mut op else {
            return None;
        };
        let [input, kernel] = self.own else {
            return None;
        };
        let (input, kernel) = (inverse(input), inverse(kernel));
        *new = ConvDims {
            input_batch: moved_one(dims.input_batch, &input)?,
            input_feature: moved_one(dims.input_feature, &input)?,
            input_spatial: moved(&dims.input_spatial, &input)?,
            kernel_input_feature: moved_one(dims.kernel_input_feature, &kernel)?,
            kernel_output_feature: moved_one(dims.kernel_output_feature, &kernel)?,
            kernel_spatial: moved(&dims.kernel_spatial, &kernel)?,
            output_batch: moved_one(dims.output_batch, places)?,
            output_feature: moved_one(dims.output_feature, places)?,
            output_spatial: moved(&dims.output_spatial, places)?,
        };
        self.with(op, self.own.iter().cloned().collect(), self.wanted)
    }
}
