//! The cost of a step: arithmetic operations and bytes moved.

use crate::library::call::Call;
use tegula_expr::Var;
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, ScalarOp, Statement};
use tegula_ir::{Binary, Unary};
use tegula_plan::{KernelId, Plan, Step, ValueId};
use tegula_target::CpuFeatures;

/// The cost of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// The program's operations on single numbers. A sum counts as one, and so does an exponential;
    /// an element of a matrix product counts two for each term.
    pub operations: f64,
    /// The number of operations for which CPUs have no instruction: exponentials, logarithms, cube
    /// roots, sines and so on. They count among `operations`, too.
    pub transcendentals: f64,
    /// Bytes of operands and results, each counted once. An array that a kernel accesses only in
    /// part counts the bytes that are loaded and stored.
    pub bytes: f64,
    /// Whether the operations are on numbers of fewer than 32 bits, for which machines have
    /// instructions with a higher rate.
    pub narrow: bool,
}

impl Work {
    /// The cost of a plan's step; [`None`] for loops, choices and strips, and if sizes are only
    /// known at run time.
    pub fn of_step(plan: &Plan, step: &Step) -> Option<Self> {
        let shape = |value: &ValueId| &plan.values[*value].shape;
        let bytes = |values: &mut dyn Iterator<Item = &ValueId>| -> Option<i64> {
            values.map(|value| shape(value).byte_size()).sum()
        };
        match step {
            Step::Kernel { kernel, args } => {
                bytes(&mut args.iter())?;
                Some(Self::of_kernel(plan, *kernel, args))
            }
            Step::Library {
                op,
                operands,
                results,
            } => {
                let all = bytes(&mut operands.iter().chain(results))?;
                let (operands, results): (Vec<_>, Vec<_>) = (
                    operands.iter().map(shape).collect(),
                    results.iter().map(shape).collect(),
                );
                let call = Call::new(CpuFeatures::default(), op, &operands, &results, None);
                Some(Self::of_call(&call.ok()?, all))
            }
            Step::Copy { from, to } => match plan.same_place(*from, *to) {
                true => Some(Self::default()),
                false => Some(Self::of_copy(
                    usize::try_from(bytes(&mut [*from].iter())?).ok()?,
                )),
            },
            Step::While { .. } | Step::Conditional { .. } | Step::Strips { .. } => None,
        }
    }

    /// The cost of steps that follow each other, with the bodies of loops counted once, and of
    /// choices all branches; [`None`] if sizes are only known at run time.
    pub fn of_steps(plan: &Plan, steps: &[Step]) -> Option<Self> {
        let mut all = Self::default();
        for step in steps {
            match step {
                Step::While {
                    condition, body, ..
                } => {
                    all.add(&Self::of_steps(plan, condition)?);
                    all.add(&Self::of_steps(plan, body)?);
                }
                Step::Conditional { branches, .. } => {
                    for branch in branches {
                        all.add(&Self::of_steps(plan, branch)?);
                    }
                }
                Step::Strips { count, steps } => {
                    all.add(&Self::of_steps(plan, steps)?.times(*count as f64));
                }
                step => all.add(&Self::of_step(plan, step)?),
            }
        }
        Some(all)
    }

    /// The cost of a plan's kernel with these arguments.
    pub(crate) fn of_kernel(plan: &Plan, kernel: KernelId, args: &[ValueId]) -> Self {
        let kernel = &plan.kernels[kernel];
        let points: f64 = kernel.domain.iter().map(|&v| extent(kernel, v)).product();
        let mut accessed = vec![0.0; kernel.params.len()];
        count_accessed(kernel, &kernel.body, points, &mut accessed);
        let size = |value: &ValueId| plan.values[*value].shape.byte_size().unwrap_or(0);
        let bytes = args.iter().map(size).zip(accessed);
        Self {
            operations: points * count(kernel, &kernel.body, &is_operation),
            transcendentals: points * count(kernel, &kernel.body, &is_transcendental),
            bytes: bytes
                .map(|(size, accessed)| accessed.min(size as f64))
                .sum(),
            narrow: false,
        }
    }

    /// The cost of a call of a routine.
    pub(crate) fn of_call(call: &Call, bytes: i64) -> Self {
        let (operations, narrow) = match call {
            Call::Dot(dot) => (dot.operations(), dot.is_narrow()),
            Call::Convolution(convolution) => (convolution.operations(), convolution.is_narrow()),
            Call::Sort(_) | Call::Routine(_) | Call::Handled(_) => (0.0, false),
        };
        Self {
            operations,
            transcendentals: 0.0,
            bytes: bytes as f64,
            narrow,
        }
    }

