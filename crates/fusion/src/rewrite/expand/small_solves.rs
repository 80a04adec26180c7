//! Expands triangular solves of a few rows into substitution. Implicit steps of ODE solvers have
//! them in loops whose states are a few numbers, and a loop that contains a call cannot be compiled
//! to one function. Outside of loops, the routine and the expansion take the same time within these
//! limits (Zen 5, 27 November 2026: 80 ns more at most, 90 ns less for batches). For more columns,
//! or complex numbers, the routine is faster: by 0.1 us for 4 rows of 16 `f32`, by 0.5 us for seven
//! systems of 3x3 `c64`.

use super::plain;
use tegula_ir::{
    ArrayShape, Binary, ComputationBuilder, ComputationId, Error, Instruction, InstructionId,
    Module, ModuleBuilder, Op, Shape, SliceDim, TransposeA,
};

/// The most rows of the triangle: each element of the last row depends on all rows before it.
const MOST_ROWS: i64 = 4;
/// The most columns of the other operand, or rows if the triangle is on the right.
const MOST_COLUMNS: i64 = 3;
/// The most elements of the solutions of a batch.
const MOST_ELEMENTS: i64 = 64;

/// Whether an operation is a triangular solve small enough to be expanded.
pub(super) fn is_small(module: &Module, op: &Op, instruction: &Instruction) -> bool {
    let &Op::TriangularSolve { left_side, .. } = op else {
        return false;
    };
    let shape = |&operand: &InstructionId| module[operand].shape.as_array();
    let shapes: Option<Vec<&ArrayShape>> = instruction.operands.iter().map(shape).collect();
    let Some([a, b]) = shapes.as_deref() else {
        return false;
    };
    let size = |shape: &ArrayShape, from_last: usize| {
        let dim = shape.rank().checked_sub(from_last)?;
        shape.dims[dim].as_static()
    };
    let is_within = |size: Option<i64>, most| size.is_some_and(|n| (1..=most).contains(&n));
    b.element_type.is_float()
        && b.element_type.bits() >= 32
        && a.rank() == b.rank()
        && is_within(size(a, 2), MOST_ROWS)
        && is_within(size(b, if left_side { 1 } else { 2 }), MOST_COLUMNS)
        && is_within(b.element_count(), MOST_ELEMENTS)
}

/// A triangular matrix, seen as the left factor of `x`. If it is the right factor, `x` and `b` are
/// transposed.
struct Triangle {
    a: InstructionId,
    /// Whether entries are read from the transpose of `a`.
    mirrored: bool,
    unit_diagonal: bool,
}

/// The computation of `x` from `a` and `b`: substitution, row after row.
pub(super) fn expand(
    builder: &mut ModuleBuilder,
    op: &Op,
    operands: &[Shape],
) -> Result<ComputationId, Error> {
    let arrays: Option<Vec<&ArrayShape>> = operands.iter().map(Shape::as_array).collect();
    let (
        Some([a_shape, b_shape]),
        &Op::TriangularSolve {
            left_side,
            lower,
            unit_diagonal,
            transpose_a,
        },
    ) = (arrays.as_deref(), op)
    else {
        return Err(Error::input(
            "expected two arrays as the operands of a triangular solve",
        ));
    };
    let dims = b_shape.static_dims();
    let dims = dims.ok_or_else(|| Error::input("a dynamic size"))?;
    let mut b = builder.computation("small_triangular_solve");
    let a = b.parameter(Shape::Array(plain(a_shape)));
    let given = b.parameter(Shape::Array(plain(b_shape)));
    let along = dims.len() - if left_side { 2 } else { 1 };
    // `x op(a) = b` is solved as `op(a)^T x^T = b^T`. For real numbers, the adjoint is the
    // transpose.
    let is_transposed = transpose_a != TransposeA::NoTranspose;
    let triangle = Triangle {
        a,
        mirrored: is_transposed == left_side,
        unit_diagonal,
    };
    let rows = dims[along];
    let mut part_dims: Vec<i64> = dims.to_vec();
    part_dims[along] = 1;
    // Substitution starts at the row that has a diagonal element only.
    let is_forward = lower != triangle.mirrored;
    let order: Vec<i64> = match is_forward {
        true => (0..rows).collect(),
        false => (0..rows).rev().collect(),
    };
    let mut solved: Vec<(i64, InstructionId)> = Vec::new();
    for &row in &order {
        let mut rest = b.slice(given, &one(&dims, &[(along, row)]))?;
        for &(other, x) in &solved {
            let entry = triangle.entry(&mut b, (row, other), &part_dims)?;
            let product = b.binary(Binary::Multiply, entry, x)?;
            rest = b.binary(Binary::Subtract, rest, product)?;
        }
        if !triangle.unit_diagonal {
            let entry = triangle.entry(&mut b, (row, row), &part_dims)?;
            rest = b.binary(Binary::Divide, rest, entry)?;
        }
        solved.push((row, rest));
    }
    solved.sort_by_key(|&(row, _)| row);
    let parts: Vec<InstructionId> = solved.into_iter().map(|(_, x)| x).collect();
    let root = b.concatenate(&parts, along as i64)?;
    b.finish(root)
}

impl Triangle {
    /// An entry of the triangle, broadcast to the shape of a row of `b`.
    fn entry(
        &self,
        b: &mut ComputationBuilder<'_>,
        (row, column): (i64, i64),
        part_dims: &[i64],
    ) -> Result<InstructionId, Error> {
        let (row, column) = match self.mirrored {
            true => (column, row),
            false => (row, column),
        };
        let dims = super::sizes(b, self.a)?;
        let batch = dims.len() - 2;
        let entry = b.slice(self.a, &one(&dims, &[(batch, row), (batch + 1, column)]))?;
        let entry = b.reshape(entry, &dims[..batch])?;
        let mapping: Vec<i64> = (0..batch as i64).collect();
        b.broadcast(entry, part_dims, &mapping)
    }
}

/// A slice at one position in some dimensions and over all of the others.
fn one(sizes: &[i64], places: &[(usize, i64)]) -> Vec<SliceDim> {
    let whole = sizes.iter().map(|&limit| SliceDim {
        start: 0,
        limit,
        stride: 1,
    });
    let mut dims: Vec<SliceDim> = whole.collect();
    for &(dim, place) in places {
        (dims[dim].start, dims[dim].limit) = (place, place + 1);
    }
    dims
}
