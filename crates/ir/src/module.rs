//! Modules: computations of instructions, in entity arenas.
//!
//! Instructions of all computations live in one arena of the [`Module`], so an
//! [`InstructionId`] names an instruction of the whole program. A
//! [`Computation`] lists its own in an order in which operands come first.

use crate::{Annotations, CustomCall, ModuleAttributes, Op, RunTimeSizes, Shape};
use smallvec::SmallVec;
use std::sync::Arc;
use tegula_arena::{Arena, entity_impl};

/// An instruction of a module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstructionId(u32);
entity_impl!(InstructionId, "inst");

/// A computation of a module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputationId(u32);
entity_impl!(ComputationId, "comp");

/// A range of bytes of the source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// One instruction: an operation, its operands and its result's shape.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// The name, without `%`; unique within its computation.
    pub name: Arc<str>,
    /// The operation.
    pub op: Op,
    /// The operands.
    pub operands: SmallVec<[InstructionId; 4]>,
    /// The shape of the result.
    pub shape: Shape,
    /// The computation that contains the instruction.
    pub computation: ComputationId,
    /// The place in the text; empty if the instruction was not read from text.
    pub span: Span,
    /// Annotations such as sharding and metadata, if any.
    pub annotations: Option<Box<Annotations>>,
}

/// A function: instructions, some of which are its parameters and one its root.
#[derive(Clone, Debug)]
pub struct Computation {
    /// The name, without `%`; unique within the module.
    pub name: Arc<str>,
    /// The instructions, operands before users.
    pub instructions: Vec<InstructionId>,
    /// The parameters, by number.
    pub parameters: Vec<InstructionId>,
    /// The instruction that gives the result.
    pub root: InstructionId,
    /// `execution_thread=`, if stated.
    pub execution_thread: Option<Arc<str>>,
    /// The place in the text.
    pub span: Span,
}

/// A variable for a size that is known only at run time: `?` of an entry parameter, or a size that
/// the program computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name, `pN_dK` unless the program names it.
    pub name: Arc<str>,
    /// The smallest value it can have.
    pub lower: i64,
    /// The largest value it can have.
    pub upper: i64,
}

/// A program.
#[derive(Clone, Debug)]
pub struct Module {
    /// The name.
    pub name: Arc<str>,
    /// The attributes of the header.
    pub attributes: ModuleAttributes,
    /// Every instruction of every computation.
    pub instructions: Arena<InstructionId, Instruction>,
    /// Every computation, callees before callers.
    pub computations: Arena<ComputationId, Computation>,
    /// The computation that the program starts with.
    pub entry: ComputationId,
    /// The symbols that symbolic dimensions use; the index is the variable's number.
    pub symbols: Vec<Symbol>,
    /// The sources of the symbols' values and the checks at run time; empty before
    /// [`infer_symbolic_dims`](crate::infer_symbolic_dims).
    pub sizes: RunTimeSizes,
    /// Values that inputs must have, because the module was specialised to them.
    pub required: Vec<RequiredValue>,
    /// The text that the module was read from, for error messages; empty otherwise.
    pub source: Arc<str>,
}

/// A value that an input must have in every run, because the module's shapes depend on it. HLO text
/// cannot express this: it is lost when a module is printed and read again.
#[derive(Clone, Debug, PartialEq)]
pub struct RequiredValue {
    /// The parameter, by its number in the flattened list of parameters.
    pub parameter: usize,
    /// The parameter's name in the program.
    pub name: Arc<str>,
    /// The value.
    pub value: crate::Literal,
}

impl Module {
    /// The entry computation.
    pub fn entry_computation(&self) -> &Computation {
        &self.computations[self.entry]
    }

    /// Whether two modules are the same in names, order, operations, shapes and annotations. Places
    /// in the text, metadata and stack-frame tables are not compared.
    pub fn same_as(&self, other: &Self) -> bool {
        use crate::{PrintStyle, print_module};
        // The short form contains everything that is compared.
        self.symbols == other.symbols
            && print_module(self, PrintStyle::Short) == print_module(other, PrintStyle::Short)
    }

    /// The shape of an operand of an instruction.
    pub fn operand_shape(&self, instruction: InstructionId, operand: usize) -> Option<&Shape> {
        let id = *self.instructions[instruction].operands.get(operand)?;
        Some(&self.instructions[id].shape)
    }

    /// The shapes of an instruction's operands.
    pub fn operand_shapes(&self, instruction: InstructionId) -> SmallVec<[&Shape; 4]> {
        let operands = self.instructions[instruction].operands.iter();
        operands.map(|id| &self.instructions[*id].shape).collect()
    }

    /// An instruction's custom call as it is passed to whatever [runs](CustomCall::to_run) it;
    /// `None` for other operations.
    pub fn custom_call_to_run(&self, instruction: InstructionId) -> Option<CustomCall> {
        let Op::CustomCall(call) = &self[instruction].op else {
            return None;
        };
        let operands = self.operand_shapes(instruction);
        let Instruction {
            annotations, shape, ..
        } = &self[instruction];
        Some(call.to_run(annotations.as_deref(), &operands, shape))
    }

    /// An instruction's operation, complete without its instruction: a custom call is converted to
    /// one [to run](Self::custom_call_to_run).
    pub fn op_to_run(&self, instruction: InstructionId) -> Op {
        match self.custom_call_to_run(instruction) {
            Some(call) => Op::CustomCall(Box::new(call)),
            None => self[instruction].op.clone(),
        }
    }
}

impl std::ops::Index<InstructionId> for Module {
    type Output = Instruction;
    fn index(&self, id: InstructionId) -> &Instruction {
        &self.instructions[id]
    }
}

impl std::ops::Index<ComputationId> for Module {
    type Output = Computation;
    fn index(&self, id: ComputationId) -> &Computation {
        &self.computations[id]
    }
}
