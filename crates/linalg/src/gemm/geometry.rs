//! The dimensions of a product: normalisation, counting and division into parts.

use crate::list::List;
use crate::microkernels::strided_tile::MAX_ROWS;
use core::ops::Range;

/// The maximum depth of a block, in units: a right panel of this depth has 64 KiB, which streams
/// from the second-level cache as fast as it is used, and sums are rarely added to the result.
pub(super) const MAX_DEPTH: usize = 512;
/// Columns whose right panels are packed together as they are used: adjacent elements of a row of
/// the right operand are then fetched together.
pub(super) const TOGETHER: usize = 256;

/// Bytes of a block of rows of the left operand. The block is multiplied by the whole right operand
/// before the next block; together with two panels of the right operand it stays in a second-level
/// cache of 1 MiB.
const NEAR_BYTES: usize = 81 << 13;
/// The maximum number of rows of such a block.
const NEAR_ROWS: usize = 36 * MAX_ROWS;
/// The maximum depth of a block, in units, if the right operand is read in place. Each block adds
/// to the result, so few blocks mean few reads and writes of it; a panel of this depth is copied
/// into 128 KiB, an eighth of the second-level cache.
pub(super) const DEEP: usize = 2 * MAX_DEPTH;
/// Bytes of an `f32`.
pub(super) const ELEMENT: usize = 4;

/// The number of depth blocks for this many units, if a block has at most `most`.
pub(super) fn depth_count(units: usize, most: usize) -> usize {
    units.div_ceil(most).max(1)
}

/// The number of passes over the right operand: one for each [block of rows](near_rows) of the left
/// operand. The depth has `units` units of `bytes` bytes each, in blocks of at most `most` units.
pub(super) fn passes(rows: usize, [units, bytes]: [usize; 2], most: usize) -> usize {
    rows.div_ceil(near_rows(units.div_ceil(depth_count(units, most)) * bytes))
}

/// The number of rows of a block of the left operand, for rows of this many bytes.
pub(super) fn near_rows(bytes: usize) -> usize {
    (NEAR_BYTES / bytes.max(1)).clamp(1, NEAR_ROWS)
}

/// One dimension: its size, and its stride, in elements, in each of the arrays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Axis {
    /// The number of elements along it.
    pub size: usize,
    /// Its stride in the left operand; 0 if that operand does not have the dimension.
    pub lhs: isize,
    /// Its stride in the right operand.
    pub rhs: isize,
    /// Its stride in the result.
    pub out: isize,
}

/// The maximum number of dimensions of one kind in a product, including those of size 1. A compiled
/// program prepares its products in each call, which is mostly copying, so its lists are shorter.
pub const MAX_AXES: usize = match cfg!(feature = "std") {
    true => 16,
    false => MAX_COMPILED_AXES,
};

/// The limit in compiled programs. It also bounds the number of batch dimensions plus row
/// dimensions, and of batch dimensions plus column dimensions.
pub const MAX_COMPILED_AXES: usize = 8;

/// Dimensions, outermost first.
pub type AxisList = List<Axis, MAX_AXES>;

/// The dimensions of a product, outermost first.
#[derive(Clone, Debug, Default)]
pub struct Axes {
    /// The dimensions of all three arrays.
    pub batch: AxisList,
    /// The dimensions of the left operand and the result.
    pub rows: AxisList,
    /// The dimensions of the right operand and the result.
    pub columns: AxisList,
    /// The dimensions of both operands, which are summed over.
    pub depth: AxisList,
    /// The offsets, in elements, of the first elements in the left operand, the right operand and
    /// the result.
    pub starts: [isize; 3],
}

/// The `part`-th of `parts` almost equal parts of `count` items. No part has more than
/// `count / parts` items, rounded up.
pub fn share(count: usize, parts: usize, part: usize) -> Range<usize> {
    let at = |i: usize| count / parts * i + (count % parts).min(i);
    at(part)..at(part + 1)
}

/// Parts of at most `size`; the last one may be smaller.
pub(super) fn chunks(
    range: &Range<usize>,
    size: usize,
) -> impl Iterator<Item = Range<usize>> + use<> {
    let end = range.end;
    let starts = range.clone().step_by(size.max(1));
    starts.map(move |start| start..(start + size).min(end))
}

/// Almost equal parts of at most `size`.
pub(super) fn tiles(
    range: &Range<usize>,
    size: usize,
) -> impl Iterator<Item = Range<usize>> + use<> {
    pieces(range, size, true)
}

/// Parts of at most `size`: almost equal, or with a smaller last one.
pub(super) fn pieces(
    range: &Range<usize>,
    size: usize,
    equal: bool,
) -> impl Iterator<Item = Range<usize>> + use<> {
    let (start, count, size) = (range.start, range.len(), size.max(1));
    let parts = count.div_ceil(size);
    (0..parts).map(move |part| {
        let own = match equal {
            true => share(count, parts, part),
            false => part * size..((part + 1) * size).min(count),
        };
        start + own.start..start + own.end
    })
}

