//! The module under construction: values and their types, types of shapes, constants of literals.

use crate::mlir::{
    Attribute, Elements, FloatKind, Location, Module, Operation, Signedness, TensorType, Type,
    Value, ValueId,
};
use std::sync::Arc;
use tegula_ir::{ArrayShape, Dim, ElementType, Literal, Shape};

/// Creates values and operations.
#[derive(Default)]
pub(super) struct Maker {
    values: Vec<Value>,
}

impl Maker {
    /// Creates a value.
    pub(super) fn value(&mut self, ty: Type) -> ValueId {
        let id = ValueId(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        self.values.push(Value {
            ty,
            name: None,
            location: Arc::new(Location::Unknown),
        });
        id
    }

    pub(super) fn type_of(&self, value: ValueId) -> Type {
        self.values[value.index()].ty.clone()
    }

    /// Creates an operation, with new results of these types.
    pub(super) fn operation(
        &mut self,
        name: &str,
        operands: &[ValueId],
        results: &[Type],
        properties: Vec<(&str, Attribute)>,
    ) -> Operation {
        let mut operation = Operation::new(name);
        operation.operands.extend_from_slice(operands);
        let values = results.iter().map(|ty| self.value(ty.clone()));
        operation.results = values.collect();
        let properties = properties.into_iter();
        operation.properties = properties.map(|(key, value)| (key.into(), value)).collect();
        operation
    }

    pub(super) fn finish(self, operation: Operation) -> Module {
        Module {
            operation,
            values: self.values,
            producer: "".into(),
            text: None,
        }
    }
}

/// The types of a shape's arrays, from left to right; a message if one has no type.
pub(super) fn leaf_types(shape: &Shape) -> Result<Vec<Type>, String> {
    let mut types = Vec::new();
    let mut failed = None;
    shape.for_each_leaf(&mut |leaf| match leaf {
        Shape::Array(array) => types.push(tensor(array)),
        Shape::Token => types.push(Type::dialect("stablehlo", "token")),
        other => failed = Some(format!("StableHLO has no type for {other:#}")),
    });
    match failed {
        Some(why) => Err(why),
        None => Ok(types),
    }
}

/// The tensor type of an array; open sizes become `?`.
pub(super) fn tensor(array: &ArrayShape) -> Type {
    let mut bounds = Vec::new();
    let mut dims = Vec::new();
    for dim in &array.dims {
        dims.push(dim.as_static());
        bounds.push(match dim {
            Dim::Bounded { bound, .. } => *bound,
            _ => i64::MIN,
        });
    }
    let is_bounded = bounds.iter().any(|bound| *bound != i64::MIN);
    let fields = vec![("bounds".into(), Attribute::i64s(&bounds))];
    Type::Tensor(Arc::new(TensorType {
        dims,
        element: element(array.element_type),
        encoding: is_bounded.then(|| Attribute::stablehlo_struct("bounds", fields)),
    }))
}

/// The type for an element type.
pub(super) fn element(ty: ElementType) -> Type {
    let unsigned = |width| Type::Integer {
        width,
        signedness: Signedness::Unsigned,
    };
    match ty {
        ElementType::Pred | ElementType::S1 => Type::BOOL,
        ElementType::U1 => unsigned(1),
        ElementType::S2
        | ElementType::S4
        | ElementType::S8
        | ElementType::S16
        | ElementType::S32
        | ElementType::S64 => Type::signless(ty.bits()),
        ElementType::U2
        | ElementType::U4
        | ElementType::U8
        | ElementType::U16
        | ElementType::U32
        | ElementType::U64 => unsigned(ty.bits()),
        ElementType::F4E2M1FN => Type::Float(FloatKind::F4E2M1FN),
        ElementType::F6E2M3FN => Type::Float(FloatKind::F6E2M3FN),
        ElementType::F6E3M2FN => Type::Float(FloatKind::F6E3M2FN),
        ElementType::F8E3M4 => Type::Float(FloatKind::F8E3M4),
        ElementType::F8E4M3 => Type::Float(FloatKind::F8E4M3),
        ElementType::F8E4M3FN => Type::Float(FloatKind::F8E4M3FN),
        ElementType::F8E4M3FNUZ => Type::Float(FloatKind::F8E4M3FNUZ),
        ElementType::F8E4M3B11FNUZ => Type::Float(FloatKind::F8E4M3B11FNUZ),
        ElementType::F8E5M2 => Type::Float(FloatKind::F8E5M2),
        ElementType::F8E5M2FNUZ => Type::Float(FloatKind::F8E5M2FNUZ),
        ElementType::F8E8M0FNU => Type::Float(FloatKind::F8E8M0FNU),
        ElementType::F16 => Type::Float(FloatKind::F16),
        ElementType::BF16 => Type::Float(FloatKind::BF16),
        ElementType::F32 => Type::Float(FloatKind::F32),
        ElementType::F64 => Type::Float(FloatKind::F64),
        ElementType::C64 => Type::Complex(Arc::new(Type::Float(FloatKind::F32))),
        ElementType::C128 => Type::Complex(Arc::new(Type::Float(FloatKind::F64))),
    }
}

/// A literal as a dense constant; a splat if all elements are equal.
pub(super) fn constant(literal: &Literal) -> Attribute {
    let ty = tensor(literal.shape());
    let uniform = literal.uniform_element();
    Attribute::Elements(Arc::new(Elements {
        ty,
        splat: uniform.is_some(),
        bytes: uniform.unwrap_or(literal.bytes()).to_vec().into(),
    }))
}
