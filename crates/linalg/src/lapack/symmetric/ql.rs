//! Eigenvalues and eigenvectors of symmetric tridiagonal matrices by the implicit QL and QR
//! iterations.

use crate::lapack::NotConverged;
use crate::lapack::isa::Isa;
use crate::lapack::matrix::Matrix;
use crate::lapack::rotation::{rotate_backward, rotate_forward, rotation};
use crate::lapack::scalar::Real;
use crate::thread_pool::is_stopped;

/// The maximum total number of iterations for each row of the matrix.
const ITERATIONS: usize = 30;

/// LAPACK's `steqr`: replaces the diagonal `d` by the eigenvalues in ascending order, and
/// multiplies `z` by the matrix of the eigenvectors. `e` is destroyed. `turns` has as many elements
/// as `d`.
#[inline(always)]
pub(crate) fn steqr<I: Isa, R: Real>(
    d: &mut [R],
    e: &mut [R],
    z: &mut Matrix<'_, R>,
    turns: &mut [(R, R)],
) -> Result<(), NotConverged> {
    let n = d.len();
    let mut left = ITERATIONS * n;
    let mut next = 0;
    while next < n {
        let first = next;
        let last = block_end(d, e, first);
        next = last + 1;
        // The end with the smaller eigenvalues converges first.
        let done = if d[last].abs() < d[first].abs() {
            qr_block::<I, R>([first, last], [d, e], z, turns, &mut left)
        } else {
            ql_block::<I, R>([first, last], [d, e], z, turns, &mut left)
        };
        if !done {
            // LAPACK reports how many elements of `e` did not converge to zero.
            let rest = e[..n - 1].iter().filter(|&&e| e != R::ZERO);
            return Err(NotConverged(rest.count().max(1)));
        }
    }
    sort_by_values(d, z);
    Ok(())
}

/// The last row of the block that begins at `first`: the off-diagonal element after it is
/// negligible, and is set to zero.
#[inline(always)]
fn block_end<R: Real>(d: &[R], e: &mut [R], first: usize) -> usize {
    for m in first..d.len() - 1 {
        let size = e[m].abs();
        if size <= d[m].abs().sqrt() * d[m + 1].abs().sqrt() * R::ROUNDING {
            e[m] = R::ZERO;
            return m;
        }
    }
    d.len() - 1
}

#[inline(always)]
fn is_negligible<R: Real>(e: R, above: R, below: R) -> bool {
    let eps2 = R::ROUNDING * R::ROUNDING;
    e * e <= eps2 * above.abs() * below.abs() + R::SAFE_MIN
}

/// Wilkinson's shift, as the difference from a diagonal element at the other end.
#[inline(always)]
fn shifted<R: Real>(at: R, beside: R, e: R, end: R) -> R {
    let g = (beside - at) / (e + e);
    let r = g.hypot(R::ONE);
    end - at + e / (g + r.copysign(g))
}

/// The QL iteration on a block; finds its eigenvalues first to last. Returns whether it converged.
#[inline(always)]
fn ql_block<I: Isa, R: Real>(
    [mut l, last]: [usize; 2],
    [d, e]: [&mut [R]; 2],
    z: &mut Matrix<'_, R>,
    turns: &mut [(R, R)],
    left: &mut usize,
) -> bool {
    while l < last {
        let is_end = |&m: &usize| is_negligible(e[m], d[m], d[m + 1]);
        let m = (l..last).find(is_end).unwrap_or(last);
        if m < last {
            e[m] = R::ZERO;
        }
        if m == l {
            l += 1;
            continue;
        }
        if m == l + 1 {
            let (values, (c, s)) = two_by_two(d[l], e[l], d[l + 1]);
            rotate_backward::<I, R>(z, l, &[(c, s)]);
            [d[l], d[l + 1]] = values;
            e[l] = R::ZERO;
            l += 2;
            continue;
        }
        if *left == 0 || is_stopped() {
            return false;
        }
        *left -= 1;
        let mut g = shifted(d[l], d[l + 1], e[l], d[m]);
        let (mut s, mut c, mut p) = (R::ONE, R::ONE, R::ZERO);
        for i in (l..m).rev() {
            let (f, b) = (s * e[i], c * e[i]);
            let r;
            (c, s, r) = rotation(g, f);
            if i + 1 != m {
                e[i + 1] = r;
            }
            g = d[i + 1] - p;
            let r = (d[i] - g) * s + (c + c) * b;
            p = s * r;
            d[i + 1] = g + p;
            g = c * r - b;
            turns[i - l] = (c, -s);
        }
        rotate_backward::<I, R>(z, l, &turns[..m - l]);
        d[l] -= p;
        e[l] = g;
    }
    true
}

