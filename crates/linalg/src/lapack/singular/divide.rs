//! Singular values and vectors of bidiagonal matrices by divide and conquer (Gu and Eisenstat), as
//! LAPACK's `bdsdc` does it.

use super::qr_iteration::{Turns, Vectors, bdsqr};
use crate::lapack::NotConverged;
use crate::lapack::deflation::{Deflation, Fate};
use crate::lapack::householder::norm;
use crate::lapack::isa::Isa;
use crate::lapack::matrix::Matrix;
use crate::lapack::rotation::{rotate, rotate_forward, rotation};
use crate::lapack::scalar::Real;
use crate::lapack::secular::secular_root;
use crate::thread_pool::is_stopped;

/// The maximum size of a matrix that is not divided (LAPACK's `SMLSIZ`).
const SMALLEST: usize = 25;

/// Work space for matrices up to a given size.
#[derive(Debug)]
pub(crate) struct Work<R> {
    turns: Turns<R>,
    rotations: Vec<(R, R)>,
    z: Vec<R>,
    numbers: Vec<R>,
    columns: Vec<R>,
    left: Vec<R>,
    right: Vec<R>,
    order: Vec<usize>,
}

impl<R: Real> Work<R> {
    pub(crate) fn new(n: usize) -> Self {
        let size = n + 1;
        let squares = if n > SMALLEST { size * size } else { 0 };
        let zeros = |count| vec![R::ZERO; count];
        Self {
            turns: Turns::new(size),
            rotations: vec![(R::ZERO, R::ZERO); size],
            z: zeros(size),
            numbers: zeros(5 * size),
            columns: zeros(squares),
            left: zeros(squares),
            right: zeros(squares),
            order: vec![0; 3 * size],
        }
    }
}

/// Replaces the diagonal `d` of an upper bidiagonal matrix by the singular values in descending
/// order, and writes the singular vectors to `u` and `v`. The superdiagonal `e` is destroyed.
#[inline(always)]
pub(crate) fn bdsdc<I: Isa, R: Real>(
    d: &mut [R],
    e: &mut [R],
    vectors: &mut Vectors<'_, R>,
    work: &mut Work<R>,
) -> Result<(), NotConverged> {
    let n = d.len();
    vectors.u.set_identity();
    vectors.v.set_identity();
    if n <= SMALLEST {
        return bdsqr::<I, R>(d, e, vectors, &mut work.turns);
    }
    let mut largest = R::ZERO;
    for x in d.iter().chain(e.iter()) {
        largest = largest.max(x.abs());
    }
    if largest == R::ZERO {
        return Ok(());
    }
    let smallest = R::from_f64(0.9) * R::ROUNDING;
    e.iter_mut().for_each(|e| *e = *e / largest);
    for d in d.iter_mut() {
        *d = *d / largest;
        if d.abs() < smallest {
            *d = smallest.copysign(*d);
        }
    }
    let mut first = 0;
    while first < n {
        let is_end = |&m: &usize| e[m].abs() < smallest;
        let last = (first..n - 1).find(is_end).unwrap_or(n - 1);
        let size = last - first + 1;
        let mut part = Vectors {
            u: vectors.u.part(first, first, size, size),
            v: vectors.v.part(first, first, size, size),
        };
        let (d, e) = (&mut d[first..=last], &mut e[first..last]);
        if size == 1 {
            part.u.set(0, 0, R::ONE.copysign(d[0]));
            d[0] = d[0].abs();
        } else {
            solve::<I, R>(d, e, &mut part, work)?;
        }
        first = last + 1;
    }
    d.iter_mut().for_each(|d| *d *= largest);
    for i in 0..n {
        let mut greatest = i;
        for j in i + 1..n {
            if d[j] > d[greatest] {
                greatest = j;
            }
        }
        if greatest != i {
            d.swap(i, greatest);
            vectors.u.swap_columns(i, greatest);
            vectors.v.swap_columns(i, greatest);
        }
    }
    Ok(())
}

