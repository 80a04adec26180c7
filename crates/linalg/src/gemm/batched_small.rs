//! Batches of small matrix products, whose rows, columns and depth have only a few elements each:
//! to prepare tiles would cost more than to multiply.
//!
//! If there are more than a few columns, groups of columns become further products of the batch,
//! with the same left operand. For each product, the right operand is copied to a small table, and
//! each row of the left operand is multiplied by it, all columns at once.

use super::geometry::{AxisList, MAX_AXES};
use super::geometry::{element_count as count, offsets_at, share};
use super::{Axes, Axis, SERIAL, Types};
use crate::list::List;
use crate::thread_pool::ThreadPool;
use core::ops::{Add, Mul};
use tegula_ir::ElementType;

/// The maximum number of rows, of columns and of depth elements.
const FEW: usize = 8;
/// With at least this many adjacent columns, most lanes of their vectors are used.
const LANES: usize = 8;
/// The minimum number of products for which this pays.
const MANY: usize = 4;

/// A batch of small products, prepared to run.
#[derive(Clone, Debug)]
pub(super) struct Small {
    double: bool,
    batch: AxisList,
    count: usize,
    /// Offsets of each row in the left operand and in the result.
    rows: List<[isize; 2], FEW>,
    /// Offsets of each column in the right operand and in the result.
    columns: List<[isize; 2], FEW>,
    /// Offsets of each depth element in both operands.
    depth: List<[isize; 2], FEW>,
}

/// The offsets of all elements of some dimensions.
fn offsets(axes: &[Axis], pick: fn([isize; 3]) -> [isize; 2]) -> List<[isize; 2], FEW> {
    let all = 0..count(axes);
    all.map(|index| pick(offsets_at(axes, index))).collect()
}

impl Small {
    /// Prepares a product; `None` unless it is a batch of many small ones.
    #[inline(always)]
    pub(super) fn new(types: Types, axes: &Axes) -> Option<Self> {
        let double = match types {
            [ElementType::F32, ElementType::F32, ElementType::F32] => false,
            [ElementType::F64, ElementType::F64, ElementType::F64] => true,
            _ => return None,
        };
        let (rows, depth) = (&axes.rows, &axes.depth);
        let neighbours = axes.columns.last().map_or(1, |axis| axis.size);
        if neighbours >= LANES || count(depth) > FEW || count(rows) > FEW {
            return None;
        }
        let (mut batch, mut columns) = (axes.batch, axes.columns);
        while count(&columns) > FEW {
            if batch.len() == MAX_AXES {
                return None;
            }
            batch.extend(columns.take_first());
        }
        let products = count(&batch);
        (products >= MANY).then(|| Self {
            double,
            count: products,
            batch,
            rows: offsets(rows, |[lhs, _, out]| [lhs, out]),
            columns: offsets(&columns, |[_, rhs, out]| [rhs, out]),
            depth: offsets(depth, |[lhs, rhs, _]| [lhs, rhs]),
        })
    }

    /// Computes the products; adds them to the result if `adds`.
    ///
    /// # Safety
    /// As [`super::Product::run`]; the pointers are where the axes start.
    pub(super) unsafe fn run(
        &self,
        [lhs, rhs]: [*const u8; 2],
        out: *mut u8,
        adds: bool,
        pool: &ThreadPool,
    ) {
        let each = self.rows.len() * self.columns.len() * self.depth.len();
        let parts = match (self.count * each) as f64 >= SERIAL {
            true => pool.threads(),
            false => 1,
        };
        let arrays = Arrays { lhs, rhs, out };
        pool.run(parts, &|part| {
            let range = share(self.count, parts, part);
            let arrays = &arrays;
            // SAFETY: the caller promises pointers to arrays that contain every element the axes
            // reach, with `out` overlapping neither operand; the types are the product's, and each
            // part has its own products.
            unsafe {
                match (self.double, self.columns.len()) {
                    (false, 0..=1) => self.products::<f32, 1>(arrays, range, adds),
                    (false, 2) => self.products::<f32, 2>(arrays, range, adds),
                    (false, 3..=4) => self.products::<f32, 4>(arrays, range, adds),
                    (false, _) => self.products::<f32, FEW>(arrays, range, adds),
                    (true, 0..=1) => self.products::<f64, 1>(arrays, range, adds),
                    (true, 2) => self.products::<f64, 2>(arrays, range, adds),
                    (true, 3..=4) => self.products::<f64, 4>(arrays, range, adds),
                    (true, _) => self.products::<f64, FEW>(arrays, range, adds),
                }
            }
        });
    }

    /// # Safety
    /// As [`Self::run`], with arrays of `T` and at most `N` columns.
    unsafe fn products<T, const N: usize>(
        &self,
        arrays: &Arrays,
        range: core::ops::Range<usize>,
        adds: bool,
    ) where
        T: Copy + Default + Add<Output = T> + Mul<Output = T>,
    {
        let (lhs, rhs) = (arrays.lhs.cast::<T>(), arrays.rhs.cast::<T>());
        let out = arrays.out.cast::<T>();
        let inner = self.batch.last().copied().unwrap_or_default();
        let mut index = range.start;
        while index < range.end {
            let [mut at_left, mut at_right, mut at_out] = offsets_at(&self.batch, index);
            let left_here = inner.size - index % inner.size.max(1);
            let here = left_here.min(range.end - index).max(1);
            for _ in 0..here {
                // SAFETY: the caller promises arrays of `T` that contain every element the axes
                // reach.
                unsafe {
                    self.product::<T, N>(
                        lhs.offset(at_left),
                        rhs.offset(at_right),
                        out.offset(at_out),
                        adds,
                    );
                }
                at_left += inner.lhs;
                at_right += inner.rhs;
                at_out += inner.out;
            }
            index += here;
        }
    }

    /// # Safety
    /// As [`Self::products`].
    #[inline(always)]
    unsafe fn product<T, const N: usize>(
        &self,
        lhs: *const T,
        rhs: *const T,
        out: *mut T,
        adds: bool,
    ) where
        T: Copy + Default + Add<Output = T> + Mul<Output = T>,
    {
        let mut table = [[T::default(); N]; FEW];
        for (line, &[_, step]) in table.iter_mut().zip(&self.depth) {
            for (number, &[column, _]) in line.iter_mut().zip(&self.columns) {
                // SAFETY: the caller promises arrays of `T` that contain every element the axes
                // reach.
                *number = unsafe { *rhs.offset(step + column) };
            }
        }
        for &[row, to] in &self.rows {
            let mut sums = [T::default(); N];
            for (line, &[step, _]) in table.iter().zip(&self.depth) {
                // SAFETY: the caller promises arrays of `T` that contain every element the axes
                // reach.
                let factor = unsafe { *lhs.offset(row + step) };
                for (sum, &number) in sums.iter_mut().zip(line) {
                    *sum = *sum + factor * number;
                }
            }
            for (&sum, &[_, column]) in sums.iter().zip(&self.columns) {
                // SAFETY: the caller promises arrays of `T` that contain every element the axes
                // reach.
                unsafe {
                    let place = out.offset(to + column);
                    *place = if adds { *place + sum } else { sum };
                }
            }
        }
    }
}

/// The addresses of the arrays.
struct Arrays {
    lhs: *const u8,
    rhs: *const u8,
    out: *mut u8,
}

// SAFETY: operands are only read, and each thread writes products of its own.
unsafe impl Sync for Arrays {}
