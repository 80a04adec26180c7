//! Read maps: for each operation and operand, the indexing map from the result's index to the
//! operand's, as terms into which a kernel's indices are substituted.

use crate::error::Error;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::rc::Rc;
use tegula_expr::{Cmp, Interval, Term, Var};
use tegula_indexing::{Constraint, IndexingMap, OperandIndexing, RuntimeSource, output_to_input};
use tegula_ir::{InstructionId, Module};

/// A run-time variable of a map.
pub(crate) enum RuntimeRead {
    /// An element of an operand, clamped to bounds.
    Element {
        operand: usize,
        /// A term over the map's dimensions and ranges.
        index: Vec<Term>,
        bounds: Interval,
        /// The upper bound of the clamp if it depends on sizes known at run time: a term over the
        /// map's variables.
        most: Option<Term>,
    },
    /// A size: a term over the module's symbols.
    Size(Term),
}

/// A map from a result's index to an operand's. Variables are numbered dimensions first, then
/// ranges, then run-time variables.
pub(crate) struct ReadMap {
    /// The extent of each range, as a term over run-time sizes; one of them is 0 if nothing is
    /// read.
    pub ranges: Vec<Term>,
    dims: usize,
    pub runtime: Vec<RuntimeRead>,
    results: Vec<Term>,
    constraints: Vec<(Term, Interval)>,
}

/// One read of an operand in a kernel.
pub(crate) struct Read {
    /// The operand's index.
    pub index: Vec<Term>,
    /// Nonzero if the operand is read at all; an index in padding, for example, is not.
    pub condition: Term,
}

/// Replaces variable number `i` by `known[i]`.
pub(crate) fn substitute(term: &Term, known: &[Term]) -> Term {
    term.substitute(&mut |var: Var| known.get(var.0 as usize).cloned())
}

/// The read maps of a module's instructions; each is computed once.
pub(crate) struct ReadMaps<'a> {
    module: &'a Module,
    known: RefCell<FxHashMap<InstructionId, Maps>>,
}

/// The maps of an instruction, by operand.
type Maps = Rc<[Result<Rc<ReadMap>, Error>]>;

impl<'a> ReadMaps<'a> {
    pub(crate) fn new(module: &'a Module) -> Self {
        Self {
            module,
            known: RefCell::default(),
        }
    }

    /// The map of an instruction for one operand.
    pub(crate) fn get(&self, id: InstructionId, operand: usize) -> Result<Rc<ReadMap>, Error> {
        let mut known = self.known.borrow_mut();
        let maps = known.entry(id).or_insert_with(|| {
            let operands = output_to_input(self.module, id).into_iter();
            operands
                .enumerate()
                .map(|(i, o)| ReadMap::new(self.module, id, i, o).map(Rc::new))
                .collect()
        });
        match maps.get(operand) {
            Some(map) => map.clone(),
            None => Err(Error::bug(
                self.module,
                id,
                "the instruction has no such operand",
            )),
        }
    }
}

/// Recognises a constraint `variable - extent <= -1` with an extent of run-time sizes, which is how
/// a map keeps a variable inside an array. Returns the number of the dimension or range, and its
/// extent.
fn below_a_size(constraint: &Constraint, first_size: usize) -> Option<(usize, Term)> {
    let (terms, constant) = constraint.term.as_linear()?;
    let position = |term: &Term| term.as_var().map(|var| var.0 as usize);
    let mut variables = terms
        .iter()
        .filter(|(t, _)| position(t).is_some_and(|p| p < first_size));
    let (variable, 1) = variables.next()? else {
        return None;
    };
    if constraint.interval.upper != -1 || variables.next().is_some() {
        return None;
    }
    let mut extent = Term::constant(constant.checked_neg()?);
    let mut only_sizes = true;
    for (atom, factor) in terms.iter().filter(|(t, _)| t != variable) {
        atom.for_each_var(&mut |var| only_sizes &= var.0 as usize >= first_size);
        extent = extent.sub(&atom.mul(&Term::constant(*factor)));
    }
    only_sizes.then_some((position(variable)?, extent))
}

/// Rewrites a term over run-time sizes as one over the module's symbols.
fn module_size(extent: &Term, first_size: usize, runtime: &[RuntimeRead]) -> Option<Term> {
    let mut all_sizes = true;
    let term = extent.substitute(&mut |var| {
        let position = (var.0 as usize).checked_sub(first_size);
        match position.and_then(|p| runtime.get(p)) {
            Some(RuntimeRead::Size(size)) => Some(size.clone()),
            _ => {
                all_sizes = false;
                None
            }
        }
    });
    all_sizes.then_some(term)
}

