//! Values of instructions.

use crate::error::{OpError, invalid};
use tegula_ir::{Literal, Shape};

/// The value of an instruction. Cloning shares the arrays.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An array.
    Array(Literal),
    /// A tuple.
    Tuple(Vec<Value>),
    /// A token: it orders effects and has no content.
    Token,
}

impl Value {
    /// The array, if this is one.
    pub fn as_array(&self) -> Option<&Literal> {
        match self {
            Self::Array(literal) => Some(literal),
            _ => None,
        }
    }

    /// The elements, if this is a tuple.
    pub fn as_tuple(&self) -> Option<&[Self]> {
        match self {
            Self::Tuple(elements) => Some(elements),
            _ => None,
        }
    }

    /// The arrays of this value, left to right; tokens are left out.
    pub fn leaves(&self) -> Vec<&Literal> {
        fn collect<'a>(value: &'a Value, leaves: &mut Vec<&'a Literal>) {
            match value {
                Value::Array(literal) => leaves.push(literal),
                Value::Tuple(elements) => elements.iter().for_each(|e| collect(e, leaves)),
                Value::Token => {}
            }
        }
        let mut leaves = Vec::new();
        collect(self, &mut leaves);
        leaves
    }

    /// The total bytes of its arrays.
    pub(crate) fn byte_size(&self) -> u64 {
        match self {
            Self::Array(literal) => literal.bytes().len() as u64,
            Self::Tuple(elements) => elements.iter().map(Self::byte_size).sum(),
            Self::Token => 0,
        }
    }

    /// Whether this value has the shape: its structure, element types, ranks and static sizes.
    /// Symbolic and bounded sizes are not checked.
    pub fn matches(&self, shape: &Shape) -> bool {
        match (self, shape) {
            (Self::Array(literal), Shape::Array(array)) => {
                let actual = literal.shape();
                actual.element_type == array.element_type
                    && actual.rank() == array.rank()
                    && array.dims.iter().zip(&actual.dims).all(|(stated, actual)| {
                        stated.as_static().is_none() || stated.as_static() == actual.as_static()
                    })
            }
            (Self::Tuple(elements), Shape::Tuple(shapes)) => {
                elements.len() == shapes.len()
                    && elements.iter().zip(shapes).all(|(e, s)| e.matches(s))
            }
            (value, Shape::Buffer(inner)) => value.matches(inner),
            (Self::Token, Shape::Token) => true,
            _ => false,
        }
    }

    pub(crate) fn array(&self) -> Result<&Literal, OpError> {
        self.as_array()
            .ok_or_else(|| invalid("expected an array operand"))
    }

    pub(crate) fn into_array(self) -> Result<Literal, OpError> {
        match self {
            Self::Array(literal) => Ok(literal),
            _ => Err(invalid("expected an array operand")),
        }
    }

    pub(crate) fn into_tuple(self) -> Result<Vec<Self>, OpError> {
        match self {
            Self::Tuple(elements) => Ok(elements),
            _ => Err(invalid("expected a tuple operand")),
        }
    }
}

impl From<Literal> for Value {
    fn from(literal: Literal) -> Self {
        Self::Array(literal)
    }
}
