//! Schur form of real Hessenberg matrices by the double-shift QR iteration of Francis.

use super::Hqr;
use crate::lapack::NotConverged;
use crate::lapack::householder::reflector;
use crate::lapack::isa::Isa;
use crate::lapack::matrix::Matrix;
use crate::lapack::rotation::rotate;
use crate::lapack::scalar::{Real, multiply_add};
use crate::thread_pool::is_stopped;

/// The maximum number of iterations for each row; a matrix counts as at least ten rows.
const ITERATIONS: usize = 30;
/// The number of iterations on one block after which an exceptional shift is used.
const EXCEPTIONAL: usize = 10;

/// LAPACK's `lahqr`: replaces `h` by its real Schur form (only computes its eigenvalues, if `whole`
/// is false) and multiplies `z` by the orthogonal transformation. Writes the real and imaginary
/// parts of the eigenvalues.
#[inline(always)]
pub(crate) fn lahqr<I: Isa, R: Real>(
    call: Hqr<'_, '_, R>,
    [re, im]: [&mut [R]; 2],
) -> Result<(), NotConverged> {
    let Hqr {
        h,
        mut z,
        whole,
        active,
    } = call;
    let n = h.rows();
    for i in (0..active.start).chain(active.end..n) {
        (re[i], im[i]) = (h.at(i, i), R::ZERO);
    }
    let (low, mut end) = (active.start, active.end);
    let rows = R::from_f64(active.len() as f64);
    let smallest = R::SAFE_MIN * (rows / R::PRECISION);
    let limit = ITERATIONS * active.len().max(10);
    while end > low {
        let last = end - 1;
        let mut at_place = 0;
        let mut first = low;
        let mut converged = false;
        for _ in 0..=limit {
            if is_stopped() {
                break;
            }
            first = deflation(h, low, first, last, active.end, smallest);
            if first > low {
                h.set(first, first - 1, R::ZERO);
            }
            if first + 1 >= last {
                converged = true;
                break;
            }
            at_place += 1;
            let window = if whole { [0, n] } else { [first, end] };
            let shifts = shifts(h, first, last, at_place);
            let (start, v) = bulge(h, first, last, shifts);
            chase::<I, R>(h, z.as_mut(), [first, start, last], window, v);
        }
        if !converged {
            return Err(NotConverged(end));
        }
        if first == last {
            (re[last], im[last]) = (h.at(last, last), R::ZERO);
        } else {
            let window = if whole { [0, n] } else { [first, end] };
            let values = split::<I, R>(h, z.as_mut(), first, window);
            [(re[first], im[first]), (re[last], im[last])] = values;
        }
        end = first;
    }
    Ok(())
}

/// The first row of the active block that ends with row `last`: the element to the left of its
/// diagonal is negligible, by the criterion of Ahues and Tisseur.
#[inline(always)]
fn deflation<R: Real>(
    h: &Matrix<'_, R>,
    low: usize,
    first: usize,
    last: usize,
    end: usize,
    smallest: R,
) -> usize {
    for k in (first + 1..=last).rev() {
        let beside = h.at(k, k - 1).abs();
        if beside <= smallest {
            return k;
        }
        let mut size = h.at(k - 1, k - 1).abs() + h.at(k, k).abs();
        if size == R::ZERO {
            if k >= low + 2 {
                size += h.at(k - 1, k - 2).abs();
            }
            if k + 1 < end {
                size += h.at(k + 1, k).abs();
            }
        }
        if beside <= R::PRECISION * size {
            let above = h.at(k - 1, k).abs();
            let (ab, ba) = (beside.max(above), beside.min(above));
            let own = h.at(k, k).abs();
            let apart = (h.at(k - 1, k - 1) - h.at(k, k)).abs();
            let (aa, bb) = (own.max(apart), own.min(apart));
            let s = aa + ab;
            if ba * (ab / s) <= smallest.max(R::PRECISION * (bb * (aa / s))) {
                return k;
            }
        }
    }
    first
}

/// Two shifts, as real and imaginary parts.
#[inline(always)]
fn shifts<R: Real>(h: &Matrix<'_, R>, first: usize, last: usize, at_place: usize) -> [(R, R); 2] {
    let [h11, h21, h12, h22];
    let exceptional = |s: R, at: R| {
        let h11 = R::from_f64(0.75) * s + at;
        [h11, s, R::from_f64(-0.4375) * s, h11]
    };
    if at_place.is_multiple_of(2 * EXCEPTIONAL) {
        let s = h.at(last, last - 1).abs() + h.at(last - 1, last - 2).abs();
        [h11, h21, h12, h22] = exceptional(s, h.at(last, last));
    } else if at_place.is_multiple_of(EXCEPTIONAL) {
        let s = h.at(first + 1, first).abs() + h.at(first + 2, first + 1).abs();
        [h11, h21, h12, h22] = exceptional(s, h.at(first, first));
    } else {
        [h11, h21] = [h.at(last - 1, last - 1), h.at(last, last - 1)];
        [h12, h22] = [h.at(last - 1, last), h.at(last, last)];
    }
    let s = h11.abs() + h12.abs() + h21.abs() + h22.abs();
    if s == R::ZERO {
        return [(R::ZERO, R::ZERO); 2];
    }
    let [h11, h21, h12, h22] = [h11, h21, h12, h22].map(|x| x / s);
    let middle = (h11 + h22) * R::from_f64(0.5);
    let determinant = (h11 - middle) * (h22 - middle) - h12 * h21;
    let root = determinant.abs().sqrt();
    if determinant >= R::ZERO {
        return [(middle * s, root * s), (middle * s, -(root * s))];
    }
    // If both shifts are real, uses the one closer to the last element twice.
    let (one, two) = (middle + root, middle - root);
    let nearer = if (one - h22).abs() <= (two - h22).abs() {
        one
    } else {
        two
    };
    [(nearer * s, R::ZERO); 2]
}

