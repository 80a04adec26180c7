//! Windows of 3x3, 5x5 or 7x7 elements that move over a plane with a column stride of one or two,
//! and with the same row stride or two: most depthwise convolutions of images with the features
//! first. (Text recognisers have a row stride of two and a column stride of one.)
//!
//! Four rows of the result are computed together from the input rows that they share: each vector
//! of an input row is loaded once for all result rows whose windows contain it, and the weights of
//! a window stay in registers. The loop is therefore bound by multiplications, not by loads, nearly
//! all of which cross a cache line.
//!
//! Windows may reach outside of the image: rows above and below it are skipped, and masked loads
//! give zeros for elements beside it. So no copy with a border is needed, and there may be fewer
//! than four rows.

use super::avx512::Lanes;
use super::{ImageBounds, Number};
use crate::depthwise::ROWS;
use crate::gemm::Axis;
use crate::microkernels::{CpuFeatures, VectorWidth};
use core::ops::Range;
use tegula_ir::ElementType;

/// What the windows of all groups have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    function: WindowsFn,
    /// Elements from one line of the operand to the next.
    pitch: isize,
    /// The rows of a plane.
    pub(super) row: Axis,
    /// The planes of a group: its images.
    pub(super) images: Axis,
    bounds: ImageBounds,
}

/// Rows of one plane of the result.
pub(super) struct Plane<'a> {
    /// The first row's first summand, and its first element.
    lhs: *const u8,
    out: *mut u8,
    rhs: *const u8,
    /// Where each weight is, by the order of the summands.
    taps: &'a [[isize; 2]],
    pitch: isize,
    out_pitch: isize,
    rows: usize,
    length: usize,
    /// The image, seen from the first row's first summand.
    bounds: ImageBounds,
}

