//! The elements that an element is computed from.

use crate::elements::Elements;
use crate::scalars::Scalars;
use crate::search::{Needed, Search, element_count, sorted};
use crate::session::value_name;
use crate::{Problem, Session};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tegula::Planned;
use tegula_fusion::{NodeId, ValueId};

/// At most this many elements are listed for one array.
const MOST_LISTED: usize = 1 << 16;

/// How far the search follows elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// To the operation's operands.
    Operation,
    /// Through fused operations, to the arrays that the kernel reads from memory.
    Kernel,
    /// To the program's parameters and constants.
    Program,
}

/// The elements of one array that are needed.
#[derive(Clone, Debug, Serialize)]
pub struct ReadSet {
    /// The number of the array.
    pub value: u32,
    /// Its name.
    pub name: String,
    /// The size of each dimension.
    pub dims: Vec<i64>,
    /// The number of elements that are needed.
    pub count: usize,
    /// Row-major numbers of the needed elements, ascending; empty if all are needed.
    pub elements: Vec<u32>,
    /// Whether all of its elements are needed.
    pub all: bool,
    /// Whether every element is certainly needed; if not, the set is a superset.
    pub exact: bool,
    /// Whether the search ends at this array.
    pub leaf: bool,
    /// Why the set is not exact.
    pub note: Option<String>,
}

/// The elements that one or several elements are computed from.
#[derive(Clone, Debug, Serialize)]
pub struct Reads {
    /// The array of the request.
    pub value: u32,
    /// The needed elements of each array, from the requested array back to its inputs.
    pub sets: Vec<ReadSet>,
    /// The loops that were passed, in program order; an outer loop comes before its inner loops.
    pub loops: Vec<LoopReads>,
}

/// The elements that one iteration of a loop needs.
#[derive(Clone, Debug, Serialize)]
pub struct LoopReads {
    /// The number of the loop's node.
    pub node: u32,
    /// Its name.
    pub name: String,
    /// The loop that contains it. The other fields describe this loop as it runs in the shown
    /// iteration of the outer loop.
    pub parent: Option<u32>,
    /// The trip count, if it is known before the program runs.
    pub trips: Option<usize>,
    /// The iteration that `states` and `reads` describe, from 0.
    pub iteration: usize,
    /// The needed elements of the loop's states at the start of the iteration. If the trip count is
    /// unknown, those that any iteration needs.
    pub states: Vec<ReadSet>,
    /// The elements of arrays outside of the loop that the iteration itself reads.
    pub reads: Vec<ReadSet>,
}

impl Session {
    /// Finds what the given elements of an array (row-major numbers) are computed from. For each
    /// loop, it describes one iteration: the one in `iterations` for the loop's node, or the last.
    ///
    /// # Errors
    /// As [`Session::planned`]; the array or an element does not exist, or the array's size is only
    /// known at run time.
    pub fn reads(
        &self,
        value: u32,
        elements: &[i64],
        scope: Scope,
        iterations: &BTreeMap<u32, usize>,
    ) -> Result<Reads, Problem> {
        let planned = self.planned()?;
        let program = &planned.fused.program;
        let asked = ValueId::from_u32(value);
        if !program.values.is_valid(asked) {
            return Err(Problem::new(
                "unknown array number: choose an array of the graph",
            ));
        }
        let size = element_count(program, asked)
            .ok_or_else(|| Problem::new("the array's size is only known at run time"))?;
        let mut first = Elements::none(size);
        for &element in elements {
            let number = usize::try_from(element).ok().filter(|&n| n < size);
            first.insert(number.ok_or_else(|| {
                Problem::new("the element's number is out of bounds for the array")
            })?);
        }
        let mut search = Search::new(&planned.module, program, iterations);
        let mut known = Scalars::default();
        search.scalars.region(&program.entry, &mut known);
        let mut found = Needed::from_iter([(asked, first)]);
        let follows = |value: ValueId| match scope {
            Scope::Operation => value == asked,
            Scope::Kernel => value == asked || !planned.fused.clusters.is_materialised(value),
            Scope::Program => true,
        };
        let order = search.follow_all(&mut found, &known, &follows);
        let sets = order.into_iter().map(|(value, leaf)| {
            let found = found.remove(&value).unwrap_or_else(|| Elements::none(0));
            read_set(planned, value, &found, leaf)
        });
        let sets = sets.collect();
        let read_sets = |sets: &Needed| -> Vec<ReadSet> {
            let sets = sorted(sets).into_iter();
            sets.map(|(value, elements)| read_set(planned, value, &elements, true))
                .collect()
        };
        let loops = search.ordered_loops();
        let loops = loops.iter().map(|trace| LoopReads {
            node: trace.node.as_u32(),
            parent: trace.parent.map(NodeId::as_u32),
            name: planned.module[trace.name].name.to_string(),
            trips: trace.trips,
            iteration: trace.iteration,
            states: read_sets(&trace.states),
            reads: read_sets(&trace.reads),
        });
        Ok(Reads {
            value,
            sets,
            loops: loops.collect(),
        })
    }
}

fn read_set(planned: &Planned<'_>, value: ValueId, found: &Elements, leaf: bool) -> ReadSet {
    let program = &planned.fused.program;
    let dims = program.values[value].shape.static_dims();
    let all = found.count == element_count(program, value).unwrap_or(0);
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
        note: found.note.clone(),
    }
}
