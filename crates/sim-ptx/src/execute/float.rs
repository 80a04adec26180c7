//! Executes floating-point operations on all lanes.
//!
//! `add`, `sub`, `mul`, `fma`, `div`, `rcp`, `sqrt` are correctly rounded, even where PTX allows an
//! error (`.approx`, `.full`). The other functions (`ex2`, `lg2`, `sin`, `cos`, `tanh`, `rsqrt`)
//! are computed in `f64` and rounded to nearest, with an error of half a unit in the last place;
//! the PTX manual promises relative errors of 2^-22.5 to 2^-11. The results of a kernel that
//! depends on the exact bits of the hardware's approximations differ here.

use super::warp::Warp;
use crate::number::{self, Format, Rounding, add_odd, canonical, direct, div_odd, flush, sqrt_odd};
use crate::operation::{Float, Float1, Float2, LANES, Mode, Op, Slot};

#[inline(always)]
pub(super) fn float1(warp: &mut Warp, mask: u32, op: &Op) {
    let Op::Float1 {
        float,
        f,
        mode,
        d,
        a,
    } = op
    else {
        return;
    };
    match (float, *d, *a) {
        (Float::F64, Slot::D(d), Slot::D(a)) => {
            let values = warp
                .double(a)
                .map(|a| one64(*f, f64::from_bits(a), mode.rounding));
            warp.set_double(d, mask, &values);
        }
        (Float::F32, Slot::W(d), Slot::W(a)) => {
            let source = warp.word(a);
            let values = match f {
                Float1::Neg if !mode.ftz => source.map(|a| a ^ 0x8000_0000),
                Float1::Abs if !mode.ftz => source.map(|a| a & 0x7fff_ffff),
                _ => on_active(mask, |lane| one32(*f, f32::from_bits(source[lane]), *mode)),
            };
            warp.set_word(d, mask, &values);
        }
        (Float::Half { format, packed }, Slot::W(d), Slot::W(a)) => {
            let source = warp.word(a);
            let values = on_active(mask, |lane| {
                per_half(*packed, source[lane], 0, 0, |a, _, _| {
                    one_half(*f, *format, a, *mode)
                })
            });
            warp.set_word(d, mask, &values);
        }
        _ => {}
    }
}

/// Expensive functions are computed only for active lanes.
#[inline(always)]
fn on_active(mask: u32, f: impl Fn(usize) -> u32) -> [u32; LANES] {
    std::array::from_fn(|lane| if mask >> lane & 1 != 0 { f(lane) } else { 0 })
}

#[inline(always)]
fn per_half(packed: bool, a: u32, b: u32, c: u32, f: impl Fn(u32, u32, u32) -> u32) -> u32 {
    let low = f(a & 0xffff, b & 0xffff, c & 0xffff);
    if packed {
        low | f(a >> 16, b >> 16, c >> 16) << 16
    } else {
        low
    }
}

#[inline(always)]
pub(super) fn float2(warp: &mut Warp, mask: u32, op: &Op) {
    let Op::Float2 {
        float,
        f,
        mode,
        d,
        a,
        b,
    } = op
    else {
        return;
    };
    match (float, *d, *a, *b) {
        (Float::F32, Slot::W(d), Slot::W(a), Slot::W(b)) => {
            let (a, b) = (warp.word(a), warp.word(b));
            let plain = *mode == Mode::PLAIN;
            let values = match f {
                Float2::Add if plain => lanes32(a, b, |a, b| canonical(a + b)),
                Float2::Sub if plain => lanes32(a, b, |a, b| canonical(a - b)),
                Float2::Mul if plain => lanes32(a, b, |a, b| canonical(a * b)),
                Float2::Div if plain => lanes32(a, b, |a, b| canonical(a / b)),
                Float2::Max if plain => lanes32(a, b, |a, b| canonical(largest(a, b))),
                Float2::Min if plain => lanes32(a, b, |a, b| canonical(-largest(-a, -b))),
                _ => lanes32(a, b, |a, b| two32(*f, a, b, *mode)),
            };
            warp.set_word(d, mask, &values);
        }
        (Float::F64, Slot::D(d), Slot::D(a), Slot::D(b)) => {
            let (a, b) = (warp.double(a), warp.double(b));
            let values = std::array::from_fn(|lane| {
                two64(
                    *f,
                    f64::from_bits(a[lane]),
                    f64::from_bits(b[lane]),
                    mode.rounding,
                )
            });
            warp.set_double(d, mask, &values);
        }
        (Float::Half { format, packed }, Slot::W(d), Slot::W(a), Slot::W(b)) => {
            let (a, b) = (warp.word(a), warp.word(b));
            let values = on_active(mask, |lane| {
                per_half(*packed, a[lane], b[lane], 0, |a, b, _| {
                    two_half(*f, *format, a, b, *mode)
                })
            });
            warp.set_word(d, mask, &values);
        }
        _ => {}
    }
}

