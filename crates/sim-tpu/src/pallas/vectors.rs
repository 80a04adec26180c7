//! Translation of operations on vectors and scalars.

use super::references::Size;
use super::{Error, Made, Translator};
use crate::program::{
    Register, RegisterId, ScalarOperation, VectorOp, VectorOperand, VectorOperation, VectorResult,
};
use tegula_mosaic::ir::{Constant, Op, Operation, Value};
use tegula_mosaic::types::Type;

impl<'k> Translator<'k> {
    pub(super) fn new_register(&mut self, value: Value) -> Made<RegisterId> {
        let vector = self.module.values[value].as_vector();
        let vector = vector.ok_or_else(|| Error::new("expected a vector"))?;
        // An element type that no register holds is reported here, where the operation is known.
        crate::machine::vector::value::ir_type(vector.element).map_err(Error::new)?;
        Ok(self.program.registers.push(Register {
            dims: vector.dims.clone(),
            element: vector.element,
        }))
    }

    pub(super) fn register(&self, value: Value) -> Made<RegisterId> {
        let known = self.registers.get(&value).copied();
        known.ok_or_else(|| Error::new("it uses a vector that was not computed"))
    }

    /// A value as an operand of a vector operation.
    pub(super) fn vector_operand(&self, value: Value) -> Made<VectorOperand> {
        Ok(match &self.module.values[value] {
            Type::Scalar(element) => VectorOperand::Scalar(self.scalar(value)?, *element),
            _ => VectorOperand::Register(self.register(value)?),
        })
    }

    /// Adds an operation to the open block.
    pub(super) fn vector(
        &mut self,
        operation: &Operation,
        op: VectorOp,
        operands: Vec<VectorOperand>,
    ) -> Made<()> {
        let result = match operation.results.first() {
            None => None,
            Some(&value) => Some(match &self.module.values[value] {
                Type::Scalar(_) => {
                    let variable = self.defined(value, "e");
                    self.open_defines.insert(variable.var());
                    VectorResult::Variable(variable)
                }
                _ => {
                    let register = self
                        .new_register(value)
                        .map_err(|error| Error::at(operation, error.message))?;
                    self.registers.insert(value, register);
                    VectorResult::Register(register)
                }
            }),
        };
        self.open.push(VectorOperation {
            op,
            operands,
            result,
            line: self.line,
        });
        Ok(())
    }

    /// Translates an operation that computes a value from values.
    pub(super) fn value_operation(&mut self, operation: &'k Operation) -> Made<()> {
        let element = |value: &Value| self.module.values[*value].as_scalar();
        let all_scalar = operation
            .operands
            .iter()
            .chain(&operation.results)
            .all(|v| element(v).is_some());
        let result = operation.results.first().copied();
        match (&operation.op, result) {
            (Op::Constant(Constant::Splat(bits)), Some(result)) if all_scalar => {
                let ty = element(&result)
                    .ok_or_else(|| Error::at(operation, "expected a scalar constant"))?;
                let held = crate::machine::scalar::constant(ty, *bits);
                let held = held.map_err(|message| Error::at(operation, message))?;
                self.scalars
                    .insert(result, tegula_expr::Term::constant(held));
                return Ok(());
            }
            (op, Some(result)) if all_scalar => {
                let first = operation.operands.first().and_then(element);
                let (Some(from), Some(to)) = (first, element(&result)) else {
                    return Err(Error::at(operation, "this operation is not simulated"));
                };
                let scalar = match op {
                    Op::Unary(op) => ScalarOperation::Unary(*op, from),
                    Op::Binary(op) => ScalarOperation::Binary(*op, from),
                    Op::CompareInt(p) => ScalarOperation::CompareInt(*p, from),
                    Op::CompareFloat(p) => ScalarOperation::CompareFloat(*p),
                    Op::Select => ScalarOperation::Select,
                    Op::Cast(cast) => ScalarOperation::Cast(*cast, from, to),
                    _ => {
                        return Err(Error::at(
                            operation,
                            "this operation is not simulated on scalars",
                        ));
                    }
                };
                let operands: Made<Vec<_>> = operation
                    .operands
                    .iter()
                    .map(|value| self.scalar(*value))
                    .collect();
                self.scalar_operation(result, scalar, operands?);
                return Ok(());
            }
            _ => {}
        }
        match &operation.op {
            Op::Load { masked, .. } | Op::Store { masked, .. }
                if self.is_of_words(operation) && !masked =>
            {
                self.words_operation(operation)
            }
            Op::Load { strides, masked } => {
                let indices = operation.operands.len() - usize::from(*masked);
                let view =
                    self.vector_view(operation, &operation.operands[..indices], strides, result)?;
                let mask = operation.operands[indices..].iter();
                let mask: Made<Vec<_>> = mask.map(|value| self.vector_operand(*value)).collect();
                self.vector(operation, VectorOp::Load(view), mask?)
            }
            Op::Store {
                strides,
                masked,
                add,
            } => {
                let value = operation.operands[0];
                let indices = operation.operands.len() - usize::from(*masked);
                let view = self.vector_view(
                    operation,
                    &operation.operands[1..indices],
                    strides,
                    Some(value),
                )?;
                let mut operands = vec![self.vector_operand(value)?];
                for mask in &operation.operands[indices..] {
                    operands.push(self.vector_operand(*mask)?);
                }
                self.vector(operation, VectorOp::Store { view, add: *add }, operands)
            }
            op => {
                let operands: Made<Vec<_>> = operation
                    .operands
                    .iter()
                    .map(|value| self.vector_operand(*value))
                    .collect();
                self.vector(operation, VectorOp::Compute(op.clone()), operands?)
            }
        }
    }