/// Computes the elements of some rows.
///
/// # Safety
/// Every summand inside of the image can be read and every element written, there are at least [`ROWS`] rows if
/// the bounds are not those of an image, the window has as many taps as the function was made for, and the CPU has
/// AVX-512 F.
type WindowsFn = unsafe fn(&Plane<'_>);

impl Windows {
    /// For summands of these places, with the row axes around the innermost one and that; `None` if they are no
    /// such window, or the CPU has no AVX-512. `image`: the bounds of the image, if windows reach outside of it, and
    /// all row axes: batch, lines and columns.
    #[inline(always)]
    pub(super) fn new(
        isa: CpuFeatures,
        ty: ElementType,
        (outer, inner): (&[Axis], Axis),
        taps: &[[isize; 2]],
        image: Option<(ImageBounds, &[Axis])>,
    ) -> Option<Self> {
        let side = match taps.len() {
            9 => 3,
            25 => 5,
            49 => 7,
            _ => return None,
        };
        if isa.width != VectorWidth::Avx512 || outer.iter().any(|axis| axis.rhs != 0) {
            return None;
        }
        let pitch = taps[side][0];
        let bounds = match image {
            // A line of the window is one of the image.
            Some((bounds, _)) if bounds.size[1] as isize == pitch => bounds,
            Some(_) => return None,
            None => ImageBounds::EVERYWHERE,
        };
        let place = |at: usize| (at / side) as isize * pitch + (at % side) as isize;
        let is_window = taps.iter().enumerate().all(|(at, tap)| tap[0] == place(at));
        let stride = inner.lhs;
        let goes_down = |axis: &Axis| [stride * pitch, 2 * pitch].contains(&axis.lhs);
        let is_row = |axis: &Axis| goes_down(axis) && axis.size >= ROWS;
        let one = Axis {
            size: 1,
            ..Axis::default()
        };
        let (row, images) = match (image, outer) {
            // Images of one line would look like the lines of one.
            (Some((_, &[images, lines, _])), _) if goes_down(&lines) => (lines, images),
            (Some(_), _) => return None,
            (None, &[row]) if is_row(&row) => (row, one),
            (None, &[images, row] | &[row, images]) if is_row(&row) => (row, images),
            (None, _) => return None,
        };
        let steps = [stride, row.lhs / pitch];
        let function = match ty {
            ElementType::F32 => function::<f32>(side, steps)?,
            ElementType::F64 => function::<f64>(side, steps)?,
            _ => return None,
        };
        is_window.then_some(Self {
            function,
            pitch,
            row,
            images,
            bounds,
        })
    }

    /// Computes some rows of a plane, of so many elements of so many bytes.
    ///
    /// # Safety
    /// `lhs` and `out` lead to the plane's first row, `rhs` to its group's weights; every summand inside of the image
    /// can be read and every element written; there are at least [`ROWS`] rows of them, if the bounds are not
    /// those of an image.
    #[inline(always)]
    pub(super) unsafe fn run(
        &self,
        (lhs, rhs, out): (*const u8, *const u8, *mut u8),
        taps: &[[isize; 2]],
        rows: Range<usize>,
        (length, bytes): (usize, isize),
    ) {
        let first = rows.start as isize;
        let plane = Plane {
            lhs: lhs.wrapping_offset(first * self.row.lhs * bytes),
            out: out.wrapping_offset(first * self.row.out * bytes),
            rhs,
            taps,
            pitch: self.pitch,
            out_pitch: self.row.out,
            rows: rows.len(),
            length,
            bounds: self.bounds.below(first * (self.row.lhs / self.pitch)),
        };
        // SAFETY: the caller promises.
        unsafe { (self.function)(&plane) };
    }
}

/// The function for windows of a side that move by so many elements, and lines.
#[inline(always)]
fn function<T: Number>(side: usize, steps: [isize; 2]) -> Option<WindowsFn> {
    match (side, steps) {
        (3, [1, 1]) => Some(plane::<T::Wide, 3, 1, 1>),
        (3, [1, 2]) => Some(plane::<T::Wide, 3, 1, 2>),
        (3, [2, 2]) => Some(plane::<T::Wide, 3, 2, 2>),
        (5, [1, 1]) => Some(plane::<T::Wide, 5, 1, 1>),
        (5, [1, 2]) => Some(plane::<T::Wide, 5, 1, 2>),
        (5, [2, 2]) => Some(plane::<T::Wide, 5, 2, 2>),
        (7, [1, 1]) => Some(plane::<T::Wide, 7, 1, 1>),
        (7, [1, 2]) => Some(plane::<T::Wide, 7, 1, 2>),
        (7, [2, 2]) => Some(plane::<T::Wide, 7, 2, 2>),
        _ => None,
    }
}

/// Repeats statements for constants, those below a bound that is one, too: what they index is in registers.
macro_rules! repeated {
    ($name:ident < $bound:expr, [$($at:literal)*], $body:block) => {$(
        if $at < $bound {
            #[allow(dead_code, reason = "not all statements look at it")]
            const $name: usize = $at;
            $body
        }
    )*};
}

/// # Safety
/// As [`WindowsFn`], with windows of `SIDE * SIDE` elements that move by `STRIDE` elements or `DOWN` lines, 1 or 2.
#[target_feature(enable = "avx512f")]
unsafe fn plane<V: Lanes, const SIDE: usize, const STRIDE: usize, const DOWN: usize>(
    plane: &Plane<'_>,
) {
    // SAFETY: the caller promises AVX-512 F, `SIDE * SIDE` weights, and all summands and elements; the masks have
    // those of the elements from `start` on alone.
    unsafe {
        let rhs = plane.rhs.cast::<V::Element>();
        let mut weights = [[V::splat(V::Element::default()); SIDE]; SIDE];
        for (weight, tap) in weights.as_flattened_mut().iter_mut().zip(plane.taps) {
            *weight = V::splat(*rhs.offset(tap[1]));
        }
        let last = plane.rows.saturating_sub(ROWS);
        let [lines, columns] = plane.bounds.size;
        for start in (0..plane.length).step_by(V::COUNT) {
            let count = (plane.length - start).min(V::COUNT);
            let first = start as isize * STRIDE as isize;
            let left = plane.bounds.first[1] + first;
            // The elements that are loaded for each place of a window's line, those outside of the image left out.
            let mut inside = [0u64; SIDE];
            for at in 0..SIDE {
                inside[at] = match (STRIDE, at % 2) {
                    (1, _) => image_mask(left + at as isize, columns, count),
                    // Of two places that follow each other the pairs are loaded once; the last has no other.
                    (_, 0) if at + 1 < SIDE => image_mask(left + at as isize, columns, 2 * count),
                    (_, 0) => image_mask(left + at as isize, columns, 2 * count - 1),
                    _ => inside[at - 1],
                };
            }
            let mask = ((1u64 << count) - 1) as u32;
            let lhs = plane.lhs.cast::<V::Element>().wrapping_offset(first);
            let out = plane.out.cast::<V::Element>().wrapping_add(start);
            let mut row = 0;
            loop {
                let top = (row * DOWN) as isize;
                let above = plane.bounds.first[0] + top;
                let lhs = lhs.wrapping_offset(top * plane.pitch);
                let mut sums = [V::splat(V::Element::default()); ROWS];
                repeated!(LINE < DOWN * (ROWS - 1) + SIDE, [0 1 2 3 4 5 6 7 8 9 10 11 12], {
                    // What is above the image has a number that is too large.
                    if ((above + LINE as isize) as usize) < lines {
                        let line = lhs.wrapping_offset(LINE as isize * plane.pitch);
                        repeated!(AT < SIDE, [0 1 2 3 4 5 6], {
                            let (low, high) = (inside[AT] as u32, (inside[AT] >> V::COUNT) as u32);
                            let from = line.wrapping_add(AT / STRIDE * STRIDE);
                            let next = from.wrapping_add(V::COUNT);
                            let x = match (STRIDE, AT % 2) {
                                (1, _) => V::load(low, from),
                                (_, 0) => V::even(V::load(low, from), V::load(high, next)),
                                _ => V::odd(V::load(low, from), V::load(high, next)),
                            };
                            repeated!(ROW < ROWS, [0 1 2 3], {
                                let above = LINE.wrapping_sub(ROW * DOWN);
                                if above < SIDE {
                                    sums[ROW] = V::fused(x, weights[above][AT], sums[ROW]);
                                }
                            });
                        });
                    }
                });
                for (at, &sum) in sums.iter().enumerate().take(plane.rows) {
                    V::store(out.offset((row + at) as isize * plane.out_pitch), mask, sum);
                }
                if row == last {
                    break;
                }
                row = (row + ROWS).min(last);
            }
        }
    }
}

/// Which of so many elements from a column on are inside of an image of so many columns; `count` is at most 32.
#[inline(always)]
fn image_mask(column: isize, columns: usize, count: usize) -> u64 {
    let below = |end: isize| (1u64 << end.clamp(0, count as isize)) - 1;
    below((columns as isize).saturating_sub(column)) & !below(-column)
}
