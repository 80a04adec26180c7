//! Packing of operands into panels: the elements of each panel, and its address.

use super::geometry::{Axis, TOGETHER, chunks, fill_offsets, offsets_at, pieces};
use super::{Side, Worker};
use crate::list::List;
use crate::microkernels::pack::{Lanes, MAX_LANES, Run, turn};
use core::ops::Range;

/// Units of the depth that are packed for one panel before the next panel.
const STRETCH: usize = 16;

/// A packed panel's address, and the distance of its groups in units.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    pub(super) start: *const u8,
    pub(super) stride: usize,
}

/// The maximum number of panels that are packed together: none is narrower than four columns.
const MAX_PANELS: usize = TOGETHER / 4;

/// The columns of the right panels that were packed last; their lanes are in the scratch memory.
#[derive(Default)]
pub(super) struct LastLanes {
    columns: Range<usize>,
    panels: usize,
}

impl Worker<'_> {
    /// The start of a block's left panels for a depth block; `before` units are packed before it.
    pub(super) fn left_panel(
        &self,
        block: &Range<usize>,
        units: &Range<usize>,
        before: usize,
    ) -> *mut u8 {
        let packed = || {
            let offset = before * block.len() * self.blocks.unit_bytes;
            self.left().wrapping_add(offset)
        };
        let kept = self.kept_panels(Side::Left, block.start, units);
        kept.unwrap_or_else(packed)
    }

    /// Rows in parts of at most `most`: equal ones, except where tiles are prepacked.
    pub(super) fn row_pieces(
        &self,
        rows: &Range<usize>,
        size: usize,
    ) -> impl Iterator<Item = Range<usize>> + use<> {
        pieces(rows, size, !self.keeps(Side::Left))
    }

    /// Packs the right panels of a chunk of columns for a depth block, after those of `before`
    /// units.
    ///
    /// # Safety
    /// As [`Self::matrix`]; there is room for them.
    pub(super) unsafe fn pack_right(
        &mut self,
        chunk: &Range<usize>,
        units: &Range<usize>,
        before: usize,
    ) {
        let width = self.table.tile.width();
        // A right operand with adjacent columns is read along its rows.
        let by_rows = self.product.axes.columns.last().is_some_and(|a| a.rhs == 1);
        let stretch = if by_rows { STRETCH } else { units.len() };
        for together in chunks(chunk, TOGETHER) {
            let lanes = self.scratch.wrapping_add(self.blocks.lanes());
            let lanes = lanes.cast::<Lanes>();
            if self.last_lanes.columns != together {
                let mut panels = 0;
                for panel in chunks(&together, width) {
                    // SAFETY: the caller promises scratch memory with room for the lanes of as
                    // many panels as are packed together.
                    unsafe { lanes.add(panels).write(self.lanes(Side::Right, &panel)) };
                    panels += 1;
                }
                self.last_lanes = LastLanes {
                    columns: together.clone(),
                    panels,
                };
            }
            // SAFETY: this many panels were written there, either above or when these columns were
            // last packed.
            let lanes = unsafe { core::slice::from_raw_parts(lanes, self.last_lanes.panels) };
            let panels = chunks(&together, width);
            let panels = panels.map(|panel| self.right_panel(chunk, &panel, units, before));
            let panels: List<Panel, MAX_PANELS> = panels.collect();
            let mut inexact = false;
            for stretch in chunks(units, stretch) {
                for (lanes, right) in lanes.iter().zip(&panels) {
                    let skipped = (stretch.start - units.start) * right.stride;
                    let skipped = skipped * self.blocks.unit_bytes;
                    let start = right.start.wrapping_add(skipped).cast_mut();
                    // SAFETY: the caller promises pointers to arrays that contain every element the
                    // axes reach, and that no other worker has these rows and columns.
                    inexact |=
                        unsafe { self.pack(Side::Right, lanes, &stretch, start, right.stride) };
                }
            }
            self.inexact |= inexact;
        }
    }

    /// The start of a chunk's right panel for a depth block; `before` units are packed before it.
    pub(super) fn right_panel(
        &self,
        chunk: &Range<usize>,
        panel: &Range<usize>,
        units: &Range<usize>,
        before: usize,
    ) -> Panel {
        let packed = || {
            let chunk_width = chunk.len().next_multiple_of(self.table.tile.width());
            let before = before * chunk_width + (panel.start - chunk.start) * units.len();
            self.right().wrapping_add(before * self.blocks.unit_bytes)
        };
        let kept = self.kept_panels(Side::Right, panel.start, units);
        Panel {
            start: kept.unwrap_or_else(packed),
            stride: self.panel_width(panel.len()),
        }
    }

    /// The number of columns, rounded up to whole vectors.
    pub(super) fn panel_width(&self, columns: usize) -> usize {
        columns.next_multiple_of(self.table.tile.lanes)
    }

    /// The offsets of an operand's rows or columns.
    pub(super) fn lanes(&self, side: Side, range: &Range<usize>) -> Lanes {
        let axes = &self.product.axes;
        let (axes, pick): (_, fn(&Axis) -> isize) = match side {
            Side::Left => (&axes.rows, |a| a.lhs),
            Side::Right => (&axes.columns, |a| a.rhs),
        };
        Lanes::new(range.len(), |offsets| {
            fill_offsets(axes, range.start, pick, offsets);
        })
    }

    /// Packs the panels of a block's tiles, one after the other.
    ///
    /// # Safety
    /// As [`Self::matrix`]; there is room at the target.
    pub(super) unsafe fn pack_left(
        &mut self,
        rows: &Range<usize>,
        units: &Range<usize>,
        target: *mut u8,
    ) {
        for tile in self.row_pieces(rows, self.table.tile.rows) {
            let lanes = self.lanes(Side::Left, &tile);
            let before = (tile.start - rows.start) * units.len() * self.blocks.unit_bytes;
            let target = target.wrapping_add(before);
            // SAFETY: the caller promises pointers to arrays that contain every element the axes
            // reach, and that no other worker has these rows and columns.
            self.inexact |= unsafe { self.pack(Side::Left, &lanes, units, target, tile.len()) };
        }
    }

    /// Packs some rows, each contiguous along the depth, one after the other.
    ///
    /// # Safety
    /// As [`Self::pack_left`] and [`turn`].
    pub(super) unsafe fn pack_rows(
        &mut self,
        rows: &Range<usize>,
        units: &Range<usize>,
        target: *mut u8,
    ) {
        for some in chunks(rows, MAX_LANES) {
            let lanes = self.lanes(Side::Left, &some);
            for stretch in chunks(units, STRETCH) {
                let mut groups = [0i32; STRETCH * MAX_LANES];
                let groups = &mut groups[..stretch.len() * some.len()];
                let before =
                    (some.start - rows.start) * units.len() + (stretch.start - units.start);
                let target = target.cast::<i32>().wrapping_add(before);
                // SAFETY: the caller promises that the left operand's elements can be read, and
                // room at the target; this many groups and rows of units exist.
                unsafe {
                    let start = groups.as_mut_ptr().cast();
                    self.inexact |= self.pack(Side::Left, &lanes, &stretch, start, some.len());
                    turn(groups, some.len(), target, units.len());
                }
            }
        }
    }

    /// Packs a panel run by run; returns whether a unit was unsuitable for the table.
    ///
    /// # Safety
    /// As [`Self::matrix`]; there is room at the target.
    pub(super) unsafe fn pack(
        &self,
        side: Side,
        lanes: &Lanes,
        units: &Range<usize>,
        target: *mut u8,
        width: usize,
    ) -> bool {
        let axes = match side {
            Side::Left => &self.product.depths[0],
            Side::Right => &self.product.depths[1],
        };
        let (outer, inner) = match axes.split_last() {
            Some((inner, outer)) => (outer, *inner),
            None => (
                &axes[..],
                Axis {
                    size: 1,
                    ..Axis::default()
                },
            ),
        };
        let (function, base, array, stride) = match side {
            Side::Left => (self.table.pack_lhs, self.arrays.lhs, 0, inner.lhs),
            Side::Right => (self.table.pack_rhs, self.arrays.rhs, 1, inner.rhs),
        };
        let step = self.table.arithmetic.step();
        let run_units = inner.size.div_ceil(step);
        let (mut unit, mut inexact) = (units.start, false);
        while unit < units.end {
            let (run, skipped) = (unit / run_units, unit % run_units);
            let taken = (run_units - skipped).min(units.end - unit);
            let offset = offsets_at(outer, run)[array] + (skipped * step) as isize * stride;
            let before = (unit - units.start) * width * self.blocks.unit_bytes;
            let run = Run {
                source: self.product.place(base, array, offset),
                stride,
                length: (taken * step).min(inner.size - skipped * step),
                lanes,
                target: target.wrapping_add(before),
                width,
            };
            // SAFETY: the caller promises pointers to arrays that contain every element the axes
            // reach, and that no other worker has these rows and columns, and the elements from
            // `unit` on, `taken` of them, are within the depth.
            inexact |= unsafe { function(&run) };
            unit += taken;
        }
        inexact
    }
}
