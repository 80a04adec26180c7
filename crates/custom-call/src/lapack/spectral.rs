//! Eigenvalues and singular values, and the condensed forms of matrices for them.

use super::arrays::{Batch, Element, Number, Output, load, sizes_of};
use super::{Call, Results, zeros};
use num_complex::Complex;
use tegula_ir::{ArrayShape, ElementType, Literal, lapack_option};
use tegula_linalg::dense::{self, TridiagonalSolve};
use tegula_linalg::{
    Matrix, NotConverged, Real, Scalar, SvdMethod, Tridiagonal, gees, geev, gesdd, heevd, hetrd,
};

/// Whether an option has this letter as its value.
fn is(call: &Call<'_>, name: &str, letter: char) -> Result<bool, String> {
    Ok(lapack_option(call.options, name)? == letter)
}

/// Whether the option `uplo` selects the lower triangle.
fn is_lower(call: &Call<'_>) -> Result<bool, String> {
    match lapack_option(call.options, "uplo")? {
        'L' => Ok(true),
        'U' => Ok(false),
        other => Err(format!("`uplo` is `{other}`, expected `L` or `U`")),
    }
}

/// LAPACK's `info` for a result.
fn info_of(found: Result<(), NotConverged>) -> i32 {
    found.map_or_else(|error| error.0.max(1) as i32, |()| 0)
}

fn fill_with_nan<T: Scalar>(part: &mut [T]) {
    part.fill(T::from_real(T::Real::NAN));
}

/// `syevd`, `heevd`.
pub(super) fn self_adjoint<T: Number>(call: &Call<'_>) -> Results {
    let [a] = call.operands()?;
    let a = Batch::<T>::of(a)?;
    a.expect_square()?;
    let (lower, wants_vectors) = (is_lower(call)?, is(call, "mode", 'V')?);
    let n = a.rows;
    let mut vectors = Output::<T>::new(&a.dims, &[n, n])?;
    let mut values = Output::<T::Real>::new(&a.dims, &[n])?;
    let mut info = Output::<i32>::new(&a.dims, &[])?;
    let mut matrix = zeros(n * n);
    for index in 0..a.count() {
        a.copy_to(index, &mut matrix);
        let whole = Matrix::new(&mut matrix, n, n);
        let found = heevd(whole, lower, wants_vectors, values.part(index));
        if found.is_err() {
            fill_with_nan(&mut matrix);
            fill_with_nan(values.part(index));
        }
        if wants_vectors || found.is_err() {
            vectors.put_matrix(index, n, n, &matrix);
        }
        info.part(index).fill(info_of(found));
    }
    Ok(vec![vectors.literal(), values.literal(), info.literal()])
}

/// The number of columns of `u` and the number of rows of the adjoint of `v`, from the shapes of
/// the results.
fn counts_of_vectors(results: &[ArrayShape]) -> Result<[usize; 2], String> {
    let size = |array: usize, from_last: usize| {
        let dims = &results.get(array)?.dims;
        let place = dims.len().checked_sub(from_last)?;
        usize::try_from(dims[place].as_static()?).ok()
    };
    match (size(2, 1), size(3, 2)) {
        (Some(left), Some(right)) => Ok([left, right]),
        _ => Err("expected results that are matrices of known sizes".to_owned()),
    }
}

/// `gesdd`, `gesvd`.
pub(super) fn singular<T: Number>(
    call: &Call<'_>,
    results: &[ArrayShape],
    method: SvdMethod,
) -> Results {
    let [operand] = call.operands()?;
    let a = Batch::<T>::of(operand)?;
    let (rows, columns) = (a.rows, a.columns);
    let wants_vectors = !is(call, "mode", 'N')?;
    let least = rows.min(columns);
    let counts = counts_of_vectors(results)?;
    if counts != [least, least] && counts != [rows, columns] {
        return Err(format!(
            "the routine does not compute {} left and {} right singular vectors of a matrix of {rows} rows and {columns} columns",
            counts[0], counts[1]
        ));
    }
    let mut values = Output::<T::Real>::new(&a.dims, &[least])?;
    let mut left = Output::<T>::new(&a.dims, &[rows, counts[0]])?;
    let mut right = Output::<T>::new(&a.dims, &[counts[1], columns])?;
    let mut info = Output::<i32>::new(&a.dims, &[])?;
    let mut matrix = zeros(rows * columns);
    let sizes = if wants_vectors {
        [rows * counts[0], columns * counts[1]]
    } else {
        [0, 0]
    };
    let [mut u, mut v] = sizes.map(zeros::<T>);
    for index in 0..a.count() {
        a.copy_to(index, &mut matrix);
        let whole = Matrix::new(&mut matrix, rows, columns);
        let vectors = wants_vectors.then(|| {
            let u = Matrix::new(&mut u, rows, counts[0]);
            [u, Matrix::new(&mut v, columns, counts[1])]
        });
        let found = gesdd(method, whole, values.part(index), vectors);
        if found.is_err() {
            fill_with_nan(values.part(index));
            fill_with_nan(left.part(index));
            fill_with_nan(right.part(index));
        } else if wants_vectors {
            left.put_matrix(index, rows, counts[0], &u);
            // The rows of the adjoint are the conjugate columns of `v`.
            for (to, from) in right.part(index).iter_mut().zip(&v) {
                *to = from.conj();
            }
        }
        info.part(index).fill(info_of(found));
    }
    Ok(vec![
        operand.clone(),
        values.literal(),
        left.literal(),
        right.literal(),
        info.literal(),
    ])
}