impl ReadMap {
    fn new(
        module: &Module,
        id: InstructionId,
        number: usize,
        operand: OperandIndexing,
    ) -> Result<Self, Error> {
        let mut maps = operand.maps.map_err(|unknown| {
            Error::unsupported(
                module,
                id,
                &format!("its reads cannot be described: {}", unknown.cause),
            )
        })?;
        match (maps.pop(), maps.is_empty()) {
            (Some(map), true) if !map.is_undefined() => Self::from_map(module, id, number, map),
            _ => Err(Error::unsupported(
                module,
                id,
                "its reads cannot be described by one map",
            )),
        }
    }

    fn from_map(
        module: &Module,
        id: InstructionId,
        number: usize,
        map: IndexingMap,
    ) -> Result<Self, Error> {
        if map.is_empty() {
            // The index still needs the operand's rank: reads are checked against it.
            let operand = module[id].operands.get(number).copied();
            let rank = operand
                .and_then(|o| {
                    crate::array_leaves(&module[o].shape)
                        .first()
                        .map(|a| a.dims.len())
                })
                .unwrap_or(0);
            let never = (Term::constant(1), Interval { lower: 0, upper: 0 });
            return Ok(Self {
                ranges: vec![Term::constant(0)],
                dims: map.dims.len(),
                runtime: Vec::new(),
                results: vec![Term::constant(0); rank],
                constraints: vec![never],
            });
        }
        let mut constraints = Vec::new();
        let mut ranges = Vec::with_capacity(map.ranges.len());
        for (i, variable) in map.dims.iter().enumerate() {
            constraints.push((Term::var(Var(i as u32)), variable.bounds));
        }
        for (i, variable) in map.ranges.iter().enumerate() {
            let Interval { lower, upper } = variable.bounds;
            ranges.push(Term::constant(upper.saturating_add(1).max(0)));
            if lower != 0 {
                constraints.push((Term::var(Var((map.dims.len() + i) as u32)), variable.bounds));
            }
        }
        let mut runtime = Vec::with_capacity(map.runtime.len());
        for variable in &map.runtime {
            if let Some(RuntimeSource::Size(size)) = &variable.source {
                runtime.push(RuntimeRead::Size(size.clone()));
                continue;
            }
            let Some(RuntimeSource::Element {
                instruction,
                index,
                clamped: true,
            }) = &variable.source
            else {
                return Err(Error::unsupported(
                    module,
                    id,
                    "it reads at a size known only at run time",
                ));
            };
            let operand = module[id].operands.iter().position(|o| o == instruction);
            let operand = operand.ok_or_else(|| {
                Error::bug(
                    module,
                    id,
                    "a run-time index of its map is not one of its operands",
                )
            })?;
            let bounds = variable.variable.bounds;
            runtime.push(RuntimeRead::Element {
                operand,
                index: index.clone(),
                bounds,
                most: variable.upper_bound.clone(),
            });
        }
        let first_size = map.dims.len() + ranges.len();
        let result = crate::array_leaves(&module[id].shape).first().copied();
        let result_size = |dim: usize| Some(result?.dims.get(dim)?.term());
        for constraint in map.constraints {
            if let Some((position, extent)) = below_a_size(&constraint, first_size) {
                // An index of the result is always inside the result.
                let whole = module_size(&extent, first_size, &runtime);
                if position < map.dims.len() && whole == result_size(position) {
                    continue;
                }
                let range = position.checked_sub(map.dims.len());
                if let Some(known) = range.and_then(|r| ranges.get_mut(r))
                    && known.as_constant().is_some()
                {
                    *known = extent;
                    continue;
                }
            }
            constraints.push((constraint.term, constraint.interval));
        }
        Ok(Self {
            ranges,
            dims: map.dims.len(),
            runtime,
            results: map.results,
            constraints,
        })
    }

    /// The number of the first run-time variable.
    pub(crate) fn runtime_starts(&self) -> usize {
        self.dims + self.ranges.len()
    }

    /// The read for given values of all variables.
    pub(crate) fn at(&self, known: &[Term]) -> Read {
        let mut condition = Term::constant(1);
        for (term, interval) in &self.constraints {
            let term = substitute(term, known);
            for holds in [
                Term::cmp(Cmp::Le, &Term::constant(interval.lower), &term),
                Term::cmp(Cmp::Le, &term, &Term::constant(interval.upper)),
            ] {
                condition = condition.mul(&holds);
            }
        }
        let index = self.results.iter().map(|t| substitute(t, known)).collect();
        Read { index, condition }
    }
}
