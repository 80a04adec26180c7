//! Writes a scheduled program as HLO in the style of libtpu's dumps: fusions with their
//! computations, layouts with tiles and memory spaces on every shape, copies between layouts, and
//! `copy-start` and `copy-done` in the order of the schedule.

mod copies;
mod kernels;
mod steps;

use super::Schedule;
use super::builder::is_immediate;
use kernels::{Env, Prepared, layout_of, operation, tuple_of, written_op};
use rustc_hash::FxHashMap;
use tegula_fusion::{Def, ValueId};
use tegula_ir::{ComputationId, Error, InstructionId, Module, ModuleBuilder, Op};
use tegula_layout::assign::{Assignment, Kernel, name_of, with_layout};

/// How to write views that move no bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Views {
    /// As `bitcast`s, whose meaning depends on the layouts.
    #[default]
    Bitcasts,
    /// As the program's reshapes and transpositions, whose meaning does not depend on layouts.
    Operations,
}

/// The program with its layouts and its schedule.
///
/// # Errors
/// An operation that cannot be written alone, which is a bug.
pub fn to_module(
    module: &Module,
    assignment: &Assignment,
    schedule: &Schedule,
    views: Views,
) -> Result<Module, Error> {
    let mut builder = ModuleBuilder::new(&module.name);
    *builder.attributes_mut() = tegula_ir::ModuleAttributes {
        is_scheduled: true,
        entry_layout: None,
        stack_frames: tegula_ir::StackFrames::default(),
        ..module.attributes.clone()
    };
    let mut writer = Writer {
        module,
        assignment,
        builder,
        imported: FxHashMap::default(),
    };
    let entry = steps::program(&mut writer, schedule, views)?;
    let mut written = writer.builder.build_unverified(entry);
    let computation = &written.computations[entry];
    let shape = |id: &InstructionId| written.instructions[*id].shape.clone();
    let parameters = computation.parameters.iter().map(shape).collect();
    let result = shape(&computation.root);
    written.attributes.entry_layout = Some((parameters, result));
    Ok(written)
}

/// One kernel as a separate module. Its parameters are the arrays that it reads ([`Kernel::reads`]
/// without constants that are written where they are used), and its result is what it writes, a
/// tuple if there are several arrays. Also returns the parameters' values, in order.
///
/// # Errors
/// An operation that cannot be written alone, such as a loop; or a bug.
/// An operation that cannot be written alone, such as a loop; or a bug.
pub fn kernel_module(
    module: &Module,
    assignment: &Assignment,
    kernel: &Kernel,
) -> Result<(Module, Vec<ValueId>), Error> {
    let mut writer = Writer {
        module,
        assignment,
        builder: ModuleBuilder::new(&module.name),
        imported: FxHashMap::default(),
    };
    let computation = writer.fused(kernel)?;
    let reads = kernel.reads.iter().map(|read| read.value);
    let reads = reads.filter(|&value| !is_immediate(&assignment.program, value));
    let mut written = writer.builder.build_unverified(computation);
    keep_bitcasts(&mut written, module, assignment, kernel);
    Ok((written, reads.collect()))
}

/// The meaning of a bitcast depends on the layouts of its operand and result in the original
/// program, not on the assigned ones.
fn keep_bitcasts(written: &mut Module, module: &Module, assignment: &Assignment, kernel: &Kernel) {
    let origins = kernel.nodes.iter();
    let origins = origins.map(|&node| &module[assignment.program.nodes[node].origin]);
    for origin in origins.filter(|origin| origin.op == Op::Bitcast) {
        let is_it = |id: &&InstructionId| {
            let own = &written[**id];
            own.op == Op::Bitcast && own.name == origin.name
        };
        let entry = written.entry_computation();
        let Some(&id) = entry.instructions.iter().find(is_it) else {
            continue;
        };
        let operands = written[id].operands.clone();
        written.instructions[id].shape = origin.shape.clone();
        for (own, theirs) in operands.into_iter().zip(&origin.operands) {
            written.instructions[own].shape = module[*theirs].shape.clone();
        }
    }
}

