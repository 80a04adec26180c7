//! Row loops: executes all iterations of a loop over rows in one call, in order.
//!
//! A scatter of rows processes its updates one after the other: it loads the index of the
//! destination, checks whether that is in bounds, and adds a row of lanes to it. A call of a SIMD
//! body for each row would take as long as about ten of the row's lanes. Here the body gets the
//! loop-invariant inputs once and runs the iterations itself; values that an iteration's addresses
//! depend on are *words* that it loads. A gather of rows, whose iterations are points of the
//! domain, is compiled in the same way.

use super::lower::Lower;
use super::types::{is_narrow_float, is_sub_byte};
use crate::analysis::affine_access::Ranges;
use crate::analysis::affine_access::{linear_index, merged, split};
use crate::error::Error;
use crate::simd::ir::Storage;
use crate::simd::row_addressing::{Change, RowsIn, Turns, Word};
use crate::vectorize::loop_versioning::Version;
use crate::vectorize::translate::{Run, Source};
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value, types};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use tegula_expr::{Cmp, Node, Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, IndexVar, ScalarId, ScalarOp, Statement};
use tegula_ir::ElementType;

/// In rows of at least this many lanes, the cost of a call is negligible.
const LONG_ROW: i64 = 4096;
/// The maximum number of words of an iteration: they and the moving addresses are in general
/// registers.
const MOST_WORDS: usize = 6;

/// A loop whose iterations are rows.
struct RowTurns<'a> {
    run: &'a Run,
    lanes: i64,
    turns: Turns,
    /// The inputs of the first iteration.
    starts: Vec<Source>,
    /// The elements that are the words of the first iteration: parameter and offset.
    words: Vec<(usize, Term)>,
}

/// Analysis of the statements before the vector loop in an iteration.
struct Before<'a> {
    kernel: &'a Kernel,
    var: Var,
    words: Vec<Word>,
    places: Vec<(usize, Term)>,
    /// Scalars that are words.
    of_scalar: FxHashMap<ScalarId, usize>,
    /// Variables that are words.
    of_var: FxHashMap<Var, usize>,
    constants: FxHashMap<ScalarId, i64>,
    /// Scalars whose word lanes may use as it is stored.
    as_stored: FxHashSet<ScalarId>,
}

impl<'a> Before<'a> {
    fn new(kernel: &'a Kernel, var: Var) -> Self {
        Self {
            kernel,
            var,
            words: Vec::new(),
            places: Vec::new(),
            of_scalar: FxHashMap::default(),
            of_var: FxHashMap::default(),
            constants: FxHashMap::default(),
            as_stored: FxHashSet::default(),
        }
    }

    fn statements(&mut self, statements: &[Statement]) -> Option<()> {
        statements.iter().try_for_each(|s| self.statement(s))
    }

    fn statement(&mut self, statement: &Statement) -> Option<()> {
        match statement {
            Statement::Compute {
                result,
                op,
                operands,
            } => self.compute(*result, op, operands),
            Statement::Load {
                result,
                param,
                index,
            } => self.load(*result, *param, index),
            Statement::Bind { var } => {
                let Some(IndexVar::Runtime { value, .. }) = self.kernel.var(*var) else {
                    return None;
                };
                let word = *self.of_scalar.get(value)?;
                self.of_var.insert(*var, word);
                Some(())
            }
            Statement::Store { .. } | Statement::Loop { .. } | Statement::If { .. } => None,
        }
    }

    fn load(&mut self, result: ScalarId, param: usize, index: &[Term]) -> Option<()> {
        let element_type = self.kernel.params[param].element_type;
        let bytes = element_type.storage_bytes();
        let ranges = Ranges {
            vars: &self.kernel.vars,
            lanes: None,
        };
        let linear = linear_index(self.kernel, param, index, &ranges);
        let (step, rest) = split(&linear, self.var)?;
        let other = |var: &Var| rest.mentions(*var);
        if element_type.is_complex() || is_sub_byte(element_type) || self.of_var.keys().any(other) {
            return None;
        }
        let step = step.as_constant()?.checked_mul(bytes as i64)?;
        self.of_scalar.insert(result, self.words.len());
        if !is_narrow_float(element_type) {
            self.as_stored.insert(result);
        }
        self.words.push(Word {
            storage: Storage {
                bytes: u32::try_from(bytes).ok()?,
                signed: element_type.is_signed(),
            },
            step: i32::try_from(step).ok()?,
            clamp: None,
            most: None,
        });
        self.places.push((param, linear));
        Some(())
    }

