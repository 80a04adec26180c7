//! Singular values and vectors of bidiagonal matrices by the implicit QR iteration of Demmel and
//! Kahan.

use crate::lapack::NotConverged;
use crate::lapack::isa::Isa;
use crate::lapack::matrix::Matrix;
use crate::lapack::rotation::{rotate, rotate_backward, rotate_forward, rotation};
use crate::lapack::scalar::Real;
use crate::thread_pool::is_stopped;

/// The maximum number of passes over all rows, for each row.
const ITERATIONS: usize = 6;

/// The rotations of a pass: those of `v`, then those of `u`.
#[derive(Debug)]
pub(crate) struct Turns<R>(Vec<(R, R)>, Vec<(R, R)>);

impl<R: Real> Turns<R> {
    pub(crate) fn new(n: usize) -> Self {
        let none = (R::ZERO, R::ZERO);
        Self(vec![none; n], vec![none; n])
    }
}

/// The vectors, which the iteration multiplies from the right.
#[derive(Debug)]
pub(crate) struct Vectors<'a, R> {
    pub(crate) u: Matrix<'a, R>,
    pub(crate) v: Matrix<'a, R>,
}

/// LAPACK's `bdsqr` for an upper bidiagonal matrix: replaces the diagonal `d` by the singular
/// values in descending order, and multiplies `u` and `v` by the matrices of the singular vectors.
/// The superdiagonal `e` is destroyed.
#[inline(always)]
pub(crate) fn bdsqr<I: Isa, R: Real>(
    d: &mut [R],
    e: &mut [R],
    vectors: &mut Vectors<'_, R>,
    turns: &mut Turns<R>,
) -> Result<(), NotConverged> {
    Iteration::<I, R> {
        d,
        e,
        vectors,
        turns,
        isa: std::marker::PhantomData,
    }
    .run()
}

/// The direction of a pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// From the first row.
    Down,
    /// From the last row.
    Up,
}

struct Iteration<'a, 'v, I, R> {
    d: &'a mut [R],
    e: &'a mut [R],
    vectors: &'a mut Vectors<'v, R>,
    turns: &'a mut Turns<R>,
    isa: std::marker::PhantomData<I>,
}

impl<I: Isa, R: Real> Iteration<'_, '_, I, R> {
    #[inline(always)]
    fn run(mut self) -> Result<(), NotConverged> {
        let n = self.d.len();
        // The tolerance is the rounding error times a factor: its own -1/8th power, limited to
        // 10..100.
        let factor = R::ROUNDING.sqrt().sqrt().sqrt();
        let factor = (R::ONE / factor)
            .min(R::from_f64(100.0))
            .max(R::from_f64(10.0));
        let tolerance = factor * R::ROUNDING;
        let negligible = self.negligible(tolerance);
        let mut left = ITERATIONS * n * n;
        let mut end = n;
        let mut before: Option<[usize; 2]> = None;
        let mut direction = Direction::Down;
        while end > 1 {
            let last = end - 1;
            let is_zero = |&i: &usize| self.e[i].abs() <= negligible;
            let first = match (0..last).rev().find(is_zero) {
                Some(at) => {
                    self.e[at] = R::ZERO;
                    at + 1
                }
                None => 0,
            };
            if first == last {
                end -= 1;
                continue;
            }
            if first + 1 == last {
                self.two_by_two(first);
                end -= 2;
                continue;
            }
            if left == 0 || is_stopped() {
                let rest = self.e.iter().filter(|&&e| e != R::ZERO);
                return Err(NotConverged(rest.count().max(1)));
            }
            if before.is_none_or(|[old_first, old_last]| first > old_last || last < old_first) {
                direction = match self.d[first].abs() >= self.d[last].abs() {
                    true => Direction::Down,
                    false => Direction::Up,
                };
            }
            let Some(smallest) = self.smallest([first, last], direction, tolerance) else {
                continue;
            };
            before = Some([first, last]);
            let shift = self.shift([first, last], direction, tolerance, smallest);
            left = left.saturating_sub(last - first);
            match (direction, shift == R::ZERO) {
                (Direction::Down, true) => self.pass_down([first, last]),
                (Direction::Down, false) => self.shifted_down([first, last], shift),
                (Direction::Up, true) => self.pass_up([first, last]),
                (Direction::Up, false) => self.shifted_up([first, last], shift),
            }
            let edge = match direction {
                Direction::Down => last - 1,
                Direction::Up => first,
            };
            if self.e[edge].abs() <= negligible {
                self.e[edge] = R::ZERO;
            }
        }
        self.finish();
        Ok(())
    }