/// The row at which a pass can begin, because two consecutive subdiagonal elements are small there,
/// and the first column of the doubly shifted matrix.
#[inline(always)]
fn bulge<R: Real>(
    h: &Matrix<'_, R>,
    first: usize,
    last: usize,
    [(re1, im1), (re2, im2)]: [(R, R); 2],
) -> (usize, [R; 3]) {
    let mut m = last - 2;
    loop {
        let below = h.at(m + 1, m);
        let s = (h.at(m, m) - re2).abs() + im2.abs() + below.abs();
        let scaled = below / s;
        let v = [
            scaled * h.at(m, m + 1) + (h.at(m, m) - re1) * ((h.at(m, m) - re2) / s)
                - im1 * (im2 / s),
            scaled * (h.at(m, m) + h.at(m + 1, m + 1) - re1 - re2),
            scaled * h.at(m + 2, m + 1),
        ];
        let s = v[0].abs() + v[1].abs() + v[2].abs();
        let v = v.map(|x| x / s);
        if m == first {
            return (m, v);
        }
        let around = h.at(m - 1, m - 1).abs() + h.at(m, m).abs() + h.at(m + 1, m + 1).abs();
        let beside = h.at(m, m - 1).abs() * (v[1].abs() + v[2].abs());
        if beside <= R::PRECISION * v[0].abs() * around {
            return (m, v);
        }
        m -= 1;
    }
}

/// One pass of the iteration: chases the bulge from row `start` to the end of the block.
#[inline(always)]
fn chase<I: Isa, R: Real>(
    h: &mut Matrix<'_, R>,
    mut z: Option<&mut Matrix<'_, R>>,
    [first, start, last]: [usize; 3],
    [top, right]: [usize; 2],
    mut v: [R; 3],
) {
    for k in start..last {
        let size = 3.min(last - k + 1);
        if k > start {
            v[..size].copy_from_slice(&h.column(k - 1)[k..k + size]);
        }
        let (head, tail) = v.split_at_mut(1);
        let (beta, t1) = reflector::<I, R>(head[0], &mut tail[..size - 1]);
        if k > start {
            h.set(k, k - 1, beta);
            h.column_mut(k - 1)[k + 1..k + size].fill(R::ZERO);
        } else if start > first {
            // This is more than a change of sign: the elements that are left out are small, but not
            // zero.
            let x = h.at(k, k - 1) * (R::ONE - t1);
            h.set(k, k - 1, x);
        }
        let (v2, t2) = (v[1], t1 * v[1]);
        if size == 3 {
            let (v3, t3) = (v[2], t1 * v[2]);
            for j in k..right {
                if let Some([x, y, w]) = h.column_mut(j)[k..].first_chunk_mut::<3>() {
                    let sum = multiply_add::<I, R>(v3, *w, multiply_add::<I, R>(v2, *y, *x));
                    *x -= sum * t1;
                    *y -= sum * t2;
                    *w -= sum * t3;
                }
            }
            let end = (k + 3).min(last) + 1;
            reflect_columns::<I, R>(h, k, top..end, [v2, v3], [t1, t2, t3]);
            if let Some(z) = z.as_deref_mut() {
                let rows = z.rows();
                reflect_columns::<I, R>(z, k, 0..rows, [v2, v3], [t1, t2, t3]);
            }
        } else {
            for j in k..right {
                if let Some([x, y]) = h.column_mut(j)[k..].first_chunk_mut::<2>() {
                    let sum = multiply_add::<I, R>(v2, *y, *x);
                    *x -= sum * t1;
                    *y -= sum * t2;
                }
            }
            let [x, y] = h.two_columns(k, k + 1);
            let rows = top..last + 1;
            R::reflect::<I>([t1, v2], t2, &mut x[rows.clone()], &mut y[rows]);
            if let Some(z) = z.as_deref_mut() {
                let [x, y] = z.two_columns(k, k + 1);
                R::reflect::<I>([t1, v2], t2, x, y);
            }
        }
    }
}

