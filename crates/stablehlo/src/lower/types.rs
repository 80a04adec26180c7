//! Converts types to shapes, and dense constants to literals.

use crate::mlir::{Elements, FloatKind, Signedness, Type};
use tegula_expr::Term;
use tegula_ir::{ArrayShape, Dim, ElementType, Literal, Shape};

/// The size in bytes from which constants share the input's memory. Smaller ones are copied,
/// because they would keep the whole input alive.
const LARGE: usize = 1 << 16;

/// The element type for a type; an error message if there is none.
pub(super) fn element_type(ty: &Type) -> Result<ElementType, String> {
    use Signedness::Unsigned;
    Ok(match ty {
        Type::Integer { width: 1, .. } => ElementType::Pred,
        Type::Integer { width, signedness } => match (width, signedness) {
            (2, Unsigned) => ElementType::U2,
            (4, Unsigned) => ElementType::U4,
            (8, Unsigned) => ElementType::U8,
            (16, Unsigned) => ElementType::U16,
            (32, Unsigned) => ElementType::U32,
            (64, Unsigned) => ElementType::U64,
            (2, _) => ElementType::S2,
            (4, _) => ElementType::S4,
            (8, _) => ElementType::S8,
            (16, _) => ElementType::S16,
            (32, _) => ElementType::S32,
            (64, _) => ElementType::S64,
            _ => return Err(no_element(ty)),
        },
        // Index values represent sizes, which have at most 64 bits in StableHLO.
        Type::Index => ElementType::S64,
        Type::Float(kind) => match kind {
            FloatKind::BF16 => ElementType::BF16,
            FloatKind::F16 => ElementType::F16,
            FloatKind::F32 => ElementType::F32,
            FloatKind::F64 => ElementType::F64,
            FloatKind::F4E2M1FN => ElementType::F4E2M1FN,
            FloatKind::F6E2M3FN => ElementType::F6E2M3FN,
            FloatKind::F6E3M2FN => ElementType::F6E3M2FN,
            FloatKind::F8E3M4 => ElementType::F8E3M4,
            FloatKind::F8E4M3 => ElementType::F8E4M3,
            FloatKind::F8E4M3FN => ElementType::F8E4M3FN,
            FloatKind::F8E5M2 => ElementType::F8E5M2,
            FloatKind::F8E4M3FNUZ => ElementType::F8E4M3FNUZ,
            FloatKind::F8E4M3B11FNUZ => ElementType::F8E4M3B11FNUZ,
            FloatKind::F8E5M2FNUZ => ElementType::F8E5M2FNUZ,
            FloatKind::F8E8M0FNU => ElementType::F8E8M0FNU,
            FloatKind::F80 | FloatKind::F128 | FloatKind::TF32 => return Err(no_element(ty)),
        },
        Type::Complex(part) => match **part {
            Type::Float(FloatKind::F32) => ElementType::C64,
            Type::Float(FloatKind::F64) => ElementType::C128,
            _ => return Err(no_element(ty)),
        },
        Type::Dialect { dialect, .. } if &**dialect == "quant" => {
            return Err(
                "quantized types are not supported: lower them to integers first \
                        (stablehlo-legalize-quant-to-math)"
                    .to_owned(),
            );
        }
        _ => return Err(no_element(ty)),
    })
}

fn no_element(ty: &Type) -> String {
    format!(
        "`{}` is not supported as the type of an element",
        crate::print::type_text(ty)
    )
}

/// The shape for a type. Sizes that are `?` become the term -1, or are bounded by the type's
/// encoding.
pub(super) fn shape(ty: &Type) -> Result<Shape, String> {
    match ty {
        Type::Tensor(tensor) => {
            let bounds = tensor.encoding.as_ref().and_then(|encoding| {
                let (_, bounds) = encoding.as_entries()?.first()?;
                bounds.as_integers()
            });
            let mut dims = Vec::new();
            for (place, dim) in tensor.dims.iter().enumerate() {
                let bound = bounds.as_ref().and_then(|bounds| bounds.get(place));
                dims.push(match (dim, bound) {
                    (Some(size), _) => Dim::Static(*size),
                    (None, Some(&bound)) if bound >= 0 => Dim::Bounded {
                        bound,
                        size: Term::constant(-1),
                    },
                    (None, _) => Dim::Symbolic(Term::constant(-1)),
                });
            }
            Ok(Shape::Array(ArrayShape {
                element_type: element_type(&tensor.element)?,
                dims: dims.into_iter().collect(),
                layout: None,
            }))
        }
        Type::Tuple(elements) => {
            let elements: Result<Vec<Shape>, String> = elements.iter().map(shape).collect();
            Ok(Shape::Tuple(elements?))
        }
        ty if ty.is_token() => Ok(Shape::Token),
        Type::UnrankedTensor(_) => Err("tensors of unknown rank are not supported".to_owned()),
        ty => Err(format!(
            "`{}` is not supported as the type of a value",
            crate::print::type_text(ty)
        )),
    }
}

/// Whether a shape has a size that [`shape`] left open.
pub(super) fn is_open(shape: &Shape) -> bool {
    let mut open = false;
    shape.for_each_leaf(&mut |leaf| {
        if let Some(array) = leaf.as_array() {
            open |= array.dims.iter().any(|dim| !matches!(dim, Dim::Static(_)));
        }
    });
    open
}

/// The literal for a dense constant; a scalar if all elements are the same.
pub(super) fn literal(elements: &Elements) -> Result<Literal, String> {
    let Some((dims, element)) = elements.ty.shaped() else {
        return Err("expected a shaped constant".to_owned());
    };
    let ty = element_type(element)?;
    let dims: Option<Vec<i64>> = match elements.splat {
        true => Some(Vec::new()),
        false => dims.into_iter().collect(),
    };
    let shape = ArrayShape::new(ty, &dims.ok_or("the constant has no fixed size")?);
    let narrow = ty.bits() < 8 && ty != ElementType::Pred;
    let literal = match narrow {
        true => {
            let bits = ty.bits();
            let extended = elements.bytes.iter().map(|byte| match ty.is_signed() {
                true => ((*byte << (8 - bits)) as i8 >> (8 - bits)) as u8,
                false => byte & ((1 << bits) - 1),
            });
            let bytes: Vec<u8> = extended.collect();
            Literal::from_bytes(&shape, &bytes)
        }
        false if elements.bytes.len() >= LARGE => {
            Literal::from_shared(&shape, elements.bytes.clone())
        }
        false => Literal::from_bytes(&shape, &elements.bytes),
    };
    literal.map_err(|error| error.to_string())
}
