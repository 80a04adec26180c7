//! Attributes: the constants that operations carry.

use super::{Elements, Location, Type};
use std::sync::Arc;

/// Named attributes, in the order of the input.
pub type Attributes = Vec<(Arc<str>, Attribute)>;

/// A constant. Clones share its parts, so they are cheap.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// `unit`, which only says that the attribute is present.
    Unit,
    /// `5 : i64`; `true` and `false` are of type `i1`.
    Integer {
        /// The value; unsigned 64-bit values are reinterpreted.
        value: i64,
        /// The type.
        ty: Type,
    },
    /// `1.0 : f32`.
    Float {
        /// The bits, in the low end.
        bits: u64,
        /// The type.
        ty: Type,
    },
    /// `"text"`. Bytes that are not UTF-8 are decoded as Latin-1.
    String(Arc<str>),
    /// `[a, b]`.
    Array(Arc<[Attribute]>),
    /// `{a = b}`.
    Dictionary(Arc<Attributes>),
    /// `@a::@b`.
    Symbol(Arc<[Arc<str>]>),
    /// A type.
    Type(Type),
    /// `dense<...>`.
    Elements(Arc<Elements>),
    /// `array<i64: 1, 2>`; the type of an element, and the values.
    IntegerArray {
        /// The type of an element.
        element: Type,
        /// The values.
        values: Arc<[i64]>,
    },
    /// `array<f32: 1.0>`: the type of an element, and the bits of the values.
    FloatArray {
        /// The type of an element.
        element: Type,
        /// The bits of each value.
        values: Arc<[u64]>,
    },
    /// `#dialect<kind VALUE>`: a case of an enumeration.
    Enum {
        /// The dialect.
        dialect: Arc<str>,
        /// The enumeration.
        kind: Arc<str>,
        /// The case.
        case: Arc<str>,
    },
    /// `#dialect.name<field = value, ...>`.
    Struct {
        /// The dialect.
        dialect: Arc<str>,
        /// The attribute's name.
        name: Arc<str>,
        /// The fields that are present.
        fields: Arc<Attributes>,
    },
    /// A source location.
    Location(Arc<Location>),
    /// Any other attribute, in its dialect's form: `#dialect.body`; if `dialect` is empty, the text
    /// of a builtin attribute.
    Opaque {
        /// The dialect.
        dialect: Arc<str>,
        /// The text after the dot.
        body: Arc<str>,
    },
}

impl Attribute {
    /// A truth value.
    pub fn bool(value: bool) -> Self {
        Self::Integer {
            value: i64::from(value),
            ty: Type::BOOL,
        }
    }

    /// A 64-bit integer.
    pub fn i64(value: i64) -> Self {
        Self::Integer {
            value,
            ty: Type::signless(64),
        }
    }

    /// A text.
    pub fn string(text: &str) -> Self {
        Self::String(text.into())
    }

    /// `array<i64: ...>`.
    pub fn i64s(values: &[i64]) -> Self {
        Self::IntegerArray {
            element: Type::signless(64),
            values: values.into(),
        }
    }

    /// `#stablehlo<kind CASE>`.
    pub fn stablehlo_enum(kind: &str, case: &str) -> Self {
        Self::Enum {
            dialect: "stablehlo".into(),
            kind: kind.into(),
            case: case.into(),
        }
    }

    /// `#stablehlo.name<...>`.
    pub fn stablehlo_struct(name: &str, fields: Attributes) -> Self {
        Self::Struct {
            dialect: "stablehlo".into(),
            name: name.into(),
            fields: Arc::new(fields),
        }
    }

    /// The integer, if this is one.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// The truth value, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Integer { value, ty } if *ty == Type::BOOL => Some(*value != 0),
            _ => None,
        }
    }

    /// The text, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The elements, if this is an array.
    pub fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// The case, if this is one of an enumeration.
    pub fn as_case(&self) -> Option<&str> {
        match self {
            Self::Enum { case, .. } => Some(case),
            _ => None,
        }
    }

    /// The last name of a symbol, without `@`.
    pub fn as_symbol(&self) -> Option<&str> {
        match self {
            Self::Symbol(names) => names.last().map(|name| &**name),
            _ => None,
        }
    }

    /// The entries, if this is a dictionary or a structured attribute.
    pub fn as_entries(&self) -> Option<&Attributes> {
        match self {
            Self::Dictionary(entries)
            | Self::Struct {
                fields: entries, ..
            } => Some(entries),
            _ => None,
        }
    }

    /// The integers, in any form: as an array, as a dense constant of any shape, or as a list.
    pub fn as_integers(&self) -> Option<Vec<i64>> {
        /// The maximum number of integers in an attribute.
        const LIMIT: usize = 1 << 20;
        match self {
            Self::IntegerArray { values, .. } => Some(values.to_vec()),
            Self::Elements(elements) => elements.integers(LIMIT),
            Self::Array(elements) => elements.iter().map(Self::as_integer).collect(),
            Self::Integer { value, .. } => Some(vec![*value]),
            _ => None,
        }
    }
}