/// Applies a reflector to three adjacent columns.
#[inline(always)]
fn reflect_columns<I: Isa, R: Real>(
    m: &mut Matrix<'_, R>,
    k: usize,
    rows: std::ops::Range<usize>,
    v: [R; 2],
    t: [R; 3],
) {
    let [x, y, w] = m.three_columns(k);
    let columns = [&mut x[rows.clone()], &mut y[rows.clone()], &mut w[rows]];
    R::reflect_three::<I>(v, t, columns);
}

/// Brings a 2x2 block to standard form; returns its eigenvalues.
#[inline(always)]
fn split<I: Isa, R: Real>(
    h: &mut Matrix<'_, R>,
    z: Option<&mut Matrix<'_, R>>,
    at: usize,
    [top, right]: [usize; 2],
) -> [(R, R); 2] {
    let block = [
        h.at(at, at),
        h.at(at, at + 1),
        h.at(at + 1, at),
        h.at(at + 1, at + 1),
    ];
    let (block, values, (c, s)) = lanv2(block);
    h.set(at, at, block[0]);
    h.set(at, at + 1, block[1]);
    h.set(at + 1, at, block[2]);
    h.set(at + 1, at + 1, block[3]);
    for j in at + 2..right {
        let (x, y) = (h.at(at, j), h.at(at + 1, j));
        h.set(at, j, c * x + s * y);
        h.set(at + 1, j, c * y - s * x);
    }
    let [x, y] = h.two_columns(at, at + 1);
    rotate::<I, R>(&mut x[top..at], &mut y[top..at], c, s);
    if let Some(z) = z {
        let [x, y] = z.two_columns(at, at + 1);
        rotate::<I, R>(x, y, c, s);
    }
    values
}

/// A 2x2 block in standard form, its eigenvalues as real and imaginary parts, and the cosine and
/// sine of the rotation.
type Standardised<R> = ([R; 4], [(R, R); 2], (R, R));

/// LAPACK's `lanv2`: the Schur form of `[a b; c d]`, which is triangular or has equal diagonal
/// elements and off-diagonal elements of opposite signs; its eigenvalues, and the cosine and sine
/// of the rotation.
#[inline(always)]
pub(crate) fn lanv2<R: Real>([mut a, mut b, mut c, mut d]: [R; 4]) -> Standardised<R> {
    let (one, half) = (R::ONE, R::from_f64(0.5));
    let sign = |x: R| one.copysign(x);
    let (mut cs, mut sn) = (one, R::ZERO);
    if c == R::ZERO {
        // Triangular already.
    } else if b == R::ZERO {
        (cs, sn) = (R::ZERO, one);
        (a, d) = (d, a);
        (b, c) = (-c, R::ZERO);
    } else if a - d == R::ZERO && sign(b) != sign(c) {
        // In standard form already.
    } else {
        let difference = a - d;
        let p = half * difference;
        let larger = b.abs().max(c.abs());
        let smaller = b.abs().min(c.abs()) * sign(b) * sign(c);
        let scale = p.abs().max(larger);
        let z = (p / scale) * p + (larger / scale) * smaller;
        if z >= R::from_f64(4.0) * R::PRECISION {
            let z = p + (scale.sqrt() * z.sqrt()).copysign(p);
            a = d + z;
            d -= (larger / z) * smaller;
            let tau = c.hypot(z);
            (cs, sn) = (z / tau, c / tau);
            (b, c) = (b - c, R::ZERO);
        } else {
            let sigma = b + c;
            let tau = sigma.hypot(difference);
            cs = (half * (one + sigma.abs() / tau)).sqrt();
            sn = -(p / (tau * cs)) * sign(sigma);
            let (aa, bb) = (a * cs + b * sn, b * cs - a * sn);
            let (cc, dd) = (c * cs + d * sn, d * cs - c * sn);
            (a, b) = (aa * cs + cc * sn, bb * cs + dd * sn);
            (c, d) = (cc * cs - aa * sn, dd * cs - bb * sn);
            let middle = half * (a + d);
            (a, d) = (middle, middle);
            if c != R::ZERO && b == R::ZERO {
                (b, c) = (-c, R::ZERO);
                (cs, sn) = (-sn, cs);
            } else if c != R::ZERO && sign(b) == sign(c) {
                let (root_b, root_c) = (b.abs().sqrt(), c.abs().sqrt());
                let p = (root_b * root_c).copysign(c);
                let tau = one / (b + c).abs().sqrt();
                (a, d) = (middle + p, middle - p);
                (b, c) = (b - c, R::ZERO);
                let (c1, s1) = (root_b * tau, root_c * tau);
                (cs, sn) = (cs * c1 - sn * s1, cs * s1 + sn * c1);
            }
        }
    }
    let im = if c == R::ZERO {
        R::ZERO
    } else {
        b.abs().sqrt() * c.abs().sqrt()
    };
    ([a, b, c, d], [(a, im), (d, -im)], (cs, sn))
}
