//! Conversion between arrays with strides and dense arrays.

use crate::error::Error;

/// An array's dimensions, with the stride of each in bytes.
pub(crate) struct Strided<'a> {
    pub(crate) dims: &'a [i64],
    pub(crate) strides: &'a [i64],
    /// The number of bytes of an element.
    pub(crate) width: usize,
}

/// The number of elements.
///
/// # Errors
/// A negative dimension, or too many elements.
pub(crate) fn elements(dims: &[i64]) -> Result<usize, Error> {
    let product = dims.iter().try_fold(1_usize, |product, &dim| {
        product.checked_mul(usize::try_from(dim).ok()?)
    });
    product
        .ok_or_else(|| Error::invalid(format!("the dimensions {dims:?} are negative or too large")))
}

/// The strides of a dense array with this order of dimensions, the most major first.
pub(crate) fn dense(dims: &[i64], order: &[usize], width: usize) -> Vec<i64> {
    let mut strides = vec![0; dims.len()];
    let mut step = width as i64;
    for &dim in order.iter().rev() {
        strides[dim] = step;
        step = step.saturating_mul(dims[dim].max(1));
    }
    strides
}

impl Strided<'_> {
    /// Whether the elements are contiguous, with the last dimension the most minor.
    pub(crate) fn is_row_major(&self) -> bool {
        let mut step = self.width as i64;
        if self.dims.contains(&0) {
            return true;
        }
        self.dims
            .iter()
            .zip(self.strides)
            .rev()
            .all(|(&dim, &stride)| {
                let fits = dim == 1 || stride == step;
                step = step.saturating_mul(dim);
                fits
            })
    }

    /// Calls `copy` for every row of elements along the last dimension, with the byte offset of its
    /// first element, and the number of elements before it in the dense array.
    fn for_each_row(&self, mut copy: impl FnMut(i64, usize, i64)) {
        let (Some((&row, outer)), Some((&step, outer_strides))) =
            (self.dims.split_last(), self.strides.split_last())
        else {
            return copy(0, 0, self.width as i64);
        };
        if self.dims.contains(&0) {
            return;
        }
        let mut index = vec![0; outer.len()];
        let (mut distance, mut place) = (0, 0);
        loop {
            copy(distance, place, step);
            place += row as usize;
            let mut dim = outer.len();
            loop {
                if dim == 0 {
                    return;
                }
                dim -= 1;
                index[dim] += 1;
                distance += outer_strides[dim];
                if index[dim] < outer[dim] {
                    break;
                }
                distance -= outer_strides[dim] * outer[dim];
                index[dim] = 0;
            }
        }
    }

    /// The number of elements of a row along the last dimension.
    fn row(&self) -> usize {
        self.dims.last().map_or(1, |&row| row as usize)
    }

    /// Copies the array at `from` to a dense row-major one.
    ///
    /// # Safety
    /// Every element is in memory that can be read; `to` has room for all of them.
    pub(crate) unsafe fn gather(&self, from: *const u8, to: &mut [u8]) {
        let (width, row) = (self.width, self.row());
        self.for_each_row(|distance, place, step| {
            for k in 0..row {
                let at = distance as isize + k as isize * step as isize;
                // SAFETY: the caller promises that every element is in memory that can be read;
                // `to` has room for all of them.
                unsafe {
                    let element = from.offset(at);
                    let place = to.as_mut_ptr().add((place + k) * width);
                    copy_element(element, place, width);
                }
            }
        });
    }

    /// Copies a dense row-major array to the one at `to`.
    ///
    /// # Safety
    /// Every element is in memory that can be written; `from` has all of them.
    pub(crate) unsafe fn scatter(&self, from: &[u8], to: *mut u8) {
        let (width, row) = (self.width, self.row());
        self.for_each_row(|distance, place, step| {
            for k in 0..row {
                let at = distance as isize + k as isize * step as isize;
                // SAFETY: the caller promises that every element is in memory that can be written;
                // `from` has all of them.
                unsafe {
                    let element = from.as_ptr().add((place + k) * width);
                    copy_element(element, to.offset(at), width);
                }
            }
        });
    }
}

/// # Safety
/// Both have `width` bytes.
#[inline(always)]
unsafe fn copy_element(from: *const u8, to: *mut u8, width: usize) {
    // SAFETY: the caller promises that both have `width` bytes.
    unsafe {
        match width {
            1 => to.copy_from_nonoverlapping(from, 1),
            2 => to.copy_from_nonoverlapping(from, 2),
            4 => to.copy_from_nonoverlapping(from, 4),
            8 => to.copy_from_nonoverlapping(from, 8),
            _ => to.copy_from_nonoverlapping(from, width),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_go_both_ways() {
        // A column-major 2x3 array, and the same array with its rows reversed.
        let source: Vec<u8> = vec![0, 3, 1, 4, 2, 5];
        let strided = Strided {
            dims: &[2, 3],
            strides: &[1, 2],
            width: 1,
        };
        let mut dense = vec![9; 6];
        // SAFETY: the array has six bytes.
        unsafe { strided.gather(source.as_ptr(), &mut dense) };
        assert_eq!(dense, [0, 1, 2, 3, 4, 5]);
        let mut back = vec![9; 6];
        // SAFETY: every element is inside the vector.
        unsafe { strided.scatter(&dense, back.as_mut_ptr()) };
        assert_eq!(back, source);
        let reversed = Strided {
            dims: &[2, 3],
            strides: &[1, -2],
            width: 1,
        };
        // SAFETY: the first element is the fifth byte; all others are at lower addresses or after
        // it inside the array.
        unsafe { reversed.gather(source.as_ptr().add(4), &mut dense) };
        assert_eq!(dense, [2, 1, 0, 5, 4, 3]);
    }

    #[test]
    fn nothing_and_single_elements() {
        let none = Strided {
            dims: &[2, 0],
            strides: &[0, 0],
            width: 4,
        };
        // SAFETY: there are no elements.
        unsafe { none.gather(std::ptr::dangling(), &mut []) };
        assert!(none.is_row_major());
        let one = Strided {
            dims: &[],
            strides: &[],
            width: 2,
        };
        let mut to = [0; 2];
        // SAFETY: the array has one element of two bytes.
        unsafe { one.gather([7, 8].as_ptr(), &mut to) };
        assert_eq!(to, [7, 8]);
        assert!(elements(&[2, -1]).is_err());
        assert_eq!(dense(&[2, 3], &[1, 0], 4), [4, 8]);
    }
}
