//! `reduce-precision` in lanes of f32 and f64, on the bits of the numbers.

use crate::simd::builder::Builder;
use crate::simd::ir::{BinaryOp, Condition, V};
use tegula_ir::{ElementType, FloatFormat};

/// Rounds numbers to a format with this many bits; `None` for other types.
pub(super) fn reduce_precision(
    b: &mut Builder,
    from: ElementType,
    [exponent_bits, mantissa_bits]: [u32; 2],
    x: V,
) -> Option<V> {
    if !matches!(from, ElementType::F32 | ElementType::F64) {
        return None;
    }
    let format: FloatFormat = from.float_format()?;
    let rounding = Rounding::new(format, exponent_bits, mantissa_bits);
    let bits = b.bits(x);
    let ty = b.type_of(bits);
    let magnitude = b.integer(ty, rounding.magnitude);
    let mut size = b.and(bits, magnitude);
    let sign = b.xor(bits, size);
    if let Some(dropped) = rounding.dropped {
        let last = b.shift(BinaryOp::ShiftRight, size, dropped);
        let one = b.integer(ty, 1);
        let last = b.and(last, one);
        let below_half = b.integer(ty, (1 << (dropped - 1)) - 1);
        let mask = b.integer(ty, -1 << dropped);
        let raised = b.add(size, below_half);
        let raised = b.add(raised, last);
        size = b.and(raised, mask);
    }
    if let Some([too_small, too_large]) = rounding.bounds {
        let [least, most] = [too_small, too_large].map(|bound| b.integer(ty, bound));
        let zero = b.integer(ty, 0);
        let infinity = b.integer(ty, rounding.infinity);
        let is_small = b.compare(Condition::Less, size, least);
        let fits = b.compare(Condition::Less, size, most);
        size = b.select(is_small, zero, size);
        size = b.select(fits, size, infinity);
    }
    let rounded = b.or(sign, size);
    let rounded = b.bits(rounded);
    let is_number = b.compare(Condition::Equal, x, x);
    Some(b.select(is_number, rounded, x))
}

/// The constants that round magnitudes, as integers of a float's width.
pub(crate) struct Rounding {
    /// The mask of all bits but the sign.
    pub(crate) magnitude: i64,
    pub(crate) infinity: i64,
    /// The number of mantissa bits that are dropped, if any.
    pub(crate) dropped: Option<i64>,
    /// Below the first bound a magnitude becomes zero; from the second on, infinity. `None` if the
    /// format keeps all exponents.
    pub(crate) bounds: Option<[i64; 2]>,
}

impl Rounding {
    /// The constants of [`tegula_scalar`]'s rounding.
    pub(crate) fn new(format: FloatFormat, exponent_bits: u32, mantissa_bits: u32) -> Self {
        let exponents = 1i64 << format.exponent_bits;
        let bias = (1i64 << (format.exponent_bits - 1)) - 1;
        let reduced = (1i64 << (exponent_bits.max(1) - 1)) - 1;
        let bound = |exponent: i64| exponent << format.mantissa_bits;
        let fewer = exponent_bits < format.exponent_bits;
        Self {
            magnitude: format.sign_mask().cast_signed().wrapping_sub(1),
            infinity: bound(exponents - 1),
            dropped: (mantissa_bits < format.mantissa_bits)
                .then(|| i64::from(format.mantissa_bits - mantissa_bits)),
            bounds: fewer.then(|| [bound(bias - reduced + 1), bound(bias + reduced + 1)]),
        }
    }
}
