//! Product tiles on AMX, whose registers are matrices of 16 rows of 16 units.
//!
//! A tile uses up to two registers of rows and two of columns, so that four loads feed four
//! products. A register of the left operand holds 16 equally spaced rows, each contiguous along the
//! depth; one of the right operand holds 16 groups of a packed panel. Rows that do not fill their
//! registers, or are not equally spaced, and the end of a stretch are first copied to full
//! registers: so one configuration serves all tiles, and one loop all steps.
//!
//! Over a long depth, two tiles take turns: each piece of a panel is then in the first-level cache
//! when the second tile reads it.
//!
//! What the instructions do is in Intel's Software Developer's Manual, volume 2 (`LDTILECFG`,
//! `TILELOADD`, `TDPBF16PS`, `TDPBSSD`); what they cost in the Optimization Reference Manual,
//! chapter 20: a product 16 cycles, a load 8, a store 16, a configuration about 200.

#[cfg(all(test, target_os = "linux"))]
pub(crate) mod emulated;

use super::strided::{Stretch, Strided};
use super::vector512::sums_to_bf16;
use core::arch::asm;
use core::arch::x86_64::{
    _mm512_add_epi32, _mm512_add_ps, _mm512_castps_si512, _mm512_castsi512_ps, _mm512_loadu_epi32,
    _mm512_mask_storeu_epi32, _mm512_maskz_loadu_epi32, _mm512_setzero_si512, _mm512_storeu_epi32,
};
use core::mem::MaybeUninit;
use core::ops::Range;

/// Rows of a register, and units of a row.
const SIDE: usize = 16;
/// Bytes of a unit.
const UNIT: usize = 4;
/// Bytes of a row.
const ROW: usize = SIDE * UNIT;
/// The maximum number of rows, and of columns, of a tile.
pub(crate) const MAX_ROWS: usize = 2 * SIDE;
/// The possible numbers of vectors of a tile, largest first.
pub(crate) const VECTORS: &[usize] = &[2, 1];
/// Registers of rows that are copied together.
const COPIES: usize = 16;
/// The steps after which two tiles take turns, if the depth has at least twice as many: their
/// operands, four registers a step, take 32 KiB. 1024 rows, columns and terms of bf16 ran at 1138
/// Gop/s with 8 steps, 1126 with 12, 985 with 16 and 962 without turns; 512 at 1808, 1722 and 1836
/// (a driver in C with packed panels, one thread of a Xeon with 2 MiB of second-level cache, 30
/// November 2026).
const TURN: usize = 8;

/// A guard: while it lives, this thread's AMX registers are configured.
pub(crate) struct Configured(());

impl Configured {
    /// # Safety
    /// The CPU has AMX, and the process may use it.
    pub(crate) unsafe fn new() -> Self {
        /// Palette 1: the bytes of a row from byte 16 on, the number of rows from byte 48 on, for
        /// eight registers.
        #[repr(align(64))]
        struct Configuration([u8; 64]);
        const CONFIGURATION: Configuration = {
            let mut bytes = [0; 64];
            bytes[0] = 1;
            let mut register = 0;
            while register < 8 {
                bytes[16 + 2 * register] = ROW as u8;
                bytes[48 + register] = SIDE as u8;
                register += 1;
            }
            Configuration(bytes)
        };
        // SAFETY: the caller promises: the CPU has AMX, and the process may use it; the
        // configuration is one of the CPU's.
        unsafe {
            asm!(
                "ldtilecfg [{}]", in(reg) CONFIGURATION.0.as_ptr(),
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, preserves_flags),
            );
        }
        Self(())
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        // SAFETY: a value exists only if the CPU has the instructions.
        unsafe {
            asm!(
                "tilerelease",
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, preserves_flags),
            );
        }
    }
}

/// The rows of a register in memory: the address of the first, and the bytes to the next.
#[derive(Clone, Copy)]
struct Rows {
    start: *mut u8,
    distance: isize,
}

impl Rows {
    const NOWHERE: Self = Self {
        start: core::ptr::null_mut(),
        distance: 0,
    };
}

