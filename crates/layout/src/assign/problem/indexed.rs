//! The preferences of slices at data-dependent indices: gathers, scatters, and slices with run-time
//! starts.

use super::{Place, Spaces};
use crate::assign::layout_preferences::{Dims, Wish};
use crate::assign::tpu_fusion::elements;
use smallvec::SmallVec;
use tegula_fusion::{Node, ValueId};
use tegula_ir::Op;

impl Spaces<'_> {
    pub(super) fn indexed(&mut self, op: &Op, node: &Node, place: Place) {
        let (first, result) = (node.operands.first(), node.results.first());
        let number = |&dim: &i64| u32::try_from(dim).unwrap_or(0);
        match op {
            Op::Gather {
                dims, slice_sizes, ..
            } => {
                let slices = slice_sizes
                    .iter()
                    .zip(0u32..)
                    .filter(|(size, _)| **size > 1);
                let slices: Dims = slices.map(|(_, dim)| dim).collect();
                let offsets: Dims = dims.offset_dims.iter().map(number).collect();
                let taken = slice_sizes.iter().copied().fold(1, i64::saturating_mul);
                let many = result.is_some_and(|&value| elements(self.program, value) > taken);
                if many && slices.len() > 1 {
                    self.outside(place, first, &slices);
                    self.outside(place, result, &offsets);
                }
                self.wish(place, first, Wish::Slices(slices));
                self.wish(place, result, Wish::Slices(offsets));
            }
            Op::Scatter { dims, .. } => {
                let inserted =
                    |dim: &u32| dims.inserted_window_dims.iter().any(|d| number(d) == *dim);
                let arrays = node.results.len();
                for (at, &result) in node.results.iter().enumerate() {
                    let rank = self.program.values[result].shape.rank() as u32;
                    let slices: Dims = (0..rank).filter(|dim| !inserted(dim)).collect();
                    let windows: Dims = dims.update_window_dims.iter().map(number).collect();
                    let update = node.operands.get(arrays + 1 + at);
                    if slices.len() > 1 {
                        self.outside(place, Some(&result), &slices);
                        self.outside(place, update, &windows);
                    }
                    self.wish(place, Some(&result), Wish::Slices(slices));
                    if let Some(&operand) = node.operands.get(at) {
                        self.shared(place, operand, result, (0..rank).map(|dim| (dim, dim)));
                    }
                    self.wish(place, update, Wish::Slices(windows));
                }
            }
            Op::DynamicUpdateSlice => {
                let moving = self.moving(first, node.operands.get(1));
                for value in [first, node.operands.get(1), result] {
                    self.wish(place, value, Wish::Moving(moving.clone()));
                }
                for operand in node.operands.iter().take(2) {
                    if let Some(&result) = result {
                        let rank = self.program.values[*operand].shape.rank() as u32;
                        self.shared(place, *operand, result, (0..rank).map(|dim| (dim, dim)));
                    }
                }
            }
            _ => {}
        }
    }

    /// Asks that all dimensions except those of slices are not in registers.
    fn outside(&mut self, place: Place, value: Option<&ValueId>, slices: &Dims) {
        let rank = value.map_or(0, |&value| self.program.values[value].shape.rank() as u32);
        let others = (0..rank).filter(|dim| !slices.contains(dim)).collect();
        self.wish(place, value, Wish::Outside(others));
    }

    /// The dimensions in which a slice is smaller than the array.
    pub(super) fn moving(&self, array: Option<&ValueId>, slice: Option<&ValueId>) -> Dims {
        let sizes = |value: Option<&ValueId>| {
            let dims = value.map(|&value| &self.program.values[value].shape.dims);
            let sizes = dims
                .into_iter()
                .flatten()
                .map(tegula_ir::Dim::representative);
            sizes.collect::<SmallVec<[i64; 6]>>()
        };
        let both = sizes(array).into_iter().zip(sizes(slice)).zip(0u32..);
        let smaller = both.filter(|((all, part), _)| part < all);
        smaller.map(|(_, dim)| dim).collect()
    }
}
