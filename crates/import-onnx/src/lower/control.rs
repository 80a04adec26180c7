//! Loops and conditionals. Their bodies are computations of their own; outer values that these read
//! become their parameters.

use super::{Local, Lowerer, Result, Value, value::Source};
use crate::Error;
use tegula_expr::{Term, Var};
use tegula_ir::{ComputationId, Direction, Draft, ElementType, Op, Shape};

impl<'a> Lowerer<'a> {
    /// Builds a computation of one tuple parameter. `make` returns the results, given the tuple's
    /// elements; they become a tuple, or a single array if `single`.
    pub(crate) fn computation(
        &mut self,
        name: &str,
        parameters: &[Value],
        single: bool,
        make: impl FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<(ComputationId, Vec<Value>)> {
        let outer = std::mem::replace(&mut self.draft, Draft::new(name));
        let outer_constants = std::mem::take(&mut self.constants);
        let outer_sizes = std::mem::take(&mut self.size_locals);
        self.nesting += 1;
        let result = self.filled(parameters, single, make);
        self.nesting -= 1;
        let draft = std::mem::replace(&mut self.draft, outer);
        self.constants = outer_constants;
        self.size_locals = outer_sizes;
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
                quantized: None,
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

    /// Combines values to a tuple.
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
        let (sizes, state) = self.with_sizes(state)?;
        let (own, state) = (state.len() - sizes.len(), state.as_slice());
        let (body, results) = self.computation("body", state, false, |lower, inner| {
            lower.inner_sizes(&sizes, &inner[own..]);
            let mut results = body(lower, &inner[..own])?;
            results.extend_from_slice(&inner[own..]);
            Ok(results)
        })?;
        for (before, after) in state.iter().zip(&results) {
            if !before.shape().may_equal(&after.shape()) {
                return Err(Error::unsupported(format!(
                    "a loop state that changes its shape from {} to {} is not supported",
                    before.shape(),
                    after.shape()
                )));
            }
        }
        let (condition, _) = self.computation("condition", state, true, |lower, inner| {
            lower.inner_sizes(&sizes, &inner[own..]);
            Ok(vec![condition(lower, &inner[..own])?])
        })?;
        let init = self.tuple(state)?;
        let shape = self.draft.shape(init).clone();
        let op = Op::While { condition, body };
        let result = self.push_local(op, &[init], Some(shape))?;
        let mut results = self.elements(result)?;
        results.truncate(own);
        Ok(results)
    }

    /// The values, followed by the open sizes as data, so that computations can take them as
    /// parameters.
    pub(crate) fn with_sizes(&mut self, values: &[Value]) -> Result<(Vec<Var>, Vec<Value>)> {
        let mut names: Vec<&Term> = self.names.values().collect();
        names.sort_by_key(|term| term.as_var());
        let vars: Vec<Var> = names.into_iter().filter_map(Term::as_var).collect();
        let mut known = Vec::new();
        let mut all = values.to_vec();
        for var in vars {
            // An open size that no array has so far cannot be read.
            if let Ok(size) = self.size_as_data(var) {
                known.push(var);
                all.push(size);
            }
        }
        Ok((known, all))
    }

    /// Declares that the last parameters of a computation are the open sizes.
    pub(crate) fn inner_sizes(&mut self, sizes: &[Var], inner: &[Value]) {
        for (var, value) in sizes.iter().zip(inner) {
            if let Source::Local(local) = value.source {
                self.size_locals.insert(*var, local);
            }
        }
    }

    /// Repeats `body` `count` times. It takes the iteration number, the values of `read`, and the
    /// state, and returns the next state. Constants in `read` stay constants within the loop.
    pub(crate) fn counted_loop(
        &mut self,
        count: &Term,
        read: &[Value],
        state: &[Value],
        body: impl FnOnce(&mut Self, &Value, &[Value], &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        let ty = ElementType::S64;
        let limit = self.of_terms(ty, &[], std::slice::from_ref(count))?;
        let mut whole = vec![self.scalar(ty, 0.0)?];
        let mut read = read.to_vec();
        read.push(limit);
        let mut carried = Vec::new();
        for (at, value) in read.iter().enumerate() {
            if value.literal().is_none() {
                carried.push(at);
                whole.push(self.settled(value)?);
            }
        }
        let first_state = whole.len();
        for value in state {
            whole.push(self.settled(value)?);
        }
        let inner_read = |inner: &[Value]| -> Vec<Value> {
            let mut all = read.clone();
            for (place, at) in carried.iter().enumerate() {
                all[*at] = inner[1 + place].clone();
            }
            all
        };
        let results = self.while_loop(
            &whole,
            |lower, inner| {
                let all = inner_read(inner);
                lower.compare(Direction::Lt, &inner[0], &all[all.len() - 1])
            },
            |lower, inner| {
                let mut all = inner_read(inner);
                all.pop();
                let next = body(lower, &inner[0], &all, &inner[first_state..])?;
                let mut results = vec![lower.shifted(&inner[0], 1.0)?];
                results.extend_from_slice(&inner[1..first_state]);
                results.extend(next);
                Ok(results)
            },
        )?;
        Ok(results[first_state..].to_vec())
    }

    /// As [`counted_loop`](Self::counted_loop); additional results of `body` are collected in
    /// arrays with one row for each iteration.
    pub(crate) fn collecting_loop(
        &mut self,
        count: &Term,
        read: &[Value],
        state: &[Value],
        mut body: impl FnMut(&mut Self, &Value, &[Value], &[Value]) -> Result<(Vec<Value>, Vec<Value>)>,
    ) -> Result<(Vec<Value>, Vec<Value>)> {
        // A rehearsal of the body determines the shapes of the rows.
        let mut whole = vec![self.scalar(ElementType::S64, 0.0)?];
        for value in read.iter().chain(state) {
            whole.push(self.settled(value)?);
        }
        let mut shapes = Vec::new();
        self.rehearsed(&whole, |lower, inner| {
            let (read, state) = inner[1..].split_at(read.len());
            let (_, rows) = body(lower, &inner[0], read, state)?;
            shapes = rows.iter().map(|row| (row.ty, row.dims.clone())).collect();
            Ok(rows)
        })?;
        let mut all = state.to_vec();
        // The arrays have room for at least one row, because the body contains a write to a row
        // even if the loop has no iterations.
        let room = Term::max(count, &Term::constant(1));
        let room = self.canonical(&room);
        for (ty, row) in &shapes {
            let dims = [std::slice::from_ref(&room), row].concat();
            all.push(self.splat(*ty, 0.0, &dims)?);
        }
        let states = state.len();
        let mut done = self.counted_loop(count, read, &all, |lower, time, read, all| {
            let (mut next, rows) = body(lower, time, read, &all[..states])?;
            for (array, row) in all[states..].iter().zip(&rows) {
                next.push(lower.with_row(array, 0, time, row)?);
            }
            Ok(next)
        })?;
        let mut rows = done.split_off(states);
        for rows in &mut rows {
            *rows = self.slice(rows, 0, &Term::constant(0), count, 1)?;
        }
        Ok((done, rows))
    }

    /// Attempts a translation; the nesting depths are restored afterwards, also if it fails.
    pub(crate) fn restoring<T>(
        &mut self,
        attempt: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let (depth, nesting) = (self.depth, self.nesting);
        let result = attempt(self);
        (self.depth, self.nesting) = (depth, nesting);
        result
    }

    /// Converts terms over open sizes to an instruction; other values are unchanged.
    pub(crate) fn settled(&mut self, value: &Value) -> Result<Value> {
        if !matches!(value.source, Source::Terms(_)) {
            return Ok(value.clone());
        }
        let local = self.local(value)?;
        Ok(Value {
            source: Source::Local(local),
            ..value.clone()
        })
    }

    /// Builds a computation and discards it, to find the shapes of its results before the
    /// computation itself can be built.
    pub(crate) fn rehearsed(
        &mut self,
        parameters: &[Value],
        make: impl FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        let outer = std::mem::replace(&mut self.draft, Draft::new("rehearsal"));
        let outer_constants = std::mem::take(&mut self.constants);
        let outer_sizes = std::mem::take(&mut self.size_locals);
        self.nesting += 1;
        let result = self.filled(parameters, false, make);
        self.nesting -= 1;
        self.draft = outer;
        self.constants = outer_constants;
        self.size_locals = outer_sizes;
        Ok(result?.1)
    }
}
