//! QR factorisations and products with their `Q`, on batches of row-major matrices in
//! caller-provided memory. A run looks up, allocates and copies nothing but the matrices; for small
//! systems in loops, that overhead took longer than the routines.

use super::arrays::{Element, Number, cast_failed, sizes, transpose};
use num_complex::Complex;
use tegula_ir::{ArrayShape, CustomCall, ElementType, lapack_flag};
use tegula_linalg::{Matrix, Multiplication, geqrf, orgqr, ormqr};

/// The operation on the reflections of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `geqrf(a)` computes the reflections.
    Factor,
    /// `orgqr(a, tau)`, `ungqr(a, tau)` compute the first columns of their product.
    Generate,
    /// `ormqr(a, tau, c)`, `unmqr(a, tau, c)` multiply `c` by their product.
    Multiply,
}

/// A routine on arrays of fixed sizes.
#[derive(Clone, Debug)]
pub(crate) struct Reflections {
    kind: Kind,
    element_type: ElementType,
    /// The batch dimensions, and the number of matrices.
    batch: Vec<usize>,
    count: usize,
    /// The size of each matrix of reflectors.
    rows: usize,
    columns: usize,
    /// The number of reflectors in each matrix.
    factors: usize,
    /// The rows and columns of each `c`, and the side and form of the multiplication.
    other: [usize; 2],
    how: Multiplication,
}

impl Reflections {
    /// The routine for operands of these shapes.
    ///
    /// # Errors
    /// Invalid operands or options.
    pub(super) fn new(
        kind: Kind,
        element_type: ElementType,
        options: &CustomCall,
        operands: &[&ArrayShape],
    ) -> Result<Self, String> {
        let given = operands.len();
        let expected = match kind {
            Kind::Factor => 1,
            Kind::Generate => 2,
            Kind::Multiply => 3,
        };
        if given != expected {
            return Err(format!("expected {expected} operands, found {given}"));
        }
        if let Some(other) = operands.iter().find(|s| s.element_type != element_type) {
            let found = other.element_type;
            return Err(format!(
                "expected an operand of {element_type}, found {found}"
            ));
        }
        let (batch, [rows, columns]) = matrices(operands[0])?;
        let mut call = Self {
            kind,
            element_type,
            count: batch.iter().product(),
            batch,
            rows,
            columns,
            factors: rows.min(columns),
            other: [0, 0],
            how: Multiplication {
                left: true,
                adjoint: false,
            },
        };
        if let Some(tau) = operands.get(1) {
            call.factors = call.factors_of(tau)?;
        }
        match operands {
            [_, _] if columns > rows => {
                return Err(format!(
                    "expected at most as many columns as rows: there are {columns} columns and \
                        {rows} rows"
                ));
            }
            [_, _, c] => {
                call.how = Multiplication {
                    left: lapack_flag(options, "left")?,
                    adjoint: lapack_flag(options, "transpose")?,
                };
                let (batch, other) = matrices(c)?;
                let [c_rows, c_columns] = other;
                if rows != other[usize::from(!call.how.left)] || batch != call.batch {
                    return Err(format!(
                        "reflectors of {:?} matrices with {rows} rows do not match {batch:?} matrices with {c_rows} rows and {c_columns} columns",
                        call.batch
                    ));
                }
                call.other = other;
            }
            _ => {}
        }
        Ok(call)
    }

    /// The number of scalar factors, and so of reflectors, for each matrix.
    fn factors_of(&self, tau: &ArrayShape) -> Result<usize, String> {
        let sizes = sizes(tau);
        match sizes.split_last() {
            Some((&count, batch))
                if batch == self.batch && count <= self.columns.min(self.rows) =>
            {
                Ok(count)
            }
            _ => Err(format!(
                "factors {sizes:?} do not match the columns of {:?} matrices with {} rows and {} columns",
                self.batch, self.rows, self.columns
            )),
        }
    }

    /// The shapes of the results.
    pub(super) fn results(&self) -> Vec<ArrayShape> {
        let array = |last: &[usize]| {
            let sizes: Vec<i64> = self.batch.iter().chain(last).map(|&n| n as i64).collect();
            ArrayShape::new(self.element_type, &sizes)
        };
        match self.kind {
            Kind::Factor => vec![array(&[self.rows, self.columns]), array(&[self.factors])],
            Kind::Generate => vec![array(&[self.rows, self.columns])],
            Kind::Multiply => vec![array(&self.other)],
        }
    }

    /// The number of bytes of scratch memory for a run.
    pub(crate) fn scratch_bytes(&self) -> usize {
        let [rows, columns] = self.other;
        let elements = self.rows * self.columns + rows * columns + rows;
        elements * self.element_type.storage_bytes()
    }

