//! Tests the equations that the results of each routine must satisfy, for all types and many sizes.

use crate::sample::{ForAll, Owned, for_all, sample, self_adjoint};
use tegula_linalg::{
    Eigen, Matrix, Multiplication, Real, Scalar, SvdMethod, Tridiagonal, gees, geev, gehrd, geqp3,
    geqrf, gesdd, heevd, hetrd, orghr, orgqr, ormqr, ormtr,
};

const SIZES: [[usize; 2]; 13] = [
    [0, 0],
    [1, 1],
    [0, 3],
    [3, 0],
    [1, 5],
    [5, 1],
    [4, 4],
    [9, 5],
    [5, 9],
    [31, 12],
    [12, 31],
    [70, 66],
    // Large enough that reflections are applied in blocks.
    [120, 110],
];

fn upper<T: Eigen>(a: &Owned<T>, rows: usize) -> Owned<T> {
    Owned::from_fn(
        rows,
        a.columns,
        |i, j| if i <= j { a.at(i, j) } else { T::ZERO },
    )
}

struct Qr;

impl ForAll for Qr {
    fn run<T: Eigen>(&self) {
        for [m, n] in SIZES {
            let a = sample::<T>(m, n, 3);
            let k = m.min(n);
            let (mut factored, mut tau) = (a.clone(), vec![T::ZERO; k]);
            geqrf(factored.view(), &mut tau);
            let mut q = factored.first(k);
            orgqr(q.view(), &tau);
            q.assert_orthonormal("q");
            q.times(&upper(&factored, k)).assert_close(&a, "q r");
            let others = if m > 100 { 90 } else { 7 };
            for left in [true, false] {
                for adjoint in [true, false] {
                    let c = if left {
                        sample(m, others, 5)
                    } else {
                        sample(others, m, 5)
                    };
                    let mut whole = Owned::zeros(m, m);
                    whole.data[..m * k].copy_from_slice(&factored.data[..m * k]);
                    orgqr(whole.view(), &tau);
                    let q = if adjoint { whole.adjoint() } else { whole };
                    let expected = if left { q.times(&c) } else { c.times(&q) };
                    let (mut got, how) = (c, Multiplication { left, adjoint });
                    let mut work = vec![T::ZERO; got.rows];
                    let mut vectors = factored.clone();
                    ormqr(how, vectors.view(), &tau, got.view(), &mut work);
                    got.assert_close(&expected, "ormqr");
                }
            }
            let (mut pivoted, mut pivots) = (a.clone(), vec![0; n]);
            if n > 2 {
                pivots[n - 1] = 1;
            }
            let mut norms = vec![T::Real::ZERO; 2 * n];
            geqp3(pivoted.view(), &mut pivots, &mut tau, &mut norms);
            let mut q = pivoted.first(k);
            orgqr(q.view(), &tau);
            let permuted = Owned::from_fn(m, n, |i, j| a.at(i, pivots[j] as usize - 1));
            q.times(&upper(&pivoted, k))
                .assert_close(&permuted, "pivoted");
            assert!(n <= 2 || pivots[0] == n as i32);
            let first = usize::from(n > 2);
            let sizes: Vec<f64> = (first..k)
                .map(|i| pivoted.at(i, i).abs().to_f64())
                .collect();
            assert!(
                sizes.is_sorted_by(|a, b| *a >= b * (1.0 - 1e-5)),
                "{sizes:?}"
            );
        }
    }
}

#[test]
fn qr_factorisations() {
    for_all(&Qr);
}

struct Reductions;

impl ForAll for Reductions {
    fn run<T: Eigen>(&self) {
        for n in [1, 2, 3, 8, 33] {
            let a = sample::<T>(n, n, 11);
            let (mut h, mut tau) = (a.clone(), vec![T::ZERO; n - 1]);
            gehrd(h.view(), 0..n, &mut tau, &mut vec![T::ZERO; 2 * n]);
            let mut q = Owned::zeros(n, n);
            orghr(&h.view(), 0..n, &tau, q.view());
            q.assert_orthonormal("hessenberg q");
            let clean = Owned::from_fn(n, n, |i, j| if i <= j + 1 { h.at(i, j) } else { T::ZERO });
            q.times(&clean)
                .times(&q.adjoint())
                .assert_close(&a, "hessenberg");
            let a = self_adjoint::<T>(n, 12);
            let mut reduced = a.clone();
            let (mut d, mut e) = (vec![T::Real::ZERO; n], vec![T::Real::ZERO; n - 1]);
            let form = Tridiagonal {
                diagonal: &mut d,
                beside: &mut e,
                tau: &mut tau,
            };
            hetrd(reduced.view(), form, &mut vec![T::ZERO; 4 * n]);
            let mut q = Owned::from_fn(n, n, |i, j| if i == j { T::ONE } else { T::ZERO });
            ormtr(&mut reduced.view(), &tau, q.view());
            let clean = Owned::from_fn(n, n, |i, j| match i.abs_diff(j) {
                0 => T::from_real(d[i]),
                1 => T::from_real(e[i.min(j)]),
                _ => T::ZERO,
            });
            q.times(&clean)
                .times(&q.adjoint())
                .assert_close(&a, "tridiagonal");
        }
    }
}

