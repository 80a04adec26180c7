//! Products of matrices.

use super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use tegula_expr::Term;
use tegula_ir::ElementType;

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "MatMul" => mat_mul,
        "MatMulInteger" => mat_mul_integer,
        "Gemm" => gemm,
        _ => return None,
    };
    Some(lowering)
}

fn mat_mul<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    one(product(lower, &a, &b)?)
}

/// The product of the last two dimensions, the others repeated as numpy does.
pub(super) fn product(lower: &mut Lowerer<'_>, a: &Value, b: &Value) -> Result<Value> {
    if a.rank() == 0 || b.rank() == 0 {
        return Err(Error::input("expected at least one dimension"));
    }
    if a.rank() == 1 {
        let row = lower.unsqueeze(a, 0)?;
        let whole = product(lower, &row, b)?;
        let at = whole.rank() - if b.rank() == 1 { 1 } else { 2 };
        return lower.squeeze(&whole, at);
    }
    if b.rank() == 1 {
        let last = a.rank() - 1;
        return lower.dot(a, b, &[], &[(last, 0)]);
    }
    if b.rank() == 2 {
        let last = a.rank() - 1;
        return lower.dot(a, b, &[], &[(last, 0)]);
    }
    let (lead_a, lead_b) = (a.rank() - 2, b.rank() - 2);
    let batch = lower.common_dims(&a.dims[..lead_a], &b.dims[..lead_b])?;
    let whole = |value: &Value, lead: usize| [&batch[..], &value.dims[lead..]].concat();
    let (dims_a, dims_b) = (whole(a, lead_a), whole(b, lead_b));
    let a = lower.broadcast_to(a, &dims_a)?;
    let b = lower.broadcast_to(b, &dims_b)?;
    let pairs: Vec<(usize, usize)> = (0..batch.len()).map(|at| (at, at)).collect();
    let lead = batch.len();
    lower.dot(&a, &b, &pairs, &[(lead + 1, lead)])
}

/// An integer operand without its zero point, which is one number or one of each row or column.
pub(super) fn without_zero(
    lower: &mut Lowerer<'_>,
    x: &Value,
    zero: Option<Value>,
    along: usize,
) -> Result<Value> {
    let wide = lower.convert(x, ElementType::S32)?;
    let Some(zero) = zero else {
        return Ok(wide);
    };
    let zero = lower.convert(&zero, ElementType::S32)?;
    let zero = match (zero.rank(), zero.count()) {
        (_, Some(1)) => lower.reshape(&zero, &[])?,
        (1, _) => {
            let mut dims = vec![Term::constant(1); x.rank()];
            dims[along] = zero.dims[0].clone();
            lower.reshape(&zero, &dims)?
        }
        _ => zero,
    };
    lower.sub(&wide, &zero)
}

fn mat_mul_integer<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let rows = a.rank().saturating_sub(2);
    let a = without_zero(lower, &a, call.optional(2), rows)?;
    let columns = b.rank().saturating_sub(1);
    let b = without_zero(lower, &b, call.optional(3), columns)?;
    one(product(lower, &a, &b)?)
}

fn gemm<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    if a.rank() != 2 || b.rank() != 2 {
        return Err(Error::input("expected two matrices"));
    }
    let of_a = if call.int("transA", 0) != 0 { 0 } else { 1 };
    let of_b = if call.int("transB", 0) != 0 { 1 } else { 0 };
    let mut whole = lower.dot(&a, &b, &[], &[(of_a, of_b)])?;
    let alpha = call.float("alpha", 1.0);
    if alpha != 1.0 {
        whole = lower.scaled(&whole, alpha)?;
    }
    if let Some(mut c) = call.optional(2) {
        let beta = call.float("beta", 1.0);
        if beta != 1.0 {
            c = lower.scaled(&c, beta)?;
        }
        whole = lower.add(&whole, &c)?;
    }
    one(whole)
}
