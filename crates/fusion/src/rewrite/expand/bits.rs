//! Expands `bitcast` through layouts, and `bitcast-convert` of types narrower than a byte.
//!
//! A bitcast takes the elements in the order in which the operand's layout stores them,
//! reinterprets them as the result's type, and assigns them to the result in the order of the
//! result's layout: a transpose, a reshape or bitcast-convert, and a transpose.
//!
//! A bitcast-convert between widths of whole bytes leaves the memory as it is. Elements narrower
//! than a byte take one byte each in Tegula, so their conversion needs shifts: part number `i`,
//! from the least significant one, is `wide >> (i * width)`.

use super::{converted, plain, sizes};
use tegula_ir::helpers::tiles_keep_order;
use tegula_ir::{
    ArrayShape, Binary, ComputationBuilder, ComputationId, Dims, ElementType, Error, InstructionId,
    Literal, Module, ModuleBuilder, Op, Scalar, Shape,
};

/// Whether a bitcast is more than a reshape.
pub(super) fn is_more_than_reshape(module: &Module, id: InstructionId) -> bool {
    let (Some(from), Some(to)) = (
        module.operand_shape(id, 0).and_then(Shape::as_array),
        module[id].shape.as_array(),
    ) else {
        return false;
    };
    from.element_type != to.element_type || permutes(from) || permutes(to)
}

/// Whether the result of a bitcast depends on the padding of tiles.
pub(super) fn depends_on_padding(module: &Module, id: InstructionId) -> bool {
    let from = module.operand_shape(id, 0).and_then(Shape::as_array);
    match (&module[id].op, from, module[id].shape.as_array()) {
        (Op::Bitcast, Some(from), Some(to)) => !tiles_keep_order(from, to),
        _ => false,
    }
}

/// Whether a bitcast keeps the element type and has no tiles, so that its sizes may be symbolic.
pub(super) fn keeps_elements(module: &Module, id: InstructionId) -> bool {
    let plain = |s: &ArrayShape| s.layout.as_deref().is_none_or(|l| l.tiles.is_empty());
    let from = module.operand_shape(id, 0).and_then(Shape::as_array);
    match (from, module[id].shape.as_array()) {
        (Some(from), Some(to)) => from.element_type == to.element_type && plain(from) && plain(to),
        _ => false,
    }
}

/// The dimensions of an array with a layout, from the slowest-varying to the fastest.
fn physical_order(shape: &ArrayShape) -> Option<Vec<i64>> {
    let layout = shape.layout.as_deref()?;
    Some(
        layout
            .minor_to_major
            .iter()
            .rev()
            .map(|&d| i64::from(d))
            .collect(),
    )
}

fn permutes(shape: &ArrayShape) -> bool {
    physical_order(shape).is_some_and(|order| !order.iter().copied().eq(0..order.len() as i64))
}

/// Whether a conversion joins or splits elements narrower than a byte.
pub(super) fn changes_sub_byte_width(module: &Module, id: InstructionId) -> bool {
    let from = module.operand_shape(id, 0).and_then(Shape::as_array);
    match (from, module[id].shape.as_array()) {
        (Some(from), Some(to)) => {
            let (from, to) = (from.element_type.bits(), to.element_type.bits());
            from != to && from.min(to) < 8
        }
        _ => false,
    }
}

/// The computation of a bitcast.
pub(super) fn bitcast(
    builder: &mut ModuleBuilder,
    operands: &[Shape],
    result: &Shape,
) -> Result<ComputationId, Error> {
    let (Some(Shape::Array(from)), Shape::Array(to)) = (operands.first(), result) else {
        return Err(Error::input(
            "expected an array as the operand and the result of a bitcast",
        ));
    };
    let combine = reducer_of(builder, from.element_type, to.element_type)?;
    let mut b = builder.computation("bitcast");
    let x = b.parameter(Shape::Array(plain(from)));
    let x = match physical_order(from) {
        Some(order) => b.transpose(x, &order)?,
        None => x,
    };
    let order = physical_order(to).unwrap_or_else(|| (0..to.rank() as i64).collect());
    let mut back = vec![0i64; order.len()];
    let mut physical = Dims::with_capacity(order.len());
    for (place, &d) in order.iter().enumerate() {
        let d = usize::try_from(d).unwrap_or(usize::MAX);
        let size = to.dims.get(d);
        physical.push(
            size.ok_or_else(|| Error::input("the layout's rank differs from the array's"))?
                .clone(),
        );
        back[d] = place as i64;
    }
    let x = match from.element_type == to.element_type {
        true => x,
        false => seen_as(&mut b, x, to.element_type, combine)?,
    };
    let physical = ArrayShape {
        dims: physical,
        ..plain(to)
    };
    let x = b.push_with_shape(Op::Reshape, &[x], Shape::Array(physical))?;
    let root = b.transpose(x, &back)?;
    b.finish(root)
}

/// The computation of a bitcast-convert.
pub(super) fn bitcast_convert(
    builder: &mut ModuleBuilder,
    operands: &[Shape],
    result: &Shape,
) -> Result<ComputationId, Error> {
    let (Some(Shape::Array(from)), Shape::Array(to)) = (operands.first(), result) else {
        return Err(Error::input(
            "expected an array as the operand and the result of a bitcast-convert",
        ));
    };
    let combine = reducer_of(builder, from.element_type, to.element_type)?;
    let mut b = builder.computation("bitcast-convert");
    let x = b.parameter(Shape::Array(plain(from)));
    let x = seen_as(&mut b, x, to.element_type, combine)?;
    let to_dims = to
        .static_dims()
        .ok_or_else(|| Error::input("a dynamic size"))?;
    let root = b.reshape(x, &to_dims)?;
    b.finish(root)
}

