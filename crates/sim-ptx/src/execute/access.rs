//! Executes loads and stores: computes addresses, checks alignment, bounds and shadow memory, and
//! then transfers the bytes.

use super::address::{
    Place, Request, addresses, aligned, by_space, from_bytes, note_traffic, region, resolve,
};
use super::context::Context;
use super::own;
use super::shadow::shadow;
use super::warp::Warp;
use crate::operation::{LANES, Slot, Space, Transfer};

/// A load or store by the active lanes.
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

/// Loads bytes into the active lanes' registers.
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

/// Stores the active lanes' registers.
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

/// The most common store: one word per lane.
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
