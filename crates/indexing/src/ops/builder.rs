//! Builds the map for one operand of an instruction.
//!
//! While a map is under construction, its range and run-time variables have temporary numbers
//! ([`RANGES`], [`RUNTIME`] and up), so that terms stay valid when variables are added in any
//! order. [`Draft::finish`] assigns the final numbers.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tegula_expr::{Interval, Term, Var, range_of};
use tegula_ir::{ArrayShape, Dim, Instruction, InstructionId, Module, Op};

use super::{Cause, MapOrCause, array, leaf_array};
use crate::map::{
    Exactness, IndexingMap, Participant, RuntimeSource, Variable, renumber, variable,
};

const RANGES: usize = 1 << 24;
const RUNTIME: usize = 1 << 25;

/// An instruction, with the information that is needed to build its maps.
pub(super) struct Builder<'a> {
    pub(super) module: &'a Module,
    pub(super) instruction: &'a Instruction,
    /// The number of the result's array, counted through its tuple from the left.
    shape_leaf: usize,
    /// The number of the array among those that the operation computes.
    pub(super) leaf: usize,
}

/// The largest extent assumed for a dimension whose size has no bound. No machine can hold a larger
/// array, and an array without elements has no points.
const MAX_EXTENT: i64 = 1 << 48;

/// The sizes of an array, all of them static.
pub(crate) type Sizes = SmallVec<[i64; 6]>;

/// The last index of a dimension of this size.
pub(super) fn last_index(size: &Term) -> Term {
    size.add(&Term::constant(-1))
}

/// The sizes of an array; an error if one is symbolic.
pub(crate) fn static_sizes(array: &ArrayShape) -> Result<Sizes, Cause> {
    array.static_dims().ok_or(Cause::SymbolicSize)
}

/// Converts the dimension number of an attribute to an index.
pub(super) fn index(dim: i64, rank: usize) -> Result<usize, Cause> {
    usize::try_from(dim)
        .ok()
        .filter(|dim| *dim < rank)
        .ok_or(Cause::Malformed)
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        module: &'a Module,
        instruction: &'a Instruction,
        shape_leaf: usize,
        leaf: usize,
    ) -> Self {
        Self {
            module,
            instruction,
            shape_leaf,
            leaf,
        }
    }

    pub(super) fn op(&self) -> &'a Op {
        &self.instruction.op
    }

    pub(super) fn operand_id(&self, operand: usize) -> Result<InstructionId, Cause> {
        self.instruction
            .operands
            .get(operand)
            .copied()
            .ok_or(Cause::Malformed)
    }

    /// The array of the result that the map is for.
    pub(super) fn output(&self) -> Result<&'a ArrayShape, Cause> {
        leaf_array(&self.instruction.shape, self.shape_leaf)
    }

    /// The array of an operand.
    pub(super) fn input(&self, operand: usize) -> Result<&'a ArrayShape, Cause> {
        let id = self.operand_id(operand)?;
        array(
            &self
                .module
                .instructions
                .get(id)
                .ok_or(Cause::Malformed)?
                .shape,
        )
    }

    /// A map that starts from an array and has no results yet.
    pub(super) fn draft(&self, from: &ArrayShape) -> Draft<'a> {
        draft(self.module, from)
    }

    /// The map of an operand if every element of it may affect every element of the result, with a
    /// range variable for each dimension of the result.
    pub(super) fn everywhere(&self, operand: usize) -> MapOrCause {
        let output = self.output()?;
        let mut draft = self.draft(self.input(operand)?);
        let results = output
            .dims
            .iter()
            .map(|dim| draft.range_over(dim))
            .collect();
        draft.finish(results)
    }
}

