//! The arguments of vector-matrix products: of [`gemv`](super::gemv), and of `gemv_f16` for 16-bit
//! floats.

/// In what order a matrix is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// From its beginning to its end, as a loop that only reads would; of at most
    /// [`NEAR`] columns.
    Sequential,
    /// Pages of six rows side by side.
    Pages,
    /// Eight rows side by side.
    Eight,
    /// Sixteen rows side by side.
    Sixteen,
}

/// Sums that stay in a first-level cache of 32 KiB while as many bytes of the matrix pass.
pub(crate) const NEAR: usize = 3 << 10;
/// Columns of 16-bit floats that are computed together.
pub(super) const TOGETHER: usize = 32;
/// One row times a matrix.
pub(crate) struct LongRows {
    /// The row's first element, and from one to the next in elements.
    pub(crate) row: *const u8,
    pub(crate) step: isize,
    /// The matrix's first element, and from one of its rows to the next in elements.
    pub(crate) matrix: *const u8,
    pub(crate) stride: isize,
    pub(crate) depth: usize,
    /// Elements of the result, and of a row of the matrix.
    pub(crate) columns: usize,
    pub(crate) out: *mut u8,
    /// Room for [`sums_bytes`], aligned to 64.
    pub(crate) sums: *mut u8,
    /// Whether the product is added to what the result holds.
    pub(crate) add: bool,
    pub(crate) order: Order,
}

/// Computes the product.
///
/// # Safety
/// Every element of the operands can be read and every one of the result written, the result
/// and the sums overlap nothing, and the CPU has what the function was made for.
pub(crate) type LongRowsFn = unsafe fn(&LongRows);

/// Bytes of sums that are not elements of the result, for so many columns of a matrix whose
/// elements have so many bytes: of 16-bit floats.
pub(crate) fn sums_bytes(element: usize, columns: usize) -> usize {
    match element {
        4 => 0,
        _ => columns.next_multiple_of(TOGETHER) * 4,
    }
}
