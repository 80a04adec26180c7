//! Expands `scaled-dot`, a product of operands with one scale per block of elements, into an
//! ordinary product of scaled operands.
//!
//! Both the scaling and the product are done in [`scaled_type`], because a scaled element need not
//! be representable in the narrow format in which the operands are stored.

use super::mixed::narrowed;
use super::{along, converted, plain};
use smallvec::SmallVec;
use tegula_ir::helpers::scaled_type;
use tegula_ir::{
    Binary, ComputationBuilder, ComputationId, Dim, Error, InstructionId, ModuleBuilder, Op, Shape,
};

/// The computation of a `scaled-dot`.
pub(super) fn expand(
    builder: &mut ModuleBuilder,
    op: &Op,
    operands: &[Shape],
    result: &Shape,
) -> Result<ComputationId, Error> {
    let Op::ScaledDot { dims, precision } = op else {
        return Err(Error::bug("expected a scaled dot product"));
    };
    let arrays: Option<SmallVec<[_; 4]>> = operands.iter().map(Shape::as_array).collect();
    let (Some([lhs, rhs, ..]), Shape::Array(result)) = (arrays.as_deref(), result) else {
        return Err(Error::input(
            "expected a scaled dot product of four arrays, with an array as its result",
        ));
    };
    let ty = scaled_type(lhs.element_type, rhs.element_type, result.element_type);
    let mut b = builder.computation("scaled_product");
    let given = operands.iter().filter_map(Shape::as_array);
    let mut values = Vec::new();
    for shape in given {
        let value = b.parameter(Shape::Array(plain(shape)));
        values.push(converted(&mut b, value, ty)?);
    }
    let [lhs, rhs, lhs_scale, rhs_scale] = values[..] else {
        return Err(Error::input("expected two scales of a scaled dot product"));
    };
    let operands = [
        scaled(&mut b, lhs, lhs_scale)?,
        scaled(&mut b, rhs, rhs_scale)?,
    ];
    let product = Op::Dot {
        dims: dims.clone(),
        precision: precision.clone(),
        algorithm: None,
    };
    let sums = Shape::Array(result.with_element_type(ty));
    let sums = b.push_with_shape(product, &operands, sums)?;
    let root = narrowed(&mut b, sums, result)?;
    b.finish(root)
}

/// An array times its scales. Each scale applies to a block; the blocks along a dimension have
/// equal sizes.
fn scaled(
    b: &mut ComputationBuilder<'_>,
    x: InstructionId,
    scale: InstructionId,
) -> Result<InstructionId, Error> {
    let (whole, parts) = (plain(b.array_shape(x)?), plain(b.array_shape(scale)?));
    // A scale of rank 0 means that there is no scale.
    if parts.rank() == 0 && whole.rank() != 0 {
        return Ok(x);
    }
    let mut split = parts.clone();
    split.dims.clear();
    let mut places = Vec::new();
    for (size, count) in whole.dims.iter().zip(&parts.dims) {
        places.push(split.dims.len());
        split.dims.push(count.clone());
        if size != count {
            let (Some(size), Some(count)) = (size.as_static(), count.as_static()) else {
                return Err(Error::input(
                    "block scales along a dimension of open size are not supported: give it a size",
                ));
            };
            split.dims.push(Dim::Static(size / count.max(1)));
        }
    }
    let scale = along::spread(b, scale, &places, &split)?;
    let scale = b.push_with_shape(Op::Reshape, &[scale], Shape::Array(whole))?;
    b.binary(Binary::Multiply, x, scale)
}
