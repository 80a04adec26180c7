//! The shape of every operation's result, from its operands' shapes.
//!
//! There is one shape function per opcode, generic over a [`Provider`], which
//! says what the sizes are: terms for analyses ([`Symbols`]), plain numbers when
//! everything is static ([`Numbers`]), machine values in a backend. Ranks and
//! element types are always known, so they come from the [`Shape`]s.
//!
//! Some results are not determined by the operands: a `convert`'s element type,
//! a `reshape`'s sizes, a `custom-call`'s whole shape. There the shape function
//! takes what the instruction states, checks what can be checked and returns it.
//!
//! Sizes that are both known are compared; where one is not, nothing is claimed,
//! and the known one is kept.

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

/// The shape of `op` applied to operands of these shapes.
///
/// `stated` is the shape the instruction has, or is to have, where the operands
/// alone do not determine it; without it, such an operation is an error. The
/// result has no layouts, except where it is taken over from `stated`.
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
                "the size of the result of `{}` is too long a formula",
                op.opcode()
            ))),
        })?
    };
    let mut leaves = MAX_LEAVES;
    match is_manageable(&shape, MAX_TUPLE_DEPTH, &mut leaves) {
        true => Ok(shape),
        false => Err(Error::limit(format!(
            "tuples of more than {MAX_LEAVES} leaves or {MAX_TUPLE_DEPTH} levels are not handled"
        ))),
    }
}

/// The most leaves of an inferred tuple: tuples of tuples grow without bound in
/// very little text.
const MAX_LEAVES: usize = 1 << 18;

/// The most levels of the formula of a size: each is looked at once for every
/// instruction, so long chains of instructions need an end.
const MAX_TERM_DEPTH: u32 = 256;

/// The most levels of an inferred tuple: shapes are walked by recursion.
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

/// [`infer_shape`] with sizes from any provider.
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

/// Static operands as a source of numbers.
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
        // No shape function of this crate reads elements.
        Err(tegula_expr::EvalError::Overflow)
    }
}

/// Operands whose sizes are terms.
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

/// The values that a module's symbols can have.
pub(crate) struct SymbolRanges<'a>(pub(crate) &'a [Symbol]);

impl VarRanges for SymbolRanges<'_> {
    fn range(&self, var: Var) -> Interval {
        let symbol = self.0.get(var.0 as usize);
        symbol.map_or(Interval::FULL, |symbol| {
            Interval::new(symbol.lower, symbol.upper)
        })
    }
}

/// A size as a dimension: bounded if it depends on bounded sizes and has a
/// largest value.
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