/// A range of the matrix's rows that is decomposed separately.
#[derive(Clone, Copy)]
struct Part {
    first: usize,
    rows: usize,
    /// Whether it has one column more than rows; the last column of `v` is then the vector that it
    /// maps to zero.
    has_extra: bool,
    /// The row between the two parts that this one is merged from.
    cut: Option<usize>,
}

/// Lists the parts of a matrix, each after those that it is merged from.
fn parts(first: usize, rows: usize, has_extra: bool, all: &mut Vec<Part>) {
    let cut = (rows > SMALLEST).then_some(rows / 2);
    if let Some(cut) = cut {
        parts(first, cut, true, all);
        parts(first + cut + 1, rows - cut - 1, has_extra, all);
    }
    all.push(Part {
        first,
        rows,
        has_extra,
        cut,
    });
}

/// The decomposition of a matrix; `u` and `v` must be identities. Values are unordered.
#[inline(always)]
fn solve<I: Isa, R: Real>(
    d: &mut [R],
    e: &mut [R],
    vectors: &mut Vectors<'_, R>,
    work: &mut Work<R>,
) -> Result<(), NotConverged> {
    let mut all = Vec::new();
    parts(0, d.len(), false, &mut all);
    for part in all {
        let Part { first, rows, .. } = part;
        let columns = rows + usize::from(part.has_extra);
        let mut own = Vectors {
            u: vectors.u.part(first, first, rows, rows),
            v: vectors.v.part(first, first, columns, columns),
        };
        let d = &mut d[first..first + rows];
        let e = &mut e[first..first + columns - 1];
        match part.cut {
            None => leaf::<I, R>(d, e, &mut own, work)?,
            Some(cut) => {
                let beside = [d[cut], e[cut]];
                merge::<I, R>(cut, d, beside, &mut own, work)?;
            }
        }
    }
    Ok(())
}

/// LAPACK's `lasdq`.
#[inline(always)]
fn leaf<I: Isa, R: Real>(
    d: &mut [R],
    e: &mut [R],
    vectors: &mut Vectors<'_, R>,
    work: &mut Work<R>,
) -> Result<(), NotConverged> {
    let n = d.len();
    if e.len() == n && n > 0 {
        // Eliminates the extra column by rotations, which leaves a lower bidiagonal matrix.
        for i in 0..n {
            let (c, s, r) = rotation(d[i], e[i]);
            d[i] = r;
            e[i] = R::ZERO;
            if i + 1 < n {
                e[i] = s * d[i + 1];
                d[i + 1] *= c;
            }
            work.rotations[i] = (c, s);
        }
        rotate_forward::<I, R>(&mut vectors.v, 0, &work.rotations[..n]);
        lower_to_upper(d, &mut e[..n - 1], &mut work.rotations);
        rotate_forward::<I, R>(&mut vectors.u, 0, &work.rotations[..n - 1]);
    }
    let size = vectors.v.rows();
    let mut own = Vectors {
        u: vectors.u.part(0, 0, n, n),
        v: vectors.v.part(0, 0, size, n),
    };
    bdsqr::<I, R>(d, &mut e[..n.saturating_sub(1)], &mut own, &mut work.turns)
}

/// Makes a lower bidiagonal matrix upper bidiagonal by rotations from the left.
#[inline(always)]
pub(crate) fn lower_to_upper<R: Real>(d: &mut [R], e: &mut [R], rotations: &mut [(R, R)]) {
    for i in 0..e.len() {
        let (c, s, r) = rotation(d[i], e[i]);
        d[i] = r;
        e[i] = s * d[i + 1];
        d[i + 1] *= c;
        rotations[i] = (c, s);
    }
}

