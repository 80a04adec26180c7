//! Literals: constant arrays on the host.
//!
//! Elements are dense and row-major, whatever layout a shape states. Each takes
//! [`ElementType::storage_bytes`] bytes, so an element narrower than a byte takes a whole one
//! (integers sign- or zero-extended). The bytes are aligned to [`ALIGNMENT`](crate::ALIGNMENT),
//! which suits every vector width in use.

use crate::{AlignedBytes, ArrayShape, BufferPool, ElementType};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A constant array. Clones share the bytes.
///
/// Equality compares bits: a NaN equals itself, and 0 differs from -0.
#[derive(Clone)]
pub struct Literal {
    shape: ArrayShape,
    bytes: Storage,
}

impl PartialEq for Literal {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape && self.bytes() == other.bytes()
    }
}

/// The bytes of a literal, owned or shared.
#[derive(Clone, Default)]
struct Storage {
    /// The bytes, unless `shared` holds them.
    owned: Arc<AlignedBytes>,
    shared: Option<Arc<SharedBytes>>,
}

/// Bytes that an external owner holds, for example a mapped file. If they are not aligned, an
/// aligned copy is made when elements are first accessed.
struct SharedBytes {
    source: Box<dyn AsRef<[u8]> + Send + Sync>,
    aligned: OnceLock<AlignedBytes>,
}

impl SharedBytes {
    fn as_slice(&self) -> &[u8] {
        let bytes = (*self.source).as_ref();
        if bytes.as_ptr().addr().is_multiple_of(crate::ALIGNMENT) {
            return bytes;
        }
        self.aligned.get_or_init(|| copied(bytes)).as_slice()
    }
}

fn copied(bytes: &[u8]) -> AlignedBytes {
    let mut aligned = AlignedBytes::zeroed(bytes.len());
    aligned.as_mut_slice().copy_from_slice(bytes);
    aligned
}

impl Storage {
    fn as_slice(&self) -> &[u8] {
        match &self.shared {
            Some(bytes) => bytes.as_slice(),
            None => self.owned.as_slice(),
        }
    }

    /// The number of bytes. Makes no copy of them.
    fn len(&self) -> usize {
        match &self.shared {
            Some(bytes) => (*bytes.source).as_ref().len(),
            None => self.owned.as_slice().len(),
        }
    }

    /// The bytes, for writing; copied first if they are shared.
    fn make_mut(&mut self) -> &mut AlignedBytes {
        if let Some(bytes) = self.shared.take() {
            self.owned = Arc::new(copied(bytes.as_slice()));
        }
        Arc::make_mut(&mut self.owned)
    }
}

/// The reason why a literal cannot be made.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum LiteralError {
    /// A dimension is symbolic or negative, or the size overflows.
    #[error("the shape has no fixed size in bytes")]
    NoFixedSize,
    /// The number of bytes or elements differs from that of the shape.
    #[error("expected {expected} bytes, got {actual}")]
    WrongSize {
        /// The number that the shape requires.
        expected: usize,
        /// The number that was given.
        actual: usize,
    },
    /// The size exceeds [`MAX_LITERAL_BYTES`], or the allocation failed.
    #[error("{0} bytes exceed the maximum size of a literal")]
    TooLarge(i64),
    /// A position beyond the last element.
    #[error("element {index} is out of range for a literal of {len} elements")]
    NoSuchElement {
        /// The position, row-major.
        index: usize,
        /// The number of elements.
        len: usize,
    },
}

