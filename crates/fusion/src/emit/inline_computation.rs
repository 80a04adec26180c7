//! Inlines the computation that `reduce`, `sort`, `scatter` or `map` applies to single elements
//! into a kernel.
//!
//! A value of such a computation is represented by one scalar for each of its array leaves. An
//! array of one element is a scalar here, so operations that only move it are the identity.

use super::{Emitter, Scalars};
use crate::analysis::trip_count::{Bound, Counter};
use crate::error::Error;
use crate::kernel::ScalarId;
use crate::program::array_leaves;
use crate::program::flatten::MAX_DEPTH;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;
use tegula_expr::{Cmp, Term};
use tegula_ir::{ComputationId, InstructionId, Module, Op, Shape};

/// The scalars of each operand's leaves.
type Operands = Vec<Scalars>;

impl Emitter<'_> {
    /// Applies a computation on scalars to `arguments`.
    pub(crate) fn apply(
        &mut self,
        id: ComputationId,
        arguments: &[ScalarId],
    ) -> Result<Scalars, Error> {
        let arguments: Operands = arguments.iter().map(|&s| smallvec![s]).collect();
        self.apply_nested(id, &arguments, 0)
    }

    fn apply_nested(
        &mut self,
        id: ComputationId,
        arguments: &[Scalars],
        depth: usize,
    ) -> Result<Scalars, Error> {
        let module = self.module;
        let computation = &module[id];
        if depth > MAX_DEPTH {
            let what = format!("calls are nested more than {MAX_DEPTH} deep");
            return Err(Error::limit(module, computation.root, &what));
        }
        let mut env: FxHashMap<InstructionId, Scalars> = FxHashMap::default();
        let needed = needed(module, id);
        let instructions = computation.instructions.iter();
        for &instruction in instructions.filter(|&i| needed.contains(i)) {
            let operands: Option<Operands> = module[instruction]
                .operands
                .iter()
                .map(|o| env.get(o).cloned())
                .collect();
            let operands = operands.ok_or_else(|| {
                Error::bug(
                    module,
                    instruction,
                    "an operand is not defined before its use",
                )
            })?;
            let scalars = match &module[instruction].op {
                Op::Parameter(number) => {
                    arguments.get(*number as usize).cloned().ok_or_else(|| {
                        Error::bug(
                            module,
                            instruction,
                            "the called computation has no such argument",
                        )
                    })?
                }
                Op::Call { to_apply, .. }
                | Op::Fusion {
                    calls: to_apply, ..
                } => self.apply_nested(*to_apply, &operands, depth + 1)?,
                Op::Conditional { branches, .. } => {
                    self.choose(instruction, branches, &operands, depth + 1)?
                }
                Op::While { condition, body } if self.is_one_element(instruction) => {
                    let states = operands.first().cloned().unwrap_or_default();
                    self.repeat(instruction, (*condition, *body), &states, depth + 1)?
                }
                _ => self.apply_instruction(instruction, &operands)?,
            };
            env.insert(instruction, scalars);
        }
        env.remove(&computation.root)
            .ok_or_else(|| Error::bug(module, computation.root, "the root is not defined"))
    }

    fn apply_instruction(
        &mut self,
        id: InstructionId,
        operands: &[Scalars],
    ) -> Result<Scalars, Error> {
        let module = self.module;
        let instruction = &module[id];
        let flat: Scalars = operands.iter().flatten().copied().collect();
        match &instruction.op {
            Op::Constant(literals) if literals.iter().all(|l| l.len() == 1) => {
                Ok(literals.iter().map(|l| self.literal(l)).collect())
            }
            Op::Tuple => Ok(flat),
            Op::GetTupleElement(index) => self.tuple_leaves(id, *index, &flat),
            Op::Copy
            | Op::OptBarrier
            | Op::Reshape
            | Op::Broadcast(_)
            | Op::Transpose(_)
            | Op::Reverse(_)
            | Op::Slice(_)
                if self.is_one_element(id) =>
            {
                Ok(flat)
            }
            _ => {
                let shape = instruction
                    .shape
                    .as_array()
                    .filter(|_| self.is_one_element(id));
                match (shape, self.scalar_op(id)) {
                    (Some(shape), Some(op)) => {
                        Ok(smallvec![self.scalar(shape.element_type, op, &flat)])
                    }
                    _ => Err(not_scalar(self, id)),
                }
            }
        }
    }

    /// Whether every leaf of an instruction and of its operands has one element.
    fn is_one_element(&self, id: InstructionId) -> bool {
        let one = |shape: &Shape| {
            array_leaves(shape)
                .iter()
                .all(|leaf| leaf.element_count() == Some(1))
        };
        let instruction = &self.module[id];
        one(&instruction.shape)
            && instruction
                .operands
                .iter()
                .all(|&o| one(&self.module[o].shape))
    }

    fn tuple_leaves(
        &self,
        id: InstructionId,
        index: i64,
        leaves: &[ScalarId],
    ) -> Result<Scalars, Error> {
        let elements = self.module.operand_shape(id, 0).and_then(Shape::as_tuple);
        let taken = elements
            .zip(usize::try_from(index).ok())
            .and_then(|(elements, index)| {
                let before: usize = elements
                    .iter()
                    .take(index)
                    .map(|e| array_leaves(e).len())
                    .sum();
                leaves.get(before..before + array_leaves(elements.get(index)?).len())
            });
        let taken =
            taken.ok_or_else(|| Error::bug(self.module, id, "the tuple has no such element"))?;
        Ok(taken.iter().copied().collect())
    }

    /// Emits a loop whose trip count is known.
    fn repeat(
        &mut self,
        id: InstructionId,
        (condition, body): (ComputationId, ComputationId),
        states: &[ScalarId],
        depth: usize,
    ) -> Result<Scalars, Error> {
        let Some(count) = self.iterations(condition, body, states) else {
            let what = "a loop in an elementwise computation can only be compiled if its start, end and step are constants";
            return Err(Error::unsupported(self.module, id, what));
        };
        self.loops(&[Term::constant(count)], states, &mut |e, _, states| {
            let states: Scalars = states.iter().copied().collect();
            e.apply_nested(body, &[states], depth)
        })
    }

    fn iterations(
        &self,
        condition: ComputationId,
        body: ComputationId,
        states: &[ScalarId],
    ) -> Option<i64> {
        let counter = Counter::of(self.module, condition, body)?;
        let start = |state: usize| self.constant_of(*states.get(state)?);
        let bound = match counter.bound {
            Bound::Constant(bound) => bound,
            Bound::State(state) => start(state)?,
        };
        counter.iterations(start(counter.state)?, bound)
    }

    /// Emits a conditional as a chain of tests. The last branch runs if no test succeeds.
    fn choose(
        &mut self,
        id: InstructionId,
        branches: &[ComputationId],
        operands: &[Scalars],
        depth: usize,
    ) -> Result<Scalars, Error> {
        let module = self.module;
        let selector = operands.first().and_then(|s| s.first()).copied();
        let selector =
            selector.ok_or_else(|| Error::bug(module, id, "the conditional has no selector"))?;
        let is_pred = self.kernel.scalars[selector] == tegula_ir::ElementType::Pred;
        let taken = if is_pred {
            // `pred` selects branch 0 if it is true.
            Term::constant(1).sub(&self.bind_exact(selector, 0, 1))
        } else {
            self.bind(
                selector,
                -1,
                i64::try_from(branches.len()).unwrap_or(i64::MAX),
            )
        };
        self.choose_from(id, branches, operands, (0, &taken), depth)
    }

    fn choose_from(
        &mut self,
        id: InstructionId,
        branches: &[ComputationId],
        operands: &[Scalars],
        (first, taken): (usize, &Term),
        depth: usize,
    ) -> Result<Scalars, Error> {
        let Some(&branch) = branches.get(first) else {
            return Err(Error::bug(self.module, id, "the conditional has no branch"));
        };
        let argument = operands.get(first + 1).cloned().unwrap_or_default();
        if first + 1 == branches.len() {
            return self.apply_nested(branch, &[argument], depth);
        }
        let is_taken = Term::cmp(Cmp::Eq, taken, &Term::constant(first as i64));
        self.branch(
            &is_taken,
            &mut |e| e.apply_nested(branch, std::slice::from_ref(&argument), depth),
            &mut |e| e.choose_from(id, branches, operands, (first + 1, taken), depth + 1),
        )
    }
}

/// The instructions that the root of a computation depends on.
fn needed(module: &Module, id: ComputationId) -> FxHashSet<InstructionId> {
    let computation = &module[id];
    let mut needed = FxHashSet::from_iter([computation.root]);
    // Instructions come after their operands, so one backward pass suffices.
    for id in computation.instructions.iter().rev() {
        if needed.contains(id) {
            needed.extend(&module[*id].operands);
        }
    }
    needed
}

fn not_scalar(emitter: &Emitter<'_>, id: InstructionId) -> Error {
    Error::unsupported(
        emitter.module,
        id,
        "only elementwise operations on scalars, calls, conditionals and counted loops can be compiled in an elementwise computation yet",
    )
}