/// The QR iteration on a block; finds its eigenvalues last to first. Returns whether it converged.
#[inline(always)]
fn qr_block<I: Isa, R: Real>(
    [first, mut l]: [usize; 2],
    [d, e]: [&mut [R]; 2],
    z: &mut Matrix<'_, R>,
    turns: &mut [(R, R)],
    left: &mut usize,
) -> bool {
    loop {
        if l <= first {
            return true;
        }
        let is_end = |&m: &usize| is_negligible(e[m - 1], d[m], d[m - 1]);
        let m = (first + 1..=l).rev().find(is_end).unwrap_or(first);
        if m > first {
            e[m - 1] = R::ZERO;
        }
        if m == l {
            l -= 1;
            continue;
        }
        if m + 1 == l {
            let (values, (c, s)) = two_by_two(d[m], e[m], d[l]);
            rotate_forward::<I, R>(z, m, &[(c, s)]);
            [d[m], d[l]] = values;
            e[m] = R::ZERO;
            match m.checked_sub(1) {
                Some(before) => l = before,
                None => return true,
            }
            continue;
        }
        if *left == 0 || is_stopped() {
            return false;
        }
        *left -= 1;
        let mut g = shifted(d[l], d[l - 1], e[l - 1], d[m]);
        let (mut s, mut c, mut p) = (R::ONE, R::ONE, R::ZERO);
        for i in m..l {
            let (f, b) = (s * e[i], c * e[i]);
            let r;
            (c, s, r) = rotation(g, f);
            if i != m {
                e[i - 1] = r;
            }
            g = d[i] - p;
            let r = (d[i + 1] - g) * s + (c + c) * b;
            p = s * r;
            d[i] = g + p;
            g = c * r - b;
            turns[i - m] = (c, s);
        }
        rotate_forward::<I, R>(z, m, &turns[..l - m]);
        d[l] -= p;
        e[l - 1] = g;
    }
}

/// LAPACK's `laev2`: the eigenvalues of `[a b; b c]`, larger magnitude first, and the cosine and
/// sine of the first one's eigenvector.
#[inline(always)]
fn two_by_two<R: Real>(a: R, b: R, c: R) -> ([R; 2], (R, R)) {
    let half = R::from_f64(0.5);
    let (sum, difference, twice) = (a + c, a - c, b + b);
    let (large, small) = if a.abs() > c.abs() { (a, c) } else { (c, a) };
    let root = difference.hypot(twice);
    let other = |first: R| (large / first) * small - (b / first) * b;
    let (values, first_is_positive) = if sum < R::ZERO {
        let first = half * (sum - root);
        ([first, other(first)], false)
    } else if sum > R::ZERO {
        let first = half * (sum + root);
        ([first, other(first)], true)
    } else {
        ([half * root, -(half * root)], true)
    };
    let is_positive = difference >= R::ZERO;
    let cs = if is_positive {
        difference + root
    } else {
        difference - root
    };
    let (cosine, sine) = if cs.abs() > twice.abs() {
        let ct = -twice / cs;
        let sine = R::ONE / (R::ONE + ct * ct).sqrt();
        (ct * sine, sine)
    } else if twice == R::ZERO {
        (R::ONE, R::ZERO)
    } else {
        let tn = -cs / twice;
        let cosine = R::ONE / (R::ONE + tn * tn).sqrt();
        (cosine, tn * cosine)
    };
    match first_is_positive == is_positive {
        true => (values, (-sine, cosine)),
        false => (values, (cosine, sine)),
    }
}

