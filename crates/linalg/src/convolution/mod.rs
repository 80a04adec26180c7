//! Convolutions as [matrix products](crate::gemm): the rows are the positions of the window and the
//! batch, the columns the output features, the depth the taps and the input features. There is no
//! im2col copy: axes with overlapping strides take its place.
//!
//! - An input whose windows reach outside of it is first copied with its [border](Border).
//! - A base dilation gives one product for each phase; the phase's width is in the columns (see
//!   `geometry`).
//! - Groups are the product's batch.
//!
//! The choice of products depends on the convolution's sizes. A compiler, and a compiled program
//! whose sizes are symbolic, call the same functions. Nothing is allocated.

mod geometry;
mod padding;

use crate::border::BorderedDim;
use crate::gemm::{Axes, Axis, MAX_AXES};
use crate::list::List;
use crate::planes::ImageBounds;
use core::cmp::Reverse;
pub use geometry::{Dim, Geometry, Phase, Progression, Spatial, Window, row_major};
pub use padding::Border;

/// The maximum number of products of one convolution.
const MAX_PRODUCTS: usize = 64;
/// The maximum ratio of a bordered copy's size to the size of input and output together.
const MAX_GROWTH: i64 = 4;
/// Elements that a bordered copy may always have.
const SMALL: i64 = 1 << 16;
/// The maximum number of dimensions of an array: the spatial ones become rows, together with the
/// batch.
pub const MAX_DIMS: usize = MAX_AXES + 1;

/// The part of each input dimension that windows reach: `low..end` in the input's positions,
/// possibly outside of it.
type Reach = List<(i64, i64), MAX_DIMS>;

/// The products of a convolution with known sizes.
pub struct Convolution<'a> {
    geometry: Geometry<'a>,
    /// The phases of the first spatial dimension, then those of the others.
    phases: List<Phase, { MAX_PRODUCTS + MAX_AXES }>,
    /// The number of phases of each dimension.
    counts: List<usize, MAX_AXES>,
    reach: Reach,
    is_bordered: bool,
}

impl<'a> Convolution<'a> {
    /// The products for a geometry; `None` if there would be too many.
    pub fn new(geometry: Geometry<'a>) -> Option<Self> {
        if geometry.spatial.len() >= MAX_AXES || geometry.input_dims.len() > MAX_DIMS {
            return None;
        }
        let mut found = Self {
            geometry,
            phases: List::new(),
            counts: List::new(),
            reach: List::new(),
            is_bordered: false,
        };
        for &size in geometry.input_dims {
            found.reach.push((0, size));
        }
        // Groups of one feature are computed by separate loops, which have no columns.
        let is_wide = geometry.groups == 1 || geometry.group_outputs > 1;
        let mut products = 1;
        for spatial in geometry.spatial {
            let before = found.phases.len();
            let most = before + MAX_PRODUCTS / products;
            let mut are_too_many = false;
            spatial.phases(is_wide, &mut |phase| {
                are_too_many = found.phases.len() >= most;
                if !are_too_many {
                    found.phases.push(phase);
                }
                !are_too_many
            })?;
            if are_too_many {
                return None;
            }
            let own = &found.phases[before..];
            products *= own.len().max(1);
            let reaches = || own.iter().filter_map(Phase::reach);
            let low = reaches().map(|(low, _)| low).min();
            let end = reaches().map(|(_, end)| end).max();
            if let (Some(low), Some(end)) = (low, end)
                && (low < 0 || end > spatial.input.size)
            {
                *found.reach.get_mut(spatial.input_dim)? = (low, end);
                found.is_bordered = true;
            }
            found.counts.push(own.len());
        }
        Some(found)
    }

    /// Whether a window reaches outside of the input.
    pub fn is_bordered(&self) -> bool {
        self.is_bordered
    }

    /// The copy of the input with its border, for elements of this many bytes; `None` if it would
    /// be too large.
    pub fn border(&self, element: usize) -> Option<Border> {
        let sizes = self.geometry.input_dims;
        let border = Border::new(sizes, &self.reach, element)?;
        let product = |sizes: &[i64]| sizes.iter().try_fold(1i64, |n, &s| n.checked_mul(s));
        let elements = product(&border.sizes)?;
        let both = product(sizes)?.checked_add(self.geometry.output_elements()?)?;
        let is_small = elements <= SMALL.max(both.saturating_mul(MAX_GROWTH));
        is_small.then_some(border)
    }