/// Consecutive steps, each over 16 units of the depth.
#[derive(Clone, Copy)]
struct Steps {
    /// The first registers of the left operand, one for each group of 16 rows.
    left: [*const u8; 2],
    /// Bytes from a row to the next, and from a step's register to the next step's.
    left_distances: [isize; 2],
    /// The first register of the right operand; the next one of a step is adjacent.
    right: *const u8,
    right_distances: [isize; 2],
    count: usize,
}

/// Multiplies the operands of steps, for a tile of the given numbers of row registers and vectors,
/// and adds the products to the tile's sums: to the stored sums if `load`, otherwise to zero.
///
/// # Safety
/// The registers are [`Configured`]; the steps' registers that a tile of that size has can be
/// read, its sums written. Both groups of sums have one distance.
type RunFn = unsafe fn(size: [usize; 2], steps: &Steps, sums: &[Rows; 2], load: bool);

/// A loop over steps, given the accumulator registers (with their first rows and bytes) and the
/// instructions of a step.
macro_rules! run {
    (
        $steps:ident, $sums:ident, $load:ident,
        registers: [$(($register:literal, $rows:literal, $column:literal)),*],
        step: [$($step:expr),*]
    ) => {
        asm!(
            "test {load:e}, {load:e}",
            "jz 3f",
            $(concat!("tileloadd ", $register, ", [{", $rows, "} + {d}*1 + ", $column, "]"),)*
            "jmp 4f",
            "3:",
            $(concat!("tilezero ", $register),)*
            "4:",
            "test {n}, {n}",
            "jz 5f",
            "2:",
            $($step,)*
            "add {p}, {ps}",
            "add {q}, {ps}",
            "add {r}, {rs}",
            "dec {n}",
            "jnz 2b",
            "5:",
            $(concat!("tilestored [{", $rows, "} + {d}*1 + ", $column, "], ", $register),)*
            // A tile with one register of rows has no lower registers.
            "/* {lower} */",
            p = inout(reg) $steps.left[0] => _,
            q = inout(reg) $steps.left[1] => _,
            pd = in(reg) $steps.left_distances[0],
            ps = in(reg) $steps.left_distances[1],
            r = inout(reg) $steps.right => _,
            rd = in(reg) $steps.right_distances[0],
            rs = in(reg) $steps.right_distances[1],
            n = inout(reg) $steps.count => _,
            load = in(reg) u32::from($load),
            upper = in(reg) $sums[0].start,
            lower = in(reg) $sums[1].start,
            d = in(reg) $sums[0].distance,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        )
    };
}

/// The loops of one instruction, for all tile sizes.
macro_rules! runs {
    ($name:ident, $product:literal) => {
        /// # Safety
        /// As [`RunFn`].
        unsafe fn $name(
            [groups, vectors]: [usize; 2],
            steps: &Steps,
            sums: &[Rows; 2],
            load: bool,
        ) {
            // SAFETY: the caller promises [`Configured`] tile registers, steps that can be read,
            // and sums that can be written; all of a tile's sums have one distance.
            unsafe {
                match (groups, vectors) {
                    (1, 1) => run!(
                        steps, sums, load,
                        registers: [("tmm0", "upper", "0")],
                        step: [
                            "tileloadd tmm4, [{p} + {pd}*1]",
                            "tileloadd tmm6, [{r} + {rd}*1]",
                            concat!($product, " tmm0, tmm4, tmm6")
                        ]
                    ),
                    (1, _) => run!(
                        steps, sums, load,
                        registers: [("tmm0", "upper", "0"), ("tmm1", "upper", "64")],
                        step: [
                            "tileloadd tmm4, [{p} + {pd}*1]",
                            "tileloadd tmm6, [{r} + {rd}*1]",
                            "tileloadd tmm7, [{r} + {rd}*1 + 64]",
                            concat!($product, " tmm0, tmm4, tmm6"),
                            concat!($product, " tmm1, tmm4, tmm7")
                        ]
                    ),
                    (_, 1) => run!(
                        steps, sums, load,
                        registers: [("tmm0", "upper", "0"), ("tmm2", "lower", "0")],
                        step: [
                            "tileloadd tmm4, [{p} + {pd}*1]",
                            "tileloadd tmm6, [{r} + {rd}*1]",
                            "tileloadd tmm5, [{q} + {pd}*1]",
                            concat!($product, " tmm0, tmm4, tmm6"),
                            concat!($product, " tmm2, tmm5, tmm6")
                        ]
                    ),
                    _ => run!(
                        steps, sums, load,
                        registers: [
                            ("tmm0", "upper", "0"), ("tmm1", "upper", "64"),
                            ("tmm2", "lower", "0"), ("tmm3", "lower", "64")
                        ],
                        step: [
                            "tileloadd tmm4, [{p} + {pd}*1]",
                            "tileloadd tmm6, [{r} + {rd}*1]",
                            "tileloadd tmm7, [{r} + {rd}*1 + 64]",
                            concat!($product, " tmm0, tmm4, tmm6"),
                            "tileloadd tmm5, [{q} + {pd}*1]",
                            concat!($product, " tmm1, tmm4, tmm7"),
                            concat!($product, " tmm2, tmm5, tmm6"),
                            concat!($product, " tmm3, tmm5, tmm7")
                        ]
                    ),
                }
            }
        }
    };
}

