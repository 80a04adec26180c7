//! Factorisations by Householder reflections.

use super::arrays::{Batch, Number, Output, load, sizes_of};
use super::{Call, Results, zeros};
use tegula_ir::{Literal, lapack_flag, lapack_integer};
use tegula_linalg::{Matrix, Multiplication, gehrd, geqp3, geqrf, orgqr, ormqr};

pub(super) fn factor<T: Number>(call: &Call<'_>) -> Results {
    let [a] = call.operands()?;
    let a = Batch::<T>::of(a)?;
    let (rows, columns) = (a.rows, a.columns);
    let mut factored = Output::<T>::new(&a.dims, &[rows, columns])?;
    let mut tau = Output::<T>::new(&a.dims, &[rows.min(columns)])?;
    let mut matrix = zeros(rows * columns);
    for index in 0..a.count() {
        a.copy_to(index, &mut matrix);
        geqrf(Matrix::new(&mut matrix, rows, columns), tau.part(index));
        factored.put_matrix(index, rows, columns, &matrix);
    }
    Ok(vec![factored.literal(), tau.literal()])
}

/// The factors of the reflectors in each matrix of a batch: their number and the factors.
fn factors<'t, T: Number>(a: &Batch<'_, T>, tau: &'t Literal) -> Result<(usize, &'t [T]), String> {
    let sizes = sizes_of(tau);
    match sizes.split_last() {
        Some((&count, dims)) if dims == a.dims && count <= a.columns.min(a.rows) => {
            Ok((count, load(tau)?))
        }
        _ => Err(format!(
            "factors {sizes:?} for the columns of {:?} matrices with {} rows and {} columns",
            a.dims, a.rows, a.columns
        )),
    }
}

pub(super) fn generate<T: Number>(call: &Call<'_>) -> Results {
    let [a, tau] = call.operands()?;
    let a = Batch::<T>::of(a)?;
    let (rows, columns) = (a.rows, a.columns);
    let (count, tau) = factors(&a, tau)?;
    if columns > rows {
        return Err(format!("{columns} columns of a matrix with {rows} rows"));
    }
    let mut q = Output::<T>::new(&a.dims, &[rows, columns])?;
    let mut matrix = zeros(rows * columns);
    for index in 0..a.count() {
        a.copy_to(index, &mut matrix);
        let tau = &tau[index * count..][..count];
        orgqr(Matrix::new(&mut matrix, rows, columns), tau);
        q.put_matrix(index, rows, columns, &matrix);
    }
    Ok(vec![q.literal()])
}

pub(super) fn multiply<T: Number>(call: &Call<'_>) -> Results {
    let [a, tau, c] = call.operands()?;
    let a = Batch::<T>::of(a)?;
    let c = Batch::<T>::of(c)?;
    let (count, tau) = factors(&a, tau)?;
    let how = Multiplication {
        left: lapack_flag(call.options, "left")?,
        adjoint: lapack_flag(call.options, "transpose")?,
    };
    let (rows, columns) = (c.rows, c.columns);
    let side = if how.left { rows } else { columns };
    if a.rows != side || a.dims != c.dims {
        return Err(format!(
            "reflectors of {:?} matrices with {} rows do not go with {:?} matrices with {rows} \
             rows and {columns} columns",
            a.dims, a.rows, c.dims
        ));
    }
    let mut product = Output::<T>::new(&c.dims, &[rows, columns])?;
    let mut vectors = zeros(a.rows * a.columns);
    let (mut matrix, mut work) = (zeros(rows * columns), zeros(rows));
    for index in 0..c.count() {
        a.copy_to(index, &mut vectors);
        c.copy_to(index, &mut matrix);
        ormqr(
            how,
            Matrix::new(&mut vectors, a.rows, a.columns),
            &tau[index * count..][..count],
            Matrix::new(&mut matrix, rows, columns),
            &mut work,
        );
        product.put_matrix(index, rows, columns, &matrix);
    }
    Ok(vec![product.literal()])
}

pub(super) fn factor_pivoted<T: Number>(call: &Call<'_>) -> Results {
    let [a, given] = call.operands()?;
    let a = Batch::<T>::of(a)?;
    let (rows, columns) = (a.rows, a.columns);
    if sizes_of(given) != [&a.dims[..], &[columns]].concat() {
        let (given, dims) = (sizes_of(given), &a.dims);
        return Err(format!(
            "pivots {given:?} for {dims:?} matrices of {columns} columns"
        ));
    }
    let given = load::<i32>(given)?;
    let mut factored = Output::<T>::new(&a.dims, &[rows, columns])?;
    let mut pivots = Output::<i32>::new(&a.dims, &[columns])?;
    let mut tau = Output::<T>::new(&a.dims, &[rows.min(columns)])?;
    let mut matrix = zeros(rows * columns);
    let mut norms = zeros::<T::Real>(2 * columns);
    for index in 0..a.count() {
        a.copy_to(index, &mut matrix);
        let own = pivots.part(index);
        own.copy_from_slice(&given[index * columns..][..columns]);
        let matrix_of = Matrix::new(&mut matrix, rows, columns);
        geqp3(matrix_of, own, tau.part(index), &mut norms);
        factored.put_matrix(index, rows, columns, &matrix);
    }
    Ok(vec![factored.literal(), pivots.literal(), tau.literal()])
}

pub(super) fn hessenberg<T: Number>(call: &Call<'_>) -> Results {
    let [a] = call.operands()?;
    let a = Batch::<T>::of(a)?;
    a.expect_square()?;
    let n = a.rows;
    let bound = |name: &str| lapack_integer(call.options, name);
    let (low, high) = (bound("low")?, bound("high")?);
    let first = usize::try_from(low - 1).ok().filter(|&x| x <= n);
    let end = usize::try_from(high).ok().filter(|&x| x <= n);
    let (Some(first), Some(end)) = (first, end) else {
        return Err(format!("rows {low} to {high} of a matrix that has {n}"));
    };
    let mut reduced = Output::<T>::new(&a.dims, &[n, n])?;
    let mut tau = Output::<T>::new(&a.dims, &[n.saturating_sub(1)])?;
    let info = Output::<i32>::new(&a.dims, &[])?;
    let (mut matrix, mut work) = (zeros(n * n), zeros(2 * n));
    for index in 0..a.count() {
        a.copy_to(index, &mut matrix);
        let matrix_of = Matrix::new(&mut matrix, n, n);
        gehrd(matrix_of, first..end, tau.part(index), &mut work);
        reduced.put_matrix(index, n, n, &matrix);
    }
    Ok(vec![reduced.literal(), tau.literal(), info.literal()])
}
