//! The units that clustering forms in a region (kernels, which may still take in more values, and
//! everything else) and the graph of which unit reads which unit's results.

use super::MAX_BODY;
use super::evaluation_sites::Place;
use super::unroll_short_dims::Short;
use crate::program::NodeId;
use smallvec::SmallVec;
use tegula_ir::Dim;

/// The most results of one kernel: each is a pointer in a register.
const MAX_RESULTS: usize = 8;
/// The most units visited when searching for a path between two units. A longer search is assumed
/// to find one.
const MAX_SEARCH: usize = 256;

/// A unit. Several ids denote the same unit once it has been merged (see [`Units::find`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct UnitId(u32);

/// The iteration domain of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Domain {
    /// The region, by number.
    pub region: u32,
    /// The sizes of the results' dimensions.
    pub dims: SmallVec<[Dim; 4]>,
}

#[derive(Clone, Debug)]
struct Unit {
    /// The unit that it was merged into, or itself.
    parent: UnitId,
    /// The domain, if the unit may take in more values.
    domain: Option<Domain>,
    /// The operations whose results it writes, with their positions in the region.
    roots: SmallVec<[(usize, NodeId); 2]>,
    /// The units that read its results.
    users: Vec<UnitId>,
    /// The first and last position in the region of the operations whose results it writes.
    positions: (usize, usize),
    /// The number of operations that it evaluates.
    size: u32,
}

/// All units of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Units {
    all: Vec<Unit>,
    /// The units that write the results of several operations.
    wide: Vec<UnitId>,
}

impl Units {
    pub(super) fn add(&mut self, node: NodeId, position: usize, domain: Option<Domain>) -> UnitId {
        let id = UnitId(self.all.len() as u32);
        self.all.push(Unit {
            parent: id,
            domain,
            roots: SmallVec::from_slice(&[(position, node)]),
            users: Vec::new(),
            positions: (position, position),
            size: 0,
        });
        id
    }

    /// The unit that a unit has been merged into, or itself.
    pub(super) fn find(&self, mut unit: UnitId) -> UnitId {
        while self.all[unit.0 as usize].parent != unit {
            unit = self.all[unit.0 as usize].parent;
        }
        unit
    }

    fn get(&self, unit: UnitId) -> &Unit {
        &self.all[self.find(unit).0 as usize]
    }

    fn get_mut(&mut self, unit: UnitId) -> &mut Unit {
        let unit = self.find(unit);
        &mut self.all[unit.0 as usize]
    }

    /// The operations whose results a unit writes, in the program's order.
    pub(super) fn roots(&self, unit: UnitId) -> SmallVec<[NodeId; 2]> {
        let mut roots = self.get(unit).roots.clone();
        roots.sort_unstable();
        roots.into_iter().map(|(_, node)| node).collect()
    }

    pub(super) fn computes_over(&self, unit: UnitId, domain: &Domain) -> bool {
        self.get(unit).domain.as_ref() == Some(domain)
    }

    /// Records that `user` reads a result of `unit`.
    pub(super) fn add_user(&mut self, unit: UnitId, user: UnitId) {
        self.get_mut(unit).users.push(user);
    }

    /// Records that a unit evaluates one more operation.
    pub(super) fn grow(&mut self, unit: UnitId) {
        self.get_mut(unit).size += 1;
    }

    pub(super) fn is_full(&self, unit: UnitId) -> bool {
        self.get(unit).size >= MAX_BODY
    }

    /// Whether a path of reads leads from one unit to another; if both are the same, a path through
    /// at least one other unit.
    pub(super) fn leads_to(&self, from: UnitId, to: UnitId) -> bool {
        let to = self.find(to);
        let last = self.last_leading_to(to);
        let mut seen: SmallVec<[UnitId; 16]> = SmallVec::new();
        let mut open: SmallVec<[UnitId; 16]> = SmallVec::from_slice(&[self.find(from)]);
        while let Some(unit) = open.pop() {
            for &user in &self.get(unit).users {
                let user = self.find(user);
                if user == to {
                    return true;
                }
                if self.get(user).positions.0 > last || seen.contains(&user) {
                    continue;
                }
                if seen.len() == MAX_SEARCH {
                    return true;
                }
                seen.push(user);
                open.push(user);
            }
        }
        false
    }

