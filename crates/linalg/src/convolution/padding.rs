//! Copies an array with a border of zeros added, or with a border cut off.

use super::{BorderedDims, Dim, MAX_DIMS, row_major};
use crate::border::{self, BorderedDim};
use crate::list::List;

/// A copy of an input: each dimension is padded or cut to the range that windows reach.
#[derive(Clone, Copy, Debug)]
pub struct Border {
    /// The dimensions, outermost first.
    dims: BorderedDims,
    /// Bytes of an element.
    element: usize,
    /// The copy's sizes, and its strides.
    pub(super) sizes: List<i64, MAX_DIMS>,
    pub(super) strides: List<i64, MAX_DIMS>,
}

impl Border {
    /// The copy of an array with these sizes: each dimension covers `low..end` in the array's
    /// positions, possibly outside of it. `None` if the copy's size overflows.
    pub(super) fn new(sizes: &[i64], reach: &[(i64, i64)], element: usize) -> Option<Self> {
        let mut dims = BorderedDims::new();
        let element_bytes = i64::try_from(element).ok()?;
        let (mut from_bytes, mut to_bytes) = (element_bytes, element_bytes);
        for (&size, &(low, end)) in sizes.iter().zip(reach).rev() {
            let clamped = |at: i64| at.clamp(0, size);
            let length = end.checked_sub(low)?;
            if size < 0 || length < 0 {
                return None;
            }
            let (first, last) = (clamped(low), clamped(end));
            let kept = (last - first).max(0);
            let front = (first.min(end) - low).clamp(0, length - kept);
            let behind = length - kept - front;
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
        let mut made = Self {
            dims,
            element,
            sizes: List::new(),
            strides: List::new(),
        };
        for &(low, end) in reach {
            made.sizes.push(end - low);
        }
        let mut strided = [Dim::default(); MAX_DIMS];
        row_major(&made.sizes, &mut strided[..reach.len()]);
        for dim in &strided[..reach.len()] {
            made.strides.push(dim.stride);
        }
        Some(made)
    }

    /// The copy's bytes, rounded up to whole cache lines; `None` if there are too many.
    pub fn bytes(&self) -> Option<usize> {
        let elements = self
            .sizes
            .iter()
            .try_fold(1i64, |n, &size| n.checked_mul(size));
        let bytes = usize::try_from(elements?).ok()?.checked_mul(self.element)?;
        bytes.checked_next_multiple_of(64)
    }

    /// The bytes of an element, and the operation along each dimension.
    pub fn parts(&self) -> (usize, &[BorderedDim]) {
        (self.element, &self.dims)
    }

    /// Makes the copy.
    ///
    /// # Safety
    /// `from` is a dense array of the sizes this was made for, `to` has room for [`Self::bytes`],
    /// and they do not overlap.
    pub unsafe fn copy(&self, from: *const u8, to: *mut u8) {
        // SAFETY: the caller promises that `from` is a dense array of the sizes this was made for,
        // that `to` has room for the copy, and that they do not overlap.
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
            let border = Border::new(&[3, 4], &[rows, columns], 1).expect("it is small");
            let elements = border.sizes.iter().product::<i64>() as usize;
            let mut to = vec![9u8; elements + 1];
            // SAFETY: both arrays are as large as the sizes say.
            unsafe { border.copy(from.as_ptr(), to.as_mut_ptr()) };
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
