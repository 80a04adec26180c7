//! Elements through the iterations of a loop, and through the branches of a choice.
//!
//! A loop that counts is run first with nothing but its counters, so that each iteration's offsets
//! are known. Then the needed elements go backwards, iteration by iteration: what an iteration
//! reads of its state is what is needed of the state before it. Where data decides how often the
//! loop runs, the sets grow until an iteration adds nothing, and are supersets.

use crate::elements::Elements;
use crate::scalars::{Scalars, evaluate, value_of};
use crate::search::{LoopTrace, Needed, Search, element_count};
use tegula_fusion::{Node, NodeKind, Region, ValueId};

/// Iterations that are counted before the loop is one whose count is not known.
const MOST_TRIPS: usize = 20_000;
/// Operations that are evaluated to count.
const MOST_STEPS: usize = 4_000_000;
/// Rounds after which sets that still grow are taken to be all.
const MOST_ROUNDS: usize = 64;
/// Bytes of sets that are gone through, iteration by iteration.
const MOST_BYTES: usize = 1 << 31;

/// Why iterations are not followed one by one.
const DATA_DECIDES: &str = "how often a loop runs depends on data";
const TOO_MANY: &str = "a loop has too many iterations to follow each of them";

impl<'a> Search<'a> {
    /// What of the arrays outside of a loop is needed for elements of one of its results.
    pub(crate) fn through_loop(
        &mut self,
        node: &'a Node,
        result: usize,
        needed: &Elements,
        known: &Scalars,
    ) -> Vec<(ValueId, Elements)> {
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
        let is_outermost = self.depth == 0;
        let mut trace = LoopTrace {
            name: node.origin,
            trips: None,
            iteration: 0,
            states: Vec::new(),
            reads: Vec::new(),
        };
        self.depth += 1;
        let bytes: usize = states
            .iter()
            .filter_map(|&state| element_count(self.program, state))
            .map(|count| count / 8)
            .sum();
        let iterations = self.iterations(node, (condition, body, states), known);
        let affordable = |trips: usize| bytes.saturating_mul(trips) <= MOST_BYTES;
        let iterations = match iterations {
            Ok(known) if !affordable(known.len()) => Err(TOO_MANY),
            other => other,
        };
        let (needed, outside) = match iterations {
            Ok(iterations) => {
                let trips = iterations.len();
                let wanted = self.iteration.unwrap_or(trips.saturating_sub(1));
                let wanted = wanted.min(trips.saturating_sub(1));
                (trace.trips, trace.iteration) = (Some(trips), wanted);
                self.backwards((body, states), last, &iterations, &mut trace)
            }
            Err(why) => {
                let found = self.until_stable((condition, body, states), last, why);
                trace.states = sorted(&found.0);
                trace.reads = sorted(&found.1);
                found
            }
        };
        self.depth -= 1;
        if is_outermost {
            self.add_trace(trace);
        }
        let mut read: Vec<(ValueId, Elements)> = outside.into_iter().collect();
        read.sort_by_key(|(value, _)| *value);
        for (&state, &operand) in states.iter().zip(&node.operands) {
            if let Some(elements) = needed.get(&state) {
                read.push((operand, elements.clone()));
            }
        }
        read
    }

    /// A loop of which several results are asked for is one.
    fn add_trace(&mut self, trace: LoopTrace) {
        let known = self.loops.iter_mut().find(|own| own.name == trace.name);
        let Some(known) = known else {
            self.loops.push(trace);
            return;
        };
        for (own, more) in [
            (&mut known.states, &trace.states),
            (&mut known.reads, &trace.reads),
        ] {
            let mut all: Needed = std::mem::take(own).into_iter().collect();
            for (value, elements) in more {
                merge(&mut all, *value, elements);
            }
            *own = sorted(&all);
        }
    }

