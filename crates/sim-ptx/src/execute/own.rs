//! Accesses to local memory and parameters, which have no shadow memory.

use super::address::from_bytes;
use super::context::Context;
use super::warp::Warp;
use crate::operation::{LANES, Slot, Transfer};
use crate::report::FindingKind;

/// Accesses local memory, which each thread has for itself.
pub(super) fn local(
    warp: &mut Warp,
    context: &mut Context<'_>,
    pc: u32,
    t: &Transfer,
    addresses: &[u64; LANES],
    mask: u32,
    writes: bool,
) {
    let size = context.kernel.local;
    let width = t.width as usize;
    let bytes = u64::from(t.width * t.count);
    context.traffic[pc as usize].requests += 1;
    for lane in (0..LANES).filter(|l| mask >> l & 1 != 0) {
        let address = addresses[lane];
        if address.checked_add(bytes).is_none_or(|end| end > size) {
            let thread = context.thread(warp.index * 32 + lane as u32);
            context.find(FindingKind::OutOfBounds, pc, None, vec![thread], |_| {
                format!("byte {address} of the thread's local memory of {size} bytes")
            });
            continue;
        }
        let start = (lane as u64 * size + address) as usize;
        for (element, register) in t.registers.iter().enumerate() {
            let Some(register) = *register else { continue };
            let at = start + element * width;
            if writes {
                let value = warp.wide(register)[lane].to_le_bytes();
                warp.local[at..at + width].copy_from_slice(&value[..width]);
            } else {
                let value = from_bytes(&warp.local[at..at + width], t.signed);
                match register {
                    Slot::W(r) => warp.words[r.0 as usize][lane] = value as u32,
                    Slot::D(r) => warp.doubles[r.0 as usize][lane] = value,
                }
            }
        }
    }
}

/// Reads the kernel's parameters.
pub(super) fn parameters(
    warp: &mut Warp,
    context: &mut Context<'_>,
    pc: u32,
    t: &Transfer,
    addresses: &[u64; LANES],
    mask: u32,
    writes: bool,
) {
    let width = t.width as usize;
    let size = context.params.len();
    for (element, register) in t.registers.iter().enumerate() {
        let Some(register) = *register else { continue };
        let mut values = [0; LANES];
        for lane in (0..LANES).filter(|l| mask >> l & 1 != 0) {
            let at = usize::try_from(addresses[lane])
                .unwrap_or(usize::MAX)
                .saturating_add(element * width);
            match context.params.get(at..at.saturating_add(width)) {
                Some(bytes) if !writes => values[lane] = from_bytes(bytes, t.signed),
                _ => {
                    let thread = context.thread(warp.index * 32 + lane as u32);
                    context.find(FindingKind::OutOfBounds, pc, None, vec![thread], |_| {
                        format!(
                            "byte {at} of the parameters, which have {size} bytes and are only read"
                        )
                    });
                }
            }
        }
        if !writes {
            warp.set(register, mask, &values);
        }
    }
}