    fn compute(&mut self, result: ScalarId, op: &ScalarOp, operands: &[ScalarId]) -> Option<()> {
        let ty = self.kernel.scalars[result];
        match (op, operands) {
            (ScalarOp::Constant(bits), _) => {
                self.constants.insert(result, (*bits as u64).cast_signed());
            }
            (ScalarOp::Convert, [from]) => {
                let word = *self.of_scalar.get(from)?;
                // The word holds the full 64-bit value.
                let same = self.kernel.scalars[*from].is_integer() && ty == ElementType::S64;
                let unsigned = self.kernel.scalars[*from] == ElementType::U64;
                (same && !unsigned).then_some(())?;
                self.of_scalar.insert(result, word);
            }
            (ScalarOp::Clamp, [least, word, most]) => {
                let word = *self.of_scalar.get(word)?;
                let bound = |id: &ScalarId| {
                    let bound = i32::try_from(*self.constants.get(id)?).ok()?;
                    (bound >= 0).then_some(bound)
                };
                let clamp = [bound(least)?, bound(most)?];
                (ty.is_integer() && ty.is_signed() && clamp[0] <= clamp[1]).then_some(())?;
                self.of_scalar.insert(result, self.words.len());
                let (before, place) = (self.words[word], self.places[word].clone());
                before.clamp.is_none().then_some(())?;
                self.words.push(Word {
                    clamp: Some(clamp),
                    ..before
                });
                self.places.push(place);
            }
            _ => return None,
        }
        Some(())
    }

    /// A condition that bounds words: each is between 0 and a constant.
    fn condition(&mut self, condition: &Term) -> Option<()> {
        let mut bounds: FxHashMap<Var, [bool; 2]> = FxHashMap::default();
        self.bounds(condition, &mut bounds)?;
        bounds.values().all(|b| *b == [true; 2]).then_some(())
    }

    fn bounds(&mut self, condition: &Term, found: &mut FxHashMap<Var, [bool; 2]>) -> Option<()> {
        match condition.node() {
            Node::Mul(a, b) => {
                self.bounds(a, found)?;
                self.bounds(b, found)
            }
            Node::Cmp(Cmp::Le, a, b) => {
                let (var, side) = match (a.as_var(), b.as_var()) {
                    (Some(var), None) => {
                        let most = i32::try_from(b.as_constant()?).ok().filter(|&m| m >= 0)?;
                        let word = *self.of_var.get(&var)?;
                        self.words[word].most = Some(most);
                        (var, 0)
                    }
                    (None, Some(var)) if a.as_constant() == Some(0) => (var, 1),
                    _ => return None,
                };
                let sides = found.entry(var).or_default();
                // Each bound may occur only once.
                (!std::mem::replace(&mut sides[side], true)).then_some(())
            }
            _ => None,
        }
    }

    /// Splits a term into its value in the first iteration, without words, and its change between
    /// iterations; `scale` is the number of bytes of a unit.
    fn change(&self, term: &Term, scale: i64) -> Option<(Term, Change)> {
        let (atoms, constant) = term.as_linear()?;
        let mut change = Change::default();
        let mut first = Term::constant(constant);
        for (atom, factor) in atoms {
            let scaled = i32::try_from(factor.checked_mul(scale)?).ok()?;
            if let Some(&word) = atom.as_var().and_then(|var| self.of_var.get(&var)) {
                change.words.push((word, scaled));
                continue;
            }
            if atom.as_var() == Some(self.var) {
                change.step = change.step.checked_add(scaled)?;
            } else if atom.mentions(self.var) || self.of_var.keys().any(|&v| atom.mentions(v)) {
                return None;
            }
            first = first.add(&atom.mul(&Term::constant(factor)));
        }
        Some((first, change))
    }

    fn source(&self, source: &Source) -> Option<(Source, Change)> {
        Some(match source {
            Source::Address(param, term, offset) => {
                let bytes = self.kernel.params[*param].element_type.storage_bytes();
                let (first, change) = self.change(term, bytes as i64)?;
                (Source::Address(*param, first, *offset), change)
            }
            Source::Integer(term) => {
                let (first, change) = self.change(term, 1)?;
                (Source::Integer(first), change)
            }
            Source::Scalar(id, _) if let Some(&word) = self.of_scalar.get(id) => {
                self.as_stored.contains(id).then_some(())?;
                let change = Change {
                    step: 0,
                    words: vec![(word, 1)],
                };
                (Source::Integer(Term::constant(0)), change)
            }
            Source::Scalar(..) | Source::Table => (source.clone(), Change::default()),
            Source::Tile(_) => return None,
        })
    }

