//! Expands a convolution into a kernel.
//!
//! The kernel's domain is the result's dimensions. For each point, it loops over the window and the
//! input features, and sums the products of those elements that are not padding.

use super::body::Body;
use super::{kernel_of, symbols_of};
use crate::{Plan, Step, ValueId};
use tegula_expr::{Cmp, Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access, IndexVar, Param};
use tegula_ir::{ConvDims, Dim, Op, WindowDim};

/// The steps of a convolution; `None` if its attributes do not match its operands.
pub(super) fn convolution(
    plan: &mut Plan,
    op: &Op,
    operands: &[ValueId],
    results: &[ValueId],
) -> Option<Vec<Step>> {
    let Op::Convolution {
        window,
        dims,
        feature_group_count,
        batch_group_count,
        ..
    } = op
    else {
        return None;
    };
    let (&[input, weights], &[result]) = (operands, results) else {
        return None;
    };
    let args = vec![result, input, weights];
    let mut kernel = Kernel::default();
    let own = symbols_of(plan, &mut kernel);
    for (number, &arg) in args.iter().enumerate() {
        let shape = &plan.values[arg].shape;
        kernel.params.push(Param {
            access: if number == 0 {
                Access::Write
            } else {
                Access::Read
            },
            element_type: shape.element_type,
            dims: shape.dims.iter().map(|dim| own(&Dim::term(dim))).collect(),
        });
    }
    let groups = [*feature_group_count, *batch_group_count];
    emit(&mut kernel, window, dims, groups)?;
    let kernel = kernel_of(plan, kernel);
    Some(vec![Step::Kernel { kernel, args }])
}

/// Emits the kernel's domain and body.
fn emit(
    kernel: &mut Kernel,
    window: &[WindowDim],
    dims: &ConvDims,
    [feature_groups, batch_groups]: [i64; 2],
) -> Option<()> {
    let size = |param: usize, dim: i64| -> Option<Term> {
        let dims = &kernel.params[param].dims;
        dims.get(usize::try_from(dim).ok()?).cloned()
    };
    let features_in = size(2, dims.kernel_input_feature)?;
    let features_out = size(0, dims.output_feature)?;
    let batch_out = size(0, dims.output_batch)?;
    let inputs: Option<Vec<Term>> = dims.input_spatial.iter().map(|&d| size(1, d)).collect();
    let inputs = inputs?;
    let at_out: Vec<Var> = kernel.params[0]
        .dims
        .clone()
        .into_iter()
        .map(|size| kernel.push_var(IndexVar::Domain(size)))
        .collect();
    kernel.domain.clone_from(&at_out);
    let out = |dim: i64| Some(Term::var(*at_out.get(usize::try_from(dim).ok()?)?));
    let mut loops: Vec<Var> = window
        .iter()
        .map(|dim| kernel.push_var(IndexVar::Loop(Term::constant(dim.size))))
        .collect();
    let feature = kernel.push_var(IndexVar::Loop(features_in.clone()));
    let taps: Vec<Term> = loops.iter().map(|&var| Term::var(var)).collect();
    loops.push(feature);
    let (feature, feature_out) = (Term::var(feature), out(dims.output_feature)?);
    // The group that a feature of the result belongs to.
    let group = |groups: i64| {
        let each = features_out.floor_div(&Term::constant(groups.max(1)));
        feature_out.floor_div(&each)
    };
    let mut at_input = vec![Term::constant(0); kernel.params[1].dims.len()];
    let mut at_weights = vec![Term::constant(0); kernel.params[2].dims.len()];
    let put = |index: &mut Vec<Term>, dim: i64, term: Term| -> Option<()> {
        *index.get_mut(usize::try_from(dim).ok()?)? = term;
        Some(())
    };
    let input_feature = match feature_groups {
        ..=1 => feature.clone(),
        groups => group(groups).mul(&features_in).add(&feature),
    };
    let batch = out(dims.output_batch)?;
    let input_batch = match batch_groups {
        ..=1 => batch,
        groups => group(groups).mul(&batch_out).add(&batch),
    };
    put(&mut at_input, dims.input_feature, input_feature)?;
    put(&mut at_input, dims.input_batch, input_batch)?;
    put(&mut at_weights, dims.kernel_input_feature, feature)?;
    put(&mut at_weights, dims.kernel_output_feature, feature_out)?;
    let mut condition: Option<Term> = None;
    for (number, dim) in window.iter().enumerate() {
        let (tap, input) = (taps.get(number)?, inputs.get(number)?);
        let output = out(*dims.output_spatial.get(number)?)?;
        let (at, inside) = position(dim, &output, tap, input);
        put(&mut at_input, *dims.input_spatial.get(number)?, at)?;
        let tap = match dim.reversal {
            true => Term::constant(dim.size - 1).sub(tap),
            false => tap.clone(),
        };
        put(&mut at_weights, *dims.kernel_spatial.get(number)?, tap)?;
        if let Some(inside) = inside {
            condition = Some(match condition {
                Some(others) => others.mul(&inside),
                None => inside,
            });
        }
    }
    let result = kernel.params[0].element_type;
    let mut body = Body::new(kernel, result);
    let mut statements = Vec::new();
    let start = body.zero(&mut statements);
    let sum = body.sums(
        &loops,
        start,
        &mut statements,
        &mut |body, sum, statements| {
            body.where_holds(
                condition.clone(),
                sum,
                statements,
                &mut |body, sum, statements| {
                    let element = body.load(1, at_input.clone(), statements);
                    let weight = body.load(2, at_weights.clone(), statements);
                    body.add_product(sum, [element, weight], statements)
                },
            )
        },
    );
    let index = at_out.iter().map(|&var| Term::var(var)).collect();
    body.store(sum, index, &mut statements);
    kernel.body.statements = statements;
    Some(())
}

/// The position in the input that a tap of the window reads, and the condition that it is an
/// element and not padding; `None` if that always holds.
fn position(dim: &WindowDim, output: &Term, tap: &Term, input: &Term) -> (Term, Option<Term>) {
    let scaled = |term: &Term, by: i64| term.mul(&Term::constant(by));
    let at = scaled(output, dim.stride).add(&scaled(tap, dim.window_dilation));
    let at = at.sub(&Term::constant(dim.padding_low));
    if dim.padding_low <= 0 && dim.padding_high <= 0 && dim.base_dilation == 1 {
        return (at, None);
    }
    let dilation = Term::constant(dim.base_dilation);
    let dilated = input.sub(&Term::constant(1)).mul(&dilation);
    let from = Term::cmp(Cmp::Le, &Term::constant(0), &at);
    let to = Term::cmp(Cmp::Le, &at, &dilated);
    let inside = to.mul(&from);
    if dim.base_dilation == 1 {
        return (at, Some(inside));
    }
    let meets = Term::cmp(Cmp::Eq, &at.modulo(&dilation), &Term::constant(0));
    (at.floor_div(&dilation), Some(inside.mul(&meets)))
}
