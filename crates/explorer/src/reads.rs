//! Which elements an element is computed from, followed from operation to operation.
//!
//! Operations are visited from the results to the operands, each once, with the set of all elements
//! of its result that are needed. Every element goes through the maps of its operation; run-time
//! variables (the indices of a gather) take every value they may have, so that what is read there is
//! a superset, and the answer says so.

use crate::edges::maps_of;
use crate::session::value_name;
use crate::{Problem, Session};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use tegula_fusion::{Def, NodeId, Program, ValueId};
use tegula_indexing::{Exactness, IndexingMap, Simplifier};

/// Points that are evaluated before the rest counts as read whole.
const MOST_POINTS: usize = 2_000_000;
/// Elements that are listed of one array.
const MOST_LISTED: usize = 1 << 16;

/// How far elements are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// To the operands of the operation.
    Operation,
    /// Through the fused operations to what their kernel reads from memory.
    Kernel,
    /// To the program's parameters and constants.
    Program,
}

/// The elements of one array that are needed.
#[derive(Clone, Debug, Serialize)]
pub struct ReadSet {
    /// The array, by number.
    pub value: u32,
    /// Its name.
    pub name: String,
    /// The size of each dimension.
    pub dims: Vec<i64>,
    /// How many of its elements are needed.
    pub count: usize,
    /// Row-major numbers of the elements, ascending; empty if all are needed.
    pub elements: Vec<u32>,
    /// Whether all of its elements are needed.
    pub all: bool,
    /// Whether each of them is known to be needed.
    pub exact: bool,
    /// Whether elements are not followed further from here.
    pub leaf: bool,
    /// What of it is not known.
    pub note: Option<String>,
}

/// What an element, or several, is computed from.
#[derive(Clone, Debug, Serialize)]
pub struct Reads {
    /// The array that was asked about.
    pub value: u32,
    /// Arrays from the asked one to those that it is computed from.
    pub sets: Vec<ReadSet>,
}

/// A set of row-major numbers.
#[derive(Clone)]
struct Elements {
    bits: Vec<u64>,
    count: usize,
    exact: bool,
    note: Option<String>,
}

impl Elements {
    fn none(size: usize) -> Self {
        Self {
            bits: vec![0; size.div_ceil(64)],
            count: 0,
            exact: true,
            note: None,
        }
    }

    fn insert(&mut self, number: usize) {
        if let Some(word) = self.bits.get_mut(number / 64) {
            let bit = 1 << (number % 64);
            self.count += usize::from(*word & bit == 0);
            *word |= bit;
        }
    }

    fn insert_all(&mut self, size: usize) {
        if self.count < size {
            (0..size).for_each(|number| self.insert(number));
        }
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        let words = self.bits.iter().enumerate();
        words.flat_map(|(at, &word)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| at * 64 + bit)
        })
    }
}

impl Session {
    /// What elements of an array, by row-major numbers, are computed from.
    ///
    /// # Errors
    /// As [`Session::planned`]; there is no such array or element, or its size is only known at
    /// run time.
    pub fn reads(&self, value: u32, elements: &[i64], scope: Scope) -> Result<Reads, Problem> {
        let planned = self.planned()?;
        let program = &planned.fused.program;
        let asked = ValueId::from_u32(value);
        if !program.values.is_valid(asked) {
            return Err(Problem::new("there is no such array"));
        }
        let size = element_count(program, asked)
            .ok_or_else(|| Problem::new("the array's size is only known at run time"))?;
        let mut first = Elements::none(size);
        for &element in elements {
            let number = usize::try_from(element).ok().filter(|&n| n < size);
            first.insert(number.ok_or_else(|| Problem::new("there is no such element"))?);
        }
        let mut search = Search {
            module: &planned.module,
            program,
            simplifier: Simplifier::new(),
            found: FxHashMap::default(),
            points: 0,
        };
        search.found.insert(asked, first);
        let follows = |value: ValueId| match scope {
            Scope::Operation => value == asked,
            Scope::Kernel => value == asked || !planned.fused.clusters.is_materialised(value),
            Scope::Program => true,
        };
        let mut order: Vec<(ValueId, bool)> = Vec::new();
        let mut work = std::collections::BTreeSet::new();
        // Operands have smaller places than their users.
        let places = places(program);
        let place = |value: ValueId| match program.values[value].def {
            Def::Node(node, _) => places[node.as_u32() as usize] + 1,
            _ => 0,
        };
        work.insert((place(asked), asked));
        while let Some((_, value)) = work.pop_last() {
            let Def::Node(node, result) = program.values[value].def else {
                order.push((value, true));
                continue;
            };
            let goes_on = follows(value);
            order.push((value, !goes_on));
            if goes_on {
                for operand in search.visit(value, node, result) {
                    work.insert((place(operand), operand));
                }
            }
        }
        let sets = order.into_iter().map(|(value, leaf)| {
            let found = search.found.remove(&value);
            let found = found.unwrap_or_else(|| Elements::none(0));
            let dims = program.values[value].shape.static_dims();
            let size = element_count(program, value).unwrap_or(0);
            let all = found.count == size;
            let listed = if all { 0 } else { MOST_LISTED };
            ReadSet {
                value: value.as_u32(),
                name: value_name(&planned.module, program, value),
                dims: dims.unwrap_or_default().to_vec(),
                count: found.count,
                elements: found.iter().take(listed).map(|n| n as u32).collect(),
                all,
                exact: found.exact,
                leaf,
                note: found.note,
            }
        });
        Ok(Reads {
            value,
            sets: sets.collect(),
        })
    }
}

