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

/// The data that the windows of all groups share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    function: WindowsFn,
    /// The distance between lines of the operand, in elements.
    pitch: isize,
    /// The axis of a plane's rows.
    pub(super) row: Axis,
    /// The planes of a group: its images.
    pub(super) images: Axis,
    bounds: ImageBounds,
}

/// Rows of one plane of the result.
pub(super) struct Plane<'a> {
    /// The addresses of the first row's first term in the operand, and of its first element in the
    /// result.
    lhs: *const u8,
    out: *mut u8,
    rhs: *const u8,
    /// The offset of each weight, in the order of the terms.
    taps: &'a [[isize; 2]],
    pitch: isize,
    out_pitch: isize,
    rows: usize,
    length: usize,
    /// The image's bounds, relative to the first row's first term.
    bounds: ImageBounds,
}

/// Computes the elements of some rows.
///
/// # Safety
/// Every term inside of the image can be read and every element written, there are at least
/// [`ROWS`] rows if the bounds are not those of an image, the window has as many taps as the
/// function was made for, and the CPU has AVX-512 F.
type WindowsFn = unsafe fn(&Plane<'_>);

impl Windows {
    /// Prepares windows with these offsets of terms, given the outer row axes and the innermost
    /// one; `None` if they are not such a window, or the CPU has no AVX-512. `image`: the bounds of
    /// the image, if windows reach outside of it, and all row axes: batch, lines and columns.
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
            // The window's lines are the image's lines.
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
            // A batch of images with a single line would look like the lines of one image.
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

    /// Computes some rows of a plane, with the given numbers of elements and of bytes for each.
    ///
    /// # Safety
    /// `lhs` and `out` point to the plane's first row, `rhs` to its group's weights; every term
    /// inside of the image can be read and every element written; there are at least [`ROWS`] rows
    /// of them, if the bounds are not those of an image.
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
        // SAFETY: the caller promises arrays that contain every element of these rows and their
        // windows, and that no other thread writes these rows.
        unsafe { (self.function)(&plane) };
    }
}

/// The function for windows with this side and these column and row strides.
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

/// Unrolls statements for the constant indices below a constant bound, so that arrays indexed by
/// them stay in registers.
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
/// As [`WindowsFn`], for windows of `SIDE * SIDE` elements with a column stride of `STRIDE` and a
/// row stride of `DOWN`, each 1 or 2.
#[target_feature(enable = "avx512f")]
unsafe fn plane<V: Lanes, const SIDE: usize, const STRIDE: usize, const DOWN: usize>(
    plane: &Plane<'_>,
) {
    // SAFETY: the caller promises AVX-512 F, `SIDE * SIDE` weights, and all terms and elements; the
    // masks select only elements from `start` on that exist.
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
            // The mask of elements to load for each column of the window, without those outside of
            // the image.
            let mut inside = [0u64; SIDE];
            for at in 0..SIDE {
                inside[at] = match (STRIDE, at % 2) {
                    (1, _) => image_mask(left + at as isize, columns, count),
                    // Two adjacent window columns share one load of pairs; the last column has no
                    // partner.
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
                    // A line above the image wraps to a number that is too large.
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

/// The mask of the elements inside of an image, for `count` elements from `column` on (at most 32)
/// and an image with `columns` columns.
#[inline(always)]
fn image_mask(column: isize, columns: usize, count: usize) -> u64 {
    let below = |end: isize| (1u64 << end.clamp(0, count as isize)) - 1;
    below((columns as isize).saturating_sub(column)) & !below(-column)
}
