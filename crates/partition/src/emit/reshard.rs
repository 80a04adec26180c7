//! Resharding: converts an array from one sharding to another.
//!
//! A sequence of moves does this: a dimension is cut by taking each device's part (without
//! communication); a cut moves from one dimension to another by an all-to-all; tiles move to other
//! devices by a collective-permute; finally, all-gathers join the parts of dimensions, as far as
//! necessary.

use super::{Emitter, Frame, Local, cost, number};
use crate::error::Error;
use crate::graph::ScopeId;
use crate::sharding::{Cut, Sharding, groups};
use smallvec::SmallVec;
use tegula_ir::{ArrayShape, Dim, DimNumbers, Dims, DraftId, Op, Shape};

/// One step of resharding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Each device takes its part of a dimension.
    Slice { dim: usize },
    /// A cut moves from one dimension to another.
    AllToAll { from: usize, to: usize },
    /// Tiles move to other devices.
    Permute { sources: Vec<usize> },
    /// The parts of a dimension are joined, as far as the new sharding says.
    Gather { dim: usize },
}

/// The moves between two shardings of an array of these sizes, each with the sharding after it. The
/// sequence ends early if the devices together would no longer hold the whole array.
pub(super) fn moves(
    from: &Sharding,
    to: &Sharding,
    dims: &[Option<i64>],
    scope: &Cut,
) -> Vec<(Move, Sharding)> {
    let mut moves: Vec<(Move, Sharding)> = Vec::new();
    let mut now = from.clone();
    while now != *to {
        let Some((step, next)) = next_move(&now, to, dims, scope).filter(|(_, next)| *next != now)
        else {
            break;
        };
        moves.push((step, next.clone()));
        now = next;
    }
    moves
}

fn next_move(
    now: &Sharding,
    to: &Sharding,
    dims: &[Option<i64>],
    scope: &Cut,
) -> Option<(Move, Sharding)> {
    let whole = Cut::whole(now.devices());
    let size = |dim: usize| dims.get(dim).copied().flatten().unwrap_or(0);
    for dim in 0..now.rank() {
        let Some(wanted) = to.cut(dim).filter(|_| now.cut(dim) != to.cut(dim)) else {
            continue;
        };
        let own = now.cut(dim).unwrap_or(&whole);
        let next = now.with(dim, Some(wanted.clone()));
        if (now.cut(dim).is_none() || own.is_coarser_than(wanted, size(dim)))
            && next.is_complete(scope)
        {
            return Some((Move::Slice { dim }, next));
        }
    }
    for from in 0..now.rank() {
        let Some(cut) = now.cut(from).filter(|_| to.cut(from).is_none()) else {
            continue;
        };
        let mut targets = 0..now.rank();
        if let Some(target) =
            targets.find(|&dim| now.cut(dim).is_none() && to.cut(dim) == Some(cut))
        {
            let next = now.with(from, None).with(target, Some(cut.clone()));
            return Some((Move::AllToAll { from, to: target }, next));
        }
    }
    let mut permuted = now.clone();
    for dim in 0..now.rank() {
        if let (Some(own), Some(wanted)) = (now.cut(dim), to.cut(dim))
            && own.parts() == wanted.parts()
        {
            permuted = permuted.with(dim, Some(wanted.clone()));
        }
    }
    if permuted != *now
        && permuted.is_complete(scope)
        && let Some(sources) = now.sources(&permuted, scope)
    {
        return Some((Move::Permute { sources }, permuted));
    }
    // The largest parts are gathered last, because what is gathered first is sent again in later
    // gathers.
    let mut gathered: Vec<usize> = (0..now.rank())
        .filter(|&dim| now.cut(dim).is_some() && now.cut(dim) != to.cut(dim))
        .collect();
    gathered.sort_by_key(|&dim| now.cut(dim).map_or(0, Cut::parts));
    let dim = gathered.first().copied()?;
    let coarser = to.cut(dim).filter(|wanted| {
        now.cut(dim)
            .is_some_and(|own| wanted.is_coarser_than(own, size(dim)) && *wanted != own)
    });
    Some((Move::Gather { dim }, now.with(dim, coarser.cloned())))
}

/// The bytes of a device's part of an array.
pub(super) fn part_bytes(sharding: &Sharding, array: &ArrayShape) -> i64 {
    let dims: Vec<i64> = array.dims.iter().map(Dim::representative).collect();
    let width = array.element_type.storage_bytes() as i64;
    sharding
        .part(&dims)
        .into_iter()
        .fold(width, i64::saturating_mul)
}

