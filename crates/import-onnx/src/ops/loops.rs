//! `Loop` and `Scan`.
//!
//! A loop whose state keeps its shapes becomes an HLO loop, and its collected outputs become arrays
//! with a row for each iteration. If the number of iterations depends on data, a first loop counts
//! them, and the program is split there. Loops that HLO cannot express (states that grow,
//! sequences, sizes that depend on the iteration number) are unrolled, for which the number of
//! iterations must be known.

use super::Lowering;
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value, are_different};
use crate::read::{Graph, Size, Type};
use crate::tensor::element_type;
use tegula_expr::Term;
use tegula_ir::{Binary, Direction, ElementType};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "Loop" => loop_of,
        "Scan" => scan,
        _ => return None,
    };
    Some(lowering)
}

/// The most iterations for which a loop is unrolled.
const MAX_WRITTEN: i64 = 4096;

fn body_of<'s, 'a>(call: &Call<'s, 'a>) -> Result<&'s Graph<'a>> {
    let graph = call.attribute("body").and_then(|a| a.graph.as_ref());
    graph.ok_or_else(|| Error::input("the graph `body` is missing"))
}

/// Checks that items are arrays.
fn arrays(items: impl IntoIterator<Item = Item>) -> Result<Vec<Value>> {
    let array = |item| match item {
        Item::Tensor(value) => Ok(value),
        _ => Err(Error::unsupported(
            "a loop whose state is a sequence or an optional is not supported",
        )),
    };
    items.into_iter().map(array).collect()
}

/// The parts of a `Loop` node.
struct Parts<'s, 'a> {
    call: &'s Call<'s, 'a>,
    body: &'s Graph<'a>,
    /// The maximum number of iterations; `None` if there is no limit.
    most: Option<Value>,
    /// The initial condition; `None` means true.
    condition: Option<Value>,
    carried: Vec<Item>,
    /// Whether the body never changes the condition, so that the loop ends only after `most`
    /// iterations.
    unconditional: bool,
}

fn loop_of<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let body = body_of(call)?;
    let carried: Vec<Item> = call.inputs.iter().skip(2).cloned().collect();
    if body.inputs.len() != carried.len() + 2 || body.outputs.len() < carried.len() + 1 {
        return Err(Error::input(format!(
            "its body takes {} values and returns {}, which does not fit {} loop states",
            body.inputs.len(),
            body.outputs.len(),
            carried.len()
        )));
    }
    let scalar = |lower: &mut Lowerer<'a>, value: Option<Value>, ty| -> Result<Option<Value>> {
        let Some(value) = value else { return Ok(None) };
        let value = lower.convert(&value, ty)?;
        Ok(Some(lower.reshape(&value, &[])?))
    };
    let mut parts = Parts {
        call,
        body,
        most: scalar(lower, call.optional(0), ElementType::S64)?,
        condition: scalar(lower, call.optional(1), ElementType::Pred)?,
        carried,
        unconditional: passes_condition(body),
    };
    if let Some([known]) = parts
        .condition
        .as_ref()
        .and_then(Value::integers)
        .as_deref()
    {
        match *known != 0 {
            true => parts.condition = None,
            false => parts.most = Some(lower.scalar(ElementType::S64, 0.0)?),
        }
    }
    let as_loop = lower.restoring(|lower| program_loop(lower, &parts));
    match as_loop {
        Err(_) if !lower.asks_for_cut() => written_out(lower, parts),
        done => done,
    }
}

/// Whether the body's output condition is its input condition, or the constant `true`.
fn passes_condition(body: &Graph<'_>) -> bool {
    let Some(mut name) = body.outputs.first().map(|output| output.name) else {
        return false;
    };
    for _ in 0..=body.nodes.len() {
        if body.inputs.get(1).is_some_and(|input| input.name == name) {
            return true;
        }
        if let Some(tensor) = body.initializers.iter().find(|t| t.name == name) {
            return is_true(tensor);
        }
        let node = body.nodes.iter().find(|node| node.outputs.contains(&name));
        match node.map(|node| (node.op, node)) {
            Some(("Identity", node)) if node.inputs.len() == 1 => name = node.inputs[0],
            Some(("Constant", node)) => {
                let tensor = node.attributes.iter().find_map(|a| a.tensor.as_ref());
                return tensor.is_some_and(is_true);
            }
            _ => return false,
        }
    }
    false
}

fn is_true(tensor: &crate::read::Tensor<'_>) -> bool {
    tensor.data_type == 9
        && (tensor.raw.is_some_and(|raw| raw == [1]) || tensor.ints.first() == Some(&1))
}