runs!(run_bf16, "tdpbf16ps");
runs!(run_s8, "tdpbssd");
runs!(run_u8, "tdpbusd");

/// The type of the result's elements, as which complete sums are stored.
#[derive(Clone, Copy)]
enum Store {
    F32,
    I32,
    /// Rounded to the nearest bf16.
    Bf16,
}

/// Products of bf16 pairs, summed in f32. Subnormal numbers are treated as zero.
///
/// # Safety
/// As [`super::strided_tile::StridedFn`]; the registers are [`Configured`]. The left operand is
/// contiguous along the depth, the right one packed.
pub(super) unsafe fn bf16(vectors: usize, tile: &Strided<'_>) {
    // SAFETY: the caller promises that every row and column can be read and the result written, one
    // offset for each row, and the kernel's CPU features.
    unsafe { tiles(run_bf16, Store::F32, vectors, tile) };
}

/// Products of bf16 pairs, whose sums in f32 are stored as bf16.
///
/// # Safety
/// As [`bf16`].
pub(super) unsafe fn bf16_to_bf16(vectors: usize, tile: &Strided<'_>) {
    // SAFETY: the caller promises that every row and column can be read and the result written, one
    // offset for each row, and the kernel's CPU features.
    unsafe { tiles(run_bf16, Store::Bf16, vectors, tile) };
}

/// Products of four i8, summed in i32 modulo 2^32.
///
/// # Safety
/// As [`bf16`].
pub(super) unsafe fn s8(vectors: usize, tile: &Strided<'_>) {
    // SAFETY: the caller promises [`Configured`] tile registers, a left operand that is contiguous
    // along the depth, and a packed right operand.
    unsafe { tiles(run_s8, Store::I32, vectors, tile) };
}

/// Products of four u8 with four i8, summed in i32 modulo 2^32.
///
/// # Safety
/// As [`bf16`].
pub(super) unsafe fn u8(vectors: usize, tile: &Strided<'_>) {
    // SAFETY: the caller promises [`Configured`] tile registers, a left operand that is contiguous
    // along the depth, and a packed right operand.
    unsafe { tiles(run_u8, Store::I32, vectors, tile) };
}

/// The distance of rows in bytes, if there are as many rows as a register has and they are equally
/// spaced.
#[inline(always)]
fn distance(rows: &[isize]) -> Option<isize> {
    let rows: &[isize; SIDE] = rows.try_into().ok()?;
    let distance = rows[1].wrapping_sub(rows[0]);
    let mut same = true;
    for row in 1..SIDE {
        same &= rows[row].wrapping_sub(rows[row - 1]) == distance;
    }
    same.then_some(distance)
}

/// A register's contents in memory.
#[repr(align(64))]
#[expect(dead_code, reason = "written and read through pointers")]
#[derive(Clone, Copy)]
struct Register([u8; SIDE * ROW]);

/// Registers in memory that are not read before they are written.
type Registers<const N: usize> = MaybeUninit<[Register; N]>;

