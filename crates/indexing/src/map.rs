//! The indexing map: a function from the points of a domain to indices.

use std::sync::Arc;

use smallvec::SmallVec;
use tegula_expr::{Interval, Term, Var, VarRanges};
use tegula_ir::{InstructionId, ReplicaGroups};

/// A variable of a map: its bounds, and its name if it is not the default one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Variable {
    /// The values that it takes, both ends included.
    pub bounds: Interval,
    /// Its name; `None` for the default (`d0`, `s0`, `rt0`, ...).
    pub name: Option<Arc<str>>,
}

impl Variable {
    /// A variable with the default name.
    pub fn new(bounds: Interval) -> Self {
        Self { bounds, name: None }
    }

    /// The index of a dimension of `size` elements.
    pub fn of_size(size: i64) -> Self {
        Self::new(Interval::of_size(size))
    }
}

impl From<Interval> for Variable {
    fn from(bounds: Interval) -> Self {
        Self::new(bounds)
    }
}

/// Where a run-time variable gets its value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RuntimeSource {
    /// An element of an instruction's result.
    Element {
        /// The instruction.
        instruction: InstructionId,
        /// The element's index: terms over the variables of the map that has
        /// the run-time variable.
        index: Vec<Term>,
        /// Whether the element is clamped into the variable's bounds before use,
        /// as HLO does with dynamic offsets.
        clamped: bool,
    },
    /// A size: a term over the module's symbols.
    Size(Term),
    /// The position of the participant that runs the map in its replica group.
    Position(Arc<ReplicaGroups>),
}

/// The participant of a collective whose array a map leads to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Participant {
    /// The groups in which participants exchange; no list means all of them.
    pub groups: Arc<ReplicaGroups>,
    /// The participant's position in its group, over the map's variables.
    pub position: Term,
}

/// A variable whose value is known when the program runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RuntimeVariable {
    /// Its bounds and name.
    pub variable: Variable,
    /// Where its value comes from; `None` if unknown.
    pub source: Option<RuntimeSource>,
    /// Its largest value, if that depends on sizes known at run time: a term over the variables of
    /// its map. A clamped source is clamped to it. The bounds hold for all values of those sizes.
    pub upper_bound: Option<Term>,
}

/// A constraint on the domain: `lower <= term <= upper`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Constraint {
    /// The constrained term.
    pub term: Term,
    /// The interval that it must be in.
    pub interval: Interval,
}

/// Whether a map is defined, and whether its domain is known to be empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Status {
    /// The map is defined by its results and domain.
    #[default]
    Ok,
    /// The domain is known to be empty.
    Empty,
    /// The relation cannot be described as a map.
    Undefined,
}

/// Whether a map names exactly the related indices or more than those.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Exactness {
    /// Every point of the domain is an element that is really accessed.
    #[default]
    Exact,
    /// Every element that is accessed is a point of the domain, but some points may not be
    /// accessed.
    Superset,
}

impl Exactness {
    /// The exactness of something derived from both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if self == Self::Exact { other } else { self }
    }
}

/// A function from dimension, range and run-time variables to indices, defined
/// where the variables are in their bounds and the constraints hold.
///
/// Variables share one number space: dimensions, then ranges, then run-time
/// variables, each `Var(i)` by position. A dimension variable is an index of the
/// array that the map starts from; a range variable runs over further elements
/// that one such index is related to; a run-time variable has one value per run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct IndexingMap {
    /// Dimension variables.
    pub dims: Vec<Variable>,
    /// Range variables.
    pub ranges: Vec<Variable>,
    /// Run-time variables.
    pub runtime: Vec<RuntimeVariable>,
    /// One term for each dimension of the array the map leads to.
    pub results: Vec<Term>,
    /// Constraints on the domain beyond the bounds.
    pub constraints: Vec<Constraint>,
    /// Whether every point is really accessed.
    pub exactness: Exactness,
    /// The participant whose array the results index; `None` if it is the one that runs the map.
    pub participant: Option<Box<Participant>>,
    /// Whether the map is defined, and whether it is known to be empty.
    pub status: Status,
}

impl IndexingMap {
    /// A map with only dimensions, of the given sizes.
    pub fn over(sizes: &[i64]) -> Self {
        let dims = sizes.iter().map(|size| Variable::of_size(*size)).collect();
        Self {
            dims,
            ..Self::default()
        }
    }

    /// The identity over dimensions of the given sizes.
    pub fn identity(sizes: &[i64]) -> Self {
        let mut map = Self::over(sizes);
        map.results = (0..sizes.len()).map(|dim| map.dim(dim)).collect();
        map
    }

    /// The map of a relation that cannot be described.
    pub fn undefined() -> Self {
        Self {
            status: Status::Undefined,
            ..Self::default()
        }
    }

    /// A map with an empty domain.
    pub fn empty() -> Self {
        Self {
            status: Status::Empty,
            ..Self::default()
        }
    }

    /// Whether the domain is known to be empty.
    pub fn is_empty(&self) -> bool {
        self.status == Status::Empty
    }

