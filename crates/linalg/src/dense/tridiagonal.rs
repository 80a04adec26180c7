//! Linear systems with a tridiagonal matrix.

use super::number::{Number, Real};

/// LAPACK's `gtsv` for each of a number of systems `a x = b`: Gaussian elimination that swaps a row
/// with the next one if that has the larger entry.
///
/// Each matrix is given by its subdiagonal, diagonal and superdiagonal, indexed by row: the first
/// element of the subdiagonal and the last of the superdiagonal are not read. They are overwritten
/// by the factored triangle: the diagonal and the superdiagonal in place, and the second
/// superdiagonal in place of the subdiagonal, one element further on.
#[derive(Clone, Copy, Debug)]
pub struct TridiagonalSolve {
    /// The number of rows of each matrix.
    pub rows: usize,
    /// The number of right-hand sides of each system: the columns of a row-major matrix.
    pub columns: usize,
    /// The number of systems.
    pub count: usize,
}

impl TridiagonalSolve {
    /// Solves the systems. `info` receives, for each system, 0 or the 1-based row whose pivot is
    /// zero; in the latter case the solution is meaningless.
    ///
    /// # Safety
    /// `given` and `gives` are the subdiagonals, diagonals, superdiagonals and right-hand sides of
    /// all systems, dense; `info` has a number for each. No two of them overlap.
    pub unsafe fn run<T: Number>(&self, given: [*const T; 4], gives: [*mut T; 4], info: *mut i32) {
        let sides = self.rows * self.columns;
        // SAFETY: the caller promises arrays of these sizes.
        unsafe {
            for (from, (to, size)) in given.into_iter().zip(
                gives
                    .into_iter()
                    .zip([self.rows, self.rows, self.rows, sides]),
            ) {
                core::ptr::copy_nonoverlapping(from, to, size * self.count);
            }
            for system in 0..self.count {
                let list = |number: usize, size: usize| {
                    core::slice::from_raw_parts_mut(gives[number].add(system * size), size)
                };
                let matrix = [0, 1, 2].map(|number| list(number, self.rows));
                let row = solve(matrix, list(3, sides), self.columns);
                info.add(system).write(row as i32);
            }
        }
    }
}

/// Solves a system in place; returns 0, or the 1-based row whose pivot is zero.
fn solve<T: Number>([below, diagonal, above]: [&mut [T]; 3], b: &mut [T], columns: usize) -> usize {
    let n = diagonal.len();
    let is_zero = |x: T| x.size() == T::Real::ZERO;
    for row in 0..n.saturating_sub(1) {
        let next = row + 1;
        let (own, other) = b[row * columns..][..2 * columns].split_at_mut(columns);
        if diagonal[row].size() >= below[next].size() {
            if is_zero(diagonal[row]) {
                return row + 1;
            }
            let factor = below[next].over(diagonal[row]);
            diagonal[next] = diagonal[next].minus(factor.times(above[row]));
            for (own, other) in own.iter().zip(other) {
                *other = other.minus(factor.times(*own));
            }
            below[next] = T::ZERO;
        } else {
            let factor = diagonal[row].over(below[next]);
            let under = diagonal[next];
            diagonal[row] = below[next];
            diagonal[next] = above[row].minus(factor.times(under));
            above[row] = under;
            let has_beyond = next + 1 < n;
            let beyond = if has_beyond { above[next] } else { T::ZERO };
            below[next] = beyond;
            if has_beyond {
                above[next] = factor.times(beyond).negative();
            }
            for (own, other) in own.iter_mut().zip(other) {
                core::mem::swap(own, other);
                *other = other.minus(factor.times(*own));
            }
        }
    }
    if diagonal.last().is_some_and(|&last| is_zero(last)) {
        return n;
    }
    for row in (0..n).rev() {
        let (own, rest) = b[row * columns..].split_at_mut(columns);
        for (column, own) in own.iter_mut().enumerate() {
            if row + 1 < n {
                *own = own.minus(above[row].times(rest[column]));
            }
            if row + 2 < n {
                *own = own.minus(below[row + 1].times(rest[columns + column]));
            }
            *own = own.over(diagonal[row]);
        }
    }
    0
}
