//! Products that read their operands in place.
//!
//! Rows of the left operand are read in place, at any distances from each other. The right operand
//! is read in place if its columns are adjacent: the first tile of a panel also copies it, for the
//! tiles below. Otherwise, or if it is large and would be read often, it is packed. A left operand
//! whose strides cause cache conflicts is packed too, some rows at a time.
//!
//! If packing would transpose the right operand, the operands may be swapped instead, if
//! transposing the result costs less: its tiles are transposed in registers as they are stored.

mod stretches;
#[cfg(feature = "std")]
mod tile_forms;

use super::geometry::{
    Axes, Axis, DEEP, ELEMENT, MAX_DEPTH, TOGETHER, chunks, depth_count, fill_offsets, near_rows,
    passes, pieces, share, share_of_units, swap_operands,
};
use super::packing::Panel;
use super::{Side, Sizes, Table, Types, Worker};
use crate::microkernels::CpuFeatures;
use crate::microkernels::pack::{MAX_LANES, any_subnormal};
use crate::microkernels::packed_tile::Arithmetic;
use crate::microkernels::store::Stored;
use crate::microkernels::strided::{Fetch, Later, Strided};
use crate::microkernels::strided_tile::{
    MATRIX_ROWS, MAX_ROWS, StridedFn, StridedKernel, TILE_BYTES, TILE_ROWS,
};
#[cfg(feature = "std")]
use crate::tables;
use crate::tables::Tables;
use crate::thread_pool::is_stopped;
use core::mem::MaybeUninit;
use core::ops::Range;
use stretches::Stretches;
use tegula_ir::ElementType;

/// Bytes of right panels that are packed together: they stay in the second-level cache.
const PANELS_BYTES: usize = 1 << 19;
/// The maximum number of passes over a right operand of more than [`CACHED`] bytes in place. A
/// product that would make more passes packs the operand once instead. (This makes a product of
/// 1000 rows, columns and units 1.2 times as fast on an Intel server, Cascade Lake, whose
/// third-level cache has a fifth of the second one's bandwidth: median of 15, 27 November 2026.)
const FEW_PASSES: usize = 2;
/// The size, in bytes, up to which a right operand is assumed to be in the second-level cache.
const CACHED: usize = 1 << 19;
/// Addresses this many bytes apart map to the same set of the first-level cache.
const ALIASED: usize = 4096;
/// The maximum numbers of rows that are multiplied in f32 by 16-bit floats in place: packing takes
/// 106 ps for an element, and reading it again for each tile a fraction of that. Products of bf16
/// pairs halve the cost of multiplying.
const HALVES_ROWS: usize = 4 * MAX_ROWS;
const PAIRS_ROWS: usize = MAX_ROWS;
/// The maximum number of rows of a tile whose rows map to the same set of the first-level cache,
/// which has 8 to 12 ways; and the minimum number of rows for which lower tiles are faster.
const ALIASED_ROWS: usize = 10;
const MANY_ROWS: usize = 128;
/// With at least this many columns, packing the left operand costs little compared with
/// multiplying.
const MANY_COLUMNS: usize = 256;

/// How operands are read in place.
#[derive(Clone, Debug)]
pub(super) struct InPlace {
    kernel: StridedKernel,
    /// The kernel's function that stores elements of the result's type, if there is one.
    storing: Option<StridedFn>,
    pub(super) arithmetic: Arithmetic,
    /// Whether the left and the right operand are read in place, rather than packed.
    lies: [bool; 2],
    /// The maximum number of rows of a tile.
    height: usize,
    /// Whether right panels are prefetched, and copied, when they are first read.
    fetched: bool,
    copied: bool,
    /// The maximum depth of a block, in units.
    deepest: usize,
    /// Whether the columns of a panel may be non-adjacent in the result.
    out_breaks: bool,
    /// The depth by blocks, for tiles that read the right operand itself, and for those that read
    /// its copy.
    depths: [Stretches; 2],
    /// Columns that are adjacent in the right operand and in the result.
    run: usize,
    /// The stride of columns in the result, if tiles are transposed as they are stored.
    turned: Option<isize>,
}

