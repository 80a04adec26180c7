//! Whether it matters that a product took subnormal numbers for zero.
//!
//! The instruction that multiplies pairs of bf16 takes subnormal operands for zero and makes
//! zero of subnormal sums. Of an element of the result at most
//! `depth * 2^-126 * (max |lhs| + max |rhs| + 1)` is lost so. Where all of them are larger than
//! that by far, as where one factor is the tail of an activation, nothing has to be computed
//! again.

use super::{Arrays, Product};
use smallvec::SmallVec;
use tegula_ir::ElementType;

/// What is lost of an element counts from this part of it on: a hundredth of the rounding of a
/// sum in f32.
const PART: f64 = 1.0 / (1u64 << 31) as f64;

/// Sizes and strides of an array's elements, the largest strides first.
type Dims = SmallVec<[(usize, isize); 8]>;

fn dims(axes: impl Iterator<Item = (usize, isize)>) -> Dims {
    let mut dims: Dims = axes
        .filter(|&(size, stride)| size > 1 && stride != 0)
        .collect();
    dims.sort_by_key(|&(_, stride)| std::cmp::Reverse(stride.unsigned_abs()));
    dims
}

/// Elements whose magnitudes are compared as integers.
trait Magnitude: Copy {
    /// The bits of its magnitude as an f32.
    fn bits(self) -> u32;
}

impl Magnitude for u16 {
    fn bits(self) -> u32 {
        u32::from(self & 0x7fff) << 16
    }
}

impl Magnitude for u32 {
    fn bits(self) -> u32 {
        self & 0x7fff_ffff
    }
}

/// Combines the magnitudes of all elements.
///
/// # Safety
/// The elements are there.
unsafe fn magnitudes<T: Magnitude>(
    start: *const T,
    dims: &[(usize, isize)],
    combine: fn(u32, u32) -> u32,
) -> u32 {
    let at = |i: usize, stride: isize| start.wrapping_offset(i as isize * stride);
    // SAFETY: the caller's promise.
    let bits = |place: *const T| unsafe { place.read_unaligned() }.bits();
    match *dims {
        [] => bits(start),
        // Neighbours, as the compiler knows here.
        [(size, 1)] => (1..size).fold(bits(start), |m, i| combine(m, bits(at(i, 1)))),
        [(size, stride)] => (1..size).fold(bits(start), |m, i| combine(m, bits(at(i, stride)))),
        [(size, stride), ref inner @ ..] => {
            // SAFETY: the caller's promise.
            let of = |i| unsafe { magnitudes(at(i, stride), inner, combine) };
            (1..size).fold(of(0), |m, i| combine(m, of(i)))
        }
    }
}

impl Product {
    /// Whether some element may differ by more than its rounding from what it would be without
    /// subnormal numbers taken for zero.
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
        // SAFETY: the caller's promise.
        let (largest, smallest) = unsafe {
            let largest = [(arrays.lhs, lhs), (arrays.rhs, rhs)]
                .map(|(start, dims)| magnitudes(start.cast::<u16>().cast_const(), &dims, u32::max));
            let start = arrays.out.cast_const();
            let smallest = match self.result {
                ElementType::F32 => magnitudes(start.cast::<u32>(), &out, u32::min),
                ElementType::BF16 => magnitudes(start.cast::<u16>(), &out, u32::min),
                _ => return true,
            };
            (largest, smallest)
        };
        let [lhs, rhs] = largest.map(|bits| f64::from(f32::from_bits(bits)));
        let smallest = f64::from(f32::from_bits(smallest));
        let lost = self.sizes.depth as f64 * f64::from(f32::MIN_POSITIVE) * (lhs + rhs + 1.0);
        // Of infinities and NaN nothing is known.
        !(lost <= smallest * PART && smallest.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magnitudes_of_strided_elements() {
        let numbers: Vec<u32> = [3.0f32, -7.0, 0.5, f32::NAN, 2.0, -0.25]
            .map(f32::to_bits)
            .into();
        let all = |dims: &[(usize, isize)], combine| {
            // SAFETY: the dimensions stay inside.
            f32::from_bits(unsafe { magnitudes(numbers.as_ptr(), dims, combine) })
        };
        assert_eq!(all(&[(3, 1)], u32::max).to_bits(), 7f32.to_bits());
        assert_eq!(
            all(&[(2, 4), (2, 1)], u32::min).to_bits(),
            0.25f32.to_bits()
        );
        assert_eq!(all(&[(3, 2)], u32::min).to_bits(), 0.5f32.to_bits());
        assert!(all(&[(6, 1)], u32::max).is_nan());
        assert_eq!(all(&[], u32::max).to_bits(), 3f32.to_bits());
    }
}
