//! Product tiles whose operands are read in place: see
//! [`strided_tile`](crate::microkernels::strided_tile).

use super::vector::{F32, F32ByBf16, F32ByF16, F64, Vector};
#[cfg(target_arch = "aarch64")]
use super::vector::{fetch, fetch_second};
use super::{ROWS, VECTORS};
use crate::microkernels::packed_tile::Arithmetic;
#[cfg(target_arch = "aarch64")]
use crate::microkernels::strided::{Fetch, Later, Strided};
use crate::microkernels::strided_tile::StridedKernel;
use tegula_ir::ElementType;

/// The distance, in depth elements, at which the right operand is prefetched.
#[cfg(target_arch = "aarch64")]
const AHEAD: isize = 16;

/// The forms of a tile, by what they [prefetch](Fetch).
#[cfg(target_arch = "aarch64")]
const NOTHING: u8 = 0;
#[cfg(target_arch = "aarch64")]
const AT_ONCE: u8 = 1;
#[cfg(target_arch = "aarch64")]
const LATER: u8 = 2;

/// The kernel for an arithmetic, if its operands can be read in place.
#[inline(always)]
pub(crate) fn kernel(arithmetic: Arithmetic) -> Option<StridedKernel> {
    match arithmetic {
        Arithmetic::F32 => Some(new::<F32>()),
        Arithmetic::F64 => Some(new::<F64>()),
        _ => None,
    }
}

/// The kernel for products in f32 with a right operand of 16-bit floats.
#[inline(always)]
pub(crate) fn of_halves(right: ElementType) -> Option<StridedKernel> {
    match right {
        ElementType::BF16 => Some(new::<F32ByBf16>()),
        ElementType::F16 => Some(new::<F32ByF16>()),
        _ => None,
    }
}

#[inline(always)]
fn new<V: Vector>() -> StridedKernel {
    #[cfg(target_arch = "aarch64")]
    let function = dispatch::<V>;
    #[cfg(not(target_arch = "aarch64"))]
    let function = super::emulated::strided_tile::<V>;
    StridedKernel::of_vectors(ROWS, V::LANES, vectors, VECTORS, function)
}

/// With few rows, a tile takes long pieces of the right operand's rows, so that there are enough
/// independent sums.
fn vectors(rows: usize) -> &'static [usize] {
    match rows {
        1 => &[16, 8, 4, 3, 2, 1],
        2 => &[8, 4, 3, 2, 1],
        3 => &[6, 4, 3, 2, 1],
        _ => &[4, 3, 2, 1],
    }
}

