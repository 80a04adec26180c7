//! Moves of narrow floats as integers: where a kernel only copies and selects numbers of a type with
//! fewer than 32 bits, it needs their bits alone.
//!
//! CPUs compute in `f32`, so each of these numbers would be converted after its load and back before
//! its store.

use tegula_fusion::Kernel;
use tegula_fusion::kernel::{ScalarOp, Statement};
use tegula_ir::ElementType;

/// Replaces narrow floats that are only moved; `None` if there are none.
pub(crate) fn move_as_integers(kernel: &Kernel) -> Option<Kernel> {
    let is_moved = |ty: ElementType| {
        let is_computed = |s: &Statement| computes_with(kernel, s, ty);
        bits_of(ty).is_some() && !kernel.body.any(is_computed)
    };
    let of_param = kernel.params.iter().map(|param| param.element_type);
    let mut types: Vec<ElementType> = of_param.filter(|&ty| is_moved(ty)).collect();
    types.dedup();
    if types.is_empty() {
        return None;
    }
    let replaced = |ty: ElementType| match types.contains(&ty) {
        true => bits_of(ty).unwrap_or(ty),
        false => ty,
    };
    let mut kernel = kernel.clone();
    for param in &mut kernel.params {
        param.element_type = replaced(param.element_type);
    }
    for scalar in kernel.scalars.values_mut() {
        *scalar = replaced(*scalar);
    }
    Some(kernel)
}

/// The integers with the bits of a narrow float.
fn bits_of(ty: ElementType) -> Option<ElementType> {
    match (ty.is_float(), ty.bits()) {
        (true, 16) => Some(ElementType::U16),
        (true, 8) => Some(ElementType::U8),
        _ => None,
    }
}

/// Whether a statement needs numbers of a type, and not only their bits.
fn computes_with(kernel: &Kernel, statement: &Statement, ty: ElementType) -> bool {
    let Statement::Compute {
        result,
        op,
        operands,
    } = statement
    else {
        return false;
    };
    let mut ids = operands.iter().chain([result]);
    let needs_bits_alone = matches!(
        op,
        ScalarOp::Select | ScalarOp::Constant(_) | ScalarOp::BitcastConvert
    );
    !needs_bits_alone && ids.any(|id| kernel.scalars[*id] == ty)
}
