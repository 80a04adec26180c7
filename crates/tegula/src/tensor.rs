//! Arrays given to and taken from a running program.

use crate::{Error, ErrorKind};
use std::alloc;
use std::borrow::Cow;
use std::sync::OnceLock;
/// A Rust type that stores elements of an array: numbers of 8 to 64 bits, halves and complex numbers.
pub use tegula_ir::NativeType as Element;
use tegula_ir::{ArrayShape, ElementType, Literal};
use tegula_layout::apply_layouts::{
    Permutation, in_order, inverse, is_row_major, permuted, row_major,
};

/// An array in memory. It lives on the host.
///
/// A result lies in the order of dimensions that the program states for it. Whoever
/// looks at its elements sees them row-major: they are put so when that is first asked.
#[derive(Clone, Debug)]
pub struct Tensor {
    stored: Literal,
    /// [`None`] if it lies row-major.
    lies: Option<Box<Lies>>,
}

/// How an array lies that is not row-major.
#[derive(Clone, Debug)]
struct Lies {
    /// What is stored has the array's dimension `order[k]` as its dimension `k`.
    order: Permutation,
    shape: ArrayShape,
    /// The array row-major, if that was asked for.
    row_major: OnceLock<Literal>,
}

/// The same elements in the same places; how they lie in memory is not compared.
impl PartialEq for Tensor {
    fn eq(&self, other: &Self) -> bool {
        self.literal() == other.literal()
    }
}

/// An argument of a run.
#[derive(Debug)]
pub enum Arg<'a> {
    /// The caller keeps it.
    Borrowed(&'a Tensor),
    /// The program may overwrite it: its memory becomes that of a result where the
    /// program says so (`input_output_alias`, `buffer_donor`).
    Donated(Tensor),
}

/// Borrowed: the caller keeps it.
impl<'a> From<&'a Tensor> for Arg<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Self::Borrowed(tensor)
    }
}

/// Donated: the program may overwrite it.
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

    /// The array as it lies in an order: owned if it was given away or does not lie so.
    pub(crate) fn in_order(self, order: &Permutation) -> Result<Cow<'a, Literal>, Error> {
        match self {
            Self::Borrowed(buffer) if buffer.order() == *order => Ok(Cow::Borrowed(&buffer.stored)),
            Self::Borrowed(buffer) => Ok(Cow::Owned(buffer.clone().in_order(order)?.stored)),
            Self::Donated(buffer) => Ok(Cow::Owned(buffer.in_order(order)?.stored)),
        }
    }

    /// The array.
    pub fn buffer(&self) -> &Tensor {
        match self {
            Self::Borrowed(buffer) => buffer,
            Self::Donated(buffer) => buffer,
        }
    }
}

impl Tensor {
    /// An array from its elements, row-major.
    ///
    /// # Errors
    /// The number of elements is not the product of the dimensions.
    pub fn from_slice<T: Element>(dims: &[i64], values: &[T]) -> Result<Self, Error> {
        Ok(Literal::from_values(dims, values)?.into())
    }

    /// An array of `pred` from its elements, row-major.
    ///
    /// # Errors
    /// The number of elements is not the product of the dimensions.
    pub fn from_bools(dims: &[i64], values: &[bool]) -> Result<Self, Error> {
        Ok(Literal::from_bools(dims, values)?.into())
    }

    /// An array of one element and no dimensions.
    pub fn scalar<T: Element>(value: T) -> Self {
        Literal::from_value(value).into()
    }

    /// An array that lies in an order: dimension `k` of `stored` is the array's
    /// dimension `order[k]`.
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

    /// The same array lying in an order.
    pub(crate) fn in_order(self, order: &Permutation) -> Result<Self, Error> {
        if self.order() == *order {
            return Ok(self);
        }
        let stored = permuted(self.literal(), order)
            .map_err(|error| Error::new(ErrorKind::Input, error.to_string()))?;
        Ok(Self::stored_in(stored, order))
    }

    /// An array from its elements as they lie in memory: dimension `k` of `stored` is the array's
    /// dimension `order[k]`.
    ///
    /// # Errors
    /// `order` is no permutation of the dimensions.
    pub fn from_stored(stored: Literal, order: &[usize]) -> Result<Self, Error> {
        check_order(order, stored.shape().rank())?;
        Ok(Self::stored_in(stored, &order.into()))
    }

    /// The same array lying in an order: its dimensions, the most major first. Nothing is moved if
    /// it lies so.
    ///
    /// # Errors
    /// `order` is no permutation of the dimensions; there is no memory.
    pub fn reordered(self, order: &[usize]) -> Result<Self, Error> {
        check_order(order, self.shape().rank())?;
        self.in_order(&order.into())
    }

    /// The elements, row-major, if they are of this type (`u8` also for `pred`: 0 and 1).
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

    /// The array of any element type.
    pub fn literal(&self) -> &Literal {
        let Some(lies) = &self.lies else {
            return &self.stored;
        };
        lies.row_major.get_or_init(|| {
            let row_major = permuted(&self.stored, &inverse(&lies.order));
            // Only memory can be missing: as for any collection, that ends the process.
            row_major.unwrap_or_else(|_| alloc::handle_alloc_error(alloc::Layout::new::<u8>()))
        })
    }

    /// The array as it lies in memory, its dimensions in the order of [`Self::order`].
    pub fn stored(&self) -> &Literal {
        &self.stored
    }

    /// How it lies in memory: its dimensions, the most major first.
    pub fn order(&self) -> Permutation {
        match &self.lies {
            Some(lies) => lies.order.clone(),
            None => row_major(self.stored.shape().rank()),
        }
    }

    /// Its element type and dimensions.
    pub fn shape(&self) -> &ArrayShape {
        match &self.lies {
            Some(lies) => &lies.shape,
            None => self.stored.shape(),
        }
    }

    /// Takes the array out.
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
    let message = format!("{order:?} is no order of {rank} dimensions");
    Err(Error::new(ErrorKind::Input, message))
}

impl From<Literal> for Tensor {
    fn from(stored: Literal) -> Self {
        Self { stored, lies: None }
    }
}
