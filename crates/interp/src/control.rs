//! Operations on tuples and tokens, and operations that call whole computations.

use crate::dispatch::left_out;
use crate::error::{OpError, invalid};
use crate::eval::Evaluator;
use crate::value::Value;
use tegula_ir::{ComputationId, ElementType, InstructionId, Literal, Op, Opcode, Shape};
use tegula_scalar::Bits;

fn first(operands: Vec<Value>) -> Result<Value, OpError> {
    let first = operands.into_iter().next();
    first.ok_or_else(|| invalid("expected at least one operand"))
}

/// One element of a tuple.
fn element(operands: Vec<Value>, index: i64) -> Result<Value, OpError> {
    let mut elements = first(operands)?.into_tuple()?;
    match usize::try_from(index) {
        Ok(index) if index < elements.len() => Ok(elements.swap_remove(index)),
        _ => Err(invalid(format!(
            "a tuple of {} elements has no element {index}",
            elements.len()
        ))),
    }
}

/// Whether a `pred` scalar is true.
fn is_true(value: &Value) -> Result<bool, OpError> {
    let literal = value.array()?;
    if literal.element_type() != ElementType::Pred || literal.len() != 1 {
        return Err(invalid("expected a condition that is a pred scalar"));
    }
    Ok(literal.bytes()[0] != 0)
}

/// A value of a shape with all elements zero: a context that is never read.
fn zeros(evaluator: &Evaluator<'_>, shape: &Shape) -> Result<Value, OpError> {
    Ok(match shape {
        Shape::Tuple(shapes) => {
            let elements = shapes.iter().map(|shape| zeros(evaluator, shape));
            Value::Tuple(elements.collect::<Result<_, _>>()?)
        }
        Shape::Token => Value::Token,
        Shape::Buffer(inner) => zeros(evaluator, inner)?,
        shape => Value::Array(Literal::zeros(&evaluator.resolve(shape)?)?),
    })
}