#[inline(always)]
fn lanes32(a: &[u32; LANES], b: &[u32; LANES], f: impl Fn(f32, f32) -> u32) -> [u32; LANES] {
    let mut values = [0; LANES];
    for lane in 0..LANES {
        values[lane] = f(f32::from_bits(a[lane]), f32::from_bits(b[lane]));
    }
    values
}

#[inline(always)]
pub(super) fn fma(warp: &mut Warp, mask: u32, op: &Op) {
    let Op::Fma {
        float,
        mode,
        d,
        a,
        b,
        c,
    } = op
    else {
        return;
    };
    match (float, *d, *a, *b, *c) {
        (Float::F32, Slot::W(d), Slot::W(a), Slot::W(b), Slot::W(c)) => {
            let (a, b, c) = (warp.word(a), warp.word(b), warp.word(c));
            let mut values = [0; LANES];
            let plain = *mode == Mode::PLAIN;
            for lane in 0..LANES {
                let (a, b, c) = (
                    f32::from_bits(a[lane]),
                    f32::from_bits(b[lane]),
                    f32::from_bits(c[lane]),
                );
                values[lane] = if plain {
                    canonical(a.mul_add(b, c))
                } else {
                    fma32(a, b, c, *mode)
                };
            }
            warp.set_word(d, mask, &values);
        }
        (Float::F64, Slot::D(d), Slot::D(a), Slot::D(b), Slot::D(c)) => {
            let (a, b, c) = (warp.double(a), warp.double(b), warp.double(c));
            let values = std::array::from_fn(|lane| {
                let (a, b, c) = (
                    f64::from_bits(a[lane]),
                    f64::from_bits(b[lane]),
                    f64::from_bits(c[lane]),
                );
                fma64(a, b, c, mode.rounding)
            });
            warp.set_double(d, mask, &values);
        }
        (Float::Half { format, packed }, Slot::W(d), Slot::W(a), Slot::W(b), Slot::W(c)) => {
            let (a, b, c) = (warp.word(a), warp.word(b), warp.word(c));
            let values = on_active(mask, |lane| {
                per_half(*packed, a[lane], b[lane], c[lane], |a, b, c| {
                    let [a, b, c] = [a, b, c].map(|x| half_in(*format, x, *mode));
                    half_out(*format, add_odd(a * b, c), *mode)
                })
            });
            warp.set_word(d, mask, &values);
        }
        _ => {}
    }
}

/// The maximum of two numbers, where +0 is above -0. If one operand is NaN, the result is the
/// other.
#[inline(always)]
pub(super) fn largest(a: f32, b: f32) -> f32 {
    if a.is_nan() {
        return b;
    }
    if a > b || a == b && b.is_sign_negative() || b.is_nan() {
        a
    } else {
        b
    }
}

#[inline(always)]
fn largest64(a: f64, b: f64) -> f64 {
    if a.is_nan() {
        return b;
    }
    if a > b || a == b && b.is_sign_negative() || b.is_nan() {
        a
    } else {
        b
    }
}

/// Applies flushing of subnormals, saturation and relu to an `f32` result.
#[inline(always)]
fn finish32(value: f32, mode: Mode) -> u32 {
    let value = if mode.ftz { flush(value) } else { value };
    if mode.saturate {
        return if value > 0.0 {
            value.min(1.0).to_bits()
        } else {
            0
        };
    }
    if mode.relu && value <= 0.0 {
        return 0;
    }
    canonical(value)
}

#[inline(always)]
fn round32(value: f64, rounding: Rounding) -> f32 {
    if rounding == Rounding::NearestEven {
        value as f32
    } else {
        f32::from_bits(number::F32.round(value, rounding))
    }
}

/// An exact zero sum is negative when rounding down.
#[inline(always)]
fn zero_sum(value: f64, a: f64, b: f64, rounding: Rounding) -> f64 {
    if value == 0.0 && rounding == Rounding::Down && a != 0.0 && a == -b {
        -0.0
    } else {
        value
    }
}

