//! Matrix products generalised to sums over strided dimensions (dots and convolutions are computed
//! by them), and their cache blocking.
//!
//! The *rows* of a product are the dimensions of the left operand and the result, its *columns*
//! those of the right operand and the result, its *depth* those of both operands, its *batch* those
//! of all three. Strides are arbitrary: a transposed operand, a window that moves over an image
//! (whose dimensions overlap) and a reversed kernel differ only in numbers.
//!
//! Floats are read in place, as far as their strides allow (`unpacked`). For other types, and on
//! CPUs without vectors, both operands are packed (`packed`): a block of the left operand into
//! panels as high as a tile, the right one into panels as wide as a tile. A left operand that fits
//! the second-level cache is packed once, and right panels as they are used; otherwise right panels
//! are packed first, and each left block is multiplied by all of them. A product with few rows, or
//! few columns, reads the other operand along the depth if it is contiguous there (`skinny`); a
//! product with one row and a large right operand reads along that operand's rows. Batches of small
//! products use neither tiles nor panels (`batched_small`).
//!
//! An operand that is the same in every run may be packed once, for all of them (`prepacked`).

mod batched_small;
mod blocks;
mod geometry;
mod known;
mod packed;
mod packing;
mod prepacked;
mod skinny;
mod subnormals;
mod subnormals_as_zeros;
mod unpacked;

use super::microkernels::CpuFeatures;
use super::microkernels::dot_rows::DotsFn;
use super::microkernels::long_rows::LongRowsFn;
use super::microkernels::pack::{PackFn, pack_function};
use super::microkernels::packed_tile::{Arithmetic, TileKernel};
use super::microkernels::store::{StoreFn, store_function};
pub use super::microkernels::strided_tile::TileForm;
use super::tables::Tables;
use super::thread_pool::{ThreadPool, is_stopped};
use batched_small::Small;
use blocks::Blocks;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
pub use geometry::{Axes, Axis, AxisList, MAX_AXES, MAX_COMPILED_AXES, offsets_at, share};
use geometry::{along, normalised, share_of_units, swap_operands};
pub(crate) use geometry::{element_count, varying};
pub use known::Known;
use packing::LastLanes;
#[cfg(feature = "std")]
pub use prepacked::PackedLayout;
use prepacked::{Fixed, KeptMatrix};
use skinny::{dots, few_columns, long_rows, sequential};
use subnormals_as_zeros::SubnormalsAsZeros;
use tegula_ir::ElementType;
use unpacked::{InPlace, Part, halves, keeps_places, turns_result};

/// The element types of the left operand, the right operand and the result.
pub type Types = [ElementType; 3];

/// Scalar multiplications below which a product runs on one thread: about 10 us.
pub(crate) const SERIAL: f64 = 1e6;

/// The functions that compute a product's numbers.
#[derive(Clone, Copy, Debug)]
struct Table {
    arithmetic: Arithmetic,
    tile: TileKernel,
    pack_lhs: PackFn,
    pack_rhs: PackFn,
    store: StoreFn,
    /// Whether the result's elements have the accumulators' type.
    same: bool,
}

impl Table {
    #[inline(always)]
    fn new(isa: CpuFeatures, arithmetic: Arithmetic, [lhs, rhs, out]: Types) -> Option<Self> {
        let (store, same) = store_function(isa, arithmetic, out)?;
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

/// The arithmetics for the element types, fastest first.
#[inline(always)]
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
        _ if (lhs, rhs) == (S8, S8) => {
            &[Arithmetic::I8Quads, Arithmetic::I16Pairs, Arithmetic::I32]
        }
        _ if (lhs, rhs) == (U8, S8) => {
            &[Arithmetic::U8Quads, Arithmetic::I16Pairs, Arithmetic::I32]
        }
        _ if narrow(lhs) && narrow(rhs) => &[Arithmetic::I16Pairs, Arithmetic::I32],
        _ => &[Arithmetic::I32],
    }
}

/// The possible tables for these types, fastest first. They are not a list to search, so that the
/// compiler sees the candidates when the arguments are constants.
#[inline(always)]
fn candidates(isa: CpuFeatures, types: Types) -> [Option<Table>; 3] {
    let arithmetics = arithmetics(types);
    let table = |n: usize| match arithmetics.get(n) {
        Some(&arithmetic) => Table::new(isa, arithmetic, types),
        None => None,
    };
    [table(0), table(1), table(2)]
}

