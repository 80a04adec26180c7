//! Decides whether a product that flushed subnormal numbers to zero must be recomputed.
//!
//! The instruction that multiplies pairs of bf16 treats subnormal operands as zero and flushes
//! subnormal sums to zero. The error of an element of the result is at most
//! `depth * 2^-126 * (max |lhs| + max |rhs| + 1)`. If all elements are much larger than that, as is
//! usual when the subnormal numbers are the tail of an activation, nothing has to be recomputed.

use super::MAX_AXES;
use super::{Arrays, Product};
use crate::list::List;
use tegula_ir::ElementType;

/// The smallest relative error of an element that matters: a hundredth of the rounding error of an
/// f32 sum.
const PART: f64 = 1.0 / (1u64 << 31) as f64;

/// Sizes and strides of an array, largest strides first.
type Dims = List<(usize, isize), { 3 * MAX_AXES }>;

fn dims(axes: impl Iterator<Item = (usize, isize)>) -> Dims {
    let mut dims: Dims = axes
        .filter(|&(size, stride)| size > 1 && stride != 0)
        .collect();
    dims.sort_by_key(|&(_, stride)| core::cmp::Reverse(stride.unsigned_abs()));
    dims
}

/// Element types whose magnitudes are compared as integers of the same width, many at once.
trait Element: Copy {
    type Magnitude: Copy + Ord;
    fn magnitude(self) -> Self::Magnitude;
    fn number(magnitude: Self::Magnitude) -> f64;
}

/// A bf16.
impl Element for u16 {
    type Magnitude = i16;

    fn magnitude(self) -> i16 {
        (self & 0x7fff).cast_signed()
    }

    fn number(magnitude: i16) -> f64 {
        u32::number(i32::from(magnitude) << 16)
    }
}

/// An f32.
impl Element for u32 {
    type Magnitude = i32;

    fn magnitude(self) -> i32 {
        (self & 0x7fff_ffff).cast_signed()
    }

    fn number(magnitude: i32) -> f64 {
        f64::from(f32::from_bits(magnitude.cast_unsigned()))
    }
}

/// The smallest or the largest magnitude of all elements.
///
/// # Safety
/// The elements can be read.
unsafe fn extreme<T: Element>(
    start: *const T,
    dims: &[(usize, isize)],
    of_two: impl Fn(T::Magnitude, T::Magnitude) -> T::Magnitude + Copy,
) -> T::Magnitude {
    let at = |i: usize, stride: isize| start.wrapping_offset(i as isize * stride);
    // SAFETY: the caller promises that the elements can be read.
    let here = |place: *const T| unsafe { place.read() }.magnitude();
    match *dims {
        [] => here(start),
        [(size, 1)] => {
            // SAFETY: the caller promises that the elements can be read; these are adjacent.
            let elements = unsafe { core::slice::from_raw_parts(start, size) };
            (elements.iter()).fold(here(start), |m, element| of_two(m, element.magnitude()))
        }
        [(size, stride)] => (1..size).fold(here(start), |m, i| of_two(m, here(at(i, stride)))),
        [(size, stride), ref inner @ ..] => {
            // SAFETY: the caller promises that the elements can be read.
            let of = |i| unsafe { extreme(at(i, stride), inner, of_two) };
            (1..size).fold(of(0), |m, i| of_two(m, of(i)))
        }
    }
}

impl Product {
    /// Whether flushing subnormal numbers to zero may have changed some element by more than its
    /// rounding error.
    ///
    /// # Safety
    /// As [`Self::run`], which has left the result.
    pub(super) unsafe fn flushing_matters(&self, arrays: &Arrays) -> bool {
        let axes = &self.axes;
        let [batch, rows, columns, depth] =
            [&axes.batch, &axes.rows, &axes.columns, &axes.depth].map(|a| a.iter());
        let lhs = dims(
            batch
                .clone()
                .chain(rows.clone())
                .chain(depth.clone())
                .map(|a| (a.size, a.lhs)),
        );
        let rhs = dims(
            batch
                .clone()
                .chain(columns.clone())
                .chain(depth)
                .map(|a| (a.size, a.rhs)),
        );
        let out = dims(batch.chain(rows).chain(columns).map(|a| (a.size, a.out)));
        let start = arrays.out.cast_const();
        // SAFETY: the caller promises pointers to arrays that contain every element the axes reach,
        // with `out` overlapping neither operand.
        let smallest = unsafe {
            match self.result {
                ElementType::F32 => u32::number(extreme(start.cast::<u32>(), &out, i32::min)),
                ElementType::BF16 => u16::number(extreme(start.cast::<u16>(), &out, i16::min)),
                _ => return true,
            }
        };
        if smallest == 0.0 {
            return true;
        }
        let [lhs, rhs] = [(arrays.lhs, lhs), (arrays.rhs, rhs)].map(|(start, dims)| {
            let start = start.cast_const().cast::<u16>();
            // SAFETY: the caller promises pointers to arrays that contain every element the axes
            // reach, with `out` overlapping neither operand.
            u16::number(unsafe { extreme(start, &dims, i16::max) })
        });
        let lost = self.sizes.depth as f64 * f64::from(f32::MIN_POSITIVE) * (lhs + rhs + 1.0);
        // Infinities and NaN allow no bound.
        !(lost <= smallest * PART && smallest.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn magnitudes_of_strided_elements() {
        let numbers = [3.0f32, -7.0, 0.5, f32::NAN, 2.0, -0.25].map(f32::to_bits);
        let largest = |dims: &[(usize, isize)]| {
            // SAFETY: the dimensions stay inside.
            u32::number(unsafe { extreme(numbers.as_ptr(), dims, i32::max) })
        };
        let smallest = |dims: &[(usize, isize)]| {
            // SAFETY: the dimensions stay inside.
            u32::number(unsafe { extreme(numbers.as_ptr(), dims, i32::min) })
        };
        assert_eq!((largest(&[(3, 1)]), largest(&[])), (7.0, 3.0));
        assert!(largest(&[(6, 1)]).is_nan());
        assert_eq!(
            (smallest(&[(2, 4), (2, 1)]), smallest(&[(3, 2)])),
            (0.25, 0.5)
        );
        let halves = numbers.map(|bits| (bits >> 16) as u16);
        // SAFETY: the dimensions stay inside.
        let largest = unsafe { extreme(halves.as_ptr(), &[(3, 1)], i16::max) };
        assert_eq!(u16::number(largest), 7.0);
    }
}