    /// Whether a load or store accesses memory as elements of another width.
    fn is_of_words(&self, operation: &Operation) -> bool {
        let at = usize::from(matches!(operation.op, Op::Store { .. }));
        let reference = operation.operands.get(at);
        let reference = reference.and_then(|value| self.references.get(value));
        reference.is_some_and(|reference| reference.words.is_some())
    }

    /// Translates a load or store of memory as elements of another width: it accesses the memory's
    /// own elements and reinterprets their bits.
    fn words_operation(&mut self, operation: &'k Operation) -> Made<()> {
        let (is_store, strides) = match &operation.op {
            Op::Store { strides, add, .. } if !add => (true, strides),
            Op::Load { strides, .. } => (false, strides),
            _ => {
                return Err(Error::at(
                    operation,
                    "this operation is not simulated on such memory",
                ));
            }
        };
        let at = usize::from(is_store);
        let vector = match is_store {
            true => operation.operands.first().copied(),
            false => operation.results.first().copied(),
        };
        let dims = vector.map(|value| self.module.values[value].dims().to_vec());
        let dims = dims.unwrap_or_default();
        let reference = self.reference(operation, operation.operands[at])?;
        let words = reference.words.ok_or_else(|| {
            Error::at(
                operation,
                "expected a reference to memory with elements (not to a semaphore)",
            )
        })?;
        let view = self.vector_view(operation, &operation.operands[at..], strides, vector)?;
        crate::machine::vector::value::ir_type(words.inner)
            .map_err(|message| Error::at(operation, message))?;
        let between = self.program.registers.push(Register {
            dims: words.inner_dims(&dims),
            element: words.inner,
        });
        let bits = VectorOp::Compute(Op::BitcastVector);
        let between_operand = VectorOperand::Register(between);
        let mut push = |op, operands, result| {
            self.open.push(VectorOperation {
                op,
                operands,
                result,
                line: self.line,
            });
        };
        if is_store {
            let value = operation.operands[0];
            let known = self.registers.get(&value).copied();
            let known = known.ok_or_else(|| Error::at(operation, "no vector"))?;
            let own = vec![VectorOperand::Register(known)];
            push(bits, own, Some(VectorResult::Register(between)));
            push(
                VectorOp::Store { view, add: false },
                vec![between_operand],
                None,
            );
            return Ok(());
        }
        push(
            VectorOp::Load(view),
            Vec::new(),
            Some(VectorResult::Register(between)),
        );
        self.vector(operation, bits, vec![between_operand])
    }

    /// The view that a vector is loaded from or stored to: a reference and indices.
    fn vector_view(
        &mut self,
        operation: &Operation,
        operands: &[Value],
        strides: &[i64],
        vector: Option<Value>,
    ) -> Made<crate::program::View> {
        let dims = vector
            .map(|value| self.module.values[value].dims())
            .unwrap_or_default();
        let reference = self.reference(operation, operands[0])?;
        let mut starts = Vec::new();
        for index in &operands[1..] {
            let term = self.scalar(*index)?;
            self.after_open(&term);
            starts.push(term);
        }
        let missing = starts.len().saturating_sub(dims.len());
        let sizes: Vec<Size> = (0..starts.len())
            .map(|d| Size::from(d.checked_sub(missing).map(|d| dims[d])))
            .collect();
        let steps = strides.get(missing..).unwrap_or_default();
        if steps.iter().any(|step| *step != 1) && reference.words.is_some() {
            let view = reference.stepped_words(&starts, &sizes, steps);
            return view.ok_or_else(|| {
                Error::at(
                    operation,
                    "its strides must be multiples of whole 32-bit words",
                )
            });
        }
        Ok(reference.part(&starts, &sizes).view(steps))
    }
}
