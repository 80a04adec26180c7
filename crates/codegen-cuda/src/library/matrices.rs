//! Converts a dot to a matrix product as cublasLt defines it.
//!
//! cublasLt's matrices are column-major: columns are contiguous and `leading` elements apart, and
//! batches are `stride` elements apart. The product is D = op(A) op(B), where op transposes or not.
//! A dot can be converted if the labels of each of its four groups have a single common stride in
//! every array, and if rows or columns of the result are contiguous; these become the rows of D. So
//! the row-major product of X and Y is D = Y X, and nothing is copied.

use super::gemm::{BATCH, COLUMNS, Product, ROWS, SUMMED};
use std::fmt;
use tegula_expr::Term;
use tegula_fusion::{Contraction, Label};
use tegula_ir::{ArrayShape, ElementType};

/// The fewest multiply-adds for which the library is called: those of one tile of 64 x 64 x 64.
/// cublasLt takes 3.4 us for it on an H100 (27 November 2026), little more than a launch.
const WORTH_A_CALL: i64 = 64 * 64 * 64;

/// The operations on an element of the product before it is rounded and stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Epilogue {
    /// Whether an element of a vector along the result's contiguous dimension is added.
    pub bias: bool,
    pub activation: Option<Activation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Activation {
    /// `max(x, 0)`.
    Relu,
    /// `x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.
    Gelu,
}

/// The layout of a matrix in memory, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Matrix {
    /// Whether op transposes it.
    pub transposed: bool,
    /// The distance between contiguous runs (the leading dimension).
    pub leading: i64,
    /// The distance between batches.
    pub stride: i64,
}

/// A matrix product.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Matrices {
    /// Whether A is the dot's right operand.
    pub swapped: bool,
    /// The type of A and B, and that of D.
    pub types: [ElementType; 2],
    /// The rows and columns of D, the number of terms of each sum, and the number of batches.
    pub rows: i64,
    pub columns: i64,
    pub depth: i64,
    pub batch: i64,
    /// A, B and D.
    pub matrices: [Matrix; 3],
    /// Whether a matrix with D's layout is added.
    pub added: bool,
    pub epilogue: Epilogue,
}

/// The matrix product of a dot on static shapes; `None` if the library does not support its types
/// or order of dimensions, or if it is not worth a call.
pub(crate) fn matrices(
    contraction: &Contraction,
    operands: [&ArrayShape; 2],
    result: ElementType,
    added: bool,
    epilogue: Epilogue,
) -> Option<Matrices> {
    let [lhs, rhs] = operands.map(|shape| shape.element_type);
    if lhs != rhs || !has_product(lhs, result) {
        return None;
    }
    let product = Product::of_dot(contraction, operands, result, added, &[]);
    let out = |group| runs(&product, group, 2);
    let [(batch, apart), rows, columns] = [out(BATCH)?, out(ROWS)?, out(COLUMNS)?];
    let depth = runs(&product, SUMMED, 0)?.0;
    let work = [rows.0, columns.0, depth, batch];
    let work = work.into_iter().try_fold(1, i64::checked_mul)?;
    if work < WORTH_A_CALL {
        return None;
    }
    // A run of one element counts as contiguous.
    let is_dense = |(size, stride): (i64, i64)| size == 1 || stride == 1;
    let swapped = is_dense(columns);
    let (first, second, [a, b]) = match swapped {
        true => (columns, rows, [(1, COLUMNS), (0, ROWS)]),
        false => (rows, columns, [(0, ROWS), (1, COLUMNS)]),
    };
    if !is_dense(first) {
        return None;
    }
    // `along` is the group of A's rows or B's columns; a matrix that is not transposed is
    // contiguous along `first`.
    let matrix = |(side, along): (usize, usize), is_left: bool| -> Option<Matrix> {
        let groups = [along, SUMMED].map(|group| runs(&product, group, side));
        let [own, summed] = [groups[0]?, groups[1]?];
        let stride = runs(&product, BATCH, side)?.1;
        let (plain, other) = match is_left {
            true => (own, summed),
            false => (summed, own),
        };
        let lies = |run: (i64, i64), next: (i64, i64)| {
            let leading = leading(run.0, next)?;
            is_dense(run).then_some(leading)
        };
        let (transposed, leading) = match lies(plain, other) {
            Some(leading) => (false, leading),
            None => (true, lies(other, plain)?),
        };
        Some(Matrix {
            transposed,
            leading,
            stride,
        })
    };
    let found = Matrices {
        swapped,
        types: [lhs, result],
        rows: first.0,
        columns: second.0,
        depth,
        batch,
        matrices: [
            matrix(a, true)?,
            matrix(b, false)?,
            Matrix {
                transposed: false,
                leading: leading(first.0, second)?,
                stride: apart,
            },
        ],
        added,
        epilogue,
    };
    found.is_allowed().then_some(found)
}

