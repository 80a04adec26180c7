//! Expands products of mixed element types into products of one type.
//!
//! `dot` and `convolution` may combine any three element types. They are computed in
//! [`product_type`]: the operands are converted to it first, and the sum is converted to the
//! result's type. Combinations that library routines support stay; their results are the same.

use super::{converted, plain};
use crate::program::contraction::is_product_of;
use tegula_ir::helpers::product_type;
use tegula_ir::{
    ArrayShape, ComputationBuilder, ComputationId, ElementType, Error, Instruction, InstructionId,
    Module, ModuleBuilder, Op, Shape, Unary,
};

/// Whether an instruction is a product of mixed types that neither a routine nor a loop supports.
pub(super) fn is_mixed(module: &Module, instruction: &Instruction) -> bool {
    let [lhs, rhs] = &instruction.operands[..] else {
        return false;
    };
    let shapes = [&module[*lhs].shape, &module[*rhs].shape, &instruction.shape];
    let [Some(lhs), Some(rhs), Some(result)] = shapes.map(element_type) else {
        return false;
    };
    let is_of_one_type = lhs == rhs && rhs == result;
    !is_of_one_type && !is_product_of(lhs, rhs, result)
}

fn element_type(shape: &Shape) -> Option<ElementType> {
    Some(shape.as_array()?.element_type)
}

/// A computation that converts the operands, multiplies them, and converts the result.
pub(super) fn product(
    builder: &mut ModuleBuilder,
    op: &Op,
    operands: &[Shape],
    result: &Shape,
) -> Result<ComputationId, Error> {
    let ([Shape::Array(lhs), Shape::Array(rhs)], Shape::Array(result)) = (operands, result) else {
        return Err(Error::input(
            "expected a dot product of two arrays, with an array as its result",
        ));
    };
    let ty = product_type(lhs.element_type, rhs.element_type, result.element_type);
    let mut b = builder.computation("mixed_product");
    let [lhs, rhs] = [lhs, rhs].map(|shape| b.parameter(Shape::Array(plain(shape))));
    let (lhs, rhs) = (converted(&mut b, lhs, ty)?, converted(&mut b, rhs, ty)?);
    let sums = Shape::Array(plain(&result.with_element_type(ty)));
    let sums = b.push_with_shape(op.clone(), &[lhs, rhs], sums)?;
    let root = narrowed(&mut b, sums, result)?;
    b.finish(root)
}

/// Converts sums to the result's type. A complex number is converted to a real type by taking its
/// real part, which `convert` does not do.
pub(super) fn narrowed(
    b: &mut ComputationBuilder<'_>,
    sums: InstructionId,
    result: &ArrayShape,
) -> Result<InstructionId, Error> {
    let (from, to) = (b.array_shape(sums)?.element_type, result.element_type);
    if !from.is_complex() || to.is_complex() {
        return converted(b, sums, to);
    }
    let real = b.unary(Unary::Real, sums)?;
    converted(b, real, to)
}
