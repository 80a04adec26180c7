//! Executes integer operations on all lanes. Inactive lanes are computed as well and discarded,
//! which is faster than a test.

use super::bits::{dp2a, dp4a, extract64, field, insert, lop3, permute};
use super::warp::Warp;
use crate::operation::{Carry, Int1, Int2, Int3, LANES, Op, R32, R64};

#[inline(always)]
fn map1(warp: &mut Warp, mask: u32, d: R32, a: R32, f: impl Fn(u32) -> u32) {
    let values = warp.word(a).map(f);
    warp.set_word(d, mask, &values);
}

#[inline(always)]
fn map2(warp: &mut Warp, mask: u32, d: R32, a: R32, b: R32, f: impl Fn(u32, u32) -> u32) {
    let (a, b) = (warp.word(a), warp.word(b));
    let mut values = [0; LANES];
    for lane in 0..LANES {
        values[lane] = f(a[lane], b[lane]);
    }
    warp.set_word(d, mask, &values);
}

#[inline(always)]
fn map3(warp: &mut Warp, mask: u32, [d, a, b, c]: [R32; 4], f: impl Fn(u32, u32, u32) -> u32) {
    let (a, b, c) = (warp.word(a), warp.word(b), warp.word(c));
    let mut values = [0; LANES];
    for lane in 0..LANES {
        values[lane] = f(a[lane], b[lane], c[lane]);
    }
    warp.set_word(d, mask, &values);
}

#[inline(always)]
fn wide2(warp: &mut Warp, mask: u32, d: R64, a: R64, b: R64, f: impl Fn(u64, u64) -> u64) {
    let (a, b) = (warp.double(a), warp.double(b));
    let mut values = [0; LANES];
    for lane in 0..LANES {
        values[lane] = f(a[lane], b[lane]);
    }
    warp.set_double(d, mask, &values);
}

#[inline(always)]
pub(super) fn int2(warp: &mut Warp, mask: u32, f: Int2, signed: bool, [d, a, b]: [R32; 3]) {
    let s = |f: fn(i32, i32) -> i32| move |a: u32, b: u32| f(a as i32, b as i32) as u32;
    match (f, signed) {
        (Int2::Add, _) => map2(warp, mask, d, a, b, u32::wrapping_add),
        (Int2::Sub, _) => map2(warp, mask, d, a, b, u32::wrapping_sub),
        (Int2::Mul, _) => map2(warp, mask, d, a, b, u32::wrapping_mul),
        (Int2::And, _) => map2(warp, mask, d, a, b, |a, b| a & b),
        (Int2::Or, _) => map2(warp, mask, d, a, b, |a, b| a | b),
        (Int2::Xor, _) => map2(warp, mask, d, a, b, |a, b| a ^ b),
        (Int2::Shl, _) => map2(warp, mask, d, a, b, |a, b| a.checked_shl(b).unwrap_or(0)),
        (Int2::Shr, false) => map2(warp, mask, d, a, b, |a, b| a.checked_shr(b).unwrap_or(0)),
        (Int2::Shr, true) => map2(warp, mask, d, a, b, |a, b| ((a as i32) >> b.min(31)) as u32),
        (Int2::Min, false) => map2(warp, mask, d, a, b, u32::min),
        (Int2::Max, false) => map2(warp, mask, d, a, b, u32::max),
        (Int2::Min, true) => map2(warp, mask, d, a, b, s(i32::min)),
        (Int2::Max, true) => map2(warp, mask, d, a, b, s(i32::max)),
        (Int2::AddSat, _) => map2(warp, mask, d, a, b, s(i32::saturating_add)),
        (Int2::SubSat, _) => map2(warp, mask, d, a, b, s(i32::saturating_sub)),
        (Int2::MulHigh, false) => {
            map2(warp, mask, d, a, b, |a, b| {
                ((u64::from(a) * u64::from(b)) >> 32) as u32
            });
        }
        (Int2::MulHigh, true) => {
            map2(warp, mask, d, a, b, |a, b| {
                ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32
            });
        }
        // As on the hardware, all bits of the result of a division by zero are ones.
        (Int2::Div, false) => map2(warp, mask, d, a, b, |a, b| {
            a.checked_div(b).unwrap_or(u32::MAX)
        }),
        (Int2::Div, true) => {
            map2(
                warp,
                mask,
                d,
                a,
                b,
                s(|a, b| if b == 0 { -1 } else { a.wrapping_div(b) }),
            );
        }
        (Int2::Rem, false) => map2(warp, mask, d, a, b, |a, b| a.checked_rem(b).unwrap_or(a)),
        (Int2::Rem, true) => {
            map2(
                warp,
                mask,
                d,
                a,
                b,
                s(|a, b| if b == 0 { a } else { a.wrapping_rem(b) }),
            );
        }
        (Int2::Mul24, true) => {
            map2(
                warp,
                mask,
                d,
                a,
                b,
                s(|a, b| (a << 8 >> 8).wrapping_mul(b << 8 >> 8)),
            );
        }
        (Int2::Mul24, false) => {
            map2(warp, mask, d, a, b, |a, b| {
                (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff)
            });
        }
    }
}

