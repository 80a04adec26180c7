//! Operands that are packed once for many runs.
//!
//! An operand that is the same in every run (weights) is packed over all of the depth and all of
//! its lanes. The packed form has a header of one cache line, whose first byte says whether a unit
//! is unsuitable for the table's arithmetic; then, for each index of the batch, the blocks of the
//! depth, each with all panels. Panels do not depend on how a run is split between threads: parts
//! end at panels' ends.

use super::blocks::Blocks;
use super::packing::LastLanes;
use super::unpacked::InPlace;
use super::{Axes, Axis, Product, Side, Sizes, Table, Types, Worker, arithmetics};
use crate::microkernels::CpuFeatures;
use crate::microkernels::packed_tile::{Arithmetic, TileKernel};
use crate::microkernels::strided_tile::StridedKernel;
use core::ops::Range;

/// Bytes of the header before the panels.
const HEAD: usize = 64;
/// The minimum number of rows for which bf16 operands are packed although they could be read in
/// place: with fewer, multiplication keeps up with memory.
const MIN_ROWS: usize = 2;
/// The minimum number of columns for this: one vector.
const MIN_COLUMNS: usize = 16;

/// An operand that is the same in every run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fixed {
    side: Side,
}

impl Fixed {
    /// The operand with this number, in a product whose operands may be swapped.
    pub(super) fn new(operand: usize, swapped: bool) -> Self {
        let side = match (operand == 0) == swapped {
            true => Side::Right,
            false => Side::Left,
        };
        Self { side }
    }

    /// The same operand after the operands are swapped.
    pub(super) fn swapped(self) -> Self {
        let side = match self.side {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        };
        Self { side }
    }

    /// Whether it is the right operand.
    pub(super) fn is_right(self) -> bool {
        self.side == Side::Right
    }

    /// Whether operands should be swapped, so that this one is on the right: columns must fill
    /// vectors, whereas rows may be few. An operand that is read in place stays where it is.
    pub(super) fn is_better_right(self, isa: CpuFeatures, types: Types, axes: &Axes) -> bool {
        let sizes = Sizes::new(axes);
        let Some(&arithmetic) = arithmetics(types).first() else {
            return false;
        };
        let Some(tile) = TileKernel::new(isa, arithmetic) else {
            return false;
        };
        self.side == Side::Left
            && types[0] == types[1]
            && StridedKernel::new(isa, arithmetic, sizes.rows).is_none()
            && sizes.columns < tile.width()
            && sizes.rows > sizes.columns
    }

    /// Whether few rows should be multiplied by packed panels of this operand rather than by the
    /// operand in place: products of bf16 pairs take half as long as products that widen each bf16
    /// to f32. Other floats gain nothing.
    pub(super) fn is_worth_packing(self, arithmetic: Arithmetic, sizes: Sizes) -> bool {
        let suits = sizes.rows >= MIN_ROWS && sizes.columns >= MIN_COLUMNS;
        suits && self.side == Side::Right && arithmetic == Arithmetic::Bf16Pairs
    }

    /// The side that is packed once, if a run would pack it.
    pub(super) fn packed(self, in_place: Option<&InPlace>) -> Option<Side> {
        let packs = match (in_place, self.side) {
            (None, _) => true,
            (Some(in_place), Side::Right) => !in_place.reads_right(),
            // Packed some rows at a time, which costs little compared with multiplying.
            (Some(_), Side::Left) => false,
        };
        packs.then_some(self.side)
    }
}

#[cfg(feature = "std")]
/// Everything that determines the packed form of an operand: operands with equal layouts are packed
/// alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedLayout {
    side: Side,
    element_bytes: usize,
    arithmetic: Arithmetic,
    start: isize,
    /// Sizes and strides of the batch, the lanes and the depth.
    batch: Vec<(usize, isize)>,
    lanes: Vec<(usize, isize)>,
    depth: Vec<(usize, isize)>,
}

/// The packed operand for one index of the batch.
#[derive(Clone, Copy)]
pub(super) struct KeptMatrix {
    pub(super) side: Side,
    pub(super) start: *mut u8,
}

/// Whether a packed operand has units that are unsuitable for its arithmetic.
///
/// # Safety
/// `kept` points to the output of [`Product::keep`].
pub(super) unsafe fn is_inexact(kept: *const u8) -> bool {
    // SAFETY: the caller promises that `kept` points to the output of [`Product::keep`].
    unsafe { *kept != 0 }
}

impl Product {
    /// The number of the operand that is packed once, and the bytes of its packed form.
    pub fn kept_bytes(&self) -> Option<(usize, usize)> {
        let side = self.kept?;
        let operand = usize::from((side == Side::Right) != self.swapped);
        let bytes = self.sizes.batch.checked_mul(self.kept_matrix_bytes(side))?;
        Some((operand, bytes.checked_add(HEAD)?))
    }

    /// Whether runs also read the unpacked form of the operand that is packed once.
    pub fn needs_source(&self) -> bool {
        self.exact.is_some()
    }

