//! A copy of an array with a border of zeros, or with a border cut off.

use smallvec::SmallVec;
use tegula_linalg::border::{self, BorderedDim};

/// What of each dimension is kept: `low..end` in the array's own positions, which
/// may lie outside of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Padding {
    /// By dimension, outermost first.
    dims: SmallVec<[BorderedDim; 6]>,
    element: usize,
}

impl Padding {
    /// The copy of an array of these sizes, and the copy's sizes; `None` if that is
    /// not a size.
    pub(super) fn new(
        sizes: &[i64],
        reach: &[(i64, i64)],
        element: usize,
    ) -> Option<(Self, SmallVec<[i64; 6]>)> {
        let mut dims: SmallVec<[BorderedDim; 6]> = SmallVec::new();
        let element_bytes = i64::try_from(element).ok()?;
        let (mut from_bytes, mut to_bytes) = (element_bytes, element_bytes);
        for (&size, &(low, end)) in sizes.iter().zip(reach).rev() {
            let clamped = |at: i64| at.clamp(0, size);
            let (first, last) = (clamped(low), clamped(end));
            let kept = (last - first).max(0);
            let length = end.checked_sub(low)?;
            let front = (first.min(end) - low).clamp(0, length - kept);
            let behind = length - kept - front;
            if size < 0 || length < 0 {
                return None;
            }
            dims.push(BorderedDim {
                size,
                front,
                skipped: first,
                kept,
                behind,
                from_bytes,
                to_bytes,
            });
            from_bytes = from_bytes.checked_mul(size)?;
            to_bytes = to_bytes.checked_mul(length)?;
        }
        dims.reverse();
        let lengths = reach.iter().map(|&(low, end)| end - low).collect();
        Some((Self { dims, element }, lengths))
    }

    /// The copy in words: bytes of an element, how many dimensions there are, and each as a
    /// [`BorderedDim`].
    pub(super) fn words(&self) -> Vec<i64> {
        let dims = self.dims.iter().flat_map(|d| {
            let own = [d.size, d.front, d.skipped, d.kept, d.behind];
            own.into_iter().chain([d.from_bytes, d.to_bytes])
        });
        let head = [self.element, self.dims.len()].map(|n| n as i64);
        head.into_iter().chain(dims).collect()
    }

    /// Makes the copy.
    ///
    /// # Safety
    /// `from` is a dense array of the sizes this was made for, `to` one of the
    /// copy's, and they do not overlap.
    pub(super) unsafe fn copy(&self, from: *const u8, to: *mut u8) {
        // SAFETY: the caller promises: `from` is a dense array of the sizes this was made for, `to`
        // one of the copy's, and they do not overlap.
        unsafe { border::copy(&self.dims, self.element, from, to) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn borders_are_added_and_cut() {
        let from: Vec<u8> = (1..=12).collect();
        for (rows, columns) in [
            ((0, 3), (0, 4)),
            ((-1, 4), (1, 3)),
            ((2, 5), (-2, 2)),
            ((-3, -1), (0, 4)),
            ((4, 6), (5, 6)),
            ((1, 1), (0, 2)),
        ] {
            let (padding, sizes) = Padding::new(&[3, 4], &[rows, columns], 1).expect("it is small");
            let mut to = vec![9u8; (sizes[0] * sizes[1]) as usize + 1];
            // SAFETY: both arrays are as large as the sizes say.
            unsafe { padding.copy(from.as_ptr(), to.as_mut_ptr()) };
            let mut wanted = Vec::new();
            for r in rows.0..rows.1 {
                for c in columns.0..columns.1 {
                    let inside = (0..3).contains(&r) && (0..4).contains(&c);
                    wanted.push(if inside { (r * 4 + c + 1) as u8 } else { 0 });
                }
            }
            wanted.push(9);
            assert_eq!(to, wanted, "{rows:?} {columns:?}");
        }
    }
}
