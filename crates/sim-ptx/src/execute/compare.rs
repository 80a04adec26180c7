//! Executes comparisons and selections on all lanes.

use super::float::half_in;
use super::warp::Warp;
use crate::number::flush;
use crate::operation::{Compare, Compared, Comparison, LANES, Logic, Mode, Op, Slot};

/// A mask with one bit per lane.
#[inline(always)]
fn bits(f: impl Fn(usize) -> bool) -> u32 {
    let mut mask = 0;
    for lane in 0..LANES {
        mask |= u32::from(f(lane)) << lane;
    }
    mask
}

#[allow(
    clippy::neg_cmp_op_on_partial_ord,
    reason = "NaN makes an unordered comparison true"
)]
/// Compares values; integers are never NaN.
#[inline(always)]
fn ordered<T: PartialOrd + Copy>(
    how: Comparison,
    a: impl Fn(usize) -> T,
    b: impl Fn(usize) -> T,
) -> u32 {
    match how {
        Comparison::Eq => bits(|l| a(l) == b(l)),
        Comparison::Ne => bits(|l| a(l) < b(l) || a(l) > b(l)),
        Comparison::Lt => bits(|l| a(l) < b(l)),
        Comparison::Le => bits(|l| a(l) <= b(l)),
        Comparison::Gt => bits(|l| a(l) > b(l)),
        Comparison::Ge => bits(|l| a(l) >= b(l)),
        Comparison::Num => bits(|l| a(l).partial_cmp(&b(l)).is_some()),
        Comparison::Nan => bits(|l| a(l).partial_cmp(&b(l)).is_none()),
        // An unordered comparison is the negation of the opposite ordered one.
        Comparison::Equ => bits(|l| !(a(l) < b(l) || a(l) > b(l))),
        Comparison::Neu => bits(|l| a(l) != b(l)),
        Comparison::Ltu => bits(|l| !(a(l) >= b(l))),
        Comparison::Leu => bits(|l| !(a(l) > b(l))),
        Comparison::Gtu => bits(|l| !(a(l) <= b(l))),
        Comparison::Geu => bits(|l| !(a(l) < b(l))),
    }
}

/// The lanes for which a comparison is true; `shift` selects a half of packed operands.
#[inline(always)]
fn holds(warp: &Warp, compare: &Compare, shift: u32) -> u32 {
    let how = compare.how;
    match (compare.a, compare.b) {
        (Slot::W(a), Slot::W(b)) => {
            let (a, b) = (warp.word(a), warp.word(b));
            match compare.kind {
                Compared::S32 => ordered(how, |l| a[l] as i32, |l| b[l] as i32),
                Compared::U16 => ordered(how, |l| a[l] as u16, |l| b[l] as u16),
                Compared::S16 => ordered(how, |l| a[l] as i16, |l| b[l] as i16),
                Compared::F32 { ftz: false } => {
                    ordered(how, |l| f32::from_bits(a[l]), |l| f32::from_bits(b[l]))
                }
                Compared::F32 { ftz: true } => ordered(
                    how,
                    |l| flush(f32::from_bits(a[l])),
                    |l| flush(f32::from_bits(b[l])),
                ),
                Compared::Half { format, ftz } => {
                    let mode = Mode { ftz, ..Mode::PLAIN };
                    let value = |bits: u32| half_in(format, bits >> shift & 0xffff, mode);
                    ordered(how, |l| value(a[l]), |l| value(b[l]))
                }
                _ => ordered(how, |l| a[l], |l| b[l]),
            }
        }
        (Slot::D(a), Slot::D(b)) => {
            let (a, b) = (warp.double(a), warp.double(b));
            match compare.kind {
                Compared::S64 => ordered(how, |l| a[l] as i64, |l| b[l] as i64),
                Compared::F64 => ordered(how, |l| f64::from_bits(a[l]), |l| f64::from_bits(b[l])),
                _ => ordered(how, |l| a[l], |l| b[l]),
            }
        }
        _ => 0,
    }
}

#[inline(always)]
fn combine(f: Logic, a: u32, b: u32) -> u32 {
    match f {
        Logic::And => a & b,
        Logic::Or => a | b,
        Logic::Xor => a ^ b,
    }
}

#[inline(always)]
fn combined(warp: &Warp, compare: &Compare, holds: u32) -> u32 {
    compare.combine.map_or(holds, |(logic, test)| {
        combine(logic, holds, warp.test(test))
    })
}

#[inline(always)]
pub(super) fn compare(warp: &mut Warp, mask: u32, op: &Op) {
    match op {
        Op::SetPredicate { compare, d, q } => {
            let first = holds(warp, compare, 0);
            let (yes, no) = (
                combined(warp, compare, first),
                combined(warp, compare, !first),
            );
            warp.set_predicate(*d, mask, yes);
            if let Some(q) = q {
                warp.set_predicate(*q, mask, no);
            }
        }
        Op::SetPredicatePair { compare, d, q } => {
            let (low, high) = (holds(warp, compare, 0), holds(warp, compare, 16));
            let (low, high) = (combined(warp, compare, low), combined(warp, compare, high));
            warp.set_predicate(*d, mask, low);
            warp.set_predicate(*q, mask, high);
        }
        Op::Set { compare, float, d } => {
            let first = holds(warp, compare, 0);
            let result = combined(warp, compare, first);
            let one = if *float { 0x3f80_0000 } else { u32::MAX };
            let values = std::array::from_fn(|lane| if result >> lane & 1 != 0 { one } else { 0 });
            warp.set_word(*d, mask, &values);
        }
        Op::Select { d, a, b, p } => {
            let chosen = warp.test(*p);
            select(warp, mask, chosen, *d, *a, *b);
        }
        Op::SelectSign { float, d, a, b, c } => {
            let c = warp.word(*c);
            // NaN selects the second operand, -0 the first.
            let chosen = if *float {
                bits(|l| f32::from_bits(c[l]) >= 0.0)
            } else {
                bits(|l| c[l] as i32 >= 0)
            };
            select(warp, mask, chosen, *d, *a, *b);
        }
        Op::Logic { f, d, a, b } => {
            let value = combine(*f, warp.test(*a), warp.test(*b));
            warp.set_predicate(*d, mask, value);
        }
        Op::MovePredicate { d, a } => {
            let value = warp.test(*a);
            warp.set_predicate(*d, mask, value);
        }
        _ => {}
    }
}

#[inline(always)]
fn select(warp: &mut Warp, mask: u32, chosen: u32, d: Slot, a: Slot, b: Slot) {
    match (d, a, b) {
        (Slot::W(d), Slot::W(a), Slot::W(b)) => {
            let mut values = *warp.word(b);
            let a = warp.word(a);
            for lane in 0..LANES {
                let keep = (chosen >> lane & 1).wrapping_sub(1);
                values[lane] = values[lane] & keep | a[lane] & !keep;
            }
            warp.set_word(d, mask, &values);
        }
        _ => {
            let (a, mut values) = (warp.wide(a), warp.wide(b));
            for lane in (0..LANES).filter(|l| chosen >> l & 1 != 0) {
                values[lane] = a[lane];
            }
            warp.set(d, mask, &values);
        }
    }
}
