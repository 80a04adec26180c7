//! Translation of statements: control flow, and everything except vector operations and copies.

use super::{Error, Made, Translator};
use crate::program::{
    Comparison, Print, PrintedValue, RegisterId, ScalarOperation, Statement, StatementKind,
    VariableId, VectorBlock, VectorOp, VectorOperand, VectorOperation, VectorResult,
};
use std::sync::Arc;
use tegula_expr::{Cmp, Term};
use tegula_mosaic::ir::{Block, Op, Operation, Value};
use tegula_mosaic::types::{Item, Type};

/// The variable or register of a value that is passed between regions.
#[derive(Clone)]
enum Holder {
    Scalar(VariableId),
    Vector(RegisterId),
}

impl<'k> Translator<'k> {
    /// Ends the open block: its vector operations become one statement.
    pub(super) fn flush(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let operations = std::mem::take(&mut self.open);
        self.open_defines.clear();
        let line = operations.first().map_or(0, |operation| operation.line);
        let kind = StatementKind::Vector(Box::new(VectorBlock { operations }));
        self.out.push(Statement { kind, line });
    }

    /// Translates a block except for its terminator, which is returned.
    pub(super) fn block(&mut self, block: &'k Block) -> Made<Option<&'k Operation>> {
        let mut end = None;
        for operation in &block.operations {
            if matches!(operation.op, Op::Yield | Op::Condition | Op::Return) {
                end = Some(operation);
                continue;
            }
            let used = operation
                .results
                .iter()
                .any(|result| self.live.contains(result));
            if operation.op.is_pure() && !used {
                continue;
            }
            if let Some(place) = &operation.place {
                self.line = self.place(place);
            }
            self.operation(operation)?;
        }
        Ok(end)
    }

    fn operation(&mut self, operation: &'k Operation) -> Made<()> {
        match &operation.op {
            Op::If => self.conditional(operation),
            Op::For => self.counted_loop(operation),
            Op::While => self.while_loop(operation),
            Op::Region => self.region(operation),
            Op::Trace => Ok(()),
            Op::Alloc
            | Op::EnqueueDma(_)
            | Op::WaitDma(..)
            | Op::Signal { .. }
            | Op::Wait
            | Op::ReadSemaphore
            | Op::BarrierSemaphore
            | Op::MemRefSlice
            | Op::MemRefSqueeze
            | Op::MemRefReshape
            | Op::MemRefBitcast
            | Op::MemRefCast
            | Op::LoadScalar
            | Op::StoreScalar => self.memory_operation(operation),
            Op::DeviceId | Op::CoreId => {
                let variable = self.defined(operation.results[0], "core");
                if operation.op == Op::DeviceId {
                    self.push(StatementKind::CoreNumber { variable });
                } else {
                    self.push(StatementKind::Let {
                        variable,
                        value: Term::constant(0),
                    });
                }
                Ok(())
            }
            Op::GridBound(dim) => {
                let bound = usize::try_from(*dim)
                    .ok()
                    .and_then(|d| self.grid.get(d))
                    .cloned();
                let bound = bound.ok_or_else(|| {
                    Error::at(operation, "the dimension is out of range for the grid")
                })?;
                self.scalars.insert(operation.results[0], bound);
                Ok(())
            }
            Op::Delay => {
                self.flush();
                let nanoseconds = self.scalar(operation.operands[0])?;
                self.push(StatementKind::Delay { nanoseconds });
                Ok(())
            }
            Op::Print { text, formatted } => self.print(operation, text, *formatted),
            Op::Assert(message) => {
                self.flush();
                let condition = self.scalar(operation.operands[0])?;
                let message = message.clone();
                self.push(StatementKind::Assert { condition, message });
                Ok(())
            }
            Op::AssumeMultiple(multiple) => {
                let value = self.scalar(operation.operands[0])?;
                let quotient = self.variable("quotient");
                let variable = self.defined(operation.results[0], "m");
                let multiple = *multiple;
                self.after_open(&value);
                self.push(StatementKind::AssumeMultiple {
                    variable,
                    value,
                    multiple,
                    quotient,
                });
                Ok(())
            }
            _ => self.value_operation(operation),
        }
    }

    fn print(&mut self, operation: &'k Operation, text: &Arc<str>, formatted: bool) -> Made<()> {
        self.flush();
        let mut values = Vec::new();
        for &value in &operation.operands {
            values.push(match &self.module.values[value] {
                Type::Scalar(element) => PrintedValue::Scalar(self.scalar(value)?, *element),
                ty => {
                    let item = ty.as_memref().map(|memref| memref.item);
                    let Some(Item::Data(element)) = item else {
                        return Err(Error::at(
                            operation,
                            "it prints a value that is not an array",
                        ));
                    };
                    let slice = self.reference(operation, value)?.slice(operation)?;
                    PrintedValue::Array(slice, element)
                }
            });
        }
        let text = text.clone();
        self.push(StatementKind::Print(Box::new(Print {
            text,
            formatted,
            values,
        })));
        Ok(())
    }

    /// Ends the open block if it defines a variable that a term needs.
    pub(super) fn after_open(&mut self, term: &Term) {
        let mut needs = false;
        term.for_each_var(&mut |var| needs |= self.open_defines.contains(&var));
        if needs {
            self.flush();
        }
    }

    /// A new variable for a value.
    pub(super) fn defined(&mut self, value: Value, name: &str) -> VariableId {
        let number = self.program.variables.len();
        let variable = self.variable(&format!("{name}{number}"));
        self.scalars.insert(value, Term::var(variable.var()));
        variable
    }

    /// A scalar value as a term.
    pub(super) fn scalar(&self, value: Value) -> Made<Term> {
        let known = self.scalars.get(&value).cloned();
        known.ok_or_else(|| Error::new("it uses a scalar that was not computed"))
    }

    fn holder(&mut self, value: Value) -> Made<Holder> {
        match &self.module.values[value] {
            Type::Scalar(_) => {
                let number = self.program.variables.len();
                let variable = self.variable(&format!("c{number}"));
                Ok(Holder::Scalar(variable))
            }
            Type::Vector(_) => Ok(Holder::Vector(self.new_register(value)?)),
            Type::MemRef(_) => Err(Error::new(
                "a loop or branch that returns a memory reference is not supported",
            )),
        }
    }

    fn bind(&mut self, value: Value, holder: &Holder) {
        match holder {
            Holder::Scalar(variable) => {
                self.scalars.insert(value, Term::var(variable.var()));
            }
            Holder::Vector(register) => {
                self.registers.insert(value, *register);
            }
        }
    }

    /// Assigns values to holders, as a parallel assignment; `new` says that the holders have no
    /// values yet.
    fn give(&mut self, holders: &[Holder], values: &[Value], new: bool) -> Made<()> {
        self.flush();
        // A temporary keeps each value that another assignment might overwrite before it is read.
        let mut scalars = Vec::new();
        let mut moves = Vec::new();
        let many = holders.len() > 1 && !new;
        for (holder, &value) in holders.iter().zip(values) {
            match holder {
                Holder::Scalar(variable) => {
                    let term = self.scalar(value)?;
                    let value = match many && term.as_constant().is_none() {
                        true => {
                            let between = self.variable("t");
                            self.push(StatementKind::Let {
                                variable: between,
                                value: term,
                            });
                            Term::var(between.var())
                        }
                        false => term,
                    };
                    scalars.push((*variable, value));
                }
                Holder::Vector(register) => {
                    let from = self.register(value)?;
                    if from == *register {
                        continue;
                    }
                    let from = match many {
                        true => {
                            let between = self.new_register(value)?;
                            self.move_register(from, between);
                            between
                        }
                        false => from,
                    };
                    moves.push((from, *register));
                }
            }
        }
        for (variable, value) in scalars {
            self.push(match new {
                true => StatementKind::Let { variable, value },
                false => StatementKind::Set { variable, value },
            });
        }
        for (from, to) in moves {
            self.move_register(from, to);
        }
        self.flush();
        Ok(())
    }

    fn move_register(&mut self, from: RegisterId, to: RegisterId) {
        self.open.push(VectorOperation {
            op: VectorOp::Move,
            operands: vec![VectorOperand::Register(from)],
            result: Some(VectorResult::Register(to)),
            line: self.line,
        });
    }

    /// Declares the variables before the branches that set them.
    fn declare(&mut self, holders: &[Holder]) {
        for holder in holders {
            if let Holder::Scalar(variable) = holder {
                self.push(StatementKind::Let {
                    variable: *variable,
                    value: Term::constant(0),
                });
            }
        }
    }

    fn holders(&mut self, values: &[Value]) -> Made<Vec<Holder>> {
        values.iter().map(|value| self.holder(*value)).collect()
    }

    fn conditional(&mut self, operation: &'k Operation) -> Made<()> {
        self.flush();
        let condition = self.scalar(operation.operands[0])?;
        let holders = self.holders(&operation.results)?;
        self.declare(&holders);
        let line = self.line;
        let mut bodies = Vec::new();
        for region in &operation.regions {
            bodies.push(self.inside(|own| {
                let end = own.block(region)?;
                let values = end.map(|end| end.operands.to_vec()).unwrap_or_default();
                own.give(&holders, &values, false)
            })?);
        }
        self.line = line;
        let mut bodies = bodies.into_iter();
        let (then, otherwise) = (
            bodies.next().unwrap_or_default(),
            bodies.next().unwrap_or_default(),
        );
        self.push(StatementKind::If {
            condition: Comparison {
                left: condition,
                cmp: Cmp::Ne,
                right: Term::constant(0),
            },
            then,
            otherwise,
        });
        for (value, holder) in operation.results.iter().zip(&holders) {
            self.bind(*value, holder);
        }
        Ok(())
    }

    fn counted_loop(&mut self, operation: &'k Operation) -> Made<()> {
        self.flush();
        let [low, high, step] = [0, 1, 2].map(|at| self.scalar(operation.operands[at]));
        let (low, high, step) = (low?, high?, step?);
        let holders = self.holders(&operation.results)?;
        self.give(&holders, &operation.operands[3..], true)?;
        let region = &operation.regions[0];
        let counter = region.arguments[0];
        let variable = self.variable("k");
        let one = step.as_constant() == Some(1);
        let line = self.line;
        let body = self.inside(|own| {
            if one {
                own.scalars.insert(counter, Term::var(variable.var()));
            } else {
                let value = &low + &Term::var(variable.var()).mul(&step);
                let named = own.defined(counter, "k");
                own.push(StatementKind::Let {
                    variable: named,
                    value,
                });
            }
            for (argument, holder) in region.arguments[1..].iter().zip(&holders) {
                own.bind(*argument, holder);
            }
            let end = own.block(region)?;
            let values = end.map(|end| end.operands.to_vec()).unwrap_or_default();
            own.give(&holders, &values, false)
        })?;
        self.line = line;
        let (low, high) = match one {
            true => (low, high),
            false => (Term::constant(0), high.sub(&low).ceil_div(&step)),
        };
        self.push(StatementKind::For {
            variable,
            low,
            high,
            body,
        });
        for (value, holder) in operation.results.iter().zip(&holders) {
            self.bind(*value, holder);
        }
        Ok(())
    }

    fn while_loop(&mut self, operation: &'k Operation) -> Made<()> {
        self.flush();
        let carried = self.holders(&operation.operands)?;
        self.give(&carried, &operation.operands, true)?;
        let passed = self.holders(&operation.results)?;
        self.declare(&passed);
        let go_on = self.variable("goes_on");
        self.push(StatementKind::Let {
            variable: go_on,
            value: Term::constant(0),
        });
        let (before, after) = (&operation.regions[0], &operation.regions[1]);
        let line = self.line;
        let condition = self.inside(|own| {
            for (argument, holder) in before.arguments.iter().zip(&carried) {
                own.bind(*argument, holder);
            }
            let end = own.block(before)?;
            let values = end.map(|end| end.operands.to_vec()).unwrap_or_default();
            own.flush();
            let (test, values) = values
                .split_first()
                .ok_or_else(|| Error::at(operation, "expected a loop with a condition"))?;
            let value = own.scalar(*test)?;
            own.push(StatementKind::Set {
                variable: go_on,
                value,
            });
            own.give(&passed, values, false)
        })?;
        let body = self.inside(|own| {
            for (argument, holder) in after.arguments.iter().zip(&passed) {
                own.bind(*argument, holder);
            }
            let end = own.block(after)?;
            let values = end.map(|end| end.operands.to_vec()).unwrap_or_default();
            own.give(&carried, &values, false)
        })?;
        self.line = line;
        self.push(StatementKind::While {
            condition,
            test: Comparison {
                left: Term::var(go_on.var()),
                cmp: Cmp::Ne,
                right: Term::constant(0),
            },
            body,
        });
        for (value, holder) in operation.results.iter().zip(&passed) {
            self.bind(*value, holder);
        }
        Ok(())
    }

    /// Translates a region; memory that is allocated in it is freed at its end.
    fn region(&mut self, operation: &'k Operation) -> Made<()> {
        self.flush();
        let region = &operation.regions[0];
        let end = self.block(region)?;
        self.flush();
        let values = end.map(|end| end.operands.to_vec()).unwrap_or_default();
        for (result, value) in operation.results.iter().zip(values) {
            if let Some(term) = self.scalars.get(&value).cloned() {
                self.scalars.insert(*result, term);
            }
            if let Some(register) = self.registers.get(&value).copied() {
                self.registers.insert(*result, register);
            }
        }
        for inner in region
            .operations
            .iter()
            .filter(|inner| inner.op == Op::Alloc)
        {
            if let Some(reference) = self.references.get(&inner.results[0]) {
                let buffer = reference.buffer;
                self.push(StatementKind::Free(buffer));
            }
        }
        Ok(())
    }

    /// Translates a computation with scalars; an operation on constants is evaluated here.
    pub(super) fn scalar_operation(
        &mut self,
        result: Value,
        operation: ScalarOperation,
        operands: Vec<Term>,
    ) {
        let constants: Option<Vec<i64>> = operands.iter().map(Term::as_constant).collect();
        if let Some(constants) = constants
            && let Ok(value) = crate::machine::scalar::evaluate(&operation, &constants)
        {
            self.scalars.insert(result, Term::constant(value));
            return;
        }
        if let (ScalarOperation::Cast(tegula_mosaic::ir::Cast::Signed, from, to), [operand]) =
            (&operation, &operands[..])
            && from.bits() == to.bits()
        {
            self.scalars.insert(result, operand.clone());
            return;
        }
        for operand in &operands {
            self.after_open(operand);
        }
        let variable = self.defined(result, "s");
        self.push(StatementKind::Scalar {
            variable,
            operation,
            operands,
        });
    }
}
