//! Roots of the secular equation `1 + rho sum_i z_i^2 / (p_i - x) = 0`, whose poles `p_i` are in
//! ascending order.
//!
//! There is one root between any two adjacent poles, and one after the last. Each is found as its
//! distance from the nearer pole, so that differences to all poles have small relative errors.

use crate::lapack::scalar::Real;

/// A root, represented by a pole and the distance from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Root<R> {
    /// The index of the pole.
    pub(crate) origin: usize,
    /// The root minus that pole.
    pub(crate) distance: R,
}

/// The number of rational steps after which every step bisects the bracket.
const STEPS: usize = 60;
/// The maximum number of steps.
const MOST_STEPS: usize = 400;

/// The partial sums of an evaluation: over the poles up to the root, and over those after it.
struct Sums<R> {
    value: R,
    /// `sum z^2 / (p - x)` and its derivative, for the poles of either side.
    below: [R; 2],
    above: [R; 2],
    /// A bound of the value's error, in units of rounding.
    error: R,
}

/// The equation, with its poles as distances from one of them.
struct Equation<'a, R> {
    poles: &'a [R],
    squares: &'a [R],
    /// `1 / rho`.
    constant: R,
    /// The index of the last pole that is not greater than the root.
    split: usize,
}

impl<R: Real> Equation<'_, R> {
    #[inline(always)]
    fn sums(&self, x: R) -> Sums<R> {
        let (poles, poles_above) = self.poles.split_at(self.split + 1);
        let (squares, squares_above) = self.squares.split_at(self.split + 1);
        let below = side(poles, squares, x);
        let above = side(poles_above, squares_above, x);
        let eight = R::from_f64(8.0);
        Sums {
            value: self.constant + below[0] + above[0],
            below,
            above,
            // All terms of one side have the same sign.
            error: eight * (below[0].abs() + above[0].abs())
                + self.constant
                + x.abs() * (below[1] + above[1]),
        }
    }
}

/// The number of terms of the sums that are computed together.
const WIDTH: usize = 16;

/// Adds terms `z^2 / d`, and their derivatives `z^2 / d^2`.
#[inline(always)]
fn add_terms<R: Real>(
    [sums, derivatives]: [&mut [R; WIDTH]; 2],
    distances: &[R; WIDTH],
    squares: &[R; WIDTH],
) {
    for i in 0..WIDTH {
        let inverse = R::ONE / distances[i];
        let term = squares[i] * inverse;
        sums[i] += term;
        derivatives[i] += term * inverse;
    }
}

/// The sum of `z^2 / (p - x)` over some poles, and its derivative.
#[inline(always)]
fn side<R: Real>(poles: &[R], squares: &[R], x: R) -> [R; 2] {
    let (mut sums, mut derivatives) = ([R::ZERO; WIDTH], [R::ZERO; WIDTH]);
    let (pole_chunks, pole_rest) = poles.as_chunks::<WIDTH>();
    let (square_chunks, square_rest) = squares.as_chunks::<WIDTH>();
    for (poles, squares) in pole_chunks.iter().zip(square_chunks) {
        let distances = poles.map(|pole| pole - x);
        add_terms([&mut sums, &mut derivatives], &distances, squares);
    }
    // The last terms, padded with zero terms.
    let (mut distances, mut last) = ([R::ONE; WIDTH], [R::ZERO; WIDTH]);
    for (distance, &pole) in distances.iter_mut().zip(pole_rest) {
        *distance = pole - x;
    }
    for (last, &square) in last.iter_mut().zip(square_rest) {
        *last = square;
    }
    add_terms([&mut sums, &mut derivatives], &distances, &last);
    let mut half = WIDTH / 2;
    while half > 0 {
        for i in 0..half {
            sums[i] += sums[i + half];
            derivatives[i] += derivatives[i + half];
        }
        half /= 2;
    }
    [sums[0], derivatives[0]]
}