    /// The threshold below which a superdiagonal element counts as zero: small compared with a
    /// bound of the smallest singular value.
    #[inline(always)]
    fn negligible(&self, tolerance: R) -> R {
        let n = R::from_f64(self.d.len() as f64);
        let mut mu = self.d.first().map_or(R::ZERO, |d| d.abs());
        let mut least = mu;
        for (d, e) in self.d.iter().skip(1).zip(self.e.iter()) {
            if least == R::ZERO {
                break;
            }
            mu = d.abs() * (mu / (mu + e.abs()));
            least = least.min(mu);
        }
        let least = tolerance * (least / n.sqrt());
        least.max(R::from_f64(ITERATIONS as f64) * n * n * R::SAFE_MIN)
    }

    /// A bound of the smallest singular value of a block; [`None`] if a superdiagonal element was
    /// negligible, and was set to zero.
    #[inline(always)]
    fn smallest(
        &mut self,
        [first, last]: [usize; 2],
        direction: Direction,
        tolerance: R,
    ) -> Option<R> {
        let (d, e) = (&*self.d, &mut *self.e);
        let (edge, beside) = match direction {
            Direction::Down => (last - 1, last),
            Direction::Up => (first, first),
        };
        if e[edge].abs() <= tolerance * d[beside].abs() {
            e[edge] = R::ZERO;
            return None;
        }
        let from = match direction {
            Direction::Down => first,
            Direction::Up => last,
        };
        let mut mu = d[from].abs();
        let mut smallest = mu;
        for k in 0..last - first {
            let (at, next) = match direction {
                Direction::Down => (first + k, first + k + 1),
                Direction::Up => (last - 1 - k, last - 1 - k),
            };
            if e[at].abs() <= tolerance * mu {
                e[at] = R::ZERO;
                return None;
            }
            mu = d[next].abs() * (mu / (mu + e[at].abs()));
            smallest = smallest.min(mu);
        }
        Some(smallest)
    }

    /// The shift of a pass; zero if a shift would spoil the accuracy of small singular values.
    #[inline(always)]
    fn shift(
        &self,
        [first, last]: [usize; 2],
        direction: Direction,
        tolerance: R,
        smallest: R,
    ) -> R {
        let (d, e) = (&*self.d, &*self.e);
        let mut largest = d[last].abs();
        for i in first..last {
            largest = largest.max(d[i].abs()).max(e[i].abs());
        }
        let n = R::from_f64(d.len() as f64);
        let bound = R::ROUNDING.max(R::from_f64(0.01) * tolerance);
        if n * tolerance * (smallest / largest) <= bound {
            return R::ZERO;
        }
        let (start, shift) = match direction {
            Direction::Down => (
                d[first].abs(),
                least_of_two(d[last - 1], e[last - 1], d[last]),
            ),
            Direction::Up => (
                d[last].abs(),
                least_of_two(d[first], e[first], d[first + 1]),
            ),
        };
        if start > R::ZERO && (shift / start) * (shift / start) < R::ROUNDING {
            return R::ZERO;
        }
        shift
    }

    #[inline(always)]
    fn two_by_two(&mut self, first: usize) {
        let found = two_by_two(self.d[first], self.e[first], self.d[first + 1]);
        [self.d[first], self.d[first + 1]] = found.values;
        self.e[first] = R::ZERO;
        let [x, y] = self.vectors.v.two_columns(first, first + 1);
        rotate::<I, R>(x, y, found.right.0, found.right.1);
        let [x, y] = self.vectors.u.two_columns(first, first + 1);
        rotate::<I, R>(x, y, found.left.0, found.left.1);
    }

    #[inline(always)]
    fn pass_down(&mut self, [first, last]: [usize; 2]) {
        let (d, e) = (&mut *self.d, &mut *self.e);
        let (mut c, mut old_c) = (R::ONE, R::ONE);
        let mut old_s = R::ZERO;
        for i in first..last {
            let (s, r);
            (c, s, r) = rotation(d[i] * c, e[i]);
            if i > first {
                e[i - 1] = old_s * r;
            }
            (old_c, old_s, d[i]) = rotation(old_c * r, d[i + 1] * s);
            self.turns.0[i - first] = (c, s);
            self.turns.1[i - first] = (old_c, old_s);
        }
        let h = d[last] * c;
        d[last] = h * old_c;
        e[last - 1] = h * old_s;
        self.turn_forward(first, last - first);
    }

