//! Executes `cvt`: one definition for all scalar conversions, with fast paths for those that only
//! extend or truncate.

use super::warp::Warp;
use crate::number::{BF16, E4M3, E5M2, F16, F32, Format, Rounding, TF32, add_odd, direct, flush};
use crate::operation::{Convert, LANES, Op, Type};

#[inline(always)]
pub(super) fn convert(warp: &mut Warp, mask: u32, c: &Convert) {
    let source = warp.wide(c.a);
    let mut values = [0; LANES];
    if c.from.is_integer() && c.to.is_integer() && !c.saturate {
        let (from, to) = (c.from.bits(), c.to.bits());
        let (signed, result_signed) = (c.from.is_signed(), c.to.is_signed());
        for lane in 0..LANES {
            values[lane] = extend(extend(source[lane], from, signed), to, result_signed);
        }
    } else {
        for lane in (0..LANES).filter(|l| mask >> l & 1 != 0) {
            values[lane] = scalar(source[lane], c);
        }
    }
    warp.set(c.d, mask, &values);
}

/// The low `bits` bits, extended to 64 bits.
#[inline(always)]
fn extend(value: u64, bits: u32, signed: bool) -> u64 {
    let shift = 64 - bits;
    if signed {
        ((value << shift) as i64 >> shift) as u64
    } else {
        value << shift >> shift
    }
}

/// The format of a narrow floating-point type.
#[inline(always)]
pub(super) fn format_of(kind: Type) -> Option<Format> {
    Some(match kind {
        Type::F16 | Type::F16x2 => F16,
        Type::BF16 | Type::BF16x2 => BF16,
        Type::E4M3x2 => E4M3,
        Type::E5M2x2 => E5M2,
        Type::TF32 => TF32,
        Type::F32 => F32,
        _ => return None,
    })
}

#[inline(always)]
fn scalar(bits: u64, c: &Convert) -> u64 {
    match (c.from.is_integer(), c.to.is_integer()) {
        (true, true) => integer_to_integer(bits, c),
        (true, false) => integer_to_float(bits, c),
        (false, true) => float_to_integer(float_of(bits, c.from, c.ftz), c),
        (false, false) => float_to_float(bits, c),
    }
}

#[inline(always)]
fn integer_of(bits: u64, kind: Type) -> i128 {
    let value = extend(bits, kind.bits(), kind.is_signed());
    if kind.is_signed() {
        i128::from(value as i64)
    } else {
        i128::from(value)
    }
}

/// The smallest and the largest value of an integer type.
#[inline(always)]
fn range(kind: Type) -> (i128, i128) {
    let bits = kind.bits();
    if kind.is_signed() {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    }
}

#[inline(always)]
fn integer_to_integer(bits: u64, c: &Convert) -> u64 {
    let (low, high) = range(c.to);
    integer_of(bits, c.from).clamp(low, high) as u64
}

#[inline(always)]
fn integer_to_float(bits: u64, c: &Convert) -> u64 {
    let value = integer_of(bits, c.from);
    if c.to == Type::F64 {
        let nearest = value as f64;
        let error = (value - nearest as i128) as f64;
        return direct(nearest, error, c.rounding).to_bits();
    }
    // The value is split into two exact parts, whose sum is rounded to odd.
    let low = value & 0x7ff;
    let exact = add_odd((value - low) as f64, low as f64);
    let exact = if c.saturate {
        exact.clamp(0.0, 1.0)
    } else {
        exact
    };
    format_of(c.to).map_or(0, |format| u64::from(format.round(exact, c.rounding)))
}

/// The value of the bits of a floating-point type.
#[inline(always)]
fn float_of(bits: u64, kind: Type, ftz: bool) -> f64 {
    match kind {
        Type::F64 => f64::from_bits(bits),
        Type::F32 => {
            let value = f32::from_bits(bits as u32);
            f64::from(if ftz { flush(value) } else { value })
        }
        other => format_of(other).map_or(0.0, |format| format.value(bits as u32 & 0xffff)),
    }
}

/// Rounds to an integral value.
#[inline(always)]
fn integral(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::NearestEven => value.round_ties_even(),
        Rounding::NearestAway => value.round(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    }
}

#[inline(always)]
fn float_to_integer(value: f64, c: &Convert) -> u64 {
    let (low, high) = range(c.to);
    if value.is_nan() {
        // The PTX manual specifies 0 for conversions between narrow types, otherwise the highest
        // bit.
        let wide = c.from == Type::F64 || c.to.bits() == 64;
        return if wide { 1 << (c.to.bits() - 1) } else { 0 };
    }
    // `as` saturates, and 2^127 is above the range of every type.
    (integral(value, c.rounding) as i128).clamp(low, high) as u64
}

#[inline(always)]
fn float_to_float(bits: u64, c: &Convert) -> u64 {
    if c.from == Type::BF16 && c.to == Type::F32 && !c.saturate && !c.relu {
        return (bits & 0xffff) << 16;
    }
    let mut value = float_of(bits, c.from, c.ftz);
    if c.integral {
        value = integral(value, c.rounding);
    }
    if c.saturate {
        value = if value > 0.0 { value.min(1.0) } else { 0.0 };
    }
    if c.relu && value <= 0.0 {
        value = 0.0;
    }
    if c.to == Type::F64 {
        return value.to_bits();
    }
    let Some(format) = format_of(c.to) else {
        return 0;
    };
    let rounded = narrow(value, format, c.rounding, c.satfinite);
    match c.to {
        Type::TF32 if value.is_nan() => 0x7fff_ffff,
        Type::TF32 => u64::from(rounded) << 13,
        Type::F32 if c.ftz => u64::from(flush(f32::from_bits(rounded)).to_bits()),
        _ => u64::from(rounded),
    }
}

#[inline(always)]
fn narrow(value: f64, format: Format, rounding: Rounding, satfinite: bool) -> u32 {
    if satfinite {
        format.round_finite(value, rounding)
    } else {
        format.round(value, rounding)
    }
}

/// Converts two `f32` to a packed pair, and packed FP8 to packed `f16`.
#[inline(always)]
pub(super) fn pairs(warp: &mut Warp, mask: u32, op: &Op) {
    match op {
        Op::ConvertPair {
            to,
            rounding,
            relu,
            satfinite,
            d,
            a,
            b,
        } => {
            let Some(format) = format_of(*to) else { return };
            let bits = to.bits() / 2;
            // Conversions to FP8 always saturate to the largest finite value.
            let finite = *satfinite || bits == 8;
            let one = |bits: u32| {
                let value = f64::from(f32::from_bits(bits));
                let value = if *relu && value <= 0.0 { 0.0 } else { value };
                narrow(value, format, *rounding, finite)
            };
            let (a, b) = (warp.word(*a), warp.word(*b));
            let mut values = [0; LANES];
            for lane in (0..LANES).filter(|l| mask >> l & 1 != 0) {
                values[lane] = one(a[lane]) << bits | one(b[lane]);
            }
            warp.set_word(*d, mask, &values);
        }
        Op::UnpackPair { from, relu, d, a } => {
            let Some(format) = format_of(*from) else {
                return;
            };
            let one = |bits: u32| {
                let value = format.value(bits & 0xff);
                let value = if *relu && value <= 0.0 { 0.0 } else { value };
                F16.round(value, Rounding::NearestEven)
            };
            let values = warp.word(*a).map(|a| one(a) | one(a >> 8) << 16);
            warp.set_word(*d, mask, &values);
        }
        _ => {}
    }
}
