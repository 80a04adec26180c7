//! Buffer assignment. Values connected by copies share a buffer if they do not interfere, and
//! buffers that do not interfere share bytes: those of a result's memory, which is free until the
//! result is written, or of the arena.

use super::liveness::{Interference, ValueSet, interference};
use super::strip_legality::private_values;
use super::{Alias, Buffer, BufferId, Place, Plan, Step, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_arena::SecondaryMap;
use tegula_expr::{Term, canonicalize};
use tegula_fusion::{Error, ErrorKind};
use tegula_ir::{ALIGNMENT, Span};

/// Parameters whose memory may become a result's.
pub(super) struct WantedAliases {
    /// Pairs of a parameter and the result that takes over its memory.
    pub pairs: Vec<Alias>,
    /// Parameters whose memory may be taken over by any result of the same size.
    pub donors: Vec<usize>,
}

/// Assigns a buffer to every value of a plan.
pub(super) fn assign_buffers(plan: &mut Plan, wanted: &WantedAliases) -> Result<(), Error> {
    let facts = interference(plan);
    let mut classes = Classes::new(plan, &facts)?;
    plan.aliases = classes.join_aliases(plan, wanted);
    classes.follow_fixed(plan, &facts);
    classes.join_copies(&facts);
    for &(read, written) in &facts.in_place {
        if !classes.try_join(read, written) {
            classes.separate(read, written);
        }
    }
    classes.write_back(plan)
}

/// Assigns buffers again after steps were changed. A result that reuses a parameter's memory keeps
/// it.
///
/// # Errors
/// There is no room for what the plan needs.
pub fn replan_memory(plan: &mut Plan) -> Result<(), Error> {
    let wanted = WantedAliases {
        pairs: plan.aliases.clone(),
        donors: Vec::new(),
    };
    assign_buffers(plan, &wanted)
}

/// Classes of values that share a buffer, as a union-find structure.
struct Classes {
    parent: SecondaryMap<ValueId, Option<ValueId>>,
    place: FxHashMap<ValueId, Place>,
    /// The size in bytes, in canonical form.
    bytes: SecondaryMap<ValueId, Term>,
    /// Edges of the interference graph of classes: values that a class's members must not share
    /// memory with. An edge may be stored at either end.
    edges: FxHashMap<ValueId, ValueSet>,
    /// The members of each class with more than one.
    members: FxHashMap<ValueId, ValueSet>,
    /// The values that are used only inside of strips. They share classes only with one another.
    private: FxHashSet<ValueId>,
}

impl Classes {
    fn new(plan: &Plan, facts: &Interference) -> Result<Self, Error> {
        let mut classes = Self {
            parent: SecondaryMap::default(),
            place: FxHashMap::default(),
            bytes: SecondaryMap::default(),
            edges: facts.edges.clone(),
            members: FxHashMap::default(),
            private: private_values(plan),
        };
        let ranges = plan.symbol_ranges();
        for (id, value) in &plan.values {
            let bytes = value.shape.byte_size_term();
            let bytes =
                bytes.ok_or_else(|| Error::internal(format!("the size of {id} does not fit")))?;
            classes.bytes[id] = match bytes.as_constant() {
                Some(_) => bytes,
                None => canonicalize(&bytes, &ranges),
            };
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
            classes.place.insert(id, Place::output(i));
        }
        Ok(classes)
    }

    /// Puts parameters into the memory of results, where the program allows it and the parameter is
    /// not read any more when the result is written.
    fn join_aliases(&mut self, plan: &Plan, wanted: &WantedAliases) -> Vec<Alias> {
        let mut joined: Vec<Alias> = Vec::new();
        let any_output = wanted.donors.iter().flat_map(|&parameter| {
            (0..plan.results.len()).map(move |output| Alias { parameter, output })
        });
        for alias in wanted.pairs.iter().copied().chain(any_output) {
            let Alias { parameter, output } = alias;
            let (Some(&from), Some(&to)) =
                (plan.parameters.get(parameter), plan.results.get(output))
            else {
                continue;
            };
            let taken = joined
                .iter()
                .any(|j| j.parameter == parameter || j.output == output);
            // A value that is passed as two parameters has no memory of its own to give away.
            let unique = plan.parameters.iter().filter(|&&p| p == from).count() == 1;
            if taken || !unique {
                continue;
            }
            let place = self.place.remove(&from);
            if self.try_join(from, to) {
                joined.push(alias);
            } else {
                self.place.extend(place.map(|place| (from, place)));
            }
        }
        joined.sort_by_key(|alias| alias.output);
        joined
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

    /// Treats a value that is only ever a copy of one parameter or constant as another name of that
    /// memory.
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

    fn join_copies(&mut self, facts: &Interference) {
        let mut copies = facts.copies.clone();
        // Copies in inner loops cost most, then copies of large values.
        copies.sort_by_key(|&(from, to, depth)| {
            (
                std::cmp::Reverse((depth, representative(&self.bytes[from]))),
                from,
                to,
            )
        });
        for (from, to, _) in copies {
            // The ends of a copy do not interfere, because they may share one buffer. If they do
            // not share it, they must not overlap partially either; the same size may be written as
            // two different terms.
            if !self.try_join(from, to) {
                self.separate(from, to);
            }
        }
    }

    /// Puts two values into one class if nothing forbids it; returns whether they are in one class.
    fn try_join(&mut self, a: ValueId, b: ValueId) -> bool {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return true;
        }
        let both_placed = self.place.contains_key(&a) && self.place.contains_key(&b);
        if both_placed
            || self.private.contains(&a) != self.private.contains(&b)
            || self.interfere(a, b)
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
        if let Some(edges) = self.edges.remove(&loser) {
            self.edges.entry(winner).or_default().extend(&edges);
        }
        let joined = self.members.remove(&loser);
        let joined = joined.unwrap_or_else(|| ValueSet::from_iter([loser]));
        let own = self.members.entry(winner);
        own.or_insert_with(|| ValueSet::from_iter([winner]))
            .extend(&joined);
        true
    }

    /// Whether a member of one class must not share memory with a member of the other.
    fn interfere(&self, a: ValueId, b: ValueId) -> bool {
        let meets = |from: ValueId, to: ValueId| {
            let Some(edges) = self.edges.get(&from) else {
                return false;
            };
            match self.members.get(&to) {
                Some(members) => edges.meets(members),
                None => edges.contains(to),
            }
        };
        meets(a, b) || meets(b, a)
    }

    fn separate(&mut self, a: ValueId, b: ValueId) {
        let (a, b) = (self.root(a), self.root(b));
        self.edges.entry(a).or_default().insert(b);
    }

    fn write_back(&self, plan: &mut Plan) -> Result<(), Error> {
        let mut roots: Vec<ValueId> = plan
            .values
            .keys()
            .filter(|&id| self.parent[id].is_none())
            .collect();
        let (places, end) = self.pack(&roots, plan)?;
        plan.arena_bytes = end;
        roots.sort();
        plan.buffers.clear();
        let mut buffer_of: FxHashMap<ValueId, BufferId> = FxHashMap::default();
        for root in roots {
            let place = match self.place.get(&root) {
                Some(place) => place.clone(),
                None => (places.get(&root).cloned()).unwrap_or(Place::Arena(Term::constant(0))),
            };
            let bytes = self.bytes[root].clone();
            buffer_of.insert(root, plan.buffers.push(Buffer { place, bytes }));
        }
        for id in plan.values.keys() {
            let root = self.root(id);
            plan.values[id].buffer = *buffer_of
                .get(&root)
                .ok_or_else(|| Error::internal(format!("{id} has no buffer")))?;
        }
        Ok(())
    }

    /// Chooses the place of each class that has none yet, and the size of the arena. Classes of
    /// static size come first, then slots for the others.
    fn pack(
        &self,
        roots: &[ValueId],
        plan: &Plan,
    ) -> Result<(FxHashMap<ValueId, Place>, Term), Error> {
        let arena = roots.iter().filter(|r| !self.place.contains_key(r));
        let (mut known, mut open): (Vec<ValueId>, Vec<ValueId>) =
            arena.partition(|&&r| self.bytes[r].as_constant().is_some());
        let size = |r: &ValueId| representative(&self.bytes[*r]);
        known.sort_by_key(|r| (std::cmp::Reverse(size(r)), *r));
        open.sort_by_key(|r| (std::cmp::Reverse(size(r)), *r));
        // Private values come last, so that an executor that keeps only a strip of them can leave
        // out that part of the arena.
        let (private, known): (Vec<ValueId>, Vec<ValueId>) =
            known.iter().partition(|r| self.private.contains(r));
        let mut places = FxHashMap::default();
        let mut near = Neighbours::new(self, plan);
        let end = self.first_fit(&known, self.outputs(plan), 0, &mut near, &mut places)?;
        let end = self.first_fit(&private, Vec::new(), end, &mut near, &mut places)?;
        let slots = self.slots(&open, &mut near);
        let mut end = Term::constant(if slots.is_empty() { end } else { align(end) });
        let ranges = plan.symbol_ranges();
        for slot in slots {
            let own = slot
                .members
                .iter()
                .map(|&root| (root, Place::Arena(end.clone())));
            places.extend(own);
            end = canonicalize(&end.add(&aligned(&slot.bytes)), &ranges);
        }
        Ok((places, end))
    }

    /// The memory of results of static size, smallest first.
    fn outputs(&self, plan: &Plan) -> Vec<Room> {
        let mut rooms: Vec<Room> = Vec::new();
        for (result, &value) in plan.results.iter().enumerate() {
            let root = self.root(value);
            if let Some(bytes) = self.bytes[root].as_constant() {
                rooms.push(Room {
                    result: Some(result),
                    bytes,
                    taken: vec![(0, bytes, root)],
                });
            }
        }
        rooms.sort_by_key(|room| room.bytes);
        rooms
    }

    /// Places classes by first fit in order of decreasing size. Each class goes into the smallest
    /// result with room for it, or else into the arena from `begin` on, at the lowest offset where
    /// it overlaps no class that it interferes with. Returns the end of the arena.
    fn first_fit(
        &self,
        classes: &[ValueId],
        mut rooms: Vec<Room>,
        begin: i64,
        near: &mut Neighbours<'_>,
        places: &mut FxHashMap<ValueId, Place>,
    ) -> Result<i64, Error> {
        rooms.push(Room {
            result: None,
            bytes: i64::MAX / 4,
            taken: Vec::new(),
        });
        let mut end = begin;
        for &root in classes {
            let size = self.bytes[root].as_constant().unwrap_or(0);
            near.mark(root);
            let found = rooms.iter_mut().find_map(|room| {
                let apart = |other| {
                    debug_assert_eq!(near.interferes(other), self.interfere(root, other));
                    near.interferes(other)
                };
                Some((room.lowest(size, apart)?, room))
            });
            let (offset, room) = found.ok_or_else(too_large)?;
            let own = (offset, offset + size, root);
            let at = room.taken.partition_point(|known| *known < own);
            room.taken.insert(at, own);
            let place = match room.result {
                Some(result) => Place::Output {
                    result,
                    from: offset,
                },
                None => {
                    let offset = align(begin) + offset;
                    end = end.max(offset + size);
                    Place::Arena(Term::constant(offset))
                }
            };
            places.insert(root, place);
        }
        Ok(end)
    }

    /// Groups classes of symbolic size that do not interfere. Which of two is larger may depend on
    /// the run, so a group takes as much memory as its largest member.
    fn slots(&self, open: &[ValueId], near: &mut Neighbours<'_>) -> Vec<Slot> {
        let mut slots: Vec<Slot> = Vec::new();
        for &root in open {
            near.mark(root);
            let apart = |slot: &&mut Slot| {
                let with = |&member: &ValueId| near.interferes(member);
                !slot.members.iter().any(with)
            };
            let bytes = &self.bytes[root];
            let growth = |slot: &Slot| {
                representative(&Term::max(&slot.bytes, bytes)) - representative(&slot.bytes)
            };
            let best = slots
                .iter_mut()
                .filter(apart)
                .min_by_key(|slot| (slot.bytes != *bytes, growth(slot)));
            match best {
                Some(slot) => {
                    slot.bytes = Term::max(&slot.bytes, bytes);
                    slot.members.push(root);
                }
                None => slots.push(Slot {
                    bytes: bytes.clone(),
                    members: vec![root],
                }),
            }
        }
        slots
    }
}

/// The neighbours of one class at a time in the interference graph of classes; it answers the same
/// as [`Classes::interfere`]. Placing a class asks about most of the classes placed so far, so the
/// neighbours are marked once, and each question is one load.
struct Neighbours<'a> {
    classes: &'a Classes,
    /// The class of each value.
    roots: SecondaryMap<ValueId, Option<ValueId>>,
    /// For each class, the classes whose `edges` contain one of its members.
    named_by: SecondaryMap<ValueId, Vec<ValueId>>,
    /// The neighbours of the marked class.
    listed: Vec<ValueId>,
    /// Whether a class is in `listed`.
    near: SecondaryMap<ValueId, bool>,
}

