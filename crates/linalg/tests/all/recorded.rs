//! Compares signs, phases and the order of results with those of LAPACK (OpenBLAS 0.3.31) for the
//! same matrices: the first row of the vectors, or the eigenvalues. All matrices are such that
//! LAPACK's signs do not change if elements change by rounding errors.

use crate::sample::{Owned, sample, self_adjoint};
use num_complex::Complex;
use tegula_linalg::{Eigen, Matrix, Real, SvdMethod, geev, gesdd, heevd};

const RECORDED: &str = include_str!("../data/lapack.txt");

#[test]
fn signs_and_orders_are_those_of_lapack() {
    let mut lines = 0;
    for line in RECORDED.lines() {
        let mut words: Vec<&str> = line.split(' ').collect();
        let letters = words
            .iter()
            .position(|word| word.contains("e-") || word.contains("e+"));
        let numbers = words.split_off(letters.expect("numbers"));
        let numbers: Vec<f64> = numbers
            .iter()
            .map(|x| x.parse().expect("a number"))
            .collect();
        let (re, im) = numbers.split_at(numbers.len() / 2);
        let got = match words[0] {
            "d" => first_row::<f64>(&words[1..]),
            _ => first_row::<Complex<f64>>(&words[1..]),
        };
        assert_eq!(got.len(), re.len(), "{line}");
        for (i, (re, im)) in re.iter().zip(im).enumerate() {
            let apart = (got[i].0 - re).abs().max((got[i].1 - im).abs());
            assert!(apart < 2e-3 * (1.0 + re.abs()), "{line}: {i}: {:?}", got[i]);
        }
        lines += 1;
    }
    assert!(lines > 60, "{lines}");
}

/// The numbers that a line of the recorded data describes, computed by our routines.
fn first_row<T: Eigen<Real = f64>>(words: &[&str]) -> Vec<(f64, f64)> {
    let size = |i: usize| words[i].parse::<usize>().expect("a size");
    let row = |v: &Owned<T>| (0..v.columns).map(|j| parts(v.at(0, j))).collect();
    match words[0] {
        "syevd" => {
            let n = size(1);
            let mut a = self_adjoint::<T>(n, n as u64);
            let lower = words[2] == "1";
            heevd(a.view(), lower, true, &mut vec![0.0; n]).expect("it converges");
            row(&a)
        }
        "gesdd" | "gesvd" => {
            let (m, n) = (size(1), size(2));
            let method = match words[0] {
                "gesdd" => SvdMethod::DivideAndConquer,
                _ => SvdMethod::QrIteration,
            };
            let mut a = sample::<T>(m, n, (m * 100 + n) as u64);
            let k = m.min(n);
            let (mut u, mut v) = (Owned::zeros(m, k), Owned::zeros(n, k));
            let vectors = Some([u.view(), v.view()]);
            gesdd(method, a.view(), &mut vec![0.0; k], vectors).expect("it converges");
            row(&u)
        }
        _ => {
            let n = size(words.len() - 1);
            let mut a = sample::<T>(n, n, n as u64 + 7);
            let mut right = Owned::zeros(n, n);
            let (mut re, mut im) = (vec![0.0; n], vec![0.0; n]);
            let none: Option<Matrix<'_, T>> = None;
            let found = geev(a.view(), none, Some(right.view()), [&mut re, &mut im]);
            found.expect("it converges");
            match words.len() {
                2 => re.into_iter().zip(im).collect(),
                _ => row(&right),
            }
        }
    }
}

fn parts<T: Eigen<Real = f64>>(x: T) -> (f64, f64) {
    (x.re().to_f64(), x.im().to_f64())
}
