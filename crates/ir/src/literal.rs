//! Literals: arrays of known elements, on the host.
//!
//! Elements are dense and row-major whatever layout a shape states; each takes
//! [`ElementType::storage_bytes`] bytes, so types narrower than a byte take a
//! whole one (integers sign- or zero-extended). The bytes are aligned to
//! [`ALIGNMENT`](crate::ALIGNMENT), which suits every vector width in use.

use crate::{AlignedBytes, ArrayShape, ElementType, Spare};
use std::fmt;
use std::sync::Arc;

/// An array of known elements. Cloning shares the bytes.
///
/// Equality is that of the bits: a NaN equals itself, 0 and -0 differ.
#[derive(Clone, PartialEq)]
pub struct Literal {
    shape: ArrayShape,
    bytes: Arc<AlignedBytes>,
}

/// Why a literal could not be made.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum LiteralError {
    /// A dimension is symbolic, negative, or the size does not fit.
    #[error("the shape has no fixed size in bytes")]
    NoFixedSize,
    /// The number of bytes or elements is not the shape's.
    #[error("expected {expected} bytes, got {actual}")]
    WrongSize {
        /// The shape's size.
        expected: usize,
        /// What was given.
        actual: usize,
    },
    /// The size is beyond what this process may allocate for one literal.
    #[error("{0} bytes are more than one literal may hold")]
    TooLarge(i64),
    /// A position beyond the last element.
    #[error("element {index} of a literal of {len}")]
    NoSuchElement {
        /// The position, row-major.
        index: usize,
        /// The number of elements.
        len: usize,
    },
}

/// The largest literal that is made, in bytes: 16 GiB.
pub const MAX_LITERAL_BYTES: i64 = 1 << 34;

/// An array of no elements.
impl Default for Literal {
    fn default() -> Self {
        let shape = ArrayShape::new(ElementType::Pred, &[0]);
        Self::from_parts(&shape, AlignedBytes::default())
    }
}

impl Literal {
    /// All zeros. The shape's layout is dropped.
    pub fn zeros(shape: &ArrayShape) -> Result<Self, LiteralError> {
        let len = checked_len(shape)?;
        let bytes = AlignedBytes::try_zeroed(len).ok_or(LiteralError::TooLarge(len as i64))?;
        Ok(Self::from_parts(shape, bytes))
    }

    /// An array whose elements are still to be written, through
    /// [`Self::bytes_mut_ptr`]. The shape's layout is dropped. Its memory is that of an array
    /// that was dropped, if there is such, and goes back there in its turn.
    ///
    /// # Safety
    /// All bytes are written before any is read; nothing is if the literal is dropped.
    ///
    /// # Errors
    /// As [`Self::zeros`].
    pub unsafe fn unwritten(shape: &ArrayShape, spare: &Arc<Spare>) -> Result<Self, LiteralError> {
        let len = checked_len(shape)?;
        // SAFETY: the caller's promise.
        let bytes = unsafe { spare.unwritten(len) };
        let bytes = bytes.ok_or(LiteralError::TooLarge(len as i64))?;
        Ok(Self::from_parts(shape, bytes))
    }

    /// From row-major bytes in the host's byte order. The shape's layout is dropped.
    pub fn from_bytes(shape: &ArrayShape, bytes: &[u8]) -> Result<Self, LiteralError> {
        let len = checked_len(shape)?;
        if len != bytes.len() {
            return Err(LiteralError::WrongSize {
                expected: len,
                actual: bytes.len(),
            });
        }
        let mut aligned = AlignedBytes::zeroed(len);
        aligned.as_mut_slice().copy_from_slice(bytes);
        Ok(Self::from_parts(shape, aligned))
    }

    pub(crate) fn from_parts(shape: &ArrayShape, bytes: AlignedBytes) -> Self {
        let mut shape = shape.clone();
        shape.layout = None;
        Self {
            shape,
            bytes: Arc::new(bytes),
        }
    }

    /// The shape: static, without a layout.
    pub fn shape(&self) -> &ArrayShape {
        &self.shape
    }

    /// The element type.
    pub fn element_type(&self) -> ElementType {
        self.shape.element_type
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.bytes().len() / self.element_type().storage_bytes()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// The bytes, row-major.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// The bytes of one element if all have the same; [`None`] if they differ or if
    /// there are none.
    pub fn uniform_element(&self) -> Option<&[u8]> {
        let mut elements = self
            .bytes()
            .chunks_exact(self.element_type().storage_bytes().max(1));
        let first = elements.next()?;
        elements.all(|element| element == first).then_some(first)
    }

    /// The bytes, for writing; copied first if shared.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        Arc::make_mut(&mut self.bytes).as_mut_slice()
    }

    /// Where the bytes begin, for writing; copied first if shared.
    pub fn bytes_mut_ptr(&mut self) -> *mut u8 {
        Arc::make_mut(&mut self.bytes).as_mut_ptr()
    }

    /// The same bytes as elements of a shape of the same size in bytes, which are not
    /// copied. The shape's layout is dropped.
    pub fn reinterpret(self, shape: &ArrayShape) -> Result<Self, LiteralError> {
        let expected = checked_len(shape)?;
        if expected != self.bytes().len() {
            return Err(LiteralError::WrongSize {
                expected,
                actual: self.bytes().len(),
            });
        }
        let mut shape = shape.clone();
        shape.layout = None;
        let bytes = self.bytes;
        Ok(Self { shape, bytes })
    }

    /// The same elements under another shape of the same type and size.
    pub fn reshaped(&self, shape: &ArrayShape) -> Result<Self, LiteralError> {
        let expected = checked_len(shape)?;
        if expected != self.bytes().len() || shape.element_type != self.element_type() {
            return Err(LiteralError::WrongSize {
                expected,
                actual: self.bytes().len(),
            });
        }
        let mut shape = shape.clone();
        shape.layout = None;
        Ok(Self {
            shape,
            bytes: Arc::clone(&self.bytes),
        })
    }
}

fn checked_len(shape: &ArrayShape) -> Result<usize, LiteralError> {
    let valid = shape
        .dims
        .iter()
        .all(|d| d.as_static().is_some_and(|d| d >= 0));
    match shape.byte_size() {
        Some(size) if valid && size <= MAX_LITERAL_BYTES => Ok(size as usize),
        Some(size) if valid => Err(LiteralError::TooLarge(size)),
        _ => Err(LiteralError::NoFixedSize),
    }
}

impl fmt::Debug for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Literal({:?}, {} bytes)", self.shape, self.bytes().len())
    }
}