impl<'a> Neighbours<'a> {
    /// Classes must not be merged any more after this.
    fn new(classes: &'a Classes, plan: &Plan) -> Self {
        let mut roots = SecondaryMap::default();
        for value in plan.values.keys() {
            roots[value] = Some(classes.root(value));
        }
        let mut named_by: SecondaryMap<ValueId, Vec<ValueId>> = SecondaryMap::default();
        for (&class, edges) in &classes.edges {
            for other in edges.iter().filter_map(|value| roots[value]) {
                if named_by[other].last() != Some(&class) {
                    named_by[other].push(class);
                }
            }
        }
        Self {
            classes,
            roots,
            named_by,
            listed: Vec::new(),
            near: SecondaryMap::default(),
        }
    }

    /// Marks the neighbours of `class` and no others.
    fn mark(&mut self, class: ValueId) {
        for other in self.listed.drain(..) {
            self.near[other] = false;
        }
        let named = self.classes.edges.get(&class).into_iter();
        let named = named
            .flat_map(ValueSet::iter)
            .filter_map(|value| self.roots[value]);
        for other in named.chain(self.named_by[class].iter().copied()) {
            if !self.near[other] {
                self.near[other] = true;
                self.listed.push(other);
            }
        }
    }

    /// Whether the marked class interferes with `other`.
    fn interferes(&self, other: ValueId) -> bool {
        self.near[other]
    }
}

