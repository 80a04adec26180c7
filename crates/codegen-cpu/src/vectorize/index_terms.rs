//! Translates index terms that differ between lanes to 32-bit integers of the SIMD form.

use super::translate::{Reason, Translator};
use crate::simd::ir::{BinaryOp, Condition, Conversion, Type, UnaryOp, V};
use tegula_expr::{Cmp, Node, Term, range_of};

impl Translator<'_> {
    /// The value of a term in each lane.
    pub(crate) fn term(&mut self, term: &Term) -> Result<V, Reason> {
        if term.depth() > 100 {
            return Err(Reason::new("an index expression is nested too deeply"));
        }
        self.fits(term)?;
        if self.is_uniform(term) {
            return Ok(self.splat_term(term));
        }
        Ok(match term.node() {
            Node::Const(value) => self.builder.integer(Type::I32, *value),
            Node::Var(var) if *var == self.lane_var() => {
                let first = self.splat_term(term);
                let lane = self.builder.lane();
                self.builder.add(lane, first)
            }
            Node::Var(var) => match (self.vars.get(var), self.depth_of(*var)) {
                (Some(&v), _) => v,
                (None, Some(depth)) => self.builder.counter(depth),
                (None, None) => return Err(Reason::new("an index variable has no value")),
            },
            Node::Add(a, b) => self.two(BinaryOp::Add, a, b)?,
            Node::Mul(a, b) => self.two(BinaryOp::Mul, a, b)?,
            Node::Min(a, b) => self.two(BinaryOp::MinSigned, a, b)?,
            Node::Max(a, b) => self.two(BinaryOp::MaxSigned, a, b)?,
            Node::FloorDiv(a, b) => self.floor_div(a, b)?,
            Node::Mod(a, b) => {
                let quotient = self.floor_div(a, b)?;
                let (a, b) = (self.term(a)?, self.term(b)?);
                let product = self.builder.mul(quotient, b);
                self.builder.sub(a, product)
            }
            Node::CeilDiv(a, b) => {
                let negated = Term::constant(0).sub(a);
                let quotient = self.floor_div(&negated, b)?;
                let zero = self.builder.i32(0);
                self.builder.sub(zero, quotient)
            }
            Node::Cmp(..) => {
                let mask = self.truth(term)?;
                self.builder.truth(mask)
            }
            Node::Select(c, a, b) => {
                let mask = self.truth(c)?;
                let (a, b) = (self.term(a)?, self.term(b)?);
                self.builder.select(mask, a, b)
            }
        })
    }

    /// Whether a term, and all terms that it is a sum or a product of, fit 32 bits.
    pub(crate) fn sums_fit(&self, term: &Term) -> bool {
        let inside = match term.node() {
            _ if self.is_uniform(term) => true,
            Node::Add(a, b) | Node::Mul(a, b) => self.sums_fit(a) && self.sums_fit(b),
            _ => true,
        };
        inside && self.fits(term).is_ok()
    }

    /// A term in each lane, modulo 2^32. Sums and products may overflow 32 bits on the way, because
    /// their lowest 32 bits depend only on those of their operands.
    pub(crate) fn wrapping_term(&mut self, term: &Term) -> Result<V, Reason> {
        let (op, a, b) = match term.node() {
            _ if self.is_uniform(term) => return Ok(self.splat_term(term)),
            Node::Add(a, b) => (BinaryOp::Add, a, b),
            Node::Mul(a, b) => (BinaryOp::Mul, a, b),
            _ => return self.term(term),
        };
        let (a, b) = (self.wrapping_term(a)?, self.wrapping_term(b)?);
        Ok(self.builder.binary(op, a, b))
    }

    fn two(&mut self, op: BinaryOp, a: &Term, b: &Term) -> Result<V, Reason> {
        let (a, b) = (self.term(a)?, self.term(b)?);
        Ok(self.builder.binary(op, a, b))
    }

    /// The lanes in which a term is not zero.
    pub(crate) fn truth(&mut self, term: &Term) -> Result<V, Reason> {
        if self.is_uniform(term) {
            let zero = Term::constant(0);
            let truth = Term::cmp(Cmp::Ne, term, &zero);
            let value = self.splat_term(&truth);
            let zero = self.builder.i32(0);
            return Ok(self.builder.compare(Condition::NotEqual, value, zero));
        }
        match term.node() {
            Node::Mul(a, b) => {
                let (a, b) = (self.truth(a)?, self.truth(b)?);
                Ok(self.builder.and(a, b))
            }
            Node::Cmp(op, a, b) => {
                let (op, [a, b]) = self.in_32_bits(*op, a, b);
                let (a, b) = (self.term(&a)?, self.term(&b)?);
                let condition = match op {
                    Cmp::Eq => Condition::Equal,
                    Cmp::Ne => Condition::NotEqual,
                    Cmp::Lt => Condition::Less,
                    Cmp::Le => Condition::LessEqual,
                };
                Ok(self.builder.compare(condition, a, b))
            }
            _ => {
                let value = self.term(term)?;
                let zero = self.builder.i32(0);
                Ok(self.builder.compare(Condition::NotEqual, value, zero))
            }
        }
    }

    /// The form of a comparison that fits 32 bits, if there is one: the part that differs between
    /// lanes is on the left, the uniform part on the right, clamped to the range of the left side
    /// or just outside it. In `2 * i < n + 2147483644`, where the sum may have more than 32 bits,
    /// it is clamped to at most the largest `2 * i`.
    fn in_32_bits(&self, op: Cmp, a: &Term, b: &Term) -> (Cmp, [Term; 2]) {
        let as_they_are = [a.clone(), b.clone()];
        if as_they_are.iter().all(|side| self.fits(side).is_ok()) {
            return (op, as_they_are);
        }
        self.apart(op, a, b).unwrap_or((op, as_they_are))
    }

    /// The comparison with the part that differs between lanes on the left; `None` if that part, or
    /// a bound of its range, has more than 32 bits.
    fn apart(&self, op: Cmp, a: &Term, b: &Term) -> Option<(Cmp, [Term; 2])> {
        let (terms, constant) = a.sub(b).as_linear()?;
        let (mut left, mut right) = (Term::constant(0), Term::constant(constant.checked_neg()?));
        for (atom, factor) in terms {
            match self.is_uniform(&atom) {
                true => right = right.sub(&atom.mul(&Term::constant(factor))),
                false => left = left.add(&atom.mul(&Term::constant(factor))),
            }
        }
        let range = range_of(&left, &self.ranges);
        let (op, right, above) = match op {
            Cmp::Lt => (Cmp::Le, right.sub(&Term::constant(1)), range.upper),
            Cmp::Le => (op, right, range.upper),
            Cmp::Eq | Cmp::Ne => (op, right, range.upper.checked_add(1)?),
        };
        let below = range.lower.checked_sub(1)?;
        let near = Term::max(&right, &Term::constant(below));
        let near = Term::min(&near, &Term::constant(above));
        let fits = self.fits(&near).and(self.fits(&left));
        fits.is_ok().then_some((op, [left, near]))
    }

    /// Division by a positive constant, rounding down: a shift, or a multiplication by the
    /// reciprocal in `f32` if that is exact.
    fn floor_div(&mut self, a: &Term, b: &Term) -> Result<V, Reason> {
        let not = || Reason::new("an index with a division");
        let divisor = b.as_constant().filter(|&d| d > 0).ok_or_else(not)?;
        let range = range_of(a, &self.ranges);
        let x = self.term(a)?;
        if divisor & (divisor - 1) == 0 {
            let amount = i64::from(divisor.trailing_zeros());
            return Ok(self.builder.shift(BinaryOp::ShiftRightSigned, x, amount));
        }
        // (x + 1/2) / d is at least 1 / 2d away from the next integer, and is
        // computed within 2 units in the last place of 24 bits.
        if range.lower <= -(1 << 20) || range.upper >= 1 << 20 || divisor >= 1 << 20 {
            return Err(not());
        }
        let half = self.builder.f32(0.5);
        let reciprocal = self.builder.f32(1.0 / divisor as f32);
        let number = self.builder.convert(Conversion::FromSigned, x, Type::F32);
        let number = self.builder.add(number, half);
        let quotient = self.builder.mul(number, reciprocal);
        let down = self.builder.unary(UnaryOp::Floor, quotient);
        Ok(self.builder.convert(Conversion::Truncate, down, Type::I32))
    }
}
