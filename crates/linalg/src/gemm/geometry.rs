//! The dimensions of a product: normalisation, counting and division into parts.

use crate::list::List;
use crate::microkernels::strided_tile::MAX_ROWS;
use core::ops::Range;

/// The deepest block, in units: a right panel of so many groups is 64 KiB, which
/// streams from the second-level cache as fast as it is used, and sums are added to
/// the result seldom.
pub(super) const MAX_DEPTH: usize = 512;
/// Columns whose right panels are packed together as they are used: elements that are neighbours in a
/// row of the right operand are then fetched together.
pub(super) const TOGETHER: usize = 256;

/// Bytes of a block of rows of the left operand. The block is multiplied by the whole right operand before the next one
/// is; with two panels of the right operand it stays in a second-level cache of 1 MiB.
const NEAR_BYTES: usize = 81 << 13;
/// The most such rows.
const NEAR_ROWS: usize = 36 * MAX_ROWS;
/// The most units of the depth in a block, if the right operand is read in place. Each block adds to the result, so few
/// blocks read and write it seldom; a panel of this depth is copied into 128 KiB, which is an eighth of the
/// second-level cache.
pub(super) const DEEP: usize = 2 * MAX_DEPTH;
/// Bytes of an `f32`.
pub(super) const ELEMENT: usize = 4;

/// How many blocks a depth of so many units has, of which none is deeper than `most`.
pub(super) fn depth_count(units: usize, most: usize) -> usize {
    units.div_ceil(most).max(1)
}

/// How often the right operand is read: once for each [block of rows](near_rows) of the left one, if that has so many
/// rows, and the depth is so many units of so many bytes in blocks of at most `most` units.
pub(super) fn passes(rows: usize, [units, bytes]: [usize; 2], most: usize) -> usize {
    rows.div_ceil(near_rows(units.div_ceil(depth_count(units, most)) * bytes))
}

/// How many rows of so many bytes a block of the left operand has.
pub(super) fn near_rows(bytes: usize) -> usize {
    (NEAR_BYTES / bytes.max(1)).clamp(1, NEAR_ROWS)
}

/// One dimension: its size, and its stride in elements in each of the arrays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Axis {
    /// How many elements there are along it.
    pub size: usize,
    /// Its stride in the left operand, 0 where that does not have it.
    pub lhs: isize,
    /// Its stride in the right operand.
    pub rhs: isize,
    /// Its stride in the result.
    pub out: isize,
}

/// The most dimensions of one kind that a product has, those of one element among them. A compiled
/// program makes its products ready in each call, which is mostly copying them: it has shorter lists.
pub const MAX_AXES: usize = match cfg!(feature = "std") {
    true => 16,
    false => MAX_COMPILED_AXES,
};

/// The same in compiled programs, also of the dimensions of the batch with those of the rows or the columns.
pub const MAX_COMPILED_AXES: usize = 8;

/// Dimensions, outermost first.
pub type AxisList = List<Axis, MAX_AXES>;

/// The dimensions of a product, outermost first.
#[derive(Clone, Debug, Default)]
pub struct Axes {
    /// The dimensions of all three arrays.
    pub batch: AxisList,
    /// Those of the left operand and the result.
    pub rows: AxisList,
    /// Those of the right operand and the result.
    pub columns: AxisList,
    /// Those of both operands, which are summed over.
    pub depth: AxisList,
    /// Where the first elements are, in elements: in the left operand, the right one, the
    /// result.
    pub starts: [isize; 3],
}

/// The part of `count` things that is the `part`-th of `parts` almost equal ones.
/// None is larger than `count / parts`, rounded up.
pub fn share(count: usize, parts: usize, part: usize) -> Range<usize> {
    let at = |i: usize| count / parts * i + (count % parts).min(i);
    at(part)..at(part + 1)
}

/// Parts of at most `size`, the last one smaller.
pub(super) fn chunks(
    range: &Range<usize>,
    size: usize,
) -> impl Iterator<Item = Range<usize>> + use<> {
    let end = range.end;
    let starts = range.clone().step_by(size.max(1));
    starts.map(move |start| start..(start + size).min(end))
}

/// Parts of at most `size`, all almost equal.
pub(super) fn tiles(
    range: &Range<usize>,
    size: usize,
) -> impl Iterator<Item = Range<usize>> + use<> {
    pieces(range, size, true)
}

/// Parts of at most `size`: all almost equal, or the last one smaller.
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

/// As [`share`], of things of which each `unit` in a row stay together.
pub(super) fn share_of_units(count: usize, unit: usize, parts: usize, part: usize) -> Range<usize> {
    let units = share(count.div_ceil(unit), parts, part);
    (units.start * unit).min(count)..(units.end * unit).min(count)
}

/// The axes that have more than one element.
pub(crate) fn varying(axes: &[Axis]) -> AxisList {
    axes.iter().filter(|axis| axis.size != 1).copied().collect()
}

/// How many elements some axes have together.
pub(crate) fn element_count(axes: &[Axis]) -> usize {
    axes.iter().map(|axis| axis.size).product()
}

/// The offsets of a row-major index in each array.
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

/// The offsets in one array of consecutive row-major indices.
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
        // Added up: a product of 64 bits is several instructions without wide vectors.
        let mut offset = base;
        for slot in &mut offsets[done..done + taken] {
            *slot = offset;
            offset += stride;
        }
        done += taken;
    }
}

/// Dimensions merged where they can be, columns contiguous in the result, the depth
/// in the order in which an operand is best packed. Also whether the operands have
/// changed places, which `keeps` may refuse.
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
    // Lanes that are contiguous are packed well whatever the depth is.
    let by_right = axes.rows.last().is_some_and(|a| a.lhs == 1);
    axes.depth.sort_by_key(|a| {
        let stride = if by_right { a.rhs } else { a.lhs };
        core::cmp::Reverse(stride.unsigned_abs())
    });
    merge(&mut axes.depth);
    (axes, swapped)
}

/// The operands change places, and with them rows and columns.
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

/// Dimensions as one operand has them, whose strides `own` picks: what is one stride
/// apart there is merged.
pub(super) fn along(axes: &[Axis], own: fn(Axis) -> (isize, isize)) -> AxisList {
    let own = axes.iter().map(|&axis| {
        let (lhs, rhs) = own(axis);
        Axis { lhs, rhs, ..axis }
    });
    let mut own: AxisList = own.collect();
    merge(&mut own);
    own
}

/// Drops dimensions of size 1 and merges neighbours that are one stride apart in
/// every array.
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