/// Memory in which classes can be placed.
struct Room {
    /// The number of the result; `None` for the arena.
    result: Option<usize>,
    bytes: i64,
    /// The start and end of each class placed in it, sorted by start.
    taken: Vec<(i64, i64, ValueId)>,
}

impl Room {
    /// The lowest offset with room for `size` bytes that overlaps no class for which `apart` holds.
    fn lowest(&self, size: i64, apart: impl Fn(ValueId) -> bool) -> Option<i64> {
        let most = self.bytes.checked_sub(size).filter(|&most| most >= 0)?;
        let mut offset = 0;
        for &(start, stop, other) in &self.taken {
            if offset > most || offset + size <= start {
                break;
            }
            if align(stop) > offset && apart(other) {
                offset = align(stop);
            }
        }
        (offset <= most).then_some(offset)
    }
}

/// Memory in the arena shared by classes of which no two are needed at the same time.
struct Slot {
    bytes: Term,
    members: Vec<ValueId>,
}

/// A size in bytes; an estimate if it is known only at run time.
fn representative(bytes: &Term) -> i64 {
    bytes.eval(&|_| Some(64)).unwrap_or(i64::MAX)
}

/// Each array by itself may be small enough although all together are not.
fn too_large() -> Error {
    Error {
        kind: ErrorKind::Limit,
        message: "the program's arrays take more than 2^61 bytes together".to_owned(),
        span: Span::default(),
    }
}

