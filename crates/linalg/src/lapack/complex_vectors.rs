//! Loops over vectors of complex numbers, by the CPU's vectors: sums of products, multiples that are
//! added, and reflections of two columns.
//!
//! Complex numbers are alternating real and imaginary parts in memory. With `s(x)` for a vector whose
//! neighbours are swapped, `a x` is `re(a) x + (-im(a), im(a), ...) s(x)`; of `conj(x) y`, the real
//! part is the sum of the lanes of `x y`, and the imaginary part that of the odd lanes of `s(x) y`
//! less that of the even ones. So each complex product takes two instructions and half a permutation.
//! Loops written for arrays are left scalar by the compiler: QR with pivoting of 200x200 `c64` took
//! 27 ms with them and takes 0.8 ms with these, `gesdd` 31 ms and 4.7 ms (30 November 2026, AMD EPYC,
//! Zen 4, one thread).

use crate::dense::vectors::{MAX_COUNT, Products};
use crate::lapack::isa::Isa;
use crate::lapack::scalar::{Real, multiply_add};
use num_complex::Complex;

/// The number of parts at the beginning of a vector of `parts` parts that vectors cover. The
/// remaining numbers are computed one by one, all of them if a CPU's vector has only one part.
#[inline(always)]
fn covered<V: Products<R>, R>(parts: usize) -> usize {
    if V::COUNT < 2 {
        0
    } else {
        parts - parts % V::COUNT
    }
}

/// `re(by)` in all lanes, and `im(by)` in the odd lanes with `-im(by)` in the even ones: the factors of
/// a vector and of its [swapped](Products::swap_pairs) form.
///
/// # Safety
/// The CPU has these vectors.
#[inline(always)]
unsafe fn factors<V: Products<R>, R: Real>(by: Complex<R>) -> [V::Value; 2] {
    let mut alternating = [by.im; MAX_COUNT];
    for pair in alternating.as_chunks_mut::<2>().0 {
        pair[0] = -pair[0];
    }
    // SAFETY: the caller promises the vectors; the array is as long as the longest.
    unsafe { [V::splat(by.re), V::load(alternating.as_ptr())] }
}

/// `from - by x`, for factors of [`factors`].
///
/// # Safety
/// The CPU has these vectors.
#[inline(always)]
unsafe fn less_multiple<V: Products<R>, R>(
    from: V::Value,
    by: [V::Value; 2],
    x: V::Value,
) -> V::Value {
    // SAFETY: the caller promises the vectors.
    unsafe { V::less_product(V::less_product(from, by[0], x), by[1], V::swap_pairs(x)) }
}

/// Subtracts the lanes of `x y` and of `s(x) y` from two sums.
///
/// # Safety
/// The CPU has these vectors.
#[inline(always)]
unsafe fn less_products<V: Products<R>, R>(
    sums: [V::Value; 2],
    x: V::Value,
    y: V::Value,
) -> [V::Value; 2] {
    // SAFETY: the caller promises the vectors.
    unsafe {
        [
            V::less_product(sums[0], x, y),
            V::less_product(sums[1], V::swap_pairs(x), y),
        ]
    }
}

/// The sum of `conj(x) y`, from what [`less_products`] subtracted from zeros.
///
/// # Safety
/// The CPU has these vectors.
#[inline(always)]
unsafe fn total<V: Products<R>, R: Real>(sums: [V::Value; 2]) -> Complex<R> {
    // SAFETY: the caller promises the vectors.
    unsafe {
        let [_, signs] = factors::<V, R>(Complex::new(R::ZERO, R::ONE));
        let signed = V::less_product(V::splat(R::ZERO), signs, sums[1]);
        Complex::new(-V::total(sums[0]), V::total(signed))
    }
}

/// The number that begins at a part.
#[inline(always)]
fn number<R: Real>(parts: &[R], at: usize) -> Complex<R> {
    Complex::new(parts[at], parts[at + 1])
}

#[inline(always)]
fn set_number<R: Real>(parts: &mut [R], at: usize, x: Complex<R>) {
    [parts[at], parts[at + 1]] = [x.re, x.im];
}

/// `a x + y`.
#[inline(always)]
fn plus_multiple<I: Isa, R: Real>(y: Complex<R>, a: Complex<R>, x: Complex<R>) -> Complex<R> {
    let re = multiply_add::<I, R>(a.re, x.re, y.re);
    let im = multiply_add::<I, R>(a.re, x.im, y.im);
    Complex {
        re: multiply_add::<I, R>(-a.im, x.im, re),
        im: multiply_add::<I, R>(a.im, x.re, im),
    }
}

