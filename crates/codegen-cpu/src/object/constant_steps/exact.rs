//! Decides which kernels give the same bits on every machine: those that move elements, compute
//! with integers, or round each element only once.

use half::{bf16, f16};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{ScalarOp, Statement};
use tegula_ir::{Binary, ElementType, Literal, Unary};

/// Whether a kernel gives the same bits on every machine, except for the bits of NaN.
///
/// A machine may fuse a product and a sum, and the order of sums along a loop may differ. So an
/// exact kernel does not have both products and sums of floats, and it has neither if a loop
/// carries floats.
pub(super) fn is_exact(kernel: &Kernel) -> bool {
    let body = &kernel.body;
    let has = |wanted: Kind| body.any(move |statement| kind(kernel, statement) == wanted);
    let has_sums = body.any(|statement| match statement {
        Statement::Loop { carried, .. } => {
            let mut types = carried.iter().map(|&scalar| kernel.scalars[scalar]);
            !types.all(is_whole)
        }
        _ => false,
    });
    match [Kind::Other, Kind::Product, Kind::Sum].map(has) {
        [true, _, _] | [_, true, true] => false,
        [_, false, false] => true,
        _ => !has_sums,
    }
}

fn is_whole(ty: ElementType) -> bool {
    ty.is_integer() || ty == ElementType::Pred
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Exact,
    Product,
    Sum,
    Other,
}

fn kind(kernel: &Kernel, statement: &Statement) -> Kind {
    let Statement::Compute {
        result,
        op,
        operands,
    } = statement
    else {
        return Kind::Exact;
    };
    let result = kernel.scalars[*result];
    let types = operands.iter().map(|&operand| kernel.scalars[operand]);
    if types.clone().chain([result]).all(is_whole) {
        return Kind::Exact;
    }
    let is_wide = matches!(result, ElementType::F32 | ElementType::F64);
    match op {
        ScalarOp::Constant(_) | ScalarOp::Select | ScalarOp::Compare(..) => Kind::Exact,
        ScalarOp::Index(_) | ScalarOp::Convert if !result.is_complex() => Kind::Exact,
        ScalarOp::Unary(Unary::Negate | Unary::Real | Unary::Imag | Unary::IsFinite)
        | ScalarOp::Binary(Binary::Complex) => Kind::Exact,
        ScalarOp::Unary(Unary::Abs) if types.clone().all(ElementType::is_float) => Kind::Exact,
        ScalarOp::Binary(Binary::Multiply) if is_wide => Kind::Product,
        ScalarOp::Binary(Binary::Add | Binary::Subtract) if is_wide => Kind::Sum,
        _ => Kind::Other,
    }
}

/// Whether an array has a NaN.
pub(super) fn has_nan(array: &Literal) -> bool {
    let bytes = array.bytes();
    match array.shape().element_type {
        ElementType::F32 | ElementType::C64 => bytes
            .as_chunks()
            .0
            .iter()
            .any(|&x| f32::from_le_bytes(x).is_nan()),
        ElementType::F64 | ElementType::C128 => bytes
            .as_chunks()
            .0
            .iter()
            .any(|&x| f64::from_le_bytes(x).is_nan()),
        ElementType::F16 => bytes
            .as_chunks()
            .0
            .iter()
            .any(|&x| f16::from_le_bytes(x).is_nan()),
        ElementType::BF16 => bytes
            .as_chunks()
            .0
            .iter()
            .any(|&x| bf16::from_le_bytes(x).is_nan()),
        ElementType::Pred => false,
        // Other narrow floats are assumed to have one.
        ty => !ty.is_integer(),
    }
}
