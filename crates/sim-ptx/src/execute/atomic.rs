//! Executes atomics, in the order of lanes, and asynchronous copies.

use super::address::{
    Request, addresses, aligned, by_space, from_bytes, note_traffic, region, resolve,
};
use super::context::Context;
use super::convert::format_of;
use super::float::largest;
use super::shadow::shadow;
use super::warp::{PendingCopy, Warp};
use crate::number::{Format, Rounding, add_odd, canonical};
use crate::operation::{AsyncCopy, Atomic, AtomicOp, LANES, Space, Type};
use crate::report::FindingKind;

pub(super) fn atomic(warp: &mut Warp, context: &mut Context<'_>, pc: u32, a: &Atomic, mask: u32) {
    let addresses = addresses(warp, &a.address);
    let bytes = a.kind.bits() / 8;
    let request = Request {
        pc,
        bytes,
        writes: true,
        reads: true,
        strong: true,
        constant: false,
        warp: warp.index,
    };
    by_space(
        a.address.space,
        addresses,
        mask,
        |space, addresses, mask| {
            if !matches!(space, Space::Global | Space::Shared) {
                context.find(FindingKind::OutOfBounds, pc, None, Vec::new(), |_| {
                    "an atomic on local memory or parameters: it needs global or shared memory"
                        .to_owned()
                });
                return;
            }
            let mask = aligned(context, &request, addresses, mask);
            note_traffic(context, &request, space, addresses, mask);
            let mut rest = mask;
            while rest != 0 {
                let Some((place, lanes, offsets)) =
                    resolve(context, &request, space, addresses, &mut rest)
                else {
                    continue;
                };
                shadow(context, place, &request, &offsets, lanes, 0);
                let (b, c) = (warp.wide(a.b), a.c.map(|c| warp.wide(c)));
                let target = region(context, place);
                let mut old = [0; LANES];
                for lane in (0..LANES).filter(|l| lanes >> l & 1 != 0) {
                    let at = offsets[lane];
                    let end = at + bytes as usize;
                    old[lane] = from_bytes(&target.data[at..end], false);
                    let new = combine(a.op, a.kind, old[lane], b[lane], c.map_or(0, |c| c[lane]));
                    target.data[at..end].copy_from_slice(&new.to_le_bytes()[..bytes as usize]);
                    target.mark_written(at, bytes as usize);
                }
                if let Some(d) = a.d {
                    warp.set(d, lanes, &old);
                }
            }
        },
    );
}

/// The new value in memory after an atomic operation.
pub(super) fn combine(op: AtomicOp, kind: Type, old: u64, b: u64, c: u64) -> u64 {
    let narrow = kind.bits() < 64;
    let cut = |value: u64| {
        if narrow {
            value & ((1 << kind.bits()) - 1)
        } else {
            value
        }
    };
    let sign = |value: u64| {
        if narrow {
            i64::from(value as u32 as i32)
        } else {
            value as i64
        }
    };
    match op {
        AtomicOp::Exchange => b,
        AtomicOp::CompareAndSwap => {
            if old == cut(b) {
                c
            } else {
                old
            }
        }
        AtomicOp::And => old & b,
        AtomicOp::Or => old | b,
        AtomicOp::Xor => old ^ b,
        AtomicOp::Inc => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        AtomicOp::Dec => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
        _ if !kind.is_integer() && !kind.is_bits() => float(op, kind, old, b),
        AtomicOp::Add => cut(old.wrapping_add(b)),
        AtomicOp::Min if kind.is_signed() => {
            if sign(b) < sign(old) {
                b
            } else {
                old
            }
        }
        AtomicOp::Max if kind.is_signed() => {
            if sign(b) > sign(old) {
                b
            } else {
                old
            }
        }
        AtomicOp::Min => old.min(b),
        AtomicOp::Max => old.max(b),
    }
}

fn float(op: AtomicOp, kind: Type, old: u64, b: u64) -> u64 {
    match kind {
        Type::F64 => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
        Type::F32 => {
            let (x, y) = (f32::from_bits(old as u32), f32::from_bits(b as u32));
            u64::from(canonical(match op {
                AtomicOp::Min => -largest(-x, -y),
                AtomicOp::Max => largest(x, y),
                _ => x + y,
            }))
        }
        _ => {
            let Some(format) = format_of(kind) else {
                return old;
            };
            let low = half(op, format, old as u32 & 0xffff, b as u32 & 0xffff);
            if kind.bits() == 16 {
                return u64::from(low);
            }
            u64::from(low | half(op, format, old as u32 >> 16, b as u32 >> 16) << 16)
        }
    }
}

