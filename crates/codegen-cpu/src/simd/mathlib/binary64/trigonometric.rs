//! Argument reduction for `sin`, `cos` and `tan`, for every magnitude.
//!
//! As in `f32`, the nearest multiple of pi/2 is subtracted from the argument, which leaves at most
//! pi/4. If the multiple is small, parts of pi/2 are subtracted; if it is large, it is computed
//! from the bits of 2/pi that matter at the exponent (Payne and Hanek, "Radian reduction for
//! trigonometric functions", 1983).

use super::super::double::{FEW_TURNS, few_quarters};
use super::super::trigonometric::{Reduced, next_quarter};
use super::super::two_over_pi::{WORDS_AT, ZERO_WORDS, access};
use super::power::{Pair, sum, times};
use super::{abs, polynomial_f64};
use crate::simd::builder::Builder;
use crate::simd::ir::{BinaryOp, Condition, Conversion, Type, V};
use std::f64::consts::FRAC_PI_2;

/// `(sin(r) / r - 1) / r^2` in `r^2`, |r| <= pi/4 and a little: within 2.1e-17 of `sin(r) / r`.
const SIN: [f64; 6] = [
    -0.166_666_666_666_666_66,
    0.008_333_333_333_330_901,
    -0.000_198_412_698_366_860_08,
    2.755_731_606_498_677_3e-6,
    -2.505_112_403_138_208e-8,
    1.591_756_747_890_68e-10,
];

/// `(cos(r) - 1 + r^2 / 2) / r^4` in `r^2`: within 1.2e-18 of `cos(r)`.
const COS: [f64; 6] = [
    0.041_666_666_666_666_664,
    -0.001_388_888_888_888_736_7,
    2.480_158_729_872_029e-5,
    -2.755_731_724_822_936_7e-7,
    2.087_614_138_029_495_5e-9,
    -1.138_228_095_770_263_2e-11,
];

/// pi/2 minus the nearest `f64`.
const HALF_PI_LOW: f64 = 6.123_233_995_736_766e-17;

/// The number of words of a product with a mantissa. The first word has two bits of whole quarters,
/// which leaves 126 bits of a fraction: 62 that may be zeros, and a mantissa.
const COLUMNS: usize = 4;

/// Splits `x = n pi/2 + r` for `x >= 0`: `n mod 4` (with additional upper bits) as an `I32`, and
/// `r` with |r| slightly above pi/4 at most; NaN if `x` is NaN or infinite.
fn quarters(b: &mut Builder, x: V) -> [V; 2] {
    let few = few_quarters(b, x);
    let most = b.f64(FEW_TURNS);
    let many = b.compare(Condition::Less, most, x);
    b.rare(many, few, |b| many_quarters(b, x))
}

/// [`quarters`] of a number above [`FEW_TURNS`].
fn many_quarters(b: &mut Builder, x: V) -> [V; 2] {
    let [first, rest @ ..] = fraction_of_quarters(b, x);
    let [n, first] = next_quarter(b, first);
    let first = b.convert(Conversion::FromSigned, first, Type::F64);
    let weight = b.f64(2f64.powi(-30));
    let nothing = b.f64(0.0);
    let mut quarters = Pair {
        high: b.mul(first, weight),
        low: nothing,
    };
    for (i, word) in (1..).zip(rest) {
        let word = b.convert(Conversion::FromUnsigned, word, Type::F64);
        let weight = b.f64(2f64.powi(-30 - 32 * i));
        let word = b.mul(word, weight);
        let next = sum(b, quarters.high, word);
        quarters = Pair {
            high: next.high,
            low: b.add(quarters.low, next.low),
        };
    }
    let (half_pi, half_pi_low) = (b.f64(FRAC_PI_2), b.f64(HALF_PI_LOW));
    let r = times(b, half_pi, quarters);
    let low = b.fma(quarters.high, half_pi_low, r.low);
    let r = b.add(r.high, low);
    let infinity = b.f64(f64::INFINITY);
    let finite = b.compare(Condition::Less, x, infinity);
    let nan = b.f64(f64::NAN);
    [n, b.select(finite, r, nan)]
}

