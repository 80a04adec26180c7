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
    /// A cut moves from one dimension to another: `count` neighbouring parts of the first are
    /// joined, and each part of the second is cut into as many.
    AllToAll { from: usize, to: usize, count: i64 },
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
            let (to, count) = (target, cut.parts());
            return Some((Move::AllToAll { from, to, count }, next));
        }
    }
    if let Some(found) = part_of_cut_moves(now, to, &size) {
        return Some(found);
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

/// Moves a factor of a cut from a dimension with too many parts to one with too few. Afterwards
/// both have the right number of parts, but the parts may still be on the wrong devices.
fn part_of_cut_moves(
    now: &Sharding,
    wanted: &Sharding,
    size: &dyn Fn(usize) -> i64,
) -> Option<(Move, Sharding)> {
    let parts = |of: &Sharding, dim: usize| of.cut(dim).map_or(1, Cut::parts);
    let factor = |many: i64, few: i64| if many % few == 0 { many / few } else { 1 };
    let pairs = (0..now.rank()).flat_map(|from| (0..now.rank()).map(move |to| (from, to)));
    for (from, to) in pairs {
        let surplus = factor(parts(now, from), parts(wanted, from));
        let lack = factor(parts(wanted, to), parts(now, to));
        let count = i64::try_from(tegula_expr::gcd(surplus, lack)).ok()?;
        if from == to || count < 2 {
            continue;
        }
        let cut = now.cut(from)?;
        let rest = cut.joined(count)?;
        let moved = cut.within(count)?;
        let finer = match now.cut(to) {
            Some(own) => own.then(&moved)?,
            None => moved,
        };
        let is_even = rest.is_coarser_than(cut, size(from))
            && now
                .cut(to)
                .is_none_or(|own| own.is_coarser_than(&finer, size(to)));
        if is_even {
            let next = now.with(from, Some(rest)).with(to, Some(finer));
            return Some((Move::AllToAll { from, to, count }, next));
        }
    }
    None
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
            Move::AllToAll { count, .. } => cost::scatter(part_bytes(now, array), *count),
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
                Move::AllToAll { from, to, .. } => {
                    self.exchanged("all-to-all", bytes);
                    self.all_to_all(frame, &now, &next, (*from, *to), &sizes, &scope)?
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
                Err(self.bug("the devices of the sharding do not hold all parts of the array"))
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
            .ok_or_else(|| self.bug("expected a partitioned dimension"))?;
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
        found.ok_or_else(|| self.bug("the devices do not hold all parts of the array"))
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
                    format!("dimension {dim} has a symbolic size but is partitioned over devices: give its size");
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

    /// Emits an all-to-all that moves the cut of dimension `from`, or a part of it, to dimension
    /// `to`.
    fn all_to_all(
        &mut self,
        frame: &mut Frame,
        now: &Local,
        next: &Sharding,
        (from, to): (usize, usize),
        sizes: &[Option<i64>],
        scope: &Cut,
    ) -> Result<DraftId, Error> {
        let groups = self.part_groups(&now.sharding, from, next.cut(from), scope)?;
        let members = groups.first().map_or(1, |group| number(group.len()));
        let shape = frame.array(now.id);
        let size_of = |dims: &Dims, dim: usize| dims.get(dim).and_then(Dim::as_static).unwrap_or(0);
        let whole = size_of(&shape.dims, to);
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
        let whole = sizes.get(from).copied().flatten().unwrap_or(0);
        let part = next.cut(from).map_or(whole, |cut| cut.part_size(whole));
        self.slice(frame, array, from, 0, part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cut of a dimension by axes of a mesh of 2 x 4 devices, the outer one first.
    fn cut(axes: &str) -> Option<Cut> {
        let places = (0..8).map(|device| {
            axes.chars().fold(0, |place, axis| match axis {
                'x' => place * 2 + device / 4,
                _ => place * 4 + device % 4,
            })
        });
        let parts = axes.chars().map(|axis| if axis == 'x' { 2 } else { 4 });
        Cut::new(parts.product(), places.collect())
    }

    fn steps(from: [&str; 2], to: [&str; 2], sizes: [i64; 2]) -> Vec<&'static str> {
        let [from, to] = [from, to].map(|cuts| Sharding::new(8, cuts.map(cut)));
        let dims = sizes.map(Some);
        let moves = moves(&from, &to, &dims, &Cut::whole(8));
        assert_eq!(moves.last().map(|(_, last)| last), Some(&to));
        let name = |(step, _): &(Move, Sharding)| match step {
            Move::Slice { .. } => "slice",
            Move::AllToAll { .. } => "all-to-all",
            Move::Permute { .. } => "permute",
            Move::Gather { .. } => "gather",
        };
        moves.iter().map(name).collect()
    }

    #[test]
    fn cuts_move_between_dimensions() {
        let even = [16, 16];
        assert_eq!(steps(["x", ""], ["", "x"], even), ["all-to-all"]);
        // A cut moves to a dimension that is cut already.
        assert_eq!(steps(["y", "x"], ["", "xy"], even), ["all-to-all"]);
        // Axes change places: half of the larger cut moves, then tiles go to their devices.
        assert_eq!(
            steps(["x", "y"], ["y", "x"], even),
            ["all-to-all", "permute"]
        );
        assert_eq!(
            steps(["", "xy"], ["yx", ""], even),
            ["all-to-all", "permute"]
        );
        // Parts of three elements cannot be halved, so no all-to-all is possible.
        assert!(!steps(["x", "y"], ["y", "x"], [16, 6]).contains(&"all-to-all"));
    }

    #[test]
    fn what_no_dimension_lacks_is_gathered() {
        assert_eq!(steps(["xy", ""], ["x", ""], [16, 16]), ["gather"]);
        assert_eq!(steps(["y", ""], ["", "x"], [16, 16]), ["slice", "gather"]);
    }
}
