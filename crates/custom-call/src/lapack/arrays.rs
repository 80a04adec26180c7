//! Arrays as batches of column-major matrices, the form that the linear algebra library takes.

use bytemuck::{Pod, PodCastError};
use num_complex::Complex;
use std::marker::PhantomData;
use tegula_ir::{ArrayShape, ElementType, Literal};
use tegula_linalg::Eigen;

/// An element type of the arrays in this module. Arrays are aligned for all of these types.
pub(super) trait Element: Pod + Default {
    const TYPE: ElementType;
}

impl Element for f32 {
    const TYPE: ElementType = ElementType::F32;
}

impl Element for f64 {
    const TYPE: ElementType = ElementType::F64;
}

impl Element for i32 {
    const TYPE: ElementType = ElementType::S32;
}

impl Element for Complex<f32> {
    const TYPE: ElementType = ElementType::C64;
}

impl Element for Complex<f64> {
    const TYPE: ElementType = ElementType::C128;
}

/// A number type that the library computes with and that can be the element type of an array.
pub(super) trait Number: Eigen<Real: Element> + Element {}

impl<T: Eigen<Real: Element> + Element> Number for T {}

/// A batch of matrices, row-major as in the program.
pub(super) struct Batch<'a, T> {
    pub dims: Vec<usize>,
    pub rows: usize,
    pub columns: usize,
    values: &'a [T],
}

impl<'a, T: Element> Batch<'a, T> {
    /// The batch of matrices formed by the last two dimensions of an operand.
    pub(super) fn of(operand: &'a Literal) -> Result<Self, String> {
        let sizes = sizes_of(operand);
        let [dims @ .., rows, columns] = &sizes[..] else {
            return Err(format!(
                "an operand is {}, expected matrices",
                operand.shape()
            ));
        };
        Ok(Self {
            dims: dims.to_vec(),
            rows: *rows,
            columns: *columns,
            values: load(operand)?,
        })
    }

    /// The number of matrices.
    pub(super) fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// Copies a matrix in column-major order.
    pub(super) fn copy_to(&self, index: usize, to: &mut [T]) {
        let size = self.rows * self.columns;
        let from = &self.values[index * size..][..size];
        transpose(from, self.rows, self.columns, to);
    }

    /// Checks that the matrices are square.
    pub(super) fn expect_square(&self) -> Result<(), String> {
        match self.rows == self.columns {
            true => Ok(()),
            false => Err(format!(
                "the matrix is not square: it has {} rows and {} columns",
                self.rows, self.columns
            )),
        }
    }
}

/// Converts a row-major matrix to column-major order, or transposes a column-major matrix.
pub(super) fn transpose<T: Copy>(from: &[T], rows: usize, columns: usize, to: &mut [T]) {
    /// The number of rows of a block for which both arrays stay in the L1 cache.
    const BLOCK: usize = 16;
    for first in (0..rows).step_by(BLOCK) {
        let end = rows.min(first + BLOCK);
        for column in 0..columns {
            for row in first..end {
                to[column * rows + row] = from[row * columns + column];
            }
        }
    }
}

/// The sizes of an operand.
pub(super) fn sizes_of(operand: &Literal) -> Vec<usize> {
    sizes(operand.shape())
}

/// The sizes of an array.
pub(super) fn sizes(shape: &ArrayShape) -> Vec<usize> {
    let dims = shape.dims.iter();
    dims.map(|dim| dim.as_static().map_or(0, |size| size.max(0) as usize))
        .collect()
}

/// The elements of an operand.
pub(super) fn load<T: Element>(operand: &Literal) -> Result<&[T], String> {
    if operand.element_type() != T::TYPE {
        let given = operand.element_type();
        return Err(format!(
            "an operand has elements of type {given}, expected {}",
            T::TYPE
        ));
    }
    bytemuck::try_cast_slice(operand.bytes()).map_err(|error| cast_failed(&error))
}

pub(super) fn cast_failed(error: &PodCastError) -> String {
    format!(
        "an array's bytes are not aligned to its elements, or not a whole number of them: {error}"
    )
}

/// A result that is filled one matrix or vector at a time, row-major.
pub(super) struct Output<T> {
    literal: Literal,
    /// The number of elements of each matrix or vector.
    each: usize,
    element: PhantomData<T>,
}

impl<T: Element> Output<T> {
    /// A result for a batch, filled with zeros.
    pub(super) fn new(batch: &[usize], each: &[usize]) -> Result<Self, String> {
        let sizes = batch.iter().chain(each).map(|&n| n as i64);
        let shape = ArrayShape::new(T::TYPE, &sizes.collect::<Vec<_>>());
        let mut literal = Literal::zeros(&shape).map_err(|error| error.to_string())?;
        let elements = bytemuck::try_cast_slice_mut::<u8, T>(literal.bytes_mut());
        elements.map_err(|error| cast_failed(&error))?;
        Ok(Self {
            literal,
            each: each.iter().product(),
            element: PhantomData,
        })
    }

    /// The elements of one matrix or vector.
    pub(super) fn part(&mut self, index: usize) -> &mut [T] {
        // This cannot fail, because `new` has tried it.
        let elements = bytemuck::try_cast_slice_mut(self.literal.bytes_mut());
        &mut elements.unwrap_or_default()[index * self.each..][..self.each]
    }

    /// A pointer to the first byte.
    pub(super) fn start(&mut self) -> *mut u8 {
        self.literal.bytes_mut().as_mut_ptr()
    }

    /// Stores a column-major matrix.
    pub(super) fn put_matrix(&mut self, index: usize, rows: usize, columns: usize, from: &[T]) {
        // The columns are the rows of the transposed matrix.
        transpose(from, columns, rows, self.part(index));
    }

    /// The array.
    pub(super) fn literal(self) -> Literal {
        self.literal
    }
}
