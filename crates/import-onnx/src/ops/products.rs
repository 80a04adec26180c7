//! Matrix products and factorisations.

use super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Fold, Item, Lowerer, Result, Value, shape_of};
use tegula_expr::Term;
use tegula_ir::{CustomCall, Direction, ElementType, Op, Shape};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "Det" => determinant,
        _ => return None,
    };
    Some(lowering)
}

/// The matrix product over the last two dimensions, with numpy's broadcasting of the others.
pub(super) fn product(lower: &mut Lowerer<'_>, a: &Value, b: &Value) -> Result<Value> {
    product_as(lower, a, b, a.ty)
}

/// As [`product`], but accumulates in another type.
pub(super) fn product_as(
    lower: &mut Lowerer<'_>,
    a: &Value,
    b: &Value,
    ty: ElementType,
) -> Result<Value> {
    if a.rank() == 0 || b.rank() == 0 {
        return Err(Error::input(
            "expected two arrays with at least one dimension each, found a scalar",
        ));
    }
    if a.rank() == 1 {
        let row = lower.unsqueeze(a, 0)?;
        let whole = product_as(lower, &row, b, ty)?;
        let at = whole.rank() - if b.rank() == 1 { 1 } else { 2 };
        return lower.squeeze(&whole, at);
    }
    if b.rank() == 1 {
        let last = a.rank() - 1;
        return lower.dot_as(a, b, &[], &[(last, 0)], ty);
    }
    if b.rank() == 2 {
        let last = a.rank() - 1;
        return lower.dot_as(a, b, &[], &[(last, 0)], ty);
    }
    let (lead_a, lead_b) = (a.rank() - 2, b.rank() - 2);
    let batch = lower.common_dims(&a.dims[..lead_a], &b.dims[..lead_b])?;
    let whole = |value: &Value, lead: usize| [&batch[..], &value.dims[lead..]].concat();
    let (dims_a, dims_b) = (whole(a, lead_a), whole(b, lead_b));
    let a = lower.broadcast_to(a, &dims_a)?;
    let b = lower.broadcast_to(b, &dims_b)?;
    let pairs: Vec<(usize, usize)> = (0..batch.len()).map(|at| (at, at)).collect();
    let lead = batch.len();
    lower.dot_as(&a, &b, &pairs, &[(lead + 1, lead)], ty)
}

/// An integer operand minus its zero point, which is a single number or one for each row or column.
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
            x.size(along)?;
            let mut dims = vec![Term::constant(1); x.rank()];
            dims[along] = zero.dims[0].clone();
            lower.reshape(&zero, &dims)?
        }
        _ => zero,
    };
    lower.sub(&wide, &zero)
}

/// A factorisation `P A = L U` of square matrices, which are the last two dimensions.
pub(super) struct Factored {
    /// `L` below the diagonal (its own diagonal is ones and not stored), and `U`.
    pub(super) matrix: Value,
    /// For each row in order, the row that it was swapped with.
    pivots: Value,
    /// The row of `A` that becomes each row of `P A`.
    pub(super) permutation: Value,
}

/// Factorises square matrices of static size, in f32 or wider.
pub(super) fn factored(lower: &mut Lowerer<'_>, x: &Value) -> Result<Factored> {
    let size = x.dims.last().and_then(Term::as_constant);
    let (Some(lead), Some(size)) = (x.rank().checked_sub(2), size) else {
        return Err(Error::input("expected square matrices of a known size"));
    };
    let wide = match x.ty {
        ElementType::F64 => x.ty,
        _ => ElementType::F32,
    };
    let inner = lower.convert(x, wide)?;
    let count = Term::constant(size);
    let batch = x.dims[..lead].to_vec();
    let list = |ty| -> Result<Shape> {
        let dims = [&batch[..], std::slice::from_ref(&count)].concat();
        Ok(shape_of(ty, &dims))
    };
    let shape = Shape::Tuple(
        [
            inner.shape(),
            list(ElementType::S32)?,
            list(ElementType::S32)?,
        ]
        .into(),
    );
    let target = CustomCall {
        target: "LuDecomposition".into(),
        operand_layouts: None,
        has_side_effect: false,
        api_version: None,
        called: Vec::new(),
        aliasing: Vec::new(),
        extra: Vec::new(),
    };
    let operand = lower.local(&inner)?;
    let op = Op::CustomCall(Box::new(target));
    let tuple = lower.push_local(op, &[operand], Some(shape))?;
    let parts = lower.elements(tuple)?;
    match <[Value; 3]>::try_from(parts) {
        Ok([matrix, pivots, permutation]) => Ok(Factored {
            matrix,
            pivots,
            permutation,
        }),
        Err(_) => Err(Error::input("a factorisation has three results")),
    }
}

/// The determinant: the product of the diagonal of `U`, negated for each row swap.
fn determinant<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let Factored {
        matrix: factors,
        pivots,
        ..
    } = &factored(lower, &x)?;
    let lead = x.rank() - 2;
    let row = lower.iota(ElementType::S64, &factors.dims, lead)?;
    let column = lower.iota(ElementType::S64, &factors.dims, lead + 1)?;
    let on_diagonal = lower.compare(Direction::Eq, &row, &column)?;
    let unit = lower.like(factors, 1.0)?;
    let diagonal = lower.select(&on_diagonal, factors, &unit)?;
    let size = lower.reduce(&diagonal, Fold::Product, &[lead, lead + 1], false)?;
    let own = lower.iota(ElementType::S32, &pivots.dims, lead)?;
    let moved = lower.compare(Direction::Ne, pivots, &own)?;
    let minus = lower.like(factors, -1.0)?;
    let sign = lower.select(&moved, &minus, &unit)?;
    let sign = lower.reduce(&sign, Fold::Product, &[lead], false)?;
    let whole = lower.mul(&size, &sign)?;
    one(lower.convert(&whole, x.ty)?)
}
