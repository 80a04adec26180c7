//! Checks an access against shadow memory: whether bytes that it reads were written, and whether it
//! races with other accesses.

use super::address::{Place, Request, region};
use super::context::Context;
use crate::history::LINE;
use crate::operation::LANES;
use crate::race::{Access, Cell};
use crate::report::FindingKind;

/// Checks that bytes that are read were written, and records the accesses for race detection.
/// `same` marks lanes that write the value that is there already.
pub(super) fn shadow(
    context: &mut Context<'_>,
    place: Place,
    r: &Request,
    offsets: &[usize; LANES],
    lanes: u32,
    same: u32,
) {
    let global = place != Place::Shared;
    let check = r.reads
        && if global {
            context.options.initialised_global
        } else {
            context.options.initialised
        };
    let bytes = r.bytes as usize;
    let whole = whole_lines(offsets, lanes, bytes);
    if check {
        let region = region(context, place);
        let mut missing = 0;
        let written = |from: usize| {
            let words = region.written.get(from..from + 8 * bytes);
            words.is_some_and(|words| words.iter().all(|word| *word == 15))
        };
        if whole && written(offsets[0] / 4) {
            // All of them were written.
        } else if bytes == 4 {
            for lane in 0..LANES {
                let written = region.written.get(offsets[lane] / 4) == Some(&15);
                missing |= u32::from(!written) << lane;
            }
            missing &= lanes;
        } else {
            for lane in 0..LANES {
                if lanes >> lane & 1 != 0 && !region.all_written(offsets[lane], bytes) {
                    missing |= 1 << lane;
                }
            }
        }
        if missing != 0 {
            uninitialised(context, place, r, offsets, missing);
        }
    }
    if !context.options.races {
        return;
    }
    if r.writes && r.strong && global {
        context.clocks.atomic();
    }
    let races = match (r.writes, whole) {
        (true, true) => note_lines::<true>(context, place, r, offsets, same),
        (false, true) => note_lines::<false>(context, place, r, offsets, same),
        (true, false) => note::<true>(context, place, r, offsets, lanes, same),
        (false, false) => note::<false>(context, place, r, offsets, lanes, same),
    };
    if !races.is_empty() {
        report_races(context, place, r, &races);
    }
}

/// Whether all lanes access adjacent elements of one word or more, from the start of a line.
#[inline(always)]
fn whole_lines(offsets: &[usize; LANES], lanes: u32, bytes: usize) -> bool {
    let first = offsets[0];
    let mut dense =
        lanes == u32::MAX && (4..=16).contains(&bytes) && first.is_multiple_of(4 * LINE);
    if dense {
        for (lane, at) in offsets.iter().enumerate() {
            dense &= *at == first + lane * bytes;
        }
    }
    dense
}

/// Records accesses to whole lines; returns their races.
fn note_lines<const WRITES: bool>(
    context: &mut Context<'_>,
    place: Place,
    r: &Request,
    offsets: &[usize; LANES],
    same: u32,
) -> Vec<Race> {
    let mut races = Vec::new();
    let per_lane = r.bytes as usize / 4;
    // There are as many lines as words per lane; each contains as many lanes as fit.
    for part in 0..per_lane {
        let (line, lane) = (offsets[0] / (4 * LINE) + part, part * LANES / per_lane);
        let (clocks, shared) = (&context.clocks, place == Place::Shared);
        let memory = match place {
            Place::Shared => &mut context.shared,
            Place::Global(index) => context.memory.region(index),
        };
        memory.history.track(memory.written.len());
        let thread = r.warp * 32 + lane as u32;
        let clock = clocks.now(r.warp as usize);
        let now = Access::new(clock, r.pc, thread, r.strong, 15);
        let noted = memory
            .history
            .whole_line(line, per_lane, now, |cell| match WRITES {
                true => clocks.write(cell, now, shared, false).is_none(),
                false if r.constant && clocks.written_in_launch(cell) => false,
                false => clocks.read(cell, now, shared).is_none(),
            });
        if !noted {
            let lanes = (u32::MAX >> (LANES - LANES / per_lane)) << lane;
            let found = note::<WRITES>(context, place, r, offsets, lanes, same);
            if WRITES && found.is_empty() {
                region(context, place).history.join(line, per_lane, now);
            }
            races.extend(found);
        }
    }
    races
}

/// A race: the current access, the earlier one, and the position.
type Race = (Access, Access, usize);