#[inline(always)]
fn extend(value: u32, signed: bool) -> u32 {
    if signed {
        i32::from(value as u16 as i16) as u32
    } else {
        value & 0xffff
    }
}

/// 16-bit operations are 32-bit operations on extended operands, with truncated results.
#[inline(always)]
pub(super) fn int2_narrow(warp: &mut Warp, mask: u32, f: Int2, signed: bool, [d, a, b]: [R32; 3]) {
    let shift = matches!(f, Int2::Shl | Int2::Shr);
    let one = |a: u32, b: u32| -> u32 {
        let (a, b) = (extend(a, signed), if shift { b } else { extend(b, signed) });
        let (sa, sb) = (a as i32, b as i32);
        let value = match f {
            Int2::Add | Int2::AddSat => a.wrapping_add(b),
            Int2::Sub | Int2::SubSat => a.wrapping_sub(b),
            Int2::Mul | Int2::Mul24 => a.wrapping_mul(b),
            Int2::MulHigh if signed => (sa.wrapping_mul(sb) >> 16) as u32,
            Int2::MulHigh => a.wrapping_mul(b) >> 16,
            Int2::Div | Int2::Rem if b == 0 => {
                if f == Int2::Div {
                    u32::MAX
                } else {
                    a
                }
            }
            Int2::Div if signed => sa.wrapping_div(sb) as u32,
            Int2::Div => a / b,
            Int2::Rem if signed => sa.wrapping_rem(sb) as u32,
            Int2::Rem => a % b,
            Int2::Min if signed => sa.min(sb) as u32,
            Int2::Min => a.min(b),
            Int2::Max if signed => sa.max(sb) as u32,
            Int2::Max => a.max(b),
            Int2::And => a & b,
            Int2::Or => a | b,
            Int2::Xor => a ^ b,
            Int2::Shl => a.checked_shl(b).unwrap_or(0),
            Int2::Shr if signed => (sa >> b.min(31)) as u32,
            Int2::Shr => a.checked_shr(b).unwrap_or(0),
        };
        value & 0xffff
    };
    map2(warp, mask, d, a, b, one);
}

#[inline(always)]
pub(super) fn int2_wide(warp: &mut Warp, mask: u32, f: Int2, signed: bool, [d, a, b]: [R64; 3]) {
    let s = |f: fn(i64, i64) -> i64| move |a: u64, b: u64| f(a as i64, b as i64) as u64;
    match (f, signed) {
        (Int2::Add | Int2::AddSat, _) => wide2(warp, mask, d, a, b, u64::wrapping_add),
        (Int2::Sub | Int2::SubSat, _) => wide2(warp, mask, d, a, b, u64::wrapping_sub),
        (Int2::Mul | Int2::Mul24, _) => wide2(warp, mask, d, a, b, u64::wrapping_mul),
        (Int2::And, _) => wide2(warp, mask, d, a, b, |a, b| a & b),
        (Int2::Or, _) => wide2(warp, mask, d, a, b, |a, b| a | b),
        (Int2::Xor, _) => wide2(warp, mask, d, a, b, |a, b| a ^ b),
        // 64-bit shifts have a 32-bit operand, and are the operation `shift64`.
        (Int2::Shl | Int2::Shr, _) => {}
        (Int2::Min, false) => wide2(warp, mask, d, a, b, u64::min),
        (Int2::Max, false) => wide2(warp, mask, d, a, b, u64::max),
        (Int2::Min, true) => wide2(warp, mask, d, a, b, s(i64::min)),
        (Int2::Max, true) => wide2(warp, mask, d, a, b, s(i64::max)),
        (Int2::MulHigh, signed) => wide2(warp, mask, d, a, b, |a, b| high64(a, b, signed)),
        (Int2::Div, false) => wide2(warp, mask, d, a, b, |a, b| {
            a.checked_div(b).unwrap_or(u64::MAX)
        }),
        (Int2::Div, true) => {
            wide2(
                warp,
                mask,
                d,
                a,
                b,
                s(|a, b| if b == 0 { -1 } else { a.wrapping_div(b) }),
            );
        }
        (Int2::Rem, false) => wide2(warp, mask, d, a, b, |a, b| a.checked_rem(b).unwrap_or(a)),
        (Int2::Rem, true) => {
            wide2(
                warp,
                mask,
                d,
                a,
                b,
                s(|a, b| if b == 0 { a } else { a.wrapping_rem(b) }),
            );
        }
    }
}