/// One tile of a call: its rows, and where its sums are.
#[derive(Clone, Copy)]
struct Tile<'a> {
    rows: &'a [isize],
    row_offsets: &'a [isize],
    /// The distance of its rows, if all of them can be read in place.
    distance: Option<isize>,
    sums: [Rows; 2],
    /// Whether the sums are in the result itself.
    direct: bool,
    /// Whether the sums have been stored before, and are added to.
    begun: bool,
}

impl<'a> Tile<'a> {
    const NONE: Self = Self {
        rows: &[],
        row_offsets: &[],
        distance: None,
        sums: [Rows::NOWHERE; 2],
        direct: false,
        begun: false,
    };

    #[inline(always)]
    fn new(
        call: &Strided<'a>,
        first: usize,
        vectors: usize,
        direct: Option<[Rows; 2]>,
        buffer: *mut u8,
    ) -> Self {
        let last = (first + call.height).min(call.rows.len());
        let rows = &call.rows[first..last];
        let mut groups = rows.chunks(SIDE);
        let apart = groups.next().and_then(distance);
        let buffered = [0, 1].map(|group| Rows {
            start: buffer.wrapping_add(group * SIDE * vectors * ROW),
            distance: (vectors * ROW) as isize,
        });
        Self {
            rows,
            row_offsets: &call.row_offsets[first..last],
            distance: apart.filter(|_| groups.all(|rows| distance(rows) == apart)),
            sums: direct.unwrap_or(buffered),
            direct: direct.is_some(),
            begun: direct.is_some() && call.add,
        }
    }
}

/// The addresses of a tile's sums in the result, if the tile fills its registers and its rows are
/// equally spaced.
#[inline(always)]
fn direct_sums(call: &Strided<'_>, first: usize, vectors: usize) -> Option<[Rows; 2]> {
    let mut sums = [Rows::NOWHERE; 2];
    if call.columns != vectors * SIDE {
        return None;
    }
    let last = (first + call.height).min(call.row_offsets.len());
    let groups = call.row_offsets[first..last].chunks(SIDE);
    for (sums, offsets) in sums.iter_mut().zip(groups) {
        *sums = Rows {
            start: call.out.wrapping_offset(offsets[0] * UNIT as isize),
            distance: distance(offsets)? * UNIT as isize,
        };
    }
    let one = sums[1].start.is_null() || sums[0].distance == sums[1].distance;
    one.then_some(sums)
}

/// Copies the first `units` units of each of some rows to a register, and fills the register with
/// zeros.
///
/// # Safety
/// The units can be read, the register written; there are at most 16 rows, of at most 16 units.
/// AVX-512 F.
#[target_feature(enable = "avx512f")]
unsafe fn copy_rows(register: *mut u8, left: *const u8, rows: &[isize], units: usize) {
    let mask = ((1u32 << units) - 1) as u16;
    for row in 0..SIDE {
        // SAFETY: the caller promises that the units can be read, that there are at most 16 rows of
        // at most 16 units, and AVX-512 F; a register has 16 rows of 16 units.
        unsafe {
            let units = match rows.get(row) {
                Some(&row) => _mm512_maskz_loadu_epi32(mask, left.wrapping_offset(row).cast()),
                None => _mm512_setzero_si512(),
            };
            _mm512_storeu_epi32(register.add(row * ROW).cast(), units);
        }
    }
}

/// Copies some groups of a panel with this many vectors to adjacent registers, and fills their
/// other rows with zeros.
///
/// # Safety
/// As [`copy_rows`], with at most 16 groups, and registers for the vectors.
#[target_feature(enable = "avx512f")]
unsafe fn copy_groups(
    registers: *mut u8,
    panel: *const u8,
    distance: isize,
    groups: usize,
    vectors: usize,
) {
    for row in 0..SIDE {
        let group = panel.wrapping_offset(row as isize * distance);
        for vector in 0..vectors {
            // SAFETY: groups have this many vectors, and the registers room for 16.
            unsafe {
                let units = match row < groups {
                    true => _mm512_loadu_epi32(group.cast::<i32>().add(vector * SIDE)),
                    false => _mm512_setzero_si512(),
                };
                _mm512_storeu_epi32(
                    registers.cast::<i32>().add((row * vectors + vector) * SIDE),
                    units,
                );
            }
        }
    }
}

