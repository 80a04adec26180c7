//! Signatures of a program's inputs and results: name, element type and sizes.

use std::fmt;
use std::sync::Arc;
use tegula_ir::{ArrayShape, Dim, ElementType, Symbol, display_term};

/// An input or a result of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    name: Arc<str>,
    element_type: ElementType,
    sizes: Vec<Size>,
}

/// The size of a dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Size {
    /// Known when the program is compiled.
    Known(i64),
    /// Known only at run time: a name (`p0_d0`, `batch`) or a formula over names.
    Open(Arc<str>),
    /// Known only at run time, with this upper bound.
    UpTo(i64),
}

impl Signature {
    pub(crate) fn new(name: &str, shape: &ArrayShape, symbols: &[Symbol]) -> Self {
        let sizes = shape.dims.iter().map(|dim| match dim {
            Dim::Static(size) => Size::Known(*size),
            Dim::Symbolic(size) => Size::Open(display_term(size, symbols).into()),
            Dim::Bounded { bound, .. } => Size::UpTo(*bound),
        });
        Self {
            name: name.into(),
            element_type: shape.element_type,
            sizes: sizes.collect(),
        }
    }

    /// The signature with one more dimension, the most major one.
    pub(crate) fn stacked(&self, count: usize) -> Self {
        let mut sizes = self.sizes.clone();
        sizes.insert(0, Size::Known(i64::try_from(count).unwrap_or(i64::MAX)));
        Self {
            sizes,
            ..self.clone()
        }
    }

    /// The name of the parameter, or that of an ONNX graph's input or output; results of other
    /// programs are called `out0`, `out1`, ....
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of the elements.
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// The sizes, the most major dimension first.
    pub fn sizes(&self) -> &[Size] {
        &self.sizes
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(size) => write!(f, "{size}"),
            Self::Open(name) => f.write_str(name),
            Self::UpTo(bound) => write!(f, "<={bound}"),
        }
    }
}

/// `x: f32[batch,128]`.
impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}[", self.name, self.element_type)?;
        for (number, size) in self.sizes.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{size}")?;
        }
        f.write_str("]")
    }
}

/// The names in the file for a program's inputs and results, if they differ from the instructions'
/// names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
}