fn half(op: AtomicOp, format: Format, old: u32, b: u32) -> u32 {
    let (x, y) = (format.value(old), format.value(b));
    let value = match op {
        AtomicOp::Min => {
            if y.is_nan() || x <= y {
                x
            } else {
                y
            }
        }
        AtomicOp::Max => {
            if y.is_nan() || x >= y {
                x
            } else {
                y
            }
        }
        _ => add_odd(x, y),
    };
    format.round(value, Rounding::NearestEven)
}

/// `cp.async`: reads immediately, but writes only when the copy is waited for.
pub(super) fn copy(
    warp: &mut Warp,
    context: &mut Context<'_>,
    pc: u32,
    copy: &AsyncCopy,
    mask: u32,
) {
    let (from, to) = (addresses(warp, &copy.from), addresses(warp, &copy.to));
    let count = copy.source_bytes.map(|r| *warp.word(r));
    let request = Request {
        pc,
        bytes: copy.bytes,
        writes: false,
        reads: true,
        strong: false,
        constant: false,
        warp: warp.index,
    };
    let read = (0..LANES)
        .filter(|l| count.is_none_or(|c| c[*l] > 0))
        .fold(0, |m, l| m | 1 << l);
    let good = aligned(context, &request, &from, mask);
    let good = aligned(
        context,
        &Request {
            writes: true,
            ..request
        },
        &to,
        good,
    );
    note_traffic(context, &request, Space::Global, &from, good & read);
    let mut data = [[0u8; 16]; LANES];
    let bytes = copy.bytes as usize;
    let mut rest = good & read;
    while rest != 0 {
        let Some((place, lanes, offsets)) =
            resolve(context, &request, Space::Global, &from, &mut rest)
        else {
            continue;
        };
        shadow(context, place, &request, &offsets, lanes, 0);
        let source = region(context, place);
        for lane in (0..LANES).filter(|l| lanes >> l & 1 != 0) {
            let taken = count.map_or(bytes, |c| (c[lane] as usize).min(bytes));
            match source
                .data
                .get(offsets[lane]..)
                .and_then(<[u8]>::first_chunk)
            {
                Some(all) if taken == 16 => data[lane] = *all,
                _ => data[lane][..taken].copy_from_slice(&source.data[offsets[lane]..][..taken]),
            }
        }
    }
    if good != 0 {
        warp.pending.push(PendingCopy {
            instruction: pc,
            bytes: copy.bytes,
            lanes: good,
            groups: warp.groups,
            to,
            data,
        });
    }
}

/// Commits the current group of each active lane.
pub(super) fn commit(warp: &mut Warp, mask: u32) {
    (0..LANES)
        .filter(|l| mask >> l & 1 != 0)
        .for_each(|l| warp.groups[l] += 1);
}

/// Completes the active lanes' groups, except for the last `left`.
pub(super) fn wait(warp: &mut Warp, context: &mut Context<'_>, left: u32, mask: u32) {
    let groups = warp.groups;
    for copy in &mut warp.pending {
        // `wait_all` also completes copies that are not committed.
        let mut done = 0;
        for lane in 0..LANES {
            let before = copy.groups[lane].saturating_add(left) < groups[lane];
            done |= u32::from(left == 0 || before) << lane;
        }
        done &= copy.lanes & mask;
        copy.lanes &= !done;
        complete(context, warp.index, copy, done);
    }
    warp.pending.retain(|copy| copy.lanes != 0);
}

/// Writes the data that some lanes have copied, as one access.
fn complete(context: &mut Context<'_>, warp: u32, copy: &PendingCopy, lanes: u32) {
    let request = Request {
        pc: copy.instruction,
        bytes: copy.bytes,
        writes: true,
        reads: false,
        strong: false,
        constant: false,
        warp,
    };
    let bytes = copy.bytes as usize;
    let mut rest = lanes;
    while rest != 0 {
        let found = resolve(context, &request, Space::Shared, &copy.to, &mut rest);
        let Some((place, lanes, offsets)) = found else {
            continue;
        };
        let target = region(context, place);
        let mut same = 0;
        for lane in (0..LANES).filter(|l| lanes >> l & 1 != 0) {
            let at = offsets[lane];
            let new = &copy.data[lane];
            let is_same = match new.first_chunk() {
                Some(new) if bytes == 4 => target.put::<4>(at, new),
                _ if bytes == 16 => target.put(at, new),
                _ => new
                    .first_chunk()
                    .is_some_and(|new| target.put::<8>(at, new)),
            };
            same |= u32::from(is_same) << lane;
        }
        shadow(context, place, &request, &offsets, lanes, same);
    }
}
