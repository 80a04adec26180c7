//! Product tiles from packed panels: see [`packed_tile`](crate::microkernels::packed_tile).

use crate::microkernels::CpuFeatures;
use crate::microkernels::neon::vector::{Bf16Pairs, F32, F64, I8Quads, I32, U8Quads, Vector};
use crate::microkernels::neon::{ROWS, VECTORS};
#[cfg(target_arch = "aarch64")]
use crate::microkernels::packed_tile::Target;
use crate::microkernels::packed_tile::{Arithmetic, TileKernel};

/// The kernel for an arithmetic; [`None`] if the instruction set lacks it.
#[inline(always)]
pub(crate) fn kernel(isa: CpuFeatures, arithmetic: Arithmetic) -> Option<TileKernel> {
    Some(match arithmetic {
        Arithmetic::F32 => new::<F32>(),
        Arithmetic::F64 => new::<F64>(),
        Arithmetic::I32 => new::<I32>(),
        Arithmetic::Bf16Pairs if isa.bf16 => new::<Bf16Pairs>(),
        Arithmetic::I8Quads if isa.dot_product => new::<I8Quads>(),
        Arithmetic::U8Quads if isa.int8_matrices => new::<U8Quads>(),
        // There is no vector multiplication of i64, and products of i16 pairs would be as slow as
        // those of i32.
        _ => return None,
    })
}

#[inline(always)]
fn new<V: Vector>() -> TileKernel {
    TileKernel {
        rows: ROWS,
        vectors: VECTORS,
        lanes: V::LANES,
        #[cfg(target_arch = "aarch64")]
        function: dispatch::<V>,
        #[cfg(not(target_arch = "aarch64"))]
        function: crate::microkernels::neon::emulated::packed_tile::<V>,
    }
}

/// # Safety
/// As [`TileKernel`]'s function.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn tile<V: Vector, const M: usize, const N: usize>(
    depth: usize,
    mut left: *const V::Unit,
    mut right: *const V::Unit,
    stride: usize,
    target: &Target,
) {
    let mut sums = [[V::zero(); N]; M];
    // SAFETY: the panels have `depth` groups of units, which contain every address that is read;
    // the target's rows are as long as the tile.
    unsafe {
        for _ in 0..depth {
            let columns: [V; N] =
                core::array::from_fn(|n| V::load(right.add(n * V::LANES), V::LANES));
            for (unit, sums) in V::units::<M>(left).into_iter().zip(&mut sums) {
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = sum.multiply_add(unit, column);
                }
            }
            left = left.add(M);
            right = right.add(stride);
        }
        for (m, sums) in sums.iter().enumerate() {
            let row = target.out.cast::<V::Unit>().offset(*target.rows.add(m));
            for (n, &sum) in sums.iter().enumerate() {
                let place = row.add(n * V::LANES);
                let sum = match target.add {
                    true => V::load(place, V::LANES).plus(sum),
                    false => sum,
                };
                sum.store(place, V::LANES);
            }
        }
    }
}

/// # Safety
/// As [`TileKernel`]'s function.
#[cfg(target_arch = "aarch64")]
unsafe fn dispatch<V: Vector>(
    rows: usize,
    vectors: usize,
    depth: usize,
    left: *const u8,
    right: *const u8,
    stride: usize,
    target: &Target,
) {
    let (left, right) = (left.cast::<V::Unit>(), right.cast::<V::Unit>());
    macro_rules! tiles {
        ($($m:literal)*) => {
            match (rows, vectors) {
                $(
                    ($m, 1) => tile::<V, $m, 1>(depth, left, right, stride, target),
                    ($m, 2) => tile::<V, $m, 2>(depth, left, right, stride, target),
                    ($m, 3) => tile::<V, $m, 3>(depth, left, right, stride, target),
                    ($m, 4) => tile::<V, $m, 4>(depth, left, right, stride, target),
                )*
                other => debug_assert!(false, "no tile of {other:?} exists"),
            }
        };
    }
    // SAFETY: the caller promises panels, sums and a number of rows and vectors that there is.
    unsafe { tiles!(1 2 3 4 5 6) }
}
