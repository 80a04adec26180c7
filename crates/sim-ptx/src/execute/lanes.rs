//! Operations on registers only. They are compiled three times: for any processor, for processors
//! with 256-bit vectors and fused multiply-add (the most common), and for processors with 512-bit
//! vectors.
//!
//! The unsafe code in this crate is the calls of the last two versions, after a check that the
//! processor has the features.

use super::host::Vectors;
#[cfg(target_arch = "x86_64")]
use super::vectors;
use super::warp::Warp;
use super::{address, compare, convert, float, integer, matrix_multiply};
use crate::memory::{LOCAL_WINDOW, SHARED_WINDOW};
#[cfg(target_arch = "x86_64")]
use crate::number::{BF16, F16};
use crate::operation::{LANES, Multiply, Op, Slot, Space};
#[cfg(target_arch = "x86_64")]
use crate::operation::{MatrixType, Type};

/// Executes an operation; `has` are the host's vector instructions.
#[inline(always)]
pub(super) fn plain(warp: &mut Warp, mask: u32, op: &Op, has: Vectors) {
    match has {
        // SAFETY: `has` says that the processor has the features.
        #[cfg(target_arch = "x86_64")]
        Vectors::Of512 => unsafe { plain_512(warp, mask, op) },
        // SAFETY: `has` says that the processor has the features.
        #[cfg(target_arch = "x86_64")]
        Vectors::Of256 => unsafe { plain_256(warp, mask, op) },
        _ => plain_portable(warp, mask, op),
    }
}

#[inline(never)]
fn plain_portable(warp: &mut Warp, mask: u32, op: &Op) {
    execute(warp, mask, op);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn plain_256(warp: &mut Warp, mask: u32, op: &Op) {
    execute(warp, mask, op);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn plain_512(warp: &mut Warp, mask: u32, op: &Op) {
    execute(warp, mask, op);
}

/// Executes a matrix product.
pub(super) fn multiply(warp: &mut Warp, m: &Multiply, active: u32, has: Vectors) {
    match has {
        // SAFETY: `has` says that the processor has the features.
        #[cfg(target_arch = "x86_64")]
        Vectors::Of512 => unsafe { multiply_512(warp, m, active) },
        // SAFETY: `has` says that the processor has the features.
        #[cfg(target_arch = "x86_64")]
        Vectors::Of256 => unsafe { multiply_256(warp, m, active) },
        _ => matrix_multiply::multiply::<false>(warp, m, active),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn multiply_256(warp: &mut Warp, m: &Multiply, active: u32) {
    matrix_multiply::multiply::<true>(warp, m, active);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn multiply_512(warp: &mut Warp, m: &Multiply, active: u32) {
    let usual = m.k == 16 && m.result == Type::F32 && m.a_type == m.b_type;
    let fragments = (&m.a[..], &m.b[..], &m.c[..], &m.d[..]);
    if let (true, MatrixType::Float(format), (&[a0, a1, a2, a3], &[b0, b1], c, d)) =
        (usual, m.a_type, fragments)
        && let (&[c0, c1, c2, c3], true) = (c, format == BF16 || format == F16)
    {
        let registers = &*warp;
        let a = [a0, a1, a2, a3].map(|r| registers.word(r));
        let b = [b0, b1].map(|r| registers.word(r));
        let c = [c0, c1, c2, c3].map(|r| registers.word(r));
        let values = match format == BF16 {
            true => vectors::multiply::<true>(a, b, c),
            false => vectors::multiply::<false>(a, b, c),
        };
        for (d, values) in d.iter().zip(&values) {
            warp.set_word(*d, active, values);
        }
        return;
    }
    matrix_multiply::multiply::<true>(warp, m, active);
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
        _ => address::window(address).0 == space,
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
