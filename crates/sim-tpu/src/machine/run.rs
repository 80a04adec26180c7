//! Execution of the statements in order.

use super::code::{Action, Step};
use super::terms::{Cut, Index};
use super::{Flow, Here, Machine};
use crate::finding::Code;
use crate::machine::access::Touch;
use crate::memory::image::Dense;
use crate::report::Error;
use smallvec::SmallVec;
use tegula_arena::EntityRef;
use tegula_ir::{ArrayShape, Literal, Scalar};

/// A body that is being executed: where it continues, and what happens at its end.
pub(super) struct Frame<'s, 'p> {
    steps: &'s [Step<'p>],
    next: usize,
    end: End<'s, 'p>,
}

/// What happens at the end of a body.
enum End<'s, 'p> {
    /// Execution continues after the statement.
    Leave,
    /// A counted loop takes its next value, if there is one.
    Count {
        step: &'s Step<'p>,
        variable: usize,
        at: i64,
        high: i64,
        innermost: bool,
    },
    /// The body was the condition of a `while` loop: the loop's body runs if the test holds.
    Test(&'s Step<'p>),
    /// The body was that of a `while` loop: its condition runs again.
    Again(&'s Step<'p>),
}

impl<'s, 'p> Frame<'s, 'p> {
    pub(super) fn new(steps: &'s [Step<'p>]) -> Self {
        Self::ending(steps, End::Leave)
    }

    fn ending(steps: &'s [Step<'p>], end: End<'s, 'p>) -> Self {
        Self {
            steps,
            next: 0,
            end,
        }
    }
}

