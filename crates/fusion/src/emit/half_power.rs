//! Powers by a constant whose double is a small integer, as products, reciprocals and roots.
//!
//! `x^1.5` is `x * sqrt(x)`, which is a few operations where a power whose exponent may be any number
//! is dozens, or a call outside of lanes: a loop with one of them in each step took six times as long
//! (`symplectic_euler` of the cliff finder, AMD EPYC (Zen 5), 27 November 2026). Two or three operations round one after another, so that the result is up to 2.5
//! units in the last place off, where the power itself is at most one off. What the power gives
//! for zeros, infinities and negative numbers, and that it never gives a subnormal number, holds
//! to the bit.

use super::Emitter;
use crate::kernel::{ScalarId, ScalarOp};
use tegula_ir::{Binary, Direction, ElementType, Order, Unary};

impl Emitter<'_> {
    /// `base` to the power of `halves / 2`. Narrow floats are computed as `f32`.
    pub(super) fn half_power(&mut self, base: ScalarId, halves: i8) -> ScalarId {
        let element_type = self.kernel.scalars[base];
        if !matches!(element_type, ElementType::F32 | ElementType::F64) {
            let wide = self.convert(base, ElementType::F32);
            let power = self.half_power(wide, halves);
            return self.convert(power, element_type);
        }
        let whole = self.whole_power(base, halves / 2);
        let power = match (halves % 2, whole) {
            // Whatever the base, NaN too.
            (0, None) => return self.float_constant(element_type, 1.0),
            (0, Some(whole)) => whole,
            (_, whole) => self.with_root(base, halves < 0, whole),
        };
        // No root is subnormal.
        match halves {
            -1 | 1 => power,
            _ => self.zero_if_subnormal(power),
        }
    }

    /// The product of so many bases, or of their reciprocals if the number is negative.
    fn whole_power(&mut self, base: ScalarId, number: i8) -> Option<ScalarId> {
        let base = match number {
            0 => return None,
            // Not of the product, which may be infinite or subnormal where its reciprocal is not.
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

    /// The root of the base, or its reciprocal, times a whole power of it.
    ///
    /// Such a power is `0` and not `-0`, and that of minus infinity is no NaN.
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

    /// A zero of the same sign in place of a subnormal number.
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