    /// Whether the relation cannot be described.
    pub fn is_undefined(&self) -> bool {
        self.status == Status::Undefined
    }

    /// The number of variables of all three kinds.
    pub fn variable_count(&self) -> usize {
        self.dims.len() + self.ranges.len() + self.runtime.len()
    }

    /// All variables, in the order of their numbers.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        let runtime = self.runtime.iter().map(|runtime| &runtime.variable);
        self.dims.iter().chain(&self.ranges).chain(runtime)
    }

    /// All variables, in the order of their numbers.
    pub fn variables_mut(&mut self) -> impl Iterator<Item = &mut Variable> {
        let runtime = self.runtime.iter_mut().map(|runtime| &mut runtime.variable);
        self.dims.iter_mut().chain(&mut self.ranges).chain(runtime)
    }

    /// The bounds of all variables, in the order of their numbers.
    pub fn bounds(&self) -> SmallVec<[Interval; 8]> {
        self.variables().map(|variable| variable.bounds).collect()
    }

    /// The term of a dimension variable.
    pub fn dim(&self, position: usize) -> Term {
        variable(position)
    }

    /// The term of a range variable.
    pub fn range(&self, position: usize) -> Term {
        variable(self.dims.len() + position)
    }

    /// The term of a run-time variable.
    pub fn runtime_term(&self, position: usize) -> Term {
        variable(self.dims.len() + self.ranges.len() + position)
    }

    /// Adds a range variable and returns its term. The run-time variables in all terms are
    /// renumbered to make room.
    pub fn push_range(&mut self, variable: impl Into<Variable>) -> Term {
        let position = self.ranges.len();
        let first_runtime = self.dims.len() + position;
        self.ranges.push(variable.into());
        if !self.runtime.is_empty() {
            self.for_each_term(&mut |term| {
                *term = renumber(term, &|var| {
                    if var >= first_runtime { var + 1 } else { var }
                });
            });
        }
        self.range(position)
    }

    /// Adds a run-time variable and returns its term.
    pub fn push_runtime(&mut self, bounds: Interval, source: Option<RuntimeSource>) -> Term {
        self.runtime.push(RuntimeVariable {
            variable: Variable::new(bounds),
            source,
            upper_bound: None,
        });
        self.runtime_term(self.runtime.len() - 1)
    }

    /// Adds a constraint to the domain.
    pub fn constrain(&mut self, term: Term, interval: Interval) {
        self.constraints.push(Constraint { term, interval });
    }

    /// Everything that keeps the variables from taking all values in `outer`: narrower bounds, and
    /// the constraints. A loop over `outer` has to test exactly these.
    pub fn restrictions(&self, outer: &[Interval]) -> Vec<Constraint> {
        let mut found = Vec::new();
        for (position, own) in self.variables().enumerate() {
            if outer
                .get(position)
                .is_some_and(|outer| !own.bounds.contains_all(outer))
            {
                found.push(Constraint {
                    term: variable(position),
                    interval: own.bounds,
                });
            }
        }
        found.extend(self.constraints.iter().cloned());
        found
    }

    /// Calls `f` with every term: results, constraints, source indices and upper bounds of run-time
    /// variables, and the participant's position.
    pub fn for_each_term(&mut self, f: &mut dyn FnMut(&mut Term)) {
        self.results.iter_mut().for_each(&mut *f);
        self.constraints
            .iter_mut()
            .for_each(|constraint| f(&mut constraint.term));
        if let Some(participant) = &mut self.participant {
            f(&mut participant.position);
        }
        for runtime in &mut self.runtime {
            if let Some(RuntimeSource::Element { index, .. }) = &mut runtime.source {
                index.iter_mut().for_each(&mut *f);
            }
            runtime.upper_bound.iter_mut().for_each(&mut *f);
        }
    }

    /// The map to the only element of a scalar, with the same domain.
    #[must_use]
    pub(crate) fn without_results(mut self) -> Self {
        self.results.clear();
        self
    }

    /// Removes the sources of run-time variables that are elements, so that these may take any
    /// value in their bounds.
    pub(crate) fn forget_elements(&mut self) {
        for runtime in &mut self.runtime {
            if matches!(runtime.source, Some(RuntimeSource::Element { .. })) {
                runtime.source = None;
            }
        }
    }

    /// Whether no result contains a division, remainder, minimum, maximum or the like.
    pub fn is_affine(&self) -> bool {
        self.results.iter().all(Term::is_affine)
    }
}

impl VarRanges for IndexingMap {
    fn range(&self, var: Var) -> Interval {
        let position = var.0 as usize;
        self.variables()
            .nth(position)
            .map_or(Interval::FULL, |variable| variable.bounds)
    }
}

/// The term of the variable with this number.
pub(crate) fn variable(position: usize) -> Term {
    Term::var(Var(u32::try_from(position).unwrap_or(u32::MAX)))
}

/// The term with its variables renumbered.
pub(crate) fn renumber(term: &Term, number: &dyn Fn(usize) -> usize) -> Term {
    term.substitute(&mut |var| Some(variable(number(var.0 as usize))))
}
