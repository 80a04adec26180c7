//! The bytes that an access reads or writes: addresses, address spaces, alignment and memory
//! regions.

use super::context::Context;
use super::warp::Warp;
use crate::memory::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW};
use crate::operation::{Address, LANES, Slot, Space};
use crate::region::Region;
use crate::report::FindingKind;

/// The memory region of an access.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Shared,
    /// An allocation in global memory, by index.
    Global(usize),
}

/// The parameters of an access, except for the bytes themselves.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) pc: u32,
    /// The number of bytes per lane.
    pub(super) bytes: u32,
    pub(super) writes: bool,
    pub(super) reads: bool,
    pub(super) strong: bool,
    pub(super) constant: bool,
    /// The index of the warp.
    pub(super) warp: u32,
}

/// The addresses of all lanes.
#[inline(always)]
pub(super) fn addresses(warp: &Warp, address: &Address) -> [u64; LANES] {
    let offset = address.offset as u64;
    match address.base {
        None => [offset; LANES],
        Some(Slot::D(r)) => warp.double(r).map(|base| base.wrapping_add(offset)),
        Some(Slot::W(r)) => warp
            .word(r)
            .map(|base| u64::from(base.wrapping_add(offset as u32))),
    }
}

/// The state space of a generic address, and the address within it.
pub(super) fn window(address: u64) -> (Space, u64) {
    match address & !0xffff_ffff {
        SHARED_WINDOW => (Space::Shared, address - SHARED_WINDOW),
        LOCAL_WINDOW => (Space::Local, address - LOCAL_WINDOW),
        PARAM_WINDOW => (Space::Param, address - PARAM_WINDOW),
        _ => (Space::Global, address),
    }
}

/// Calls `f` once for each state space that contains generic addresses of active lanes.
pub(super) fn by_space(
    space: Space,
    mut addresses: [u64; LANES],
    mask: u32,
    mut f: impl FnMut(Space, &[u64; LANES], u32),
) {
    if space != Space::Generic {
        return f(space, &addresses, mask);
    }
    let spaces = addresses.map(|a| window(a).0);
    addresses = addresses.map(|a| window(a).1);
    for space in [Space::Global, Space::Shared, Space::Local, Space::Param] {
        let lanes = (0..LANES)
            .filter(|l| spaces[*l] == space)
            .fold(0, |m, l| m | 1 << l)
            & mask;
        if lanes != 0 {
            f(space, &addresses, lanes);
        }
    }
}

/// The lanes whose addresses are aligned to the access size. Others are reported as findings.
pub(super) fn aligned(
    context: &mut Context<'_>,
    r: &Request,
    addresses: &[u64; LANES],
    mask: u32,
) -> u32 {
    let low = u64::from(r.bytes) - 1;
    let joined = addresses.iter().fold(0, |all, a| all | a);
    if joined & low == 0 {
        return mask;
    }
    let mut good = mask;
    for lane in (0..LANES).filter(|l| mask >> l & 1 != 0) {
        let address = addresses[lane];
        if address & low != 0 {
            good &= !(1 << lane);
            let thread = context.thread(r.warp * 32 + lane as u32);
            context.find(FindingKind::Misaligned, r.pc, None, vec![thread], |_| {
                format!(
                    "a misaligned access of {} bytes at {address:#x}: the device would stop here",
                    r.bytes
                )
            });
        }
    }
    good
}

pub(super) fn note_traffic(
    context: &mut Context<'_>,
    r: &Request,
    space: Space,
    addresses: &[u64; LANES],
    mask: u32,
) {
    if !context.options.statistics || mask == 0 {
        return;
    }
    let traffic = &mut context.traffic[r.pc as usize];
    if space == Space::Shared {
        traffic.shared(addresses, mask, u64::from(r.bytes));
    } else {
        traffic.global(addresses, mask, u64::from(r.bytes));
    }
}

/// The memory region of the first lane in `rest`, the lanes whose addresses are in it, and their
/// offsets. These lanes are removed from `rest`; lanes with addresses out of bounds are reported as
/// findings and removed as well.
#[inline]
pub(super) fn resolve(
    context: &mut Context<'_>,
    r: &Request,
    space: Space,
    addresses: &[u64; LANES],
    rest: &mut u32,
) -> Option<(Place, u32, [usize; LANES])> {
    let first = addresses[rest.trailing_zeros() as usize];
    let (place, start, size) = if space == Space::Shared {
        (Place::Shared, 0, context.shared.data.len() as u64)
    } else {
        let hint = context.hints[r.pc as usize] as usize;
        let fits = |b: &(u64, u64)| first >= b.0 && first - b.0 < b.1;
        let index = match context.memory.bounds(hint).filter(fits) {
            Some(_) => Some(hint),
            None => context.memory.find(first),
        };
        match index {
            Some(index) => {
                context.hints[r.pc as usize] = index as u32;
                let (start, size) = context.memory.bounds(index).unwrap_or_default();
                (Place::Global(index), start, size)
            }
            None => (Place::Global(usize::MAX), 0, 0),
        }
    };
    let offsets = addresses.map(|a| a.wrapping_sub(start) as usize);
    let limit = size.checked_sub(u64::from(r.bytes));
    let mut inside = 0;
    if let Some(limit) = limit {
        for lane in 0..LANES {
            inside |= u32::from(offsets[lane] as u64 <= limit) << lane;
        }
    }
    let lanes = inside & *rest;
    if lanes != 0 {
        *rest &= !lanes;
        return Some((place, lanes, offsets));
    }
    out_of_bounds(context, r, space, first, rest.trailing_zeros());
    *rest &= *rest - 1;
    None
}

#[cold]
fn out_of_bounds(context: &mut Context<'_>, r: &Request, space: Space, address: u64, lane: u32) {
    let thread = context.thread(r.warp * 32 + lane);
    context.find(
        FindingKind::OutOfBounds,
        r.pc,
        None,
        vec![thread],
        |context| {
            let what = if r.writes { "writes" } else { "reads" };
            let place = if space == Space::Shared {
                let size = context.shared.data.len() as u64;
                let past = address
                    .saturating_add(u64::from(r.bytes))
                    .saturating_sub(size);
                format!("{past} bytes past the end of the block's shared memory of {size} bytes")
            } else {
                context.memory.describe(address, u64::from(r.bytes))
            };
            format!("{what} {} bytes at {address:#x}: {place}", r.bytes)
        },
    );
}

/// The memory region at a place.
#[inline(always)]
pub(super) fn region<'c>(context: &'c mut Context<'_>, place: Place) -> &'c mut Region {
    match place {
        Place::Shared => &mut context.shared,
        Place::Global(index) => context.memory.region(index),
    }
}

/// A little-endian value of at most 8 bytes, sign- or zero-extended.
#[inline]
pub(super) fn from_bytes(bytes: &[u8], signed: bool) -> u64 {
    match (bytes, signed) {
        ([a], false) => u64::from(*a),
        ([a], true) => i64::from(*a as i8) as u64,
        ([a, b], false) => u64::from(u16::from_le_bytes([*a, *b])),
        ([a, b], true) => i64::from(i16::from_le_bytes([*a, *b])) as u64,
        ([a, b, c, d], false) => u64::from(u32::from_le_bytes([*a, *b, *c, *d])),
        ([a, b, c, d], true) => i64::from(i32::from_le_bytes([*a, *b, *c, *d])) as u64,
        _ => bytes
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes)),
    }
}
