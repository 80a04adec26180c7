//! Copies arrays with a border of zeros added, or with a border cut off: the padded input of a
//! convolution whose windows reach outside of its input.
//!
//! Rows of images are short, so most of the time would go to calls of `memcpy` and `memset`: short
//! rows are copied here, by a few wide stores that overlap.

/// The copy along one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct BorderedDim {
    /// The array's size.
    pub size: i64,
    /// Zeros before the elements.
    pub front: i64,
    /// Elements skipped at the start.
    pub skipped: i64,
    /// Elements that are copied.
    pub kept: i64,
    /// Zeros after the elements.
    pub behind: i64,
    /// Bytes of one position in the array.
    pub from_bytes: i64,
    /// Bytes of one position in the copy.
    pub to_bytes: i64,
}

impl BorderedDim {
    /// Whether nothing is added or cut off.
    fn is_whole(&self) -> bool {
        self.front == 0 && self.behind == 0 && self.kept == self.size
    }
}

/// Makes a copy; `dims` are in order, outermost first.
///
/// # Safety
/// `from` points to a dense array of the dimensions' sizes with elements of `element` bytes, `to`
/// to room for the copy, and they do not overlap.
pub unsafe fn copy(dims: &[BorderedDim], element: usize, from: *const u8, to: *mut u8) {
    let Some((dim, inner)) = dims.split_first() else {
        // SAFETY: without dimensions, both arrays have one element of `element` bytes.
        return unsafe { copy_bytes(from, to, element) };
    };
    let [front, skipped, kept] = [dim.front, dim.skipped, dim.kept].map(|n| n as usize);
    let [behind, from_bytes, to_bytes] =
        [dim.behind, dim.from_bytes, dim.to_bytes].map(|n| n as usize);
    // SAFETY: the copy has `front + kept + behind` positions of `to_bytes`, the array
    // `skipped + kept` of `from_bytes`; whole positions are equally large in both.
    unsafe {
        zero(to, front * to_bytes);
        let mut to = to.add(front * to_bytes);
        let from = from.add(skipped * from_bytes);
        if inner.iter().all(BorderedDim::is_whole) {
            copy_bytes(from, to, kept * to_bytes);
        } else {
            for i in 0..kept {
                copy(
                    inner,
                    element,
                    from.add(i * from_bytes),
                    to.add(i * to_bytes),
                );
            }
        }
        to = to.add(kept * to_bytes);
        zero(to, behind * to_bytes);
    }
}

/// Ranges of at least this many bytes are copied by the C library, which may use wider vectors.
const LONG: usize = 128;
/// Bytes of the widest store.
const WIDE: usize = 32;

/// # Safety
/// Both ranges have `bytes` bytes, and do not overlap.
#[inline(always)]
unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller promises the bytes; all parts are between the first and the last of them.
    unsafe {
        match bytes {
            LONG.. => core::ptr::copy_nonoverlapping(from, to, bytes),
            WIDE.. => {
                let mut at = 0;
                while at + WIDE < bytes {
                    copy_part::<WIDE>(from, to, at);
                    at += WIDE;
                }
                copy_part::<WIDE>(from, to, bytes - WIDE);
            }
            16.. => copy_ends::<16>(from, to, bytes),
            8.. => copy_ends::<8>(from, to, bytes),
            4.. => copy_ends::<4>(from, to, bytes),
            2.. => copy_ends::<2>(from, to, bytes),
            1 => copy_part::<1>(from, to, 0),
            0 => {}
        }
    }
}

/// # Safety
/// Both ranges have `N` bytes from offset `at` on.
#[inline(always)]
unsafe fn copy_part<const N: usize>(from: *const u8, to: *mut u8, at: usize) {
    // SAFETY: the caller promises `N` bytes from offset `at` on in both ranges.
    unsafe {
        let part = from.add(at).cast::<[u8; N]>().read_unaligned();
        to.add(at).cast::<[u8; N]>().write_unaligned(part);
    }
}

/// Copies the first and the last `N` bytes.
///
/// # Safety
/// Both ranges have `bytes` bytes, at least `N`.
#[inline(always)]
unsafe fn copy_ends<const N: usize>(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller promises that both ranges have `bytes` bytes, at least `N`.
    unsafe {
        copy_part::<N>(from, to, 0);
        copy_part::<N>(from, to, bytes - N);
    }
}

/// # Safety
/// The range has `bytes` bytes.
#[inline(always)]
unsafe fn zero(to: *mut u8, bytes: usize) {
    // SAFETY: the caller promises the bytes; all parts are between the first and the last of them.
    unsafe {
        match bytes {
            33.. => core::ptr::write_bytes(to, 0, bytes),
            16.. => zero_ends::<16>(to, bytes),
            8.. => zero_ends::<8>(to, bytes),
            4.. => zero_ends::<4>(to, bytes),
            2.. => zero_ends::<2>(to, bytes),
            1 => *to = 0,
            0 => {}
        }
    }
}

/// # Safety
/// The range has `bytes` bytes, at least `N`.
#[inline(always)]
unsafe fn zero_ends<const N: usize>(to: *mut u8, bytes: usize) {
    // SAFETY: the caller promises a range of `bytes` bytes, at least `N`.
    unsafe {
        to.cast::<[u8; N]>().write_unaligned([0; N]);
        to.add(bytes - N).cast::<[u8; N]>().write_unaligned([0; N]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies of all lengths near those at which the method changes are right inside, and change
    /// nothing outside.
    #[test]
    fn rows_of_all_lengths_are_copied() {
        let lengths = (0..80).chain([127, 128, 129, 300]);
        for (kept, front, behind) in lengths.flat_map(|n| [(n, n % 7, n % 5), (n % 3, n, 2 * n)]) {
            let length = front + kept + behind;
            let row = BorderedDim {
                size: kept + 1,
                front,
                skipped: 1,
                kept,
                behind,
                from_bytes: 1,
                to_bytes: 1,
            };
            let rows = BorderedDim {
                size: 3,
                front: 0,
                skipped: 0,
                kept: 3,
                behind: 0,
                from_bytes: kept + 1,
                to_bytes: length,
            };
            let from: Vec<u8> = (0..3 * (kept + 1)).map(|n| n as u8 | 1).collect();
            let mut to = vec![9u8; 3 * length as usize + 1];
            // SAFETY: the array has three rows of the stated size, the copy room for three and one
            // byte more.
            unsafe { copy(&[rows, row], 1, from.as_ptr(), to.as_mut_ptr()) };
            let mut wanted = Vec::new();
            for own in from.chunks(kept as usize + 1) {
                wanted.extend(vec![0; front as usize]);
                wanted.extend(&own[1..]);
                wanted.extend(vec![0; behind as usize]);
            }
            wanted.push(9);
            assert_eq!(to, wanted, "{kept} {front} {behind}");
        }
    }
}
