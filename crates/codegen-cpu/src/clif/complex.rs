//! Operations on complex numbers, each carried in two values.

use super::lower::{Lower, Values};
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use smallvec::smallvec;
use tegula_ir::{Binary, Direction, Order, Unary};

impl Lower<'_, '_> {
    pub(super) fn complex_unary(&mut self, op: Unary, x: &Values) -> Option<Values> {
        match op {
            Unary::Real => Some(smallvec![x[0]]),
            Unary::Imag => Some(smallvec![x[1]]),
            Unary::Negate => Some(x.iter().map(|&v| self.builder.ins().fneg(v)).collect()),
            _ => None,
        }
    }

    /// Products as in the evaluator: each operation is rounded.
    pub(super) fn complex_binary(&mut self, op: Binary, a: &Values, b: &Values) -> Option<Values> {
        let (&[re, im], &[c, d]) = (&a[..], &b[..]) else {
            return None;
        };
        let mut fmul = |x, y| self.builder.ins().fmul(x, y);
        Some(match op {
            Binary::Add => {
                let re = self.builder.ins().fadd(re, c);
                smallvec![re, self.builder.ins().fadd(im, d)]
            }
            Binary::Subtract => {
                let re = self.builder.ins().fsub(re, c);
                smallvec![re, self.builder.ins().fsub(im, d)]
            }
            Binary::Multiply => {
                let (ac, bd) = (fmul(re, c), fmul(im, d));
                let (ad, bc) = (fmul(re, d), fmul(im, c));
                let re = self.builder.ins().fsub(ac, bd);
                smallvec![re, self.builder.ins().fadd(ad, bc)]
            }
            Binary::Divide if self.builder.func.dfg.value_type(re) == types::F32 => {
                let wide = [re, im, c, d].map(|v| self.builder.ins().fpromote(types::F64, v));
                let quotient = self.quotient_of_singles(wide);
                quotient
                    .map(|v| self.builder.ins().fdemote(types::F32, v))
                    .into_iter()
                    .collect()
            }
            Binary::Divide => self.complex_quotient([re, im, c, d]).into_iter().collect(),
            _ => return None,
        })
    }

    /// `(x + iy) / (c + id)` by Smith's method, in the evaluator's order.
    fn complex_quotient(&mut self, [x, y, c, d]: [Value; 4]) -> [Value; 2] {
        let ins = &mut self.builder;
        let (right, up) = (ins.ins().fabs(c), ins.ins().fabs(d));
        let flat = ins.ins().fcmp(FloatCC::GreaterThanOrEqual, right, up);
        let mut select = |yes, no| ins.ins().select(flat, yes, no);
        let (larger, smaller) = (select(c, d), select(d, c));
        let (near, far) = (select(x, y), select(y, x));
        let ratio = ins.ins().fdiv(smaller, larger);
        let scale = ins.ins().fmul(smaller, ratio);
        let scale = ins.ins().fadd(larger, scale);
        let re = ins.ins().fmul(far, ratio);
        let re = ins.ins().fadd(near, re);
        // `y - x ratio`, or `y ratio - x`.
        let scaled = ins.ins().fmul(near, ratio);
        let first = ins.ins().select(flat, far, scaled);
        let second = ins.ins().select(flat, scaled, far);
        let im = ins.ins().fsub(first, second);
        // For a division by zero, both parts are divided by zero.
        let zero = ins.ins().f64const(0.0);
        let by_zero = ins.ins().fcmp(FloatCC::Equal, larger, zero);
        let mut select = |yes, no| ins.ins().select(by_zero, yes, no);
        let (re, im, scale) = (select(x, re), select(y, im), select(c, scale));
        let quotient = [ins.ins().fdiv(re, scale), ins.ins().fdiv(im, scale)];
        self.quotient_of_infinities(quotient, [x, y], [c, d])
    }