/// # Safety
/// As [`StridedFn`](crate::microkernels::strided_tile::StridedFn).
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn tile<V: Vector, const M: usize, const N: usize, const FETCH: u8, const WHOLE: bool>(
    tile: &Strided<'_>,
) {
    let (mut copy, mut later) = match tile.fetch {
        Fetch::Ahead(copy) => (copy.cast::<V::Unit>(), Later::NONE),
        Fetch::Later(later) => (core::ptr::null_mut(), later),
        Fetch::Nothing => (core::ptr::null_mut(), Later::NONE),
    };
    let copies = !copy.is_null();
    let ahead = tile.steps[1].wrapping_mul(AHEAD);
    let last = (N - 1) * V::LANES;
    let rest = match WHOLE {
        true => V::LANES,
        false => tile.columns - last,
    };
    let lanes = |n: usize| if n + 1 < N { V::LANES } else { rest };
    let tiles = tile
        .rows
        .chunks_exact(M)
        .zip(tile.row_offsets.chunks_exact(M));
    for (rows, offsets) in tiles {
        let place = |m: usize| {
            // SAFETY: the chunks have `M` places each.
            unsafe { (*rows.get_unchecked(m), *offsets.get_unchecked(m)) }
        };
        let rows: [isize; M] = core::array::from_fn(|m| place(m).0);
        let offsets: [isize; M] = core::array::from_fn(|m| place(m).1);
        let mut sums = [[V::zero(); N]; M];
        // SAFETY: the caller promises that every row and column can be read and the result written,
        // one offset for each row, and the kernel's CPU features; of the last vector, only `rest`
        // lanes are read and written.
        unsafe {
            for stretch in tile.depth {
                let mut left = tile.left.wrapping_offset(stretch.at[0] * tile.units[0]);
                let mut right = tile.right.wrapping_offset(stretch.at[1] * tile.units[1]);
                for _ in 0..stretch.length {
                    let from = right.cast::<V::Right>();
                    let columns: [V; N] =
                        core::array::from_fn(|n| V::right(from.add(n * V::LANES), lanes(n)));
                    if FETCH == LATER && later.count > 0 {
                        later.count -= 1;
                        // Prefetches the line of each vector's last element; the other lines belong
                        // to the panel before.
                        fetch_second(later.from.cast::<V::Right>().wrapping_add(N * V::LANES - 1));
                        later.from = later.from.wrapping_offset(later.step);
                    }
                    if FETCH == AT_ONCE {
                        let ahead = right.wrapping_offset(ahead).cast::<V::Right>();
                        fetch(ahead.wrapping_add(N * V::LANES - 1));
                        if copies {
                            for (n, column) in columns.into_iter().enumerate() {
                                column.store(copy.add(n * V::LANES), V::LANES);
                            }
                        }
                        copy = copy.wrapping_add(N * V::LANES);
                    }
                    for (sums, row) in sums.iter_mut().zip(rows) {
                        let unit = left.wrapping_offset(row).cast::<V::Unit>().read();
                        for (sum, column) in sums.iter_mut().zip(columns) {
                            *sum = sum.multiply_add(unit, column);
                        }
                    }
                    left = left.wrapping_offset(tile.steps[0]);
                    right = right.wrapping_offset(tile.steps[1]);
                }
            }
            for (sums, offset) in sums.iter().zip(offsets) {
                let row = tile.out.cast::<V::Unit>().offset(offset);
                for (n, &sum) in sums.iter().enumerate() {
                    let place = row.add(n * V::LANES);
                    let sum = match tile.add {
                        true => V::load(place, lanes(n)).plus(sum),
                        false => sum,
                    };
                    sum.store(place, lanes(n));
                }
            }
        }
    }
}

/// # Safety
/// As [`StridedFn`](crate::microkernels::strided_tile::StridedFn).
#[cfg(target_arch = "aarch64")]
unsafe fn dispatch<V: Vector>(vectors: usize, arguments: &Strided<'_>) {
    let whole = arguments.columns == vectors * V::LANES;
    let form = match arguments.fetch {
        Fetch::Nothing => NOTHING,
        Fetch::Ahead(_) => AT_ONCE,
        Fetch::Later(_) => LATER,
    };
    macro_rules! tiles {
        ([$(($m:literal, $n:literal))*], [$(($f:literal, $v:literal))*]) => {
            match (arguments.height, vectors, form) {
                $(
                    ($m, $n, NOTHING) if whole => tile::<V, $m, $n, NOTHING, true>(arguments),
                    ($m, $n, NOTHING) => tile::<V, $m, $n, NOTHING, false>(arguments),
                )*
                $(
                    ($f, $v, AT_ONCE) if whole => tile::<V, $f, $v, AT_ONCE, true>(arguments),
                    ($f, $v, AT_ONCE) => tile::<V, $f, $v, AT_ONCE, false>(arguments),
                    ($f, $v, LATER) if whole => tile::<V, $f, $v, LATER, true>(arguments),
                    ($f, $v, LATER) => tile::<V, $f, $v, LATER, false>(arguments),
                )*
                other => debug_assert!(false, "no tile of {other:?} exists"),
            }
        };
    }
    // SAFETY: the caller promises that every row and column can be read and the result written, one
    // offset for each row, and the kernel's CPU features.
    unsafe {
        tiles!(
            [(1, 1)(1, 2)(1, 3)(1, 4)(1, 8)(1, 16)(2, 1)(2, 2)(2, 3)(
                2, 4
            )(2, 8)(3, 1)(3, 2)(3, 3)(3, 4)(3, 6)(4, 1)(4, 2)(
                4, 3
            )(4, 4)(5, 1)(5, 2)(5, 3)(5, 4)(6, 1)(6, 2)(6, 3)(
                6, 4
            )],
            [(4, 1)(4, 2)(4, 3)(4, 4)(5, 1)(5, 2)(5, 3)(5, 4)(6, 1)(6, 2)(6, 3)(6, 4)]
        );
    }
}
