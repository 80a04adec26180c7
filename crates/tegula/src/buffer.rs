//! Arrays given to and taken from a running program.

use crate::Error;
use std::borrow::Cow;
use tegula_ir::{ArrayShape, Literal};

/// An array in memory. It lives on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    literal: Literal,
}

/// An argument of a run.
#[derive(Debug)]
pub enum Arg<'a> {
    /// The caller keeps it.
    Borrowed(&'a Buffer),
    /// The program may overwrite it: its memory becomes that of a result where the
    /// program says so (`input_output_alias`, `buffer_donor`).
    Donated(Buffer),
}

impl<'a> Arg<'a> {
    /// The array: owned if it was given away.
    pub(crate) fn into_literal(self) -> Cow<'a, Literal> {
        match self {
            Self::Borrowed(buffer) => Cow::Borrowed(&buffer.literal),
            Self::Donated(buffer) => Cow::Owned(buffer.literal),
        }
    }

    /// The array.
    pub fn buffer(&self) -> &Buffer {
        match self {
            Self::Borrowed(buffer) => buffer,
            Self::Donated(buffer) => buffer,
        }
    }
}

impl Buffer {
    /// An array of f32, row-major.
    ///
    /// # Errors
    /// The number of elements is not the product of the dimensions.
    pub fn from_f32s(dims: &[i64], values: &[f32]) -> Result<Self, Error> {
        Ok(Self {
            literal: Literal::from_f32s(dims, values)?,
        })
    }

    /// An array of s32, row-major.
    ///
    /// # Errors
    /// The number of elements is not the product of the dimensions.
    pub fn from_i32s(dims: &[i64], values: &[i32]) -> Result<Self, Error> {
        Ok(Self {
            literal: Literal::from_i32s(dims, values)?,
        })
    }

    /// The elements, if they are f32; row-major.
    pub fn as_f32s(&self) -> Option<&[f32]> {
        self.literal.as_f32s()
    }

    /// The elements, if they are s32; row-major.
    pub fn as_i32s(&self) -> Option<&[i32]> {
        self.literal.as_i32s()
    }

    /// The array of any element type.
    pub fn literal(&self) -> &Literal {
        &self.literal
    }

    /// Its element type and dimensions.
    pub fn shape(&self) -> &ArrayShape {
        self.literal.shape()
    }

    /// Takes the array out.
    pub fn into_literal(self) -> Literal {
        self.literal
    }
}

impl From<Literal> for Buffer {
    fn from(literal: Literal) -> Self {
        Self { literal }
    }
}