#[test]
fn hessenberg_and_tridiagonal_forms() {
    for_all(&Reductions);
}

struct SelfAdjoint;

impl ForAll for SelfAdjoint {
    fn run<T: Eigen>(&self) {
        for n in [0, 1, 2, 7, 25, 26, 60, 120] {
            let identity = |i, j| if i == j { T::ONE } else { T::ZERO };
            let matrices = [
                self_adjoint::<T>(n, 21),
                Owned::zeros(n, n),
                Owned::from_fn(n, n, identity),
                // A matrix with a single nonzero eigenvalue: all others deflate.
                Owned::from_fn(n, n, |_, _| T::ONE),
            ];
            for a in matrices {
                for lower in [true, false] {
                    let mut vectors = a.clone();
                    let mut values = vec![T::Real::ZERO; n];
                    heevd(vectors.view(), lower, true, &mut values).expect("it converges");
                    vectors.assert_orthonormal("eigenvectors");
                    assert!(values.is_sorted_by(|a, b| a <= b));
                    let scaled: Vec<T> = values.iter().map(|&x| T::from_real(x)).collect();
                    a.times(&vectors)
                        .assert_close(&vectors.scaled(&scaled), "a v");
                    let (mut other, mut alone) = (a.clone(), vec![T::Real::ZERO; n]);
                    heevd(other.view(), lower, false, &mut alone).expect("it converges");
                    assert_values(&alone, &values, a.largest() * n as f64);
                }
            }
        }
    }
}

fn assert_values<R: Real>(a: &[R], b: &[R], size: f64) {
    let n = a.len() as f64;
    for (a, b) in a.iter().zip(b) {
        let apart = (a.to_f64() - b.to_f64()).abs();
        assert!(
            apart <= 10.0 * n * R::PRECISION.to_f64() * (size + 1.0),
            "{a:?} {b:?}"
        );
    }
}

#[test]
fn eigenvectors_of_self_adjoint_matrices() {
    for_all(&SelfAdjoint);
}

struct Singular;

impl ForAll for Singular {
    fn run<T: Eigen>(&self) {
        for [m, n] in SIZES.into_iter().chain([[60, 60], [130, 60], [60, 130]]) {
            let k = m.min(n);
            let matrices = [
                sample::<T>(m, n, 31),
                Owned::zeros(m, n),
                Owned::from_fn(m, n, |_, _| T::ONE),
            ];
            for a in &matrices {
                for method in [SvdMethod::DivideAndConquer, SvdMethod::QrIteration] {
                    for [left, right] in [[k, k], [m, n]] {
                        let mut values = vec![T::Real::ZERO; k];
                        let (mut u, mut v) = (Owned::zeros(m, left), Owned::zeros(n, right));
                        let both = Some([u.view(), v.view()]);
                        let found = gesdd(method, a.clone().view(), &mut values, both);
                        found.expect("it converges");
                        u.assert_orthonormal("u");
                        v.assert_orthonormal("v");
                        assert!(values.is_sorted_by(|a, b| a >= b));
                        assert!(values.last().is_none_or(|&x| x >= T::Real::ZERO));
                        let scaled: Vec<T> = values.iter().map(|&x| T::from_real(x)).collect();
                        let product = u.first(k).scaled(&scaled).times(&v.first(k).adjoint());
                        product.assert_close(a, "u s v");
                        let mut alone = vec![T::Real::ZERO; k];
                        let found = gesdd(method, a.clone().view(), &mut alone, None);
                        found.expect("it converges");
                        assert_values(&alone, &values, a.largest() * (m + n) as f64);
                    }
                }
            }
        }
    }
}

#[test]
fn singular_vectors() {
    for_all(&Singular);
}

struct General;

