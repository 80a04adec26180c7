//! Singular values of bidiagonal matrices, without vectors, by the differential quotient-difference
//! algorithm with shifts (dqds) of Fernando and Parlett, "Accurate singular values and differential
//! qd algorithms" (1994).
//!
//! A matrix with diagonal `d` and superdiagonal `e` is represented by the squares `q` and `e` of
//! both. A pass computes the squares of another matrix, whose squared singular values are smaller
//! by a shift. If the shift exceeds the smallest squared value, the pass yields a negative number
//! and is repeated with a smaller shift. Otherwise the last element of `e` converges to zero; then
//! the last element of `q` plus the sum of the shifts is the smallest squared value. There are no
//! square roots and no rotations: a pass takes a quarter of the QR iteration's time. Shifts follow
//! Parlett and Marques, "An implementation of the dqds algorithm (positive case)" (2000): lower
//! bounds from the gap between the last value and the others.

use crate::lapack::scalar::Real;
use crate::thread_pool::is_stopped;

/// The maximum number of passes over all rows, for each row.
const MAX_PASSES: usize = 30;
/// The minimum number of rows of a pass.
const MIN_ROWS: usize = 3;
/// An upper bound of the squared values, for a matrix whose elements are at most 1: the bound of
/// the squared norm.
const LARGEST: f64 = 4.0;

/// The minima of a pass: each is an upper bound of the smallest squared singular value.
#[derive(Clone, Copy, Debug, Default)]
struct Least {
    /// The minimum of all, of all but the last, and of all but the last two.
    of_all: [f64; 3],
    /// The last three, last first.
    last: [f64; 3],
    /// The smallest squared off-diagonal element.
    beside: f64,
}

/// Rows that form a separate matrix: their first row, their end, and the sum of their shifts.
struct Block {
    first: usize,
    end: usize,
    shifts: Sum,
}

/// A compensated sum (Kahan).
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    value: f64,
    rest: f64,
}

impl Sum {
    fn add(&mut self, x: f64) {
        let (large, small) = match x < self.value {
            true => (self.value, x),
            false => (x, self.value),
        };
        let sum = large + small;
        self.rest += small - (sum - large);
        self.value = sum;
    }

    fn plus(self, x: f64) -> f64 {
        x + (self.value + self.rest)
    }
}

/// Replaces the diagonal `d` of a bidiagonal matrix with the off-diagonal `e` by its singular
/// values in descending order. Returns false and leaves the matrix unchanged if the maximum number
/// of passes does not suffice, or if a square is zero or not finite.
pub(crate) fn qd_values<R: Real>(d: &mut [R], e: &[R]) -> bool {
    let n = d.len();
    let largest = |x: &[R]| x.iter().fold(0f64, |most, x| most.max(x.to_f64().abs()));
    let scale = largest(d).max(largest(e));
    if !(scale.is_normal() && 1e-150 < scale && scale < 1e150) {
        return false;
    }
    let square = |x: &R| {
        let x = x.to_f64() / scale;
        x * x
    };
    let mut squares: Vec<f64> = d.iter().map(square).collect();
    squares.extend(e.iter().map(square));
    squares.resize(2 * n, 0.0);
    let (q, e) = squares.split_at_mut(n);
    // NaNs are left for the other algorithm to report.
    if !q.iter().all(|&q| q.is_normal()) || !e.iter().all(|&e| e < f64::INFINITY) {
        return false;
    }
    let tolerance = 100.0 * R::ROUNDING.to_f64();
    let mut iteration = Iteration {
        q,
        e,
        next: vec![0.0; 2 * n],
        negligible: tolerance * tolerance,
        found: Vec::with_capacity(n),
        left: MAX_PASSES * n,
    };
    let mut blocks = vec![Block {
        first: 0,
        end: n,
        shifts: Sum::default(),
    }];
    while let Some(block) = blocks.pop() {
        if !iteration.block(block, &mut blocks) {
            return false;
        }
    }
    let mut found = iteration.found;
    found.sort_unstable_by(|a, b| b.total_cmp(a));
    for (d, square) in d.iter_mut().zip(found) {
        *d = R::from_f64(square.sqrt() * scale);
    }
    true
}

