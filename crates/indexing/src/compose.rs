//! Composition of maps, and removal of unused variables.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tegula_expr::{Interval, Term, Var};

use crate::map::{
    Constraint, Exactness, IndexingMap, Participant, RuntimeSource, RuntimeVariable, Status,
    renumber, variable,
};
use crate::table;

impl IndexingMap {
    /// The map that applies `self` and then `next`: from the array that `self`
    /// starts from to the array that `next` leads to.
    ///
    /// The results of `self` become the dimensions of `next`, whose bounds become
    /// constraints. Ranges and run-time variables of `self` come first. Undefined
    /// if either is, or if `self` does not have exactly one result for each dimension of
    /// `next`. Not simplified.
    #[must_use]
    pub fn compose(&self, next: &Self) -> Self {
        let rank_differs = self.status == Status::Ok
            && next.status == Status::Ok
            && self.results.len() != next.dims.len();
        if self.is_undefined() || next.is_undefined() || rank_differs {
            return Self::undefined();
        }
        if self.is_empty() || next.is_empty() {
            return Self::empty();
        }
        let (dims, ranges) = (self.dims.len(), self.ranges.len());
        // The positions of either map's variables in the composition.
        let own = |var: usize| {
            if var < dims + ranges {
                var
            } else {
                var + next.ranges.len()
            }
        };
        let all_ranges = ranges + next.ranges.len();
        let outer: Vec<Term> = self
            .results
            .iter()
            .map(|term| renumber(term, &own))
            .collect();
        let reader = self.position_of_reader(next, &own);
        let looked_up = |term: &Term| {
            let mut positions = reader.iter();
            positions.find_map(|(&var, position)| {
                table::composed(term, Var(u32::try_from(var).ok()?), position)
            })
        };
        let substituted = |term: &Term| {
            term.substitute(&mut |var| {
                let var = var.0 as usize;
                if let Some(position) = reader.get(&var) {
                    return Some(position.clone());
                }
                let number = match var.checked_sub(next.dims.len()) {
                    None => return outer.get(var).cloned(),
                    Some(range) if range < next.ranges.len() => dims + ranges + range,
                    Some(other) => {
                        dims + all_ranges + self.runtime.len() + (other - next.ranges.len())
                    }
                };
                Some(variable(number))
            })
        };
        let theirs = |term: &Term| looked_up(term).unwrap_or_else(|| substituted(term));
        let Ok(participant) = self.participant_after(next, &own, &theirs) else {
            return Self::undefined();
        };
        let mut map = Self {
            dims: self.dims.clone(),
            ranges: self.ranges.iter().chain(&next.ranges).cloned().collect(),
            runtime: Vec::new(),
            results: next.results.iter().map(theirs).collect(),
            constraints: Vec::new(),
            exactness: self.exactness.and(next.exactness),
            participant,
            status: Status::Ok,
        };
        map.runtime.extend(
            self.runtime
                .iter()
                .map(|r| moved(r, &|term| renumber(term, &own))),
        );
        map.runtime
            .extend(next.runtime.iter().map(|r| moved(r, &theirs)));
        for constraint in &self.constraints {
            map.constrain(renumber(&constraint.term, &own), constraint.interval);
        }
        for (term, dim) in outer.iter().zip(&next.dims) {
            map.constrain(term.clone(), dim.bounds);
        }
        for constraint in &next.constraints {
            map.constrain(theirs(&constraint.term), constraint.interval);
        }
        map.merge_runtime_variables();
        map.drop_decided_constraints();
        map.forget_duplicate_names();
        map
    }

