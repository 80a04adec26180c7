//! Library routines as kernels, for programs that run without a library.
//!
//! Products and convolutions become loops; other routines stay.

mod body;
mod convolution;
mod product;

use super::{KernelId, Plan, Step};
use tegula_expr::{Term, Var};
use tegula_fusion::kernel::IndexVar;
use tegula_fusion::{Kernel, LibraryOp};
use tegula_ir::Op;

/// Replaces every product and convolution of a plan by a kernel.
pub fn expand_routines(plan: &mut Plan) {
    let mut steps = std::mem::take(&mut plan.steps);
    expand(plan, &mut steps);
    plan.steps = steps;
}

fn expand(plan: &mut Plan, steps: &mut Vec<Step>) {
    let mut expanded = Vec::with_capacity(steps.len());
    for mut step in steps.drain(..) {
        for block in step.blocks_mut() {
            expand(plan, block);
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

/// The number of a kernel in a plan, in which equal kernels are one.
fn kernel_of(plan: &mut Plan, kernel: Kernel) -> KernelId {
    let known = plan.kernels.iter().find(|(_, other)| **other == kernel);
    let known = known.map(|(id, _)| id);
    known.unwrap_or_else(|| plan.kernels.push(kernel))
}

/// Gives a kernel the plan's symbols. What is returned makes the plan's terms the kernel's.
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
