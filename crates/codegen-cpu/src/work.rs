//! How much work a step is: arithmetic operations, and bytes of what it is given.

use crate::call::Call;
use tegula_expr::{Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, IndexVar, ScalarOp, Statement};

/// The work of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Operations of the program on single numbers: a sum counts as one, so does an
    /// exponential; an element of a matrix product as two for each term.
    pub operations: f64,
    /// Bytes of operands and results, each once.
    pub bytes: f64,
    /// Whether the operations are on numbers of fewer than 32 bits, for which machines
    /// have instructions that do more at once.
    pub narrow: bool,
}

impl Work {
    /// Of a kernel that is given so many bytes.
    pub(crate) fn of_kernel(kernel: &Kernel, bytes: i64) -> Self {
        let points: f64 = kernel.domain.iter().map(|&v| extent(kernel, v)).product();
        Self {
            operations: points * operations(kernel, &kernel.body),
            bytes: bytes as f64,
            narrow: false,
        }
    }

    /// Of a routine's call.
    pub(crate) fn of_call(call: &Call, bytes: i64) -> Self {
        let (operations, narrow) = match call {
            Call::Dot(dot) => (dot.operations(), dot.is_narrow()),
            Call::Convolution(convolution) => (convolution.operations(), convolution.is_narrow()),
            Call::Sort(_) | Call::Routine(_) | Call::Handled(_) => (0.0, false),
        };
        Self {
            operations,
            bytes: bytes as f64,
            narrow,
        }
    }

    /// Of a copy.
    pub(crate) fn of_copy(bytes: usize) -> Self {
        Self {
            bytes: 2.0 * bytes as f64,
            ..Self::default()
        }
    }

    /// The work of both.
    pub(crate) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.narrow |= other.narrow;
    }
}

fn extent(kernel: &Kernel, var: Var) -> f64 {
    match kernel.var(var) {
        Some(IndexVar::Domain(extent) | IndexVar::Loop(extent)) => {
            Term::as_constant(extent).unwrap_or(1) as f64
        }
        _ => 1.0,
    }
}

/// The operations of a block at one point; of a choice, those of its larger branch.
fn operations(kernel: &Kernel, block: &Block) -> f64 {
    let of = |statement: &Statement| match statement {
        Statement::Compute { op, .. } => match op {
            ScalarOp::Constant(_)
            | ScalarOp::Index(_)
            | ScalarOp::Convert
            | ScalarOp::BitcastConvert => 0.0,
            _ => 1.0,
        },
        Statement::Loop { var, body, .. } => extent(kernel, *var) * operations(kernel, body),
        Statement::If {
            then, otherwise, ..
        } => operations(kernel, then).max(operations(kernel, otherwise)),
        Statement::Load { .. } | Statement::Store { .. } | Statement::Bind { .. } => 0.0,
    };
    block.statements.iter().map(of).sum()
}
