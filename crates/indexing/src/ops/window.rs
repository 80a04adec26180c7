//! Windowed operations: from the result to the operands.

use tegula_expr::{Interval, Term};
use tegula_ir::{Op, WindowDim};

use super::builder::{Builder, Draft, index, static_sizes};
use super::{Cause, MapOrCause};

/// The index of the base that window position `position` of result index `output`
/// reads. Positions in the padding or between dilated elements are constrained
/// out of the domain.
fn window_index(
    draft: &mut Draft<'_>,
    output: &Term,
    position: &Term,
    window: &WindowDim,
    size: i64,
) -> Result<Term, Cause> {
    if window.stride < 1 || window.base_dilation < 1 || window.window_dilation < 1 {
        return Err(Cause::Malformed);
    }
    let position = if window.reversal {
        position.neg().add(&Term::constant(
            window.size.checked_sub(1).ok_or(Cause::Overflow)?,
        ))
    } else {
        position.clone()
    };
    let padding = window.padding_low.checked_neg().ok_or(Cause::Overflow)?;
    let raw = output
        .mul(&window.stride.into())
        .add(&position.mul(&window.window_dilation.into()))
        .add(&padding.into());
    let last = size
        .checked_sub(1)
        .and_then(|last| last.checked_mul(window.base_dilation));
    draft.constrain(raw.clone(), 0, last.ok_or(Cause::Overflow)?);
    if window.base_dilation == 1 {
        return Ok(raw);
    }
    draft.constrain(raw.modulo(&window.base_dilation.into()), 0, 0);
    Ok(raw.floor_div(&window.base_dilation.into()))
}

/// Operands are inputs, then as many initial values.
pub(super) fn reduce_window(at: &Builder<'_>, operand: usize, window: &[WindowDim]) -> MapOrCause {
    let output = at.output()?;
    let mut draft = at.draft(output);
    if operand >= at.instruction.operands.len() / 2 {
        return draft.finish(Vec::new());
    }
    let input = static_sizes(at.input(operand)?)?;
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
        results.push(window_index(&mut draft, &output, &position, window, *size)?);
    }
    draft.finish(results)
}

/// The input (with feature groups and batch groups) and the kernel.
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
    let output = at.output()?;
    let (input, kernel) = (static_sizes(at.input(0)?)?, static_sizes(at.input(1)?)?);
    let rank = output.rank();
    if input.len() != rank
        || kernel.len() != rank
        || window.len() + 2 != rank
        || [
            &dims.input_spatial,
            &dims.kernel_spatial,
            &dims.output_spatial,
        ]
        .iter()
        .any(|spatial| spatial.len() != window.len())
        || *feature_group_count < 1
        || *batch_group_count < 1
    {
        return Err(Cause::Malformed);
    }
    let at_dim = |sizes: &[i64], dim: i64| {
        sizes
            .get(index(dim, rank)?)
            .copied()
            .ok_or(Cause::Malformed)
    };
    let mut draft = at.draft(output);
    let batch = draft.dim(index(dims.output_batch, rank)?);
    let feature = draft.dim(index(dims.output_feature, rank)?);
    let group_inputs = at_dim(&kernel, dims.kernel_input_feature)?;
    let outputs = at_dim(&kernel, dims.kernel_output_feature)?;
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
    let channel = draft.range(Interval::of_size(group_inputs));
    if operand == 1 {
        put(dims.kernel_input_feature, channel)?;
        put(dims.kernel_output_feature, feature)?;
        for (dim, position) in dims.kernel_spatial.iter().zip(positions) {
            put(*dim, position)?;
        }
        return draft.finish(results);
    }
    let group = |count: i64| feature.floor_div(&Term::constant((outputs / count).max(1)));
    let channel = if *feature_group_count == 1 {
        channel
    } else {
        group(*feature_group_count)
            .mul(&group_inputs.into())
            .add(&channel)
    };
    put(dims.input_feature, channel)?;
    let batch = if *batch_group_count == 1 {
        batch
    } else {
        let per_group = at_dim(&input, dims.input_batch)? / batch_group_count;
        group(*batch_group_count).mul(&per_group.into()).add(&batch)
    };
    put(dims.input_batch, batch)?;
    for (spatial, (window, position)) in window.iter().zip(&positions).enumerate() {
        let nth = |dims: &tegula_ir::DimNumbers| dims.get(spatial).copied().unwrap_or(-1);
        let output = draft.dim(index(nth(&dims.output_spatial), rank)?);
        let size = at_dim(&input, nth(&dims.input_spatial))?;
        let term = window_index(&mut draft, &output, position, window, size)?;
        put(nth(&dims.input_spatial), term)?;
    }
    draft.finish(results)
}