/// Translates the loop to an HLO loop.
fn program_loop<'a>(lower: &mut Lowerer<'a>, parts: &Parts<'_, 'a>) -> Result<Vec<Item>> {
    let carried = arrays(parts.carried.iter().cloned())?;
    let collects = parts.body.outputs.len() - 1 - carried.len();
    // The number of iterations, if it is known before the loop.
    let count = match (&parts.most, &parts.condition, parts.unconditional) {
        (None, None, true) => {
            return Err(Error::input(
                "the loop never ends: expected a maximum trip count or a condition",
            ));
        }
        (Some(most), None, true) => Some(most.clone()),
        (Some(most), Some(condition), true) => {
            let zero = lower.like(most, 0.0)?;
            Some(lower.select(condition, most, &zero)?)
        }
        _ => None,
    };
    if count.is_none() && collects == 0 {
        let done = conditional_loop(lower, parts, &carried)?;
        return Ok(done.into_iter().skip(1).map(Item::from).collect());
    }
    let count = match count {
        Some(count) => count,
        None => {
            // The first loop only counts the iterations.
            let done = conditional_loop(lower, parts, &carried)?;
            let count = done.into_iter().next();
            count.ok_or_else(|| {
                Error::input("the number of iterations of a loop was not computed")
            })?
        }
    };
    let zero = lower.like(&count, 0.0)?;
    let count = lower.max(&count, &zero)?;
    if collects == 0 && count.terms().is_none() {
        let limited = Parts {
            most: Some(count),
            condition: None,
            carried: Vec::new(),
            unconditional: false,
            ..*parts
        };
        let done = conditional_loop(lower, &limited, &carried)?;
        return Ok(done.into_iter().skip(1).map(Item::from).collect());
    }
    let (sizes, _) = lower.sizes_from_data(&[count], &[])?;
    let count = sizes.into_iter().next();
    let count =
        count.ok_or_else(|| Error::input("the number of iterations of a loop was not computed"))?;
    let captured = lower.captured(&[parts.body], parts.call.scope);
    let read: Vec<Value> = captured.iter().map(|(_, value)| value.clone()).collect();
    let truth = lower.scalar(ElementType::Pred, 1.0)?;
    let (state, rows) =
        lower.collecting_loop(&count, &read, &carried, |lower, time, read, state| {
            let scope = lower.with_captured(parts.call.scope, &captured, read);
            let mut inputs = vec![iteration(lower, parts.body, time)?, truth.clone().into()];
            inputs.extend(state.iter().cloned().map(Item::from));
            let results = lower.subgraph(parts.body, parts.call, &scope, inputs)?;
            let mut results = arrays(results.into_iter().skip(1))?;
            let rows = results.split_off(state.len());
            keeps_shapes(state, &results)?;
            Ok((results, rows))
        })?;
    Ok(state.into_iter().chain(rows).map(Item::from).collect())
}

/// The iteration number, in the form that the body takes.
fn iteration(lower: &mut Lowerer<'_>, body: &Graph<'_>, time: &Value) -> Result<Item> {
    let rank = match body.inputs.first().and_then(|info| info.ty.as_ref()) {
        Some(Type::Tensor {
            dims: Some(dims), ..
        }) => dims.len(),
        _ => 0,
    };
    let dims = vec![Term::constant(1); rank.min(1)];
    Ok(lower.reshape(time, &dims)?.into())
}

/// A loop with a dynamic condition. Returns the number of iterations and the final state.
fn conditional_loop<'a>(
    lower: &mut Lowerer<'a>,
    parts: &Parts<'_, 'a>,
    carried: &[Value],
) -> Result<Vec<Value>> {
    let ty = ElementType::S64;
    let captured = lower.captured(&[parts.body], parts.call.scope);
    let most = match &parts.most {
        Some(most) => lower.settled(most)?,
        None => Value::of_integers(ty, &[], &[i64::MAX])?,
    };
    let go_on = match &parts.condition {
        Some(condition) => condition.clone(),
        None => lower.scalar(ElementType::Pred, 1.0)?,
    };
    let mut state = vec![lower.scalar(ty, 0.0)?, go_on, most];
    let first_carried = state.len();
    for value in carried {
        state.push(lower.settled(value)?);
    }
    let first_read = state.len();
    for (_, value) in &captured {
        state.push(lower.settled(value)?);
    }
    let done = lower.while_loop(
        &state,
        |lower, state| {
            let more = lower.compare(Direction::Lt, &state[0], &state[2])?;
            lower.binary(Binary::And, &more, &state[1])
        },
        |lower, state| {
            let scope = lower.with_captured(parts.call.scope, &captured, &state[first_read..]);
            let time = iteration(lower, parts.body, &state[0])?;
            let mut inputs = vec![time, state[1].clone().into()];
            let own = &state[first_carried..first_read];
            inputs.extend(own.iter().cloned().map(Item::from));
            let results = lower.subgraph(parts.body, parts.call, &scope, inputs)?;
            let results = arrays(results.into_iter().take(1 + own.len()))?;
            keeps_shapes(own, &results[1..])?;
            let go_on = match parts.unconditional {
                true => state[1].clone(),
                false => lower.reshape(&results[0], &[])?,
            };
            let mut next = vec![lower.shifted(&state[0], 1.0)?, go_on, state[2].clone()];
            next.extend_from_slice(&results[1..]);
            next.extend_from_slice(&state[first_read..]);
            Ok(next)
        },
    )?;
    let mut results = vec![done[0].clone()];
    results.extend_from_slice(&done[first_carried..first_read]);
    Ok(results)
}

