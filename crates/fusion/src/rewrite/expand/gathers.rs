//! Expands gathers at a few constant indices along one dimension into slices that are concatenated.
//!
//! For example, `x[:, [1, 2, 0]]`, which cross products use, is `x[:, 1:3]` followed by `x[:,
//! 0:1]`. The positions are then static, so readers have no indices to load and clamp.

use super::plain;
use tegula_ir::{
    ComputationId, Error, Instruction, InstructionId, Module, ModuleBuilder, Op, Shape, SliceDim,
};

/// The most indices.
const MAX_INDICES: usize = 8;
/// The most slices: each becomes a part of every kernel that reads them.
const MAX_SLICES: usize = 3;

/// A gather as a concatenation of slices.
pub(super) struct Slices {
    /// The dimension of the operand that is sliced.
    along: usize,
    /// The corresponding dimension of the result.
    place: usize,
    /// The start and end of each slice.
    ranges: Vec<[i64; 2]>,
}

/// The slices that a gather is equivalent to; `None` if there are no such slices or too many.
pub(super) fn slices(module: &Module, instruction: &Instruction) -> Option<Slices> {
    let Op::Gather {
        dims, slice_sizes, ..
    } = &instruction.op
    else {
        return None;
    };
    let &[x, indices] = &instruction.operands[..] else {
        return None;
    };
    let Op::Constant(literals) = &module[indices].op else {
        return None;
    };
    let [literal] = &literals[..] else {
        return None;
    };
    let sizes = module[x].shape.as_array()?.static_dims()?;
    let (&[mapped], &[collapsed]) = (&dims.start_index_map[..], &dims.collapsed_slice_dims[..])
    else {
        return None;
    };
    let along = usize::try_from(mapped).ok()?;
    let whole = |(d, (taken, size)): (usize, (&i64, &i64))| d == along || taken == size;
    let taken = slice_sizes.iter().zip(&sizes[..]);
    let rank = instruction.shape.as_array()?.rank();
    let plain = mapped == collapsed
        && dims.operand_batching_dims.is_empty()
        && slice_sizes.get(along) == Some(&1)
        && taken.enumerate().all(whole)
        // The indices form one list, which is one dimension of the result.
        && rank == sizes.len()
        && (1..=MAX_INDICES).contains(&literal.len());
    if !plain {
        return None;
    }
    let is_batch = |d: &usize| !dims.offset_dims.contains(&(*d as i64));
    let place = (0..rank).find(is_batch)?;
    let last = sizes[along].checked_sub(1)?;
    let mut ranges: Vec<[i64; 2]> = Vec::new();
    for index in literal.scalars() {
        // Indices out of bounds are clamped.
        let index = index.to_i64()?.clamp(0, last);
        match ranges.last_mut() {
            Some([_, end]) if *end == index => *end += 1,
            _ => ranges.push([index, index + 1]),
        }
    }
    (ranges.len() <= MAX_SLICES).then_some(Slices {
        along,
        place,
        ranges,
    })
}

/// The computation that replaces a gather.
pub(super) fn expand(
    builder: &mut ModuleBuilder,
    slices: &Slices,
    operands: &[Shape],
) -> Result<ComputationId, Error> {
    let [Shape::Array(from), indices] = operands else {
        return Err(Error::input(
            "expected an array and indices as the operands of a gather",
        ));
    };
    let mut b = builder.computation("gather");
    let x = b.parameter(Shape::Array(plain(from)));
    b.parameter(indices.clone());
    let sizes = super::sizes(&b, x)?;
    let mut parts: Vec<InstructionId> = Vec::new();
    for &[start, limit] in &slices.ranges {
        let dim = |(d, &size): (usize, &i64)| {
            let [start, limit] = match d == slices.along {
                true => [start, limit],
                false => [0, size],
            };
            SliceDim {
                start,
                limit,
                stride: 1,
            }
        };
        let dims: Vec<SliceDim> = sizes.iter().enumerate().map(dim).collect();
        parts.push(b.slice(x, &dims)?);
    }
    let together = match &parts[..] {
        [one] => *one,
        _ => b.concatenate(&parts, slices.along as i64)?,
    };
    let others = (0..sizes.len()).filter(|&d| d != slices.along);
    let mut order: Vec<i64> = others.map(|d| d as i64).collect();
    order.insert(slices.place, slices.along as i64);
    let root = match order.is_sorted() {
        true => together,
        false => b.transpose(together, &order)?,
    };
    b.finish(root)
}