/// Records the accesses of all lanes; returns their races.
fn note<const WRITES: bool>(
    context: &mut Context<'_>,
    place: Place,
    r: &Request,
    offsets: &[usize; LANES],
    lanes: u32,
    same: u32,
) -> Vec<Race> {
    let (clocks, shared) = (&context.clocks, place == Place::Shared);
    let region = match place {
        Place::Shared => &mut context.shared,
        Place::Global(index) => context.memory.region(index),
    };
    region.history.track(region.written.len());
    let history = &mut region.history;
    let bytes = r.bytes as usize;
    let byte_mask = if bytes >= 4 { 15 } else { (1u32 << bytes) - 1 };
    let clock = clocks.now(r.warp as usize);
    let mut races = Vec::new();
    let mut one = |cell: &mut Cell, lane: usize, at: usize| {
        let thread = r.warp * 32 + lane as u32;
        let now = Access::new(clock, r.pc, thread, r.strong, byte_mask << (at % 4));
        let race = if WRITES {
            clocks.write(cell, now, shared, same >> lane & 1 != 0)
        } else if r.constant && clocks.written_in_launch(cell) {
            Some(Access(cell[0]))
        } else {
            clocks.read(cell, now, shared)
        };
        if let Some(earlier) = race {
            races.push((now, earlier, at));
        }
        race.is_some()
    };
    let (mut previous, mut repeats) = (usize::MAX, 0);
    for lane in 0..LANES {
        if lanes >> lane & 1 == 0 {
            continue;
        }
        let at = offsets[lane];
        // Only two readers of a word are recorded, so further lanes that read the same word change
        // nothing.
        repeats = if at == previous { repeats + 1 } else { 0 };
        previous = at;
        if !WRITES && repeats > 1 {
            continue;
        }
        if bytes == 16
            && let Some(cell) = history.quad(at / 4)
        {
            let _race = one(cell, lane, at);
        } else if bytes <= 4 {
            if let Some([cell]) = history.words(at / 4, at / 4 + 1) {
                let _race = one(cell, lane, at);
            }
        } else if let Some([first, others @ ..]) = history.words(at / 4, (at + bytes) / 4) {
            // Words that are accessed together were usually accessed together before.
            let before = *first;
            let races = one(first, lane, at);
            for cell in others {
                if *cell == before && !races {
                    *cell = *first;
                } else {
                    one(cell, lane, at);
                }
            }
        }
    }
    races
}

#[cold]
fn report_races(context: &mut Context<'_>, place: Place, r: &Request, races: &[Race]) {
    for &(now, earlier, at) in races {
        let wrote = earlier_writes(context, earlier);
        let name = match place {
            Place::Shared => format!("shared memory at byte {at}"),
            Place::Global(index) => {
                let (start, size) = context.memory.bounds(index).unwrap_or_default();
                format!("byte {at} of the allocation of {size} bytes at {start:#x}")
            }
        };
        context.race(now, earlier, r.writes, wrote, &name);
    }
}

/// Whether the instruction of an earlier access writes.
fn earlier_writes(context: &Context<'_>, access: Access) -> bool {
    use crate::operation::{Collective, Op};
    let op = context
        .kernel
        .code
        .get(access.instruction() as usize)
        .map(|i| &i.op);
    !matches!(
        op,
        Some(
            Op::Load(_)
                | Op::Collective {
                    what: Collective::LoadMatrix { .. },
                    ..
                }
        )
    )
}

#[cold]
fn uninitialised(
    context: &mut Context<'_>,
    place: Place,
    r: &Request,
    offsets: &[usize; LANES],
    missing: u32,
) {
    let lane = missing.trailing_zeros();
    let at = offsets[lane as usize];
    let threads = context.threads(r.warp, missing);
    match place {
        Place::Shared => context.find(FindingKind::UninitialisedShared, r.pc, None, threads, |_| {
            format!(
                "reads {} bytes of shared memory at byte {at}, which this block has not written: write \
                 them first, with a barrier in between",
                r.bytes
            )
        }),
        Place::Global(index) => {
            let (start, size) = context.memory.bounds(index).unwrap_or_default();
            context.find(FindingKind::UninitialisedGlobal, r.pc, None, threads, |_| {
                format!(
                    "reads byte {at} of the allocation of {size} bytes at {start:#x}, which nobody has \
                     written: copy to it or set it before the launch"
                )
            });
        }
    }
}
