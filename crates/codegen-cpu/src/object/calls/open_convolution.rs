//! Convolutions with open sizes: one call, which derives the products from the sizes as a run does.
//!
//! `tegula_rt_convolution` is given the sizes and the window in words, and the functions that
//! prepare products of the types and compute groups. It reports whether a window reaches outside of
//! the input, and whether the convolution cannot be computed as products at these sizes: the
//! program then uses loops of its own.

use super::{Calls, Library, Repair, Scratch};
use crate::object::routine_names::routine;
use cranelift_codegen::ir::{Type, types};
use tegula_expr::Term;
use tegula_ir::{ArrayShape, Dim, ElementType, Op};
use tegula_linalg::gemm::{Axes, MAX_COMPILED_AXES, Product};
use tegula_plan::{Plan, Step, ValueId, convolution_kernel};
use tegula_rt::Kind;

/// A function whose address is passed to a routine: its name, and the types of its parameters and
/// results.
pub(in crate::object) type Function = (&'static str, &'static [Type], &'static [Type]);

/// The call of a convolution with open sizes.
pub(in crate::object) struct OpenConvolution {
    pub words: Vec<Term>,
    /// The functions that prepare a product, compute its scratch memory and compute groups.
    pub functions: [Function; 4],
    /// The loops that compute the convolution if it cannot be computed as products.
    pub instead: Step,
    /// If padding can affect the result: the check for that, and the loops that then recompute the
    /// result.
    pub repair: Option<Repair>,
}

impl OpenConvolution {
    /// The routine that computes the scratch memory, with its arguments.
    pub(in crate::object) fn scratch(&self) -> Scratch<'_> {
        let name = "tegula_rt_scratch_convolution";
        (name, &self.words, &self.functions)
    }
}

impl Library {
    /// The call for a convolution with open sizes, whose kernel may be packed before; `None` if
    /// there is no product for the types, or routines do not support this many dimensions.
    pub(super) fn open_convolution(
        &mut self,
        plan: &mut Plan,
        op: &Op,
        (operands, results): (&[ValueId], &[ValueId]),
        fixed: Option<usize>,
    ) -> Option<Calls> {
        let (&[input, kernel], &[out]) = (operands, results) else {
            return None;
        };
        let shapes = [input, kernel, out].map(|value| plan.values[value].shape.clone());
        let types = shapes.each_ref().map(|shape| shape.element_type);
        let isa = self.isa();
        Product::new(isa, types, Axes::default(), None)?;
        if !tegula_fusion::is_product_of(types[0], types[1], types[2]) {
            return None;
        }
        // Its first words are those of any product.
        let head = self.call(Kind::Product, types, &Axes::default(), fixed, false, None);
        let mut words = head.words;
        words.extend(description(op, &shapes)?);
        self.all_tiles();
        let instead = convolution_kernel(plan, op, operands, results)?;
        let elements = |shape: &ArrayShape| {
            let sizes = shape.dims.iter().map(Dim::term);
            sizes.fold(Term::constant(1), |all, size| all.mul(&size))
        };
        let repair = types[2].is_float().then(|| Repair {
            step: instead.clone(),
            elements: [elements(&shapes[1]), elements(&shapes[2])],
            types: [types[1], types[2]],
        });
        Some(Calls::OpenConvolution(Box::new(OpenConvolution {
            words,
            functions: functions(isa.width, types),
            instead,
            repair,
        })))
    }
}

/// The functions that compute products of these types.
fn functions(width: tegula_target::VectorWidth, element_types: [ElementType; 3]) -> [Function; 4] {
    const GROUPS: (&[Type], &[Type]) = (&[types::I64; 6], &[types::I64]);
    let (prepare, scratch) = routine(width, Kind::Product, element_types);
    let [depthwise, planes] =
        [Kind::Depthwise, Kind::Planes].map(|kind| routine(width, kind, element_types).0);
    [
        (prepare, &[types::I64; 2], &[types::I64]),
        (scratch, &[types::I64], &[types::I64]),
        (depthwise, GROUPS.0, GROUPS.1),
        (planes, GROUPS.0, GROUPS.1),
    ]
}

/// The words after the first ones, as `crates/rt` reads them: the number of the arrays' dimensions,
/// the number of groups and whether they are batch groups, the batch and feature dimensions; for
/// each spatial dimension, its number in the three arrays and its window; and the sizes of the
/// arrays.
fn description(op: &Op, shapes: &[ArrayShape; 3]) -> Option<Vec<Term>> {
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
    let groups = (*feature_group_count).max(*batch_group_count).max(1);
    let count = window.len() + 2;
    let is_of_count = |shape: &ArrayShape| shape.dims.len() == count;
    // The rows are the batch and the spatial dimensions; groups add one dimension.
    let is_room = count - 1 + usize::from(groups > 1) <= MAX_COMPILED_AXES;
    if !shapes.iter().all(is_of_count) || !is_room {
        return None;
    }
    let mut words = vec![
        count as i64,
        groups,
        i64::from(*batch_group_count > 1),
        dims.input_batch,
        dims.input_feature,
        dims.kernel_input_feature,
        dims.kernel_output_feature,
        dims.output_batch,
        dims.output_feature,
    ];
    for (at, window) in window.iter().enumerate() {
        words.extend([
            *dims.input_spatial.get(at)?,
            *dims.kernel_spatial.get(at)?,
            *dims.output_spatial.get(at)?,
            window.stride,
            window.padding_low,
            window.base_dilation,
            window.window_dilation,
            i64::from(window.reversal),
        ]);
    }
    let sizes = shapes
        .iter()
        .flat_map(|shape| shape.dims.iter().map(Dim::term));
    Some(words.into_iter().map(Term::constant).chain(sizes).collect())
}
