//! Products of arrays as sums over strided dimensions: what dots and convolutions
//! come down to, and how they are blocked for the caches.
//!
//! The *rows* of a product are the dimensions of the left operand and the result,
//! its *columns* those of the right operand and the result, its *depth* those of
//! both operands, its *batch* those of all three. Strides are arbitrary: a
//! transposed operand, a window moving over an image (whose dimensions overlap) and
//! a reversed kernel differ in nothing but numbers.
//!
//! A block of the left operand is packed into panels as high as a tile, the right
//! operand into panels as wide as one. A left operand that fits the second-level
//! cache is packed once, and right panels as they are used; otherwise right panels
//! are packed first, and left blocks are used on all of them.

use crate::kernels::Isa;
use crate::kernels::pack::{Lanes, MAX_LANES, PackFn, Run, pack_function};
use crate::kernels::store::{StoreFn, Stored, store_function};
use crate::kernels::tile::{Arithmetic, Target, TileKernel};
use crate::pool::Pool;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use tegula_ir::ElementType;

/// One dimension: its size, and its stride in elements in each of the arrays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) size: usize,
    pub(crate) lhs: isize,
    pub(crate) rhs: isize,
    pub(crate) out: isize,
}

/// The dimensions of a product, outermost first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Axes {
    pub(crate) batch: Vec<Axis>,
    pub(crate) rows: Vec<Axis>,
    pub(crate) columns: Vec<Axis>,
    pub(crate) depth: Vec<Axis>,
    /// Where the first elements are.
    pub(crate) starts: [isize; 3],
}

/// Element types: left, right, result.
pub(crate) type Types = [ElementType; 3];

/// The deepest block, in units: a right panel of so many groups is 32 KiB.
const MAX_DEPTH: usize = 320;
/// The most bytes of a left operand that is packed whole.
const MAX_RESIDENT: usize = 3 << 18;
/// The most rows of a block.
const MAX_ROWS: usize = 2048;
/// Rows of a block of a left operand that is not packed whole.
const BLOCK_ROWS: usize = 336;
/// Columns whose right panels are packed together as they are used: what lies in
/// one row of the right operand is fetched at once.
const TOGETHER: usize = 256;
/// Units of the depth that are packed of one panel before the next.
const STRETCH: usize = 16;
/// Bytes of packed right panels.
const MAX_RIGHT: usize = 4 << 20;
/// Scalar multiplications below which one thread does a product: about 10 us.
pub(crate) const SERIAL: f64 = 1e6;
/// The largest tile in bytes.
const TILE_BYTES: usize = 14 * 32 * 8;

/// How the numbers of a product are computed.
#[derive(Clone, Copy, Debug)]
struct Table {
    arithmetic: Arithmetic,
    tile: TileKernel,
    pack_lhs: PackFn,
    pack_rhs: PackFn,
    store: StoreFn,
    /// The result's elements are accumulated numbers.
    same: bool,
}

impl Table {
    fn new(isa: Isa, arithmetic: Arithmetic, [lhs, rhs, out]: Types) -> Option<Self> {
        let (store, same) = store_function(arithmetic, out)?;
        Some(Self {
            arithmetic,
            tile: TileKernel::new(isa, arithmetic)?,
            pack_lhs: pack_function(isa, lhs, arithmetic)?,
            pack_rhs: pack_function(isa, rhs, arithmetic)?,
            store,
            same,
        })
    }
}

/// The arithmetics for element types, the fastest first.
fn arithmetics([lhs, rhs, out]: Types) -> &'static [Arithmetic] {
    use ElementType::{BF16, F64, S8, S16, S64, U8, U64};
    let narrow = |ty: ElementType| matches!(ty, S8 | U8 | S16);
    match out {
        F64 => &[Arithmetic::F64],
        _ if out.is_float() && lhs == BF16 && rhs == BF16 => {
            &[Arithmetic::Bf16Pairs, Arithmetic::F32]
        }
        _ if out.is_float() => &[Arithmetic::F32],
        S64 | U64 => &[Arithmetic::I64],
        _ if narrow(lhs) && narrow(rhs) => &[Arithmetic::I16Pairs, Arithmetic::I32],
        _ => &[Arithmetic::I32],
    }
}

