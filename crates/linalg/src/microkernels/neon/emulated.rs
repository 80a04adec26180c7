//! A model of the vectors of [`vector`](super::vector) as plain arrays, for machines other than
//! AArch64, and of tiles, computed one vector at a time: one function for each tile size would take
//! long to compile, and speed does not matter here.

use super::lanes::{Numbers, Vector};
use crate::microkernels::packed_tile::Target;
use crate::microkernels::strided::{Fetch, Strided};

/// Numbers in lanes; `KIND` distinguishes vector types with the same lanes.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<T, const N: usize, const KIND: u8>([T; N]);

/// Four `f32`.
pub(crate) type F32 = Lanes<f32, 4, 0>;
/// Two `f64`.
pub(crate) type F64 = Lanes<f64, 2, 0>;
/// Four `i32`, with arithmetic modulo 2^32.
pub(crate) type I32 = Lanes<i32, 4, 0>;
/// Four `f32`; the right operand is bf16 in memory.
pub(crate) type F32ByBf16 = Lanes<f32, 4, 1>;
/// Four `f32`; the right operand is f16 in memory.
pub(crate) type F32ByF16 = Lanes<f32, 4, 2>;
/// Four pairs of bf16, summed in `f32`.
pub(crate) type Bf16Pairs = Lanes<f32, 4, 3>;
/// Four groups of four `i8`, summed in `i32`.
pub(crate) type I8Quads = Lanes<i32, 4, 1>;
/// Like [`I8Quads`], with `u8` on the left.
pub(crate) type U8Quads = Lanes<i32, 4, 2>;

macro_rules! vectors {
    ($($name:ident, $unit:ty, $right:ty, $lanes:literal, $convert:expr, $multiply_add:expr, $plus:expr;)*) => {$(
        impl Vector for $name {
            type Unit = $unit;
            type Right = $right;
            const LANES: usize = $lanes;

            fn zero() -> Self {
                Self([<$unit>::default(); $lanes])
            }

            unsafe fn right(from: *const $right, count: usize) -> Self {
                let convert: fn($right) -> $unit = $convert;
                let mut lanes = Self::zero();
                for (i, lane) in lanes.0.iter_mut().enumerate().take(count) {
                    // SAFETY: the caller promises this many elements.
                    *lane = convert(unsafe { from.add(i).read_unaligned() });
                }
                lanes
            }

            unsafe fn load(from: *const $unit, count: usize) -> Self {
                let mut lanes = Self::zero();
                for (i, lane) in lanes.0.iter_mut().enumerate().take(count) {
                    // SAFETY: the caller promises that the address has this many units.
                    *lane = unsafe { from.add(i).read_unaligned() };
                }
                lanes
            }

            unsafe fn store(self, to: *mut $unit, count: usize) {
                for (i, &lane) in self.0.iter().enumerate().take(count) {
                    // SAFETY: the caller promises room for this many elements.
                    unsafe { to.add(i).write_unaligned(lane) };
                }
            }

            unsafe fn multiply_add(self, unit: $unit, right: Self) -> Self {
                let multiply_add: fn($unit, $unit, $unit) -> $unit = $multiply_add;
                Self(core::array::from_fn(|i| multiply_add(unit, right.0[i], self.0[i])))
            }

            fn plus(self, other: Self) -> Self {
                let plus: fn($unit, $unit) -> $unit = $plus;
                Self(core::array::from_fn(|i| plus(self.0[i], other.0[i])))
            }
        }
    )*};
}

vectors! {
    F32, f32, f32, 4, |x| x, f32::mul_add, |a, b| a + b;
    F64, f64, f64, 2, |x| x, f64::mul_add, |a, b| a + b;
    F32ByBf16, f32, u16, 4, |x| half::bf16::from_bits(x).to_f32(), f32::mul_add, |a, b| a + b;
    F32ByF16, f32, u16, 4, |x| half::f16::from_bits(x).to_f32(), f32::mul_add, |a, b| a + b;
    I32, i32, i32, 4, |x| x, |a, b, c| a.wrapping_mul(b).wrapping_add(c), i32::wrapping_add;
    Bf16Pairs, f32, f32, 4, |x| x, bf16_pairs, |a, b| a + b;
    I8Quads, i32, i32, 4, |x| x,
        |a, b, c| quads(a.to_ne_bytes().map(|x| i32::from(x.cast_signed())), b, c), i32::wrapping_add;
    U8Quads, i32, i32, 4, |x| x, |a, b, c| quads(a.to_ne_bytes().map(i32::from), b, c), i32::wrapping_add;
}