/// Eigenvalues as the results of a call; for real matrices as real and imaginary parts.
struct Values<T: Number> {
    re: Output<T::Real>,
    im: Output<T::Real>,
}

impl<T: Number> Values<T> {
    fn new(dims: &[usize], n: usize) -> Result<Self, String> {
        Ok(Self {
            re: Output::new(dims, &[n])?,
            im: Output::new(dims, &[n])?,
        })
    }

    fn literals(mut self, dims: &[usize], n: usize) -> Results {
        if !T::IS_COMPLEX {
            return Ok(vec![self.re.literal(), self.im.literal()]);
        }
        let mut both = Output::<T>::new(dims, &[n])?;
        for index in 0..dims.iter().product() {
            let parts = self.re.part(index).iter().zip(self.im.part(index));
            for (to, (&re, &mut im)) in both.part(index).iter_mut().zip(parts) {
                *to = T::from_parts(re, im);
            }
        }
        Ok(vec![both.literal()])
    }
}

/// `geev`.
pub(super) fn general<T: Number>(call: &Call<'_>) -> Results
where
    Complex<T::Real>: Element,
{
    let [a] = call.operands()?;
    let a = Batch::<T>::of(a)?;
    a.expect_square()?;
    let wanted = [
        is(call, "compute_left", 'V')?,
        is(call, "compute_right", 'V')?,
    ];
    let n = a.rows;
    let mut values = Values::<T>::new(&a.dims, n)?;
    let output = || Output::<Complex<T::Real>>::new(&a.dims, &[n, n]);
    let mut both = [output()?, output()?];
    let mut info = Output::<i32>::new(&a.dims, &[])?;
    let mut matrix = zeros(n * n);
    let [mut left, mut right] = wanted.map(|is| zeros::<T>(if is { n * n } else { 0 }));
    for index in 0..a.count() {
        a.copy_to(index, &mut matrix);
        let [own_left, own_right] = [(wanted[0], &mut left), (wanted[1], &mut right)]
            .map(|(is, memory)| is.then(|| Matrix::new(memory, n, n)));
        let parts = [values.re.part(index), values.im.part(index)];
        let found = geev(Matrix::new(&mut matrix, n, n), own_left, own_right, parts);
        let nan = T::Real::NAN;
        if found.is_err() {
            values.re.part(index).fill(nan);
            values.im.part(index).fill(nan);
        }
        for ((output, packed), wanted) in both.iter_mut().zip([&left, &right]).zip(wanted) {
            if found.is_err() {
                output.part(index).fill(Complex::new(nan, nan));
            } else if wanted {
                unpack(packed, values.im.part(index), output.part(index));
            }
        }
        info.part(index).fill(info_of(found));
    }
    let mut literals = values.literals(&a.dims, n)?;
    for output in both {
        literals.push(output.literal());
    }
    literals.push(info.literal());
    Ok(literals)
}

/// Unpacks vectors to row-major order. The packed vectors for two conjugate eigenvalues of a real
/// matrix are the real and the imaginary part of the first one's vector.
fn unpack<T: Number>(packed: &[T], values_im: &[T::Real], to: &mut [Complex<T::Real>]) {
    let n = values_im.len();
    let mut column = 0;
    while column < n {
        let is_pair = !T::IS_COMPLEX && values_im[column] != T::Real::ZERO && column + 1 < n;
        for row in 0..n {
            let x = packed[column * n + row];
            let at = row * n + column;
            if is_pair {
                let im = packed[(column + 1) * n + row].re();
                to[at] = Complex::new(x.re(), im);
                to[at + 1] = Complex::new(x.re(), -im);
            } else {
                to[at] = Complex::new(x.re(), x.im());
            }
        }
        column += 1 + usize::from(is_pair);
    }
}

/// `gees`.
pub(super) fn schur<T: Number>(call: &Call<'_>) -> Results {
    let [a] = call.operands()?;
    let a = Batch::<T>::of(a)?;
    a.expect_square()?;
    let wants_vectors = is(call, "mode", 'V')?;
    if is(call, "sort", 'S')? {
        return Err("`sort` is `S`: eigenvalues cannot be selected".to_owned());
    }
    let n = a.rows;
    let mut form = Output::<T>::new(&a.dims, &[n, n])?;
    let mut vectors = Output::<T>::new(&a.dims, &[n, n])?;
    let mut values = Values::<T>::new(&a.dims, n)?;
    let selected = Output::<i32>::new(&a.dims, &[])?;
    let mut info = Output::<i32>::new(&a.dims, &[])?;
    let mut matrix = zeros(n * n);
    let mut z = zeros(if wants_vectors { n * n } else { 0 });
    for index in 0..a.count() {
        a.copy_to(index, &mut matrix);
        let own = wants_vectors.then(|| Matrix::new(&mut z, n, n));
        let parts = [values.re.part(index), values.im.part(index)];
        let found = gees(Matrix::new(&mut matrix, n, n), own, parts);
        if found.is_err() {
            fill_with_nan(&mut matrix);
            fill_with_nan(&mut z);
            fill_with_nan(values.re.part(index));
            fill_with_nan(values.im.part(index));
        }
        form.put_matrix(index, n, n, &matrix);
        if wants_vectors {
            vectors.put_matrix(index, n, n, &z);
        }
        info.part(index).fill(info_of(found));
    }
    let mut literals = vec![form.literal(), vectors.literal()];
    literals.extend(values.literals(&a.dims, n)?);
    literals.extend([selected.literal(), info.literal()]);
    Ok(literals)
}

/// `sytrd`, `hetrd`.
pub(super) fn tridiagonal<T: Number>(call: &Call<'_>) -> Results {
    let [a] = call.operands()?;
    let a = Batch::<T>::of(a)?;
    a.expect_square()?;
    let is_lower = is_lower(call)?;
    let n = a.rows;
    let fewer = n.saturating_sub(1);
    let mut reduced = Output::<T>::new(&a.dims, &[n, n])?;
    let mut diagonal = Output::<T::Real>::new(&a.dims, &[n])?;
    let mut beside = Output::<T::Real>::new(&a.dims, &[fewer])?;
    let mut tau = Output::<T>::new(&a.dims, &[fewer])?;
    let info = Output::<i32>::new(&a.dims, &[])?;
    let (mut matrix, mut work) = (zeros(n * n), zeros(4 * n));
    for index in 0..a.count() {
        a.copy_to(index, &mut matrix);
        if !is_lower {
            // Reverses the order of rows and columns.
            matrix.reverse();
        }
        let form = Tridiagonal {
            diagonal: diagonal.part(index),
            beside: beside.part(index),
            tau: tau.part(index),
        };
        hetrd(Matrix::new(&mut matrix, n, n), form, &mut work);
        if !is_lower {
            matrix.reverse();
            diagonal.part(index).reverse();
            beside.part(index).reverse();
            tau.part(index).reverse();
        }
        reduced.put_matrix(index, n, n, &matrix);
    }
    Ok(vec![
        reduced.literal(),
        diagonal.literal(),
        beside.literal(),
        tau.literal(),
        info.literal(),
    ])
}

/// `gtsv`.
pub(super) fn tridiagonal_solve<T: Number>(call: &Call<'_>) -> Results {
    let [below, diagonal, above, b] = call.operands()?;
    let b = Batch::<T>::of(b)?;
    let n = b.rows;
    let of_rows = [&b.dims[..], &[n]].concat();
    let diagonals = [below, diagonal, above];
    if diagonals.iter().any(|x| sizes_of(x) != of_rows) {
        let right = [&of_rows[..], &[b.columns]].concat();
        return Err(format!(
            "expected three diagonals of sizes {of_rows:?} and right-hand sides of sizes {right:?}"
        ));
    }
    for diagonal in diagonals {
        load::<T>(diagonal)?;
    }
    let systems = TridiagonalSolve {
        rows: n,
        columns: b.columns,
        count: b.count(),
    };
    let output = |last: &[usize]| Output::<T>::new(&b.dims, last);
    let mut outputs = [
        output(&[n])?,
        output(&[n])?,
        output(&[n])?,
        output(&[n, b.columns])?,
    ];
    let mut info = Output::<i32>::new(&b.dims, &[])?;
    let [below, diagonal, above, right] = call.operands()?;
    let given = [below, diagonal, above, right].map(|operand| operand.bytes().as_ptr());
    let gives = outputs.each_mut().map(Output::start);
    let info_start = info.start().cast();
    /// Solves the systems for one element type.
    macro_rules! solve {
        ($ty:ty) => {
            // SAFETY: the operands were checked to have these sizes and this type, the results were
            // made with them, and all are aligned for the type.
            unsafe {
                let (given, gives) = (given.map(|x| x.cast::<$ty>()), gives.map(|x| x.cast()));
                systems.run(given, gives, info_start);
            }
        };
    }
    match T::TYPE {
        ElementType::F32 => solve!(f32),
        ElementType::F64 => solve!(f64),
        ElementType::C64 => solve!(dense::Complex<f32>),
        _ => solve!(dense::Complex<f64>),
    }
    let mut literals: Vec<Literal> = Vec::new();
    for output in outputs {
        literals.push(output.literal());
    }
    literals.push(info.literal());
    Ok(literals)
}
