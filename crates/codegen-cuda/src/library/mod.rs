//! Library operations of a plan: some become device functions, the others run on the host.

pub(crate) mod attention;
mod builder;
mod convolution;
mod dot;
mod gemm;
pub(crate) mod matrices;
pub(crate) mod sort;
mod top_k;

use crate::emit;
use crate::error::Error;
use crate::function::KernelSequence;
use gemm::Product;
use tegula_fusion::{Kernel, LibraryOp};
use tegula_ir::helpers::ConvolutionGroups;
use tegula_ir::{ArrayShape, Op, Symbol};

/// How a library operation is implemented.
pub(crate) enum Routine {
    /// By device functions; the arguments are the operands and the results.
    Functions(KernelSequence),
    /// On the host, to which the operands are copied.
    Host,
}

/// A kernel that copies an array of this shape.
pub(crate) fn copy(shape: &ArrayShape, symbols: &[Symbol]) -> Kernel {
    sort::cut(shape, shape, symbols)
}

/// The implementation of an operation on these shapes; its functions' names begin with `name`.
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
        (LibraryOp::Dot(contraction), &[lhs, rhs, ref added @ ..], &[out]) => {
            let adds = !added.is_empty();
            let ty = out.element_type;
            let product = Product::of_dot(contraction, [lhs, rhs], ty, adds, symbols);
            if let Some(functions) = product.functions(name)? {
                return Ok(Routine::Functions(functions));
            }
            let kernel = dot::kernel(contraction, [lhs, rhs], out, adds, symbols);
            return Ok(Routine::Functions(emit::functions(name, &kernel, !adds)?));
        }
        (
            LibraryOp::Sort {
                dimension,
                comparator,
            },
            ..,
        ) => {
            let series = sort::series(name, operands, *dimension, comparator, symbols)?;
            return Ok(series.map_or(Routine::Host, Routine::Functions));
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
                groups: ConvolutionGroups {
                    features: *feature_group_count,
                    batch: *batch_group_count,
                },
            };
            let shapes = [input, weights, out];
            if let Some(functions) = convolution::tiled(name, attributes, shapes, symbols)? {
                return Ok(Routine::Functions(functions));
            }
            convolution::kernel(attributes, shapes, symbols)
        }
        (LibraryOp::Operation(op), &[input], &[values, places])
            if let Op::TopK { largest, .. } = &**op =>
        {
            let shapes = [values, places];
            if let Some(function) = top_k::function(name, input, shapes, *largest, symbols) {
                return Ok(Routine::Functions(KernelSequence::one(function, 3)));
            }
            let series = sort::top_k(name, input, shapes, *largest, symbols)?;
            return Ok(series.map_or(Routine::Host, Routine::Functions));
        }
        _ => return Ok(Routine::Host),
    };
    // The results of a library call do not overlap its operands.
    Ok(Routine::Functions(emit::functions(name, &kernel, true)?))
}