#[inline(always)]
fn high64(a: u64, b: u64, signed: bool) -> u64 {
    if signed {
        ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
    } else {
        ((u128::from(a) * u128::from(b)) >> 64) as u64
    }
}

#[inline(always)]
fn shift64(warp: &mut Warp, mask: u32, f: Int2, signed: bool, d: R64, a: R64, b: R32) {
    let (a, b) = (warp.double(a), warp.word(b));
    let values = std::array::from_fn(|lane| {
        let (a, b) = (a[lane], b[lane]);
        match (f, signed) {
            (Int2::Shl, _) => a.checked_shl(b).unwrap_or(0),
            (_, true) => ((a as i64) >> b.min(63)) as u64,
            _ => a.checked_shr(b).unwrap_or(0),
        }
    });
    warp.set_double(d, mask, &values);
}

#[inline(always)]
fn int1(f: Int1, signed: bool, narrow: bool, a: u32) -> u32 {
    let a = if narrow { extend(a, signed) } else { a };
    let value = match f {
        Int1::Not => !a,
        Int1::CNot => u32::from(a == 0),
        Int1::Neg => a.wrapping_neg(),
        Int1::Abs => (a as i32).wrapping_abs() as u32,
        Int1::Brev => a.reverse_bits(),
        Int1::Popc => a.count_ones(),
        Int1::Clz => a.leading_zeros(),
        Int1::Bfind { shift } => {
            let bits = if signed && (a as i32) < 0 { !a } else { a };
            match (bits, shift) {
                (0, _) => u32::MAX,
                (_, true) => bits.leading_zeros(),
                (_, false) => 31 - bits.leading_zeros(),
            }
        }
    };
    if narrow { value & 0xffff } else { value }
}

#[inline(always)]
fn int1_wide(f: Int1, a: u64) -> u64 {
    match f {
        Int1::Not => !a,
        Int1::CNot => u64::from(a == 0),
        Int1::Neg => a.wrapping_neg(),
        Int1::Abs => (a as i64).wrapping_abs() as u64,
        Int1::Brev => a.reverse_bits(),
        _ => u64::from(count64(f, false, a)),
    }
}

#[inline(always)]
fn count64(f: Int1, signed: bool, a: u64) -> u32 {
    match f {
        Int1::Popc => a.count_ones(),
        Int1::Bfind { shift } => {
            let bits = if signed && (a as i64) < 0 { !a } else { a };
            match (bits, shift) {
                (0, _) => u32::MAX,
                (_, true) => bits.leading_zeros(),
                (_, false) => 63 - bits.leading_zeros(),
            }
        }
        _ => a.leading_zeros(),
    }
}