    /// Merges run-time variables that have the same value in every run: those of equal sizes, and
    /// those that read the same element in the same way.
    pub fn merge_runtime_variables(&mut self) {
        let first = self.dims.len() + self.ranges.len();
        let mut position = 1;
        while position < self.runtime.len() {
            let twin = self.runtime.get(position).and_then(|own| {
                let earlier = self.runtime.iter().take(position);
                earlier.clone().position(|other| is_same_value(other, own))
            });
            let Some(twin) = twin else {
                position += 1;
                continue;
            };
            let bounds = self.runtime.get(position).map(|own| own.variable.bounds);
            if let (Some(kept), Some(bounds)) = (self.runtime.get_mut(twin), bounds) {
                kept.variable.bounds = kept.variable.bounds.intersect(&bounds);
            }
            let (from, to) = (first + position, first + twin);
            self.for_each_term(&mut |term| {
                *term = renumber(term, &|var| if var == from { to } else { var });
            });
            let mut keep = vec![true; self.variable_count()];
            if let Some(slot) = keep.get_mut(from) {
                *slot = false;
            }
            self.keep_variables(&keep);
        }
    }

    /// The run-time variables of `next` that stand for the position of the participant that runs
    /// `next`, each with its value. Empty if `self` reads from the participant that runs it.
    fn position_of_reader(
        &self,
        next: &Self,
        own: &dyn Fn(usize) -> usize,
    ) -> FxHashMap<usize, Term> {
        let Some(participant) = &self.participant else {
            return FxHashMap::default();
        };
        let first = next.dims.len() + next.ranges.len();
        let positions = next.runtime.iter().enumerate().filter(|(_, runtime)| {
            matches!(&runtime.source, Some(RuntimeSource::Position(groups))
                if *groups == participant.groups)
        });
        positions
            .map(|(number, _)| (first + number, renumber(&participant.position, own)))
            .collect()
    }

    /// The participant whose array the composition leads to. Positions in groups of different kinds
    /// are unrelated.
    fn participant_after(
        &self,
        next: &Self,
        own: &dyn Fn(usize) -> usize,
        theirs: &dyn Fn(&Term) -> Term,
    ) -> Result<Option<Box<Participant>>, MixedGroups> {
        let with = |participant: &Participant, position: Term| {
            Some(Box::new(Participant {
                groups: participant.groups.clone(),
                position,
            }))
        };
        match (&self.participant, &next.participant) {
            (None, None) => Ok(None),
            (Some(first), None) => Ok(with(first, renumber(&first.position, own))),
            (None, Some(second)) => Ok(with(second, theirs(&second.position))),
            (Some(first), Some(second)) if first.groups == second.groups => {
                Ok(with(second, theirs(&second.position)))
            }
            (Some(_), Some(_)) => Err(MixedGroups),
        }
    }

    /// Drops constraints that the bounds imply. An unsatisfiable constraint makes the map empty.
    /// Uses intervals only, so it is cheap.
    fn drop_decided_constraints(&mut self) {
        let bounds = self.bounds();
        let mut impossible = bounds.iter().any(Interval::is_empty);
        self.constraints.retain(|Constraint { term, interval }| {
            let range = tegula_expr::range_of(term, bounds.as_slice());
            impossible |= interval.intersect(&range).is_empty();
            !interval.contains_all(&range)
        });
        if impossible {
            *self = Self::empty();
        }
    }

    /// Resets duplicate names of variables to their default: in print, the variables could not be
    /// told apart.
    fn forget_duplicate_names(&mut self) {
        let mut seen = rustc_hash::FxHashSet::default();
        for variable in self.variables_mut() {
            if let Some(name) = &variable.name
                && !seen.insert(name.clone())
            {
                variable.name = None;
            }
        }
    }