/// `-x`.
#[inline(always)]
fn negative<R: Real>(x: Complex<R>) -> Complex<R> {
    Complex::new(-x.re, -x.im)
}

#[inline(always)]
fn conjugate<R: Real>(x: Complex<R>) -> Complex<R> {
    Complex::new(x.re, -x.im)
}

/// The sum of `conj(x) y`.
#[inline(always)]
pub(crate) fn dot<V: Products<R>, I: Isa, R: Real>(x: &[R], y: &[R]) -> Complex<R> {
    /// Sums that are independent of each other, because an addition takes several cycles.
    const SUMS: usize = 4;
    let y = &y[..x.len()];
    let whole = covered::<V, R>(x.len());
    let quads = whole - whole % (SUMS * V::COUNT);
    // SAFETY: a routine runs for an instruction set that the machine has; all that is read are
    // elements of the vectors.
    let mut sum = unsafe {
        let zero = V::splat(R::ZERO);
        let mut sums = [[zero; 2]; SUMS];
        for first in (0..quads).step_by(SUMS * V::COUNT) {
            for (number, sums) in sums.iter_mut().enumerate() {
                let at = first + number * V::COUNT;
                let (x, y) = (V::load(x.as_ptr().add(at)), V::load(y.as_ptr().add(at)));
                *sums = less_products::<V, R>(*sums, x, y);
            }
        }
        let [mut all, others @ ..] = sums;
        for at in (quads..whole).step_by(V::COUNT) {
            let (x, y) = (V::load(x.as_ptr().add(at)), V::load(y.as_ptr().add(at)));
            all = less_products::<V, R>(all, x, y);
        }
        let minus_one = V::splat(-R::ONE);
        for other in others {
            for (all, other) in all.iter_mut().zip(other) {
                *all = V::less_product(*all, minus_one, other);
            }
        }
        total::<V, R>(all)
    };
    for at in (whole..x.len()).step_by(2) {
        sum = plus_multiple::<I, R>(sum, conjugate(number(x, at)), number(y, at));
    }
    sum
}

/// [`dot`] of one vector with each of four.
#[inline(always)]
pub(crate) fn dot_four<V: Products<R>, I: Isa, R: Real>(x: &[R], y: [&[R]; 4]) -> [Complex<R>; 4] {
    let y = y.map(|y| &y[..x.len()]);
    let whole = covered::<V, R>(x.len());
    let mut totals = [Complex::new(R::ZERO, R::ZERO); 4];
    // SAFETY: a routine runs for an instruction set that the machine has; all that is read are
    // elements of the vectors.
    unsafe {
        let mut sums = [[V::splat(R::ZERO); 2]; 4];
        for at in (0..whole).step_by(V::COUNT) {
            let x = V::load(x.as_ptr().add(at));
            for (sums, y) in sums.iter_mut().zip(y) {
                *sums = less_products::<V, R>(*sums, x, V::load(y.as_ptr().add(at)));
            }
        }
        for (all, sums) in totals.iter_mut().zip(sums) {
            *all = total::<V, R>(sums);
        }
    }
    for at in (whole..x.len()).step_by(2) {
        for (sum, y) in totals.iter_mut().zip(y) {
            *sum = plus_multiple::<I, R>(*sum, conjugate(number(x, at)), number(y, at));
        }
    }
    totals
}

/// Subtracts multiples of a vector from several vectors.
#[inline(always)]
pub(crate) fn subtract<V: Products<R>, I: Isa, R: Real, const N: usize>(
    by: [Complex<R>; N],
    x: &[R],
    mut y: [&mut [R]; N],
) {
    let whole = covered::<V, R>(x.len());
    for (by, y) in by.into_iter().zip(&mut y) {
        let y = &mut y[..x.len()];
        // SAFETY: a routine runs for an instruction set that the machine has; all that is read and
        // written are elements of the vectors.
        unsafe {
            let by = factors::<V, R>(by);
            for at in (0..whole).step_by(V::COUNT) {
                let x = V::load(x.as_ptr().add(at));
                let own = V::load(y.as_ptr().add(at));
                V::store(y.as_mut_ptr().add(at), less_multiple::<V, R>(own, by, x));
            }
        }
        for at in (whole..x.len()).step_by(2) {
            let left = plus_multiple::<I, R>(number(y, at), negative(by), number(x, at));
            set_number(y, at, left);
        }
    }
}