/// Sorts values in ascending order, and the columns with them.
#[inline(always)]
pub(crate) fn sort_by_values<R: Real>(d: &mut [R], z: &mut Matrix<'_, R>) {
    for i in 0..d.len() {
        let mut least = i;
        for j in i + 1..d.len() {
            if d[j] < d[least] {
                least = j;
            }
        }
        if least != i {
            d.swap(i, least);
            z.swap_columns(i, least);
        }
    }
}

/// LAPACK's `sterf`: replaces the diagonal `d` by the eigenvalues in ascending order. `e` is
/// destroyed. Uses the iteration of Pal, Walker and Kahan, whose loop has no square roots.
#[inline(always)]
pub(crate) fn sterf<R: Real>(d: &mut [R], e: &mut [R]) -> Result<(), NotConverged> {
    let n = d.len();
    let mut left = ITERATIONS * n;
    let mut next = 0;
    while next < n {
        let first = next;
        let last = block_end(d, e, first);
        next = last + 1;
        let (d, e) = (&mut d[first..=last], &mut e[first..last]);
        if d[d.len() - 1].abs() < d[0].abs() {
            // The QR iteration is the QL iteration of the reversed matrix.
            d.reverse();
            e.reverse();
        }
        e.iter_mut().for_each(|e| *e = *e * *e);
        if !ql_values(d, e, &mut left) {
            let rest = e.iter().filter(|&&e| e != R::ZERO);
            return Err(NotConverged(rest.count().max(1)));
        }
    }
    d.sort_unstable_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    Ok(())
}

/// The QL iteration on a diagonal and the squares `e` of its off-diagonal. Returns whether it
/// converged.
#[inline(always)]
fn ql_values<R: Real>(d: &mut [R], e: &mut [R], left: &mut usize) -> bool {
    let eps2 = R::ROUNDING * R::ROUNDING;
    let last = d.len() - 1;
    let mut l = 0;
    while l < last {
        let is_end = |&m: &usize| e[m] <= eps2 * (d[m] * d[m + 1]).abs();
        let m = (l..last).find(is_end).unwrap_or(last);
        if m < last {
            e[m] = R::ZERO;
        }
        if m == l {
            l += 1;
            continue;
        }
        if m == l + 1 {
            let (values, _) = two_by_two(d[l], e[l].sqrt(), d[m]);
            [d[l], d[m]] = values;
            e[l] = R::ZERO;
            l += 2;
            continue;
        }
        if *left == 0 || is_stopped() {
            return false;
        }
        *left -= 1;
        let root = e[l].sqrt();
        let sigma = (d[l + 1] - d[l]) / (root + root);
        let sigma = d[l] - root / (sigma + sigma.hypot(R::ONE).copysign(sigma));
        let (mut c, mut s) = (R::ONE, R::ZERO);
        let mut gamma = d[m] - sigma;
        let mut p = gamma * gamma;
        for i in (l..m).rev() {
            let b = e[i];
            let r = p + b;
            if i + 1 != m {
                e[i + 1] = s * r;
            }
            let old_c = c;
            c = p / r;
            s = b / r;
            let old_gamma = gamma;
            gamma = c * (d[i] - sigma) - s * old_gamma;
            d[i + 1] = old_gamma + (d[i] - gamma);
            p = if c == R::ZERO {
                old_c * b
            } else {
                gamma * gamma / c
            };
        }
        e[l] = s * p;
        d[l] = sigma + gamma;
    }
    true
}
