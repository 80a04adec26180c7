//! Buffer assignment: values that copies connect share a buffer where they do
//! not interfere, and buffers that do not interfere share bytes of the arena.

use super::build::bug;
use super::interference::{Interference, interference};
use super::{Buffer, BufferId, Place, Plan, Step, ValueId};
use cranelift_entity::SecondaryMap;
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_expr::Term;
use tegula_fusion::Error;
use tegula_ir::ALIGNMENT;

/// Gives every value of a plan its buffer.
pub(super) fn assign_buffers(plan: &mut Plan) -> Result<(), Error> {
    let facts = interference(plan);
    let mut classes = Classes::new(plan, &facts)?;
    classes.follow_fixed(plan, &facts);
    classes.join_copies(plan, &facts);
    for &(read, written) in &facts.in_place {
        if !classes.try_join(read, written) {
            classes.separate(read, written);
        }
    }
    classes.write_back(plan)
}

/// Sets of values that share a buffer, by union-find.
struct Classes {
    parent: SecondaryMap<ValueId, Option<ValueId>>,
    place: FxHashMap<ValueId, Place>,
    bytes: SecondaryMap<ValueId, i64>,
    edges: FxHashMap<ValueId, FxHashSet<ValueId>>,
}

impl Classes {
    fn new(plan: &Plan, facts: &Interference) -> Result<Self, Error> {
        let mut classes = Self {
            parent: SecondaryMap::default(),
            place: FxHashMap::default(),
            bytes: SecondaryMap::default(),
            edges: facts.edges.clone(),
        };
        for (id, value) in &plan.values {
            classes.bytes[id] = value
                .shape
                .byte_size()
                .ok_or_else(|| bug(format!("the size of {id} does not fit")))?;
            if let Place::Constant(_) = plan.buffers[value.buffer].place {
                classes
                    .place
                    .insert(id, plan.buffers[value.buffer].place.clone());
            }
        }
        for (i, &id) in plan.parameters.iter().enumerate() {
            classes.place.insert(id, Place::Parameter(i));
        }
        for (i, &id) in plan.results.iter().enumerate() {
            classes.place.insert(id, Place::Output(i));
        }
        Ok(classes)
    }

    fn root(&self, mut id: ValueId) -> ValueId {
        while let Some(parent) = self.parent[id] {
            id = parent;
        }
        id
    }

    fn is_fixed(&self, root: ValueId) -> bool {
        matches!(
            self.place.get(&root),
            Some(Place::Parameter(_) | Place::Constant(_))
        )
    }

    /// A value that is only ever a copy of a parameter or a constant is that
    /// memory under another name.
    fn follow_fixed(&mut self, plan: &Plan, facts: &Interference) {
        let mut copies = Vec::new();
        all_copies(&plan.steps, &mut copies);
        for (from, to) in copies {
            let (from, to) = (self.root(from), self.root(to));
            let once = facts.writes.get(&to) == Some(&1);
            if self.is_fixed(from) && once && !self.place.contains_key(&to) {
                self.parent[to] = Some(from);
            }
        }
    }

    fn join_copies(&mut self, plan: &Plan, facts: &Interference) {
        let mut copies = facts.copies.clone();
        // Copies in inner loops cost most, then large ones.
        copies.sort_by_key(|&(from, to, depth)| {
            (std::cmp::Reverse((depth, self.bytes[from])), from, to)
        });
        for (from, to, _) in copies {
            if plan.values[from].shape.byte_size() == plan.values[to].shape.byte_size() {
                self.try_join(from, to);
            }
        }
    }

