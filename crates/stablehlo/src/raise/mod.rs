//! Raises a [`tegula_ir::Module`] to StableHLO, for use by other tools.
//!
//! Tuples are eliminated: an instruction with a tuple shape becomes several values. Computations
//! that are called become functions; those of loops, branches and reductions become regions.
//! Operations that StableHLO lacks become CHLO operations if possible (`erf`, `top_k`, ...),
//! otherwise an error.
//!
//! - `values`: the module under construction, and the types of shapes;
//! - `operations`: the operation for each instruction;
//! - `composed`: instructions that become several operations, or none;
//! - `attributes`: dimension numbers, windows and other attributes.

mod attributes;
mod composed;
mod operations;
mod values;

use crate::Error;
use crate::mlir::{Attribute, Block, FunctionType, Module, Operation, Region, Type, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use tegula_ir::{ComputationId, Instruction, InstructionId, Op};
use values::{Maker, leaf_types};

/// The maximum nesting of computations.
const MAX_DEPTH: usize = 200;

/// Raises a module to StableHLO. Its entry becomes the function `main`.
///
/// # Errors
/// The first instruction that has no equivalent operation.
pub fn from_module(module: &tegula_ir::Module) -> Result<Module, Error> {
    let mut raiser = Raiser {
        source: module,
        maker: Maker::default(),
        names: FxHashMap::default(),
        functions: Vec::new(),
        waiting: Vec::new(),
        taken: FxHashSet::default(),
        depth: 0,
    };
    raiser.name_of(module.entry, Some("main"));
    while let Some(computation) = raiser.waiting.pop() {
        let function = raiser.function(computation)?;
        raiser.functions.push(function);
    }
    Ok(raiser.finish())
}

struct Raiser<'m> {
    source: &'m tegula_ir::Module,
    maker: Maker,
    /// The names of the functions for computations, including those that are still to be built.
    names: FxHashMap<ComputationId, Arc<str>>,
    functions: Vec<Operation>,
    waiting: Vec<ComputationId>,
    taken: FxHashSet<Arc<str>>,
    depth: usize,
}

/// The values of the instructions of one computation.
type Values = FxHashMap<InstructionId, Vec<ValueId>>;

impl<'m> Raiser<'m> {
    /// The name of a computation's function, which is built later if necessary.
    fn name_of(&mut self, computation: ComputationId, wanted: Option<&str>) -> Arc<str> {
        if let Some(name) = self.names.get(&computation) {
            return Arc::clone(name);
        }
        let base = wanted.unwrap_or(&self.source[computation].name).to_owned();
        let mut name: Arc<str> = base.as_str().into();
        let mut number = 0;
        while !self.taken.insert(Arc::clone(&name)) {
            number += 1;
            name = format!("{base}_{number}").into();
        }
        self.names.insert(computation, Arc::clone(&name));
        self.waiting.push(computation);
        name
    }

    fn function(&mut self, id: ComputationId) -> Result<Operation, Error> {
        let computation = &self.source[id];
        let mut block = Block::default();
        let mut inputs = Vec::new();
        let mut arguments = Vec::new();
        for parameter in &computation.parameters {
            let types = self.types(*parameter)?;
            let values: Vec<ValueId> = types
                .iter()
                .map(|ty| self.maker.value(ty.clone()))
                .collect();
            block.arguments.extend(&values);
            inputs.extend(types);
            arguments.push(values);
        }
        let results = self.body(id, &arguments, &mut block)?;
        let types = results.iter().map(|value| self.maker.type_of(*value));
        let signature = FunctionType {
            inputs,
            results: types.collect(),
        };
        let mut end = Operation::new("func.return");
        end.operands.extend(results);
        block.operations.push(end);
        let mut function = Operation::new("func.func");
        let name = self.name_of(id, None);
        let visibility = match id == self.source.entry {
            true => "public",
            false => "private",
        };
        function.properties = vec![
            ("sym_name".into(), Attribute::String(name)),
            ("sym_visibility".into(), Attribute::string(visibility)),
            (
                "function_type".into(),
                Attribute::Type(Type::Function(Arc::new(signature))),
            ),
        ];
        function.regions.push(Region {
            blocks: vec![block],
        });
        Ok(function)
    }

    /// The types of an instruction's arrays.
    fn types(&self, id: InstructionId) -> Result<Vec<Type>, Error> {
        let instruction = &self.source[id];
        leaf_types(&instruction.shape).map_err(|why| error(instruction, why))
    }

    /// Raises a computation's instructions into a block, with these values as its parameters;
    /// returns the values of its root.
    fn body(
        &mut self,
        id: ComputationId,
        arguments: &[Vec<ValueId>],
        block: &mut Block,
    ) -> Result<Vec<ValueId>, Error> {
        if self.depth == MAX_DEPTH {
            return Err(Error::unsupported(format!(
                "computations are nested more than {MAX_DEPTH} deep"
            )));
        }
        self.depth += 1;
        let computation = &self.source[id];
        let mut values = Values::default();
        for id in &computation.instructions {
            let instruction = &self.source[*id];
            let made = match &instruction.op {
                Op::Parameter(number) => {
                    let given = arguments.get(*number as usize).cloned();
                    given.ok_or_else(|| error(instruction, "a parameter without an argument"))?
                }
                _ => self.instruction(instruction, &values, block)?,
            };
            values.insert(*id, made);
        }
        self.depth -= 1;
        Ok(values.remove(&computation.root).unwrap_or_default())
    }

    /// A region that returns a computation's result. Its arguments are those of the computation,
    /// unless others are given.
    fn region(
        &mut self,
        id: ComputationId,
        given: Option<&[Vec<ValueId>]>,
    ) -> Result<Region, Error> {
        let mut block = Block::default();
        let results = match given {
            Some(arguments) => self.body(id, arguments, &mut block)?,
            None => {
                let computation = &self.source[id];
                let mut arguments = Vec::new();
                for parameter in &computation.parameters {
                    let types = self.types(*parameter)?;
                    let values: Vec<ValueId> =
                        types.into_iter().map(|ty| self.maker.value(ty)).collect();
                    block.arguments.extend(&values);
                    arguments.push(values);
                }
                self.body(id, &arguments, &mut block)?
            }
        };
        let mut end = Operation::new("stablehlo.return");
        end.operands.extend(results);
        block.operations.push(end);
        Ok(Region {
            blocks: vec![block],
        })
    }

    fn finish(mut self) -> Module {
        // The entry's function was built first.
        let mut module = Operation::new("builtin.module");
        let name = Attribute::String(Arc::clone(&self.source.name));
        module.properties.push(("sym_name".into(), name));
        let attributes = &self.source.attributes;
        for (name, value) in [
            ("mhlo.num_partitions", attributes.num_partitions),
            ("mhlo.num_replicas", attributes.replica_count),
        ] {
            if let Some(value) = value {
                let ty = Type::signless(32);
                module
                    .attributes
                    .push((name.into(), Attribute::Integer { value, ty }));
            }
        }
        module.regions.push(Region {
            blocks: vec![Block {
                arguments: Vec::new(),
                operations: std::mem::take(&mut self.functions),
            }],
        });
        self.maker.finish(module)
    }
}

/// An error about an instruction.
fn error(instruction: &Instruction, why: impl AsRef<str>) -> Error {
    let (name, opcode) = (&instruction.name, instruction.op.opcode());
    Error::unsupported(format!("`{name}` ({opcode}): {}", why.as_ref()))
}
