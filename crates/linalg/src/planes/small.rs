//! Depthwise convolutions of planes whose results fit one vector: the last stages of image
//! networks, with the features first.
//!
//! The elements of a vector are all results of one plane. Each element of the image contributes to
//! some of them, each time with another weight of the window. A permutation of the plane's weights,
//! which are in two vectors, moves every weight to its result, and a mask leaves out the results
//! without this term. Permutations and masks are the same for all planes, so they are computed in
//! advance. Windows may reach outside of images, because nothing is loaded there.

use super::avx512::Lanes;
use super::{ImageBounds, Number};
use crate::depthwise::{MAX_TAPS, Shared};
use crate::gemm::{Axes, Axis};
use crate::microkernels::{CpuFeatures, VectorWidth};
use crate::tables::{Table, Tables};
use core::ops::Range;
use tegula_ir::ElementType;

/// Planes that are computed together, so that there are independent sums.
const TOGETHER: usize = 4;
/// The maximum number of contributing elements of an image. With more, loops along rows share more
/// loads.
const MAX_SUMMANDS: usize = 64;
/// The maximum number of results of a plane: the elements of the longest vector.
const MAX_RESULTS: usize = 16;

/// An element of the image that contributes to some results.
#[derive(Clone, Copy, Debug)]
struct Summand {
    /// Its offset from the plane's first element.
    at: u32,
    /// The mask of the results that it contributes to.
    results: u16,
    /// The index of its weight in each result.
    weights: [u8; MAX_RESULTS],
}

// If sizes are known at run time only, there is memory for this many taps.
const _: () = {
    let (summands, taps) = (size_of::<Summand>(), size_of::<[isize; 2]>());
    assert!(MAX_SUMMANDS * summands + 2 * MAX_RESULTS * taps <= MAX_TAPS * taps);
};

/// The data that all planes share.
#[derive(Clone, Debug)]
pub(super) struct SmallPlanes {
    function: PlanesFn,
    summands: Table<Summand>,
    weights: usize,
    results: usize,
    /// The planes of a group: its images.
    pub(super) images: Axis,
    /// The offset from the start of a plane's windows to the plane's first element.
    to_first: isize,
}

/// The addresses of a plane, its weights and its results.
type Place = (*const u8, *const u8, *mut u8);

/// Computes all results of some planes.
///
/// # Safety
/// Every summand and weight can be read and every result written, and the CPU has AVX-512 F.
type PlanesFn = unsafe fn(&SmallPlanes, &[Place; TOGETHER]);

impl SmallPlanes {
    /// Prepares windows over images with these bounds; `None` if planes are not small, weights or
    /// results are not contiguous, or the CPU has no AVX-512. The axes are those of a convolution
    /// of images: batch, lines and columns; the window's lines and columns.
    #[inline(always)]
    pub(super) fn new(
        memory: &mut Tables,
        isa: CpuFeatures,
        ty: ElementType,
        axes: &Axes,
        bounds: ImageBounds,
    ) -> Option<Self> {
        let ([images, lines, columns], [tall, wide, rest @ ..]) = (&axes.rows[..], &axes.depth[..])
        else {
            return None;
        };
        let (function, lanes): (PlanesFn, usize) = match ty {
            ElementType::F32 => (planes::<<f32 as Number>::Wide>, 16),
            ElementType::F64 => (planes::<<f64 as Number>::Wide>, 8),
            _ => return None,
        };
        let pitch = bounds.size[1] as isize;
        let along_lines = |axis: &Axis| axis.size == 1 || axis.lhs % pitch == 0;
        let results = lines.size.checked_mul(columns.size)?;
        let weights = tall.size.checked_mul(wide.size)?;
        let fits = isa.width == VectorWidth::Avx512
            && rest.iter().all(|axis| axis.size == 1)
            && (1..=lanes).contains(&results)
            && (1..=2 * lanes).contains(&weights)
            && pitch > 0
            && along_lines(lines)
            && along_lines(tall);
        let is_dense = |axis: &Axis, stride: isize, expected: usize| {
            axis.size == 1 || stride == expected as isize
        };
        let is_dense = is_dense(lines, lines.out, columns.size)
            && is_dense(columns, columns.out, 1)
            && is_dense(tall, tall.rhs, wide.size)
            && is_dense(wide, wide.rhs, 1);
        if !fits || !is_dense {
            return None;
        }
        // The index of the weight for an element of the image and a result.
        let weight_of = |element: (usize, usize), result: usize| -> Option<u8> {
            let at = |(element, first): (usize, isize), by_result, by_weight, weights| {
                let from_first = element as isize - first - by_result;
                (0..weights).find(|&weight| weight as isize * by_weight == from_first)
            };
            let (i, j) = (result / columns.size, result % columns.size);
            let down = i as isize * lines.lhs / pitch;
            let [line, column] = bounds.first;
            let a = at((element.0, line), down, tall.lhs / pitch, tall.size)?;
            let b = at(
                (element.1, column),
                j as isize * columns.lhs,
                wide.lhs,
                wide.size,
            )?;
            Some((a * wide.size + b) as u8)
        };
        let width = bounds.size[1];
        let elements = bounds.size[0].checked_mul(width)?;
        let summand = |at: usize| {
            let (mut own, mut having) = ([0; MAX_RESULTS], 0u16);
            for (result, own) in own.iter_mut().enumerate().take(results) {
                if let Some(weight) = weight_of((at / width, at % width), result) {
                    *own = weight;
                    having |= 1 << result;
                }
            }
            (having != 0).then_some(Summand {
                at: at as u32,
                results: having,
                weights: own,
            })
        };
        // Windows reach a limited number of elements, so not all elements of large images are
        // examined.
        if elements > 4 * MAX_SUMMANDS || (0..elements).filter_map(summand).count() > MAX_SUMMANDS {
            return None;
        }
        let summands = memory.table((0..elements).filter_map(summand));
        Some(Self {
            function,
            summands,
            weights,
            results,
            images: *images,
            to_first: -(bounds.first[0] * pitch + bounds.first[1]),
        })
    }

