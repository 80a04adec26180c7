//! The input and output of shape functions.

use crate::{ArrayShape, Dim, DimNumbers, Dims, ElementType, Error, Module, Op, Shape};
use smallvec::SmallVec;
use std::fmt::Display;
use tegula_expr::{Cmp, Provider};

/// Sizes from a provider.
pub(crate) type Sizes<I> = SmallVec<[I; 6]>;

/// The shape of a result, with sizes from a provider.
#[derive(Clone, Debug)]
pub enum ShapeOf<I> {
    /// An array.
    Array {
        /// The type of the elements.
        element_type: ElementType,
        /// The size of each dimension.
        dims: SmallVec<[I; 6]>,
    },
    /// A tuple.
    Tuple(Vec<ShapeOf<I>>),
    /// A shape that is copied from the instruction, an operand or a called computation.
    Same(Shape),
}

impl<I> ShapeOf<I> {
    /// The shape, with each size converted to a dimension by `dim`.
    pub fn resolve(self, dim: &mut impl FnMut(I) -> Result<Dim, Error>) -> Result<Shape, Error> {
        match self {
            Self::Array { element_type, dims } => {
                let dims: Result<Dims, Error> = dims.into_iter().map(dim).collect();
                Ok(Shape::Array(ArrayShape {
                    element_type,
                    dims: dims?,
                    layout: None,
                }))
            }
            Self::Tuple(elements) => {
                let elements: Result<Vec<Shape>, Error> = elements
                    .into_iter()
                    .map(|element| element.resolve(dim))
                    .collect();
                Ok(Shape::Tuple(elements?))
            }
            Self::Same(shape) => Ok(shape),
        }
    }
}

/// The shape of an array, with sizes from a provider.
pub(crate) fn array<I>(element_type: ElementType, dims: impl IntoIterator<Item = I>) -> ShapeOf<I> {
    ShapeOf::Array {
        element_type,
        dims: dims.into_iter().collect(),
    }
}

/// The input of a shape function: an operation, its operands, and the provider of sizes.
pub(crate) struct Context<'a, P: Provider> {
    pub(crate) provider: &'a mut P,
    pub(crate) module: &'a Module,
    pub(crate) op: &'a Op,
    pub(crate) operands: &'a [&'a Shape],
    pub(crate) stated: Option<&'a Shape>,
}

/// The result of a shape function.
pub(crate) type Inferred<I> = Result<ShapeOf<I>, Error>;

impl<'a, P: Provider> Context<'a, P> {
    /// An error about this operation.
    pub(crate) fn error(&self, message: impl Display) -> Error {
        Error::input(format!("`{}`: {message}", self.op.opcode()))
    }

