//! Lowers loops and conditionals. The statements between their markers in the schedule become the
//! parts of a `while` or of `if`s. The predicate or selector is copied to SMEM, where the scalar
//! unit reads it.

use super::{LowerError, Lowering, whole};
use tegula_expr::{Cmp, Term};
use tegula_fusion::Def;
use tegula_ir::{ArrayShape, ElementType, Literal, ModuleBuilder, Op, Shape};
use tegula_sim_tpu::program::{BufferId, Comparison, Space, Statement, StatementKind, VariableId};
use tegula_tpu_schedule::{Held, Source, Step};

/// A loop or conditional whose parts are being lowered.
#[derive(Debug)]
pub(super) struct Open {
    /// The enclosing statements.
    outside: Vec<Statement>,
    /// The parts that are complete.
    parts: Vec<Vec<Statement>>,
    /// A loop's predicate or a conditional's selector.
    decides: Option<VariableId>,
}

impl Lowering<'_> {
    /// Ends the current part and begins the next one. `ended` are buffers whose lives end at the
    /// predicate or selector.
    pub(super) fn part(
        &mut self,
        control: usize,
        step: &Step,
        ended: &[tegula_tpu_schedule::BufferId],
    ) -> Result<(), LowerError> {
        self.wait();
        let decides = match self.schedule.decided_at(step) {
            Some(held) => Some(self.scalar(held)?),
            None => None,
        };
        for &id in ended {
            self.free(id);
        }
        let before = std::mem::take(&mut self.program.body);
        if matches!(step, Step::Part { part: 0, .. }) {
            self.open.push(Open {
                outside: before,
                parts: Vec::new(),
                decides,
            });
            return Ok(());
        }
        let is_loop = self.schedule.controls[control].is_loop;
        let open = self.open.last_mut();
        let open = open.ok_or_else(|| {
            tegula_ir::Error::bug("a part of a loop or conditional starts outside of one")
        })?;
        open.parts.push(before);
        if is_loop {
            open.decides = decides;
        }
        Ok(())
    }

    /// Ends a loop or conditional.
    pub(super) fn leave(&mut self, control: usize) -> Result<(), LowerError> {
        self.wait();
        let is_loop = self.schedule.controls[control].is_loop;
        let last = std::mem::take(&mut self.program.body);
        let open = self.open.pop();
        let open = open.ok_or_else(|| {
            tegula_ir::Error::bug("a loop or conditional ends that was not started")
        })?;
        self.program.body = open.outside;
        let decides = open.decides;
        let decides = decides.ok_or_else(|| {
            tegula_ir::Error::bug(
                "a loop ends without a condition, or a conditional without a selector",
            )
        })?;
        if is_loop {
            self.push(StatementKind::While {
                condition: open.parts.into_iter().next().unwrap_or_default(),
                test: not_zero(decides),
                body: last,
            });
            return Ok(());
        }
        let selector = self.schedule.controls[control].decides.value;
        let shape = &self.assignment.program.values[selector].shape;
        let is_predicate = shape.element_type == ElementType::Pred;
        // A predicate selects the first branch if it is true; a number out of range selects the
        // last one.
        let mut otherwise = last;
        for (number, then) in open.parts.into_iter().enumerate().rev() {
            let condition = if is_predicate {
                not_zero(decides)
            } else {
                Comparison {
                    left: Term::var(decides.var()),
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

    /// Copies a value to its place in a loop or conditional.
    pub(super) fn pass(
        &mut self,
        what: Held,
        to: tegula_tpu_schedule::BufferId,
    ) -> Result<(), LowerError> {
        self.wait();
        let place = self.held_by(&[to])?[0];
        let Some(from) = what.by else {
            let Def::Constant(literal) = &self.assignment.program.values[what.value].def else {
                return Err(tegula_ir::Error::bug(
                    "a value that is needed has no buffer and is not a constant",
                )
                .into());
            };
            return self.fill(&literal.clone(), place);
        };
        let buffers = &self.schedule.buffers;
        let is_view = matches!(buffers[from].source, Source::Bitcast(_));
        let order = |id: tegula_tpu_schedule::BufferId| {
            let layout = &buffers[id].layout;
            (&layout.minor_to_major, &layout.tiles)
        };
        if is_view || order(from) != order(to) {
            return self.relayout(from, to);
        }
        let from = self.held_by(&[from])?[0];
        self.copy_whole(from, place);
        Ok(())
    }

    /// Writes a constant with one element to a buffer.
    fn fill(&mut self, literal: &Literal, to: BufferId) -> Result<(), LowerError> {
        let mut builder = ModuleBuilder::new("fill");
        let mut new = builder.computation("fill");
        let shape = Shape::Array(self.program.buffers[to].shape.clone());
        let op = Op::Constant([literal.clone()].into());
        let root = new.push_named(Some("constant"), op, &[], Some(shape))?;
        let entry = new.finish(root)?;
        self.compute(builder.build_unverified(entry), &[], &[to])
    }

    /// Reads a value of one element into a variable, through SMEM, whose words have 32 bits.
    fn scalar(&mut self, held: Held) -> Result<VariableId, LowerError> {
        let word = ArrayShape::new(ElementType::S32, &[]);
        let in_hbm = self.plain("scalar", Space::Hbm, word.clone());
        let place = self.plain("scalar", Space::Smem, word.clone());
        let mut made = vec![place, in_hbm];
        let own = match held.by {
            Some(id) => self.held_by(&[id])?[0],
            None => {
                let program = &self.assignment.program;
                let mut shape = program.values[held.value].shape.clone();
                shape.layout = Some(Box::new(self.assignment.flat(held.value)));
                let Def::Constant(literal) = &program.values[held.value].def else {
                    return Err(tegula_ir::Error::bug(
                        "a value that is needed has no buffer and is not a constant",
                    )
                    .into());
                };
                let literal = literal.clone();
                let constant = self.plain("scalar", Space::Hbm, shape);
                made.push(constant);
                self.fill(&literal, constant)?;
                constant
            }
        };
        let mut builder = ModuleBuilder::new("word");
        let mut new = builder.computation("word");
        let shape = Shape::Array(self.program.buffers[own].shape.clone());
        let mut operand = new.named_parameter("operand", shape);
        if self.program.buffers[own].shape.dims != word.dims {
            let element_type = self.program.buffers[own].shape.element_type;
            let scalar = Some(Shape::Array(ArrayShape::new(element_type, &[])));
            operand = new.push_named(Some("scalar"), Op::Reshape, &[operand], scalar)?;
        }
        let word = Some(Shape::Array(word));
        let root = new.push_named(Some("word"), Op::Convert, &[operand], word)?;
        let entry = new.finish(root)?;
        self.compute(builder.build_unverified(entry), &[own], &[in_hbm])?;
        self.copy_whole(in_hbm, place);
        let variable = self.variable("s", None);
        let source = whole(place, &self.program.buffers[place].shape);
        self.push(StatementKind::Load { variable, source });
        for buffer in made {
            self.push(StatementKind::Free(buffer));
        }
        Ok(variable)
    }

    /// Copies a buffer and waits for the copy.
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
