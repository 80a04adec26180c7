//! The verifier: checks that a module is well-formed.
//!
//! # Invariants
//! A verified module satisfies all of these; every other crate relies on them.
//!
//! Structure
//! - The entry computation exists. Names of computations are unique; names of instructions are
//!   unique within their computation.
//! - A computation lists each of its instructions once, and no others; an instruction is in one
//!   computation.
//! - Operands come before their users, in the same computation. Control predecessors are in the
//!   same computation.
//! - The root is in its computation. Parameters are numbered 0, 1, ... without gaps or repetition,
//!   and the list of parameters names them all.
//! - A called computation has a smaller id than its caller, so there is no recursion.
//!
//! Shapes
//! - Sizes are not negative, the bytes of every array with its padding fit an `i64`, and symbolic
//!   sizes use symbols of the module only.
//! - A layout's `minor_to_major` is a permutation of the dimensions, tile sizes are positive, and
//!   splits lie inside their dimensions.
//! - Each operation has the right number of operands, of types for which it is defined, with
//!   dimension numbers in range; its shape is what its shape function infers (nothing is
//!   checked where a size is unknown).
//!
//! Calls
//! - The parameters of a called computation have the shapes that the caller passes, and its result
//!   has the shape that the caller expects: scalars for reducers and comparators, the operands'
//!   shapes for calls and fusions, the state for loops, the operand for branches.
//! - The operand of an `async-update` or `async-done` is an `async-start` or `async-update`; if
//!   operand layouts are given, there is one per operand.
//!
//! Header
//! - The entry layout has the shapes of the parameters and of the result.
//! - Aliases and donations name existing places in results and parameters; aliased places have
//!   equal shapes, and no output place is aliased twice.

mod calls;
mod header;
mod shapes;

use crate::{
    Computation, ComputationId, Error, Instruction, InstructionId, Module, Op, Shape,
    VerifierErrors, infer_shape,
};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use tegula_arena::{EntityRef, SecondaryMap};

/// The maximum number of errors that are collected.
const MAX_ERRORS: usize = 100;

/// Checks all invariants in the module's documentation.
///
/// # Errors
/// The violations, in the order of the program, at most 100.
pub fn verify(module: &Module) -> Result<(), VerifierErrors> {
    let mut verifier = Verifier {
        module,
        errors: Vec::new(),
        owner: SecondaryMap::new(),
    };
    verifier.run();
    VerifierErrors::check(verifier.errors)
}

struct Verifier<'m> {
    module: &'m Module,
    errors: Vec<Error>,
    /// For each instruction seen so far, the index of its computation, plus 1.
    owner: SecondaryMap<InstructionId, u32>,
}

impl<'m> Verifier<'m> {
    fn run(&mut self) {
        let module = self.module;
        if module.computations.get(module.entry).is_none() {
            self.report(Error::input("the entry computation does not exist"));
            return;
        }
        let mut names = FxHashSet::default();
        for (id, computation) in &module.computations {
            if !names.insert(&*computation.name) {
                let message = format!("two computations have the name `{}`", computation.name);
                self.report(Error::input(message).at(&module.source, computation.span));
            }
            // Shape functions inspect callees, so a computation is checked only if its callees have
            // no errors.
            let before = self.errors.len();
            self.computation(id, computation);
            if self.errors.len() > before {
                return;
            }
        }
        header::check(module, &mut self.errors);
    }

    fn report(&mut self, error: Error) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }

    fn report_at(&mut self, instruction: &Instruction, error: Error) {
        let error = error.in_instruction(&instruction.name);
        self.report(error.at(&self.module.source, instruction.span));
    }

    fn computation(&mut self, id: ComputationId, computation: &'m Computation) {
        let before = self.errors.len();
        self.structure(id, computation);
        if self.errors.len() > before {
            return;
        }
        for &instruction in &computation.instructions {
            let instruction = &self.module.instructions[instruction];
            if let Err(error) = self.instruction(instruction) {
                self.report_at(instruction, error);
            }
        }
    }

    fn structure(&mut self, id: ComputationId, computation: &'m Computation) {
        let module = self.module;
        let mut names = FxHashSet::default();
        let mut parameters = 0usize;
        for &instruction in &computation.instructions {
            let Some(found) = module.instructions.get(instruction) else {
                let message = format!(
                    "`{}` lists an instruction that does not exist",
                    computation.name
                );
                return self.report(Error::bug(message));
            };
            if found.computation != id || self.owner[instruction] != 0 {
                let message = "listed in two computations, or twice in one";
                self.report_at(found, Error::input(message));
            }
            if !names.insert(&*found.name) {
                self.report_at(found, Error::input("the name is used twice"));
            }
            for (number, &operand) in found.operands.iter().enumerate() {
                if self.owner[operand] != id.index() as u32 + 1 {
                    let message = format!("operand {number} is not defined before it is used");
                    self.report_at(found, Error::input(message));
                }
            }
            self.owner[instruction] = id.index() as u32 + 1;
            if let Op::Parameter(number) = found.op {
                parameters += 1;
                if computation.parameters.get(number as usize) != Some(&instruction) {
                    let message = format!("parameter {number} is out of order");
                    self.report_at(found, Error::input(message));
                }
            }
            for callee in found.op.called_computations() {
                if callee >= id {
                    let message = "calls a computation that does not come before its own";
                    self.report_at(found, Error::input(message));
                }
            }
        }
        self.root_and_parameters(id, computation, parameters);
    }

    fn root_and_parameters(&mut self, id: ComputationId, computation: &Computation, found: usize) {
        let source = &self.module.source;
        let mine = |owner: u32| owner == id.index() as u32 + 1;
        if !mine(self.owner[computation.root]) {
            let message = format!(
                "the root of `{}` is not one of its instructions",
                computation.name
            );
            self.report(Error::input(message).at(source, computation.span));
        }
        if found != computation.parameters.len() {
            let message = format!(
                "`{}` has {found} parameters, but {} are listed",
                computation.name,
                computation.parameters.len()
            );
            self.report(Error::input(message).at(source, computation.span));
        }
        for &instruction in &computation.instructions {
            let Some(found) = self.module.instructions.get(instruction) else {
                continue;
            };
            let annotations = found.annotations.as_deref();
            let predecessors = annotations.map_or(&[][..], |a| &a.control_predecessors);
            if predecessors
                .iter()
                .any(|&p| !mine(self.owner[p]) || p == instruction)
            {
                let message = "a control predecessor is not in this computation";
                self.report_at(found, Error::input(message));
            }
        }
    }

    fn instruction(&self, instruction: &Instruction) -> Result<(), Error> {
        shapes::check(self.module, &instruction.shape)?;
        let module = self.module;
        let operands: SmallVec<[&Shape; 4]> = instruction
            .operands
            .iter()
            .map(|&operand| &module.instructions[operand].shape)
            .collect();
        let inferred = infer_shape(module, &instruction.op, &operands, Some(&instruction.shape))?;
        if !instruction.shape.may_equal(&inferred) {
            return Err(Error::input(format!(
                "the shape should be {inferred:#}, found {:#}",
                instruction.shape
            )));
        }
        calls::check(module, instruction, &operands)
    }
}
