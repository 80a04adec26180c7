//! Operations on registers alone, compiled twice: for any processor, and for those with
//! vectors of 256 bits and fused multiplication, which most have.
//!
//! The unsafe code of this crate is the calls of the second kind, behind a check that the
//! processor has the features.

use super::warp::Warp;
use super::{access, compare, convert, float, integer, matrix};
use crate::memory::{LOCAL_WINDOW, SHARED_WINDOW};
use crate::operation::{LANES, Multiply, Op, Slot, Space};

/// Whether the processor has what the wide versions need.
pub(super) fn wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// Executes an operation; `wide` is what [`wide`] said.
#[inline(always)]
pub(super) fn plain(warp: &mut Warp, mask: u32, op: &Op, wide: bool) {
    #[cfg(target_arch = "x86_64")]
    if wide {
        // SAFETY: `wide` says that the processor has the features.
        return unsafe { plain_wide(warp, mask, op) };
    }
    let _portable = wide;
    plain_portable(warp, mask, op);
}

#[inline(never)]
fn plain_portable(warp: &mut Warp, mask: u32, op: &Op) {
    execute(warp, mask, op);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn plain_wide(warp: &mut Warp, mask: u32, op: &Op) {
    execute(warp, mask, op);
}

/// Multiplies matrices.
pub(super) fn multiply(warp: &mut Warp, m: &Multiply, active: u32, wide: bool) {
    #[cfg(target_arch = "x86_64")]
    if wide {
        // SAFETY: `wide` says that the processor has the features.
        return unsafe { multiply_wide(warp, m, active) };
    }
    let _portable = wide;
    matrix::multiply::<false>(warp, m, active);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn multiply_wide(warp: &mut Warp, m: &Multiply, active: u32) {
    matrix::multiply::<true>(warp, m, active);
}

#[inline(always)]
fn execute(warp: &mut Warp, mask: u32, op: &Op) {
    match op {
        Op::Nop => {}
        Op::Move32 { d, a } => {
            let values = *warp.word(*a);
            warp.set_word(*d, mask, &values);
        }
        Op::Move64 { d, a } => {
            let values = *warp.double(*a);
            warp.set_double(*d, mask, &values);
        }
        Op::Int2 { f, signed, d, a, b } => integer::int2(warp, mask, *f, *signed, [*d, *a, *b]),
        Op::Int2Wide { f, signed, d, a, b } => {
            integer::int2_wide(warp, mask, *f, *signed, [*d, *a, *b]);
        }
        Op::Int2Narrow { f, signed, d, a, b } => {
            integer::int2_narrow(warp, mask, *f, *signed, [*d, *a, *b]);
        }
        Op::Float2 { .. } => float::float2(warp, mask, op),
        Op::Float1 { .. } => float::float1(warp, mask, op),
        Op::Fma { .. } => float::fma(warp, mask, op),
        Op::TestFloat { .. } => float::test(warp, mask, op),
        Op::Convert(c) => convert::convert(warp, mask, c),
        Op::ConvertPair { .. } | Op::UnpackPair { .. } => convert::pairs(warp, mask, op),
        Op::SetPredicate { .. }
        | Op::SetPredicatePair { .. }
        | Op::Set { .. }
        | Op::Select { .. }
        | Op::SelectSign { .. }
        | Op::Logic { .. }
        | Op::MovePredicate { .. } => compare::compare(warp, mask, op),
        Op::Pack { bits, d, parts } => pack(warp, mask, *bits, *d, parts),
        Op::Unpack { bits, parts, a } => unpack(warp, mask, *bits, parts, *a),
        Op::ActiveMask { d } => warp.set_word(*d, mask, &[mask; LANES]),
        Op::InSpace { space, d, a } => {
            let inside = warp.double(*a).map(|a| in_space(a, *space));
            let bits = (0..LANES).filter(|l| inside[*l]).fold(0, |m, l| m | 1 << l);
            warp.set_predicate(*d, mask, bits);
        }
        other => integer::other(warp, mask, other),
    }
}

fn in_space(address: u64, space: Space) -> bool {
    match space {
        Space::Shared => address & !0xffff_ffff == SHARED_WINDOW,
        Space::Local => address & !0xffff_ffff == LOCAL_WINDOW,
        _ => access::window(address).0 == space,
    }
}

fn pack(warp: &mut Warp, mask: u32, bits: u32, d: Slot, parts: &[Slot]) {
    let mut values = [0u64; LANES];
    let part_mask = if bits >= 64 {
        u64::MAX
    } else {
        (1 << bits) - 1
    };
    for (index, part) in parts.iter().enumerate() {
        let source = warp.wide(*part);
        for lane in 0..LANES {
            values[lane] |= (source[lane] & part_mask) << (bits * index as u32);
        }
    }
    warp.set(d, mask, &values);
}

fn unpack(warp: &mut Warp, mask: u32, bits: u32, parts: &[Option<Slot>], a: Slot) {
    let source = warp.wide(a);
    let part_mask = if bits >= 64 {
        u64::MAX
    } else {
        (1 << bits) - 1
    };
    for (index, part) in parts.iter().enumerate() {
        if let Some(part) = part {
            let values = source.map(|v| v >> (bits * index as u32) & part_mask);
            warp.set(*part, mask, &values);
        }
    }
}