    /// `(x + iy) / (c + id)` for parts of `f32`, whose products are exact in `f64`; in the
    /// evaluator's order.
    fn quotient_of_singles(&mut self, [x, y, c, d]: [Value; 4]) -> [Value; 2] {
        let ins = &mut self.builder;
        let mut times = |a, b| ins.ins().fmul(a, b);
        let (cc, dd) = (times(c, c), times(d, d));
        let (xc, yd, yc, xd) = (times(x, c), times(y, d), times(y, c), times(x, d));
        let square = ins.ins().fadd(cc, dd);
        let (re, im) = (ins.ins().fadd(xc, yd), ins.ins().fsub(yc, xd));
        // For a division by zero, both parts are divided by zero.
        let zero = ins.ins().f64const(0.0);
        let by_zero = ins.ins().fcmp(FloatCC::Equal, square, zero);
        let mut select = |yes, no| ins.ins().select(by_zero, yes, no);
        let (re, im, divisor) = (select(x, re), select(y, im), select(c, square));
        let one = ins.ins().f64const(1.0);
        let inverse = ins.ins().fdiv(one, divisor);
        let quotient = [ins.ins().fmul(re, inverse), ins.ins().fmul(im, inverse)];
        self.quotient_of_infinities(quotient, [x, y], [c, d])
    }

    /// Corrects a quotient if division gives NaN, as the evaluator does: an infinite number
    /// divided by a finite one or the reverse.
    fn quotient_of_infinities(
        &mut self,
        quotient: [Value; 2],
        over: [Value; 2],
        under: [Value; 2],
    ) -> [Value; 2] {
        let ins = &mut self.builder;
        let zero = ins.ins().f64const(0.0);
        let one = ins.ins().f64const(1.0);
        let infinity = ins.ins().f64const(f64::INFINITY);
        // Whether one part is infinite, whether both are finite, and the direction of the infinite
        // number.
        let mut facts = |pair: [Value; 2]| {
            let [(far_x, near_x, x), (far_y, near_y, y)] = pair.map(|v| {
                let size = ins.ins().fabs(v);
                let far = ins.ins().fcmp(FloatCC::Equal, size, infinity);
                let near = ins.ins().fcmp(FloatCC::LessThan, size, infinity);
                let side = ins.ins().fcopysign(one, v);
                (far, near, ins.ins().select(far, side, zero))
            });
            let (far, near) = (ins.ins().bor(far_x, far_y), ins.ins().band(near_x, near_y));
            (far, near, [x, y])
        };
        let (over_far, over_near, over_at) = facts(over);
        let (under_far, under_near, under_at) = facts(under);
        let large = ins.ins().band(over_far, under_near);
        let small = ins.ins().band(over_near, under_far);
        let one_is = ins.ins().bor(large, small);
        let [re, im] = quotient.map(|v| ins.ins().fcmp(FloatCC::Unordered, v, v));
        let is_nan = ins.ins().band(re, im);
        let here = ins.ins().band(one_is, is_nan);
        let mut select = |yes, no| ins.ins().select(large, yes, no);
        let (x, y) = (select(over_at[0], over[0]), select(over_at[1], over[1]));
        let (c, d) = (select(under[0], under_at[0]), select(under[1], under_at[1]));
        let size = select(infinity, zero);
        let mut times = |a, b| ins.ins().fmul(a, b);
        let (xc, yd, yc, xd) = (times(x, c), times(y, d), times(y, c), times(x, d));
        let (re, im) = (ins.ins().fadd(xc, yd), ins.ins().fsub(yc, xd));
        let (re, im) = (ins.ins().fmul(size, re), ins.ins().fmul(size, im));
        [
            ins.ins().select(here, re, quotient[0]),
            ins.ins().select(here, im, quotient[1]),
        ]
    }

    /// Whether complex numbers are equal: both parts are.
    pub(super) fn complex_compare(
        &mut self,
        direction: Direction,
        order: Order,
        a: &Values,
        b: &Values,
    ) -> Option<Value> {
        let condition = match (direction, order) {
            (Direction::Eq, Order::Partial) => FloatCC::Equal,
            (Direction::Ne, Order::Partial) => FloatCC::NotEqual,
            _ => return None,
        };
        let (&[re, im], &[c, d]) = (&a[..], &b[..]) else {
            return None;
        };
        let re = self.builder.ins().fcmp(condition, re, c);
        let im = self.builder.ins().fcmp(condition, im, d);
        Some(match direction {
            Direction::Ne => self.builder.ins().bor(re, im),
            _ => self.builder.ins().band(re, im),
        })
    }
}