    /// An operand's shape.
    pub(crate) fn operand(&self, operand: usize) -> Result<&'a Shape, Error> {
        let shape = self.operands.get(operand).copied();
        shape.ok_or_else(|| self.error(format_args!("operand {operand} is missing")))
    }

    /// An operand's shape, which must be an array.
    pub(crate) fn array(&self, operand: usize) -> Result<&'a ArrayShape, Error> {
        let shape = self.operand(operand)?;
        shape.as_array().ok_or_else(|| {
            self.error(format_args!(
                "operand {operand} must be an array, found {shape:#}"
            ))
        })
    }

    /// The number of dimensions of an operand, which must be an array.
    pub(crate) fn rank(&self, operand: usize) -> Result<usize, Error> {
        Ok(self.array(operand)?.rank())
    }

    /// The shape that the instruction states.
    pub(crate) fn stated(&self) -> Result<&'a Shape, Error> {
        self.stated.ok_or_else(|| {
            let opcode = self.op.opcode();
            Error::input(format!("the shape of a `{opcode}` must be written"))
        })
    }

    /// The shape that the instruction states, which must be an array.
    pub(crate) fn stated_array(&self) -> Result<&'a ArrayShape, Error> {
        let stated = self.stated()?;
        stated
            .as_array()
            .ok_or_else(|| self.error(format_args!("the result must be an array, not {stated:#}")))
    }

    /// The stated shape, as the result.
    pub(crate) fn as_stated(&self) -> Inferred<P::Index> {
        Ok(ShapeOf::Same(self.stated()?.clone()))
    }

    /// The shape of an operand, as the result.
    pub(crate) fn same_as(&mut self, operand: usize) -> Inferred<P::Index> {
        match self.operand(operand)? {
            Shape::Array(shape) => Ok(array(shape.element_type, self.dims(operand)?)),
            other => Ok(ShapeOf::Same(without_layouts(other))),
        }
    }

    /// The sizes of an operand.
    pub(crate) fn dims(&mut self, operand: usize) -> Result<Sizes<P::Index>, Error> {
        let rank = self.rank(operand)?;
        Ok((0..rank)
            .map(|dim| self.provider.shape(operand, dim))
            .collect())
    }

    /// The size of an operand's dimension, given by the number in an attribute.
    pub(crate) fn dim(&mut self, operand: usize, dim: i64) -> Result<P::Index, Error> {
        let dim = self.dimension(operand, dim)?;
        Ok(self.provider.shape(operand, dim))
    }

    /// A dimension number of an operand, checked to be in range.
    pub(crate) fn dimension(&self, operand: usize, dim: i64) -> Result<usize, Error> {
        let rank = self.rank(operand)?;
        self.in_rank(dim, rank)
    }

    /// A dimension number, checked to be below `rank`.
    pub(crate) fn in_rank(&self, dim: i64, rank: usize) -> Result<usize, Error> {
        let place = usize::try_from(dim).ok().filter(|&place| place < rank);
        place.ok_or_else(|| {
            self.error(format_args!(
                "dimension {dim} is out of range for rank {rank}"
            ))
        })
    }

    /// Dimension numbers of an array of this rank, checked to be in range and different.
    pub(crate) fn distinct(
        &self,
        numbers: &DimNumbers,
        rank: usize,
    ) -> Result<SmallVec<[usize; 6]>, Error> {
        let mut places: SmallVec<[usize; 6]> = SmallVec::new();
        for &number in numbers {
            let place = self.in_rank(number, rank)?;
            if places.contains(&place) {
                return Err(self.error(format_args!("dimension {number} is named twice")));
            }
            places.push(place);
        }
        Ok(places)
    }

    /// Dimension numbers, checked to be in range and strictly increasing.
    pub(crate) fn increasing(
        &self,
        numbers: &DimNumbers,
        rank: usize,
    ) -> Result<SmallVec<[usize; 6]>, Error> {
        let places = self.distinct(numbers, rank)?;
        match places.is_sorted() {
            true => Ok(places),
            false => Err(self.error("dimension numbers must increase")),
        }
    }

    /// A constant size.
    pub(crate) fn literal(&mut self, value: i64) -> P::Index {
        self.provider.literal(value)
    }

    /// Requires that two sizes are equal and gives one of them, the known one if possible. An error
    /// if both are known and differ.
    pub(crate) fn same(
        &mut self,
        a: &P::Index,
        b: &P::Index,
        what: impl Display,
    ) -> Result<P::Index, Error> {
        match (self.provider.as_literal(a), self.provider.as_literal(b)) {
            (Some(a), Some(b)) if a != b => {
                Err(self.error(format_args!("{what} must be equal, found {a} and {b}")))
            }
            (Some(_), Some(_)) => Ok(a.clone()),
            (known, other) => {
                self.provider.require(Cmp::Eq, a, b, &what);
                let b_alone_is_known = known.is_none() && other.is_some();
                Ok(if b_alone_is_known { b } else { a }.clone())
            }
        }
    }

    /// Requires that a size is at most another; an error if both are known and it is larger.
    pub(crate) fn at_most(
        &mut self,
        a: &P::Index,
        b: &P::Index,
        what: impl Display,
    ) -> Result<(), Error> {
        match (self.provider.as_literal(a), self.provider.as_literal(b)) {
            (Some(a), Some(b)) if a > b => {
                Err(self.error(format_args!("{what}: {a} is more than {b}")))
            }
            (Some(_), Some(_)) => Ok(()),
            _ => {
                self.provider.require(Cmp::Le, a, b, &what);
                Ok(())
            }
        }
    }

    /// Checks that a size is not negative, if it is known.
    pub(crate) fn not_negative(&mut self, size: P::Index) -> Result<P::Index, Error> {
        match self.provider.as_literal(&size) {
            Some(size) if size < 0 => Err(self.error(format_args!(
                "a dimension of the result would have the negative size {size}"
            ))),
            Some(_) => Ok(size),
            None => {
                let zero = self.literal(0);
                let what = "a dimension of the result would have a negative size";
                self.provider.require(Cmp::Le, &zero, &size, &what);
                Ok(size)
            }
        }
    }

    /// Checks that an operand is of this element type.
    pub(crate) fn expect_type(&self, operand: usize, expected: ElementType) -> Result<(), Error> {
        let found = self.array(operand)?.element_type;
        match found == expected {
            true => Ok(()),
            false => Err(self.error(format_args!(
                "operand {operand} must be of type {expected}, found {found}"
            ))),
        }
    }

    /// Checks that an operand is an array of integers.
    pub(crate) fn expect_integers(&self, operand: usize) -> Result<(), Error> {
        let found = self.array(operand)?.element_type;
        match found.is_integer() {
            true => Ok(()),
            false => Err(self.error(format_args!(
                "operand {operand} must be integers, found {found}"
            ))),
        }
    }

    /// Checks that an operand is a scalar of this type.
    pub(crate) fn expect_scalar(&self, operand: usize, ty: ElementType) -> Result<(), Error> {
        self.expect_type(operand, ty)?;
        match self.rank(operand)? {
            0 => Ok(()),
            _ => Err(self.error(format_args!("operand {operand} must be a scalar"))),
        }
    }

    /// Checks that two operands have the same sizes, and returns these.
    pub(crate) fn same_dims(&mut self, a: usize, b: usize) -> Result<Sizes<P::Index>, Error> {
        let (a_dims, b_dims) = (self.dims(a)?, self.dims(b)?);
        if a_dims.len() != b_dims.len() {
            let (a, b) = (self.operand(a)?, self.operand(b)?);
            return Err(self.error(format_args!(
                "operands must have the same dimensions, found {a:#} and {b:#}"
            )));
        }
        let pairs = a_dims.iter().zip(&b_dims).enumerate();
        pairs
            .map(|(dim, (x, y))| self.same(x, y, format_args!("sizes of dimension {dim}")))
            .collect()
    }

    /// The result of a called computation.
    pub(crate) fn result_of(&self, callee: crate::ComputationId) -> Result<&'a Shape, Error> {
        let computation = self.module.computations.get(callee);
        let root = computation.and_then(|callee| self.module.instructions.get(callee.root));
        root.map(|root| &root.shape)
            .ok_or_else(|| self.error("a called computation does not exist"))
    }
}

/// A copy of the shape without layouts.
pub(crate) fn without_layouts(shape: &Shape) -> Shape {
    match shape {
        Shape::Array(array) => Shape::Array(ArrayShape {
            layout: None,
            ..array.clone()
        }),
        Shape::Tuple(elements) => Shape::Tuple(elements.iter().map(without_layouts).collect()),
        Shape::Buffer(inner) => Shape::Buffer(Box::new(without_layouts(inner))),
        Shape::Token => Shape::Token,
        Shape::Opaque => Shape::Opaque,
    }
}
