//! Index terms as arithmetic on 64-bit integers.

use super::Lower;
use crate::clif::integer;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use tegula_expr::{Arithmetic, Cmp, Node, Term};
use tegula_fusion::KernelRanges;

impl Lower<'_, '_> {
    /// The value of an index term as an i64.
    pub(crate) fn term(&mut self, term: &Term) -> Value {
        self.term_value(term)
    }

    pub(super) fn term_value(&mut self, term: &Term) -> Value {
        if let Some(&value) = self.terms.iter().rev().find_map(|known| known.get(term)) {
            return value;
        }
        let value = self.term_uncached(term);
        if let Some(known) = self.terms.last_mut() {
            known.insert(term.clone(), value);
        }
        value
    }

    fn term_uncached(&mut self, term: &Term) -> Value {
        match term.node() {
            Node::Const(value) => self.integer(types::I64, *value),
            Node::Var(var) => match self.vars.get(var.0 as usize).copied().flatten() {
                Some(value) => value,
                None => self.integer(types::I64, 0),
            },
            Node::Add(a, b) => self.arithmetic(Arithmetic::Add, a, b),
            Node::Mul(a, b) => self.arithmetic(Arithmetic::Mul, a, b),
            Node::Min(a, b) => self.arithmetic(Arithmetic::Min, a, b),
            Node::Max(a, b) => self.arithmetic(Arithmetic::Max, a, b),
            Node::FloorDiv(a, b) => self.floor_div(a, b),
            Node::CeilDiv(a, b) => {
                let (zero, a) = (Term::constant(0), a.clone());
                let negated = zero.sub(&a);
                let quotient = self.floor_div(&negated, b);
                self.builder.ins().ineg(quotient)
            }
            Node::Mod(a, b) => {
                let quotient = self.floor_div(a, b);
                let (a, b) = (self.term_value(a), self.term_value(b));
                let product = self.builder.ins().imul(quotient, b);
                self.builder.ins().isub(a, product)
            }
            Node::Cmp(..) => {
                let condition = self.condition(term);
                self.builder.ins().uextend(types::I64, condition)
            }
            Node::Select(c, a, b) => {
                let condition = self.condition(c);
                let (a, b) = (self.term_value(a), self.term_value(b));
                self.builder.ins().select(condition, a, b)
            }
        }
    }

    /// Division rounding down; cheap if the dividend is known to be non-negative or the divisor is
    /// a power of two.
    fn floor_div(&mut self, a: &Term, b: &Term) -> Value {
        let dividend = tegula_expr::range_of(a, &KernelRanges(&self.kernel.vars));
        let x = self.term_value(a);
        if let Some(divisor) = b.as_constant().filter(|&d| d > 0) {
            if divisor & (divisor - 1) == 0 {
                return self
                    .builder
                    .ins()
                    .sshr_imm_s(x, i64::from(divisor.trailing_zeros()));
            }
            if dividend.lower >= 0 {
                return self.unsigned_div(x, divisor, dividend.upper);
            }
        }
        let y = self.term_value(b);
        integer::arithmetic(self.builder, Arithmetic::FloorDiv, x, y)
    }

    fn arithmetic(&mut self, op: Arithmetic, a: &Term, b: &Term) -> Value {
        let (a, b) = (self.term_value(a), self.term_value(b));
        integer::arithmetic(self.builder, op, a, b)
    }

    /// A 32-bit division, if the operands fit, is several times faster.
    fn unsigned_div(&mut self, x: Value, divisor: i64, largest: i64) -> Value {
        if largest > i64::from(u32::MAX) {
            let divisor = self.integer(types::I64, divisor);
            return self.builder.ins().udiv(x, divisor);
        }
        if divisor > largest {
            return self.integer(types::I64, 0);
        }
        let narrow = self.builder.ins().ireduce(types::I32, x);
        let divisor = self.integer(types::I32, divisor);
        let quotient = self.builder.ins().udiv(narrow, divisor);
        self.builder.ins().uextend(types::I64, quotient)
    }

    /// A term as a boolean (an i8).
    pub(super) fn condition(&mut self, term: &Term) -> Value {
        match term.node() {
            Node::Cmp(op, a, b) => {
                let (a, b) = (self.term_value(a), self.term_value(b));
                integer::compare(self.builder, *op, a, b)
            }
            Node::Mul(a, b) if let Some((index, most)) = inside(a, b).or_else(|| inside(b, a)) => {
                // As unsigned numbers, negative indices are larger than all valid ones.
                let index = self.term_value(&index);
                let most = self.integer(types::I64, most);
                let below = IntCC::UnsignedLessThanOrEqual;
                self.builder.ins().icmp(below, index, most)
            }
            // A product is non-zero if all factors are.
            Node::Mul(a, b) => {
                let (a, b) = (self.condition(a), self.condition(b));
                self.builder.ins().band(a, b)
            }
            _ => {
                let value = self.term_value(term);
                self.builder.ins().icmp_imm_s(IntCC::NotEqual, value, 0)
            }
        }
    }
}

/// The index and the bound of two comparisons `index <= bound` and `0 <= index`.
fn inside(upper: &Term, lower: &Term) -> Option<(Term, i64)> {
    let (Node::Cmp(Cmp::Le, index, most), Node::Cmp(Cmp::Le, zero, same)) =
        (upper.node(), lower.node())
    else {
        return None;
    };
    let most = most.as_constant().filter(|&most| most >= 0)?;
    (zero.as_constant() == Some(0) && index == same).then(|| (index.clone(), most))
}
