//! A scheduled program as HLO, the way the real compiler's dumps look: fusions with
//! their computations, layouts with tiles and memory spaces on every shape, copies
//! between layouts, `copy-start` and `copy-done` in the order of the schedule.

use super::build::is_immediate;
use super::{BufferId, FLAGS, Schedule, Step};
use crate::assign::{Assignment, Kernel, Region, name_of, with_layout};
use rustc_hash::FxHashMap;
use tegula_fusion::{Def, NodeId, NodeKind, Program, ValueId};
use tegula_ir::{
    ComputationBuilder, ComputationId, ElementType, Error, FusionKind, InstructionId, Layout,
    Module, ModuleBuilder, Op, Shape,
};

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
    let slices = writer.slices(schedule)?;
    let entry = writer.entry(region, &prepared, schedule, (views, &slices))?;
    let mut written = writer.builder.build_unverified(entry);
    let computation = &written.computations[entry];
    let shape = |id: &InstructionId| written.instructions[*id].shape.clone();
    let parameters = computation.parameters.iter().map(shape).collect();
    let result = shape(&computation.root);
    written.attributes.entry_layout = Some((parameters, result));
    Ok(written)
}

/// What a kernel needs before it can be written.
enum Prepared {
    /// One operation.
    Plain,
    /// A fusion of this computation.
    Fusion(ComputationId),
    /// A loop's condition and body, or a choice's branches.
    Control(Vec<ComputationId>),
}

struct Writer<'a> {
    module: &'a Module,
    assignment: &'a Assignment,
    builder: ModuleBuilder,
    imported: FxHashMap<ComputationId, ComputationId>,
}