/// A product, prepared to run.
#[derive(Clone, Debug)]
pub struct Product {
    axes: Axes,
    /// Whether the operands are swapped, so that columns are contiguous in the result.
    swapped: bool,
    table: Table,
    /// The exact table that recomputes a product with units that `table` does not support:
    /// subnormal bf16.
    exact: Option<Table>,
    /// The function for products with few rows, along the rows of the right operand.
    dots: Option<DotsFn>,
    /// Whether `dots` reads these rows one after the other.
    sequential: bool,
    /// The function for products with one row, along the rows of a large right operand.
    long_rows: Option<LongRowsFn>,
    /// The batch of small products that replaces this one, if it is such a batch.
    small: Option<Small>,
    /// How operands are read in place, if one is.
    in_place: Option<InPlace>,
    /// The depth, as each operand is packed along it.
    depths: [AxisList; 2],
    sizes: Sizes,
    element_bytes: [usize; 3],
    result: ElementType,
    /// Whether the product is added to the result's old value.
    adds: bool,
    /// The operand that is packed once for all runs, in the table's format.
    kept: Option<Side>,
}

/// Numbers of elements.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    batch: usize,
    rows: usize,
    columns: usize,
    depth: usize,
    /// The elements of a run of the depth, and the number of runs.
    run: usize,
    runs: usize,
}

impl Sizes {
    fn new(axes: &Axes) -> Self {
        let count = element_count;
        let (run, depth) = (axes.depth.last().map_or(1, |a| a.size), count(&axes.depth));
        Self {
            batch: count(&axes.batch),
            rows: count(&axes.rows),
            columns: count(&axes.columns),
            depth,
            run,
            runs: depth.checked_div(run).unwrap_or(0),
        }
    }
}

impl Product {
    /// Prepares a product, one of whose operands may be the same in every run (`fixed`); `None` if
    /// no arithmetic supports the types.
    #[cfg(feature = "std")]
    pub fn new(isa: CpuFeatures, types: Types, axes: Axes, fixed: Option<usize>) -> Option<Self> {
        Self::new_in::<known::Nothing>(&mut Tables, isa, types, axes, fixed)
    }

    /// Like [`Self::new`], with tables in the given memory.
    #[inline(always)]
    pub fn new_in<K: Known>(
        memory: &mut Tables,
        isa: CpuFeatures,
        types: Types,
        axes: Axes,
        fixed: Option<usize>,
    ) -> Option<Self> {
        let keeps = |axes: &Axes| keeps_places(K::isa(isa), K::types(types), axes);
        let (mut axes, mut swapped) = normalised(axes, keeps);
        let in_order = |swapped| match swapped {
            true => K::types([types[1], types[0], types[2]]),
            false => K::types(types),
        };
        let along_rows = |types, axes: &Axes| {
            let types = K::types(types);
            let arithmetic = *arithmetics(types).first()?;
            dots(K::isa(isa), types, axes, Sizes::new(axes), arithmetic)
        };
        if few_columns(&axes) {
            swap_operands(&mut axes);
            match along_rows(in_order(!swapped), &axes) {
                Some(_) => swapped = !swapped,
                None => swap_operands(&mut axes),
            }
        }
        let mut fixed = fixed.map(|operand| Fixed::new(operand, swapped));
        if fixed.is_some_and(|fixed| fixed.is_better_right(isa, in_order(swapped), &axes)) {
            swap_operands(&mut axes);
            (swapped, fixed) = (!swapped, fixed.map(Fixed::swapped));
        }
        // Packing once transposes only once.
        let by_rows = along_rows(in_order(swapped), &axes).is_some();
        if fixed.is_none() && turns_result(K::isa(isa), in_order(swapped), &axes, by_rows) {
            swap_operands(&mut axes);
            swapped = !swapped;
        }
        let (isa, types) = (K::isa(isa), in_order(swapped));
        let [first, second, third] = candidates(isa, types);
        let (table, next) = match (first, second) {
            (Some(first), second) => (first, second.or(third)),
            (None, Some(second)) => (second, third),
            (None, None) => (third?, None),
        };
        let exact = match table.arithmetic {
            Arithmetic::Bf16Pairs => next,
            _ => None,
        };
        let sizes = Sizes::new(&axes);
        let packs = fixed.is_some_and(|fixed| fixed.is_worth_packing(table.arithmetic, sizes));
        let dots = match packs {
            true => None,
            false => dots(isa, types, &axes, sizes, table.arithmetic),
        };
        let single = dots.is_some() || !packs && halves(isa, types[1], &axes, sizes).is_some();
        let (table, exact) = match (single, exact) {
            (true, Some(exact)) => (exact, None),
            tables => (table, tables.1),
        };
        let in_place = match dots {
            Some(_) => None,
            None => {
                let fixed = fixed.is_some_and(Fixed::is_right);
                InPlace::new(memory, isa, &table, types, &axes, (sizes, fixed))
            }
        };
        let long_rows = long_rows(isa, types, &axes, sizes);
        let small = Small::new(types, &axes);
        let reads = dots.is_some() || long_rows.is_some() || small.is_some();
        let kept = fixed.filter(|_| !reads);
        let kept = kept.and_then(|fixed| fixed.packed(in_place.as_ref()));
        // A unit of several elements must consist of the same elements in both operands.
        let depths = match table.arithmetic.step() {
            1 => [|a: Axis| (a.lhs, 0), |a: Axis| (0, a.rhs)].map(|own| along(&axes.depth, own)),
            _ => [axes.depth; 2],
        };
        Some(Self {
            depths,
            small,
            axes,
            swapped,
            table,
            exact,
            long_rows,
            dots,
            sequential: sequential(isa, types, sizes),
            in_place,
            sizes,
            element_bytes: types.map(ElementType::storage_bytes),
            result: types[2],
            adds: false,
            kept,
        })
    }