/// The size of the largest literal that can be made, in bytes: 16 GiB.
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

    /// An array with uninitialised elements, to be written through [`Self::bytes_mut_ptr`]. The
    /// shape's layout is dropped. The memory comes from the pool if it has any that suits, and
    /// returns to the pool when the array is dropped.
    ///
    /// # Safety
    /// The caller writes all bytes before any is read. A literal that is dropped unread need not be
    /// written.
    ///
    /// # Errors
    /// As [`Self::zeros`].
    pub unsafe fn unwritten(
        shape: &ArrayShape,
        spare: &Arc<BufferPool>,
    ) -> Result<Self, LiteralError> {
        let len = checked_len(shape)?;
        // SAFETY: the caller promises that all bytes are written before any is read, unless the
        // literal is dropped.
        let bytes = unsafe { spare.unwritten(len) };
        let bytes = bytes.ok_or(LiteralError::TooLarge(len as i64))?;
        Ok(Self::from_parts(shape, bytes))
    }

    /// A literal of row-major bytes in the host's byte order. The shape's layout is dropped.
    pub fn from_bytes(shape: &ArrayShape, bytes: &[u8]) -> Result<Self, LiteralError> {
        let len = checked_len(shape)?;
        if len != bytes.len() {
            return Err(LiteralError::WrongSize {
                expected: len,
                actual: bytes.len(),
            });
        }
        Ok(Self::from_parts(shape, copied(bytes)))
    }

    /// A literal of row-major bytes in the host's byte order that an external owner holds. Unless
    /// they are aligned, they are copied when elements are first read. The shape's layout is
    /// dropped.
    ///
    /// # Errors
    /// As [`Self::from_bytes`].
    pub fn from_shared(
        shape: &ArrayShape,
        source: impl AsRef<[u8]> + Send + Sync + 'static,
    ) -> Result<Self, LiteralError> {
        let (expected, actual) = (checked_len(shape)?, source.as_ref().len());
        if expected != actual {
            return Err(LiteralError::WrongSize { expected, actual });
        }
        let mut shape = shape.clone();
        shape.layout = None;
        let bytes = Arc::new(SharedBytes {
            source: Box::new(source),
            aligned: OnceLock::new(),
        });
        Ok(Self {
            shape,
            bytes: Storage {
                shared: Some(bytes),
                ..Storage::default()
            },
        })
    }

    pub(crate) fn from_parts(shape: &ArrayShape, bytes: AlignedBytes) -> Self {
        let mut shape = shape.clone();
        shape.layout = None;
        Self {
            shape,
            bytes: Storage {
                owned: Arc::new(bytes),
                shared: None,
            },
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
        self.bytes.len() / self.element_type().storage_bytes()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == 0
    }

    /// The bytes, row-major.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// The bytes of one element if all elements are equal; [`None`] if they differ or if there are
    /// none.
    pub fn uniform_element(&self) -> Option<&[u8]> {
        let mut elements = self
            .bytes()
            .chunks_exact(self.element_type().storage_bytes().max(1));
        let first = elements.next()?;
        elements.all(|element| element == first).then_some(first)
    }

    /// The bytes, for writing; copied first if shared.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.make_mut().as_mut_slice()
    }

    /// A pointer to the first byte, for writing; the bytes are copied first if shared.
    pub fn bytes_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.make_mut().as_mut_ptr()
    }

    /// The same bytes as elements of another shape with the same number of bytes. They are not
    /// copied. The shape's layout is dropped.
    pub fn reinterpret(self, shape: &ArrayShape) -> Result<Self, LiteralError> {
        let expected = checked_len(shape)?;
        if expected != self.bytes.len() {
            return Err(LiteralError::WrongSize {
                expected,
                actual: self.bytes.len(),
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
        if expected != self.bytes.len() || shape.element_type != self.element_type() {
            return Err(LiteralError::WrongSize {
                expected,
                actual: self.bytes.len(),
            });
        }
        let mut shape = shape.clone();
        shape.layout = None;
        Ok(Self {
            shape,
            bytes: self.bytes.clone(),
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
        write!(f, "Literal({:?}, {} bytes)", self.shape, self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_bytes_are_read_where_they_are_and_copied_to_be_written() {
        let shape = ArrayShape::new(ElementType::S32, &[4]);
        let source: Arc<Vec<u8>> = Arc::new((0..17).collect());
        /// All bytes but the first, so that they are not aligned.
        struct Rest(Arc<Vec<u8>>);
        impl AsRef<[u8]> for Rest {
            fn as_ref(&self) -> &[u8] {
                &self.0[1..]
            }
        }
        let shared = Literal::from_shared(&shape, Rest(Arc::clone(&source))).expect("fits");
        let owned = Literal::from_bytes(&shape, &source[1..]).expect("fits");
        assert_eq!(shared.len(), 4);
        assert_eq!(shared, owned);
        assert!(
            shared
                .bytes()
                .as_ptr()
                .addr()
                .is_multiple_of(crate::ALIGNMENT)
        );
        let mut written = shared.clone();
        written.bytes_mut()[0] = 99;
        assert_eq!(written.bytes()[..2], [99, 2]);
        assert_eq!(shared, owned);
        assert_eq!(source[1], 1);
        assert!(Literal::from_shared(&shape, vec![0_u8; 15]).is_err());
    }
}
