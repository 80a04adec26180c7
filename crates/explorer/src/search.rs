//! Follows elements backwards from operation to operation, to the elements they are computed from.
//!
//! Operations are visited once each, from results to operands, with the set of all needed elements
//! of the result. Every element is mapped by the operation's indexing maps. A run-time variable (an
//! offset, an index of a gather) takes its value if that is known, as in an iteration of a counted
//! loop. Otherwise it takes every possible value; the elements read are then a superset, and the
//! set is marked as one.

mod loops;

use crate::edges::maps_of;
use crate::elements::{Elements, ravel, unravel};
use crate::scalars::{Evaluator, Scalars, integer, value_of};
use loops::{LoopTrace, Place};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tegula_expr::Interval;
use tegula_fusion::{Def, Node, NodeId, NodeKind, Program, Region, ValueId};
use tegula_indexing::{Exactness, IndexingMap, RuntimeSource, Simplifier};
use tegula_ir::{Module, Op};

/// At most this many map points are evaluated; after that, arrays count as read entirely.
const MOST_POINTS: usize = 2_000_000;

/// The needed elements of each array.
pub(crate) type Needed = FxHashMap<ValueId, Elements>;

/// One search in a program.
pub(crate) struct Search<'a> {
    pub(crate) module: &'a Module,
    pub(crate) program: &'a Program,
    /// For each node, its position in execution order.
    places: Vec<usize>,
    /// For each node, the region that contains it.
    regions: Rc<[usize]>,
    simplifier: Simplifier,
    /// Simplified maps by operation, result and operand. They are cached because loops need them in
    /// each iteration.
    maps: FxHashMap<(u32, usize, usize), Result<Vec<IndexingMap>, String>>,
    /// The number of map points evaluated so far.
    points: usize,
    /// The size in bytes of the sets processed in loops so far.
    pub(crate) bytes: usize,
    /// The evaluator of scalars.
    pub(crate) scalars: Evaluator<'a>,
    /// The loops passed so far.
    pub(crate) loops: Vec<LoopTrace>,
    /// The iteration to describe, for each loop.
    pub(crate) iterations: &'a BTreeMap<u32, usize>,
    /// The search's position in nested loops.
    pub(crate) place: Place,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        module: &'a Module,
        program: &'a Program,
        iterations: &'a BTreeMap<u32, usize>,
    ) -> Self {
        let mut placed = Places {
            places: vec![0; program.nodes.len()],
            regions: vec![0; program.nodes.len()],
            next: 0,
        };
        placed.visit(program, &program.entry);
        Self {
            module,
            program,
            places: placed.places,
            regions: placed.regions.into(),
            simplifier: Simplifier::new(),
            maps: FxHashMap::default(),
            points: 0,
            bytes: 0,
            scalars: Evaluator::new(module, program),
            loops: Vec::new(),
            iterations,
            place: Place::default(),
        }
    }

    /// Reserves `points` evaluations; returns `false` if the limit does not allow them.
    pub(crate) fn may_evaluate(&mut self, points: usize) -> bool {
        let all = self.points.checked_add(points);
        let within = all.filter(|&points| points <= MOST_POINTS);
        self.points = within.unwrap_or(self.points);
        within.is_some()
    }

    /// Follows the elements of `found` backwards, through the arrays for which `goes_on` returns
    /// `true`. Returns the arrays in the order of the visit, and whether the search ended at each.
    pub(crate) fn follow_all(
        &mut self,
        found: &mut Needed,
        known: &Scalars,
        goes_on: &dyn Fn(ValueId) -> bool,
    ) -> Vec<(ValueId, bool)> {
        // Operands come before their users in execution order, so each array is complete when
        // popped.
        let program = self.program;
        let mut order = Vec::new();
        let mut work: BTreeSet<(usize, ValueId)> = found
            .keys()
            .map(|&value| (self.place_of(value), value))
            .collect();
        while let Some((_, value)) = work.pop_last() {
            let Def::Node(node, result) = program.values[value].def else {
                order.push((value, true));
                continue;
            };
            let is_followed = goes_on(value);
            order.push((value, !is_followed));
            if is_followed {
                for operand in self.visit(node, (value, result), found, known) {
                    work.insert((self.place_of(operand), operand));
                }
            }
        }
        order
    }

    /// Follows the elements of a region's results backwards to values defined outside of the
    /// region.
    pub(crate) fn through_region(
        &mut self,
        region: &Region,
        mut found: Needed,
        known: &Scalars,
    ) -> Needed {
        let program = self.program;
        let regions = Rc::clone(&self.regions);
        let own = region
            .nodes
            .first()
            .map(|node| regions[node.as_u32() as usize]);
        let is_inside = |value: ValueId| match program.values[value].def {
            Def::Node(node, _) => Some(regions[node.as_u32() as usize]) == own,
            _ => false,
        };
        self.follow_all(&mut found, known, &is_inside);
        found.retain(|&value, _| !is_inside(value));
        found
    }

    /// The loops in program order, each outer loop before its inner loops.
    pub(crate) fn ordered_loops(&mut self) -> Vec<LoopTrace> {
        let mut loops = std::mem::take(&mut self.loops);
        let path = |trace: &LoopTrace| {
            let mut path = vec![self.places[trace.node.as_u32() as usize]];
            let mut parent = trace.parent;
            while let Some(node) = parent {
                path.push(self.places[node.as_u32() as usize]);
                let around = loops.iter().find(|other| other.node == node);
                parent = around.and_then(|around| around.parent);
            }
            path.reverse();
            path
        };
        let paths: FxHashMap<NodeId, Vec<usize>> = loops
            .iter()
            .map(|trace| (trace.node, path(trace)))
            .collect();
        loops.sort_by(|a, b| paths[&a.node].cmp(&paths[&b.node]));
        loops
    }

    fn place_of(&self, value: ValueId) -> usize {
        match self.program.values[value].def {
            Def::Node(node, _) => self.places[node.as_u32() as usize] + 1,
            _ => 0,
        }
    }

    /// Adds to `found` the elements that the needed elements of a value read; returns their arrays.
    fn visit(
        &mut self,
        id: NodeId,
        (value, result): (ValueId, usize),
        found: &mut Needed,
        known: &Scalars,
    ) -> Vec<ValueId> {
        let node = &self.program.nodes[id];
        let Some(needed) = found.get(&value).cloned() else {
            return Vec::new();
        };
        if needed.count == 0 {
            return Vec::new();
        }
        let read = match &node.kind {
            NodeKind::While { .. } => self.through_loop(id, result, &needed, known),
            NodeKind::Conditional { branches } => {
                self.through_choice(node, branches, (result, &needed), known)
            }
            _ => match self.update_of_known_place(node, value, &needed, known) {
                Some(read) => read,
                None => self.operands(node, (value, result), &needed, known),
            },
        };
        let mut values = Vec::new();
        for (operand, elements) in read {
            if elements.count == 0 {
                continue;
            }
            values.push(operand);
            match found.get_mut(&operand) {
                Some(own) => {
                    own.union(&elements);
                }
                None => {
                    found.insert(operand, elements);
                }
            }
        }
        values
    }

    /// The elements of its operands that an operation reads.
    fn operands(
        &mut self,
        node: &Node,
        (value, result): (ValueId, usize),
        needed: &Elements,
        known: &Scalars,
    ) -> Vec<(ValueId, Elements)> {
        let mut read = Vec::new();
        for (number, &operand) in node.operands.iter().enumerate() {
            let Some(size) = element_count(self.program, operand) else {
                continue;
            };
            let mut own = Elements::none(size);
            own.exact = needed.exact;
            match self.maps(node, value, result, number) {
                Ok(maps) => {
                    for map in &maps {
                        self.follow(node, (value, needed), (map, known), (operand, &mut own));
                    }
                }
                Err(unknown) => {
                    own.insert_all(size);
                    own.at_most(&unknown);
                }
            }
            read.push((operand, own));
        }
        read
    }

    fn maps(
        &mut self,
        node: &Node,
        value: ValueId,
        result: usize,
        operand: usize,
    ) -> Result<Vec<IndexingMap>, String> {
        let key = (value.as_u32(), result, operand);
        if let Some(known) = self.maps.get(&key) {
            return known.clone();
        }
        let maps = maps_of(self.module, self.program, node, result, operand);
        let maps = maps.map(|maps| {
            let simplified = maps.iter().map(|map| self.simplifier.simplify_map(map));
            simplified.collect::<Vec<_>>()
        });
        self.maps.insert(key, maps.clone());
        maps
    }

    /// The reads of a dynamic update slice whose offsets are known. Each element then comes either
    /// from the updated array or from the update, never from both.
    fn update_of_known_place(
        &self,
        node: &Node,
        value: ValueId,
        needed: &Elements,
        known: &Scalars,
    ) -> Option<Vec<(ValueId, Elements)>> {
        let is_update = matches!(node.kind, NodeKind::Op)
            && matches!(self.module[node.origin].op, Op::DynamicUpdateSlice);
        let (&[whole, update], starts) = node.operands.split_at_checked(2)? else {
            return None;
        };
        if !is_update {
            return None;
        }
        let shape = |value: ValueId| self.program.values[value].shape.static_dims();
        let (dims, own) = (shape(value)?, shape(update)?);
        let mut first = Vec::with_capacity(dims.len());
        for ((&start, &size), &part) in starts.iter().zip(&dims[..]).zip(&own[..]) {
            let start = self.known_integer(start, known)?;
            first.push(start.clamp(0, (size - part).max(0)));
        }
        if first.len() != dims.len() {
            return None;
        }
        let mut from = [whole, update].map(|value| {
            let mut set = Elements::none(element_count(self.program, value).unwrap_or(0));
            set.exact = needed.exact;
            set
        });
        let mut point = vec![0; dims.len()];
        for number in needed.iter() {
            unravel(number, &dims, &mut point);
            let inside: Vec<i64> = point
                .iter()
                .zip(&first)
                .map(|(at, first)| at - first)
                .collect();
            match ravel(&inside, &own) {
                Some(number) => from[1].insert(number),
                None => from[0].insert(number),
            }
        }
        let [kept, written] = from;
        let mut read = vec![(whole, kept), (update, written)];
        for &start in starts {
            let mut one = Elements::none(1);
            one.insert(0);
            read.push((start, one));
        }
        Some(read)
    }

    fn known_integer(&self, value: ValueId, known: &Scalars) -> Option<i64> {
        let bits = value_of(self.program, known, value)?;
        integer(self.program.values[value].shape.element_type, bits)
    }

    /// The values of a map's run-time variables; `None` where unknown.
    fn runtime_values(&self, node: &Node, map: &IndexingMap, known: &Scalars) -> Vec<Option<i64>> {
        let operands = &self.module[node.origin].operands;
        let value = |source: &Option<RuntimeSource>| match source {
            Some(RuntimeSource::Element { instruction, .. }) => {
                let at = operands.iter().position(|operand| operand == instruction)?;
                self.known_integer(*node.operands.get(at)?, known)
            }
            _ => None,
        };
        map.runtime
            .iter()
            .map(|variable| value(&variable.source))
            .collect()
    }

    /// Adds to `own` the elements to which one map leads from the needed elements of a value.
    fn follow(
        &mut self,
        node: &Node,
        (value, needed): (ValueId, &Elements),
        (map, known): (&IndexingMap, &Scalars),
        (operand, own): (ValueId, &mut Elements),
    ) {
        let shapes = |v: ValueId| self.program.values[v].shape.static_dims();
        let (Some(from), Some(to)) = (shapes(value), shapes(operand)) else {
            return;
        };
        let size = element_count(self.program, operand).unwrap_or(0);
        if map.is_empty() || own.count == size && own.note.is_some() {
            return;
        }
        let values = self.runtime_values(node, map, known);
        if map.exactness == Exactness::Superset {
            own.at_most("the operation may read fewer of them");
        } else if values.contains(&None) {
            own.at_most("which of these elements is read depends on data");
        }
        // An identity map, as of an elementwise operation, needs no evaluation.
        let is_identity = from == to
            && map.ranges.is_empty()
            && map.runtime.is_empty()
            && map.constraints.is_empty()
            && (0..from.len()).all(|at| map.results.get(at) == Some(&map.dim(at)));
        if is_identity {
            needed.iter().for_each(|number| own.insert(number));
            return;
        }
        let mut bounds = map.bounds();
        let first = from.len() + map.ranges.len();
        for (bound, value) in bounds.iter_mut().skip(first).zip(&values) {
            if let Some(value) = value {
                // HLO clamps offsets to the valid range.
                *bound = Interval::point((*value).clamp(bound.lower, bound.upper.max(bound.lower)));
            }
        }
        let inner = bounds.get(from.len()..).unwrap_or_default();
        let inside = inner.iter().try_fold(1usize, |n, b| {
            n.checked_mul(usize::try_from(b.count()).ok()?)
        });
        let points = inside.and_then(|inside| inside.checked_mul(needed.count));
        if !points.is_some_and(|points| self.may_evaluate(points)) {
            own.insert_all(size);
            own.exact = false;
            own.note = Some(
                "too many elements to follow one by one, so the whole array is assumed to be read"
                    .to_owned(),
            );
            return;
        }
        if inner.iter().any(Interval::is_empty) {
            return;
        }
        let mut point: Vec<i64> = vec![0; bounds.len()];
        for number in needed.iter() {
            unravel(number, &from, &mut point);
            for (at, bound) in inner.iter().enumerate() {
                point[from.len() + at] = bound.lower;
            }
            loop {
                if let Ok(Some(index)) = map.evaluate(&point)
                    && let Some(number) = ravel(&index, &to)
                {
                    own.insert(number);
                }
                if !advance(inner, &mut point[from.len()..]) {
                    break;
                }
            }
        }
    }
}