impl ForAll for General {
    fn run<T: Eigen>(&self) {
        for n in [0, 1, 2, 3, 6, 20, 80] {
            let matrices = [
                sample::<T>(n, n, 41),
                Owned::zeros(n, n),
                // A Jordan block, which has one eigenvector.
                Owned::from_fn(n, n, |i, j| if j == i + 1 { T::ONE } else { T::ZERO }),
                // A cycle, whose eigenvalues are roots of unity.
                Owned::from_fn(n, n, |i, j| if j == (i + 1) % n { T::ONE } else { T::ZERO }),
            ];
            for a in matrices {
                let (mut t, mut z) = (a.clone(), Owned::zeros(n, n));
                let (mut re, mut im) = (vec![T::Real::ZERO; n], vec![T::Real::ZERO; n]);
                let found = gees(t.view(), Some(z.view()), [&mut re, &mut im]);
                found.expect("it converges");
                z.assert_orthonormal("schur vectors");
                z.times(&t)
                    .times(&z.adjoint())
                    .assert_close(&a, "schur form");
                for j in 0..n {
                    assert!((j + 2..n).all(|i| t.at(i, j) == T::ZERO));
                }
                let (mut left, mut right) = (Owned::zeros(n, n), Owned::zeros(n, n));
                let both = [Some(left.view()), Some(right.view())];
                let [l, r] = both;
                let found = geev(a.clone().view(), l, r, [&mut re, &mut im]);
                found.expect("it converges");
                check_vectors(&a, &right, &re, &im);
                let conjugates: Vec<T::Real> = im.iter().map(|&x| -x).collect();
                if T::IS_COMPLEX {
                    check_vectors(&a.adjoint(), &left, &re, &conjugates);
                } else {
                    // A packed complex vector belongs to the first eigenvalue of a conjugate pair.
                    check_packed(&a.adjoint(), &left, &re, &im, -1.0);
                }
            }
        }
    }
}

/// Checks that `a v = v lambda`, the vectors of a real matrix being packed.
fn check_vectors<T: Eigen>(a: &Owned<T>, v: &Owned<T>, re: &[T::Real], im: &[T::Real]) {
    if !T::IS_COMPLEX {
        check_packed(a, v, re, im, 1.0);
        return;
    }
    let values: Vec<T> = re
        .iter()
        .zip(im)
        .map(|(&re, &im)| T::from_parts(re, im))
        .collect();
    a.times(v).assert_close(&v.scaled(&values), "eigenvectors");
}

fn check_packed<T: Eigen>(a: &Owned<T>, v: &Owned<T>, re: &[T::Real], im: &[T::Real], sign: f64) {
    let product = a.times(v);
    let mut expected = product.clone();
    let mut at = 0;
    while at < v.columns {
        let value = re[at];
        if im[at] == T::Real::ZERO {
            (0..v.rows).for_each(|i| expected.set(i, at, v.at(i, at).scale(value)));
            at += 1;
            continue;
        }
        assert!(im[at] > T::Real::ZERO && im[at + 1] == -im[at], "{im:?}");
        let beside = im[at] * T::Real::from_f64(sign);
        for i in 0..v.rows {
            let (x, y) = (v.at(i, at), v.at(i, at + 1));
            expected.set(i, at, x.scale(value) - y.scale(beside));
            expected.set(i, at + 1, x.scale(beside) + y.scale(value));
        }
        at += 2;
    }
    product.assert_close(&expected, "packed eigenvectors");
}

#[test]
fn schur_forms_and_eigenvectors() {
    for_all(&General);
}

struct NotFinite;

impl ForAll for NotFinite {
    fn run<T: Eigen>(&self) {
        for bad in [f64::NAN, f64::INFINITY] {
            for n in [1, 2, 30] {
                let mut a = self_adjoint::<T>(n, 51);
                a.set(n - 1, n - 1, T::from_real(T::Real::from_f64(bad)));
                let (mut re, mut im) = (vec![T::Real::ZERO; n], vec![T::Real::ZERO; n]);
                assert!(heevd(a.clone().view(), true, true, &mut re).is_err());
                let method = SvdMethod::DivideAndConquer;
                assert!(gesdd(method, a.clone().view(), &mut re, None).is_err());
                let none: Option<Matrix<'_, T>> = None;
                assert!(gees(a.clone().view(), none, [&mut re, &mut im]).is_err());
                assert!(geev(a.clone().view(), None, None, [&mut re, &mut im]).is_err());
                // Factorisations give NaN, but they end.
                geqrf(a.clone().view(), &mut vec![T::ZERO; n]);
                gehrd(
                    a.view(),
                    0..n,
                    &mut vec![T::ZERO; n - 1],
                    &mut vec![T::ZERO; 2 * n],
                );
            }
        }
        for scale in [1e30, 1e-30] {
            let by = T::Real::from_f64(scale);
            let a = self_adjoint::<T>(30, 52);
            let scaled = Owned::from_fn(30, 30, |i, j| a.at(i, j).scale(by));
            let (mut values, mut expected) = (vec![T::Real::ZERO; 30], vec![T::Real::ZERO; 30]);
            heevd(a.clone().view(), true, false, &mut expected).expect("it converges");
            heevd(scaled.clone().view(), true, true, &mut values).expect("it converges");
            values.iter_mut().for_each(|x| *x = *x / by);
            assert_values(&values, &expected, 30.0);
        }
    }
}

#[test]
fn numbers_that_are_not_finite_large_or_small() {
    for_all(&NotFinite);
}