    /// Drops range and run-time variables that occur in no result and no constraint. Dimensions
    /// stay, because they are the index that the map starts from. A range variable with empty
    /// bounds stays too, because it makes the domain empty.
    pub fn remove_unused_variables(&mut self) {
        let mut used = vec![false; self.variable_count()];
        let mark = |term: &Term, used: &mut Vec<bool>| {
            term.for_each_var(&mut |var| {
                if let Some(slot) = used.get_mut(var.0 as usize) {
                    *slot = true;
                }
            });
        };
        for term in self
            .results
            .iter()
            .chain(self.constraints.iter().map(|c| &c.term))
            .chain(self.participant.iter().map(|p| &p.position))
        {
            mark(term, &mut used);
        }
        // The index of a source uses variables only if its own variable is used. Later run-time
        // variables may depend on earlier ones.
        let first_runtime = self.dims.len() + self.ranges.len();
        for (position, runtime) in self.runtime.iter().enumerate().rev() {
            if !used.get(first_runtime + position).copied().unwrap_or(false) {
                continue;
            }
            if let Some(RuntimeSource::Element { index, .. }) = &runtime.source {
                index.iter().for_each(|term| mark(term, &mut used));
            }
            runtime
                .upper_bound
                .iter()
                .for_each(|term| mark(term, &mut used));
        }
        for (variable, used) in self.variables().zip(&mut used) {
            *used |= variable.bounds.is_empty();
        }
        used.iter_mut()
            .take(self.dims.len())
            .for_each(|used| *used = true);
        // An index that is not clamped reads nothing when it is out of bounds. Dropping its
        // variable would lose that condition, so the map becomes a superset.
        let forgets_bounds = self.runtime.iter().zip(used.iter().skip(first_runtime));
        if forgets_bounds.clone().any(|(runtime, used)| {
            let source = &runtime.source;
            !used && matches!(source, Some(RuntimeSource::Element { clamped: false, .. }))
        }) {
            self.exactness = Exactness::Superset;
        }
        self.keep_variables(&used);
    }

    /// Drops constraints that involve a range or run-time variable on which no result depends. The
    /// map then includes what they excluded, so it becomes a superset.
    pub(crate) fn drop_loose_constraints(&mut self) {
        let mut used = vec![false; self.variable_count()];
        used.iter_mut()
            .take(self.dims.len())
            .for_each(|used| *used = true);
        let position = self.participant.iter().map(|p| &p.position);
        for term in self.results.iter().chain(position) {
            term.for_each_var(&mut |var| {
                if let Some(slot) = used.get_mut(var.0 as usize) {
                    *slot = true;
                }
            });
        }
        let before = self.constraints.len();
        self.constraints.retain(|constraint| {
            let mut loose = false;
            let is_used = |var: tegula_expr::Var| used.get(var.0 as usize) == Some(&true);
            constraint
                .term
                .for_each_var(&mut |var| loose |= !is_used(var));
            !loose
        });
        if self.constraints.len() < before {
            self.exactness = Exactness::Superset;
        }
    }

    /// Removes the variables whose flag is false; they must not occur in any term.
    pub(crate) fn keep_variables(&mut self, keep: &[bool]) {
        let mut number = 0;
        let numbers: SmallVec<[usize; 8]> = keep
            .iter()
            .map(|keep| {
                let this = number;
                number += usize::from(*keep);
                this
            })
            .collect();
        let mut flags = keep.iter().copied();
        let mut next = || flags.next().unwrap_or(true);
        self.dims.retain(|_| next());
        self.ranges.retain(|_| next());
        self.runtime.retain(|_| next());
        self.for_each_term(&mut |term| {
            *term = renumber(term, &|var| numbers.get(var).copied().unwrap_or(var));
        });
    }

    /// The map with its range variables turned into dimensions, after its own dimensions.
    #[must_use]
    pub fn ranges_as_dims(&self) -> Self {
        let mut map = self.clone();
        let ranges = std::mem::take(&mut map.ranges);
        map.dims.extend(ranges);
        map
    }
}

/// Two collectives over different replica groups.
struct MixedGroups;

/// Whether two run-time variables of one map have one value in every run.
fn is_same_value(a: &RuntimeVariable, b: &RuntimeVariable) -> bool {
    let is_clamped = matches!(a.source, Some(RuntimeSource::Element { clamped: true, .. }));
    a.source.is_some()
        && a.source == b.source
        && a.upper_bound == b.upper_bound
        && (!is_clamped || a.variable.bounds == b.variable.bounds)
}

fn moved(runtime: &RuntimeVariable, term: &dyn Fn(&Term) -> Term) -> RuntimeVariable {
    let mut runtime = runtime.clone();
    if let Some(RuntimeSource::Element { index, .. }) = &mut runtime.source {
        index.iter_mut().for_each(|index| *index = term(index));
    }
    runtime.upper_bound = runtime.upper_bound.as_ref().map(term);
    runtime
}