    /// The row loop; `None` if the body's inputs depend on the iteration in another way.
    fn rows(self, run: &'a Run, lanes: i64) -> Option<RowTurns<'a>> {
        let lanes = Some(lanes).filter(|n| (1..LONG_ROW).contains(n))?;
        let sources: Option<Vec<(Source, Change)>> =
            run.sources.iter().map(|s| self.source(s)).collect();
        let (starts, mut inputs): (Vec<Source>, Vec<Change>) = sources?.into_iter().unzip();
        // Words that only other words were computed from are not loaded.
        let mut number = vec![None; self.words.len()];
        let (mut words, mut places) = (Vec::new(), Vec::new());
        let used = |word: usize| {
            let of = |c: &Change| c.words.iter().any(|(w, _)| *w == word);
            self.words[word].most.is_some() || inputs.iter().any(of)
        };
        for (i, (word, place)) in self.words.iter().zip(&self.places).enumerate() {
            if used(i) {
                number[i] = Some(words.len());
                words.push(*word);
                places.push(place.clone());
            }
        }
        (words.len() <= MOST_WORDS).then_some(())?;
        for (word, _) in inputs.iter_mut().flat_map(|c| &mut c.words) {
            *word = number[*word]?;
        }
        let plain = run.body.reductions.is_empty() && run.combined.is_empty();
        plain.then_some(RowTurns {
            run,
            lanes,
            turns: Turns { words, inputs },
            starts,
            words: places,
        })
    }
}

/// The vector loop that ends a block, and the statements before it.
fn last_loop(block: &Block) -> Option<(&[Statement], Var)> {
    let (last, before) = block.statements.split_last()?;
    match last {
        Statement::Loop { var, init, .. } if init.is_empty() => Some((before, *var)),
        _ => None,
    }
}

impl<'a> Lower<'a, '_> {
    /// Emits a loop without carried values as a row loop, if its iterations are rows; otherwise
    /// returns false and emits nothing.
    pub(crate) fn loop_in_turns(
        &mut self,
        var: Var,
        body: &Block,
        part: [Value; 2],
    ) -> Result<bool, Error> {
        match self.rows_of_loop(var, body) {
            Some(rows) => self.in_turns(&rows, var, part),
            None => Ok(false),
        }
    }

    fn rows_of_loop(&self, var: Var, body: &Block) -> Option<RowTurns<'a>> {
        let mut before = Before::new(self.kernel(), var);
        let (statements, lanes) = match last_loop(body) {
            Some(found) => found,
            None => {
                let (last, first) = body.statements.split_last()?;
                let Statement::If {
                    condition,
                    then,
                    otherwise,
                    results,
                } = last
                else {
                    return None;
                };
                (otherwise.statements.is_empty() && results.is_empty()).then_some(())?;
                before.statements(first)?;
                before.condition(condition)?;
                last_loop(then)?
            }
        };
        before.statements(statements)?;
        let run = self.vectors().loops.get(&lanes)?;
        before.statements(&run.hoisted)?;
        let Some(IndexVar::Loop(extent)) = self.kernel().var(lanes) else {
            return None;
        };
        before.rows(run, extent.as_constant()?)
    }

    /// Emits the points along a domain dimension as a row loop, if the inner dimensions are a
    /// vector loop: see [`Self::loop_in_turns`].
    pub(crate) fn points_in_turns(
        &mut self,
        var: Var,
        inside: &[Var],
        part: [Value; 2],
    ) -> Result<bool, Error> {
        let Some(rows) = self.rows_of_points(var, inside) else {
            return Ok(false);
        };
        let zero = self.integer(types::I64, 0);
        for &var in inside {
            self.set_var(var, zero);
        }
        self.in_turns(&rows, var, part)
    }

    fn rows_of_points(&self, var: Var, inside: &[Var]) -> Option<RowTurns<'a>> {
        let (count, Version::Leaf(run)) = self.vectors().domain.as_ref()? else {
            return None;
        };
        (*count == inside.len() && !self.vectors().apart).then_some(())?;
        let (_, lanes) = merged(self.kernel());
        let mut before = Before::new(self.kernel(), var);
        before.statements(&run.hoisted)?;
        before.rows(run, lanes.as_constant()?)
    }

    fn in_turns(
        &mut self,
        rows: &RowTurns<'a>,
        var: Var,
        [begin, end]: [Value; 2],
    ) -> Result<bool, Error> {
        let Some(function) = self.wide_body(rows.run, RowsIn::Turns(&rows.turns))? else {
            return Ok(false);
        };
        self.open_terms();
        self.set_var(var, begin);
        let zero = self.integer(types::I64, 0);
        self.set_var(rows.run.lane, zero);
        let inputs = rows.starts.iter().zip(&rows.run.body.inputs);
        let mut slots: SmallVec<[Value; 8]> = inputs.map(|(s, i)| self.input(s, *i)).collect();
        for (param, linear) in &rows.words {
            slots.push(self.address_of(*param, linear));
        }
        self.close_terms();
        let size = u32::try_from(8 * slots.len().max(1));
        let size = size.map_err(|_| Error::Bug("a body's inputs".to_owned()))?;
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3);
        let slot = self.builder.create_sized_stack_slot(slot);
        for (i, &value) in slots.iter().enumerate() {
            let at = 8 * i as i32;
            self.builder.ins().stack_store(types::I64, value, slot, at);
        }
        let address = self.builder.ins().stack_addr(types::I64, slot, 0);
        let lanes = self.integer(types::I64, rows.lanes);
        let turns = self.builder.ins().isub(end, begin);
        self.builder.ins().call(function, &[address, lanes, turns]);
        Ok(true)
    }
}
