//! Tests that routines stop early in a run that was interrupted: they leave the matrix unchanged,
//! or report an iteration that has not converged.

use crate::sample::{sample, self_adjoint};
use num_complex::Complex;
use tegula_ir::FftType;
use tegula_limits::{Interrupt, Limits, Stopped};
use tegula_linalg::dense::{Cholesky, Lu, Solve};
use tegula_linalg::fourier::Planned;
use tegula_linalg::sort::{Sort, SortCode};
use tegula_linalg::{
    Bidiagonal, CpuFeatures, Matrix, Multiplication, Tridiagonal, gebrd, gees, geev, gehrd, geqp3,
    geqrf, hetrd, orgqr, ormqr,
};

/// Runs `work` in a scope of limits that is already stopped.
fn stopped<R>(work: impl FnOnce() -> R) -> R {
    let interrupt = Interrupt::new();
    let mut result = None;
    let ended = Limits::new().interrupt(&interrupt).within(|| {
        interrupt.interrupt();
        result = Some(work());
        Ok::<(), Stopped>(())
    });
    assert_eq!(ended, Err(Stopped::Interrupted));
    result.expect("it began")
}

/// Asserts that a routine changes the numbers in a normal run, but not in a stopped one.
fn assert_stops<T: Clone + PartialEq>(name: &str, numbers: &[T], routine: impl Fn(&mut [T])) {
    let mut left = numbers.to_vec();
    stopped(|| routine(&mut left));
    assert!(left == numbers, "{name} does not stop");
    routine(&mut left);
    assert!(left != numbers, "{name} does nothing");
}

/// Memory for a routine, aligned to 64 bytes.
fn with_scratch<R>(bytes: usize, work: impl FnOnce(*mut u8) -> R) -> R {
    let mut memory = vec![0u8; bytes + 64];
    let start = memory.as_mut_ptr();
    work(start.wrapping_add(start.align_offset(64)))
}

#[test]
fn factorisations_of_lapack_stop() {
    // Sizes for which reflectors are applied one at a time, and in blocks.
    for n in [20, 150] {
        let a = sample::<f64>(n, n, 1).data;
        let (tau, tail) = (vec![0.5; n], vec![0.5; n - 1]);
        assert_stops("geqrf", &a, |a| {
            geqrf(Matrix::new(a, n, n), &mut tau.clone());
        });
        assert_stops("geqp3", &a, |a| {
            let (mut pivots, mut norms) = (vec![0; n], vec![0.0; 2 * n]);
            geqp3(
                Matrix::new(a, n, n),
                &mut pivots,
                &mut tau.clone(),
                &mut norms,
            );
        });
        for left in [true, false] {
            let how = Multiplication {
                left,
                adjoint: false,
            };
            assert_stops("ormqr", &a, |c| {
                let mut a = a.clone();
                let (a, c) = (Matrix::new(&mut a, n, n), Matrix::new(c, n, n));
                ormqr(how, a, &tau, c, &mut vec![0.0; n]);
            });
        }
        assert_stops("gehrd", &a, |a| {
            let (mut tau, mut work) = (tail.clone(), vec![0.0; 2 * n]);
            gehrd(Matrix::new(a, n, n), 0..n, &mut tau, &mut work);
        });
        assert_stops("gebrd", &a, |a| {
            let mut right = vec![0.0; n * n];
            let form = Bidiagonal {
                diagonal: &mut vec![0.0; n],
                beside: &mut tail.clone(),
                tau_q: &mut tau.clone(),
                tau_p: &mut tau.clone(),
                right: Matrix::new(&mut right, n, n),
            };
            gebrd(Matrix::new(a, n, n), form, &mut vec![0.0; n]);
        });
        assert_stops("hetrd", &self_adjoint::<f64>(n, 1).data, |a| {
            let form = Tridiagonal {
                diagonal: &mut vec![0.0; n],
                beside: &mut tail.clone(),
                tau: &mut tail.clone(),
            };
            hetrd(Matrix::new(a, n, n), form, &mut vec![0.0; 4 * n]);
        });
    }
    let n = 20;
    assert_stops("orgqr", &sample::<f64>(n, n, 1).data, |a| {
        orgqr(Matrix::new(a, n, n), &vec![0.5; n]);
    });
}

