//! The product of a sparse and a dense matrix, as JAX calls it on CPUs: a
//! [handler](crate::CustomCallHandler) that exists in every process, on every target.

use num_complex::Complex;
use std::num::Wrapping;
use std::ops::{Add, Mul};
use tegula_ir::{ArrayShape, Category, ElementType, Literal};
use tegula_scalar::{Bits, BitsMut, Number, apply_convert, decode, encode};

/// `cpu_csr_sparse_dense_ffi(values, starts, columns, dense)` multiplies a matrix in CSR form by a
/// vector or a matrix. Row `r` of the sparse matrix has the elements `starts[r]..starts[r + 1]` of
/// `values`, in the corresponding `columns`.
pub(crate) const CSR_TIMES_DENSE: &str = "cpu_csr_sparse_dense_ffi";

/// The structure of a CSR matrix, checked to be within bounds.
struct Rows {
    starts: Vec<usize>,
    columns: Vec<usize>,
}

impl Rows {
    fn new(starts: &Literal, columns: &Literal, inner: usize) -> Result<Self, String> {
        let numbers = |x: &Literal| -> Result<Vec<usize>, String> {
            if !x.element_type().is_integer() {
                return Err(format!("{} is not an index type", x.element_type()));
            }
            let number = |Wrapping(x): Wrapping<i64>| {
                usize::try_from(x).map_err(|_| format!("expected a non-negative index, found {x}"))
            };
            load::<Wrapping<i64>>(x).into_iter().map(number).collect()
        };
        let (starts, columns) = (numbers(starts)?, numbers(columns)?);
        if !starts.is_sorted() || starts.last().is_some_and(|&end| end > columns.len()) {
            return Err(format!(
                "the row offsets must increase from 0 to at most {}, the number of elements",
                columns.len()
            ));
        }
        match columns.iter().find(|&&column| column >= inner) {
            Some(column) => Err(format!(
                "column {column} is out of range: there are {inner} columns"
            )),
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
/// Invalid operands or results.
pub(crate) fn csr_times_dense(
    operands: &[Literal],
    results: &[ArrayShape],
) -> Result<Vec<Literal>, String> {
    let ([values, starts, columns, dense], [result]) = (operands, results) else {
        return Err("expected four operands and one result".to_owned());
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
    let product = match ty.category() {
        Category::Float => {
            let product = matrix.times(&load::<f64>(values), &load(dense), width);
            store(result, &product)
        }
        Category::Complex => {
            let product = matrix.times(&load::<Complex<f64>>(values), &load(dense), width);
            store(result, &product)
        }
        Category::Boolean | Category::Signed | Category::Unsigned => {
            let product = matrix.times(&load::<Wrapping<i64>>(values), &load(dense), width);
            store(result, &product)
        }
    };
    product.map(|product| vec![product])
}

/// A number type in which products are computed: the widest of each category.
trait Entry: Copy + Default + Add<Output = Self> + Mul<Output = Self> {
    const TYPE: ElementType;

    fn of_number(number: Number) -> Self;
    fn number(self) -> Number;
}

impl Entry for f64 {
    const TYPE: ElementType = ElementType::F64;

    fn of_number(number: Number) -> Self {
        match number {
            Number::Double(x) => x,
            _ => 0.0,
        }
    }

    fn number(self) -> Number {
        Number::Double(self)
    }
}

impl Entry for Wrapping<i64> {
    const TYPE: ElementType = ElementType::S64;

    fn of_number(number: Number) -> Self {
        match number {
            Number::Signed(x) => Self(x),
            _ => Self(0),
        }
    }

    fn number(self) -> Number {
        Number::Signed(self.0)
    }
}

impl Entry for Complex<f64> {
    const TYPE: ElementType = ElementType::C128;

    fn of_number(number: Number) -> Self {
        match number {
            Number::ComplexDouble(x) => x,
            _ => Self::default(),
        }
    }

    fn number(self) -> Number {
        Number::ComplexDouble(self)
    }
}

/// The elements of an array, converted.
fn load<T: Entry>(x: &Literal) -> Vec<T> {
    let (ty, bits) = (x.element_type(), Bits::of(x));
    let number = |i| decode(T::TYPE, apply_convert(ty, T::TYPE, bits.get(i)));
    (0..x.len()).map(|i| T::of_number(number(i))).collect()
}

/// An array of these elements, each converted to the array's type once.
fn store<T: Entry>(shape: &ArrayShape, values: &[T]) -> Result<Literal, String> {
    let mut result = Literal::zeros(shape).map_err(|error| error.to_string())?;
    let ty = shape.element_type;
    let mut bits = BitsMut::of(&mut result);
    for (i, value) in values.iter().enumerate() {
        let wide = encode(T::TYPE, value.number());
        bits.set(i, apply_convert(T::TYPE, ty, wide));
    }
    Ok(result)
}