struct Iteration<'a> {
    q: &'a mut [f64],
    e: &'a mut [f64],
    /// The output of a pass: first `q`, then `e`.
    next: Vec<f64>,
    /// The threshold below which a square counts as zero.
    negligible: f64,
    found: Vec<f64>,
    /// The number of passes that are left.
    left: usize,
}

impl Iteration<'_> {
    /// Finds the values of a block, except for those of blocks that split off.
    fn block(&mut self, mut block: Block, others: &mut Vec<Block>) -> bool {
        let mut least = None;
        let mut is_new = true;
        loop {
            is_new |= self.deflate(&mut block, &mut least);
            is_new |= self.split(&mut block, least, others);
            let rows = block.end - block.first;
            if rows == 0 {
                return true;
            }
            if rows < MIN_ROWS {
                continue;
            }
            if std::mem::take(&mut is_new) {
                self.turn(&block, &mut least);
            }
            let shift = least.map_or(0.0, |least| self.shift(&block, least));
            let Some((shift, found)) = self.step(&block, shift) else {
                return false;
            };
            block.shifts.add(shift);
            least = Some(found);
        }
    }

    /// Removes converged values from the end of a block. Returns whether there were any.
    fn deflate(&mut self, block: &mut Block, least: &mut Option<Least>) -> bool {
        let (q, e, negligible) = (&*self.q, &*self.e, self.negligible);
        let end = block.end;
        loop {
            let (rows, last) = (block.end - block.first, block.end.saturating_sub(1));
            let shifts = block.shifts;
            if rows == 1 || rows > 1 && e[last - 1] <= negligible * shifts.plus(q[last]) {
                self.found.push(shifts.plus(q[last]));
                block.end -= 1;
                // The second-last one becomes the last.
                if let Some(Least { of_all, last, .. }) = least {
                    of_all.rotate_left(1);
                    last.rotate_left(1);
                }
            } else if rows == 2
                || rows > 2 && {
                    // A lower bound for the last two rows.
                    let both = q[last - 1] * (q[last] / (q[last] + e[last - 1]));
                    e[last - 2] <= negligible * shifts.value.max(both)
                }
            {
                let [larger, smaller] = of_two(q[last - 1], e[last - 1], q[last]);
                self.found.extend([larger, smaller].map(|x| shifts.plus(x)));
                block.end -= 2;
                *least = None;
            } else {
                return block.end < end;
            }
        }
    }

    /// Splits a block where the off-diagonal element is negligible; continues with the last part.
    /// The test compares it with the smallest value of the rows before it (Demmel and Kahan,
    /// "Accurate singular values of bidiagonal matrices", 1990, criterion 1a, for squares): no
    /// value changes by more than a small relative error.
    fn split(&self, block: &mut Block, least: Option<Least>, others: &mut Vec<Block>) -> bool {
        let first = block.first;
        if least.is_some_and(|least| least.beside > LARGEST * self.negligible) {
            return false;
        }
        let Some(&(mut before)) = self.q.get(first) else {
            return false;
        };
        for i in first..block.end.saturating_sub(MIN_ROWS) {
            let (e, next) = (self.e[i], self.q[i + 1]);
            if e <= self.negligible * block.shifts.value.max(before) {
                others.push(Block {
                    end: i + 1,
                    ..*block
                });
                block.first = i + 1;
                before = next;
            } else {
                before = next * (before / (before + e));
            }
        }
        block.first > first
    }

    /// Reverses a block whose small values are at its start.
    fn turn(&mut self, block: &Block, least: &mut Option<Least>) {
        let q = &mut self.q[block.first..block.end];
        if let (Some(&first), Some(&last)) = (q.first(), q.last())
            && 1.5 * first < last
        {
            q.reverse();
            self.e[block.first..block.end - 1].reverse();
            *least = None;
        }
    }

    /// A shift that hardly exceeds the smallest squared value.
    fn shift(&self, block: &Block, least: Least) -> f64 {
        let [of_all, but_last, but_two] = least.of_all;
        let [last, last_but_one, _] = least.last;
        if of_all <= 0.0 {
            return 0.0;
        }
        if of_all != last || but_last != last_but_one {
            return of_all / 4.0;
        }
        // The last two rows of the symmetric tridiagonal matrix of the squares. `last` and `next`
        // are on the diagonal, and `beside` is the off-diagonal element between them. `above` is
        // the off-diagonal element that couples `next` to the other rows, whose eigenvalues are at
        // least `but_two`.
        let at = block.end - 1;
        let next = self.q[at - 1] + self.e[at - 1];
        let beside = (self.q[at] * self.e[at - 1]).sqrt();
        let above = (self.q[at - 1] * self.e[at - 2]).sqrt();
        let gap = 0.75 * but_two - last;
        let next = match gap > above {
            true => next - above * above / gap,
            false => next - above,
        };
        let half = (next - last) / 2.0;
        if half > 0.0 {
            // The smaller eigenvalue of these two rows.
            let shift = last - beside * beside / (half + (half * half + beside * beside).sqrt());
            return shift.max(of_all / 2.0);
        }
        (last - beside).max(of_all / 3.0)
    }

    /// Makes a pass with this shift, or with a smaller one, and returns the shift used. `None` if
    /// no passes are left, or if no shift succeeds.
    fn step(&mut self, block: &Block, mut shift: f64) -> Option<(f64, Least)> {
        let range = block.first..block.end;
        let (q, e) = (&mut self.q[range.clone()], &mut self.e[range.clone()]);
        let half = self.next.len() / 2;
        let (next_q, next_e) = self.next.split_at_mut(half);
        let (next_q, next_e) = (&mut next_q[range.clone()], &mut next_e[range]);
        for attempt in 0.. {
            self.left = self.left.checked_sub(1).filter(|_| !is_stopped())?;
            let least = pass([q, e], [next_q, next_e], shift);
            let [of_all, but_last, _] = least.of_all;
            let is_number = !least.last[0].is_nan();
            if of_all >= 0.0 && is_number {
                q.copy_from_slice(next_q);
                e.copy_from_slice(next_e);
                return Some((shift, least));
            }
            if shift == 0.0 {
                return None;
            }
            shift = match but_last > 0.0 && is_number {
                _ if attempt == 3 => 0.0,
                // Only the last is negative: its value shows by how much the shift was too large.
                true => ((shift + least.last[0]) * (1.0 - 2.0 * f64::EPSILON)).max(0.0),
                false => shift / 4.0,
            };
        }
        None
    }
}