/// Merges the decompositions of the rows before and after row `cut`, whose two elements are
/// `beside`.
#[inline(always)]
fn merge<I: Isa, R: Real>(
    cut: usize,
    d: &mut [R],
    beside: [R; 2],
    vectors: &mut Vectors<'_, R>,
    work: &mut Work<R>,
) -> Result<(), NotConverged> {
    let n = d.len();
    let Vectors { u, v } = vectors;
    let columns = v.columns();
    d[cut] = R::ZERO;
    let [mut alpha, mut beta] = beside;
    let mut largest = alpha.abs().max(beta.abs());
    for d in d.iter() {
        largest = largest.max(d.abs());
    }
    d.iter_mut().for_each(|d| *d = *d / largest);
    (alpha, beta) = (alpha / largest, beta / largest);
    // The row, in the basis of the parts' right vectors.
    let z = &mut work.z[..columns];
    for (j, z) in z.iter_mut().enumerate() {
        *z = match j <= cut {
            true => alpha * v.at(cut, j),
            false => beta * v.at(cut + 1, j),
        };
    }
    let (order, rest) = work.order.split_at_mut(n);
    let (kept_at, deflated_at) = rest.split_at_mut(n);
    // Sorts the values of both parts in ascending order; the row's own entry is separate.
    for (i, place) in order[..n - 1].iter_mut().enumerate() {
        *place = if i < cut { i } else { i + 1 };
    }
    let order = &mut order[..n - 1];
    order.sort_by(|&a, &b| d[a].partial_cmp(&d[b]).unwrap_or(std::cmp::Ordering::Equal));
    let greatest = order.last().map_or(R::ZERO, |&last| d[last].abs());
    let tolerance = alpha.abs().max(beta.abs()).max(greatest);
    let tolerance = R::from_f64(8.0) * R::ROUNDING * tolerance;
    kept_at[0] = cut;
    let deflation = Deflation::new(order, [kept_at, deflated_at], 1, |previous, next| {
        if z[next].abs() <= tolerance {
            return Fate::Out;
        }
        let Some(last) = previous.filter(|&last| (d[next] - d[last]).abs() <= tolerance) else {
            return Fate::Stays;
        };
        let (s, c) = (z[last], z[next]);
        let length = c.hypot(s);
        let (c, s) = (c / length, -s / length);
        (z[last], z[next]) = (R::ZERO, length);
        for vectors in [&mut *u, &mut *v] {
            let [x, y] = vectors.columns_at(last, next);
            rotate::<I, R>(x, y, c, s);
        }
        Fate::PreviousOut
    });
    let Deflation {
        kept: kept_at,
        out: deflated_at,
    } = deflation;
    let kept = kept_at.len();
    let mut first = z[cut];
    if columns > n {
        // Rotates the extra column into that of the row.
        let extra = z[columns - 1];
        let length = first.hypot(extra);
        let (c, s) = match length <= tolerance {
            true => (R::ONE, R::ZERO),
            false => (first / length, extra / length),
        };
        let [x, y] = v.two_columns(cut, columns - 1);
        rotate::<I, R>(x, y, c, s);
        first = length.max(tolerance);
    } else if first.abs() <= tolerance {
        first = tolerance;
    }
    let (poles, numbers) = work.numbers.split_at_mut(n);
    let (weights, numbers) = numbers.split_at_mut(n);
    let (squares, numbers) = numbers.split_at_mut(n);
    let (distances, values) = numbers.split_at_mut(n);
    for (i, &from) in kept_at.iter().enumerate() {
        poles[i] = d[from];
        weights[i] = z[from];
    }
    poles[0] = R::ZERO;
    weights[0] = first;
    let least = R::from_f64(0.5) * tolerance;
    if kept > 1 && poles[1].abs() <= least {
        poles[1] = least;
    }
    let mut left = Matrix::new(&mut work.left, kept, kept);
    let mut right = Matrix::new(&mut work.right, kept, kept);
    if kept == 1 {
        values[0] = first.abs();
        left.set(0, 0, R::ONE.copysign(first));
        right.set(0, 0, R::ONE);
    } else {
        let distances = &mut distances[..kept];
        let (poles, weights) = (&poles[..kept], &mut weights[..kept]);
        let length = norm::<I, R>(weights);
        for (square, weight) in squares.iter_mut().zip(weights.iter_mut()) {
            *weight = *weight / length;
            *square = *weight * *weight;
        }
        let squares = &squares[..kept];
        let rho = length * length;
        let difference = |a: usize, b: usize| (poles[a] - poles[b]) * (poles[a] + poles[b]);
        for (j, value) in values[..kept].iter_mut().enumerate() {
            let root = secular_root(j, difference, squares, rho, distances);
            let root = root.filter(|_| !is_stopped()).ok_or(NotConverged(1))?;
            let origin = poles[root.origin];
            let whole = (origin * origin + root.distance).max(R::ZERO).sqrt();
            let beyond = root.distance / (origin + whole);
            *value = origin + beyond;
            for (i, &pole) in poles.iter().enumerate() {
                left.set(i, j, (pole - origin) - beyond);
                right.set(i, j, pole + *value);
            }
        }
        vectors_of::<I, R>(poles, weights, distances, [&mut left, &mut right]);
    }
    // The new columns, followed by those that stay.
    let mut old = Matrix::new(&mut work.columns, n, n);
    for (i, &from) in kept_at.iter().chain(deflated_at).enumerate() {
        if from == cut {
            old.column_mut(i).fill(R::ZERO);
            old.set(cut, i, R::ONE);
        } else {
            old.column_mut(i).copy_from_slice(u.column(from));
        }
        if i >= kept {
            values[i] = d[from];
        }
    }
    u.part(0, 0, n, kept).set_product(&old, &left);
    (kept..n).for_each(|i| u.column_mut(i).copy_from_slice(old.column(i)));
    let mut old = Matrix::new(&mut work.columns, columns, n);
    for (i, &from) in kept_at.iter().chain(deflated_at).enumerate() {
        old.column_mut(i).copy_from_slice(v.column(from));
    }
    v.part(0, 0, columns, kept).set_product(&old, &right);
    (kept..n).for_each(|i| v.column_mut(i).copy_from_slice(old.column(i)));
    for (d, &value) in d.iter_mut().zip(values.iter()) {
        *d = value * largest;
    }
    Ok(())
}