/// Adds the products of two pairs to a sum, rounding each. In contrast, the instruction `bfdot`
/// rounds to odd and treats subnormal numbers as zeros.
fn bf16_pairs(a: f32, b: f32, sum: f32) -> f32 {
    let pair = |x: f32| [x.to_bits() << 16, x.to_bits() & 0xffff_0000].map(f32::from_bits);
    let (a, b) = (pair(a), pair(b));
    sum + (a[0] * b[0] + a[1] * b[1])
}

fn quads(a: [i32; 4], b: i32, sum: i32) -> i32 {
    let b = b.to_ne_bytes().map(|x| i32::from(x.cast_signed()));
    let products = a.into_iter().zip(b).map(|(a, b)| a * b);
    products.fold(sum, i32::wrapping_add)
}

macro_rules! numbers {
    ($($name:ident)*) => {$(
        impl Numbers for $name {
            fn multiply_add_lanes(self, left: Self, right: Self) -> Self {
                Self(core::array::from_fn(|i| left.0[i].mul_add(right.0[i], self.0[i])))
            }

            fn totals(sums: [Self; 4]) -> [Self::Unit; 4] {
                // Adds in the order of pairwise additions.
                sums.map(|Self(lanes)| {
                    let pairs = lanes.chunks(2).map(|pair| pair[0] + pair[1]);
                    pairs.reduce(|a, b| a + b).unwrap_or_default()
                })
            }
        }
    )*};
}

numbers!(F32 F64 F32ByBf16 F32ByF16);

/// Transposes four vectors of four units.
pub(crate) fn turned(rows: [F32; 4]) -> [F32; 4] {
    core::array::from_fn(|i| Lanes(rows.map(|row| row.0[i])))
}

/// A tile of [`packed_tile`](super::packed_tile).
///
/// # Safety
/// As [`TileKernel`](crate::microkernels::packed_tile::TileKernel)'s function.
pub(crate) unsafe fn packed_tile<V: Vector>(
    rows: usize,
    vectors: usize,
    depth: usize,
    left: *const u8,
    right: *const u8,
    stride: usize,
    target: &Target,
) {
    let (left, right) = (left.cast::<V::Unit>(), right.cast::<V::Unit>());
    for (row, n) in (0..rows).flat_map(|row| (0..vectors).map(move |n| (row, n))) {
        let mut sum = V::zero();
        // SAFETY: the panels have `depth` groups of units; the target's rows are as long as the
        // tile.
        unsafe {
            for element in 0..depth {
                let column = V::load(right.add(element * stride + n * V::LANES), V::LANES);
                let [unit] = V::units(left.add(element * rows + row));
                sum = sum.multiply_add(unit, column);
            }
            let place = target.out.cast::<V::Unit>().offset(*target.rows.add(row));
            let place = place.add(n * V::LANES);
            if target.add {
                sum = V::load(place, V::LANES).plus(sum);
            }
            sum.store(place, V::LANES);
        }
    }
}

/// A tile of [`strided_tile`](super::strided_tile).
///
/// # Safety
/// As [`StridedFn`](crate::microkernels::strided_tile::StridedFn).
pub(super) unsafe fn strided_tile<V: Vector>(vectors: usize, tile: &Strided<'_>) {
    let lanes = |n: usize| (tile.columns - n * V::LANES).min(V::LANES);
    for (row, (&from, &offset)) in tile.rows.iter().zip(tile.row_offsets).enumerate() {
        for n in 0..vectors {
            let mut copy = match tile.fetch {
                Fetch::Ahead(copy) if row == 0 && !copy.is_null() => Some(copy.cast::<V::Unit>()),
                _ => None,
            };
            let mut sum = V::zero();
            // SAFETY: the caller promises that every row and column can be read and the result
            // written, one offset for each row, and the kernel's CPU features, and room for the
            // copy.
            unsafe {
                for stretch in tile.depth {
                    let mut left = tile
                        .left
                        .wrapping_offset(stretch.at[0] * tile.units[0] + from);
                    let mut right = tile.right.wrapping_offset(stretch.at[1] * tile.units[1]);
                    for _ in 0..stretch.length {
                        let column = right.cast::<V::Right>().add(n * V::LANES);
                        let column = V::right(column, lanes(n));
                        if let Some(copy) = &mut copy {
                            column.store(copy.add(n * V::LANES), V::LANES);
                            *copy = copy.add(vectors * V::LANES);
                        }
                        sum = sum.multiply_add(left.cast::<V::Unit>().read_unaligned(), column);
                        left = left.wrapping_offset(tile.steps[0]);
                        right = right.wrapping_offset(tile.steps[1]);
                    }
                }
                let place = tile.out.cast::<V::Unit>().offset(offset).add(n * V::LANES);
                if tile.add {
                    sum = V::load(place, lanes(n)).plus(sum);
                }
                sum.store(place, lanes(n));
            }
        }
    }
}
