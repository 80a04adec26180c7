//! Follows elements backwards through the iterations of a loop and the branches of a conditional.
//!
//! A counted loop first runs on its scalars alone, so that the offsets of each iteration are known.
//! Then the search goes from the last iteration to the first: the elements of its state that an
//! iteration reads are those that the previous iteration must produce. If the trip count depends on
//! data, the sets grow until an iteration adds nothing, and are supersets.
//!
//! An inner loop is searched once for each iteration of the outer loop, with the scalars known in
//! that iteration, because its trip count may differ. The result describes one iteration of each
//! loop; for an inner loop, an iteration within the described iteration of the outer loop.

use super::{Needed, Search, element_count, sorted};
use crate::elements::Elements;
use crate::scalars::{Scalars, Uncounted};
use tegula_fusion::{Node, NodeId, NodeKind, Region, ValueId};
use tegula_ir::InstructionId;

/// After this many rounds, sets that still grow become whole arrays.
const MOST_ROUNDS: usize = 64;
/// Why the elements that a branch reads are a superset.
const DATA_CHOOSES: &str = "which branch is taken depends on data";
/// At most this many bytes of sets are processed for one request, summed over iterations.
const MOST_BYTES: usize = 1 << 31;

/// The elements that one iteration of a loop needs.
pub(crate) struct LoopTrace {
    /// The loop.
    pub(crate) node: NodeId,
    /// The instruction whose name the page shows.
    pub(crate) name: InstructionId,
    /// The loop that contains it. This trace is from the described iteration of that outer loop.
    pub(crate) parent: Option<NodeId>,
    /// The trip count, if it is known.
    pub(crate) trips: Option<usize>,
    /// The iteration that `states` and `reads` describe.
    pub(crate) iteration: usize,
    /// The needed elements of the loop's states at the start of the iteration.
    pub(crate) states: Needed,
    /// The elements of arrays outside of the loop that the iteration itself reads.
    pub(crate) reads: Needed,
}

/// A search's position in nested loops.
#[derive(Clone, Default)]
pub(crate) struct Place {
    /// The innermost loop whose body is being searched.
    inside: Option<NodeId>,
    /// Whether an enclosing loop is at an iteration that is not described.
    hidden: bool,
    /// Why the sets found here are supersets, if they are.
    doubt: Option<&'static str>,
}

impl Uncounted {
    /// The reason as the page shows it.
    fn why(self) -> &'static str {
        match self {
            Self::DataDecides => "the number of iterations depends on data",
            Self::TooMany => "a loop has too many iterations to follow each of them",
        }
    }
}

impl<'a> Search<'a> {
    /// The elements of arrays outside of a loop that elements of one of its results need.
    pub(crate) fn through_loop(
        &mut self,
        node: NodeId,
        result: usize,
        needed: &Elements,
        known: &Scalars,
    ) -> Vec<(ValueId, Elements)> {
        let program = self.program;
        let id = node;
        let node = &program.nodes[id];
        let NodeKind::While {
            condition,
            body,
            states,
        } = &node.kind
        else {
            return Vec::new();
        };
        let Some(&state) = states.get(result) else {
            return Vec::new();
        };
        let last = Needed::from_iter([(state, needed.clone())]);
        let mut trace = LoopTrace {
            node: id,
            name: node.origin,
            parent: self.place.inside,
            trips: None,
            iteration: 0,
            states: Needed::default(),
            reads: Needed::default(),
        };
        let around = self.place.clone();
        self.place.inside = Some(id);
        let regions = (condition, body, &states[..]);
        let (needed, outside) = match self.counted(node, states, known) {
            Ok(iterations) => {
                let trips = iterations.len();
                let most = trips.saturating_sub(1);
                let wanted = self.iterations.get(&id.as_u32());
                let wanted = wanted.map_or(most, |&wanted| wanted.min(most));
                (trace.trips, trace.iteration) = (Some(trips), wanted);
                self.backwards((body, states), last, &iterations, &mut trace)
            }
            Err(why) => {
                self.place.doubt = Some(why.why());
                let found = self.until_stable(regions, last, known, why.why());
                (trace.states, trace.reads) = found.clone();
                found
            }
        };
        self.place = around;
        if !self.place.hidden {
            self.add_trace(trace);
        }
        let mut read = sorted(&outside);
        for (&state, &operand) in states.iter().zip(&node.operands) {
            if let Some(elements) = needed.get(&state) {
                read.push((operand, elements.clone()));
            }
        }
        read
    }

    /// The known scalars in each iteration of a loop, unless the sets of all iterations are too
    /// large.
    fn counted(
        &mut self,
        node: &'a Node,
        states: &[ValueId],
        known: &Scalars,
    ) -> Result<Vec<Scalars>, Uncounted> {
        let iterations = self.scalars.count(node, known)?.iterations;
        let counts = states
            .iter()
            .filter_map(|&state| element_count(self.program, state));
        let bytes: usize = counts.map(|count| count / 8).sum();
        let bytes = bytes.saturating_mul(iterations.len());
        self.bytes = self.bytes.saturating_add(bytes);
        match self.bytes <= MOST_BYTES {
            true => Ok(iterations),
            false => Err(Uncounted::TooMany),
        }
    }

