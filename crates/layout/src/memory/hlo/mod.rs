//! A scheduled program as HLO, the way the real compiler's dumps look: fusions with
//! their computations, layouts with tiles and memory spaces on every shape, copies
//! between layouts, `copy-start` and `copy-done` in the order of the schedule.

mod copies;
mod kernels;

use super::build::is_immediate;
use super::{BufferId, Schedule, Step};
use crate::assign::{Assignment, Kernel, Region, name_of, with_layout};
use copies::{Slice, done, slices, start};
use kernels::{
    Env, Prepared, carried, held, layout_of, operation, result_layout, run_kernel, tuple_of,
    write_kernel,
};
use rustc_hash::FxHashMap;
use tegula_fusion::{Def, NodeKind, Program, ValueId};
use tegula_ir::{ComputationId, Error, InstructionId, Layout, Module, ModuleBuilder, Op, Shape};

/// How views that move no byte are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Views {
    /// As `bitcast`s, which mean what the layouts say.
    #[default]
    Bitcasts,
    /// As the reshapes and transpositions of the program, which mean the same whatever
    /// the layouts.
    Operations,
}

/// The program with its layouts and its schedule.
///
/// # Errors
/// An operation that cannot be written alone; that is a bug.
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
    let Some(region) = assignment.regions.iter().find(|region| region.of.is_none()) else {
        return Err(Error::bug("the program has no region of its own"));
    };
    let prepared = writer.prepare(region)?;
    let slices = slices(&mut writer.builder, &assignment.program, schedule)?;
    let entry = writer.entry(region, &prepared, schedule, (views, &slices))?;
    let mut written = writer.builder.build_unverified(entry);
    let computation = &written.computations[entry];
    let shape = |id: &InstructionId| written.instructions[*id].shape.clone();
    let parameters = computation.parameters.iter().map(shape).collect();
    let result = shape(&computation.root);
    written.attributes.entry_layout = Some((parameters, result));
    Ok(written)
}

/// One kernel as a module of its own: its parameters are the arrays that it reads
/// ([`Kernel::reads`] without those that are written where they are used), its result
/// what it writes, a tuple if it writes several. The parameters' values are given, in
/// order.
///
/// # Errors
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