impl InPlace {
    /// How a product reads its operands; `None` if packing both is better. A large right operand
    /// that is `fixed` is packed for all runs.
    #[inline(always)]
    pub(super) fn new(
        memory: &mut Tables,
        isa: CpuFeatures,
        table: &Table,
        [lhs, rhs, out]: Types,
        axes: &Axes,
        (sizes, fixed): (Sizes, bool),
    ) -> Option<Self> {
        let inner = |axes: &[Axis]| axes.last().copied();
        let one = Axis {
            size: 1,
            rhs: 1,
            out: 1,
            ..Axis::default()
        };
        let column = inner(&axes.columns).unwrap_or(one);
        let arithmetic = table.arithmetic;
        let halves = match arithmetic {
            Arithmetic::F32 => halves(isa, rhs, axes, sizes),
            _ => None,
        };
        let kernel = halves.or_else(|| StridedKernel::new(isa, arithmetic, sizes.rows))?;
        let (row, depth) = (inner(&axes.rows), inner(&axes.depth));
        let strides = [row, depth].map(|axis| axis.map_or(1, |a| a.lhs));
        // Two elements form a unit if they are adjacent and no run of the depth ends with half a
        // unit.
        let step = arithmetic.step();
        let units = match step {
            1 => arithmetic.element_type() == Some(lhs),
            _ => strides[1] == 1 && sizes.run.is_multiple_of(step),
        };
        // Vectors end at the ends of runs of columns.
        let filled = column.size * 4 >= column.size.next_multiple_of(kernel.lanes) * 3;
        let own_type = table.same && arithmetic.element_type() == Some(rhs);
        let large = sizes.depth * sizes.columns * lhs.storage_bytes() > CACHED;
        let turned = turned(&kernel, axes, sizes).filter(|_| table.same && !large);
        let depth_units = [sizes.depth.div_ceil(step), arithmetic.bytes()];
        let passes = |most| passes(sizes.rows, depth_units, most);
        // In place, each row of a panel is in another page, and finding pages takes longer than
        // reading: on an Intel server (Emerald Rapids, pages of 4 KiB in a virtual machine) 40 rows
        // times 1024 by 3072 read 1.3 to 2.3 GB/s of 5 to 7 (29 November 2026).
        let seldom = !large || !fixed && passes(MAX_DEPTH) <= FEW_PASSES;
        let right_lies = (own_type && seldom || halves.is_some())
            && column.rhs == 1
            && (column.out == 1 || turned.is_some())
            && (filled || axes.columns.len() <= 1);
        let converts = halves.is_some();
        let deepest = match right_lies {
            // Sums with another type than the elements are stored only when they are complete.
            _ if converts || kernel.matrices && !table.same => usize::MAX,
            // Shallower blocks have more rows, so that the right operand is read less often.
            true if large && passes(MAX_DEPTH) < passes(DEEP) => MAX_DEPTH,
            true => DEEP,
            false => MAX_DEPTH,
        };
        let complete = table.same || depth_count(sizes.depth / step, deepest) <= 1;
        if !(units || converts || kernel.matrices) || !complete {
            return None;
        }
        let bytes = lhs.storage_bytes();
        let aliased = |stride: isize| (stride.unsigned_abs() * bytes).is_multiple_of(ALIASED);
        let scattered = strides[0] != 1 && strides[1] != 1;
        // Rows that map to the same set of the first-level cache are read in place if the set holds
        // as many as a low tile has.
        let crowded = aliased(strides[0])
            && isa.first_level_ways() < ALIASED_ROWS
            && kernel.rows.min(sizes.rows) >= isa.first_level_ways();
        let packs = scattered || aliased(strides[1]) || crowded;
        let left_lies = sizes.columns < MANY_COLUMNS || !packs;
        let left_lies = units && (left_lies || step > 1);
        let lies = [left_lies, right_lies];
        // The code for two packed operands has its own blocking.
        if lies == [false; 2] && !kernel.matrices {
            return None;
        }
        let low = left_lies && aliased(strides[0]) && sizes.rows >= MANY_ROWS;
        let height = match low && !kernel.matrices {
            true => kernel.rows.min(ALIASED_ROWS),
            false => kernel.rows,
        };
        let aliased = depth.is_some_and(|a| aliased(a.rhs));
        let copied = large || aliased && sizes.rows > kernel.rows;
        let fetched = right_lies && copied && kernel.fetches(sizes.rows);
        Some(Self {
            kernel,
            storing: kernel.storing(out, table.same),
            arithmetic,
            lies,
            height,
            fetched,
            copied: fetched && halves.is_none(),
            deepest,
            out_breaks: column.out != 1 || !right_lies && axes.columns.len() > 1,
            depths: [
                Stretches::new(memory, axes, sizes, step, lies, deepest)?,
                Stretches::new(memory, axes, sizes, step, [left_lies, false], deepest)?,
            ],
            run: if right_lies && axes.columns.len() > 1 {
                column.size
            } else {
                sizes.columns
            },
            turned: turned.filter(|_| right_lies),
        })
    }

