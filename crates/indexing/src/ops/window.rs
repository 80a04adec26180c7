//! Maps of windowed operations, from the result to the operands.

use tegula_expr::{Interval, Term, terms};
use tegula_ir::helpers::{ConvolutionGroups, Spaced};
use tegula_ir::{ArrayShape, Op, WindowDim};

use super::builder::{Builder, Draft, index};
use super::rearrange::known;
use super::{Cause, MapOrCause};

/// The input's index that position `position` of the window of result index `output` reads.
/// Positions in the padding or between dilated elements are excluded by constraints.
fn window_index(
    draft: &mut Draft<'_>,
    output: &Term,
    position: &Term,
    window: &WindowDim,
    size: &Term,
) -> Result<Term, Cause> {
    if !window.is_possible() {
        return Err(Cause::Malformed);
    }
    let raw = known(window.place(&mut terms(), output, position))?;
    spaced(draft, &raw, window.base_dilation, size)
}

/// The index, below `size`, of the element at position `raw` if elements are `step` apart. The
/// domain is restricted to positions that have an element.
pub(super) fn spaced(
    draft: &mut Draft<'_>,
    raw: &Term,
    step: i64,
    size: &Term,
) -> Result<Term, Cause> {
    let spaced = Spaced { first: 0, step };
    let last = spaced.span(&mut terms(), size);
    draft.within(raw, &known(last)?);
    let (element, rest) = spaced.element(&mut terms(), raw);
    if step > 1 {
        draft.constrain(rest, 0, 0);
    }
    Ok(element)
}

/// The operands are the inputs, followed by as many initial values.
pub(super) fn reduce_window(at: &Builder<'_>, operand: usize, window: &[WindowDim]) -> MapOrCause {
    let output = at.output()?;
    let mut draft = at.draft(output);
    if operand >= at.instruction.operands.len() / 2 {
        return draft.finish(Vec::new());
    }
    let input = draft.extents(at.input(operand)?);
    if window.len() != output.rank() || input.len() != output.rank() {
        return Err(Cause::Malformed);
    }
    let mut results = Vec::new();
    for (dim, (window, size)) in window.iter().zip(&input).enumerate() {
        // A window of one element needs no variable.
        let position = match window.size {
            1 => Term::constant(0),
            size => draft.range(Interval::of_size(size)),
        };
        let output = draft.dim(dim);
        results.push(window_index(&mut draft, &output, &position, window, size)?);
    }
    draft.finish(results)
}

/// A convolution's input (with feature groups and batch groups) and kernel.
pub(super) fn convolution(at: &Builder<'_>, operand: usize) -> MapOrCause {
    let Op::Convolution {
        window,
        dims,
        feature_group_count,
        batch_group_count,
        ..
    } = at.op()
    else {
        return Err(Cause::Malformed);
    };
    let groups = ConvolutionGroups {
        features: *feature_group_count,
        batch: *batch_group_count,
    };
    let output = at.output()?;
    let (input, kernel) = (at.input(0)?, at.input(1)?);
    let rank = output.rank();
    if input.rank() != rank
        || kernel.rank() != rank
        || window.len() + 2 != rank
        || [
            &dims.input_spatial,
            &dims.kernel_spatial,
            &dims.output_spatial,
        ]
        .iter()
        .any(|spatial| spatial.len() != window.len())
        || !groups.is_possible()
    {
        return Err(Cause::Malformed);
    }
    let dim_of = |array: &'_ ArrayShape, dim: i64| {
        let dim = array.dims.get(index(dim, rank)?);
        dim.cloned().ok_or(Cause::Malformed)
    };
    let mut draft = at.draft(output);
    let batch = draft.dim(index(dims.output_batch, rank)?);
    let feature = draft.dim(index(dims.output_feature, rank)?);
    let group_inputs = dim_of(kernel, dims.kernel_input_feature)?;
    let outputs = dim_of(kernel, dims.kernel_output_feature)?;
    let mut results: Vec<Term> = vec![Term::constant(0); rank];
    let mut put = |dim: i64, term: Term| -> Result<(), Cause> {
        *results.get_mut(index(dim, rank)?).ok_or(Cause::Malformed)? = term;
        Ok(())
    };
    let positions: Vec<Term> = window
        .iter()
        .map(|window| match window.size {
            1 => Term::constant(0),
            size => draft.range(Interval::of_size(size)),
        })
        .collect();
    let channel = draft.range_over(&group_inputs);
    if operand == 1 {
        put(dims.kernel_input_feature, channel)?;
        put(dims.kernel_output_feature, feature)?;
        for (dim, position) in dims.kernel_spatial.iter().zip(positions) {
            put(*dim, position)?;
        }
        return draft.finish(results);
    }
    // Groups are counted, so their sizes must be static.
    let [batch, channel] = match (groups.count(), outputs.as_static()) {
        (1, _) => [batch, channel],
        (_, None) => return Err(Cause::SymbolicSize),
        (_, Some(_)) => {
            let sizes = [&outputs, &group_inputs, &dim_of(input, dims.input_batch)?];
            let sizes = sizes.map(|dim| draft.extent(dim));
            let sizes = groups.sizes(&mut terms(), &sizes[0], &sizes[1], &sizes[2]);
            groups.input(&mut terms(), &sizes, [&batch, &feature, &channel])
        }
    };
    put(dims.input_feature, channel)?;
    put(dims.input_batch, batch)?;
    for (spatial, (window, position)) in window.iter().zip(&positions).enumerate() {
        let nth = |dims: &tegula_ir::DimNumbers| dims.get(spatial).copied().unwrap_or(-1);
        let output = draft.dim(index(nth(&dims.output_spatial), rank)?);
        let size = draft.extent(&dim_of(input, nth(&dims.input_spatial))?);
        let term = window_index(&mut draft, &output, position, window, &size)?;
        put(nth(&dims.input_spatial), term)?;
    }
    draft.finish(results)
}
