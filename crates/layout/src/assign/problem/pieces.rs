//! Convolutions of few images on a chip with lanes.
//!
//! The matrix unit takes rows of images, eight at a time. If there are fewer images, libtpu's
//! compiler cuts each of them along its last spatial dimension into eight pieces, which overlap as
//! far as windows require, and treats the pieces as separate images. The pieces of the result must
//! be put together without moving bytes. So the dimension of pieces is adjacent to that of images,
//! and it is not in registers unless a piece divides one evenly.

use super::Spaces;
use crate::assign::layout_preferences::ROWS;
use crate::assign::machine::Order;
use smallvec::SmallVec;
use tegula_fusion::Node;
use tegula_ir::{ConvDims, Dim, Op, WindowDim};

/// The layout of a convolution of few images.
pub(super) struct Pieces {
    /// The order of its result.
    pub(super) order: Order,
    /// The dimension of its input that replaces images in registers.
    pub(super) input_rows: i64,
}

fn number(dim: i64) -> u32 {
    u32::try_from(dim).unwrap_or(0)
}

impl Spaces<'_> {
    /// The pieces of a convolution; [`None`] if it is not cut: it has eight images or more, groups,
    /// dilation or a single spatial dimension, or its windows are as large as the image.
    pub(super) fn pieces(&self, op: &Op, node: &Node) -> Option<Pieces> {
        let Op::Convolution {
            dims,
            window,
            feature_group_count: 1,
            batch_group_count: 1,
            ..
        } = op
        else {
            return None;
        };
        let shape = &self.program.values[*node.results.first()?].shape;
        let sizes: SmallVec<[i64; 6]> = shape.dims.iter().map(Dim::representative).collect();
        let size = |dim: i64| sizes.get(number(dim) as usize).copied().unwrap_or(1);
        let is_usual = |(window, dim): (&WindowDim, &i64)| {
            window.size < size(*dim) && window.base_dilation == 1 && window.window_dilation == 1
        };
        let (folded, others) = dims.output_spatial.split_last()?;
        let cut = size(dims.output_batch) < ROWS && size(*folded) >= ROWS && !others.is_empty();
        if !cut || !window.iter().zip(&dims.output_spatial).all(is_usual) {
            return None;
        }
        let last = window.last()?;
        let overlap = (last.size - 1) / (2 * last.stride.max(1));
        let piece = (size(*folded) + overlap + ROWS - 1) / ROWS;
        let order = self.order_of_pieces(dims, shape.element_type.bits(), &sizes, piece)?;
        let is_other = |dim: &&u32| others.iter().any(|&other| number(other) == **dim);
        let rows = order.iter().find(is_other).copied()?;
        let at = dims
            .output_spatial
            .iter()
            .position(|&dim| number(dim) == rows)?;
        Some(Pieces {
            input_rows: *dims.input_spatial.get(at)?,
            order,
        })
    }

    /// The order with least padding in which pieces of this length can be put together.
    fn order_of_pieces(
        &self,
        dims: &ConvDims,
        bits: u32,
        sizes: &[i64],
        piece: i64,
    ) -> Option<Order> {
        let (folded, others) = dims.output_spatial.split_last()?;
        let (folded, batch) = (number(*folded), number(dims.output_batch));
        let feature = number(dims.output_feature);
        let mut inner: SmallVec<[u32; 6]> = others.iter().map(|&dim| number(dim)).collect();
        inner.push(feature);
        let lanes = inner.clone();
        if piece % ROWS == 0 || ROWS % piece == 0 {
            inner.push(folded);
        }
        let mut least: Option<(f64, Order)> = None;
        for &minor in lanes.iter().rev() {
            for &second in inner.iter().filter(|&&second| second != minor) {
                let mut order = Order::from_slice(&[minor, second]);
                for dim in [folded, batch] {
                    if dim != second {
                        order.push(dim);
                    }
                }
                let rest = (0..sizes.len() as u32).rev();
                let rest: Order = rest.filter(|dim| !order.contains(dim)).collect();
                order.extend(rest);
                let mut padded: SmallVec<[i64; 6]> = sizes.into();
                *padded.get_mut(folded as usize)? = ROWS * piece;
                let bytes = self.machine.bytes(bits, &padded, &order);
                if least.as_ref().is_none_or(|(fewest, _)| bytes < *fewest) {
                    least = Some((bytes, order));
                }
            }
        }
        least.map(|(_, order)| order)
    }
}
