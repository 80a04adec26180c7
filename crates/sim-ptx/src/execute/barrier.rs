//! Block barriers: the arrival of a warp.

use super::context::{BarrierState, Context};
use super::warp::{State, Warp};
use crate::operation::{BarrierKind, R32};
use crate::report::FindingKind;

/// The number of barriers of a block.
pub(crate) const BARRIERS: usize = 16;

type Arrival = (BarrierKind, bool, R32, Option<R32>);

/// Arrives at a barrier with the active lanes. Returns true if the fragment continues without
/// waiting (`arrive`).
pub(super) fn arrive(
    warp: &mut Warp,
    context: &mut Context<'_>,
    pc: u32,
    (kind, aligned, id, threads): Arrival,
    active: u32,
) -> bool {
    let lanes = if active == 0 { return true } else { active };
    let missing = warp.live & !lanes;
    if aligned && missing != 0 {
        let threads = context.threads(warp.index, missing);
        context.find(FindingKind::BarrierDivergence, pc, None, threads, |_| {
            format!(
                "lanes {missing:#010x} of the warp do not come to this barrier with the others: the \
                 condition around it must be the same for all threads of the block"
            )
        });
    }
    let first = lanes.trailing_zeros() as usize;
    let id = warp.word(id)[first];
    if id as usize >= BARRIERS {
        context.find(FindingKind::BarrierDivergence, pc, None, Vec::new(), |_| {
            format!("barrier {id} is out of range: a block has {BARRIERS}")
        });
        return true;
    }
    let expected = threads.map(|r| warp.word(r)[first]);
    let state = &mut context.barrier_state[id as usize];
    if state.arrived == 0 {
        *state = BarrierState {
            expected,
            all: true,
            instruction: pc,
            ..BarrierState::default()
        };
    }
    let other = (state.expected != expected).then_some(state.instruction);
    state.arrived += lanes.count_ones();
    state.warps |= 1 << warp.index;
    if let BarrierKind::And { p, .. } | BarrierKind::Or { p, .. } | BarrierKind::Count { p, .. } =
        kind
    {
        let votes = warp.test(p) & lanes;
        state.all &= votes == lanes;
        state.any |= votes != 0;
        state.count += votes.count_ones();
    }
    let arrives = matches!(kind, BarrierKind::Arrive);
    if !arrives {
        state.waiting |= 1 << warp.index;
        warp.fragments[warp.current].state = State::Barrier(id);
    }
    if other.is_some() {
        context.find(
            FindingKind::BarrierDivergence,
            pc,
            other,
            Vec::new(),
            |_| format!("barrier {id} is used with different thread counts"),
        );
    }
    arrives
}
