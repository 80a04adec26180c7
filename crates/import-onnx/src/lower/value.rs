//! Values during the translation of a graph: results of instructions, or data known at compile
//! time.
//!
//! Constants and integers that are terms over the sizes of the inputs are not converted to
//! instructions until an operation needs them as data. A model's arithmetic on shapes (`Shape`,
//! `Gather`, `Concat`, ...) therefore does not appear in the program, and a `Reshape` to a computed
//! shape has symbolic sizes.

use super::Local;
use crate::{Error, tensor};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use tegula_expr::Term;
use tegula_ir::{ArrayShape, Dim, ElementType, Literal, Shape};

/// The maximum number of elements of a value whose elements are tracked individually.
pub(crate) const MAX_FOLLOWED: usize = 1024;

/// A tensor.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) ty: ElementType,
    /// The sizes, as terms over the sizes of the inputs.
    pub(crate) dims: Vec<Term>,
    pub(super) source: Source,
    /// If the value is the result of a `DequantizeLinear`, its quantized operand.
    pub(crate) quantized: Option<Arc<Quantized>>,
}

/// A quantized tensor: small integers that represent `(value - zero) * scale`.
#[derive(Clone, Debug)]
pub(crate) struct Quantized {
    pub(crate) value: Value,
    pub(crate) scale: Value,
    pub(crate) zero: Option<Value>,
    /// The dimension whose slices have their own scales and zero points; `None` if there is one for
    /// all.
    pub(crate) axis: Option<usize>,
}

/// The source of a tensor's elements.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// The result of an instruction.
    Local(Local),
    /// A constant.
    Literal(Literal),
    /// Integers that are terms over sizes, at least one of which is open.
    Terms(Arc<[Term]>),
}

/// The meaning of a name in a graph.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Tensor(Value),
    Sequence(Vec<Item>),
    /// An empty optional, or an omitted input.
    Nothing,
}

/// The meanings of the names in a graph.
pub(crate) type Scope<'a> = FxHashMap<&'a str, Item>;

impl From<Value> for Item {
    fn from(value: Value) -> Self {
        Self::Tensor(value)
    }
}

impl Value {
    pub(crate) fn rank(&self) -> usize {
        self.dims.len()
    }

    /// The size of a dimension.
    ///
    /// # Errors
    /// There is no such dimension.
    pub(crate) fn size(&self, at: usize) -> Result<&Term, Error> {
        self.dims.get(at).ok_or_else(|| {
            let rank = self.rank();
            Error::input(format!(
                "dimension {at} is out of range for an array of {rank} dimensions"
            ))
        })
    }

    /// All sizes, if all are static.
    pub(crate) fn static_dims(&self) -> Option<Vec<i64>> {
        self.dims.iter().map(Term::as_constant).collect()
    }

    /// The number of elements, if it is known.
    pub(crate) fn count(&self) -> Option<usize> {
        let count = self
            .static_dims()?
            .into_iter()
            .try_fold(1i64, i64::checked_mul)?;
        usize::try_from(count).ok()
    }

    pub(crate) fn shape(&self) -> Shape {
        shape_of(self.ty, &self.dims)
    }

    pub(crate) fn literal(&self) -> Option<&Literal> {
        match &self.source {
            Source::Literal(literal) => Some(literal),
            _ => None,
        }
    }

    /// The elements of a list of integers or truth values as terms, if they are known as such.
    pub(crate) fn terms(&self) -> Option<Vec<Term>> {
        if self.ty != ElementType::Pred && !self.ty.is_integer() {
            return None;
        }
        match &self.source {
            Source::Terms(terms) => Some(terms.to_vec()),
            Source::Literal(literal) if literal.len() <= MAX_FOLLOWED => {
                let all = literal.scalars().map(|s| s.to_i64().map(Term::constant));
                all.collect()
            }
            _ => None,
        }
    }

    /// The elements, if they are constant integers.
    pub(crate) fn integers(&self) -> Option<Vec<i64>> {
        match &self.source {
            Source::Literal(literal) => literal.scalars().map(tegula_ir::Scalar::to_i64).collect(),
            _ => None,
        }
    }

    /// The elements as floats, if they are constant.
    pub(crate) fn floats(&self) -> Option<Vec<f64>> {
        let literal = self.literal()?;
        Some(literal.scalars().map(tegula_ir::Scalar::to_f64).collect())
    }

    /// A constant.
    pub(crate) fn of_literal(literal: Literal) -> Self {
        let shape = literal.shape();
        Self {
            ty: shape.element_type,
            dims: shape.dims.iter().map(Dim::term).collect(),
            source: Source::Literal(literal),
            quantized: None,
        }
    }

    /// A constant of integers.
    pub(crate) fn of_integers(
        ty: ElementType,
        dims: &[i64],
        values: &[i64],
    ) -> Result<Self, Error> {
        Ok(Self::of_literal(tensor::integers(ty, dims, values)?))
    }

    /// A constant of floats.
    pub(crate) fn of_floats(ty: ElementType, dims: &[i64], values: &[f64]) -> Result<Self, Error> {
        let shape = ArrayShape::new(ty, dims);
        let values = values.iter().map(|x| tegula_ir::Scalar::Float(*x));
        Ok(Self::of_literal(Literal::from_scalars(&shape, values)?))
    }
}

/// An array's shape with sizes that are terms.
pub(crate) fn shape_of(ty: ElementType, dims: &[Term]) -> Shape {
    let dims = dims.iter().map(|size| match size.as_constant() {
        Some(size) => Dim::Static(size),
        None => Dim::Symbolic(size.clone()),
    });
    Shape::Array(ArrayShape {
        element_type: ty,
        dims: dims.collect(),
        layout: None,
    })
}

/// Constant terms for these sizes.
pub(crate) fn sizes(dims: &[i64]) -> Vec<Term> {
    dims.iter().copied().map(Term::constant).collect()
}