/// Advances to the next point within bounds, the last variable fastest; returns `false` at the end.
fn advance(bounds: &[Interval], point: &mut [i64]) -> bool {
    for (bound, place) in bounds.iter().zip(point).rev() {
        if *place < bound.upper {
            *place += 1;
            return true;
        }
        *place = bound.lower;
    }
    false
}

/// The number of elements of an array, if its sizes are static and it is small enough to follow.
pub(crate) fn element_count(program: &Program, value: ValueId) -> Option<usize> {
    /// Larger arrays are not followed element by element.
    const MOST: usize = 1 << 28;
    let count = program.values[value].shape.element_count()?;
    usize::try_from(count).ok().filter(|&count| count <= MOST)
}

/// The sets in the order of their arrays' numbers.
pub(crate) fn sorted(needed: &Needed) -> Vec<(ValueId, Elements)> {
    let mut all: Vec<_> = needed.iter().map(|(&v, e)| (v, e.clone())).collect();
    all.sort_by_key(|(value, _)| *value);
    all
}

/// The positions and regions of all nodes.
struct Places {
    /// For each node, its position in execution order.
    places: Vec<usize>,
    /// For each node, the first node of its region, which identifies the region.
    regions: Vec<usize>,
    next: usize,
}

impl Places {
    fn visit(&mut self, program: &Program, region: &Region) {
        let own = region
            .nodes
            .first()
            .map_or(0, |node| node.as_u32() as usize);
        for &node in &region.nodes {
            for inner in program.nodes[node].kind.regions() {
                self.visit(program, inner);
            }
            let number = node.as_u32() as usize;
            self.places[number] = self.next;
            self.regions[number] = own;
            self.next += 1;
        }
    }
}
