//! Arrays as batches of column-major matrices, which is what the library takes.

use num_complex::Complex;
use tegula_ir::{ArrayShape, ElementType, Literal};
use tegula_linalg::Eigen;

/// What an array here is made of.
pub(super) trait Element: Copy + Default {
    const TYPE: ElementType;
    const BYTES: usize;

    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
}

macro_rules! element {
    ($ty:ty, $name:ident, $bytes:literal) => {
        impl Element for $ty {
            const TYPE: ElementType = ElementType::$name;
            const BYTES: usize = $bytes;

            fn read(bytes: &[u8]) -> Self {
                let mut own = [0; $bytes];
                own.copy_from_slice(bytes);
                Self::from_ne_bytes(own)
            }

            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
        }
    };
}

element!(f32, F32, 4);
element!(f64, F64, 8);
element!(i32, S32, 4);

macro_rules! complex {
    ($part:ty, $name:ident, $bytes:literal) => {
        impl Element for Complex<$part> {
            const TYPE: ElementType = ElementType::$name;
            const BYTES: usize = $bytes;

            fn read(bytes: &[u8]) -> Self {
                let (re, im) = bytes.split_at($bytes / 2);
                Self::new(<$part>::read(re), <$part>::read(im))
            }

            fn write(self, bytes: &mut [u8]) {
                let (re, im) = bytes.split_at_mut($bytes / 2);
                self.re.write(re);
                self.im.write(im);
            }
        }
    };
}

complex!(f32, C64, 8);
complex!(f64, C128, 16);

/// A number that the library computes with, and that arrays are made of.
pub(super) trait Number: Eigen<Real: Element> + Element {}

impl<T: Eigen<Real: Element> + Element> Number for T {}

/// A batch of matrices, row-major as in the program.
pub(super) struct Batch<T> {
    pub dims: Vec<usize>,
    pub rows: usize,
    pub columns: usize,
    values: Vec<T>,
}

impl<T: Element> Batch<T> {
    /// The matrices of the last two dimensions of an operand.
    pub(super) fn of(operand: &Literal) -> Result<Self, String> {
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

    /// How many matrices there are.
    pub(super) fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// Copies a matrix, column-major.
    pub(super) fn copy_to(&self, index: usize, to: &mut [T]) {
        let size = self.rows * self.columns;
        let from = &self.values[index * size..][..size];
        transpose(from, self.rows, self.columns, to);
    }

    /// The error of an operand whose matrices are not square.
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

/// Writes a row-major matrix column-major, or the transpose of a column-major one row-major.
pub(super) fn transpose<T: Copy>(from: &[T], rows: usize, columns: usize, to: &mut [T]) {
    /// Rows of a block whose reads and writes stay in the L1 cache.
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
    let dims = operand.shape().dims.iter();
    dims.map(|dim| dim.as_static().map_or(0, |size| size.max(0) as usize))
        .collect()
}

/// The elements of an operand.
pub(super) fn load<T: Element>(operand: &Literal) -> Result<Vec<T>, String> {
    if operand.element_type() != T::TYPE {
        let given = operand.element_type();
        return Err(format!("an operand is of {given}, not of {}", T::TYPE));
    }
    Ok(operand
        .bytes()
        .chunks_exact(T::BYTES)
        .map(T::read)
        .collect())
}

/// Results that are written one matrix or vector after the other, row-major.
pub(super) struct Output<T> {
    shape: ArrayShape,
    values: Vec<T>,
    /// Elements of each matrix or vector.
    each: usize,
}

impl<T: Element> Output<T> {
    /// A result for a batch.
    pub(super) fn new(batch: &[usize], each: &[usize]) -> Self {
        let dims: Vec<usize> = batch.iter().chain(each).copied().collect();
        Self {
            shape: ArrayShape::new(T::TYPE, &dims.iter().map(|&n| n as i64).collect::<Vec<_>>()),
            values: vec![T::default(); dims.iter().product()],
            each: each.iter().product(),
        }
    }

    /// The part of one matrix.
    pub(super) fn part(&mut self, index: usize) -> &mut [T] {
        &mut self.values[index * self.each..][..self.each]
    }

    /// Writes a column-major matrix.
    pub(super) fn put_matrix(&mut self, index: usize, rows: usize, columns: usize, from: &[T]) {
        // Its columns are the rows of the transpose.
        transpose(from, columns, rows, self.part(index));
    }

    /// The array.
    pub(super) fn literal(self) -> Result<Literal, String> {
        let mut literal = Literal::zeros(&self.shape).map_err(|e| e.to_string())?;
        let bytes = literal.bytes_mut().chunks_exact_mut(T::BYTES);
        for (value, bytes) in self.values.iter().zip(bytes) {
            value.write(bytes);
        }
        Ok(literal)
    }
}