/// Computes the tiles of a call.
///
/// # Safety
/// As [`bf16`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn tiles(run: RunFn, store: Store, vectors: usize, call: &Strided<'_>) {
    const SUMS: usize = 4;
    let mut buffer = Registers::<{ 2 * SUMS }>::uninit();
    let buffer = buffer.as_mut_ptr().cast::<u8>();
    let depth = call
        .depth
        .iter()
        .map(|stretch| stretch.length)
        .sum::<usize>();
    // Two tiles side by side also leave the first one's sums time to reach the cache before they
    // are read.
    let together = 2.min(call.rows.len().div_ceil(call.height));
    let most = match together == 2 && depth >= 2 * TURN * SIDE {
        true => TURN * SIDE,
        false => usize::MAX / 2,
    };
    for start in (0..call.rows.len()).step_by(together * call.height) {
        let mut pair = [Tile::NONE; 2];
        let mut count = 0;
        while count < together && start + count * call.height < call.rows.len() {
            let first = start + count * call.height;
            let direct = match store {
                Store::Bf16 => None,
                Store::F32 | Store::I32 => direct_sums(call, first, vectors),
            };
            let buffer = buffer.wrapping_add(count * SUMS * SIDE * ROW);
            pair[count] = Tile::new(call, first, vectors, direct, buffer);
            count += 1;
        }
        let pair = &mut pair[..count];
        for stretch in call.depth {
            for first in (0..stretch.length).step_by(most) {
                let range = first..stretch.length.min(first + most);
                let units = Units { stretch, range };
                for tile in &mut *pair {
                    // SAFETY: the caller promises that every row and column can be read, and
                    // [`Configured`] registers; sums are in the result or the buffer.
                    unsafe { multiply(run, vectors, call, tile, units.clone()) };
                }
            }
        }
        for tile in pair {
            // SAFETY: the caller promises that the result can be written; a tile's sums were stored
            // unless there is nothing to add up, which stores zeros.
            unsafe {
                if !tile.begun {
                    let nothing = Units {
                        stretch: &Stretch::default(),
                        range: 0..0,
                    };
                    multiply(run, vectors, call, tile, nothing);
                }
                if !tile.direct {
                    write(store, vectors, call, tile);
                }
            }
        }
    }
}

/// Some units of a stretch of the depth.
#[derive(Clone)]
struct Units<'a> {
    stretch: &'a Stretch,
    range: Range<usize>,
}

impl Units<'_> {
    /// The addresses of the operands' elements at a unit.
    fn at(&self, call: &Strided<'_>, unit: usize) -> (*const u8, *const u8) {
        let left = call
            .left
            .wrapping_offset(self.stretch.at[0] * call.units[0]);
        let right = call
            .right
            .wrapping_offset(self.stretch.at[1] * call.units[1]);
        let right_place = unit as isize * call.steps[1];
        (
            left.wrapping_add(unit * UNIT),
            right.wrapping_offset(right_place),
        )
    }
}

/// Adds the products over some units to a tile's sums: whole steps of equally spaced rows in place.
///
/// # Safety
/// As [`bf16`].
#[target_feature(enable = "avx512f")]
unsafe fn multiply(
    run: RunFn,
    vectors: usize,
    call: &Strided<'_>,
    tile: &mut Tile<'_>,
    mut units: Units<'_>,
) {
    if let Some(distance) = tile.distance {
        let count = units.range.len() / SIDE;
        let (left, right) = units.at(call, units.range.start);
        let row = |row: usize| left.wrapping_offset(tile.rows.get(row).copied().unwrap_or(0));
        let steps = Steps {
            left: [row(0), row(SIDE)],
            left_distances: [distance, ROW as isize],
            right,
            right_distances: [call.steps[1], SIDE as isize * call.steps[1]],
            count,
        };
        let groups = tile.rows.len() / SIDE;
        // SAFETY: the caller promises that the units can be read in every row and column.
        unsafe { run([groups, vectors], &steps, &tile.sums, tile.begun) };
        tile.begun = true;
        units.range.start += count * SIDE;
    }
    if !(tile.begun && units.range.is_empty()) {
        // SAFETY: as the caller promises.
        unsafe { multiply_copies(run, vectors, call, tile, &units) };
    }
}