    /// Puts two values into one class unless something speaks against it.
    fn try_join(&mut self, a: ValueId, b: ValueId) -> bool {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return true;
        }
        let both_placed = self.place.contains_key(&a) && self.place.contains_key(&b);
        let interfere = self.edges.get(&a).is_some_and(|e| e.contains(&b));
        if both_placed
            || interfere
            || self.is_fixed(a)
            || self.is_fixed(b)
            || self.bytes[a] != self.bytes[b]
        {
            return false;
        }
        let (winner, loser) = if self.place.contains_key(&b) {
            (b, a)
        } else {
            (a, b)
        };
        self.parent[loser] = Some(winner);
        for other in self.edges.remove(&loser).unwrap_or_default() {
            if let Some(edges) = self.edges.get_mut(&other) {
                edges.remove(&loser);
                edges.insert(winner);
            }
            self.edges.entry(winner).or_default().insert(other);
        }
        true
    }

    fn separate(&mut self, a: ValueId, b: ValueId) {
        let (a, b) = (self.root(a), self.root(b));
        self.edges.entry(a).or_default().insert(b);
        self.edges.entry(b).or_default().insert(a);
    }

    fn write_back(&self, plan: &mut Plan) -> Result<(), Error> {
        let mut roots: Vec<ValueId> = plan
            .values
            .keys()
            .filter(|&id| self.parent[id].is_none())
            .collect();
        let offsets = self.pack(&roots, plan)?;
        roots.sort();
        plan.buffers.clear();
        let mut buffer_of: FxHashMap<ValueId, BufferId> = FxHashMap::default();
        for root in roots {
            let place = match self.place.get(&root) {
                Some(place) => place.clone(),
                None => Place::Arena(Term::constant(offsets.get(&root).copied().unwrap_or(0))),
            };
            let bytes = Term::constant(self.bytes[root]);
            buffer_of.insert(root, plan.buffers.push(Buffer { place, bytes }));
        }
        for id in plan.values.keys() {
            let root = self.root(id);
            plan.values[id].buffer = *buffer_of
                .get(&root)
                .ok_or_else(|| bug(format!("{id} has no buffer")))?;
        }
        Ok(())
    }

    /// First fit by decreasing size: each class at the lowest offset at which it
    /// overlaps none that it interferes with.
    fn pack(&self, roots: &[ValueId], plan: &mut Plan) -> Result<FxHashMap<ValueId, i64>, Error> {
        let mut arena: Vec<ValueId> = roots
            .iter()
            .copied()
            .filter(|r| !self.place.contains_key(r))
            .collect();
        arena.sort_by_key(|&r| (std::cmp::Reverse(self.bytes[r]), r));
        let mut offsets: FxHashMap<ValueId, i64> = FxHashMap::default();
        let mut end = 0i64;
        for root in arena {
            let mut taken: Vec<(i64, i64)> = self
                .edges
                .get(&root)
                .into_iter()
                .flatten()
                .filter_map(|&other| {
                    let other = self.root(other);
                    offsets.get(&other).map(|&o| (o, o + self.bytes[other]))
                })
                .collect();
            taken.sort_unstable();
            let size = self.bytes[root];
            let mut offset = 0;
            for (start, stop) in taken {
                if offset + size <= start {
                    break;
                }
                offset = offset.max(align(stop));
            }
            let stop = offset
                .checked_add(size)
                .filter(|&s| s < i64::MAX / 2)
                .ok_or_else(|| bug("the arena's size does not fit"))?;
            end = end.max(stop);
            offsets.insert(root, offset);
        }
        plan.arena_bytes = align(end);
        Ok(offsets)
    }
}

fn align(offset: i64) -> i64 {
    let alignment = ALIGNMENT as i64;
    (offset + alignment - 1) / alignment * alignment
}

fn all_copies(steps: &[Step], out: &mut Vec<(ValueId, ValueId)>) {
    for step in steps {
        match step {
            Step::Copy { from, to } => out.push((*from, *to)),
            Step::While {
                condition, body, ..
            } => {
                all_copies(condition, out);
                all_copies(body, out);
            }
            Step::Conditional { branches, .. } => {
                branches.iter().for_each(|b| all_copies(b, out));
            }
            Step::Kernel { .. } | Step::Library { .. } => {}
        }
    }
}
