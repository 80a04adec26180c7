//! Computations called once for each element: compiled to scalar steps where that is possible, else
//! interpreted.

use crate::error::{OpError, invalid};
use crate::eval::Evaluator;
use crate::program::Program;
use crate::value::Value;
use smallvec::{SmallVec, smallvec};
use std::rc::Rc;
use tegula_ir::{Binary, ComputationId, Literal};
use tegula_scalar::{Bits, BitsMut};

/// A computation that is ready to be called for each element.
pub(crate) struct Callee<'e, 'm> {
    evaluator: &'e mut Evaluator<'m>,
    computation: ComputationId,
    program: Option<Rc<Program>>,
    registers: Vec<u128>,
}

impl<'e, 'm> Callee<'e, 'm> {
    pub(crate) fn new(evaluator: &'e mut Evaluator<'m>, computation: ComputationId) -> Self {
        let program = evaluator.program(computation);
        let registers = program.as_ref().map(|p| p.initial.clone());
        Self {
            evaluator,
            computation,
            program,
            registers: registers.unwrap_or_default(),
        }
    }

    /// See [`Program::as_binary`].
    pub(crate) fn as_binary(&self) -> Option<Binary> {
        self.program.as_ref()?.as_binary()
    }

    /// Calls the computation on one element of each parameter; returns one element of each result.
    pub(crate) fn call(&mut self, arguments: &[u128]) -> Result<SmallVec<[u128; 2]>, OpError> {
        tegula_limits::check()?;
        match &self.program {
            Some(program) if program.parameters == arguments.len() => program
                .run(&mut self.registers, arguments)
                .ok_or_else(|| invalid("the called computation has an operation that its element type does not support")),
            Some(_) => Err(invalid(
                "the number of arguments differs from the called computation's number of parameters",
            )),
            None => self.interpret(arguments),
        }
    }

    fn interpret(&mut self, arguments: &[u128]) -> Result<SmallVec<[u128; 2]>, OpError> {
        let module = self.evaluator.module;
        let parameters = &module[self.computation].parameters;
        if parameters.len() != arguments.len() {
            return Err(invalid(
                "the number of arguments differs from the called computation's number of parameters",
            ));
        }
        let mut values = Vec::with_capacity(arguments.len());
        for (&parameter, &bits) in parameters.iter().zip(arguments) {
            let shape = module[parameter].shape.as_array();
            let shape = shape
                .ok_or_else(|| invalid("expected array parameters in the called computation"))?;
            let mut literal = Literal::zeros(shape)?;
            BitsMut::of(&mut literal).set(0, bits);
            values.push(Value::Array(literal));
        }
        let result = self.evaluator.computation(self.computation, values)?;
        Ok(result
            .leaves()
            .iter()
            .map(|leaf| Bits::of(leaf).get(0))
            .collect())
    }

    /// Calls a computation whose result is a single `pred`.
    pub(crate) fn test(&mut self, arguments: &[u128]) -> Result<bool, OpError> {
        let results = self.call(arguments)?;
        let result = results.first().copied();
        result
            .map(|bits| bits & 0xff != 0)
            .ok_or_else(|| invalid("expected a called computation with at least one result"))
    }

    /// Calls a computation with a single result.
    pub(crate) fn call_one(&mut self, arguments: &[u128]) -> Result<u128, OpError> {
        let results = self.call(arguments)?;
        let result = results.first().copied();
        result.ok_or_else(|| invalid("expected a called computation with at least one result"))
    }
}

/// Evaluates `map(operands...)`: a computation on each element.
pub(crate) fn map(
    operands: &[&Literal],
    shape: &tegula_ir::ArrayShape,
    callee: &mut Callee<'_, '_>,
) -> Result<Literal, OpError> {
    let mut result = Literal::zeros(shape)?;
    let len = result.len();
    if operands.iter().any(|operand| operand.len() != len) {
        return Err(invalid(
            "expected operands with as many elements as the result",
        ));
    }
    let bits: Vec<Bits<'_>> = operands.iter().map(|operand| Bits::of(operand)).collect();
    let mut out = BitsMut::of(&mut result);
    let mut arguments: SmallVec<[u128; 4]> = smallvec![0; bits.len()];
    for i in 0..len {
        for (argument, bits) in arguments.iter_mut().zip(&bits) {
            *argument = bits.get(i);
        }
        out.set(i, callee.call_one(&arguments)?);
    }
    Ok(result)
}
