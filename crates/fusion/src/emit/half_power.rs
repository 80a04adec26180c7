//! Expands powers by a constant exponent that is a multiple of one half into products, reciprocals
//! and square roots.
//!
//! `x^1.5` becomes `x * sqrt(x)`, a few operations. A general power takes dozens, or a call in
//! scalar code: a loop with a power in each step took six times as long (`symplectic_euler` of the
//! cliff finder, AMD EPYC (Zen 5), 27 November 2026). Two or three operations each round, so the
//! result is up to 2.5 units in the last place off, where the power function is at most one off.
//! The results for zeros, infinities and negative numbers are the same to the bit, and no result is
//! subnormal, as with the power function.

use super::Emitter;
use crate::kernel::{ScalarId, ScalarOp};
use tegula_ir::{Binary, Direction, ElementType, Order, Unary};

impl Emitter<'_> {
    /// `base` to the power of `halves / 2`. Floats narrower than `f32` are computed as `f32`.
    pub(super) fn half_power(&mut self, base: ScalarId, halves: i8) -> ScalarId {
        let element_type = self.kernel.scalars[base];
        if !matches!(element_type, ElementType::F32 | ElementType::F64) {
            let wide = self.convert(base, ElementType::F32);
            let power = self.half_power(wide, halves);
            return self.convert(power, element_type);
        }
        let whole = self.whole_power(base, halves / 2);
        let power = match (halves % 2, whole) {
            // `x^0` is 1 for every base, also for NaN.
            (0, None) => return self.float_constant(element_type, 1.0),
            (0, Some(whole)) => whole,
            (_, whole) => self.with_root(base, halves < 0, whole),
        };
        // A square root is never subnormal.
        match halves {
            -1 | 1 => power,
            _ => self.zero_if_subnormal(power),
        }
    }

    /// `base` to the power of `number`; `None` if that is 0.
    fn whole_power(&mut self, base: ScalarId, number: i8) -> Option<ScalarId> {
        let base = match number {
            0 => return None,
            // The reciprocal is taken first: the product may be infinite or subnormal where the
            // product of the reciprocals is not.
            ..0 => {
                let one = self.float_constant(self.kernel.scalars[base], 1.0);
                self.binary(Binary::Divide, one, base)
            }
            _ => base,
        };
        Some(match number.abs() {
            1 => base,
            2 => self.binary(Binary::Multiply, base, base),
            3 => {
                let square = self.binary(Binary::Multiply, base, base);
                self.binary(Binary::Multiply, square, base)
            }
            _ => {
                let square = self.binary(Binary::Multiply, base, base);
                self.binary(Binary::Multiply, square, square)
            }
        })
    }

    /// The square root of the base, or its reciprocal, times a whole power of the base.
    ///
    /// As with the power function, the result is `0` and never `-0`, and it is no NaN for minus
    /// infinity.
    fn with_root(&mut self, base: ScalarId, inverse: bool, whole: Option<ScalarId>) -> ScalarId {
        let element_type = self.kernel.scalars[base];
        let root = match inverse {
            true => Unary::Rsqrt,
            false => Unary::Sqrt,
        };
        let root = self.compute(element_type, ScalarOp::Unary(root), &[base]);
        let power = match whole {
            Some(whole) => self.binary(Binary::Multiply, whole, root),
            None => root,
        };
        if self.definitions.is_never_negative(base) {
            return power;
        }
        let power = self.compute(element_type, ScalarOp::Unary(Unary::Abs), &[power]);
        let lowest = self.float_constant(element_type, f64::NEG_INFINITY);
        let of_lowest = match inverse {
            true => 0.0,
            false => f64::INFINITY,
        };
        let of_lowest = self.float_constant(element_type, of_lowest);
        let is_lowest = ScalarOp::Compare(Direction::Eq, Order::Partial);
        let is_lowest = self.compute(ElementType::Pred, is_lowest, &[base, lowest]);
        self.compute(
            element_type,
            ScalarOp::Select,
            &[is_lowest, of_lowest, power],
        )
    }

    /// Replaces a subnormal number by a zero of the same sign.
    fn zero_if_subnormal(&mut self, x: ScalarId) -> ScalarId {
        let element_type = self.kernel.scalars[x];
        let least = match element_type {
            ElementType::F64 => f64::MIN_POSITIVE,
            _ => f32::MIN_POSITIVE.into(),
        };
        let least = self.float_constant(element_type, least);
        let zero = self.float_constant(element_type, 0.0);
        let zero = self.binary(Binary::Multiply, x, zero);
        let magnitude = self.compute(element_type, ScalarOp::Unary(Unary::Abs), &[x]);
        let below = ScalarOp::Compare(Direction::Lt, Order::Partial);
        let below = self.compute(ElementType::Pred, below, &[magnitude, least]);
        self.compute(element_type, ScalarOp::Select, &[below, zero, x])
    }

    fn float_constant(&mut self, element_type: ElementType, value: f64) -> ScalarId {
        let bits = match element_type {
            ElementType::F64 => value.to_bits().into(),
            _ => u128::from((value as f32).to_bits()),
        };
        self.compute(element_type, ScalarOp::Constant(bits), &[])
    }
}