    #[inline(always)]
    fn pass_up(&mut self, [first, last]: [usize; 2]) {
        let (d, e) = (&mut *self.d, &mut *self.e);
        let (mut c, mut old_c) = (R::ONE, R::ONE);
        let mut old_s = R::ZERO;
        for i in (first + 1..=last).rev() {
            let (s, r);
            (c, s, r) = rotation(d[i] * c, e[i - 1]);
            if i < last {
                e[i] = old_s * r;
            }
            (old_c, old_s, d[i]) = rotation(old_c * r, d[i - 1] * s);
            self.turns.1[i - first - 1] = (c, -s);
            self.turns.0[i - first - 1] = (old_c, -old_s);
        }
        let h = d[first] * c;
        d[first] = h * old_c;
        e[first] = h * old_s;
        self.turn_backward(first, last - first);
    }

    #[inline(always)]
    fn shifted_down(&mut self, [first, last]: [usize; 2], shift: R) {
        let (d, e) = (&mut *self.d, &mut *self.e);
        let start = d[first];
        let mut f = (start.abs() - shift) * (R::ONE.copysign(start) + shift / start);
        let mut g = e[first];
        for i in first..last {
            let (c, s, r) = rotation(f, g);
            if i > first {
                e[i - 1] = r;
            }
            f = c * d[i] + s * e[i];
            e[i] = c * e[i] - s * d[i];
            g = s * d[i + 1];
            d[i + 1] *= c;
            self.turns.0[i - first] = (c, s);
            let (c, s, r) = rotation(f, g);
            d[i] = r;
            f = c * e[i] + s * d[i + 1];
            d[i + 1] = c * d[i + 1] - s * e[i];
            if i + 1 < last {
                g = s * e[i + 1];
                e[i + 1] *= c;
            }
            self.turns.1[i - first] = (c, s);
        }
        e[last - 1] = f;
        self.turn_forward(first, last - first);
    }

    #[inline(always)]
    fn shifted_up(&mut self, [first, last]: [usize; 2], shift: R) {
        let (d, e) = (&mut *self.d, &mut *self.e);
        let start = d[last];
        let mut f = (start.abs() - shift) * (R::ONE.copysign(start) + shift / start);
        let mut g = e[last - 1];
        for i in (first + 1..=last).rev() {
            let (c, s, r) = rotation(f, g);
            if i < last {
                e[i] = r;
            }
            f = c * d[i] + s * e[i - 1];
            e[i - 1] = c * e[i - 1] - s * d[i];
            g = s * d[i - 1];
            d[i - 1] *= c;
            self.turns.1[i - first - 1] = (c, -s);
            let (c, s, r) = rotation(f, g);
            d[i] = r;
            f = c * e[i - 1] + s * d[i - 1];
            d[i - 1] = c * d[i - 1] - s * e[i - 1];
            if i > first + 1 {
                g = s * e[i - 2];
                e[i - 2] *= c;
            }
            self.turns.0[i - first - 1] = (c, -s);
        }
        e[first] = f;
        self.turn_backward(first, last - first);
    }

    #[inline(always)]
    fn turn_forward(&mut self, first: usize, count: usize) {
        let Vectors { u, v } = self.vectors;
        rotate_forward::<I, R>(v, first, &self.turns.0[..count]);
        rotate_forward::<I, R>(u, first, &self.turns.1[..count]);
    }

    #[inline(always)]
    fn turn_backward(&mut self, first: usize, count: usize) {
        let Vectors { u, v } = self.vectors;
        rotate_backward::<I, R>(v, first, &self.turns.0[..count]);
        rotate_backward::<I, R>(u, first, &self.turns.1[..count]);
    }