    /// The single product of windows that reach outside of images, for a loop that skips what is
    /// outside: it needs no copy.
    pub fn without_border(&self) -> Option<(Axes, ImageBounds)> {
        let ([lines, columns], &[1, 1]) = (self.geometry.spatial, &self.counts[..]) else {
            return None;
        };
        let [line, column] = self.phases[..] else {
            return None;
        };
        // The columns of a line are adjacent, and the lines contiguous.
        if [columns.input.stride, columns.output.stride] != [1, 1]
            || lines.input.stride != columns.input.size
        {
            return None;
        }
        let axes = self.axes(&[line, column], None)?;
        let bounds = ImageBounds {
            first: [line.start as isize, column.start as isize],
            size: [lines.input.size as usize, columns.input.size as usize],
        };
        Some((axes, bounds))
    }

    /// Calls `visit` with the axes of each product; they refer to the copy with a border, if there
    /// is one. If `visit` rejects a product, the visits end with `None`.
    pub fn each_product(
        &self,
        border: Option<&Border>,
        visit: &mut dyn FnMut(Axes) -> Option<()>,
    ) -> Option<()> {
        let count = self.counts.iter().product::<usize>();
        for number in 0..count {
            // The choice of a phase in each dimension; the last dimension's changes fastest.
            let mut chosen: List<Phase, MAX_AXES> = List::new();
            let (mut first, mut places) = (0, count);
            for &own in &self.counts {
                places /= own;
                chosen.push(self.phases[first + number / places % own]);
                first += own;
            }
            visit(self.axes(&chosen, border)?)?;
        }
        Some(())
    }

    /// The axes of the product for one choice of phases.
    fn axes(&self, phases: &[Phase], border: Option<&Border>) -> Option<Axes> {
        let axis = |size: i64, lhs: i64, rhs: i64, out: i64| -> Option<Axis> {
            Some(Axis {
                size: usize::try_from(size).ok()?,
                lhs: isize::try_from(lhs).ok()?,
                rhs: isize::try_from(rhs).ok()?,
                out: isize::try_from(out).ok()?,
            })
        };
        let g = &self.geometry;
        let input = |dim: usize, own: i64| match border {
            Some(border) => border.strides.get(dim).copied(),
            None => Some(own),
        };
        let [input_batch, output_batch] = g.batch;
        let [in_features, kernel_in] = g.in_features;
        let [kernel_out, out_features] = g.out_features;
        let [batch_dim, features_dim] = g.other_input_dims;
        let batch_stride = input(batch_dim, input_batch.stride)?;
        let features_stride = input(features_dim, in_features.stride)?;
        let mut axes = Axes::default();
        axes.rows.push(axis(
            output_batch.size,
            batch_stride,
            0,
            output_batch.stride,
        )?);
        axes.columns.push(axis(
            g.group_outputs,
            0,
            kernel_out.stride,
            out_features.stride,
        )?);
        let mut starts = [0i64; 3];
        for (spatial, phase) in g.spatial.iter().zip(phases) {
            let x = input(spatial.input_dim, spatial.input.stride)?;
            let (k, y) = (spatial.kernel.stride, spatial.output.stride);
            let (outputs, taps) = (phase.outputs, phase.taps);
            let direction = if spatial.window.is_reversed { -1 } else { 1 };
            if phase.width > 1 {
                let by_phase = direction * phase.tap_shift * k;
                axes.columns.push(axis(phase.width, 0, by_phase, y)?);
            }
            let moved = phase.by_output * x;
            axes.rows
                .push(axis(outputs.count, moved, 0, outputs.step * y)?);
            let by_tap = direction * taps.step * k;
            axes.depth
                .push(axis(taps.count, phase.by_tap * x, by_tap, 0)?);
            let low = match border {
                Some(_) => self.reach.get(spatial.input_dim)?.0,
                None => 0,
            };
            starts[0] += (phase.start - low) * x;
            starts[1] += spatial.tap_offset(taps.first);
            starts[2] += outputs.first * y;
        }
        // Orders axes so that elements that are adjacent in the result are adjacent in the product.
        axes.columns.sort_by_key(|axis| Reverse(axis.out));
        axes.depth
            .push(axis(kernel_in.size, features_stride, kernel_in.stride, 0)?);
        if g.groups > 1 {
            let outputs = g.group_outputs;
            let [batches, channels] = g.input_offset(0, outputs);
            axes.batch.push(axis(
                g.groups,
                batches * batch_stride + channels * features_stride,
                outputs * kernel_out.stride,
                outputs * out_features.stride,
            )?);
        }
        for (to, from) in axes.starts.iter_mut().zip(starts) {
            *to = isize::try_from(from).ok()?;
        }
        Some(axes)
    }
}

/// The dimensions of a border, outermost first.
pub type BorderedDims = List<BorderedDim, MAX_DIMS>;
