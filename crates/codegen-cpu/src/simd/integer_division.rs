//! Integer division in lanes: quotients and remainders of up to 32 bits.
//!
//! Machines have vector division for floats, not for integers. The reciprocal of the divisor as an
//! `f32`, rounded slightly down, gives a quotient that is never too large; the remainder is divided
//! again, after which the quotient is at most one too small. All steps but the reciprocal are
//! exact.

use super::builder::Builder;
use super::ir::{BinaryOp, Condition, Conversion, Type, UnaryOp, V};
use tegula_ir::Binary;

/// `x / y` or `x % y` of `I32` lanes, which may carry narrower types: rounds towards zero, the
/// remainder has the sign of `x`, and division by zero gives all ones or `x` (XLA's semantics of
/// `divide` and `remainder`). `None` for other operations.
pub(crate) fn divided(b: &mut Builder, op: Binary, signed: bool, x: V, y: V) -> Option<V> {
    let wants_quotient = match op {
        Binary::Divide => true,
        Binary::Remainder => false,
        _ => return None,
    };
    if let Some(value) = by_power_of_two(b, wants_quotient, signed, x, y) {
        return Some(value);
    }
    let (dividend, divisor) = match signed {
        // The magnitude of the smallest number is correct as an unsigned number.
        true => (b.unary(UnaryOp::AbsInt, x), b.unary(UnaryOp::AbsInt, y)),
        false => (x, y),
    };
    let [quotient, rest] = magnitudes(b, dividend, divisor);
    let (zero, all) = (b.i32(0), b.i32(-1));
    let by_zero = b.compare(Condition::Equal, y, zero);
    if wants_quotient {
        let signs = b.xor(x, y);
        let result = if signed {
            with_sign(b, quotient, signs)
        } else {
            quotient
        };
        return Some(b.select(by_zero, all, result));
    }
    let result = if signed { with_sign(b, rest, x) } else { rest };
    Some(b.select(by_zero, x, result))
}

/// Negates `x` where `sign` is negative.
fn with_sign(b: &mut Builder, x: V, sign: V) -> V {
    let mask = b.shift(BinaryOp::ShiftRightSigned, sign, 31);
    let flipped = b.xor(x, mask);
    b.sub(flipped, mask)
}

/// Division by a constant power of two: shifts.
fn by_power_of_two(b: &mut Builder, wants_quotient: bool, signed: bool, x: V, y: V) -> Option<V> {
    let divisor = b.constant_of(y)? as u32;
    if !divisor.is_power_of_two() || signed && divisor > 1 << 30 {
        return None;
    }
    let (bits, low) = (
        i64::from(divisor.trailing_zeros()),
        b.i32((divisor - 1).cast_signed()),
    );
    // Shifting rounds down, so negative numbers are increased by the divisor less one first.
    let lifted = match signed {
        true => {
            let sign = b.shift(BinaryOp::ShiftRightSigned, x, 31);
            let lift = b.and(sign, low);
            b.add(x, lift)
        }
        false => x,
    };
    if wants_quotient {
        let shift = if signed {
            BinaryOp::ShiftRightSigned
        } else {
            BinaryOp::ShiftRight
        };
        return Some(b.shift(shift, lifted, bits));
    }
    let all = b.i32(-1);
    let high = b.xor(low, all);
    let whole = b.and(lifted, high);
    Some(b.sub(x, whole))
}

