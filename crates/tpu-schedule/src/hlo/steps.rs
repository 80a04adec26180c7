//! Writes the steps of a schedule as instructions. A loop or conditional becomes a function of one
//! tuple: the contents of its states' places, followed by what its parts read from outside.

use super::copies::{Slice, done, slices, start};
use super::kernels::{Env, Prepared, elements, held, layout_of, run_kernel, tuple_of, written_op};
use super::{Views, Writer};
use crate::{BufferId, Held, Schedule, Source, Step};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;
use tegula_fusion::{Def, Program};
use tegula_ir::{
    ComputationBuilder, ComputationId, ElementType, Error, InstructionId, Module, Op, Shape,
};
use tegula_layout::assign::{Assignment, name_of, with_layout};

/// Writes the entry computation, and those of the loops and conditionals.
pub(super) fn program(
    writer: &mut Writer<'_>,
    schedule: &Schedule,
    views: Views,
) -> Result<ComputationId, Error> {
    let slices = slices(&mut writer.builder, &writer.assignment.program, schedule)?;
    let mut prepared = FxHashMap::default();
    for step in &schedule.steps {
        if let &Step::Kernel { region, kernel, .. } = step {
            let of = writer.assignment.regions.get(region);
            let of = of.and_then(|region| region.kernels.get(kernel));
            let of =
                of.ok_or_else(|| Error::bug("the schedule names a kernel that does not exist"))?;
            prepared.insert((region, kernel), writer.prepare(of)?);
        }
    }
    let mut text = Text {
        schedule,
        module: writer.module,
        assignment: writer.assignment,
        program: &writer.assignment.program,
        views,
        slices,
        prepared,
        controls: FxHashMap::default(),
    };
    // Nested ones end first.
    for (leave, step) in schedule.steps.iter().enumerate() {
        if let &Step::Leave(control) = step {
            let written = text.control(writer, control, leave)?;
            text.controls.insert(control, written);
        }
    }
    text.entry(writer)
}

/// A loop or conditional whose computations have been written.
struct Written {
    /// The condition and the body, or the branches.
    computations: Vec<ComputationId>,
    /// The elements of its tuple.
    carried: Vec<BufferId>,
    leave: usize,
}

/// The instructions that hold the contents of buffers inside a computation, by [`Text::key`].
type Now = FxHashMap<BufferId, InstructionId>;

struct Text<'a> {
    schedule: &'a Schedule,
    module: &'a Module,
    assignment: &'a Assignment,
    program: &'a Program,
    views: Views,
    slices: Vec<Vec<Slice>>,
    prepared: FxHashMap<(usize, usize), Prepared>,
    controls: FxHashMap<usize, Written>,
}