/// A product ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    axes: Axes,
    /// Operands change places, so that columns are contiguous in the result.
    swapped: bool,
    table: Table,
    /// What computes units that the table must not: subnormal bf16.
    exact: Option<Table>,
    sizes: Sizes,
    element_bytes: [usize; 3],
}

/// Numbers of elements.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    batch: usize,
    rows: usize,
    columns: usize,
    depth: usize,
    /// Elements of a run of the depth, and how many runs there are.
    run: usize,
    runs: usize,
}

impl Product {
    /// Prepares a product; `None` if there is no arithmetic for the types.
    pub(crate) fn new(isa: Isa, types: Types, axes: Axes) -> Option<Self> {
        let (axes, swapped) = normalised(axes);
        let types = if swapped {
            [types[1], types[0], types[2]]
        } else {
            types
        };
        let mut tables = arithmetics(types)
            .iter()
            .filter_map(|&arithmetic| Table::new(isa, arithmetic, types));
        let table = tables.next()?;
        let exact = match table.arithmetic {
            Arithmetic::Bf16Pairs => tables.next(),
            _ => None,
        };
        let count = |axes: &[Axis]| axes.iter().map(|a| a.size).product::<usize>();
        let run = axes.depth.last().map_or(1, |a| a.size);
        let depth = count(&axes.depth);
        let sizes = Sizes {
            batch: count(&axes.batch),
            rows: count(&axes.rows),
            columns: count(&axes.columns),
            depth,
            run,
            runs: depth.checked_div(run).unwrap_or(0),
        };
        Some(Self {
            axes,
            swapped,
            table,
            exact,
            sizes,
            element_bytes: types.map(ElementType::storage_bytes),
        })
    }

    /// How many scalar multiplications it is.
    pub(crate) fn work(&self) -> f64 {
        let Sizes {
            batch,
            rows,
            columns,
            depth,
            ..
        } = self.sizes;
        batch as f64 * rows as f64 * columns as f64 * depth as f64
    }

    /// Batch, rows, depth and columns, in the order of the operands.
    pub(crate) fn shape(&self) -> [usize; 4] {
        let s = self.sizes;
        let (rows, columns) = match self.swapped {
            true => (s.columns, s.rows),
            false => (s.rows, s.columns),
        };
        [s.batch, rows, s.depth, columns]
    }

    /// How it is split between threads.
    fn parts(&self, threads: usize) -> Parts {
        let s = self.sizes;
        if threads <= 1 || self.work() < SERIAL {
            return Parts::Batch(1);
        }
        let enough = |count: usize, unit: usize| count.div_ceil(unit).min(threads);
        if s.batch >= threads {
            return Parts::Batch(threads);
        }
        // The operand that is not split is packed by every thread.
        let kernel = self.table.tile;
        match s.rows >= s.columns {
            true => Parts::Rows(enough(s.rows, kernel.rows)),
            false => Parts::Columns(enough(s.columns, kernel.width())),
        }
    }

    /// Bytes of scratch memory for a run on so many threads.
    pub(crate) fn scratch_bytes(&self, threads: usize) -> usize {
        let parts = self.parts(threads);
        let tables = [Some(self.table), self.exact];
        let bytes = tables.into_iter().flatten().map(|table| {
            let (rows, columns) = parts.largest(self.sizes);
            Blocks::new(self, &table, rows, columns).bytes()
        });
        bytes.max().unwrap_or(0) * parts.count()
    }

    /// Computes the product.
    ///
    /// # Safety
    /// The pointers lead to arrays of the types this was made for; every element
    /// that the axes reach is inside them; `out` overlaps neither operand, and no
    /// two indices reach one element of it. `scratch` has
    /// [`Self::scratch_bytes`], aligned to 64.
    pub(crate) unsafe fn run(
        &self,
        lhs: *const u8,
        rhs: *const u8,
        out: *mut u8,
        scratch: *mut u8,
        pool: &Pool,
    ) {
        let s = self.sizes;
        if s.batch == 0 || s.rows == 0 || s.columns == 0 {
            return;
        }
        let (lhs, rhs) = if self.swapped { (rhs, lhs) } else { (lhs, rhs) };
        let arrays = Arrays {
            lhs: self.place(lhs.cast_mut(), 0, self.axes.starts[0]),
            rhs: self.place(rhs.cast_mut(), 1, self.axes.starts[1]),
            out: self.place(out, 2, self.axes.starts[2]),
        };
        // SAFETY: the caller's promise.
        let inexact = unsafe { self.run_with(&self.table, arrays, scratch, pool) };
        if let (true, Some(exact)) = (inexact, &self.exact) {
            // SAFETY: as above.
            unsafe { self.run_with(exact, arrays, scratch, pool) };
        }
    }