/// Adds multiples of four vectors to `y`.
#[inline(always)]
pub(crate) fn add_four<V: Products<R>, I: Isa, R: Real>(
    a: [Complex<R>; 4],
    x: [&[R]; 4],
    y: &mut [R],
) {
    let x = x.map(|x| &x[..y.len()]);
    let whole = covered::<V, R>(y.len());
    // SAFETY: a routine runs for an instruction set that the machine has; all that is read and
    // written are elements of the vectors.
    unsafe {
        let [a0, a1, a2, a3] = a;
        let by = [
            factors::<V, R>(negative(a0)),
            factors::<V, R>(negative(a1)),
            factors::<V, R>(negative(a2)),
            factors::<V, R>(negative(a3)),
        ];
        for at in (0..whole).step_by(V::COUNT) {
            let mut sum = V::load(y.as_ptr().add(at));
            for (by, x) in by.into_iter().zip(x) {
                sum = less_multiple::<V, R>(sum, by, V::load(x.as_ptr().add(at)));
            }
            V::store(y.as_mut_ptr().add(at), sum);
        }
    }
    for at in (whole..y.len()).step_by(2) {
        let mut sum = number(y, at);
        for (a, x) in a.into_iter().zip(x) {
            sum = plus_multiple::<I, R>(sum, a, number(x, at));
        }
        set_number(y, at, sum);
    }
}

/// [`Scalar::update_column`](crate::lapack::Scalar::update_column) in one pass.
#[inline(always)]
pub(crate) fn update_column<V: Products<R>, I: Isa, R: Real>(
    column: &mut [R],
    [(a, v), (b, w)]: [(Complex<R>, &[R]); 2],
    x: &[R],
    x_j: Complex<R>,
    y: &mut [R],
) -> Complex<R> {
    let n = column.len();
    let (v, w, x, y) = (&v[..n], &w[..n], &x[..n], &mut y[..n]);
    let whole = covered::<V, R>(n);
    // SAFETY: a routine runs for an instruction set that the machine has; all that is read and
    // written are elements of the vectors.
    let mut sum = unsafe {
        let by_v = factors::<V, R>(a);
        let by_w = factors::<V, R>(b);
        let by_own = factors::<V, R>(negative(x_j));
        let mut sums = [V::splat(R::ZERO); 2];
        for at in (0..whole).step_by(V::COUNT) {
            let own = V::load(column.as_ptr().add(at));
            let own = less_multiple::<V, R>(own, by_v, V::load(v.as_ptr().add(at)));
            let own = less_multiple::<V, R>(own, by_w, V::load(w.as_ptr().add(at)));
            V::store(column.as_mut_ptr().add(at), own);
            let other = less_multiple::<V, R>(V::load(y.as_ptr().add(at)), by_own, own);
            V::store(y.as_mut_ptr().add(at), other);
            sums = less_products::<V, R>(sums, own, V::load(x.as_ptr().add(at)));
        }
        total::<V, R>(sums)
    };
    for at in (whole..n).step_by(2) {
        let own = plus_multiple::<I, R>(number(column, at), negative(a), number(v, at));
        let own = plus_multiple::<I, R>(own, negative(b), number(w, at));
        set_number(column, at, own);
        let other = plus_multiple::<I, R>(number(y, at), x_j, own);
        set_number(y, at, other);
        sum = plus_multiple::<I, R>(sum, conjugate(own), number(x, at));
    }
    sum
}