    /// Bytes of its tables.
    #[cfg(feature = "std")]
    pub(super) fn table_bytes(&self) -> usize {
        let bytes = |s: &Stretches| tables::bytes(&s.all) + tables::bytes(&s.starts);
        self.depths.iter().map(bytes).sum()
    }

    /// Whether the left operand is read in place.
    #[cfg(test)]
    pub(super) fn reads_left(&self) -> bool {
        self.lies[0]
    }

    /// Whether the right operand is read in place.
    pub(super) fn reads_right(&self) -> bool {
        self.lies[1]
    }

    /// The number of depth blocks for this many units.
    pub(super) fn depth_count(&self, units: usize) -> usize {
        depth_count(units, self.deepest)
    }

    /// The number of rows whose tiles are multiplied by all right panels before the next rows.
    fn near(&self, rows: usize, depth_bytes: usize) -> usize {
        let most = near_rows(depth_bytes) / self.kernel.rows;
        rows.min(most.max(1) * self.kernel.rows)
    }

    /// Blocks of at most `most` rows, almost equal. Those of matrix registers, whose heights are
    /// few, are whole tiles but for the last one.
    pub(super) fn row_blocks(
        &self,
        rows: &Range<usize>,
        most: usize,
    ) -> impl Iterator<Item = Range<usize>> + use<> {
        let unit = match self.kernel.matrices {
            true => self.kernel.rows,
            false => 1,
        };
        let (start, count) = (rows.start, rows.len());
        let blocks = count.div_ceil(most.max(1));
        (0..blocks).map(move |block| {
            let own = share_of_units(count, unit, blocks, block);
            start + own.start..start + own.end
        })
    }

    /// Rows and columns that are packed or copied at once, and the units of both, for depth blocks
    /// of this many units.
    pub(super) fn blocks(
        &self,
        [rows, columns, depth]: [usize; 3],
        width: usize,
        unit_bytes: usize,
    ) -> (usize, usize, usize, usize) {
        let rows = self.near(rows, depth * unit_bytes);
        let near = PANELS_BYTES / (depth * unit_bytes * width).max(1) * width;
        let chunk = match self.lies[1] {
            true => columns,
            false => TOGETHER
                .min(columns.next_multiple_of(width))
                .min(near.max(width)),
        };
        let left = if self.lies[0] { 0 } else { rows * depth };
        let right = match self.lies[1] {
            true if self.copied => width * depth,
            true => 0,
            false => chunk * depth,
        };
        (rows, chunk, left, right)
    }
}

