//! A sparse matrix times a dense one, as JAX calls it on CPUs: a
//! [handler](crate::CustomCallHandler) that every process has, on every target.

use crate::dot::{Domain, load_complex, load_floats, load_integers, store_complex, store_integers};
use crate::error::Fault;
use crate::matmul::Entry;
use crate::movement::indices;
use crate::reduce::from_f64s;
use tegula_ir::{ArrayShape, Literal};

/// `cpu_csr_sparse_dense_ffi(values, starts, columns, dense)`: a matrix of compressed sparse rows
/// (row `r` has the elements `starts[r]..starts[r + 1]` of `values`, in these `columns`) times a
/// vector or a matrix.
pub(crate) const CSR_TIMES_DENSE: &str = "cpu_csr_sparse_dense_ffi";

/// The compressed sparse rows, checked to lie in what they refer to.
struct Rows {
    starts: Vec<usize>,
    columns: Vec<usize>,
}

impl Rows {
    fn new(starts: &Literal, columns: &Literal, inner: usize) -> Result<Self, String> {
        let numbers = |x: &Literal| -> Result<Vec<usize>, String> {
            let found = indices(x).map_err(Fault::into_reason)?;
            let number = |x: i64| usize::try_from(x).map_err(|_| format!("{x} is no index"));
            found.into_iter().map(number).collect()
        };
        let (starts, columns) = (numbers(starts)?, numbers(columns)?);
        if !starts.is_sorted() || starts.last().is_some_and(|&end| end > columns.len()) {
            return Err(format!(
                "the rows are not parts of {} elements",
                columns.len()
            ));
        }
        match columns.iter().find(|&&column| column >= inner) {
            Some(column) => Err(format!("there is no column {column}, of {inner}")),
            None => Ok(Self { starts, columns }),
        }
    }

    /// The product with `dense`, whose rows have `width` elements.
    fn times<T: Entry>(&self, values: &[T], dense: &[T], width: usize) -> Vec<T> {
        let mut result = vec![T::default(); self.starts.len().saturating_sub(1) * width];
        for (row, ends) in self.starts.windows(2).enumerate() {
            let elements = values.iter().zip(&self.columns);
            for (&value, &column) in elements.take(ends[1]).skip(ends[0]) {
                let added = &dense[column * width..][..width];
                let sums = &mut result[row * width..][..width];
                for (sum, &x) in sums.iter_mut().zip(added) {
                    *sum = *sum + value * x;
                }
            }
        }
        result
    }
}

/// The results of a call.
///
/// # Errors
/// Operands or results are not those of the routine.
pub(crate) fn csr_times_dense(
    operands: &[Literal],
    results: &[ArrayShape],
) -> Result<Vec<Literal>, String> {
    let ([values, starts, columns, dense], [result]) = (operands, results) else {
        return Err("the routine has four operands and a result".to_owned());
    };
    let (dense_dims, dims) = (dense.shape().static_dims(), result.static_dims());
    let (dense_dims, dims) = (dense_dims.unwrap_or_default(), dims.unwrap_or_default());
    let ty = result.element_type;
    let [inner, width @ ..] = &dense_dims[..] else {
        return Err("the dense operand must be a vector or a matrix".to_owned());
    };
    let rows = starts
        .len()
        .checked_sub(1)
        .and_then(|rows| i64::try_from(rows).ok());
    let fits = width.len() <= 1
        && rows.is_some_and(|rows| dims.first() == Some(&rows))
        && dims.get(1..) == Some(width)
        && values.len() == columns.len()
        && [values, dense].iter().all(|x| x.element_type() == ty);
    if !fits {
        return Err(format!(
            "{result} is not the product of a sparse matrix of {} rows and {}",
            rows.unwrap_or(0),
            dense.shape()
        ));
    }
    let matrix = Rows::new(starts, columns, usize::try_from(*inner).unwrap_or(0))?;
    let width = usize::try_from(width.first().copied().unwrap_or(1)).unwrap_or(0);
    let product = match Domain::of(ty) {
        Domain::Float => {
            let (values, dense) = (load_floats(values), load_floats(dense));
            from_f64s(result, &matrix.times(&values, &dense, width))
        }
        Domain::Integer => {
            let (values, dense) = (load_integers(values), load_integers(dense));
            store_integers(result, &matrix.times(&values, &dense, width))
        }
        Domain::Complex => {
            let (values, dense) = (load_complex(values), load_complex(dense));
            store_complex(result, &matrix.times(&values, &dense, width))
        }
    };
    product
        .map(|product| vec![product])
        .map_err(Fault::into_reason)
}