/// A size rounded up to the alignment.
fn aligned(bytes: &Term) -> Term {
    let alignment = Term::constant(ALIGNMENT as i64);
    bytes.ceil_div(&alignment).mul(&alignment)
}

fn align(offset: i64) -> i64 {
    let alignment = ALIGNMENT as i64;
    (offset + alignment - 1) / alignment * alignment
}

fn all_copies(steps: &[Step], out: &mut Vec<(ValueId, ValueId)>) {
    for step in steps {
        match step {
            Step::Copy { from, to } => out.push((*from, *to)),
            step => step
                .blocks()
                .iter()
                .for_each(|block| all_copies(block, out)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The condition of the first inner loop has no steps, because its predicate `x0` is computed
    /// before the outer loop. Each iteration of the outer loop reads `x0` again, so `x0` is live
    /// throughout, and `x2`, which the second inner loop writes, must not share its memory.
    #[test]
    fn predicates_that_no_condition_writes_are_kept() {
        let text = r#"plan "conditions" arena 0 {
  b0 = arena 0 bytes 1
  x0 = pred[] in b0
  x1 = pred[] in b0
  x2 = pred[] in b0
  x3 = pred[] in b0
  k0 = kernel(write pred[]) {
    v0:pred = constant 0x0
    store 0[] = v0
  }
  parameters()
  results(x3)
  run k0(x3)
  run k0(x0)
  while {
    run k0(x1)
  } x1 {
    while {
    } x0 {
    }
    while {
      run k0(x2)
    } x2 {
    }
  }
}
"#;
        let mut plan = crate::parse_plan(text).expect("a plan");
        let wanted = WantedAliases {
            pairs: Vec::new(),
            donors: Vec::new(),
        };
        assign_buffers(&mut plan, &wanted).expect("buffers");
        crate::verify(&plan).expect("nothing is written over");
        let place = |value| {
            let value = &plan.values[ValueId::from_u32(value)];
            &plan.buffers[value.buffer].place
        };
        assert_ne!(place(0), place(2), "{plan}");
    }
}