    /// The product, added to the result's old value; `None` if the accumulators do not have the
    /// type of the result's elements.
    pub fn adding(mut self) -> Option<Self> {
        self.becomes_adding().then_some(self)
    }

    /// Adds the product to the result's old value from now on; returns `false` if the accumulators
    /// do not have the type of the result's elements.
    pub fn becomes_adding(&mut self) -> bool {
        // A result that was added to cannot be recomputed.
        self.adds = self.table.same && self.exact.is_none();
        self.adds
    }

    /// How operands are read in place, if the table's arithmetic does so.
    fn in_place(&self, table: &Table) -> Option<&InPlace> {
        let in_place = self.in_place.as_ref();
        in_place.filter(|in_place| in_place.arithmetic == table.arithmetic)
    }

    /// The number of scalar multiplications.
    pub fn work(&self) -> f64 {
        let Sizes {
            batch,
            rows,
            columns,
            depth,
            ..
        } = self.sizes;
        batch as f64 * rows as f64 * columns as f64 * depth as f64
    }

    /// The sizes of batch, rows, depth and columns, in the order of the operands.
    pub fn shape(&self) -> [usize; 4] {
        let s = self.sizes;
        let (rows, columns) = match self.swapped {
            true => (s.columns, s.rows),
            false => (s.rows, s.columns),
        };
        [s.batch, rows, s.depth, columns]
    }

    /// The division of the product between threads.
    fn parts(&self, threads: usize) -> Parts {
        let s = self.sizes;
        if threads <= 1 || self.work() < SERIAL {
            return Parts::Batch(1);
        }
        let enough = |count: usize, unit: usize| count.div_ceil(unit).min(threads);
        if s.batch >= threads {
            return Parts::Batch(threads);
        }
        // Every thread packs the operand that is not divided.
        let kernel = self.table.tile;
        match s.rows >= s.columns {
            true => Parts::Rows(enough(s.rows, kernel.rows)),
            false => Parts::Columns(enough(s.columns, kernel.width())),
        }
    }

    /// Bytes of scratch memory for a run on this many threads.
    pub fn scratch_bytes(&self, threads: usize) -> usize {
        let parts = self.parts(threads);
        let tables = [Some(self.table), self.exact];
        let bytes = tables.into_iter().flatten().map(|table| {
            let (rows, columns) = parts.largest(self.sizes, self.part_units());
            Blocks::new(self, &table, rows, columns).bytes()
        });
        bytes.max().unwrap_or(0) * parts.count()
    }