struct Writer<'a> {
    module: &'a Module,
    assignment: &'a Assignment,
    builder: ModuleBuilder,
    imported: FxHashMap<ComputationId, ComputationId>,
}

impl Writer<'_> {
    /// An instruction's operation, with the computations that it calls copied to the new module.
    fn import(&mut self, instruction: InstructionId) -> Result<Op, Error> {
        let mut op = written_op(self.module, instruction);
        for callee in op.called_computations() {
            self.import_computation(callee)?;
        }
        let imported = &self.imported;
        op.map_computations(|id| imported.get(&id).copied().unwrap_or(id));
        Ok(op)
    }

    fn import_computation(&mut self, id: ComputationId) -> Result<(), Error> {
        if self.imported.contains_key(&id) {
            return Ok(());
        }
        let module = self.module;
        let computation = &module[id];
        let mut ops = Vec::new();
        for &instruction in &computation.instructions {
            ops.push(self.import(instruction)?);
        }
        let mut new = self.builder.computation(&computation.name);
        let mut map: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
        for &parameter in &computation.parameters {
            let instruction = &module[parameter];
            let id = new.named_parameter(&instruction.name, instruction.shape.clone());
            map.insert(parameter, id);
        }
        for (&old, op) in computation.instructions.iter().zip(ops) {
            if map.contains_key(&old) {
                continue;
            }
            let instruction = &module[old];
            let operands = instruction.operands.iter();
            let operands: Vec<InstructionId> =
                operands.filter_map(|id| map.get(id).copied()).collect();
            let (name, shape) = (&*instruction.name, instruction.shape.clone());
            let id = new.push_named(Some(name), op, &operands, Some(shape))?;
            map.insert(old, id);
        }
        let root = map.get(&computation.root).copied();
        let root = root.ok_or_else(|| Error::bug("a computation has no root"))?;
        let new = new.finish(root)?;
        self.imported.insert(id, new);
        Ok(())
    }

    /// Prepares a kernel to be written.
    fn prepare(&mut self, kernel: &Kernel) -> Result<Prepared, Error> {
        let nodes = &self.assignment.program.nodes;
        if !nodes[kernel.root].kind.regions().is_empty() {
            return Err(Error::bug("a loop is not a kernel"));
        }
        for &id in &kernel.nodes {
            self.import(nodes[id].origin)?;
        }
        if kernel.nodes.len() > 1 {
            Ok(Prepared::Fusion(self.fused(kernel)?))
        } else {
            Ok(Prepared::Plain)
        }
    }

    /// A fusion's computation.
    fn fused(&mut self, kernel: &Kernel) -> Result<ComputationId, Error> {
        let program = &self.assignment.program;
        let mut ops = Vec::new();
        for &id in &kernel.nodes {
            ops.push(self.import(program.nodes[id].origin)?);
        }
        let (module, assignment) = (self.module, self.assignment);
        let mut new = self.builder.computation("fused_computation");
        let mut env = Env::default();
        for read in kernel
            .reads
            .iter()
            .filter(|read| !is_immediate(program, read.value))
        {
            let layout = read.layout.clone();
            let layout = layout.unwrap_or_else(|| layout_of(assignment, read.value));
            let nameless = match program.values[read.value].def {
                Def::LoopState => "state",
                _ => "constant",
            };
            let name = name_of(module, program, read.value).unwrap_or(nameless);
            let shape = with_layout(&program.values[read.value].shape, &layout);
            let id = new.named_parameter(&format!("param.{name}"), shape);
            env.insert(read.value, (id, layout));
        }
        let mut results = Vec::new();
        for (&id, op) in kernel.nodes.iter().zip(ops) {
            let made = operation(&mut new, assignment, module, id, op, &mut env, &|value| {
                let inside = kernel.inside.get(&value).cloned();
                inside.unwrap_or_else(|| layout_of(assignment, value))
            })?;
            if id == kernel.root {
                results = made;
            }
        }
        let root = match results.as_slice() {
            [one] => *one,
            _ => tuple_of(&mut new, &results)?,
        };
        new.finish(root)
    }
}
