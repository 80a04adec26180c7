//! The main loop, which runs a warp until it must wait.

use super::context::Context;
use super::options::LaunchError;
use super::warp::{State, Warp};
use super::{access, atomic, barrier, collective, lanes};
use crate::operation::{Clock, LANES, Op, Test};
use crate::report::FindingKind;

/// The number of instructions after which a warp lets the others run.
const QUANTUM: u32 = 1 << 14;

/// Runs a warp until no fragment can continue, or for a while. Returns whether it can continue.
pub(super) fn run(warp: &mut Warp, context: &mut Context<'_>) -> Result<bool, LaunchError> {
    let mut left = QUANTUM;
    // Fragments of a warp that wait for each other take turns, too.
    let mut rotate = true;
    while warp.pick(rotate) {
        rotate = false;
        fragment(warp, context, &mut left)?;
        if context.trapped {
            return Ok(false);
        }
        if left == 0 {
            tegula_limits::check()?;
            let limit = context.options.max_instructions;
            if context.instructions > limit {
                return Err(runaway(warp, context, limit));
            }
            return Ok(true);
        }
    }
    Ok(false)
}

fn runaway(warp: &Warp, context: &Context<'_>, limit: u64) -> LaunchError {
    let pc = warp.fragments.get(warp.current).map_or(0, |f| f.pc);
    LaunchError::Runaway {
        kernel: context.kernel.name.clone(),
        limit,
        block: context.block,
        location: context.location(pc).to_string(),
    }
}

/// Runs the current fragment until it ends, splits, waits, or its time is up.
fn fragment(warp: &mut Warp, context: &mut Context<'_>, left: &mut u32) -> Result<(), LaunchError> {
    let kernel = context.kernel;
    let code = kernel.code.as_slice();
    let current = warp.current;
    let (mut pc, mask, meet) = (
        warp.fragments[current].pc,
        warp.fragments[current].mask,
        warp.meet(),
    );
    let full = u64::from(mask.count_ones());
    let (mut instructions, mut lanes) = (0u64, 0u64);
    let mut turn = *left;
    let vectors = context.vectors;
    loop {
        if pc == meet {
            warp.arrive();
            break;
        }
        if turn == 0 {
            warp.fragments[current].pc = pc;
            break;
        }
        turn -= 1;
        let Some(instruction) = code.get(pc as usize) else {
            break;
        };
        instructions += 1;
        let active = match instruction.guard {
            None => {
                lanes += full;
                mask
            }
            Some(test) => {
                let active = mask & warp.test(test);
                lanes += u64::from(active.count_ones());
                active
            }
        };
        match &instruction.op {
            Op::Branch { target, .. } if active == mask => pc = *target,
            Op::Branch { .. } if active == 0 => pc += 1,
            op if active == 0 && !matches!(op, Op::Barrier { .. }) => pc += 1,
            op if is_plain(op) => {
                lanes::plain(warp, active, op, vectors);
                pc += 1;
            }
            Op::Load(t) => {
                access::load_or_store(warp, context, pc, t, active, false);
                pc += 1;
            }
            Op::Store(t) => {
                access::load_or_store(warp, context, pc, t, active, true);
                pc += 1;
            }
            op => {
                warp.fragments[current].pc = pc;
                if !control(warp, context, op, pc, active, mask) {
                    break;
                }
                pc += 1;
            }
        }
    }
    *left = turn;
    context.instructions += instructions;
    context.lane_instructions += lanes;
    if context.instructions > context.options.max_instructions {
        *left = 0;
    }
    Ok(())
}

/// Whether an operation uses registers only.
#[inline(always)]
fn is_plain(op: &Op) -> bool {
    !matches!(
        op,
        Op::Branch { .. }
            | Op::BranchTable { .. }
            | Op::Exit
            | Op::Trap
            | Op::AssertFail
            | Op::Barrier { .. }
            | Op::Collective { .. }
            | Op::Load(_)
            | Op::Store(_)
            | Op::Atomic(_)
            | Op::AsyncCopy(_)
            | Op::AsyncCommit
            | Op::AsyncWait(_)
            | Op::Fence
            | Op::Clock { .. }
    )
}

/// Executes control flow, memory operations other than loads and stores, and collectives. Returns
/// whether the fragment continues with the next instruction.
fn control(
    warp: &mut Warp,
    context: &mut Context<'_>,
    op: &Op,
    pc: u32,
    active: u32,
    mask: u32,
) -> bool {
    match op {
        Op::Branch { target, reconverge } => {
            context.divergent += 1;
            warp.split(&[(mask & !active, pc + 1), (active, *target)], *reconverge);
            false
        }
        Op::BranchTable {
            index,
            targets,
            reconverge,
        } => {
            let index = *warp.word(*index);
            let mut ways: Vec<(u32, u32)> = Vec::new();
            let mut add = |lanes: u32, to: u32| match ways.iter_mut().find(|w| w.1 == to) {
                Some(way) => way.0 |= lanes,
                None => ways.push((lanes, to)),
            };
            if mask & !active != 0 {
                add(mask & !active, pc + 1);
            }
            for lane in (0..LANES).filter(|l| active >> l & 1 != 0) {
                // An index past the list is undefined behaviour; here, the last target is taken.
                let to = targets
                    .get(index[lane] as usize)
                    .or(targets.last())
                    .copied()
                    .unwrap_or(pc + 1);
                add(1 << lane, to);
            }
            if let [(_, to)] = ways[..] {
                warp.fragments[warp.current].pc = to;
            } else {
                context.divergent += 1;
                warp.split(&ways, *reconverge);
            }
            false
        }
        Op::Exit => {
            let ended = warp.exit(active);
            if !ended {
                warp.fragments[warp.current].pc = pc + 1;
            }
            false
        }
        Op::Trap | Op::AssertFail => {
            let threads = context.threads(warp.index, active);
            let what = if matches!(op, Op::Trap) {
                "a trap"
            } else {
                "a failed assertion"
            };
            context.find(FindingKind::Trap, pc, None, threads, |_| {
                format!("{what} ends the launch")
            });
            context.trapped = true;
            false
        }
        Op::Barrier {
            kind,
            aligned,
            id,
            threads,
        } => barrier::arrive(warp, context, pc, (*kind, *aligned, *id, *threads), active),
        Op::Collective { what, members } => {
            if collective::arrive(warp, context, pc, what, *members, active) {
                return true;
            }
            let lane = active.trailing_zeros() as usize;
            let named = warp.word(*members)[lane];
            warp.fragments[warp.current].state = State::Collective(named | active);
            false
        }
        Op::Atomic(a) => {
            atomic::atomic(warp, context, pc, a, active);
            true
        }
        Op::AsyncCopy(c) => {
            atomic::copy(warp, context, pc, c, active);
            true
        }
        Op::AsyncCommit => {
            atomic::commit(warp, active);
            true
        }
        Op::AsyncWait(groups) => {
            atomic::wait(warp, context, *groups, active);
            true
        }
        Op::Fence => {
            context.clocks.fence();
            true
        }
        Op::Clock { which, d } => {
            // The clock counts four warp instructions per cycle and a nanosecond per cycle. It is
            // only meaningful for ordering.
            let now = context.instructions + u64::from(pc);
            let now = if *which == Clock::Cycles {
                now
            } else {
                now / 4
            };
            warp.set(*d, active, &[now; LANES]);
            true
        }
        _ => true,
    }
}

/// The lanes for which a guard predicate is true.
pub(super) fn guarded(warp: &Warp, guard: Option<Test>) -> u32 {
    guard.map_or(u32::MAX, |test| warp.test(test))
}