/// Finds the root after pole `after`. `difference(i, j)` is pole `i` minus pole `j`. `poles` has
/// room for one number for each pole; on return it holds the distance of each pole from the root's
/// origin. [`None`] if numbers are not finite.
#[inline(always)]
pub(crate) fn secular_root<R: Real>(
    after: usize,
    difference: impl Fn(usize, usize) -> R,
    squares: &[R],
    rho: R,
    poles: &mut [R],
) -> Option<Root<R>> {
    let count = squares.len();
    let half = R::from_f64(0.5);
    let is_last = after + 1 == count;
    let constant = R::ONE / rho;
    let mut origin = after;
    fill(poles, &difference, origin);
    // The bracket, as distances from the origin.
    let mut low = R::ZERO;
    let mut high;
    if is_last {
        let mut sum = R::ZERO;
        for &square in squares {
            sum += square;
        }
        high = rho * sum;
        // Rounding may put the root slightly outside.
        high += high * R::from_f64(8.0) * R::PRECISION;
    } else {
        high = poles[after + 1];
        let equation = Equation {
            poles,
            squares,
            constant,
            split: after,
        };
        if equation.sums(half * high).value < R::ZERO {
            // The root is in the upper half.
            origin = after + 1;
            fill(poles, &difference, origin);
            low = half * poles[after];
            high = R::ZERO;
        } else {
            high = half * high;
        }
    }
    let equation = Equation {
        poles,
        squares,
        constant,
        split: if is_last {
            after.saturating_sub(1)
        } else {
            after
        },
    };
    let mut x = start(&equation, low, high);
    for step in 0..MOST_STEPS {
        let sums = equation.sums(x);
        if !sums.value.is_finite_real() {
            return None;
        }
        if sums.value.abs() <= R::ROUNDING * sums.error {
            break;
        }
        if sums.value < R::ZERO {
            low = x;
        } else {
            high = x;
        }
        let middle = half * (low + high);
        let mut next = if step < STEPS {
            rational_step(&equation, &sums, x).unwrap_or(middle)
        } else {
            middle
        };
        if !(next > low && next < high) {
            next = middle;
        }
        if next == x || next == low || next == high {
            x = next;
            break;
        }
        x = next;
    }
    // Avoids a division by zero.
    if x == R::ZERO {
        x = if low < R::ZERO { low } else { high };
    }
    (x != R::ZERO).then_some(Root {
        origin,
        distance: x,
    })
}

#[inline(always)]
fn fill<R: Real>(poles: &mut [R], difference: &impl Fn(usize, usize) -> R, origin: usize) {
    for (i, pole) in poles.iter_mut().enumerate() {
        *pole = difference(i, origin);
    }
}

/// A starting point: the root of the equation in which the two nearest poles are exact and the
/// other terms constant.
#[inline(always)]
fn start<R: Real>(equation: &Equation<'_, R>, low: R, high: R) -> R {
    let middle = R::from_f64(0.5) * (low + high);
    let sums = equation.sums(middle);
    match rational_step(equation, &sums, middle) {
        Some(x) if x > low && x < high => x,
        _ => middle,
    }
}

/// The root of a rational function that has both adjacent poles, and agrees with the sums of either
/// side and their derivatives (Bunch, Nielsen and Sorensen, 1978).
#[inline(always)]
fn rational_step<R: Real>(equation: &Equation<'_, R>, sums: &Sums<R>, x: R) -> Option<R> {
    let lower = equation.poles[equation.split] - x;
    let Some(&upper) = equation.poles.get(equation.split + 1) else {
        // There is only one pole.
        let weight = sums.below[1] * lower * lower;
        return Some(equation.poles[equation.split] + weight / equation.constant);
    };
    let upper = upper - x;
    // The weights of the poles, and the constant term.
    let below = sums.below[1] * lower * lower;
    let above = sums.above[1] * upper * upper;
    let rest = sums.value - sums.below[1] * lower - sums.above[1] * upper;
    // rest + below / (lower - t) + above / (upper - t) = 0
    let a = rest;
    let b = -(rest * (lower + upper) + below + above);
    let c = rest * lower * upper + below * upper + above * lower;
    let between = |t: R| {
        let t_from = x + t;
        t_from.is_finite_real()
    };
    let half = R::from_f64(0.5);
    let discriminant = (b * b - R::from_f64(4.0) * a * c).max(R::ZERO);
    let q = -half * (b + discriminant.sqrt().copysign(b));
    // One of both roots is in the right place: between the poles, or after both.
    let candidates = [q / a, c / q];
    let fits = |t: R| {
        between(t)
            && match lower < R::ZERO && upper < R::ZERO {
                true => t > upper,
                false => t > lower && t < upper,
            }
    };
    candidates.into_iter().find(|&t| fits(t)).map(|t| x + t)
}
