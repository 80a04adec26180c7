//! Eigenvalues and eigenvectors of symmetric tridiagonal matrices by divide and conquer (Cuppen,
//! with the deflation and the vectors of Gu and Eisenstat), as LAPACK's `stedc` does it.

use super::ql::{sort_by_values, steqr};
use crate::lapack::NotConverged;
use crate::lapack::deflation::{Deflation, Fate};
use crate::lapack::isa::Isa;
use crate::lapack::matrix::Matrix;
use crate::lapack::rotation::rotate;
use crate::lapack::scalar::Real;
use crate::lapack::secular::secular_root;
use crate::thread_pool::is_stopped;

/// The maximum size of a matrix that is not divided (LAPACK's `SMLSIZ`).
const SMALLEST: usize = 25;

/// Work space for matrices up to a given size.
#[derive(Debug)]
pub(crate) struct Work<R> {
    turns: Vec<(R, R)>,
    numbers: Vec<R>,
    columns: Vec<R>,
    factors: Vec<R>,
    order: Vec<usize>,
}

impl<R: Real> Work<R> {
    pub(crate) fn new(n: usize) -> Self {
        let squares = if n > SMALLEST { n * n } else { 0 };
        Self {
            turns: vec![(R::ZERO, R::ZERO); n],
            numbers: vec![R::ZERO; 6 * n],
            columns: vec![R::ZERO; squares],
            factors: vec![R::ZERO; squares],
            order: vec![0; 3 * n],
        }
    }
}

/// Replaces the diagonal `d` by the eigenvalues in ascending order, and writes the eigenvectors to
/// `z`. The off-diagonal `e` is destroyed.
#[inline(always)]
pub(crate) fn stedc<I: Isa, R: Real>(
    d: &mut [R],
    e: &mut [R],
    z: &mut Matrix<'_, R>,
    work: &mut Work<R>,
) -> Result<(), NotConverged> {
    z.set_identity();
    let n = d.len();
    if n <= SMALLEST {
        return steqr::<I, R>(d, e, z, &mut work.turns);
    }
    let mut first = 0;
    while first < n {
        let is_end =
            |&m: &usize| e[m].abs() <= R::ROUNDING * d[m].abs().sqrt() * d[m + 1].abs().sqrt();
        let last = (first..n - 1).find(is_end).unwrap_or(n - 1);
        let size = last - first + 1;
        let (d, e) = (&mut d[first..=last], &mut e[first..last]);
        let mut z = z.part(first, first, size, size);
        if size > SMALLEST {
            // Scales the largest element to 1, as the deflation tolerances assume.
            let mut largest = R::ZERO;
            for x in d.iter().chain(e.iter()) {
                largest = largest.max(x.abs());
            }
            d.iter_mut()
                .chain(e.iter_mut())
                .for_each(|x| *x = *x / largest);
            solve::<I, R>(d, e, &mut z, work)?;
            d.iter_mut().for_each(|x| *x *= largest);
        } else {
            steqr::<I, R>(d, e, &mut z, &mut work.turns)?;
        }
        first = last + 1;
    }
    sort_by_values(d, z);
    Ok(())
}

/// The sizes of the parts that a matrix is divided into.
fn leaves(n: usize) -> Vec<usize> {
    let mut sizes = vec![n];
    while sizes.last().is_some_and(|&size| size > SMALLEST) {
        sizes = sizes.iter().flat_map(|n| [n / 2, n.div_ceil(2)]).collect();
    }
    sizes
}

/// Solves a block; `z` must be the identity.
#[inline(always)]
fn solve<I: Isa, R: Real>(
    d: &mut [R],
    e: &mut [R],
    z: &mut Matrix<'_, R>,
    work: &mut Work<R>,
) -> Result<(), NotConverged> {
    let mut sizes = leaves(d.len());
    let mut at = 0;
    for &size in &sizes[..sizes.len() - 1] {
        at += size;
        let beside = e[at - 1].abs();
        d[at - 1] -= beside;
        d[at] -= beside;
    }
    let mut at = 0;
    for &size in &sizes {
        let mut part = z.part(at, at, size, size);
        let (d, e) = (&mut d[at..at + size], &mut e[at..at + size - 1]);
        steqr::<I, R>(d, e, &mut part, &mut work.turns)?;
        at += size;
    }
    while sizes.len() > 1 {
        let mut at = 0;
        for pair in sizes.chunks_exact(2) {
            let size = pair[0] + pair[1];
            let mut part = z.part(at, at, size, size);
            let rho = e[at + pair[0] - 1];
            merge::<I, R>(pair[0], &mut d[at..at + size], rho, &mut part, work)?;
            at += size;
        }
        sizes = sizes
            .chunks_exact(2)
            .map(|pair| pair[0] + pair[1])
            .collect();
    }
    Ok(())
}

