//! `sin`, `cos` and `tan` in `f32`, for every magnitude of the argument.
//!
//! The nearest multiple of pi/2 is subtracted from the argument, which leaves at most pi/4. Up to
//! [`FEW_TURNS`] quarter turns, pi/2 is subtracted in parts (Cody and Waite, "Software Manual for
//! the Elementary Functions", 1980): the product of the multiple with each part but the last is
//! exact with or without fused multiply-add, and so are the first two differences. The result is
//! accurate to one or two units in the last place, however close to zero it is.
//!
//! For larger arguments the multiple is computed exactly (Payne and Hanek, "Radian reduction for
//! trigonometric functions", 1983), as a [rare case](crate::simd::ir::Rare): the mantissa of `x`
//! times the bits of `2/pi` that matter at its exponent, in limbs of twelve bits from a table.

use super::two_over_pi::{LIMB, access};
use super::{abs, polynomial};
use crate::simd::builder::Builder;
use crate::simd::ir::{BinaryOp, Condition, Conversion, Fused, Type, UnaryOp, V};

/// `(sin(r) / r - 1) / r^2` in `r^2`, |r| <= pi/4 and a little: within 4e-9 of `sin(r) / r`.
const SIN: [f32; 3] = [-0.166_666_55, 0.008_332_168, -0.000_195_160_12];

/// `(cos(r) - 1 + r^2 / 2) / r^4` in `r^2`: within 1e-10 of `cos(r)`.
const COS: [f32; 3] = [0.041_666_646, -0.001_388_735_5, 2.443_700_8e-5];

/// Parts of pi/2: eleven bits each, and all remaining bits in the last.
const HALF_PI: [f32; 4] = [1.570_312_5, 0.000_483_751_3, 7.549_533_6e-8, 2.563_344e-12];

/// The maximum argument whose number of quarter turns has fewer than 14 bits and is accurate to a
/// thousandth in `f32`.
const FEW_TURNS: f32 = 8192.0;

/// Splits `x = n pi/2 + r` for `x >= 0`: `n mod 4` (with additional upper bits) as an `I32`, and
/// `r` with |r| slightly above pi/4 at most; NaN if `x` is NaN or infinite.
fn quarters(b: &mut Builder, x: V) -> [V; 2] {
    let inverse = b.f32(std::f32::consts::FRAC_2_PI);
    let turns = b.mul(x, inverse);
    let turns = b.unary(UnaryOp::Nearest, turns);
    let take = |b: &mut Builder, r: V, part: f32| {
        let part = b.f32(part);
        b.fused(Fused::From, [turns, part], r)
    };
    let [first, second, third, last] = HALF_PI;
    let exact = take(b, x, first);
    let exact = take(b, exact, second);
    let r = take(b, exact, third);
    // The rounding error of the step before.
    let lost = b.sub(exact, r);
    let lost = take(b, lost, third);
    let rest = take(b, lost, last);
    let r = b.add(r, rest);
    let n = b.convert(Conversion::Truncate, turns, Type::I32);
    let most = b.f32(FEW_TURNS);
    let many = b.compare(Condition::Less, most, x);
    b.rare(many, [n, r], |b| many_quarters(b, x))
}

/// [`quarters`] of a number above [`FEW_TURNS`].
fn many_quarters(b: &mut Builder, x: V) -> [V; 2] {
    let [high, low] = fraction_of_turns(b, x);
    let [n, high] = next_quarter(b, high);
    // The magnitude: the complement is off by one of 2^62 parts.
    let sign = b.shift(BinaryOp::ShiftRightSigned, high, 31);
    let (high, low) = (b.xor(high, sign), b.xor(low, sign));
    let r = angle(b, high, low);
    let sign = b.shift(BinaryOp::ShiftLeft, sign, 31);
    let r = b.bits(r);
    let r = b.xor(r, sign);
    let r = b.bits(r);
    let infinite = b.f32(f32::INFINITY);
    let infinite = b.compare(Condition::Equal, x, infinite);
    let nan = b.f32(f32::NAN);
    [n, b.select(infinite, nan, r)]
}