#[inline(always)]
fn int3(warp: &mut Warp, mask: u32, f: Int3, slots: [R32; 4]) {
    match f {
        Int3::MadLow => map3(warp, mask, slots, |a, b, c| {
            a.wrapping_mul(b).wrapping_add(c)
        }),
        Int3::MadHigh { signed: false } => map3(warp, mask, slots, |a, b, c| {
            ((u64::from(a) * u64::from(b)) >> 32).wrapping_add(u64::from(c)) as u32
        }),
        Int3::MadHigh { signed: true } => map3(warp, mask, slots, |a, b, c| {
            (((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32).wrapping_add(c)
        }),
        Int3::Sad { signed: false } => {
            map3(warp, mask, slots, |a, b, c| a.abs_diff(b).wrapping_add(c));
        }
        Int3::Sad { signed: true } => {
            map3(warp, mask, slots, |a, b, c| {
                (a as i32).abs_diff(b as i32).wrapping_add(c)
            });
        }
        Int3::Bfe { signed } => map3(warp, mask, slots, |a, b, c| {
            let a = if signed {
                i64::from(a as i32) as u64 & 0xffff_ffff
            } else {
                u64::from(a)
            };
            field(a, b, c, 32, signed) as u32
        }),
        // The two functions that compilers use most.
        Int3::Lop3(0x96) => map3(warp, mask, slots, |a, b, c| a ^ b ^ c),
        Int3::Lop3(0xe8) => map3(warp, mask, slots, |a, b, c| a & b | a & c | b & c),
        Int3::Lop3(table) => map3(warp, mask, slots, |a, b, c| lop3(a, b, c, table)),
        Int3::Prmt(mode) => map3(warp, mask, slots, |a, b, c| permute(a, b, c, mode)),
        Int3::Funnel { left, wrap } => map3(warp, mask, slots, |a, b, c| {
            let value = u64::from(b) << 32 | u64::from(a);
            let by = if wrap { c & 31 } else { c.min(32) };
            if left {
                ((value << by) >> 32) as u32
            } else {
                (value >> by) as u32
            }
        }),
        Int3::Dp2a { a: x, b: y, upper } => {
            let shift = if upper { 16 } else { 0 };
            map3(warp, mask, slots, |a, b, c| dp2a(a, b >> shift, c, x, y));
        }
        Int3::Dp4a { a: x, b: y } => map3(warp, mask, slots, |a, b, c| dp4a(a, b, c, x, y)),
        Int3::Bmsk { wrap } => map3(warp, mask, slots, |a, b, _| {
            let (a, b) = if wrap { (a & 31, b & 31) } else { (a, b) };
            insert(u64::MAX, 0, a.min(255), b.min(255), 32) as u32
        }),
    }
}

/// `a op b op c` with carry flags.
#[inline(always)]
fn carry(warp: &mut Warp, mask: u32, op: &Op) {
    let Op::Carry {
        f,
        signed,
        takes,
        gives,
        d,
        a,
        b,
        c,
    } = op
    else {
        return;
    };
    let (a, b, c) = (warp.word(*a), warp.word(*b), warp.word(*c));
    let mut flags = 0;
    let values = std::array::from_fn(|lane| {
        let flag = u64::from(*takes && warp.carry >> lane & 1 != 0);
        let (x, y, z) = (u64::from(a[lane]), u64::from(b[lane]), u64::from(c[lane]));
        let sum = match f {
            Carry::Add => x + y + flag,
            // The flag of a subtraction is the borrow.
            Carry::Sub => x.wrapping_sub(y).wrapping_sub(flag),
            Carry::MadLow => ((x * y) & 0xffff_ffff) + z + flag,
            Carry::MadHigh if *signed => {
                let high = (i64::from(a[lane] as i32) * i64::from(b[lane] as i32)) >> 32;
                u64::from(high as u32) + z + flag
            }
            Carry::MadHigh => ((x * y) >> 32) + z + flag,
        };
        flags |= ((sum >> 32 & 1) as u32) << lane;
        sum as u32
    });
    warp.set_word(*d, mask, &values);
    if *gives {
        warp.carry = warp.carry & !mask | flags & mask;
    }
}

#[inline(always)]
fn carry64(warp: &mut Warp, mask: u32, op: &Op) {
    let Op::Carry64 {
        f,
        takes,
        gives,
        d,
        a,
        b,
    } = op
    else {
        return;
    };
    let (a, b) = (warp.double(*a), warp.double(*b));
    let mut flags = 0;
    let values = std::array::from_fn(|lane| {
        let flag = u128::from(*takes && warp.carry >> lane & 1 != 0);
        let (x, y) = (u128::from(a[lane]), u128::from(b[lane]));
        let sum = if *f == Carry::Sub {
            x.wrapping_sub(y).wrapping_sub(flag)
        } else {
            x + y + flag
        };
        flags |= ((sum >> 64 & 1) as u32) << lane;
        sum as u64
    });
    warp.set_double(*d, mask, &values);
    if *gives {
        warp.carry = warp.carry & !mask | flags & mask;
    }
}

#[inline(always)]
fn mad_wide(warp: &mut Warp, mask: u32, signed: bool, d: R64, [a, b]: [R32; 2], c: Option<R64>) {
    let (a, b) = (warp.word(a), warp.word(b));
    let mut values = [0; LANES];
    for lane in 0..LANES {
        values[lane] = if signed {
            (i64::from(a[lane] as i32) * i64::from(b[lane] as i32)) as u64
        } else {
            u64::from(a[lane]) * u64::from(b[lane])
        };
    }
    if let Some(c) = c {
        let c = warp.double(c);
        (0..LANES).for_each(|lane| values[lane] = values[lane].wrapping_add(c[lane]));
    }
    warp.set_double(d, mask, &values);
}

/// The full product of 16-bit values.
#[inline(always)]
fn product16(a: u32, b: u32, signed: bool) -> u32 {
    extend(a, signed).wrapping_mul(extend(b, signed))
}

/// The less common integer operations.
#[inline(always)]
pub(super) fn other(warp: &mut Warp, mask: u32, op: &Op) {
    match op {
        Op::Int1 {
            f,
            signed,
            narrow,
            d,
            a,
        } => {
            map1(warp, mask, *d, *a, |a| int1(*f, *signed, *narrow, a));
        }
        Op::Int1Wide { f, d, a } => {
            let values = warp.double(*a).map(|a| int1_wide(*f, a));
            warp.set_double(*d, mask, &values);
        }
        Op::Count64 { f, signed, d, a } => {
            let values = warp.double(*a).map(|a| count64(*f, *signed, a));
            warp.set_word(*d, mask, &values);
        }
        Op::Shift64 { f, signed, d, a, b } => shift64(warp, mask, *f, *signed, *d, *a, *b),
        Op::Int3 { f, d, a, b, c } => int3(warp, mask, *f, [*d, *a, *b, *c]),
        Op::MadNarrow {
            signed,
            high,
            d,
            a,
            b,
            c,
        } => {
            map3(warp, mask, [*d, *a, *b, *c], |a, b, c| {
                let product = product16(a, b, *signed);
                (if *high { product >> 16 } else { product }).wrapping_add(c) & 0xffff
            });
        }
        Op::Mad64 {
            signed,
            high,
            d,
            a,
            b,
            c,
        } => {
            let (a, b, c) = (warp.double(*a), warp.double(*b), warp.double(*c));
            let values = std::array::from_fn(|lane| {
                let (a, b) = (a[lane], b[lane]);
                let product = if *high {
                    high64(a, b, *signed)
                } else {
                    a.wrapping_mul(b)
                };
                product.wrapping_add(c[lane])
            });
            warp.set_double(*d, mask, &values);
        }
        Op::Bfe64 { signed, d, a, b, c } => {
            let (a, b, c) = (warp.double(*a), warp.word(*b), warp.word(*c));
            let values = std::array::from_fn(|lane| extract64(a[lane], b[lane], c[lane], *signed));
            warp.set_double(*d, mask, &values);
        }
        Op::Bfi { d, a, b, c, e } => {
            let (a, b, c, e) = (warp.word(*a), warp.word(*b), warp.word(*c), warp.word(*e));
            let values = std::array::from_fn(|lane| {
                insert(u64::from(a[lane]), u64::from(b[lane]), c[lane], e[lane], 32) as u32
            });
            warp.set_word(*d, mask, &values);
        }
        Op::Bfi64 { d, a, b, c, e } => {
            let (a, b, c, e) = (
                warp.double(*a),
                warp.double(*b),
                warp.word(*c),
                warp.word(*e),
            );
            let values = std::array::from_fn(|lane| insert(a[lane], b[lane], c[lane], e[lane], 64));
            warp.set_double(*d, mask, &values);
        }
        Op::MadWide { signed, d, a, b, c } => mad_wide(warp, mask, *signed, *d, [*a, *b], *c),
        Op::MadWide16 { signed, d, a, b, c } => match c {
            Some(c) => map3(warp, mask, [*d, *a, *b, *c], |a, b, c| {
                product16(a, b, *signed).wrapping_add(c)
            }),
            None => map2(warp, mask, *d, *a, *b, |a, b| product16(a, b, *signed)),
        },
        Op::Carry { .. } => carry(warp, mask, op),
        Op::Carry64 { .. } => carry64(warp, mask, op),
        _ => {}
    }
}
