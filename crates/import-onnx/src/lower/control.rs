//! Loops and choices: computations of their own, whose parameters are what they read of this one.

use super::{Local, Lowerer, Result, Value, value::Source};
use crate::Error;
use tegula_ir::{ComputationId, Draft, Op, Shape};

impl<'a> Lowerer<'a> {
    /// Makes a computation of one tuple parameter; `make` gives its results from the elements.
    /// They are a tuple, or one array if `single`.
    pub(crate) fn computation(
        &mut self,
        name: &str,
        parameters: &[Value],
        single: bool,
        make: impl FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<(ComputationId, Vec<Value>)> {
        let outer = std::mem::replace(&mut self.draft, Draft::new(name));
        let outer_constants = std::mem::take(&mut self.constants);
        self.nesting += 1;
        let result = self.filled(parameters, single, make);
        self.nesting -= 1;
        let draft = std::mem::replace(&mut self.draft, outer);
        self.constants = outer_constants;
        let (root, results) = result?;
        Ok((draft.finish(&mut self.builder, root)?, results))
    }

    fn filled(
        &mut self,
        parameters: &[Value],
        single: bool,
        make: impl FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<(Local, Vec<Value>)> {
        let shape = Shape::Tuple(parameters.iter().map(Value::shape).collect());
        let parameter = self.draft.parameter(shape, None);
        let mut inner = Vec::new();
        for (at, value) in parameters.iter().enumerate() {
            let local = self.push_local(Op::GetTupleElement(at as i64), &[parameter], None)?;
            inner.push(Value {
                source: Source::Local(local),
                ..value.clone()
            });
        }
        let results = make(self, &inner)?;
        let root = match (single, results.as_slice()) {
            (true, [one]) => self.local(one)?,
            _ => self.tuple(&results)?,
        };
        Ok((root, results))
    }

    /// Values as one tuple.
    pub(crate) fn tuple(&mut self, values: &[Value]) -> Result<Local> {
        let locals: Result<Vec<Local>> = values.iter().map(|value| self.local(value)).collect();
        self.push_local(Op::Tuple, &locals?, None)
    }

    /// Repeats `body` on a state while `condition` holds.
    pub(crate) fn while_loop(
        &mut self,
        state: &[Value],
        condition: impl FnOnce(&mut Self, &[Value]) -> Result<Value>,
        body: impl FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        let (body, results) = self.computation("body", state, false, body)?;
        for (before, after) in state.iter().zip(&results) {
            if !before.shape().may_equal(&after.shape()) {
                return Err(Error::unsupported(format!(
                    "a loop's state that changes its shape from {} to {}",
                    before.shape(),
                    after.shape()
                )));
            }
        }
        let (condition, _) = self.computation("condition", state, true, |lower, state| {
            Ok(vec![condition(lower, state)?])
        })?;
        let init = self.tuple(state)?;
        let shape = self.draft.shape(init).clone();
        let op = Op::While { condition, body };
        let result = self.push_local(op, &[init], Some(shape))?;
        self.elements(result)
    }
}