/// The quarter turn nearest to a [fraction](fraction_of_turns), and the first word of the remaining
/// fraction of a quarter, in units of 2^-62.
pub(super) fn next_quarter(b: &mut Builder, high: V) -> [V; 2] {
    let half = b.i32(1 << 29);
    let n = b.add(high, half);
    let n = b.shift(BinaryOp::ShiftRight, n, 30);
    let whole = b.shift(BinaryOp::ShiftLeft, n, 30);
    [n, b.sub(high, whole)]
}

/// The number of turns in `x` without whole turns, in 64 bits: its mantissa times the limbs of 2/pi
/// for its exponent.
pub(super) fn fraction_of_turns(b: &mut Builder, x: V) -> [V; 2] {
    let bits = b.bits(x);
    let exponent = b.shift(BinaryOp::ShiftRight, bits, 23);
    let (low, implicit) = (b.i32(0x7f_ffff), b.i32(0x80_0000));
    let mantissa = b.and(bits, low);
    let mantissa = b.or(mantissa, implicit);
    let access = access(b);
    let mask = b.i32((1 << LIMB) - 1);
    let first = b.shift(BinaryOp::ShiftLeft, exponent, 2);
    let mut limbs = Vec::new();
    for pair in 0..4 {
        let pair = b.i32(pair);
        let at = b.add(first, pair);
        let pair = b.gather(access, Type::I32, at, None);
        limbs.push(b.shift(BinaryOp::ShiftRight, pair, LIMB));
        limbs.push(b.and(pair, mask));
    }
    // Columns of the product, of 25 bits; the first has the weight 2^-12. Higher ones are whole
    // turns.
    let upper = b.shift(BinaryOp::ShiftRight, mantissa, LIMB);
    let lower = b.and(mantissa, mask);
    let mut columns: Vec<V> = limbs
        .windows(2)
        .map(|pair| {
            let (above, here) = (b.mul(lower, pair[0]), b.mul(upper, pair[1]));
            b.add(above, here)
        })
        .collect();
    for i in (3..columns.len()).rev() {
        let carry = b.shift(BinaryOp::ShiftRight, columns[i], LIMB);
        columns[i - 1] = b.add(columns[i - 1], carry);
        columns[i] = b.and(columns[i], mask);
    }
    // Adds columns at bit positions of the two words; bits above the first are whole turns.
    let at = |b: &mut Builder, places: &[(usize, i64)]| {
        let zero = b.i32(0);
        places.iter().fold(zero, |sum, &(column, place)| {
            let (op, by) = match place < 0 {
                true => (BinaryOp::ShiftRight, -place),
                false => (BinaryOp::ShiftLeft, place),
            };
            let moved = b.shift(op, columns[column], by);
            b.add(sum, moved)
        })
    };
    let high = at(b, &[(0, 20), (1, 8), (2, -4)]);
    let low = at(b, &[(2, 28), (3, 16), (4, 4), (5, -8)]);
    [high, low]
}

/// `(high 2^32 + low) / 2^62` quarters of a circle, in radians; `high` is at most `2^29`.
fn angle(b: &mut Builder, high: V, low: V) -> V {
    let scale = std::f64::consts::FRAC_PI_2 / f64::from(1 << 30);
    // Twelve bits, whose product with twelve bits of `high` is exact.
    let coarse = f32::from_bits((scale as f32).to_bits() & !0xfff);
    let fine = (scale - f64::from(coarse)) as f32;
    let [coarse, fine, scale] = [coarse, fine, scale as f32].map(|part| b.f32(part));
    let mask = b.i32(0x1_ffff);
    let rest = b.and(high, mask);
    let first = b.sub(high, rest);
    let first = b.convert(Conversion::FromSigned, first, Type::F32);
    let rest = b.convert(Conversion::FromSigned, rest, Type::F32);
    let low = b.convert(Conversion::FromUnsigned, low, Type::F32);
    let word = b.f32(2f32.powi(-32));
    let rest = b.fma(low, word, rest);
    let small = b.mul(first, fine);
    let small = b.fma(rest, scale, small);
    b.fma(first, coarse, small)
}