    /// The address of an element of an array.
    fn place(&self, base: *mut u8, array: usize, offset: isize) -> *mut u8 {
        base.wrapping_offset(offset * self.element_bytes[array] as isize)
    }

    /// Gives whether a unit was not suitable for the table.
    ///
    /// # Safety
    /// As [`Self::run`].
    unsafe fn run_with(
        &self,
        table: &Table,
        arrays: Arrays,
        scratch: *mut u8,
        pool: &Pool,
    ) -> bool {
        let parts = self.parts(pool.threads());
        let (rows, columns) = parts.largest(self.sizes);
        let blocks = Blocks::new(self, table, rows, columns);
        let shared = Shared { arrays, scratch };
        let inexact = AtomicBool::new(false);
        pool.run(parts.count(), &|part| {
            let shared = &shared;
            let (batch, rows, columns) = parts.ranges(part, self.sizes);
            let mut worker = Worker {
                product: self,
                table,
                blocks,
                arrays: shared.arrays,
                scratch: shared.scratch.wrapping_add(part * blocks.bytes()),
                inexact: false,
            };
            for index in batch {
                let [lhs, rhs, out] = offsets_at(&self.axes.batch, index);
                worker.arrays = Arrays {
                    lhs: self.place(shared.arrays.lhs, 0, lhs),
                    rhs: self.place(shared.arrays.rhs, 1, rhs),
                    out: self.place(shared.arrays.out, 2, out),
                };
                // SAFETY: the caller's promise; parts write different elements and
                // have their own scratch memory.
                unsafe { worker.matrix(rows.clone(), columns.clone()) };
            }
            if worker.inexact {
                inexact.store(true, Ordering::Relaxed);
            }
        });
        inexact.into_inner()
    }
}

/// Which dimension is split.
#[derive(Clone, Copy, Debug)]
enum Parts {
    Batch(usize),
    Rows(usize),
    Columns(usize),
}

impl Parts {
    fn count(self) -> usize {
        let (Self::Batch(n) | Self::Rows(n) | Self::Columns(n)) = self;
        n
    }

    /// The most rows and columns of a part.
    fn largest(self, s: Sizes) -> (usize, usize) {
        match self {
            Self::Batch(_) => (s.rows, s.columns),
            Self::Rows(n) => (s.rows.div_ceil(n), s.columns),
            Self::Columns(n) => (s.rows, s.columns.div_ceil(n)),
        }
    }

    fn ranges(self, part: usize, s: Sizes) -> (Range<usize>, Range<usize>, Range<usize>) {
        let (batch, rows, columns) = (0..s.batch, 0..s.rows, 0..s.columns);
        match self {
            Self::Batch(n) => (share(s.batch, n, part), rows, columns),
            Self::Rows(n) => (batch, share(s.rows, n, part), columns),
            Self::Columns(n) => (batch, rows, share(s.columns, n, part)),
        }
    }
}

/// The part of `count` things that is the `part`-th of `parts` almost equal ones.
/// None is larger than `count / parts`, rounded up.
pub(crate) fn share(count: usize, parts: usize, part: usize) -> Range<usize> {
    let at = |i: usize| count / parts * i + (count % parts).min(i);
    at(part)..at(part + 1)
}

#[derive(Clone, Copy)]
struct Arrays {
    lhs: *mut u8,
    rhs: *mut u8,
    out: *mut u8,
}

/// What the threads of a run share.
struct Shared {
    arrays: Arrays,
    scratch: *mut u8,
}

// SAFETY: operands are only read, and each thread writes its own part of the result
// and of the scratch memory.
unsafe impl Sync for Shared {}