#[inline(always)]
fn two32(f: Float2, a: f32, b: f32, mode: Mode) -> u32 {
    let (a, b) = if mode.ftz {
        (flush(a), flush(b))
    } else {
        (a, b)
    };
    let (x, y) = (f64::from(a), f64::from(b));
    let rounded = |value| round32(value, mode.rounding);
    let value = match f {
        Float2::Add => rounded(zero_sum(add_odd(x, y), x, y, mode.rounding)),
        Float2::Sub => rounded(zero_sum(add_odd(x, -y), x, -y, mode.rounding)),
        Float2::Mul => rounded(x * y),
        Float2::Div => rounded(div_odd(x, y)),
        Float2::Max => largest(a, b),
        Float2::Min => -largest(-a, -b),
        Float2::MaxNan | Float2::MinNan if a.is_nan() || b.is_nan() => f32::NAN,
        Float2::MaxNan => largest(a, b),
        Float2::MinNan => -largest(-a, -b),
        // In PTX, the first operand provides the sign.
        Float2::CopySign => return b.copysign(a).to_bits(),
    };
    finish32(value, mode)
}

#[inline(always)]
fn fma32(a: f32, b: f32, c: f32, mode: Mode) -> u32 {
    let flushed = |x: f32| f64::from(if mode.ftz { flush(x) } else { x });
    let (product, c) = (flushed(a) * flushed(b), flushed(c));
    finish32(
        round32(
            zero_sum(add_odd(product, c), product, c, mode.rounding),
            mode.rounding,
        ),
        mode,
    )
}

#[inline(always)]
fn one32(f: Float1, a: f32, mode: Mode) -> u32 {
    let a = if mode.ftz { flush(a) } else { a };
    let x = f64::from(a);
    let value = match f {
        Float1::Neg => -a,
        Float1::Abs => a.abs(),
        Float1::Sqrt => round32(sqrt_odd(x), mode.rounding),
        Float1::Rcp | Float1::RcpHigh => round32(div_odd(1.0, x), mode.rounding),
        other => function(other, x) as f32,
    };
    finish32(value, mode)
}

/// The functions that PTX approximates, computed in `f64`.
#[inline(always)]
fn function(f: Float1, x: f64) -> f64 {
    match f {
        Float1::Rsqrt | Float1::RsqrtHigh => 1.0 / x.sqrt(),
        Float1::Ex2 => libm::exp2(x),
        Float1::Lg2 => libm::log2(x),
        Float1::Sin => libm::sin(x),
        Float1::Cos => libm::cos(x),
        Float1::Tanh => libm::tanh(x),
        Float1::Neg => -x,
        Float1::Abs => x.abs(),
        Float1::Sqrt => x.sqrt(),
        Float1::Rcp | Float1::RcpHigh => 1.0 / x,
    }
}

#[inline(always)]
fn one64(f: Float1, a: f64, rounding: Rounding) -> u64 {
    match f {
        Float1::Neg => a.to_bits() ^ 1 << 63,
        Float1::Abs => a.to_bits() & !(1 << 63),
        Float1::Sqrt => {
            let root = a.sqrt();
            direct(root, (-root).mul_add(root, a), rounding).to_bits()
        }
        Float1::Rcp => divide64(1.0, a, rounding).to_bits(),
        // The low word of the result is zero, and subnormal inputs are treated as zero.
        Float1::RcpHigh | Float1::RsqrtHigh => {
            let a = if a.abs() < f64::MIN_POSITIVE {
                0.0f64.copysign(a)
            } else {
                a
            };
            let value = function(f, a);
            let value = if value.abs() < f64::MIN_POSITIVE {
                0.0f64.copysign(value)
            } else {
                value
            };
            value.to_bits() & !0xffff_ffff
        }
        other => function(other, a).to_bits(),
    }
}

#[inline(always)]
fn divide64(a: f64, b: f64, rounding: Rounding) -> f64 {
    let quotient = a / b;
    let rest = (-quotient).mul_add(b, a);
    direct(quotient, if b < 0.0 { -rest } else { rest }, rounding)
}

/// The rounding error of a sum of two `f64`.
#[inline(always)]
fn sum_error(a: f64, b: f64, sum: f64) -> f64 {
    let part = sum - a;
    (a - (sum - part)) + (b - part)
}