/// The number of quarter turns in `x`, modulo four, in words: the first has 30 bits after the
/// point.
fn fraction_of_quarters(b: &mut Builder, x: V) -> [V; COLUMNS] {
    let bits = b.bits(x);
    let upper = b.shift(BinaryOp::ShiftRight, bits, 32);
    let upper = b.convert(Conversion::Low, upper, Type::I32);
    let exponent = b.shift(BinaryOp::ShiftRight, upper, 20);
    // x is an integer times 2^(exponent - 1075), so its product with this bit of the table has the
    // value 2. In lanes that are not rare the result is unused.
    let bias = b.i32(32 * ZERO_WORDS as i32 - 1077);
    let place = b.add(exponent, bias);
    let zero = b.i32(0);
    let place = b.binary(BinaryOp::MaxSigned, place, zero);
    let (word, mask, all) = (
        b.shift(BinaryOp::ShiftRight, place, 5),
        b.i32(31),
        b.i32(32),
    );
    let left = b.and(place, mask);
    let right = b.sub(all, left);
    let access = access(b);
    let words: Vec<V> = (0..COLUMNS + 3)
        .map(|i| {
            let i = b.i32((WORDS_AT + i) as i32);
            let at = b.add(word, i);
            b.gather(access, Type::I32, at, None)
        })
        .collect();
    let aligned: Vec<V> = words
        .windows(2)
        .map(|pair| {
            let above = b.binary(BinaryOp::ShiftLeft, pair[0], left);
            let below = b.binary(BinaryOp::ShiftRight, pair[1], right);
            let word = b.or(above, below);
            b.convert(Conversion::ExtendUnsigned, word, Type::I64)
        })
        .collect();
    let low_word = b.constant(Type::I64, u64::from(u32::MAX));
    let (fraction, implicit) = (
        b.constant(Type::I64, (1 << 20) - 1),
        b.constant(Type::I64, 1 << 20),
    );
    let lower = b.and(bits, low_word);
    let upper = b.shift(BinaryOp::ShiftRight, bits, 32);
    let upper = b.and(upper, fraction);
    let upper = b.or(upper, implicit);
    // Products with the lower and the upper half of the mantissa, in words.
    let by_lower: Vec<V> = aligned.iter().map(|&w| b.mul(w, lower)).collect();
    let by_upper: Vec<V> = aligned.iter().map(|&w| b.mul(w, upper)).collect();
    let mut carry = b.constant(Type::I64, 0);
    let mut columns = [carry; COLUMNS];
    // Columns after the last are omitted: each contributes less than a unit.
    for k in (0..COLUMNS).rev() {
        let here = [by_lower[k], by_upper[k + 1]].map(|p| b.and(p, low_word));
        let behind = [by_lower[k + 1], by_upper[k + 2]];
        let behind = behind.map(|p| b.shift(BinaryOp::ShiftRight, p, 32));
        let all = here.into_iter().chain(behind);
        let total = all.fold(carry, |total, part| b.add(total, part));
        carry = b.shift(BinaryOp::ShiftRight, total, 32);
        columns[k] = b.convert(Conversion::Low, total, Type::I32);
    }
    columns
}

/// Reduces the magnitude of an `f64`.
pub(super) fn reduced(b: &mut Builder, x: V) -> Reduced {
    let x = abs(b, x);
    let [n, r] = b.reduced(x, Type::F64, quarters);
    let square = b.mul(r, r);
    let tail = polynomial_f64(b, square, &SIN);
    let cube = b.mul(r, square);
    let sine = b.fma(cube, tail, r);
    let tail = polynomial_f64(b, square, &COS);
    let fourth = b.mul(square, square);
    let (half, one) = (b.f64(0.5), b.f64(1.0));
    let less = b.mul(square, half);
    let most = b.sub(one, less);
    // The rounding error of the step before.
    let kept = b.sub(one, most);
    let lost = b.sub(kept, less);
    let tail = b.fma(fourth, tail, lost);
    Reduced {
        n,
        sine,
        cosine: b.add(most, tail),
    }
}