    /// Bytes of the tables that it was prepared with.
    #[cfg(feature = "std")]
    pub fn table_bytes(&self) -> usize {
        self.in_place.as_ref().map_or(0, InPlace::table_bytes)
    }

    /// Computes the product.
    ///
    /// # Safety
    /// The pointers point to arrays of the types this was made for, which contain every element
    /// that the axes reach; `out` overlaps neither operand, and no two indices reach one element of
    /// it. `kept` points to the output of [`Self::keep`] for the operand that is
    /// [kept](Self::kept_bytes), if there is one; that operand is read only if the product
    /// [needs](Self::needs_source) it. `scratch` has [`Self::scratch_bytes`], aligned to 64.
    pub unsafe fn run(
        &self,
        [lhs, rhs]: [*const u8; 2],
        kept: *const u8,
        out: *mut u8,
        scratch: *mut u8,
        pool: &ThreadPool,
    ) {
        let s = self.sizes;
        if s.batch == 0 || s.rows == 0 || s.columns == 0 {
            return;
        }
        let arrays = self.arrays([lhs, rhs], out, kept.cast_mut());
        if let Some(small) = &self.small {
            let operands = [arrays.lhs, arrays.rhs].map(<*mut u8>::cast_const);
            // SAFETY: the caller promises arrays that hold every element which the axes reach, a
            // result that overlaps neither operand, and scratch memory.
            return unsafe { small.run(operands, arrays.out, self.adds, pool) };
        }
        // SAFETY: the caller promises arrays that hold every element which the axes reach, a result
        // that overlaps neither operand, and scratch memory.
        let inexact = unsafe { self.run_with(&self.table, arrays, scratch, pool) };
        if let (true, Some(exact)) = (inexact, &self.exact) {
            // SAFETY: the caller promises arrays that hold every element which the axes reach, a
            // result that overlaps neither operand, and scratch memory.
            unsafe {
                if self.flushing_matters(&arrays) {
                    self.run_with(exact, arrays, scratch, pool);
                }
            }
        }
    }

    /// The base addresses of the product's arrays.
    fn arrays(&self, [lhs, rhs]: [*const u8; 2], out: *mut u8, kept: *mut u8) -> Arrays {
        let (lhs, rhs) = if self.swapped { (rhs, lhs) } else { (lhs, rhs) };
        Arrays {
            lhs: self.place(lhs.cast_mut(), 0, self.axes.starts[0]),
            rhs: self.place(rhs.cast_mut(), 1, self.axes.starts[1]),
            out: self.place(out, 2, self.axes.starts[2]),
            kept,
        }
    }

    /// The address of an array's element.
    fn place(&self, base: *mut u8, array: usize, offset: isize) -> *mut u8 {
        base.wrapping_offset(offset * self.element_bytes[array] as isize)
    }

    /// Runs with a table; returns whether a unit was unsuitable for it.
    ///
    /// # Safety
    /// As [`Self::run`].
    unsafe fn run_with(
        &self,
        table: &Table,
        arrays: Arrays,
        scratch: *mut u8,
        pool: &ThreadPool,
    ) -> bool {
        let parts = self.parts(pool.threads());
        let units = self.part_units();
        let (rows, columns) = parts.largest(self.sizes, units);
        let blocks = Blocks::new(self, table, rows, columns);
        let shared = Shared { arrays, scratch };
        let kept = self.kept_for(table);
        // SAFETY: the caller promises pointers to arrays that contain every element the axes reach,
        // with `out` overlapping neither operand.
        let inexact = kept.is_some() && unsafe { prepacked::is_inexact(arrays.kept) };
        let inexact = AtomicBool::new(inexact);
        pool.run(parts.count(), &|part| {
            let shared = &shared;
            let _zeros = SubnormalsAsZeros::for_work(self.work(), self.element_bytes[0]);
            let (batch, rows, columns) = parts.ranges(part, self.sizes, units);
            let mut worker = Worker {
                product: self,
                table,
                blocks,
                arrays: shared.arrays,
                scratch: shared.scratch.wrapping_add(part * blocks.bytes()),
                kept: None,
                inexact: false,
                last_part: None,
                last_lanes: LastLanes::default(),
            };
            for index in batch {
                if is_stopped() {
                    return;
                }
                worker.enter(&shared.arrays, index);
                worker.kept = kept.map(|side| self.kept_matrix(shared.arrays.kept, side, index));
                // SAFETY: the caller promises pointers to arrays that contain every element the
                // axes reach, with `out` overlapping neither operand; parts write different
                // elements and have their own scratch memory.
                unsafe { worker.matrix(rows.clone(), columns.clone()) };
            }
            if worker.inexact {
                inexact.store(true, Ordering::Relaxed);
            }
        });
        inexact.into_inner()
    }
}

