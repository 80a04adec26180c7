//! Executes warp collectives: shuffles, votes, reductions, matrices.

use super::atomic::combine;
use super::context::Context;
use super::matrix;
use super::warp::{State, Warp};
use crate::operation::{Collective, LANES, Op, P, R32, Shuffle, Slot, Type};
use crate::report::FindingKind;

/// Arrives at a collective with the active lanes. Returns true if it was executed, false if the
/// fragment must wait for other members.
pub(super) fn arrive(
    warp: &mut Warp,
    context: &mut Context<'_>,
    pc: u32,
    what: &Collective,
    members: R32,
    active: u32,
) -> bool {
    let Some(mask) = member_mask(warp, context, pc, members, active) else {
        return true;
    };
    let mut together = active;
    let joins = |warp: &Warp, index: usize| {
        let other = &warp.fragments[index];
        let same_place = other.pc == pc
            || matches!(what, Collective::Barrier)
                && matches!(
                    context.kernel.code[other.pc as usize].op,
                    Op::Collective {
                        what: Collective::Barrier,
                        ..
                    }
                );
        other.state == State::Collective(mask) && same_place
    };
    let others: Vec<usize> = (0..warp.fragments.len())
        .filter(|i| *i != warp.current && joins(warp, *i))
        .collect();
    for &index in &others {
        together |= warp.fragments[index].mask;
    }
    if mask & warp.live & !together != 0 {
        return false;
    }
    execute(warp, context, pc, what, together, mask);
    for index in others {
        let fragment = &mut warp.fragments[index];
        fragment.state = State::Ready;
        fragment.pc += 1;
    }
    true
}

/// The member mask, on which the active lanes must agree.
fn member_mask(
    warp: &Warp,
    context: &mut Context<'_>,
    pc: u32,
    members: R32,
    active: u32,
) -> Option<u32> {
    if active == 0 {
        return None;
    }
    let values = warp.word(members);
    let mask = values[active.trailing_zeros() as usize];
    let differs = (0..LANES)
        .filter(|l| active >> l & 1 != 0 && values[*l] != mask)
        .fold(0, |m, l| m | 1 << l);
    if differs != 0 {
        let threads = context.threads(warp.index, differs);
        context.find(FindingKind::WarpMask, pc, None, threads, |_| {
            "lanes of one collective give different member masks: all must give the same".to_owned()
        });
    }
    let unnamed = active & !mask;
    if unnamed != 0 {
        let threads = context.threads(warp.index, unnamed);
        context.find(FindingKind::WarpMask, pc, None, threads, |_| {
            format!(
                "lanes {unnamed:#010x} execute it, but the member mask {mask:#010x} does not name them: a \
                 lane must name itself"
            )
        });
    }
    Some(mask | active)
}

/// If no fragment of the warp can run and some wait for members that do not arrive, executes the
/// first one's collective without these. Returns whether there was one.
pub(super) fn force(warp: &mut Warp, context: &mut Context<'_>) -> bool {
    let waits = |f: &super::warp::Fragment| matches!(f.state, State::Collective(_));
    let Some(index) = warp.fragments.iter().position(waits) else {
        return false;
    };
    let (pc, mask) = (warp.fragments[index].pc, warp.fragments[index].mask);
    let State::Collective(members) = warp.fragments[index].state else {
        return false;
    };
    let code = &context.kernel.code[pc as usize];
    let Op::Collective { what, .. } = &code.op else {
        return false;
    };
    let active = mask & code.guard.map_or(u32::MAX, |g| warp.test(g));
    let missing = members & warp.live & !active;
    let threads = context.threads(warp.index, missing);
    context.find(FindingKind::WarpMask, pc, None, threads, |_| {
        format!(
            "the member mask {members:#010x} names lanes {missing:#010x}, which do not execute it: the \
             device would hang or give undefined values. Name only lanes that come here (__activemask() \
             is no cure: make the branch uniform or compute the mask by a ballot before it)"
        )
    });
    execute(warp, context, pc, what, active, members);
    let fragment = &mut warp.fragments[index];
    fragment.state = State::Ready;
    fragment.pc += 1;
    true
}

