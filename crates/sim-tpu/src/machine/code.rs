//! Programs prepared for execution: statements with the [`terms`](super::terms) and slices that
//! they evaluate. A statement keeps its original for messages.

use super::regroup::{self, Groups};
use super::terms::{AT_RUN_TIME, Cut, CutEntry, Index, Signal};
use super::vector::work::of_block;
use super::vector::{Block, Kind, Operand as VectorInput, Ready, Reshaped, ViewCut};
use crate::memory::geometry::Geometry;
use crate::program::{
    BufferId, Comparison, Compute, Operand, Print, PrintedValue, RegisterId, ScalarOperation,
    SemaphoreRef, Slice, SliceEntry, Statement, StatementKind, TpuProgram, VectorBlock, VectorOp,
    VectorOperand, VectorOperation, VectorResult, View,
};
use crate::report::Error;
use crate::speeds::Speeds;
use smallvec::SmallVec;
use tegula_arena::EntityRef;
use tegula_expr::Cmp;
use tegula_mosaic::ir::Op;
use tegula_mosaic::types::Element;

/// A statement prepared for execution.
pub(super) struct Step<'p> {
    pub(super) line: u32,
    pub(super) statement: &'p Statement,
    pub(super) action: Action<'p>,
}

pub(super) enum Action<'p> {
    Declare(BufferId),
    Free(BufferId),
    Launch,
    Start(Box<Copy>),
    Wait(Signal, Option<Index>),
    Signal(Signal, Index, Option<Index>),
    Await(Signal, Index),
    /// A computation, by its number.
    Compute(usize),
    /// A block of vector code, by its number.
    Vector(usize),
    Scalar(usize, &'p ScalarOperation, SmallVec<[Index; 3]>),
    StoreScalar(Box<Cut>, Index),
    AssumeMultiple(usize, Index, i64),
    ReadSemaphore(usize, Signal),
    CoreNumber(usize),
    Delay(Index),
    Print(&'p Print, Vec<Printable>),
    Assert(Index, &'p str),
    Require(Index, &'p str),
    WaitCopy(Box<Copy>),
    For {
        variable: usize,
        low: Index,
        high: Index,
        body: Vec<Step<'p>>,
        /// Whether an iteration is a step of work over blocks, to which the chip's overhead of a
        /// step is charged.
        innermost: bool,
    },
    While {
        condition: Vec<Step<'p>>,
        left: Index,
        cmp: Cmp,
        right: Index,
        body: Vec<Step<'p>>,
    },
    If {
        left: Index,
        cmp: Cmp,
        right: Index,
        then: Vec<Step<'p>>,
        otherwise: Vec<Step<'p>>,
    },
    Assign(usize, Index),
    Load(usize, Box<Cut>),
    Assume(usize, Index, Index),
}

pub(super) struct Copy {
    pub(super) source: Cut,
    pub(super) destination: Cut,
    /// Which dimensions of both have the same elements.
    pub(super) groups: Groups,
    pub(super) semaphore: Signal,
    /// Whether some size is known only when the copy starts.
    pub(super) sized: bool,
    /// For a copy to another core: that core, and the semaphore that counts on this core what was
    /// read.
    pub(super) remote: Option<(Index, Option<Signal>)>,
}

/// A value that is printed.
pub(super) enum Printable {
    Scalar(Index, Element),
    Array(Box<Cut>, Element),
}

/// An operand of a computation.
pub(super) enum Input {
    Cut(Box<Cut>),
    Literal(tegula_ir::Literal),
}

/// A computation prepared for execution.
pub(super) struct Job<'p> {
    pub(super) compute: &'p Compute,
    pub(super) inputs: Vec<Input>,
    pub(super) outputs: Vec<Cut>,
}

/// Prepares statements for execution.
pub(super) struct Compiler<'p> {
    pub(super) program: &'p TpuProgram,
    pub(super) geometry: &'p [Geometry],
    pub(super) speeds: &'p Speeds,
    pub(super) jobs: Vec<Job<'p>>,
    pub(super) blocks: Vec<Block<'p>>,
}

type Made<T> = Result<T, Error>;

/// The message for a slice of run-time size outside a copy.
const SIZED: &str = "a slice whose size is known only at run time is copied, nothing else";

impl<'p> Compiler<'p> {
    pub(super) fn steps(&mut self, statements: &'p [Statement]) -> Made<Vec<Step<'p>>> {
        statements.iter().map(|s| self.step(s)).collect()
    }

    fn step(&mut self, statement: &'p Statement) -> Made<Step<'p>> {
        let line = statement.line;
        let number = |variable: crate::program::VariableId| variable.index();
        let action = match &statement.kind {
            StatementKind::Declare(buffer) => Action::Declare(self.known(*buffer, line)?),
            StatementKind::Free(buffer) => Action::Free(self.known(*buffer, line)?),
            StatementKind::Launch => Action::Launch,
            StatementKind::Start {
                source,
                destination,
                semaphore,
                remote,
            } => {
                let mut copy = self.copy((source, destination, semaphore), line)?;
                if let Some(remote) = remote {
                    let sent = remote.sent.as_ref().map(|sent| self.signal(sent, line));
                    copy.remote = Some((Index::new(&remote.core), sent.transpose()?));
                }
                Action::Start(Box::new(copy))
            }
            StatementKind::WaitCopy {
                source,
                destination,
                semaphore,
            } => {
                let copy = self.copy((source, destination, semaphore), line)?;
                Action::WaitCopy(Box::new(copy))
            }
            StatementKind::Wait { semaphore, bytes } => Action::Wait(
                self.signal(semaphore, line)?,
                bytes.as_ref().map(Index::new),
            ),
            StatementKind::Signal {
                semaphore,
                amount,
                core,
            } => Action::Signal(
                self.signal(semaphore, line)?,
                Index::new(amount),
                core.as_ref().map(Index::new),
            ),
            StatementKind::Vector(block) => {
                let ready = self.block(block)?;
                self.blocks.push(ready);
                Action::Vector(self.blocks.len() - 1)
            }
            StatementKind::Scalar {
                variable,
                operation,
                operands,
            } => Action::Scalar(
                number(*variable),
                operation,
                operands.iter().map(Index::new).collect(),
            ),
            StatementKind::StoreScalar { destination, value } => {
                Action::StoreScalar(Box::new(self.cut(destination, line)?), Index::new(value))
            }
            StatementKind::AssumeMultiple {
                variable,
                value,
                multiple,
                ..
            } => Action::AssumeMultiple(number(*variable), Index::new(value), *multiple),
            StatementKind::ReadSemaphore {
                variable,
                semaphore,
            } => Action::ReadSemaphore(number(*variable), self.signal(semaphore, line)?),
            StatementKind::CoreNumber { variable } => Action::CoreNumber(number(*variable)),
            StatementKind::Delay { nanoseconds } => Action::Delay(Index::new(nanoseconds)),
            StatementKind::Print(print) => {
                let values = print.values.iter().map(|value| {
                    Ok(match value {
                        PrintedValue::Scalar(term, element) => {
                            Printable::Scalar(Index::new(term), *element)
                        }
                        PrintedValue::Array(slice, element) => {
                            Printable::Array(Box::new(self.cut(slice, line)?), *element)
                        }
                    })
                });
                Action::Print(print, values.collect::<Made<_>>()?)
            }
            StatementKind::Assert { condition, message } => {
                Action::Assert(Index::new(condition), message)
            }
            StatementKind::Require { condition, message } => {
                Action::Require(Index::new(condition), message)
            }
            StatementKind::Await { semaphore, amount } => {
                Action::Await(self.signal(semaphore, line)?, Index::new(amount))
            }
            StatementKind::Compute(compute) => {
                let inputs = compute.operands.iter().map(|operand| {
                    Ok(match operand {
                        Operand::Slice(slice) => Input::Cut(Box::new(self.cut(slice, line)?)),
                        Operand::Literal(literal) => Input::Literal(literal.clone()),
                    })
                });
                let inputs = inputs.collect::<Made<Vec<Input>>>()?;
                let outputs = compute.destinations.iter().map(|d| self.cut(d, line));
                let outputs = outputs.collect::<Made<Vec<Cut>>>()?;
                self.check_shapes(compute, &inputs, &outputs, line)?;
                self.jobs.push(Job {
                    compute,
                    inputs,
                    outputs,
                });
                Action::Compute(self.jobs.len() - 1)
            }
            StatementKind::For {
                variable,
                low,
                high,
                body,
            } => Action::For {
                variable: number(*variable),
                low: Index::new(low),
                high: Index::new(high),
                innermost: is_innermost(body),
                body: self.steps(body)?,
            },
            StatementKind::While {
                condition,
                test,
                body,
            } => Action::While {
                condition: self.steps(condition)?,
                left: Index::new(&test.left),
                cmp: test.cmp,
                right: Index::new(&test.right),
                body: self.steps(body)?,
            },
            StatementKind::If {
                condition: Comparison { left, cmp, right },
                then,
                otherwise,
            } => Action::If {
                left: Index::new(left),
                cmp: *cmp,
                right: Index::new(right),
                then: self.steps(then)?,
                otherwise: self.steps(otherwise)?,
            },
            StatementKind::Let { variable, value } | StatementKind::Set { variable, value } => {
                Action::Assign(number(*variable), Index::new(value))
            }
            StatementKind::Load { variable, source } => {
                Action::Load(number(*variable), Box::new(self.cut(source, line)?))
            }
            StatementKind::Assume {
                variable,
                low,
                high,
            } => Action::Assume(number(*variable), Index::new(low), Index::new(high)),
            StatementKind::Grid(_) => {
                return Err(wrong(
                    line,
                    "a grid must be expanded before it is simulated",
                ));
            }
        };
        Ok(Step {
            line,
            statement,
            action,
        })
    }

    fn copy(
        &self,
        (source, destination, semaphore): (&Slice, &Slice, &SemaphoreRef),
        line: u32,
    ) -> Made<Copy> {
        let source = self.copied_cut(source, line)?;
        let destination = self.copied_cut(destination, line)?;
        let types = [&source, &destination].map(|c| self.geometry[c.buffer.index()].element_type);
        // Texts state shapes that are the same.
        let groups = match self.program.is_of_pallas() {
            true => regroup::groups(&source.sizes, &destination.sizes),
            false => regroup::pairs(&source.sizes, &destination.sizes),
        };
        let groups = groups.filter(|_| types[0] == types[1]).ok_or_else(|| {
            wrong(
                line,
                "a copy's source and destination differ in shape or element type",
            )
        })?;
        Ok(Copy {
            groups,
            sized: source.is_sized() || destination.is_sized(),
            source,
            destination,
            semaphore: self.signal(semaphore, line)?,
            remote: None,
        })
    }

    fn block(&self, block: &'p VectorBlock) -> Made<Block<'p>> {
        let operations = block
            .operations
            .iter()
            .map(|operation| self.vector(operation));
        let operations = operations.collect::<Made<Vec<_>>>()?;
        let effort = |ready: &Ready<'_>| {
            let own = ready
                .dims
                .iter()
                .map(|d| (*d).max(0) as u64)
                .product::<u64>();
            let product = match &ready.kind {
                Kind::Compute(Op::Matmul(..)) => 16,
                _ => 1,
            };
            own.saturating_mul(product).saturating_add(1)
        };
        Ok(Block {
            work: of_block(&operations, self.speeds),
            effort: operations.iter().map(effort).fold(0, u64::saturating_add),
            operations,
        })
    }

    fn vector(&self, operation: &'p VectorOperation) -> Made<Ready<'p>> {
        let line = operation.line;
        let unknown = || wrong(line, "an operand is a vector that no statement defines");
        let operands = operation.operands.iter().map(|operand| {
            Ok(match operand {
                VectorOperand::Register(id) => {
                    let register = self.program.registers.get(*id).ok_or_else(unknown)?;
                    VectorInput::Register(*id, register.dims.clone(), register.element)
                }
                VectorOperand::Scalar(term, element) => {
                    VectorInput::Scalar(Index::new(term), *element)
                }
            })
        });
        let operands: SmallVec<[VectorInput; 3]> = operands.collect::<Made<_>>()?;
        let stored = operation.operands.first();
        let of = |id: RegisterId| self.program.registers.get(id).ok_or_else(unknown);
        let (dims, element) = match (&operation.op, operation.result, stored) {
            (VectorOp::Store { .. }, _, Some(VectorOperand::Register(id))) => {
                let register = of(*id)?;
                (register.dims.clone(), register.element)
            }
            (_, Some(VectorResult::Register(id)), _) => {
                let register = of(id)?;
                (register.dims.clone(), register.element)
            }
            (_, Some(VectorResult::Variable(_)), _) => {
                let element = operands.first().map(|operand| match operand {
                    VectorInput::Register(_, _, element) | VectorInput::Scalar(_, element) => {
                        *element
                    }
                });
                (Vec::new(), element.ok_or_else(unknown)?)
            }
            (VectorOp::Compute(Op::SeedRandom), None, _) => (Vec::new(), Element::I32),
            _ => return Err(wrong(line, "a vector operation needs a vector operand")),
        };
        let kind = match &operation.op {
            VectorOp::Move => Kind::Move,
            VectorOp::Load(view) => Kind::Load(Box::new(self.view(view, &dims, line)?)),
            VectorOp::Store { view, add } => {
                Kind::Store(Box::new(self.view(view, &dims, line)?), *add)
            }
            VectorOp::Compute(op) => Kind::Compute(op),
        };
        Ok(Ready {
            kind,
            operands,
            result: operation.result,
            dims,
            element,
            line,
        })
    }

    /// A view prepared for a vector with these sizes.
    fn view(&self, view: &View, dims: &[i64], line: u32) -> Made<ViewCut> {
        let cut = self.cut(&view.slice, line)?;
        let count = |sizes: &[i64]| sizes.iter().product::<i64>();
        let mut sizes = cut.sizes.to_vec();
        let mut reshaped = Vec::new();
        let last = view.reshaped.len();
        for (at, (shape, entries)) in view.reshaped.iter().enumerate() {
            if count(shape) != count(&sizes) || shape.len() != entries.len() {
                return Err(wrong(
                    line,
                    "a view's number of elements differs from that of its slice",
                ));
            }
            let strides = match (at + 1 == last, view.strides.is_empty()) {
                (true, false) if view.strides.len() == entries.len() => view.strides.clone(),
                (true, false) => {
                    return Err(wrong(
                        line,
                        "a view needs one stride for each of its dimensions",
                    ));
                }
                _ => vec![1; entries.len()],
            };
            let made: Vec<CutEntry> = entries
                .iter()
                .zip(shape)
                .map(|(entry, &whole)| {
                    let (start, size) = match entry {
                        SliceEntry::Whole => (Index::Constant(0), whole),
                        SliceEntry::Element(at) => (Index::new(at), 1),
                        SliceEntry::Range { start, size, .. } => (Index::new(start), *size),
                        SliceEntry::Sized { .. } => return Err(wrong(line, SIZED)),
                    };
                    Ok(CutEntry {
                        start,
                        size,
                        clipped: false,
                        sized: None,
                    })
                })
                .collect::<Made<_>>()?;
            sizes = made.iter().map(|entry| entry.size).collect();
            reshaped.push(Reshaped {
                dims: shape.clone(),
                entries: made,
                strides,
            });
        }
        if count(&sizes) != count(dims) || reshaped.is_empty() && !view.strides.is_empty() {
            return Err(wrong(
                line,
                "a view's number of elements differs from that of its vector",
            ));
        }
        Ok(ViewCut { cut, reshaped })
    }

    fn known(&self, buffer: BufferId, line: u32) -> Made<BufferId> {
        if self.program.buffers.is_valid(buffer) {
            return Ok(buffer);
        }
        Err(wrong(
            line,
            "a statement uses a buffer that the program does not declare",
        ))
    }

    /// A slice whose sizes are known before the run.
    fn cut(&self, slice: &Slice, line: u32) -> Made<Cut> {
        let cut = self.copied_cut(slice, line)?;
        match cut.is_sized() {
            true => Err(wrong(line, SIZED)),
            false => Ok(cut),
        }
    }

    /// A slice of a copy; its sizes may be known only at run time.
    fn copied_cut(&self, slice: &Slice, line: u32) -> Made<Cut> {
        let buffer = self.known(slice.buffer, line)?;
        let dims = &self.geometry[buffer.index()].dims;
        if dims.len() != slice.entries.len() {
            return Err(wrong(
                line,
                "a slice needs one entry for each dimension of its buffer",
            ));
        }
        let mut cut = Cut {
            buffer,
            entries: SmallVec::new(),
            kept: SmallVec::new(),
            sizes: SmallVec::new(),
        };
        for (d, (entry, &whole)) in slice.entries.iter().zip(dims).enumerate() {
            let mut sized = None;
            let (start, size, clipped, kept) = match entry {
                SliceEntry::Whole => (Index::Constant(0), whole, false, true),
                SliceEntry::Element(at) => (Index::new(at), 1, false, false),
                SliceEntry::Sized { start, size } => {
                    sized = Some(Box::new(Index::new(size)));
                    (Index::new(start), AT_RUN_TIME, false, true)
                }
                SliceEntry::Range {
                    start,
                    size,
                    clipped,
                } => (Index::new(start), *size, *clipped, true),
            };
            if size < 0 && sized.is_none() {
                return Err(wrong(line, "a slice has a negative size"));
            }
            cut.entries.push(CutEntry {
                start,
                size,
                clipped,
                sized,
            });
            if kept {
                cut.kept.push(d);
                cut.sizes.push(size);
            }
        }
        Ok(cut)
    }

    fn signal(&self, semaphore: &SemaphoreRef, line: u32) -> Made<Signal> {
        if !self.program.semaphores.is_valid(semaphore.array) {
            return Err(wrong(
                line,
                "a statement uses a semaphore that the program does not declare",
            ));
        }
        Ok(Signal {
            array: semaphore.array.index(),
            index: Index::new(&semaphore.index),
        })
    }

    /// Checks that the slices have the shapes of the module's parameters and results.
    fn check_shapes(
        &self,
        compute: &Compute,
        inputs: &[Input],
        outputs: &[Cut],
        line: u32,
    ) -> Made<()> {
        use tegula_ir::{ArrayShape, Shape};
        let shape_of = |cut: &Cut| {
            let element_type = self.geometry[cut.buffer.index()].element_type;
            ArrayShape::new(element_type, &cut.sizes)
        };
        let module = &*compute.operation;
        let entry = module.entry_computation();
        let mut given = Vec::new();
        for input in inputs {
            given.push(match input {
                Input::Cut(cut) => shape_of(cut),
                Input::Literal(literal) => literal.shape().clone(),
            });
        }
        let takes = entry
            .parameters
            .iter()
            .map(|&id| module[id].shape.as_array());
        let fits = entry.parameters.len() == given.len()
            && takes
                .zip(&given)
                .all(|(takes, given)| takes.is_some_and(|t| t.same_ignoring_layout(given)));
        if !fits {
            return Err(wrong(
                line,
                "the shapes of the operands differ from the computation's parameters",
            ));
        }
        let mut gives = Vec::new();
        module[entry.root]
            .shape
            .for_each_leaf(&mut |leaf| gives.push(leaf.clone()));
        let fits = gives.len() == outputs.len()
            && gives.iter().zip(outputs).all(|(gives, cut)| {
                let wanted = Shape::Array(shape_of(cut));
                gives.same_ignoring_layout(&wanted)
            });
        if !fits {
            return Err(wrong(
                line,
                "the shapes of the destinations differ from the computation's results",
            ));
        }
        Ok(())
    }
}

/// Whether a loop's body computes or copies and contains no loop.
fn is_innermost(body: &[Statement]) -> bool {
    fn looks(body: &[Statement]) -> (bool, bool) {
        let parts = body.iter().map(|statement| match &statement.kind {
            StatementKind::Start { .. } | StatementKind::Compute(_) | StatementKind::Vector(_) => {
                (true, false)
            }
            StatementKind::For { .. } | StatementKind::While { .. } => (false, true),
            StatementKind::If {
                then, otherwise, ..
            } => {
                let (a, b) = (looks(then), looks(otherwise));
                (a.0 || b.0, a.1 || b.1)
            }
            _ => (false, false),
        });
        parts.fold((false, false), |a, b| (a.0 || b.0, a.1 || b.1))
    }
    looks(body) == (true, false)
}

pub(super) fn wrong(line: u32, message: &str) -> Error {
    Error::Program {
        line,
        message: message.to_owned(),
    }
}