impl<'p> Machine<'p> {
    /// Runs from the core's present statement to the program's end, or until it stops or waits for
    /// another core.
    pub(super) fn resume<'s>(&mut self, stack: &mut Vec<Frame<'s, 'p>>) -> Result<Flow, Error> {
        while let Some(frame) = stack.last_mut() {
            let Some(step) = frame.steps.get(frame.next) else {
                self.leave(stack)?;
                continue;
            };
            frame.next += 1;
            if let Some(inner) = self.enter(step)? {
                stack.push(inner);
                continue;
            }
            match self.step(step)? {
                Flow::Next => {}
                Flow::Blocked => {
                    if let Some(frame) = stack.last_mut() {
                        frame.next -= 1;
                    }
                    return Ok(Flow::Blocked);
                }
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    /// The body to execute for a statement that has one.
    fn enter<'s>(&mut self, step: &'s Step<'p>) -> Result<Option<Frame<'s, 'p>>, Error> {
        let here = Here {
            line: step.line,
            statement: step.statement,
        };
        Ok(match &step.action {
            Action::For {
                variable,
                low,
                high,
                body,
                innermost,
            } => {
                self.spend(1, step.line)?;
                let (low, high) = (self.value(low, here)?, self.value(high, here)?);
                if low >= high {
                    return Ok(Some(Frame::new(&[])));
                }
                self.spend(1, step.line)?;
                self.values[*variable] = Some(low);
                if *innermost {
                    self.engines.step(step.line);
                }
                let end = End::Count {
                    step,
                    variable: *variable,
                    at: low,
                    high,
                    innermost: *innermost,
                };
                Some(Frame::ending(body, end))
            }
            Action::While { condition, .. } => {
                self.spend(2, step.line)?;
                Some(Frame::ending(condition, End::Test(step)))
            }
            Action::If {
                left,
                cmp,
                right,
                then,
                otherwise,
            } => {
                self.spend(1, step.line)?;
                let holds = cmp.holds(self.value(left, here)?, self.value(right, here)?);
                Some(Frame::new(if holds { then } else { otherwise }))
            }
            _ => None,
        })
    }

    /// Ends the innermost body.
    fn leave(&mut self, stack: &mut Vec<Frame<'_, 'p>>) -> Result<(), Error> {
        let Some(mut frame) = stack.pop() else {
            return Ok(());
        };
        let again = match &mut frame.end {
            End::Leave => false,
            End::Count {
                step,
                variable,
                at,
                high,
                innermost,
            } => {
                *at += 1;
                let more = *at < *high;
                if more {
                    self.spend(1, step.line)?;
                    self.values[*variable] = Some(*at);
                    if *innermost {
                        self.engines.step(step.line);
                    }
                }
                more
            }
            End::Test(step) => {
                let step: &Step<'p> = step;
                let Action::While {
                    left,
                    cmp,
                    right,
                    body,
                    ..
                } = &step.action
                else {
                    return Ok(());
                };
                let here = Here {
                    line: step.line,
                    statement: step.statement,
                };
                let holds = cmp.holds(self.value(left, here)?, self.value(right, here)?);
                if holds {
                    self.engines.step(step.line);
                    frame = Frame::ending(body, End::Again(step));
                }
                holds
            }
            End::Again(step) => {
                let step: &Step<'p> = step;
                if let Action::While { condition, .. } = &step.action {
                    self.spend(1, step.line)?;
                    frame = Frame::ending(condition, End::Test(step));
                }
                true
            }
        };
        if again {
            frame.next = 0;
            stack.push(frame);
        }
        Ok(())
    }

    /// The value of a term of a statement.
    pub(super) fn value(&self, index: &Index, here: Here<'p>) -> Result<i64, Error> {
        index.value(&self.values).ok_or_else(|| Error::Program {
            line: here.line,
            message: "a term has no value: a variable without one, a division by zero, or a number beyond 64 bits".to_owned(),
        })
    }

    fn step(&mut self, step: &Step<'p>) -> Result<Flow, Error> {
        let here = Here {
            line: step.line,
            statement: step.statement,
        };
        self.spend(1, step.line)?;
        match &step.action {
            Action::Declare(buffer) => self.declare(*buffer, here),
            Action::Free(buffer) => Ok(self.free(*buffer, here)),
            Action::Launch => {
                self.engines.launch(step.line);
                Ok(Flow::Next)
            }
            Action::Start(copy) => self.start(copy, here),
            Action::Wait(semaphore, bytes) => self.wait(semaphore, bytes.as_ref(), here),
            Action::Signal(semaphore, amount, core) => {
                self.signal(semaphore, amount, core.as_ref(), here)
            }
            Action::Vector(block) => {
                self.vector(*block, here)?;
                Ok(Flow::Next)
            }
            Action::Scalar(variable, operation, operands) => {
                let mut values: SmallVec<[i64; 3]> = SmallVec::new();
                for operand in operands {
                    values.push(self.value(operand, here)?);
                }
                let value = super::scalar::evaluate(operation, &values);
                let value = value.map_err(|message| Error::Unsupported {
                    line: here.line,
                    message,
                })?;
                self.values[*variable] = Some(value);
                self.engines.issue(here.line);
                Ok(Flow::Next)
            }
            Action::StoreScalar(destination, value) => self.store_scalar(destination, value, here),
            Action::AssumeMultiple(variable, value, multiple) => {
                let value = self.value(value, here)?;
                self.values[*variable] = Some(value);
                if value % multiple != 0 {
                    self.find(Code::Alignment, here, None, || {
                        (
                            format!("the kernel claims that this is a multiple of {multiple}, but it is {value}"),
                            "remove the claim, or make it true".to_owned(),
                        )
                    });
                }
                Ok(Flow::Next)
            }
            Action::ReadSemaphore(variable, semaphore) => {
                let (array, index) = self.semaphore(semaphore, here)?;
                let count = self.semaphores[array.index()][index as usize].count;
                self.values[*variable] = Some(count);
                // A core that polls a count must let the other cores raise it.
                Ok(match self.peer.count {
                    1 => Flow::Next,
                    _ => Flow::Yield,
                })
            }
            Action::CoreNumber(variable) => {
                self.values[*variable] = Some(self.core);
                Ok(Flow::Next)
            }
            Action::Delay(nanoseconds) => {
                let nanoseconds = self.value(nanoseconds, here)?;
                self.engines
                    .delay(nanoseconds.max(0) as f64 * 1e-9, here.line);
                Ok(Flow::Next)
            }
            Action::Print(print, values) => self.print(print, values, here),
            Action::Assert(condition, message) => self.assert(condition, message, here),
            Action::Require(condition, message) => match condition.value(&self.values) {
                Some(0) => Err(Error::Unsupported {
                    line: here.line,
                    message: (*message).to_owned(),
                }),
                _ => Ok(Flow::Next),
            },
            Action::WaitCopy(copy) => self.wait_copy(copy, here),
            Action::Await(semaphore, amount) => self.await_count(semaphore, amount, here),
            Action::Compute(job) => self.compute(*job, here),
            // These statements are entered as bodies, not executed as one step.
            Action::For { .. } | Action::While { .. } | Action::If { .. } => Ok(Flow::Next),
            Action::Assign(variable, value) => {
                self.values[*variable] = Some(self.value(value, here)?);
                Ok(Flow::Next)
            }
            Action::Load(variable, source) => self.load(*variable, source, here),
            Action::Assume(variable, low, high) => self.assume(*variable, low, high, here),
        }
    }

    /// Loads a scalar. Without values it is the lower end of its assumed range.
    fn load(&mut self, variable: usize, source: &Cut, here: Here<'p>) -> Result<Flow, Error> {
        let ranges = self.program.variables.values();
        let range = ranges
            .map(|variable| variable.range)
            .nth(variable)
            .flatten();
        self.values[variable] = Some(range.map_or(0, |(low, _)| low));
        let Some(access) = self.access(source, here)? else {
            return Ok(Flow::Next);
        };
        self.check_races(&access, Touch::Read, here);
        self.check_written(&access, here);
        let id = access.buffer;
        if self.states[id.index()].tainted.meets(&access.region) {
            let elements = self.elements(id, &access.region);
            self.find(Code::Padding, here, Some(id), || {
                (
                    format!("`{elements}` comes from padding, and the program depends on it"),
                    "load an element of the array".to_owned(),
                )
            });
        }
        if self.functional {
            let geometry = &self.geometry[id.index()];
            let space = self.program.buffers[id].space as usize;
            let shape = ArrayShape::new(geometry.element_type, &[]);
            let failed = |error: tegula_ir::LiteralError| Error::Program {
                line: here.line,
                message: error.to_string(),
            };
            let mut literal = Literal::zeros(&shape).map_err(failed)?;
            let offset = self.states[id.index()].offset;
            let dense = Dense {
                start: 0,
                strides: vec![0; geometry.dims.len()],
            };
            let out = literal.bytes_mut();
            self.images[space].read(geometry, offset, &access.region, &dense, out);
            let value = match literal.scalar(0) {
                // Variables hold an f32 by its bits, as scalar operations do.
                Some(Scalar::Float(value)) => Some(i64::from((value as f32).to_bits())),
                Some(Scalar::Int(value)) => Some(value),
                Some(Scalar::Uint(value)) => i64::try_from(value).ok(),
                Some(Scalar::Bool(value)) => Some(i64::from(value)),
                _ => None,
            };
            self.values[variable] = Some(value.ok_or_else(|| Error::Program {
                line: here.line,
                message: "the loaded element does not fit in a 64-bit integer".to_owned(),
            })?);
        }
        Ok(Flow::Next)
    }

    /// Stores a scalar.
    fn store_scalar(
        &mut self,
        destination: &Cut,
        value: &Index,
        here: Here<'p>,
    ) -> Result<Flow, Error> {
        let value = self.value(value, here)?;
        let Some(access) = self.access(destination, here)? else {
            return Ok(Flow::Next);
        };
        self.check_races(&access, Touch::Write, here);
        let id = access.buffer.index();
        let state = &mut self.states[id];
        if state.written.missing(&access.region).is_some() {
            state.written.insert(&access.region);
        }
        state.tainted.remove(&access.region);
        self.engines.issue(here.line);
        if self.functional {
            let geometry = &self.geometry[id];
            let scalar = match geometry.element_type.is_float() {
                true => Scalar::Float(f64::from(f32::from_bits(value as u32))),
                false => Scalar::Int(value),
            };
            let shape = ArrayShape::new(geometry.element_type, &[]);
            let literal =
                Literal::from_scalars(&shape, [scalar]).map_err(|error| Error::Program {
                    line: here.line,
                    message: error.to_string(),
                })?;
            let space = self.program.buffers[access.buffer].space as usize;
            let dense = Dense {
                start: 0,
                strides: vec![0; geometry.dims.len()],
            };
            let offset = self.states[id].offset;
            let image = &mut self.images[space];
            image.write(geometry, offset, &access.region, &dense, literal.bytes());
        }
        Ok(Flow::Next)
    }

    fn assume(
        &mut self,
        variable: usize,
        low: &Index,
        high: &Index,
        here: Here<'p>,
    ) -> Result<Flow, Error> {
        let (low, high) = (self.value(low, here)?, self.value(high, here)?);
        let value = self.values.get(variable).copied().flatten();
        if self.functional && value.is_some_and(|value| !(low..=high).contains(&value)) {
            let value = value.unwrap_or_default();
            let names = self.program.variables.values().map(|v| v.name.clone());
            let name = names.into_iter().nth(variable).unwrap_or_default();
            self.find(Code::OutOfBounds, here, None, || {
                (
                    format!("`{name}` is {value}, but is assumed to be in [{low}, {high}]"),
                    "clamp it, or widen the assumed range".to_owned(),
                )
            });
        }
        if !self.functional && value.is_none_or(|value| value < low) {
            self.values[variable] = Some(low);
        }
        Ok(Flow::Next)
    }
}