#[test]
fn eigenvalues_do_not_converge_when_stopped() {
    let n = 20;
    let values = || (vec![0.0; n], vec![0.0; n]);
    let schur = || {
        let (mut a, (mut re, mut im)) = (sample::<f64>(n, n, 1), values());
        gees(a.view(), None, [&mut re, &mut im])
    };
    assert!(stopped(schur).is_err());
    assert_eq!(schur(), Ok(()));
    let eigenvalues = || {
        let mut a = sample::<Complex<f64>>(n, n, 1);
        let (mut re, mut im) = values();
        geev(a.view(), None, None, [&mut re, &mut im])
    };
    assert!(stopped(eigenvalues).is_err());
    assert_eq!(eigenvalues(), Ok(()));
}

#[test]
fn dense_routines_stop() {
    let (n, cpu) = (40, CpuFeatures::detect());
    let a = sample::<f64>(n, n, 1).data;
    let mut definite = a.clone();
    (0..n).for_each(|i| definite[i * n + i] += n as f64);
    assert_stops("Cholesky", &definite, |a| {
        let routine = Cholesky {
            n,
            count: 1,
            lower: true,
        };
        let input = a.to_vec();
        // SAFETY: both arrays have one matrix, and the scratch memory has the required size.
        with_scratch(routine.scratch_bytes::<f64>(), |scratch| unsafe {
            routine.run(cpu, input.as_ptr(), a.as_mut_ptr(), scratch);
        });
    });
    assert_stops("Lu", &a, |a| {
        let (mut pivots, mut permutation) = (vec![0; n], vec![0; n]);
        let routine = Lu {
            rows: n,
            columns: n,
            count: 1,
        };
        // SAFETY: the arrays have the routine's sizes, and the scratch memory has the required
        // size.
        with_scratch(routine.scratch_bytes::<f64>(), |scratch| unsafe {
            let (pivots, permutation) = (pivots.as_mut_ptr(), permutation.as_mut_ptr());
            routine.run(cpu, a.as_mut_ptr(), pivots, permutation, scratch);
        });
    });
    assert_stops("Solve", &a, |b| {
        let routine = Solve {
            rows: n,
            columns: n,
            count: 1,
            left_side: true,
            lower: true,
            ..Solve::default()
        };
        // SAFETY: both arrays have one matrix, and the scratch memory has the required size.
        with_scratch(routine.scratch_bytes::<f64>(), |scratch| unsafe {
            routine.run(cpu, definite.as_ptr(), b.as_mut_ptr(), scratch);
        });
    });
}

#[test]
fn fourier_transforms_stop() {
    let input = sample::<Complex<f64>>(8, 16, 1).data;
    // Transforms along the last dimension, and along an earlier one.
    for sizes in [vec![8, 16], vec![128]] {
        let transform = Planned::<f64>::new(FftType::Fft, &sizes, sizes.len());
        assert_stops("a transform", &input, |output| {
            let input = output.to_vec();
            // SAFETY: a complex number consists of two real ones; the scratch memory has the
            // required size.
            with_scratch(transform.scratch_bytes(), |scratch| unsafe {
                let (input, output) = (input.as_ptr().cast(), output.as_mut_ptr().cast());
                transform.run(CpuFeatures::detect(), input, output, scratch.cast());
            });
        });
    }
}

/// Whether one number is less than another.
///
/// # Safety
/// The pointers are those of two numbers and of the byte for the result.
unsafe extern "C" fn less(arrays: *const *mut u8, _: i64, _: i64) {
    // SAFETY: the caller promises pointers to two numbers and a byte.
    unsafe {
        let number = |at: usize| (*arrays.add(at)).cast::<f64>().read_unaligned();
        (*arrays.add(2)).write(u8::from(number(0) < number(1)));
    }
}

#[test]
fn sorts_stop() {
    let sort = Sort {
        length: 100,
        stride: 1,
        rows: 1,
        sizes: &[size_of::<f64>()],
    };
    let code = SortCode {
        comparator: less,
        key: None,
    };
    assert_stops("a sort", &sample::<f64>(100, 1, 1).data, |numbers| {
        let numbers = numbers.as_mut_ptr().cast::<u8>();
        // SAFETY: the array has one row, which is sorted in place; the scratch memory has the
        // required size.
        with_scratch(sort.scratch_bytes(None), |scratch| unsafe {
            sort.run(&[numbers.cast_const()], &[numbers], &code, scratch);
        });
    });
}