#[inline(always)]
fn two64(f: Float2, a: f64, b: f64, rounding: Rounding) -> u64 {
    let value = match f {
        Float2::Add => zero_sum(
            direct(a + b, sum_error(a, b, a + b), rounding),
            a,
            b,
            rounding,
        ),
        Float2::Sub => zero_sum(
            direct(a - b, sum_error(a, -b, a - b), rounding),
            a,
            -b,
            rounding,
        ),
        Float2::Mul => direct(a * b, a.mul_add(b, -(a * b)), rounding),
        Float2::Div => divide64(a, b, rounding),
        Float2::Max => largest64(a, b),
        Float2::Min => -largest64(-a, -b),
        Float2::MaxNan | Float2::MinNan if a.is_nan() || b.is_nan() => f64::NAN,
        Float2::MaxNan => largest64(a, b),
        Float2::MinNan => -largest64(-a, -b),
        Float2::CopySign => b.copysign(a),
    };
    value.to_bits()
}

#[inline(always)]
fn fma64(a: f64, b: f64, c: f64, rounding: Rounding) -> u64 {
    let nearest = a.mul_add(b, c);
    if rounding == Rounding::NearestEven || !nearest.is_finite() {
        return nearest.to_bits();
    }
    // The error is (product - nearest + c), plus the rounding error of the product.
    let product = a * b;
    let low = a.mul_add(b, -product);
    let sum = product + c;
    let error = (sum - nearest) + (sum_error(product, c, sum) + low);
    direct(nearest, error, rounding).to_bits()
}

#[inline(always)]
pub(super) fn half_in(format: Format, bits: u32, mode: Mode) -> f64 {
    let value = format.value(bits);
    let smallest = if format.exponent == 5 {
        6.103_515_625e-5
    } else {
        f64::from(f32::MIN_POSITIVE)
    };
    if mode.ftz && value.abs() < smallest {
        0.0f64.copysign(value)
    } else {
        value
    }
}

#[inline(always)]
fn half_out(format: Format, value: f64, mode: Mode) -> u32 {
    let bits = format.round(value, Rounding::NearestEven);
    let magnitude = bits & 0x7fff;
    if mode.ftz && magnitude >> format.mantissa == 0 {
        return bits & 0x8000;
    }
    if mode.saturate {
        return if value > 0.0 {
            format.round(value.min(1.0), Rounding::NearestEven)
        } else {
            0
        };
    }
    if mode.relu && bits & 0x8000 != 0 {
        0
    } else {
        bits
    }
}

#[inline(always)]
fn two_half(f: Float2, format: Format, a: u32, b: u32, mode: Mode) -> u32 {
    let (x, y) = (half_in(format, a, mode), half_in(format, b, mode));
    let value = match f {
        Float2::Add => add_odd(x, y),
        Float2::Sub => add_odd(x, -y),
        Float2::Mul => x * y,
        Float2::Div => div_odd(x, y),
        Float2::Max => largest64(x, y),
        Float2::Min => -largest64(-x, -y),
        Float2::MaxNan | Float2::MinNan if x.is_nan() || y.is_nan() => f64::NAN,
        Float2::MaxNan => largest64(x, y),
        Float2::MinNan => -largest64(-x, -y),
        Float2::CopySign => y.copysign(x),
    };
    half_out(format, value, mode)
}

#[inline(always)]
fn one_half(f: Float1, format: Format, a: u32, mode: Mode) -> u32 {
    match f {
        Float1::Neg => a ^ 0x8000,
        Float1::Abs => a & 0x7fff,
        other => half_out(format, function(other, half_in(format, a, mode)), mode),
    }
}

/// `testp`, with the index into the decoder's list of properties.
#[inline(always)]
pub(super) fn test(warp: &mut Warp, mask: u32, op: &Op) {
    let Op::TestFloat {
        wide,
        property,
        d,
        a,
    } = op
    else {
        return;
    };
    let values = warp.wide(*a);
    let mut result = 0;
    for (lane, bits) in values.iter().enumerate() {
        let class = if *wide {
            f64::from_bits(*bits).classify()
        } else {
            f32::from_bits(*bits as u32).classify()
        };
        use std::num::FpCategory::{Infinite, Nan, Normal, Subnormal};
        let holds = match property {
            0 => !matches!(class, Infinite | Nan),
            1 => class == Infinite,
            2 => class != Nan,
            3 => class == Nan,
            4 => class == Normal,
            _ => class == Subnormal,
        };
        result |= u32::from(holds) << lane;
    }
    warp.set_predicate(*d, mask, result);
}