    /// Makes the values non-negative and sorts them in descending order.
    #[inline(always)]
    fn finish(&mut self) {
        let n = self.d.len();
        for (i, d) in self.d.iter_mut().enumerate() {
            if *d < R::ZERO {
                *d = -*d;
                self.vectors
                    .v
                    .column_mut(i)
                    .iter_mut()
                    .for_each(|x| *x = -*x);
            } else if *d == R::ZERO {
                *d = R::ZERO;
            }
        }
        for end in (1..n).rev() {
            let mut least = 0;
            for j in 1..=end {
                if self.d[j] <= self.d[least] {
                    least = j;
                }
            }
            if least != end {
                self.d.swap(least, end);
                self.vectors.v.swap_columns(least, end);
                self.vectors.u.swap_columns(least, end);
            }
        }
    }
}

/// LAPACK's `las2`: the smaller singular value of `[f g; 0 h]`.
#[inline(always)]
fn least_of_two<R: Real>(f: R, g: R, h: R) -> R {
    let (f, g, h) = (f.abs(), g.abs(), h.abs());
    let (small, large) = (f.min(h), f.max(h));
    if small == R::ZERO {
        return R::ZERO;
    }
    let two = R::from_f64(2.0);
    let sum = R::ONE + small / large;
    let difference = (large - small) / large;
    if g < large {
        let ratio = (g / large) * (g / large);
        let c = two / ((sum * sum + ratio).sqrt() + (difference * difference + ratio).sqrt());
        return small * c;
    }
    let ratio = large / g;
    if ratio == R::ZERO {
        return (small * large) / g;
    }
    let (sum, difference) = (sum * ratio, difference * ratio);
    let c = R::ONE / ((R::ONE + sum * sum).sqrt() + (R::ONE + difference * difference).sqrt());
    let value = (small * c) * ratio;
    value + value
}

/// The singular values of `[f g; 0 h]`, larger magnitude first, and the cosine and sine of its
/// right and of its left vector.
struct OfTwo<R> {
    values: [R; 2],
    right: (R, R),
    left: (R, R),
}

/// LAPACK's `lasv2`.
#[inline(always)]
fn two_by_two<R: Real>(f: R, g: R, h: R) -> OfTwo<R> {
    let (one, two) = (R::ONE, R::from_f64(2.0));
    let is_swapped = h.abs() > f.abs();
    let (ft, ht) = if is_swapped { (h, f) } else { (f, h) };
    let (fa, ha, ga) = (ft.abs(), ht.abs(), g.abs());
    let (smaller, larger, mut left, mut right);
    // The element that determines the signs.
    let mut greatest = if is_swapped { h } else { f };
    let mut by_g = false;
    if ga == R::ZERO {
        (smaller, larger, left, right) = (ha, fa, (one, R::ZERO), (one, R::ZERO));
    } else if ga > fa && fa / ga < R::ROUNDING {
        by_g = true;
        larger = ga;
        smaller = if ha > one {
            fa / (ga / ha)
        } else {
            (fa / ga) * ha
        };
        left = (one, ht / g);
        right = (ft / g, one);
    } else {
        by_g = ga > fa;
        let d = fa - ha;
        let l = if d == fa { one } else { d / fa };
        let m = g / ft;
        let t = two - l;
        let (mm, tt) = (m * m, t * t);
        let s = (tt + mm).sqrt();
        let r = if l == R::ZERO {
            m.abs()
        } else {
            (l * l + mm).sqrt()
        };
        let a = R::from_f64(0.5) * (s + r);
        smaller = ha / a;
        larger = fa * a;
        let t = if mm != R::ZERO {
            (m / (s + t) + m / (r + l)) * (one + a)
        } else if l == R::ZERO {
            two.copysign(ft) * one.copysign(g)
        } else {
            g / d.copysign(ft) + m / t
        };
        let l = (t * t + two + two).sqrt();
        right = (two / l, t / l);
        left = ((right.0 + right.1 * m) / a, (ht / ft) * right.1 / a);
    }
    if is_swapped {
        (left, right) = ((right.1, right.0), (left.1, left.0));
    }
    let sign = |x: R| one.copysign(x);
    if by_g {
        greatest = g;
    }
    let of_larger = match (by_g, is_swapped) {
        (true, _) => sign(right.1) * sign(left.0),
        (false, false) => sign(right.0) * sign(left.0),
        (false, true) => sign(right.1) * sign(left.1),
    } * sign(greatest);
    OfTwo {
        values: [
            larger.copysign(of_larger),
            smaller.copysign(of_larger * sign(f) * sign(h)),
        ],
        right,
        left,
    }
}
