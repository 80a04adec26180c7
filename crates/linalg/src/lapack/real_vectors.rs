//! Loops over vectors of real numbers: sums of products, multiples that are added, and reflections of
//! two and three columns.

use crate::dense::vectors::Products;
use crate::lapack::isa::Isa;
use crate::lapack::scalar::{Real, multiply_add};

/// The number of accumulators in sums of products.
const LANES: usize = 32;

#[inline(always)]
pub(crate) fn dot<I: Isa, R: Real>(x: &[R], y: &[R]) -> R {
    let mut sums = [R::ZERO; LANES];
    let (x_chunks, x_rest) = x.as_chunks::<LANES>();
    let (y_chunks, y_rest) = y.as_chunks::<LANES>();
    for (x, y) in x_chunks.iter().zip(y_chunks) {
        for i in 0..LANES {
            sums[i] = multiply_add::<I, R>(x[i], y[i], sums[i]);
        }
    }
    let (x_chunks, x_rest) = x_rest.as_chunks::<8>();
    let (y_chunks, y_rest) = y_rest.as_chunks::<8>();
    for (x, y) in x_chunks.iter().zip(y_chunks) {
        for i in 0..8 {
            sums[i] = multiply_add::<I, R>(x[i], y[i], sums[i]);
        }
    }
    let mut last = R::ZERO;
    for (&x, &y) in x_rest.iter().zip(y_rest) {
        last = multiply_add::<I, R>(x, y, last);
    }
    last + total(sums)
}

/// Four independent dot products at once: adding up the lanes of one takes longer than the products
/// of a short vector. Uses the CPU's vectors explicitly, because the compiler vectorises one sum,
/// but not four.
#[inline(always)]
pub(crate) fn dot_four<V: Products<R>, I: Isa, R: Real>(x: &[R], y: [&[R]; 4]) -> [R; 4] {
    let y = y.map(|y| &y[..x.len()]);
    let whole = x.len() - x.len() % V::COUNT;
    let mut totals = [R::ZERO; 4];
    // SAFETY: a routine runs for an instruction set that the machine has; all that is read are
    // elements of the vectors.
    unsafe {
        let mut sums = [V::splat(R::ZERO); 4];
        for at in (0..whole).step_by(V::COUNT) {
            let x = V::load(x.as_ptr().add(at));
            for (sum, y) in sums.iter_mut().zip(y) {
                *sum = V::less_product(*sum, x, V::load(y.as_ptr().add(at)));
            }
        }
        for (total, sum) in totals.iter_mut().zip(sums) {
            *total = -V::total(sum);
        }
    }
    for at in whole..x.len() {
        for (sum, y) in totals.iter_mut().zip(y) {
            *sum = multiply_add::<I, R>(x[at], y[at], *sum);
        }
    }
    totals
}

/// Subtracts multiples of a vector from four vectors.
#[inline(always)]
pub(crate) fn subtract_from_four<V: Products<R>, I: Isa, R: Real>(
    by: [R; 4],
    x: &[R],
    y: [&mut [R]; 4],
) {
    let whole = x.len() - x.len() % V::COUNT;
    for (by, y) in by.into_iter().zip(y) {
        let y = &mut y[..x.len()];
        // SAFETY: a routine runs for an instruction set that the machine has; all that is read and
        // written are elements of the vectors.
        unsafe {
            let by = V::splat(by);
            for at in (0..whole).step_by(V::COUNT) {
                let own = V::load(y.as_ptr().add(at));
                let rest = V::less_product(own, by, V::load(x.as_ptr().add(at)));
                V::store(y.as_mut_ptr().add(at), rest);
            }
        }
        for at in whole..x.len() {
            y[at] = multiply_add::<I, R>(-by, x[at], y[at]);
        }
    }
}

/// [`Scalar::reflect`](crate::lapack::Scalar::reflect).
#[inline(always)]
pub(crate) fn reflect<V: Products<R>, I: Isa, R: Real>(
    [t1, u]: [R; 2],
    t2: R,
    x: &mut [R],
    y: &mut [R],
) {
    let y = &mut y[..x.len()];
    let whole = x.len() - x.len() % V::COUNT;
    // SAFETY: a routine runs for an instruction set that the machine has; all that is read and
    // written are elements of the vectors.
    unsafe {
        let (zero, minus_one) = (V::splat(R::ZERO), V::splat(-R::ONE));
        let (t1, t2, minus_u) = (V::splat(t1), V::splat(t2), V::splat(-u));
        for at in (0..whole).step_by(V::COUNT) {
            let (own, other) = (V::load(x.as_ptr().add(at)), V::load(y.as_ptr().add(at)));
            let minus_d = V::less_product(V::less_product(zero, t1, own), t2, other);
            let own = V::less_product(own, minus_one, minus_d);
            V::store(x.as_mut_ptr().add(at), own);
            let other = V::less_product(other, minus_u, minus_d);
            V::store(y.as_mut_ptr().add(at), other);
        }
    }
    for at in whole..x.len() {
        let d = multiply_add::<I, R>(t2, y[at], t1 * x[at]);
        x[at] -= d;
        y[at] = multiply_add::<I, R>(-d, u, y[at]);
    }
}