/// Checks that the state may have the same shapes in each iteration.
fn keeps_shapes(before: &[Value], after: &[Value]) -> Result<()> {
    for (before, after) in before.iter().zip(after) {
        let mut sizes = before.dims.iter().zip(&after.dims);
        if before.rank() != after.rank() || sizes.any(|(a, b)| are_different(a, b)) {
            return Err(Error::unsupported(
                "a loop whose state changes its shape is not supported",
            ));
        }
    }
    Ok(())
}

/// Unrolls the loop; the number and the condition of each iteration are known.
fn written_out<'a>(lower: &mut Lowerer<'a>, parts: Parts<'_, 'a>) -> Result<Vec<Item>> {
    let known = |lower: &mut Lowerer<'a>, value: &Value| -> Result<i64> {
        let value = match lower.is_known(value) && value.integers().is_some() {
            true => value.clone(),
            false => lower.elements_from_data(value)?,
        };
        let number = value.integers().and_then(|list| list.first().copied());
        number.ok_or_else(|| Error::input("expected one number"))
    };
    let most = match &parts.most {
        Some(most) => Some(known(lower, most)?),
        None => None,
    };
    let mut go_on = match &parts.condition {
        Some(condition) => known(lower, condition)? != 0,
        None => true,
    };
    let collects = parts.body.outputs.len() - 1 - parts.carried.len();
    let mut rows: Vec<Vec<Value>> = vec![Vec::new(); collects];
    let mut state = parts.carried;
    let mut time = 0;
    while go_on && most.is_none_or(|most| time < most) {
        if time >= MAX_WRITTEN {
            return Err(Error::unsupported(format!(
                "a loop of more than {MAX_WRITTEN} iterations whose state changes its shape is not supported"
            )));
        }
        let number = Value::of_integers(ElementType::S64, &[], &[time])?;
        let number = iteration(lower, parts.body, &number)?;
        let truth = lower.scalar(ElementType::Pred, 1.0)?;
        let inputs = [number, truth.into()]
            .into_iter()
            .chain(state.iter().cloned());
        let inputs = inputs.collect();
        let results = lower.subgraph(parts.body, parts.call, parts.call.scope, inputs)?;
        let mut results = results.into_iter();
        let condition = arrays(results.by_ref().take(1))?;
        state = results.by_ref().take(state.len()).collect();
        for (list, row) in rows.iter_mut().zip(arrays(results)?) {
            list.push(lower.unsqueeze(&row, 0)?);
        }
        if !parts.unconditional {
            go_on = known(lower, &condition[0])? != 0;
        }
        time += 1;
    }
    for (list, output) in rows.iter().zip(&parts.body.outputs[1 + state.len()..]) {
        state.push(match list.is_empty() {
            true => no_rows(lower, output)?.into(),
            false => lower.concat(list, 0)?.into(),
        });
    }
    Ok(state)
}

/// A collected output of a loop without iterations, with the type that the body declares.
fn no_rows(lower: &mut Lowerer<'_>, output: &crate::read::ValueInfo<'_>) -> Result<Value> {
    let Some(Type::Tensor {
        element,
        dims: Some(dims),
    }) = &output.ty
    else {
        return Err(Error::unsupported(format!(
            "the shape of `{}` is unknown, because the loop that collects it has no iterations",
            output.name
        )));
    };
    let sizes = dims.iter().map(|size| match size {
        Size::Known(size) => Term::constant(*size),
        _ => Term::constant(0),
    });
    let dims: Vec<Term> = std::iter::once(Term::constant(0)).chain(sizes).collect();
    lower.splat(element_type(*element)?, 0.0, &dims)
}