fn execute(
    warp: &mut Warp,
    context: &mut Context<'_>,
    pc: u32,
    what: &Collective,
    active: u32,
    mask: u32,
) {
    let matrix = matches!(
        what,
        Collective::LoadMatrix { .. } | Collective::StoreMatrix { .. } | Collective::Multiply(_)
    );
    if !matrix {
        context
            .clocks
            .collective(warp.index as usize, active, active == warp.live);
    }
    match what {
        Collective::Barrier => {}
        Collective::Shuffle {
            mode,
            d,
            p,
            a,
            b,
            c,
        } => {
            shuffle(warp, context, pc, *mode, (*d, *p), [*a, *b, *c], active);
        }
        Collective::VoteAll { d, p } => {
            let all = active & !warp.test(*p) == 0;
            warp.set_predicate(*d, active, u32::from(all).wrapping_neg());
        }
        Collective::VoteAny { d, p } => {
            let any = active & warp.test(*p) != 0;
            warp.set_predicate(*d, active, u32::from(any).wrapping_neg());
        }
        Collective::VoteUniform { d, p } => {
            let votes = active & warp.test(*p);
            warp.set_predicate(
                *d,
                active,
                u32::from(votes == 0 || votes == active).wrapping_neg(),
            );
        }
        Collective::Ballot { d, p } => {
            let votes = active & warp.test(*p);
            warp.set_word(*d, active, &[votes; LANES]);
        }
        Collective::MatchAny { d, a } => {
            let values = warp.wide(*a);
            let same = std::array::from_fn(|lane| {
                (0..LANES)
                    .filter(|l| active >> l & 1 != 0 && values[*l] == values[lane])
                    .fold(0, |m, l| m | 1 << l)
            });
            warp.set_word(*d, active, &same);
        }
        Collective::MatchAll { d, p, a } => match_all(warp, (*d, *p), *a, active),
        Collective::Reduce { op, signed, d, a } => {
            let values = warp.word(*a);
            let kind = if *signed { Type::S32 } else { Type::U32 };
            let mut lanes = (0..LANES)
                .filter(|l| active >> l & 1 != 0)
                .map(|l| u64::from(values[l]));
            let first = lanes.next().unwrap_or(0);
            let all = lanes.fold(first, |sum, value| combine(*op, kind, sum, value, 0));
            warp.set_word(*d, active, &[all as u32; LANES]);
        }
        Collective::Elect { d, p } => {
            let leader = active.trailing_zeros();
            if let Some(d) = d {
                warp.set_word(*d, active, &[leader; LANES]);
            }
            warp.set_predicate(*p, active, 1u32.checked_shl(leader).unwrap_or(0));
        }
        Collective::LoadMatrix { .. }
        | Collective::StoreMatrix { .. }
        | Collective::Multiply(_) => {
            matrix::execute(warp, context, pc, what, active, mask);
        }
    }
}

fn match_all(warp: &mut Warp, (d, p): (R32, Option<P>), a: Slot, active: u32) {
    let values = warp.wide(a);
    let first = values[active.trailing_zeros() as usize % LANES];
    let all = (0..LANES).all(|l| active >> l & 1 == 0 || values[l] == first);
    warp.set_word(d, active, &[if all { active } else { 0 }; LANES]);
    if let Some(p) = p {
        warp.set_predicate(p, active, u32::from(all).wrapping_neg());
    }
}

fn shuffle(
    warp: &mut Warp,
    context: &mut Context<'_>,
    pc: u32,
    mode: Shuffle,
    (d, p): (R32, Option<P>),
    [a, b, c]: [R32; 3],
    active: u32,
) {
    let (values, by, control) = (*warp.word(a), *warp.word(b), *warp.word(c));
    let mut result = [0; LANES];
    let (mut valid, mut undefined) = (0, 0);
    for lane in (0..LANES).filter(|l| active >> l & 1 != 0) {
        let (by, clamp, segment) = (by[lane] & 31, control[lane] & 31, control[lane] >> 8 & 31);
        let own = lane as u32;
        let last = own & segment | clamp & !segment;
        let first = own & segment;
        let (from, inside) = match mode {
            // For `up`, the clamp is the lowest lane.
            Shuffle::Up => (own.wrapping_sub(by), own as i32 - by as i32 >= last as i32),
            Shuffle::Down => (own + by, own + by <= last),
            Shuffle::Butterfly => (own ^ by, own ^ by <= last),
            Shuffle::Index => (first | by & !segment, first | by & !segment <= last),
        };
        let from = if inside { from & 31 } else { own };
        valid |= u32::from(inside) << lane;
        if active >> from & 1 == 0 {
            undefined |= 1 << lane;
            result[lane] = values[lane];
        } else {
            result[lane] = values[from as usize];
        }
    }
    warp.set_word(d, active, &result);
    if let Some(p) = p {
        warp.set_predicate(p, active, valid);
    }
    if undefined != 0 {
        let threads = context.threads(warp.index, undefined);
        context.find(FindingKind::WarpMask, pc, None, threads, |_| {
            format!(
                "lanes {undefined:#010x} read from lanes that do not take part: the value is undefined. \
                 Let all lanes of the warp come here, or limit the width of the shuffle"
            )
        });
    }
}