    /// Bytes of its tables.
    #[cfg(feature = "std")]
    pub(super) fn table_bytes(&self) -> usize {
        crate::tables::bytes(&self.summands)
    }

    /// Computes some planes; the images of each group are consecutive.
    ///
    /// # Safety
    /// The operands and the result can be accessed; nobody else writes these planes.
    #[inline(always)]
    pub(super) unsafe fn run(
        &self,
        shared: &Shared,
        (group, starts, element): (&Axis, &[isize; 3], usize),
        planes: Range<usize>,
    ) {
        let place = |plane: usize| -> Place {
            let (at, image) = (plane / self.images.size, plane % self.images.size);
            let (at, image) = (at as isize, image as isize);
            let lhs = starts[0] + self.to_first + at * group.lhs + image * self.images.lhs;
            let rhs = starts[1] + at * group.rhs;
            let out = starts[2] + at * group.out + image * self.images.out;
            let element = element as isize;
            (
                shared.lhs.wrapping_offset(lhs * element),
                shared.rhs.wrapping_offset(rhs * element),
                shared.out.wrapping_offset(out * element),
            )
        };
        for first in planes.clone().step_by(TOGETHER) {
            // If fewer planes are left, the last one is computed repeatedly.
            let places = core::array::from_fn(|i| place((first + i).min(planes.end - 1)));
            // SAFETY: the caller promises arrays that contain every element the axes reach, and
            // that no other thread writes these planes; the function was chosen for this CPU.
            unsafe { (self.function)(self, &places) };
        }
    }
}

/// # Safety
/// As [`PlanesFn`].
#[target_feature(enable = "avx512f")]
unsafe fn planes<V: Lanes>(small: &SmallPlanes, places: &[Place; TOGETHER]) {
    let mask = |count: usize| ((1u64 << count.min(V::COUNT)) - 1) as u32;
    let (low, high) = (
        mask(small.weights),
        mask(small.weights.saturating_sub(V::COUNT)),
    );
    // SAFETY: the caller promises AVX-512 F, and that weights and summands can be read and results
    // written; the masks have no others.
    unsafe {
        let zero = V::splat(V::Element::default());
        let (mut weights, mut sums) = ([[zero; 2]; TOGETHER], [zero; TOGETHER]);
        for (weights, place) in weights.iter_mut().zip(places) {
            let from = place.1.cast::<V::Element>();
            let next = from.wrapping_add(V::COUNT);
            *weights = [V::load(low, from), V::load(high, next)];
        }
        for summand in &small.summands[..] {
            let numbers = V::numbers(&summand.weights);
            for ((sum, weights), place) in sums.iter_mut().zip(&weights).zip(places) {
                let x = *place.0.cast::<V::Element>().add(summand.at as usize);
                let own = V::permuted(weights[0], numbers, weights[1]);
                *sum = V::fused_where(u32::from(summand.results), V::splat(x), own, *sum);
            }
        }
        for (&sum, place) in sums.iter().zip(places) {
            V::store(place.2.cast::<V::Element>(), mask(small.results), sum);
        }
    }
}
