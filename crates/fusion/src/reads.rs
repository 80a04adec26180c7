//! What fusion asks of the indexing analysis: the one map by which an operation
//! reads an operand, as terms that can be put at a kernel's indices.

use crate::error::Error;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::rc::Rc;
use tegula_expr::{Cmp, Interval, Term, Var};
use tegula_indexing::{IndexingMap, OperandIndexing, RuntimeSource, output_to_input};
use tegula_ir::{InstructionId, Module};

/// A run-time variable of a map: which operand holds it, and where.
pub(crate) struct RuntimeRead {
    pub operand: usize,
    /// Over the map's dimensions and ranges.
    pub index: Vec<Term>,
    pub bounds: Interval,
}

/// A map from a result's index to an operand's. Variables are numbered
/// dimensions first, then ranges, then run-time variables.
pub(crate) struct ReadMap {
    /// The extent of each range; one of them is 0 if nothing is read.
    pub ranges: Vec<Term>,
    pub runtime: Vec<RuntimeRead>,
    results: Vec<Term>,
    constraints: Vec<(Term, Interval)>,
}

/// A read at one place of a kernel.
pub(crate) struct Read {
    /// The operand's index.
    pub index: Vec<Term>,
    /// Not zero where the operand is read at all.
    pub condition: Term,
}

/// Replaces the variable of number `i` by `known[i]`.
pub(crate) fn substitute(term: &Term, known: &[Term]) -> Term {
    term.substitute(&mut |var: Var| known.get(var.0 as usize).cloned())
}

/// The maps of a module's instructions, each analysed once.
pub(crate) struct ReadMaps<'a> {
    module: &'a Module,
    known: RefCell<FxHashMap<InstructionId, Maps>>,
}

/// By operand.
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
                .map(|o| ReadMap::new(self.module, id, o).map(Rc::new))
                .collect()
        });
        match maps.get(operand) {
            Some(map) => map.clone(),
            None => Err(Error::bug(self.module, id, "there is no such operand")),
        }
    }
}

impl ReadMap {
    fn new(module: &Module, id: InstructionId, operand: OperandIndexing) -> Result<Self, Error> {
        let mut maps = operand.maps.map_err(|unknown| {
            Error::unsupported(
                module,
                id,
                &format!("its reads cannot be described: {}", unknown.cause),
            )
        })?;
        match (maps.pop(), maps.is_empty()) {
            (Some(map), true) if !map.is_undefined() => Self::from_map(module, id, map),
            _ => Err(Error::unsupported(
                module,
                id,
                "its reads cannot be described by one map",
            )),
        }
    }

    fn from_map(module: &Module, id: InstructionId, map: IndexingMap) -> Result<Self, Error> {
        if map.is_empty() {
            let never = (Term::constant(1), Interval { lower: 0, upper: 0 });
            return Ok(Self {
                ranges: vec![Term::constant(0)],
                runtime: Vec::new(),
                results: Vec::new(),
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
                Error::bug(module, id, "a run-time index is none of its operands")
            })?;
            let bounds = variable.variable.bounds;
            runtime.push(RuntimeRead {
                operand,
                index: index.clone(),
                bounds,
            });
        }
        constraints.extend(map.constraints.into_iter().map(|c| (c.term, c.interval)));
        Ok(Self {
            ranges,
            runtime,
            results: map.results,
            constraints,
        })
    }

    /// The read with every variable known.
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
