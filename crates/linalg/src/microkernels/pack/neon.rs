//! Packing of elements that are contiguous in memory: see [`pack`](crate::microkernels::pack).

use crate::microkernels::neon::vector::{F32, Vector, turned};
use crate::microkernels::pack::{PackFn, Run};
use crate::microkernels::packed_tile::Arithmetic;
use tegula_ir::ElementType;

/// The function that packs elements of a type into an arithmetic's units, if there is a faster way
/// than one by one.
#[inline(always)]
pub(crate) fn function(element_type: ElementType, arithmetic: Arithmetic) -> Option<PackFn> {
    match (arithmetic, element_type) {
        (Arithmetic::F32, ElementType::F32) => Some(words),
        _ => None,
    }
}

/// Copies lanes that are adjacent; transposes lanes that are contiguous along the depth, four by
/// four.
///
/// # Safety
/// As [`PackFn`].
unsafe fn words(run: &Run<'_>) -> bool {
    let (source, target) = (run.source.cast::<f32>(), run.target.cast::<f32>());
    let offsets = run.lanes.offsets();
    let count = offsets.len();
    // SAFETY: the caller promises that every element of every lane can be read and every group
    // written: `run.length` elements of each lane can be read, and as many groups of `run.width`
    // units written.
    unsafe {
        if let Some(first) = run.lanes.in_a_row() {
            for element in 0..run.length {
                let source = source.offset(element as isize * run.stride + first);
                let group = target.add(element * run.width);
                copy(source, group, count);
                for lane in count..run.width {
                    *group.add(lane) = 0.0;
                }
            }
            return false;
        }
        let turns = match run.stride {
            1 => run.length / 4 * 4,
            _ => 0,
        };
        for element in (0..turns).step_by(4) {
            let group = target.add(element * run.width);
            let source = source.add(element);
            let mut lane = 0;
            for lanes in offsets.chunks_exact(4) {
                let rows = core::array::from_fn(|i| F32::load(source.offset(lanes[i]), 4));
                for (i, units) in turned(rows).into_iter().enumerate() {
                    units.store(group.add(i * run.width + lane), 4);
                }
                lane += 4;
            }
            for lane in lane..run.width {
                for i in 0..4 {
                    let number = match offsets.get(lane) {
                        Some(&offset) => *source.offset(offset).add(i),
                        None => 0.0,
                    };
                    *group.add(i * run.width + lane) = number;
                }
            }
        }
        for element in turns..run.length {
            let source = source.offset(element as isize * run.stride);
            let group = target.add(element * run.width);
            for lane in 0..run.width {
                let number = match offsets.get(lane) {
                    Some(&offset) => *source.offset(offset),
                    None => 0.0,
                };
                *group.add(lane) = number;
            }
        }
    }
    false
}

/// Copies a few numbers.
///
/// # Safety
/// `count` numbers can be read and written.
#[inline(always)]
unsafe fn copy(from: *const f32, to: *mut f32, count: usize) {
    for start in (0..count).step_by(4) {
        let some = (count - start).min(4);
        // SAFETY: the caller promises `count` numbers.
        unsafe { F32::load(from.add(start), some).store(to.add(start), some) };
    }
}