/// The kernel for few rows times a right operand of 16-bit floats in place: packing it would cost
/// more than multiplying in f32.
#[inline(always)]
pub(super) fn halves(
    isa: CpuFeatures,
    rhs: ElementType,
    axes: &Axes,
    sizes: Sizes,
) -> Option<StridedKernel> {
    let &[column] = &axes.columns[..] else {
        return None;
    };
    let most = match rhs {
        ElementType::BF16 if isa.amx_bf16 => MATRIX_ROWS - 1,
        ElementType::BF16 if isa.bf16 => PAIRS_ROWS,
        _ => HALVES_ROWS,
    };
    let few = sizes.rows <= most && (column.rhs, column.out) == (1, 1);
    few.then(|| StridedKernel::of_halves(isa, rhs)).flatten()
}

/// Whether a product whose rows, rather than columns, are adjacent in the result should not be
/// swapped, and store its tiles element by element: if the columns of a swapped right operand would
/// not be adjacent, or would be few.
#[inline(always)]
pub(super) fn keeps_places(isa: CpuFeatures, [lhs, _, out]: Types, axes: &Axes) -> bool {
    let count = |axes: &[Axis]| super::element_count(axes) as f64;
    let arithmetic = match out {
        ElementType::F32 => Arithmetic::F32,
        ElementType::F64 => Arithmetic::F64,
        _ => return false,
    };
    let Some(kernel) = StridedKernel::new(isa, arithmetic, usize::MAX).filter(|_| lhs == out)
    else {
        return false;
    };
    let (rows, columns, depth) = (count(&axes.rows), count(&axes.columns), count(&axes.depth));
    // The fraction of the lanes that hold elements.
    let filled = |size: f64| size / (size as usize).next_multiple_of(kernel.lanes) as f64;
    let changed = match axes.rows.last() {
        Some(row) if row.lhs == 1 && row.size <= kernel.lanes => 0.85 * filled(row.size as f64),
        Some(row) if row.lhs == 1 => filled(row.size as f64),
        _ => 0.6,
    };
    // Storing a tile takes as long as multiplying over this depth, and packing the right operand as
    // long as multiplying this many rows.
    const STORED: f64 = 24.0;
    const PACKED: f64 = 16.0;
    let blocks = depth_count(depth as usize, MAX_DEPTH) as f64;
    let kept = depth / (depth + STORED * blocks) * rows / (rows + PACKED) * filled(columns);
    kept > changed
}

/// The stride of columns in the result, for a product whose tiles are transposed as they are
/// stored: its rows, rather than columns, are adjacent in the result, and the whole depth is one
/// block.
fn turned(kernel: &StridedKernel, axes: &Axes, sizes: Sizes) -> Option<isize> {
    let (&[row], &[column], &[depth]) = (&axes.rows[..], &axes.columns[..], &axes.depth[..]) else {
        return None;
    };
    let suits = kernel.turns
        && (row.out, column.rhs) == (1, 1)
        && column.out != 1
        && sizes.depth <= DEEP
        // Tiles that prefetch or copy cannot be transposed.
        && !(depth.rhs.unsigned_abs() * ELEMENT).is_multiple_of(ALIASED);
    suits.then_some(column.out)
}