/// One pass over at least [`MIN_ROWS`] rows.
fn pass([q, e]: [&[f64]; 2], [next_q, next_e]: [&mut [f64]; 2], shift: f64) -> Least {
    let rows = q.len();
    let mut x = q[0] - shift;
    let mut least = x;
    let mut all = Least {
        beside: f64::INFINITY,
        ..Least::default()
    };
    let both = q[1..]
        .iter()
        .zip(e)
        .zip(next_q.iter_mut().zip(&mut *next_e));
    for (i, ((q, e), (next_q, next_e))) in both.enumerate() {
        let sum = x + e;
        let ratio = q / sum;
        *next_q = sum;
        let beside = e * ratio;
        *next_e = beside;
        all.beside = if beside < all.beside {
            beside
        } else {
            all.beside
        };
        x = x * ratio - shift;
        least = if x < least { x } else { least };
        if i + MIN_ROWS + 1 >= rows {
            // The minima for the last three rows, as far as the loop has come.
            let place = rows - 2 - i;
            all.of_all[place] = least;
            all.last[place] = x;
        }
    }
    next_q[rows - 1] = x;
    if rows == MIN_ROWS {
        (all.of_all[2], all.last[2]) = (q[0] - shift, q[0] - shift);
    }
    all
}

/// The squared singular values of two rows, larger one first.
fn of_two(first: f64, above: f64, last: f64) -> [f64; 2] {
    let half = ((first - last) + above) / 2.0;
    let root = (half * half + last * above).sqrt();
    let larger = ((first + last) + above) / 2.0 + root;
    [larger, first / larger * last]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lapack::isa::{Isa, Routine, dispatch};
    use crate::lapack::matrix::Matrix;
    use crate::lapack::singular::qr_iteration::{Turns, Vectors, bdsqr};

    struct ByRotations<'a>(&'a mut [f64], &'a mut [f64]);

    impl Routine for ByRotations<'_> {
        type Output = ();

        fn run<I: Isa>(self) {
            let n = self.0.len();
            let mut vectors = Vectors {
                u: Matrix::new(&mut [], 0, n),
                v: Matrix::new(&mut [], 0, n),
            };
            let done = bdsqr::<I, f64>(self.0, self.1, &mut vectors, &mut Turns::new(n));
            done.expect("it converges");
        }
    }

    /// Checks that both algorithms agree to a small relative error, however small a value is.
    fn agrees(d: &[f64], given: &[f64]) {
        let mut by_qd = d.to_vec();
        assert!(qd_values(&mut by_qd, given), "{d:?} {given:?}");
        let (mut expected, mut e) = (d.to_vec(), given.to_vec());
        dispatch(ByRotations(&mut expected, &mut e));
        for (found, expected) in by_qd.iter().zip(&expected) {
            let error = (found - expected).abs();
            assert!(error <= 1e-13 * expected, "{found} {expected} of {d:?}");
        }
        // For f32, compares with the values of the rounded matrix.
        let narrow = |x: &[f64]| -> Vec<f32> { x.iter().map(|&x| x as f32).collect() };
        let (mut single, beside) = (narrow(d), narrow(given));
        assert!(qd_values(&mut single, &beside), "{single:?} {beside:?}");
        let wide = |x: &[f32]| -> Vec<f64> { x.iter().map(|&x| x.into()).collect() };
        let (mut expected, mut beside) = (wide(&narrow(d)), wide(&beside));
        dispatch(ByRotations(&mut expected, &mut beside));
        for (&found, &expected) in single.iter().zip(&expected) {
            let error = (f64::from(found) - expected).abs();
            // A hundred rounding errors: the tolerance for negligible elements.
            assert!(error <= 1e-5 * expected, "{found} {expected} of {d:?}");
        }
    }

    #[test]
    fn values_are_those_of_the_qr_iteration() {
        let mut state = 88_172_645_463_325_252u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        for n in [1usize, 2, 3, 4, 5, 8, 17, 40, 100] {
            for kind in 0..8 {
                let at = |i: usize, x: f64| match kind {
                    0 => x + 0.01,
                    1 => 1.0,
                    // Decreasing sizes, and increasing ones.
                    2 => 0.5f64.powi(i as i32) * (x + 0.5),
                    3 => 0.5f64.powi((n - i) as i32) * (x + 0.5),
                    // Sizes as in the reduction of a random matrix.
                    4 => ((n - i) as f64).sqrt() + x,
                    // Clusters, in a matrix that almost splits.
                    5 => 1.0 + (i / 3) as f64 + 1e-9 * x,
                    _ if i.is_multiple_of(2) => 1.0,
                    6 => 1e-7 + x * 1e-8,
                    // Off-diagonal elements that are small compared with their neighbours, but not
                    // with the smallest value.
                    _ => 1e-14 + x * 1e-15,
                };
                let d: Vec<f64> = (0..n).map(|i| at(i, random())).collect();
                let mut e: Vec<f64> = (0..n - 1).map(|i| at(i, random())).collect();
                agrees(&d, &e);
                if kind == 6 {
                    e.iter_mut().for_each(|e| *e *= 1e-12);
                    agrees(&d, &e);
                    e.fill(0.0);
                    agrees(&d, &e);
                }
                let negative: Vec<f64> = d.iter().map(|d| -d).collect();
                agrees(&negative, &e);
            }
        }
    }

    #[test]
    fn what_has_no_squares_is_left() {
        for bad in [0.0, f64::NAN, f64::INFINITY, 1e-200, 1e200] {
            let mut d = [1.0, bad, 2.0, 3.0];
            assert!(!qd_values(&mut d, &[1.0, 0.5, 0.25]), "{bad}");
            assert_eq!(d[2..], [2.0, 3.0]);
        }
        let mut d = [1.0, 2.0, 3.0];
        assert!(!qd_values(&mut d, &[1.0, f64::NAN]));
    }
}
