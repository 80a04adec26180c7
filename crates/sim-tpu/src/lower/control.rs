//! Loops and choices. Their arrays are in HBM, where the schedule leaves them: each
//! state of a loop is a buffer that an iteration ends by writing; a predicate is copied
//! to SMEM, from where the scalar unit reads it.

use super::{LowerError, Lowering, whole};
use crate::program::{
    Buffer, BufferId, Comparison, Role, Space, Statement, StatementKind, Variable, VariableId,
};
use rustc_hash::FxHashMap;
use tegula_expr::{Cmp, Term};
use tegula_fusion::{Def, NodeKind, ValueId};
use tegula_ir::{ArrayShape, ElementType, Literal, ModuleBuilder, Op, Shape};
use tegula_layout::assign::{Kernel, Region, flat, name_of};
use tegula_layout::memory;

/// Which buffer holds each value.
type Held = FxHashMap<ValueId, BufferId>;

impl Lowering<'_> {
    /// A loop or a choice of the program itself.
    pub(super) fn control_step(
        &mut self,
        number: usize,
        reads: &[memory::BufferId],
        writes: &[memory::BufferId],
    ) -> Result<(), LowerError> {
        self.wait();
        let region = self.region;
        let kernel = &region.kernels[number];
        let mut held = Held::default();
        let mut made = Vec::new();
        for &id in reads {
            let value = self.schedule.buffers[id].value;
            let base = self.schedule.base(id);
            let buffer = self.buffers.get(&base).copied();
            let buffer = buffer.ok_or_else(|| tegula_ir::Error::bug("an array was lost"))?;
            let buffer = match self.view_module(id)? {
                None => buffer,
                Some(view) => {
                    let copy = self.hbm(value);
                    made.push(copy);
                    self.compute(view, &[buffer], &[copy])?;
                    copy
                }
            };
            held.insert(value, buffer);
        }
        let results: Option<Vec<BufferId>> = writes
            .iter()
            .map(|&id| self.buffers.get(&self.schedule.base(id)).copied())
            .collect();
        let results = results.ok_or_else(|| tegula_ir::Error::bug("a result was lost"))?;
        self.control(kernel, &held, &results)?;
        self.free_all(&made);
        Ok(())
    }

    fn control(
        &mut self,
        kernel: &Kernel,
        held: &Held,
        results: &[BufferId],
    ) -> Result<(), LowerError> {
        let assignment = self.assignment;
        let node = &assignment.program.nodes[kernel.root];
        match &node.kind {
            NodeKind::While { states, .. } => {
                self.while_loop(kernel, states, &node.operands, held, results)
            }
            NodeKind::Conditional { branches } => {
                let selector = node.operands.first().copied();
                let selector =
                    selector.ok_or_else(|| tegula_ir::Error::bug("there is no selector"))?;
                self.choice(kernel, selector, branches.len(), held, results)
            }
            _ => Err(tegula_ir::Error::bug("a kernel is no loop").into()),
        }
    }

    fn while_loop(
        &mut self,
        kernel: &Kernel,
        states: &[ValueId],
        initial: &[ValueId],
        held: &Held,
        results: &[BufferId],
    ) -> Result<(), LowerError> {
        let mut inside = held.clone();
        let mut buffers = Vec::new();
        for (&state, &initial) in states.iter().zip(initial) {
            let buffer = self.hbm(state);
            self.assign(initial, held, buffer)?;
            inside.insert(state, buffer);
            buffers.push(buffer);
        }
        let outer = std::mem::take(&mut self.program.body);
        let test = self.condition(kernel, &inside)?;
        let condition = std::mem::take(&mut self.program.body);
        self.iteration(kernel, states, &inside, &buffers)?;
        let body = std::mem::replace(&mut self.program.body, outer);
        self.push(StatementKind::While {
            condition,
            test,
            body,
        });
        for (&state, &result) in states.iter().zip(results) {
            self.assign(state, &inside, result)?;
        }
        self.free_all(&buffers);
        Ok(())
    }

    fn inner(&self, kernel: &Kernel, number: usize) -> Result<&'_ Region, LowerError> {
        let of = Some((kernel.root, number));
        let regions = &self.assignment.regions;
        let found = regions.iter().find(|region| region.of == of);
        found.ok_or_else(|| tegula_ir::Error::bug("a region was lost").into())
    }

    /// The statements of a loop's condition, and what has to hold after them.
    fn condition(&mut self, kernel: &Kernel, held: &Held) -> Result<Comparison, LowerError> {
        let region = self.inner(kernel, 0)?.clone();
        let mut held = held.clone();
        let made = self.region_kernels(&region, &mut held)?;
        let result = region.results.first().copied();
        let result = result.ok_or_else(|| tegula_ir::Error::bug("a condition gives nothing"))?;
        let variable = self.scalar(result, &held)?;
        self.free_all(&made);
        Ok(not_zero(variable))
    }

    /// The statements of one iteration, which end by writing the states.
    fn iteration(
        &mut self,
        kernel: &Kernel,
        states: &[ValueId],
        held: &Held,
        buffers: &[BufferId],
    ) -> Result<(), LowerError> {
        let region = self.inner(kernel, 1)?.clone();
        let mut held = held.clone();
        let mut made = self.region_kernels(&region, &mut held)?;
        // States that become other states are read before any is written.
        let mut results = region.results.clone();
        results.truncate(states.len());
        let mut next = held.clone();
        for (&result, &state) in results.iter().zip(states) {
            if result != state && states.contains(&result) {
                let copy = self.hbm(result);
                self.assign(result, &held, copy)?;
                made.push(copy);
                next.insert(result, copy);
            }
        }
        for ((&result, &state), &buffer) in results.iter().zip(states).zip(buffers) {
            if result != state {
                self.assign(result, &next, buffer)?;
            }
        }
        self.free_all(&made);
        Ok(())
    }

    fn choice(
        &mut self,
        kernel: &Kernel,
        selector: ValueId,
        branches: usize,
        held: &Held,
        results: &[BufferId],
    ) -> Result<(), LowerError> {
        let variable = self.scalar(selector, held)?;
        let shape = &self.assignment.program.values[selector].shape;
        let is_predicate = shape.element_type == ElementType::Pred;
        let mut bodies = Vec::new();
        for branch in 0..branches {
            let outer = std::mem::take(&mut self.program.body);
            let region = self.inner(kernel, branch)?.clone();
            let mut held = held.clone();
            let made = self.region_kernels(&region, &mut held)?;
            for (&value, &result) in region.results.iter().zip(results) {
                self.assign(value, &held, result)?;
            }
            self.free_all(&made);
            bodies.push(std::mem::replace(&mut self.program.body, outer));
        }
        // A predicate takes the first branch if it is true; a number out of range the
        // last one.
        let mut otherwise = bodies.pop().unwrap_or_default();
        for (number, then) in bodies.into_iter().enumerate().rev() {
            let condition = if is_predicate {
                not_zero(variable)
            } else {
                Comparison {
                    left: Term::var(variable.var()),
                    cmp: Cmp::Eq,
                    right: Term::constant(number as i64),
                }
            };
            let line = self.line;
            let kind = StatementKind::If {
                condition,
                then,
                otherwise,
            };
            otherwise = vec![Statement { kind, line }];
        }
        self.program.body.extend(otherwise);
        Ok(())
    }

    /// The kernels of a region; gives the buffers that were made for them.
    fn region_kernels(
        &mut self,
        region: &Region,
        held: &mut Held,
    ) -> Result<Vec<BufferId>, LowerError> {
        let mut made = Vec::new();
        for kernel in &region.kernels {
            let node = &self.assignment.program.nodes[kernel.root];
            let (results, is_control) = (node.results.clone(), !node.kind.regions().is_empty());
            let mut writes = Vec::new();
            for &value in &results {
                let buffer = self.hbm(value);
                made.push(buffer);
                writes.push(buffer);
            }
            if is_control {
                let mut inside = held.clone();
                for read in &kernel.reads {
                    self.constant(read.value, &mut inside);
                }
                self.control(kernel, &inside, &writes)?;
            } else {
                let (module, values) = memory::kernel_module(self.module, self.assignment, kernel)?;
                let mut reads = Vec::new();
                for value in values {
                    self.constant(value, held);
                    let buffer = held.get(&value).copied();
                    let buffer = buffer.ok_or_else(|| tegula_ir::Error::bug("a read was lost"))?;
                    reads.push(buffer);
                }
                self.compute(module, &reads, &writes)?;
            }
            held.extend(results.iter().copied().zip(writes));
        }
        Ok(made)
    }

    /// Sees that a constant that is read has a buffer.
    fn constant(&mut self, value: ValueId, held: &mut Held) {
        let Def::Constant(literal) = &self.assignment.program.values[value].def else {
            return;
        };
        if held.contains_key(&value) {
            return;
        }
        let given = self
            .schedule
            .buffers
            .iter()
            .enumerate()
            .find(|(_, buffer)| buffer.value == value && buffer.source == memory::Source::Given);
        let given = given.and_then(|(id, _)| self.buffers.get(&id).copied());
        let buffer = given.unwrap_or_else(|| {
            let number = self.assignment.program.parameters.len() + self.constants.len();
            self.constants.push(literal.clone());
            let buffer = self.buffer(value, Space::Hbm, Role::Parameter(number));
            // It is there before anything runs, wherever it is first read.
            let line = self.line;
            let kind = StatementKind::Declare(buffer);
            self.given.push(Statement { kind, line });
            buffer
        });
        held.insert(value, buffer);
    }

    fn buffer(&mut self, value: ValueId, space: Space, role: Role) -> BufferId {
        let program = &self.assignment.program;
        let name = name_of(self.module, program, value).unwrap_or("state");
        let name = name.to_owned();
        let mut shape = program.values[value].shape.clone();
        if space == Space::Hbm {
            let layout = self.assignment.layouts.get(&value).cloned();
            let layout = layout.unwrap_or_else(|| flat(program, value));
            shape.layout = Some(Box::new(layout));
        }
        self.program.buffers.push(Buffer {
            name,
            space,
            shape,
            role,
            offset: None,
            program_lifetime: false,
        })
    }

    /// A new array in HBM for a value.
    fn hbm(&mut self, value: ValueId) -> BufferId {
        let buffer = self.buffer(value, Space::Hbm, Role::Scratch);
        self.push(StatementKind::Declare(buffer));
        buffer
    }

    fn free_all(&mut self, buffers: &[BufferId]) {
        for &buffer in buffers {
            self.push(StatementKind::Free(buffer));
        }
    }

    /// Writes a value to a buffer.
    fn assign(&mut self, value: ValueId, held: &Held, to: BufferId) -> Result<(), LowerError> {
        let mut held = held.clone();
        if let (None, Def::Constant(literal)) =
            (held.get(&value), &self.assignment.program.values[value].def)
        {
            if literal.is_empty() || literal.uniform_element().is_some() {
                return self.fill(literal, to);
            }
            self.constant(value, &mut held);
        }
        let from = held.get(&value).copied();
        let from = from.ok_or_else(|| tegula_ir::Error::bug("a value was lost"))?;
        if from == to {
            return Ok(());
        }
        let shape = |id: BufferId| self.program.buffers[id].shape.clone();
        if shape(from).layout == shape(to).layout {
            self.copy_whole(from, to);
            return Ok(());
        }
        let mut builder = ModuleBuilder::new("copy");
        let mut new = builder.computation("copy");
        let operand = new.named_parameter("operand", Shape::Array(shape(from)));
        let copied = Some(Shape::Array(shape(to)));
        let root = new.push_named(Some("copy"), Op::Copy, &[operand], copied)?;
        let entry = new.finish(root)?;
        self.compute(builder.build_unverified(entry), &[from], &[to])
    }

    /// Writes a constant of one value to a buffer.
    fn fill(&mut self, literal: &Literal, to: BufferId) -> Result<(), LowerError> {
        let mut builder = ModuleBuilder::new("fill");
        let mut new = builder.computation("fill");
        let shape = Shape::Array(self.program.buffers[to].shape.clone());
        let op = Op::Constant([literal.clone()].into());
        let root = new.push_named(Some("constant"), op, &[], Some(shape))?;
        let entry = new.finish(root)?;
        self.compute(builder.build_unverified(entry), &[], &[to])
    }

    /// Reads a value of one element into a variable, by way of SMEM, whose words are of
    /// 32 bits.
    fn scalar(&mut self, value: ValueId, held: &Held) -> Result<VariableId, LowerError> {
        let word = ArrayShape::new(ElementType::S32, &[]);
        let [in_hbm, place] = [Space::Hbm, Space::Smem].map(|space| {
            self.program.buffers.push(Buffer {
                name: "scalar".to_owned(),
                space,
                shape: word.clone(),
                role: Role::Scratch,
                offset: None,
                program_lifetime: false,
            })
        });
        self.push(StatementKind::Declare(in_hbm));
        self.push(StatementKind::Declare(place));
        let own = self.hbm(value);
        self.assign(value, held, own)?;
        let mut builder = ModuleBuilder::new("word");
        let mut new = builder.computation("word");
        let shape = Shape::Array(self.program.buffers[own].shape.clone());
        let operand = new.named_parameter("operand", shape);
        let word = Some(Shape::Array(word));
        let root = new.push_named(Some("word"), Op::Convert, &[operand], word)?;
        let entry = new.finish(root)?;
        self.compute(builder.build_unverified(entry), &[own], &[in_hbm])?;
        self.copy_whole(in_hbm, place);
        let variable = self.program.variables.push(Variable {
            name: format!("s{}", self.program.variables.len()),
            range: None,
        });
        let source = whole(place, &self.program.buffers[place].shape);
        self.push(StatementKind::Load { variable, source });
        self.free_all(&[own, place, in_hbm]);
        Ok(variable)
    }

    /// Copies a buffer, and waits for it.
    pub(super) fn copy_whole(&mut self, from: BufferId, to: BufferId) {
        let semaphore = self.semaphore("assign");
        self.start(from, to, semaphore.clone());
        self.push(StatementKind::Wait {
            semaphore,
            bytes: None,
        });
    }
}

fn not_zero(variable: VariableId) -> Comparison {
    Comparison {
        left: Term::var(variable.var()),
        cmp: Cmp::Ne,
        right: Term::constant(0),
    }
}