/// By node: its place in the order in which nodes run.
fn places(program: &Program) -> Vec<usize> {
    fn visit(
        program: &Program,
        region: &tegula_fusion::Region,
        next: &mut usize,
        out: &mut [usize],
    ) {
        for &node in &region.nodes {
            for inner in program.nodes[node].kind.regions() {
                visit(program, inner, next, out);
            }
            out[node.as_u32() as usize] = *next;
            *next += 1;
        }
    }
    let mut out = vec![0; program.nodes.len()];
    visit(program, &program.entry, &mut 0, &mut out);
    out
}

fn element_count(program: &Program, value: ValueId) -> Option<usize> {
    /// Larger arrays are not followed element by element.
    const MOST: usize = 1 << 28;
    let count = program.values[value].shape.element_count()?;
    usize::try_from(count).ok().filter(|&count| count <= MOST)
}

struct Search<'a> {
    module: &'a tegula_ir::Module,
    program: &'a Program,
    simplifier: Simplifier,
    found: FxHashMap<ValueId, Elements>,
    /// Points evaluated so far.
    points: usize,
}

impl Search<'_> {
    /// Adds what the needed elements of a value read, and gives the operands that are read.
    fn visit(&mut self, value: ValueId, node: NodeId, result: usize) -> Vec<ValueId> {
        let Some(needed) = self.found.get(&value).cloned() else {
            return Vec::new();
        };
        let node = &self.program.nodes[node];
        let mut read = Vec::new();
        for (number, &operand) in node.operands.iter().enumerate() {
            let Some(size) = element_count(self.program, operand) else {
                continue;
            };
            let mut own = self.found.remove(&operand);
            let own_now = own.get_or_insert_with(|| Elements::none(size));
            own_now.exact &= needed.exact;
            let maps = maps_of(self.module, self.program, node, result, number);
            match maps {
                Ok(maps) => {
                    for map in &maps {
                        let map = self.simplifier.simplify_map(map);
                        self.follow(value, &map, &needed, operand, own_now);
                    }
                }
                Err(unknown) => {
                    own_now.insert_all(size);
                    own_now.exact = false;
                    own_now.note = Some(unknown);
                }
            }
            if own_now.count > 0 {
                read.push(operand);
            }
            if let Some(own) = own {
                self.found.insert(operand, own);
            }
        }
        read.dedup();
        read
    }

    fn follow(
        &mut self,
        value: ValueId,
        map: &IndexingMap,
        needed: &Elements,
        operand: ValueId,
        own: &mut Elements,
    ) {
        let shapes = |v: ValueId| self.program.values[v].shape.static_dims();
        let (Some(from), Some(to)) = (shapes(value), shapes(operand)) else {
            return;
        };
        let size = element_count(self.program, operand).unwrap_or(0);
        if map.is_empty() || own.count == size && own.note.is_some() {
            return;
        }
        if map.exactness == Exactness::Superset || !map.runtime.is_empty() {
            own.exact = false;
            own.note
                .get_or_insert_with(|| match map.runtime.is_empty() {
                    true => "at most these elements".to_owned(),
                    false => "which of these depends on data".to_owned(),
                });
        }
        // A map of one element to the same, as of a pointwise operation, needs no evaluation.
        let is_identity = from == to
            && map.ranges.is_empty()
            && map.runtime.is_empty()
            && map.constraints.is_empty()
            && (0..from.len()).all(|at| map.results.get(at) == Some(&map.dim(at)));
        if is_identity {
            needed.iter().for_each(|number| own.insert(number));
            return;
        }
        let bounds = map.bounds();
        let inner = bounds.get(from.len()..).unwrap_or_default();
        let inside = inner.iter().try_fold(1usize, |n, b| {
            n.checked_mul(usize::try_from(b.count()).ok()?)
        });
        let points = inside.and_then(|inside| inside.checked_mul(needed.count));
        let within = points.and_then(|points| self.points.checked_add(points));
        let Some(within) = within.filter(|&points| points <= MOST_POINTS) else {
            own.insert_all(size);
            own.exact = false;
            own.note = Some("too many to follow one by one: taken as read whole".to_owned());
            return;
        };
        self.points = within;
        let mut point: Vec<i64> = vec![0; bounds.len()];
        for number in needed.iter() {
            unravel(number, &from, &mut point);
            for (at, bound) in inner.iter().enumerate() {
                point[from.len() + at] = bound.lower;
            }
            if inner.iter().any(|bound| bound.is_empty()) {
                continue;
            }
            loop {
                if let Ok(Some(index)) = map.evaluate(&point)
                    && let Some(number) = ravel(&index, &to)
                {
                    own.insert(number);
                }
                let mut carry = true;
                for (at, bound) in inner.iter().enumerate().rev() {
                    let place = &mut point[from.len() + at];
                    if *place < bound.upper {
                        *place += 1;
                        carry = false;
                        break;
                    }
                    *place = bound.lower;
                }
                if carry {
                    break;
                }
            }
        }
    }
}

fn unravel(mut number: usize, dims: &[i64], point: &mut [i64]) {
    for (at, &size) in dims.iter().enumerate().rev() {
        let size = usize::try_from(size).unwrap_or(1).max(1);
        point[at] = (number % size) as i64;
        number /= size;
    }
}

fn ravel(index: &[i64], dims: &[i64]) -> Option<usize> {
    let inside = index
        .iter()
        .zip(dims)
        .all(|(&i, &size)| (0..size).contains(&i));
    let number = index
        .iter()
        .zip(dims)
        .fold(0, |n, (&i, &size)| n * size + i);
    (inside && index.len() == dims.len()).then(|| usize::try_from(number).ok())?
}
