use super::{Cholesky, Complex, Lu, Number, Real, Solve, TridiagonalSolve};
use crate::microkernels::CpuFeatures;
use tegula_target::IsaLevel;

const LEVELS: [IsaLevel; 3] = [IsaLevel::Native, IsaLevel::X86V3, IsaLevel::X86V2];

/// The numbers that the tests compute with, in one precision.
type C = Complex<f64>;

fn c(re: f64, im: f64) -> C {
    C { re, im }
}

fn multiplied(a: C, b: C) -> C {
    c(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)
}

/// Pseudo-random numbers, most of them small.
fn drawn(count: usize, seed: usize) -> Vec<C> {
    let draw = |i: usize| ((i * 7919 + seed * 104_729 + 13) % 1009) as f64 / 504.0 - 1.0;
    (0..count)
        .map(|i| c(draw(2 * i), draw(2 * i + 1)))
        .collect()
}

/// A number type of the tests.
trait Tested: Number {
    const TOLERANCE: f64;
    fn from(x: C) -> Self;
    fn to(self) -> C;
}

macro_rules! tested {
    ($($real:ident $tolerance:literal;)*) => {$(
        impl Tested for $real {
            const TOLERANCE: f64 = $tolerance;
            fn from(x: C) -> Self {
                x.re as $real
            }
            fn to(self) -> C {
                c(self.into(), 0.0)
            }
        }
        impl Tested for Complex<$real> {
            const TOLERANCE: f64 = $tolerance;
            fn from(x: C) -> Self {
                Self { re: x.re as $real, im: x.im as $real }
            }
            fn to(self) -> C {
                c(self.re.into(), self.im.into())
            }
        }
    )*};
}

tested! { f32 2e-5; f64 4e-14; }

fn product(a: &[C], b: &[C], [rows, depth, columns]: [usize; 3]) -> Vec<C> {
    let mut out = vec![c(0.0, 0.0); rows * columns];
    for i in 0..rows {
        for k in 0..depth {
            for j in 0..columns {
                let x = multiplied(a[i * depth + k], b[k * columns + j]);
                let out = &mut out[i * columns + j];
                *out = c(out.re + x.re, out.im + x.im);
            }
        }
    }
    out
}

/// The transpose, conjugated if `conjugated`.
fn turned(a: &[C], [rows, columns]: [usize; 2], conjugated: bool) -> Vec<C> {
    let element = |i: usize, j: usize| {
        let x = a[i * columns + j];
        if conjugated { x.conjugate() } else { x }
    };
    (0..columns)
        .flat_map(|j| (0..rows).map(move |i| element(i, j)))
        .collect()
}

fn assert_close<T: Tested>(found: &[C], wanted: &[C], what: &str) {
    let size = wanted
        .iter()
        .fold(1.0f64, |size, x| size.max(x.re.abs()).max(x.im.abs()));
    let tolerance = T::TOLERANCE * size * (found.len() as f64).sqrt().sqrt();
    for (i, (a, b)) in found.iter().zip(wanted).enumerate() {
        let apart = (a.re - b.re).abs().max((a.im - b.im).abs());
        assert!(apart <= tolerance, "{what} {i}: {a:?} {b:?}");
    }
}

fn scratch(bytes: usize) -> Vec<u128> {
    vec![u128::MAX; bytes.div_ceil(16) + 4]
}

fn start(memory: &mut [u128]) -> *mut u8 {
    let start = memory.as_mut_ptr().cast::<u8>();
    start.wrapping_add(start.align_offset(64))
}

const SIZES: [usize; 11] = [0, 1, 2, 3, 7, 15, 16, 17, 33, 64, 100];