/// The cost of resharding an array.
pub(super) fn cost_of(from: &Sharding, to: &Sharding, array: &ArrayShape, scope: &Cut) -> i64 {
    let dims: Vec<Option<i64>> = array.dims.iter().map(Dim::as_static).collect();
    let mut now = from.clone();
    let mut total = 0i64;
    for (step, next) in moves(from, to, &dims, scope) {
        total = total.saturating_add(move_cost(&step, &now, &next, array));
        now = next;
    }
    total
}

fn move_cost(step: &Move, now: &Sharding, next: &Sharding, array: &ArrayShape) -> i64 {
    let parts = |of: &Sharding, dim: usize| of.cut(dim).map_or(1, Cut::parts);
    cost::LATENCY
        + match step {
            Move::Slice { .. } => return part_bytes(next, array) / cost::MEMORY_PER_LINK,
            Move::AllToAll { from, .. } => cost::scatter(part_bytes(now, array), parts(now, *from)),
            Move::Permute { .. } => part_bytes(now, array),
            Move::Gather { dim } => {
                let members = parts(now, *dim) / parts(next, *dim).max(1);
                cost::all_gather(part_bytes(next, array), members)
            }
        }
}

impl Emitter<'_> {
    /// Reshards a value. `dims` are the sizes of the whole array.
    pub(super) fn reshard(
        &mut self,
        frame: &mut Frame,
        local: &Local,
        to: &Sharding,
        dims: &Dims,
        scope: ScopeId,
    ) -> Result<Local, Error> {
        let sizes: Vec<Option<i64>> = dims.iter().map(Dim::as_static).collect();
        let scope_id = scope;
        let scope = self.scope(scope).clone();
        let array = ArrayShape {
            element_type: frame.array(local.id).element_type,
            dims: dims.clone(),
            layout: None,
        };
        let mut now = local.clone();
        for (step, next) in moves(&local.sharding, to, &sizes, &scope) {
            let key = (
                now.id,
                now.sharding.clone(),
                next.clone(),
                sizes.clone(),
                scope_id,
            );
            if let Some(&id) = frame.moved.get(&key) {
                now = Local { id, sharding: next };
                continue;
            }
            let bytes = move_cost(&step, &now.sharding, &next, &array) - cost::LATENCY;
            let id = match &step {
                Move::Slice { dim } => self.take_part(frame, &now, &next, *dim, &sizes)?,
                Move::AllToAll { from, to } => {
                    self.exchanged("all-to-all", bytes);
                    self.all_to_all(frame, &now, (*from, *to), dims, &scope)?
                }
                Move::Permute { sources } => {
                    self.exchanged("collective-permute", bytes);
                    self.permute(frame, now.id, sources)?
                }
                Move::Gather { dim } => {
                    self.exchanged("all-gather", bytes);
                    self.gather(frame, &now, &next, *dim, &sizes, &scope)?
                }
            };
            frame.moved.insert(key, id);
            now = Local { id, sharding: next };
        }
        match now.sharding == *to {
            true => Ok(now),
            false => {
                Err(self.bug("the devices of a sharding do not hold the whole array together"))
            }
        }
    }

    fn take_part(
        &self,
        frame: &mut Frame,
        now: &Local,
        next: &Sharding,
        dim: usize,
        sizes: &[Option<i64>],
    ) -> Result<DraftId, Error> {
        let size = sizes.get(dim).copied().flatten().unwrap_or(0);
        let Some(cut) = next.cut(dim) else {
            return Ok(now.id);
        };
        let coarse = now.sharding.cut(dim).map_or(1, Cut::parts);
        let (factor, part) = (cut.parts() / coarse, cut.part_size(size));
        let here = frame
            .array(now.id)
            .dims
            .get(dim)
            .and_then(Dim::as_static)
            .unwrap_or(size);
        let array = self.padded(frame, now.id, dim, (0, (part * factor - here).max(0)), None)?;
        let starts: Vec<i64> = cut
            .places()
            .iter()
            .map(|place| place % factor * part)
            .collect();
        let start = self.by_device(frame, &starts)?;
        self.dynamic_slice(frame, array, dim, start, part)
    }

    /// Groups of devices that hold the parts to be joined in one dimension: member `i` holds part
    /// `i` of those that one part of `to` consists of.
    pub(super) fn part_groups(
        &self,
        now: &Sharding,
        dim: usize,
        to: Option<&Cut>,
        scope: &Cut,
    ) -> Result<Vec<Vec<i64>>, Error> {
        let cut = now
            .cut(dim)
            .ok_or_else(|| self.bug("a dimension that is whole has no parts"))?;
        let coarse = to.map_or(1, Cut::parts);
        let factor = cut.parts() / coarse.max(1);
        let kept = |device: usize| {
            let others = (0..now.rank()).filter(|other| *other != dim);
            let mut key: SmallVec<[i64; 6]> = others
                .filter_map(|other| Some(now.cut(other)?.place(device)))
                .collect();
            key.push(cut.place(device) / factor);
            key.push(scope.place(device));
            key
        };
        let varied = |device: usize| cut.place(device) % factor;
        let found = groups(now.devices(), kept, varied, factor);
        found.ok_or_else(|| self.bug("devices do not have all parts of an array"))
    }

    fn gather(
        &mut self,
        frame: &mut Frame,
        now: &Local,
        next: &Sharding,
        dim: usize,
        sizes: &[Option<i64>],
        scope: &Cut,
    ) -> Result<DraftId, Error> {
        let groups = self.part_groups(&now.sharding, dim, next.cut(dim), scope)?;
        let id = self.all_gather(frame, now.id, dim, &groups)?;
        match sizes.get(dim).copied().flatten() {
            Some(size) if next.cut(dim).is_none() => self.slice(frame, id, dim, 0, size),
            _ => Ok(id),
        }
    }

    pub(super) fn all_gather(
        &mut self,
        frame: &mut Frame,
        array: DraftId,
        dim: usize,
        groups: &[Vec<i64>],
    ) -> Result<DraftId, Error> {
        let mut shape = frame.array(array);
        let members = groups.first().map_or(1, |group| number(group.len()));
        if let Some(own) = shape.dims.get_mut(dim) {
            let part = own.as_static().ok_or_else(|| {
                let what =
                    format!("dimension {dim}, of open size, is cut over devices: give its size");
                Error::build(&self.site, tegula_ir::Error::input(what))
            })?;
            *own = Dim::Static(part * members);
        }
        shape.layout = None;
        let collective = self.collective(groups);
        let op = Op::AllGather {
            collective,
            dimension: number(dim),
            start: false,
        };
        self.push(frame, op, &[array], Some(Shape::Array(shape)))
    }

    /// Emits a permutation: each device receives the array of its source.
    pub(super) fn permute(
        &mut self,
        frame: &mut Frame,
        array: DraftId,
        sources: &[usize],
    ) -> Result<DraftId, Error> {
        let pairs = sources
            .iter()
            .enumerate()
            .map(|(target, source)| (number(*source), number(target)));
        let op = Op::CollectivePermute {
            pairs: pairs.collect(),
            channel_id: Some(self.channel()),
            start: false,
        };
        self.push(frame, op, &[array], None)
    }

    /// Emits an all-to-all that moves the cut of dimension `from` to dimension `to`.
    fn all_to_all(
        &mut self,
        frame: &mut Frame,
        now: &Local,
        (from, to): (usize, usize),
        dims: &Dims,
        scope: &Cut,
    ) -> Result<DraftId, Error> {
        let groups = self.part_groups(&now.sharding, from, None, scope)?;
        let members = groups.first().map_or(1, |group| number(group.len()));
        let shape = frame.array(now.id);
        let size_of = |dims: &Dims, dim: usize| dims.get(dim).and_then(Dim::as_static).unwrap_or(0);
        let whole = size_of(dims, to);
        let part = tegula_expr::ceil_div(whole, members).unwrap_or(whole);
        let array = self.padded(frame, now.id, to, (0, part * members - whole), None)?;
        // The dimension to be cut becomes two: the number of the receiving device, and the index
        // within its part.
        let mut split = shape.dims.clone();
        split.remove(to);
        split.insert(to, Dim::Static(part));
        split.insert(to, Dim::Static(members));
        let reshaped = |dims: &Dims| {
            Some(Shape::Array(ArrayShape {
                element_type: shape.element_type,
                dims: dims.clone(),
                layout: None,
            }))
        };
        let array = self.push(frame, Op::Reshape, &[array], reshaped(&split))?;
        let collective = self.collective_of_partitions(&groups);
        let op = Op::AllToAll {
            collective,
            dimension: Some(number(to)),
        };
        let array = self.push(frame, op, &[array], reshaped(&split))?;
        // The first of the two is now the number of the sending device, that is of the part of the
        // other dimension, so it moves before that dimension.
        let mut order: Vec<usize> = (0..split.len()).filter(|dim| *dim != to).collect();
        let gathered = if from < to { from } else { from + 1 };
        let place = order.iter().position(|dim| *dim == gathered).unwrap_or(0);
        order.insert(place, to);
        let permutation: DimNumbers = order.iter().map(|dim| number(*dim)).collect();
        let array = self.push(frame, Op::Transpose(permutation), &[array], None)?;
        let mut joined = frame.array(array).dims;
        joined.remove(place);
        let own = size_of(&joined, place);
        if let Some(dim) = joined.get_mut(place) {
            *dim = Dim::Static(own * members);
        }
        let array = self.push(frame, Op::Reshape, &[array], reshaped(&joined))?;
        self.slice(frame, array, from, 0, size_of(dims, from))
    }
}