/// A map that starts from an array and has no results yet.
pub(super) fn draft<'a>(module: &'a Module, from: &ArrayShape) -> Draft<'a> {
    let mut draft = Draft {
        module,
        map: IndexingMap::default(),
        symbols: FxHashMap::default(),
    };
    for (position, dim) in from.dims.iter().enumerate() {
        let bounds = draft.bounds(dim);
        draft.map.dims.push(Variable::new(bounds));
        draft.stay_below(&variable(position), dim);
    }
    draft
}

/// A map under construction.
pub(super) struct Draft<'a> {
    module: &'a Module,
    pub(super) map: IndexingMap,
    /// The run-time variable for each symbol.
    symbols: FxHashMap<Var, Term>,
}

impl Draft<'_> {
    /// The term of a dimension variable.
    pub(super) fn dim(&self, position: usize) -> Term {
        variable(position)
    }

    /// The terms of all dimension variables.
    pub(super) fn dims(&self) -> Vec<Term> {
        (0..self.map.dims.len()).map(variable).collect()
    }

    fn symbol_range(&self, var: Var) -> Interval {
        let all = Interval::new(0, MAX_EXTENT);
        let symbol = self.module.symbols.get(var.0 as usize);
        symbol.map_or(all, |symbol| {
            all.intersect(&Interval::new(symbol.lower, symbol.upper))
        })
    }

    /// The range of a term over the module's symbols.
    fn term_range(&self, term: &Term) -> Interval {
        let mut ranges: FxHashMap<Var, Interval> = FxHashMap::default();
        term.for_each_var(&mut |var| {
            ranges.insert(var, self.symbol_range(var));
        });
        range_of(term, &ranges)
    }

    /// The indices of a dimension at the largest size that it can have.
    fn bounds(&self, dim: &Dim) -> Interval {
        let size = match dim {
            Dim::Static(size) => *size,
            Dim::Symbolic(term) => self.term_range(term).upper.min(MAX_EXTENT),
            Dim::Bounded { bound, .. } => *bound,
        };
        Interval::of_size(size)
    }

    /// The size of a dimension as a term over this map's variables.
    pub(super) fn extent(&mut self, dim: &Dim) -> Term {
        let term = match dim {
            Dim::Static(size) => return Term::constant(*size),
            Dim::Symbolic(size) | Dim::Bounded { size, .. } => size,
        };
        term.substitute(&mut |var| {
            if let Some(known) = self.symbols.get(&var) {
                return Some(known.clone());
            }
            let range = self.symbol_range(var);
            let extent = self.runtime(range, Some(RuntimeSource::Size(Term::var(var))));
            self.symbols.insert(var, extent.clone());
            Some(extent)
        })
    }

    /// The sizes of an array as terms over this map's variables.
    pub(super) fn extents(&mut self, array: &ArrayShape) -> Vec<Term> {
        array.dims.iter().map(|dim| self.extent(dim)).collect()
    }

    /// Constrains an index to be below the size of a dimension, unless its bounds already ensure
    /// that.
    fn stay_below(&mut self, index: &Term, dim: &Dim) {
        if dim.as_static().is_some() {
            return;
        }
        let most = self.bounds(dim).upper.saturating_add(1);
        let distance = index.sub(&self.extent(dim));
        self.map
            .constrain(distance, Interval::new(most.saturating_neg(), -1));
    }

    /// Adds a range variable over the indices of a dimension.
    pub(super) fn range_over(&mut self, dim: &Dim) -> Term {
        let bounds = self.bounds(dim);
        let index = self.range(bounds);
        self.stay_below(&index, dim);
        index
    }

    /// Adds a range variable.
    pub(super) fn range(&mut self, bounds: Interval) -> Term {
        self.map.ranges.push(Variable::new(bounds));
        variable(RANGES + self.map.ranges.len() - 1)
    }

    /// Adds a run-time variable.
    pub(super) fn runtime(&mut self, bounds: Interval, source: Option<RuntimeSource>) -> Term {
        self.map.push_runtime(bounds, source);
        variable(RUNTIME + self.map.runtime.len() - 1)
    }

    /// Adds a constraint, unless the bounds imply it.
    pub(super) fn constrain(&mut self, term: Term, lower: i64, upper: i64) {
        let interval = Interval::new(lower, upper);
        let ranges = self.placeholder_ranges(&term);
        if !interval.contains_all(&range_of(&term, &ranges)) {
            self.map.constrain(term, interval);
        }
    }

    /// Constrains the domain to `0 <= term <= last`.
    pub(super) fn within(&mut self, term: &Term, last: &Term) {
        if let Some(last) = last.as_constant() {
            return self.constrain(term.clone(), 0, last);
        }
        self.at_least(term, 0);
        self.at_least(&last.sub(term), 0);
    }

    /// Constrains the domain to `term >= lower`.
    fn at_least(&mut self, term: &Term, lower: i64) {
        let range = self.range_of(term);
        if range.lower < lower {
            self.map
                .constrain(term.clone(), Interval::new(lower, range.upper));
        }
    }

    /// Restricts a dimension variable to `first ..= last`.
    pub(super) fn narrow_dim(
        &mut self,
        position: usize,
        first: i64,
        last: &Term,
    ) -> Result<(), Cause> {
        let upper = last.as_constant().unwrap_or(i64::MAX);
        let slot = self.map.dims.get_mut(position).ok_or(Cause::Malformed)?;
        slot.bounds = slot.bounds.intersect(&Interval::new(first, upper));
        if last.as_constant().is_none() {
            self.at_least(&last.sub(&variable(position)), 0);
        }
        Ok(())
    }

    /// The range of a term over this map's variables.
    pub(super) fn range_of(&self, term: &Term) -> Interval {
        range_of(term, &self.placeholder_ranges(term))
    }

    /// Sets the upper bound of a run-time variable, and adds the corresponding constraint.
    pub(super) fn limit(&mut self, offset: &Term, most: Term) {
        self.at_least(&most.sub(offset), 0);
        let position = offset.as_var().map(|var| var.0 as usize);
        if let Some(slot) = position
            .and_then(|position| position.checked_sub(RUNTIME))
            .and_then(|position| self.map.runtime.get_mut(position))
        {
            slot.upper_bound = Some(most);
        }
    }

    fn placeholder_ranges(&self, term: &Term) -> FxHashMap<Var, Interval> {
        let mut ranges = FxHashMap::default();
        term.for_each_var(&mut |var| {
            let position = var.0 as usize;
            let found = if position >= RUNTIME {
                self.map
                    .runtime
                    .get(position - RUNTIME)
                    .map(|runtime| &runtime.variable)
            } else if position >= RANGES {
                self.map.ranges.get(position - RANGES)
            } else {
                self.map.dims.get(position)
            };
            if let Some(variable) = found {
                ranges.insert(var, variable.bounds);
            }
        });
        ranges
    }

    pub(super) fn superset(self) -> Self {
        self.with(Exactness::Superset)
    }

    pub(super) fn with(mut self, exactness: Exactness) -> Self {
        self.map.exactness = exactness;
        self
    }

    /// Sets the participant whose array the map leads to.
    pub(super) fn of_participant(&mut self, participant: Participant) {
        self.map.participant = Some(Box::new(participant));
    }

    /// Finishes the map with its results.
    pub(super) fn finish(self, results: Vec<Term>) -> MapOrCause {
        Ok(self.numbered(results))
    }

    /// The map with its results and with final numbers of variables.
    pub(super) fn numbered(mut self, results: Vec<Term>) -> IndexingMap {
        self.map.results = results;
        let (dims, ranges) = (self.map.dims.len(), self.map.ranges.len());
        let number = |position: usize| {
            if position >= RUNTIME {
                position - RUNTIME + dims + ranges
            } else if position >= RANGES {
                position - RANGES + dims
            } else {
                position
            }
        };
        self.map
            .for_each_term(&mut |term| *term = renumber(term, &number));
        self.map
    }
}