/// How a part of a product is blocked.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    /// Units of a run, and of all runs.
    run_units: usize,
    units: usize,
    /// How many blocks the depth has.
    depths: usize,
    /// Whether the left operand's rows of a block are packed over all of the depth.
    resident: bool,
    /// Rows of a block.
    rows: usize,
    /// Columns whose right panels are packed together.
    columns: usize,
    left_bytes: usize,
    right_bytes: usize,
    /// Sums of a block that cannot lie in the result.
    sums_bytes: usize,
    unit_bytes: usize,
}

impl Blocks {
    fn new(product: &Product, table: &Table, rows: usize, columns: usize) -> Self {
        let (tile, unit_bytes) = (table.tile, table.arithmetic.bytes());
        let run_units = product.sizes.run.div_ceil(table.arithmetic.step());
        let units = run_units * product.sizes.runs;
        let depths = units.div_ceil(MAX_DEPTH).max(1);
        let depth = units.div_ceil(depths);
        let width = tile.width();
        let resident = rows
            .min(MAX_ROWS)
            .saturating_mul(units)
            .saturating_mul(unit_bytes)
            <= MAX_RESIDENT;
        let (block_rows, block_columns, left_units, right_units) = if resident {
            let block = rows.min(MAX_ROWS);
            let chunk = TOGETHER.min(columns.next_multiple_of(width));
            (block, chunk, block * units, chunk * depth)
        } else {
            let most = (MAX_RIGHT / unit_bytes / units.max(1)).max(width) / width * width;
            let chunk = most.min(columns.next_multiple_of(width));
            let block = rows.min(BLOCK_ROWS);
            (block, chunk, block * depth, chunk * units)
        };
        let staged = !table.same && depths > 1;
        let sums = if staged {
            block_rows * block_columns
        } else {
            0
        };
        // Vectors are stored whole; what is too much lies behind.
        let aligned = |bytes: usize| (bytes + 64).next_multiple_of(64);
        Self {
            run_units,
            units,
            depths,
            resident,
            rows: block_rows,
            columns: block_columns,
            left_bytes: aligned(left_units * unit_bytes),
            right_bytes: aligned(right_units * unit_bytes),
            sums_bytes: aligned(sums * unit_bytes),
            unit_bytes,
        }
    }

    fn bytes(&self) -> usize {
        self.left_bytes + self.right_bytes + self.sums_bytes
    }

    /// The units of a block of the depth.
    fn depth(&self, block: usize) -> Range<usize> {
        share(self.units, self.depths, block)
    }
}

/// One thread's part of a product.
struct Worker<'a> {
    product: &'a Product,
    table: &'a Table,
    blocks: Blocks,
    arrays: Arrays,
    scratch: *mut u8,
    inexact: bool,
}

/// One of the operands.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

/// Where a packed panel is, and its groups' distance in units.
#[derive(Clone, Copy)]
struct Panel {
    start: *const u8,
    stride: usize,
}

