//! `sin`, `cos` and `tan` by way of `f64`, for every magnitude of the argument.
//!
//! Quarter turns are counted exactly: `x 2/pi` is the product of the mantissa of
//! `x` (24 bits) with `2^k 2/pi`, `k` its exponent, of which whole multiples of
//! four do not matter. That factor lies in a table by exponent as three numbers
//! of at most 29 bits, so that the first product is exact.

use super::polynomial_f64;
use crate::vector::body::{
    Access, BinaryOp, Condition, Conversion, Input, Storage, Type, UnaryOp, V,
};
use crate::vector::builder::Builder;
use std::sync::OnceLock;

/// `sin(r pi/2) / r` in `r^2`, |r| <= 1/2: within 1e-15.
const SIN: [f64; 7] = [
    1.570_796_326_794_896_3,
    -0.645_964_097_506_186_3,
    0.079_692_626_243_934_64,
    -0.004_681_754_099_849_612,
    0.000_160_440_910_291_717_3,
    -3.597_798_452_879_759_7e-6,
    5.520_828_787_681_212e-8,
];

/// `cos(r pi/2)` in `r^2`.
const COS: [f64; 7] = [
    0.999_999_999_999_999_8,
    -1.233_700_550_136_123_3,
    0.253_669_507_898_496,
    -0.020_863_480_712_918_09,
    0.000_919_259_797_093_026_7,
    -2.519_965_117_410_634e-5,
    4.649_516_287_453_428_5e-7,
];

/// The first 384 bits of 2/pi after the point.
const TWO_OVER_PI: [u64; 6] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
];

/// Bits of each part of a factor.
const PART: u32 = 29;

/// So many bits of 2/pi from a place after the point; before it are zeros.
fn bits_at(place: i64, count: u32) -> u64 {
    (place..place + i64::from(count)).fold(0, |bits, at| {
        let bit = usize::try_from(at).ok().and_then(|at| {
            let word = TWO_OVER_PI.get(at / 64)?;
            Some(word >> (63 - at % 64) & 1)
        });
        bits << 1 | bit.unwrap_or(0)
    })
}

/// For each biased exponent of an `f32`, three parts of `2^k 2/pi mod 4`, where
/// the number is below `2^(k + 1)` and at least `2^k`, all but the subnormals.
pub(crate) fn table() -> &'static [f64; 256 * 4] {
    static TABLE: OnceLock<Box<[f64; 256 * 4]>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Box::new([0.0; 256 * 4]);
        for exponent in 0..255 {
            let k = exponent - 127;
            // Two places before the point of the product, or where 2/pi begins.
            // The mantissa lies in [1, 2) with 23 bits behind the point, so bits
            // worth 4 * 2^23 and more only add whole multiples of four.
            let mut place = i64::from(k - 23 - 2).max(0);
            for part in 0..3 {
                let bits = bits_at(place, PART) as f64;
                let worth = i64::from(k) - place - i64::from(PART);
                table[exponent as usize * 4 + part] = bits * 2f64.powi(worth as i32);
                place += i64::from(PART);
            }
        }
        table
    })
}

