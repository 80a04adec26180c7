//! Recognises values of a loop's body that are row `t` of an array in iteration `t`, from the first
//! row to the last or in reverse.

use super::CountedLoop;
use crate::analysis::trip_count::constant;
use tegula_ir::{Binary, Dim, InstructionId, Module, Op};

/// The most operations through which the index of a row is followed to the loop's counter.
const MAX_STEPS: u32 = 8;

/// A read of one row of an array per iteration.
pub(crate) struct Rows {
    /// The loop state that is the array.
    pub(crate) array: usize,
    /// The instruction of the body that computes the row's index.
    pub(crate) index: InstructionId,
    /// Whether the rows are read from last to first.
    pub(crate) backwards: bool,
}

/// Whether a value of the body is a row of a loop-invariant array: a slice of one row, reshaped to
/// drop that dimension, possibly inside a called computation.
pub(crate) fn rows(module: &Module, found: &CountedLoop, value: InstructionId) -> Option<Rows> {
    let (reshape, arguments) = match module[value].op {
        Op::Call { to_apply, .. } => (module[to_apply].root, Some(&module[value].operands)),
        _ => (value, None),
    };
    let slice = *module[reshape].operands.first()?;
    let (Op::Reshape, Op::DynamicSlice(sizes)) = (&module[reshape].op, &module[slice].op) else {
        return None;
    };
    let outside = |id: InstructionId| match (arguments, &module[id].op) {
        (None, _) => Some(id),
        (Some(arguments), Op::Parameter(number)) => {
            arguments.get(usize::try_from(*number).ok()?).copied()
        }
        _ => None,
    };
    let (&first, rest) = module[slice].operands.get(1..)?.split_first()?;
    let (source, index) = (outside(*module[slice].operands.first()?)?, outside(first)?);
    let scalar = |id: InstructionId| {
        module[id]
            .shape
            .as_array()
            .is_some_and(|s| s.dims.is_empty())
    };
    if !scalar(index) || !rest.iter().all(|&start| constant(module, start) == Some(0)) {
        return None;
    }
    let dims = |id: InstructionId| Some(&module[id].shape.as_array()?.dims[..]);
    let (count, row) = dims(source)?.split_first()?;
    let whole = sizes.first() == Some(&1)
        && *count == Dim::Static(found.trips)
        && dims(slice)?.get(1..) == Some(row)
        && dims(value)? == row;
    let (slope, first) = affine(module, found, index, MAX_STEPS)?;
    let last = i128::from(found.trips) - 1;
    let (slope, first) = (slope * found.step, slope * found.start + first);
    let backwards = match (slope, first) {
        (1, 0) => false,
        (-1, first) if first == last => true,
        _ => return None,
    };
    let array = state(module, found, source)?;
    let next = *module[found.root].operands.get(array)?;
    let stays = state(module, found, next) == Some(array);
    (whole && stays).then_some(Rows {
        array,
        index,
        backwards,
    })
}

/// The number of the state that a value of the body is.
pub(crate) fn state(module: &Module, found: &CountedLoop, id: InstructionId) -> Option<usize> {
    let Op::GetTupleElement(number) = module[id].op else {
        return None;
    };
    let of = *module[id].operands.first()?;
    (of == found.parameters[1]).then(|| usize::try_from(number).ok())?
}

/// `(a, b)` if a value of the body is `a` times the loop's counter plus `b`. Integer arithmetic
/// wraps, also in intermediate results; but the value is right wherever `a * counter + b` is in its
/// type's range.
fn affine(
    module: &Module,
    found: &CountedLoop,
    id: InstructionId,
    steps: u32,
) -> Option<(i128, i128)> {
    if let Some(number) = constant(module, id) {
        return Some((0, number));
    }
    if state(module, found, id) == Some(found.counter) {
        return Some((1, 0));
    }
    let sign = match module[id].op {
        Op::Binary(Binary::Add) => 1,
        Op::Binary(Binary::Subtract) => -1,
        _ => return None,
    };
    let &[a, b] = &module[id].operands[..] else {
        return None;
    };
    let steps = steps.checked_sub(1)?;
    let (a, b) = (
        affine(module, found, a, steps)?,
        affine(module, found, b, steps)?,
    );
    Some((a.0 + sign * b.0, a.1 + sign * b.1))
}
