//! Expands library routines into kernels, for programs that run without a library.
//!
//! Products and convolutions become loops; other routines stay.

mod body;
mod convolution;
mod product;

use super::{KernelId, Plan, Step, ValueId};
use tegula_expr::{Term, Var};
use tegula_fusion::kernel::IndexVar;
use tegula_fusion::{Contraction, Kernel, LibraryOp};
use tegula_ir::Op;

/// Replaces the products and convolutions of a plan by kernels, except those for which `stays`
/// returns true.
pub fn expand_routines(plan: &mut Plan, stays: &mut dyn FnMut(&mut Plan, &Step) -> bool) {
    let mut steps = std::mem::take(&mut plan.steps);
    expand(plan, &mut steps, stays);
    plan.steps = steps;
}

/// The step that computes a convolution by a kernel; `None` if its attributes do not match its
/// operands.
pub fn convolution_kernel(
    plan: &mut Plan,
    op: &Op,
    operands: &[ValueId],
    results: &[ValueId],
) -> Option<Step> {
    convolution::convolution(plan, op, operands, results)?.pop()
}

/// The size of each label of a product, by number, as terms over the plan's symbols; `None` if the
/// labels do not determine the sizes.
pub fn label_sizes(
    plan: &Plan,
    contraction: &Contraction,
    operands: &[ValueId],
) -> Option<Vec<Term>> {
    product::sizes(plan, contraction, operands)
}

fn expand(plan: &mut Plan, steps: &mut Vec<Step>, stays: &mut dyn FnMut(&mut Plan, &Step) -> bool) {
    let mut expanded = Vec::with_capacity(steps.len());
    for mut step in steps.drain(..) {
        for block in step.blocks_mut() {
            expand(plan, block, stays);
        }
        if matches!(step, Step::Library { .. }) && stays(plan, &step) {
            expanded.push(step);
            continue;
        }
        let kernels = match &step {
            Step::Library {
                op,
                operands,
                results,
            } => match op {
                LibraryOp::Dot(contraction) => {
                    product::product(plan, contraction, operands, results)
                }
                LibraryOp::Operation(op) if matches!(**op, Op::Convolution { .. }) => {
                    convolution::convolution(plan, op, operands, results)
                }
                _ => None,
            },
            _ => None,
        };
        match kernels {
            Some(steps) => expanded.extend(steps),
            None => expanded.push(step),
        }
    }
    *steps = expanded;
}

/// The number of a kernel in a plan, which is added unless there is an equal one.
fn kernel_of(plan: &mut Plan, kernel: Kernel) -> KernelId {
    let known = plan.kernels.iter().find(|(_, other)| **other == kernel);
    let known = known.map(|(id, _)| id);
    known.unwrap_or_else(|| plan.kernels.push(kernel))
}

/// Adds the plan's symbols to a kernel. Returns a function that rewrites the plan's terms as the
/// kernel's.
fn symbols_of(plan: &Plan, kernel: &mut Kernel) -> impl Fn(&Term) -> Term + use<> {
    let symbols = plan.symbols.iter().enumerate().map(|(number, symbol)| {
        kernel.push_var(IndexVar::Symbol {
            symbol: number as u32,
            lower: symbol.lower,
            upper: symbol.upper,
        })
    });
    let symbols: Vec<Var> = symbols.collect();
    move |term| term.substitute(&mut |var| symbols.get(var.0 as usize).map(|&var| Term::var(var)))
}