/// Quotient and remainder of unsigned numbers; arbitrary if the divisor is zero.
fn magnitudes(b: &mut Builder, x: V, y: V) -> [V; 2] {
    let divisor = b.convert(Conversion::FromUnsigned, y, Type::F32);
    // Smaller than the reciprocal by more than all rounding errors together (five of 2^-24).
    let numerator = b.f32(1.0 - 1.0 / f32::from(1u16 << 11) / f32::from(1u16 << 10));
    let reciprocal = b.div(numerator, divisor);
    // The dividend is halved so that it and the quotient are signed numbers.
    let half = b.shift(BinaryOp::ShiftRight, x, 1);
    let estimate = b.convert(Conversion::FromSigned, half, Type::F32);
    let estimate = b.mul(estimate, reciprocal);
    let estimate = b.convert(Conversion::Truncate, estimate, Type::I32);
    let first = b.shift(BinaryOp::ShiftLeft, estimate, 1);
    let product = b.mul(first, y);
    let left = b.sub(x, product);
    // The remainder is less than 2^-20 of the dividend plus three divisors: its quotient is below
    // 2^13.
    let estimate = b.convert(Conversion::FromUnsigned, left, Type::F32);
    let estimate = b.mul(estimate, reciprocal);
    let second = b.convert(Conversion::Truncate, estimate, Type::I32);
    let product = b.mul(second, y);
    let left = b.sub(left, product);
    let quotient = b.add(first, second);
    // The second estimate is at most one too small.
    let one_more = b.compare(Condition::LessEqualUnsigned, y, left);
    let more = b.truth(one_more);
    let quotient = b.add(quotient, more);
    let less = b.sub(left, y);
    let rest = b.select(one_more, less, left);
    [quotient, rest]
}

#[cfg(test)]
mod tests {
    use super::divided;
    use crate::simd::builder::Builder;
    use crate::simd::ir::{Body, Type};
    use crate::simd::test_harness::Compiled;
    use crate::simd::tests::pointer;
    use tegula_ir::{Binary, ElementType};
    use tegula_scalar as scalar;
    /// `x op y` with `x` and `y` loaded, or with a constant `y`.
    fn body(op: Binary, signed: bool, constant: Option<i32>) -> Body {
        let mut b = Builder::new();
        let [x, y, out] = [(); 3].map(|()| pointer(&mut b, 4));
        let x = b.load(x, Type::I32, None);
        let y = match constant {
            Some(c) => b.i32(c),
            None => b.load(y, Type::I32, None),
        };
        let result = divided(&mut b, op, signed, x, y).expect("a quotient or remainder");
        b.store(out, result, None, None);
        b.finish()
    }

    fn numbers() -> Vec<[i32; 2]> {
        let mut special = vec![
            0,
            i32::MIN,
            i32::MAX,
            i32::MIN + 1,
            0x00ff_ffff,
            0x0100_0001,
        ];
        for bits in 0..31 {
            special.extend([1 << bits, -(1 << bits), (1 << bits) - 1, (1 << bits) + 1]);
        }
        let mut pairs: Vec<[i32; 2]> = Vec::new();
        for &a in &special {
            pairs.extend(special.iter().map(|&b| [a, b]));
        }
        let mut state = 1u64;
        for _ in 0..200_000 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let [a, b] = [(state >> 32) as i32, (state >> 7) as i32];
            let b = b >> (state & 31);
            // Estimates are most likely to be wrong at multiples and their neighbours.
            let multiple = (a / b.max(1)).wrapping_mul(b);
            pairs.extend([[a, b], [multiple, b], [multiple.wrapping_sub(1), b]]);
        }
        pairs
    }

    fn check(op: Binary, signed: bool, constant: Option<i32>, pairs: &[[i32; 2]]) {
        let ty = if signed {
            ElementType::S32
        } else {
            ElementType::U32
        };
        let body = body(op, signed, constant);
        let x: Vec<i32> = pairs.iter().map(|p| p[0]).collect();
        let y: Vec<i32> = pairs.iter().map(|p| constant.unwrap_or(p[1])).collect();
        for compiled in Compiled::all(&body) {
            let out = compiled.apply(&[&x, &y]);
            for ((&x, &y), &got) in x.iter().zip(&y).zip(&out) {
                let bits = |v: i32| u128::from(v.cast_unsigned());
                let want = scalar::apply_binary(op, ty, bits(x), bits(y)).expect("integers");
                assert_eq!(bits(got), want, "{}: {x} {op:?} {y}", compiled.name);
            }
        }
    }

    #[test]
    fn quotients_are_exact() {
        let pairs = numbers();
        for op in [Binary::Divide, Binary::Remainder] {
            for signed in [false, true] {
                check(op, signed, None, &pairs);
                for constant in [0, 1, -1, 2, 3, -7, 10, 64, 1 << 30, i32::MIN, i32::MAX] {
                    check(op, signed, Some(constant), &pairs[..4096]);
                }
            }
        }
    }
}