impl Worker<'_> {
    fn left(&self) -> *mut u8 {
        self.scratch
    }

    fn right(&self) -> *mut u8 {
        self.scratch.wrapping_add(self.blocks.left_bytes)
    }

    fn sums(&self) -> *mut u8 {
        self.right().wrapping_add(self.blocks.right_bytes)
    }

    /// # Safety
    /// As [`Product::run`]; these rows and columns are no other worker's.
    unsafe fn matrix(&mut self, rows: Range<usize>, columns: Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.blocks.resident {
                self.left_first(&rows, &columns);
            } else {
                self.right_first(&rows, &columns);
            }
        }
    }

    /// Packs a block of the left operand over all of the depth, and right panels as
    /// they are used.
    ///
    /// # Safety
    /// As [`Self::matrix`].
    unsafe fn left_first(&mut self, rows: &Range<usize>, columns: &Range<usize>) {
        let width = self.table.tile.width();
        for block in chunks(rows, self.blocks.rows) {
            for depth in 0..self.blocks.depths {
                let units = self.blocks.depth(depth);
                let target = self.left_panel(&block, &units);
                // SAFETY: the caller's promise; the block fits.
                unsafe { self.pack_left(&block, &units, target) };
            }
            // SAFETY: as above.
            let columns = unsafe { self.in_place(&block, columns) };
            for chunk in chunks(&columns, self.blocks.columns) {
                let block = Block {
                    rows: block.clone(),
                    columns: chunk.clone(),
                    sums_stride: self.blocks.columns,
                };
                for depth in 0..self.blocks.depths {
                    let units = self.blocks.depth(depth);
                    let left = self.left_panel(&block.rows, &units);
                    // SAFETY: as above.
                    unsafe {
                        self.pack_right(&chunk, &units, 0);
                        for panel in chunks(&chunk, width) {
                            let right = self.right_panel(&chunk, &panel, &units, 0);
                            self.row_tiles(&block, &panel, depth, left, right);
                        }
                    }
                }
            }
        }
    }

    /// Packs the right panels of a chunk for a block of the depth. They begin after
    /// those of `before` units.
    ///
    /// # Safety
    /// As [`Self::matrix`]; there is room for them.
    unsafe fn pack_right(&mut self, chunk: &Range<usize>, units: &Range<usize>, before: usize) {
        let width = self.table.tile.width();
        // A right operand whose columns are neighbours is read along its rows.
        let by_rows = self.product.axes.columns.last().is_some_and(|a| a.rhs == 1);
        let stretch = if by_rows { STRETCH } else { units.len() };
        for together in chunks(chunk, TOGETHER) {
            let panels = chunks(&together, width).map(|panel| {
                let right = self.right_panel(chunk, &panel, units, before);
                (self.lanes(Side::Right, &panel), right)
            });
            let panels: SmallVec<[(Lanes, Panel); 8]> = panels.collect();
            for stretch in chunks(units, stretch) {
                for (lanes, right) in &panels {
                    let skipped = (stretch.start - units.start) * right.stride;
                    let skipped = skipped * self.blocks.unit_bytes;
                    let start = right.start.wrapping_add(skipped).cast_mut();
                    // SAFETY: the caller's promise.
                    unsafe { self.pack(Side::Right, lanes, &stretch, start, right.stride) };
                }
            }
        }
    }

    /// Computes columns of a few rows from the right operand as it lies in memory,
    /// where it can be; gives the columns that are left.
    ///
    /// # Safety
    /// As [`Self::matrix`]; the left panels are packed.
    unsafe fn in_place(&self, rows: &Range<usize>, columns: &Range<usize>) -> Range<usize> {
        let (axes, table) = (&self.product.axes, self.table);
        let vectors = table.tile.wide(rows.len());
        let (&[column], &[depth]) = (&axes.columns[..], &axes.depth[..]) else {
            return columns.clone();
        };
        let neighbours = (column.rhs, column.out) == (1, 1) && depth.rhs >= 0;
        let units = table.same
            && table.arithmetic.step() == 1
            && self.product.element_bytes[1] == self.blocks.unit_bytes;
        if vectors == 0 || !neighbours || !units {
            return columns.clone();
        }
        let width = vectors * table.tile.lanes;
        let mut row_table = [0isize; MAX_LANES];
        fill_offsets(
            &axes.rows,
            rows.start,
            |a| a.out,
            &mut row_table[..rows.len()],
        );
        let mut left = columns.clone();
        while left.len() >= width {
            for block in 0..self.blocks.depths {
                let units = self.blocks.depth(block);
                let first = left.start as isize;
                let right = first + units.start as isize * depth.rhs;
                let target = Target {
                    out: self.product.place(self.arrays.out, 2, first),
                    rows: row_table.as_ptr(),
                    add: block > 0,
                };
                let packed = self.left_panel(rows, &units);
                let right = self.product.place(self.arrays.rhs, 1, right);
                let stride = depth.rhs.unsigned_abs();
                // SAFETY: the columns are whole vectors that the operand and the
                // result have.
                unsafe {
                    let function = table.tile.function;
                    function(
                        rows.len(),
                        vectors,
                        units.len(),
                        packed,
                        right,
                        stride,
                        &target,
                    );
                }
            }
            left.start += width;
        }
        left
    }

    /// Where the left panels of a block of the depth begin.
    fn left_panel(&self, block: &Range<usize>, units: &Range<usize>) -> *mut u8 {
        let offset = units.start * block.len() * self.blocks.unit_bytes;
        self.left().wrapping_add(offset)
    }

    /// Packs right panels over all of the depth, and uses blocks of the left operand
    /// on all of them.
    ///
    /// # Safety
    /// As [`Self::matrix`].
    unsafe fn right_first(&mut self, rows: &Range<usize>, columns: &Range<usize>) {
        let width = self.table.tile.width();
        for chunk in chunks(columns, self.blocks.columns) {
            for depth in 0..self.blocks.depths {
                let units = self.blocks.depth(depth);
                // SAFETY: the caller's promise; the panels of a chunk fit.
                unsafe { self.pack_right(&chunk, &units, units.start) };
            }
            // Equal blocks: a small last one would read all panels for little.
            for rows in tiles(rows, self.blocks.rows) {
                let block = Block {
                    rows: rows.clone(),
                    columns: chunk.clone(),
                    sums_stride: self.blocks.columns,
                };
                for depth in 0..self.blocks.depths {
                    let units = self.blocks.depth(depth);
                    let left = self.left();
                    // SAFETY: as above.
                    unsafe { self.pack_left(&rows, &units, left) };
                    for panel in chunks(&chunk, width) {
                        let right = self.right_panel(&chunk, &panel, &units, units.start);
                        // SAFETY: as above.
                        unsafe { self.row_tiles(&block, &panel, depth, left, right) };
                    }
                }
            }
        }
    }

    /// Where a right panel of a chunk is for a block of the depth that `before` units
    /// were packed before.
    fn right_panel(
        &self,
        chunk: &Range<usize>,
        panel: &Range<usize>,
        units: &Range<usize>,
        before: usize,
    ) -> Panel {
        let width = self.table.tile.width();
        let chunk_width = chunk.len().next_multiple_of(width);
        let before = before * chunk_width + (panel.start - chunk.start) * units.len();
        Panel {
            start: self.right().wrapping_add(before * self.blocks.unit_bytes),
            stride: self.panel_width(panel.len()),
        }
    }

    /// Columns rounded up to whole vectors.
    fn panel_width(&self, columns: usize) -> usize {
        columns.next_multiple_of(self.table.tile.lanes)
    }

    /// The offsets of rows or columns of an operand.
    fn lanes(&self, side: Side, range: &Range<usize>) -> Lanes {
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
    unsafe fn pack_left(&mut self, rows: &Range<usize>, units: &Range<usize>, target: *mut u8) {
        for tile in tiles(rows, self.table.tile.rows) {
            let lanes = self.lanes(Side::Left, &tile);
            let before = (tile.start - rows.start) * units.len() * self.blocks.unit_bytes;
            let target = target.wrapping_add(before);
            // SAFETY: the caller's promise.
            unsafe { self.pack(Side::Left, &lanes, units, target, tile.len()) };
        }
    }

    /// Packs a panel run by run.
    ///
    /// # Safety
    /// As [`Self::matrix`]; there is room at the target.
    unsafe fn pack(
        &mut self,
        side: Side,
        lanes: &Lanes,
        units: &Range<usize>,
        target: *mut u8,
        width: usize,
    ) {
        let (sizes, axes) = (self.product.sizes, &self.product.axes.depth);
        let (outer, inner) = match axes.split_last() {
            Some((inner, outer)) => (outer, *inner),
            None => (&axes[..], Axis::default()),
        };
        let (function, base, array, stride) = match side {
            Side::Left => (self.table.pack_lhs, self.arrays.lhs, 0, inner.lhs),
            Side::Right => (self.table.pack_rhs, self.arrays.rhs, 1, inner.rhs),
        };
        let step = self.table.arithmetic.step();
        let mut unit = units.start;
        while unit < units.end {
            let (run, skipped) = (unit / self.blocks.run_units, unit % self.blocks.run_units);
            let taken = (self.blocks.run_units - skipped).min(units.end - unit);
            let offset = offsets_at(outer, run)[array] + (skipped * step) as isize * stride;
            let before = (unit - units.start) * width * self.blocks.unit_bytes;
            let run = Run {
                source: self.product.place(base, array, offset),
                stride,
                length: (taken * step).min(sizes.run - skipped * step),
                lanes,
                target: target.wrapping_add(before),
                width,
            };
            // SAFETY: the caller's promise; the run lies inside the depth.
            self.inexact |= unsafe { function(&run) };
            unit += taken;
        }
    }

    /// Computes a block's tiles in the columns of a right panel.
    ///
    /// # Safety
    /// As [`Self::matrix`]; the panels are packed.
    unsafe fn row_tiles(
        &self,
        block: &Block,
        panel: &Range<usize>,
        depth: usize,
        left: *const u8,
        right: Panel,
    ) {
        let units = self.blocks.depth(depth).len();
        let mut column_table = [0isize; MAX_LANES];
        let column_offsets = &mut column_table[..panel.len()];
        fill_offsets(
            &self.product.axes.columns,
            panel.start,
            |a| a.out,
            column_offsets,
        );
        let first = column_offsets.first().copied().unwrap_or(0);
        let contiguous = column_offsets
            .iter()
            .enumerate()
            .all(|(i, &offset)| offset == first + i as isize);
        for rows in tiles(&block.rows, self.table.tile.rows) {
            let mut row_table = [0isize; MAX_LANES];
            let row_offsets = &mut row_table[..rows.len()];
            fill_offsets(&self.product.axes.rows, rows.start, |a| a.out, row_offsets);
            let before = (rows.start - block.rows.start) * units * self.blocks.unit_bytes;
            let tile = Tile {
                block,
                rows,
                columns: panel.clone(),
                row_offsets,
                column_offsets: (!contiguous).then_some(&*column_offsets),
                first_column: if contiguous { first } else { 0 },
                units,
                depth,
            };
            // SAFETY: the caller's promise.
            unsafe { self.tile(&tile, left.wrapping_add(before), right) };
        }
    }

    /// Computes one tile over a block of the depth.
    ///
    /// # Safety
    /// As [`Self::row_tiles`].
    unsafe fn tile(&self, tile: &Tile<'_>, left: *const u8, right: Panel) {
        let table = self.table;
        let (first, last) = (tile.depth == 0, tile.depth + 1 == self.blocks.depths);
        let vectors = tile.columns.len().div_ceil(table.tile.lanes);
        let whole = tile.columns.len() == vectors * table.tile.lanes;
        let out = self.product.place(self.arrays.out, 2, tile.first_column);
        let compute = |target: &Target| {
            let (rows, units) = (tile.rows.len(), tile.units);
            // SAFETY: the panels hold so many groups, and the target has room.
            unsafe {
                (table.tile.function)(
                    rows,
                    vectors,
                    units,
                    left,
                    right.start,
                    right.stride,
                    target,
                );
            }
        };
        if table.same && whole && tile.column_offsets.is_none() {
            let (rows, add) = (tile.row_offsets.as_ptr(), !first);
            return compute(&Target { out, rows, add });
        }
        let staged = !table.same && self.blocks.depths > 1;
        let mut local = std::mem::MaybeUninit::<[u64; TILE_BYTES / 8]>::uninit();
        let (sums, stride) = if staged {
            let block = tile.block;
            let before = (tile.rows.start - block.rows.start) * block.sums_stride
                + (tile.columns.start - block.columns.start);
            let place = self.sums().wrapping_add(before * self.blocks.unit_bytes);
            (place, block.sums_stride)
        } else {
            (local.as_mut_ptr().cast::<u8>(), table.tile.width())
        };
        let places: [isize; MAX_LANES] = std::array::from_fn(|i| (i * stride) as isize);
        compute(&Target {
            out: sums,
            rows: places.as_ptr(),
            add: staged && !first,
        });
        if staged && !last {
            return;
        }
        let stored = Stored {
            source: sums,
            stride,
            columns: tile.columns.len(),
            out,
            row_offsets: tile.row_offsets,
            column_offsets: tile.column_offsets,
            add: table.same && !first,
        };
        // SAFETY: the sums were computed; the offsets are the result's.
        unsafe { (table.store)(&stored) };
    }
}