/// [`Real::reflect_three`](crate::lapack::Real::reflect_three).
#[inline(always)]
pub(crate) fn reflect_three<V: Products<R>, I: Isa, R: Real>(
    [v2, v3]: [R; 2],
    [t1, t2, t3]: [R; 3],
    [x, y, w]: [&mut [R]; 3],
) {
    let (y, w) = (&mut y[..x.len()], &mut w[..x.len()]);
    let whole = x.len() - x.len() % V::COUNT;
    // SAFETY: a routine runs for an instruction set that the machine has; all that is read and
    // written are elements of the vectors.
    unsafe {
        let (minus_v2, minus_v3) = (V::splat(-v2), V::splat(-v3));
        let (t1, t2, t3) = (V::splat(t1), V::splat(t2), V::splat(t3));
        for at in (0..whole).step_by(V::COUNT) {
            let own = [
                V::load(x.as_ptr().add(at)),
                V::load(y.as_ptr().add(at)),
                V::load(w.as_ptr().add(at)),
            ];
            let d = V::less_product(V::less_product(own[0], minus_v2, own[1]), minus_v3, own[2]);
            V::store(x.as_mut_ptr().add(at), V::less_product(own[0], t1, d));
            V::store(y.as_mut_ptr().add(at), V::less_product(own[1], t2, d));
            V::store(w.as_mut_ptr().add(at), V::less_product(own[2], t3, d));
        }
    }
    for at in whole..x.len() {
        let d = multiply_add::<I, R>(v3, w[at], multiply_add::<I, R>(v2, y[at], x[at]));
        x[at] = multiply_add::<I, R>(-d, t1, x[at]);
        y[at] = multiply_add::<I, R>(-d, t2, y[at]);
        w[at] = multiply_add::<I, R>(-d, t3, w[at]);
    }
}

/// The sum of all elements, by repeated halving.
#[inline(always)]
fn total<R: Real>(mut sums: [R; LANES]) -> R {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            sums[i] += sums[i + half];
        }
        half /= 2;
    }
    sums[0]
}

/// [`Scalar::update_column`](crate::lapack::Scalar::update_column) in one pass.
#[inline(always)]
pub(crate) fn update_column<I: Isa, R: Real>(
    column: &mut [R],
    [(a, v), (b, w)]: [(R, &[R]); 2],
    x: &[R],
    x_j: R,
    y: &mut [R],
) -> R {
    const WIDTH: usize = 16;
    let n = column.len();
    let whole = n - n % WIDTH;
    let (c_whole, c_rest) = column.split_at_mut(whole);
    let (y_whole, y_rest) = y[..n].split_at_mut(whole);
    let mut sums = [R::ZERO; WIDTH];
    let written = c_whole
        .as_chunks_mut()
        .0
        .iter_mut()
        .zip(y_whole.as_chunks_mut().0);
    let read = v
        .as_chunks()
        .0
        .iter()
        .zip(w.as_chunks().0)
        .zip(x.as_chunks().0);
    for ((c, y), ((v, w), x)) in written.zip(read) {
        let (v, w, x): (&[R; WIDTH], &[R; WIDTH], &[R; WIDTH]) = (v, w, x);
        // A whole chunk is read before any of it is written, so that it stays in registers.
        let mut new: [R; WIDTH] = *c;
        let mut sum: [R; WIDTH] = *y;
        for i in 0..WIDTH {
            new[i] = multiply_add::<I, R>(-b, w[i], new[i]);
        }
        for i in 0..WIDTH {
            new[i] = multiply_add::<I, R>(-a, v[i], new[i]);
        }
        for i in 0..WIDTH {
            sum[i] = multiply_add::<I, R>(x_j, new[i], sum[i]);
        }
        for i in 0..WIDTH {
            sums[i] = multiply_add::<I, R>(x[i], new[i], sums[i]);
        }
        *c = new;
        *y = sum;
    }
    let (v, w, x) = (&v[whole..n], &w[whole..n], &x[whole..n]);
    R::axpy::<I>(-a, v, c_rest);
    R::axpy::<I>(-b, w, c_rest);
    R::axpy::<I>(x_j, c_rest, y_rest);
    let last = R::dotc::<I>(x, c_rest);
    let mut half = WIDTH / 2;
    while half > 0 {
        for i in 0..half {
            sums[i] += sums[i + half];
        }
        half /= 2;
    }
    sums[0] + last
}