/// Applies a reflection to two columns: with `d = t1 x + t2 y`, replaces `x` by `x - d` and `y` by
/// `y - d u`.
#[inline(always)]
pub(crate) fn reflect<V: Products<R>, I: Isa, R: Real>(
    [t1, u]: [Complex<R>; 2],
    t2: R,
    x: &mut [R],
    y: &mut [R],
) {
    let n = x.len();
    let y = &mut y[..n];
    let whole = covered::<V, R>(n);
    // SAFETY: a routine runs for an instruction set that the machine has; all that is read and
    // written are elements of the vectors.
    unsafe {
        let (t1, minus_u) = (factors::<V, R>(t1), factors::<V, R>(negative(u)));
        let (t2, minus_one) = (V::splat(t2), V::splat(-R::ONE));
        for at in (0..whole).step_by(V::COUNT) {
            let (own, other) = (V::load(x.as_ptr().add(at)), V::load(y.as_ptr().add(at)));
            let minus_d = V::less_product(V::splat(R::ZERO), t2, other);
            let minus_d = less_multiple::<V, R>(minus_d, t1, own);
            V::store(
                x.as_mut_ptr().add(at),
                V::less_product(own, minus_one, minus_d),
            );
            V::store(
                y.as_mut_ptr().add(at),
                less_multiple::<V, R>(other, minus_u, minus_d),
            );
        }
    }
    for at in (whole..n).step_by(2) {
        let (own, other) = (number(x, at), number(y, at));
        let d = Complex::new(t2 * other.re, t2 * other.im);
        let d = plus_multiple::<I, R>(d, t1, own);
        set_number(x, at, Complex::new(own.re - d.re, own.im - d.im));
        let left = plus_multiple::<I, R>(other, negative(u), d);
        set_number(y, at, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lapack::isa::{Routine, dispatch};

    /// The longest vectors: several of the CPU's vectors, and a part of one.
    const LONGEST: usize = 37;

    /// Runs each loop on vectors of one length, for the instruction set that it is compiled for.
    struct Check(usize);

    impl Routine for Check {
        type Output = ();

        #[inline(always)]
        fn run<I: Isa>(self) {
            check::<I::Vectors, I>(self.0);
        }
    }

    type C = Complex<f64>;

    /// Small integers, so that all sums are exact.
    fn vector(seed: usize, length: usize) -> Vec<C> {
        let part = |i: usize| ((seed * 7 + i * 5) % 11) as f64 - 5.0;
        (0..length)
            .map(|i| C::new(part(2 * i), part(2 * i + 1)))
            .collect()
    }

    fn parts(x: &[C]) -> Vec<f64> {
        x.iter().flat_map(|x| [x.re, x.im]).collect()
    }

    fn by_definition(x: &[C], y: &[C]) -> C {
        x.iter().zip(y).map(|(x, y)| x.conj() * y).sum()
    }

    #[inline(always)]
    fn check<V: Products<f64>, I: Isa>(length: usize) {
        let x: [Vec<C>; 5] = std::array::from_fn(|seed| vector(seed, length));
        let p: [Vec<f64>; 5] = std::array::from_fn(|i| parts(&x[i]));
        let by = [
            C::new(2.0, -3.0),
            C::new(0.0, 1.0),
            C::new(-1.0, 4.0),
            C::new(3.0, 0.0),
        ];

        assert_eq!(dot::<V, I, f64>(&p[0], &p[1]), by_definition(&x[0], &x[1]));
        let four = [&p[1][..], &p[2], &p[3], &p[4]];
        let sums = dot_four::<V, I, f64>(&p[0], four);
        for (sum, y) in sums.iter().zip(&x[1..]) {
            assert_eq!(*sum, by_definition(&x[0], y));
        }

        let mut y = p[1].clone();
        subtract::<V, I, f64, 1>([by[0]], &p[0], [&mut y]);
        let expected: Vec<C> = x[1].iter().zip(&x[0]).map(|(y, x)| y - by[0] * x).collect();
        assert_eq!(y, parts(&expected));

        let mut y = p[0].clone();
        add_four::<V, I, f64>(by, four, &mut y);
        let at = |i: usize| x[0][i] + (0..4).map(|k| by[k] * x[k + 1][i]).sum::<C>();
        assert_eq!(y, parts(&(0..length).map(at).collect::<Vec<C>>()));

        let (mut column, mut y) = (p[0].clone(), p[1].clone());
        let update = [(by[0], &p[2][..]), (by[2], &p[3][..])];
        let sum = update_column::<V, I, f64>(&mut column, update, &p[4], by[3], &mut y);
        let new = |i: usize| x[0][i] - by[0] * x[2][i] - by[2] * x[3][i];
        let new: Vec<C> = (0..length).map(new).collect();
        assert_eq!(column, parts(&new));
        let added: Vec<C> = x[1].iter().zip(&new).map(|(y, c)| y + by[3] * c).collect();
        assert_eq!(y, parts(&added));
        assert_eq!(sum, by_definition(&new, &x[4]));

        let (mut first, mut second) = (p[0].clone(), p[1].clone());
        reflect::<V, I, f64>([by[0], by[2]], 2.0, &mut first, &mut second);
        let d: Vec<C> = x[0]
            .iter()
            .zip(&x[1])
            .map(|(x, y)| by[0] * x + y * 2.0)
            .collect();
        let of_first: Vec<C> = x[0].iter().zip(&d).map(|(x, d)| x - d).collect();
        let of_second: Vec<C> = x[1].iter().zip(&d).map(|(y, d)| y - d * by[2]).collect();
        assert_eq!([first, second], [parts(&of_first), parts(&of_second)]);
    }

    #[test]
    fn loops_compute_what_they_say() {
        for length in 0..=LONGEST {
            dispatch(Check(length));
        }
    }

    #[test]
    #[cfg(not(target_arch = "aarch64"))]
    fn loops_without_vectors_compute_what_they_say() {
        use crate::dense::vectors::Portable;
        use crate::lapack::isa::Baseline;
        for length in 0..=LONGEST {
            check::<Portable, Baseline>(length);
        }
    }
}