/// Rows and columns whose sums are kept together.
struct Block {
    rows: Range<usize>,
    columns: Range<usize>,
    sums_stride: usize,
}

struct Tile<'a> {
    block: &'a Block,
    rows: Range<usize>,
    columns: Range<usize>,
    row_offsets: &'a [isize],
    column_offsets: Option<&'a [isize]>,
    first_column: isize,
    units: usize,
    /// Which block of the depth.
    depth: usize,
}

/// Parts of at most `size`, the last one smaller.
fn chunks(range: &Range<usize>, size: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let end = range.end;
    let starts = range.clone().step_by(size.max(1));
    starts.map(move |start| start..(start + size).min(end))
}

/// Parts of at most `size`, all almost equal.
fn tiles(range: &Range<usize>, size: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let (start, count) = (range.start, range.len());
    let parts = count.div_ceil(size.max(1));
    (0..parts).map(move |part| {
        let share = share(count, parts, part);
        start + share.start..start + share.end
    })
}

/// The offsets of a row-major index in each array.
pub(crate) fn offsets_at(axes: &[Axis], mut index: usize) -> [isize; 3] {
    let mut offsets = [0; 3];
    for axis in axes.iter().rev() {
        let position = (index % axis.size.max(1)) as isize;
        index /= axis.size.max(1);
        offsets[0] += position * axis.lhs;
        offsets[1] += position * axis.rhs;
        offsets[2] += position * axis.out;
    }
    offsets
}

