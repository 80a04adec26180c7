//! Access to C memory.

/// The elements at a C pointer, which may be null if there are none.
///
/// # Safety
/// `data` points to `len` elements that live and do not change for `'a`, or `len` is zero.
pub(crate) unsafe fn slice<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if len == 0 || data.is_null() {
        return &[];
    }
    // SAFETY: the caller promises that `data` points to `len` elements that live and do not change
    // for `'a`, or `len` is zero.
    unsafe { std::slice::from_raw_parts(data, len) }
}
