//! Maps of select-and-scatter and of scans, in both directions.

use tegula_expr::{Interval, Term, terms};
use tegula_ir::{Op, WindowDim};

use super::builder::{Builder, Draft, index, last_index};
use super::rearrange::known;
use super::window::spaced;
use super::{Cause, MapOrCause};

/// The position in a window; a window of size 1 needs no variable.
fn position(draft: &mut Draft<'_>, window: &WindowDim) -> Term {
    match window.size {
        1 => Term::constant(0),
        size => draft.range(Interval::of_size(size)),
    }
}

/// A window that contains `element`, at any of its positions.
fn window_of(
    draft: &mut Draft<'_>,
    element: &Term,
    window: &WindowDim,
    windows: &Term,
) -> Result<Term, Cause> {
    if !window.is_possible() || window.base_dilation != 1 || window.window_dilation != 1 {
        return Err(Cause::Malformed);
    }
    let tap = position(draft, window);
    let distance = window.from_begin().distance(&mut terms(), element, &tap);
    spaced(draft, &known(distance)?, window.stride, windows)
}

/// An element of a window, at any of its positions.
fn element_of(
    draft: &mut Draft<'_>,
    number: &Term,
    window: &WindowDim,
    size: &Term,
) -> Result<Term, Cause> {
    let tap = position(draft, window);
    let element = known(window.from_begin().place(&mut terms(), number, &tap))?;
    draft.within(&element, &last_index(size));
    Ok(element)
}

/// The map of a select-and-scatter. The operands are the array in which windows select an element,
/// the source with one element per window, and the initial value. An element of the result depends
/// on all elements of the windows that contain it, because any of them may be selected instead, and
/// on the source elements of those windows. Both maps are supersets: an element that is alone in
/// its window has no influence.
pub(super) fn select_and_scatter(at: &Builder<'_>, operand: usize, forward: bool) -> MapOrCause {
    let Op::SelectAndScatter { window, .. } = at.op() else {
        return Err(Cause::Malformed);
    };
    let (array, source) = (at.input(0)?, at.input(1)?);
    let rank = array.rank();
    if window.len() != rank || source.rank() != rank || at.output()?.rank() != rank {
        return Err(Cause::Malformed);
    }
    let mut draft = at.draft(if operand == 1 && forward {
        source
    } else {
        array
    });
    let mut results = Vec::new();
    match operand {
        0 => {
            for (dim, window) in window.iter().enumerate() {
                let (size, windows) = sizes(&mut draft, at, dim)?;
                let own = draft.dim(dim);
                let number = window_of(&mut draft, &own, window, &windows)?;
                results.push(element_of(&mut draft, &number, window, &size)?);
            }
            draft.superset().finish(results)
        }
        1 => {
            for (dim, window) in window.iter().enumerate() {
                let (size, windows) = sizes(&mut draft, at, dim)?;
                let own = draft.dim(dim);
                results.push(if forward {
                    element_of(&mut draft, &own, window, &size)?
                } else {
                    window_of(&mut draft, &own, window, &windows)?
                });
            }
            draft.superset().finish(results)
        }
        _ if forward => at.everywhere(operand),
        _ => draft.finish(Vec::new()),
    }
}

/// The sizes of the array and of the source along a dimension.
fn sizes(draft: &mut Draft<'_>, at: &Builder<'_>, dim: usize) -> Result<(Term, Term), Cause> {
    let mut of = |operand: usize| {
        let size = at.input(operand)?.dims.get(dim).ok_or(Cause::Malformed)?;
        Ok(draft.extent(size))
    };
    Ok((of(0)?, of(1)?))
}

/// The map of `scan(inputs..., initial carries...)`, whose results are outputs followed by final
/// carries. An output reads the inputs up to its position (or from it on, in reverse); a carry
/// reads all of them.
pub(super) fn scan(at: &Builder<'_>, operand: usize, forward: bool) -> MapOrCause {
    let Op::Scan {
        dimension,
        num_carries,
        is_reverse,
        ..
    } = at.op()
    else {
        return Err(Cause::Malformed);
    };
    let carries = usize::try_from(*num_carries).map_err(|_| Cause::Malformed)?;
    let inputs = at.instruction.operands.len().checked_sub(carries);
    let inputs = inputs
        .filter(|inputs| *inputs > 0)
        .ok_or(Cause::Malformed)?;
    let scanned = index(*dimension, at.input(0)?.rank())?;
    let outputs = at.instruction.shape.leaf_count().saturating_sub(carries);
    let has_line = |is_line: bool| if is_line { Some(scanned) } else { None };
    let (own, other) = (has_line(operand < inputs), has_line(at.leaf < outputs));
    let (input, output) = (at.input(operand)?, at.output()?);
    let (from, to, from_line, to_line) = if forward {
        (input, output, own, other)
    } else {
        (output, input, other, own)
    };
    let mut draft = at.draft(from);
    let mut kept = (0..from.rank()).filter(|dim| Some(*dim) != from_line);
    let mut results = Vec::new();
    for (dim, size) in to.dims.iter().enumerate() {
        if Some(dim) != to_line {
            results.push(draft.dim(kept.next().ok_or(Cause::Malformed)?));
            continue;
        }
        let place = draft.range_over(size);
        if let Some(line) = from_line {
            // The input's position minus the output's.
            let later = draft.dim(line).sub(&place);
            let distance = if forward == *is_reverse {
                later
            } else {
                later.neg()
            };
            draft.constrain(distance, 0, i64::MAX);
        }
        results.push(place);
    }
    if kept.next().is_some() {
        return Err(Cause::Malformed);
    }
    draft.finish(results)
}
