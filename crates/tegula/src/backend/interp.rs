//! The reference evaluator's backend, which evaluates the module unchanged.

use super::{Backend, Built, RunContext};
use crate::boundary::Boundary;
use crate::{Error, ErrorKind};
use std::borrow::Cow;
use tegula_interp::Value;
use tegula_ir::{Literal, Module, Shape};

/// Builds the backend; nothing is compiled.
pub(super) fn build(module: &Module) -> Built {
    Built::new(Interpreted(module.clone()), Boundary::row_major(module))
}

/// A module to be evaluated.
pub(crate) struct Interpreted(Module);

impl Backend for Interpreted {
    fn run(
        &self,
        inputs: Vec<Cow<'_, Literal>>,
        context: &RunContext<'_>,
    ) -> Result<Vec<Literal>, Error> {
        let inputs: Vec<&Literal> = inputs.iter().map(AsRef::as_ref).collect();
        interpret(&self.0, &inputs, context.step_limit)
    }
}

/// The default limit of evaluated instructions: about ten seconds of small ones.
pub(super) const MAX_INSTRUCTIONS: u64 = 50_000_000;
/// The limit of bytes of values that are alive at once. An array counts once for each value that
/// contains it.
pub(super) const MAX_BYTES: u64 = 8 << 30;

fn interpret(
    module: &Module,
    inputs: &[&Literal],
    step_limit: Option<u64>,
) -> Result<Vec<Literal>, Error> {
    let mut rest = inputs.iter();
    let mut values = Vec::new();
    for &parameter in &module.entry_computation().parameters {
        values.push(take(&module[parameter].shape, &mut rest)?);
    }
    if rest.next().is_some() {
        let message = format!(
            "{} inputs were given, more than the program takes",
            inputs.len()
        );
        return Err(Error::new(ErrorKind::Input, message));
    }
    let options = tegula_interp::Options {
        max_instructions: Some(step_limit.unwrap_or(MAX_INSTRUCTIONS)),
        max_bytes: Some(MAX_BYTES),
        ..tegula_interp::Options::default()
    };
    let result = tegula_interp::evaluate_with(module, &values, &options)?;
    let mut outputs = Vec::new();
    flatten(result, &mut outputs);
    Ok(outputs)
}

/// Builds a value of this shape from the next arrays.
pub(super) fn take<'a>(
    shape: &Shape,
    arrays: &mut impl Iterator<Item = &'a &'a Literal>,
) -> Result<Value, Error> {
    match shape {
        Shape::Array(_) => match arrays.next() {
            Some(&literal) => Ok(Value::Array(literal.clone())),
            None => Err(Error::new(
                ErrorKind::Input,
                "fewer inputs were given than the program takes",
            )),
        },
        Shape::Tuple(elements) => {
            let elements: Result<_, _> = elements.iter().map(|e| take(e, arrays)).collect();
            Ok(Value::Tuple(elements?))
        }
        _ => Ok(Value::Token),
    }
}

pub(super) fn flatten(value: Value, out: &mut Vec<Literal>) {
    match value {
        Value::Array(literal) => out.push(literal),
        Value::Tuple(elements) => elements.into_iter().for_each(|e| flatten(e, out)),
        Value::Token => {}
    }
}