fn scan<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let body = body_of(call)?;
    let count = usize::try_from(call.int("num_scan_inputs", 0)).unwrap_or(0);
    // In version 8, lengths are the first input, and a batch is the first dimension of all arrays.
    let first = usize::from(call.version < 9);
    let given = arrays(call.inputs.iter().skip(first).cloned())?;
    let states = given.len().checked_sub(count).filter(|_| count > 0);
    let states =
        states.ok_or_else(|| Error::input("`num_scan_inputs` exceeds the number of inputs"))?;
    if body.inputs.len() != given.len() || body.outputs.len() < states {
        return Err(Error::input("its body has an unexpected number of inputs"));
    }
    if call.version < 9 {
        return batched_scan(lower, call, body, &given, states);
    }
    scan_of(lower, call, body, &given, states)
}

/// Scans each row of a batch separately.
fn batched_scan<'a>(
    lower: &mut Lowerer<'a>,
    call: &Call<'_, 'a>,
    body: &Graph<'a>,
    given: &[Value],
    states: usize,
) -> Result<Vec<Item>> {
    if call.optional(0).is_some() {
        return Err(Error::unsupported("`sequence_lens` is not supported"));
    }
    let batch = given.first().and_then(|value| value.dims.first());
    let batch = batch
        .and_then(Term::as_constant)
        .filter(|n| (1..=64).contains(n));
    let batch =
        batch.ok_or_else(|| Error::unsupported("only batches of 1 to 64 rows are supported"))?;
    let mut all: Vec<Vec<Value>> = Vec::new();
    for at in 0..batch {
        let mut rows = Vec::new();
        for value in given {
            let (from, to) = (Term::constant(at), Term::constant(at + 1));
            let row = lower.slice(value, 0, &from, &to, 1)?;
            rows.push(lower.squeeze(&row, 0)?);
        }
        let results = arrays(scan_of(lower, call, body, &rows, states)?)?;
        all.resize(results.len(), Vec::new());
        for (list, result) in all.iter_mut().zip(results) {
            list.push(lower.unsqueeze(&result, 0)?);
        }
    }
    let whole = all.iter().map(|list| lower.concat(list, 0).map(Item::from));
    whole.collect()
}

fn scan_of<'a>(
    lower: &mut Lowerer<'a>,
    call: &Call<'_, 'a>,
    body: &Graph<'a>,
    given: &[Value],
    states: usize,
) -> Result<Vec<Item>> {
    let number = |name: &str, at: usize| {
        let list = call.ints(name).unwrap_or_default();
        list.get(at).copied().unwrap_or(0)
    };
    let mut scanned = Vec::new();
    for (at, value) in given[states..].iter().enumerate() {
        let axis = call.axis_of(number("scan_input_axes", at), value.rank())?;
        let mut order: Vec<usize> = (0..value.rank()).filter(|i| *i != axis).collect();
        order.insert(0, axis);
        let mut value = lower.transpose(value, &order)?;
        let backwards = match call.version {
            ..9 => number("directions", at),
            _ => number("scan_input_directions", at),
        };
        if backwards != 0 {
            value = lower.reverse(&value, 0)?;
        }
        scanned.push(value);
    }
    let count = scanned
        .first()
        .and_then(|value| value.dims.first())
        .cloned();
    let count = count.ok_or_else(|| Error::input("expected something to scan"))?;
    let captured = lower.captured(&[body], call.scope);
    let mut read = scanned;
    let inputs = read.len();
    read.extend(captured.iter().map(|(_, value)| value.clone()));
    let (state, rows) = lower.collecting_loop(
        &count,
        &read,
        &given[..states],
        |lower, time, read, state| {
            let scope = lower.with_captured(call.scope, &captured, &read[inputs..]);
            let mut items: Vec<Item> = state.iter().cloned().map(Item::from).collect();
            for value in &read[..inputs] {
                items.push(lower.at_index(value, 0, time)?.into());
            }
            let results = lower.subgraph(body, call, &scope, items)?;
            let mut results = arrays(results)?;
            let rows = results.split_off(state.len());
            Ok((results, rows))
        },
    )?;
    let mut results: Vec<Item> = state.into_iter().map(Item::from).collect();
    for (at, mut rows) in rows.into_iter().enumerate() {
        if number("scan_output_directions", at) != 0 {
            rows = lower.reverse(&rows, 0)?;
        }
        let axis = call.axis_of(number("scan_output_axes", at), rows.rank())?;
        let mut order: Vec<usize> = (1..rows.rank()).collect();
        order.insert(axis, 0);
        results.push(lower.transpose(&rows, &order)?.into());
    }
    Ok(results)
}
