//! Elements through the iterations of a loop, and through the branches of a choice.
//!
//! A loop that counts is run first with nothing but its counters, so that each iteration's offsets
//! are known. Then the needed elements go backwards, iteration by iteration: what an iteration
//! reads of its state is what is needed of the state before it. Where data decides how often the
//! loop runs, the sets grow until an iteration adds nothing, and are supersets.
//!
//! A loop inside of another one is gone through in each iteration of the outer one, with what is
//! known there: it may count to another number each time. Of each loop one iteration is shown; of an
//! inner loop, one in the iteration of the outer loop that is shown.

use super::{Needed, Search, element_count, sorted};
use crate::elements::Elements;
use crate::scalars::{Scalars, Uncounted};
use tegula_fusion::{Node, NodeId, NodeKind, Region, ValueId};
use tegula_ir::InstructionId;

/// Rounds after which sets that still grow are taken to be all.
const MOST_ROUNDS: usize = 64;
/// Why a branch's elements are needed at most.
const DATA_CHOOSES: &str = "which branch is taken depends on data";
/// Bytes of sets that are gone through for one question, iteration by iteration.
const MOST_BYTES: usize = 1 << 31;

/// What was found out about a loop.
pub(crate) struct LoopTrace {
    /// The loop.
    pub(crate) node: NodeId,
    /// What names it.
    pub(crate) name: InstructionId,
    /// The loop that it is in; its iterations are those of the iteration of that one that is shown.
    pub(crate) parent: Option<NodeId>,
    /// How often it runs, if that is known.
    pub(crate) trips: Option<usize>,
    /// The iteration whose elements follow.
    pub(crate) iteration: usize,
    /// The states at its start with the elements that are needed.
    pub(crate) states: Needed,
    /// What the iteration itself reads of arrays outside of the loop.
    pub(crate) reads: Needed,
}

/// Where a search is among loops.
#[derive(Clone, Default)]
pub(crate) struct Place {
    /// The loop whose body is gone through.
    inside: Option<NodeId>,
    /// Whether this is not the iteration of a loop around that is shown.
    hidden: bool,
    /// Why what is found here is needed at most.
    doubt: Option<&'static str>,
}

impl Uncounted {
    /// What the page says.
    fn why(self) -> &'static str {
        match self {
            Self::DataDecides => "how often a loop runs depends on data",
            Self::TooMany => "a loop has too many iterations to follow each of them",
        }
    }
}

impl<'a> Search<'a> {
    /// What of the arrays outside of a loop is needed for elements of one of its results.
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

    /// What is known in each iteration of a loop, if there are not too many to go through.
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

    /// A loop that is come to several times, as for several of its results, is one.
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

    /// From the last iteration to the first. Gives what is needed of the first states, and of
    /// arrays outside of the loop; keeps what the traced iteration needs.
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

    /// One iteration backwards.
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

    /// Iterations backwards until one adds nothing: how often the loop runs is not known, and may
    /// be not at all. What decides it is needed, too.
    fn until_stable(
        &mut self,
        (condition, body, states): (&'a Region, &'a Region, &[ValueId]),
        mut needed: Needed,
        known: &Scalars,
        why: &str,
    ) -> (Needed, Needed) {
        // What does not depend on the states is the same in all iterations.
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

    /// What the branches of a choice need of arrays outside of them, and the selector.
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
