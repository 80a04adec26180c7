//! Library operations of a plan: those that become kernels of the device, and those
//! that run on the host.

mod builder;
mod convolution;
mod dot;

use tegula_fusion::{Kernel, LibraryOp};
use tegula_ir::{ArrayShape, Op, Symbol};

/// How a library operation is done.
pub(crate) enum Routine {
    /// By a kernel, whose parameters are the operands and the result.
    Kernel(Box<Kernel>),
    /// On the host, which the operands are copied to.
    Host,
}

/// How an operation on these shapes is done.
pub(crate) fn routine(
    op: &LibraryOp,
    operands: &[&ArrayShape],
    results: &[&ArrayShape],
    symbols: &[Symbol],
) -> Routine {
    match (op, operands, results) {
        (LibraryOp::Dot(contraction), &[lhs, rhs], &[out]) => {
            let kernel = dot::kernel(contraction, [lhs, rhs], out, symbols);
            Routine::Kernel(Box::new(kernel))
        }
        (LibraryOp::Operation(op), &[input, weights], &[out])
            if let Op::Convolution {
                window,
                dims,
                feature_group_count,
                batch_group_count,
                ..
            } = &**op =>
        {
            let attributes = convolution::Attributes {
                window,
                dims,
                feature_groups: *feature_group_count,
                batch_groups: *batch_group_count,
            };
            let kernel = convolution::kernel(attributes, [input, weights, out], symbols);
            Routine::Kernel(Box::new(kernel))
        }
        _ => Routine::Host,
    }
}
