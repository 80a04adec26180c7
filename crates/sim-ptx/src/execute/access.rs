//! Loads and stores: addresses, alignment, bounds, shadow, then the bytes.

use super::context::Context;
use super::own;
use super::shadow::shadow;
use super::warp::Warp;
use crate::memory::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW};
use crate::operation::{Address, LANES, Slot, Space, Transfer};
use crate::region::Region;
use crate::report::FindingKind;

/// Which region an access goes to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Shared,
    /// An allocation by index.
    Global(usize),
}

/// Everything about an access but its bytes.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) pc: u32,
    /// Bytes of each lane.
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

/// The space of a generic address, and the address in it.
pub(super) fn window(address: u64) -> (Space, u64) {
    match address & !0xffff_ffff {
        SHARED_WINDOW => (Space::Shared, address - SHARED_WINDOW),
        LOCAL_WINDOW => (Space::Local, address - LOCAL_WINDOW),
        PARAM_WINDOW => (Space::Param, address - PARAM_WINDOW),
        _ => (Space::Global, address),
    }
}

/// Calls `f` once for each space that generic addresses of the active lanes lie in.
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

/// A load or a store by the active lanes.
pub(super) fn load_or_store(
    warp: &mut Warp,
    context: &mut Context<'_>,
    pc: u32,
    t: &Transfer,
    mask: u32,
    writes: bool,
) {
    let addresses = addresses(warp, &t.address);
    by_space(
        t.address.space,
        addresses,
        mask,
        |space, addresses, mask| {
            transfer(warp, context, pc, t, space, addresses, mask, writes);
        },
    );
}

#[allow(clippy::too_many_arguments, reason = "one access, by its parts")]
fn transfer(
    warp: &mut Warp,
    context: &mut Context<'_>,
    pc: u32,
    t: &Transfer,
    space: Space,
    addresses: &[u64; LANES],
    mask: u32,
    writes: bool,
) {
    let bytes = t.width * t.count;
    match space {
        Space::Param => return own::parameters(warp, context, pc, t, addresses, mask, writes),
        Space::Local => return own::local(warp, context, pc, t, addresses, mask, writes),
        _ => {}
    }
    let request = Request {
        pc,
        bytes,
        writes,
        reads: !writes,
        strong: t.strong,
        constant: t.constant,
        warp: warp.index,
    };
    let mask = aligned(context, &request, addresses, mask);
    note_traffic(context, &request, space, addresses, mask);
    let mut rest = mask;
    while rest != 0 {
        let Some((place, lanes, offsets)) = resolve(context, &request, space, addresses, &mut rest)
        else {
            continue;
        };
        if writes {
            put(warp, context, place, t, &request, &offsets, lanes);
        } else {
            shadow(context, place, &request, &offsets, lanes, 0);
            get(warp, context, place, t, &offsets, lanes);
        }
    }
}

/// The lanes whose addresses are multiples of the access's size; the others are findings.
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
                    "an access of {} bytes at {address:#x}, which is no multiple of it: the device \
                     would stop here",
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

/// The region of the first lane in `rest`, the lanes that lie in it, and their offsets.
/// They are taken from `rest`; lanes out of bounds are findings and taken too.
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

/// The region of a place.
#[inline(always)]
pub(super) fn region<'c>(context: &'c mut Context<'_>, place: Place) -> &'c mut Region {
    match place {
        Place::Shared => &mut context.shared,
        Place::Global(index) => context.memory.region(index),
    }
}

/// Reads the bytes of the active lanes into registers.
fn get(
    warp: &mut Warp,
    context: &mut Context<'_>,
    place: Place,
    t: &Transfer,
    offsets: &[usize; LANES],
    lanes: u32,
) {
    let data = &region(context, place).data;
    let width = t.width as usize;
    for (element, register) in t.registers.iter().enumerate() {
        let Some(register) = register else { continue };
        let at = element * width;
        match (width, register) {
            (4, Slot::W(r)) => {
                let target = &mut warp.words[r.0 as usize];
                for lane in 0..LANES {
                    if lanes >> lane & 1 != 0
                        && let Some(bytes) = data[offsets[lane] + at..].first_chunk()
                    {
                        target[lane] = u32::from_le_bytes(*bytes);
                    }
                }
            }
            (8, Slot::D(r)) => {
                let target = &mut warp.doubles[r.0 as usize];
                for lane in 0..LANES {
                    if lanes >> lane & 1 != 0
                        && let Some(bytes) = data[offsets[lane] + at..].first_chunk()
                    {
                        target[lane] = u64::from_le_bytes(*bytes);
                    }
                }
            }
            _ => {
                let mut values = [0u64; LANES];
                for lane in (0..LANES).filter(|l| lanes >> l & 1 != 0) {
                    let from = offsets[lane] + at;
                    values[lane] = from_bytes(&data[from..from + width], t.signed);
                }
                warp.set(*register, lanes, &values);
            }
        }
    }
}

/// A little-endian value of at most 8 bytes, extended.
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

/// Writes registers of the active lanes to memory.
fn put(
    warp: &mut Warp,
    context: &mut Context<'_>,
    place: Place,
    t: &Transfer,
    r: &Request,
    offsets: &[usize; LANES],
    lanes: u32,
) {
    if let (4, [Some(Slot::W(register))]) = (t.width, t.registers.as_slice()) {
        return put_words(warp.word(*register), context, place, r, offsets, lanes);
    }
    let width = t.width as usize;
    let bytes = r.bytes as usize;
    let mut images = [[0u8; 32]; LANES];
    for (element, register) in t.registers.iter().enumerate() {
        let Some(register) = register else { continue };
        let values = warp.wide(*register);
        for lane in 0..LANES {
            images[lane][element * width..][..width]
                .copy_from_slice(&values[lane].to_le_bytes()[..width]);
        }
    }
    let target = region(context, place);
    let mut same = 0;
    for lane in (0..LANES).filter(|l| lanes >> l & 1 != 0) {
        let (at, image) = (offsets[lane], &images[lane]);
        if let (16, Some(value)) = (bytes, image.first_chunk::<16>()) {
            same |= u32::from(target.put(at, value)) << lane;
            continue;
        }
        same |= u32::from(target.data[at..at + bytes] == image[..bytes]) << lane;
        target.data[at..at + bytes].copy_from_slice(&image[..bytes]);
        if bytes >= 4 {
            target.written[at / 4..(at + bytes) / 4].fill(15);
        } else {
            target.written[at / 4] |= ((1 << bytes) - 1) << (at % 4);
        }
    }
    shadow(context, place, r, offsets, lanes, same);
}

/// The usual store: one word per lane.
fn put_words(
    values: &[u32; LANES],
    context: &mut Context<'_>,
    place: Place,
    r: &Request,
    offsets: &[usize; LANES],
    lanes: u32,
) {
    let target = region(context, place);
    let mut same = 0;
    for lane in 0..LANES {
        if lanes >> lane & 1 != 0 {
            let is_same = target.put(offsets[lane], &values[lane].to_le_bytes());
            same |= u32::from(is_same) << lane;
        }
    }
    shadow(context, place, r, offsets, lanes, same);
}
