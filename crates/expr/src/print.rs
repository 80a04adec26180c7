//! Prints terms.
//!
//! From lowest to highest, the precedences are comparison, sum, product or quotient, and atom. An
//! operand of the same precedence but with another operator is put in parentheses, so `(a mod b) *
//! c` and `a / b / c` parse to the same terms. Printing keeps its own stack, because terms may be
//! deep.

use std::fmt::{self, Write};

use crate::term::{Cmp, Node, Term, Var};

/// How operators are spelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Floor division as `/`, as XLA prints it.
    #[default]
    Xla,
    /// Floor division as `floordiv`, as MLIR prints it.
    Document,
}

/// A source of names for variables.
pub trait Names {
    /// Writes the variable's name.
    ///
    /// # Errors
    /// Whatever the writer reports.
    fn write_name(&self, var: Var, out: &mut dyn Write) -> fmt::Result;
}

impl<F: Fn(Var) -> String> Names for F {
    fn write_name(&self, var: Var, out: &mut dyn Write) -> fmt::Result {
        out.write_str(&self(var))
    }
}

/// The default names `v0`, `v1`, ...
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbered;

impl Names for Numbered {
    fn write_name(&self, var: Var, out: &mut dyn Write) -> fmt::Result {
        write!(out, "v{}", var.0)
    }
}

/// Displays a term with names and a style.
pub struct Printed<'a, N: ?Sized> {
    term: &'a Term,
    names: &'a N,
    style: Style,
}

impl Term {
    /// Displays the term with names and a style.
    pub fn display<'a, N: Names + ?Sized>(&'a self, names: &'a N, style: Style) -> Printed<'a, N> {
        Printed {
            term: self,
            names,
            style,
        }
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.display(&Numbered, Style::Xla), f)
    }
}

/// The context of an operand, which decides whether it needs parentheses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// No parentheses are needed: the root, inside parentheses, an argument.
    Open,
    /// An operand of a comparison.
    Compared,
    /// A term of a sum, without a minus sign.
    Added,
    /// A term of a sum after a minus sign.
    Subtracted,
    /// After a leading minus sign, which binds more tightly than a product.
    Negated,
    /// The left operand of a product-like operator.
    Left(&'static str),
    /// The right operand of a product-like operator.
    Right,
}

enum Work<'a> {
    Text(&'static str),
    Number(u64),
    Term(&'a Term, Place),
    /// A term of a sum that is not the first, with its sign.
    Later(&'a Term),
}

type Stack<'a> = Vec<Work<'a>>;

impl<N: Names + ?Sized> fmt::Display for Printed<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut stack = vec![Work::Term(self.term, Place::Open)];
        while let Some(work) = stack.pop() {
            match work {
                Work::Text(text) => f.write_str(text)?,
                Work::Number(number) => write!(f, "{number}")?,
                Work::Term(term, place) => self.write(term, place, &mut stack, f)?,
                Work::Later(term) => push_later(term, &mut stack),
            }
        }
        Ok(())
    }
}

fn comparison(op: Cmp) -> &'static str {
    match op {
        Cmp::Eq => " == ",
        Cmp::Ne => " != ",
        Cmp::Lt => " < ",
        Cmp::Le => " <= ",
    }
}

/// Whether a node of this kind needs parentheses in this context.
fn parenthesised(node: &Node, operator: &'static str, place: Place) -> bool {
    match node {
        Node::Cmp(..) => place != Place::Open,
        Node::Add(..) => !matches!(place, Place::Open | Place::Compared | Place::Added),
        Node::Mul(..) | Node::FloorDiv(..) | Node::CeilDiv(..) | Node::Mod(..) => match place {
            Place::Left(outer) => outer != operator,
            Place::Right | Place::Negated => true,
            _ => false,
        },
        Node::Const(value) => *value < 0 && matches!(place, Place::Negated | Place::Subtracted),
        _ => false,
    }
}

impl<N: Names + ?Sized> Printed<'_, N> {
    fn operator(&self, node: &Node) -> &'static str {
        match node {
            Node::Mul(..) => " * ",
            Node::FloorDiv(..) => match self.style {
                Style::Xla => " / ",
                Style::Document => " floordiv ",
            },
            Node::CeilDiv(..) => " ceildiv ",
            Node::Mod(..) => " mod ",
            _ => "",
        }
    }

    fn write<'a>(
        &self,
        term: &'a Term,
        place: Place,
        stack: &mut Stack<'a>,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let operator = self.operator(term.node());
        if parenthesised(term.node(), operator, place) {
            stack.push(Work::Text(")"));
            stack.push(Work::Term(term, Place::Open));
            return f.write_str("(");
        }
        match term.node() {
            Node::Const(value) => write!(f, "{value}")?,
            Node::Var(var) => self.names.write_name(*var, f)?,
            Node::Add(a, b) => {
                stack.push(Work::Later(b));
                stack.push(Work::Term(a, Place::Added));
            }
            Node::Mul(a, b) if b.as_constant() == Some(-1) => {
                stack.push(Work::Term(a, Place::Negated));
                stack.push(Work::Text("-"));
            }
            Node::Mul(a, b) | Node::FloorDiv(a, b) | Node::CeilDiv(a, b) | Node::Mod(a, b) => {
                stack.push(Work::Term(b, Place::Right));
                stack.push(Work::Text(operator));
                stack.push(Work::Term(a, Place::Left(operator)));
            }
            Node::Min(a, b) => push_call("min(", &[a, b], stack),
            Node::Max(a, b) => push_call("max(", &[a, b], stack),
            Node::Select(c, a, b) => push_call("select(", &[c, a, b], stack),
            Node::Cmp(op, a, b) => {
                stack.push(Work::Term(b, Place::Compared));
                stack.push(Work::Text(comparison(*op)));
                stack.push(Work::Term(a, Place::Compared));
            }
        }
        Ok(())
    }
}

/// Pushes a term of a sum that is not the first, with its sign; a sum on the
/// right is flattened.
fn push_later<'a>(term: &'a Term, stack: &mut Stack<'a>) {
    match term.node() {
        Node::Add(a, b) => {
            stack.push(Work::Later(b));
            stack.push(Work::Later(a));
            return;
        }
        Node::Const(value) if *value < 0 && *value != i64::MIN => {
            stack.push(Work::Number(value.unsigned_abs()));
            stack.push(Work::Text(" - "));
            return;
        }
        Node::Mul(a, b) => match b.as_constant() {
            Some(-1) => {
                stack.push(Work::Term(a, Place::Subtracted));
                stack.push(Work::Text(" - "));
                return;
            }
            Some(c) if c < 0 && c != i64::MIN => {
                stack.push(Work::Number(c.unsigned_abs()));
                stack.push(Work::Text(" * "));
                stack.push(Work::Term(a, Place::Left(" * ")));
                stack.push(Work::Text(" - "));
                return;
            }
            _ => {}
        },
        _ => {}
    }
    stack.push(Work::Term(term, Place::Added));
    stack.push(Work::Text(" + "));
}

fn push_call<'a>(name: &'static str, arguments: &[&'a Term], stack: &mut Stack<'a>) {
    stack.push(Work::Text(")"));
    for (position, argument) in arguments.iter().enumerate().rev() {
        stack.push(Work::Term(argument, Place::Open));
        stack.push(Work::Text(if position == 0 { name } else { ", " }));
    }
}