/// Sine and cosine of a reduced angle.
fn both(b: &mut Builder, r: V) -> (V, V) {
    let square = b.mul(r, r);
    let sine = polynomial(b, square, &SIN);
    let cube = b.mul(r, square);
    let sine = b.fma(cube, sine, r);
    let cosine = polynomial(b, square, &COS);
    let fourth = b.mul(square, square);
    let (half, one) = (b.f32(-0.5), b.f32(1.0));
    let most = b.fma(square, half, one);
    let cosine = b.fma(fourth, cosine, most);
    (sine, cosine)
}

/// Whether a number of quarter turns is odd.
pub(super) fn is_odd(b: &mut Builder, n: V) -> V {
    let (one, zero) = (b.i32(1), b.i32(0));
    let odd = b.and(n, one);
    b.compare(Condition::NotEqual, odd, zero)
}

/// A bit of a number of quarter turns, as the sign of a float of a type: bit 0 is a quarter turn,
/// bit 1 a half turn.
pub(super) fn bit_as_sign(b: &mut Builder, n: V, bit: i64, like: V) -> V {
    if !b.type_of(like).is_wide() {
        return b.shift(BinaryOp::ShiftLeft, n, 31 - bit);
    }
    let wide = b.convert(Conversion::ExtendSigned, n, Type::I64);
    b.shift(BinaryOp::ShiftLeft, wide, 63 - bit)
}

/// `y`, negated where the sign bit of `sign` is set.
pub(super) fn turned(b: &mut Builder, y: V, sign: V) -> V {
    let first = b.sign_bit_like(y);
    let sign = b.and(sign, first);
    let y = b.bits(y);
    let y = b.xor(y, sign);
    b.bits(y)
}

/// The reduced magnitude of an argument of either width: quarter turns as an `I32`, and sine and
/// cosine of the remaining angle.
#[derive(Clone, Copy)]
pub(super) struct Reduced {
    pub(super) n: V,
    pub(super) sine: V,
    pub(super) cosine: V,
}

impl Reduced {
    /// The sine of `x`, by the sine of its magnitude and its sign, because sine is odd.
    pub(super) fn sin(self, b: &mut Builder, x: V) -> V {
        let odd = is_odd(b, self.n);
        let value = b.select(odd, self.cosine, self.sine);
        let half_turns = bit_as_sign(b, self.n, 1, value);
        let sign = b.bits(x);
        let sign = b.xor(sign, half_turns);
        turned(b, value, sign)
    }

    /// The cosine: `cos(x) = sin(x + pi/2)`.
    pub(super) fn cos(self, b: &mut Builder) -> V {
        let odd = is_odd(b, self.n);
        let value = b.select(odd, self.sine, self.cosine);
        let one = b.i32(1);
        let n = b.add(self.n, one);
        let half_turns = bit_as_sign(b, n, 1, value);
        turned(b, value, half_turns)
    }

    /// The tangent of `x`: sine over cosine, or in an odd quarter the negative reciprocal of that.
    pub(super) fn tan(self, b: &mut Builder, x: V) -> V {
        let odd = is_odd(b, self.n);
        let above = b.select(odd, self.cosine, self.sine);
        let below = b.select(odd, self.sine, self.cosine);
        let tangent = b.div(above, below);
        let quarter = bit_as_sign(b, self.n, 0, tangent);
        let sign = b.bits(x);
        let sign = b.xor(sign, quarter);
        turned(b, tangent, sign)
    }
}

/// Reduces the magnitude of an `f32`.
pub(super) fn reduced(b: &mut Builder, x: V) -> Reduced {
    let x = abs(b, x);
    let [n, r] = b.reduced(x, Type::F32, quarters);
    let (sine, cosine) = both(b, r);
    Reduced { n, sine, cosine }
}