    /// Computes the results. The arrays have the shapes of the operands and of [the
    /// results](Self::results); `scratch` has [`Self::scratch_bytes`]. All are aligned to their
    /// elements.
    ///
    /// # Errors
    /// The arrays have other sizes or alignments.
    pub(crate) fn run(
        &self,
        operands: &[&[u8]],
        results: &mut [&mut [u8]],
        scratch: &mut [u8],
    ) -> Result<(), String> {
        match self.element_type {
            ElementType::F32 => self.compute::<f32>(operands, results, scratch),
            ElementType::F64 => self.compute::<f64>(operands, results, scratch),
            ElementType::C64 => self.compute::<Complex<f32>>(operands, results, scratch),
            _ => self.compute::<Complex<f64>>(operands, results, scratch),
        }
    }

    fn compute<T: Number>(
        &self,
        operands: &[&[u8]],
        results: &mut [&mut [u8]],
        scratch: &mut [u8],
    ) -> Result<(), String> {
        let (rows, columns, factors) = (self.rows, self.columns, self.factors);
        let (size, [c_rows, c_columns]) = (rows * columns, self.other);
        let c_size = c_rows * c_columns;
        let (of_a, of_tau, of_c) = (self.count * size, self.count * factors, self.count * c_size);
        let scratch = elements_mut::<T>(scratch, size + c_size + c_rows)?;
        let (vectors, rest) = scratch.split_at_mut(size);
        match (operands, results) {
            ([a], [factored, tau]) => {
                let (a, factored) = (elements(a, of_a)?, elements_mut(factored, of_a)?);
                let tau = elements_mut(tau, of_tau)?;
                for index in 0..self.count {
                    transpose(&a[index * size..][..size], rows, columns, vectors);
                    let tau = &mut tau[index * factors..][..factors];
                    geqrf(Matrix::new(vectors, rows, columns), tau);
                    transpose(vectors, columns, rows, &mut factored[index * size..]);
                }
            }
            ([a, tau], [q]) => {
                let (a, tau) = (elements(a, of_a)?, elements::<T>(tau, of_tau)?);
                let q = elements_mut(q, of_a)?;
                for index in 0..self.count {
                    transpose(&a[index * size..][..size], rows, columns, vectors);
                    let tau = &tau[index * factors..][..factors];
                    orgqr(Matrix::new(vectors, rows, columns), tau);
                    transpose(vectors, columns, rows, &mut q[index * size..]);
                }
            }
            ([a, tau, c], [product]) => {
                let (a, tau) = (elements(a, of_a)?, elements::<T>(tau, of_tau)?);
                let (c, product) = (elements(c, of_c)?, elements_mut(product, of_c)?);
                let (own, work) = rest.split_at_mut(c_size);
                for index in 0..self.count {
                    transpose(&a[index * size..][..size], rows, columns, vectors);
                    transpose(&c[index * c_size..][..c_size], c_rows, c_columns, own);
                    ormqr(
                        self.how,
                        Matrix::new(vectors, rows, columns),
                        &tau[index * factors..][..factors],
                        Matrix::new(own, c_rows, c_columns),
                        work,
                    );
                    transpose(own, c_columns, c_rows, &mut product[index * c_size..]);
                }
            }
            _ => {
                return Err(
                    "the number or types of operands and results do not fit the routine".to_owned(),
                );
            }
        }
        Ok(())
    }
}

/// The batch dimensions, and the rows and columns of each matrix.
fn matrices(shape: &ArrayShape) -> Result<(Vec<usize>, [usize; 2]), String> {
    let sizes = sizes(shape);
    match sizes.split_last_chunk() {
        Some((batch, &last)) => Ok((batch.to_vec(), last)),
        None => Err(format!("an operand is {shape}, expected matrices")),
    }
}

/// The elements of an array. An empty array may have any alignment.
fn elements<T: Element>(bytes: &[u8], count: usize) -> Result<&[T], String> {
    if count == 0 {
        return Ok(&[]);
    }
    let elements = bytemuck::try_cast_slice(bytes).map_err(|error| cast_failed(&error))?;
    elements.get(..count).ok_or_else(|| of_another_size(count))
}

/// As [`elements`], for writing.
fn elements_mut<T: Element>(bytes: &mut [u8], count: usize) -> Result<&mut [T], String> {
    if count == 0 {
        return Ok(&mut []);
    }
    let elements = bytemuck::try_cast_slice_mut(bytes).map_err(|error| cast_failed(&error))?;
    elements
        .get_mut(..count)
        .ok_or_else(|| of_another_size(count))
}

fn of_another_size(expected: usize) -> String {
    format!("an array has fewer than {expected} elements")
}
