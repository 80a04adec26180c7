//! The part of the verifier that checks a library call: whether the routine accepts arrays of these
//! shapes.

use super::operation::module_of;
use super::verify_kernel::verify_kernel;
use crate::dot::DotView;
use tegula_fusion::kernel::Access;
use tegula_fusion::{Contraction, Kernel, LibraryOp, is_product_of};
use tegula_ir::{ArrayShape, ElementType};

/// Checks whether a routine accepts arrays of these shapes.
pub(super) fn library_suits(
    op: &LibraryOp,
    operands: &[&ArrayShape],
    results: &[&ArrayShape],
) -> Result<(), String> {
    match op {
        LibraryOp::Dot(dims) => dot_suits(dims, operands, results),
        LibraryOp::Sort {
            dimension,
            comparator,
        } => sort_suits(*dimension, comparator, operands, results),
        LibraryOp::Operation(op) => {
            let module = module_of(op, operands, results).map_err(|e| e.to_string())?;
            tegula_ir::verify(&module).map_err(|e| tegula_ir::Error::from(e).to_string())
        }
    }
}

fn dot_suits(
    contraction: &Contraction,
    operands: &[&ArrayShape],
    results: &[&ArrayShape],
) -> Result<(), String> {
    let (&[lhs, rhs, ref added @ ..], &[result]) = (operands, results) else {
        return Err("must have two operands, an optional addend, and one result".to_owned());
    };
    let sums = matches!(result.element_type, ElementType::F32 | ElementType::F64);
    match added {
        [] => {}
        [added] if sums && added.same_ignoring_layout(result) => {}
        _ => return Err("the addend must have the result's shape and be f32 or f64".to_owned()),
    }
    if !is_product_of(lhs.element_type, rhs.element_type, result.element_type) {
        return Err("products of these types are not supported".to_owned());
    }
    let view = DotView::new(lhs, rhs, contraction);
    let view = view.ok_or("the labels do not fit the operands")?;
    let given: Option<Vec<i64>> = result.static_dims().map(|d| d.to_vec());
    let given = given.and_then(|d| d.iter().try_fold(1i64, |n, &size| n.checked_mul(size)));
    match view.elements().and_then(|n| i64::try_from(n).ok()) == given {
        true => Ok(()),
        false => Err("the result's size does not follow from the operands".to_owned()),
    }
}

fn sort_suits(
    dimension: usize,
    comparator: &Kernel,
    operands: &[&ArrayShape],
    results: &[&ArrayShape],
) -> Result<(), String> {
    let Some(first) = operands.first() else {
        return Err("expected at least one operand to sort".to_owned());
    };
    let pairs = operands.iter().zip(results);
    let same = operands.len() == results.len()
        && pairs.clone().all(|(a, b)| a.same_ignoring_layout(b))
        && operands.iter().all(|shape| shape.dims == first.dims);
    if !same || dimension >= first.rank() {
        return Err(
            "operands and results must have equal shapes, which have the sorted dimension"
                .to_owned(),
        );
    }
    verify_kernel(comparator).map_err(|error| format!("comparator: {error}"))?;
    let read = operands
        .iter()
        .flat_map(|shape| [(Access::Read, shape.element_type); 2]);
    let wanted = read.chain([(Access::Write, ElementType::Pred)]);
    let params = comparator.params.iter().map(|p| (p.access, p.element_type));
    let scalars = comparator.params.iter().all(|p| p.dims.is_empty());
    match scalars && comparator.domain.is_empty() && params.eq(wanted) {
        true => Ok(()),
        false => Err(
            "the comparator must take two elements of each operand and return a pred".to_owned(),
        ),
    }
}
