//! QR factorisations with pivoting by Householder reflections, and reduction to Hessenberg form.

use super::arrays::{Batch, Number, Output, load, sizes_of};
use super::{Call, Results, zeros};
use tegula_ir::lapack_integer;
use tegula_linalg::{Matrix, gehrd, geqp3};

pub(super) fn factor_pivoted<T: Number>(call: &Call<'_>) -> Results {
    let [a, given] = call.operands()?;
    let a = Batch::<T>::of(a)?;
    let (rows, columns) = (a.rows, a.columns);
    if sizes_of(given) != [&a.dims[..], &[columns]].concat() {
        let (given, dims) = (sizes_of(given), &a.dims);
        return Err(format!(
            "pivots of sizes {given:?} do not fit {dims:?} matrices of {columns} columns"
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
        return Err(format!(
            "rows {low} to {high} are not rows of a matrix that has {n}"
        ));
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
