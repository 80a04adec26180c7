//! The arguments of vector-matrix products: of [`gemv`](super::gemv), and of `gemv_f16` for 16-bit
//! floats.

/// The order in which a matrix is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Each row is read from beginning to end before the next one, in the order of memory. For at most
    /// [`NEAR`] columns.
    Sequential,
    /// A page of each of six rows is read in turn.
    Pages,
    /// Eight rows are read in turn.
    Eight,
    /// Sixteen rows are read in turn.
    Sixteen,
}

/// The number of sums that stay in a first-level cache of 32 KiB while as many bytes of the matrix
/// stream through.
pub(crate) const NEAR: usize = 3 << 10;
/// Columns of 16-bit floats that are computed together.
pub(super) const TOGETHER: usize = 32;
/// One row times a matrix.
pub(crate) struct LongRows {
    /// The row's first element, and the distance between elements, in elements.
    pub(crate) row: *const u8,
    pub(crate) step: isize,
    /// The matrix's first element, and the distance between its rows, in elements.
    pub(crate) matrix: *const u8,
    pub(crate) stride: isize,
    pub(crate) depth: usize,
    /// The length of the result and of the matrix's rows.
    pub(crate) columns: usize,
    pub(crate) out: *mut u8,
    /// Room for [`sums_bytes`], aligned to 64.
    pub(crate) sums: *mut u8,
    /// Whether the product is added to the result's old value.
    pub(crate) add: bool,
    pub(crate) order: Order,
}

/// Computes the product.
///
/// # Safety
/// Every element of the operands can be read and every element of the result written, the result
/// and the sums overlap no other array, and the CPU has the features that the function was compiled
/// for.
pub(crate) type LongRowsFn = unsafe fn(&LongRows);

/// Bytes of the separate sums for this many columns of a matrix with elements of this many bytes;
/// only 16-bit floats need them.
pub(crate) fn sums_bytes(element: usize, columns: usize) -> usize {
    match element {
        4 => 0,
        _ => columns.next_multiple_of(TOGETHER) * 4,
    }
}