impl Evaluator<'_> {
    /// Evaluates a constant tuple, which belongs to no operation group; `None` for any other
    /// operation.
    pub(crate) fn structural(
        &self,
        id: InstructionId,
        operands: &[Value],
    ) -> Option<Result<Value, OpError>> {
        let instruction = &self.module[id];
        match (&instruction.op, &instruction.shape) {
            (Op::Constant(literals), Shape::Tuple(_)) if operands.is_empty() => {
                let mut leaves = literals.iter();
                Some(tuple_of(&instruction.shape, &mut leaves))
            }
            _ => None,
        }
    }

    /// Whether an operation may have operands or results that are not arrays.
    pub(crate) fn is_control(&self, id: InstructionId) -> bool {
        matches!(
            self.module[id].op,
            Op::Tuple
                | Op::GetTupleElement(_)
                | Op::Call { .. }
                | Op::Fusion { .. }
                | Op::While { .. }
                | Op::Conditional { .. }
                | Op::Scan { .. }
                | Op::OptBarrier
                | Op::Domain(_)
                | Op::Copy
                | Op::CopyStart { .. }
                | Op::CopyDone
                | Op::AfterAll
                | Op::AddDependency
                | Op::AsyncStart { .. }
                | Op::AsyncUpdate
                | Op::AsyncDone
                | Op::Infeed(_)
                | Op::Outfeed { .. }
                | Op::Channel { .. }
                | Op::AllGather { .. }
                | Op::AllReduce { .. }
                | Op::ReduceScatter { .. }
                | Op::AllToAll { .. }
                | Op::RaggedAllToAll(_)
                | Op::CollectiveBroadcast(_)
                | Op::CollectivePermute { .. }
                | Op::CollectiveDone(_)
        )
    }

    pub(crate) fn control(
        &mut self,
        id: InstructionId,
        operands: Vec<Value>,
    ) -> Result<Value, OpError> {
        let module = self.module;
        match &module[id].op {
            Op::Tuple => Ok(Value::Tuple(operands)),
            Op::GetTupleElement(index) => element(operands, *index),
            Op::OptBarrier if operands.len() != 1 => Ok(Value::Tuple(operands)),
            Op::Copy | Op::OptBarrier | Op::Domain(_) | Op::AddDependency | Op::AsyncUpdate => {
                first(operands)
            }
            Op::AfterAll => Ok(Value::Token),
            Op::Call { to_apply, .. }
            | Op::Fusion {
                calls: to_apply, ..
            } => self.computation(*to_apply, operands),
            Op::While { condition, body } => self.while_loop(*condition, *body, first(operands)?),
            Op::Conditional { branches, .. } => self.conditional(branches, operands),
            Op::Scan { .. } => self.scan(id, operands),
            // (destination, source, context)
            Op::CopyStart { .. } => {
                let source = first(operands)?;
                self.started(id, vec![source.clone(), source])
            }
            Op::CopyDone => element(operands, 0),
            // ((operands...), result, context...)
            Op::AsyncStart { calls, .. } => {
                let arguments = Value::Tuple(operands.clone());
                let result = self.computation(*calls, operands)?;
                self.started(id, vec![arguments, result])
            }
            Op::AsyncDone => element(operands, 1),
            Op::CollectiveDone(Opcode::AllReduceDone) => first(operands),
            Op::CollectiveDone(_) => element(operands, 1),
            Op::AllGather { .. }
            | Op::AllReduce { .. }
            | Op::ReduceScatter { .. }
            | Op::AllToAll { .. }
            | Op::RaggedAllToAll(_)
            | Op::CollectiveBroadcast(_)
            | Op::CollectivePermute { .. } => self.collective(id, operands),
            Op::Infeed(_) | Op::Outfeed { .. } | Op::Channel { .. } => self.transfer(id, &operands),
            op => Err(left_out(op)),
        }
    }

    /// The tuple of a start operation: the known values, and empty contexts.
    pub(crate) fn started(
        &self,
        id: InstructionId,
        mut elements: Vec<Value>,
    ) -> Result<Value, OpError> {
        let shapes = self.module[id].shape.as_tuple();
        let shapes = shapes.ok_or_else(|| invalid("expected a tuple as the result"))?;
        for shape in shapes.iter().skip(elements.len()) {
            elements.push(zeros(self, shape)?);
        }
        Ok(Value::Tuple(elements))
    }

    /// Counts an iteration of a loop.
    pub(crate) fn count_iteration(&mut self) -> Result<(), OpError> {
        tegula_limits::check()?;
        self.iterations += 1;
        let most = self.options.max_iterations;
        match most.is_some_and(|most| self.iterations > most) {
            true => Err(OpError::Limit(
                "the loop exceeds the allowed number of iterations".to_owned(),
            )),
            false => Ok(()),
        }
    }

    fn while_loop(
        &mut self,
        condition: ComputationId,
        body: ComputationId,
        mut state: Value,
    ) -> Result<Value, OpError> {
        while is_true(&self.computation(condition, vec![state.clone()])?)? {
            self.count_iteration()?;
            state = self.computation(body, vec![state])?;
        }
        Ok(state)
    }

    /// Evaluates a conditional. A `pred` selects the first branch if true, else the second; an
    /// index out of range selects the last.
    fn conditional(
        &mut self,
        branches: &[ComputationId],
        mut operands: Vec<Value>,
    ) -> Result<Value, OpError> {
        if operands.len() != branches.len() + 1 {
            return Err(invalid(
                "expected a selector and one operand for each branch",
            ));
        }
        let selector = operands.remove(0).into_array()?;
        let value = Bits::of(&selector).get(0);
        let chosen = match selector.element_type() {
            ElementType::Pred => usize::from(value & 0xff == 0),
            _ => {
                let index = crate::movement::indices(&selector)?;
                let index = index.first().and_then(|&index| usize::try_from(index).ok());
                let last = branches.len().saturating_sub(1);
                index
                    .filter(|&index| index < branches.len())
                    .unwrap_or(last)
            }
        };
        let branch = branches.get(chosen).copied();
        let branch = branch.ok_or_else(|| invalid("expected at least one branch"))?;
        self.computation(branch, vec![operands.swap_remove(chosen)])
    }
}

/// A tuple with literals as its leaves.
fn tuple_of(shape: &Shape, leaves: &mut dyn Iterator<Item = &Literal>) -> Result<Value, OpError> {
    match shape {
        Shape::Tuple(shapes) => {
            let mut elements = Vec::with_capacity(shapes.len());
            for shape in shapes {
                elements.push(tuple_of(shape, leaves)?);
            }
            Ok(Value::Tuple(elements))
        }
        Shape::Token => Ok(Value::Token),
        _ => leaves
            .next()
            .cloned()
            .map(Value::Array)
            .ok_or_else(|| invalid("expected a literal for each array of the shape")),
    }
}