/// Adds the products over some units to a tile's sums, with copies of the operands that do not fill
/// registers. A separate function: its copies take five pages of stack.
///
/// # Safety
/// As [`bf16`].
#[target_feature(enable = "avx512f")]
#[inline(never)]
unsafe fn multiply_copies(
    run: RunFn,
    vectors: usize,
    call: &Strided<'_>,
    tile: &mut Tile<'_>,
    units: &Units<'_>,
) {
    const REGISTER: usize = SIDE * ROW;
    let groups = tile.rows.len().div_ceil(SIDE);
    let mut rows_copy = Registers::<COPIES>::uninit();
    let rows_copy = rows_copy.as_mut_ptr().cast::<u8>();
    let mut columns_copy = Registers::<2>::uninit();
    let columns_copy = columns_copy.as_mut_ptr().cast::<u8>();
    let Range { start: mut at, end } = units.range;
    loop {
        let (left, right) = units.at(call, at);
        let whole = ((end - at) / SIDE).min(COPIES / groups);
        // A last step has fewer units.
        let (count, units) = match whole {
            0 => (usize::from(at < end), end - at),
            _ => (whole, SIDE),
        };
        let mut steps = Steps {
            left: [0, REGISTER].map(|place| rows_copy.cast_const().wrapping_add(place)),
            left_distances: [ROW as isize, (groups * REGISTER) as isize],
            right,
            right_distances: [call.steps[1], SIDE as isize * call.steps[1]],
            count,
        };
        // SAFETY: the caller promises that the units can be read in every row and column; there is
        // room for copies of this many steps.
        unsafe {
            for step in 0..count {
                for (group, rows) in tile.rows.chunks(SIDE).enumerate() {
                    let register = rows_copy.add((step * groups + group) * REGISTER);
                    copy_rows(register, left.wrapping_add(step * ROW), rows, units);
                }
            }
            if count > 0 && units < SIDE {
                copy_groups(columns_copy, right, call.steps[1], units, vectors);
                steps.right = columns_copy;
                steps.right_distances = [(vectors * ROW) as isize, 0];
            }
            run([groups, vectors], &steps, &tile.sums, tile.begun);
        }
        tile.begun = true;
        at += count * units;
        if at >= end {
            return;
        }
    }
}

/// Writes the sums of a tile to the result, or adds them to it.
///
/// # Safety
/// As [`bf16`]; the tile has the sums of all rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn write(store: Store, vectors: usize, call: &Strided<'_>, tile: &Tile<'_>) {
    let sums = tile.sums[0].start.cast::<i32>();
    let masks = [0, 1].map(|vector| {
        let columns = call.columns.saturating_sub(vector * SIDE).min(SIDE);
        ((1u32 << columns) - 1) as u16
    });
    for (row, &offset) in tile.row_offsets.iter().enumerate() {
        for (vector, &mask) in masks[..vectors].iter().enumerate() {
            let column = vector * SIDE;
            // SAFETY: the mask selects only the tile's columns.
            unsafe {
                let sums = _mm512_loadu_epi32(sums.add((row * vectors + vector) * SIDE));
                match store {
                    Store::Bf16 => {
                        let place = call.out.cast::<i16>().offset(offset).add(column);
                        sums_to_bf16(place, mask, _mm512_castsi512_ps(sums));
                    }
                    Store::F32 | Store::I32 => {
                        let place = call.out.cast::<i32>().offset(offset).add(column);
                        let sums = match (call.add, store) {
                            (false, _) => sums,
                            (true, Store::I32) => {
                                _mm512_add_epi32(_mm512_maskz_loadu_epi32(mask, place), sums)
                            }
                            (true, _) => _mm512_castps_si512(_mm512_add_ps(
                                _mm512_castsi512_ps(_mm512_maskz_loadu_epi32(mask, place)),
                                _mm512_castsi512_ps(sums),
                            )),
                        };
                        _mm512_mask_storeu_epi32(place, mask, sums);
                    }
                }
            }
        }
    }
}
