//! Product tiles on AMX, whose registers are matrices of 16 rows of 16 units.
//!
//! A tile uses up to two registers of rows and two of columns, so that four loads feed four
//! products. A register of the left operand holds 16 equally spaced rows, each contiguous along the
//! depth; one of the right operand holds 16 groups of a packed panel. Whatever does not fill a
//! register (fewer rows, unequally spaced rows, the end of a stretch) is first copied to a full
//! one: registers are always full, so that one configuration serves all tiles. The distances in
//! [`Step`] are passed to the instructions directly.
//!
//! What the instructions do is in Intel's Software Developer's Manual, volume 2 (`LDTILECFG`,
//! `TILELOADD`, `TDPBF16PS`, `TDPBSSD`); what they cost in the Optimization Reference Manual,
//! chapter 20: a product 16 cycles, a load 8, a store 16, a configuration about 200.

#[cfg(all(test, target_os = "linux"))]
pub(crate) mod emulated;

use super::strided::Strided;
use core::arch::asm;
use core::arch::x86_64::{
    __m512i, _mm512_add_epi32, _mm512_add_ps, _mm512_castps_si512, _mm512_castsi512_ps,
    _mm512_loadu_epi32, _mm512_mask_storeu_epi32, _mm512_maskz_loadu_epi32, _mm512_setzero_si512,
    _mm512_storeu_epi32,
};
use core::mem::MaybeUninit;

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
/// Steps of the depth that are prepared together.
const STEPS: usize = 32;
/// The registers that may be copied for them, and the maximum for one step.
const COPIES: usize = 16;
const COPIES_OF_STEP: usize = 4;

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
#[repr(C)]
#[derive(Clone, Copy)]
struct Rows {
    start: *const u8,
    distance: isize,
}

/// The operands of a step over 16 units of the depth: registers of the left operand, and adjacent
/// registers of the right one.
#[repr(C)]
#[derive(Clone, Copy)]
struct Step {
    left: [Rows; 2],
    right: Rows,
}

const NOWHERE: Rows = Rows {
    start: core::ptr::null(),
    distance: 0,
};

