//! Tensors: the arguments and results of programs.

use crate::{Error, ErrorKind};
use std::alloc;
use std::borrow::Cow;
use std::sync::OnceLock;
/// A Rust type for elements of arrays: numbers of 8 to 64 bits, half-precision floats and complex
/// numbers.
pub use tegula_ir::NativeType as Element;
use tegula_ir::{ArrayShape, ElementType, Literal};
use tegula_layout::apply_layouts::{
    Permutation, in_order, inverse, is_row_major, permuted, row_major,
};

/// An array in host memory.
///
/// A result is stored in the dimension order that the program states for it. Elements are accessed
/// in row-major order; the first access converts the array if necessary.
#[derive(Clone, Debug)]
pub struct Tensor {
    stored: Literal,
    /// [`None`] if the array is stored in row-major order.
    lies: Option<Box<Lies>>,
}

/// The storage of an array that is not row-major.
#[derive(Clone, Debug)]
struct Lies {
    /// The dimension order: dimension `k` of the stored array is dimension `order[k]` of the array.
    order: Permutation,
    shape: ArrayShape,
    /// The row-major copy, made at the first access.
    row_major: OnceLock<Literal>,
}

/// Compares elements at the same indices; the storage order does not matter.
impl PartialEq for Tensor {
    fn eq(&self, other: &Self) -> bool {
        self.literal() == other.literal()
    }
}

/// An argument of a program.
#[derive(Debug)]
pub enum Arg<'a> {
    /// A tensor that the program does not change.
    Borrowed(&'a Tensor),
    /// A tensor that the program may overwrite: its memory is reused for a result if the program
    /// says so (`input_output_alias`, `buffer_donor`).
    Donated(Tensor),
}

/// A borrowed argument, which the program does not change.
impl<'a> From<&'a Tensor> for Arg<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Self::Borrowed(tensor)
    }
}

/// A donated argument, which the program may overwrite.
impl From<Tensor> for Arg<'_> {
    fn from(tensor: Tensor) -> Self {
        Self::Donated(tensor)
    }
}

impl<'a> Arg<'a> {
    /// The array.
    pub fn tensor(&self) -> &Tensor {
        match self {
            Self::Borrowed(tensor) => tensor,
            Self::Donated(tensor) => tensor,
        }
    }

    /// The array stored in an order: owned if it was donated or had to be converted.
    pub(crate) fn in_order(self, order: &Permutation) -> Result<Cow<'a, Literal>, Error> {
        match self {
            Self::Borrowed(buffer) if buffer.order() == *order => Ok(Cow::Borrowed(&buffer.stored)),
            Self::Borrowed(buffer) => Ok(Cow::Owned(buffer.clone().in_order(order)?.stored)),
            Self::Donated(buffer) => Ok(Cow::Owned(buffer.in_order(order)?.stored)),
        }
    }

    /// The array, in its storage order.
    pub fn buffer(&self) -> &Tensor {
        match self {
            Self::Borrowed(buffer) => buffer,
            Self::Donated(buffer) => buffer,
        }
    }
}

impl Tensor {
    /// An array of these elements in row-major order.
    ///
    /// # Errors
    /// The number of elements is not the product of the dimensions.
    pub fn from_slice<T: Element>(dims: &[i64], values: &[T]) -> Result<Self, Error> {
        Ok(Literal::from_values(dims, values)?.into())
    }

    /// An array of `pred` with these elements in row-major order.
    ///
    /// # Errors
    /// The number of elements is not the product of the dimensions.
    pub fn from_bools(dims: &[i64], values: &[bool]) -> Result<Self, Error> {
        Ok(Literal::from_bools(dims, values)?.into())
    }

    /// An array of rank 0, with one element.
    pub fn scalar<T: Element>(value: T) -> Self {
        Literal::from_value(value).into()
    }

    /// An array from its stored form: dimension `k` of `stored` is dimension `order[k]` of the
    /// array.
    pub(crate) fn stored_in(stored: Literal, order: &Permutation) -> Self {
        let lies = (!is_row_major(order)).then(|| Lies {
            order: order.clone(),
            shape: in_order(stored.shape(), &inverse(order)),
            row_major: OnceLock::new(),
        });
        Self {
            stored,
            lies: lies.map(Box::new),
        }
    }

    /// The same array, converted to a storage order.
    pub(crate) fn in_order(self, order: &Permutation) -> Result<Self, Error> {
        if self.order() == *order {
            return Ok(self);
        }
        let stored = permuted(self.literal(), order)
            .map_err(|error| Error::new(ErrorKind::Input, error.to_string()))?;
        Ok(Self::stored_in(stored, order))
    }

    /// An array from its stored form: dimension `k` of `stored` is dimension `order[k]` of the
    /// array.
    ///
    /// # Errors
    /// `order` is not a permutation of the dimensions.
    pub fn from_stored(stored: Literal, order: &[usize]) -> Result<Self, Error> {
        check_order(order, stored.shape().rank())?;
        Ok(Self::stored_in(stored, &order.into()))
    }

    /// The same array, converted to a storage order that lists the dimensions, the most major
    /// first. An array in that order is returned unchanged.
    ///
    /// # Errors
    /// `order` is not a permutation of the dimensions; there is not enough memory.
    pub fn reordered(self, order: &[usize]) -> Result<Self, Error> {
        check_order(order, self.shape().rank())?;
        self.in_order(&order.into())
    }

    /// The elements in row-major order, if they are of type `T` (`u8` also for `pred`, as 0 and 1).
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        self.literal().values()
    }

    /// The sizes of the dimensions, the most major first.
    pub fn dims(&self) -> Vec<i64> {
        let dims = self.shape().dims.iter();
        dims.map(|dim| dim.as_static().unwrap_or_default())
            .collect()
    }

    /// The type of the elements.
    pub fn element_type(&self) -> ElementType {
        self.shape().element_type
    }

    /// The array in row-major order, as a literal.
    pub fn literal(&self) -> &Literal {
        let Some(lies) = &self.lies else {
            return &self.stored;
        };
        lies.row_major.get_or_init(|| {
            let row_major = permuted(&self.stored, &inverse(&lies.order));
            // This fails only for lack of memory. As with any collection, that ends the process.
            row_major.unwrap_or_else(|_| alloc::handle_alloc_error(alloc::Layout::new::<u8>()))
        })
    }

    /// The array as it is stored, with its dimensions in [`Self::order`].
    pub fn stored(&self) -> &Literal {
        &self.stored
    }

    /// The storage order: the dimensions, the most major first.
    pub fn order(&self) -> Permutation {
        match &self.lies {
            Some(lies) => lies.order.clone(),
            None => row_major(self.stored.shape().rank()),
        }
    }

    /// The element type and the dimensions.
    pub fn shape(&self) -> &ArrayShape {
        match &self.lies {
            Some(lies) => &lies.shape,
            None => self.stored.shape(),
        }
    }

    /// The array in row-major order, by value.
    pub fn into_literal(self) -> Literal {
        match &self.lies {
            Some(_) => self.literal().clone(),
            None => self.stored,
        }
    }
}

fn check_order(order: &[usize], rank: usize) -> Result<(), Error> {
    let mut sorted: Permutation = order.into();
    sorted.sort_unstable();
    if sorted.len() == rank && is_row_major(&sorted) {
        return Ok(());
    }
    let message = format!("{order:?} is not a permutation of {rank} dimensions");
    Err(Error::new(ErrorKind::Input, message))
}

impl From<Literal> for Tensor {
    fn from(stored: Literal) -> Self {
        Self { stored, lies: None }
    }
}
