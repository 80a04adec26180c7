//! Literals: arrays of known elements, on the host.
//!
//! Elements are dense and row-major whatever layout a shape states; each takes
//! [`ElementType::storage_bytes`] bytes, so types narrower than a byte take a
//! whole one (integers sign- or zero-extended). The bytes are aligned to
//! [`ALIGNMENT`], which suits every vector width in use.

use crate::{ArrayShape, ElementType};
use std::alloc::Layout;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// The alignment of a literal's bytes.
pub const ALIGNMENT: usize = 64;

#[repr(align(64))]
struct Aligned;

/// Bytes aligned to [`ALIGNMENT`].
///
/// They lie inside an allocation of the ordinary alignment with room to spare: only of
/// such a one does the system's allocator give zeroed pages without writing them.
pub struct AlignedBytes {
    /// Dangling if there are no bytes.
    start: NonNull<u8>,
    len: usize,
    /// Bytes of the allocation before the first.
    lead: usize,
}

// SAFETY: the bytes are owned, and shared only through shared references.
unsafe impl Send for AlignedBytes {}
// SAFETY: as above.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    /// `len` zero bytes. Pages that are never touched take no memory.
    ///
    /// Like any collection it ends the process if the system has no memory left;
    /// whoever takes sizes from outside asks [`Self::try_zeroed`].
    pub fn zeroed(len: usize) -> Self {
        Self::try_zeroed(len).unwrap_or_else(|| Self::refused(len))
    }

    /// Ends the process, as collections do.
    fn refused(len: usize) -> ! {
        std::alloc::handle_alloc_error(Self::memory(len).unwrap_or(Layout::new::<u8>()))
    }

    /// `len` zero bytes, if the system gives them.
    pub fn try_zeroed(len: usize) -> Option<Self> {
        // SAFETY: whatever is asked for is as `alloc_zeroed` wants it.
        Self::inside(len, |memory| unsafe { std::alloc::alloc_zeroed(memory) })
    }

    /// `len` bytes that hold anything, if the system gives them.
    ///
    /// # Safety
    /// All of them are written before any is read.
    unsafe fn try_unwritten(len: usize) -> Option<Self> {
        // SAFETY: as above.
        Self::inside(len, |memory| unsafe { std::alloc::alloc(memory) })
    }

    /// `len` bytes at the first aligned place of an allocation, which is never empty.
    fn inside(len: usize, allocate: impl FnOnce(Layout) -> *mut u8) -> Option<Self> {
        let memory = Self::memory(len)?;
        if len == 0 {
            return Some(Self::default());
        }
        let base = NonNull::new(allocate(memory))?;
        let lead = base.as_ptr().align_offset(ALIGNMENT);
        // SAFETY: an address has an aligned one less than `ALIGNMENT` bytes after it, and
        // that many more than `len` were allocated.
        let start = unsafe { base.add(lead) };
        Some(Self { start, len, lead })
    }

    /// What is allocated for `len` bytes.
    fn memory(len: usize) -> Option<Layout> {
        Layout::from_size_align(len.checked_add(ALIGNMENT)?, align_of::<usize>()).ok()
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `start` leads to `len` initialised bytes, or there are none.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Default for AlignedBytes {
    fn default() -> Self {
        // Typed views of nothing must be aligned, too.
        Self {
            start: NonNull::<Aligned>::dangling().cast(),
            len: 0,
            lead: 0,
        }
    }
}

impl Clone for AlignedBytes {
    fn clone(&self) -> Self {
        // SAFETY: all of them are written in the next statement but one.
        let copy = unsafe { Self::try_unwritten(self.len) };
        let mut copy = copy.unwrap_or_else(|| Self::refused(self.len));
        copy.as_mut_slice().copy_from_slice(self.as_slice());
        copy
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        if let Some(memory) = Self::memory(self.len).filter(|_| self.len > 0) {
            // SAFETY: `lead` bytes before `start` an allocation of this layout begins, which
            // is not used again.
            unsafe { std::alloc::dealloc(self.start.sub(self.lead).as_ptr(), memory) };
        }
    }
}

impl PartialEq for AlignedBytes {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

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
    /// [`Self::bytes_mut_ptr`]. The shape's layout is dropped.
    ///
    /// # Safety
    /// All bytes are written before any is read; nothing is if the literal is dropped.
    ///
    /// # Errors
    /// As [`Self::zeros`].
    pub unsafe fn unwritten(shape: &ArrayShape) -> Result<Self, LiteralError> {
        let len = checked_len(shape)?;
        // SAFETY: the caller's promise.
        let bytes = unsafe { AlignedBytes::try_unwritten(len) };
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
        self.bytes.len / self.element_type().storage_bytes()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.bytes.len == 0
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
        Arc::make_mut(&mut self.bytes).start.as_ptr()
    }

    /// The same bytes as elements of a shape of the same size in bytes, which are not
    /// copied. The shape's layout is dropped.
    pub fn reinterpret(self, shape: &ArrayShape) -> Result<Self, LiteralError> {
        let expected = checked_len(shape)?;
        if expected != self.bytes.len {
            return Err(LiteralError::WrongSize {
                expected,
                actual: self.bytes.len,
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
        if expected != self.bytes.len || shape.element_type != self.element_type() {
            return Err(LiteralError::WrongSize {
                expected,
                actual: self.bytes.len,
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
        write!(f, "Literal({:?}, {} bytes)", self.shape, self.bytes.len)
    }
}