/// A bitcast means what the layouts of its operand and result say, which are those that
/// the program gave them and not those that were assigned.
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
    fn program(&self) -> &Program {
        &self.assignment.program
    }

    /// The computations that an operation calls, copied into the new module.
    fn import(&mut self, op: &Op) -> Result<Op, Error> {
        for callee in op.called_computations() {
            self.import_computation(callee)?;
        }
        let mut op = op.clone();
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
            ops.push(self.import(&module[instruction].op)?);
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

    fn shape(&self, value: ValueId, layout: &Layout) -> Shape {
        with_layout(&self.program().values[value].shape, layout)
    }

    fn prepare(&mut self, region: &Region) -> Result<Vec<Prepared>, Error> {
        let mut all = Vec::new();
        for kernel in &region.kernels {
            for &id in &kernel.nodes {
                let origin = self.program().nodes[id].origin;
                if self.program().nodes[id].kind.regions().is_empty() {
                    self.import(&self.module[origin].op)?;
                }
            }
            let node = self.program().nodes[kernel.root].clone();
            let inner = node.kind.regions().len();
            all.push(if inner > 0 {
                let computations: Result<_, _> = (0..inner)
                    .map(|number| self.inner(kernel, number))
                    .collect();
                Prepared::Control(computations?)
            } else if kernel.nodes.len() > 1 {
                Prepared::Fusion(self.fused(kernel)?)
            } else {
                Prepared::Plain
            });
        }
        Ok(all)
    }

    /// A fusion's computation.
    fn fused(&mut self, kernel: &Kernel) -> Result<ComputationId, Error> {
        let program = &self.assignment.program;
        let mut ops = Vec::new();
        for &id in &kernel.nodes {
            ops.push(self.import(&self.module[program.nodes[id].origin].op)?);
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

    /// The computation of one region of a loop or choice: a function of one tuple.
    fn inner(&mut self, kernel: &Kernel, number: usize) -> Result<ComputationId, Error> {
        let of = Some((kernel.root, number));
        let assignment = self.assignment;
        let found = assignment.regions.iter().find(|region| region.of == of);
        let region = found.ok_or_else(|| Error::bug("a region was lost"))?;
        let prepared = self.prepare(region)?;
        let carried = carried(assignment, kernel);
        let shapes = carried
            .iter()
            .map(|(value, layout)| self.shape(*value, layout));
        let tuple = Shape::Tuple(shapes.collect());
        let (module, program) = (self.module, &assignment.program);
        let (condition, states) = match &program.nodes[kernel.root].kind {
            NodeKind::While { states, .. } => (number == 0, states.len()),
            _ => (false, 0),
        };
        let mut new = self
            .builder
            .computation(if condition { "condition" } else { "region" });
        let parameter = new.named_parameter("state", tuple);
        let mut env = Env::default();
        for (at, (value, layout)) in carried.iter().enumerate() {
            let shape = with_layout(&program.values[*value].shape, layout);
            let id = new.push_named(
                None,
                Op::GetTupleElement(at as i64),
                &[parameter],
                Some(shape),
            )?;
            env.insert(*value, (id, layout.clone()));
        }
        for (kernel, prepared) in region.kernels.iter().zip(&prepared) {
            write_kernel(
                &mut new,
                module,
                assignment,
                &self.imported,
                kernel,
                prepared,
                &mut env,
            )?;
        }
        let mut results = Vec::new();
        for (at, &value) in region.results.iter().enumerate() {
            let wanted = carried.get(at).filter(|_| states > 0 && !condition);
            let wanted = wanted.map_or_else(
                || result_layout(assignment, kernel.root, at, value, condition),
                |(_, layout)| layout.clone(),
            );
            results.push(held(&mut new, program, value, &wanted, &mut env)?);
        }
        if condition {
            let root = results.first().copied();
            return new.finish(root.ok_or_else(|| Error::bug("a condition gives nothing"))?);
        }
        // What a loop only reads it passes on.
        for (value, layout) in carried
            .iter()
            .skip(if states > 0 { states } else { usize::MAX })
        {
            results.push(held(&mut new, program, *value, layout, &mut env)?);
        }
        let root = tuple_of(&mut new, &results)?;
        new.finish(root)
    }

    fn entry(
        &mut self,
        region: &Region,
        prepared: &[Prepared],
        schedule: &Schedule,
        (views, slices): (Views, &[Vec<Slice>]),
    ) -> Result<ComputationId, Error> {
        let (module, assignment) = (self.module, self.assignment);
        let program = &assignment.program;
        let mut new = self.builder.computation(&module.entry_computation().name);
        let mut ids: FxHashMap<BufferId, InstructionId> = FxHashMap::default();
        let mut starts: FxHashMap<usize, Vec<InstructionId>> = FxHashMap::default();
        let given = schedule.buffers.iter().enumerate();
        for (id, buffer) in given.filter(|(_, buffer)| buffer.source == super::Source::Given) {
            let shape = with_layout(&program.values[buffer.value].shape, &buffer.layout);
            let name = name_of(module, program, buffer.value);
            let instruction = match &program.values[buffer.value].def {
                Def::Parameter(_) => new.named_parameter(name.unwrap_or("p"), shape),
                Def::Constant(literal) => {
                    let op = Op::Constant([literal.clone()].into());
                    new.push_named(Some("constant"), op, &[], Some(shape))?
                }
                _ => return Err(Error::bug("a buffer is written by nothing")),
            };
            ids.insert(id, instruction);
        }
        for step in &schedule.steps {
            let shape = |id: BufferId| {
                let buffer = &schedule.buffers[id];
                with_layout(&program.values[buffer.value].shape, &buffer.layout)
            };
            let held = |ids: &FxHashMap<BufferId, InstructionId>, id: &BufferId| {
                ids.get(id)
                    .copied()
                    .ok_or_else(|| Error::bug("a buffer is read too early"))
            };
            match step {
                Step::Kernel {
                    kernel,
                    reads,
                    writes,
                    ..
                } => {
                    let kernel = &region.kernels[*kernel];
                    let mut env = Env::default();
                    for id in reads {
                        let buffer = &schedule.buffers[*id];
                        let instruction = held(&ids, id)?;
                        // A kernel that wants another layout reads the copy.
                        env.insert(buffer.value, (instruction, buffer.layout.clone()));
                    }
                    let layouts = writes.iter().map(|&id| {
                        let buffer = &schedule.buffers[id];
                        (buffer.value, buffer.layout.clone())
                    });
                    let at = (module, assignment, &self.imported);
                    let made = run_kernel(
                        &mut new,
                        at,
                        kernel,
                        &prepared[region_index(region, kernel)],
                        &mut env,
                        &layouts.collect::<Vec<_>>(),
                    )?;
                    ids.extend(writes.iter().copied().zip(made));
                }
                Step::Relayout { from, to, .. } => {
                    let from = held(&ids, from)?;
                    let copy = new.push_named(Some("copy"), Op::Copy, &[from], Some(shape(*to)))?;
                    ids.insert(*to, copy);
                }
                Step::Bitcast { root, from, to } => {
                    let from = held(&ids, from)?;
                    let name = name_of(module, program, schedule.buffers[*to].value);
                    let name = format!("bitcast.{}", name.unwrap_or("view"));
                    let op = match views {
                        Views::Bitcasts => Op::Bitcast,
                        Views::Operations => module[program.nodes[*root].origin].op.clone(),
                    };
                    let view = new.push_named(Some(&name), op, &[from], Some(shape(*to)))?;
                    ids.insert(*to, view);
                }
                Step::CopyStart(copy) => {
                    let transfer = &schedule.transfers[*copy];
                    let shapes = (shape(transfer.from), shape(transfer.to));
                    let from = held(&ids, &transfer.from)?;
                    starts.insert(
                        *copy,
                        start(
                            &mut new,
                            (from, transfer.before_program),
                            shapes,
                            &slices[*copy],
                        )?,
                    );
                }
                Step::CopyDone(copy) => {
                    let to = schedule.transfers[*copy].to;
                    let begun = starts.get(copy);
                    let begun = begun.ok_or_else(|| Error::bug("a copy ends before it begins"))?;
                    let major = schedule.buffers[to].layout.minor_to_major.last().copied();
                    let at = (shape(to), major.unwrap_or(0));
                    let done = done(&mut new, begun, at, &slices[*copy])?;
                    ids.insert(to, done);
                }
            }
        }
        let mut results = Vec::new();
        for (&id, &value) in schedule.results.iter().zip(&region.results) {
            match ids.get(&id) {
                Some(&instruction) => results.push(instruction),
                None => {
                    let mut env = Env::default();
                    let layout = layout_of(assignment, value);
                    results.push(kernels::held(&mut new, program, value, &layout, &mut env)?);
                }
            }
        }
        let is_tuple = module[module.entry_computation().root]
            .shape
            .as_tuple()
            .is_some();
        let root = match results.as_slice() {
            [one] if !is_tuple => *one,
            _ => tuple_of(&mut new, &results)?,
        };
        new.finish(root)
    }
}

fn region_index(region: &Region, kernel: &Kernel) -> usize {
    let found = region
        .kernels
        .iter()
        .position(|other| other.root == kernel.root);
    found.unwrap_or(0)
}