/// The leading dimension for runs of this length.
fn leading(length: i64, (runs, stride): (i64, i64)) -> Option<i64> {
    match runs {
        1 => Some(length),
        _ => (stride >= length).then_some(stride),
    }
}

/// Whether the library has products of these types. Sums are in f32 for half precision, in s32 for
/// bytes, otherwise in the type itself.
pub(crate) fn has_product(factors: ElementType, result: ElementType) -> bool {
    use ElementType::{BF16, F16, F32, F64, S8, S32};
    matches!(
        (factors, result),
        (F32, F32) | (F64, F64) | (BF16, BF16 | F32) | (F16, F16 | F32) | (S8, S32)
    )
}

/// The size of a group, and its stride in an array; `None` if there is no single stride.
fn runs(product: &Product<'_>, group: usize, side: usize) -> Option<(i64, i64)> {
    let label = |label: Label| -> Option<(i64, i64)> {
        let size = product.size(label).as_constant()?;
        let stride = product.strides[side].get(&label);
        Some((size, stride.map_or(Some(0), Term::as_constant)?))
    };
    let mut all: Option<(i64, i64)> = None;
    for &own in product.groups[group].iter().rev() {
        let (size, stride) = label(own)?;
        if size == 1 {
            continue;
        }
        all = Some(match all {
            None => (size, stride),
            Some((inner, apart)) if inner.checked_mul(apart)? == stride => {
                (inner.checked_mul(size)?, apart)
            }
            Some(_) => return None,
        });
    }
    Some(all.unwrap_or((1, 1)))
}

impl Matrices {
    /// The library's requirements for products of bytes: rows of A and columns of B are contiguous
    /// along the sum, and sizes and distances are multiples of four.
    fn is_allowed(&self) -> bool {
        if self.types[0] != ElementType::S8 {
            return true;
        }
        let [a, b, d] = &self.matrices;
        let sizes = [self.rows, self.depth, a.leading, b.leading, d.leading];
        let strides = [a.stride, b.stride, d.stride];
        let strides = strides.into_iter().filter(|_| self.batch > 1);
        a.transposed
            && !b.transposed
            && self.epilogue == Epilogue::default()
            && sizes.into_iter().chain(strides).all(|size| size % 4 == 0)
    }
}

impl fmt::Display for Matrices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.batch > 1 {
            write!(f, "{} of ", self.batch)?;
        }
        let [factors, result] = self.types;
        let (rows, columns) = (self.rows, self.columns);
        write!(
            f,
            "{rows} x {columns} x {}, {factors} to {result}",
            self.depth
        )?;
        for (is_so, what) in [
            (self.matrices[0].transposed, "A transposed"),
            (self.matrices[1].transposed, "B transposed"),
            (self.added, "added"),
            (self.epilogue.bias, "bias"),
            (self.epilogue.activation == Some(Activation::Relu), "relu"),
            (self.epilogue.activation == Some(Activation::Gelu), "gelu"),
        ] {
            if is_so {
                write!(f, ", {what}")?;
            }
        }
        Ok(())
    }
}