/// Whether operands should be swapped although the columns of the result are adjacent. This pays if
/// the right operand would otherwise be transposed as it is packed (or, for few rows, be read
/// `along` its rows), if the left one can be read along its rows, and if transposing the result
/// costs less.
#[inline(always)]
pub(super) fn turns_result(isa: CpuFeatures, types: Types, axes: &Axes, along: bool) -> bool {
    let (&[row], &[column], &[depth]) = (&axes.rows[..], &axes.columns[..], &axes.depth[..]) else {
        return false;
    };
    // Copying the dimensions takes longer than these checks, which need no copy.
    if types != [ElementType::F32; 3] || column.rhs == 1 || depth.rhs != 1 {
        return false;
    }
    let mut other = axes.clone();
    swap_operands(&mut other);
    let sizes = Sizes::new(&other);
    let Some(kernel) = StridedKernel::new(isa, Arithmetic::F32, sizes.rows) else {
        return false;
    };
    let suits = turned(&kernel, &other, sizes).is_some()
        && kernel.vectors(sizes.rows, usize::MAX / 2) <= 2
        && sizes.depth * sizes.columns * ELEMENT <= CACHED
        && !(column.rhs.unsigned_abs() * ELEMENT).is_multiple_of(ALIASED);
    // Costs in sixteenths of a cycle on Zen 4, where multiplying a vector takes a cycle: for each
    // element that is transposed as it is packed or stored. Along rows it takes twice as long.
    const PACKED: usize = 6;
    const STORED: usize = 8;
    const ALONG: usize = 2;
    let (rows, columns) = (row.size, column.size);
    let tiles =
        |rows: usize, columns: usize| rows * columns.next_multiple_of(kernel.lanes) * depth.size;
    let as_is = match along {
        true => ALONG * rows * columns * depth.size,
        false => tiles(rows, columns) + PACKED * columns * depth.size,
    };
    let changed = tiles(columns, rows) + STORED * rows * columns;
    suits && changed < as_is
}

/// The data that the tiles of some rows over a depth block share, for every index of the batch.
pub(super) struct Part<'a> {
    in_place: &'a InPlace,
    rows: Range<usize>,
    /// Byte offsets of the rows from the start of the left operand, in place or packed.
    left: &'a [isize],
    /// The rows' offsets in the result.
    out: &'a [isize],
    /// The offsets of a tile's rows in separately stored sums, and the distance of two rows.
    places: [isize; TILE_ROWS],
    places_apart: usize,
    /// The number of the depth block, and its units.
    depth: usize,
    units: Range<usize>,
}

/// A panel of the right operand.
#[derive(Clone, Copy)]
struct RightPanel<'a> {
    start: *const u8,
    /// Bytes from one depth element to the next.
    step: isize,
    columns: usize,
    /// Whether the panel is read in place.
    lies: bool,
    /// The offsets of the columns in the result, if they are not adjacent there.
    scattered: Option<&'a [isize]>,
    /// The first element of the panel's columns in the result; the start of the result, if they are
    /// scattered.
    out: *mut u8,
}

/// One tile's share of the addresses that several tiles prefetch.
fn shared_fetch(all: Later, tiles: usize, tile: usize) -> Fetch {
    let own = share(all.count, tiles, tile);
    Fetch::Later(Later {
        from: all.from.wrapping_offset(own.start as isize * all.step),
        count: own.len(),
        ..all
    })
}

impl<'a> Worker<'a> {
    /// Computes a product that reads operands in place.
    ///
    /// # Safety
    /// As [`Self::matrix`].
    pub(super) unsafe fn in_place(
        &mut self,
        in_place: &'a InPlace,
        rows: &Range<usize>,
        columns: &Range<usize>,
    ) {
        let [left_lies, right_lies] = in_place.lies;
        let _entered = in_place.kernel.enter();
        for depth in 0..self.blocks.depths {
            let units = self.blocks.depth(depth);
            for chunk in chunks(columns, self.blocks.columns) {
                if !right_lies && !self.keeps(Side::Right) {
                    // SAFETY: the caller promises arrays with every element the axes reach, and
                    // that no other worker has these rows and columns; the panels of a chunk fit.
                    unsafe { self.pack_right(&chunk, &units, 0) };
                }
                for rows in in_place.row_blocks(rows, self.blocks.rows) {
                    if is_stopped() {
                        return;
                    }
                    if !left_lies {
                        let target = self.left();
                        // SAFETY: the caller promises arrays with every element the axes reach, and
                        // that no other worker has these rows and columns; the rows fit.
                        unsafe {
                            match in_place.kernel.matrices {
                                true => self.pack_rows(&rows, &units, target),
                                false => self.pack_left(&rows, &units, target),
                            }
                        }
                    }
                    let same = |part: &Part<'_>| (part.depth, &part.rows) == (depth, &rows);
                    if !self.last_part.as_ref().is_some_and(same) {
                        // The new part reuses the memory of the last one's offsets.
                        self.last_part = None;
                        self.last_part = Some(self.new_part(in_place, depth, rows));
                    }
                    let Some(part) = &self.last_part else {
                        continue;
                    };
                    let looks = in_place.arithmetic == Arithmetic::Bf16Pairs
                        && chunk.start == columns.start;
                    // SAFETY: the caller promises arrays with every element the axes reach, and
                    // that no other worker has these rows and columns; the rows fit; operands that
                    // are not read in place are packed.
                    let inexact = unsafe {
                        let inexact = looks && self.has_subnormals(part);
                        self.part(part, &chunk);
                        inexact
                    };
                    self.inexact |= inexact;
                }
            }
        }
    }