    /// The layout of the operand that is packed once.
    #[cfg(feature = "std")]
    pub fn kept_layout(&self) -> Option<PackedLayout> {
        let side = self.kept?;
        let (array, lanes) = match side {
            Side::Left => (0, &self.axes.rows),
            Side::Right => (1, &self.axes.columns),
        };
        let own = |axes: &[Axis]| -> Vec<(usize, isize)> {
            let stride = |a: &Axis| if array == 0 { a.lhs } else { a.rhs };
            axes.iter().map(|a| (a.size, stride(a))).collect()
        };
        Some(PackedLayout {
            side,
            element_bytes: self.element_bytes[array],
            arithmetic: self.table.arithmetic,
            start: self.axes.starts[array],
            batch: own(&self.axes.batch),
            lanes: own(lanes),
            depth: own(&self.depths[array]),
        })
    }

    /// Packs the operand that is packed once.
    ///
    /// # Safety
    /// `operand` points to an array as in [`Self::run`]; `kept` has [`Self::kept_bytes`], aligned
    /// to 64.
    #[cfg(feature = "std")]
    pub unsafe fn keep(&self, operand: *const u8, kept: *mut u8) {
        let mut scratch = vec![[0u64; 8]; self.packing_bytes() / 64 + 1];
        let scratch = scratch.as_mut_ptr().cast::<u8>();
        let scratch = scratch.wrapping_add(scratch.align_offset(64));
        // SAFETY: the caller promises the operand and its packed form; the scratch memory was
        // allocated for it.
        unsafe { self.keep_in(operand, kept, scratch) };
    }

    fn packing_blocks(&self) -> Blocks {
        let s = self.sizes;
        Blocks::new(self, &self.table, s.rows, s.columns).packing_all(&self.table)
    }

    /// Bytes of scratch memory that packing needs.
    pub fn packing_bytes(&self) -> usize {
        self.packing_blocks().bytes()
    }

    /// Packs the operand that is packed once.
    ///
    /// # Safety
    /// `operand` points to an array as in [`Self::run`]; `kept` has [`Self::kept_bytes`] and
    /// `scratch` [`Self::packing_bytes`], aligned to 64.
    pub unsafe fn keep_in(&self, operand: *const u8, kept: *mut u8, scratch: *mut u8) {
        let (Some(side), s) = (self.kept, self.sizes) else {
            return;
        };
        let arrays = self.arrays([operand, operand], core::ptr::null_mut(), kept);
        let blocks = self.packing_blocks();
        let mut worker = Worker {
            product: self,
            table: &self.table,
            blocks,
            arrays,
            scratch,
            kept: None,
            inexact: false,
            last_part: None,
            last_lanes: LastLanes::default(),
        };
        for index in 0..s.batch {
            worker.enter(&arrays, index);
            worker.kept = Some(self.kept_matrix(kept, side, index));
            for depth in 0..blocks.depths {
                let units = blocks.depth(depth);
                // SAFETY: the caller promises that `operand` points to an array as in
                // [`Self::run`], and that `kept` has [`Self::kept_bytes`], aligned to 64; the
                // packed form has room for all panels.
                unsafe {
                    match side {
                        Side::Left => {
                            let target = worker.left_panel(&(0..s.rows), &units, 0);
                            worker.pack_left(&(0..s.rows), &units, target);
                        }
                        Side::Right => worker.pack_right(&(0..s.columns), &units, 0),
                    }
                }
            }
        }
        // SAFETY: the packed form begins with the header.
        unsafe { kept.write(u8::from(worker.inexact)) };
    }

    /// The side that was prepacked, if this table runs from it.
    pub(super) fn kept_for(&self, table: &Table) -> Option<Side> {
        let own = table.arithmetic == self.table.arithmetic;
        self.kept.filter(|_| own)
    }

    /// The numbers of rows and columns that stay together when a run is divided: those of a panel.
    pub(super) fn part_units(&self) -> [usize; 2] {
        match self.kept {
            Some(Side::Left) => [self.table.tile.rows, 1],
            Some(Side::Right) => [1, self.table.tile.width()],
            None => [1, 1],
        }
    }

    /// The packed operand for an index of the batch.
    pub(super) fn kept_matrix(&self, kept: *mut u8, side: Side, index: usize) -> KeptMatrix {
        let before = HEAD + index * self.kept_matrix_bytes(side);
        KeptMatrix {
            side,
            start: kept.wrapping_add(before),
        }
    }

    fn kept_matrix_bytes(&self, side: Side) -> usize {
        let s = self.sizes;
        let lanes = match side {
            Side::Left => s.rows,
            Side::Right => s.columns.next_multiple_of(self.table.tile.width()),
        };
        let blocks = Blocks::new(self, &self.table, s.rows, s.columns);
        // Vectors are stored whole; the excess needs room after the end.
        let bytes = lanes * blocks.units * blocks.unit_bytes;
        (bytes + HEAD).next_multiple_of(64)
    }
}

impl Worker<'_> {
    /// The panels of a prepacked operand, starting with that of row or column `first`.
    pub(super) fn kept_panels(
        &self,
        side: Side,
        first: usize,
        units: &Range<usize>,
    ) -> Option<*mut u8> {
        let kept = self.kept.filter(|kept| kept.side == side)?;
        let s = self.product.sizes;
        let lanes = match side {
            Side::Left => s.rows,
            Side::Right => s.columns.next_multiple_of(self.table.tile.width()),
        };
        let before = units.start * lanes + first * units.len();
        Some(kept.start.wrapping_add(before * self.blocks.unit_bytes))
    }
}