    /// The last position at which a unit that leads to this one can begin. Readers come later in
    /// the program's order, so this is usually the end of the unit itself. But a unit of several
    /// operations that begins earlier can be reached from any position before its end.
    fn last_leading_to(&self, unit: UnitId) -> usize {
        let mut last = self.get(unit).positions.1;
        loop {
            let spans = self.wide.iter().map(|&wide| self.get(wide).positions);
            let longer = spans.filter(|&(first, end)| first <= last && end > last);
            match longer.map(|(_, end)| end).max() {
                Some(end) => last = end,
                None => return last,
            }
        }
    }

    /// Whether the results of an operation with these `readers` may be computed in a unit over the
    /// same domain. They may not if another reader leads to that unit.
    pub(super) fn takes_in(&self, unit: UnitId, readers: &[UnitId]) -> bool {
        let unit = self.find(unit);
        let inner = self.get(unit);
        inner.roots.len() < MAX_RESULTS
            && inner.size < MAX_BODY
            && !(readers.iter()).any(|&r| self.find(r) != unit && self.leads_to(r, unit))
    }

    /// Adds an operation to those whose results a unit writes.
    pub(super) fn take_in(&mut self, unit: UnitId, node: NodeId, position: usize) {
        let id = self.find(unit);
        let unit = self.get_mut(id);
        unit.roots.push((position, node));
        unit.positions.0 = unit.positions.0.min(position);
        unit.positions.1 = unit.positions.1.max(position);
        if unit.roots.len() == 2 {
            self.wide.push(id);
        }
    }

    /// Merges two units over the same domain, unless one depends on the other or they become too
    /// large. Returns whether they are one unit afterwards.
    pub(super) fn unite(&mut self, a: UnitId, b: UnitId) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return true;
        }
        let (first, second) = (self.get(a), self.get(b));
        if first.domain.is_none()
            || first.domain != second.domain
            || first.roots.len() + second.roots.len() > MAX_RESULTS
            || first.size + second.size > MAX_BODY
            || self.leads_to(a, b)
            || self.leads_to(b, a)
        {
            return false;
        }
        let taken = second.clone();
        if first.roots.len() == 1 {
            self.wide.push(a);
        }
        self.get_mut(b).parent = a;
        let unit = self.get_mut(a);
        unit.roots.extend(taken.roots);
        unit.users.extend(taken.users);
        unit.positions.0 = unit.positions.0.min(taken.positions.0);
        unit.positions.1 = unit.positions.1.max(taken.positions.1);
        unit.size += taken.size;
        true
    }
}

/// A place where a kernel would evaluate a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub unit: UnitId,
    pub place: Place,
    /// How many elements it would evaluate there.
    pub elements: f64,
    /// Which dimensions of the value are short dimensions of the kernel.
    pub short: Short,
}

/// The readers of a value.
#[derive(Clone, Debug, Default)]
pub(super) struct Readers {
    /// The places of kernels that would evaluate it.
    pub at: Vec<At>,
    /// The units that read it from memory.
    pub memory: SmallVec<[UnitId; 2]>,
}

impl Readers {
    /// Merges entries of the same unit and place.
    pub(super) fn settle(&mut self, units: &Units) {
        for at in &mut self.at {
            at.unit = units.find(at.unit);
        }
        self.at.sort_by_key(|at| (at.unit, at.place));
        self.at.dedup_by(|next, kept| {
            let same = (next.unit, next.place) == (kept.unit, kept.place);
            if same {
                kept.elements = kept.elements.max(next.elements);
                kept.short = kept.short.both(next.short);
            }
            same
        });
    }

    /// The number of elements that all readers evaluate together.
    pub(super) fn evaluations(&self) -> f64 {
        self.at.iter().map(|at| at.elements).sum()
    }

    /// All units that read the value.
    pub(super) fn units(&self) -> SmallVec<[UnitId; 4]> {
        let kernels = self.at.iter().map(|at| at.unit);
        kernels.chain(self.memory.iter().copied()).collect()
    }
}