fn factors<T: Tested>() {
    for n in SIZES {
        for cpu in LEVELS {
            let isa = CpuFeatures::up_to(cpu);
            // The product of a matrix and its adjoint, plus a multiple of the identity.
            let a: Vec<C> = drawn(n * n, n).iter().map(|&x| T::from(x).to()).collect();
            let mut a = product(&a, &turned(&a, [n, n], true), [n, n, n]);
            (0..n).for_each(|i| a[i * n + i].re += 1.0);
            for lower in [true, false] {
                // The other triangle must be ignored.
                let input: Vec<T> = (0..2 * n * n)
                    .map(|at| {
                        let (i, j) = (at / n % n, at % n);
                        match if lower { i >= j } else { i <= j } {
                            true => T::from(a[i * n + j]),
                            false => T::of(T::Real::NAN),
                        }
                    })
                    .collect();
                let routine = Cholesky { n, count: 2, lower };
                let mut output = vec![T::ZERO; 2 * n * n];
                let mut memory = scratch(routine.scratch_bytes::<T>());
                // SAFETY: both arrays have two matrices, and the scratch memory has the requested
                // size.
                unsafe {
                    let out = output.as_mut_ptr();
                    routine.run(isa, input.as_ptr(), out, start(&mut memory));
                }
                for factor in output.chunks_exact((n * n).max(1)) {
                    let factor: Vec<C> = factor.iter().map(|x| x.to()).collect();
                    let adjoint = turned(&factor, [n, n], true);
                    let found = match lower {
                        true => product(&factor, &adjoint, [n, n, n]),
                        false => product(&adjoint, &factor, [n, n, n]),
                    };
                    assert_close::<T>(&found, &a, &format!("{n} {lower} {cpu}"));
                    for i in 0..n {
                        for j in 0..n {
                            let beside = if lower { j > i } else { j < i };
                            assert!(!beside || factor[i * n + j] == c(0.0, 0.0));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn cholesky_factors_give_the_matrix() {
    factors::<f32>();
    factors::<f64>();
    factors::<Complex<f32>>();
    factors::<Complex<f64>>();
}

#[test]
fn what_is_not_positive_definite_has_no_factor() {
    for n in [1, 5, 40] {
        let mut a = vec![0.0f64; n * n];
        (0..n).for_each(|i| a[i * n + i] = 1.0);
        a[n * n - 1] = -1.0;
        let routine = Cholesky {
            n,
            count: 1,
            lower: true,
        };
        let mut output = a.clone();
        let mut memory = scratch(routine.scratch_bytes::<f64>());
        let isa = CpuFeatures::up_to(IsaLevel::Native);
        // SAFETY: both arrays have a matrix, and the scratch memory has the requested size.
        unsafe { routine.run(isa, a.as_ptr(), output.as_mut_ptr(), start(&mut memory)) };
        assert!(output.iter().all(|x| x.is_nan()), "{n}");
    }
}

fn solves<T: Tested>() {
    for n in SIZES {
        for other in [0, 1, 3, 5, 16, 37] {
            for flags in 0..32u8 {
                let flag = |bit: u8| flags >> bit & 1 != 0;
                let (left_side, lower, unit) = (flag(0), flag(1), flag(2));
                let (transposed, conjugated) = (flag(3), flag(4));
                let [rows, columns] = if left_side { [n, other] } else { [other, n] };
                let routine = Solve {
                    rows,
                    columns,
                    count: 1,
                    left_side,
                    lower,
                    unit_diagonal: unit,
                    transposed,
                    conjugated,
                };
                // Small compared with the diagonal, so that the system is well conditioned.
                let mut a: Vec<C> = drawn(n * n, n)
                    .iter()
                    .map(|x| c(x.re / n as f64, x.im / n as f64))
                    .collect();
                (0..n).for_each(|i| a[i * n + i].re += 2.0);
                let a: Vec<T> = a.iter().map(|&x| T::from(x)).collect();
                let x: Vec<C> = drawn(n * other, 1)
                    .iter()
                    .map(|&x| T::from(x).to())
                    .collect();
                let used: Vec<C> = (0..n * n)
                    .map(|at| {
                        let (i, j) = (at / n, at % n);
                        match () {
                            () if i == j && unit => c(1.0, 0.0),
                            () if i == j || (i > j) == lower => a[at].to(),
                            () => c(0.0, 0.0),
                        }
                    })
                    .collect();
                let used = match (transposed, conjugated) {
                    (true, conjugated) => turned(&used, [n, n], conjugated),
                    (false, true) => used.iter().map(|x| x.conjugate()).collect(),
                    (false, false) => used,
                };
                let b = match left_side {
                    true => product(&used, &x, [n, n, columns]),
                    false => product(&x, &used, [rows, n, n]),
                };
                let mut b: Vec<T> = b.iter().map(|&x| T::from(x)).collect();
                let mut memory = scratch(routine.scratch_bytes::<T>());
                let isa = CpuFeatures::up_to(LEVELS[flags as usize % 3]);
                // SAFETY: the arrays have the routine's sizes, and the scratch memory the requested
                // size.
                unsafe { routine.run(isa, a.as_ptr(), b.as_mut_ptr(), start(&mut memory)) };
                let found: Vec<C> = b.iter().map(|x| x.to()).collect();
                assert_close::<T>(&found, &x, &format!("{n} {other} {flags:b}"));
            }
        }
    }
}

#[test]
fn solutions_give_the_right_hand_sides() {
    solves::<f32>();
    solves::<f64>();
    solves::<Complex<f32>>();
    solves::<Complex<f64>>();
}

fn eliminations<T: Tested>() {
    for rows in [1, 2, 15, 16, 17, 40, 70] {
        for columns in [1, 3, 16, 33, 70] {
            for cpu in LEVELS {
                let steps = rows.min(columns);
                let routine = Lu {
                    rows,
                    columns,
                    count: 1,
                };
                let a: Vec<T> = drawn(rows * columns, 5)
                    .iter()
                    .map(|&x| T::from(x))
                    .collect();
                let mut factors = a.clone();
                let mut pivots = vec![-1; steps];
                let mut permutation = vec![-1; rows];
                let isa = CpuFeatures::up_to(cpu);
                let mut memory = scratch(routine.scratch_bytes::<T>());
                // SAFETY: the arrays have the routine's sizes, and the scratch memory the requested
                // size.
                unsafe {
                    let (factors, pivots) = (factors.as_mut_ptr(), pivots.as_mut_ptr());
                    let places = permutation.as_mut_ptr();
                    routine.run(isa, factors, pivots, places, start(&mut memory));
                }
                let mut order: Vec<i32> = (0..rows as i32).collect();
                for (step, &pivot) in pivots.iter().enumerate() {
                    order.swap(step, pivot as usize);
                }
                assert_eq!(order, permutation);
                let part = |i: usize, j: usize, lower: bool, width: usize| {
                    let x = factors[i * width + j].to();
                    match lower {
                        true if i == j => c(1.0, 0.0),
                        true if i < j => c(0.0, 0.0),
                        false if i > j => c(0.0, 0.0),
                        _ => x,
                    }
                };
                let left: Vec<C> = (0..rows * steps)
                    .map(|at| part(at / steps, at % steps, true, columns))
                    .collect();
                // Pivots have the largest sum of both parts' magnitudes.
                assert!(left.iter().all(|x| x.re.hypot(x.im) <= 1.4143));
                let right: Vec<C> = (0..steps * columns)
                    .map(|at| part(at / columns, at % columns, false, columns))
                    .collect();
                let found = product(&left, &right, [rows, steps, columns]);
                let wanted: Vec<C> = (0..rows * columns)
                    .map(|at| a[permutation[at / columns] as usize * columns + at % columns].to())
                    .collect();
                assert_close::<T>(&found, &wanted, &format!("{rows} {columns} {cpu}"));
            }
        }
    }
}

#[test]
fn factors_of_an_elimination_give_the_rows() {
    eliminations::<f32>();
    eliminations::<f64>();
    eliminations::<Complex<f32>>();
    eliminations::<Complex<f64>>();
}

/// A column without a nonzero pivot stays unchanged.
#[test]
fn singular_matrices_are_eliminated() {
    let mut a = [0.0f64, 2.0, 0.0, 4.0];
    let (mut pivots, mut permutation) = ([9; 2], [9; 2]);
    let routine = Lu {
        rows: 2,
        columns: 2,
        count: 1,
    };
    let isa = CpuFeatures::up_to(IsaLevel::Native);
    let mut memory = scratch(routine.scratch_bytes::<f64>());
    // SAFETY: the arrays have the routine's sizes, and the scratch memory the requested size.
    unsafe {
        let (a, pivots) = (a.as_mut_ptr(), pivots.as_mut_ptr());
        routine.run(isa, a, pivots, permutation.as_mut_ptr(), start(&mut memory));
    }
    assert_eq!(
        (a, pivots, permutation),
        ([0.0, 2.0, 0.0, 4.0], [0, 1], [0, 1])
    );
}

/// Two tridiagonal systems of each size, one of them diagonally dominant.
fn tridiagonal<T: Tested>() {
    for (n, columns) in [(0, 2), (1, 3), (2, 1), (3, 2), (10, 1), (41, 5)] {
        let [below, mut middle, above] = [1, 2, 3].map(|seed| drawn(2 * n, seed));
        for (at, x) in middle.iter_mut().enumerate() {
            x.re += if at < n { 8.0 } else { 0.25 };
        }
        let b = drawn(2 * n * columns, 9);
        let given = [&below, &middle, &above, &b].map(|list| {
            let numbers = list.iter().map(|&x| T::from(x));
            numbers.collect::<Vec<T>>()
        });
        let mut gives = given.each_ref().map(|list| vec![T::ZERO; list.len()]);
        let mut info = [-1; 2];
        let systems = TridiagonalSolve {
            rows: n,
            columns,
            count: 2,
        };
        let from = given.each_ref().map(Vec::as_ptr);
        let to = gives.each_mut().map(Vec::as_mut_ptr);
        // SAFETY: the arrays have the sizes of two systems.
        unsafe { systems.run(from, to, info.as_mut_ptr()) };
        assert_eq!(info, [0; 2]);
        let x = |row: usize, column: usize| gives[3][row * columns + column].to();
        let (mut found, mut wanted) = (Vec::new(), Vec::new());
        let size = gives[3].iter().map(|x| x.to());
        let size = size.fold(1.0f64, |size, x| size.max(x.re.abs()).max(x.im.abs()));
        for row in 0..2 * n {
            let [lower, own, upper] = [0, 1, 2].map(|list: usize| given[list][row].to());
            for column in 0..columns {
                let mut sum = multiplied(own, x(row, column));
                let mut add = |by: C, x: C| {
                    let product = multiplied(by, x);
                    sum = c(sum.re + product.re, sum.im + product.im);
                };
                if row % n > 0 {
                    add(lower, x(row - 1, column));
                }
                if row % n + 1 < n {
                    add(upper, x(row + 1, column));
                }
                let right = given[3][row * columns + column].to();
                found.push(c(sum.re / size, sum.im / size));
                wanted.push(c(right.re / size, right.im / size));
            }
        }
        assert_close::<T>(&found, &wanted, &format!("{n} rows, {columns} right sides"));
    }
    // No pivot in the first row, and in the last one.
    for (middle, row) in [([0.0, 0.0], 1), ([1.0, 0.0], 2)] {
        let zeros = [T::ZERO; 2];
        let middle = middle.map(|x| T::from(c(x, 0.0)));
        let mut gives = [zeros; 4];
        let mut info = [-1];
        let systems = TridiagonalSolve {
            rows: 2,
            columns: 1,
            count: 1,
        };
        let from = [&zeros, &middle, &zeros, &zeros].map(|list| list.as_ptr());
        let to = gives.each_mut().map(|list| list.as_mut_ptr());
        // SAFETY: the arrays have the sizes of a system.
        unsafe { systems.run(from, to, info.as_mut_ptr()) };
        assert_eq!(info, [row]);
    }
}

#[test]
fn tridiagonal_systems_are_solved() {
    tridiagonal::<f32>();
    tridiagonal::<f64>();
    tridiagonal::<Complex<f32>>();
    tridiagonal::<Complex<f64>>();
}