/// Like [`share`], but keeps each `unit` consecutive items together.
pub(super) fn share_of_units(count: usize, unit: usize, parts: usize, part: usize) -> Range<usize> {
    let units = share(count.div_ceil(unit), parts, part);
    (units.start * unit).min(count)..(units.end * unit).min(count)
}

/// The axes with a size other than 1.
pub(crate) fn varying(axes: &[Axis]) -> AxisList {
    axes.iter().filter(|axis| axis.size != 1).copied().collect()
}

/// The product of the axes' sizes.
pub(crate) fn element_count(axes: &[Axis]) -> usize {
    axes.iter().map(|axis| axis.size).product()
}

/// The offsets of the element with a row-major index, in each array.
pub fn offsets_at(axes: &[Axis], mut index: usize) -> [isize; 3] {
    let mut offsets = [0; 3];
    for axis in axes.iter().rev() {
        let position = (index % axis.size.max(1)) as isize;
        index /= axis.size.max(1);
        offsets[0] += position * axis.lhs;
        offsets[1] += position * axis.rhs;
        offsets[2] += position * axis.out;
    }
    offsets
}

/// The offsets, in one array, of consecutive row-major indices.
pub(super) fn fill_offsets(
    axes: &[Axis],
    start: usize,
    pick: impl Fn(&Axis) -> isize,
    offsets: &mut [isize],
) {
    let Some((inner, outer)) = axes.split_last() else {
        return offsets.fill(0);
    };
    let stride = pick(inner);
    let mut done = 0;
    while done < offsets.len() {
        let index = start + done;
        let (mut rest, position) = (index / inner.size.max(1), index % inner.size.max(1));
        let mut base = position as isize * stride;
        for axis in outer.iter().rev() {
            base += (rest % axis.size.max(1)) as isize * pick(axis);
            rest /= axis.size.max(1);
        }
        let taken = (inner.size - position).clamp(1, offsets.len() - done);
        // Adds the offsets up incrementally: without wide vectors, a 64-bit product takes several
        // instructions.
        let mut offset = base;
        for slot in &mut offsets[done..done + taken] {
            *slot = offset;
            offset += stride;
        }
        done += taken;
    }
}

/// Normalises dimensions: merges them where possible, swaps the operands if only the rows are
/// contiguous in the result (unless `keeps` returns true), and orders the depth so that an operand
/// packs best. Also returns whether the operands were swapped.
#[inline(always)]
pub(super) fn normalised(mut axes: Axes, keeps: impl FnOnce(&Axes) -> bool) -> (Axes, bool) {
    merge(&mut axes.batch);
    merge(&mut axes.rows);
    merge(&mut axes.columns);
    let contiguous = |axes: &[Axis]| axes.last().is_some_and(|a| a.out == 1);
    let swapped = !contiguous(&axes.columns) && contiguous(&axes.rows) && !keeps(&axes);
    if swapped {
        swap_operands(&mut axes);
    }
    // Contiguous lanes pack well whatever the order of the depth.
    let by_right = axes.rows.last().is_some_and(|a| a.lhs == 1);
    axes.depth.sort_by_key(|a| {
        let stride = if by_right { a.rhs } else { a.lhs };
        core::cmp::Reverse(stride.unsigned_abs())
    });
    merge(&mut axes.depth);
    (axes, swapped)
}

/// Swaps the operands, and with them rows and columns.
pub(super) fn swap_operands(axes: &mut Axes) {
    axes.rows.swap_with(&mut axes.columns);
    axes.starts.swap(0, 1);
    let all = [
        &mut axes.batch,
        &mut axes.rows,
        &mut axes.columns,
        &mut axes.depth,
    ];
    for axis in all.into_iter().flatten() {
        core::mem::swap(&mut axis.lhs, &mut axis.rhs);
    }
}

/// The dimensions as seen by one operand, whose strides `own` selects: dimensions that are
/// contiguous with each other there are merged.
pub(super) fn along(axes: &[Axis], own: fn(Axis) -> (isize, isize)) -> AxisList {
    let own = axes.iter().map(|&axis| {
        let (lhs, rhs) = own(axis);
        Axis { lhs, rhs, ..axis }
    });
    let mut own: AxisList = own.collect();
    merge(&mut own);
    own
}

/// Drops dimensions of size 1, and merges adjacent dimensions that have one common stride in every
/// array.
fn merge(axes: &mut AxisList) {
    let mut count = 0;
    for at in 0..axes.len() {
        let axis = axes[at];
        let size = axis.size as isize;
        match axes[..count].last_mut() {
            _ if size == 1 => {}
            Some(last)
                if last.lhs == axis.lhs * size
                    && last.rhs == axis.rhs * size
                    && last.out == axis.out * size =>
            {
                *last = Axis {
                    size: last.size * axis.size,
                    ..axis
                };
            }
            _ => {
                axes[count] = axis;
                count += 1;
            }
        }
    }
    axes.truncate(count);
}
