//! Collectives: which element is read, and from which participant.
//!
//! All participants run the same program. [`Participant`] names the participant whose array a map
//! leads to, by its position in the replica group. The position of the participant that runs the
//! map is a run-time variable.

use std::sync::Arc;

use tegula_expr::{Cmp, Interval, Term};
use tegula_ir::{Collective, Op, ReplicaGroups};

use super::builder::{Builder, Draft, index};
use super::{Cause, MapOrCause};
use crate::map::{Participant, RuntimeSource};

/// The most participants of a group.
const MAX_PARTICIPANTS: i64 = 1 << 20;
/// The most pairs of a permutation that are expressed as a term.
const MAX_PAIRS: usize = 64;

/// The number of participants of a group, if it is known.
fn group_size(groups: &ReplicaGroups) -> Option<i64> {
    match groups {
        ReplicaGroups::Lists(groups) => {
            let size = groups.first().map(Vec::len).filter(|size| *size > 0)?;
            i64::try_from(size).ok()
        }
        ReplicaGroups::Iota { dims, .. } => dims.get(1).copied(),
    }
}

/// The position of the participant that runs the map.
fn own_position(draft: &mut Draft<'_>, groups: &Arc<ReplicaGroups>) -> Term {
    let size = group_size(groups).unwrap_or(MAX_PARTICIPANTS);
    let source = RuntimeSource::Position(groups.clone());
    draft.runtime(Interval::of_size(size), Some(source))
}

fn of(groups: &Arc<ReplicaGroups>, position: Term) -> Participant {
    Participant {
        groups: groups.clone(),
        position,
    }
}

/// The map leads to the arrays of all participants of the group. If their number is not known, it
/// may name participants that do not exist, and is a superset.
fn of_everyone<'a>(draft: Draft<'a>, groups: &Arc<ReplicaGroups>) -> Draft<'a> {
    let (mut draft, size) = match group_size(groups) {
        Some(size) => (draft, size),
        None => (draft.superset(), MAX_PARTICIPANTS),
    };
    let position = draft.range(Interval::of_size(size));
    draft.of_participant(of(groups, position));
    draft
}

/// The same index in the arrays of all participants; this holds in both directions.
fn reduced(at: &Builder<'_>, operand: usize, collective: &Collective) -> MapOrCause {
    let groups = Arc::new(collective.replica_groups.clone());
    let draft = of_everyone(at.draft(at.input(operand)?), &groups);
    let results = draft.dims();
    draft.finish(results)
}

/// Whether a collective of several operands reads this operand only for another array of its
/// result.
pub(super) fn is_other_operand(at: &Builder<'_>, operand: usize) -> bool {
    matches!(
        at.op(),
        Op::AllGather { .. }
            | Op::AllReduce { .. }
            | Op::ReduceScatter { .. }
            | Op::CollectiveBroadcast(_)
            | Op::CollectivePermute { .. }
    ) && at.instruction.operands.len() > 1
        && operand != at.leaf
}

/// The map between the gathered (large) array and the participants' (small) arrays, which have
/// `part` elements along `dimension`: element `d` of the large array is element `d mod part` of
/// participant `d / part`. If not `large_first`, the map goes from the small array to the large
/// one, which all participants have.
fn gathered(
    at: &Builder<'_>,
    operand: usize,
    collective: &Collective,
    dimension: i64,
    large_first: bool,
) -> MapOrCause {
    let (output, input) = (at.output()?, at.input(operand)?);
    let (large, small) = match at.op() {
        Op::AllGather { .. } => (output, input),
        _ => (input, output),
    };
    if large.rank() != small.rank() {
        return Err(Cause::Malformed);
    }
    let dim = index(dimension, large.rank())?;
    let groups = Arc::new(collective.replica_groups.clone());
    let mut draft = at.draft(if large_first { large } else { small });
    let part = draft.extent(small.dims.get(dim).ok_or(Cause::Malformed)?);
    let mut results = draft.dims();
    if !large_first {
        draft = of_everyone(draft, &groups);
    }
    let slot = results.get_mut(dim).ok_or(Cause::Malformed)?;
    if large_first {
        draft.of_participant(of(&groups, slot.floor_div(&part)));
        *slot = slot.modulo(&part);
    } else {
        let own = own_position(&mut draft, &groups);
        *slot = own.mul(&part).add(slot);
        let whole = draft.extent(large.dims.get(dim).ok_or(Cause::Malformed)?);
        draft.within(&slot.clone(), &super::builder::last_index(&whole));
    }
    draft.finish(results)
}