    /// What is known of single elements in each iteration, or why that is not known.
    fn iterations(
        &self,
        node: &Node,
        (condition, body, states): (&Region, &Region, &[ValueId]),
        known: &Scalars,
    ) -> Result<Vec<Scalars>, &'static str> {
        let value = |known: &Scalars, value: ValueId| value_of(self.program, known, value);
        let mut now: Vec<Option<u128>> = node
            .operands
            .iter()
            .map(|&operand| value(known, operand))
            .collect();
        let mut all = Vec::new();
        let mut steps = 0;
        loop {
            let mut scalars = known.clone();
            let own = states.iter().zip(&now);
            scalars.extend(own.filter_map(|(&state, value)| Some((state, (*value)?))));
            evaluate(self.module, self.program, condition, &mut scalars);
            let test = condition.results.first();
            let goes_on = test.and_then(|&test| value(&scalars, test));
            if goes_on.ok_or(DATA_DECIDES)? & 1 == 0 {
                return Ok(all);
            }
            evaluate(self.module, self.program, body, &mut scalars);
            now = body
                .results
                .iter()
                .map(|&result| value(&scalars, result))
                .collect();
            steps += condition.nodes.len() + body.nodes.len() + scalars.len();
            all.push(scalars);
            if all.len() > MOST_TRIPS || steps > MOST_STEPS {
                return Err(TOO_MANY);
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
        for (number, known) in iterations.iter().enumerate().rev() {
            let mut own = Needed::default();
            needed = self.iteration_back((body, states), &needed, known, &mut own);
            for (&value, elements) in &own {
                merge(&mut outside, value, elements);
            }
            if number == trace.iteration {
                trace.states = sorted(&needed);
                trace.reads = sorted(&own);
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
        why: &str,
    ) -> (Needed, Needed) {
        let none = Scalars::default();
        let mut outside = Needed::default();
        let mut test = Needed::default();
        if let Some(&result) = condition.results.first() {
            let mut one = Elements::none(1);
            one.insert(0);
            test.insert(result, one);
        }
        for (value, elements) in self.through_region(condition, test, &none) {
            match states.contains(&value) {
                true => merge(&mut needed, value, &elements),
                false => merge(&mut outside, value, &elements),
            };
        }
        let mut grows = true;
        for _ in 0..MOST_ROUNDS {
            let before = self.iteration_back((body, states), &needed, &none, &mut outside);
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
        let chosen = selector.and_then(|value| self.chosen(value, branches.len(), known));
        let mut found = Needed::default();
        for (number, branch) in branches.iter().enumerate() {
            let Some(&given) = branch.results.get(result) else {
                continue;
            };
            if chosen.is_some_and(|chosen| chosen != number) {
                continue;
            }
            let start = Needed::from_iter([(given, needed.clone())]);
            let mut scalars = known.clone();
            evaluate(self.module, self.program, branch, &mut scalars);
            for (value, mut elements) in self.through_region(branch, start, &scalars) {
                if chosen.is_none() && branches.len() > 1 {
                    elements.at_most("which branch is taken depends on data");
                }
                merge(&mut found, value, &elements);
            }
        }
        if let Some(selector) = selector {
            let mut one = Elements::none(1);
            one.insert(0);
            merge(&mut found, selector, &one);
        }
        sorted(&found)
    }

    /// Which branch is taken, if the selector is known.
    fn chosen(&self, selector: ValueId, branches: usize, known: &Scalars) -> Option<usize> {
        let element_type = self.program.values[selector].shape.element_type;
        let bits = value_of(self.program, known, selector)?;
        let number = crate::scalars::integer(element_type, bits)?;
        let last = branches.checked_sub(1)?;
        match element_type == tegula_ir::ElementType::Pred {
            // A pred selects 0 for true and 1 for false.
            true => Some(usize::from(number == 0)),
            // HLO takes the last branch for what is out of range.
            false => Some(usize::try_from(number).map_or(last, |number| number.min(last))),
        }
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

fn sorted(needed: &Needed) -> Vec<(ValueId, Elements)> {
    let mut all: Vec<_> = needed.iter().map(|(&v, e)| (v, e.clone())).collect();
    all.sort_by_key(|(value, _)| *value);
    all
}