/// The dimension that is divided between threads.
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

    /// The maximum numbers of rows and columns of a part. Rows and columns are divided in units of
    /// these sizes.
    fn largest(self, s: Sizes, [rows, columns]: [usize; 2]) -> (usize, usize) {
        // No part is larger than the first.
        let first = |count, unit, n| share_of_units(count, unit, n, 0).len();
        match self {
            Self::Batch(_) => (s.rows, s.columns),
            Self::Rows(n) => (first(s.rows, rows, n), s.columns),
            Self::Columns(n) => (s.rows, first(s.columns, columns, n)),
        }
    }

    fn ranges(
        self,
        part: usize,
        s: Sizes,
        units: [usize; 2],
    ) -> (Range<usize>, Range<usize>, Range<usize>) {
        let (batch, rows, columns) = (0..s.batch, 0..s.rows, 0..s.columns);
        match self {
            Self::Batch(n) => (share(s.batch, n, part), rows, columns),
            Self::Rows(n) => (batch, share_of_units(s.rows, units[0], n, part), columns),
            Self::Columns(n) => (batch, rows, share_of_units(s.columns, units[1], n, part)),
        }
    }
}

#[derive(Clone, Copy)]
struct Arrays {
    lhs: *mut u8,
    rhs: *mut u8,
    out: *mut u8,
    /// The packed form of the operand that is packed once, if there is one.
    kept: *mut u8,
}

/// The data that the threads of a run share.
struct Shared {
    arrays: Arrays,
    scratch: *mut u8,
}

// SAFETY: operands are only read, and each thread writes its own part of the result
// and of the scratch memory.
unsafe impl Sync for Shared {}

/// One thread's part of a product.
struct Worker<'a> {
    product: &'a Product,
    table: &'a Table,
    blocks: Blocks,
    arrays: Arrays,
    scratch: *mut u8,
    /// The packed operand, if one is packed once.
    kept: Option<KeptMatrix>,
    inexact: bool,
    /// The part that was last computed: the next index of the batch mostly needs the same one.
    last_part: Option<Part<'a>>,
    last_lanes: LastLanes,
}

/// One of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl<'a> Worker<'a> {
    /// Sets the pointers to the matrices of an index of the batch.
    fn enter(&mut self, arrays: &Arrays, index: usize) {
        let product = self.product;
        let [lhs, rhs, out] = offsets_at(&product.axes.batch, index);
        self.arrays = Arrays {
            lhs: product.place(arrays.lhs, 0, lhs),
            rhs: product.place(arrays.rhs, 1, rhs),
            out: product.place(arrays.out, 2, out),
            kept: arrays.kept,
        };
    }

    /// Whether an operand is prepacked.
    fn keeps(&self, side: Side) -> bool {
        self.kept.is_some_and(|kept| kept.side == side)
    }

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
    /// As [`Product::run`]; no other worker has these rows and columns.
    #[inline(never)]
    unsafe fn matrix(&mut self, rows: Range<usize>, columns: Range<usize>) {
        // SAFETY: the caller promises pointers to arrays that contain every element the axes reach,
        // with `out` overlapping neither operand.
        unsafe {
            if let Some(function) = self.product.long_rows {
                self.one_long_row(function, &columns);
            } else if let Some(function) = self.product.dots {
                self.along_rows(function, &rows, &columns);
            } else if let Some(in_place) = self.product.in_place(self.table) {
                self.in_place(in_place, &rows, &columns);
            } else if self.blocks.resident {
                self.left_first(&rows, &columns);
            } else {
                self.right_first(&rows, &columns);
            }
        }
    }
}

#[cfg(test)]
mod tests;