/// The offsets in one array of consecutive row-major indices.
fn fill_offsets(axes: &[Axis], start: usize, pick: fn(&Axis) -> isize, offsets: &mut [isize]) {
    let Some((inner, outer)) = axes.split_last() else {
        return offsets.fill(0);
    };
    let stride = pick(inner);
    let mut done = 0;
    while done < offsets.len() {
        let index = start + done;
        let (mut rest, position) = (index / inner.size.max(1), index % inner.size.max(1));
        let mut base = position as isize * stride;
        for axis in outer.iter().rev() {
            base += (rest % axis.size.max(1)) as isize * pick(axis);
            rest /= axis.size.max(1);
        }
        let taken = (inner.size - position).clamp(1, offsets.len() - done);
        for (i, offset) in offsets[done..done + taken].iter_mut().enumerate() {
            *offset = base + i as isize * stride;
        }
        done += taken;
    }
}

/// Dimensions merged where they can be, columns contiguous in the result, the depth
/// in the order in which an operand is best packed. Also whether the operands have
/// changed places.
fn normalised(mut axes: Axes) -> (Axes, bool) {
    axes.batch = merged(axes.batch);
    axes.rows = merged(axes.rows);
    axes.columns = merged(axes.columns);
    let contiguous = |axes: &[Axis]| axes.last().is_some_and(|a| a.out == 1);
    let swapped = !contiguous(&axes.columns) && contiguous(&axes.rows);
    if swapped {
        std::mem::swap(&mut axes.rows, &mut axes.columns);
        axes.starts.swap(0, 1);
        let all = [
            &mut axes.batch,
            &mut axes.rows,
            &mut axes.columns,
            &mut axes.depth,
        ];
        for axis in all.into_iter().flatten() {
            std::mem::swap(&mut axis.lhs, &mut axis.rhs);
        }
    }
    // Lanes that are contiguous are packed well whatever the depth is.
    let by_right = axes.rows.last().is_some_and(|a| a.lhs == 1);
    axes.depth.sort_by_key(|a| {
        let stride = if by_right { a.rhs } else { a.lhs };
        std::cmp::Reverse(stride.unsigned_abs())
    });
    axes.depth = merged(axes.depth);
    (axes, swapped)
}

/// Drops dimensions of size 1 and merges neighbours that are one stride apart in
/// every array.
fn merged(axes: Vec<Axis>) -> Vec<Axis> {
    let mut merged: Vec<Axis> = Vec::with_capacity(axes.len());
    for axis in axes {
        let size = axis.size as isize;
        match merged.last_mut() {
            _ if size == 1 => {}
            Some(last)
                if last.lhs == axis.lhs * size
                    && last.rhs == axis.rhs * size
                    && last.out == axis.out * size =>
            {
                *last = Axis {
                    size: last.size * axis.size,
                    ..axis
                };
            }
            _ => merged.push(axis),
        }
    }
    merged
}