/// Replaces the differences and sums of poles `i` and roots `j` by the left and the right singular
/// vectors in the basis of the poles. They are the vectors of a matrix for which the computed roots
/// are exact: its weights are computed from the roots.
#[inline(always)]
fn vectors_of<I: Isa, R: Real>(
    poles: &[R],
    weights: &[R],
    exact: &mut [R],
    [left, right]: [&mut Matrix<'_, R>; 2],
) {
    let count = poles.len();
    let last = count - 1;
    for (i, exact) in exact[..count].iter_mut().enumerate() {
        *exact = left.at(i, last) * right.at(i, last);
    }
    for j in 0..last {
        let (difference, sum) = (left.column(j), right.column(j));
        // The pole that the root is paired with: the one after it, or before it.
        for (range, other) in [(0..j + 1, poles[j + 1]), (j + 1..count, poles[j])] {
            let own = exact[range.clone()].iter_mut().zip(&poles[range.clone()]);
            let both = difference[range.clone()].iter().zip(&sum[range]);
            for ((exact, &pole), (&difference, &sum)) in own.zip(both) {
                *exact *= (difference / (pole - other)) * (sum / (pole + other));
            }
        }
    }
    for (exact, weight) in exact.iter_mut().zip(weights) {
        *exact = exact.abs().sqrt().copysign(*weight);
    }
    for j in 0..count {
        let (x, y) = (left.column_mut(j), right.column_mut(j));
        for i in 0..count {
            y[i] = exact[i] / x[i] / y[i];
            x[i] = poles[i] * y[i];
        }
        x[0] = -R::ONE;
        for x in [x, y] {
            let length = norm::<I, R>(x);
            x.iter_mut().for_each(|x| *x = *x / length);
        }
    }
}