/// The instructions that hold values inside a computation, with their layouts.
type Env = FxHashMap<ValueId, (InstructionId, Layout)>;

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

    /// For each copy the slices that it is made in; none if it is made as a whole.
    fn slices(&mut self, schedule: &Schedule) -> Result<Vec<Vec<Slice>>, Error> {
        let program = &self.assignment.program;
        let mut all = Vec::new();
        for transfer in &schedule.transfers {
            let (from, to) = (
                &schedule.buffers[transfer.from],
                &schedule.buffers[transfer.to],
            );
            let array = &program.values[from.value].shape;
            let dims = array.static_dims().unwrap_or_default();
            let major = from
                .layout
                .minor_to_major
                .last()
                .map_or(0, |&dim| dim as usize);
            let size = dims.get(major).copied().unwrap_or(1) / transfer.slices.max(1);
            let mut slices = Vec::new();
            for number in 0..if transfer.slices > 1 {
                transfer.slices
            } else {
                0
            } {
                let taken = |(dim, &whole): (usize, &i64)| tegula_ir::SliceDim {
                    start: if dim == major { number * size } else { 0 },
                    limit: if dim == major {
                        (number + 1) * size
                    } else {
                        whole
                    },
                    stride: 1,
                };
                let op = Op::Slice(dims.iter().enumerate().map(taken).collect());
                let mut part = array.clone();
                if let Some(dim) = part.dims.get_mut(major) {
                    *dim = size.into();
                }
                let shape = with_layout(&part, &to.layout);
                let mut new = self.builder.computation("async_slice");
                let whole = new.named_parameter("param", with_layout(array, &from.layout));
                let root = new.push_named(Some("slice"), op, &[whole], Some(shape.clone()))?;
                let computation = new.finish(root)?;
                slices.push(Slice { computation, shape });
            }
            all.push(slices);
        }
        Ok(all)
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
                    results.push(self::held(&mut new, program, value, &layout, &mut env)?);
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

/// A slice of a copy: the computation that takes it, and its shape in the destination.
struct Slice {
    computation: ComputationId,
    shape: Shape,
}

/// The flag that a copy in flight sets.
fn flag(element_type: ElementType) -> Shape {
    let layout = Layout {
        memory_space: FLAGS,
        ..Layout::default()
    };
    with_layout(&tegula_ir::ArrayShape::new(element_type, &[]), &layout)
}

/// Begins a copy between memories: as a whole, or slice by slice.
fn start(
    new: &mut ComputationBuilder<'_>,
    (from, before_program): (InstructionId, bool),
    (source, target): (Shape, Shape),
    slices: &[Slice],
) -> Result<Vec<InstructionId>, Error> {
    if slices.is_empty() {
        let tuple = Shape::Tuple(vec![target, source, flag(ElementType::U32)]);
        let op = Op::CopyStart {
            cross_program_prefetch_index: before_program.then_some(0),
        };
        return Ok(vec![new.push_named(
            Some("copy-start"),
            op,
            &[from],
            Some(tuple),
        )?]);
    }
    let begin = |slice: &Slice| {
        let operand = Shape::Tuple(vec![source.clone()]);
        let tuple = vec![operand, slice.shape.clone(), flag(ElementType::S32)];
        let op = Op::AsyncStart {
            calls: slice.computation,
            thread: None,
        };
        new.push_named(Some("slice-start"), op, &[from], Some(Shape::Tuple(tuple)))
    };
    slices.iter().map(begin).collect()
}

/// Waits for a copy. Slices lie one behind the other, so that putting them together
/// moves nothing.
fn done(
    new: &mut ComputationBuilder<'_>,
    begun: &[InstructionId],
    (shape, major): (Shape, u32),
    slices: &[Slice],
) -> Result<InstructionId, Error> {
    if let (&[whole], true) = (begun, slices.is_empty()) {
        return new.push_named(Some("copy-done"), Op::CopyDone, &[whole], Some(shape));
    }
    let mut parts = Vec::new();
    for (slice, &begun) in slices.iter().zip(begun) {
        let shape = Some(slice.shape.clone());
        parts.push(new.push_named(Some("slice-done"), Op::AsyncDone, &[begun], shape)?);
    }
    new.push_named(
        Some("sliced"),
        Op::Concatenate(major.into()),
        &parts,
        Some(shape),
    )
}

fn region_index(region: &Region, kernel: &Kernel) -> usize {
    let found = region
        .kernels
        .iter()
        .position(|other| other.root == kernel.root);
    found.unwrap_or(0)
}

fn flat(program: &Program, value: ValueId) -> Layout {
    let shape = &program.values[value].shape;
    let dims = shape.static_dims().unwrap_or_default();
    tegula_target::default_layout(shape.element_type.bits(), &dims)
        .unwrap_or_else(|_| Layout::row_major(dims.len()))
}

fn layout_of(assignment: &Assignment, value: ValueId) -> Layout {
    let layout = assignment.layouts.get(&value).cloned();
    layout.unwrap_or_else(|| flat(&assignment.program, value))
}

/// What goes into the tuple of a loop (its states, then what it reads), or of a choice
/// (what its branches read).
fn carried(assignment: &Assignment, kernel: &Kernel) -> Vec<(ValueId, Layout)> {
    let program = &assignment.program;
    let node = &program.nodes[kernel.root];
    let outside = kernel
        .reads
        .iter()
        .skip(node.operands.len())
        .map(|read| read.value);
    let outside = outside.filter(|&value| !is_immediate(program, value));
    let states: &[ValueId] = match &node.kind {
        NodeKind::While { states, .. } => states,
        _ => &[],
    };
    let all = states.iter().copied().chain(outside);
    all.map(|value| (value, layout_of(assignment, value)))
        .collect()
}

/// The layout in which a branch gives a result.
fn result_layout(
    assignment: &Assignment,
    root: NodeId,
    at: usize,
    value: ValueId,
    condition: bool,
) -> Layout {
    let result = assignment.program.nodes[root].results.get(at);
    match result {
        Some(&result) if !condition => layout_of(assignment, result),
        _ => layout_of(assignment, value),
    }
}

/// The instruction that holds a value in a layout: a constant is written where it is
/// used, and another layout is a copy.
fn held(
    new: &mut ComputationBuilder<'_>,
    program: &Program,
    value: ValueId,
    wanted: &Layout,
    env: &mut Env,
) -> Result<InstructionId, Error> {
    let shape = |layout: &Layout| with_layout(&program.values[value].shape, layout);
    let Some((id, layout)) = env.get(&value).cloned() else {
        let Def::Constant(literal) = &program.values[value].def else {
            return Err(Error::bug("a value is read before it is made"));
        };
        let op = Op::Constant([literal.clone()].into());
        let id = new.push_named(Some("constant"), op, &[], Some(shape(wanted)))?;
        env.insert(value, (id, wanted.clone()));
        return Ok(id);
    };
    let order = |layout: &Layout| (layout.minor_to_major.clone(), layout.tiles.clone());
    if order(&layout) == order(wanted) {
        return Ok(id);
    }
    new.push_named(Some("copy"), Op::Copy, &[id], Some(shape(wanted)))
}

/// One operation; gives what holds its results.
fn operation(
    new: &mut ComputationBuilder<'_>,
    assignment: &Assignment,
    module: &Module,
    id: NodeId,
    op: Op,
    env: &mut Env,
    layout: &dyn Fn(ValueId) -> Layout,
) -> Result<Vec<InstructionId>, Error> {
    let program = &assignment.program;
    let node = &program.nodes[id];
    let mut operands = Vec::new();
    for &operand in &node.operands {
        let wanted = env.get(&operand).map(|(_, layout)| layout.clone());
        let wanted = wanted.unwrap_or_else(|| flat(program, operand));
        operands.push(held(new, program, operand, &wanted, env)?);
    }
    let layouts: Vec<Layout> = node.results.iter().map(|&value| layout(value)).collect();
    let shapes: Vec<Shape> = node
        .results
        .iter()
        .zip(&layouts)
        .map(|(&value, layout)| with_layout(&program.values[value].shape, layout))
        .collect();
    let name = &module[node.origin].name;
    let made = match (shapes.as_slice(), &module[node.origin].shape) {
        ([one], Shape::Array(_)) => {
            vec![new.push_named(Some(name), op, &operands, Some(one.clone()))?]
        }
        _ => {
            let tuple = Some(Shape::Tuple(shapes.clone()));
            let all = new.push_named(Some(name), op, &operands, tuple)?;
            elements(new, all, &shapes)?
        }
    };
    for ((&value, layout), &id) in node.results.iter().zip(layouts).zip(&made) {
        env.insert(value, (id, layout));
    }
    Ok(made)
}

/// A tuple whose elements keep their layouts.
fn tuple_of(
    new: &mut ComputationBuilder<'_>,
    elements: &[InstructionId],
) -> Result<InstructionId, Error> {
    let shapes: Result<Vec<Shape>, Error> =
        elements.iter().map(|&id| new.shape(id).cloned()).collect();
    new.push_named(
        Some("tuple"),
        Op::Tuple,
        elements,
        Some(Shape::Tuple(shapes?)),
    )
}

/// The elements of a tuple.
fn elements(
    new: &mut ComputationBuilder<'_>,
    tuple: InstructionId,
    shapes: &[Shape],
) -> Result<Vec<InstructionId>, Error> {
    let element = |(at, shape): (usize, &Shape)| {
        let op = Op::GetTupleElement(at as i64);
        new.push_named(Some("get-tuple-element"), op, &[tuple], Some(shape.clone()))
    };
    shapes.iter().enumerate().map(element).collect()
}

/// A kernel inside a loop or branch: reads in the layouts that it wants, everything in
/// main memory.
fn write_kernel(
    new: &mut ComputationBuilder<'_>,
    module: &Module,
    assignment: &Assignment,
    imported: &FxHashMap<ComputationId, ComputationId>,
    kernel: &Kernel,
    prepared: &Prepared,
    env: &mut Env,
) -> Result<(), Error> {
    let program = &assignment.program;
    let mut inside = Env::default();
    for read in kernel
        .reads
        .iter()
        .filter(|read| !is_immediate(program, read.value))
    {
        let wanted = match &read.layout {
            Some(layout) if read.copied => layout.clone(),
            _ => layout_of(assignment, read.value),
        };
        let id = held(new, program, read.value, &wanted, env)?;
        inside.insert(read.value, (id, wanted));
    }
    let results = &program.nodes[kernel.root].results;
    let layouts: Vec<(ValueId, Layout)> = results
        .iter()
        .map(|&value| (value, layout_of(assignment, value)))
        .collect();
    let at = (module, assignment, imported);
    let made = run_kernel(new, at, kernel, prepared, &mut inside, &layouts)?;
    for ((value, layout), id) in layouts.into_iter().zip(made) {
        env.insert(value, (id, layout));
    }
    Ok(())
}

/// Writes a kernel whose operands are in `env`; gives what holds its results.
fn run_kernel(
    new: &mut ComputationBuilder<'_>,
    (module, assignment, imported): (
        &Module,
        &Assignment,
        &FxHashMap<ComputationId, ComputationId>,
    ),
    kernel: &Kernel,
    prepared: &Prepared,
    env: &mut Env,
    results: &[(ValueId, Layout)],
) -> Result<Vec<InstructionId>, Error> {
    let program = &assignment.program;
    let layout = |value: ValueId| {
        let found = results.iter().find(|(own, _)| *own == value);
        found.map_or_else(
            || layout_of(assignment, value),
            |(_, layout)| layout.clone(),
        )
    };
    let node = &program.nodes[kernel.root];
    match prepared {
        Prepared::Plain => {
            let mut op = module[node.origin].op.clone();
            op.map_computations(|id| imported.get(&id).copied().unwrap_or(id));
            operation(new, assignment, module, kernel.root, op, env, &layout)
        }
        Prepared::Fusion(calls) => {
            let mut operands = Vec::new();
            for read in kernel
                .reads
                .iter()
                .filter(|read| !is_immediate(program, read.value))
            {
                let (id, _) = env
                    .get(&read.value)
                    .ok_or_else(|| Error::bug("a read was lost"))?;
                operands.push(*id);
            }
            let kind = if kernel.has_product {
                FusionKind::Output
            } else {
                FusionKind::Loop
            };
            let op = Op::Fusion {
                kind,
                calls: *calls,
            };
            let name = &module[node.origin].name;
            let shapes: Vec<Shape> = results
                .iter()
                .map(|(value, layout)| with_layout(&program.values[*value].shape, layout))
                .collect();
            if let [one] = shapes.as_slice() {
                return Ok(vec![new.push_named(
                    Some(name),
                    op,
                    &operands,
                    Some(one.clone()),
                )?]);
            }
            let tuple = Some(Shape::Tuple(shapes.clone()));
            let all = new.push_named(Some(name), op, &operands, tuple)?;
            elements(new, all, &shapes)
        }
        Prepared::Control(computations) => control(
            new,
            (module, assignment),
            kernel,
            computations,
            env,
            results,
        ),
    }
}

/// A loop or a choice.
fn control(
    new: &mut ComputationBuilder<'_>,
    (module, assignment): (&Module, &Assignment),
    kernel: &Kernel,
    computations: &[ComputationId],
    env: &mut Env,
    results: &[(ValueId, Layout)],
) -> Result<Vec<InstructionId>, Error> {
    let program = &assignment.program;
    let node = &program.nodes[kernel.root];
    let name = Some(&*module[node.origin].name);
    let carried = carried(assignment, kernel);
    let is_loop = matches!(node.kind, NodeKind::While { .. });
    let mut elements_of = Vec::new();
    for (at, (value, layout)) in carried.iter().enumerate() {
        // A loop's states begin as its operands.
        let from = if is_loop {
            node.operands.get(at).copied().unwrap_or(*value)
        } else {
            *value
        };
        elements_of.push(held(new, program, from, layout, env)?);
    }
    let tuple = tuple_of(new, &elements_of)?;
    let made = if let (true, &[condition, body]) = (is_loop, computations) {
        let op = Op::While { condition, body };
        let shape = new.shape(tuple)?.clone();
        new.push_named(name, op, &[tuple], Some(shape))?
    } else {
        let selector = node.operands.first().copied();
        let selector = selector.ok_or_else(|| Error::bug("there is no selector"))?;
        let wanted = flat(program, selector);
        let mut operands = vec![held(new, program, selector, &wanted, env)?];
        operands.extend(computations.iter().map(|_| tuple));
        let shapes = results
            .iter()
            .map(|(value, layout)| with_layout(&program.values[*value].shape, layout));
        let op = Op::Conditional {
            branches: computations.to_vec(),
            predicated: program.values[selector].shape.element_type == ElementType::Pred,
        };
        new.push_named(name, op, &operands, Some(Shape::Tuple(shapes.collect())))?
    };
    let mut held_results = Vec::new();
    for (at, (value, layout)) in results.iter().enumerate() {
        let own = carried.get(at).filter(|_| is_loop);
        let own = own.map_or_else(|| layout.clone(), |(_, layout)| layout.clone());
        let shape = with_layout(&program.values[*value].shape, &own);
        let element = Op::GetTupleElement(at as i64);
        let id = new.push_named(Some("get-tuple-element"), element, &[made], Some(shape))?;
        env.insert(*value, (id, own));
        held_results.push(held(new, program, *value, layout, env)?);
    }
    Ok(held_results)
}