impl Text<'_> {
    /// A view is held by its own instruction. Everything else is held by the last instruction that
    /// wrote to its place.
    fn key(&self, id: BufferId) -> BufferId {
        match self.schedule.buffers.get(id).map(|buffer| buffer.source) {
            Some(Source::Bitcast(_)) => id,
            _ => self.schedule.base(id),
        }
    }

    fn shape(&self, id: BufferId) -> Shape {
        let buffer = &self.schedule.buffers[id];
        with_layout(&self.program.values[buffer.value].shape, &buffer.layout)
    }

    fn now(&self, now: &Now, id: BufferId) -> Result<InstructionId, Error> {
        let found = now.get(&self.key(id)).copied();
        found.ok_or_else(|| Error::bug(format!("buffer {id:?} is read before it is written")))
    }

    /// The instruction that holds a value, which may be a constant.
    fn held(
        &self,
        new: &mut ComputationBuilder<'_>,
        what: Held,
        shape: Option<Shape>,
        now: &Now,
    ) -> Result<InstructionId, Error> {
        if let Some(id) = what.by {
            return self.now(now, id);
        }
        let Def::Constant(literal) = &self.program.values[what.value].def else {
            return Err(Error::bug("a value is read before it is defined"));
        };
        let own = &self.program.values[what.value].shape;
        let shape = shape.unwrap_or_else(|| with_layout(own, &self.assignment.flat(what.value)));
        let op = Op::Constant([literal.clone()].into());
        new.push_named(Some("constant"), op, &[], Some(shape))
    }

    /// The steps of each part of a loop or conditional that ends at step `leave`.
    fn parts(&self, control: usize, leave: usize) -> Vec<Range<usize>> {
        let steps = self.schedule.steps.iter().enumerate().take(leave);
        let begins = steps.filter_map(|(number, step)| {
            matches!(step, Step::Part { control: own, .. } if *own == control).then_some(number)
        });
        let begins: Vec<usize> = begins.collect();
        let ends = begins.iter().skip(1).copied().chain([leave]);
        let begins = begins.iter().copied();
        begins.zip(ends).map(|(from, to)| from + 1..to).collect()
    }

    /// The buffers read by the steps of a loop or conditional that were made before it.
    fn captured(&self, control: usize, parts: &[Range<usize>]) -> Vec<BufferId> {
        let mut inside: FxHashSet<BufferId> = FxHashSet::default();
        let own = &self.schedule.controls[control];
        inside.extend(own.places.iter().map(|&id| self.key(id)));
        let mut captured = Vec::new();
        let begins = parts.first().map_or(0, |part| part.start);
        let ends = parts.last().map_or(0, |part| part.end);
        for step in self.schedule.steps.get(begins..ends).unwrap_or_default() {
            let mut reads: Vec<BufferId> = Vec::new();
            let mut writes: Vec<BufferId> = Vec::new();
            reads.extend(self.schedule.decided_at(step).and_then(|held| held.by));
            match step {
                Step::Kernel {
                    reads: own,
                    writes: made,
                    ..
                } => {
                    reads.extend(own);
                    writes.extend(made);
                }
                Step::Relayout { from, to, .. } | Step::Bitcast { from, to, .. } => {
                    reads.push(*from);
                    writes.push(*to);
                }
                Step::Pass { what, to, .. } => {
                    reads.extend(what.by);
                    writes.push(*to);
                }
                Step::CopyStart(copy) => {
                    reads.push(self.schedule.transfers[*copy].from);
                    writes.push(self.schedule.transfers[*copy].to);
                }
                Step::Leave(inner) => writes.extend(&self.schedule.controls[*inner].places),
                Step::CopyDone(_) | Step::Part { .. } => {}
            }
            for id in reads {
                let key = self.key(id);
                if !inside.contains(&key) && !captured.contains(&key) {
                    captured.push(key);
                }
            }
            inside.extend(writes.iter().map(|&id| self.key(id)));
        }
        captured
    }

    /// Writes the computations of a loop or conditional.
    fn control(
        &self,
        writer: &mut Writer<'_>,
        number: usize,
        leave: usize,
    ) -> Result<Written, Error> {
        let control = &self.schedule.controls[number];
        let parts = self.parts(number, leave);
        let captured = self.captured(number, &parts);
        let mut carried: Vec<BufferId> = Vec::new();
        if control.is_loop {
            carried.extend(control.places.iter().map(|&id| self.key(id)));
        }
        carried.extend(&captured);
        let shapes: Vec<Shape> = carried.iter().map(|&id| self.shape(id)).collect();
        let mut computations = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let is_condition = control.is_loop && at == 0;
            let name = if is_condition { "condition" } else { "region" };
            let mut new = writer.builder.computation(name);
            let tuple = new.named_parameter("state", Shape::Tuple(shapes.clone()));
            let mut now = Now::default();
            for ((&id, shape), element) in carried.iter().zip(&shapes).zip(0..) {
                let op = Op::GetTupleElement(element);
                let shape = Some(shape.clone());
                let held = new.push_named(None, op, &[tuple], shape)?;
                now.insert(id, held);
            }
            let at = (writer.module, writer.assignment, &writer.imported);
            self.steps(&mut new, at, part.clone(), &mut now)?;
            let root = if is_condition {
                self.held(&mut new, control.decides, None, &now)?
            } else {
                let mut results = Vec::new();
                for &place in &control.places {
                    results.push(self.now(&now, place)?);
                }
                // A loop returns unchanged the arrays that it only reads.
                for &id in captured.iter().filter(|_| control.is_loop) {
                    results.push(self.now(&now, id)?);
                }
                tuple_of(&mut new, &results)?
            };
            computations.push(new.finish(root)?);
        }
        Ok(Written {
            computations,
            carried,
            leave,
        })
    }

    /// Writes a loop or conditional whose computations have been written.
    fn call(
        &self,
        new: &mut ComputationBuilder<'_>,
        number: usize,
        now: &mut Now,
    ) -> Result<usize, Error> {
        let control = &self.schedule.controls[number];
        let written = self.controls.get(&number);
        let written = written
            .ok_or_else(|| Error::bug("a loop or conditional has no end in the schedule"))?;
        let carried: Result<Vec<InstructionId>, Error> = written
            .carried
            .iter()
            .map(|&id| self.now(now, id))
            .collect();
        let tuple = tuple_of(new, &carried?)?;
        let name = &*self.module[self.program.nodes[control.node].origin].name;
        let places: Vec<Shape> = control.places.iter().map(|&id| self.shape(id)).collect();
        let made = match (control.is_loop, &written.computations[..]) {
            (true, &[condition, body]) => {
                let shape = new.shape(tuple)?.clone();
                let op = Op::While { condition, body };
                new.push_named(Some(name), op, &[tuple], Some(shape))?
            }
            (false, branches) => {
                let mut operands = vec![self.held(new, control.decides, None, now)?];
                operands.extend(branches.iter().map(|_| tuple));
                let selector = &self.program.values[control.decides.value].shape;
                let op = Op::Conditional {
                    branches: branches.to_vec(),
                    predicated: selector.element_type == ElementType::Pred,
                };
                let shape = Some(Shape::Tuple(places.clone()));
                new.push_named(Some(name), op, &operands, shape)?
            }
            _ => {
                return Err(Error::bug(
                    "a loop must have two parts: a condition and a body",
                ));
            }
        };
        let results = elements(new, made, &places)?;
        for (&place, result) in control.places.iter().zip(results) {
            now.insert(self.key(place), result);
        }
        Ok(written.leave + 1)
    }

    /// Writes the entry computation.
    fn entry(&self, writer: &mut Writer<'_>) -> Result<ComputationId, Error> {
        let (module, assignment) = (writer.module, writer.assignment);
        let mut new = writer.builder.computation(&module.entry_computation().name);
        let mut now = Now::default();
        let given = self.schedule.buffers.iter().enumerate();
        for (id, buffer) in given.filter(|(_, buffer)| buffer.source == Source::Given) {
            let name = name_of(module, self.program, buffer.value);
            let instruction = match &self.program.values[buffer.value].def {
                Def::Parameter(_) => new.named_parameter(name.unwrap_or("p"), self.shape(id)),
                Def::Constant(literal) => {
                    let op = Op::Constant([literal.clone()].into());
                    new.push_named(Some("constant"), op, &[], Some(self.shape(id)))?
                }
                _ => {
                    return Err(Error::bug(
                        "a given buffer must hold a parameter or a constant",
                    ));
                }
            };
            now.insert(id, instruction);
        }
        let end = self.schedule.steps.len();
        let at = (module, assignment, &writer.imported);
        self.steps(&mut new, at, 0..end, &mut now)?;
        let mut results = Vec::new();
        for (&id, &value) in self
            .schedule
            .results
            .iter()
            .zip(&self.program.entry.results)
        {
            match now.get(&self.key(id)) {
                Some(&instruction) => results.push(instruction),
                None => {
                    let mut env = Env::default();
                    let layout = layout_of(assignment, value);
                    results.push(held(&mut new, self.program, value, &layout, &mut env)?);
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

    /// Writes steps; loops and conditionals must be complete in the range.
    fn steps(
        &self,
        new: &mut ComputationBuilder<'_>,
        at: At<'_>,
        range: Range<usize>,
        now: &mut Now,
    ) -> Result<(), Error> {
        let mut starts: FxHashMap<usize, Vec<InstructionId>> = FxHashMap::default();
        let mut number = range.start;
        while number < range.end {
            if let Step::Part { control, .. } = self.schedule.steps[number] {
                number = self.call(new, control, now)?;
                continue;
            }
            self.step(new, at, number, now, &mut starts)?;
            number += 1;
        }
        Ok(())
    }

    fn step(
        &self,
        new: &mut ComputationBuilder<'_>,
        at: At<'_>,
        number: usize,
        now: &mut Now,
        starts: &mut FxHashMap<usize, Vec<InstructionId>>,
    ) -> Result<(), Error> {
        let schedule = self.schedule;
        match &schedule.steps[number] {
            Step::Kernel {
                region,
                kernel,
                reads,
                writes,
                ..
            } => {
                let prepared = self.prepared.get(&(*region, *kernel));
                let prepared = prepared
                    .ok_or_else(|| Error::bug("the schedule names a kernel that does not exist"))?;
                let kernel = &at.1.regions[*region].kernels[*kernel];
                let mut env = Env::default();
                for &id in reads {
                    let buffer = &schedule.buffers[id];
                    // A kernel that needs another layout reads a copy.
                    let held = (self.now(now, id)?, buffer.layout.clone());
                    env.insert(buffer.value, held);
                }
                let layouts = writes.iter().map(|&id| {
                    let buffer = &schedule.buffers[id];
                    (buffer.value, buffer.layout.clone())
                });
                let layouts: Vec<_> = layouts.collect();
                let made = run_kernel(new, at, kernel, prepared, &mut env, &layouts)?;
                now.extend(writes.iter().map(|&id| self.key(id)).zip(made));
            }
            Step::Relayout { from, to, .. } => {
                let from = self.now(now, *from)?;
                let copy =
                    new.push_named(Some("copy"), Op::Copy, &[from], Some(self.shape(*to)))?;
                now.insert(self.key(*to), copy);
            }
            Step::Pass { what, to, .. } => {
                let shape = self.shape(*to);
                let mut held = self.held(new, *what, Some(shape.clone()), now)?;
                if what.by.is_some() {
                    held = new.push_named(Some("copy"), Op::Copy, &[held], Some(shape))?;
                }
                now.insert(self.key(*to), held);
            }
            Step::Bitcast { root, from, to } => {
                let from = self.now(now, *from)?;
                let name = name_of(self.module, self.program, schedule.buffers[*to].value);
                let name = format!("bitcast.{}", name.unwrap_or("view"));
                let op = match self.views {
                    Views::Bitcasts => Op::Bitcast,
                    Views::Operations => written_op(self.module, self.program.nodes[*root].origin),
                };
                let view = new.push_named(Some(&name), op, &[from], Some(self.shape(*to)))?;
                now.insert(*to, view);
            }
            Step::CopyStart(copy) => {
                let transfer = &schedule.transfers[*copy];
                let shapes = (self.shape(transfer.from), self.shape(transfer.to));
                let from = (self.now(now, transfer.from)?, transfer.before_program);
                starts.insert(*copy, start(new, from, shapes, &self.slices[*copy])?);
            }
            Step::CopyDone(copy) => {
                let to = schedule.transfers[*copy].to;
                let begun = starts.get(copy);
                let begun =
                    begun.ok_or_else(|| Error::bug("a copy is waited for before it is started"))?;
                let major = schedule.buffers[to].layout.minor_to_major.last().copied();
                let shape = (self.shape(to), major.unwrap_or(0));
                let done = done(new, begun, shape, &self.slices[*copy])?;
                now.insert(self.key(to), done);
            }
            Step::Part { .. } | Step::Leave(_) => {
                return Err(Error::bug("a part of a loop appears outside of the loop"));
            }
        }
        Ok(())
    }
}

/// The module, its assigned layouts, and the new id of each computation that was imported from it.
type At<'a> = (
    &'a Module,
    &'a tegula_layout::assign::Assignment,
    &'a FxHashMap<ComputationId, ComputationId>,
);