/// The reducer (`or`) that joins parts narrower than a byte; `None` if there are no such parts to
/// join.
fn reducer_of(
    builder: &mut ModuleBuilder,
    from: ElementType,
    to: ElementType,
) -> Result<Option<ComputationId>, Error> {
    if from.bits() >= 8 || from.bits() >= to.bits() {
        return Ok(None);
    }
    builder.reducer(Binary::Or, unsigned(to)?).map(Some)
}

/// Reinterprets the elements as another type, in the same order, as an array of one dimension.
fn seen_as(
    b: &mut ComputationBuilder<'_>,
    x: InstructionId,
    to: ElementType,
    combine: Option<ComputationId>,
) -> Result<InstructionId, Error> {
    let from = b.array_shape(x)?.element_type;
    let count: i64 = sizes(b, x)?.iter().product();
    let flat = b.reshape(x, &[count])?;
    let (narrow, wide) = (from.bits().min(to.bits()), from.bits().max(to.bits()));
    if from == to {
        return Ok(flat);
    }
    let parts = i64::from(wide / narrow.max(1));
    if narrow == wide {
        return same_width(b, flat, to);
    }
    if narrow < 8 && wide > 64 {
        // `c128` has 128 bits, and there is no integer of that width.
        let words = seen_as(b, flat, ElementType::U64, combine)?;
        return seen_as(b, words, to, combine);
    }
    if narrow < 8 {
        return match combine {
            Some(combine) => put_together(b, flat, to, parts, combine),
            None => take_apart(b, flat, to, parts),
        };
    }
    if from.bits() == wide {
        let shape = Shape::array(to, &[count, parts]);
        let x = b.push_with_shape(Op::BitcastConvert, &[flat], shape)?;
        return b.reshape(x, &[count * parts]);
    }
    let rows = b.reshape(flat, &[count / parts, parts])?;
    b.push_with_shape(
        Op::BitcastConvert,
        &[rows],
        Shape::array(to, &[count / parts]),
    )
}

fn same_width(
    b: &mut ComputationBuilder<'_>,
    x: InstructionId,
    to: ElementType,
) -> Result<InstructionId, Error> {
    let shape = b.array_shape(x)?.with_element_type(to);
    if b.array_shape(x)?.element_type == to {
        return Ok(x);
    }
    b.push_with_shape(Op::BitcastConvert, &[x], Shape::Array(shape))
}

/// The shift of each part, `i * width`, in the given integer type.
fn shifts(
    b: &mut ComputationBuilder<'_>,
    ty: ElementType,
    dims: &[i64],
    width: u32,
) -> Result<InstructionId, Error> {
    let parts = b.iota(ty, dims, 1)?;
    let width = constant(b, ty, u64::from(width))?;
    let width = b.broadcast(width, dims, &[])?;
    b.binary(Binary::Multiply, parts, width)
}

fn take_apart(
    b: &mut ComputationBuilder<'_>,
    x: InstructionId,
    to: ElementType,
    parts: i64,
) -> Result<InstructionId, Error> {
    let ty = unsigned(b.array_shape(x)?.element_type)?;
    let dims = [sizes(b, x)?.iter().product(), parts];
    let x = same_width(b, x, ty)?;
    let wide = b.broadcast(x, &dims, &[0])?;
    let shifts = shifts(b, ty, &dims, to.bits())?;
    let shifted = b.binary(Binary::ShiftRightLogical, wide, shifts)?;
    let mask = constant(b, ty, (1 << to.bits()) - 1)?;
    let mask = b.broadcast(mask, &dims, &[])?;
    let part = b.binary(Binary::And, shifted, mask)?;
    let part = converted(b, part, unsigned(to)?)?;
    let part = same_width(b, part, to)?;
    b.reshape(part, &[dims[0] * parts])
}

fn put_together(
    b: &mut ComputationBuilder<'_>,
    x: InstructionId,
    to: ElementType,
    parts: i64,
    combine: ComputationId,
) -> Result<InstructionId, Error> {
    let (from, ty) = (b.array_shape(x)?.element_type, unsigned(to)?);
    let count: i64 = sizes(b, x)?.iter().product();
    let dims = [count / parts, parts];
    let x = same_width(b, x, unsigned(from)?)?;
    let x = b.reshape(x, &dims)?;
    let wide = converted(b, x, ty)?;
    let shifts = shifts(b, ty, &dims, from.bits())?;
    let shifted = b.binary(Binary::ShiftLeft, wide, shifts)?;
    let zero = constant(b, ty, 0)?;
    let word = b.reduce(shifted, zero, &[1], combine)?;
    same_width(b, word, to)
}

fn constant(
    b: &mut ComputationBuilder<'_>,
    ty: ElementType,
    value: u64,
) -> Result<InstructionId, Error> {
    let literal = Literal::from_scalars(&ArrayShape::new(ty, &[]), [Scalar::Uint(value)]);
    b.constant(literal.map_err(|e| Error::input(e.to_string()))?)
}

/// The unsigned integer type of a type's width; `u64` for `c128`.
fn unsigned(ty: ElementType) -> Result<ElementType, Error> {
    let width = ty.bits().min(64);
    let found = ElementType::ALL
        .iter()
        .find(|t| t.is_integer() && !t.is_signed() && t.bits() == width);
    found
        .copied()
        .ok_or_else(|| Error::input(format!("{ty} has no integer of its width")))
}
