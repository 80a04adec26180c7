//! Systems of linear equations with a tridiagonal matrix.

use super::number::{Number, Real};

/// LAPACK's `gtsv` for each of a number of systems `a x = b`: Gaussian elimination that exchanges a row with
/// the next one where that has the larger entry.
///
/// Of each matrix there are the elements below the diagonal, on it and above it, by rows: the first of those
/// below and the last of those above are not read. They become the factored triangle: its diagonal, the one
/// above, and the one above that, an element further on, in the place of those below.
#[derive(Clone, Copy, Debug)]
pub struct TridiagonalSolve {
    /// Rows of each matrix.
    pub rows: usize,
    /// Right sides of each system, which are the columns of a row-major matrix.
    pub columns: usize,
    /// How many systems there are.
    pub count: usize,
}

impl TridiagonalSolve {
    /// Solves the systems. `info` is, of each, 0 or the row whose pivot is zero, from 1 on: its solution has
    /// no meaning then.
    ///
    /// # Safety
    /// `given` and `gives` are the elements below, on and above the diagonal and the right sides of all
    /// systems, dense; `info` has a number for each. No two of them overlap.
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

/// Solves a system in its place; gives 0, or the row whose pivot is zero.
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