/// Multiplies the operands of steps, for a tile of the given numbers of row registers and vectors,
/// and adds the products to the tile's sums: to the stored sums if `load`, otherwise to zero.
///
/// # Safety
/// The registers are [`Configured`]; the steps' registers that a tile of that size has can be
/// read, its sums written.
type RunFn = unsafe fn(size: [usize; 2], steps: &[Step], sums: &[Rows; 2], load: bool);

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
            "mov {p}, [{s}]",
            "mov {q}, [{s} + 8]",
            "tileloadd tmm4, [{p} + {q}*1]",
            "mov {p}, [{s} + 32]",
            "mov {q}, [{s} + 40]",
            "tileloadd tmm6, [{p} + {q}*1]",
            $($step,)*
            "add {s}, 48",
            "dec {n}",
            "jnz 2b",
            "5:",
            $(concat!("tilestored [{", $rows, "} + {d}*1 + ", $column, "], ", $register),)*
            // A tile with one register of rows has no lower registers.
            "/* {lower} */",
            s = inout(reg) $steps.as_ptr() => _,
            n = inout(reg) $steps.len() => _,
            load = in(reg) u32::from($load),
            upper = in(reg) $sums[0].start,
            lower = in(reg) $sums[1].start,
            d = in(reg) $sums[0].distance,
            p = out(reg) _,
            q = out(reg) _,
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
            steps: &[Step],
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
                        step: [concat!($product, " tmm0, tmm4, tmm6")]
                    ),
                    (1, _) => run!(
                        steps, sums, load,
                        registers: [("tmm0", "upper", "0"), ("tmm1", "upper", "64")],
                        step: [
                            "tileloadd tmm7, [{p} + {q}*1 + 64]",
                            concat!($product, " tmm0, tmm4, tmm6"),
                            concat!($product, " tmm1, tmm4, tmm7")
                        ]
                    ),
                    (_, 1) => run!(
                        steps, sums, load,
                        registers: [("tmm0", "upper", "0"), ("tmm2", "lower", "0")],
                        step: [
                            "mov {p}, [{s} + 16]",
                            "mov {q}, [{s} + 24]",
                            "tileloadd tmm5, [{p} + {q}*1]",
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
                            "tileloadd tmm7, [{p} + {q}*1 + 64]",
                            "mov {p}, [{s} + 16]",
                            "mov {q}, [{s} + 24]",
                            concat!($product, " tmm0, tmm4, tmm6"),
                            "tileloadd tmm5, [{p} + {q}*1]",
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

/// Products of bf16 pairs, summed in f32. Subnormal numbers are treated as zero.
///
/// # Safety
/// As [`super::strided_tile::StridedFn`]; the registers are [`Configured`]. The left operand is
/// contiguous along the depth, the right one packed.
pub(super) unsafe fn bf16(vectors: usize, tile: &Strided<'_>) {
    // SAFETY: the caller promises that every row and column can be read and the result written, one
    // offset for each row, and the kernel's CPU features.
    unsafe { whole_tile::<true>(run_bf16, vectors, tile) };
}

/// Products of four i8, summed in i32 modulo 2^32.
///
/// # Safety
/// As [`bf16`].
pub(super) unsafe fn s8(vectors: usize, tile: &Strided<'_>) {
    // SAFETY: the caller promises [`Configured`] tile registers, a left operand that is contiguous
    // along the depth, and a packed right operand.
    unsafe { whole_tile::<false>(run_s8, vectors, tile) };
}

/// Products of four u8 with four i8, summed in i32 modulo 2^32.
///
/// # Safety
/// As [`bf16`].
pub(super) unsafe fn u8(vectors: usize, tile: &Strided<'_>) {
    // SAFETY: the caller promises [`Configured`] tile registers, a left operand that is contiguous
    // along the depth, and a packed right operand.
    unsafe { whole_tile::<false>(run_u8, vectors, tile) };
}

/// The distance of rows in bytes, if there are as many rows as a register has and they are equally
/// spaced.
fn distance<T: Copy>(rows: &[T], bytes: impl Fn(T, T) -> isize) -> Option<isize> {
    let distance = bytes(*rows.first()?, *rows.get(1)?);
    let same = rows
        .windows(2)
        .all(|pair| bytes(pair[0], pair[1]) == distance);
    (same && rows.len() == SIDE).then_some(distance)
}

/// A register's contents in memory.
#[repr(align(64))]
#[expect(dead_code, reason = "written and read through pointers")]
#[derive(Clone, Copy)]
struct Register([u8; SIDE * ROW]);

/// Prepared steps, and the registers that are copied for them.
struct Batch {
    steps: [MaybeUninit<Step>; STEPS],
    count: usize,
    copies: [MaybeUninit<Register>; COPIES],
    copied: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.count == STEPS || self.copied + COPIES_OF_STEP > COPIES
    }

    fn push(&mut self, step: Step) {
        self.steps[self.count].write(step);
        self.count += 1;
    }

    /// Copies the first `units` units of each of some rows to a register, and fills the register
    /// with zeros.
    ///
    /// # Safety
    /// The units can be read; there are at most 16 rows, of at most 16 units; a free register
    /// remains. AVX-512 F.
    #[target_feature(enable = "avx512f")]
    unsafe fn copy(&mut self, rows: impl Iterator<Item = *const u8>, units: usize) -> Rows {
        let register = self.copies[self.copied].as_mut_ptr().cast::<i32>();
        self.copied += 1;
        let mask = ((1u32 << units) - 1) as u16;
        // SAFETY: the caller promises that the units can be read, that there are at most 16 rows of
        // at most 16 units, that a free register remains, and AVX-512 F; a register has 16 rows of
        // 16 units.
        unsafe {
            let mut count = 0;
            for row in rows {
                let units = _mm512_maskz_loadu_epi32(mask, row.cast());
                _mm512_storeu_epi32(register.add(count * SIDE), units);
                count += 1;
            }
            for row in count..SIDE {
                _mm512_storeu_epi32(register.add(row * SIDE), _mm512_setzero_si512());
            }
        }
        Rows {
            start: register.cast_const().cast(),
            distance: ROW as isize,
        }
    }

    /// Copies some groups of a panel with this many vectors to adjacent registers, and fills their
    /// other rows with zeros.
    ///
    /// # Safety
    /// As [`Self::copy`], with `groups` at most 16; a free register remains for each vector.
    #[target_feature(enable = "avx512f")]
    unsafe fn copy_groups(
        &mut self,
        panel: *const u8,
        distance: isize,
        groups: usize,
        vectors: usize,
    ) -> Rows {
        let registers = self.copies[self.copied].as_mut_ptr().cast::<i32>();
        self.copied += vectors;
        for row in 0..SIDE {
            let group = panel.wrapping_offset(row as isize * distance);
            for vector in 0..vectors {
                // SAFETY: groups have this many vectors, and the registers room for 16.
                unsafe {
                    let units = match row < groups {
                        true => _mm512_loadu_epi32(group.cast::<i32>().add(vector * SIDE)),
                        false => _mm512_setzero_si512(),
                    };
                    _mm512_storeu_epi32(registers.add((row * vectors + vector) * SIDE), units);
                }
            }
        }
        Rows {
            start: registers.cast_const().cast(),
            distance: (vectors * ROW) as isize,
        }
    }

    /// Adds the products of the steps to the sums, and clears the list of steps.
    ///
    /// # Safety
    /// As [`RunFn`].
    unsafe fn run(&mut self, run: RunFn, size: [usize; 2], sums: &[Rows; 2], load: bool) {
        // SAFETY: `count` steps were written; the caller promises [`Configured`] tile registers,
        // steps that can be read, and sums that can be written.
        unsafe {
            let steps = core::slice::from_raw_parts(self.steps.as_ptr().cast(), self.count);
            run(size, steps, sums, load);
        }
        (self.count, self.copied) = (0, 0);
    }
}

/// # Safety
/// As [`bf16`].
#[target_feature(enable = "avx512f")]
unsafe fn whole_tile<const FLOAT: bool>(run: RunFn, vectors: usize, tile: &Strided<'_>) {
    let groups = tile.rows.len().div_ceil(SIDE);
    let size = [groups, vectors];
    let mut buffer = MaybeUninit::<[Register; 4]>::uninit();
    let buffer = buffer.as_mut_ptr().cast::<u8>();
    let direct = direct_sums(tile, vectors);
    let sums = direct.unwrap_or([0, 1].map(|group| Rows {
        start: buffer.wrapping_add(group * SIDE * vectors * ROW),
        distance: (vectors * ROW) as isize,
    }));
    let mut load = direct.is_some() && tile.add;
    let groups_of_rows = || tile.rows.chunks(SIDE);
    let mut distances = [None; 2];
    for (found, rows) in distances.iter_mut().zip(groups_of_rows()) {
        *found = distance(rows, |a, b| b.wrapping_sub(a));
    }
    let mut batch = Batch {
        steps: [MaybeUninit::uninit(); STEPS],
        count: 0,
        copies: [MaybeUninit::uninit(); COPIES],
        copied: 0,
    };
    for stretch in tile.depth {
        let left = tile.left.wrapping_offset(stretch.at[0] * tile.units[0]);
        let right = tile.right.wrapping_offset(stretch.at[1] * tile.units[1]);
        for unit in (0..stretch.length).step_by(SIDE) {
            let units = (stretch.length - unit).min(SIDE);
            let left = left.wrapping_add(unit * UNIT);
            let right = right.wrapping_offset(unit as isize * tile.steps[1]);
            let mut step = Step {
                left: [NOWHERE; 2],
                right: NOWHERE,
            };
            // SAFETY: units of the stretch can be read in every row and column; enough registers
            // remain for the copies of a step.
            unsafe {
                for (g, rows) in groups_of_rows().enumerate() {
                    step.left[g] = match distances[g] {
                        Some(distance) if units == SIDE => Rows {
                            start: left.wrapping_offset(rows[0]),
                            distance,
                        },
                        _ => batch.copy(rows.iter().map(|&row| left.wrapping_offset(row)), units),
                    };
                }
                step.right = match units {
                    SIDE => Rows {
                        start: right,
                        distance: tile.steps[1],
                    },
                    _ => batch.copy_groups(right, tile.steps[1], units, vectors),
                };
                batch.push(step);
                if batch.is_full() {
                    batch.run(run, size, &sums, load);
                    load = true;
                }
            }
        }
    }
    // SAFETY: units of the stretch can be read in every row and column; enough registers remain for
    // the copies of a step; sums that are not stored directly are all in the buffer.
    unsafe {
        if batch.count > 0 || !load {
            batch.run(run, size, &sums, load);
        }
        if direct.is_none() {
            write::<FLOAT>(buffer.cast(), vectors, tile);
        }
    }
}

/// The addresses of a tile's sums in the result, if the tile fills its registers and its rows are
/// equally spaced.
fn direct_sums(tile: &Strided<'_>, vectors: usize) -> Option<[Rows; 2]> {
    let bytes = |a: isize, b: isize| (b - a) * UNIT as isize;
    let mut sums = [NOWHERE; 2];
    if tile.columns != vectors * SIDE {
        return None;
    }
    for (sums, offsets) in sums.iter_mut().zip(tile.row_offsets.chunks(SIDE)) {
        *sums = Rows {
            start: tile.out.wrapping_offset(offsets[0] * UNIT as isize),
            distance: distance(offsets, bytes)?,
        };
    }
    let one = sums[1].start.is_null() || sums[0].distance == sums[1].distance;
    one.then_some(sums)
}

/// Writes the sums to the result, or adds them to it.
///
/// # Safety
/// As [`bf16`]; `sums` has the sums of all rows.
#[target_feature(enable = "avx512f")]
unsafe fn write<const FLOAT: bool>(sums: *const i32, vectors: usize, tile: &Strided<'_>) {
    let mask = |vector: usize| {
        let columns = tile.columns.saturating_sub(vector * SIDE).min(SIDE);
        ((1u32 << columns) - 1) as u16
    };
    for (row, &offset) in tile.row_offsets.iter().enumerate() {
        for vector in 0..vectors {
            let mask = mask(vector);
            // SAFETY: the mask selects only the tile's columns.
            unsafe {
                let sums = _mm512_loadu_epi32(sums.add((row * vectors + vector) * SIDE));
                let place = tile.out.cast::<i32>().offset(offset).add(vector * SIDE);
                let sums = match tile.add {
                    true => add::<FLOAT>(_mm512_maskz_loadu_epi32(mask, place), sums),
                    false => sums,
                };
                _mm512_mask_storeu_epi32(place, mask, sums);
            }
        }
    }
}

#[target_feature(enable = "avx512f")]
fn add<const FLOAT: bool>(a: __m512i, b: __m512i) -> __m512i {
    match FLOAT {
        true => _mm512_castps_si512(_mm512_add_ps(
            _mm512_castsi512_ps(a),
            _mm512_castsi512_ps(b),
        )),
        false => _mm512_add_epi32(a, b),
    }
}