    /// Records a loop. If the loop was recorded before, for another of its results, the sets are
    /// merged.
    fn add_trace(&mut self, mut trace: LoopTrace) {
        if let Some(doubt) = self.place.doubt {
            for elements in trace.states.values_mut().chain(trace.reads.values_mut()) {
                elements.at_most(doubt);
            }
        }
        let known = self.loops.iter_mut().find(|own| own.node == trace.node);
        let Some(known) = known else {
            self.loops.push(trace);
            return;
        };
        for (own, more) in [
            (&mut known.states, &trace.states),
            (&mut known.reads, &trace.reads),
        ] {
            for (value, elements) in more {
                merge(own, *value, elements);
            }
        }
    }

    /// Searches from the last iteration to the first. Returns the needed elements of the initial
    /// states and of arrays outside of the loop, and stores those of the described iteration in
    /// `trace`.
    fn backwards(
        &mut self,
        (body, states): (&'a Region, &[ValueId]),
        mut needed: Needed,
        iterations: &[Scalars],
        trace: &mut LoopTrace,
    ) -> (Needed, Needed) {
        let mut outside = Needed::default();
        let hidden = self.place.hidden;
        for (number, known) in iterations.iter().enumerate().rev() {
            let mut own = Needed::default();
            self.place.hidden = hidden || number != trace.iteration;
            needed = self.iteration_back((body, states), &needed, known, &mut own);
            for (&value, elements) in &own {
                merge(&mut outside, value, elements);
            }
            if number == trace.iteration {
                trace.states.clone_from(&needed);
                trace.reads = own;
            }
        }
        (needed, outside)
    }

    /// Searches one iteration: from the states after it to the states before it.
    fn iteration_back(
        &mut self,
        (body, states): (&'a Region, &[ValueId]),
        needed: &Needed,
        known: &Scalars,
        outside: &mut Needed,
    ) -> Needed {
        let mut next = Needed::default();
        for (&state, &given) in states.iter().zip(&body.results) {
            if let Some(elements) = needed.get(&state) {
                merge(&mut next, given, elements);
            }
        }
        let found = self.through_region(body, next, known);
        let mut before = Needed::default();
        for (value, elements) in found {
            match states.contains(&value) {
                true => merge(&mut before, value, &elements),
                false => merge(outside, value, &elements),
            };
        }
        before
    }

    /// Searches iterations until one adds nothing, for a loop whose trip count is unknown and may
    /// be zero. The elements that the loop's condition reads are needed, too.
    fn until_stable(
        &mut self,
        (condition, body, states): (&'a Region, &'a Region, &[ValueId]),
        mut needed: Needed,
        known: &Scalars,
        why: &str,
    ) -> (Needed, Needed) {
        // Scalars that do not depend on the states are the same in all iterations.
        let mut known = known.clone();
        self.scalars.region(condition, &mut known);
        self.scalars.region(body, &mut known);
        let mut outside = Needed::default();
        let mut test = Needed::default();
        if let Some(&result) = condition.results.first() {
            let mut one = Elements::none(1);
            one.insert(0);
            test.insert(result, one);
        }
        for (value, elements) in self.through_region(condition, test, &known) {
            match states.contains(&value) {
                true => merge(&mut needed, value, &elements),
                false => merge(&mut outside, value, &elements),
            };
        }
        let mut grows = true;
        for _ in 0..MOST_ROUNDS {
            let before = self.iteration_back((body, states), &needed, &known, &mut outside);
            grows = false;
            for (state, elements) in before {
                grows |= merge(&mut needed, state, &elements);
            }
            if !grows {
                break;
            }
        }
        for (&value, elements) in needed.iter_mut().chain(outside.iter_mut()) {
            if grows && let Some(size) = element_count(self.program, value) {
                elements.insert_all(size);
            }
            elements.at_most(why);
        }
        (needed, outside)
    }

    /// The elements of arrays outside of a conditional that its branches need, and the selector.
    pub(crate) fn through_choice(
        &mut self,
        node: &'a Node,
        branches: &'a [Region],
        (result, needed): (usize, &Elements),
        known: &Scalars,
    ) -> Vec<(ValueId, Elements)> {
        let selector = node.operands.first().copied();
        let taken = selector.and_then(|value| self.scalars.taken(value, branches.len(), known));
        let around = self.place.clone();
        if taken.is_none() && branches.len() > 1 {
            self.place.doubt = Some(DATA_CHOOSES);
        }
        let mut found = Needed::default();
        for (number, branch) in branches.iter().enumerate() {
            let Some(&given) = branch.results.get(result) else {
                continue;
            };
            if taken.is_some_and(|taken| taken != number) {
                continue;
            }
            let start = Needed::from_iter([(given, needed.clone())]);
            let mut scalars = known.clone();
            self.scalars.region(branch, &mut scalars);
            for (value, mut elements) in self.through_region(branch, start, &scalars) {
                if taken.is_none() && branches.len() > 1 {
                    elements.at_most(DATA_CHOOSES);
                }
                merge(&mut found, value, &elements);
            }
        }
        self.place = around;
        if let Some(selector) = selector {
            let mut one = Elements::none(1);
            one.insert(0);
            merge(&mut found, selector, &one);
        }
        sorted(&found)
    }
}

fn merge(needed: &mut Needed, value: ValueId, elements: &Elements) -> bool {
    match needed.get_mut(&value) {
        Some(own) => own.union(elements),
        None => {
            needed.insert(value, elements.clone());
            elements.count > 0
        }
    }
}
