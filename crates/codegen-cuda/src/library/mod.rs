//! Library operations of a plan: those that become functions of the device, and those
//! that run on the host.

mod builder;
mod convolution;
mod dot;
mod product;
mod sort;

use crate::emit;
use crate::error::Error;
use crate::function::Function;
use tegula_expr::Term;
use tegula_fusion::LibraryOp;
use tegula_ir::{ArrayShape, Op, Symbol};

/// How a library operation is done.
pub(crate) enum Routine {
    /// By a function, whose parameters are the operands and the result.
    Function(Box<Function>),
    /// By passes of a function that reads one set of arrays and writes another; the
    /// runs that are sorted double until they have the length of the dimension.
    Sort(Box<Function>, Term),
    /// On the host, which the operands are copied to.
    Host,
}

/// How an operation on these shapes is done; a function gets this name.
///
/// # Errors
/// An operation that a type lacks.
pub(crate) fn routine(
    name: &str,
    op: &LibraryOp,
    operands: &[&ArrayShape],
    results: &[&ArrayShape],
    symbols: &[Symbol],
) -> Result<Routine, Error> {
    let kernel = match (op, operands, results) {
        (LibraryOp::Dot(contraction), &[lhs, rhs], &[out]) => {
            let tiled = product::function(name, contraction, [lhs, rhs], out, symbols)?;
            if let Some(function) = tiled {
                return Ok(Routine::Function(Box::new(function)));
            }
            dot::kernel(contraction, [lhs, rhs], out, symbols)
        }
        (
            LibraryOp::Sort {
                dimension,
                comparator,
            },
            ..,
        ) => {
            let function = sort::function(name, operands, *dimension, comparator, symbols)?;
            let length = operands
                .first()
                .and_then(|shape| shape.dims.get(*dimension));
            return Ok(match (function, length) {
                (Some(function), Some(length)) => Routine::Sort(Box::new(function), length.term()),
                _ => Routine::Host,
            });
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
            let shapes = [input, weights, out];
            if let Some(function) = convolution::tiled(name, attributes, shapes, symbols)? {
                return Ok(Routine::Function(Box::new(function)));
            }
            convolution::kernel(attributes, shapes, symbols)
        }
        _ => return Ok(Routine::Host),
    };
    // A library call's results overlap none of its operands.
    let function = emit::function(name, &kernel, true)?;
    Ok(Routine::Function(Box::new(function)))
}