    /// A separate function, like [`Self::part`]: in one large function, the inputs of tiles were
    /// spilled to memory.
    #[inline(never)]
    fn new_part(&self, in_place: &'a InPlace, depth: usize, rows: Range<usize>) -> Part<'a> {
        let units = self.blocks.depth(depth);
        let axes = &self.product.axes.rows;
        let (count, bytes) = (rows.len(), self.blocks.unit_bytes);
        let of_row = units.len() * bytes;
        let places = self.scratch.wrapping_add(self.blocks.places());
        let places = places.cast::<isize>();
        // SAFETY: the caller of [`Product::run`] promises scratch memory with room for the offsets
        // of a block's rows, and this worker has no other part.
        let (left, out) = unsafe {
            places.write_bytes(0, 2 * count);
            let both = core::slice::from_raw_parts_mut(places, 2 * count);
            both.split_at_mut(count)
        };
        if in_place.lies[0] {
            let element = self.product.element_bytes[0] as isize;
            fill_offsets(axes, rows.start, |a| a.lhs * element, left);
        } else if in_place.kernel.matrices {
            for (row, place) in left.iter_mut().enumerate() {
                *place = (row * of_row) as isize;
            }
        } else {
            // Panels are as high as tiles.
            for panel in pieces(&(0..count), in_place.height, true) {
                for (row, place) in left[panel.clone()].iter_mut().enumerate() {
                    *place = (panel.start * of_row + row * bytes) as isize;
                }
            }
        }
        fill_offsets(axes, rows.start, |a| a.out, out);
        let kernel = &in_place.kernel;
        let tile = count.div_ceil(count.div_ceil(in_place.height).max(1));
        let widest = kernel.vectors(tile, usize::MAX / 2) * kernel.lanes;
        let places_apart = widest.max(self.table.tile.width());
        let rows_of_tile = in_place.height.min(count);
        debug_assert!(rows_of_tile * places_apart * bytes <= TILE_BYTES);
        Part {
            in_place,
            rows,
            left,
            out,
            places: core::array::from_fn(|row| (row * places_apart) as isize),
            places_apart,
            depth,
            units,
        }
    }

    /// Whether rows of a part that are read in place contain numbers that would be flushed to zero.
    ///
    /// # Safety
    /// As [`Self::in_place`].
    unsafe fn has_subnormals(&self, part: &Part<'_>) -> bool {
        let stretches = part.in_place.depths[0].of_block(part.depth);
        let element = self.product.element_bytes[0] as isize;
        part.left.iter().any(|&row| {
            stretches.iter().any(|stretch| {
                let start = (self.arrays.lhs).wrapping_offset(row + stretch.at[0] * element);
                // SAFETY: a stretch of units of two elements is one of elements.
                unsafe { any_subnormal(start.cast(), 2 * stretch.length) }
            })
        })
    }

    /// Computes some rows of a chunk of columns over a depth block.
    ///
    /// # Safety
    /// As [`Self::in_place`]; operands that are not read in place are packed.
    #[inline(never)]
    unsafe fn part(&self, part: &Part<'_>, chunk: &Range<usize>) {
        let (in_place, axes) = (part.in_place, &self.product.axes);
        let (kernel, bytes) = (&in_place.kernel, self.blocks.unit_bytes);
        let count = part.rows.len().div_ceil(in_place.height).max(1);
        let height = part.rows.len().div_ceil(count);
        let element = self.product.element_bytes[1] as isize;
        let step = axes.depth.last().map_or(0, |a| a.rhs) * element;
        let mut start = chunk.start;
        while start < chunk.end {
            let end = ((start / in_place.run + 1) * in_place.run).min(chunk.end);
            let mut first = [0];
            let mut panel = if in_place.lies[1] {
                let most = match in_place.turned {
                    Some(_) => MAX_LANES,
                    None => usize::MAX / 2,
                };
                let most = kernel.vectors(height, most.min(end - start)) * kernel.lanes;
                fill_offsets(&axes.columns, start, |a| a.rhs, &mut first);
                RightPanel {
                    start: self.product.place(self.arrays.rhs, 1, first[0]),
                    step,
                    columns: most.min(end - start),
                    lies: true,
                    scattered: None,
                    out: self.arrays.out,
                }
            } else {
                let panel = start..end.min(start + self.table.tile.width());
                let Panel { start, stride } = self.right_panel(chunk, &panel, &part.units, 0);
                RightPanel {
                    start,
                    step: (stride * bytes) as isize,
                    columns: panel.len(),
                    lies: false,
                    scattered: None,
                    out: self.arrays.out,
                }
            };
            let mut scattered = [0; MAX_LANES];
            let offsets = match in_place.out_breaks {
                true => &mut scattered[..panel.columns],
                false => &mut scattered[..1],
            };
            fill_offsets(&axes.columns, start, |a| a.out, offsets);
            if offsets.windows(2).all(|pair| pair[1] == pair[0] + 1) {
                panel.out = self.product.place(panel.out, 2, offsets[0]);
            } else {
                panel.scattered = Some(offsets);
            }
            // Lower tiles are wider, and have no form that prefetches.
            let fetches = in_place.fetched && kernel.fetches(height);
            let next = (fetches && start + panel.columns < chunk.end)
                .then(|| self.fetched_later(part, start + panel.columns))
                .flatten();
            // A matrix tile of half the height takes half as long; vector tiles exist in all
            // heights.
            let tiles = pieces(&(0..part.rows.len()), in_place.height, !kernel.matrices);
            let mut tiles = tiles.enumerate().peekable();
            // One call computes several tiles, except for tiles whose results go to a buffer first,
            // which take a call each.
            let several = panel.scattered.is_none() && in_place.storing.is_some();
            while let Some((i, mut rows)) = tiles.next() {
                let copies = fetches && i == 0 && (count > 1 || start == chunk.start);
                let fetch = match next {
                    _ if copies && in_place.copied => Fetch::Ahead(self.right()),
                    _ if copies => Fetch::Ahead(core::ptr::null_mut()),
                    Some(next) if count > 1 => shared_fetch(next, count - 1, i - 1),
                    Some(next) => Fetch::Later(next),
                    None => Fetch::Nothing,
                };
                let height = rows.len();
                if several && matches!(fetch, Fetch::Nothing) {
                    while let Some((_, below)) = tiles.next_if(|(_, rows)| rows.len() == height) {
                        rows.end = below.end;
                    }
                }
                // SAFETY: the caller promises readable or packed operands, and exclusive access to
                // these rows and columns; a copied panel has room.
                unsafe { self.strided_tiles(part, rows, height, panel, fetch) };
                if copies && in_place.copied {
                    let width = panel.columns.next_multiple_of(kernel.lanes);
                    panel.start = self.right();
                    panel.step = (width * bytes) as isize;
                    panel.lies = false;
                }
            }
            start += panel.columns;
        }
    }

    /// The stride of columns in the result, if tiles are transposed as they are stored.
    fn turned(&self, in_place: &InPlace) -> Option<isize> {
        in_place.turned.filter(|_| !self.product.adds)
    }

    /// The addresses that tiles prefetch of the right panel from a column on; `None` if the panel
    /// has no constant stride.
    fn fetched_later(&self, part: &Part<'_>, column: usize) -> Option<Later> {
        let &[depth] = &self.product.depths[1][..] else {
            return None;
        };
        let mut first = [0];
        fill_offsets(&self.product.axes.columns, column, |a| a.rhs, &mut first);
        let before = (part.units.start * self.table.arithmetic.step()) as isize * depth.rhs;
        let element = self.product.element_bytes[1] as isize;
        Some(Later {
            from: self.product.place(self.arrays.rhs, 1, first[0] + before),
            step: depth.rhs * element,
            count: part.units.len(),
        })
    }

    /// Computes one tile over a depth block, or several of one height: rows of the part.
    ///
    /// # Safety
    /// As [`Self::part`].
    unsafe fn strided_tiles(
        &self,
        part: &Part<'_>,
        rows: Range<usize>,
        height: usize,
        right: RightPanel<'_>,
        fetch: Fetch,
    ) {
        let kernel = &part.in_place.kernel;
        #[cfg(test)]
        super::tests::called(height, right.columns.div_ceil(kernel.lanes), &fetch);
        let add = self.product.adds || part.depth > 0;
        let bytes = self.blocks.unit_bytes as isize;
        let [left_unit, left_step] = if part.in_place.lies[0] {
            let element = self.product.element_bytes[0] as isize;
            let stride = self.product.axes.depth.last().map_or(0, |a| a.lhs);
            let step = self.table.arithmetic.step() as isize;
            [element, stride * step * element]
        } else if kernel.matrices {
            [bytes; 2]
        } else {
            [height as isize * bytes; 2]
        };
        let depths = &part.in_place.depths[usize::from(part.in_place.lies[1] && !right.lies)];
        let right_unit = match right.lies {
            true => self.product.element_bytes[1] as isize,
            false => right.step,
        };
        let mut tile = Strided {
            left: match part.in_place.lies[0] {
                true => self.arrays.lhs,
                false => self.left(),
            },
            rows: &part.left[rows.clone()],
            height,
            right: right.start,
            units: [left_unit, right_unit],
            steps: [left_step, right.step],
            depth: depths.of_block(part.depth),
            columns: right.columns,
            out: right.out,
            row_offsets: &part.out[rows.clone()],
            turned: None,
            add,
            fetch,
        };
        let vectors = right.columns.div_ceil(kernel.lanes);
        if let (None, Some(function)) = (right.scattered, part.in_place.storing) {
            // SAFETY: the caller promises readable operands, and that only it writes this part.
            return unsafe { function(vectors, &tile) };
        }
        if let (Some(step), Some(&[first, ..])) = (self.turned(part.in_place), right.scattered) {
            tile.out = self.product.place(right.out, 2, first);
            tile.turned = Some(step);
            // SAFETY: the caller promises readable operands, and that only it writes this part.
            return unsafe { (kernel.function)(vectors, &tile) };
        }
        let mut sums = MaybeUninit::<[u64; TILE_BYTES / 8]>::uninit();
        tile.out = sums.as_mut_ptr().cast();
        tile.row_offsets = &part.places[..rows.len()];
        tile.add = false;
        let stored = Stored {
            source: tile.out,
            stride: part.places_apart,
            columns: right.columns,
            out: right.out,
            row_offsets: &part.out[rows],
            column_offsets: right.scattered,
            add,
        };
        // SAFETY: the caller promises readable operands, and that only it writes these rows and
        // columns, where the sums are stored; the sums have room.
        unsafe {
            (kernel.function)(vectors, &tile);
            (self.table.store)(&stored);
        }
    }
}
