//! Compiles a Plan to machine code in memory: every kernel, sort comparator and outlined loop, in
//! one Cranelift module.

use crate::abi::Part;
use crate::image::FunctionId;
use crate::isa::x64::InstructionSet;
use crate::options::Options;
use crate::transform::pipeline::{self, Machine, Regrouping, Transformed};
use smallvec::SmallVec;
use tegula_ir::PassManager;
use tegula_plan::Plan;

pub(crate) mod linked;
pub(crate) mod loop_outline;
pub(crate) mod module;

pub(crate) use module::{LoopFunction, PlanFunctions, compile_for_object};

/// Runs the [passes](crate::transform::pipeline) over each kernel of a Plan, by number.
pub(crate) fn transform_kernels(
    plan: &Plan,
    options: &Options,
    passes: &mut PassManager<'_>,
) -> Vec<Transformed> {
    let machine = Machine {
        interleaves: InstructionSet::of(options.cpu).is_some_and(InstructionSet::interleaves),
    };
    let kernels = plan.kernels.iter();
    kernels
        .map(|(id, kernel)| pipeline::run(&id.to_string(), kernel, machine, passes))
        .collect()
}

/// Runs the passes over each kernel of a Plan for an observer. The passes are
/// [`KERNEL_PASSES`](crate::KERNEL_PASSES).
pub fn run_kernel_passes(plan: &Plan, options: &Options, passes: &mut PassManager<'_>) {
    transform_kernels(plan, options, passes);
}

/// The regroupings of each kernel.
pub(crate) fn regroupings(transformed: &[Transformed]) -> Vec<Regrouping> {
    let each = transformed.iter().map(|kernel| kernel.regrouping.clone());
    each.collect()
}

/// The functions of a kernel's pieces, each with its part of the outermost dimension.
pub(crate) type Pieces = SmallVec<[(FunctionId, Option<Part>); 1]>;
