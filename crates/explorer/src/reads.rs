//! Which elements an element is computed from.

use crate::elements::Elements;
use crate::scalars::Scalars;
use crate::search::{Needed, Search, element_count, sorted};
use crate::session::value_name;
use crate::{Problem, Session};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tegula::Planned;
use tegula_fusion::{NodeId, ValueId};

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
    /// The loops on the way in the program's order, each before those inside of it.
    pub loops: Vec<LoopReads>,
}

/// What one iteration of a loop needs.
#[derive(Clone, Debug, Serialize)]
pub struct LoopReads {
    /// The loop, by number of its node.
    pub node: u32,
    /// Its name.
    pub name: String,
    /// The loop that it is in; what follows is of the iteration of that one that is shown.
    pub parent: Option<u32>,
    /// How often it runs, if that is known before.
    pub trips: Option<usize>,
    /// The iteration that `states` are of, from 0.
    pub iteration: usize,
    /// What is needed of the loop's states at the start of the iteration; where it is not known how
    /// often the loop runs, of any iteration.
    pub states: Vec<ReadSet>,
    /// What the iteration itself reads of arrays outside of the loop.
    pub reads: Vec<ReadSet>,
}

impl Session {
    /// What elements of an array, by row-major numbers, are computed from; of loops what one
    /// iteration needs: the one that `iterations` has for the loop's node, or the last one.
    ///
    /// # Errors
    /// As [`Session::planned`]; there is no such array or element, or its size is only known at
    /// run time.
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
            return Err(Problem::new("there is no such array"));
        }
        let size = element_count(program, asked)
            .ok_or_else(|| Problem::new("the array's size is only known at run time"))?;
        let mut first = Elements::none(size);
        for &element in elements {
            let number = usize::try_from(element).ok().filter(|&n| n < size);
            first.insert(number.ok_or_else(|| Problem::new("there is no such element"))?);
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
