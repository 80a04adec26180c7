//! Providers that emit code which computes numbers.
//!
//! [`Emitting`] folds operations on constants, and passes the others to an [`Emitter`], which
//! writes one operation of the target language at a time. Emitted arithmetic is checked: like a
//! [`Number`], the result of an operation is an integer or the reason why there is none (such as
//! overflow). The result of a selection depends only on the condition and on the chosen side.

use super::{Arithmetic, Number, Provider};
use crate::term::{Node, Term, Var};

/// Writes single operations in a target language.
pub trait Emitter {
    /// A checked number in the target language.
    type Value: Clone;

    /// A known number, or a known reason why there is none.
    fn constant(&mut self, value: Number) -> Self::Value;
    /// An operation on two numbers.
    fn arithmetic(&mut self, op: Arithmetic, a: &Self::Value, b: &Self::Value) -> Self::Value;
    /// `a` where `condition` is not 0, else `b`.
    fn select(&mut self, condition: &Self::Value, a: &Self::Value, b: &Self::Value) -> Self::Value;
    /// The extent of a dimension of an operand.
    fn shape(&mut self, operand: usize, dim: usize) -> Emitted<Self::Value>;
    /// An element of an integer operand, if it is known now.
    fn known_element(&mut self, operand: usize, flat: usize) -> Option<i64>;
    /// An element of an integer operand.
    fn element(&mut self, operand: usize, flat: usize) -> Self::Value;
}

/// A number of an emitting provider.
#[derive(Clone, Debug)]
pub enum Emitted<V> {
    /// Known while emitting: a value, or why there is none.
    Known(Number),
    /// Computed by emitted code.
    Code(V),
}

/// The provider that emits code.
#[derive(Debug)]
pub struct Emitting<E>(pub E);

impl<E: Emitter> Emitting<E> {
    /// The number as a value of the target language.
    pub fn code(&mut self, index: &Emitted<E::Value>) -> E::Value {
        match index {
            Emitted::Known(value) => self.0.constant(*value),
            Emitted::Code(value) => value.clone(),
        }
    }
}

impl<E: Emitter> Provider for Emitting<E> {
    type Index = Emitted<E::Value>;

    fn literal(&mut self, value: i64) -> Self::Index {
        Emitted::Known(Ok(value))
    }

    fn arithmetic(&mut self, op: Arithmetic, a: &Self::Index, b: &Self::Index) -> Self::Index {
        use Arithmetic::{Add, CeilDiv, FloorDiv, Mul, Sub};
        match (op, a, b) {
            (_, Emitted::Known(a), Emitted::Known(b)) => Emitted::Known(op.apply(*a, *b)),
            (Add | Sub, kept, Emitted::Known(Ok(0)))
            | (Add, Emitted::Known(Ok(0)), kept)
            | (Mul | FloorDiv | CeilDiv, kept, Emitted::Known(Ok(1)))
            | (Mul, Emitted::Known(Ok(1)), kept) => kept.clone(),
            _ => {
                let (a, b) = (self.code(a), self.code(b));
                Emitted::Code(self.0.arithmetic(op, &a, &b))
            }
        }
    }

    fn select(&mut self, condition: &Self::Index, a: &Self::Index, b: &Self::Index) -> Self::Index {
        match condition {
            Emitted::Known(Ok(0)) => b.clone(),
            Emitted::Known(Ok(_)) => a.clone(),
            Emitted::Known(Err(error)) => Emitted::Known(Err(*error)),
            Emitted::Code(condition) => {
                let (a, b) = (self.code(a), self.code(b));
                Emitted::Code(self.0.select(condition, &a, &b))
            }
        }
    }

    fn as_literal(&self, index: &Self::Index) -> Option<i64> {
        match index {
            Emitted::Known(value) => value.ok(),
            Emitted::Code(_) => None,
        }
    }

    fn shape(&mut self, operand: usize, dim: usize) -> Self::Index {
        self.0.shape(operand, dim)
    }

    fn constant(&mut self, operand: usize, flat: usize) -> Option<i64> {
        self.0.known_element(operand, flat)
    }

    fn value(&mut self, operand: usize, flat: usize) -> Self::Index {
        match self.0.known_element(operand, flat) {
            Some(value) => Emitted::Known(Ok(value)),
            None => Emitted::Code(self.0.element(operand, flat)),
        }
    }
}

/// Evaluates a term with a provider, given the provider's numbers for its variables. With an
/// emitting provider, this emits code.
pub fn emit_term<P: Provider>(
    provider: &mut P,
    term: &Term,
    variable: &mut impl FnMut(&mut P, Var) -> P::Index,
) -> P::Index {
    term.fold(
        &mut |term: &Term, parts: &[P::Index]| match (term.node(), parts) {
            (Node::Var(var), _) => variable(provider, *var),
            (Node::Select(..), [c, a, b]) => provider.select(c, a, b),
            (node, [a, b]) => match operation(node) {
                Some(op) => provider.arithmetic(op, a, b),
                None => provider.literal(0),
            },
            (Node::Const(value), _) => provider.literal(*value),
            // `fold` passes one result for each operand, so this does not occur.
            _ => provider.literal(0),
        },
    )
}

/// The operation of a binary node.
fn operation(node: &Node) -> Option<Arithmetic> {
    Some(match node {
        Node::Add(..) => Arithmetic::Add,
        Node::Mul(..) => Arithmetic::Mul,
        Node::FloorDiv(..) => Arithmetic::FloorDiv,
        Node::CeilDiv(..) => Arithmetic::CeilDiv,
        Node::Mod(..) => Arithmetic::Mod,
        Node::Min(..) => Arithmetic::Min,
        Node::Max(..) => Arithmetic::Max,
        Node::Cmp(op, ..) => Arithmetic::Cmp(*op),
        Node::Const(_) | Node::Var(_) | Node::Select(..) => return None,
    })
}
