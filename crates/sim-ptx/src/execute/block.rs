//! Runs a block: its warps take turns and meet at barriers.

use super::barrier::BARRIERS;
use super::context::{BarrierState, Context};
use super::options::LaunchError;
use super::warp::{State, Warp};
use super::{collective, step};
use crate::operation::{BarrierKind, LANES, Op};
use crate::report::FindingKind;

/// Runs a block to its end.
pub(super) fn run(warps: &mut [Warp], context: &mut Context<'_>) -> Result<(), LaunchError> {
    tegula_limits::check()?;
    context.barrier_state = vec![BarrierState::default(); BARRIERS];
    loop {
        let mut moves = false;
        for warp in warps.iter_mut() {
            moves |= step::run(warp, context)?;
            if context.trapped {
                return Ok(());
            }
        }
        for id in 0..BARRIERS {
            moves |= release(warps, context, id);
        }
        if moves {
            continue;
        }
        if warps.iter().all(|w| w.live == 0) {
            return Ok(());
        }
        // No warp can run. First, collectives stop waiting for missing members.
        if warps
            .iter_mut()
            .any(|warp| collective::force(warp, context))
        {
            continue;
        }
        // Next, lanes that only wait to reconverge are released.
        if warps.iter_mut().any(Warp::part) {
            continue;
        }
        deadlock(warps, context);
        return Ok(());
    }
}

/// Releases the threads at a barrier if all expected threads have arrived.
fn release(warps: &mut [Warp], context: &mut Context<'_>, id: usize) -> bool {
    let state = context.barrier_state[id].clone();
    if state.arrived == 0 {
        return false;
    }
    let live: u32 = warps.iter().map(|w| w.live.count_ones()).sum();
    if state.arrived < state.expected.unwrap_or(live) {
        return false;
    }
    let existing: u32 = warps.iter().map(|w| w.existing.count_ones()).sum();
    if state.expected.is_none() && live < existing && context.options.exited_at_barriers {
        let gone = warps.iter().find(|w| w.existing != w.live);
        let threads =
            gone.map_or_else(Vec::new, |w| context.threads(w.index, w.existing & !w.live));
        context.find(FindingKind::BarrierDivergence, state.instruction, None, threads, |_| {
            format!(
                "{} threads of the block exited before this barrier, which the others wait at: let all \
                 threads come to it and guard the work instead",
                existing - live
            )
        });
    }
    context.barriers += 1;
    context.clocks.barrier(state.warps, state.waiting);
    for warp in warps.iter_mut() {
        for index in 0..warp.fragments.len() {
            if warp.fragments[index].state == State::Barrier(id as u32) {
                finish(warp, context, index, &state);
            }
        }
    }
    context.barrier_state[id] = BarrierState::default();
    true
}

/// Gives a fragment that waited the results of the barrier.
fn finish(warp: &mut Warp, context: &Context<'_>, index: usize, state: &BarrierState) {
    let (pc, mask) = (warp.fragments[index].pc, warp.fragments[index].mask);
    let instruction = &context.kernel.code[pc as usize];
    let lanes = mask & step::guarded(warp, instruction.guard);
    if let Op::Barrier { kind, .. } = &instruction.op {
        let bits = |value: bool| u32::from(value).wrapping_neg();
        match kind {
            BarrierKind::And { d, .. } => warp.set_predicate(*d, lanes, bits(state.all)),
            BarrierKind::Or { d, .. } => warp.set_predicate(*d, lanes, bits(state.any)),
            BarrierKind::Count { d, .. } => warp.set_word(*d, lanes, &[state.count; LANES]),
            BarrierKind::Sync | BarrierKind::Arrive => {}
        }
    }
    let fragment = &mut warp.fragments[index];
    fragment.pc += 1;
    fragment.state = State::Ready;
}

/// Reports a deadlock: all remaining threads wait, and nothing can release them.
fn deadlock(warps: &[Warp], context: &mut Context<'_>) {
    let mut places: Vec<(u32, u32, u32)> = Vec::new();
    for warp in warps {
        for fragment in warp
            .fragments
            .iter()
            .filter(|f| matches!(f.state, State::Barrier(_)))
        {
            let State::Barrier(id) = fragment.state else {
                continue;
            };
            match places.iter_mut().find(|p| p.0 == fragment.pc) {
                Some(place) => place.2 += fragment.mask.count_ones(),
                None => places.push((fragment.pc, id, fragment.mask.count_ones())),
            }
        }
    }
    let live: u32 = warps.iter().map(|w| w.live.count_ones()).sum();
    let pc = places.first().map_or(0, |p| p.0);
    let other = places.get(1).map(|p| p.0);
    let threads = warps
        .iter()
        .find(|w| w.live != 0)
        .map_or_else(Vec::new, |w| context.threads(w.index, w.live));
    context.find(FindingKind::Deadlock, pc, other, threads, |context| {
        let list: Vec<String> = places
            .iter()
            .map(|(pc, id, count)| {
                let expected = context.barrier_state[*id as usize].expected.unwrap_or(live);
                format!(
                    "{count} threads at {}, barrier {id}, for which {expected} must come",
                    context.location(*pc)
                )
            })
            .collect();
        format!(
            "deadlock: the threads of the block wait forever: {}",
            list.join("; ")
        )
    });
}
