//! Adapts an operation's attributes to parts of its arrays.

use super::{Emitter, number};
use crate::axes::{Axis, AxisKind, Window};
use crate::error::Error;
use crate::graph::Node;
use crate::sharding::{Cut, Sharding};
use rustc_hash::FxHashMap;
use tegula_ir::{ArrayShape, Dim, Op, PadDim, Shape, SliceDim};

/// A dimension of the result along which each part reads a window of an operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WindowPick {
    /// The dimension of the result.
    pub(super) dim: usize,
    pub(super) cut: Cut,
    /// The operands that are read in this way, by number, with their windows.
    pub(super) windows: Vec<(usize, Window)>,
}

/// The shape with each array replaced by a device's part; all have the same sharding.
pub(super) fn part_shape(shape: &Shape, sharding: &Sharding) -> Shape {
    match shape {
        Shape::Array(array) => Shape::Array(part_of(array, sharding)),
        Shape::Tuple(elements) => Shape::Tuple(
            elements
                .iter()
                .map(|element| part_shape(element, sharding))
                .collect(),
        ),
        other => other.clone(),
    }
}

/// The shape of a device's part of an array.
pub(super) fn part_of(array: &ArrayShape, sharding: &Sharding) -> ArrayShape {
    let dims = array.dims.iter().enumerate();
    let dims = dims.map(|(number, dim)| match (sharding.cut(number), dim) {
        (Some(cut), Dim::Static(size)) => Dim::Static(cut.part_size(*size)),
        _ => dim.clone(),
    });
    ArrayShape {
        element_type: array.element_type,
        dims: dims.collect(),
        layout: None,
    }
}

impl Emitter<'_> {
    /// The operation, adapted to parts of its arrays.
    pub(super) fn localized(
        &mut self,
        node: &Node,
        picks: &[(Axis, Cut)],
        windows: &[WindowPick],
    ) -> Result<Op, Error> {
        let mut op = node.op.clone();
        let mut callees = FxHashMap::default();
        for callee in op.called_computations() {
            callees.insert(callee, self.copied(callee)?);
        }
        op.map_computations(|callee| callees.get(&callee).copied().unwrap_or(callee));
        for (axis, cut) in picks {
            if axis.kind != AxisKind::Parallel {
                continue;
            }
            let part = |dim: usize, operand: usize| {
                let value = &self.graph.values[*node.operands.get(operand)?];
                Some(cut.part_size(value.size(dim)?))
            };
            let read = axis.operands.first().copied().flatten();
            let own = read.and_then(|dim| Some((dim, part(dim, 0)?)));
            let Some((dim, part)) = own else {
                continue;
            };
            match &mut op {
                Op::Slice(dims) => {
                    if let Some(own) = dims.get_mut(dim) {
                        *own = SliceDim {
                            start: 0,
                            limit: part,
                            stride: 1,
                        };
                    }
                }
                Op::DynamicSlice(sizes) => {
                    if let Some(own) = sizes.get_mut(dim) {
                        *own = part;
                    }
                }
                Op::Gather {
                    slice_sizes, dims, ..
                } => {
                    let batching = dims.operand_batching_dims.contains(&number(dim));
                    if let Some(own) = slice_sizes.get_mut(dim).filter(|_| !batching) {
                        *own = part;
                    }
                }
                _ => {}
            }
        }
        for pick in windows {
            self.windowed(&mut op, pick);
        }
        Ok(op)
    }

    /// Adapts the operation to windows of its operands, which need no padding before or after them.
    fn windowed(&self, op: &mut Op, pick: &WindowPick) {
        let window = pick.windows.first().map(|(_, window)| *window);
        let (first, size) = window.map_or((0, 0), |window| (window.first, window.size));
        match op {
            Op::Slice(dims) => {
                if let Some(own) = dims.get_mut(pick.dim) {
                    *own = SliceDim {
                        start: 0,
                        limit: size,
                        stride: own.stride,
                    };
                }
            }
            Op::Pad(dims) => {
                if let Some(own) = dims.get_mut(pick.dim) {
                    let interior = own.interior;
                    // The part may begin within the distance between two elements of the operand.
                    let low = match interior {
                        0 => 0,
                        _ => own.low + first * (interior + 1),
                    };
                    *own = PadDim {
                        low,
                        high: interior - low,
                        interior,
                    };
                }
            }
            Op::ReduceWindow { window, .. } => {
                if let Some(own) = window.get_mut(pick.dim) {
                    (own.padding_low, own.padding_high) = (0, 0);
                }
            }
            Op::Convolution { window, dims, .. } => {
                let place = dims
                    .output_spatial
                    .iter()
                    .position(|dim| *dim == number(pick.dim));
                if let Some(own) = place.and_then(|place| window.get_mut(place)) {
                    (own.padding_low, own.padding_high) = (0, 0);
                }
            }
            _ => {}
        }
    }
}