    /// The cost of a copy.
    pub(crate) fn of_copy(bytes: usize) -> Self {
        Self {
            bytes: 2.0 * bytes as f64,
            ..Self::default()
        }
    }

    /// Adds the cost of another step.
    pub(crate) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.transcendentals += other.transcendentals;
        self.bytes += other.bytes;
        self.narrow |= other.narrow;
    }

    /// The cost of repeating a step.
    fn times(self, count: f64) -> Self {
        Self {
            operations: self.operations * count,
            transcendentals: self.transcendentals * count,
            bytes: self.bytes * count,
            narrow: self.narrow,
        }
    }
}

fn extent(kernel: &Kernel, var: Var) -> f64 {
    kernel.constant_extent(var).unwrap_or(1) as f64
}

/// Whether a statement computes a number, and does not only name or convert one.
fn is_operation(op: &ScalarOp) -> bool {
    !matches!(
        op,
        ScalarOp::Constant(_) | ScalarOp::Index(_) | ScalarOp::Convert | ScalarOp::BitcastConvert
    )
}

fn is_transcendental(op: &ScalarOp) -> bool {
    matches!(
        op,
        ScalarOp::Unary(
            Unary::Acos
                | Unary::Acosh
                | Unary::Asin
                | Unary::Asinh
                | Unary::Atanh
                | Unary::Cbrt
                | Unary::Cos
                | Unary::Cosh
                | Unary::Erf
                | Unary::Exp
                | Unary::Expm1
                | Unary::Log
                | Unary::Log1p
                | Unary::Logistic
                | Unary::Rsqrt
                | Unary::Sin
                | Unary::Sinh
                | Unary::Sqrt
                | Unary::Tan
                | Unary::Tanh
        ) | ScalarOp::Binary(Binary::Power | Binary::Atan2)
    )
}

/// The number of a block's operations of a kind at one point; of a conditional, those of its larger
/// branch.
fn count(kernel: &Kernel, block: &Block, counts: &dyn Fn(&ScalarOp) -> bool) -> f64 {
    let of = |statement: &Statement| match statement {
        Statement::Compute { op, .. } => f64::from(u8::from(counts(op))),
        Statement::Loop { var, body, .. } => extent(kernel, *var) * count(kernel, body, counts),
        Statement::If {
            then, otherwise, ..
        } => count(kernel, then, counts).max(count(kernel, otherwise, counts)),
        Statement::Load { .. } | Statement::Store { .. } | Statement::Bind { .. } => 0.0,
    };
    block.statements.iter().map(of).sum()
}

/// Adds the bytes that a block, executed `times` times, loads and stores of each parameter.
fn count_accessed(kernel: &Kernel, block: &Block, times: f64, accessed: &mut [f64]) {
    for statement in &block.statements {
        match statement {
            Statement::Load { param, .. } | Statement::Store { param, .. } => {
                let element_type = kernel.params[*param].element_type;
                accessed[*param] += times * element_type.storage_bytes() as f64;
            }
            Statement::Loop { var, body, .. } => {
                count_accessed(kernel, body, times * extent(kernel, *var), accessed);
            }
            Statement::If {
                then, otherwise, ..
            } => {
                count_accessed(kernel, then, times, accessed);
                count_accessed(kernel, otherwise, times, accessed);
            }
            Statement::Compute { .. } | Statement::Bind { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tegula_plan::{Step, parse_plan};
    /// One row of a matrix at a run-time index: 8 of its 8000 elements.
    #[test]
    fn of_a_part_of_an_array_only_that_counts() {
        let plan = parse_plan(
            "plan \"row\" arena 0 {
               b0 = parameter 0 bytes 32000
               b1 = parameter 1 bytes 4
               b2 = output 0 bytes 32
               x0 = f32[1000,8] in b0
               x1 = s32[] in b1
               x2 = f32[1,8] in b2
               k0 = kernel(write f32[1, 8], read s32[], read f32[1000, 8]) {
                 for i0 < 8
                 v0:s32 = load 1[]
                 bind i1 = v0 in [0, 999]
                 v1:f32 = load 2[i1, i0]
                 v2:f32 = exponential v1
                 store 0[0, i0] = v2
               }
               parameters(x0, x1)
               results(x2)
               run k0(x2, x1, x0)
             }",
        )
        .expect("a plan");
        let Some(Step::Kernel { kernel, args }) = plan.steps.first() else {
            panic!("no kernel: {plan}");
        };
        let work = Work::of_kernel(&plan, *kernel, args);
        assert_eq!((work.operations, work.bytes), (8.0, 32.0 + 32.0 + 4.0));
        assert_eq!(work.transcendentals, 8.0);
    }
}
