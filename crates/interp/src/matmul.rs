//! The product of two dense matrices, used by dots and convolutions.
//!
//! It is blocked so that a 4 x 4 tile of the result stays in registers, and is split by rows
//! between two threads if it is large. Every element is the sum of its products in increasing order
//! within blocks of 256, however the rows are split, so results do not depend on the number of
//! threads.

use std::num::Wrapping;
use std::ops::{Add, Mul};

/// The element type of a matrix.
pub(crate) trait Entry:
    Copy + Default + Send + Sync + Add<Output = Self> + Mul<Output = Self>
{
    /// The magnitude of this entry: magnitudes of products are bounded by products of magnitudes.
    fn magnitude(self) -> f64;
}

impl Entry for f64 {
    fn magnitude(self) -> f64 {
        self.abs()
    }
}

impl Entry for Wrapping<i64> {
    fn magnitude(self) -> f64 {
        0.0
    }
}

impl Entry for num_complex::Complex64 {
    fn magnitude(self) -> f64 {
        self.re.abs() + self.im.abs()
    }
}

/// The rows and columns of a tile.
const TILE: usize = 4;
/// The number of products that are summed in one block.
const DEPTH: usize = 256;
/// Matrix products with at least this many multiplications use a second thread.
const PARALLEL: usize = 1 << 21;

/// The product `a[m,k] * b[k,n]`, row-major.
pub(crate) fn matmul<T: Entry>(a: &[T], b: &[T], m: usize, k: usize, n: usize) -> Vec<T> {
    let mut c = vec![T::default(); m * n];
    if c.is_empty() || k == 0 {
        return c;
    }
    let half = m.div_ceil(2).next_multiple_of(TILE).min(m);
    let products = m.saturating_mul(k).saturating_mul(n);
    if products < PARALLEL || half == m {
        rows(a, b, &mut c, k, n);
        return c;
    }
    let (c_top, c_bottom) = c.split_at_mut(half * n);
    let (a_top, a_bottom) = a.split_at(half * k);
    std::thread::scope(|scope| {
        scope.spawn(|| rows(a_bottom, b, c_bottom, k, n));
        rows(a_top, b, c_top, k, n);
    });
    c
}

/// Adds `a * b` to the rows of `c`.
fn rows<T: Entry>(a: &[T], b: &[T], c: &mut [T], k: usize, n: usize) {
    if tegula_limits::is_stopped() {
        return;
    }
    let m = c.len() / n;
    if m < TILE {
        for (c, a) in c.chunks_exact_mut(n).zip(a.chunks_exact(k)) {
            row(a, b, c, n);
        }
        return;
    }
    let mut columns = Vec::new();
    for start in (0..k).step_by(DEPTH) {
        let depth = DEPTH.min(k - start);
        let a_panels = pack_rows(a, m, k, start, depth);
        for j in (0..n).step_by(TILE) {
            if tegula_limits::is_stopped() {
                return;
            }
            pack_columns(&mut columns, b, n, start, depth, j);
            for (panel, i) in a_panels.chunks_exact(depth).zip((0..m).step_by(TILE)) {
                let sums = tile(panel, &columns);
                let width = TILE.min(n - j);
                for (r, sums) in sums.iter().enumerate().take(m - i) {
                    let place = (i + r) * n + j;
                    for (c, &sum) in c[place..place + width].iter_mut().zip(sums) {
                        *c = *c + sum;
                    }
                }
            }
        }
    }
}

/// Computes one row of the result, for matrices with too few rows for tiles.
fn row<T: Entry>(a: &[T], b: &[T], c: &mut [T], n: usize) {
    let mut block = vec![T::default(); n];
    for (a, b) in a.chunks(DEPTH).zip(b.chunks(DEPTH * n)) {
        block.fill(T::default());
        for (&a, b) in a.iter().zip(b.chunks_exact(n)) {
            for (sum, &b) in block.iter_mut().zip(b) {
                *sum = *sum + a * b;
            }
        }
        for (c, &sum) in c.iter_mut().zip(&block) {
            *c = *c + sum;
        }
    }
}

/// Packs rows in groups of [`TILE`], each group's columns one after the other; missing rows are
/// zero.
fn pack_rows<T: Entry>(a: &[T], m: usize, k: usize, start: usize, depth: usize) -> Vec<[T; TILE]> {
    let mut panels = Vec::with_capacity(m.div_ceil(TILE) * depth);
    for i in (0..m).step_by(TILE) {
        for p in start..start + depth {
            let entry = |r: usize| a.get((i + r) * k + p).copied().unwrap_or_default();
            panels.push([0, 1, 2, 3].map(entry));
        }
    }
    panels
}

/// Packs [`TILE`] columns from `j` on, row by row; missing columns are zero.
fn pack_columns<T: Entry>(
    columns: &mut Vec<[T; TILE]>,
    b: &[T],
    n: usize,
    start: usize,
    depth: usize,
    j: usize,
) {
    columns.clear();
    columns.extend((start..start + depth).map(|p| {
        let row = &b[p * n..(p + 1) * n];
        [0, 1, 2, 3].map(|c| row.get(j + c).copied().unwrap_or_default())
    }));
}

#[inline]
fn tile<T: Entry>(rows: &[[T; TILE]], columns: &[[T; TILE]]) -> [[T; TILE]; TILE] {
    let mut sums = [[T::default(); TILE]; TILE];
    for (a, b) in rows.iter().zip(columns) {
        for (sums, &a) in sums.iter_mut().zip(a) {
            for (sum, &b) in sums.iter_mut().zip(b) {
                *sum = *sum + a * b;
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_all_shapes_are_exact() {
        for (m, k, n) in [
            (1, 1, 1),
            (3, 5, 2),
            (4, 4, 4),
            (7, 300, 9),
            (130, 129, 131),
            (2, 0, 3),
        ] {
            let a: Vec<_> = (0..m * k)
                .map(|i| Wrapping(i as i64 * 7919 % 101 - 50))
                .collect();
            let b: Vec<_> = (0..k * n)
                .map(|i| Wrapping(i as i64 * 6101 % 97 - 48))
                .collect();
            let c = matmul(&a, &b, m, k, n);
            for i in 0..m {
                for j in 0..n {
                    let sum: Wrapping<i64> = (0..k).map(|p| a[i * k + p] * b[p * n + j]).sum();
                    assert_eq!(c[i * n + j], sum, "{m} {k} {n} at {i} {j}");
                }
            }
        }
    }
}