/// Merges the decompositions of two parts, the first `cut` rows and the others; the eigenvalues of
/// each are in ascending order. `rho` is the off-diagonal element between them, whose magnitude was
/// subtracted from the adjacent diagonal elements.
#[inline(always)]
fn merge<I: Isa, R: Real>(
    cut: usize,
    d: &mut [R],
    mut rho: R,
    q: &mut Matrix<'_, R>,
    work: &mut Work<R>,
) -> Result<(), NotConverged> {
    let n = d.len();
    let (order, rest) = work.order.split_at_mut(n);
    let (kept_at, deflated_at) = rest.split_at_mut(n);
    let (z, numbers) = work.numbers.split_at_mut(n);
    // The vector of the rank-one update, in the basis of the parts.
    for (j, z) in z.iter_mut().enumerate() {
        *z = q.at(if j < cut { cut - 1 } else { cut }, j);
    }
    if rho < R::ZERO {
        z[cut..].iter_mut().for_each(|z| *z = -*z);
    }
    let root = R::ONE / R::from_f64(2.0).sqrt();
    let mut largest = [R::ZERO; 2];
    for (z, &d) in z.iter_mut().zip(d.iter()) {
        *z *= root;
        largest = [largest[0].max(z.abs()), largest[1].max(d.abs())];
    }
    rho = (rho + rho).abs();
    merged_order(d, cut, order);
    let tolerance = R::from_f64(8.0) * R::ROUNDING * largest[0].max(largest[1]);
    let negligible = |z: R| rho * z.abs() <= tolerance;
    let deflation = Deflation::new(order, [kept_at, deflated_at], 0, |previous, next| {
        if negligible(z[next]) {
            return Fate::Out;
        }
        let Some(last) = previous else {
            return Fate::Stays;
        };
        let (s, c) = (z[last], z[next]);
        let length = c.hypot(s);
        let apart = d[next] - d[last];
        let (c, s) = (c / length, -s / length);
        if (apart * c * s).abs() > tolerance {
            return Fate::Stays;
        }
        (z[last], z[next]) = (R::ZERO, length);
        let [x, y] = q.columns_at(last, next);
        rotate::<I, R>(x, y, c, s);
        let (low, high) = (d[last], d[next]);
        d[last] = low * c * c + high * s * s;
        d[next] = low * s * s + high * c * c;
        Fate::PreviousOut
    });
    let Deflation {
        kept: kept_at,
        out: deflated_at,
    } = deflation;
    let kept = kept_at.len();
    // The poles, the weights, their squares, and room for the values.
    let (poles, numbers) = numbers.split_at_mut(n);
    let (weights, numbers) = numbers.split_at_mut(n);
    let (squares, numbers) = numbers.split_at_mut(n);
    let (distances, values) = numbers.split_at_mut(n);
    for (i, &from) in kept_at.iter().enumerate() {
        poles[i] = d[from];
        weights[i] = z[from];
        squares[i] = z[from] * z[from];
    }
    let mut s = Matrix::new(&mut work.factors, kept, kept);
    for (j, value) in values[..kept].iter_mut().enumerate() {
        let difference = |a: usize, b: usize| poles[a] - poles[b];
        let distances = &mut distances[..kept];
        let root = secular_root(j, difference, &squares[..kept], rho, distances);
        let root = root.filter(|_| !is_stopped()).ok_or(NotConverged(1))?;
        *value = poles[root.origin] + root.distance;
        for (s, &pole) in s.column_mut(j).iter_mut().zip(distances.iter()) {
            *s = pole - root.distance;
        }
    }
    vectors::<I, R>(&poles[..kept], &weights[..kept], squares, &mut s);
    // The new columns, followed by those that stay.
    let mut old = Matrix::new(&mut work.columns, n, n);
    for (i, &from) in kept_at.iter().enumerate() {
        old.column_mut(i).copy_from_slice(q.column(from));
    }
    for (i, &from) in deflated_at.iter().enumerate() {
        old.column_mut(kept + i).copy_from_slice(q.column(from));
        values[kept + i] = d[from];
    }
    let mut product = q.part(0, 0, n, kept);
    product.set_product(&old, &s);
    for i in kept..n {
        q.column_mut(i).copy_from_slice(old.column(i));
    }
    // Ascending, for the next merge.
    for (i, order) in order.iter_mut().enumerate() {
        *order = i;
    }
    let value = |&i: &usize| values[i];
    order.sort_by(|a, b| {
        value(a)
            .partial_cmp(&value(b))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    if !order.iter().enumerate().all(|(i, &from)| i == from) {
        for j in 0..n {
            old.column_mut(j).copy_from_slice(q.column(j));
        }
        for (j, &from) in order.iter().enumerate() {
            q.column_mut(j).copy_from_slice(old.column(from));
        }
    }
    for (d, from) in d.iter_mut().zip(order.iter()) {
        *d = value(from);
    }
    Ok(())
}

/// The indices of two ascending sequences, merged in ascending order; of equal numbers, those of
/// the first sequence come first.
#[inline(always)]
fn merged_order<R: Real>(d: &[R], cut: usize, order: &mut [usize]) {
    let (mut a, mut b) = (0, cut);
    for place in order {
        let first = b >= d.len() || (a < cut && d[a] <= d[b]);
        let next = if first { &mut a } else { &mut b };
        *place = *next;
        *next += 1;
    }
}

/// Replaces the differences `pole i - root j` by the eigenvectors in the basis of the poles. They
/// are the vectors of a matrix for which the computed roots are exact: its weights are computed
/// from the roots.
#[inline(always)]
fn vectors<I: Isa, R: Real>(poles: &[R], weights: &[R], exact: &mut [R], s: &mut Matrix<'_, R>) {
    let count = poles.len();
    for (i, exact) in exact[..count].iter_mut().enumerate() {
        *exact = s.at(i, i);
    }
    for j in 0..count {
        let column = s.column(j);
        for range in [0..j, j + 1..count] {
            let own = exact[range.clone()].iter_mut().zip(&column[range.clone()]);
            for ((exact, &x), &pole) in own.zip(&poles[range]) {
                *exact *= x / (pole - poles[j]);
            }
        }
    }
    for (exact, weight) in exact.iter_mut().zip(weights) {
        *exact = exact.abs().sqrt().copysign(*weight);
    }
    for j in 0..count {
        let column = s.column_mut(j);
        for (x, &weight) in column.iter_mut().zip(exact.iter()) {
            *x = weight / *x;
        }
        let length = crate::lapack::householder::norm::<I, R>(column);
        column.iter_mut().for_each(|x| *x = *x / length);
    }
}
