//! Shape functions: they compute the shape of an operation's result from the shapes of its
//! operands.
//!
//! Each opcode has one shape function, generic over a [`Provider`] of sizes: terms in analyses
//! ([`Symbols`]), plain numbers if everything is static ([`Numbers`]), machine values in a backend.
//! Ranks and element types are always known, so they come from the [`Shape`]s.
//!
//! The operands do not always determine the result: not the element type of a `convert`, the sizes
//! of a `reshape`, or the shape of a `custom-call`. In these cases the shape function takes what
//! the instruction states, checks what it can, and returns it.
//!
//! Two sizes that must agree are compared if both are known. Otherwise nothing is reported, and the
//! known one is used.

mod collective;
mod context;
mod contraction;
mod control;
mod elementwise;
mod gather;
mod linear_algebra;
mod reduction;
mod scan;
mod structural;

use crate::{Dim, Error, Module, Op, Shape, Symbol};
pub use context::ShapeOf;
use context::{Context, Sizes};
use tegula_expr::{
    Interval, Number, Numbers, Operands, Provider, Symbols, Term, Var, VarRanges, range_of,
};

/// The shape of the result of `op` for operands of these shapes.
///
/// `stated` is the shape that the instruction has or will have. It is needed if the operands do not
/// determine the shape; without it, that is an error. The result has no layouts, except where it is
/// copied from `stated`.
pub fn infer_shape(
    module: &Module,
    op: &Op,
    operands: &[&Shape],
    stated: Option<&Shape>,
) -> Result<Shape, Error> {
    let shape = if operands.iter().all(|shape| is_static(shape)) {
        let mut provider = Numbers(Static(operands));
        let shape = shape_of(&mut provider, module, op, operands, stated)?;
        shape.resolve(&mut |size: Number| match size {
            Ok(size) => Ok(Dim::Static(size)),
            Err(error) => Err(Error::input(format!(
                "the size of the result of `{}` cannot be computed: {error}",
                op.opcode()
            ))),
        })?
    } else {
        let mut provider = Symbols(Symbolic(operands));
        let shape = shape_of(&mut provider, module, op, operands, stated)?;
        shape.resolve(&mut |size: Term| match size.depth() {
            0..=MAX_TERM_DEPTH => Ok(to_dim(module, size, operands)),
            _ => Err(Error::limit(format!(
                "the formula for a result size of `{}` is too long",
                op.opcode()
            ))),
        })?
    };
    let mut leaves = MAX_LEAVES;
    match is_manageable(&shape, MAX_TUPLE_DEPTH, &mut leaves) {
        true => Ok(shape),
        false => Err(Error::limit(format!(
            "tuples of more than {MAX_LEAVES} leaves or {MAX_TUPLE_DEPTH} levels are not supported"
        ))),
    }
}

/// The maximum number of leaves of an inferred tuple: a short text can describe tuples of tuples
/// that grow without bound.
const MAX_LEAVES: usize = 1 << 18;

/// The maximum depth of a size's term. Every instruction traverses the term, so the work of a long
/// chain of instructions must be bounded.
const MAX_TERM_DEPTH: u32 = 256;

/// The maximum depth of an inferred tuple, because functions on shapes are recursive.
const MAX_TUPLE_DEPTH: usize = 128;

fn is_manageable(shape: &Shape, depth: usize, leaves: &mut usize) -> bool {
    let left = leaves.checked_sub(1);
    *leaves = left.unwrap_or(0);
    left.is_some()
        && match shape {
            Shape::Tuple(elements) => {
                depth > 0 && elements.iter().all(|e| is_manageable(e, depth - 1, leaves))
            }
            Shape::Buffer(inner) => depth > 0 && is_manageable(inner, depth - 1, leaves),
            _ => true,
        }
}

/// The shape as [`infer_shape`] computes it, but with sizes from any provider.
pub fn shape_of<P: Provider>(
    provider: &mut P,
    module: &Module,
    op: &Op,
    operands: &[&Shape],
    stated: Option<&Shape>,
) -> Result<ShapeOf<P::Index>, Error> {
    crate::arity::check(op, operands.len())?;
    Context {
        provider,
        module,
        op,
        operands,
        stated,
    }
    .shape()
}

fn is_static(shape: &Shape) -> bool {
    match shape {
        Shape::Array(array) => array.dims.iter().all(|dim| matches!(dim, Dim::Static(_))),
        Shape::Tuple(elements) => elements.iter().all(is_static),
        Shape::Buffer(inner) => is_static(inner),
        Shape::Token | Shape::Opaque => true,
    }
}

/// A provider of numbers from operands with static sizes.
struct Static<'a>(&'a [&'a Shape]);

fn dim_of<'a>(operands: &[&'a Shape], operand: usize, dim: usize) -> Option<&'a Dim> {
    operands.get(operand)?.as_array()?.dims.get(dim)
}

impl Operands for Static<'_> {
    type Index = Number;

    fn shape(&mut self, operand: usize, dim: usize) -> Number {
        let size = dim_of(self.0, operand, dim).and_then(Dim::as_static);
        size.ok_or(tegula_expr::EvalError::Overflow)
    }

    fn constant(&mut self, _operand: usize, _flat: usize) -> Option<i64> {
        None
    }

    fn value(&mut self, _operand: usize, _flat: usize) -> Number {
        // Shape functions read no elements.
        Err(tegula_expr::EvalError::Overflow)
    }
}

/// A provider of terms from operands with symbolic sizes.
pub(crate) struct Symbolic<'a>(pub(crate) &'a [&'a Shape]);

impl Operands for Symbolic<'_> {
    type Index = Term;

    fn shape(&mut self, operand: usize, dim: usize) -> Term {
        dim_of(self.0, operand, dim).map_or_else(|| Term::constant(0), Dim::term)
    }

    fn constant(&mut self, _operand: usize, _flat: usize) -> Option<i64> {
        None
    }

    fn value(&mut self, _operand: usize, _flat: usize) -> Term {
        Term::constant(0)
    }
}

/// The bounds of a module's symbols.
pub(crate) struct SymbolRanges<'a>(pub(crate) &'a [Symbol]);

impl VarRanges for SymbolRanges<'_> {
    fn range(&self, var: Var) -> Interval {
        let symbol = self.0.get(var.0 as usize);
        symbol.map_or(Interval::FULL, |symbol| {
            Interval::new(symbol.lower, symbol.upper)
        })
    }
}

/// Converts a size to a dimension, which is bounded if an operand has bounded dimensions and the
/// size has an upper bound.
fn to_dim(module: &Module, size: Term, operands: &[&Shape]) -> Dim {
    if let Some(size) = size.as_constant() {
        return Dim::Static(size);
    }
    let mut bounded = false;
    for operand in operands {
        operand.for_each_leaf(&mut |leaf| {
            let dims = leaf
                .as_array()
                .map_or(&[][..], |array| array.dims.as_slice());
            bounded |= dims.iter().any(|dim| matches!(dim, Dim::Bounded { .. }));
        });
    }
    if !bounded {
        return Dim::Symbolic(size);
    }
    match range_of(&size, &SymbolRanges(&module.symbols)).upper {
        bound if (0..i64::MAX).contains(&bound) => Dim::Bounded { bound, size },
        _ => Dim::Symbolic(size),
    }
}