/// An exchange of parts of `dimension`: part `q` of participant `p` is part `p` of participant `q`,
/// in both directions.
fn exchanged(
    at: &Builder<'_>,
    operand: usize,
    collective: &Collective,
    dimension: i64,
) -> MapOrCause {
    let array = at.input(operand)?;
    let dim = index(dimension, array.rank())?;
    let size = array.dims.get(dim).and_then(tegula_ir::Dim::as_static);
    let size = size.ok_or(Cause::SymbolicSize)?;
    let parts = group_size(&collective.replica_groups)
        .filter(|parts| *parts > 0 && size % parts == 0)
        .ok_or(Cause::Operation(at.op().opcode()))?;
    let groups = Arc::new(collective.replica_groups.clone());
    let mut draft = at.draft(array);
    let own = own_position(&mut draft, &groups);
    let part = Term::constant((size / parts).max(1));
    let mut results = draft.dims();
    let slot = results.get_mut(dim).ok_or(Cause::Malformed)?;
    draft.of_participant(of(&groups, slot.floor_div(&part)));
    *slot = own.mul(&part).add(&slot.modulo(&part));
    draft.finish(results)
}

/// The same index in the array of the participant that the permutation pairs with this one. Without
/// a partner, nothing is read.
fn permuted(at: &Builder<'_>, operand: usize, pairs: &[(i64, i64)], forward: bool) -> MapOrCause {
    if pairs.len() > MAX_PAIRS {
        return Err(Cause::TooManyMaps);
    }
    let mut draft = at.draft(at.input(operand)?);
    let groups = Arc::new(ReplicaGroups::Lists(Vec::new()));
    let own = own_position(&mut draft, &groups);
    let mut partner = Term::constant(-1);
    for (source, target) in pairs.iter().rev() {
        let (this, that) = if forward {
            (source, target)
        } else {
            (target, source)
        };
        let is_this = Term::cmp(Cmp::Eq, &own, &Term::constant(*this));
        partner = Term::select(&is_this, &Term::constant(*that), &partner);
    }
    draft.constrain(partner.clone(), 0, i64::MAX);
    draft.of_participant(of(&groups, partner));
    let results = draft.dims();
    draft.finish(results)
}

fn broadcast(
    at: &Builder<'_>,
    operand: usize,
    collective: &Collective,
    forward: bool,
) -> MapOrCause {
    let mut draft = at.draft(at.input(operand)?);
    let groups = Arc::new(collective.replica_groups.clone());
    if forward {
        // Only the first participant's elements are sent, and to everyone.
        let own = own_position(&mut draft, &groups);
        draft.constrain(own, 0, 0);
        draft = of_everyone(draft, &groups);
    } else {
        draft.of_participant(of(&groups, Term::constant(0)));
    }
    let results = draft.dims();
    draft.finish(results)
}

/// The map of a collective in either direction.
pub(super) fn collective(at: &Builder<'_>, operand: usize, forward: bool) -> MapOrCause {
    match at.op() {
        Op::AllGather {
            collective,
            dimension,
            ..
        } => gathered(at, operand, collective, *dimension, !forward),
        Op::ReduceScatter {
            collective,
            dimension,
            ..
        } => gathered(at, operand, collective, *dimension, forward),
        Op::AllToAll {
            collective,
            dimension: Some(dimension),
        } => exchanged(at, operand, collective, *dimension),
        Op::AllToAll {
            collective,
            dimension: None,
        } => {
            // Operand `q` goes to participant `q`, and result `q` comes from it.
            let mut draft = at.draft(at.input(operand)?);
            let groups = Arc::new(collective.replica_groups.clone());
            let (own, other) = if forward {
                (at.leaf, operand)
            } else {
                (operand, at.leaf)
            };
            let number = |position| i64::try_from(position).map_err(|_| Cause::Overflow);
            let (own, other) = (number(own)?, number(other)?);
            let position = own_position(&mut draft, &groups);
            draft.constrain(position, own, own);
            draft.of_participant(of(&groups, other.into()));
            let results = draft.dims();
            draft.finish(results)
        }
        Op::AllReduce { collective, .. } => reduced(at, operand, collective),
        Op::CollectiveBroadcast(collective) => broadcast(at, operand, collective, forward),
        Op::CollectivePermute { pairs, .. } => permuted(at, operand, pairs, forward),
        op => Err(Cause::Operation(op.opcode())),
    }
}