/// `x = (n + r) pi/2`: `n mod 4` as an `I32`, and `r` with |r| <= 1/2.
fn quarters(b: &mut Builder, x: V) -> (V, V) {
    let bits = b.bits(x);
    let exponent = b.shift(BinaryOp::ShiftRight, bits, 23);
    let low = b.i32(0xff);
    let exponent = b.and(exponent, low);
    // The mantissa, exactly: x 2^-k.
    let wide = b.convert(Conversion::Float, x, Type::F64);
    let most = b.i32(1023 + 127);
    let power = b.sub(most, exponent);
    let power = b.convert(Conversion::ExtendSigned, power, Type::I64);
    let power = b.shift(BinaryOp::ShiftLeft, power, 52);
    let power = b.bits(power);
    let mantissa = b.mul(wide, power);
    let index = b.shift(BinaryOp::ShiftLeft, exponent, 2);
    let pointer = b.input(Input::Integer);
    b.body().tables.push(pointer);
    let part = |b: &mut Builder, i: i32| {
        let access = b.access(Access {
            pointer,
            storage: Storage {
                bytes: 8,
                signed: false,
            },
            splat: false,
        });
        let i = b.i32(i);
        let at = b.add(index, i);
        b.gather(access, Type::F64, at, None)
    };
    let (first, second, third) = (part(b, 0), part(b, 1), part(b, 2));
    let product = b.mul(mantissa, first);
    // Whole turns of the exact product.
    let quarter = b.f64(0.25);
    let turns = b.mul(product, quarter);
    let turns = b.unary(UnaryOp::Nearest, turns);
    let minus_four = b.f64(-4.0);
    let product = b.fma(turns, minus_four, product);
    let rest = b.mul(mantissa, third);
    let rest = b.fma(mantissa, second, rest);
    let turn = b.add(product, rest);
    let n = b.unary(UnaryOp::Nearest, turn);
    let r = b.sub(product, n);
    let r = b.add(r, rest);
    let n = b.convert(Conversion::Truncate, n, Type::I32);
    (n, r)
}

/// Sine and cosine of `r pi/2`.
fn both(b: &mut Builder, r: V) -> (V, V) {
    let square = b.mul(r, r);
    let sine = polynomial_f64(b, square, &SIN);
    let sine = b.mul(r, sine);
    let cosine = polynomial_f64(b, square, &COS);
    (sine, cosine)
}

/// Whether a number of quarter turns is odd.
fn is_odd(b: &mut Builder, n: V) -> V {
    let (one, zero) = (b.i32(1), b.i32(0));
    let odd = b.and(n, one);
    b.compare(Condition::NotEqual, odd, zero)
}

/// What a function is of `x`: not a number where `x` is none, or infinite.
fn of_finite(b: &mut Builder, x: V, value: V) -> V {
    let difference = b.sub(x, x);
    let not_finite = b.compare(Condition::Unordered, difference, difference);
    b.select(not_finite, difference, value)
}

/// The sine `turned` quarters of a circle further on.
fn turned_sine(b: &mut Builder, x: V, turned: i32) -> V {
    let (n, r) = quarters(b, x);
    let (sine, cosine) = both(b, r);
    let sine = b.convert(Conversion::Float, sine, Type::F32);
    let cosine = b.convert(Conversion::Float, cosine, Type::F32);
    let turned = b.i32(turned);
    let n = b.add(n, turned);
    let odd = is_odd(b, n);
    let value = b.select(odd, cosine, sine);
    let sign = b.shift(BinaryOp::ShiftRight, n, 1);
    let sign = b.shift(BinaryOp::ShiftLeft, sign, 31);
    let value = b.bits(value);
    let value = b.xor(value, sign);
    let value = b.bits(value);
    of_finite(b, x, value)
}

pub(super) fn sin(b: &mut Builder, x: V) -> V {
    let y = turned_sine(b, x, 0);
    super::keep_zero(b, x, y)
}

pub(super) fn cos(b: &mut Builder, x: V) -> V {
    turned_sine(b, x, 1)
}

/// Sine over cosine, or in an odd quarter less the inverse of that.
pub(super) fn tan(b: &mut Builder, x: V) -> V {
    let (n, r) = quarters(b, x);
    let (sine, cosine) = both(b, r);
    let odd = is_odd(b, n);
    let less = b.f64(-0.0);
    let back = b.sub(less, cosine);
    let above = b.select(odd, back, sine);
    let below = b.select(odd, sine, cosine);
    let tangent = b.div(above, below);
    let tangent = b.convert(Conversion::Float, tangent, Type::F32);
    let tangent = of_finite(b, x, tangent);
    super::keep_zero(b, x, tangent)
}
